#include "scratch.h"

#include <string.h>

#include "mem.h"

#define SCRATCH_BLOCK 16384u
#define SCRATCH_ALIGN 16u

struct scratch_block {
	struct scratch_block *older;
	size_t cap, used;
	_Alignas(SCRATCH_ALIGN) uint8_t data[];
};

void
scratch_init(struct scratch *s, size_t max)
{
	*s = (struct scratch){ .max = max };
}

static void
drop_blocks(struct scratch *s, struct scratch_block *keep)
{
	while (s->head && s->head != keep) {
		struct scratch_block *b = s->head;

		s->head = b->older;
		s->total -= b->cap;
		mem_free(b);
	}
}

void
scratch_done(struct scratch *s)
{
	drop_blocks(s, NULL);
}

void
scratch_reset(struct scratch *s)
{
	struct scratch_block *first = s->head;

	while (first && first->older)
		first = first->older;
	if (first && first->cap != SCRATCH_BLOCK)
		first = NULL;
	drop_blocks(s, first);
	if (first)
		first->used = 0;
	s->no_memory = false;
}

static struct scratch_block *
block_add(struct scratch *s, size_t n)
{
	size_t cap = n > SCRATCH_BLOCK ? n : SCRATCH_BLOCK;
	struct scratch_block *b;

	if (cap > s->max - s->total)
		return NULL;
	b = mem_alloc(sizeof *b + cap);
	if (!b) {
		s->no_memory = true;
		return NULL;
	}
	b->cap = cap;
	b->used = 0;
	b->older = s->head;
	s->head = b;
	s->total += cap;
	return b;
}

void *
scratch_alloc(struct scratch *s, size_t n)
{
	struct scratch_block *b = s->head;
	void *p;

	if (n > s->max)
		return NULL;
	n = (n + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
	if (!b || b->cap - b->used < n)
		b = block_add(s, n);
	if (!b)
		return NULL;
	p = b->data + b->used;
	b->used += n;
	return p;
}

char *
scratch_text(struct scratch *s, const void *p, size_t n)
{
	char *d = n < SIZE_MAX ? scratch_alloc(s, n + 1) : NULL;

	if (!d)
		return NULL;
	if (n)
		memcpy(d, p, n);
	d[n] = '\0';
	return d;
}
