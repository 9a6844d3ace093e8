/*
 * The front of a wheel: what is due within the tick that goes on, in exact order.
 *
 * What comes in order (all of one deadline, mostly) is a queue, the rest a 4-ary
 * heap; the first is the first of both. A job that leaves or moves leaves its
 * entry behind, to be dropped when it is met, or when such are the most.
 */
#include "engine/front.h"

#include <errno.h>

#include "base/alloc.h"

#define FRONT_MIN 64u

static bool
before(const struct wheel_entry *a, const struct wheel_entry *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->seq < b->seq);
}

static bool
entry_valid(const struct wheel *w, const struct wheel_entry *e)
{
	const struct job *j = job_of(w, e->job);

	return j->timer.place == FRONT && j->seq == e->seq && j->due_ns == e->due_ns;
}

static int
grow(struct wheel_entry **v, size_t *cap)
{
	size_t n = *cap ? *cap * 2 : FRONT_MIN;
	struct wheel_entry *grown = big_resize(*v, *cap * sizeof *grown, n * sizeof *grown);

	if (!grown)
		return -ENOMEM;
	*v = grown;
	*cap = n;
	return 0;
}

static void
heap_up(struct wheel_entry *heap, size_t i, struct wheel_entry e)
{
	for (; i > 0 && before(&e, &heap[(i - 1) / 4]); i = (i - 1) / 4)
		heap[i] = heap[(i - 1) / 4];
	heap[i] = e;
}

static void
heap_down(struct wheel_entry *heap, size_t n, size_t i, struct wheel_entry e)
{
	for (size_t child; (child = i * 4 + 1) < n; i = child) {
		size_t end = child + 4 < n ? child + 4 : n, best = child;

		while (++child < end)
			if (before(&heap[child], &heap[best]))
				best = child;
		child = best;
		if (!before(&heap[child], &e))
			break;
		heap[i] = heap[child];
	}
	heap[i] = e;
}

static void
heap_pop(struct wheel *w)
{
	w->heap_n--;
	if (w->heap_n > 0)
		heap_down(w->heap, w->heap_n, 0, w->heap[w->heap_n]);
}

static size_t
keep_valid(const struct wheel *w, struct wheel_entry *v, size_t from, size_t n)
{
	size_t kept = 0;

	for (size_t i = from; i < n; i++)
		if (entry_valid(w, &v[i]))
			v[kept++] = v[i];
	return kept;
}

/* More dead than live ones, of jobs that are moved to and fro within the tick. */
static void
front_compact(struct wheel *w)
{
	w->run_n = keep_valid(w, w->run, w->run_at, w->run_n);
	w->run_at = 0;
	w->heap_n = keep_valid(w, w->heap, 0, w->heap_n);
	for (size_t i = w->heap_n / 4 + 1; i-- > 0;)
		if (i < w->heap_n)
			heap_down(w->heap, w->heap_n, i, w->heap[i]);
}

int
front_add(struct wheel *w, struct wheel_entry e)
{
	if (w->run_n - w->run_at + w->heap_n > 2 * w->n_front + FRONT_MIN)
		front_compact(w);
	if (w->run_at == w->run_n)
		w->run_at = w->run_n = 0;
	if (w->run_n == 0 || before(&w->run[w->run_n - 1], &e)) {
		if (w->run_n == w->run_cap && grow(&w->run, &w->run_cap) < 0)
			return -ENOMEM;
		w->run[w->run_n++] = e;
		return 0;
	}
	if (w->heap_n == w->heap_cap && grow(&w->heap, &w->heap_cap) < 0)
		return -ENOMEM;
	heap_up(w->heap, w->heap_n++, e);
	return 0;
}

const struct wheel_entry *
front_first(struct wheel *w)
{
	while (w->run_at < w->run_n && !entry_valid(w, &w->run[w->run_at]))
		w->run_at++;
	while (w->heap_n > 0 && !entry_valid(w, &w->heap[0]))
		heap_pop(w);
	if (w->run_at == w->run_n)
		return w->heap_n ? &w->heap[0] : NULL;
	if (w->heap_n > 0 && before(&w->heap[0], &w->run[w->run_at]))
		return &w->heap[0];
	return &w->run[w->run_at];
}

void
front_shrink(struct wheel *w)
{
	if (w->run_at == w->run_n && w->run_cap > FRONT_MIN * 1024) {
		big_free(w->run, w->run_cap * sizeof *w->run);
		w->run = NULL;
		w->run_at = w->run_n = w->run_cap = 0;
	}
	if (w->heap_n == 0 && w->heap_cap > FRONT_MIN * 1024) {
		big_free(w->heap, w->heap_cap * sizeof *w->heap);
		w->heap = NULL;
		w->heap_cap = 0;
	}
}

int
front_init(struct wheel *w)
{
	int err = grow(&w->run, &w->run_cap);

	return err < 0 ? err : grow(&w->heap, &w->heap_cap);
}

void
front_done(struct wheel *w)
{
	big_free(w->run, w->run_cap * sizeof *w->run);
	big_free(w->heap, w->heap_cap * sizeof *w->heap);
	w->run = w->heap = NULL;
	w->run_at = w->run_n = w->run_cap = w->heap_n = w->heap_cap = 0;
}

static size_t
count_valid(const struct wheel *w, const struct wheel_entry *v, size_t n)
{
	size_t live = 0;

	for (size_t i = 0; i < n; i++)
		live += entry_valid(w, &v[i]);
	return live;
}

void
front_verify(const struct wheel *w)
{
	wq_assert(count_valid(w, w->run + w->run_at, w->run_n - w->run_at) +
			count_valid(w, w->heap, w->heap_n) ==
		w->n_front);
}
