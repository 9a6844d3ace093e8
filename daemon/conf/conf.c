#include "conf/conf.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "conf/load.h"
#include "conf/option.h"

#define MESSAGE_MAX 1024

int
config_load(const char *path, struct config **out, char **why)
{
	struct config *c = x_zalloc(sizeof *c);
	char message[MESSAGE_MAX] = "no memory for the configuration";
	int err = -ENOMEM;

	if (c)
		err = options_default(&config_scope, c);
	if (!err)
		err = options_default(&handler_scope, &c->plain);
	if (!err && path)
		err = config_read(path, c, message, sizeof message);
	if (err) {
		*why = must_strdup(message);
		config_free(c);
		return err;
	}
	*out = c;
	return 0;
}

void
config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_handlers; i++)
		options_clear(&handler_scope, &c->handlers[i]);
	x_free(c->handlers);
	x_free(c->queues);
	x_free(c->pools);
	options_clear(&handler_scope, &c->plain);
	for (size_t i = 0; i < c->grants.n_roles; i++)
		options_clear(&role_scope, &c->grants.roles[i]);
	x_free(c->grants.roles);
	x_free(c->grants.namespaces);
	options_clear(&config_scope, c);
	x_free(c);
}

const struct handler *
config_handler(const struct config *c, struct str name)
{
	for (size_t i = 0; i < c->n_handlers; i++)
		if (str_eq(name, str_from(c->handlers[i].name)))
			return &c->handlers[i];
	return NULL;
}

const char *
config_handler_misfit(const struct handler *h, enum action action)
{
	if (action == ACTION_EXEC && h->worker)
		return "is a worker program (worker = yes), which only a queue with "
		       "action = \"lease\" can have";
	if (action == ACTION_LEASE && !h->worker)
		return "is a command for each run, which only a queue with action = \"exec\" can "
		       "have; right for this one is a handler with worker = yes";
	return NULL;
}

bool
config_has_queue(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_queues; i++)
		if (strcmp(c->queues[i].name, name) == 0)
			return true;
	return false;
}

bool
config_has_pool(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_pools; i++)
		if (strcmp(c->pools[i].name, name) == 0)
			return true;
	return false;
}

size_t
config_need_restart(const struct config *old, const struct config *new, char *names, size_t size)
{
	char a[8192], b[8192];
	size_t at = 0, n = 0;

	names[0] = '\0';
	for (size_t i = 0; i < config_scope.n; i++) {
		const struct option *o = &config_scope.rows[i];

		if (o->reload ||
			strcmp(option_get(o, old, a, sizeof a), option_get(o, new, b, sizeof b)) ==
				0)
			continue;
		if (at < size)
			at += (size_t)snprintf(
				names + at, size - at, "%s%s", n ? ", " : "", o->name);
		n++;
	}
	return n;
}
