# Man pages and documents.
wqdexamplesdir = $(docdir)/examples
dist_wqdexamples_DATA = %reldir%/examples/wqd.conf %reldir%/examples/wqd-handlers.conf
dist_doc_DATA = %reldir%/guarantees.md %reldir%/pools.md %reldir%/protocol.md %reldir%/security.md %reldir%/semantics.md %reldir%/waiting.md %reldir%/workers.md
EXTRA_DIST += %reldir%/adr %reldir%/architecture.md %reldir%/bench.md
dist_man_MANS += %reldir%/man/wqctl.1
dist_man_MANS += %reldir%/man/wqd.conf.5 %reldir%/man/wqd.8

# The option parts of wqd.conf(5), which the tests hold against the tables.
.PHONY: update-wqd-conf
update-wqd-conf: daemon/wqd
	daemon/wqd --dump-options=man >update-wqd-conf.tmp
	sed -i -e '/^\.\\" begin generated/,/^\.\\" end generated/{/generated/!d}' \
		-e '/^\.\\" begin generated/r update-wqd-conf.tmp' $(srcdir)/%reldir%/man/wqd.conf.5
	rm -f update-wqd-conf.tmp

dist_man_MANS += %reldir%/man/libwq.3

# The options of libwq(3), likewise.
.PHONY: update-libwq
update-libwq: tests/unit/test_libwq_parts
	tests/unit/test_libwq_parts --man >update-libwq.tmp
	sed -i -e '/^\.\\" begin options/,/^\.\\" end options/{/ options/!d}' \
		-e '/^\.\\" begin options/r update-libwq.tmp' $(srcdir)/%reldir%/man/libwq.3
	rm -f update-libwq.tmp

# Examples of libwq: compiled as a user would, run by tests/system/test_examples.py.
EXAMPLE_INCLUDES = -I$(srcdir)/include
EXAMPLE_FLAGS = -std=c99 $(WQ_WARNINGS) $(WQ_HARDENING) $(WQ_SANITIZE)
dist_wqdexamples_DATA += %reldir%/examples/heartbeat.c %reldir%/examples/debounce.c %reldir%/examples/lease.c %reldir%/examples/reaper.c \
	%reldir%/examples/worker.c
# They are run as they are.
dist_wqdexamples_SCRIPTS = %reldir%/examples/worker.py %reldir%/examples/worker.sh
check_PROGRAMS += %reldir%/examples/heartbeat %reldir%/examples/debounce %reldir%/examples/lease %reldir%/examples/reaper \
	%reldir%/examples/worker
%canon_reldir%_examples_heartbeat_SOURCES = %reldir%/examples/heartbeat.c
%canon_reldir%_examples_heartbeat_CPPFLAGS = $(EXAMPLE_INCLUDES)
%canon_reldir%_examples_heartbeat_CFLAGS = $(EXAMPLE_FLAGS)
%canon_reldir%_examples_heartbeat_LDADD = client/libwq.la
%canon_reldir%_examples_debounce_SOURCES = %reldir%/examples/debounce.c
%canon_reldir%_examples_debounce_CPPFLAGS = $(EXAMPLE_INCLUDES)
%canon_reldir%_examples_debounce_CFLAGS = $(EXAMPLE_FLAGS)
%canon_reldir%_examples_debounce_LDADD = client/libwq.la
%canon_reldir%_examples_worker_SOURCES = %reldir%/examples/worker.c
%canon_reldir%_examples_worker_CPPFLAGS = $(EXAMPLE_INCLUDES)
%canon_reldir%_examples_worker_CFLAGS = $(EXAMPLE_FLAGS)
%canon_reldir%_examples_worker_LDADD = client/libwq.la
%canon_reldir%_examples_lease_SOURCES = %reldir%/examples/lease.c
%canon_reldir%_examples_lease_CPPFLAGS = $(EXAMPLE_INCLUDES)
%canon_reldir%_examples_lease_CFLAGS = $(EXAMPLE_FLAGS)
%canon_reldir%_examples_lease_LDADD = client/libwq.la
%canon_reldir%_examples_reaper_SOURCES = %reldir%/examples/reaper.c
%canon_reldir%_examples_reaper_CPPFLAGS = $(EXAMPLE_INCLUDES)
%canon_reldir%_examples_reaper_CFLAGS = $(EXAMPLE_FLAGS)
%canon_reldir%_examples_reaper_LDADD = client/libwq.la
