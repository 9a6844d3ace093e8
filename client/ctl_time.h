/*
 * Times and durations as people write and read them. Unix milliseconds, and
 * spans in milliseconds. Locale-free; pure, but for the zone of ctl_time_local
 * and the clock of ctl_now_ms.
 */
#ifndef WQ_CTL_TIME_H
#define WQ_CTL_TIME_H

#include <stdint.h>

/* "250ms", "30s", "1h30m", "0"; another number without a unit is refused, because seconds and
 * milliseconds would both be a guess. NULL on success, else what is wrong (static). */
const char *
ctl_duration_parse(const char *text, int64_t *ms);
/*
 * RFC 3339 with an offset: "2026-03-01T08:30:00.250+01:00", "...Z". A fraction finer than a
 * millisecond rounds up, so that nothing runs early; second 60 is the first of the next minute;
 * times before 1970 read as 0. NULL on success, else what is wrong (static).
 */
const char *
ctl_rfc3339_parse(const char *text, int64_t *ms);

#define CTL_TIME_SIZE 40
/* "2026-03-01 08:30:00.250" in the local zone. Returns dst. */
char *
ctl_time_local(int64_t ms, char dst[CTL_TIME_SIZE]);
/* "12.345s", "3m05s", "2h07m", "40d05h"; of the span's amount. Returns dst. */
char *
ctl_span(int64_t ms, char dst[CTL_TIME_SIZE]);
/* "in 12.345s", "3m05s ago". Returns dst. */
char *
ctl_relative(int64_t ms, int64_t now_ms, char dst[CTL_TIME_SIZE]);
int64_t
ctl_now_ms(void);

#endif
