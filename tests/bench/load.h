/*
 * The load generator: some connections, so many requests in flight on each. It
 * is the same code for every server, with requests made and replies counted by
 * the server's own pair of functions; when a read brings k replies, k requests
 * leave with one write. One thread.
 */
#ifndef WQ_BENCH_LOAD_H
#define WQ_BENCH_LOAD_H

#include "base/hist.h"
#include "bench/kit.h"

#define LOAD_CONNS_MAX 1024
#define REQUEST_MAX    8192

struct server {
	const char *name;
	const char *path; /* or port, for bench_connect */
	pid_t pid;
	int core; /* it runs on; -1: any */
	uint64_t random;
	uint64_t n_keys;
	uint64_t next; /* a request's number */
	unsigned conn; /* which connection the next request is for */
	/* Greets on a fresh connection, if the protocol wants that. */
	void (*greet)(struct server *s, int fd);
	/* One request at `dst` (REQUEST_MAX bytes); its size. */
	size_t (*put)(struct server *s, uint8_t *dst);
	/* Whole replies in p[0..n); *used: their bytes. Ends the program on one that is an error. */
	size_t (*take)(struct server *s, const uint8_t *p, size_t n, size_t *used);
	size_t reply_size; /* of servers whose replies are all of one size */
};

struct load {
	unsigned conns, depth;
	int64_t for_ns;
};

struct load_result {
	double per_s; /* replies */
	double request_bytes, reply_bytes;
	struct hist latency; /* with one request in flight */
};

void
load_run(struct server *s, const struct load *load, struct load_result *out);
/* `n` requests made by `put`, `depth` in flight: to fill a server. */
void
load_fill(struct server *s, uint64_t n, unsigned depth);

#endif
