/*
 * The log of moves as schema 2 had it, and its merge: for reading such databases.
 *
 * A group's changes of jobs are one run of bytes, in (queue, key) order, each
 * as the difference from the one before. Runs of several groups are merged as they
 * are read; of what several say about a job the newest counts. Nothing here knows
 * SQLite.
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
#include "store/position.h"

enum move_kind {
	MOVE_PUT,          /* the job stands there now */
	MOVE_REMOVED,      /* there is no such job */
	MOVE_QUEUE_REMOVED /* nothing older of this queue counts; its key is empty */
};

struct merge;

/* One job of the merged runs; borrowed until the next. */
struct moved {
	int64_t queue;
	struct str key;
	bool removed;
	const int64_t *v;
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
