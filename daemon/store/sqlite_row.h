/*
 * Rows of the SQLite store. Every row ends with a sum over its columns, made
 * while they are bound and compared while they are read in the same order, so
 * that bytes changed under the database (which SQLite itself does not check)
 * are found instead of served.
 *
 * Writing: row_begin, row_int/row_blob in column order, row_end, step.
 * Reading: row_open on a statement that has a row, row_get_*, row_close.
 * Errors are gathered and told once, at the end.
 */
#ifndef WQD_STORE_SQLITE_ROW_H
#define WQD_STORE_SQLITE_ROW_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "store/feed.h"

/* Sums of different tables start differently; ROW_NONE has none. */
enum row_kind {
	ROW_NONE,
	ROW_META,
	ROW_QUEUE,
	ROW_SETTING,
	ROW_JOB,
	ROW_PAYLOAD,
	ROW_RUN,
	ROW_ANSWER,
	ROW_COMPLETION,
	ROW_MOVED,
	ROW_JOB_NAME,
	ROW_BLOCK
};

struct row {
	sqlite3_stmt *q;
	const struct cell *cells; /* reading: instead of `q`, when not NULL */
	int col;                  /* next */
	uint64_t sum;             /* so far */
	int rc;                   /* writing: first SQLite error. Reading: ERR_DAMAGED or 0 */
};

struct row
row_begin(sqlite3_stmt *q, enum row_kind kind);
void
row_int(struct row *r, int64_t v);
/* `s` is borrowed until the statement is reset. */
void
row_blob(struct row *r, struct str s);
void
row_text(struct row *r, struct str s);
/* A column that the sum leaves out. */
void
row_plain_int(struct row *r, int64_t v);
void
row_plain_null(struct row *r);
/* In the sum, in no column: what the row belongs to. */
void
row_mix_int(struct row *r, int64_t v);
void
row_mix_blob(struct row *r, struct str s);
/* Binds the sum. Returns the first SQLite error or SQLITE_OK. */
int
row_end(struct row *r);

/* The same with a sum of 32 bits, for rows of which there are many. */
int
row_end_short(struct row *r);

/* `col`: its first column in the result. */
struct row
row_open(sqlite3_stmt *q, enum row_kind kind, int col);
/* The same of one that came by a feed. */
struct row
row_of_cells(const struct fed *f, enum row_kind kind);
/* Hands the row that `q` stands on to the user of the feed, all columns of it. 0, or feed_put's. */
int
row_feed(struct feed *f, uint32_t kind, sqlite3_stmt *q);
/* The same of arguments of a function. */
int
row_feed_values(struct feed *f, uint32_t kind, int n, sqlite3_value **v);
/* The next column has a value. */
bool
row_has(const struct row *r);
/* Passes over it. */
void
row_skip(struct row *r);
/* Out of range counts as damage. */
int64_t
row_get_int(struct row *r, int64_t min, int64_t max);
/* Blob or text; borrowed until the statement moves on. */
struct str
row_get_blob(struct row *r);
/* The same as C text of at most `size` - 1 bytes, copied. */
void
row_get_text(struct row *r, char *dst, size_t size);
/* 0 when everything read was in order and the sum is right, else ERR_DAMAGED. */
int
row_close(struct row *r);
int
row_close_short(struct row *r);

#endif
