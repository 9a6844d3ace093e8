/*
 * The load of load.h made by a program that uses wq.h as anybody would: so many
 * updates in flight on one handle, each callback sends the next.
 */
#ifndef WQ_BENCH_LIBWQ_LOAD_H
#define WQ_BENCH_LIBWQ_LOAD_H

#include <stdbool.h>

#include "bench/load.h"

struct libwq_load {
	const char *server;  /* as wq_connect has it */
	const char *options; /* likewise */
	uint64_t n_keys;
	unsigned depth; /* requests in flight */
	bool batch;     /* requests are batches of UPDATES_PER_BATCH */
	int64_t for_ns;
};

/* Requests answered a second; with one in flight *latency (may be NULL) learns of each. */
double
libwq_run(const struct libwq_load *load, struct hist *latency);

#endif
