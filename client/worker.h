/*
 * What handle.c and recv.c need to know of a worker (worker.c). A handle has one at most.
 */
#ifndef WQ_CLIENT_WORKER_H
#define WQ_CLIENT_WORKER_H

#include <stdint.h>

#include "wq.h"

/* Touches what is due, subscribes again. */
void
worker_turn(wq_worker_t *w, int64_t now);
/* When that has something to do; NEVER_NS. */
int64_t
worker_next_due(const wq_worker_t *w);

#endif
