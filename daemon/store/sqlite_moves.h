/*
 * Positions as they stand in the log of moves, and their merge.
 *
 * A group's changes of jobs become one run of bytes, in (queue, key) order, each
 * as the difference from the one before: a move takes about twenty bytes instead
 * of a page. Runs of several groups are merged as they are read; of what several
 * say about a job the newest counts. Nothing here knows SQLite.
 *
 *   entry   varint: bytes of the key shared with the last one * 2 + (other queue);
 *           then varint queue; varint bytes of the rest, the rest;
 *           varint: fields that differ from the foreseen, one bit each, * 4 + kind;
 *           for each of these a varint, the difference, sign in its last bit
 *
 * Foreseen is what the entry before had; for the boot deadline its distance from
 * the delay, for the wall deadline its distance from the boot deadline.
 */
#ifndef WQD_STORE_SQLITE_MOVES_H
#define WQD_STORE_SQLITE_MOVES_H

#include <stdint.h>

#include "engine/engine.h"
#include "store/sqlite_schema.h"

enum move_kind {
	MOVE_PUT,          /* the job stands there now */
	MOVE_REMOVED,      /* there is no such job */
	MOVE_QUEUE_REMOVED /* nothing older of this queue counts; its key is empty */
};

#define X(f, ...) POSITION_##f,
enum { JOB_FIELDS(X) POSITION_FIELDS };
#undef X

struct move {
	int64_t queue;
	enum move_kind kind;
	size_t key_at, key_n;
	int64_t v[POSITION_FIELDS]; /* of MOVE_PUT, in the order of JOB_FIELDS */
};

/* What a group changed, in the order it came. Zeroed is empty. */
struct moves {
	struct move *v; /* owned */
	size_t n, cap;
	char *keys; /* owned */
	size_t keys_n, keys_cap;
	struct move_ref *order; /* owned */
	uint8_t *bytes;         /* owned */
	size_t bytes_n, bytes_cap;
};

/* `j` is of MOVE_PUT alone. Everything is copied. 0 or -ENOMEM. */
int
moves_add(struct moves *m, enum move_kind kind, int64_t queue, struct str key,
	const struct job_saved *j);
/* The whole as bytes, borrowed until the next call. 0 or -ENOMEM. */
int
moves_encode(struct moves *m, struct str *out);
void
moves_clear(struct moves *m);
void
moves_done(struct moves *m);

struct merge;

/* One job of the merged runs; borrowed until the next. */
struct moved {
	int64_t queue;
	struct str key;
	bool removed;
	const int64_t *v;
	size_t entries; /* that were read for it */
};

int
merge_new(struct merge **out);
/* Adds a run, copied; `id` grows with age falling. 0, -ENOMEM or ERR_DAMAGED. */
int
merge_add(struct merge *m, uint64_t id, struct str bytes);
/* The next in (queue, key) order. 1, 0 at the end, ERR_DAMAGED. */
int
merge_next(struct merge *m, struct moved *out);
/* NULL is allowed. */
void
merge_free(struct merge *m);
/* Keys in the order of the table. */
int
moves_compare_keys(struct str a, struct str b);

#endif
