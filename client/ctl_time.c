#include "ctl_time.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wq.h"

const char *
ctl_duration_parse(const char *text, int64_t *ms)
{
	if (strcmp(text, "0") == 0) {
		*ms = 0;
		return NULL;
	}
	if (text[0] && text[strspn(text, "0123456789")] == '\0')
		return "has no unit (like 250ms, 30s, 1h30m)";
	if (wq_parse_duration(text, ms) < 0)
		return "is not a duration (like 250ms, 30s, 1h30m)";
	return NULL;
}

/* ---- RFC 3339 ---- */

/* Takes exactly `width` digits off *p, of value low to high. */
static bool
take_number(const char **p, int width, int low, int high, int *v)
{
	int n = 0;

	for (int i = 0; i < width; i++) {
		if ((*p)[i] < '0' || (*p)[i] > '9')
			return false;
		n = n * 10 + ((*p)[i] - '0');
	}
	*p += width;
	*v = n;
	return n >= low && n <= high;
}

static bool
take_one_of(const char **p, const char *set)
{
	if (**p == '\0' || !strchr(set, **p))
		return false;
	(*p)++;
	return true;
}

static int
days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

/* Days from 1970-01-01. Years are counted from March, so that the leap day is their last, and 400
 * more of them (whole cycles), so that every division is of a positive number. */
static int64_t
days_since_epoch(int year, int month, int day)
{
	static const int before[] = { 306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275 };
	int64_t y = year + 400 - (month <= 2);

	return y * 365 + y / 4 - y / 100 + y / 400 + before[month - 1] + day - 1 - 865565;
}

/* ".123456": milliseconds, rounded up. */
static bool
take_fraction(const char **p, int64_t *ms)
{
	int64_t scale = 100;
	bool more = false;

	*ms = 0;
	if (!take_one_of(p, "."))
		return true;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		*ms += (**p - '0') * scale;
		more |= scale == 0 && **p != '0';
		scale /= 10;
	}
	*ms += more;
	return true;
}

static bool
take_offset(const char **p, int *minutes)
{
	int h, m, sign = **p == '-' ? -1 : 1;

	*minutes = 0;
	if (take_one_of(p, "Zz"))
		return true;
	if (!take_one_of(p, "+-") || !take_number(p, 2, 0, 23, &h) || !take_one_of(p, ":") ||
		!take_number(p, 2, 0, 59, &m))
		return false;
	*minutes = sign * (h * 60 + m);
	return true;
}

const char *
ctl_rfc3339_parse(const char *text, int64_t *ms)
{
	static const char *const wrong = "is not an RFC 3339 time (like 2026-03-01T08:30:00+01:00)";
	const char *p = text;
	int year, month, day, h, m, s, offset;
	int64_t fraction, v;

	if (!take_number(&p, 4, 0, 9999, &year) || !take_one_of(&p, "-") ||
		!take_number(&p, 2, 1, 12, &month) || !take_one_of(&p, "-") ||
		!take_number(&p, 2, 1, days_in_month(year, month), &day) ||
		!take_one_of(&p, "Tt ") || !take_number(&p, 2, 0, 23, &h) ||
		!take_one_of(&p, ":") || !take_number(&p, 2, 0, 59, &m) || !take_one_of(&p, ":") ||
		!take_number(&p, 2, 0, 60, &s) || !take_fraction(&p, &fraction))
		return wrong;
	if (*p == '\0')
		return "has no offset (end it with Z or like +01:00)";
	if (!take_offset(&p, &offset) || *p != '\0')
		return wrong;
	v = ((days_since_epoch(year, month, day) * 24 + h) * 60 + m - offset) * 60 + s;
	v = v * 1000 + fraction;
	*ms = v > 0 ? v : 0;
	return NULL;
}

/* ---- output ---- */

char *
ctl_time_local(int64_t ms, char dst[CTL_TIME_SIZE])
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	/* A time_t of 32 bits ends in 2038. */
	if (ms < 0 || s != ms / 1000 || !localtime_r(&s, &tm) ||
		(n = strftime(dst, CTL_TIME_SIZE - 5, "%Y-%m-%d %H:%M:%S", &tm)) == 0)
		snprintf(dst, CTL_TIME_SIZE, "%lld ms", (long long)ms);
	else
		snprintf(dst + n, CTL_TIME_SIZE - n, ".%03d", (int)(ms % 1000));
	return dst;
}

char *
ctl_span(int64_t ms, char dst[CTL_TIME_SIZE])
{
	uint64_t v = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	unsigned long long s = v / 1000;

	if (s < 60)
		snprintf(dst, CTL_TIME_SIZE, "%llu.%03us", s, (unsigned)(v % 1000));
	else if (s < 3600)
		snprintf(dst, CTL_TIME_SIZE, "%llum%02us", s / 60, (unsigned)(s % 60));
	else if (s < 86400)
		snprintf(dst, CTL_TIME_SIZE, "%lluh%02um", s / 3600, (unsigned)(s / 60 % 60));
	else
		snprintf(dst, CTL_TIME_SIZE, "%llud%02uh", s / 86400, (unsigned)(s / 3600 % 24));
	return dst;
}

char *
ctl_relative(int64_t ms, int64_t now_ms, char dst[CTL_TIME_SIZE])
{
	char span[CTL_TIME_SIZE];

	ctl_span(ms - now_ms, span);
	if (ms > now_ms)
		snprintf(dst, CTL_TIME_SIZE, "in %.30s", span);
	else
		snprintf(dst, CTL_TIME_SIZE, "%.30s ago", span);
	return dst;
}

int64_t
ctl_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
