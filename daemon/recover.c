#include "recover.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"

struct recovery {
	struct engine *engine;
	struct moment now;
	uint64_t boot; /* this one; 0: not known */
	struct recovered *found;
	struct store_error *err;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

/* A row that the engine does not take: damage, unless memory ran out. */
static int
refused(struct recovery *r, const char *what, struct str name, int err)
{
	char field[300];

	r->err->code = err;
	snprintf(r->err->detail, sizeof r->err->detail, "stored %s %s: %s", what,
		log_field(field, sizeof field, name), err_str(err));
	if (err == ERR_DAMAGED)
		snprintf(r->err->next, sizeof r->err->next,
			"look with 'wqd --check-state', or restore a backup of the database");
	else
		snprintf(r->err->next, sizeof r->err->next,
			"raise the limit in wqd.conf (max_jobs, max_bytes, max_queues, "
			"max_completions) or give it "
			"memory");
	return err;
}

static int
on_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	struct recovery *r = ctx;
	int err = engine_restore_queue(r->engine, name, s, paused);

	if (err < 0)
		return refused(r, "queue", name, err);
	r->found->queues++;
	return 0;
}

static int
on_job(void *ctx, const struct job_saved *j)
{
	struct recovery *r = ctx;
	int err = engine_restore_job(r->engine, r->now, j, r->boot && j->boot == r->boot);

	if (err < 0)
		return refused(r, "job", j->key, err);
	r->found->jobs++;
	return 0;
}

static int
on_run(void *ctx, uint64_t run_seq, const struct run_record *rec)
{
	struct recovery *r = ctx;
	int err = engine_restore_run(r->engine, run_seq, rec);

	if (err < 0)
		return refused(r, "run of", rec->key, err);
	r->found->runs++;
	return 0;
}

static int
on_answer(void *ctx, const struct answer_saved *a)
{
	struct recovery *r = ctx;
	int err = engine_restore_answer(r->engine, a);

	if (err < 0)
		return refused(r, "answer", a->id, err);
	r->found->answers++;
	return 0;
}

static int
on_completion(void *ctx, const struct completion_saved *c)
{
	struct recovery *r = ctx;
	int err = engine_restore_completion(r->engine, c);

	if (err < 0)
		return refused(r, "completion", c->name, err);
	r->found->completions++;
	return 0;
}

static void
on_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct recovery *r = ctx;

	if (r->progress)
		r->progress(r->progress_ctx, done, total);
}

static void
on_expect(void *ctx, uint64_t jobs)
{
	struct recovery *r = ctx;

	engine_expect(r->engine, jobs);
}

static void
on_ahead(void *ctx, struct str queue, struct str key)
{
	struct recovery *r = ctx;

	engine_restore_ahead(r->engine, queue, key);
}

int
recover(struct store *st, struct engine *e, struct moment now,
	void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
	struct recovered *out, struct store_error *err)
{
	struct recovery r = { e, now, st->meta.boot, out, err, progress, ctx };
	const struct recover_sink sink = { &r, on_queue, on_job, on_run, on_answer, on_completion,
		on_progress, on_expect, on_ahead };

	*out = (struct recovered){ 0 };
	*err = (struct store_error){ 0 };
	return st->ops->recover(st, &sink, err);
}
