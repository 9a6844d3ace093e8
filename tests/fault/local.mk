# What fails below us: the disk and memory under the store, the power.
EXTRA_DIST += tests/fault/fault_vfs.h tests/fault/store_work.h tests/fault/schema
SCHEMA_CPPFLAGS = -DSCHEMA_DIR=\"$(abs_srcdir)/tests/fault/schema\"

UNIT_TESTS += tests/fault/test_store_faults
tests_fault_test_store_faults_SOURCES = tests/fault/test_store_faults.c tests/fault/fault_vfs.c
tests_fault_test_store_faults_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_fault_test_store_faults_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/fault/test_store_power
tests_fault_test_store_power_SOURCES = tests/fault/test_store_power.c tests/fault/fault_vfs.c
tests_fault_test_store_power_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_fault_test_store_power_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/fault/test_store_moves
tests_fault_test_store_moves_SOURCES = tests/fault/test_store_moves.c tests/fault/fault_vfs.c
tests_fault_test_store_moves_CPPFLAGS = $(UNIT_CPPFLAGS) $(SCHEMA_CPPFLAGS)
tests_fault_test_store_moves_LDADD = $(TEST_LIBS)
