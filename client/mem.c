#include "mem.h"

#include <stdlib.h>

void *
mem_alloc(size_t n)
{
	return malloc(n ? n : 1);
}

void *
mem_zalloc(size_t n)
{
	return calloc(1, n ? n : 1);
}

void *
mem_grow(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return realloc(p, bytes ? bytes : 1);
}

void
mem_free(void *p)
{
	free(p);
}
