/*
 * So many starts in so much time: a token bucket, as a pure function of when
 * starts were. It holds `burst` tokens at most and gets one more every `per / n`;
 * a start takes one.
 *
 * Kept as one instant: when the bucket will be full again (the virtual scheduling
 * of ATM's cell rate). It is in the past while the bucket is full, and each start
 * moves it on by the time that one token takes. So nothing has to be counted up
 * as time passes, and nothing is lost in rounding: the interval is rounded up,
 * which makes the rate what was asked for or less, by at most a nanosecond a start.
 */
#ifndef WQD_ENGINE_RATE_H
#define WQD_ENGINE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_MAX  1000000u /* in any of the units */
#define BURST_MAX 100000u

/* As it was asked for: n in so many seconds (one, a minute, an hour, a day). n 0: no limit. */
struct rate {
	uint32_t n, per_s;
};

struct bucket {
	int64_t full_ns; /* boot time */
};

/* Between two starts in the long run; of a rate that is one. */
int64_t
rate_interval(const struct rate *r);
/* The boot time from which one may start. INT64_MIN: no limit. */
int64_t
bucket_opens(const struct bucket *b, const struct rate *r, uint32_t burst);
/* One was started. */
void
bucket_take(struct bucket *b, int64_t now_ns, const struct rate *r);
/* It was not, after all. */
void
bucket_give_back(struct bucket *b, const struct rate *r);
/* Another rate or size, or the same: what was taken stays taken, as many tokens as it was, in whole
 * ones where the rate differs. */
void
bucket_change(struct bucket *b, int64_t now_ns, const struct rate *was, const struct rate *is,
	uint32_t burst);

#endif
