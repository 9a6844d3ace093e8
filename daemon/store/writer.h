/*
 * The writer: group commit on a thread of its own.
 *
 * The loop fills a group (a copy of what engine_take_dirty hands out) and gives
 * it away with writer_submit; the thread replays it into the store, commits and
 * posts the result, which the loop collects when the descriptor is readable.
 * While one group syncs, the loop may fill the next; at most one waits.
 *
 *   state      submit        thread done ok     thread done, failed
 *   IDLE       -> SYNCING    -                  -
 *   SYNCING    -> FULL       -> IDLE            -> FAILED
 *   FULL       (refused)     -> SYNCING         -> FAILED
 *   FAILED     (refused)     retried each second, or at writer_retry: ok -> as above
 *
 * A failed group is kept and tried again before any other, so that order holds.
 */
#ifndef WQD_STORE_WRITER_H
#define WQD_STORE_WRITER_H

#include "store/store.h"

struct group; /* changed things, copied; made by the loop, read by the thread */
struct writer;

int
group_new(struct group **out);
void
group_free(struct group *g);
/* Feeds the group: give this to engine_take_dirty. A lack of memory is remembered and makes
 * writer_submit fail with -ENOMEM. */
const struct persist_sink *
group_sink(struct group *g);
/* False when memory ran out while it was fed: something is missing. */
bool
group_whole(const struct group *g);
/* Hands everything in it on, in the order it came in. */
void
group_replay(const struct group *g, const struct persist_sink *to);
/* Things in it, and bytes of memory held. */
size_t
group_count(const struct group *g);
size_t
group_bytes(const struct group *g);

struct group_done {
	uint64_t mark; /* as submitted */
	int result;    /* 0 or why it could not be committed (it will be tried again) */
	size_t count;
	int64_t took_ns; /* begin to committed */
};

/* Takes the store over (given, unless it fails). `fd` (borrowed) becomes readable when results wait. */
int
writer_new(struct store *st, struct writer **out, int *fd);
/* True when a submit would be taken. */
bool
writer_ready(const struct writer *w);
/* True while the last commit failed and its group waits for the next try. */
bool
writer_failed(const struct writer *w);
/* Gives the group away. `sync`: the commit is synced to disk. 0, -EAGAIN, -ENOMEM: then the group
 * stays the caller's. */
int
writer_submit(struct writer *w, struct group *g, uint64_t mark, struct moment now, bool sync);
/* A failed group is tried again now (space was made, an operator asked). */
void
writer_retry(struct writer *w);
/* Results since the last call, oldest first; returns how many were written to `out`. A failed
 * group reports its failure once, and its success when it comes. */
size_t
writer_collect(struct writer *w, struct group_done *out, size_t max);
/* Runs `fn` on the thread with the store between two groups, or two tries of a failed one (backup,
 * ownership); `done` is called from writer_collect, at the latest from writer_close. One at a
 * time: -EAGAIN. */
int
writer_call(struct writer *w, int (*fn)(struct store *st, void *arg),
	void (*done)(void *arg, int result), void *arg);
/* As of the last group or call. */
void
writer_stats(struct writer *w, struct store_stats *out);
/* Waits for what was submitted (a failed group gets one last try), stops the thread, closes the
 * store. 0 or the last error. */
int
writer_close(struct writer *w);

#endif
