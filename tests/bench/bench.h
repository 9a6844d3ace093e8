/*
 * What the benches share. Each prints lines "NAME VALUE UNIT", a figure a line;
 * bench.py runs them several times and makes the table. Asserts stay on.
 */
#ifndef WQD_TESTS_BENCH_H
#define WQD_TESTS_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "unit/random.h"

/* The thread's own processor time: what others do on the machine does not count. */
static inline int64_t
bench_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline void
bench_per(const char *name, int64_t ns, uint64_t n)
{
	printf("%s %.1f ns\n", name, (double)ns / (double)n);
}

/* Of memory, of this process. */
static inline uint64_t
bench_resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long size, resident;

	wq_assert(f && fscanf(f, "%lu %lu", &size, &resident) == 2);
	(void)fclose(f);
	return (uint64_t)resident * 4096;
}

/* How many there are to be, from the command line. */
static inline uint64_t
bench_count(int argc, char **argv, uint64_t otherwise)
{
	return argc > 1 ? strtoull(argv[1], NULL, 10) : otherwise;
}

#endif
