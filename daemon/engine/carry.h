/*
 * The engine over an exec: what the store does not say of it, and what goes on.
 *
 * Everything that is stored is committed before; the store is recovered as after
 * any end, and this comes on top, so that nothing has ended: jobs of level memory
 * are there, runs go on under their numbers, who waits waits on with what is left
 * of his time, workers hold what they held.
 *
 * Not carried, and therefore not there while a state is written: answers that are
 * due, paced work, queues that drain or are being deleted (engine_quiet).
 */
#ifndef WQD_ENGINE_CARRY_H
#define WQD_ENGINE_CARRY_H

#include "base/carry.h"
#include "engine/engine.h"

/* From now on nothing expires, starts or times out; or it does again. Requests and ends of runs go on. */
void
engine_hold(struct engine *e, bool hold);
/* Nothing is left that is not carried, or will not become so by itself: a queue that drains or is
 * being deleted, named in *queue (borrowed), else that is empty. */
bool
engine_quiet(const struct engine *e, struct str *queue);
/* Writes all that is not in the store. Quiet, and nothing is dirty. */
void
engine_carry_out(const struct engine *e, struct moment now, struct carry_out *o);
/* After the store's rows, before engine_recovered: misfire policies then don't apply. 0 or a negative
 * error: what was not understood, or found no room; `why` (static) says which. */
int
engine_carry_in(struct engine *e, struct moment now, const struct carry_in *in, const char **why);
/* After engine_recovered: those who wait, and workers. */
int
engine_carry_in_waiters(
	struct engine *e, struct moment now, const struct carry_in *in, const char **why);

#endif
