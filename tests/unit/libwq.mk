# libwq against a scripted daemon. Its allocations go through the test (client_mem.c).
CLIENT_TEST_FILES = tests/unit/fakewqd.c tests/unit/fakewqd.h tests/unit/client_mem.c \
	tests/unit/client_mem.h
CLIENT_TEST_LIBS = client/libwqclient.la daemon/libwqd.a $(PROTOBUF_C_LIBS) $(OPENSSL_LIBS) \
	$(CHECK_LIBS)

UNIT_TESTS += tests/unit/test_libwq
tests_unit_test_libwq_SOURCES = tests/unit/test_libwq.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_link
tests_unit_test_libwq_link_SOURCES = tests/unit/test_libwq_link.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_link_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_link_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_hot
tests_unit_test_libwq_hot_SOURCES = tests/unit/test_libwq_hot.c tests/fuzz/client_hot_check.h
tests_unit_test_libwq_hot_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_hot_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_worker
tests_unit_test_libwq_worker_SOURCES = tests/unit/test_libwq_worker.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_worker_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_worker_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_look
tests_unit_test_libwq_look_SOURCES = tests/unit/test_libwq_look.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_look_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_look_LDADD = $(CLIENT_TEST_LIBS) $(LIBEVENT_LIBS)

UNIT_TESTS += tests/unit/test_libwq_wait
tests_unit_test_libwq_wait_SOURCES = tests/unit/test_libwq_wait.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_wait_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_wait_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_fault
tests_unit_test_libwq_fault_SOURCES = tests/unit/test_libwq_fault.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_fault_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_fault_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_parts
tests_unit_test_libwq_parts_SOURCES = tests/unit/test_libwq_parts.c $(CLIENT_TEST_FILES)
tests_unit_test_libwq_parts_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir) \
	-DSOURCE_DIR='"$(abs_top_srcdir)"'
tests_unit_test_libwq_parts_LDADD = $(CLIENT_TEST_LIBS)

UNIT_TESTS += tests/unit/test_libwq_tls
tests_unit_test_libwq_tls_SOURCES = tests/unit/test_libwq_tls.c tests/unit/certs.h \
	$(CLIENT_TEST_FILES)
tests_unit_test_libwq_tls_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)
tests_unit_test_libwq_tls_LDADD = $(CLIENT_TEST_LIBS)

# The public headers, as C99 and as C++11, each alone.
UNIT_TESTS += tests/unit/test_header_c99 tests/unit/test_header_cxx11
tests_unit_test_header_c99_SOURCES = tests/unit/test_header_c99.c tests/unit/header_use.h
tests_unit_test_header_c99_CPPFLAGS = -I$(srcdir)/include $(LIBEVENT_CFLAGS)
tests_unit_test_header_c99_CFLAGS = -std=c99 -pedantic-errors -Wall -Wextra -Wshadow -Werror
tests_unit_test_header_c99_LDADD = client/libwq.la $(LIBEVENT_LIBS)
tests_unit_test_header_cxx11_SOURCES = tests/unit/test_header_cxx11.cc
tests_unit_test_header_cxx11_CPPFLAGS = -I$(srcdir)/include $(LIBEVENT_CFLAGS)
tests_unit_test_header_cxx11_CXXFLAGS = -std=c++11 -pedantic-errors -Wall -Wextra -Wshadow -Werror
tests_unit_test_header_cxx11_LDADD = client/libwq.la $(LIBEVENT_LIBS)
