/*
 * Steps of the engine and what comes of them.
 */
#include "service/service.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "service/internal.h"

/* What one read decodes to is bounded by this many times its bytes, and this much besides. */
#define ARENA_TIMES 2
#define ARENA_EXTRA (8u << 20)

static int
buffers_new(struct service *svc)
{
	int err = arena_new((size_t)svc->cfg.frame_max * ARENA_TIMES + ARENA_EXTRA, &svc->arena);

	if (!err)
		err = wire_list_new(WIRE_REPLY_MAX, &svc->list);
	if (!err)
		err = wire_list_new(WIRE_REPLY_MAX, &svc->batch.results);
	if (!err)
		err = wire_list_new(WIRE_REPLY_MAX, &svc->batch.spoiled);
	if (!err)
		err = wire_put_status(
			&svc->busy, 0, ST_REFUSED_LIMIT, "too many connections; try again later");
	if (!err) {
		svc->gathered = x_alloc(GATHER_MAX * sizeof *svc->gathered);
		err = svc->gathered ? 0 : -ENOMEM;
	}
	return err;
}

int
service_new(const struct service_config *cfg, struct service **out)
{
	struct service *svc = x_zalloc(sizeof *svc);
	int err;

	if (!svc)
		return -ENOMEM;
	svc->magic = SERVICE_MAGIC;
	svc->cfg = *cfg;
	svc->uid = geteuid();
	svc->grants = cfg->grants;
	svc->spaces = engine_spaces(cfg->engine);
	list_init(&svc->accounts);
	effects_init(&svc->fx);
	list_init(&svc->sessions);
	list_init(&svc->held);
	list_init(&svc->progress);
	tickets_init(&svc->tickets);
	buf_init(&svc->scratch, 2 * WIRE_REPLY_MAX + 1024);
	buf_init(&svc->busy, 256);
	buf_init(&svc->run_bytes, WIRE_REPLY_MAX);
	err = buffers_new(svc);
	if (!err)
		err = watch_new(svc);
	if (!err)
		err = care_new(svc);
	if (err) {
		service_free(svc);
		return err;
	}
	*out = svc;
	return 0;
}

void
service_free(struct service *svc)
{
	if (!svc)
		return;
	CHECK_OBJ(svc, SERVICE_MAGIC);
	wq_assert(list_empty(&svc->sessions) && list_empty(&svc->held));
	progress_free(svc);
	watch_free(svc);
	care_free(svc);
	accounts_free(svc);
	effects_done(&svc->fx);
	tickets_done(&svc->tickets);
	arena_free(svc->arena);
	wire_list_free(svc->list);
	wire_list_free(svc->batch.results);
	wire_list_free(svc->batch.spoiled);
	x_free(svc->gathered);
	x_free(svc->unsent);
	buf_done(&svc->scratch);
	buf_done(&svc->busy);
	buf_spare_done(&svc->spare);
	buf_done(&svc->run_bytes);
	MAGIC_DONE(svc);
	x_free(svc);
}

/* ---- steps ---- */

static void
apply_reply(struct service *svc, const struct effect *fx)
{
	struct ticket *t;

	if (fx->ticket == CALL_TICKET) {
		wq_assert(svc->call);
		if (svc->call->req->kind == REQ_UPDATE_BATCH)
			batch_add(svc, &fx->reply, fx->durable);
		else
			reply_update(svc, &fx->reply, fx->durable);
		return;
	}
	t = ticket_find(&svc->tickets, fx->ticket);
	if (t)
		reply_job(svc, t, &fx->reply, fx->durable);
}

static void
apply_effects(struct service *svc, struct moment now)
{
	for (size_t i = 0; i < svc->fx.n; i++) {
		const struct effect *fx = &svc->fx.v[i];

		switch (fx->kind) {
		case FX_REPLY:
			apply_reply(svc, fx);
			break;
		case FX_START:
			if (fx->start.subscription)
				worker_give(svc, &fx->start);
			else
				svc->cfg.start_run(svc->cfg.ctx, &fx->start);
			break;
		case FX_SUBSCRIBED:
			worker_subscribed(svc, fx->ticket);
			break;
		case FX_REVOKED:
			worker_revoked(svc, fx->ticket, &fx->revoked);
			break;
		case FX_EVENT:
			watch_note(svc, &fx->event, now);
			break;
		case FX_STALL:
			if (svc->cfg.stalled)
				svc->cfg.stalled(svc->cfg.ctx, &fx->stall);
			break;
		case FX_KILL:
			svc->cfg.kill_run(svc->cfg.ctx, fx->run_id);
			break;
		}
	}
	effects_clear(&svc->fx);
	svc->run_of = NULL;
}

/* Their workers get no more, so this comes to an end. */
static void
take_back_unsent(struct service *svc, struct moment now)
{
	while (svc->n_unsent > 0) {
		const struct engine_event ev = { .kind = EV_UNSENT,
			.run_id = svc->unsent[--svc->n_unsent] };

		engine_step(svc->cfg.engine, now, &ev, &svc->fx);
		apply_effects(svc, now);
	}
}

void
service_step(struct service *svc, struct moment now, const struct engine_event *ev)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	wq_assert(!svc->stepping);
	svc->stepping = true;
	engine_step(svc->cfg.engine, now, ev, &svc->fx);
	apply_effects(svc, now);
	take_back_unsent(svc, now);
	svc->stepping = false;
}

int
service_configure_queue(
	struct service *svc, struct moment now, struct str name, const struct queue_settings *s)
{
	int err;

	CHECK_OBJ(svc, SERVICE_MAGIC);
	wq_assert(!svc->stepping);
	if (!svc->spaces && !queue_name_valid(name))
		space_begin(svc);
	svc->stepping = true;
	err = engine_configure_queue(svc->cfg.engine, now, name, s, &svc->fx);
	apply_effects(svc, now);
	take_back_unsent(svc, now);
	svc->stepping = false;
	return err;
}

struct ticket *
service_ticket(struct service *svc, struct call *c, bool made_key)
{
	struct ticket *t;

	if (!accounts_waiter(c->s, 1)) {
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT,
			"so many requests may wait, and no more");
		return NULL;
	}
	t = ticket_take(&svc->tickets);
	if (!t) {
		accounts_waiter(c->s, -1);
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, "out of memory");
		return NULL;
	}
	t->s = c->s;
	t->request_id = c->req->id;
	t->kind = c->req->kind;
	t->made_key = made_key;
	list_append(&c->s->tickets, &t->link);
	c->s->in_flight++;
	c->ticket = ticket_number(t);
	return t;
}

void
service_ask(struct service *svc, struct call *c, struct engine_event *ev, bool made_key)
{
	if (!service_ticket(svc, c, made_key))
		return;
	ev->ticket = c->ticket;
	ev->run_token = c->req->run_token;
	service_step(svc, c->now, ev);
}

int64_t
service_turn(struct service *svc, struct moment now)
{
	int64_t due_ns, other_ns;

	CHECK_OBJ(svc, SERVICE_MAGIC);
	due_ns = progress_turn(svc, now);
	other_ns = care_turn(svc, now);
	due_ns = other_ns < due_ns ? other_ns : due_ns;
	return watch_turn(svc, now) ? now.boot_ns : due_ns;
}

/* ---- commits ---- */

/* Releases, oldest first, what waited for marks up to `mark`. */
static void
release_held(struct service *svc, uint64_t mark, int error)
{
	struct held *h;

	while ((h = list_first(&svc->held, struct held, link)) != NULL && h->mark <= mark)
		held_release(h, error);
}

void
service_committed(struct service *svc, uint64_t mark)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	if (mark > svc->committed)
		svc->committed = mark;
	release_held(svc, svc->committed, 0);
}

void
service_commit_failed(struct service *svc, int error)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	release_held(svc, UINT64_MAX, error);
}

void
service_set_degraded(struct service *svc, bool degraded)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	svc->degraded = degraded;
}

void
service_set_allow_command(struct service *svc, bool allow)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	svc->allow_command = allow;
}

void
service_set_stopping(struct service *svc)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	svc->stopping = true;
}

void
service_set_grants(struct service *svc, const struct grants *g)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	svc->grants = g;
	list_each(s, &svc->sessions, struct session, link)
		if (s->state == SESSION_OPEN && !access_compute(s)) {
			session_close(s);
			svc->cfg.output_ready(svc->cfg.ctx, s);
		}
	accounts_renew(svc);
}

/* ---- looking ---- */

struct str
service_busy_reply(const struct service *svc)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	return buf_str(&svc->busy);
}

struct service_counters *
service_counters(struct service *svc)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	return &svc->counters;
}

size_t
service_waiting_commit(const struct service *svc)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	return svc->n_held;
}
