/*
 * Latencies of a bench: counts in buckets that are exact below 256 and then at
 * most 1/128 wide, so a quantile is at most 0.8 % too high. Zeroed is empty.
 */
#ifndef WQ_CTL_HIST_H
#define WQ_CTL_HIST_H

#include <stdint.h>

#define CTL_HIST_STEPS   128 /* buckets for each doubling */
#define CTL_HIST_BUCKETS ((62 - 7 + 2) * CTL_HIST_STEPS)

struct ctl_hist {
	uint64_t count;
	int64_t max;
	uint64_t bucket[CTL_HIST_BUCKETS];
};

/* Negative values count as 0. */
void
ctl_hist_add(struct ctl_hist *h, int64_t v);
/* The least value that at least `permille` of 1000 don't exceed, as the top of its bucket; 0 when
 * empty. */
int64_t
ctl_hist_quantile(const struct ctl_hist *h, unsigned permille);

#endif
