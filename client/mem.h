/*
 * Memory of the library: only mem.c calls malloc, realloc and free, and the tests put their own
 * in its place. Nothing here aborts; NULL becomes -ENOMEM at the caller.
 */
#ifndef WQ_CLIENT_MEM_H
#define WQ_CLIENT_MEM_H

#include <stddef.h>

void *
mem_alloc(size_t n) __attribute__((malloc, alloc_size(1)));
/* Zeroed. */
void *
mem_zalloc(size_t n) __attribute__((malloc, alloc_size(1)));
/* n elements of `size` bytes; NULL also when the product overflows. `p` may be NULL. */
void *
mem_grow(void *p, size_t n, size_t size);
/* NULL is allowed. */
void
mem_free(void *p);

#endif
