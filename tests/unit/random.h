/*
 * Random numbers for tests: splitmix64, the same everywhere from the same seed.
 */
#ifndef WQD_TESTS_RANDOM_H
#define WQD_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rnd {
	uint64_t s;
};

static inline uint64_t
rnd_next(struct rnd *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0 .. n-1 */
static inline uint64_t
rnd_below(struct rnd *r, uint64_t n)
{
	return rnd_next(r) % n;
}

static inline bool
rnd_one_in(struct rnd *r, uint64_t n)
{
	return rnd_below(r, n) == 0;
}

#endif
