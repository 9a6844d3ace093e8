/* Suggestions for a name that no table has: a misspelling, or a name of another section. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "conf/load.h"
#include "conf/option.h"

#define NAME_COMPARED 32

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits that turn one into the other; large for long names, which are no misspelling of ours. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[NAME_COMPARED + 1], na = strlen(a), nb = strlen(b);

	if (na > NAME_COMPARED || nb > NAME_COMPARED)
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t above = row[j];

			row[j] = least(row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
			corner = above;
		}
	}
	return row[nb];
}

/* The i-th name of a scope; NULL past the last. */
static const char *
name_at(const char *scope, size_t i)
{
	static const char *const sections[] = { "handler", "queue", "pool", "role", "namespace" };
	const struct option_scope *s = *scope ? &handler_scope : &config_scope;

	if (strcmp(scope, "pool") == 0)
		s = &pool_scope;
	if (strcmp(scope, "role") == 0)
		s = &role_scope;
	if (strcmp(scope, "namespace") == 0)
		s = &namespace_scope;
	if (strcmp(scope, "queue") == 0)
		return i < queue_setting_count ? queue_setting_table[i].name : NULL;
	if (i < s->n)
		return s->rows[i].name;
	if (*scope)
		return NULL;
	return i - s->n < ARRAY_SIZE(sections) ? sections[i - s->n] : NULL;
}

static const char *
nearest(const char *scope, const char *name, size_t at_most)
{
	const char *best = NULL, *n;

	for (size_t i = 0; (n = name_at(scope, i)) != NULL; i++) {
		size_t d = distance(name, n);

		if (d <= at_most) {
			best = n;
			at_most = d - (d > 0);
		}
	}
	return best;
}

const char *
option_hint(const char *scope, const char *name, char *dst, size_t size)
{
	static const char *const scopes[] = { "", "handler", "queue", "pool" };
	const char *near = nearest(scope, name, strlen(name) > 4 ? 2 : 1);

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(scope, scopes[i]) == 0 || !nearest(scopes[i], name, 0))
			continue;
		snprintf(dst, size, "it is an option of %s%s",
			*scopes[i] ? scopes[i] : "the top level", *scopes[i] ? " sections" : "");
		return dst;
	}
	if (near)
		snprintf(dst, size, "did you mean \"%s\"?", near);
	else
		snprintf(dst, size, "wqd --dump-options lists those that exist");
	return dst;
}

static const struct {
	const char *begin, *hint;
} syntax_hints[] = {
	{ "unexpected token",
		"right is: NAME = VALUE, NAME = { VALUE, ... } for a list, or SECTION \"NAME\" { "
		"... }; texts with special characters are put in quotes" },
	{ "missing equal sign", "right is: NAME = VALUE" },
	{ "missing opening brace", "right is: SECTION \"NAME\" { ... }" },
	{ "missing title", "right is: SECTION \"NAME\" { ... }" },
};

const char *
syntax_hint(const char *message)
{
	for (size_t i = 0; i < ARRAY_SIZE(syntax_hints); i++)
		if (strncmp(message, syntax_hints[i].begin, strlen(syntax_hints[i].begin)) == 0)
			return syntax_hints[i].hint;
	return "see wqd.conf(5)";
}
