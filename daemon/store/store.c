/* What is made of a store's calls, the same for every store. */
#include "store/store.h"

int
store_backup(struct store *st, const char *path)
{
	int rc = st->ops->backup_begin(st, path);

	if (rc)
		return rc;
	do
		rc = st->ops->backup_step(st);
	while (rc > 0);
	return rc;
}

/* ---- check ---- */

static int
count_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	struct store_counts *n = ctx;

	(void)name, (void)s, (void)paused;
	n->queues++;
	return 0;
}

static int
count_job(void *ctx, const struct job_saved *j)
{
	struct store_counts *n = ctx;

	(void)j;
	n->jobs++;
	return 0;
}

static int
count_run(void *ctx, uint64_t run_seq, const struct run_record *r)
{
	struct store_counts *n = ctx;

	(void)run_seq, (void)r;
	n->runs++;
	return 0;
}

static int
count_answer(void *ctx, const struct answer_saved *a)
{
	struct store_counts *n = ctx;

	(void)a;
	n->answers++;
	return 0;
}

static int
count_completion(void *ctx, const struct completion_saved *c)
{
	struct store_counts *n = ctx;

	(void)c;
	n->completions++;
	return 0;
}

int
store_check(struct store *st, struct store_counts *out, struct store_error *err)
{
	const struct recover_sink sink = { out, count_queue, count_job, count_run, count_answer,
		count_completion, NULL, NULL, NULL };
	int rc = st->ops->check(st, err);

	*out = (struct store_counts){ 0 };
	return rc ? rc : st->ops->recover(st, &sink, err);
}
