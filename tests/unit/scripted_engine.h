/*
 * An engine that does what a test says: it records the events it is given and
 * answers from a script. For the sessions' tests, which are about who gets which
 * answer when, not about what the answer is.
 *
 * Requests whose key starts with "wait" are not answered until
 * scripted_answer(); all others at once, with `reply` (its key: the request's,
 * or "made"). `durable` answers put one thing on the dirty list each.
 */
#ifndef WQD_TESTS_SCRIPTED_ENGINE_H
#define WQD_TESTS_SCRIPTED_ENGINE_H

#include "engine/engine.h"

#define SCRIPTED_MAX 8192

struct scripted_event {
	enum engine_event_kind kind;
	uint64_t ticket, run_token;
	char key[32];
	int64_t at_ns; /* boot time of the step */
};

struct engine {
	bool spaces;
	struct scripted_event seen[SCRIPTED_MAX]; /* the newest, round and round */
	size_t n_seen;
	struct job_reply reply;
	bool start_run; /* the next answer brings FX_START and FX_KILL too */
	uint64_t mark;
	bool watched;
	/* what looks show */
	size_t n_jobs, n_queues;
	struct str run_output;
	size_t n_runs;
	struct queue_settings settings;
};

void
scripted_init(struct engine *e);
/* The newest event of that kind. */
const struct scripted_event *
scripted_last(const struct engine *e, enum engine_event_kind kind);
size_t
scripted_count(const struct engine *e, enum engine_event_kind kind);
/* What the next EV_TICK answers to `ticket`. */
void
scripted_answer(struct engine *e, uint64_t ticket, const struct job_reply *r, bool durable);

#endif
