/*
 * The store of the model tests: what engine_take_dirty hands out, kept in plain
 * arrays with linear searches, and given back to another engine.
 */
#ifndef WQD_TESTS_SAVED_H
#define WQD_TESTS_SAVED_H

#include "engine/engine.h"

struct saved_parts {
	struct str *v; /* owned, each of them too */
	size_t n;
};

struct saved_job {
	struct job_saved j; /* its strs point into the copies below */
	char *queue, *key;
	struct saved_parts parts, run_parts;
};

struct saved_queue {
	char name[QUEUE_NAME_MAX + 1];
	struct queue_settings settings;
	bool paused;
};

struct saved_run {
	uint64_t seq;
	struct run_record r;
	char *queue, *key, *output;
};

struct saved_answer {
	struct answer_saved a;
	char *id, *queue, *key;
};

struct saved_completion {
	struct completion_saved c;
	char name[KEY_MAX + 1];
};

struct saved {
	struct saved_job *jobs;
	struct saved_queue *queues;
	struct saved_run *runs;
	struct saved_answer *answers;
	struct saved_completion *completions;
	size_t n_jobs, n_queues, n_runs, n_answers, n_completions;
	uint64_t mark; /* everything up to it has been taken */
	uint64_t boot; /* number of the boot; rows keep the one they were written in */
};

void
saved_done(struct saved *s);
/* Takes at most `limit` changed things. */
void
saved_take(struct saved *s, struct engine *e, struct moment now, size_t limit);
/* Gives everything to a new engine and ends the recovery. 0, or what the engine did not take. */
int
saved_try_restore(const struct saved *s, struct engine *e, struct moment now);
/* The same where nothing may go wrong. */
void
saved_restore(const struct saved *s, struct engine *e, struct moment now);

#endif
