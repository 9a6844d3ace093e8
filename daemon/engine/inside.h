/* Runs that wait for jobs: inside.c. */
#ifndef WQD_ENGINE_INSIDE_H
#define WQD_ENGINE_INSIDE_H

#include "engine/internal.h"

/* A run waits for a job, without a limit. */
void
inside_joined(struct engine *e, struct waiter *w, struct run *from);
/* `w` waits no more. */
void
inside_left(struct waiter *w);
void
inside_run_over(struct run *run);
/* Refuses the request when nothing would be left that could let it come true. */
bool
inside_refused(struct ask *a, int64_t timeout_ns);

/* Of pools.c: no job of `q` starts before a run ends: max_runs. */
bool
pool_runs_full(const struct engine *e, const struct queue *q);

#endif
