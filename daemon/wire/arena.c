#include "wire/arena.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define ARENA_MAGIC 0xa4e7a001u
#define CHUNK_SIZE  (1u << 20)
#define ALIGN       8u
#define HEADER      sizeof(uint64_t) /* before each block: its size */

struct chunk {
	struct chunk *next;
	size_t size, used;
	uint8_t bytes[] __attribute__((aligned(ALIGN)));
};

struct arena {
	unsigned magic;
	bool failed;
	size_t max, held;     /* bytes of all chunks */
	struct chunk *chunks; /* the first is the one in use; the last is kept by arena_reset */
};

int
arena_new(size_t max, struct arena **out)
{
	struct arena *a = x_zalloc(sizeof *a);

	if (!a)
		return -ENOMEM;
	a->magic = ARENA_MAGIC;
	a->max = max;
	*out = a;
	return 0;
}

static void
chunks_free(struct chunk *c)
{
	while (c) {
		struct chunk *next = c->next;

		x_free(c);
		c = next;
	}
}

void
arena_free(struct arena *a)
{
	if (!a)
		return;
	CHECK_OBJ(a, ARENA_MAGIC);
	chunks_free(a->chunks);
	MAGIC_DONE(a);
	x_free(a);
}

void
arena_reset(struct arena *a)
{
	struct chunk *keep = a->chunks;

	CHECK_OBJ(a, ARENA_MAGIC);
	a->failed = false;
	if (!keep)
		return;
	while (keep->next) {
		struct chunk *next = keep->next;

		a->held -= keep->size;
		x_free(keep);
		keep = next;
	}
	keep->used = 0;
	a->chunks = keep;
	if (keep->size > CHUNK_SIZE) {
		x_free(keep);
		a->chunks = NULL;
		a->held = 0;
	}
}

static struct chunk *
chunk_add(struct arena *a, size_t need)
{
	size_t size = need > CHUNK_SIZE ? need : CHUNK_SIZE;
	struct chunk *c;

	if (size > a->max - a->held)
		size = need;
	if (size > a->max - a->held)
		return NULL;
	c = x_alloc(sizeof *c + size);
	if (!c)
		return NULL;
	*c = (struct chunk){ .next = a->chunks, .size = size };
	a->chunks = c;
	a->held += size;
	return c;
}

void *
arena_alloc(struct arena *a, size_t n)
{
	struct chunk *c = a->chunks;
	uint64_t size = n;
	size_t need;
	uint8_t *p;

	if (n > a->max)
		goto fail;
	need = HEADER + ((n + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	if (!c || c->size - c->used < need)
		c = chunk_add(a, need);
	if (!c)
		goto fail;
	p = c->bytes + c->used;
	c->used += need;
	memcpy(p, &size, sizeof size);
	return p + HEADER;
fail:
	a->failed = true;
	return NULL;
}

size_t
arena_block_size(const void *block)
{
	uint64_t size;

	memcpy(&size, (const uint8_t *)block - HEADER, sizeof size);
	return (size_t)size;
}

bool
arena_failed(const struct arena *a)
{
	return a->failed;
}
