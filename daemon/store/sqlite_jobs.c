/*
 * Reading the jobs back, in the order of their numbers.
 *
 * Rows of jobs, blocks of positions and the log of moves are in the same order of
 * numbers, the log after it was laid over a range of them: one pass over the first two
 * gives every job with the newest that is known of it. In memory are one row, one
 * block and one range, whatever the number of jobs, and a few MiB of rows under way.
 *
 * Two threads share the work (feed.h): one has SQLite and copies raw rows, in this
 * order; the caller's has their sums, what they mean, and whoever receives the jobs.
 *
 *   RANGE  MOVED ...  { BLOCK ... JOB } ...  RANGE  MOVED ...  ...  BLOCK ...
 *
 * RANGE begins the next range of numbers: behind it are all rows of the log, then the
 * jobs of the range, before each the blocks up to its own.
 *
 * While the other thread runs the connection is its own, and nothing of the store is
 * changed by either.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/payload_bytes.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

enum { FED_RANGE, FED_MOVED, FED_BLOCK, FED_JOB };

/* ---- the reader's thread ---- */

/* Its statement Q_JOBS is one step, which calls on_feed with each row: that takes half the time of a
 * step for each. */
struct reader {
	struct sqlite_store *st;
	struct feed *feed;
	uint32_t top;      /* no number is greater */
	int64_t log_last;  /* 0: the log is empty */
	int64_t range_end; /* first number behind the range */
	int step;          /* of Q_BLOCKS: SQLITE_ROW while it stands on one */
	int failed;        /* SQLite's error, for the caller to tell */
	int rc;            /* of the job handed over last */
};

/* Our code for what SQLite said, kept; 0 for a row or the end. */
static int
said(struct reader *rd, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 0;
	rd->failed = rc;
	return ERR_STORE;
}

static int
feed_blocks(struct reader *rd, int64_t before)
{
	sqlite3_stmt *q = rd->st->q[Q_BLOCKS];
	int rc = 0;

	while (!rc && rd->step == SQLITE_ROW && sqlite3_column_int64(q, 0) < before) {
		rc = row_feed(rd->feed, FED_BLOCK, q);
		if (!rc)
			rc = said(rd, rd->step = sqlite3_step(q));
	}
	return rc;
}

static int
feed_log(struct reader *rd)
{
	sqlite3_stmt *q = rd->st->q[Q_MOVED];
	int rc = said(rd, sqlite3_bind_int64(q, 1, rd->st->log.first)), step = SQLITE_DONE;

	if (!rc)
		rc = said(rd, sqlite3_bind_int64(q, 2, rd->log_last));
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW)
		rc = row_feed(rd->feed, FED_MOVED, q);
	if (!rc)
		rc = said(rd, step);
	(void)sqlite3_reset(q);
	return rc;
}

static int
feed_range(struct reader *rd)
{
	struct fed *row;
	char *space;
	int rc = feed_blocks(rd, rd->range_end / BLOCK_JOBS);

	if (!rc)
		rc = feed_put(rd->feed, FED_RANGE, 0, 0, &row, &space);
	if (!rc && rd->log_last > 0)
		rc = feed_log(rd);
	rd->range_end += overlay_span(rd->top);
	return rc;
}

/* One that is out of range has no ranges and blocks: it is for the user to refuse. */
static int
feed_job(struct reader *rd, int n, sqlite3_value **v)
{
	int64_t id = sqlite3_value_int64(v[0]);
	int rc = 0;

	while (!rc && id >= rd->range_end && id <= rd->top)
		rc = feed_range(rd);
	if (!rc)
		rc = feed_blocks(rd, id / BLOCK_JOBS + 1);
	return rc ? rc : row_feed_values(rd->feed, FED_JOB, n, v);
}

/* wqd_feed(): false, so that the query has no rows. */
static void
on_feed(sqlite3_context *c, int n, sqlite3_value **v)
{
	struct sqlite_store *st = sqlite3_user_data(c);

	wq_assert(st->reader);
	st->reader->rc = feed_job(st->reader, n, v);
	if (st->reader->rc)
		sqlite3_result_error_code(c, SQLITE_ABORT);
	else
		sqlite3_result_int(c, 0);
}

int
sq_jobs_init(struct sqlite_store *st)
{
	return sqlite3_create_function_v2(st->db, "wqd_feed", 6, SQLITE_UTF8 | SQLITE_DIRECTONLY,
		st, on_feed, NULL, NULL, NULL);
}

static int
read_jobs(void *ctx, struct feed *f)
{
	struct reader *rd = ctx;
	sqlite3_stmt *jobs = rd->st->q[Q_JOBS], *blocks = rd->st->q[Q_BLOCKS];
	int rc, step;

	rd->feed = f;
	rc = said(rd, rd->step = sqlite3_step(blocks));
	if (!rc)
		rc = feed_range(rd);
	if (!rc) {
		step = sqlite3_step(jobs);
		rc = rd->rc ? rd->rc : said(rd, step);
	}
	while (!rc && rd->range_end <= rd->top)
		rc = feed_range(rd);
	if (!rc)
		rc = feed_blocks(rd, INT64_MAX);
	(void)sqlite3_reset(jobs);
	(void)sqlite3_reset(blocks);
	return rc;
}

/* ---- the caller's ---- */

struct reading {
	struct sqlite_store *st;
	struct store_error *err;
	int (*each)(void *ctx, int64_t queue, struct job_saved *j);
	void (*ahead)(void *ctx, int64_t queue, struct str key);
	void *ctx;
	struct reader *rd;
	struct part_list parts, run_parts;
	struct overlay log;  /* of the range that is being read; of an empty log there is none */
	int64_t log_at;      /* number of the next row of the log */
	int64_t range;       /* first number of the next range */
	uint32_t last;       /* number of the job before */
	int64_t last_block;  /* -1: none yet */
	bool has_block;      /* `block` is number last_block */
	uint16_t block_seen; /* those that a job was found for */
	struct block block;
	bool damaged;
};

static int
damaged(struct reading *rg, const char *what)
{
	rg->damaged = true;
	return store_fail(rg->err, ERR_DAMAGED, rg->st->path, "%s", what);
}

static int
failed(struct reading *rg, int rc, const char *what)
{
	return rc == ERR_DAMAGED ? damaged(rg, what)
				 : store_fail(rg->err, rc, rg->st->path, "read: %s", err_str(rc));
}

/* ---- where jobs stand ---- */

/* A position without a job is one that the log says was removed. */
static int
close_block(struct reading *rg)
{
	struct position unused;

	for (unsigned i = 0; rg->has_block && i < BLOCK_JOBS; i++)
		if (rg->block.there & ~rg->block_seen & 1u << i &&
			overlay_apply(&rg->log, (uint32_t)rg->last_block * BLOCK_JOBS + i, true,
				&unused) != OVERLAY_REMOVED)
			return damaged(rg, "a position is of a job that is missing");
	rg->has_block = false;
	return 0;
}

static int
on_block(struct reading *rg, const struct fed *f)
{
	uint32_t number;
	size_t bytes;
	int rc = close_block(rg);

	if (rc)
		return rc;
	if (sq_block_row(row_of_cells(f, ROW_BLOCK), &number, &rg->block, &bytes) ||
		(int64_t)number <= rg->last_block)
		return damaged(rg, "positions do not match their sum");
	rg->has_block = true;
	rg->last_block = number;
	rg->block_seen = 0;
	return 0;
}

/* All jobs of the range have been read. */
static int
close_range(struct reading *rg)
{
	int rc = close_block(rg);

	if (!rc && rg->range > 0 && rg->rd->log_last > 0 && rg->log_at <= rg->rd->log_last)
		rc = damaged(rg, "a part of the log of moves is missing");
	if (!rc && overlay_left(&rg->log))
		rc = damaged(rg, "a move is of a job that is missing");
	return rc;
}

static int
on_range(struct reading *rg)
{
	uint32_t span = overlay_span(rg->rd->top);
	int rc = close_range(rg);

	if (!rc && rg->rd->log_last > 0) {
		rc = overlay_begin(&rg->log, (uint32_t)rg->range, span);
		rc = rc ? failed(rg, rc, "") : 0;
	}
	rg->log_at = rg->st->log.first;
	rg->range += span;
	return rc;
}

static int
on_moved(struct reading *rg, const struct fed *f)
{
	int64_t wall_ns;
	int rc = sq_moved_row(row_of_cells(f, ROW_MOVED), rg->log_at++, &rg->log, &wall_ns);

	return rc ? failed(rg, rc, "the log of moves does not match its sums") : 0;
}

/* Where job `id` stands, by block and log. */
static int
find_position(struct reading *rg, uint32_t id, struct position *p)
{
	unsigned slot = id % BLOCK_JOBS;
	bool was = rg->has_block && rg->last_block == block_of(id) && rg->block.there >> slot & 1;
	int word;

	if (was) {
		*p = rg->block.p[slot];
		rg->block_seen |= (uint16_t)(1u << slot);
	}
	word = overlay_apply(&rg->log, id, was, p);
	overlay_seen(&rg->log, id);
	if (word == OVERLAY_THERE || (word == OVERLAY_NOTHING && was))
		return 0;
	return damaged(rg, "the position of a job is missing");
}

/* ---- jobs ---- */

static struct str
get_payload(struct row *r)
{
	bool there = row_has(r);

	row_mix_int(r, there);
	if (there)
		return row_get_blob(r);
	row_skip(r);
	return STR_NONE;
}

static int
read_payloads(struct reading *rg, struct job_saved *j, struct str own, struct str run)
{
	int rc = parts_split(&rg->parts, own);

	if (!rc)
		rc = parts_split(&rg->run_parts, run);
	parts_of_job(j, &rg->parts, &rg->run_parts);
	return rc ? failed(rg, rc, "the payload of a job does not make sense") : 0;
}

static int
on_job(struct reading *rg, const struct fed *f)
{
	struct row r = row_of_cells(f, ROW_JOB_NAME);
	uint32_t id = (uint32_t)row_get_int(&r, rg->last + 1ll, rg->rd->top);
	int64_t queue = row_get_int(&r, 1, INT64_MAX);
	struct job_saved j = { .key = row_get_blob(&r) };
	struct str own = get_payload(&r), run = get_payload(&r);
	struct position p;
	int rc;

	if (row_close_short(&r))
		return damaged(rg, "a job does not match its sum");
	rg->last = id;
	rc = find_position(rg, id, &p);
	if (rc)
		return rc;
	position_to(&p, &j);
	j.id = id;
	rc = read_payloads(rg, &j, own, run);
	return rc ? rc : rg->each(rg->ctx, queue, &j);
}

static int
on_row(struct reading *rg, const struct fed *f)
{
	switch (f->kind) {
	case FED_RANGE:
		return on_range(rg);
	case FED_MOVED:
		return on_moved(rg, f);
	case FED_BLOCK:
		return on_block(rg, f);
	case FED_JOB:
		return on_job(rg, f);
	}
	return damaged(rg, "a row of no kind");
}

/* Not yet known to be in order, nor needed to be. */
static void
look_ahead(struct reading *rg, const struct fed *f)
{
	if (rg->ahead && f && f->kind == FED_JOB && f->cell[1].type == CELL_INT &&
		f->cell[2].type == CELL_BYTES)
		rg->ahead(rg->ctx, f->cell[1].i, (struct str){ f->cell[2].p, f->cell[2].n });
}

/* ---- all of it ---- */

static int
use_rows(struct reading *rg, struct feed *f)
{
	const struct fed *row;
	int rc, more;

	while ((more = feed_next(f, &row)) == 1) {
		look_ahead(rg, feed_peek(f));
		rc = on_row(rg, row);
		if (rc)
			return rc;
	}
	if (more == 0)
		return close_range(rg);
	/* With SQLite's error the reader has ended, and the connection is ours. */
	return rg->rd->failed ? sq_fail(rg->st, rg->rd->failed, rg->err, "read")
			      : failed(rg, more, "");
}

int
sq_newest_jobs(struct sqlite_store *st, int (*each)(void *ctx, int64_t queue, struct job_saved *j),
	void (*ahead)(void *ctx, int64_t queue, struct str key), void *ctx, struct store_error *err)
{
	struct reader rd = { .st = st };
	struct reading rg = { .st = st,
		.err = err,
		.each = each,
		.ahead = ahead,
		.ctx = ctx,
		.rd = &rd,
		.last_block = -1 };
	struct feed *f = NULL;
	int rc = sq_log_size(st, &rd.top, &rd.log_last);

	st->reader = &rd;
	if (!rc)
		rc = feed_start(&f, read_jobs, &rd);
	rc = rc ? failed(&rg, rc, "its tables do not make sense") : use_rows(&rg, f);
	feed_end(f);
	st->reader = NULL;
	x_free(rg.parts.v);
	x_free(rg.run_parts.v);
	overlay_done(&rg.log);
	if (rg.damaged)
		st->damaged = true;
	return rc;
}
