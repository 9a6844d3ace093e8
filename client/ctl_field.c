#include "ctl_field.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "ctl_mem.h"

const char *
field_text(struct fields *f, const char *name)
{
	json_t *v = json_object_get(f->j, name);

	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
		return json_string_value(v);
	f->wrong = "a name is missing or no text";
	return "";
}

int64_t
field_number(struct fields *f, const char *name, int64_t otherwise, int64_t most)
{
	json_t *v = json_object_get(f->j, name);

	if (!v)
		return otherwise;
	if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= most)
		return json_integer_value(v);
	f->wrong = "a number is none, or out of its range";
	return otherwise;
}

bool
field_flag(struct fields *f, const char *name)
{
	json_t *v = json_object_get(f->j, name);

	if (v && !json_is_boolean(v))
		f->wrong = "a field that says yes or no is neither true nor false";
	return json_is_true(v);
}

int
field_word(struct fields *f, const char *name, const char *const *words)
{
	const char *word = field_text(f, name);

	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	f->wrong = "a word is not known here";
	return 0;
}

/* ---- payloads ---- */

static int
digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Decodes over the text; the bytes, or -1. */
static ssize_t
base64_decode(const char *s, size_t n, char *out)
{
	size_t bytes = 0;

	if (n % 4)
		return -1;
	for (size_t i = 0; i < n; i += 4) {
		bool last = i + 4 == n;
		int pad = last ? (s[i + 3] == '=') + (s[i + 2] == '=' && s[i + 3] == '=') : 0;
		uint32_t v = 0;

		for (int k = 0; k < 4; k++) {
			int d = k >= 4 - pad ? 0 : digit(s[i + (size_t)k]);

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		for (int k = 0; k < 3 - pad; k++)
			out[bytes++] = (char)(v >> (16 - 8 * k));
	}
	return (ssize_t)bytes;
}

void
field_parts_free(struct field_parts *p)
{
	for (size_t i = 0; p->owned && i < p->n; i++)
		mem_free(p->owned[i]);
	mem_free(p->owned);
	mem_free(p->v);
}

static void
part_take(struct fields *f, struct field_parts *p, size_t i, const json_t *v, bool base64)
{
	size_t n = json_string_length(v);
	ssize_t got;

	if (!json_is_string(v)) {
		f->wrong = "a part of the payload is no text";
		return;
	}
	p->v[i] = (struct wq_part){ json_string_value(v), n };
	if (!base64)
		return;
	p->owned[i] = ctl_alloc(n + 1);
	got = base64_decode(json_string_value(v), n, p->owned[i]);
	if (got < 0)
		f->wrong = "a part of the payload is no base64";
	p->v[i] = (struct wq_part){ p->owned[i], got < 0 ? 0 : (size_t)got };
}

void
field_parts(struct fields *f, struct field_parts *p)
{
	json_t *plain = json_object_get(f->j, "payload");
	json_t *list = plain ? plain : json_object_get(f->j, "payload_base64");

	*p = (struct field_parts){ 0 };
	if (!list)
		return;
	if (!json_is_array(list)) {
		f->wrong = "the payload is no list of parts";
		return;
	}
	p->n = json_array_size(list);
	p->v = ctl_alloc((p->n + 1) * sizeof *p->v);
	p->owned = ctl_alloc((p->n + 1) * sizeof *p->owned);
	for (size_t i = 0; i < p->n; i++)
		part_take(f, p, i, json_array_get(list, i), !plain);
}
