/*
 * Deadlines of jobs: which comes next, in (due, seq) order, exactly.
 *
 * A hierarchical wheel of ticks of about a millisecond. What lies ahead is only
 * written down: an entry of 8 bytes (job, tick) in the slot of its level. A job
 * that is put off later keeps its entry and is looked at again when that comes
 * up; one that is cancelled or hurried leaves its entry dead. Dead ones are
 * swept when they are more than the live. So a reschedule writes to the job, and
 * at most appends an entry. What is due within the tick that goes on is in
 * `front`, in exact order.
 *
 * Nothing is ever long: entries are moved a chunk at a time, so many a turn, from
 * level to level ahead of their time; until all of a tick is in front, none of
 * it is due (wheel_behind). Owner's thread.
 */
#ifndef WQD_ENGINE_WHEEL_H
#define WQD_ENGINE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slab.h"

struct job;

#define WHEEL_TICK_BITS 20 /* of nanoseconds */
#define WHEEL_LEVELS    4
#define WHEEL_BITS      8           /* each level is so much coarser */
#define WHEEL_SLOTS     512         /* twice as many, so that two turns of a level fit */
#define WHEEL_CHUNK     63          /* entries */
#define WHEEL_AHEAD     0x80000000u /* in the place of what is not in front */

struct wheel_slot {
	uint32_t head, tail; /* chunks, number + 1 */
	uint32_t chunks;
};

/* Of the front: valid while the job is in front with the same seq. */
struct wheel_entry {
	int64_t due_ns;
	uint64_t seq;
	uint32_t job;
};

struct wheel {
	const struct slab *jobs; /* borrowed */
	int64_t tick;            /* everything before it is in front, nothing else */
	size_t n, n_front;       /* armed jobs; those in front */
	size_t entries;          /* in slots, dead ones too */
	int64_t next_ns;         /* no deadline comes before */
	bool behind, starved;    /* ... for want of memory */
	struct slab chunks;
	struct wheel_slot slots[WHEEL_LEVELS][WHEEL_SLOTS];
	uint64_t used[WHEEL_LEVELS][WHEEL_SLOTS / 64]; /* bits: the slot has chunks */
	uint32_t swept, sweep_left; /* the slot being swept; its chunks that were not */
	/* Front: what came in order is in `run`, the rest in `heap`. */
	struct wheel_entry *run, *heap; /* owned */
	size_t run_at, run_n, run_cap, heap_n, heap_cap;
};

/* For at most `max` jobs of a slab. 0 or -ENOMEM. */
int
wheel_init(struct wheel *w, const struct slab *jobs, size_t max);
void
wheel_done(struct wheel *w);
/* Arms, or moves one that is armed here, and sets its due_ns and seq. 0, or -ENOMEM: nothing
 * changed. */
int
wheel_set(struct wheel *w, struct job *j, int64_t now_ns, int64_t due_ns, uint64_t seq);
/* Disarms one that is armed here. Returns what wheel_undel takes. */
uint32_t
wheel_del(struct wheel *w, struct job *j);
/* Undoes wheel_del, nothing having happened in between. */
void
wheel_undel(struct wheel *w, struct job *j, uint32_t was);
/* Brings it up to now, moving at most `*most` chunks; takes off how many it moved. */
void
wheel_advance(struct wheel *w, int64_t now_ns, uint32_t *most);
/* The last wheel_advance did not come to its end: what is first is not known. */
static inline bool
wheel_behind(const struct wheel *w)
{
	return w->behind;
}
/* The first whose deadline has come, or NULL. It stays armed. */
struct job *
wheel_first(struct wheel *w, int64_t now_ns);
/* When to advance next: the next deadline, or earlier where many lie ahead; INT64_MAX: never. */
static inline int64_t
wheel_next(const struct wheel *w)
{
	return w->behind ? INT64_MIN : w->next_ns;
}
/* Asserts that every armed job of it will be found in time, O(n). */
void
wheel_verify(const struct wheel *w, uint64_t armed);

#endif
