#include "run/environ.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define OWN_MAX   20  /* variables of ours */
#define NAMES_MAX 512 /* bytes of their names, the fixed values and numbers, together */

/* Pointers and then texts, in one block whose size was worked out before. */
struct env_block {
	char **v;
	size_t n, max;
	char *text, *end;
};

static size_t
len(const char *s)
{
	return s ? strlen(s) : 0;
}

static size_t
count(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

__attribute__((format(printf, 2, 3))) static void
put(struct env_block *b, const char *fmt, ...)
{
	size_t room = (size_t)(b->end - b->text);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(b->text, room, fmt, ap);
	va_end(ap);
	wq_assert(n >= 0 && (size_t)n < room && b->n < b->max);
	b->v[b->n++] = b->text;
	b->text += n + 1;
}

static void
put_own(struct env_block *b, const struct run_env_facts *facts, const struct run_start *start)
{
	const struct identity *who = facts->who;
	struct str queue = queue_name_outer(start->queue);

	put(b, "PATH=%s", RUN_PATH);
	put(b, "HOME=%s", who->home);
	put(b, "USER=%s", who->name);
	put(b, "LOGNAME=%s", who->name);
	put(b, "LANG=C.UTF-8");
	put(b, "WQ_QUEUE=%.*s", STR_ARG(queue));
	if (queue.n < start->queue.n)
		put(b, "WQ_NAMESPACE=%.*s", (int)(start->queue.n - queue.n - 1), start->queue.p);
	put(b, "WQ_KEY=%.*s", STR_ARG(start->key));
	put(b, "WQ_GENERATION=%" PRIu64, start->generation);
	put(b, "WQ_ATTEMPT=%" PRIu32, start->attempt);
	put(b, "WQ_COALESCED=%" PRIu32, start->coalesced);
	put(b, "WQ_DEADLINE_MS=%lld", (long long)(start->due_wall_ns / NS_PER_MS));
	put(b, "WQ_PARTS=%zu", start->n_parts);
	put(b, "WQ_RUN_ID=%" PRIu64, start->run_id);
	put(b, "WQ_RUN_TOKEN=%" PRIu64, start->token);
	put(b, "WQ_INSTANCE=%s", facts->instance);
	if (facts->socket)
		put(b, "WQ_SERVER=%s", facts->socket);
}

/* Where the variable that `entry` sets is in the block, or its end. */
static size_t
place_of(const struct env_block *b, const char *entry)
{
	size_t name = strcspn(entry, "="), i = 0;

	while (i < b->n && (strncmp(b->v[i], entry, name) != 0 || b->v[i][name] != '='))
		i++;
	return i;
}

static void
put_handlers(struct env_block *b, char *const *env)
{
	for (; env && *env; env++) {
		size_t at;

		if (strncmp(*env, "WQ_INSTANCE=", strlen("WQ_INSTANCE=")) == 0)
			continue;
		at = place_of(b, *env);
		wq_assert(at < b->max);
		b->v[at] = *env;
		if (at == b->n)
			b->n++;
	}
}

int
run_env_build(const struct run_env_facts *facts, const struct run_start *start,
	const struct handler *h, char ***out)
{
	size_t slots = OWN_MAX + count(h->env) + 1;
	size_t text = NAMES_MAX + sizeof RUN_PATH + len(facts->who->home) +
		2 * len(facts->who->name) + start->queue.n + start->key.n + len(facts->instance) +
		len(facts->socket);
	char *block = x_alloc(slots * sizeof(char *) + text);
	struct env_block b;

	if (!block)
		return -ENOMEM;
	b = (struct env_block){
		.v = (char **)(void *)block,
		.max = slots - 1,
		.text = block + slots * sizeof(char *),
		.end = block + slots * sizeof(char *) + text,
	};
	put_own(&b, facts, start);
	put_handlers(&b, h->env);
	b.v[b.n] = NULL;
	*out = b.v;
	return 0;
}

const char *
run_env_get(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* "DIR/COMMAND" with the directory `dir` of `n` bytes; returns one past its end. */
static char *
join(char *dst, const char *dir, size_t n, const char *command)
{
	size_t c = strlen(command) + 1;

	memcpy(dst, dir, n);
	dst += n;
	if (n > 0 && dir[n - 1] != '/')
		*dst++ = '/';
	memcpy(dst, command, c);
	return dst + c;
}

int
run_paths_build(const char *command, const char *path, char ***out)
{
	size_t parts = 1, c = strlen(command), slot = 0;
	char **v, *text;

	if (strchr(command, '/') || !path || c == 0)
		path = "";
	for (const char *p = path; *p; p++)
		parts += *p == ':';
	v = x_alloc((parts + 1) * sizeof(char *) + strlen(path) + parts * (c + 2));
	if (!v)
		return -ENOMEM;
	text = (char *)(v + parts + 1);
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, ":");

		v[slot++] = text;
		text = join(text, p, n, command);
		p += n;
		if (*p == '\0')
			break;
	}
	v[slot] = NULL;
	*out = v;
	return 0;
}
