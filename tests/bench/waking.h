/*
 * What the benchmark of waking many shares: figures, one reader for many
 * connections, and as much of the protocol as completions need.
 */
#ifndef WQ_BENCH_WAKING_H
#define WQ_BENCH_WAKING_H

#include <stddef.h>
#include <stdint.h>

#include "bench/kit.h"

#define WAITERS     64
#define WAITERS_MAX 1000

struct samples {
	double *v; /* microseconds */
	size_t n, cap;
};

void
sample(struct samples *s, int64_t ns);
/* Sorts them. 0 when there are none. */
double
quantile(struct samples *s, double q);

/* One process reads for all waiters, by epoll, and stays the same for all servers. */
struct reader {
	int epoll;
	int fd[WAITERS_MAX];
	int n;
	size_t answer_bytes; /* of one answer; all are alike */
};

void
reader_init(struct reader *r, size_t answer_bytes);
/* `fd` is given. */
void
reader_add(struct reader *r, int fd);
void
reader_done(struct reader *r);
/* Reads until `n` answers have come. */
void
reader_take(struct reader *r, size_t n);
void
read_exactly(int fd, size_t n);

enum { OP_WAIT = 36, OP_COMPLETE_ALL = 38, OP_REINIT = 39, OP_SHOW = 40 };

/* A connection that has said hello. */
int
wqd_connect(const char *path);
/* A request {id 1, op {name}} as a frame. Returns its length. */
size_t
wqd_request(unsigned char *p, int op, const char *name);
void
wqd_read_reply(int fd);
/* A request and its reply. */
void
wqd_call(int fd, int op, const char *name);
/* All wait for `name`, `each` on a connection, and the daemon has them. */
void
wqd_wait(struct reader *r, int trigger, const char *name, int each);
void
wqd_stage(struct reader *r, int trigger, const char *name, int each, struct samples *own,
	struct samples *whole);

/* The trigger's own time from one waiter to WAITERS_MAX, beside a bare server's. */
void
waking_latency(const char *wqd, const char *dir, int rounds);

#endif
