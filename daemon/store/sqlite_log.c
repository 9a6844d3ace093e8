/*
 * The log of moves: table `moved`, a row a group. What a group changed of the
 * positions of jobs stands there in a few bytes each; the blocks of table
 * `position` follow later, in the order of their numbers, so that a job which moved
 * many times, and jobs that are neighbours, cost one write. What the log says of a
 * job is newer than its block.
 *
 * Folding starts when the log is a good deal larger than the blocks, or when there is
 * nothing else to do. It goes on a piece with each group, in its transaction and in
 * proportion to what the group writes, so that no commit waits for it, or piece by
 * piece while nothing is asked for:
 *
 *            begun              read to its end        no more ranges
 *    NONE ----------> READING ------------------> WRITING -----------> CLEARING
 *      ^                 ^                           |                    |
 *      |                 +---- the next range -------+                    |
 *      +------------- the rows that were folded are gone -----------------+
 *
 * READING lays the rows that the log had when it began over one range of numbers;
 * WRITING brings the blocks of that range up to date; CLEARING removes these rows,
 * oldest first. Folding over again changes nothing, so that it is forgotten whenever a
 * transaction fails or the daemon ends: until CLEARING the log has everything.
 *
 * On a full disk everything is folded at once, in pieces that get smaller, each of
 * which goes back into the main file before the next: the log's pages are then free for
 * the groups that follow.
 */
#include <errno.h>

#include "base/err.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

/* The log may be so much larger than the blocks, within these. Folding random jobs writes all
 * blocks, into the log of the database and from there to their place. */
#define CAP_LEAST (2ll << 20)
#define CAP_MOST  (256ll << 20)
#define CAP_NUM   3
#define CAP_DENOM 2
/* What reading a row costs, and its place in the table, in bytes. */
#define ROW_COST 128
/* Bytes worked on for each byte that a group adds: the log grows by a third meanwhile. */
#define FOLD_FACTOR 8
/* Worked on at a time when nothing is asked for, and the least log that is then worth it. */
#define IDLE_PIECE (256u << 10)
#define IDLE_LEAST (128 << 10)
/* What looking at a block that nothing touches costs. */
#define LOOK_COST 16
/* Groups before which all is folded, after the disk was full. */
#define TIGHT_GROUPS 64
/* The log is let be below this size even so. */
#define TIGHT_LEAST (64 << 10)

static int64_t
log_size(const struct sqlite_store *st)
{
	return st->log.bytes + st->log.rows * ROW_COST;
}

/* ---- what there is ---- */

static int
look_at_log(struct sqlite_store *st)
{
	sqlite3_stmt *q = st->q[Q_MOVED_COUNT];
	struct sqlite_log *l = &st->log;
	int rc = sqlite3_step(q);

	l->rows = sqlite3_column_int64(q, 0);
	l->bytes = sqlite3_column_int64(q, 1);
	l->first = sqlite3_column_int64(q, 2);
	l->last = sqlite3_column_int64(q, 3);
	rc = sq_error(st, rc);
	(void)sqlite3_reset(q);
	return rc;
}

/* What stands in the database, once, and again after a transaction that was rolled back. */
static int
look(struct sqlite_store *st)
{
	struct sqlite_log *l = &st->log;
	int64_t top = 0;
	int rc;

	if (l->known)
		return 0;
	rc = look_at_log(st);
	if (!rc)
		rc = sq_number(st, Q_BLOCKS_BYTES, &l->block_bytes);
	if (!rc)
		rc = sq_number(st, Q_JOB_TOP, &top);
	if (rc)
		return rc;
	if (top > (int64_t)l->top)
		l->top = top < JOB_ID_MAX ? (uint32_t)top : JOB_ID_MAX;
	l->known = true;
	return 0;
}

int
sq_log_size(struct sqlite_store *st, uint32_t *top, int64_t *last)
{
	int rc = look(st);

	*top = st->log.top;
	*last = st->log.last;
	return rc;
}

int
sq_moved_row(struct row r, int64_t want, struct overlay *o, int64_t *wall_ns)
{
	int64_t id = row_get_int(&r, want, want);
	struct str bytes;
	int rc;

	(void)id;
	*wall_ns = row_get_int(&r, INT64_MIN, INT64_MAX);
	bytes = row_get_blob(&r);
	rc = row_close(&r);
	return rc || !o ? rc : overlay_add(o, bytes);
}

/* The one that Q_MOVED stands on. */
static int
take_row(struct sqlite_store *st, int64_t want, struct overlay *o, int64_t *wall_ns)
{
	int rc = sq_moved_row(row_open(st->q[Q_MOVED], ROW_MOVED, 0), want, o, wall_ns);

	if (rc == ERR_DAMAGED)
		st->damaged = true;
	return rc;
}

static int
bind_two(struct sqlite_store *st, enum statement s, int64_t a, int64_t b)
{
	struct row r = row_begin(st->q[s], ROW_NONE);

	row_plain_int(&r, a);
	row_plain_int(&r, b);
	return r.rc ? sq_error(st, r.rc) : 0;
}

/* sq_log_read, and the time of the last row that was read. */
static int
read_rows(struct sqlite_store *st, struct overlay *o, int64_t *at, int64_t last, size_t budget,
	int64_t *wall_ns)
{
	sqlite3_stmt *q = st->q[Q_MOVED];
	int rc = bind_two(st, Q_MOVED, *at, last), step = SQLITE_DONE;
	size_t spent = 0;

	while (!rc && spent < budget && (step = sqlite3_step(q)) == SQLITE_ROW) {
		spent += (size_t)sqlite3_column_bytes(q, 2) + ROW_COST;
		rc = take_row(st, *at, o, wall_ns);
		++*at;
	}
	if (!rc)
		rc = sq_error(st, step);
	(void)sqlite3_reset(q);
	if (!rc && step == SQLITE_DONE && *at <= last) {
		st->damaged = true; /* one is missing */
		rc = ERR_DAMAGED;
	}
	return rc;
}

int
sq_log_read(struct sqlite_store *st, struct overlay *o, int64_t *at, int64_t last, size_t budget)
{
	int64_t wall_ns;

	return read_rows(st, o, at, last, budget, &wall_ns);
}

int
sq_log_wall(struct sqlite_store *st, int64_t *wall_ns)
{
	const struct sqlite_log *l = &st->log;
	int rc = look(st);
	int64_t at = l->last;

	if (rc || l->rows == 0)
		return rc;
	if (l->last - l->first + 1 != l->rows)
		return ERR_DAMAGED;
	return read_rows(st, NULL, &at, l->last, SIZE_MAX, wall_ns);
}

/* ---- blocks ---- */

int
sq_block_row(struct row r, uint32_t *number, struct block *k, size_t *bytes)
{
	struct str positions;

	*number = (uint32_t)row_get_int(&r, 0, block_of(JOB_ID_MAX));
	positions = row_get_blob(&r);
	*bytes = positions.n;
	return row_close_short(&r) ? ERR_DAMAGED : block_read(k, positions);
}

/* An empty one where there is none. */
static int
block_get(struct sqlite_store *st, uint32_t number, struct block *k, size_t *bytes)
{
	sqlite3_stmt *q = st->q[Q_BLOCK_GET];
	int rc = sq_error(st, sqlite3_bind_int64(q, 1, number)), step;

	k->there = 0;
	*bytes = 0;
	if (rc)
		return rc;
	step = sqlite3_step(q);
	rc = step == SQLITE_ROW ? sq_block_row(row_open(q, ROW_BLOCK, 0), &number, k, bytes)
				: sq_error(st, step);
	(void)sqlite3_reset(q);
	if (rc == ERR_DAMAGED)
		st->damaged = true;
	return rc;
}

int
sq_put_block_row(struct sqlite_store *st, sqlite3_stmt *q, uint32_t number, const struct block *k)
{
	struct row r = row_begin(q, ROW_BLOCK);
	int rc = block_write(k, &st->block);

	if (rc)
		return rc;
	row_int(&r, number);
	row_blob(&r, (struct str){ (const char *)st->block.p, st->block.n });
	(void)row_end_short(&r);
	return sq_run_row(st, &r);
}

/* Brings one block up to date, *cost in bytes. */
static int
fold_block(struct sqlite_store *st, uint32_t number, size_t *cost)
{
	struct overlay *o = &st->log.overlay;
	struct block k;
	size_t before, after;
	int rc;

	*cost = LOOK_COST;
	if (!overlay_touches(o, number))
		return 0;
	rc = block_get(st, number, &k, &before);
	for (unsigned i = 0; !rc && i < BLOCK_JOBS; i++) {
		uint16_t bit = (uint16_t)(1u << i);
		int word = overlay_apply(o, number * BLOCK_JOBS + i, (k.there & bit) != 0, &k.p[i]);

		if (word == OVERLAY_THERE)
			k.there |= bit;
		else if (word == OVERLAY_REMOVED)
			k.there &= (uint16_t)~bit;
		else if (word < 0)
			rc = word;
	}
	if (rc == ERR_DAMAGED)
		st->damaged = true;
	if (!rc)
		rc = k.there ? sq_put_block_row(st, st->q[Q_BLOCK_PUT], number, &k)
			     : sq_run_on(st, Q_BLOCK_REMOVE, number);
	if (rc)
		return rc;
	after = k.there ? st->block.n : 0;
	st->log.block_bytes += (int64_t)after - (int64_t)before;
	*cost += before + 2 * after;
	return 0;
}

/* ---- folding ---- */

void
sq_log_abandon(struct sqlite_store *st)
{
	struct sqlite_log *l = &st->log;

	overlay_done(&l->overlay);
	l->fold = FOLD_NONE;
}

static int
fold_range(struct sqlite_store *st, uint32_t first)
{
	struct sqlite_log *l = &st->log;
	int rc = overlay_begin(&l->overlay, first, overlay_span(l->fold_top));

	if (rc)
		return rc;
	l->fold_at = l->first;
	l->fold_block = block_of(first);
	l->fold = FOLD_READING;
	return 0;
}

static int
fold_begin(struct sqlite_store *st)
{
	st->log.fold_last = st->log.last;
	st->log.fold_top = st->log.top;
	return fold_range(st, 0);
}

static int
fold_read(struct sqlite_store *st, size_t budget)
{
	struct sqlite_log *l = &st->log;
	int rc = sq_log_read(st, &l->overlay, &l->fold_at, l->fold_last, budget);

	if (!rc && l->fold_at > l->fold_last)
		l->fold = FOLD_WRITING;
	return rc;
}

static int
fold_write(struct sqlite_store *st, size_t budget)
{
	struct sqlite_log *l = &st->log;
	uint32_t next = l->overlay.first + l->overlay.n;
	size_t spent = 0, cost;
	int rc = 0;

	for (; !rc && spent < budget && l->fold_block < block_of(next); spent += cost)
		rc = fold_block(st, l->fold_block++, &cost);
	if (rc || l->fold_block < block_of(next))
		return rc;
	if (next <= l->fold_top)
		return fold_range(st, next);
	overlay_done(&l->overlay);
	l->fold = FOLD_CLEARING;
	return 0;
}

/* The log's last row has the time of the last commit: `meta` takes it over. */
static int
clear_row(struct sqlite_store *st, int64_t id)
{
	int rc = id == st->log.last ? sq_meta_put(st) : 0;

	return rc ? rc : sq_run_on(st, Q_MOVED_REMOVE, id);
}

static int
fold_clear(struct sqlite_store *st, size_t budget)
{
	struct sqlite_log *l = &st->log;
	int64_t each = l->bytes / (l->rows ? l->rows : 1);
	size_t spent = 0;
	int rc = 0;

	/* A page is given back without being read or written. */
	for (; !rc && spent < budget && l->first <= l->fold_last; l->first++) {
		rc = clear_row(st, l->first);
		spent += (size_t)each / 4 + ROW_COST;
		l->rows--;
		l->bytes -= each;
	}
	if (rc || l->first <= l->fold_last)
		return rc;
	l->fold = FOLD_NONE;
	return look_at_log(st);
}

/* Goes on with the fold that is under way, for about so many bytes. */
static int
fold_piece(struct sqlite_store *st, size_t budget)
{
	switch (st->log.fold) {
	case FOLD_NONE:
		return 0;
	case FOLD_READING:
		return fold_read(st, budget);
	case FOLD_WRITING:
		return fold_write(st, budget);
	case FOLD_CLEARING:
		return fold_clear(st, budget);
	}
	return 0;
}

static bool
worth_folding(const struct sqlite_store *st)
{
	int64_t cap = st->log.block_bytes / CAP_DENOM * CAP_NUM;

	cap = cap < CAP_LEAST ? CAP_LEAST : cap > CAP_MOST ? CAP_MOST : cap;
	return log_size(st) >= cap;
}

/* ---- by itself ---- */

/* A piece in a transaction of its own. */
static int
fold_alone(struct sqlite_store *st, size_t budget)
{
	int rc = look(st);

	if (rc || st->log.rows == 0)
		return rc;
	rc = sq_run(st, Q_BEGIN);
	if (rc)
		return rc;
	if (st->log.fold == FOLD_NONE)
		rc = fold_begin(st);
	if (!rc)
		rc = fold_piece(st, budget);
	rc = sq_end(st, rc);
	sq_log_ended(st, rc);
	return rc;
}

/* Pieces get smaller when there is no room for them. */
static int
fold_all(struct sqlite_store *st)
{
	int rc = 0;

	for (size_t budget = IDLE_PIECE; budget >= 512; budget /= 8) {
		do {
			rc = fold_alone(st, budget);
			if (!rc)
				sq_bring_back(st);
		} while (!rc && st->log.rows > 0);
		if (rc != -ENOSPC)
			break;
	}
	return rc;
}

bool
sq_log_tidy(struct sqlite_store *st)
{
	if (look(st))
		return false;
	if (st->log.fold == FOLD_NONE && log_size(st) < IDLE_LEAST)
		return false;
	return fold_alone(st, IDLE_PIECE) == 0;
}

/* ---- a group ---- */

static int
append(struct sqlite_store *st, int64_t wall_ns)
{
	struct row r = row_begin(st->q[Q_MOVED_PUT], ROW_MOVED);
	struct sqlite_log *l = &st->log;
	const struct bytes *b = &st->moves.bytes;
	int rc;

	row_int(&r, l->last + 1);
	row_int(&r, wall_ns);
	row_blob(&r, (struct str){ (const char *)b->p, b->n });
	(void)row_end(&r);
	rc = sq_run_row(st, &r);
	if (rc)
		return rc;
	l->last++;
	if (l->rows++ == 0)
		l->first = l->last;
	l->bytes += (int64_t)b->n;
	return 0;
}

int
sq_log_commit(struct sqlite_store *st, int64_t wall_ns)
{
	int rc = append(st, wall_ns);

	if (!rc && st->log.fold == FOLD_NONE && worth_folding(st))
		rc = fold_begin(st);
	if (!rc)
		rc = fold_piece(st, (st->moves.bytes.n + ROW_COST) * FOLD_FACTOR);
	if (rc == -ENOMEM && !sqlite3_get_autocommit(st->db)) {
		/* What was folded so far is in order; a later group begins again. */
		sq_log_abandon(st);
		rc = 0;
	}
	return rc;
}

int
sq_log_begin(struct sqlite_store *st)
{
	int rc = look(st);

	moves_begin(&st->moves, st->pub.meta.boot);
	if (!rc && st->log.tight > 0 && log_size(st) > TIGHT_LEAST)
		rc = fold_all(st);
	if (!rc && st->log.tight > 0)
		st->log.tight--;
	return rc;
}

int
sq_log_add(struct sqlite_store *st, enum entry_kind kind, uint32_t id, const struct job_saved *j)
{
	struct position p;

	if (kind != ENTRY_REMOVED)
		position_of(j, &p);
	if (id > st->log.top)
		st->log.top = id;
	return moves_add(&st->moves, kind, id, &p);
}

void
sq_log_ended(struct sqlite_store *st, int rc)
{
	if (!rc)
		return;
	sq_log_abandon(st);
	st->log.known = false;
	if (rc == -ENOSPC)
		st->log.tight = TIGHT_GROUPS;
}

void
sq_log_done(struct sqlite_store *st)
{
	sq_log_abandon(st);
	bytes_done(&st->moves.bytes);
	bytes_done(&st->block);
}
