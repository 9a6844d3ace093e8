#include "store/overlay.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

/* A range is an eighth of all, not less than this: with its slots it stays below some 2 % of what
 * the engine needs for the jobs. */
#define SPAN_MIN (1u << 18)

struct overlay_slot {
	uint32_t put; /* index + 1 of the position put last; 0: as in the block */
	uint32_t coalesced;
	int64_t boot, due_boot_ns, due_wall_ns, delay_ns, seq;
	bool moved, removed, seen;
};

uint32_t
overlay_span(uint32_t top)
{
	uint32_t n = top / 8 + 1;

	n = (n + BLOCK_JOBS) / BLOCK_JOBS * BLOCK_JOBS;
	return n < SPAN_MIN ? SPAN_MIN : n;
}

int
overlay_begin(struct overlay *o, uint32_t first, uint32_t n)
{
	wq_assert(first % BLOCK_JOBS == 0 && n % BLOCK_JOBS == 0);
	if (n != o->n) {
		overlay_done(o);
		o->slot = big_alloc(n * sizeof *o->slot);
		if (!o->slot)
			return -ENOMEM;
		o->n = n;
	} else {
		memset(o->slot, 0, n * sizeof *o->slot);
	}
	o->first = first;
	o->n_put = 0;
	return 0;
}

void
overlay_done(struct overlay *o)
{
	if (o->slot)
		big_free(o->slot, o->n * sizeof *o->slot);
	x_free(o->put);
	*o = (struct overlay){ 0 };
}

static struct overlay_slot *
slot_of(const struct overlay *o, uint32_t id)
{
	return id - o->first < o->n ? &o->slot[id - o->first] : NULL;
}

static int
take_put(struct overlay *o, struct overlay_slot *s, const struct position *p)
{
	if (!s->put && o->n_put == o->cap_put) {
		uint32_t cap = o->cap_put ? o->cap_put * 2 : 64;
		struct position *v = x_realloc(o->put, cap, sizeof *v);

		if (!v)
			return -ENOMEM;
		o->put = v;
		o->cap_put = cap;
	}
	if (!s->put)
		s->put = ++o->n_put;
	o->put[s->put - 1] = *p;
	s->moved = s->removed = false;
	return 0;
}

static void
take_move(struct overlay_slot *s, const struct position *p)
{
	s->moved = true;
	s->boot = p->v[POSITION_boot];
	s->due_boot_ns = p->v[POSITION_due_boot_ns];
	s->due_wall_ns = p->v[POSITION_due_wall_ns];
	s->delay_ns = p->v[POSITION_delay_ns];
	s->seq = p->v[POSITION_seq];
	s->coalesced = (uint32_t)p->v[POSITION_coalesced];
}

static int
take_entry(struct overlay *o, struct overlay_slot *s, const struct moves_reader *r)
{
	switch (r->kind) {
	case ENTRY_PUT:
		return take_put(o, s, &r->at);
	case ENTRY_MOVED:
		if (s->removed)
			return ERR_DAMAGED;
		take_move(s, &r->at);
		return 0;
	case ENTRY_REMOVED:
		s->moved = false;
		s->removed = true;
		return 0;
	}
	return ERR_DAMAGED;
}

int
overlay_add(struct overlay *o, struct str run)
{
	struct moves_reader r;
	int rc = moves_open(&r, run);

	while (!rc && (rc = moves_next(&r)) == 1) {
		struct overlay_slot *s = slot_of(o, r.id);

		rc = s ? take_entry(o, s, &r) : 0;
	}
	return rc;
}

int
overlay_apply(struct overlay *o, uint32_t id, bool was, struct position *p)
{
	const struct overlay_slot *s = slot_of(o, id);

	if (!s || s->removed)
		return s ? OVERLAY_REMOVED : OVERLAY_NOTHING;
	if (!s->put && !s->moved)
		return OVERLAY_NOTHING;
	if (!s->put && !was)
		return ERR_DAMAGED;
	if (s->put)
		*p = o->put[s->put - 1];
	if (s->moved) {
		p->v[POSITION_boot] = s->boot;
		p->v[POSITION_due_boot_ns] = s->due_boot_ns;
		p->v[POSITION_due_wall_ns] = s->due_wall_ns;
		p->v[POSITION_delay_ns] = s->delay_ns;
		p->v[POSITION_seq] = s->seq;
		p->v[POSITION_coalesced] = s->coalesced;
	}
	return OVERLAY_THERE;
}

bool
overlay_touches(const struct overlay *o, uint32_t block)
{
	const struct overlay_slot *s = slot_of(o, block * BLOCK_JOBS);

	for (unsigned i = 0; s && i < BLOCK_JOBS; i++)
		if (s[i].put || s[i].moved || s[i].removed)
			return true;
	return false;
}

void
overlay_seen(struct overlay *o, uint32_t id)
{
	struct overlay_slot *s = slot_of(o, id);

	if (s)
		s->seen = true;
}

uint32_t
overlay_left(const struct overlay *o)
{
	for (uint32_t i = 0; i < o->n; i++) {
		const struct overlay_slot *s = &o->slot[i];

		if ((s->put || s->moved) && !s->removed && !s->seen)
			return o->first + i;
	}
	return 0;
}
