#include "engine/rate.h"

#include "base/assert.h"
#include "base/clock.h"

int64_t
rate_interval(const struct rate *r)
{
	wq_assert(r->n > 0 && r->per_s > 0);
	return (r->per_s * NS_PER_S + r->n - 1) / r->n;
}

int64_t
bucket_opens(const struct bucket *b, const struct rate *r, uint32_t burst)
{
	if (r->n == 0)
		return INT64_MIN;
	return b->full_ns - (int64_t)(burst - 1) * rate_interval(r);
}

void
bucket_take(struct bucket *b, int64_t now_ns, const struct rate *r)
{
	if (r->n == 0)
		return;
	b->full_ns = sat_add(b->full_ns > now_ns ? b->full_ns : now_ns, rate_interval(r));
}

void
bucket_give_back(struct bucket *b, const struct rate *r)
{
	if (r->n > 0)
		b->full_ns -= rate_interval(r);
}

void
bucket_change(struct bucket *b, int64_t now_ns, const struct rate *was, const struct rate *is,
	uint32_t burst)
{
	int64_t missing_ns = b->full_ns > now_ns ? b->full_ns - now_ns : 0, taken = 0;

	if (is->n == 0) {
		b->full_ns = 0;
		return;
	}
	if (was->n > 0 && missing_ns > 0)
		taken = (missing_ns - 1) / rate_interval(was) + 1;
	if (was->n == is->n && was->per_s == is->per_s && taken <= burst)
		return;
	if (taken > burst)
		taken = burst;
	b->full_ns = sat_add(now_ns, taken * rate_interval(is));
}
