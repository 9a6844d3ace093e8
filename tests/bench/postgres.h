/*
 * PostgreSQL as a durable yardstick: a table of keys and deadlines, an update by key for each
 * request, committed and synced on its own. On a socket and data of its own below `dir`, run by
 * an unprivileged user, which the server insists on.
 */
#ifndef WQ_BENCH_POSTGRES_H
#define WQ_BENCH_POSTGRES_H

#include <stdbool.h>

#include "bench/load.h"

/* False: not installed, or it does not start here. */
bool
postgres_start(struct server *s, const char *dir, uint64_t n_jobs);

#endif
