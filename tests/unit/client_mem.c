#include "unit/client_mem.h"

#include <stdatomic.h>

static _Atomic int64_t live;
static _Atomic int64_t countdown = -1;
static _Atomic bool failed;
static int64_t live_before;

/* clang-format off */
void *__real_mem_alloc(size_t n);
void *__real_mem_zalloc(size_t n);
void *__real_mem_grow(void *p, size_t n, size_t size);
void __real_mem_free(void *p);
void *__wrap_mem_alloc(size_t n);
void *__wrap_mem_zalloc(size_t n);
void *__wrap_mem_grow(void *p, size_t n, size_t size);
void __wrap_mem_free(void *p);
/* clang-format on */

void
client_mem_fail_after(int64_t n)
{
	failed = false;
	countdown = n;
}

bool
client_mem_failed(void)
{
	return failed;
}

static bool
hit(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	failed = true;
	return true;
}

static void *
counted(void *p)
{
	if (p)
		live++;
	return p;
}

void *
__wrap_mem_alloc(size_t n)
{
	return hit() ? NULL : counted(__real_mem_alloc(n));
}

void *
__wrap_mem_zalloc(size_t n)
{
	return hit() ? NULL : counted(__real_mem_zalloc(n));
}

void *
__wrap_mem_grow(void *p, size_t n, size_t size)
{
	void *q;

	if (hit())
		return NULL;
	q = __real_mem_grow(p, n, size);
	return p ? q : counted(q);
}

void
__wrap_mem_free(void *p)
{
	if (p)
		live--;
	__real_mem_free(p);
}

static void
before(void)
{
	client_mem_fail_after(-1);
	live_before = live;
}

static void
after(void)
{
	ck_assert_int_eq(live, live_before);
}

TCase *
client_case(Suite *s, const char *name)
{
	TCase *tc = unit_case(s, name);

	tcase_add_checked_fixture(tc, before, after);
	return tc;
}
