/*
 * A log-linear histogram: values of 0 to INT64_MAX, 32 linear steps for each
 * power of two (error at most 3 %), fixed size, no allocation. Embedded, zeroed
 * is empty. One writer thread.
 */
#ifndef WQD_BASE_HIST_H
#define WQD_BASE_HIST_H

#include <stdint.h>

#define HIST_STEPS_LOG2 5
#define HIST_BUCKETS    ((64 - HIST_STEPS_LOG2 + 1) << HIST_STEPS_LOG2)

struct hist {
	uint64_t count;
	int64_t max;
	uint64_t bucket[HIST_BUCKETS];
};

/* Negative values count as 0. */
void
hist_add(struct hist *h, int64_t v);
/* The value below which `permille` of 1000 lie (upper edge of its bucket, at most max); 0 when
 * empty. */
int64_t
hist_quantile(const struct hist *h, unsigned permille);
/* The same of 1 000 000. */
int64_t
hist_quantile_ppm(const struct hist *h, unsigned ppm);

#endif
