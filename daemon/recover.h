/*
 * Recovery: the stored state goes into a new engine, before the first step.
 * Part of the process layer: it joins the store and the engine, which don't know
 * each other.
 */
#ifndef WQD_RECOVER_H
#define WQD_RECOVER_H

#include "engine/engine.h"
#include "store/store.h"

/* What was found; for the log. */
struct recovered {
	uint64_t queues, jobs, runs, answers, completions;
};

/*
 * `progress` (may be NULL) is called now and then with what is done of about `total`. 0, or a
 * negative error with *err filled: nothing of the store was changed.
 */
int
recover(struct store *st, struct engine *e, struct moment now,
	void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
	struct recovered *out, struct store_error *err);

#endif
