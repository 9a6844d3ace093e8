/*
 * A table grows by a third when four fifths are used, and halves below three
 * tenths. Each change copies STEP slots or more, so that a resize has ended long
 * before the next is due: of S places, S / 4 additions lie between two growths,
 * S / 10 changes between a halving and what may follow.
 *
 * Slots stand in the order of their places, with no free slot between a place
 * and what belongs there. So behind a free slot of the old table there is nothing
 * that belongs in front of it: there the copying can rest.
 *
 * A new table is pages not yet touched and is filled from one end to the other,
 * while those of the old one go back piece by piece: taking and giving up a large
 * table is not one long operation, and both together hold little more than one.
 */
#include "engine/index.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"

#define PLACES_MIN 64
#define SPILL      512 /* slots behind the last place */
#define STEP       16  /* slots copied with each change, at least */
/* Slots copied between two times that memory is given back (64 KiB). */
#define DISCARD_STEP 8192

static size_t
table_bytes(const struct index_table *t)
{
	return (t->n + SPILL) * sizeof *t->slots;
}

static int
table_init(struct index_table *t, size_t n)
{
	t->n = n;
	t->slots = big_alloc(table_bytes(t));
	return t->slots ? 0 : -ENOMEM;
}

static void
table_done(struct index_table *t)
{
	if (t->slots)
		big_free(t->slots, table_bytes(t));
	*t = (struct index_table){ 0 };
}

static void
table_put(struct index_table *t, uint64_t v)
{
	size_t i = index_place(t, (uint32_t)(v >> 32));

	while (t->slots[i])
		i++;
	/* The one behind the last stays free, for those who look. */
	wq_assert(i < t->n + SPILL - 1);
	t->slots[i] = v;
}

/* ---- resizing ---- */

static void
resize_discard(struct index *ix, size_t from)
{
	if (from / DISCARD_STEP != ix->moved / DISCARD_STEP)
		big_discard(ix->old.slots, table_bytes(&ix->old),
			(from / DISCARD_STEP) * DISCARD_STEP * sizeof *ix->old.slots,
			(ix->moved / DISCARD_STEP) * DISCARD_STEP * sizeof *ix->old.slots);
}

static void
resize_go_on(struct index *ix)
{
	size_t from = ix->moved, i = from, end = ix->old.n + SPILL;

	if (!ix->old.slots)
		return;
	for (; i < end && (ix->old.slots[i] || i - from < STEP); i++)
		if (ix->old.slots[i])
			table_put(&ix->now, ix->old.slots[i]);
	ix->moved = i + 1;
	if (i >= ix->old.n) {
		table_done(&ix->old);
		ix->moved = 0;
		return;
	}
	resize_discard(ix, from);
}

/* Begins a resize where one is due. Without memory the table stays and is tried again. */
static void
resize_begin(struct index *ix)
{
	struct index_table t;
	size_t n = ix->now.n;

	if (ix->old.slots)
		return;
	if (ix->n > n / 5 * 4)
		n += n / 3;
	else if (n > PLACES_MIN && ix->n < n / 10 * 3 && !ix->expecting)
		n = n / 2 > PLACES_MIN ? n / 2 : PLACES_MIN;
	else
		return;
	if (table_init(&t, n) < 0)
		return;
	ix->old = ix->now;
	ix->now = t;
	ix->moved = 0;
}

/* ---- the whole ---- */

void
index_init(struct index *ix)
{
	*ix = (struct index){ 0 };
}

void
index_done(struct index *ix)
{
	table_done(&ix->now);
	table_done(&ix->old);
	index_init(ix);
}

void
index_expect(struct index *ix, size_t n)
{
	struct index_table t;

	ix->expecting = n > 0;
	if (ix->n > 0 || ix->old.slots || n < PLACES_MIN || table_init(&t, n + n / 3) < 0)
		return;
	table_done(&ix->now);
	ix->now = t;
}

static struct index_table *
table_of(struct index *ix, uint32_t tag)
{
	if (ix->old.slots && index_place(&ix->old, tag) >= ix->moved)
		return &ix->old;
	return &ix->now;
}

int
index_add(struct index *ix, uint64_t hash, uint32_t id)
{
	uint64_t v = (uint64_t)index_tag(hash) << 32 | (uint64_t)(id + 1);

	if (!ix->now.slots && table_init(&ix->now, PLACES_MIN) < 0)
		return -ENOMEM;
	resize_go_on(ix);
	resize_begin(ix);
	/* It could not grow: longer and longer searches are no answer. */
	if (!ix->old.slots && ix->n > ix->now.n / 10 * 9)
		return -ENOMEM;
	table_put(table_of(ix, index_tag(hash)), v);
	ix->n++;
	return 0;
}

/* Those behind close up, as far as they may. */
static void
table_close(struct index_table *t, size_t hole)
{
	for (size_t i = hole + 1; t->slots[i]; i++) {
		if (index_place(t, (uint32_t)(t->slots[i] >> 32)) > hole)
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole] = 0;
}

void
index_del(struct index *ix, uint64_t hash, uint32_t id)
{
	uint64_t v = (uint64_t)index_tag(hash) << 32 | (uint64_t)(id + 1);
	struct index_table *t = table_of(ix, index_tag(hash));
	size_t i = index_place(t, index_tag(hash));

	for (; t->slots[i] != v; i++)
		wq_assert(t->slots[i] != 0);
	table_close(t, i);
	ix->n--;
	resize_go_on(ix);
	resize_begin(ix);
}

static size_t
table_verify(const struct index_table *t, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t i = from; t->slots && i < t->n + SPILL; i++) {
		size_t at = index_place(t, (uint32_t)(t->slots[i] >> 32));

		if (!t->slots[i])
			continue;
		wq_assert(at <= i && at >= from && at < to);
		for (; at < i; at++)
			wq_assert(t->slots[at] != 0);
		n++;
	}
	return n;
}

void
index_verify(const struct index *ix)
{
	wq_assert(!ix->old.slots || ix->moved <= ix->old.n);
	wq_assert(table_verify(&ix->now, 0, ix->now.n) +
			table_verify(&ix->old, ix->moved, ix->old.n) ==
		ix->n);
}
