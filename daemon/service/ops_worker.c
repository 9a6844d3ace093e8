/*
 * Workers: a connection that has subscribed is handed jobs as replies to that
 * request, until the subscription is over. One connection is one worker.
 *
 * A job is handed over when its message is in the output. A connection that is
 * closing has none: what the engine gave it goes back as if it had never been
 * given (EV_UNSENT), when the effects of the step are done with.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "service/internal.h"

/* ---- out ---- */

static void
put_more(struct service *svc, uint64_t ticket,
	int (*put)(struct buf *out, uint64_t id, const void *what), const void *what)
{
	struct ticket *t = ticket_find(&svc->tickets, ticket);
	struct session *s = t ? t->s : NULL;
	struct buf *out = s ? reply_begin(s) : NULL;

	if (!out)
		return;
	reply_end(s, ST_OK, put(out, t->request_id, what));
	session_changed(s);
}

static int
put_begun(struct buf *out, uint64_t id, const void *what)
{
	(void)what;
	return wire_put_more(out, id);
}

static int
put_leased(struct buf *out, uint64_t id, const void *what)
{
	return wire_put_leased(out, id, what);
}

static int
put_revoked(struct buf *out, uint64_t id, const void *what)
{
	return wire_put_revoked(out, id, what);
}

void
worker_subscribed(struct service *svc, uint64_t ticket)
{
	struct ticket *t = ticket_find(&svc->tickets, ticket);

	if (t)
		t->s->subscription = ticket;
	put_more(svc, ticket, put_begun, NULL);
}

static void
unsent_add(struct service *svc, uint64_t run_id)
{
	uint64_t *v = x_realloc(svc->unsent, svc->n_unsent + 1, sizeof *v);

	/* Without memory it goes back when the connection is gone: one attempt is lost. */
	if (!v)
		return;
	svc->unsent = v;
	v[svc->n_unsent++] = run_id;
}

void
worker_give(struct service *svc, const struct run_start *r)
{
	const struct ticket *t = ticket_find(&svc->tickets, r->subscription);

	put_more(svc, r->subscription, put_leased, r);
	if (!t || session_closing(t->s))
		unsent_add(svc, r->run_id);
}

void
worker_revoked(struct service *svc, uint64_t ticket, const struct lease_revoked *r)
{
	const struct ticket *t = ticket_find(&svc->tickets, ticket);

	put_more(svc, ticket, put_revoked, r);
	if (t && svc->cfg.revoked)
		svc->cfg.revoked(svc->cfg.ctx, t->s);
}

void
service_end_subscription(struct service *svc, struct session *s, struct moment now)
{
	const struct op_credits op = { .subscription = s->subscription };
	const struct engine_event ev = { .kind = EV_UNSUBSCRIBE, .credits = &op };

	/* Nobody asked: the answer finds no ticket. */
	service_step(svc, now, &ev);
}

/* ---- requests ---- */

static struct str
holder_name(const struct session *s, char *text, size_t size)
{
	int n = snprintf(text, size, "%s%s%s", s->client, s->client[0] ? " " : "", s->peer.address);

	wq_assert(n >= 0);
	return (struct str){ text, (size_t)n < size ? (size_t)n : size - 1 };
}

void
op_subscribe(struct service *svc, struct call *c)
{
	char text[HOLDER_MAX + 1];
	struct op_subscribe op = c->req->subscribe;
	struct engine_event ev = { .kind = EV_SUBSCRIBE, .subscribe = &op };

	if (c->s->subscription) {
		reply_status(c->s, c->req->id, ST_INVALID,
			"a connection has one subscription; change its credits, or end it");
		return;
	}
	if (svc->stopping) {
		reply_status(c->s, c->req->id, ST_REFUSED_DRAINING, "the daemon is stopping");
		return;
	}
	op.holder = holder_name(c->s, text, sizeof text);
	service_ask(svc, c, &ev, false);
}

static void
ask_credits(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct op_credits op = c->req->credits;
	struct engine_event ev = { .kind = kind, .credits = &op };

	op.subscription = c->s->subscription;
	service_ask(svc, c, &ev, false);
}

void
op_credits(struct service *svc, struct call *c)
{
	ask_credits(svc, c, EV_CREDITS);
}

void
op_unsubscribe(struct service *svc, struct call *c)
{
	ask_credits(svc, c, EV_UNSUBSCRIBE);
}

static void
ask_lease(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct op_lease op = c->req->lease;
	struct engine_event ev = { .kind = kind, .lease = &op };

	op.subscription = c->s->subscription;
	service_ask(svc, c, &ev, false);
}

void
op_touch(struct service *svc, struct call *c)
{
	ask_lease(svc, c, EV_TOUCH);
}

void
op_finish(struct service *svc, struct call *c)
{
	ask_lease(svc, c, EV_FINISH);
}

void
op_fail(struct service *svc, struct call *c)
{
	ask_lease(svc, c, EV_FAIL);
}

void
op_release(struct service *svc, struct call *c)
{
	ask_lease(svc, c, EV_RELEASE);
}
