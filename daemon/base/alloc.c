#include "base/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t fault_countdown = -1; /* any thread */
static _Atomic int fault_sticky;
static _Atomic int64_t live;

static bool
fault_hit(void)
{
	int64_t left = atomic_load_explicit(&fault_countdown, memory_order_relaxed);

	if (left < 0)
		return false;
	left = atomic_fetch_sub(&fault_countdown, 1);
	if (left > 0)
		return false;
	atomic_store(&fault_countdown, atomic_load(&fault_sticky) ? 0 : -1);
	return true;
}

static void *
counted(void *p)
{
	if (p)
		atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
	return p;
}

static void *
must(void *p)
{
	if (!p) {
		fputs("wqd: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *
x_alloc(size_t n)
{
	return fault_hit() ? NULL : counted(malloc(n ? n : 1));
}

void *
x_zalloc(size_t n)
{
	return fault_hit() ? NULL : counted(calloc(1, n ? n : 1));
}

void *
x_realloc(void *p, size_t n, size_t size)
{
	void *q;

	if (fault_hit())
		return NULL;
	if (n == 0)
		n = 1;
	q = reallocarray(p, n, size);
	return p ? q : counted(q);
}

char *
x_strndup(const char *s, size_t n)
{
	char *d = x_alloc(n + 1);

	if (!d)
		return NULL;
	memcpy(d, s, n);
	d[n] = '\0';
	return d;
}

void *
must_alloc(size_t n)
{
	return must(counted(malloc(n ? n : 1)));
}

void *
must_zalloc(size_t n)
{
	return must(counted(calloc(1, n ? n : 1)));
}

void *
must_realloc(void *p, size_t n, size_t size)
{
	void *q = must(reallocarray(p, n ? n : 1, size));

	return p ? q : counted(q);
}

char *
must_strdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(must_alloc(n), s, n);
}

void
x_free(void *p)
{
	if (!p)
		return;
	atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	free(p);
}

static void *
pages_alloc(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *
big_alloc(size_t n)
{
	if (n < BIG_MIN)
		return x_zalloc(n);
	return fault_hit() ? NULL : counted(pages_alloc(n));
}

void *
big_resize(void *p, size_t old, size_t n)
{
	void *q;

	if (p && old >= BIG_MIN && n >= BIG_MIN) {
		q = fault_hit() ? MAP_FAILED : mremap(p, old, n, MREMAP_MAYMOVE);
		return q == MAP_FAILED ? NULL : q;
	}
	q = big_alloc(n);
	if (q && p) {
		memcpy(q, p, old < n ? old : n);
		big_free(p, old);
	}
	return q;
}

void
big_discard(void *p, size_t n, size_t from, size_t to)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (n < BIG_MIN)
		return;
	from = (from + page - 1) & ~(page - 1);
	to &= ~(page - 1);
	if (from < to)
		(void)madvise((char *)p + from, to - from, MADV_DONTNEED);
}

void
big_free(void *p, size_t n)
{
	if (n < BIG_MIN || !p) {
		x_free(p);
		return;
	}
	atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	munmap(p, n);
}

void *
big_reserve(size_t n)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p = fault_hit() ? MAP_FAILED : mmap(NULL, n, PROT_NONE, flags, -1, 0);

	return p == MAP_FAILED ? NULL : counted(p);
}

int
big_commit(void *p, size_t from, size_t to)
{
	if (fault_hit() || mprotect((char *)p + from, to - from, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	return 0;
}

void
big_unreserve(void *p, size_t n)
{
	if (!p)
		return;
	atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	munmap(p, n);
}

void
alloc_fault_set(int64_t countdown, int sticky)
{
	atomic_store(&fault_sticky, sticky);
	atomic_store(&fault_countdown, countdown);
}

bool
alloc_fault_off(void)
{
	return atomic_exchange(&fault_countdown, -1) >= 0;
}

int64_t
alloc_live(void)
{
	return atomic_load(&live);
}
