/*
 * Chained hash table with a power of two of buckets, resized a little at a time.
 *
 * While a resize goes on there are two tables, and a hash has exactly one place:
 * in `old` when its old bucket has not been moved yet (index >= moved), else in
 * `now`. It doubles at one node a bucket and halves at one node in SPARSE
 * buckets. Each add or delete moves a few buckets, enough that a resize has ended
 * before the next one is due: of S old buckets, GROW_STEP an operation against
 * the S adds to the next doubling, SHRINK_STEP (most of them empty) against the
 * S / (2 * SPARSE) deletes to the next halving. So a map that is emptied is small
 * at the end.
 *
 * A table is zero pages not yet touched, and the pages of the old one go back
 * piece by piece as they empty: neither taking nor giving up a large table is
 * one long operation.
 */
#include "engine/map.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"

#define SIZE_MIN    16
#define SPARSE      8
#define GROW_STEP   4
#define SHRINK_STEP (2 * SPARSE)
/* Buckets emptied between two times that memory is given back (64 KiB). */
#define DISCARD_STEP 8192

static size_t
table_bytes(const struct map_table *t)
{
	return (t->mask + 1) * sizeof(struct map_node *);
}

static int
table_init(struct map_table *t, size_t size)
{
	t->mask = size - 1;
	t->buckets = big_alloc(table_bytes(t));
	return t->buckets ? 0 : -ENOMEM;
}

static void
table_done(struct map_table *t)
{
	if (t->buckets)
		big_free(t->buckets, table_bytes(t));
	t->buckets = NULL;
	t->mask = 0;
}

/* The one bucket where a node of this hash is or belongs. */
static struct map_node **
bucket_of(const struct map *m, uint64_t hash)
{
	if (m->old.buckets && (hash & m->old.mask) >= m->moved)
		return &m->old.buckets[hash & m->old.mask];
	return &m->now.buckets[hash & m->now.mask];
}

static void
move_bucket(struct map *m)
{
	struct map_node *node = m->old.buckets[m->moved], *next;

	m->old.buckets[m->moved++] = NULL;
	for (; node; node = next) {
		struct map_node **to = &m->now.buckets[node->hash & m->now.mask];

		next = node->next;
		node->next = *to;
		*to = node;
	}
	if (m->moved % DISCARD_STEP == 0)
		big_discard(m->old.buckets, table_bytes(&m->old),
			(m->moved - DISCARD_STEP) * sizeof(struct map_node *),
			m->moved * sizeof(struct map_node *));
}

static void
resize_end(struct map *m)
{
	table_done(&m->old);
	m->moved = 0;
}

static void
resize_go_on(struct map *m)
{
	int step = m->now.mask > m->old.mask ? GROW_STEP : SHRINK_STEP;

	if (!m->old.buckets)
		return;
	for (int i = 0; i < step && m->moved <= m->old.mask; i++)
		move_bucket(m);
	if (m->moved > m->old.mask || m->n == 0)
		resize_end(m);
}

/* Begins a resize where one is due. Without memory the map stays as it is and is tried again. */
static void
resize_begin(struct map *m)
{
	struct map_table t;
	size_t size = m->now.mask + 1;

	if (m->old.buckets)
		return;
	if (m->n > size)
		size *= 2;
	else if (size > SIZE_MIN && m->n < size / SPARSE)
		size /= 2;
	else
		return;
	if (table_init(&t, size) < 0)
		return;
	m->old = m->now;
	m->now = t;
	m->moved = 0;
}

void
map_init(struct map *m, bool (*match)(const struct map_node *node, const void *key))
{
	*m = (struct map){ .match = match };
}

void
map_done(struct map *m)
{
	table_done(&m->now);
	table_done(&m->old);
	m->n = m->moved = 0;
}

struct map_node *
map_find(const struct map *m, uint64_t hash, const void *key)
{
	if (m->n == 0)
		return NULL;
	for (struct map_node *node = *bucket_of(m, hash); node; node = node->next)
		if (node->hash == hash && m->match(node, key))
			return node;
	return NULL;
}

int
map_add(struct map *m, struct map_node *node, uint64_t hash)
{
	struct map_node **bucket;

	if (!m->now.buckets) {
		int err = table_init(&m->now, SIZE_MIN);

		if (err < 0)
			return err;
	}
	resize_go_on(m);
	bucket = bucket_of(m, hash);
	node->hash = hash;
	node->next = *bucket;
	*bucket = node;
	m->n++;
	resize_begin(m);
	return 0;
}

void
map_del(struct map *m, struct map_node *node)
{
	struct map_node **link;

	wq_assert(m->n > 0);
	for (link = bucket_of(m, node->hash); *link != node; link = &(*link)->next)
		wq_assert(*link != NULL);
	*link = node->next;
	node->next = NULL;
	m->n--;
	resize_go_on(m);
	resize_begin(m);
}

static uint64_t
reverse_bits(uint64_t v)
{
	v = (v >> 1 & 0x5555555555555555u) | (v & 0x5555555555555555u) << 1;
	v = (v >> 2 & 0x3333333333333333u) | (v & 0x3333333333333333u) << 2;
	v = (v >> 4 & 0x0f0f0f0f0f0f0f0fu) | (v & 0x0f0f0f0f0f0f0f0fu) << 4;
	return __builtin_bswap64(v);
}

/* Counts up in the bits of `mask` read backwards, highest first: a bucket that splits or merges
 * has all its parts on the same side of the cursor. 0 after the last. */
static uint64_t
cursor_next(uint64_t cursor, uint64_t mask)
{
	return reverse_bits(reverse_bits(cursor | ~mask) + 1);
}

static void
show(struct map_node *node, void (*each)(void *arg, struct map_node *node), void *arg)
{
	for (struct map_node *next; node; node = next) {
		next = node->next;
		each(arg, node);
	}
}

/* One bucket of the smaller table and all of the larger that it splits into. */
static uint64_t
scan_both(const struct map *m, uint64_t cursor, void (*each)(void *arg, struct map_node *node),
	void *arg)
{
	bool grows = m->now.mask > m->old.mask;
	const struct map_table *small = grows ? &m->old : &m->now;
	const struct map_table *large = grows ? &m->now : &m->old;

	show(small->buckets[cursor & small->mask], each, arg);
	do {
		show(large->buckets[cursor & large->mask], each, arg);
		cursor = cursor_next(cursor, large->mask);
	} while (cursor & (large->mask ^ small->mask));
	return cursor;
}

void
map_scan(const struct map *m, uint64_t *cursor, size_t limit_buckets,
	void (*each)(void *arg, struct map_node *node), void *arg)
{
	uint64_t c = *cursor;

	do {
		if (m->n == 0) {
			c = 0;
		} else if (m->old.buckets) {
			c = scan_both(m, c, each, arg);
		} else {
			show(m->now.buckets[c & m->now.mask], each, arg);
			c = cursor_next(c, m->now.mask);
		}
	} while (c && limit_buckets-- > 1);
	*cursor = c;
}

static size_t
table_verify(const struct map *m, const struct map_table *t)
{
	size_t n = 0;

	for (size_t i = 0; t->buckets && i <= t->mask; i++)
		for (const struct map_node *node = t->buckets[i]; node; node = node->next, n++)
			wq_assert(bucket_of(m, node->hash) == &t->buckets[i]);
	return n;
}

void
map_verify(const struct map *m)
{
	wq_assert(m->now.buckets || m->n == 0);
	wq_assert(!m->old.buckets || m->moved <= m->old.mask);
	wq_assert(table_verify(m, &m->now) + table_verify(m, &m->old) == m->n);
}
