# One program a module: tests/unit/test_MODULE.c, built on Check.
UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(srcdir)/tests
EXTRA_DIST += tests/unit/unit.h

UNIT_TESTS += tests/unit/test_base
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_base_LDADD = $(TEST_LIBS)
