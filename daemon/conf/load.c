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
#include "conf/option.h"
#include "conf/source.h"
#include "engine/ops.h"

#define VALUE_SHOWN 200 /* bytes of a value that a message repeats */

struct loading {
	const char *path;
	struct config *c;
	int err; /* the first, with its message */
	char why[1024];
	uint64_t seen; /* rows of the top level that were set */
	int listen_line;
	/* The section being read. */
	bool in_section;
	uint64_t seen_here;
	struct handler handler;
	struct config_queue queue;
	struct pool_config pool;
	int action;       /* as the queue's section gives it; -1: not at all */
	int handler_line; /* where the queue names its handler */
	int pool_line;    /* and its pool */
	struct named_at {
		int handler, pool;
	} * lines; /* of each of c->queues; owned */
};

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

/* Notes the first error; -1, as the parser's callbacks want it. */
__attribute__((format(printf, 3, 4))) static int
fail(struct loading *l, int line, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = fail_v(l, line, fmt, ap);
	va_end(ap);
	return r;
}

static int
fail_errno(struct loading *l, int err)
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
		return fail_errno(l, err);
	return fail(l, cfg->line, "%s%s: %s is %s; right is: %s", where(cfg, front, sizeof front),
		o->name, log_field(shown, sizeof shown, str_from(value)),
		err == ERR_OUT_OF_RANGE ? "out of range" : "no such value",
		option_range(o, range, sizeof range));
}

/* ---- values ---- */

static int
take_row(struct loading *l, cfg_t *cfg, const struct option *o, void *into, const char *value)
{
	int err = option_set(o, into, value);

	return err ? fail_value(l, cfg, o, value, err) : 0;
}

static int
take_top(struct loading *l, cfg_t *cfg, size_t row, const char *value, bool first)
{
	const struct option *o = &config_scope.rows[row];

	if (o->type == OPT_LIST && first) {
		option_clear(o, l->c);
		l->listen_line = cfg->line;
	}
	return take_row(l, cfg, o, l->c, value);
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
	queue_settings_default(&l->queue.settings);
	if (options_default(&handler_scope, &l->handler) ||
		options_default(&pool_scope, &l->pool.settings))
		return fail_errno(l, -ENOMEM);
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
			return fail(l, cfg->line, "%saction: \"%s\" is not in this version",
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
		return fail(l, cfg->line, "%s: an option is set inside its section", opt->name);
	if (!top && begin_section(l))
		return -1;
	if (first && *seen >> row & 1)
		return fail(l, cfg->line, "%s%s: set a second time; each option is set once",
			where(cfg, front, sizeof front), opt->name);
	*seen |= 1ull << row;
	if (top)
		return take_top(l, cfg, (size_t)row, value, first);
	if (is_section(cfg, &handler_scope))
		return take_row(l, cfg, &handler_scope.rows[row], &l->handler, value);
	if (is_section(cfg, &pool_scope))
		return take_row(l, cfg, &pool_scope.rows[row], &l->pool.settings, value);
	return take_setting(l, cfg, (size_t)row, value);
}

/* ---- ends of sections ---- */

static int
check_command(struct loading *l, int line, const struct handler *h)
{
	char shown[VALUE_SHOWN];
	const char *program = h->command ? h->command[0] : NULL;

	if (!program)
		return fail(l, line,
			"handler \"%s\": command is missing; right is: "
			"command = { \"PROGRAM\", \"ARGUMENT\", ... }",
			h->name);
	if (!*program)
		return fail(
			l, line, "handler \"%s\": command: the program's name is empty", h->name);
	if (strchr(program, '/') && *program != '/')
		return fail(l, line,
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
				return fail(l, line, "handler \"%s\": env: %.*s is set twice",
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
		return fail_errno(l, -ENOMEM);
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
		return fail(l, line, "queue \"%s\": %s", l->queue.name, what);
	lines = x_realloc(l->lines, c->n_queues + 1, sizeof *lines);
	if (!lines)
		return fail_errno(l, -ENOMEM);
	l->lines = lines;
	grown = x_realloc(c->queues, c->n_queues + 1, sizeof *grown);
	if (!grown)
		return fail_errno(l, -ENOMEM);
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
		return fail_errno(l, -ENOMEM);
	c->pools = grown;
	grown[c->n_pools++] = l->pool;
	return 0;
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
	*name = l->queue.name;
	*max = QUEUE_NAME_MAX;
	return end_queue;
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
	if (!queue_name_valid(str_from(cfg_title(sec))) || strlen(cfg_title(sec)) > max)
		return fail(l, cfg->line,
			"%sbad name; right is: 1 to %zu bytes of UTF-8 without '/', control "
			"characters "
			"and outer spaces",
			where(sec, front, sizeof front), max);
	snprintf(name, max + 1, "%s", cfg_title(sec));
	r = end(l, cfg->line);
	if (r == 0) {
		options_clear(&handler_scope, &l->handler);
		l->in_section = false;
	}
	return r;
}

/* ---- the parser's own errors ---- */

static void
report_unknown(struct loading *l, cfg_t *cfg, const char *name)
{
	char front[VALUE_SHOWN + 32], shown[VALUE_SHOWN], hint[160];

	fail(l, cfg->line, "%sunknown option %s; %s", where(cfg, front, sizeof front),
		log_field(shown, sizeof shown, str_from(name)),
		option_hint(cfg_title(cfg) ? cfg_name(cfg) : "", name, hint, sizeof hint));
}

/* The parser does not say of which kind; mostly one alone has the name. */
static void
report_duplicate(struct loading *l, int line, const char *title)
{
	const char *kinds[3];
	size_t n = 0;

	if (config_handler(l->c, str_from(title)))
		kinds[n++] = "handler";
	if (config_has_queue(l->c, title))
		kinds[n++] = "queue";
	if (config_has_pool(l->c, title))
		kinds[n++] = "pool";
	if (n == 0)
		kinds[n++] = "section";
	fail(l, line, "%s%s%s%s%s \"%s\": defined a second time; each is defined once", kinds[0],
		n > 1 ? " or " : "", n > 1 ? kinds[1] : "", n > 2 ? " or " : "",
		n > 2 ? kinds[2] : "", title);
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
	fail(l, cfg->line, "%s; %s", text, syntax_hint(fmt));
}

/* ---- the whole file ---- */

static int
cross_check_tls(struct loading *l)
{
	const struct config *c = l->c;

	for (size_t i = 0; c->listen[i]; i++)
		if (check_address_is_tls(str_from(c->listen[i])) && !c->tls_cert)
			return fail(l, l->listen_line,
				"listen: \"%s\" needs a certificate; right is: tls_cert = "
				"\"/PATH\" "
				"and tls_key = \"/PATH\"",
				c->listen[i]);
	if (!c->tls_cert != !c->tls_key)
		return fail(l, 1, "tls_cert and tls_key belong together; %s is missing",
			c->tls_cert ? "tls_key" : "tls_cert");
	if (c->tls_clients && !c->tls_client_ca)
		return fail(l, 1,
			"tls_clients: certificates of clients need tls_client_ca, which says who "
			"issues them");
	return 0;
}

static int
cross_check_listen(struct loading *l)
{
	char **list = l->c->listen;

	for (size_t i = 0; list[i]; i++) {
		for (size_t j = 0; j < i; j++)
			if (strcmp(list[i], list[j]) == 0)
				return fail(l, l->listen_line, "listen: \"%s\" is named twice",
					list[i]);
		if (!l->c->allow_plaintext && check_address_is_remote(str_from(list[i])))
			return fail(l, l->listen_line,
				"listen: \"%s\" would serve other machines without TLS; right is a "
				"loopback address, or allow_plaintext = yes",
				list[i]);
	}
	return 0;
}

static int
cross_check(struct loading *l)
{
	for (size_t i = 0; i < l->c->n_queues; i++) {
		const struct config_queue *q = &l->c->queues[i];

		if (q->settings.handler[0] && !config_handler(l->c, str_from(q->settings.handler)))
			return fail(l, l->lines[i].handler,
				"queue \"%s\": handler: \"%s\" is defined nowhere; right is the "
				"name "
				"of a handler section of this file",
				q->name, q->settings.handler);
		if (q->settings.pool[0] && strcmp(q->settings.pool, POOL_DEFAULT) != 0 &&
			!config_has_pool(l->c, q->settings.pool))
			return fail(l, l->lines[i].pool,
				"queue \"%s\": pool: \"%s\" is defined nowhere; right is the "
				"name of a pool section of this file, or " POOL_DEFAULT,
				q->name, q->settings.pool);
	}
	return cross_check_tls(l) ? -1 : cross_check_listen(l);
}

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
	cfg_opt_t *top = rows_of(&config_scope, 3), *handler = rows_of(&handler_scope, 0),
		  *pool = rows_of(&pool_scope, 0), *queue = rows_of_queue();
	cfg_t *cfg = NULL;

	wq_assert(config_scope.n < 64 && handler_scope.n < 64 && queue_setting_count < 64);
	if (top && handler && queue && pool) {
		fill_section(&top[config_scope.n], handler_scope.name, handler);
		fill_section(&top[config_scope.n + 1], "queue", queue);
		fill_section(&top[config_scope.n + 2], pool_scope.name, pool);
		cfg = cfg_init(top, CFGF_NONE);
	}
	x_free(top);
	x_free(handler);
	x_free(queue);
	x_free(pool);
	return cfg;
}

/* The parser gave up and did not say why: it had no memory, or met the empty text as a name. */
static void
fail_silent(struct loading *l, cfg_t *cfg, int error)
{
	if (error == ENOMEM)
		fail_errno(l, -ENOMEM);
	else
		fail(l, cfg->line,
			"\"\" is no option; right is: NAME = VALUE, or SECTION \"NAME\" { ... }");
}

static void
parse(struct loading *l, const char *text)
{
	cfg_t *cfg = make_parser();

	if (!cfg) {
		fail_errno(l, -ENOMEM);
		return;
	}
	cfg_set_error_function(cfg, report);
	loading = l;
	errno = 0;
	if (cfg_parse_buf(cfg, text) != CFG_SUCCESS && !l->err)
		fail_silent(l, cfg, errno);
	loading = NULL;
	options_clear(&handler_scope, &l->handler);
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
		fail(&l, line, "%s", what);
	} else if (err) {
		fail_errno(&l, err);
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
