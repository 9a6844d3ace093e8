/*
 * Timers: which deadline comes next, in (due, seq) order, exactly.
 *
 * Intrusive: the owner embeds a `struct timer`. A 4-ary heap of (due, seq,
 * timer) entries with each timer's place kept in it: set, move and delete are
 * O(log n), first is O(1); memory is bounded by live timers. Owner's thread.
 */
#ifndef WQD_ENGINE_TIMER_H
#define WQD_ENGINE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMER_ARITY 4 /* of the heap */

struct timer {
	uint32_t place; /* index in the heap + 1; 0: not armed */
};

struct timer_entry {
	int64_t due_ns;
	uint64_t seq;
	struct timer *timer;
};

struct timers {
	struct timer_entry *heap; /* owned */
	size_t n, cap;
};

void
timers_init(struct timers *ts);
/* All timers must be disarmed or forgotten. */
void
timers_done(struct timers *ts);
/* Arms, or moves an armed one. 0, or -ENOMEM (only when it was not armed: nothing changed). */
int
timer_set(struct timers *ts, struct timer *t, int64_t due_ns, uint64_t seq);
/* Disarms; one that is not armed stays so. */
void
timer_del(struct timers *ts, struct timer *t);
static inline bool
timer_armed(const struct timer *t)
{
	return t->place != 0;
}
/* Of an armed timer. */
static inline int64_t
timer_due(const struct timers *ts, const struct timer *t)
{
	return ts->heap[t->place - 1].due_ns;
}
/* The one that comes first, or NULL. It stays armed. */
static inline struct timer *
timers_first(const struct timers *ts)
{
	return ts->n ? ts->heap[0].timer : NULL;
}
/* The same if it is due by now. */
static inline struct timer *
timers_past(const struct timers *ts, int64_t now_ns)
{
	return ts->n && ts->heap[0].due_ns <= now_ns ? ts->heap[0].timer : NULL;
}
/* Asserts order and places, O(n). */
void
timers_verify(const struct timers *ts);

#endif
