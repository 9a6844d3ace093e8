/* What the files of the engine ask of pools.c. */
#ifndef WQD_ENGINE_POOLS_H
#define WQD_ENGINE_POOLS_H

#include "engine/records.h"

int
pools_init(struct engine *e);
void
pools_done(struct engine *e);
/* The empty name is the default one's. */
bool
pools_known(const struct engine *e, struct str name);
/* The pool that the queue's settings name; the default one instead of one that is unknown. */
const struct pool *
pools_named(const struct engine *e, const struct queue *q);
/* Sets q->pool by its settings; the queue is in no circle. */
void
pools_place_queue(struct engine *e, struct queue *q);
/* From now on it may have runs that use this machine, whatever its action. */
void
pools_note_command(struct engine *e, struct queue *q);
void
queue_turn_join(struct engine *e, struct queue *q);
void
queue_turn_leave(struct queue *q);
/* The run counts in the queue's pool from now on. */
void
pool_run_started(struct engine *e, struct run *run, struct queue *q, bool reserve);
/* It counts no more, if it did. */
void
pool_run_over(struct engine *e, struct run *run);
/* The boot time from which a start may be tried, that of starved memory aside. */
int64_t
pool_start_due(const struct engine *e, const struct pool *p);
/* Whose start is next now that one is due; NULL: nobody's after all. `reserve`: past the limits. */
struct queue *
pool_next(struct engine *e, struct pool *p, bool *reserve);
void
pool_sample_event(struct engine *e, const struct engine_event *ev);
void
pools_verify(const struct engine *e);

#endif
