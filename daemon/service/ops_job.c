/*
 * Operations on jobs: what the engine is asked, after what the service itself
 * has to refuse.
 */
#include "base/assert.h"
#include "service/internal.h"

/* ---- update ---- */

/* While the store fails, what would have to be stored is refused before it changes anything. */
static bool
needs_store(const struct service *svc, const struct op_update *u)
{
	struct queue_view q;

	if (u->level != LEVEL_DEFAULT)
		return u->level != LEVEL_MEMORY;
	if (engine_queue_get(svc->cfg.engine, u->job.queue, &q) != ST_OK)
		return false; /* for the engine to answer */
	return q.settings->durability != LEVEL_MEMORY;
}

/* OK, or why an update goes no further. While the daemon stops, runs that still go on may have
 * their jobs run again after the restart; newcomers are refused. */
static enum status
update_status(
	struct service *svc, const struct call *c, const struct op_update *u, const char **why)
{
	*why = NULL;
	if (c->s->access.some != c->s->access.all &&
		!(access_queue(c->s, queue_name_outer(u->job.queue)) & MAY_SUBMIT)) {
		*why = NOT_AUTHORISED;
		return ST_UNAUTHORIZED;
	}
	if (svc->stopping && c->req->run_token == 0) {
		*why = "the daemon is stopping";
		return ST_REFUSED_DRAINING;
	}
	if (u->command.n > 0 && (*why = access_no_command(c->s)) != NULL)
		return ST_UNAUTHORIZED;
	if (svc->degraded && needs_store(svc, u)) {
		*why = "the store fails; nothing was changed";
		return ST_STORAGE_ERROR;
	}
	if (c->s->accounts[0] || c->s->accounts[1])
		*why = accounts_store(c->s, &u->job, u, c->now);
	return *why ? ST_REFUSED_LIMIT : ST_OK;
}

void
op_update(struct service *svc, struct call *c)
{
	const struct op_update *u = &c->req->update;
	const struct engine_event ev = {
		.kind = EV_UPDATE,
		.ticket = CALL_TICKET,
		.run_token = c->req->run_token,
		.update = u,
	};
	struct job_reply r;
	const char *why;
	bool durable;
	enum status st = update_status(svc, c, u, &why);

	if (st == ST_OK) {
		c->made_key = u->job.key.n == 0;
		/* Who updates freely has been there. */
		if (!updates_freely(c->s) &&
			engine_reschedule(svc->cfg.engine, c->now, u, ev.run_token, &r, &durable))
			reply_update(svc, &r, durable);
		else
			service_step(svc, c->now, &ev);
	} else {
		reply_status(c->s, c->req->id, st, why);
	}
}

/* One update of a batch, with its result. The engine answers updates within their step. */
static void
batch_apply(struct service *svc, struct call *c, size_t i)
{
	const struct op_update *u = &c->req->batch.v[i];
	const struct engine_event ev = {
		.kind = EV_UPDATE,
		.ticket = CALL_TICKET,
		.run_token = c->req->run_token,
		.update = u,
	};
	const char *const *whys = c->req->batch.why;
	struct job_reply refused = { .status = ST_INVALID, .message = whys ? whys[i] : NULL };

	c->made_key = false;
	if (!refused.message)
		refused.status = update_status(svc, c, u, &refused.message);
	if (refused.message) {
		batch_add(svc, &refused, false);
		return;
	}
	c->made_key = u->job.key.n == 0;
	service_step(svc, c->now, &ev);
	wq_assert(svc->batch.n == i + 1);
}

/* The same of a plain reschedule; false: nothing has changed. */
static bool
batch_plain(struct service *svc, struct call *c, size_t i)
{
	const struct op_update *u = &c->req->batch.v[i];
	struct job_reply r;
	bool durable;

	if ((c->req->batch.why && c->req->batch.why[i]) || u->command.n > 0 ||
		!engine_reschedule(svc->cfg.engine, c->now, u, c->req->run_token, &r, &durable))
		return false;
	c->made_key = false;
	batch_add(svc, &r, durable);
	return true;
}

static void
batch_look_ahead(const struct service *svc, const struct op_update *v, size_t n)
{
	const struct job_name *names[ENGINE_AHEAD_MAX];

	n = n < ENGINE_AHEAD_MAX ? n : ENGINE_AHEAD_MAX;
	for (size_t i = 0; i < n; i++)
		names[i] = &v[i].job;
	engine_ahead(svc->cfg.engine, names, n);
}

void
op_update_batch(struct service *svc, struct call *c)
{
	struct batch *b = &svc->batch;

	b->n = 0;
	b->durable = false;
	wire_list_begin(b->results, c->req->id, ST_OK);
	for (size_t i = 0; i < c->req->batch.n; i++) {
		if (i % ENGINE_AHEAD_MAX == 0)
			batch_look_ahead(svc, c->req->batch.v + i, c->req->batch.n - i);
		if (!updates_freely(c->s) || !batch_plain(svc, c, i))
			batch_apply(svc, c, i);
	}
	reply_batch(svc);
}

/* ---- the others ---- */

void
op_cancel(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_CANCEL, .cancel = &c->req->cancel };

	service_ask(svc, c, &ev, false);
}

void
op_flush(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_FLUSH, .flush = &c->req->flush };

	service_ask(svc, c, &ev, false);
}

void
op_flush_queue(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_FLUSH_QUEUE, .flush_queue = &c->req->flush_queue };

	service_ask(svc, c, &ev, false);
}

void
op_wait(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_WAIT, .wait = &c->req->wait };

	service_ask(svc, c, &ev, false);
}

static void
ask_job(struct service *svc, struct call *c, enum engine_event_kind kind)
{
	struct engine_event ev = { .kind = kind, .job = &c->req->job };

	service_ask(svc, c, &ev, false);
}

void
op_delete(struct service *svc, struct call *c)
{
	ask_job(svc, c, EV_DELETE);
}

void
op_disable(struct service *svc, struct call *c)
{
	/* It may be about a job that nobody knows yet. */
	const char *why = c->s->accounts[0] || c->s->accounts[1]
		? accounts_store(c->s, &c->req->job.job, NULL, c->now)
		: NULL;

	if (why)
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, why);
	else
		ask_job(svc, c, EV_DISABLE);
}

void
op_enable(struct service *svc, struct call *c)
{
	ask_job(svc, c, EV_ENABLE);
}

void
op_kick(struct service *svc, struct call *c)
{
	ask_job(svc, c, EV_KICK);
}
