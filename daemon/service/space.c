/*
 * Namespaces: the one place where names of clients become names of the engine.
 *
 *   queue           NAME of the client    "SPACE/NAME" inside
 *   completion      NAME                  " SPACE/NAME"
 *   idempotency id  ID                    ID, zeros up to 64 bytes, its length, SPACE
 *
 * A queue's name holds no slash, a completion's does not begin with a space and an
 * id has no more than 64 bytes, so who is in no namespace, or in another, can't
 * name them. Replies carry what stands behind the slash, and no ids.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/internal.h"
#include "wire/arena.h"

#define NO_ROOM "too much in one message"

void
space_begin(struct service *svc)
{
	svc->spaces = true;
	engine_set_spaces(svc->cfg.engine);
}

/* *name, in the namespace: in the arena. 0 or -ENOMEM. */
static int
enter(struct session *s, struct str *name, const char *before, struct str empty)
{
	struct str from = name->n ? *name : empty;
	size_t head = strlen(before) + s->space_n + 1;
	char *p = arena_alloc(s->svc->arena, head + from.n + 1);

	if (!p)
		return -ENOMEM;
	snprintf(p, head + 1, "%s%.*s/", before, (int)s->space_n, s->space);
	if (from.n)
		memcpy(p + head, from.p, from.n);
	*name = (struct str){ p, head + from.n };
	return 0;
}

/* An id may be of any bytes: only its length keeps it apart from those of no namespace. */
static const char *
enter_idem(struct session *s, struct str *idem)
{
	char *p;

	/* One that is too long is refused in its place. */
	if (s->space_n == 0 || idem->n == 0 || idem->n > IDEM_MAX)
		return NULL;
	p = arena_alloc(s->svc->arena, IDEM_MAX + 1u + s->space_n);
	if (!p)
		return NO_ROOM;
	memcpy(p, idem->p, idem->n);
	memset(p + idem->n, 0, IDEM_MAX - idem->n);
	p[IDEM_MAX] = (char)idem->n;
	memcpy(p + IDEM_MAX + 1, s->space, s->space_n);
	*idem = (struct str){ p, IDEM_MAX + 1u + s->space_n };
	return NULL;
}

static const char *
enter_queue(struct session *s, struct str *name, bool filter)
{
	if (name->n > 0 && !queue_name_valid(*name))
		return "no acceptable queue name";
	if (s->space_n == 0 || (filter && name->n == 0))
		return NULL;
	if (name->n + s->space_n + 1u > QUEUE_NAME_MAX)
		return "the queue's name is too long in this namespace";
	return enter(s, name, "", STR("default")) < 0 ? NO_ROOM : NULL;
}

static const char *
enter_completion(struct session *s, struct str *name)
{
	if (!key_valid(*name))
		return "no acceptable name of a completion";
	if (s->space_n == 0)
		return NULL;
	if (name->n + s->space_n + 2u > KEY_MAX)
		return "the completion's name is too long in this namespace";
	return enter(s, name, " ", STR_NONE) < 0 ? NO_ROOM : NULL;
}

/* A batch's are refused each in its place: one that is no name stays as it is, which the engine
 * takes for no name either. */
static const char *
enter_batch(struct session *s, struct request *r)
{
	struct op_update *v = (struct op_update *)(uintptr_t)r->batch.v;
	struct str from = STR_NONE, to = STR_NONE;

	for (size_t i = 0; i < r->batch.n; i++) {
		struct str *name = &v[i].job.queue;

		if (enter_idem(s, &v[i].idem))
			return NO_ROOM;
		/* Mostly they are all for one queue. */
		if (to.n && str_eq(*name, from)) {
			*name = to;
			continue;
		}
		from = *name;
		if (enter_queue(s, name, false))
			*name = STR("/");
		to = *name;
	}
	return NULL;
}

static const char *
enter_worker(struct session *s, struct op_subscribe *op)
{
	struct str *queues = (struct str *)(uintptr_t)op->queues;
	const char *why = NULL;

	if (op->n_queues == 0 && s->space_n > 0) {
		queues = arena_alloc(s->svc->arena, sizeof *queues);
		if (!queues)
			return NO_ROOM;
		*queues = STR_NONE;
		op->queues = queues;
		op->n_queues = 1;
	}
	for (size_t i = 0; !why && i < op->n_queues; i++)
		why = enter_queue(s, &queues[i], false);
	return why;
}

/* Those of which an import is made. */
#define OF_IMPORT(kind) ((uint64_t)1 << (kind))
static const uint64_t of_import = OF_IMPORT(REQ_QUEUE_CREATE) | OF_IMPORT(REQ_QUEUE_SHOW) |
	OF_IMPORT(REQ_PAUSE) | OF_IMPORT(REQ_COMPLETE) | OF_IMPORT(REQ_COMPLETE_ALL) |
	OF_IMPORT(REQ_COMPLETION_SHOW) | OF_IMPORT(REQ_IMPORT_JOB);
_Static_assert(REQ_KIND_COUNT <= 64, "a bit for each kind of request");

bool
space_imports(const struct session *s, struct request *r)
{
	const struct str *name;

	if (!s->whole || !(of_import >> r->kind & 1) || !(s->access.all & MAY_ADMIN))
		return false;
	name = request_completion(r);
	if (name)
		return !key_valid(*name) && completion_name_inner_valid(*name);
	name = r->kind == REQ_IMPORT_JOB ? &r->import.job.queue : request_queue(r);
	return !queue_name_valid(*name) && queue_name_inner_valid(*name);
}

const char *
space_enter(struct session *s, struct request *r)
{
	struct str *name = request_idem(r);

	if (r->kind == REQ_SUBSCRIBE)
		return enter_worker(s, &r->subscribe);
	if (r->kind == REQ_UPDATE_BATCH)
		return enter_batch(s, r);
	if (name && enter_idem(s, name))
		return NO_ROOM;
	name = request_queue(r);
	if (name)
		return enter_queue(s, name, request_filters(r));
	name = request_completion(r);
	return name ? enter_completion(s, name) : NULL;
}

enum status
space_open(struct service *svc, struct session *s, struct moment now)
{
	struct queue_settings settings;
	struct queue_view q;
	char name[NAMESPACE_NAME_MAX + 16];
	struct str inner;

	if (s->space_n == 0)
		return ST_OK;
	if (!svc->spaces)
		space_begin(svc);
	snprintf(name, sizeof name, "%.*s/default", (int)s->space_n, s->space);
	inner = str_from(name);
	if (engine_queue_get(svc->cfg.engine, inner, &q) == ST_OK)
		return ST_OK;
	queue_settings_default(&settings);
	return service_configure_queue(svc, now, inner, &settings) < 0 ? ST_REFUSED_LIMIT : ST_OK;
}
