/*
 * Help, and what is generated from the command table into checked-in files:
 * the middle of docs/man/wqctl.1 and of client/wqctl.bash-completion (`make
 * update-wqctl`; a test says when they are behind).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ctl_out.h"

#define WIDTH 80
/* Column at which sentences begin. */
#define DOC_COLUMN 26

/* ---- text ---- */

/* `text` from `column` on, its further lines indented so, line ends kept; ends the line. */
static void
put_wrapped(const char *text, size_t column, size_t indent)
{
	size_t len;

	for (; *text; text += len + (text[len] == ' ')) {
		if (*text == '\n') {
			putchar('\n');
			column = 0;
			len = 1;
			continue;
		}
		len = strcspn(text, " \n");
		if (column + 1 + len > WIDTH && column > indent) {
			printf("\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)len, text);
		column += len;
	}
	putchar('\n');
}

/* A term of `len` columns is out; its sentence goes beside it, or below. */
static void
put_doc(size_t len, const char *doc)
{
	if (len + 2 > DOC_COLUMN) {
		putchar('\n');
		len = 0;
	}
	printf("%*s", (int)(DOC_COLUMN - len), "");
	put_wrapped(doc, DOC_COLUMN, DOC_COLUMN);
}

static void
put_options(const struct ctl_option *o, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int len = o[i].letter ? printf("  -%c, ", o[i].letter) : printf("  ");

		len += printf("--%s", o[i].name);
		if (o[i].value)
			len += printf(" %s", o[i].value);
		put_doc((size_t)len, o[i].doc);
	}
}

int
ctl_help_all(void)
{
	puts("usage: wqctl [OPTION]... VERB [ARGUMENT]...\n\nVerbs:");
	for (size_t i = 0; i < ctl_n_verbs; i++) {
		const struct ctl_verb *v = &ctl_verbs[i];

		if (!v->hidden)
			put_doc((size_t)printf("  %s %s", v->name, v->args ? v->args : ""),
				v->summary);
	}
	puts("\nOptions of every verb:");
	put_options(ctl_global_options, ctl_n_global_options);
	puts("\nTARGET is QUEUE/KEY, or KEY in the queue \"default\"; the first slash splits.\n"
	     "DELAY is a duration like 250ms, 30s, 1h30m or 0.\n\nExit status:");
#define X(name, num, text) printf("  %d  %s\n", num, text);
	CTL_EXIT_TABLE(X)
#undef X
	puts("\n'wqctl help VERB' tells more about a verb.");
	return CTL_DONE;
}

int
ctl_help_verb(const struct ctl_verb *v)
{
	printf("usage: wqctl %s%s%s%s\n\n%c%s.\n", v->name, v->n_options ? " [OPTION]..." : "",
		v->args ? " " : "", v->args ? v->args : "", v->summary[0] - 'a' + 'A',
		v->summary + 1);
	if (v->doc)
		put_wrapped(v->doc, 0, 0);
	if (v->n_options)
		puts("\nOptions:");
	put_options(v->options, v->n_options);
	puts("\nOptions of every verb:");
	put_options(ctl_global_options, ctl_n_global_options);
	return CTL_DONE;
}

/* ---- a verb that there is not ---- */

#define VERB_COMPARED 64

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits that turn one into the other. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[VERB_COMPARED + 1], na = strlen(a), nb = strlen(b);

	if (nb > VERB_COMPARED)
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

int
ctl_no_verb(struct ctl *c, const char *name)
{
	size_t best = strlen(name) > 4 ? 3 : 2;
	const char *like = NULL;
	char group[VERB_COMPARED];

	for (size_t i = 0; i < ctl_n_verbs; i++) {
		size_t d = ctl_verbs[i].hidden ? best : distance(name, ctl_verbs[i].name);

		if (d < best) {
			like = ctl_verbs[i].name;
			best = d;
		}
	}
	if (like)
		return ctl_error(c, CTL_USAGE, "USAGE",
			"there is no verb '%s'; did you mean '%s'? (see 'wqctl help')", name, like);
	snprintf(group, sizeof group, "%s", name);
	group[strcspn(group, " ")] = '\0';
	if (!ctl_verb_is_group(group))
		group[0] = '\0';
	return ctl_error(c, CTL_USAGE, "USAGE", "there is no verb '%s' (see 'wqctl help%s%s')",
		name, group[0] ? " " : "", group);
}

int
ctl_do_help(struct ctl *c)
{
	char name[64];
	const struct ctl_verb *v;

	if (c->n_args == 0)
		return ctl_help_all();
	snprintf(name, sizeof name, "%.30s%s%.30s", c->arg[0], c->n_args > 1 ? " " : "",
		c->n_args > 1 ? c->arg[1] : "");
	v = ctl_verb_find(name);
	if (v)
		return ctl_help_verb(v);
	if (c->n_args > 1 || !ctl_verb_is_group(name))
		return ctl_no_verb(c, name);
	for (size_t i = 0; i < ctl_n_verbs; i++)
		if (strncmp(ctl_verbs[i].name, name, strlen(name)) == 0)
			put_doc((size_t)printf("  %s %s", ctl_verbs[i].name,
					ctl_verbs[i].args ? ctl_verbs[i].args : ""),
				ctl_verbs[i].summary);
	return CTL_DONE;
}

/* ---- man page ---- */

/* Text for troff: hyphens as in the source, nothing taken for a request. */
static void
put_troff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++)
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
}

static void
put_man_options(const struct ctl_option *o, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fputs(".TP\n\\fB", stdout);
		if (o[i].letter)
			printf("\\-%c\\fR, \\fB", o[i].letter);
		fputs("\\-\\-", stdout);
		put_troff(o[i].name);
		fputs("\\fR", stdout);
		if (o[i].value)
			printf(" \\fI%s\\fR", o[i].value);
		putchar('\n');
		put_troff(o[i].doc);
		puts(".");
	}
}

static void
put_man_verb(const struct ctl_verb *v)
{
	fputs(".SS \"", stdout);
	put_troff(v->name);
	printf("%s%s\"\n%c", v->args ? " " : "", v->args ? v->args : "", v->summary[0] - 'a' + 'A');
	put_troff(v->summary + 1);
	puts(".");
	if (v->doc) {
		put_troff(v->doc);
		putchar('\n');
	}
	put_man_options(v->options, v->n_options);
}

int
ctl_do_dump_man(struct ctl *c)
{
	(void)c;
	puts(".SH OPTIONS\nThese go with every verb, before or after it.");
	put_man_options(ctl_global_options, ctl_n_global_options);
	puts(".SH VERBS");
	for (size_t i = 0; i < ctl_n_verbs; i++)
		if (!ctl_verbs[i].hidden)
			put_man_verb(&ctl_verbs[i]);
	puts(".SH \"EXIT STATUS\"");
#define X(name, num, text) printf(".TP\n%d\n%s\n", num, text);
	CTL_EXIT_TABLE(X)
#undef X
	return CTL_DONE;
}

/* ---- completion ---- */

/* "--mode=set,keep,earlier,later": the option, and what its value may be. */
static void
put_spec(const struct ctl_option *o)
{
	printf(" --%s%s", o->name, o->kind == KIND_FLAG ? "" : "=");
	if (o->kind == KIND_QUEUE)
		fputs("@queue", stdout);
	else if (o->kind == KIND_FILE)
		fputs("@file", stdout);
	for (int i = 0; o->words && o->words[i]; i++)
		printf("%s%s", i ? "," : "", o->words[i]);
}

/* One line a verb: its name, what its first argument is, its options. */
int
ctl_do_dump_completion(struct ctl *c)
{
	static const char *const kinds[] = { [ARG_NONE] = "-",
		[ARG_TARGET] = "@target",
		[ARG_QUEUE] = "@queue",
		[ARG_VERB] = "@verb" };

	(void)c;
	fputs("global|-|", stdout);
	for (size_t i = 0; i < ctl_n_global_options; i++)
		put_spec(&ctl_global_options[i]);
	putchar('\n');
	for (size_t i = 0; i < ctl_n_verbs; i++) {
		const struct ctl_verb *v = &ctl_verbs[i];

		if (v->hidden)
			continue;
		printf("%s|%s|", v->name, kinds[v->arg_kind]);
		for (size_t j = 0; j < v->n_options; j++)
			put_spec(&v->options[j]);
		putchar('\n');
	}
	return CTL_DONE;
}
