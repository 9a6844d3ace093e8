#include "base/slab.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define COMMIT_CHUNKS 16u /* made usable at once */
#define EMPTY_MAX     1u  /* kept with their pages */

static size_t
reserved_bytes(const struct slab *p)
{
	return p->max_chunks * SLAB_CHUNK;
}

int
slab_init(struct slab *p, size_t item, size_t max)
{
	*p = (struct slab){ .item = item, .per_chunk = (uint32_t)(SLAB_CHUNK / item) };
	wq_assert(item >= 2 && p->per_chunk > 0 && p->per_chunk < UINT16_MAX);
	p->max_chunks = (uint32_t)(max / p->per_chunk + 1);
	/* Where addresses are limited it is a smaller slab. */
	while (!(p->base = big_reserve(reserved_bytes(p)))) {
		p->max_chunks /= 2;
		if (p->max_chunks == 0)
			return -ENOMEM;
	}
	return 0;
}

void
slab_done(struct slab *p)
{
	big_unreserve(p->base, reserved_bytes(p));
	big_free(p->chunks, p->cap * sizeof *p->chunks);
	*p = (struct slab){ 0 };
}

/* ---- the list of chunks with room ---- */

/* At the end with what is empty: it is used again when no other has room. */
static void
room_add(struct slab *p, uint32_t i, bool first)
{
	struct slab_chunk *c = &p->chunks[i];

	c->next = first ? p->room : 0;
	c->prev = first ? 0 : p->room_last;
	*(c->next ? &p->chunks[c->next - 1].prev : &p->room_last) = i + 1;
	*(c->prev ? &p->chunks[c->prev - 1].next : &p->room) = i + 1;
	c->listed = true;
}

static void
room_del(struct slab *p, uint32_t i)
{
	struct slab_chunk *c = &p->chunks[i];

	*(c->prev ? &p->chunks[c->prev - 1].next : &p->room) = c->next;
	*(c->next ? &p->chunks[c->next - 1].prev : &p->room_last) = c->prev;
	c->listed = false;
}

/* ---- chunks ---- */

static int
chunk_memory(struct slab *p)
{
	size_t from = p->committed * SLAB_CHUNK, to = from + COMMIT_CHUNKS * SLAB_CHUNK;

	if (p->n_chunks == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct slab_chunk *chunks =
			big_resize(p->chunks, p->cap * sizeof *chunks, cap * sizeof *chunks);

		if (!chunks)
			return -ENOMEM;
		p->chunks = chunks;
		p->cap = cap;
	}
	if (p->n_chunks < p->committed)
		return 0;
	if (to > reserved_bytes(p))
		to = reserved_bytes(p);
	if (big_commit(p->base, from, to) < 0)
		return -ENOMEM;
	p->committed = (uint32_t)(to / SLAB_CHUNK);
	return 0;
}

int
slab_reserve(struct slab *p)
{
	if (p->room)
		return 0;
	if (p->n_chunks == p->max_chunks || chunk_memory(p) < 0)
		return -ENOMEM;
	p->chunks[p->n_chunks] = (struct slab_chunk){ 0 };
	room_add(p, p->n_chunks++, false);
	return 0;
}

/* It holds nothing: its pages go, unless few are kept. */
static void
chunk_empty(struct slab *p, uint32_t i)
{
	struct slab_chunk *c = &p->chunks[i];

	if (p->n_kept < EMPTY_MAX) {
		p->n_kept++;
		c->kept = true;
		return;
	}
	big_discard(p->base, reserved_bytes(p), i * SLAB_CHUNK, (i + 1) * SLAB_CHUNK);
	c->top = c->free = 0;
	room_del(p, i);
	room_add(p, i, false);
}

/* ---- items ---- */

static void *
item_at(const struct slab *p, uint32_t chunk, uint32_t item)
{
	return p->base + chunk * SLAB_CHUNK + item * p->item;
}

void *
slab_take(struct slab *p)
{
	struct slab_chunk *c;
	void *v;

	if (slab_reserve(p) < 0)
		return NULL;
	c = &p->chunks[p->room - 1];
	p->n_kept -= c->kept;
	c->kept = false;
	c->used++;
	if (c->free) {
		v = item_at(p, p->room - 1, c->free - 1u);
		memcpy(&c->free, v, sizeof c->free);
	} else {
		v = item_at(p, p->room - 1, c->top++);
	}
	if (c->used == p->per_chunk)
		room_del(p, p->room - 1);
	p->n++;
	return v;
}

void
slab_give(struct slab *p, void *v)
{
	size_t at = (size_t)((char *)v - p->base);
	uint32_t i = (uint32_t)(at / SLAB_CHUNK);
	struct slab_chunk *c = &p->chunks[i];

	wq_assert(i < p->n_chunks && c->used > 0 && at % SLAB_CHUNK % p->item == 0);
	memcpy(v, &c->free, sizeof c->free);
	c->free = (uint16_t)(at % SLAB_CHUNK / p->item + 1);
	if (!c->listed)
		room_add(p, i, true);
	p->n--;
	if (--c->used == 0)
		chunk_empty(p, i);
}
