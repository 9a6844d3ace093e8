/*
 * How far a long drain is, told now and then until its answer.
 */
#include <string.h>

#include "base/alloc.h"
#include "service/internal.h"

struct progress {
	struct list link;
	uint64_t ticket;
	int64_t every_ns, due_ns;
	size_t queue_n;
	char queue[QUEUE_NAME_MAX];
};

void
progress_begin(struct service *svc, struct call *c)
{
	const struct req_drain *r = &c->req->drain;
	struct progress *p;

	if (r->progress_ns == 0 || !ticket_find(&svc->tickets, c->ticket))
		return;
	/* Without memory the drain goes on, and tells nothing. */
	p = x_zalloc(sizeof *p);
	if (!p)
		return;
	p->ticket = c->ticket;
	p->every_ns = r->progress_ns > PROGRESS_MIN_NS ? r->progress_ns : PROGRESS_MIN_NS;
	p->due_ns = c->now.boot_ns;
	p->queue_n = r->op.queue.n;
	if (p->queue_n)
		memcpy(p->queue, r->op.queue.p, p->queue_n);
	list_append(&svc->progress, &p->link);
}

static void
progress_end(struct progress *p)
{
	list_del(&p->link);
	x_free(p);
}

static void
progress_tell(struct service *svc, const struct progress *p, struct ticket *t, struct moment now)
{
	struct drain_view d;
	struct buf *out;

	if (session_unsent(t->s) >= svc->cfg.output_max / 2 ||
		engine_drain_get(svc->cfg.engine, now, (struct str){ p->queue, p->queue_n }, &d) !=
			ST_OK)
		return;
	out = reply_begin(t->s);
	if (!out)
		return;
	reply_end(t->s, ST_OK, wire_put_progress(out, t->request_id, &d));
	svc->cfg.output_ready(svc->cfg.ctx, t->s);
}

int64_t
progress_turn(struct service *svc, struct moment now)
{
	int64_t due_ns = INT64_MAX;

	list_each_safe(p, &svc->progress, struct progress, link) {
		struct ticket *t = ticket_find(&svc->tickets, p->ticket);

		if (!t) {
			progress_end(p);
			continue;
		}
		if (p->due_ns <= now.boot_ns) {
			progress_tell(svc, p, t, now);
			p->due_ns = sat_add(now.boot_ns, p->every_ns);
		}
		if (p->due_ns < due_ns)
			due_ns = p->due_ns;
	}
	return due_ns;
}

void
progress_free(struct service *svc)
{
	list_each_safe(p, &svc->progress, struct progress, link)
		progress_end(p);
}
