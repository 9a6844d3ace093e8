#include "conf/option.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"

bool
option_is_text(enum option_type t)
{
	return t == OPT_PATH || t == OPT_TEXT || t == OPT_CHOICE;
}

static void *
member(const struct option *o, void *base)
{
	return (char *)base + o->offset;
}

static const void *
member_of(const struct option *o, const void *base)
{
	return (const char *)base + o->offset;
}

static void
put_unsigned(const struct option *o, void *base, uint64_t v)
{
	void *p = member(o, base);

	switch (o->width) {
	case sizeof(uint32_t):
		*(uint32_t *)p = (uint32_t)v;
		return;
	case sizeof(uint64_t):
		*(uint64_t *)p = v;
		return;
	default:
		wq_assert(!"width of an option");
	}
}

static uint64_t
get_unsigned(const struct option *o, const void *base)
{
	const void *p = member_of(o, base);

	return o->width == sizeof(uint32_t) ? *(const uint32_t *)p : *(const uint64_t *)p;
}

static int
in_range(const struct option *o, int64_t v)
{
	return v < o->min || v > o->max ? ERR_OUT_OF_RANGE : 0;
}

static int
set_unsigned(const struct option *o, void *base, struct str value)
{
	uint64_t v;
	int err = o->type == OPT_SIZE ? text_size(value, &v) : text_u64(value, &v);

	if (!err && (v > INT64_MAX || in_range(o, (int64_t)v)))
		err = ERR_OUT_OF_RANGE;
	if (!err)
		put_unsigned(o, base, v);
	return err;
}

static int
set_integer(const struct option *o, void *base, struct str value)
{
	bool minus = value.n > 0 && value.p[0] == '-';
	struct str digits = { value.p + minus, value.n - minus };
	uint64_t v;
	int64_t i;
	int err = text_u64(digits, &v);

	if (err)
		return err;
	if (v > INT_MAX)
		return ERR_OUT_OF_RANGE;
	i = minus ? -(int64_t)v : (int64_t)v;
	err = in_range(o, i);
	if (!err)
		*(int *)member(o, base) = (int)i;
	return err;
}

static int
set_mode(const struct option *o, void *base, struct str value)
{
	unsigned v = 0;

	if (value.n == 0 || value.n > 5)
		return ERR_BAD_VALUE;
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] < '0' || value.p[i] > '7')
			return ERR_BAD_VALUE;
		v = v * 8 + (unsigned)(value.p[i] - '0');
	}
	if (in_range(o, v))
		return ERR_OUT_OF_RANGE;
	*(mode_t *)member(o, base) = (mode_t)v;
	return 0;
}

static int
set_word(const struct option *o, void *base, struct str value)
{
	int v = word_number(o->words, value);

	if (v < 0)
		return ERR_BAD_VALUE;
	*(int *)member(o, base) = v;
	return 0;
}

static int
set_duration(const struct option *o, void *base, struct str value)
{
	int64_t ns;
	int err = text_duration(value, &ns);

	if (!err)
		err = in_range(o, ns);
	if (!err)
		*(int64_t *)member(o, base) = ns;
	return err;
}

static int
set_text(const struct option *o, void *base, struct str value)
{
	char **p = member(o, base);
	char *copy;

	if (o->type == OPT_CHOICE && word_number(o->words, value) < 0)
		return ERR_BAD_VALUE;
	if (o->type == OPT_PATH && (value.n == 0 || value.p[0] != '/' || value.n >= PATH_MAX))
		return ERR_BAD_VALUE;
	if (o->check && !o->check(value))
		return ERR_BAD_VALUE;
	copy = x_strndup(value.p, value.n);
	if (!copy)
		return -ENOMEM;
	x_free(*p);
	*p = copy;
	return 0;
}

static size_t
list_length(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int
append(const struct option *o, void *base, struct str value)
{
	char ***p = member(o, base);
	size_t n = list_length(*p);
	char **grown;

	if (o->check && !o->check(value))
		return ERR_BAD_VALUE;
	if ((int64_t)n >= o->max)
		return ERR_OUT_OF_RANGE;
	grown = x_realloc(*p, n + 2, sizeof **p);
	if (!grown)
		return -ENOMEM;
	*p = grown;
	grown[n] = x_strndup(value.p, value.n);
	if (!grown[n])
		return -ENOMEM;
	grown[n + 1] = NULL;
	return 0;
}

int
option_set(const struct option *o, void *base, const char *value)
{
	struct str v = str_from(value);

	switch (o->type) {
	case OPT_PATH:
	case OPT_TEXT:
	case OPT_CHOICE:
		return set_text(o, base, v);
	case OPT_WORD:
		return set_word(o, base, v);
	case OPT_BOOL:
		return text_bool(v, member(o, base));
	case OPT_NUMBER:
	case OPT_SIZE:
		return set_unsigned(o, base, v);
	case OPT_INTEGER:
		return set_integer(o, base, v);
	case OPT_MODE:
		return set_mode(o, base, v);
	case OPT_DURATION:
		return set_duration(o, base, v);
	case OPT_LIST:
		return append(o, base, v);
	}
	return ERR_BAD_VALUE;
}

static void
join(char *const *list, char *dst, size_t size)
{
	size_t at = 0;

	dst[0] = '\0';
	for (size_t i = 0; list && list[i] && at < size; i++)
		at += (size_t)snprintf(dst + at, size - at, "%s%s", i ? ", " : "", list[i]);
}

static void
put_size(char *dst, size_t size, uint64_t v)
{
	static const char units[] = { 0, 'k', 'm', 'g', 0 };
	int u = 0;

	while (v && v % 1024 == 0 && units[u + 1]) {
		v /= 1024;
		u++;
	}
	snprintf(dst, size, units[u] ? "%ju%c" : "%ju", (uintmax_t)v, units[u]);
}

/* `dst` of `size` gets the text of a number of the option's type. */
static void
put_number(const struct option *o, int64_t v, char *dst, size_t size)
{
	if (o->type == OPT_DURATION)
		text_put_duration(dst, size, v);
	else if (o->type == OPT_SIZE)
		put_size(dst, size, (uint64_t)v);
	else
		snprintf(dst, size, o->type == OPT_MODE ? "%#jo" : "%jd", (intmax_t)v);
}

const char *
option_get(const struct option *o, const void *base, char *dst, size_t size)
{
	const void *p = member_of(o, base);

	wq_assert(size >= 64);
	switch (o->type) {
	case OPT_PATH:
	case OPT_TEXT:
	case OPT_CHOICE:
		snprintf(dst, size, "%s", *(char *const *)p ? *(char *const *)p : "");
		break;
	case OPT_WORD:
		snprintf(dst, size, "%s", o->words->words[*(const int *)p]);
		break;
	case OPT_BOOL:
		snprintf(dst, size, "%s", *(const bool *)p ? "yes" : "no");
		break;
	case OPT_NUMBER:
	case OPT_SIZE:
		put_number(o, (int64_t)get_unsigned(o, base), dst, size);
		break;
	case OPT_INTEGER:
		put_number(o, *(const int *)p, dst, size);
		break;
	case OPT_MODE:
		put_number(o, *(const mode_t *)p, dst, size);
		break;
	case OPT_DURATION:
		put_number(o, *(const int64_t *)p, dst, size);
		break;
	case OPT_LIST:
		join(*(char *const *const *)p, dst, size);
		break;
	}
	return dst;
}

void
option_clear(const struct option *o, void *base)
{
	if (option_is_text(o->type)) {
		char **p = member(o, base);

		x_free(*p);
		*p = NULL;
	} else if (o->type == OPT_LIST) {
		char ***p = member(o, base);

		for (size_t i = 0; *p && (*p)[i]; i++)
			x_free((*p)[i]);
		x_free(*p);
		*p = NULL;
	}
}

int
options_default(const struct option_scope *s, void *base)
{
	for (size_t i = 0; i < s->n; i++) {
		int err = s->rows[i].def ? option_set(&s->rows[i], base, s->rows[i].def) : 0;

		if (err == -ENOMEM)
			return err;
		wq_assert(err == 0);
	}
	return 0;
}

void
options_clear(const struct option_scope *s, void *base)
{
	for (size_t i = 0; i < s->n; i++)
		option_clear(&s->rows[i], base);
}

static void
put_words(const struct word_table *t, int64_t min, char *dst, size_t size)
{
	size_t at = (size_t)snprintf(dst, size, "one of");
	const char *comma = " ";

	for (int i = 0; i < t->n && at < size; i++) {
		if (!t->words[i] || i < min)
			continue;
		at += (size_t)snprintf(dst + at, size - at, "%s%s", comma, t->words[i]);
		comma = ", ";
	}
}

static const char *
type_name(enum option_type t)
{
	switch (t) {
	case OPT_PATH:
		return "absolute path";
	case OPT_TEXT:
	case OPT_CHOICE:
	case OPT_WORD:
		return "text";
	case OPT_BOOL:
		return "yes or no";
	case OPT_NUMBER:
	case OPT_INTEGER:
		return "number";
	case OPT_SIZE:
		return "size";
	case OPT_MODE:
		return "octal mode";
	case OPT_DURATION:
		return "duration";
	case OPT_LIST:
		return "list";
	}
	return "?";
}

const char *
option_range(const struct option *o, char *dst, size_t size)
{
	char min[64], max[64];

	if (o->right) {
		snprintf(dst, size, "%s", o->right);
	} else if (o->words) {
		put_words(o->words, o->min, dst, size);
	} else if (option_is_text(o->type) || o->type == OPT_BOOL) {
		snprintf(dst, size, "%s", type_name(o->type));
	} else {
		put_number(o, o->min, min, sizeof min);
		put_number(o, o->max, max, sizeof max);
		snprintf(dst, size, "%s from %s to %s", type_name(o->type), min, max);
	}
	return dst;
}

struct option
option_of_setting(const struct setting *s)
{
	static const enum option_type types[] = {
		[SET_WORD] = OPT_WORD,
		[SET_NAME] = OPT_TEXT,
		[SET_U32] = OPT_NUMBER,
		[SET_BOOL] = OPT_BOOL,
		[SET_DURATION] = OPT_DURATION,
		[SET_RATE] = OPT_TEXT,
		[SET_CHAR] = OPT_TEXT,
	};
	static const char *const right[] = {
		[SET_NAME] = "the name of a handler section",
		[SET_RATE] =
			"a number of a second, minute, hour or day, such as 10/s or 500/h, or 0",
		[SET_CHAR] = "one character",
	};

	return (struct option){
		.name = s->name,
		.type = types[s->type],
		.min = s->min,
		.max = s->max,
		.def = s->def,
		.words = s->words,
		.right = strcmp(s->name, "pool") == 0 ? "the name of a pool section"
			: s->type < ARRAY_SIZE(right) ? right[s->type]
						      : NULL,
		.reload = true,
		.doc = s->doc,
	};
}
