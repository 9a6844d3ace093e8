/*
 * From a file to a struct config, by way of libconfuse. Its option arrays are
 * made from our tables, all as texts, and each value is read by take_value() at
 * the moment the parser meets it, when the line is known. The first error stops
 * the parser and is the only one reported.
 *
 * libconfuse's lexer is global and its callbacks carry no pointer of the
 * caller's, so the load going on is global too: one thread at a time (start-up,
 * then the loop thread at a reload).
 */
#include <confuse.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/check.h"
#include "conf/conf.h"
#include "conf/load.h"
#include "conf/load_int.h"
#include "conf/option.h"
#include "conf/source.h"
#include "engine/ops.h"

#define VALUE_SHOWN 200 /* bytes of a value that a message repeats */

static struct loading *loading;

__attribute__((format(printf, 3, 0))) static int
fail_v(struct loading *l, int line, const char *fmt, va_list ap)
{
	int n;

	if (l->err)
		return -1;
	l->err = ERR_CONFIG;
	n = snprintf(l->why, sizeof l->why / 2, "%s:%d: ", l->path, line);
	if (n >= 0 && (size_t)n < sizeof l->why / 2)
		vsnprintf(l->why + n, sizeof l->why - (size_t)n, fmt, ap);
	for (char *p = l->why; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	return -1;
}

int
load_fail(struct loading *l, int line, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fail_v(l, line, fmt, ap);
	va_end(ap);
	return r;
}

int
load_fail_errno(struct loading *l, int err)
{
	if (!l->err) {
		l->err = err;
		snprintf(l->why, sizeof l->why, "%s: %s", l->path, err_str(err));
	}
	return -1;
}

/* "queue "mail": " or nothing, for the front of a message. */
static const char *
where(cfg_t *cfg, char *dst, size_t size)
{
	char title[VALUE_SHOWN];

	if (!cfg_title(cfg))
		return "";
	snprintf(dst, size, "%s %s: ", cfg_name(cfg),
		log_field(title, sizeof title, str_from(cfg_title(cfg))));
	return dst;
}

static int
fail_value(struct loading *l, cfg_t *cfg, const struct option *o, const char *value, int err)
{
	char front[VALUE_SHOWN + 32], shown[VALUE_SHOWN], range[512];

	if (err == -ENOMEM)
		return load_fail_errno(l, err);
	return load_fail(l, cfg->line, "%s%s: %s is %s; right is: %s",
		where(cfg, front, sizeof front), o->name,
		log_field(shown, sizeof shown, str_from(value)),
		err == ERR_OUT_OF_RANGE ? "out of range" : "no such value",
		option_range(o, range, sizeof range));
}

/* ---- values ---- */

/* A list that is given stands instead of its default. */
static int
take_row(struct loading *l, cfg_t *cfg, const struct option *o, void *into, const char *value,
	bool first)
{
	int err;

	if (o->type == OPT_LIST && first)
		option_clear(o, into);
	err = option_set(o, into, value);
	return err ? fail_value(l, cfg, o, value, err) : 0;
}

static int
take_top(struct loading *l, cfg_t *cfg, size_t row, const char *value, bool first)
{
	const struct option *o = &config_scope.rows[row];

	if (o->type == OPT_LIST && first)
		l->listen_line = cfg->line;
	return take_row(l, cfg, o, l->c, value, first);
}

static int
begin_section(struct loading *l)
{
	if (l->in_section)
		return 0;
	l->in_section = true;
	l->seen_here = 0;
	l->action = -1;
	l->handler = (struct handler){ 0 };
	l->queue = (struct config_queue){ 0 };
	l->pool = (struct pool_config){ 0 };
	l->role = (struct grant_role){ 0 };
	l->space = (struct grant_namespace){ 0 };
	queue_settings_default(&l->queue.settings);
	if (options_default(&handler_scope, &l->handler) ||
		options_default(&pool_scope, &l->pool.settings) ||
		options_default(&role_scope, &l->role) ||
		options_default(&namespace_scope, &l->space))
		return load_fail_errno(l, -ENOMEM);
	return 0;
}

static int
take_setting(struct loading *l, cfg_t *cfg, size_t row, const char *value)
{
	const struct setting *s = &queue_setting_table[row];
	const struct option o = option_of_setting(s);
	char front[VALUE_SHOWN + 32];
	int err;

	if (strcmp(s->name, "action") == 0) {
		l->action = word_number(s->words, str_from(value));
		if (strcmp(value, "webhook") == 0)
			return load_fail(l, cfg->line, "%saction: \"%s\" is not in this version",
				where(cfg, front, sizeof front), value);
	}
	if (strcmp(s->name, "handler") == 0)
		l->handler_line = cfg->line;
	if (strcmp(s->name, "pool") == 0)
		l->pool_line = cfg->line;
	err = queue_settings_set(&l->queue.settings, str_from(s->name), str_from(value));
	return err ? fail_value(l, cfg, &o, value, err) : 0;
}

static bool
is_section(cfg_t *cfg, const struct option_scope *s)
{
	return strcmp(cfg_name(cfg), s->name) == 0;
}

/* The row of `opt` in the scope being read; -1 when it was reached by a path ("queue|slack"). */
static int
row_of(cfg_t *cfg, const cfg_opt_t *opt)
{
	for (unsigned i = 0; i < cfg_num(cfg); i++)
		if (&cfg->opts[i] == opt)
			return (int)i;
	return -1;
}

/* Sections whose rows are options; a queue's are settings. */
static const struct option_scope *const scopes[] = { &handler_scope, &pool_scope, &role_scope,
	&namespace_scope };

static void *
section_object(struct loading *l, size_t i)
{
	void *const objects[] = { &l->handler, &l->pool.settings, &l->role, &l->space };

	return objects[i];
}

static int
take_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
	struct loading *l = loading;
	bool top = !cfg_title(cfg), first = opt->nvalues <= 1;
	uint64_t *seen = top ? &l->seen : &l->seen_here;
	char front[VALUE_SHOWN + 32];
	int row = row_of(cfg, opt);

	/* The parser keeps a copy that nobody reads; it takes NULL for a failure. */
	*(const char **)result = value;
	if (row < 0)
		return load_fail(
			l, cfg->line, "%s: an option is set inside its section", opt->name);
	if (!top && begin_section(l))
		return -1;
	if (first && *seen >> row & 1)
		return load_fail(l, cfg->line, "%s%s: set a second time; each option is set once",
			where(cfg, front, sizeof front), opt->name);
	*seen |= 1ull << row;
	if (top)
		return take_top(l, cfg, (size_t)row, value, first);
	for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
		if (is_section(cfg, scopes[i]))
			return take_row(
				l, cfg, &scopes[i]->rows[row], section_object(l, i), value, first);
	return take_setting(l, cfg, (size_t)row, value);
}

/* ---- ends of sections ---- */

static int
check_command(struct loading *l, int line, const struct handler *h)
{
	char shown[VALUE_SHOWN];
	const char *program = h->command ? h->command[0] : NULL;

	if (!program)
		return load_fail(l, line,
			"handler \"%s\": command is missing; right is: "
			"command = { \"PROGRAM\", \"ARGUMENT\", ... }",
			h->name);
	if (!*program)
		return load_fail(
			l, line, "handler \"%s\": command: the program's name is empty", h->name);
	if (strchr(program, '/') && *program != '/')
		return load_fail(l, line,
			"handler \"%s\": command: %s is a relative path; right is an absolute one, "
			"or "
			"a name that is found in PATH",
			h->name, log_field(shown, sizeof shown, str_from(program)));
	return 0;
}

static int
check_env_once(struct loading *l, int line, const struct handler *h)
{
	for (char **a = h->env; a && *a; a++) {
		size_t n = (size_t)(strchr(*a, '=') - *a) + 1;

		for (char **b = h->env; b < a; b++)
			if (strncmp(*a, *b, n) == 0)
				return load_fail(l, line, "handler \"%s\": env: %.*s is set twice",
					h->name, (int)n - 1, *a);
	}
	return 0;
}

static int
end_handler(struct loading *l, int line)
{
	struct config *c = l->c;
	struct handler *grown;

	if (check_command(l, line, &l->handler) || check_env_once(l, line, &l->handler))
		return -1;
	grown = x_realloc(c->handlers, c->n_handlers + 1, sizeof *grown);
	if (!grown)
		return load_fail_errno(l, -ENOMEM);
	c->handlers = grown;
	grown[c->n_handlers++] = l->handler;
	l->handler = (struct handler){ 0 };
	return 0;
}

static int
end_queue(struct loading *l, int line)
{
	struct queue_settings *s = &l->queue.settings;
	struct config *c = l->c;
	struct config_queue *grown;
	const char *what;
	struct named_at *lines;

	/* Naming a handler sets the action; what the file says stands, in whatever order. */
	if (l->action >= 0)
		s->action = (enum action)l->action;
	if (queue_settings_check(s, &what))
		return load_fail(l, line, "queue \"%s\": %s", l->queue.name, what);
	lines = x_realloc(l->lines, c->n_queues + 1, sizeof *lines);
	if (!lines)
		return load_fail_errno(l, -ENOMEM);
	l->lines = lines;
	grown = x_realloc(c->queues, c->n_queues + 1, sizeof *grown);
	if (!grown)
		return load_fail_errno(l, -ENOMEM);
	c->queues = grown;
	lines[c->n_queues] = (struct named_at){ l->handler_line, l->pool_line };
	grown[c->n_queues++] = l->queue;
	return 0;
}

static int
end_pool(struct loading *l, int line)
{
	struct config *c = l->c;
	struct pool_config *grown;

	(void)line;
	grown = x_realloc(c->pools, c->n_pools + 1, sizeof *grown);
	if (!grown)
		return load_fail_errno(l, -ENOMEM);
	c->pools = grown;
	grown[c->n_pools++] = l->pool;
	return 0;
}

static void
clear_section(struct loading *l)
{
	options_clear(&handler_scope, &l->handler);
	options_clear(&role_scope, &l->role);
}

/* What ends the section, where its name goes, and how long that may be. */
static int (*end_of(struct loading *l, cfg_t *sec, char **name, size_t *max))(
	struct loading *l, int line)
{
	if (is_section(sec, &handler_scope)) {
		*name = l->handler.name;
		*max = HANDLER_NAME_MAX;
		return end_handler;
	}
	if (is_section(sec, &pool_scope)) {
		*name = l->pool.name;
		*max = POOL_NAME_MAX;
		return end_pool;
	}
	if (is_section(sec, &role_scope)) {
		*name = l->role.name;
		*max = ROLE_NAME_MAX;
		return end_role;
	}
	if (is_section(sec, &namespace_scope)) {
		*name = l->space.name;
		*max = NAMESPACE_NAME_MAX;
		return end_namespace;
	}
	*name = l->queue.name;
	*max = QUEUE_NAME_MAX;
	return end_queue;
}

/* A queue may be one of a namespace: "SPACE/QUEUE". */
static bool
section_name_valid(int (*end)(struct loading *l, int line), struct str name)
{
	return end == end_queue ? queue_name_inner_valid(name) : queue_name_valid(name);
}

static int
end_section(cfg_t *cfg, cfg_opt_t *opt)
{
	struct loading *l = loading;
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	char *name, front[VALUE_SHOWN + 32];
	size_t max;
	int (*end)(struct loading * l, int line) = end_of(l, sec, &name, &max);
	int r;

	if (begin_section(l))
		return -1;
	if (!section_name_valid(end, str_from(cfg_title(sec))) || strlen(cfg_title(sec)) > max)
		return load_fail(l, cfg->line, "%sbad name; right is: 1 to %zu %s",
			where(sec, front, sizeof front), max,
			end == end_namespace
				? "letters, digits, '_', '.', '-', beginning with a letter or digit"
				: "bytes of UTF-8 without '/', control characters and outer "
				  "spaces");
	snprintf(name, max + 1, "%s", cfg_title(sec));
	r = end(l, cfg->line);
	if (r == 0) {
		clear_section(l);
		l->in_section = false;
	}
	return r;
}

/* ---- the parser's own errors ---- */

static void
report_unknown(struct loading *l, cfg_t *cfg, const char *name)
{
	char front[VALUE_SHOWN + 32], shown[VALUE_SHOWN], hint[160];

	load_fail(l, cfg->line, "%sunknown option %s; %s", where(cfg, front, sizeof front),
		log_field(shown, sizeof shown, str_from(name)),
		option_hint(cfg_title(cfg) ? cfg_name(cfg) : "", name, hint, sizeof hint));
}

/* The parser does not say of which kind; mostly one alone has the name. */
static void
report_duplicate(struct loading *l, int line, const char *title)
{
	const char *kinds[5];
	char list[80];
	size_t n = 0;

	if (config_handler(l->c, str_from(title)))
		kinds[n++] = "handler";
	if (config_has_queue(l->c, title))
		kinds[n++] = "queue";
	if (config_has_pool(l->c, title))
		kinds[n++] = "pool";
	for (size_t i = 0; i < l->c->grants.n_roles; i++)
		if (strcmp(l->c->grants.roles[i].name, title) == 0)
			kinds[n++] = "role";
	for (size_t i = 0; i < l->c->grants.n_namespaces; i++)
		if (strcmp(l->c->grants.namespaces[i].name, title) == 0)
			kinds[n++] = "namespace";
	if (n == 0)
		kinds[n++] = "section";
	for (size_t i = 0, at = 0; i < n && at < sizeof list; i++)
		at += (size_t)snprintf(
			list + at, sizeof list - at, "%s%s", i ? " or " : "", kinds[i]);
	load_fail(l, line, "%s \"%s\": defined a second time; each is defined once", list, title);
}

__attribute__((format(printf, 2, 0))) static void
report(cfg_t *cfg, const char *fmt, va_list ap)
{
	struct loading *l = loading;
	char text[256];

	if (l->err)
		return;
	if (strncmp(fmt, "no such option", 14) == 0 || strncmp(fmt, "no sub-section", 14) == 0) {
		report_unknown(l, cfg, va_arg(ap, const char *));
		return;
	}
	if (strncmp(fmt, "found duplicate title", 21) == 0) {
		report_duplicate(l, cfg->line, va_arg(ap, const char *));
		return;
	}
	vsnprintf(text, sizeof text, fmt, ap);
	load_fail(l, cfg->line, "%s; %s", text, syntax_hint(fmt));
}

/* ---- the whole file ---- */

static void
fill(cfg_opt_t *dst, const char *name, bool list)
{
	*dst = (cfg_opt_t)CFG_STR(NULL, NULL, CFGF_NODEFAULT);
	dst->name = name;
	dst->flags |= list ? CFGF_LIST : 0;
	dst->parsecb = take_value;
}

static void
fill_section(cfg_opt_t *dst, const char *name, cfg_opt_t *rows)
{
	*dst = (cfg_opt_t)CFG_SEC(NULL, NULL, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES);
	dst->name = name;
	dst->subopts = rows;
	dst->validcb = end_section;
}

static cfg_opt_t *
rows_of(const struct option_scope *s, size_t more)
{
	/* All zero is libconfuse's end mark. */
	cfg_opt_t *rows = x_zalloc((s->n + more + 1) * sizeof *rows);

	for (size_t i = 0; rows && i < s->n; i++)
		fill(&rows[i], s->rows[i].name, s->rows[i].type == OPT_LIST);
	return rows;
}

static cfg_opt_t *
rows_of_queue(void)
{
	cfg_opt_t *rows = x_zalloc((queue_setting_count + 1) * sizeof *rows);

	for (size_t i = 0; rows && i < queue_setting_count; i++)
		fill(&rows[i], queue_setting_table[i].name, false);
	return rows;
}

/* libconfuse copies the arrays. NULL: no memory. */
static cfg_t *
make_parser(void)
{
	cfg_opt_t *top = rows_of(&config_scope, ARRAY_SIZE(scopes) + 1), *queue = rows_of_queue(),
		  *rows[ARRAY_SIZE(scopes)];
	bool all = top && queue;
	cfg_t *cfg = NULL;

	wq_assert(config_scope.n < 64 && queue_setting_count < 64);
	for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
		wq_assert(scopes[i]->n < 64);
		rows[i] = rows_of(scopes[i], 0);
		all = all && rows[i];
		if (all)
			fill_section(&top[config_scope.n + 1 + i], scopes[i]->name, rows[i]);
	}
	if (all) {
		fill_section(&top[config_scope.n], "queue", queue);
		cfg = cfg_init(top, CFGF_NONE);
	}
	x_free(top);
	x_free(queue);
	for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
		x_free(rows[i]);
	return cfg;
}

/* The parser gave up and did not say why: it had no memory, or met the empty text as a name. */
static void
fail_silent(struct loading *l, cfg_t *cfg, int error)
{
	if (error == ENOMEM)
		load_fail_errno(l, -ENOMEM);
	else
		load_fail(l, cfg->line,
			"\"\" is no option; right is: NAME = VALUE, or SECTION \"NAME\" { ... }");
}

static void
parse(struct loading *l, const char *text)
{
	cfg_t *cfg = make_parser();

	if (!cfg) {
		load_fail_errno(l, -ENOMEM);
		return;
	}
	cfg_set_error_function(cfg, report);
	loading = l;
	errno = 0;
	if (cfg_parse_buf(cfg, text) != CFG_SUCCESS && !l->err)
		fail_silent(l, cfg, errno);
	loading = NULL;
	clear_section(l);
	cfg_free(cfg);
}

int
config_read(const char *path, struct config *c, char *why, size_t size)
{
	struct loading l = { .path = path, .c = c };
	const char *what = "";
	char *text = NULL;
	int line = 0, err;

	err = source_read(path, &text, &what, &line);
	if (err == ERR_CONFIG) {
		load_fail(&l, line, "%s", what);
	} else if (err) {
		load_fail_errno(&l, err);
	} else {
		parse(&l, text);
		x_free(text);
		if (!l.err)
			cross_check(&l);
	}
	x_free(l.lines);
	if (l.err)
		snprintf(why, size, "%s", l.why);
	return l.err;
}
