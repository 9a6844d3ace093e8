/*
 * Requests to wqd for the load generator (load.h), and its replies.
 */
#ifndef WQ_BENCH_REQUESTS_H
#define WQ_BENCH_REQUESTS_H

#include <stdbool.h>

#include "bench/load.h"

#define UPDATES_PER_BATCH 100

/* A generator of requests for so many jobs, without a daemon: the first is the hello. */
void
wqd_generator(struct server *s, uint64_t n_jobs);
/* What the next requests are. FILL: batches of all jobs in their order. */
enum wqd_op { WQD_UPDATE, WQD_BATCH, WQD_FILL, WQD_HELLO };
void
wqd_use(struct server *s, enum wqd_op op);

/*
 * The seed's: each connection has one key, and does the same with it again and again. SLACK: the
 * update gives one so large that it stays inside. The cancelling ones are two requests, a round trip
 * each: two replies are one of them.
 */
enum seed_op { SEED_UPDATE, SEED_SLACK, SEED_CANCEL_QUEUE, SEED_CANCEL_WAIT_QUEUE };
/* On the queue `bench`, or on the one that there always is. */
void
seed_use(struct server *s, enum seed_op op, bool fallback);

#endif
