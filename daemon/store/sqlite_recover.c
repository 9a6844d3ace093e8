/*
 * Reading everything back: queues, jobs in the order of their numbers (sqlite_jobs.c), runs,
 * answers, completions. Nothing is sorted and nothing written, so that a database found damaged
 * half-way is still as it was.
 */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

#define PROGRESS_EVERY 4096

struct queue_name {
	int64_t id;
	struct str name; /* owned */
};

struct recovery {
	struct sqlite_store *st;
	const struct recover_sink *sink;
	struct store_error *err;
	uint64_t done, total;
	/* by id */
	struct queue_name *queues; /* owned */
	size_t n_queues, cap_queues;
	/* the queue that is being read */
	int64_t queue;
	struct str queue_name;
	struct queue_settings settings;
};

static int
damaged(struct recovery *rv, const char *what)
{
	rv->st->damaged = true;
	return store_fail(rv->err, ERR_DAMAGED, rv->st->path, "%s", what);
}

/* After each thing handed over: `rc` is what its receiver said. */
static int
handed_over(struct recovery *rv, int rc, const char *what)
{
	if (rc < 0) {
		if (rc == ERR_DAMAGED)
			rv->st->damaged = true;
		/* It may have said more, and what to do. */
		if (rv->err && rv->err->code == rc && rv->err->detail[0]) {
			(void)snprintf(rv->err->path, sizeof rv->err->path, "%s", rv->st->path);
			return rc;
		}
		return store_fail(rv->err, rc, rv->st->path, "%s number %llu: %s", what,
			(unsigned long long)rv->done, err_str(rc));
	}
	if (++rv->done > rv->total)
		rv->total = rv->done; /* one that is in the log of moves alone was not counted */
	if (rv->done % PROGRESS_EVERY == 0 && rv->sink->progress)
		rv->sink->progress(rv->sink->ctx, rv->done, rv->total);
	return 0;
}

/*
 * Calls `each` for every row of `s`, whose parameters are bound; it returns 0 to go on. Column
 * values are borrowed until it returns.
 */
static int
each_row(struct recovery *rv, enum statement s, int (*each)(struct recovery *rv, sqlite3_stmt *q))
{
	sqlite3_stmt *q = rv->st->q[s];
	int rc, stop = 0;

	while (!stop && (rc = sqlite3_step(q)) == SQLITE_ROW)
		stop = each(rv, q);
	if (!stop && rc != SQLITE_DONE)
		stop = sq_fail(rv->st, rc, rv->err, "read");
	(void)sqlite3_reset(q);
	return stop;
}

/* ---- queues ---- */

static int
setting_row(struct recovery *rv, sqlite3_stmt *q)
{
	struct row r = row_open(q, ROW_SETTING, 0);
	struct str name, value;
	int rc;

	row_mix_int(&r, rv->queue);
	name = row_get_blob(&r);
	value = row_get_blob(&r);
	if (row_close(&r))
		return damaged(rv, "a setting of a queue does not match its sum");
	rc = queue_settings_set(&rv->settings, name, value);
	if (rc == ERR_UNKNOWN_NAME)
		return store_fail(rv->err, ERR_NEWER_SCHEMA, rv->st->path,
			"queue setting '%.*s' is not known to this wqd", STR_ARG(name));
	if (rc)
		return damaged(rv, "a setting of a queue has a value out of its range");
	return 0;
}

/* The queue of this row becomes the one that is being read. */
static int
open_queue(struct recovery *rv, sqlite3_stmt *q, bool *paused)
{
	struct row r = row_open(q, ROW_QUEUE, 1);

	rv->queue = sqlite3_column_int64(q, 0);
	rv->queue_name = row_get_blob(&r);
	*paused = row_get_int(&r, 0, 1) != 0;
	if (row_close(&r) || rv->queue_name.n == 0)
		return damaged(rv, "a queue does not match its sum");
	return 0;
}

static int
read_settings(struct recovery *rv)
{
	int rc = sqlite3_bind_int64(rv->st->q[Q_SETTINGS], 1, rv->queue);

	queue_settings_default(&rv->settings);
	return rc ? sq_fail(rv->st, rc, rv->err, "read") : each_row(rv, Q_SETTINGS, setting_row);
}

/* For the jobs that name it; rows come in the order of ids. */
static int
remember_queue(struct recovery *rv)
{
	struct queue_name *v = rv->queues;
	char *name;

	if (rv->n_queues == rv->cap_queues) {
		size_t cap = rv->cap_queues ? rv->cap_queues * 2 : 16;

		v = x_realloc(v, cap, sizeof *v);
		if (v) {
			rv->queues = v;
			rv->cap_queues = cap;
		}
	}
	name = v ? x_strndup(rv->queue_name.p, rv->queue_name.n) : NULL;
	if (!name)
		return store_fail(rv->err, -ENOMEM, rv->st->path, "read: %s", err_str(-ENOMEM));
	rv->queue_name.p = name;
	rv->queues[rv->n_queues++] = (struct queue_name){ rv->queue, rv->queue_name };
	return 0;
}

static int
queue_row(struct recovery *rv, sqlite3_stmt *q)
{
	bool paused;
	int rc = open_queue(rv, q, &paused);

	if (!rc)
		rc = read_settings(rv);
	if (!rc)
		rc = remember_queue(rv);
	if (!rc)
		rc = handed_over(rv,
			rv->sink->queue(rv->sink->ctx, rv->queue_name, &rv->settings, paused),
			"queue");
	return rc;
}

/* ---- jobs ---- */

static struct str
name_of(struct recovery *rv, int64_t id)
{
	size_t from = 0, to = rv->n_queues;

	if (id == rv->queue)
		return rv->queue_name;
	while (from < to) {
		size_t mid = (from + to) / 2;

		if (rv->queues[mid].id < id)
			from = mid + 1;
		else
			to = mid;
	}
	if (from == rv->n_queues || rv->queues[from].id != id)
		return STR_NONE;
	rv->queue = id;
	rv->queue_name = rv->queues[from].name;
	return rv->queue_name;
}

static int
hand_over_job(void *ctx, int64_t queue, struct job_saved *j)
{
	struct recovery *rv = ctx;

	j->queue = name_of(rv, queue);
	if (j->queue.n == 0)
		return damaged(rv, "a job is of a queue that is missing");
	/* What a finished instance left behind is of no use. */
	if (j->pending == JOB_IDLE && !j->running && !j->dead)
		j->n_parts = 0;
	if (j->pending == JOB_IDLE || !j->running)
		j->n_run_parts = 0;
	return handed_over(rv, rv->sink->job(rv->sink->ctx, j), "job");
}

/* Of the queue that is being read: others will do without. */
static void
job_ahead(void *ctx, int64_t queue, struct str key)
{
	struct recovery *rv = ctx;

	if (queue == rv->queue)
		rv->sink->ahead(rv->sink->ctx, rv->queue_name, key);
}

struct old_job {
	struct recovery *rv;
	int rc; /* of ours */
};

static int
old_job(void *ctx, int64_t queue, const struct job_saved *j)
{
	struct old_job *o = ctx;
	struct job_saved copy = *j;

	o->rc = hand_over_job(o->rv, queue, &copy);
	return o->rc;
}

/* As they are: the upgrade comes with the first change. */
static int
old_jobs(struct recovery *rv)
{
	struct old_job o = { rv, 0 };
	const char *what = NULL;
	int rc = sq_old_jobs(rv->st, old_job, &o, &what);

	if (!rc || o.rc)
		return o.rc;
	if (rc == ERR_DAMAGED)
		return damaged(rv, what ? what : "its tables do not make sense");
	return store_fail(rv->err, rc, rv->st->path, "read: %s", err_str(rc));
}

static int
all_jobs(struct recovery *rv)
{
	rv->queue = 0;
	return rv->st->schema == STORE_SCHEMA_VERSION
		? sq_newest_jobs(
			  rv->st, hand_over_job, rv->sink->ahead ? job_ahead : NULL, rv, rv->err)
		: old_jobs(rv);
}

/* ---- runs, answers, completions ---- */

static int
run_row(struct recovery *rv, sqlite3_stmt *q)
{
	struct row r = row_open(q, ROW_RUN, 0);
	struct run_record rec = { .attempt = 0 };
	uint64_t seq = (uint64_t)row_get_int(&r, INT64_MIN, INT64_MAX);

	(void)row_get_int(&r, INT64_MIN, INT64_MAX); /* the queue's id, by which it was joined */
	rec.key = row_get_blob(&r);
	rec.output = row_get_blob(&r);
#define X(f, min, max) rec.f = (__typeof__(rec.f))row_get_int(&r, min, max);
	RUN_FIELDS(X)
#undef X
	if (row_close(&r))
		return damaged(rv, "a run does not match its sum");
	rec.queue.p = sqlite3_column_blob(q, r.col + 1);
	rec.queue.n = (size_t)sqlite3_column_bytes(q, r.col + 1);
	if (rec.queue.n == 0)
		return damaged(rv, "a run is of a queue that is missing");
	return handed_over(rv, rv->sink->run(rv->sink->ctx, seq, &rec), "run");
}

static int
answer_row(struct recovery *rv, sqlite3_stmt *q)
{
	struct row r = row_open(q, ROW_ANSWER, 0);
	struct answer_saved a = { .id = row_get_blob(&r) };

	a.reply.queue = row_get_blob(&r);
	a.reply.key = row_get_blob(&r);
	a.until_wall_ns = row_get_int(&r, INT64_MIN, INT64_MAX);
#define X(f, min, max) a.reply.f = (__typeof__(a.reply.f))row_get_int(&r, min, max);
	ANSWER_FIELDS(X)
#undef X
	if (row_close(&r))
		return damaged(rv, "an answer does not match its sum");
	a.asked = (enum asked)((int)a.reply.status >> ANSWER_ASKED_SHIFT);
	a.reply.status = (enum status)((int)a.reply.status & ((1 << ANSWER_ASKED_SHIFT) - 1));
	return handed_over(rv, rv->sink->answer(rv->sink->ctx, &a), "answer");
}

static int
completion_row(struct recovery *rv, sqlite3_stmt *q)
{
	struct row r = row_open(q, ROW_COMPLETION, 0);
	struct completion_saved c = { .name = row_get_blob(&r) };

#define X(f, min, max) c.f = (__typeof__(c.f))row_get_int(&r, min, max);
	COMPLETION_FIELDS(X)
#undef X
	if (row_close(&r))
		return damaged(rv, "a completion does not match its sum");
	return handed_over(rv, rv->sink->completion(rv->sink->ctx, &c), "completion");
}

/* ---- all of it ---- */

/* How much there is to do; 20 ms for a million jobs. */
static int
count_all(struct recovery *rv)
{
	int64_t jobs = 0, others = 0;
	int rc = sq_number(rv->st, Q_COUNT_JOBS, &jobs);

	if (!rc)
		rc = sq_number(rv->st, Q_COUNT_OTHERS, &others);
	if (rc)
		return store_fail(rv->err, rc, rv->st->path, "count: %s", err_str(rc));
	rv->total = (uint64_t)(jobs + others);
	if (rv->sink->progress)
		rv->sink->progress(rv->sink->ctx, 0, rv->total);
	if (rv->sink->expect)
		rv->sink->expect(rv->sink->ctx, (uint64_t)jobs);
	return 0;
}

static int
recover_all(struct recovery *rv)
{
	int rc = rv->sink->progress || rv->sink->expect ? count_all(rv) : 0;

	if (!rc)
		rc = each_row(rv, Q_QUEUES, queue_row);
	if (!rc)
		rc = all_jobs(rv);
	if (!rc)
		rc = each_row(rv, Q_RUNS, run_row);
	if (!rc)
		rc = each_row(rv, Q_ANSWERS, answer_row);
	if (!rc && rv->st->q[Q_COMPLETIONS])
		rc = each_row(rv, Q_COMPLETIONS, completion_row);
	if (!rc && rv->sink->progress)
		rv->sink->progress(rv->sink->ctx, rv->done, rv->done);
	return rc;
}

int
sq_recover(struct store *s, const struct recover_sink *sink, struct store_error *err)
{
	struct sqlite_store *st = sqlite_store(s);
	struct recovery rv = { .st = st, .sink = sink, .err = err };
	int rc;

	rc = recover_all(&rv);
	for (size_t i = 0; i < rv.n_queues; i++)
		x_free((char *)(uintptr_t)rv.queues[i].name.p);
	x_free(rv.queues);
	if (!rc)
		st->trusted = true;
	return rc;
}
