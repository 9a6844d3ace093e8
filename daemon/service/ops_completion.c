/*
 * Operations on named completions.
 */
#include "service/internal.h"

static void
ask_completion(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct engine_event ev = { .kind = kind, .completion = &c->req->completion };

	service_ask(svc, c, &ev, false);
}

void
op_completion_wait(struct service *svc, struct call *c)
{
	ask_completion(svc, c, EV_COMPLETION_WAIT);
}

void
op_complete(struct service *svc, struct call *c)
{
	ask_completion(svc, c, EV_COMPLETE);
}

void
op_complete_all(struct service *svc, struct call *c)
{
	ask_completion(svc, c, EV_COMPLETE_ALL);
}

void
op_completion_reinit(struct service *svc, struct call *c)
{
	ask_completion(svc, c, EV_COMPLETION_REINIT);
}

int
put_completion_reply(
	struct service *svc, struct buf *out, uint64_t request_id, enum status st, struct str name)
{
	struct completion_view v;

	(void)engine_completion_get(svc->cfg.engine, name, &v);
	return wire_put_completion(out, request_id, st, &v);
}

void
op_completion_show(struct service *svc, struct call *c)
{
	struct str name = c->req->completion.name;
	struct completion_view v;
	struct buf *out;

	if (engine_completion_get(svc->cfg.engine, name, &v) != ST_OK) {
		reply_status(c->s, c->req->id, ST_INVALID, "no acceptable name of a completion");
		return;
	}
	out = reply_begin(c->s);
	if (out)
		reply_end(c->s, ST_OK, wire_put_completion(out, c->req->id, ST_OK, &v));
}
