/*
 * Operations on queues.
 */
#include "service/internal.h"

#include "base/err.h"

static void
ask_settings(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct engine_event ev = { .kind = kind, .queue_set = &c->req->queue_set };

	service_ask(svc, c, &ev, false);
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
	struct engine_event ev = { .kind = EV_DRAIN, .drain = &c->req->drain };

	service_ask(svc, c, &ev, false);
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

	if (queue.n > 0 && !queue_name_valid(queue)) {
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
	struct wire_list *list;
	int err;
};

static bool
list_queue(void *arg, const struct queue_view *q)
{
	struct queue_listing *l = arg;

	l->err = wire_list_queue(l->list, q);
	return l->err == 0;
}

void
op_queue_list(struct service *svc, struct call *c)
{
	struct queue_listing l = { .list = svc->list };
	struct buf *out = reply_begin(c->s);

	if (!out)
		return;
	wire_list_begin(svc->list, c->req->id, ST_OK);
	engine_queue_each(svc->cfg.engine, list_queue, &l);
	reply_end(c->s, ST_OK, l.err ? l.err : wire_list_end(svc->list, 0, out));
}
