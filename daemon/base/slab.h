/*
 * A slab of items of one size, by pointer or by number.
 *
 * Items lie in chunks of SLAB_CHUNK bytes in one range of addresses that is
 * reserved at the start, so that none ever moves and a number is an address.
 * New items come from the chunk in which one was freed last, else from a new
 * one; a chunk that is empty gives its pages back (but for one), so that a slab
 * holds what is live, however much came and went. Owner's thread.
 */
#ifndef WQD_BASE_SLAB_H
#define WQD_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAB_CHUNK ((size_t)64 << 10)

struct slab_chunk {
	uint32_t next, prev; /* number + 1, of the chunks that have room; 0: the end */
	uint16_t used, top;  /* items; how many were ever used since it was empty */
	uint16_t free;       /* item + 1, linked through the items themselves */
	bool listed;
	bool kept; /* empty, with its pages */
};

struct slab {
	char *base;  /* reserved, SLAB_CHUNK * max_chunks bytes */
	size_t item; /* bytes, at least 2 */
	uint32_t per_chunk;
	uint32_t n_chunks, max_chunks, committed;
	struct slab_chunk *chunks; /* owned, committed as it grows */
	size_t cap;
	uint32_t room, room_last; /* chunks with room, number + 1; 0: none */
	uint32_t n_kept;
	size_t n; /* items taken */
};

/* For at most `max` items (or as many as there are addresses for). 0 or -ENOMEM. */
int
slab_init(struct slab *p, size_t item, size_t max);
/* Whatever is still taken goes as well. A zeroed one may be passed. */
void
slab_done(struct slab *p);
/* Not zeroed. NULL without memory, or when `max` are taken. */
void *
slab_take(struct slab *p);
void
slab_give(struct slab *p, void *v);
/* The next slab_take won't fail. 0 or -ENOMEM. */
int
slab_reserve(struct slab *p);
/* Numbers: stable while the item is taken, below slab_top. */
static inline uint32_t
slab_index(const struct slab *p, const void *v)
{
	size_t at = (size_t)((const char *)v - p->base);

	return (uint32_t)(at / SLAB_CHUNK * p->per_chunk + at % SLAB_CHUNK / p->item);
}
/* Also of an item that is free, below slab_top: its first two bytes are then the slab's, the rest
 * is as it was left, or zero. */
static inline void *
slab_at(const struct slab *p, uint32_t i)
{
	return p->base + i / p->per_chunk * SLAB_CHUNK + i % p->per_chunk * p->item;
}
static inline uint32_t
slab_top(const struct slab *p)
{
	return p->n_chunks ? (p->n_chunks - 1) * p->per_chunk + p->chunks[p->n_chunks - 1].top : 0;
}
/* Bytes that have memory behind them, at most. */
static inline size_t
slab_bytes(const struct slab *p)
{
	return (size_t)p->n_chunks * SLAB_CHUNK;
}

#endif
