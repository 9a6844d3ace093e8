/*
 * Assertions that stay on in release builds, and magic numbers.
 *
 * A broken invariant is a bug: wq_assert() prints where and what, then aborts,
 * so that a core or the service manager's log shows it. Bad input, a lack of
 * memory, a full disk or a dead peer are never asserted: they are error codes.
 *
 * Heap objects carry a `magic` word as their first member; whatever comes back
 * through a `void *` is checked with CHECK_OBJ, and MAGIC_DONE poisons the word
 * when the object dies, so that a stale pointer is caught at its first use.
 */
#ifndef WQD_BASE_ASSERT_H
#define WQD_BASE_ASSERT_H

#include <stdint.h>

_Noreturn void
wq_assert_fail(const char *func, const char *file, int line, const char *cond);

#define wq_assert(cond) \
	do { \
		if (__builtin_expect(!(cond), 0)) \
			wq_assert_fail(__func__, __FILE__, __LINE__, #cond); \
	} while (0)

#define MAGIC_DEAD 0xdeadbeefu

#define CHECK_OBJ(p, m) wq_assert((p) != NULL && (p)->magic == (m))
#define MAGIC_DONE(p)   ((p)->magic = MAGIC_DEAD)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* By way of an integer, so that a const member gives a const container without a cast warning. */
#define container_of(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

#endif
