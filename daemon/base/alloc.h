/*
 * Memory. Only this file calls malloc, realloc and free, so that a test can
 * make the Nth allocation fail (fault-injection builds) and count what is left.
 *
 * x_alloc and friends return NULL when memory runs out: the caller turns that
 * into -ENOMEM or REFUSED_LIMIT. The must_ variants abort instead; they are for
 * start-up and for small internal arrays whose loss no caller could handle.
 * Any thread.
 */
#ifndef WQD_BASE_ALLOC_H
#define WQD_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *
x_alloc(size_t n) __attribute__((malloc, alloc_size(1)));
/* Zeroed. */
void *
x_zalloc(size_t n) __attribute__((malloc, alloc_size(1)));
/* n elements of `size` bytes; NULL when the product overflows. `p` may be NULL. */
void *
x_realloc(void *p, size_t n, size_t size);
char *
x_strndup(const char *s, size_t n);
void *
must_alloc(size_t n) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *
must_zalloc(size_t n) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *
must_realloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *
must_strdup(const char *s) __attribute__((returns_nonnull));
/* NULL is allowed. */
void
x_free(void *p);

/*
 * Large arrays that must not pause who grows them. From BIG_MIN bytes on they are pages straight
 * from the system: zeroed when first touched, moved without a copy when resized, given back a
 * piece at a time. Smaller ones are ordinary blocks. The owner remembers the size.
 */
#define BIG_MIN ((size_t)128 << 10)
/* Zeroed; NULL when memory runs out. */
void *
big_alloc(size_t n);
/* Keeps the first min(old, n) bytes; what is new is zeroed. NULL: nothing changed. */
void *
big_resize(void *p, size_t old, size_t n);
/* The bytes [from, to) of the array won't be read again, except as zeros or as they were: whole
 * pages among them go back to the system. */
void
big_discard(void *p, size_t n, size_t from, size_t to);
void
big_free(void *p, size_t n);
/*
 * Addresses without memory: whole pages, for what must grow without moving. NULL when there are not
 * so many. big_commit makes [from, to) usable, zeroed when first touched: 0 or -ENOMEM. Given up as
 * a whole by big_unreserve; big_discard takes pages back meanwhile.
 */
void *
big_reserve(size_t n);
int
big_commit(void *p, size_t from, size_t to);
void
big_unreserve(void *p, size_t n);

/*
 * Fault injection: the allocation after `countdown` more fails, once (`sticky`
 * false) or from then on. Negative: off. Compiled in always, reached by tests
 * and by the fault-injection build's control alone.
 */
void
alloc_fault_set(int64_t countdown, int sticky);
/* Off; true: the one failure that was set has not come. */
bool
alloc_fault_off(void);
/* Blocks allocated and not freed, over all threads. For tests. */
int64_t
alloc_live(void);

#endif
