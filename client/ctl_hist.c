#include "ctl_hist.h"

/* Doublings that don't show in the top eight bits: what is cut off a value. */
static unsigned
shift_of(int64_t v)
{
	return v < 2ll * CTL_HIST_STEPS ? 0 : 56 - (unsigned)__builtin_clzll((uint64_t)v);
}

void
ctl_hist_add(struct ctl_hist *h, int64_t v)
{
	unsigned shift;

	if (v < 0)
		v = 0;
	shift = shift_of(v);
	h->bucket[shift * CTL_HIST_STEPS + (unsigned)(v >> shift)]++;
	h->count++;
	if (v > h->max)
		h->max = v;
}

/* The greatest value of bucket `i`. */
static int64_t
top_of(unsigned i)
{
	unsigned shift = i < 2 * CTL_HIST_STEPS ? 0 : i / CTL_HIST_STEPS - 1;

	return (int64_t)((((uint64_t)(i - shift * CTL_HIST_STEPS) + 1) << shift) - 1);
}

int64_t
ctl_hist_quantile(const struct ctl_hist *h, unsigned permille)
{
	uint64_t want = (h->count * permille + 999) / 1000, seen = 0;

	for (unsigned i = 0; i < CTL_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= want && seen > 0)
			return top_of(i) < h->max ? top_of(i) : h->max;
	}
	return h->max;
}
