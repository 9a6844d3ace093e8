/*
 * The puts of a group. They can't fail by themselves: the first failure is kept,
 * what follows is dropped, and the commit tells.
 *
 * The position of a job goes into the log of moves alone (sqlite_log.c); its row has
 * what does not move and is written when the job is new or its payload changes.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/payload_bytes.h"
#include "store/sqlite_int.h"

static void
note(struct sqlite_store *st, int rc)
{
	if (!st->failed)
		st->failed = rc;
}

/* Steps the statement of a filled row. */
static void
run_row(struct sqlite_store *st, const struct row *r)
{
	note(st, sq_run_row(st, r));
}

static struct sqlite_store *
put_store(void *ctx)
{
	struct sqlite_store *st = ctx;

	CHECK_OBJ(st, SQLITE_STORE_MAGIC);
	wq_assert(st->in_group);
	st->stats.puts++;
	return st;
}

/* ---- queues ---- */

static void
remember_queue(struct sqlite_store *st, struct str name, int64_t id)
{
	if (name.n > sizeof st->queue_name)
		return;
	memcpy(st->queue_name, name.p, name.n);
	st->queue_name_len = name.n;
	st->queue_id = id;
}

/* The id of a queue, 0 when it is not stored. */
static int64_t
queue_find(struct sqlite_store *st, struct str name)
{
	struct row r = row_begin(st->q[Q_QUEUE_FIND], ROW_NONE);
	int64_t id = 0;

	if (st->queue_name_len == name.n && memcmp(st->queue_name, name.p, name.n) == 0)
		return st->queue_id;
	row_blob(&r, name);
	note(st, r.rc ? sq_error(st, r.rc) : sq_number(st, Q_QUEUE_FIND, &id));
	if (id)
		remember_queue(st, name, id);
	return id;
}

static void
put_queue_row(struct sqlite_store *st, struct str name, bool paused)
{
	struct row r = row_begin(st->q[Q_QUEUE_PUT], ROW_QUEUE);

	row_blob(&r, name);
	row_int(&r, paused);
	(void)row_end(&r);
	run_row(st, &r);
}

/* The id of a queue that something belongs to. One that was never put (`default` need not be) has
 * the default settings. 0 when it failed. */
static int64_t
queue_of(struct sqlite_store *st, struct str name)
{
	int64_t id = queue_find(st, name);

	if (!id && !st->failed) {
		put_queue_row(st, name, false);
		id = st->failed ? 0 : queue_find(st, name);
	}
	return id;
}

static void
put_setting(struct sqlite_store *st, int64_t queue, const struct queue_settings *s,
	const struct setting *which)
{
	char value[256];
	size_t n = queue_settings_get(s, which, value, sizeof value);
	struct row r = row_begin(st->q[Q_SETTING_PUT], ROW_SETTING);

	row_int(&r, queue);
	row_text(&r, str_from(which->name));
	row_text(&r, (struct str){ value, n });
	(void)row_end(&r);
	run_row(st, &r);
}

static void
queue_put(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	struct sqlite_store *st = put_store(ctx);
	int64_t id;

	if (st->failed)
		return;
	put_queue_row(st, name, paused);
	id = st->failed ? 0 : queue_find(st, name);
	for (size_t i = 0; i < queue_setting_count && !st->failed; i++)
		put_setting(st, id, s, &queue_setting_table[i]);
}

/* Its jobs and runs have gone before it. */
static void
queue_remove(void *ctx, struct str name)
{
	static const enum statement all[] = { Q_SETTINGS_REMOVE, Q_QUEUE_REMOVE };
	struct sqlite_store *st = put_store(ctx);
	int64_t id = st->failed ? 0 : queue_find(st, name);

	for (size_t i = 0; id && i < ARRAY_SIZE(all) && !st->failed; i++)
		note(st, sq_run_on(st, all[i], id));
	st->queue_name_len = 0;
}

/* ---- jobs ---- */

static int
bind_payload(struct row *r, struct bytes *b, const struct str *parts, size_t n, bool command)
{
	row_mix_int(r, n > 0);
	if (n == 0) {
		row_plain_null(r);
		return 0;
	}
	if (parts_join(b, parts, n, command))
		return -ENOMEM;
	row_blob(r, (struct str){ (const char *)b->p, b->n });
	return 0;
}

int
sq_put_job_row(struct sqlite_store *st, sqlite3_stmt *q, int64_t queue, const struct job_saved *j)
{
	struct row r = row_begin(q, ROW_JOB_NAME);
	int rc;

	row_int(&r, j->id);
	row_int(&r, queue);
	row_blob(&r, j->key);
	rc = bind_payload(&r, &st->payload[0], j->parts, j->n_parts, j->command);
	if (!rc)
		rc = bind_payload(
			&r, &st->payload[1], j->run_parts, j->n_run_parts, j->run_command);
	if (rc)
		return rc;
	(void)row_end_short(&r);
	return sq_run_row(st, &r);
}

static bool
has_row(struct sqlite_store *st, uint32_t id)
{
	int64_t there = 0;
	int rc = sq_error(st, sqlite3_bind_int64(st->q[Q_JOB_THERE], 1, id));

	note(st, rc ? rc : sq_number(st, Q_JOB_THERE, &there));
	return there != 0;
}

static void
job_put(void *ctx, const struct job_saved *j)
{
	struct sqlite_store *st = put_store(ctx);
	struct job_saved row;
	int64_t queue;

	if (st->failed)
		return;
	wq_assert(j->id > 0 && j->id <= JOB_ID_MAX);
	if (j->moved) {
		note(st, sq_log_add(st, ENTRY_MOVED, j->id, j));
		return;
	}
	row = *j;
	row.boot = st->pub.meta.boot;
	queue = row.payload_changed || !has_row(st, row.id) ? queue_of(st, row.queue) : 0;
	if (queue && !st->failed)
		note(st, sq_put_job_row(st, st->q[Q_JOB_PUT], queue, &row));
	if (!st->failed)
		note(st, sq_log_add(st, ENTRY_PUT, row.id, &row));
}

static void
job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	struct sqlite_store *st = put_store(ctx);

	(void)queue, (void)key;
	if (st->failed)
		return;
	wq_assert(id > 0 && id <= JOB_ID_MAX);
	note(st, sq_run_on(st, Q_JOB_REMOVE, id));
	if (!st->failed)
		note(st, sq_log_add(st, ENTRY_REMOVED, id, NULL));
}

/* ---- runs, answers, completions ---- */

static void
run_add(void *ctx, uint64_t run_seq, const struct run_record *rec)
{
	struct sqlite_store *st = put_store(ctx);
	int64_t queue = st->failed ? 0 : queue_of(st, rec->queue);
	struct row r = row_begin(st->q[Q_RUN_ADD], ROW_RUN);

	if (st->failed)
		return;
	row_int(&r, (int64_t)run_seq);
	row_int(&r, queue);
	row_blob(&r, rec->key);
	row_blob(&r, rec->output);
#define X(f, ...) row_int(&r, (int64_t)rec->f);
	RUN_FIELDS(X)
#undef X
	(void)row_end(&r);
	run_row(st, &r);
}

static void
run_remove(void *ctx, uint64_t run_seq)
{
	struct sqlite_store *st = put_store(ctx);

	if (!st->failed)
		note(st, sq_run_on(st, Q_RUN_REMOVE, (int64_t)run_seq));
}

static void
answer_put(void *ctx, const struct answer_saved *a)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_ANSWER_PUT], ROW_ANSWER);
	struct job_reply reply = a->reply;

	if (st->failed)
		return;
	reply.status = (enum status)((int)reply.status | (int)a->asked << ANSWER_ASKED_SHIFT);
	row_blob(&r, a->id);
	row_blob(&r, a->reply.queue);
	row_blob(&r, a->reply.key);
	row_int(&r, a->until_wall_ns);
#define X(f, ...) row_int(&r, (int64_t)reply.f);
	ANSWER_FIELDS(X)
#undef X
	(void)row_end(&r);
	run_row(st, &r);
}

static void
answer_remove(void *ctx, struct str id)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_ANSWER_REMOVE], ROW_NONE);

	if (st->failed)
		return;
	row_blob(&r, id);
	run_row(st, &r);
}

static void
completion_put(void *ctx, const struct completion_saved *c)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_COMPLETION_PUT], ROW_COMPLETION);

	if (st->failed)
		return;
	row_blob(&r, c->name);
#define X(f, ...) row_int(&r, (int64_t)c->f);
	COMPLETION_FIELDS(X)
#undef X
	(void)row_end(&r);
	run_row(st, &r);
}

static void
completion_remove(void *ctx, struct str name)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_COMPLETION_REMOVE], ROW_NONE);

	if (st->failed)
		return;
	row_blob(&r, name);
	run_row(st, &r);
}

/* ---- life ---- */

void
sq_put_init(struct sqlite_store *st)
{
	st->sink = (struct persist_sink){
		.ctx = st,
		.queue_put = queue_put,
		.queue_remove = queue_remove,
		.job_put = job_put,
		.job_remove = job_remove,
		.run_add = run_add,
		.run_remove = run_remove,
		.answer_put = answer_put,
		.answer_remove = answer_remove,
		.completion_put = completion_put,
		.completion_remove = completion_remove,
	};
}

void
sq_put_done(struct sqlite_store *st)
{
	bytes_done(&st->payload[0]);
	bytes_done(&st->payload[1]);
}

void
sq_put_forget(struct sqlite_store *st)
{
	st->queue_name_len = 0;
}
