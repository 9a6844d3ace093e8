# Figures: make bench, with BENCHFLAGS for bench.py. Built by make check, so that they keep building.
BENCH_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
BENCH_KIT = %reldir%/kit.c %reldir%/kit.h
BENCH_REQUESTS = %reldir%/requests.c %reldir%/requests.h $(BENCH_KIT)
BENCHES = %reldir%/bench_engine %reldir%/bench_churn %reldir%/bench_timers %reldir%/bench_run %reldir%/bench_wire \
	%reldir%/bench_completion %reldir%/bench_echo %reldir%/bench_seed %reldir%/bench_socket \
	%reldir%/bench_fire %reldir%/bench_durable %reldir%/bench_service %reldir%/bench_tls
check_PROGRAMS += $(BENCHES)
EXTRA_DIST += %reldir%/bench.py %reldir%/bench_pools.py %reldir%/run

%canon_reldir%_bench_engine_SOURCES = %reldir%/bench_engine.c %reldir%/bench.h
%canon_reldir%_bench_engine_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_engine_LDADD = $(WQD_LIBS)

# The wheel against a heap: bench_timers TIMERS.
%canon_reldir%_bench_timers_SOURCES = %reldir%/bench_timers.c %reldir%/bench.h
%canon_reldir%_bench_timers_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_timers_LDADD = $(WQD_LIBS)

# Memory while jobs come and go: bench_churn JOBS OPERATIONS.
%canon_reldir%_bench_churn_SOURCES = %reldir%/bench_churn.c %reldir%/bench.h
%canon_reldir%_bench_churn_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_churn_LDADD = $(WQD_LIBS)

%canon_reldir%_bench_run_SOURCES = %reldir%/bench_run.c
%canon_reldir%_bench_run_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_run_LDADD = $(WQD_LIBS)

%canon_reldir%_bench_wire_SOURCES = %reldir%/bench_wire.c
%canon_reldir%_bench_wire_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_wire_LDADD = $(WQD_LIBS)

# The daemon between its sockets, without a system call.
%canon_reldir%_bench_service_SOURCES = %reldir%/bench_service.c %reldir%/load.h $(BENCH_REQUESTS)
%canon_reldir%_bench_service_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_service_LDADD = $(WQD_LIBS)

# Over TLS, beside a TLS server that only carries the bytes.
%canon_reldir%_bench_tls_SOURCES = %reldir%/bench_tls.c %reldir%/load.h $(BENCH_REQUESTS)
%canon_reldir%_bench_tls_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_tls_LDADD = $(WQD_LIBS)

# Waking many, beside the transport alone, Redis, and one process: bench_completion WQD.
%canon_reldir%_bench_completion_SOURCES = %reldir%/bench_completion.c \
	%reldir%/waking.c %reldir%/waking_latency.c %reldir%/waking.h $(BENCH_KIT)
%canon_reldir%_bench_completion_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_completion_LDADD = $(WQD_LIBS) -lpthread

# Our daemon over the socket beside the bare transport and others: bench_socket --help.
%canon_reldir%_bench_echo_SOURCES = %reldir%/bench_echo.c $(BENCH_KIT)
%canon_reldir%_bench_echo_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_echo_LDADD = $(WQD_LIBS)

%canon_reldir%_bench_socket_SOURCES = %reldir%/bench_socket.c %reldir%/load.c %reldir%/load.h \
	%reldir%/libwq_load.c %reldir%/libwq_load.h \
	%reldir%/peers.c %reldir%/peers.h $(BENCH_REQUESTS)
%canon_reldir%_bench_socket_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_socket_LDADD = client/libwqclient.la $(WQD_LIBS)

# How late what is due is told, start and idleness: bench_fire WQD ROUNDS JOBS PART.
%canon_reldir%_bench_fire_SOURCES = %reldir%/bench_fire.c %reldir%/load.c %reldir%/load.h \
	%reldir%/peers.c %reldir%/peers.h $(BENCH_REQUESTS)
%canon_reldir%_bench_fire_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_fire_LDADD = client/libwqclient.la $(WQD_LIBS)

# What durable reschedules cost, beside the bare disk and others: bench_durable --help.
%canon_reldir%_bench_durable_SOURCES = %reldir%/bench_durable.c %reldir%/load.c %reldir%/load.h \
	%reldir%/peers.c %reldir%/peers.h %reldir%/postgres.c %reldir%/postgres.h $(BENCH_REQUESTS)
%canon_reldir%_bench_durable_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_durable_LDADD = $(WQD_LIBS)

# Update against cancel and queue again, as the kernel's patch measured it.
%canon_reldir%_bench_seed_SOURCES = %reldir%/bench_seed.c %reldir%/load.c %reldir%/load.h \
	%reldir%/peers.c %reldir%/peers.h $(BENCH_REQUESTS)
%canon_reldir%_bench_seed_CPPFLAGS = $(BENCH_CPPFLAGS)
%canon_reldir%_bench_seed_LDADD = client/libwqclient.la $(WQD_LIBS)

# Jobs of known behaviour for bench_pools.py, static so that their start costs little.
check_PROGRAMS += %reldir%/pool_job
%canon_reldir%_pool_job_SOURCES = %reldir%/pool_job.c
%canon_reldir%_pool_job_LDFLAGS = $(WQ_STATIC) $(WQ_SANITIZE)
%canon_reldir%_pool_job_LDADD = -lpthread

.PHONY: bench
bench: all $(BENCHES)
	$(TEST_PYTHON) $(srcdir)/%reldir%/bench.py --source $(srcdir) --build . $(BENCHFLAGS)
