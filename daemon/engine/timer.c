/*
 * A 4-ary heap: half as deep as a binary one, and the four children that a step
 * down compares lie side by side. Entries carry their keys, so that comparing
 * touches the array alone; each move writes the moved timer's place, the one
 * access outside it.
 *
 * The array doubles when full and halves when a quarter is used, without a copy
 * once it is large (big_resize).
 */
#include "engine/timer.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"

#define CAP_MIN 64

static bool
before(const struct timer_entry *a, const struct timer_entry *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->seq < b->seq);
}

static void
put(struct timers *ts, size_t i, struct timer_entry e)
{
	ts->heap[i] = e;
	e.timer->place = (uint32_t)i + 1;
}

static void
sift_up(struct timers *ts, size_t i, struct timer_entry e)
{
	while (i > 0) {
		size_t parent = (i - 1) / TIMER_ARITY;

		if (!before(&e, &ts->heap[parent]))
			break;
		put(ts, i, ts->heap[parent]);
		i = parent;
	}
	put(ts, i, e);
}

/* The first of the children of `i`; n when it has none. */
static size_t
first_child(const struct timers *ts, size_t i)
{
	size_t child = i * TIMER_ARITY + 1, end = child + TIMER_ARITY, best = child;

	if (child >= ts->n)
		return ts->n;
	if (end > ts->n)
		end = ts->n;
	while (++child < end)
		if (before(&ts->heap[child], &ts->heap[best]))
			best = child;
	return best;
}

static void
sift_down(struct timers *ts, size_t i, struct timer_entry e)
{
	size_t child;

	while ((child = first_child(ts, i)) < ts->n) {
		if (!before(&ts->heap[child], &e))
			break;
		put(ts, i, ts->heap[child]);
		i = child;
	}
	put(ts, i, e);
}

/* Place `i` is to hold `e`, whatever was there. */
static void
settle(struct timers *ts, size_t i, struct timer_entry e)
{
	if (i > 0 && before(&e, &ts->heap[(i - 1) / TIMER_ARITY]))
		sift_up(ts, i, e);
	else
		sift_down(ts, i, e);
}

static int
resize(struct timers *ts, size_t cap)
{
	struct timer_entry *heap;

	if (cap > UINT32_MAX - 1)
		return -ENOMEM;
	heap = big_resize(ts->heap, ts->cap * sizeof *heap, cap * sizeof *heap);
	if (!heap)
		return -ENOMEM;
	ts->heap = heap;
	ts->cap = cap;
	return 0;
}

void
timers_init(struct timers *ts)
{
	*ts = (struct timers){ 0 };
}

void
timers_done(struct timers *ts)
{
	big_free(ts->heap, ts->cap * sizeof *ts->heap);
	timers_init(ts);
}

int
timer_set(struct timers *ts, struct timer *t, int64_t due_ns, uint64_t seq)
{
	struct timer_entry e = { .due_ns = due_ns, .seq = seq, .timer = t };

	if (timer_armed(t)) {
		settle(ts, t->place - 1, e);
		return 0;
	}
	if (ts->n == ts->cap) {
		int err = resize(ts, ts->cap ? ts->cap * 2 : CAP_MIN);

		if (err < 0)
			return err;
	}
	sift_up(ts, ts->n++, e);
	return 0;
}

void
timer_del(struct timers *ts, struct timer *t)
{
	size_t i = (size_t)t->place - 1;
	struct timer_entry last;

	if (!timer_armed(t))
		return;
	wq_assert(i < ts->n && ts->heap[i].timer == t);
	t->place = 0;
	last = ts->heap[--ts->n];
	if (last.timer != t)
		settle(ts, i, last);
	/* No memory to move to: the larger array stays. */
	if (ts->cap > CAP_MIN && ts->n < ts->cap / 4)
		(void)resize(ts, ts->cap / 2);
}

void
timers_verify(const struct timers *ts)
{
	wq_assert(ts->n <= ts->cap);
	for (size_t i = 0; i < ts->n; i++) {
		wq_assert(ts->heap[i].timer->place == i + 1);
		wq_assert(i == 0 || !before(&ts->heap[i], &ts->heap[(i - 1) / TIMER_ARITY]));
	}
}
