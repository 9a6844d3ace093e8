#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"

/* Largest first: the order in which they may follow one another. */
static const struct unit {
	const char *name;
	int64_t ns;
} units[] = {
	{ "w", NS_PER_S * 86400 * 7 },
	{ "d", 86400 * NS_PER_S },
	{ "h", 3600 * NS_PER_S },
	{ "m", 60 * NS_PER_S },
	{ "s", NS_PER_S },
	{ "ms", NS_PER_MS },
	{ "us", NS_PER_US },
	{ "ns", 1 },
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Cuts the digits (`want_digits`), or what is none, off the front of `s`. */
static struct str
cut(struct str *s, bool want_digits)
{
	struct str head = { s->p, 0 };

	while (head.n < s->n && is_digit(s->p[head.n]) == want_digits)
		head.n++;
	s->p += head.n;
	s->n -= head.n;
	return head;
}

int
text_u64(struct str s, uint64_t *v)
{
	uint64_t sum = 0;
	bool over = false;

	if (s.n == 0)
		return ERR_BAD_VALUE;
	for (size_t i = 0; i < s.n; i++) {
		if (!is_digit(s.p[i]))
			return ERR_BAD_VALUE;
		over |= __builtin_mul_overflow(sum, 10u, &sum);
		over |= __builtin_add_overflow(sum, (unsigned)(s.p[i] - '0'), &sum);
	}
	if (over)
		return ERR_OUT_OF_RANGE;
	*v = sum;
	return 0;
}

static int
unit_number(struct str name)
{
	for (int i = 0; i < (int)ARRAY_SIZE(units); i++)
		if (str_eq(name, str_from(units[i].name)))
			return i;
	return ERR_BAD_VALUE;
}

int
text_duration(struct str s, int64_t *ns)
{
	int64_t sum = 0;
	int last = -1;
	bool over = false;

	if (str_eq(s, STR("0"))) {
		*ns = 0;
		return 0;
	}
	if (s.n == 0)
		return ERR_BAD_VALUE;
	while (s.n > 0) {
		uint64_t count = 0;
		int64_t part;
		int err = text_u64(cut(&s, true), &count);
		int unit = unit_number(cut(&s, false));

		if (err == ERR_BAD_VALUE || unit <= last)
			return ERR_BAD_VALUE;
		over |= err < 0 || __builtin_mul_overflow(units[unit].ns, count, &part) ||
			__builtin_add_overflow(sum, part, &sum);
		last = unit;
	}
	if (over)
		return ERR_OUT_OF_RANGE;
	*ns = sum;
	return 0;
}

size_t
text_put_duration(char *dst, size_t size, int64_t ns)
{
	size_t n = 0;

	wq_assert(ns >= 0 && size >= 64);
	if (ns == 0)
		return (size_t)snprintf(dst, size, "0");
	for (size_t i = 0; i < ARRAY_SIZE(units) && ns > 0; i++) {
		int64_t count = ns / units[i].ns;

		ns %= units[i].ns;
		if (count)
			n += (size_t)snprintf(
				dst + n, size - n, "%" PRId64 "%s", count, units[i].name);
	}
	return n;
}

int
text_size(struct str s, uint64_t *v)
{
	static const char suffixes[] = "kmg";
	const char *suffix = s.n ? memchr(suffixes, s.p[s.n - 1], 3) : NULL;
	uint64_t count = 0;
	unsigned shift = 0;
	int err;

	if (suffix) {
		shift = 10 * (unsigned)(suffix - suffixes + 1);
		s.n--;
	}
	err = text_u64(s, &count);
	if (err < 0)
		return err;
	if (count > UINT64_MAX >> shift)
		return ERR_OUT_OF_RANGE;
	*v = count << shift;
	return 0;
}

int
text_bool(struct str s, bool *v)
{
	static const struct {
		const char *word;
		bool v;
	} words[] = {
		{ "yes", true },
		{ "no", false },
		{ "true", true },
		{ "false", false },
		{ "on", true },
		{ "off", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!str_eq(s, str_from(words[i].word)))
			continue;
		*v = words[i].v;
		return 0;
	}
	return ERR_BAD_VALUE;
}

/* Length of the well-formed sequence at `b`, of which `n` > 0 bytes are there; 0: none. */
static size_t
utf8_len(const uint8_t *b, size_t n)
{
	/* What the second byte may be excludes overlong forms, surrogates and all over U+10FFFF. */
	uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
	uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
	size_t len;

	if (b[0] < 0x80)
		return 1;
	if (b[0] < 0xc2 || b[0] > 0xf4)
		return 0;
	len = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
	if (n < len || b[1] < low || b[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

bool
text_utf8_valid(struct str s)
{
	const uint8_t *b = (const uint8_t *)s.p;

	for (size_t i = 0, len; i < s.n; i += len) {
		len = utf8_len(b + i, s.n - i);
		if (len == 0)
			return false;
	}
	return true;
}
