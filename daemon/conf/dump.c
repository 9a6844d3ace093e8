/* The tables for people: `wqd --dump-options` and the option parts of wqd.conf(5). */
#include <stdio.h>

#include "base/text.h"
#include "conf/conf.h"
#include "conf/option.h"

struct printer {
	void (*scope)(const char *name, const char *title, const char *doc);
	void (*row)(const struct option *o);
};

/* Sentences of the settings table are fragments. */
static const char *
sentence(const char *doc, char *dst, size_t size)
{
	size_t n = strlen(doc);

	snprintf(dst, size, "%s%s", doc, n && doc[n - 1] == '.' ? "" : ".");
	if (dst[0] >= 'a' && dst[0] <= 'z')
		dst[0] = (char)(dst[0] - 'a' + 'A');
	return dst;
}

static void
text_scope(const char *name, const char *title, const char *doc)
{
	(void)title;
	printf("%s%s\n", *name ? name : "top level", *name ? " \"NAME\" { ... }" : "");
	printf("# %s\n", doc);
}

static void
text_row(const struct option *o)
{
	char range[512], doc[512];

	printf("  %s\n    %s\n    right is: %s\n    default: %s\n    changed by: %s\n", o->name,
		sentence(o->doc, doc, sizeof doc), option_range(o, range, sizeof range),
		o->def && *o->def ? o->def : "none", o->reload ? "reload" : "restart");
}

/* Text for roff: a backslash and a minus that a reader may copy, no line that begins with a
 * control character. */
static void
man_text(const char *s)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", stdout);
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-')
			fputs("\\-", stdout);
		else
			putchar(*s);
	}
}

static void
man_scope(const char *name, const char *title, const char *doc)
{
	(void)name;
	printf(".SS %s\n", title);
	man_text(doc);
	putchar('\n');
}

static void
man_row(const struct option *o)
{
	char range[512], doc[512];

	printf(".TP\n.B ");
	man_text(o->name);
	printf("\n");
	man_text(sentence(o->doc, doc, sizeof doc));
	printf("\nValue: ");
	man_text(option_range(o, range, sizeof range));
	printf(".\nDefault: ");
	man_text(o->def && *o->def ? o->def : "none");
	printf(".%s\n", o->reload ? "" : "\nA change needs a restart.");
}

static const struct printer text_printer = { text_scope, text_row };
static const struct printer man_printer = { man_scope, man_row };

static void
dump_scope(const struct printer *p, const struct option_scope *s)
{
	p->scope(s->name, s->title, s->doc);
	for (size_t i = 0; i < s->n; i++)
		p->row(&s->rows[i]);
}

void
config_dump_options(const char *format)
{
	const struct printer *p =
		str_eq(str_from(format), STR("man")) ? &man_printer : &text_printer;

	dump_scope(p, &config_scope);
	dump_scope(p, &handler_scope);
	dump_scope(p, &pool_scope);
	dump_scope(p, &role_scope);
	dump_scope(p, &namespace_scope);
	p->scope("queue", "Queues",
		"queue \"NAME\" { ... } makes a queue with these settings, or gives them to the "
		"one that exists; a queue of a namespace is \"NAMESPACE/NAME\". A queue that names "
		"a handler and no action is of action exec.");
	for (size_t i = 0; i < queue_setting_count; i++) {
		struct option o = option_of_setting(&queue_setting_table[i]);

		p->row(&o);
	}
}
