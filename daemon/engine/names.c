/* Which queue names and keys are accepted (ops.h has the set). */
#include <stdint.h>

#include "base/assert.h"
#include "base/grants.h"
#include "base/text.h"
#include "engine/ops.h"
#include "engine/settings.h"

/* The refused characters above ASCII, as the ranges of their UTF-8 forms. */
static const struct refused {
	uint8_t n;
	uint8_t low[3], high_last; /* all bytes but the last are the same in a range */
} refused[] = {
	{ 2, { 0xc2, 0x80 }, 0x9f },       /* U+0080-009F: control */
	{ 2, { 0xd8, 0x9c }, 0x9c },       /* U+061C: bidirectional */
	{ 3, { 0xe2, 0x80, 0x8e }, 0x8f }, /* U+200E-F */
	{ 3, { 0xe2, 0x80, 0xaa }, 0xae }, /* U+202A-E */
	{ 3, { 0xe2, 0x81, 0xa6 }, 0xa9 }, /* U+2066-9 */
};

static bool
refused_at(const uint8_t *b, size_t left)
{
	if (b[0] < 0x80)
		return b[0] < 0x20 || b[0] == 0x7f;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const struct refused *r = &refused[i];

		if (left >= r->n && memcmp(b, r->low, r->n - 1u) == 0 &&
			b[r->n - 1] >= r->low[r->n - 1] && b[r->n - 1] <= r->high_last)
			return true;
	}
	return false;
}

#define EACH(byte) (UINT64_MAX / 255 * (byte))

/* U+0020-007E throughout, eight at a time: what names are made of, nearly always. */
static bool
all_printable_ascii(struct str s)
{
	uint64_t v, bad = 0;
	size_t i = 0;

	for (; s.n - i >= sizeof v; i += sizeof v) {
		memcpy(&v, s.p + i, sizeof v);
		/* Over 0x7e; below 0x20. The top bits of `v` are in `bad` themselves, so that a
		 * carry or a borrow into the next byte changes nothing. */
		bad |= (v + EACH(1)) | v | (v - EACH(0x20));
	}
	for (; i < s.n; i++)
		bad |= (uint8_t)s.p[i] < 0x20 || (uint8_t)s.p[i] > 0x7e ? 0x80 : 0;
	return (bad & EACH(0x80)) == 0;
}

static bool
name_valid(struct str s, size_t max)
{
	if (s.n == 0 || s.n > max || s.p[0] == ' ' || s.p[s.n - 1] == ' ')
		return false;
	if (all_printable_ascii(s))
		return true;
	if (!text_utf8_valid(s))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (refused_at((const uint8_t *)s.p + i, s.n - i))
			return false;
	return true;
}

bool
namespace_valid(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool word =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!word && (i == 0 || (c != '_' && c != '.' && c != '-')))
			return false;
	}
	return name.n > 0 && name.n <= NAMESPACE_NAME_MAX;
}

/* What stands before the slash is a namespace; *rest: what stands behind it. */
static bool
in_namespace(struct str name, struct str *rest)
{
	const char *slash = name.n ? memchr(name.p, '/', name.n) : NULL;
	size_t n = slash ? (size_t)(slash - name.p) : 0;

	if (!slash || !namespace_valid((struct str){ name.p, n }))
		return false;
	*rest = (struct str){ slash + 1, name.n - n - 1 };
	return true;
}

bool
queue_name_inner_valid(struct str name)
{
	struct str rest;

	return queue_name_valid(name) ||
		(name.n <= QUEUE_NAME_MAX && in_namespace(name, &rest) && queue_name_valid(rest));
}

bool
completion_name_inner_valid(struct str name)
{
	struct str rest;

	return key_valid(name) ||
		(name.n <= KEY_MAX && name.n > 0 && name.p[0] == ' ' &&
			in_namespace((struct str){ name.p + 1, name.n - 1 }, &rest) &&
			key_valid(rest));
}

struct str
queue_name_outer(struct str inner)
{
	const char *slash = inner.n ? memchr(inner.p, '/', inner.n) : NULL;
	size_t n = slash ? (size_t)(slash - inner.p) + 1 : 0;

	return n ? (struct str){ inner.p + n, inner.n - n } : inner;
}

struct str
completion_name_outer(struct str inner)
{
	return inner.n && inner.p[0] == ' ' ? queue_name_outer(inner) : inner;
}

bool
key_valid(struct str key)
{
	return name_valid(key, KEY_MAX);
}

bool
queue_name_valid(struct str name)
{
	return name_valid(name, QUEUE_NAME_MAX) && !memchr(name.p, '/', name.n);
}
