/*
 * argv -> struct ctl. getopt_long walks argv once, in order (whatever
 * POSIXLY_CORRECT says): options may stand before and after the verb; from the
 * verb on its own are known besides the global ones. Values are checked and
 * converted here, so that a handler sees numbers.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_time.h"

/* Room for the global options, those of one verb and the end. */
#define OPTIONS_MAX 48
#define LONG_VALUE  256 /* getopt's result for option id 0 */

struct parser {
	struct ctl *c;
	int argc;
	char **argv;
	struct option longs[OPTIONS_MAX];
	char letters[2 * OPTIONS_MAX];
	const struct ctl_option *by_id[OPT_N];
};

static void
add_letter(struct parser *p, const struct ctl_option *o)
{
	size_t n = strlen(p->letters);

	snprintf(p->letters + n, sizeof p->letters - n, "%c%s", o->letter,
		o->kind == KIND_FLAG ? "" : ":");
}

static void
add_options(struct parser *p, size_t at, const struct ctl_option *o, size_t n)
{
	for (size_t i = 0; i < n && at + i + 1 < OPTIONS_MAX; i++) {
		p->by_id[o[i].id] = &o[i];
		p->longs[at + i] = (struct option){ o[i].name,
			o[i].kind == KIND_FLAG ? no_argument : required_argument, NULL,
			LONG_VALUE + (int)o[i].id };
		if (o[i].letter)
			add_letter(p, &o[i]);
	}
}

/* What getopt knows: the global options, and the verb's once there is one. */
static void
know_options(struct parser *p)
{
	const struct ctl_verb *v = p->c->verb;

	memset(p->longs, 0, sizeof p->longs);
	memset(p->by_id, 0, sizeof p->by_id);
	/* Words are given too, in their place; a value that is missing is told apart. */
	snprintf(p->letters, sizeof p->letters, "-:");
	add_options(p, 0, ctl_global_options, ctl_n_global_options);
	if (v)
		add_options(p, ctl_n_global_options, v->options, v->n_options);
}

/* ---- values ---- */

static const char *
parse_number(const struct ctl_option *o, const char *text, int64_t *v)
{
	unsigned long long n;
	char *end;

	if (!*text || text[strspn(text, "0123456789")] != '\0' || strlen(text) > 18)
		return "is not a number";
	n = strtoull(text, &end, 10);
	if ((int64_t)n < o->min || (int64_t)n > o->max)
		return "is out of range";
	*v = (int64_t)n;
	return NULL;
}

static const char *
parse_word(const struct ctl_option *o, const char *text, int64_t *v)
{
	for (int i = 0; o->words[i]; i++)
		if (strcmp(o->words[i], text) == 0) {
			*v = i;
			return NULL;
		}
	return "is not one of its words";
}

static int
word_error(struct ctl *c, const struct ctl_option *o, const char *text)
{
	char words[128] = "";
	size_t n = 0;

	for (int i = 0; o->words[i]; i++)
		n += (size_t)snprintf(words + n, n < sizeof words ? sizeof words - n : 0, "%s%s",
			i ? ", " : "", o->words[i]);
	return ctl_usage(c, "--%s: '%s' is not one of %s", o->name, text, words);
}

static int
set_option(struct ctl *c, const struct ctl_option *o, const char *text)
{
	struct ctl_value *v = &c->opt[o->id];
	const char *wrong = NULL;

	switch (o->kind) {
	case KIND_NUMBER:
		wrong = parse_number(o, text, &v->num);
		break;
	case KIND_DURATION:
		wrong = ctl_duration_parse(text, &v->num);
		break;
	case KIND_TIME:
		wrong = ctl_rfc3339_parse(text, &v->num);
		break;
	case KIND_WORD:
		if (parse_word(o, text, &v->num))
			return word_error(c, o, text);
		break;
	case KIND_FLAG:
	case KIND_TEXT:
	case KIND_FILE:
	case KIND_QUEUE:
		break;
	}
	if (wrong && o->kind == KIND_NUMBER && o->max < INT64_MAX)
		return ctl_usage(c, "--%s: '%s' %s (%lld to %lld)", o->name, text, wrong,
			(long long)o->min, (long long)o->max);
	if (wrong && o->kind == KIND_NUMBER)
		return ctl_usage(
			c, "--%s: '%s' %s (%lld or more)", o->name, text, wrong, (long long)o->min);
	if (wrong)
		return ctl_usage(c, "--%s: '%s' %s", o->name, text, wrong);
	v->text = text;
	return 0;
}

/* ---- words that are no options ---- */

/* The verb, one word or two, or an argument of it. */
static int
take_word(struct parser *p, const char *word)
{
	struct ctl *c = p->c;
	char name[64];

	if (c->verb) {
		c->arg[c->n_args++] = word;
		return 0;
	}
	if (!c->group && ctl_verb_is_group(word)) {
		c->group = word;
		return 0;
	}
	snprintf(name, sizeof name, "%s%s%.40s", c->group ? c->group : "", c->group ? " " : "",
		word);
	c->verb = ctl_verb_find(name);
	if (!c->verb)
		return ctl_no_verb(c, name);
	know_options(p);
	return 0;
}

/* NULL: getopt found a letter that the table does not have. */
static const struct ctl_option *
option_of(const struct parser *p, int got)
{
	if (got >= LONG_VALUE)
		return p->by_id[got - LONG_VALUE];
	for (size_t i = 0; i < OPT_N; i++)
		if (p->by_id[i] && p->by_id[i]->letter == got)
			return p->by_id[i];
	return NULL;
}

/* getopt's '?': it says little more. */
static int
option_error(struct parser *p)
{
	const char *word = p->argv[optind - 1];

	if (optopt >= LONG_VALUE)
		return ctl_usage(p->c, "--%s takes no value", p->by_id[optopt - LONG_VALUE]->name);
	if (optopt)
		return ctl_usage(p->c, "there is no option -%c", optopt);
	return ctl_usage(p->c, "there is no option '%s'", word);
}

static int
take(struct parser *p, int got)
{
	const struct ctl_option *o = option_of(p, got);

	if (got == 1)
		return take_word(p, optarg);
	if (got == ':')
		return ctl_usage(p->c, "%s needs a value", p->argv[optind - 1]);
	return o ? set_option(p->c, o, optarg ? optarg : "") : option_error(p);
}

/* ---- the whole ---- */

static int
check_args(struct ctl *c)
{
	const struct ctl_verb *v = c->verb;

	if (ctl_given(c, OPT_HELP) || ctl_given(c, OPT_VERSION))
		return 0;
	if (!v && c->group)
		return ctl_error(c, CTL_USAGE, "USAGE",
			"'%s' needs a second word (see 'wqctl help %s')", c->group, c->group);
	if (!v)
		return ctl_usage(c, "no verb is given");
	if (c->n_args < v->args_min)
		return ctl_usage(c, "an argument is missing: %s", v->args);
	if (c->n_args > v->args_max)
		return ctl_usage(c, "'%s' is one argument too many", c->arg[v->args_max]);
	return 0;
}

/* Errors in front of --json are JSON, too. */
static bool
asks_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

int
ctl_args_parse(struct ctl *c, int argc, char **argv)
{
	struct parser p = { .c = c, .argc = argc, .argv = argv };
	const char *from_env = getenv("WQ_SERVER");
	int got, rc = 0;

	c->json = asks_json(argc, argv);
	c->arg = ctl_alloc(((size_t)argc + 1) * sizeof *c->arg);
	know_options(&p);
	opterr = 0;
	optind = 0;
	while (rc == 0 && (got = getopt_long(argc, argv, p.letters, p.longs, NULL)) != -1)
		rc = take(&p, got);
	while (rc == 0 && optind < argc)
		rc = take_word(&p, argv[optind++]);
	if (rc)
		return rc;
	c->json = ctl_given(c, OPT_JSON);
	c->quiet = ctl_given(c, OPT_QUIET);
	c->server = from_env && *from_env ? from_env : CTL_DEFAULT_SERVER;
	if (ctl_given(c, OPT_SERVER))
		c->server = c->opt[OPT_SERVER].text;
	return check_args(c);
}

void
ctl_args_done(struct ctl *c)
{
	mem_free(c->arg);
}
