#include "store/sqlite_moves.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define MERGE_MAGIC 0x4d455247u

/* Bits of the fields: those that move first, so that they fit the tag's first byte; what is
 * foreseen from another behind that. */
static const uint8_t field_of_bit[POSITION_FIELDS] = { POSITION_delay_ns, POSITION_due_boot_ns,
	POSITION_seq, POSITION_created_wall_ns, POSITION_coalesced, POSITION_due_wall_ns,
	POSITION_generation, POSITION_pending, POSITION_running, POSITION_absolute, POSITION_boot,
	POSITION_slack_ns, POSITION_max_wait_ns, POSITION_attempt, POSITION_interrupts,
	POSITION_retry, POSITION_disable_depth, POSITION_dead, POSITION_level,
	POSITION_run_coalesced, POSITION_run_due_wall_ns, POSITION_run_started_wall_ns };

int
moves_compare_keys(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int d = n ? memcmp(a.p, b.p, n) : 0;

	return d ? d : (a.n > b.n) - (a.n < b.n);
}

/* `p` with room for `want` elements of `size` bytes, doubling, perhaps moved. NULL: no memory, and
 * `p` is as it was. */
static void *
reserve(void *p, size_t *cap, size_t want, size_t size)
{
	size_t n = *cap ? *cap : 64;

	if (p && want <= *cap)
		return p;
	while (n < want)
		n *= 2;
	p = x_realloc(p, n, size);
	if (p)
		*cap = n;
	return p;
}

/* What `field` is expected to be in an entry, of which `now` has what was read or written so far. */
static uint64_t
foreseen(const int64_t *before, unsigned field, const int64_t *now)
{
	uint64_t v = (uint64_t)before[field];

	if (field == POSITION_due_boot_ns)
		v += (uint64_t)now[POSITION_delay_ns] - (uint64_t)before[POSITION_delay_ns];
	if (field == POSITION_due_wall_ns)
		v += (uint64_t)now[POSITION_due_boot_ns] - (uint64_t)before[POSITION_due_boot_ns];
	return v;
}

/* ---- reading ---- */

/* One run being read; stands on an entry. */
struct cursor {
	const uint8_t *p, *end;
	uint64_t id;
	enum move_kind kind;
	int64_t queue; /* 0: before the first */
	size_t key_n;
	char key[KEY_MAX];
	int64_t v[POSITION_FIELDS];
	uint8_t *bytes; /* owned */
};

struct merge {
	unsigned magic;
	struct cursor **heap; /* owned; by queue, key, newest first */
	size_t n, cap;
	/* a queue that was removed, and when */
	int64_t gone_queue;
	uint64_t gone_id;
	/* what was handed out last */
	struct cursor now;
};

static int
get_key(struct cursor *c)
{
	uint64_t head, rest, queue = (uint64_t)c->queue;

	if (varint_get(&c->p, c->end, &head) || (head & 1 && varint_get(&c->p, c->end, &queue)) ||
		varint_get(&c->p, c->end, &rest))
		return ERR_DAMAGED;
	if (head >> 1 > c->key_n || rest > KEY_MAX - (head >> 1) ||
		rest > (uint64_t)(c->end - c->p) || queue == 0 || queue > INT64_MAX)
		return ERR_DAMAGED;
	if (rest > 0)
		memcpy(c->key + (head >> 1), c->p, rest);
	c->p += rest;
	c->key_n = (head >> 1) + rest;
	c->queue = (int64_t)queue;
	return 0;
}

static int
get_fields(struct cursor *c, uint64_t mask)
{
	int64_t before[POSITION_FIELDS];

	if (mask >> POSITION_FIELDS)
		return ERR_DAMAGED;
	memcpy(before, c->v, sizeof before);
	for (unsigned i = 0; i < POSITION_FIELDS; i++) {
		unsigned f = field_of_bit[i];
		uint64_t delta = 0;

		if (mask >> i & 1 && varint_get(&c->p, c->end, &delta))
			return ERR_DAMAGED;
		c->v[f] = (int64_t)(foreseen(before, f, c->v) + unzigzag(delta));
	}
	return position_in_range(c->v) ? 0 : ERR_DAMAGED;
}

/* To the next entry. 1, 0 at the end, ERR_DAMAGED. */
static int
advance(struct cursor *c)
{
	uint64_t tag;

	if (c->p == c->end)
		return 0;
	if (get_key(c) || varint_get(&c->p, c->end, &tag))
		return ERR_DAMAGED;
	c->kind = (enum move_kind)(tag & 3);
	if (c->kind > MOVE_QUEUE_REMOVED || (c->kind == MOVE_QUEUE_REMOVED) != (c->key_n == 0))
		return ERR_DAMAGED;
	if (c->kind == MOVE_PUT)
		return get_fields(c, tag >> 2) ? ERR_DAMAGED : 1;
	return tag >> 2 ? ERR_DAMAGED : 1;
}

static int
compare_places(const struct cursor *a, const struct cursor *b)
{
	if (a->queue != b->queue)
		return a->queue < b->queue ? -1 : 1;
	return moves_compare_keys(
		(struct str){ a->key, a->key_n }, (struct str){ b->key, b->key_n });
}

static bool
before(const struct cursor *a, const struct cursor *b)
{
	int d = compare_places(a, b);

	return d ? d < 0 : a->id > b->id;
}

static void
sift_down(struct merge *m)
{
	struct cursor *c = m->heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < m->n) {
		if (child + 1 < m->n && before(m->heap[child + 1], m->heap[child]))
			child++;
		if (before(c, m->heap[child]))
			break;
		m->heap[i] = m->heap[child];
		i = child;
	}
	m->heap[i] = c;
}

static void
sift_up(struct merge *m, size_t i)
{
	struct cursor *c = m->heap[i];

	for (; i > 0 && before(c, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
		m->heap[i] = m->heap[(i - 1) / 2];
	m->heap[i] = c;
}

static void
cursor_free(struct cursor *c)
{
	x_free(c->bytes);
	x_free(c);
}

/* The first of the heap goes on. */
static int
advance_first(struct merge *m)
{
	int rc = advance(m->heap[0]);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		cursor_free(m->heap[0]);
		m->heap[0] = m->heap[--m->n];
	}
	if (m->n > 0)
		sift_down(m);
	return 0;
}

int
merge_new(struct merge **out)
{
	struct merge *m = x_zalloc(sizeof *m);

	if (!m)
		return -ENOMEM;
	m->magic = MERGE_MAGIC;
	*out = m;
	return 0;
}

void
merge_free(struct merge *m)
{
	if (!m)
		return;
	CHECK_OBJ(m, MERGE_MAGIC);
	for (size_t i = 0; i < m->n; i++)
		cursor_free(m->heap[i]);
	x_free(m->heap);
	MAGIC_DONE(m);
	x_free(m);
}

int
merge_add(struct merge *m, uint64_t id, struct str bytes)
{
	struct cursor *c = x_zalloc(sizeof *c), **heap;
	int rc = -ENOMEM;

	CHECK_OBJ(m, MERGE_MAGIC);
	if (!c)
		return rc;
	c->id = id;
	c->bytes = x_alloc(bytes.n + 1);
	heap = reserve(m->heap, &m->cap, m->n + 1, sizeof(struct cursor *));
	if (heap)
		m->heap = heap;
	if (c->bytes && heap) {
		if (bytes.n > 0)
			memcpy(c->bytes, bytes.p, bytes.n);
		c->p = c->bytes;
		c->end = c->bytes + bytes.n;
		rc = advance(c);
	}
	if (rc <= 0) {
		cursor_free(c);
		return rc;
	}
	m->heap[m->n] = c;
	sift_up(m, m->n++);
	return 0;
}

/* The newest word on the next job into m->now. */
static int
take_newest(struct merge *m)
{
	int rc;

	m->now = *m->heap[0];
	do {
		rc = advance_first(m);
	} while (!rc && m->n > 0 && compare_places(m->heap[0], &m->now) == 0);
	/* Out of order: no run is written like that. */
	if (!rc && m->n > 0 && compare_places(m->heap[0], &m->now) < 0)
		return ERR_DAMAGED;
	return rc;
}

int
merge_next(struct merge *m, struct moved *out)
{
	CHECK_OBJ(m, MERGE_MAGIC);
	while (m->n > 0) {
		if (take_newest(m))
			return ERR_DAMAGED;
		if (m->now.kind == MOVE_QUEUE_REMOVED) {
			m->gone_queue = m->now.queue;
			m->gone_id = m->now.id;
		} else if (m->now.queue != m->gone_queue || m->now.id >= m->gone_id) {
			*out = (struct moved){ m->now.queue, { m->now.key, m->now.key_n },
				m->now.kind == MOVE_REMOVED, m->now.v };
			return 1;
		}
	}
	return 0;
}
