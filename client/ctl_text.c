#include "ctl_text.h"

#include <string.h>

#include "ctl_mem.h"

/* What may follow a lead byte: how many bytes, and the range of the first of them. */
struct lead {
	uint8_t first, last;
	uint8_t more;
	uint8_t low, high;
};

static const struct lead leads[] = {
	{ 0x00, 0x7f, 0, 0, 0 }, { 0xc2, 0xdf, 1, 0x80, 0xbf },
	{ 0xe0, 0xe0, 2, 0xa0, 0xbf },                                /* below: overlong */
	{ 0xe1, 0xec, 2, 0x80, 0xbf }, { 0xed, 0xed, 2, 0x80, 0x9f }, /* above: surrogates */
	{ 0xee, 0xef, 2, 0x80, 0xbf }, { 0xf0, 0xf0, 3, 0x90, 0xbf }, /* below: overlong */
	{ 0xf1, 0xf3, 3, 0x80, 0xbf }, { 0xf4, 0xf4, 3, 0x80, 0x8f }, /* above: beyond U+10FFFF */
};

static const struct lead *
find_lead(uint8_t b)
{
	for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++)
		if (b >= leads[i].first && b <= leads[i].last)
			return &leads[i];
	return NULL;
}

size_t
ctl_utf8_next(const char *s, size_t n, int32_t *cp)
{
	const uint8_t *p = (const uint8_t *)s;
	const struct lead *l = find_lead(p[0]);
	uint8_t low, high;
	int32_t v;

	*cp = -1;
	if (!l)
		return 1;
	v = l->more ? p[0] & (0x3f >> l->more) : p[0];
	low = l->low;
	high = l->high;
	for (size_t i = 1; i <= l->more; i++) {
		if (i >= n || p[i] < low || p[i] > high)
			return i;
		v = v << 6 | (p[i] & 0x3f);
		low = 0x80;
		high = 0xbf;
	}
	*cp = v;
	return (size_t)l->more + 1;
}

/* Code points that would act on the terminal or reorder the line instead of being seen. */
static bool
acts(int32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x61c ||
		(cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
		(cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || (cp >= 0xfff9 && cp <= 0xfffb) ||
		(cp >= 0xe0000 && cp <= 0xe007f);
}

/* One character, or `len` broken bytes. */
static void
put_char(FILE *out, const char *s, size_t len, int32_t cp)
{
	static const char shorts[] = "\a\b\t\n\v\f\r\\", letters[] = "abtnvfr\\";
	const char *at = cp > 0 && cp < 0x80 ? strchr(shorts, (char)cp) : NULL;

	if (cp < 0)
		for (size_t i = 0; i < len; i++)
			fprintf(out, "\\x%02x", (unsigned)(uint8_t)s[i]);
	else if (at)
		fprintf(out, "\\%c", letters[at - shorts]);
	else if (acts(cp))
		fprintf(out, cp < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)cp);
	else
		fwrite(s, 1, len, out);
}

void
ctl_text_put(FILE *out, const char *s, size_t n)
{
	int32_t cp;

	for (size_t i = 0, len; i < n; i += len) {
		len = ctl_utf8_next(s + i, n - i, &cp);
		put_char(out, s + i, len, cp);
	}
}

void
ctl_text_puts(FILE *out, const char *s)
{
	ctl_text_put(out, s, strlen(s));
}

void
ctl_text_put_block(FILE *out, const char *indent, const char *s, size_t n)
{
	bool at_start = true;
	int32_t cp;

	for (size_t i = 0, len; i < n; i += len) {
		len = ctl_utf8_next(s + i, n - i, &cp);
		if (at_start)
			fputs(indent, out);
		at_start = cp == '\n';
		if (cp == '\n' || cp == '\t')
			putc((int)cp, out);
		else
			put_char(out, s + i, len, cp);
	}
	if (!at_start)
		putc('\n', out);
}

json_t *
ctl_text_json(const char *s, size_t n, bool *lossy)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *copy = ctl_alloc(3 * n + 1); /* each broken byte may become three */
	size_t used = 0;
	bool lost = false;
	int32_t cp;
	json_t *j;

	for (size_t i = 0, len; i < n; i += len) {
		len = ctl_utf8_next(s + i, n - i, &cp);
		lost |= cp < 0;
		memcpy(copy + used, cp < 0 ? replacement : s + i, cp < 0 ? 3 : len);
		used += cp < 0 ? 3 : len;
	}
	if (lossy)
		*lossy = lost;
	j = json_stringn(copy, used);
	mem_free(copy);
	return j;
}

json_t *
ctl_text_jsons(const char *s)
{
	return s ? ctl_text_json(s, strlen(s), NULL) : json_null();
}

json_t *
ctl_base64_json(const void *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *b = p;
	size_t used = 0;
	char *text = ctl_alloc((n + 2) / 3 * 4 + 1);
	json_t *j;

	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) |
			(left > 2 ? b[i + 2] : 0);

		text[used++] = digits[v >> 18];
		text[used++] = digits[v >> 12 & 63];
		text[used++] = '=';
		text[used++] = '=';
		if (left > 1)
			text[used - 2] = digits[v >> 6 & 63];
		if (left > 2)
			text[used - 1] = digits[v & 63];
	}
	j = json_stringn_nocheck(text, used);
	mem_free(text);
	return j;
}
