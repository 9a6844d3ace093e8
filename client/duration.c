/*
 * Durations as text: "250ms", "30s", "1h30m", "2d", "1w"; a plain number is milliseconds. Each
 * unit at most once and falling, so that "1m1m" or "5s2h" is a typing error and not a sum.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wq.h"

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
	{ "w", 7 * 86400000ll },
	{ "d", 86400000 },
	{ "h", 3600000 },
	{ "m", 60000 },
	{ "s", 1000 },
	{ "ms", 1 },
};
#define UNIT_COUNT (sizeof units / sizeof *units)

static size_t
unit_find(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < UNIT_COUNT; i++)
		if (strlen(units[i].name) == n && strncmp(units[i].name, p, n) == 0)
			break;
	return i;
}

/* Digits at *p; moves it. 0 or WQ_ERR_OPTION. */
static int
number(const char **p, int64_t *out)
{
	const char *s = *p;
	int64_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
			return WQ_ERR_OPTION;
	if (s == *p)
		return WQ_ERR_OPTION;
	*p = s;
	*out = v;
	return 0;
}

int
wq_parse_duration(const char *text, int64_t *ms)
{
	const char *p = text;
	int64_t sum = 0, v;
	size_t least = 0; /* the next unit must come after this one in the table */

	if (!text || !ms || number(&p, &v) < 0)
		return WQ_ERR_OPTION;
	if (*p == '\0') {
		*ms = v;
		return 0;
	}
	for (;;) {
		size_t n = strcspn(p, "0123456789"), u = unit_find(p, n);

		if (u == UNIT_COUNT || u < least)
			return WQ_ERR_OPTION;
		if (__builtin_mul_overflow(v, units[u].ms, &v) ||
			__builtin_add_overflow(sum, v, &sum))
			return WQ_ERR_OPTION;
		least = u + 1;
		p += n;
		if (*p == '\0')
			break;
		if (number(&p, &v) < 0)
			return WQ_ERR_OPTION;
	}
	*ms = sum;
	return 0;
}
