/*
 * The puts of a group. They can't fail by themselves: the first failure is kept,
 * what follows is dropped, and the commit tells.
 *
 * A job that only moved goes into the log of moves alone. When its payloads changed,
 * their rows are written first and the job's row then says where they are; it is
 * in the log as well, which counts more (sqlite_moved.c). A row
 * of `payload` keeps its place as long as the job has a payload of that kind.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/sqlite_int.h"

static void
note(struct sqlite_store *st, int rc)
{
	if (!st->failed)
		st->failed = rc;
}

/* Steps the statement of a filled row. */
static void
run_row(struct sqlite_store *st, struct row *r, enum statement s)
{
	note(st, r->rc ? sq_error(st, r->rc) : sq_run(st, s));
}

/* Runs a statement whose one parameter is a number. */
static void
run_on(struct sqlite_store *st, enum statement s, int64_t v)
{
	struct row r = row_begin(st->q[s], ROW_NONE);

	row_plain_int(&r, v);
	run_row(st, &r, s);
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

/* Into the log of moves, unless this group does without. */
static void
log_move(struct sqlite_store *st, enum move_kind kind, int64_t queue, struct str key,
	const struct job_saved *j)
{
	if (!st->direct)
		note(st, moves_add(&st->moves, kind, queue, key, j));
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
	run_row(st, &r, Q_QUEUE_PUT);
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
	run_row(st, &r, Q_SETTING_PUT);
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

static void
queue_remove(void *ctx, struct str name)
{
	static const enum statement all[] = { Q_PAYLOADS_REMOVE, Q_JOBS_REMOVE, Q_RUNS_REMOVE,
		Q_SETTINGS_REMOVE, Q_QUEUE_REMOVE };
	struct sqlite_store *st = put_store(ctx);
	int64_t id = st->failed ? 0 : queue_find(st, name);

	for (size_t i = 0; id && i < ARRAY_SIZE(all) && !st->failed; i++)
		run_on(st, all[i], id);
	if (id) {
		/* What is being folded could still bring jobs of it back. */
		sq_moved_abandon(st);
		log_move(st, MOVE_QUEUE_REMOVED, id, STR_NONE, NULL);
	}
	st->queue_name_len = 0;
}

/* ---- payloads ---- */

static void
put_u32(char *dst, size_t v)
{
	for (int i = 0; i < 4; i++)
		dst[i] = (char)(v >> 8 * i);
}

static int
grow(char **p, size_t n)
{
	char *q = x_realloc(*p, n, 1);

	if (!q)
		return -ENOMEM;
	*p = q;
	return 0;
}

/*
 * One part is stored as it is, with no sizes; several, or a command, are joined, their sizes beside
 * them in four bytes each, least first. Where the first is a command a byte more says so.
 */
static int
join(struct sqlite_store *st, const struct str *parts, size_t n, bool command, struct str *sizes,
	struct str *data)
{
	size_t bytes = 0, at = 0;
	int rc;

	*sizes = STR_NONE;
	*data = parts[0];
	if (n == 1 && !command)
		return 0;
	for (size_t i = 0; i < n; i++)
		bytes += parts[i].n;
	rc = grow(&st->sizes, n * 4 + 1);
	if (!rc)
		rc = grow(&st->data, bytes);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		put_u32(st->sizes + 4 * i, parts[i].n);
		if (parts[i].n > 0)
			memcpy(st->data + at, parts[i].p, parts[i].n);
		at += parts[i].n;
	}
	st->sizes[n * 4] = PAYLOAD_COMMAND_MARK;
	*sizes = (struct str){ st->sizes, n * 4 + command };
	*data = (struct str){ st->data, bytes };
	return 0;
}

/* Brings the payload row `id` (0: none yet) up to date. Returns its id, 0 when none is needed. */
static int64_t
put_payload(struct sqlite_store *st, int64_t id, int64_t queue, struct str key,
	const struct str *parts, size_t n, bool command)
{
	struct row r = row_begin(st->q[Q_PAYLOAD_PUT], ROW_PAYLOAD);
	struct str sizes, data;
	int rc;

	if (n == 0) {
		if (id)
			run_on(st, Q_PAYLOAD_REMOVE, id);
		return 0;
	}
	rc = join(st, parts, n, command, &sizes, &data);
	if (rc) {
		note(st, rc);
		return id;
	}
	row_mix_int(&r, queue);
	row_mix_blob(&r, key);
	if (id)
		row_plain_int(&r, id);
	else
		row_plain_null(&r);
	row_blob(&r, sizes);
	row_blob(&r, data);
	(void)row_end(&r);
	run_row(st, &r, Q_PAYLOAD_PUT);
	return id ? id : sqlite3_last_insert_rowid(st->db);
}

/* Where the job's payloads are; 0 for none. */
static void
find_payloads(struct sqlite_store *st, int64_t queue, struct str key, int64_t ids[2])
{
	sqlite3_stmt *q = st->q[Q_JOB_PAYLOADS];
	struct row r = row_begin(q, ROW_NONE);
	int rc;

	row_plain_int(&r, queue);
	row_blob(&r, key);
	rc = r.rc ? r.rc : sqlite3_step(q);
	for (int i = 0; i < 2; i++)
		ids[i] = rc == SQLITE_ROW ? sqlite3_column_int64(q, i) : 0;
	note(st, sq_error(st, rc));
	(void)sqlite3_reset(q);
}

/* ---- jobs ---- */

static void
fill_job(struct row *r, int64_t queue, const struct job_saved *j)
{
	row_int(r, queue);
	row_blob(r, j->key);
#define X(f, ...) row_int(r, (int64_t)j->f);
	JOB_FIELDS(X)
#undef X
	(void)row_end(r);
}

static void
plain_id(struct row *r, int64_t id)
{
	if (id)
		row_plain_int(r, id);
	else
		row_plain_null(r);
}

static void
job_straight(struct sqlite_store *st, int64_t queue, const struct job_saved *j)
{
	struct row r = row_begin(st->q[Q_JOB_MOVE], ROW_JOB);

	fill_job(&r, queue, j);
	run_row(st, &r, Q_JOB_MOVE);
}

static void
job_with_payload(struct sqlite_store *st, int64_t queue, const struct job_saved *j)
{
	struct row r = row_begin(st->q[Q_JOB_PUT], ROW_JOB);
	int64_t ids[2];

	find_payloads(st, queue, j->key, ids);
	if (!st->failed)
		ids[0] = put_payload(st, ids[0], queue, j->key, j->parts, j->n_parts, j->command);
	if (!st->failed)
		ids[1] = put_payload(
			st, ids[1], queue, j->key, j->run_parts, j->n_run_parts, j->run_command);
	if (st->failed)
		return;
	fill_job(&r, queue, j);
	plain_id(&r, ids[0]);
	plain_id(&r, ids[1]);
	run_row(st, &r, Q_JOB_PUT);
}

static void
job_put(void *ctx, const struct job_saved *j)
{
	struct sqlite_store *st = put_store(ctx);
	int64_t queue = st->failed ? 0 : queue_of(st, j->queue);
	struct job_saved row = *j;

	if (st->failed)
		return;
	row.boot = st->pub.meta.boot;
	if (row.payload_changed)
		job_with_payload(st, queue, &row);
	else if (st->direct)
		job_straight(st, queue, &row);
	log_move(st, MOVE_PUT, queue, row.key, &row);
}

static void
job_remove(void *ctx, struct str queue_name, struct str key)
{
	struct sqlite_store *st = put_store(ctx);
	int64_t queue = st->failed ? 0 : queue_find(st, queue_name), ids[2];
	struct row r = row_begin(st->q[Q_JOB_REMOVE], ROW_NONE);

	if (st->failed || !queue)
		return;
	find_payloads(st, queue, key, ids);
	for (int i = 0; i < 2 && !st->failed; i++)
		if (ids[i])
			run_on(st, Q_PAYLOAD_REMOVE, ids[i]);
	if (st->failed)
		return;
	row_plain_int(&r, queue);
	row_blob(&r, key);
	run_row(st, &r, Q_JOB_REMOVE);
	log_move(st, MOVE_REMOVED, queue, key, NULL);
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
	run_row(st, &r, Q_RUN_ADD);
}

static void
run_remove(void *ctx, uint64_t run_seq)
{
	struct sqlite_store *st = put_store(ctx);

	if (!st->failed)
		run_on(st, Q_RUN_REMOVE, (int64_t)run_seq);
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
	run_row(st, &r, Q_ANSWER_PUT);
}

static void
answer_remove(void *ctx, struct str id)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_ANSWER_REMOVE], ROW_NONE);

	if (st->failed)
		return;
	row_blob(&r, id);
	run_row(st, &r, Q_ANSWER_REMOVE);
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
	run_row(st, &r, Q_COMPLETION_PUT);
}

static void
completion_remove(void *ctx, struct str name)
{
	struct sqlite_store *st = put_store(ctx);
	struct row r = row_begin(st->q[Q_COMPLETION_REMOVE], ROW_NONE);

	if (st->failed)
		return;
	row_blob(&r, name);
	run_row(st, &r, Q_COMPLETION_REMOVE);
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
	x_free(st->sizes);
	x_free(st->data);
}

void
sq_put_forget(struct sqlite_store *st)
{
	st->queue_name_len = 0;
}
