/*
 * Reading everything back: queues, their jobs in key order, runs, answers,
 * completions.
 *
 * One row is in memory at a time, and the log of moves, which has a cap. Rows of
 * jobs and log are in the same order, so that one pass over both gives every job
 * with the newest that is known of it; payloads are looked up as their jobs come.
 * Nothing is sorted and nothing written, so that a database found damaged half-way is
 * still as it was.
 */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

#define PROGRESS_EVERY 4096

struct part_list {
	struct str *v; /* owned */
	size_t n, cap;
	bool command; /* the first is one */
};

struct recovery {
	struct sqlite_store *st;
	const struct recover_sink *sink;
	struct store_error *err;
	uint64_t done, total;
	/* what is being read */
	int64_t queue;
	struct str queue_name;
	struct queue_settings settings;
	struct part_list parts, run_parts;
	struct merge *log; /* owned; NULL in a database of schema 1 */
	struct moved next; /* of the log, when has_next */
	bool has_next;
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
	return row_close(&r) ? damaged(rv, "a queue does not match its sum") : 0;
}

static int
bind_queue(struct recovery *rv, enum statement s)
{
	int rc = sqlite3_bind_int64(rv->st->q[s], 1, rv->queue);

	return rc ? sq_fail(rv->st, rc, rv->err, "read") : 0;
}

static int
queue_row(struct recovery *rv, sqlite3_stmt *q)
{
	bool paused;
	int rc = open_queue(rv, q, &paused);

	queue_settings_default(&rv->settings);
	if (!rc)
		rc = bind_queue(rv, Q_SETTINGS);
	if (!rc)
		rc = each_row(rv, Q_SETTINGS, setting_row);
	if (rc)
		return rc;
	rc = rv->sink->queue(rv->sink->ctx, rv->queue_name, &rv->settings, paused);
	return handed_over(rv, rc, "queue");
}

/* ---- payloads ---- */

static uint32_t
get_u32(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int
reserve_parts(struct part_list *l, size_t n)
{
	struct str *v;

	if (n <= l->cap)
		return 0;
	v = x_realloc(l->v, n, sizeof *v);
	if (!v)
		return -ENOMEM;
	l->v = v;
	l->cap = n;
	return 0;
}

/* Takes joined parts apart (see sqlite_put.c). 0, -ENOMEM or ERR_DAMAGED. */
static int
split(struct part_list *l, struct str sizes, struct str data)
{
	size_t n, at = 0;

	l->command = sizes.n % 4 == 1 && sizes.p[sizes.n - 1] == PAYLOAD_COMMAND_MARK;
	sizes.n -= l->command;
	n = sizes.n ? sizes.n / 4 : 1;
	if (reserve_parts(l, n))
		return -ENOMEM;
	l->n = n;
	if (sizes.n == 0) {
		l->v[0] = data;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		size_t size = get_u32(sizes.p + 4 * i);

		if (size > data.n - at)
			return ERR_DAMAGED;
		l->v[i] = (struct str){ data.n ? data.p + at : NULL, size };
		at += size;
	}
	return at == data.n && sizes.n % 4 == 0 ? 0 : ERR_DAMAGED;
}

/* Reads payload row `id` (0: none); what is in `l` is borrowed until `s` is reset. */
static int
read_payload(struct recovery *rv, enum statement s, int64_t id, struct str key, struct part_list *l)
{
	sqlite3_stmt *q = rv->st->q[s];
	struct str sizes, data;
	struct row r;
	int rc;

	l->n = 0;
	l->command = false;
	if (!id)
		return 0;
	rc = sqlite3_bind_int64(q, 1, id);
	if (!rc)
		rc = sqlite3_step(q);
	if (rc == SQLITE_DONE)
		return damaged(rv, "the payload of a job is missing");
	if (rc != SQLITE_ROW)
		return sq_fail(rv->st, rc, rv->err, "read");
	r = row_open(q, ROW_PAYLOAD, 0);
	row_mix_int(&r, rv->queue);
	row_mix_blob(&r, key);
	sizes = row_get_blob(&r);
	data = row_get_blob(&r);
	rc = row_close(&r);
	if (!rc)
		rc = split(l, sizes, data);
	if (rc == -ENOMEM)
		return store_fail(rv->err, rc, rv->st->path, "read: %s", err_str(rc));
	return rc ? damaged(rv, "the payload of a job does not match its sum") : 0;
}

/* ---- jobs ---- */

static int
read_payloads(struct recovery *rv, struct job_saved *j, int64_t id, int64_t run_id)
{
	/* What a finished instance left behind is of no use. */
	bool kept = j->pending != JOB_IDLE || j->running || j->dead;
	bool both = j->pending != JOB_IDLE && j->running;
	int rc = read_payload(rv, Q_PAYLOAD_GET, kept ? id : 0, j->key, &rv->parts);

	if (!rc)
		rc = read_payload(rv, Q_RUN_PAYLOAD_GET, both ? run_id : 0, j->key, &rv->run_parts);
	j->parts = rv->parts.v;
	j->n_parts = rv->parts.n;
	j->command = rv->parts.command;
	j->run_command = rv->run_parts.command;
	j->run_parts = rv->run_parts.v;
	j->n_run_parts = rv->run_parts.n;
	return rc;
}

/* A job with the payloads that its row names (0: none). */
static int
hand_over_job(struct recovery *rv, struct job_saved *j, int64_t id, int64_t run_id)
{
	int rc = read_payloads(rv, j, id, run_id);

	if (!rc)
		rc = handed_over(rv, rv->sink->job(rv->sink->ctx, j), "job");
	(void)sqlite3_reset(rv->st->q[Q_PAYLOAD_GET]);
	(void)sqlite3_reset(rv->st->q[Q_RUN_PAYLOAD_GET]);
	return rc;
}

static int
next_move(struct recovery *rv)
{
	int rc = rv->log ? merge_next(rv->log, &rv->next) : 0;

	if (rc < 0)
		return damaged(rv, "the log of moves does not make sense");
	rv->has_next = rc > 0;
	return 0;
}

/* What the log says next is of the queue that is being read. */
static bool
move_of_queue(const struct recovery *rv)
{
	return rv->has_next && rv->next.queue == rv->queue;
}

static void
take_position(struct job_saved *j, const int64_t *v)
{
#define X(f, ...) j->f = (__typeof__(j->f))v[POSITION_##f];
	JOB_FIELDS(X)
#undef X
}

/* A job that has no row yet. */
static int
moved_job(struct recovery *rv)
{
	struct job_saved j = { .queue = rv->queue_name, .key = rv->next.key };
	int rc = 0;

	if (!rv->next.removed) {
		take_position(&j, rv->next.v);
		rc = hand_over_job(rv, &j, 0, 0);
	}
	return rc ? rc : next_move(rv);
}

/* Reads the row's own position. */
static int
read_job(struct recovery *rv, sqlite3_stmt *q, struct job_saved *j, int64_t ids[2])
{
	struct row r = row_open(q, ROW_JOB, 0);

	row_mix_int(&r, rv->queue);
	j->key = row_get_blob(&r);
#define X(f, min, max) j->f = (__typeof__(j->f))row_get_int(&r, min, max);
	JOB_FIELDS(X)
#undef X
	ids[0] = sqlite3_column_int64(q, r.col + 1);
	ids[1] = sqlite3_column_int64(q, r.col + 2);
	return row_close(&r) ? damaged(rv, "a job does not match its sum") : 0;
}

static int
job_row(struct recovery *rv, sqlite3_stmt *q)
{
	struct job_saved j = { .queue = rv->queue_name };
	int64_t ids[2];
	int rc = read_job(rv, q, &j, ids), place = 1;

	while (!rc && move_of_queue(rv) && (place = moves_compare_keys(rv->next.key, j.key)) < 0)
		rc = moved_job(rv);
	if (rc)
		return rc;
	if (!move_of_queue(rv) || place != 0)
		return hand_over_job(rv, &j, ids[0], ids[1]);
	if (!rv->next.removed) {
		take_position(&j, rv->next.v);
		rc = hand_over_job(rv, &j, ids[0], ids[1]);
	}
	return rc ? rc : next_move(rv);
}

static int
jobs_of_queue(struct recovery *rv, sqlite3_stmt *q)
{
	bool paused;
	int rc = open_queue(rv, q, &paused);

	if (!rc && rv->has_next && rv->next.queue < rv->queue)
		rc = damaged(rv, "a move is of a queue that is missing");
	if (!rc)
		rc = bind_queue(rv, Q_JOBS);
	if (!rc)
		rc = each_row(rv, Q_JOBS, job_row);
	while (!rc && move_of_queue(rv))
		rc = moved_job(rv);
	return rc;
}

static int
open_moves(struct recovery *rv)
{
	int64_t last;
	int rc;

	if (!rv->st->q[Q_MOVED])
		return 0;
	rc = sq_moved_load(rv->st, &rv->log, &last);
	if (rc == ERR_DAMAGED)
		return damaged(rv, "the log of moves does not match its sums");
	if (rc)
		return store_fail(rv->err, rc, rv->st->path, "read: %s", err_str(rc));
	return next_move(rv);
}

static int
all_jobs(struct recovery *rv)
{
	int rc = open_moves(rv);

	if (!rc)
		rc = each_row(rv, Q_QUEUES, jobs_of_queue);
	if (!rc && rv->has_next)
		rc = damaged(rv, "a move is of a queue that is missing");
	merge_free(rv->log);
	rv->log = NULL;
	return rc;
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

static int
recover_all(struct recovery *rv)
{
	int64_t total = 0;
	int rc = 0;

	if (rv->sink->progress) {
		rc = sq_number(rv->st, Q_COUNT_ALL, &total);
		if (rc)
			return store_fail(rv->err, rc, rv->st->path, "count: %s", err_str(rc));
		rv->total = (uint64_t)total;
		rv->sink->progress(rv->sink->ctx, 0, rv->total);
	}
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
	x_free(rv.parts.v);
	x_free(rv.run_parts.v);
	if (!rc)
		st->trusted = true;
	return rc;
}
