/*
 * Job records in chunks: a record never moves, and its number says where it is.
 * A walk by number sees each record that stays exactly once, whatever is made
 * and freed meanwhile. Chunks are kept until the end.
 */
#include "base/alloc.h"
#include "engine/internal.h"

static int
slab_add_chunk(struct slab *s)
{
	struct job *chunk;

	if (s->top > UINT32_MAX - SLAB_CHUNK)
		return -1;
	if (s->n_chunks == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 16;
		struct job **chunks = x_realloc(s->chunks, cap, sizeof *chunks);

		if (!chunks)
			return -1;
		s->chunks = chunks;
		s->cap = cap;
	}
	chunk = big_alloc(SLAB_CHUNK * sizeof *chunk);
	if (!chunk)
		return -1;
	s->chunks[s->n_chunks++] = chunk;
	return 0;
}

static struct job *
slab_slot(const struct slab *s, uint32_t index)
{
	return &s->chunks[index / SLAB_CHUNK][index % SLAB_CHUNK];
}

struct job *
slab_take(struct slab *s)
{
	struct job *j;
	uint32_t index;

	if (s->free) {
		index = s->free - 1;
		j = slab_slot(s, index);
		s->free = j->index;
	} else {
		if (s->top == s->n_chunks * SLAB_CHUNK && slab_add_chunk(s) < 0)
			return NULL;
		index = s->top++;
		j = slab_slot(s, index);
	}
	*j = (struct job){ .magic = JOB_MAGIC, .index = index };
	return j;
}

void
slab_give(struct slab *s, struct job *j)
{
	uint32_t index = j->index;

	CHECK_OBJ(j, JOB_MAGIC);
	MAGIC_DONE(j);
	j->index = s->free;
	s->free = index + 1;
}

struct job *
slab_at(const struct slab *s, uint32_t index)
{
	struct job *j;

	if (index >= s->top)
		return NULL;
	j = slab_slot(s, index);
	return j->magic == JOB_MAGIC ? j : NULL;
}

void
slab_done(struct slab *s)
{
	for (size_t i = 0; i < s->n_chunks; i++)
		big_free(s->chunks[i], SLAB_CHUNK * sizeof **s->chunks);
	x_free(s->chunks);
	*s = (struct slab){ 0 };
}
