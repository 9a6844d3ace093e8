# Figures: make bench, with BENCHFLAGS for bench.py. Built by make check, so that they keep building.
BENCH_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
BENCHES = %reldir%/bench_engine %reldir%/bench_run %reldir%/bench_wire
check_PROGRAMS += $(BENCHES)
EXTRA_DIST += %reldir%/bench.py

%canon_reldir%_bench_engine_SOURCES = %reldir%/bench_engine.c %reldir%/bench.h
%canon_reldir%_bench_engine_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_engine_LDADD = $(WQD_LIBS)

%canon_reldir%_bench_run_SOURCES = %reldir%/bench_run.c
%canon_reldir%_bench_run_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_run_LDADD = $(WQD_LIBS)

%canon_reldir%_bench_wire_SOURCES = %reldir%/bench_wire.c
%canon_reldir%_bench_wire_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_wire_LDADD = $(WQD_LIBS)

.PHONY: bench
bench: all $(BENCHES)
	$(TEST_PYTHON) $(srcdir)/%reldir%/bench.py --source $(srcdir) --build . $(BENCHFLAGS)
