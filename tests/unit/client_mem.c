#include "unit/client_mem.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "client/mem.h"

static _Atomic int64_t live;
static _Atomic int64_t countdown = -1;
static _Atomic bool failed;
static int64_t live_before;

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
mem_alloc(size_t n)
{
	return hit() ? NULL : counted(malloc(n ? n : 1));
}

void *
mem_zalloc(size_t n)
{
	return hit() ? NULL : counted(calloc(1, n ? n : 1));
}

void *
mem_grow(void *p, size_t n, size_t size)
{
	size_t bytes;
	void *q;

	if (hit() || __builtin_mul_overflow(n, size, &bytes))
		return NULL;
	q = realloc(p, bytes ? bytes : 1);
	return p ? q : counted(q);
}

void
mem_free(void *p)
{
	if (p)
		live--;
	free(p);
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
