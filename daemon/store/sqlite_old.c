/*
 * Databases of older schemas: read as they are, and made schema 4.
 *
 * Until schema 4 a job was one row of `job`, in (queue, key) order and with all of
 * its position, its payloads in rows of `payload` that it names. Schema 2 has a log
 * of moves that is newer than these rows (sqlite_moves.h); both are in the same order
 * and read in one pass. The numbers that jobs have from schema 4 on are given in that
 * order, so that a recovery before the upgrade and the upgrade agree.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/payload_bytes.h"
#include "store/sqlite_int.h"
#include "store/sqlite_moves.h"
#include "store/store_error.h"

#define SCHEMA_WITH_MOVED 2
#define COMMAND_MARK      'c' /* behind the sizes, from schema 3 on: the first part is one */

enum old_statement { OLD_QUEUES, OLD_JOBS, OLD_PAYLOAD, OLD_RUN_PAYLOAD, OLD_MOVED, OLD_COUNT };

static const char *const old_text[OLD_COUNT] = {
	[OLD_QUEUES] = "SELECT id FROM queue ORDER BY id",
	[OLD_JOBS] = "SELECT key, " JOB_FIELDS(AS_COLUMN) "sum, payload, run_payload FROM job"
							  " WHERE queue = ? ORDER BY key",
	[OLD_PAYLOAD] = "SELECT sizes, data, sum FROM payload WHERE id = ?",
	[OLD_RUN_PAYLOAD] = "SELECT sizes, data, sum FROM payload WHERE id = ?",
	[OLD_MOVED] = "SELECT id, moves, sum FROM moved ORDER BY id",
};

struct old_reader {
	struct sqlite_store *st;
	int (*each)(void *ctx, int64_t queue, const struct job_saved *j);
	void *ctx;
	const char *what;           /* is damaged */
	sqlite3_stmt *q[OLD_COUNT]; /* owned; NULL: not in this schema */
	struct part_list parts, run_parts;
	struct merge *log; /* owned */
	struct moved next; /* of the log, when has_next */
	bool has_next;
	int64_t queue;
	uint32_t id; /* given last */
};

static int
damaged(struct old_reader *o, const char *what)
{
	o->what = what;
	return ERR_DAMAGED;
}

/* ---- payloads ---- */

static uint32_t
get_u32(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* One part stands there as it is, without sizes; of several the sizes are in four bytes each. */
static int
split(struct part_list *l, struct str sizes, struct str data)
{
	size_t n, at = 0;
	struct str *v;

	l->command = sizes.n % 4 == 1 && sizes.p[sizes.n - 1] == COMMAND_MARK;
	sizes.n -= l->command;
	n = sizes.n ? sizes.n / 4 : 1;
	if (parts_reserve(l, n))
		return -ENOMEM;
	v = l->v;
	l->n = n;
	v[0] = data;
	for (size_t i = 0; sizes.n && i < n; i++) {
		size_t size = get_u32(sizes.p + 4 * i);

		if (size > data.n - at)
			return ERR_DAMAGED;
		v[i] = (struct str){ data.n ? data.p + at : NULL, size };
		at += size;
	}
	return sizes.n == 0 || (at == data.n && sizes.n % 4 == 0) ? 0 : ERR_DAMAGED;
}

/* What is in `l` is borrowed until the statement is reset. */
static int
read_payload(
	struct old_reader *o, enum old_statement s, int64_t id, struct str key, struct part_list *l)
{
	sqlite3_stmt *q = o->q[s];
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
		return damaged(o, "the payload of a job is missing");
	if (rc != SQLITE_ROW)
		return sq_error(o->st, rc);
	r = row_open(q, ROW_PAYLOAD, 0);
	row_mix_int(&r, o->queue);
	row_mix_blob(&r, key);
	sizes = row_get_blob(&r);
	data = row_get_blob(&r);
	rc = row_close(&r);
	if (!rc)
		rc = split(l, sizes, data);
	return rc == ERR_DAMAGED ? damaged(o, "the payload of a job does not match its sum") : rc;
}

/* ---- jobs ---- */

/* A job with the payloads that its row names (0: none). */
static int
hand_over(struct old_reader *o, struct job_saved *j, int64_t id, int64_t run_id)
{
	bool kept = j->pending != JOB_IDLE || j->running || j->dead;
	bool both = j->pending != JOB_IDLE && j->running;
	int rc = read_payload(o, OLD_PAYLOAD, kept ? id : 0, j->key, &o->parts);

	if (!rc)
		rc = read_payload(o, OLD_RUN_PAYLOAD, both ? run_id : 0, j->key, &o->run_parts);
	j->id = ++o->id;
	j->payload_changed = true;
	parts_of_job(j, &o->parts, &o->run_parts);
	if (!rc)
		rc = o->each(o->ctx, o->queue, j);
	(void)sqlite3_reset(o->q[OLD_PAYLOAD]);
	(void)sqlite3_reset(o->q[OLD_RUN_PAYLOAD]);
	return rc;
}

static int
next_move(struct old_reader *o)
{
	int rc = o->log ? merge_next(o->log, &o->next) : 0;

	o->has_next = rc > 0;
	return rc < 0 ? damaged(o, "the log of moves does not make sense") : 0;
}

/* What the log says next is of the queue that is being read. */
static bool
move_of_queue(const struct old_reader *o)
{
	return o->has_next && o->next.queue == o->queue;
}

static void
take_position(struct job_saved *j, const int64_t *v)
{
	struct position p;

	memcpy(p.v, v, sizeof p.v);
	position_to(&p, j);
}

/* A job that has no row. */
static int
moved_job(struct old_reader *o)
{
	struct job_saved j = { .key = o->next.key };
	int rc = 0;

	if (!o->next.removed) {
		take_position(&j, o->next.v);
		rc = hand_over(o, &j, 0, 0);
	}
	return rc ? rc : next_move(o);
}

static int
job_row(struct old_reader *o, sqlite3_stmt *q)
{
	struct row r = row_open(q, ROW_JOB, 0);
	struct job_saved j = { 0 };
	int64_t ids[2];
	int rc = 0, place = 1;

	row_mix_int(&r, o->queue);
	j.key = row_get_blob(&r);
#define X(f, min, max) j.f = (__typeof__(j.f))row_get_int(&r, min, max);
	JOB_FIELDS(X)
#undef X
	ids[0] = sqlite3_column_int64(q, r.col + 1);
	ids[1] = sqlite3_column_int64(q, r.col + 2);
	if (row_close(&r))
		return damaged(o, "a job does not match its sum");
	while (!rc && move_of_queue(o) && (place = moves_compare_keys(o->next.key, j.key)) < 0)
		rc = moved_job(o);
	if (rc)
		return rc;
	if (!move_of_queue(o) || place != 0)
		return hand_over(o, &j, ids[0], ids[1]);
	if (!o->next.removed) {
		take_position(&j, o->next.v);
		rc = hand_over(o, &j, ids[0], ids[1]);
	}
	return rc ? rc : next_move(o);
}

static int
jobs_of_queue(struct old_reader *o)
{
	sqlite3_stmt *q = o->q[OLD_JOBS];
	int rc = 0, step;

	if (o->has_next && o->next.queue < o->queue)
		return damaged(o, "a move is of a queue that is missing");
	step = sqlite3_bind_int64(q, 1, o->queue);
	while (!step && !rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		step = 0;
		rc = job_row(o, q);
	}
	if (!rc)
		rc = sq_error(o->st, step);
	(void)sqlite3_reset(q);
	while (!rc && move_of_queue(o))
		rc = moved_job(o);
	return rc;
}

static int
all_queues(struct old_reader *o)
{
	sqlite3_stmt *q = o->q[OLD_QUEUES];
	int rc = 0, step;

	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		o->queue = sqlite3_column_int64(q, 0);
		rc = jobs_of_queue(o);
	}
	if (!rc)
		rc = sq_error(o->st, step);
	(void)sqlite3_reset(q);
	if (!rc && o->has_next)
		rc = damaged(o, "a move is of a queue that is missing");
	return rc;
}

/* ---- the log ---- */

static int
moved_row(struct old_reader *o, sqlite3_stmt *q, int64_t *last)
{
	struct row r = row_open(q, ROW_MOVED, 0);
	int64_t id = row_get_int(&r, 1, INT64_MAX);
	struct str bytes = row_get_blob(&r);
	int rc = row_close(&r);

	if (!rc && *last && id != *last + 1)
		rc = ERR_DAMAGED; /* one is missing */
	if (!rc)
		rc = merge_add(o->log, (uint64_t)id, bytes);
	*last = id;
	return rc == ERR_DAMAGED ? damaged(o, "the log of moves does not match its sums") : rc;
}

static int
load_log(struct old_reader *o)
{
	sqlite3_stmt *q = o->q[OLD_MOVED];
	int64_t last = 0;
	int rc, step;

	if (!q)
		return 0;
	rc = merge_new(&o->log);
	if (rc)
		return rc;
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW)
		rc = moved_row(o, q, &last);
	if (!rc)
		rc = sq_error(o->st, step);
	(void)sqlite3_reset(q);
	return rc ? rc : next_move(o);
}

/* ---- all of it ---- */

static int
prepare(struct old_reader *o)
{
	int n = o->st->schema < SCHEMA_WITH_MOVED ? OLD_MOVED : OLD_COUNT, rc = SQLITE_OK;

	for (int i = 0; i < n && !rc; i++)
		rc = sqlite3_prepare_v2(o->st->db, old_text[i], -1, &o->q[i], NULL);
	/* "No such table": the statements are right, so the file is not. */
	return sq_error(o->st, rc == SQLITE_ERROR ? SQLITE_CORRUPT : rc);
}

int
sq_old_jobs(struct sqlite_store *st,
	int (*each)(void *ctx, int64_t queue, const struct job_saved *j), void *ctx,
	const char **what)
{
	struct old_reader o = { .st = st, .each = each, .ctx = ctx };
	int rc = prepare(&o);

	if (!rc)
		rc = load_log(&o);
	if (!rc)
		rc = all_queues(&o);
	for (int i = 0; i < OLD_COUNT; i++)
		(void)sqlite3_finalize(o.q[i]);
	merge_free(o.log);
	x_free(o.parts.v);
	x_free(o.run_parts.v);
	*what = o.what;
	return rc;
}

/* ---- the upgrade ---- */

struct upgrade {
	struct sqlite_store *st;
	sqlite3_stmt *job, *block; /* owned */
	struct block k;            /* being filled */
	uint32_t at;               /* its number */
};

static int
flush_block(struct upgrade *u)
{
	int rc = u->k.there ? sq_put_block_row(u->st, u->block, u->at, &u->k) : 0;

	u->k.there = 0;
	return rc;
}

static int
upgrade_job(void *ctx, int64_t queue, const struct job_saved *j)
{
	struct upgrade *u = ctx;
	unsigned slot = j->id % BLOCK_JOBS;
	int rc = block_of(j->id) == u->at ? 0 : flush_block(u);

	u->at = block_of(j->id);
	u->k.there |= (uint16_t)(1u << slot);
	position_of(j, &u->k.p[slot]);
	return rc ? rc : sq_put_job_row(u->st, u->job, queue, j);
}

static int
fill(struct upgrade *u)
{
	const char *what;
	int rc = sqlite3_prepare_v2(u->st->db,
		"INSERT INTO new_job (id, queue, key, payload, run_payload, sum)"
		" VALUES (?, ?, ?, ?, ?, ?)",
		-1, &u->job, NULL);

	if (!rc)
		rc = sqlite3_prepare_v2(u->st->db,
			"INSERT INTO position (block, positions, sum) VALUES (?, ?, ?)", -1,
			&u->block, NULL);
	rc = sq_error(u->st, rc);
	if (!rc)
		rc = sq_old_jobs(u->st, upgrade_job, u, &what);
	if (!rc)
		rc = flush_block(u);
	(void)sqlite3_finalize(u->job);
	(void)sqlite3_finalize(u->block);
	return rc;
}

static int
run_sql(struct sqlite_store *st, const char *sql)
{
	return sq_error(st, sqlite3_exec(st->db, sql, NULL, NULL, NULL));
}

/* Statements on tables that are about to go would be in the way. */
static void
forget_statements(struct sqlite_store *st)
{
	for (int i = Q_OF_SCHEMA_1; i < Q_COUNT; i++) {
		(void)sqlite3_finalize(st->q[i]);
		st->q[i] = NULL;
	}
}

static int
upgrade(struct sqlite_store *st)
{
	struct upgrade u = { .st = st };
	int rc = sq_run(st, Q_BEGIN);

	if (rc)
		return rc;
	rc = run_sql(st, SCHEMA_JOBS("new_job"));
	if (!rc)
		rc = fill(&u);
	if (!rc)
		rc = run_sql(st,
			"DROP TABLE job; DROP TABLE payload; DROP TABLE IF EXISTS moved;"
			"ALTER TABLE new_job RENAME TO job;" SCHEMA_MOVED SCHEMA_COMPLETION
			"PRAGMA user_version = 4;");
	rc = sq_end(st, rc);
	if (!rc)
		st->schema = STORE_SCHEMA_VERSION;
	return rc;
}

int
sq_upgrade(struct sqlite_store *st)
{
	int rc = 0;

	if (st->schema < STORE_SCHEMA_VERSION) {
		forget_statements(st);
		rc = upgrade(st);
	}
	return rc ? rc : sq_error(st, sq_prepare(st, Q_COUNT));
}
