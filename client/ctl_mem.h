/*
 * Memory of a program that has nothing to save when it runs out: it says so and
 * ends. Freed with mem_free.
 */
#ifndef WQ_CTL_MEM_H
#define WQ_CTL_MEM_H

#include <stddef.h>

#include "mem.h"

/* Ends the process. */
_Noreturn void
ctl_no_memory(void);
/* Zeroed. */
void *
ctl_alloc(size_t n) __attribute__((malloc, alloc_size(1), returns_nonnull));
/* n elements of `size` bytes; `p` may be NULL. */
void *
ctl_grow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *
ctl_strdup(const char *s) __attribute__((returns_nonnull));

#endif
