/*
 * Buckets: the values below 32 one each; from there on a power of two 2^e has
 * 32 buckets of 2^(e-5) values.
 */
#include "base/hist.h"

#define STEPS   (1 << HIST_STEPS_LOG2)
#define MILLION 1000000u

static unsigned
bucket_of(int64_t v)
{
	unsigned e;

	if (v < STEPS)
		return (unsigned)v;
	e = 63 - (unsigned)__builtin_clzll((unsigned long long)v) - HIST_STEPS_LOG2;
	return (e << HIST_STEPS_LOG2) + (unsigned)(v >> e);
}

/* The largest value of bucket `b`. */
static int64_t
upper_edge(unsigned b)
{
	unsigned e;
	uint64_t step;

	if (b < STEPS)
		return b;
	e = (b >> HIST_STEPS_LOG2) - 1;
	step = STEPS + (b & (STEPS - 1));
	return (int64_t)(((step + 1) << e) - 1);
}

void
hist_add(struct hist *h, int64_t v)
{
	if (v < 0)
		v = 0;
	h->bucket[bucket_of(v)]++;
	h->count++;
	if (v > h->max)
		h->max = v;
}

int64_t
hist_quantile(const struct hist *h, unsigned permille)
{
	return hist_quantile_ppm(h, permille > 1000 ? MILLION : permille * 1000);
}

int64_t
hist_quantile_ppm(const struct hist *h, unsigned ppm)
{
	uint64_t want, seen = 0;
	int64_t edge;

	if (h->count == 0)
		return 0;
	if (ppm > MILLION)
		ppm = MILLION;
	want = h->count / MILLION * ppm + (h->count % MILLION * ppm + MILLION - 1) / MILLION;
	for (unsigned b = 0; b < HIST_BUCKETS; b++) {
		seen += h->bucket[b];
		if (seen < want || seen == 0)
			continue;
		edge = upper_edge(b);
		return edge < h->max ? edge : h->max;
	}
	return h->max;
}
