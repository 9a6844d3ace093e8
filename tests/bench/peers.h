/*
 * The servers that are compared: ours, and what users would pick instead. Each
 * is started on a socket of its own in `dir` and filled with jobs.
 */
#ifndef WQ_BENCH_PEERS_H
#define WQ_BENCH_PEERS_H

#include <stdbool.h>

#include "bench/requests.h"

/* Our daemon, queue `bench` of level memory whose jobs do nothing; far deadlines. On TCP as well
 * where `port` is not 0. */
void
wqd_start(struct server *s, const char *program, const char *dir, uint64_t n_jobs, int port);
/* The same with a queue of another level. With no jobs: as the state directory has them. */
void
wqd_start_level(struct server *s, const char *program, const char *dir, const char *level,
	uint64_t n_jobs, int port);
/* Yardsticks for messages of these sizes. */
void
echo_start(struct server *s, const char *kind, const char *path, size_t request, size_t reply);

/* False: not installed. Redis: a hash and a sorted set, changed together by a script. */
bool
redis_start(struct server *s, const char *dir, uint64_t n_jobs);
/* beanstalkd has no keys: reserve-job and release of a job's number. */
bool
beanstalkd_start(struct server *s, const char *dir, uint64_t n_jobs);

/* With every change synced to a log in `dir`. */
bool
redis_start_sync(struct server *s, const char *dir, uint64_t n_jobs, bool sync);
bool
beanstalkd_start_sync(struct server *s, const char *dir, uint64_t n_jobs, bool sync);

/* From now on requests cancel a job and queue it again, in turn, one at a time on one connection:
 * Redis by two scripts, beanstalkd by delete and put. */
void
redis_use_again(struct server *s);
void
beanstalkd_use_again(struct server *s);

#endif
