#include "store/sqlite_moves.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define MERGE_MAGIC 0x4d455247u
#define KEEP_MAX    8192 /* room for so many moves is kept from group to group */
#define VARINT_MAX  10
/* Head, tag and differences of one entry, without its key. */
#define ENTRY_MAX ((4 + POSITION_FIELDS) * VARINT_MAX)

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

/* ---- gathering ---- */

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

int
moves_add(struct moves *m, enum move_kind kind, int64_t queue, struct str key,
	const struct job_saved *j)
{
	struct move *v = reserve(m->v, &m->cap, m->n + 1, sizeof *v);
	char *keys = v ? reserve(m->keys, &m->keys_cap, m->keys_n + key.n, 1) : NULL;

	if (v)
		m->v = v;
	if (!keys)
		return -ENOMEM;
	m->keys = keys;
	v = &m->v[m->n++];
	v->queue = queue;
	v->kind = kind;
	v->key_at = m->keys_n;
	v->key_n = key.n;
	if (key.n > 0)
		memcpy(m->keys + m->keys_n, key.p, key.n);
	m->keys_n += key.n;
	if (kind != MOVE_PUT)
		return 0;
#define X(f, ...) v->v[POSITION_##f] = (int64_t)j->f;
	JOB_FIELDS(X)
#undef X
	return 0;
}

void
moves_clear(struct moves *m)
{
	if (m->cap > KEEP_MAX)
		moves_done(m);
	m->n = m->keys_n = 0;
}

void
moves_done(struct moves *m)
{
	x_free(m->v);
	x_free(m->keys);
	x_free(m->order);
	x_free(m->bytes);
	*m = (struct moves){ 0 };
}

/* ---- writing ---- */

struct move_ref {
	const struct move *move;
	struct str key;
};

/* By queue, key, age. */
static int
by_place(const void *pa, const void *pb)
{
	const struct move_ref *a = pa, *b = pb;
	int d = (a->move->queue > b->move->queue) - (a->move->queue < b->move->queue);

	if (!d)
		d = moves_compare_keys(a->key, b->key);
	return d ? d : (a->move > b->move) - (a->move < b->move);
}

static int
sort(struct moves *m)
{
	struct move_ref *v = x_realloc(m->order, m->n, sizeof *v);

	if (!v)
		return -ENOMEM;
	m->order = v;
	for (size_t i = 0; i < m->n; i++)
		v[i] = (struct move_ref){ &m->v[i], { m->keys + m->v[i].key_at, m->v[i].key_n } };
	qsort(v, m->n, sizeof *v, by_place);
	return 0;
}

static void
put_varint(struct moves *m, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		m->bytes[m->bytes_n++] = (uint8_t)(v | 0x80);
	m->bytes[m->bytes_n++] = (uint8_t)v;
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

/* Small numbers of either sign become small ones without. */
static uint64_t
zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static uint64_t
unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static void
put_fields(struct moves *m, const int64_t *v, const int64_t *before)
{
	uint64_t delta[POSITION_FIELDS], mask = 0;

	for (unsigned i = 0; i < POSITION_FIELDS; i++) {
		unsigned f = field_of_bit[i];

		delta[i] = (uint64_t)v[f] - foreseen(before, f, v);
		mask |= (uint64_t)(delta[i] != 0) << i;
	}
	put_varint(m, mask << 2 | MOVE_PUT);
	for (unsigned i = 0; i < POSITION_FIELDS; i++)
		if (delta[i] != 0)
			put_varint(m, zigzag(delta[i]));
}

static size_t
shared_bytes(struct str a, struct str b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && a.p[n] == b.p[n])
		n++;
	return n;
}

static int
put_entry(struct moves *m, const struct move_ref *r, const struct move_ref *last,
	const int64_t *before)
{
	bool other = !last || last->move->queue != r->move->queue;
	size_t shared = other ? 0 : shared_bytes(last->key, r->key);
	void *bytes = reserve(m->bytes, &m->bytes_cap, m->bytes_n + ENTRY_MAX + r->key.n, 1);

	if (!bytes)
		return -ENOMEM;
	m->bytes = bytes;
	put_varint(m, shared << 1 | other);
	if (other)
		put_varint(m, (uint64_t)r->move->queue);
	put_varint(m, r->key.n - shared);
	if (r->key.n > shared)
		memcpy(m->bytes + m->bytes_n, r->key.p + shared, r->key.n - shared);
	m->bytes_n += r->key.n - shared;
	if (r->move->kind == MOVE_PUT)
		put_fields(m, r->move->v, before);
	else
		put_varint(m, r->move->kind);
	return 0;
}

/* Superseded by the next, or by the end of its queue. */
static bool
outdated(const struct moves *m, size_t i, const struct move *queue_end)
{
	const struct move_ref *r = &m->order[i];

	if (queue_end && queue_end->queue == r->move->queue && r->move < queue_end)
		return true;
	return i + 1 < m->n && r[1].move->queue == r->move->queue && str_eq(r[1].key, r->key);
}

int
moves_encode(struct moves *m, struct str *out)
{
	static const int64_t zeros[POSITION_FIELDS];
	const int64_t *before = zeros;
	const struct move_ref *last = NULL;
	const struct move *queue_end = NULL;

	m->bytes_n = 0;
	if (m->n > 0 && sort(m))
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		const struct move_ref *r = &m->order[i];

		if (outdated(m, i, queue_end))
			continue;
		if (put_entry(m, r, last, before))
			return -ENOMEM;
		if (r->move->kind == MOVE_QUEUE_REMOVED)
			queue_end = r->move;
		if (r->move->kind == MOVE_PUT)
			before = r->move->v;
		last = r;
	}
	*out = (struct str){ (const char *)m->bytes, m->bytes_n };
	return 0;
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
get_varint(struct cursor *c, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		uint8_t b = *c->p++;

		*v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return 0;
	}
	return ERR_DAMAGED;
}

static int
get_key(struct cursor *c)
{
	uint64_t head, rest, queue = (uint64_t)c->queue;

	if (get_varint(c, &head) || (head & 1 && get_varint(c, &queue)) || get_varint(c, &rest))
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

static bool
in_range(const int64_t *v)
{
#define X(f, min, max) \
	if (v[POSITION_##f] < (min) || v[POSITION_##f] > (max)) \
		return false;
	JOB_FIELDS(X)
#undef X
	return true;
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

		if (mask >> i & 1 && get_varint(c, &delta))
			return ERR_DAMAGED;
		c->v[f] = (int64_t)(foreseen(before, f, c->v) + unzigzag(delta));
	}
	return in_range(c->v) ? 0 : ERR_DAMAGED;
}

/* To the next entry. 1, 0 at the end, ERR_DAMAGED. */
static int
advance(struct cursor *c)
{
	uint64_t tag;

	if (c->p == c->end)
		return 0;
	if (get_key(c) || get_varint(c, &tag))
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

/* The newest word on the next job into m->now; *entries are used up. */
static int
take_newest(struct merge *m, size_t *entries)
{
	int rc;

	m->now = *m->heap[0];
	do {
		rc = advance_first(m);
		++*entries;
	} while (!rc && m->n > 0 && compare_places(m->heap[0], &m->now) == 0);
	/* Out of order: no run is written like that. */
	if (!rc && m->n > 0 && compare_places(m->heap[0], &m->now) < 0)
		return ERR_DAMAGED;
	return rc;
}

int
merge_next(struct merge *m, struct moved *out)
{
	size_t entries = 0;

	CHECK_OBJ(m, MERGE_MAGIC);
	while (m->n > 0) {
		if (take_newest(m, &entries))
			return ERR_DAMAGED;
		if (m->now.kind == MOVE_QUEUE_REMOVED) {
			m->gone_queue = m->now.queue;
			m->gone_id = m->now.id;
		} else if (m->now.queue != m->gone_queue || m->now.id >= m->gone_id) {
			*out = (struct moved){ m->now.queue, { m->now.key, m->now.key_n },
				m->now.kind == MOVE_REMOVED, m->now.v, entries };
			return 1;
		}
	}
	return 0;
}
