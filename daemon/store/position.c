#include "store/position.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define ENTRY_MAX (1 + (2 + POSITION_FIELDS) * VARINT_MAX)

/* Bits of an entry's first byte, above its kind; fields in the order in which they are written. */
enum {
	BIT_DELAY = 1 << 2,
	BIT_DELAY_MS = 1 << 3, /* with BIT_DELAY: the difference is in milliseconds */
	BIT_DUE = 1 << 4,
	BIT_WALL = 1 << 5,
	BIT_SEQ = 1 << 6,
	BIT_COALESCED = 1 << 7,
	KIND_BITS = 3
};

/* Fields that a move leaves alone; the first ones differ more often. */
static const uint8_t others[] = { POSITION_created_wall_ns, POSITION_generation, POSITION_attempt,
	POSITION_pending, POSITION_running, POSITION_absolute, POSITION_boot, POSITION_slack_ns,
	POSITION_max_wait_ns, POSITION_interrupts, POSITION_retry, POSITION_disable_depth,
	POSITION_dead, POSITION_level, POSITION_run_coalesced, POSITION_run_due_wall_ns,
	POSITION_run_started_wall_ns };
_Static_assert(ARRAY_SIZE(others) + 5 == POSITION_FIELDS, "each field is written by one of them");

void
position_of(const struct job_saved *j, struct position *p)
{
#define X(f, ...) p->v[POSITION_##f] = (int64_t)j->f;
	JOB_FIELDS(X)
#undef X
}

void
position_to(const struct position *p, struct job_saved *j)
{
#define X(f, ...) j->f = (__typeof__(j->f))p->v[POSITION_##f];
	JOB_FIELDS(X)
#undef X
}

void
position_move(struct position *p, const struct position *from)
{
	static const uint8_t fields[] = { POSITION_boot, POSITION_due_boot_ns, POSITION_due_wall_ns,
		POSITION_delay_ns, POSITION_seq, POSITION_coalesced };

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		p->v[fields[i]] = from->v[fields[i]];
}

bool
position_in_range(const int64_t v[POSITION_FIELDS])
{
#define X(f, min, max) \
	if (v[POSITION_##f] < (min) || v[POSITION_##f] > (max)) \
		return false;
	JOB_FIELDS(X)
#undef X
	return true;
}

/* ---- bytes ---- */

int
bytes_reserve(struct bytes *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 512;
	uint8_t *p;

	if (n <= b->cap - b->n)
		return 0;
	while (cap - b->n < n)
		cap *= 2;
	p = x_realloc(b->p, cap, 1);
	if (!p)
		return -ENOMEM;
	b->p = p;
	b->cap = cap;
	return 0;
}

void
bytes_done(struct bytes *b)
{
	x_free(b->p);
	*b = (struct bytes){ 0 };
}

uint8_t *
varint_put(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

int
varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t b = *(*p)++;

		n |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*v = n;
			return 0;
		}
	}
	return ERR_DAMAGED;
}

/* Small numbers of either sign become small ones without. */
static uint64_t
zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

uint64_t
unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

/* ---- the fields of a move ---- */

static uint64_t
expected_due(const struct position *last, uint64_t delay)
{
	return (uint64_t)last->v[POSITION_due_boot_ns] - (uint64_t)last->v[POSITION_delay_ns] +
		delay;
}

static uint64_t
expected_wall(const struct position *last, uint64_t due)
{
	return (uint64_t)last->v[POSITION_due_wall_ns] - (uint64_t)last->v[POSITION_due_boot_ns] +
		due;
}

static uint8_t *
put_if(uint8_t *p, unsigned *bits, unsigned bit, uint64_t d)
{
	if (d == 0)
		return p;
	*bits |= bit;
	return varint_put(p, zigzag(d));
}

static uint8_t *
put_delay(uint8_t *p, unsigned *bits, uint64_t d)
{
	int64_t ns = (int64_t)d;

	if (ns % NS_PER_MS != 0)
		return put_if(p, bits, BIT_DELAY, d);
	return put_if(p, bits, BIT_DELAY | BIT_DELAY_MS, (uint64_t)(ns / NS_PER_MS));
}

static uint8_t *
put_move(uint8_t *p, unsigned *bits, const struct position *to, const struct position *last)
{
	uint64_t delay = (uint64_t)to->v[POSITION_delay_ns];
	uint64_t due = (uint64_t)to->v[POSITION_due_boot_ns];

	p = put_delay(p, bits, delay - (uint64_t)last->v[POSITION_delay_ns]);
	p = put_if(p, bits, BIT_DUE, due - expected_due(last, delay));
	p = put_if(p, bits, BIT_WALL,
		(uint64_t)to->v[POSITION_due_wall_ns] - expected_wall(last, due));
	p = put_if(p, bits, BIT_SEQ,
		(uint64_t)to->v[POSITION_seq] - (uint64_t)last->v[POSITION_seq] - 1);
	return put_if(p, bits, BIT_COALESCED,
		(uint64_t)to->v[POSITION_coalesced] - (uint64_t)last->v[POSITION_coalesced]);
}

static int
get_if(struct moves_reader *r, bool there, uint64_t expected, int64_t *v)
{
	uint64_t d = 0;

	if (there && varint_get(&r->p, r->end, &d))
		return ERR_DAMAGED;
	*v = (int64_t)(expected + unzigzag(d));
	return 0;
}

static int
get_delay(struct moves_reader *r, unsigned bits, int64_t *v)
{
	uint64_t d = 0;

	if (bits & BIT_DELAY && varint_get(&r->p, r->end, &d))
		return ERR_DAMAGED;
	d = unzigzag(d);
	if (bits & BIT_DELAY_MS)
		d *= NS_PER_MS;
	*v = (int64_t)((uint64_t)*v + d);
	return 0;
}

/* From what is in r->at, the entry before, to this one. */
static int
get_move(struct moves_reader *r, unsigned bits)
{
	const struct position last = r->at;
	int64_t *v = r->at.v;

	if (get_delay(r, bits, &v[POSITION_delay_ns]) ||
		get_if(r, bits & BIT_DUE, expected_due(&last, (uint64_t)v[POSITION_delay_ns]),
			&v[POSITION_due_boot_ns]) ||
		get_if(r, bits & BIT_WALL, expected_wall(&last, (uint64_t)v[POSITION_due_boot_ns]),
			&v[POSITION_due_wall_ns]) ||
		get_if(r, bits & BIT_SEQ, (uint64_t)last.v[POSITION_seq] + 1, &v[POSITION_seq]) ||
		get_if(r, bits & BIT_COALESCED, (uint64_t)last.v[POSITION_coalesced],
			&v[POSITION_coalesced]))
		return ERR_DAMAGED;
	if (v[POSITION_delay_ns] < -1 || v[POSITION_coalesced] < 0 ||
		v[POSITION_coalesced] > UINT32_MAX)
		return ERR_DAMAGED;
	return 0;
}

/* ---- all fields ---- */

static uint8_t *
put_others(uint8_t *p, const struct position *to, const struct position *last)
{
	uint64_t delta[ARRAY_SIZE(others)], mask = 0;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		delta[i] = (uint64_t)to->v[others[i]] - (uint64_t)last->v[others[i]];
		mask |= (uint64_t)(delta[i] != 0) << i;
	}
	p = varint_put(p, mask);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (delta[i] != 0)
			p = varint_put(p, zigzag(delta[i]));
	return p;
}

static int
get_others(struct moves_reader *r, uint64_t mask)
{
	int64_t *v = r->at.v;

	if (mask >> ARRAY_SIZE(others))
		return ERR_DAMAGED;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (mask >> i & 1 && get_if(r, true, (uint64_t)v[others[i]], &v[others[i]]))
			return ERR_DAMAGED;
	return 0;
}

/* ---- runs ---- */

void
moves_begin(struct moves_writer *w, uint64_t boot)
{
	w->bytes.n = w->n = 0;
	w->last = (struct position){ { 0 } };
	w->last.v[POSITION_boot] = (int64_t)boot;
	w->boot = boot;
}

static int
begin_bytes(struct moves_writer *w)
{
	uint8_t *p;

	if (bytes_reserve(&w->bytes, VARINT_MAX + ENTRY_MAX))
		return -ENOMEM;
	if (w->n == 0) {
		p = varint_put(w->bytes.p, w->boot);
		w->bytes.n = (size_t)(p - w->bytes.p);
	}
	return 0;
}

int
moves_add(struct moves_writer *w, enum entry_kind kind, uint32_t id, const struct position *to)
{
	uint8_t *first, *p;
	unsigned bits = kind;

	if (begin_bytes(w))
		return -ENOMEM;
	first = w->bytes.p + w->bytes.n;
	p = varint_put(first + 1, id);
	if (kind == ENTRY_PUT)
		p = put_others(p, to, &w->last);
	if (kind != ENTRY_REMOVED)
		p = put_move(p, &bits, to, &w->last);
	*first = (uint8_t)bits;
	if (kind == ENTRY_PUT)
		w->last = *to;
	else if (kind == ENTRY_MOVED) {
		position_move(&w->last, to);
		w->last.v[POSITION_boot] = (int64_t)w->boot;
	}
	w->bytes.n = (size_t)(p - w->bytes.p);
	w->n++;
	return 0;
}

int
moves_open(struct moves_reader *r, struct str bytes)
{
	*r = (struct moves_reader){ .p = (const uint8_t *)bytes.p };
	r->end = r->p + bytes.n;
	if (bytes.n == 0)
		return 0;
	if (varint_get(&r->p, r->end, &r->boot) || r->boot > INT64_MAX)
		return ERR_DAMAGED;
	r->at.v[POSITION_boot] = (int64_t)r->boot;
	return 0;
}

int
moves_next(struct moves_reader *r)
{
	uint64_t id, mask;
	unsigned bits;

	if (r->p == r->end)
		return 0;
	bits = *r->p++;
	if ((bits & KIND_BITS) >= ENTRY_KINDS || varint_get(&r->p, r->end, &id) || id == 0 ||
		id > JOB_ID_MAX)
		return ERR_DAMAGED;
	r->kind = (enum entry_kind)(bits & KIND_BITS);
	r->id = (uint32_t)id;
	if (r->kind == ENTRY_REMOVED)
		return bits & ~(unsigned)KIND_BITS ? ERR_DAMAGED : 1;
	if (r->kind == ENTRY_MOVED)
		r->at.v[POSITION_boot] = (int64_t)r->boot;
	else if (varint_get(&r->p, r->end, &mask) || get_others(r, mask))
		return ERR_DAMAGED;
	if (get_move(r, bits))
		return ERR_DAMAGED;
	return r->kind == ENTRY_MOVED || position_in_range(r->at.v) ? 1 : ERR_DAMAGED;
}

/* ---- blocks ---- */

int
block_write(const struct block *k, struct bytes *b)
{
	struct position last = { { 0 } };
	uint8_t *p;

	b->n = 0;
	if (bytes_reserve(b, 2 + BLOCK_JOBS * ENTRY_MAX))
		return -ENOMEM;
	p = b->p;
	*p++ = (uint8_t)k->there;
	*p++ = (uint8_t)(k->there >> 8);
	for (unsigned i = 0; i < BLOCK_JOBS; i++) {
		uint8_t *first = p++;
		unsigned bits = ENTRY_PUT;

		if (!(k->there >> i & 1)) {
			p = first;
			continue;
		}
		p = put_others(p, &k->p[i], &last);
		p = put_move(p, &bits, &k->p[i], &last);
		*first = (uint8_t)bits;
		last = k->p[i];
	}
	b->n = (size_t)(p - b->p);
	return 0;
}

int
block_read(struct block *k, struct str bytes)
{
	struct moves_reader r = { .p = (const uint8_t *)bytes.p };
	uint64_t mask;
	unsigned bits;

	if (bytes.n < 2)
		return ERR_DAMAGED;
	r.end = r.p + bytes.n;
	k->there = (uint16_t)(r.p[0] | r.p[1] << 8);
	r.p += 2;
	for (unsigned i = 0; i < BLOCK_JOBS; i++) {
		if (!(k->there >> i & 1))
			continue;
		if (r.p == r.end)
			return ERR_DAMAGED;
		bits = *r.p++;
		if ((bits & KIND_BITS) != ENTRY_PUT || varint_get(&r.p, r.end, &mask) ||
			get_others(&r, mask) || get_move(&r, bits) || !position_in_range(r.at.v))
			return ERR_DAMAGED;
		k->p[i] = r.at;
	}
	return r.p == r.end ? 0 : ERR_DAMAGED;
}
