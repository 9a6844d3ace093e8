/*
 * The log of moves: table `moved`, a row a group. What a group changed of jobs
 * stands there in a few bytes each; the rows of `job` follow later, in key order,
 * so that jobs which moved many times, and jobs that are neighbours, cost one
 * page. Whatever the log says of a job is newer than its row.
 *
 * - A job put with its payload, or removed, is changed in its row at once and in
 *   the log as well: folding may bring an older word over the row until the newer
 *   one is folded too. What is read back is always the newest.
 * - Folding starts when the log has reached its cap. It takes what the log has
 *   then, merged, and goes on by a piece with each group, in its transaction,
 *   faster than the log grows; when all is in the rows, the folded part goes.
 * - Folding over again changes nothing, so that it is forgotten whenever a group
 *   fails, a queue goes, or the daemon ends.
 * - On a full disk everything is folded at once, by small pieces that need no new
 *   page, and groups go straight to their rows for a while.
 */
#include <errno.h>

#include "base/err.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

/* The log may hold half of the file, within these: a fold of random jobs writes all of it. */
#define CAP_LEAST (8ll << 20)
#define CAP_MOST  (64ll << 20)
#define CAP_SHARE 2
#define CAP_ROWS  4096 /* each is a run that is merged */
/* A row written costs as much as so many entries read. */
#define ROW_COST 8
/* For each entry that a group adds, and for each group. */
#define FOLD_FACTOR (ROW_COST + 4)
#define FOLD_LEAST  256
/* Groups that go straight to their rows after the disk was full. */
#define DIRECT_GROUPS 64

/* ---- reading ---- */

static int
moved_row(struct sqlite_store *st, sqlite3_stmt *q, struct merge *m, int64_t *last)
{
	struct row r = row_open(q, ROW_MOVED, 0);
	int64_t id = row_get_int(&r, 1, INT64_MAX);
	struct str bytes = row_get_blob(&r);
	int rc = row_close(&r);

	if (!rc && *last && id != *last + 1)
		rc = ERR_DAMAGED; /* one is missing */
	if (!rc)
		rc = merge_add(m, (uint64_t)id, bytes);
	if (rc == ERR_DAMAGED)
		st->damaged = true;
	*last = id;
	return rc;
}

int
sq_moved_load(struct sqlite_store *st, struct merge **out, int64_t *last)
{
	sqlite3_stmt *q = st->q[Q_MOVED];
	struct merge *m;
	int rc = merge_new(&m), step;

	if (rc)
		return rc;
	*last = 0;
	while ((step = sqlite3_step(q)) == SQLITE_ROW && !rc)
		rc = moved_row(st, q, m, last);
	if (!rc)
		rc = sq_error(st, step);
	(void)sqlite3_reset(q);
	if (rc) {
		merge_free(m);
		return rc;
	}
	*out = m;
	return 0;
}

/* How much the log has. */
static int
count(struct sqlite_store *st)
{
	sqlite3_stmt *q = st->q[Q_MOVED_COUNT];
	int rc = sqlite3_step(q);

	st->moved_rows = sqlite3_column_int64(q, 0);
	st->moved_bytes = sqlite3_column_int64(q, 1);
	rc = sq_error(st, rc);
	(void)sqlite3_reset(q);
	return rc;
}

/* What the log has, after a transaction that was rolled back. */
static int
recount(struct sqlite_store *st)
{
	int rc = count(st);

	if (!rc)
		rc = sq_number(st, Q_MOVED_LAST, &st->moved_last);
	if (!rc)
		st->moved_stale = false;
	return rc;
}

/* ---- folding ---- */

void
sq_moved_abandon(struct sqlite_store *st)
{
	merge_free(st->fold);
	st->fold = NULL;
}

static int
fold_job(struct sqlite_store *st, const struct moved *mv)
{
	enum statement s = mv->removed ? Q_JOB_REMOVE : Q_JOB_MOVE;
	struct row r = row_begin(st->q[s], mv->removed ? ROW_NONE : ROW_JOB);

	row_int(&r, mv->queue);
	row_blob(&r, mv->key);
	if (!mv->removed) {
		for (int i = 0; i < POSITION_FIELDS; i++)
			row_int(&r, mv->v[i]);
		(void)row_end(&r);
	}
	return r.rc ? sq_error(st, r.rc) : sq_run(st, s);
}

static int
fold_done(struct sqlite_store *st)
{
	struct row r = row_begin(st->q[Q_MOVED_REMOVE], ROW_NONE);
	int rc;

	row_plain_int(&r, st->fold_last);
	rc = r.rc ? sq_error(st, r.rc) : sq_run(st, Q_MOVED_REMOVE);
	sq_moved_abandon(st);
	return rc ? rc : count(st);
}

/* Goes on with the fold that is under way, for about `cost`. */
static int
fold_piece(struct sqlite_store *st, size_t cost)
{
	struct moved mv;
	int rc = 1;

	for (size_t spent = 0; spent < cost; spent += mv.entries + ROW_COST) {
		rc = merge_next(st->fold, &mv);
		if (rc <= 0)
			break;
		rc = fold_job(st, &mv);
		if (rc)
			return rc;
		rc = 1;
	}
	if (rc == ERR_DAMAGED)
		st->damaged = true;
	return rc == 0 ? fold_done(st) : rc < 0 ? rc : 0;
}

static int64_t
cap_bytes(struct sqlite_store *st)
{
	int64_t pages = 0, cap;

	if (st->moved_bytes < CAP_LEAST || sq_number(st, Q_PAGE_COUNT, &pages))
		return CAP_LEAST;
	cap = pages * st->page_size / CAP_SHARE;
	return cap < CAP_LEAST ? CAP_LEAST : cap > CAP_MOST ? CAP_MOST : cap;
}

static bool
worth_folding(struct sqlite_store *st)
{
	return st->moved_rows >= CAP_ROWS || st->moved_bytes >= cap_bytes(st);
}

/* In the group's transaction. */
static int
fold_some(struct sqlite_store *st, size_t added)
{
	int rc = 0;

	if (!st->fold && worth_folding(st))
		rc = sq_moved_load(st, &st->fold, &st->fold_last);
	if (rc == -ENOMEM)
		return 0; /* the next group tries again */
	if (rc || !st->fold)
		return rc;
	return fold_piece(st, added * FOLD_FACTOR + FOLD_LEAST);
}

/* ---- everything, on a full disk ---- */

static int
fold_alone(struct sqlite_store *st, size_t cost)
{
	int rc = sq_run(st, Q_BEGIN);

	if (!rc && !st->fold)
		rc = sq_moved_load(st, &st->fold, &st->fold_last);
	if (!rc)
		rc = fold_piece(st, cost);
	rc = sq_end(st, rc);
	sq_moved_ended(st, rc);
	if (!rc)
		sq_make_room(st);
	return rc;
}

/* Pieces get smaller when there is no room for them. */
static int
fold_all(struct sqlite_store *st)
{
	int rc = 0;

	for (size_t cost = 4096; cost >= 32; cost /= 8) {
		do
			rc = fold_alone(st, cost);
		while (!rc && st->moved_rows > 0);
		if (rc != -ENOSPC)
			break;
	}
	return rc;
}

/* ---- a group ---- */

static int
append(struct sqlite_store *st)
{
	struct row r = row_begin(st->q[Q_MOVED_PUT], ROW_MOVED);
	struct str bytes;
	int rc = moves_encode(&st->moves, &bytes);

	if (rc || bytes.n == 0)
		return rc;
	row_int(&r, ++st->moved_last);
	row_blob(&r, bytes);
	(void)row_end(&r);
	rc = r.rc ? sq_error(st, r.rc) : sq_run(st, Q_MOVED_PUT);
	st->moved_rows++;
	st->moved_bytes += (int64_t)bytes.n;
	return rc;
}

int
sq_moved_commit(struct sqlite_store *st)
{
	int rc = append(st);

	return rc ? rc : fold_some(st, st->moves.n);
}

int
sq_moved_begin(struct sqlite_store *st)
{
	int rc = 0;

	moves_clear(&st->moves);
	if (st->moved_stale)
		rc = recount(st);
	if (!rc && st->direct_left > 0 && st->moved_rows > 0)
		rc = fold_all(st);
	st->direct = !rc && st->direct_left > 0;
	return rc;
}

void
sq_moved_ended(struct sqlite_store *st, int rc)
{
	if (!rc)
		return;
	sq_moved_abandon(st);
	st->moved_stale = true;
	if (rc == -ENOSPC)
		st->direct_left = DIRECT_GROUPS;
}
