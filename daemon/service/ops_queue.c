/*
 * Operations on queues.
 */
#include "service/internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"

/* What a setting takes, for who got it wrong. */
static void
put_range(char *dst, size_t size, const struct setting *s)
{
	char min[64], max[64];
	size_t o = 0;

	switch (s->type) {
	case SET_U32:
		snprintf(dst, size, "a number from %" PRId64 " to %" PRId64, s->min, s->max);
		return;
	case SET_BOOL:
		snprintf(dst, size, "yes or no");
		return;
	case SET_NAME:
		snprintf(dst, size, "a name");
		return;
	case SET_RATE:
		snprintf(dst, size,
			"a rate such as 10/s, 100/m, 500/h or 1/d, of at most %" PRId64 ", or 0",
			s->max);
		return;
	case SET_CHAR:
		snprintf(dst, size, "one character");
		return;
	case SET_DURATION:
		text_put_duration(min, sizeof min, s->min);
		text_put_duration(max, sizeof max, s->max);
		snprintf(dst, size, "a duration such as 30s, from %s to %s", min, max);
		return;
	case SET_WORD:
		for (int i = 0; i < s->words->n && o < size; i++)
			if (s->words->words[i])
				o += (size_t)snprintf(dst + o, size - o, "%s%s", o ? ", " : "",
					s->words->words[i]);
		return;
	}
}

static const struct setting *
setting_named(struct str name)
{
	for (size_t i = 0; i < queue_setting_count; i++)
		if (str_eq(name, str_from(queue_setting_table[i].name)))
			return &queue_setting_table[i];
	return NULL;
}

/* Whether the text of each setting is one; `why` says which is not and what it takes. */
static bool
settings_readable(const struct op_queue_set *op, char *why, size_t size)
{
	struct queue_settings scratch;

	queue_settings_default(&scratch);
	for (size_t i = 0; i < op->n_settings; i++) {
		const struct setting_text *t = &op->settings[i];
		const struct setting *s = setting_named(t->name);
		char name[80], value[80], range[160];

		if (queue_settings_set(&scratch, t->name, t->value) == 0)
			continue;
		log_field(name, sizeof name, t->name);
		if (!s) {
			snprintf(why, size, "there is no setting %s: wqd.conf(5) names all", name);
			return false;
		}
		put_range(range, sizeof range, s);
		snprintf(why, size, "%s: %s is not what it takes: %s", s->name,
			log_field(value, sizeof value, t->value), range);
		return false;
	}
	return true;
}

/* It may give such a handler to a queue. */
static bool
handlers_allowed(const struct call *c)
{
	const struct op_queue_set *op = &c->req->queue_set;

	for (size_t i = 0; i < op->n_settings; i++)
		if (str_eq(op->settings[i].name, STR("handler")) &&
			!access_handler(c->s, op->settings[i].value))
			return false;
	return true;
}

/* The handler that the queue would have is one for its action. */
static bool
handler_fits(struct service *svc, const struct op_queue_set *op, char *why, size_t size)
{
	struct queue_settings s;
	struct queue_view q;
	const char *misfit;

	queue_settings_default(&s);
	if (engine_queue_get(svc->cfg.engine, op->queue, &q) == ST_OK)
		s = *q.settings;
	for (size_t i = 0; i < op->n_settings; i++)
		(void)queue_settings_set(&s, op->settings[i].name, op->settings[i].value);
	if (!s.handler[0] || !svc->cfg.handler_misfit)
		return true;
	misfit = svc->cfg.handler_misfit(svc->cfg.ctx, str_from(s.handler), s.action);
	if (misfit)
		snprintf(why, size, "handler: %s %s", s.handler, misfit);
	return !misfit;
}

static void
ask_settings(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct engine_event ev = { .kind = kind, .queue_set = &c->req->queue_set };
	char why[400];

	if (!handlers_allowed(c)) {
		svc->counters.unauthorized++;
		reply_status(c->s, c->req->id, ST_UNAUTHORIZED, NOT_AUTHORISED);
		return;
	}
	if (settings_readable(ev.queue_set, why, sizeof why) &&
		handler_fits(svc, ev.queue_set, why, sizeof why))
		service_ask(svc, c, &ev, false);
	else
		reply_status(c->s, c->req->id, ST_INVALID, why);
}

void
op_queue_create(struct service *svc, struct call *c)
{
	ask_settings(svc, c, EV_QUEUE_CREATE);
}

void
op_queue_set(struct service *svc, struct call *c)
{
	ask_settings(svc, c, EV_QUEUE_SET);
}

void
op_queue_delete(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_QUEUE_DELETE, .queue_delete = &c->req->queue_delete };

	service_ask(svc, c, &ev, false);
}

void
op_pause(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_PAUSE, .queue = &c->req->queue };

	service_ask(svc, c, &ev, false);
}

void
op_resume(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_RESUME, .queue = &c->req->queue };

	service_ask(svc, c, &ev, false);
}

void
op_drain(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_DRAIN, .drain = &c->req->drain.op };

	service_ask(svc, c, &ev, false);
	progress_begin(svc, c);
}

/* ---- looking ---- */

int
put_queue_reply(
	struct service *svc, struct buf *out, uint64_t request_id, enum status st, struct str queue)
{
	struct queue_view q;
	int err = 0;

	wire_list_begin(svc->list, request_id, st);
	if (engine_queue_get(svc->cfg.engine, queue, &q) == ST_OK)
		err = wire_list_queue(svc->list, &q);
	return err ? err : wire_list_end(svc->list, 0, out);
}

void
op_queue_show(struct service *svc, struct call *c)
{
	struct str queue = c->req->queue.queue;
	struct queue_view q;
	struct buf *out;
	enum status st;

	if (queue.n > 0 && !svc->spaces && !queue_name_valid(queue)) {
		reply_status(c->s, c->req->id, ST_INVALID, "no acceptable queue name");
		return;
	}
	st = engine_queue_get(svc->cfg.engine, queue, &q);
	if (st != ST_OK) {
		reply_status(c->s, c->req->id, st, "no such queue");
		return;
	}
	out = reply_begin(c->s);
	if (out)
		reply_end(c->s, ST_OK, put_queue_reply(svc, out, c->req->id, ST_OK, queue));
}

struct queue_listing {
	struct session *s;
	struct wire_list *list;
	int err;
};

static bool
list_queue(void *arg, const struct queue_view *q)
{
	struct queue_listing *l = arg;

	if (!access_sees(l->s, q->name))
		return true;
	l->err = wire_list_queue(l->list, q);
	return l->err == 0;
}

void
op_queue_list(struct service *svc, struct call *c)
{
	struct queue_listing l = { .s = c->s, .list = svc->list };
	struct buf *out = reply_begin(c->s);
	uint64_t cursor = c->req->cursor;

	if (!out)
		return;
	wire_list_begin(svc->list, c->req->id, ST_OK);
	engine_queue_each(svc->cfg.engine, &cursor, list_queue, &l);
	if (l.err == ERR_TOO_LONG)
		l.err = 0; /* the next page begins with it */
	reply_end(c->s, ST_OK, l.err ? l.err : wire_list_end(svc->list, cursor, out));
}
