/*
 * The facade: one step, and when the next is due.
 *
 * A request is applied before anything else is done, so that what reached the
 * daemon while it was frozen beats the timers that are overdue (input first);
 * only a tick expires. Within a tick the kinds of work take turns in shares of
 * the budget, so that none waits for the end of another.
 */
#include "engine/engine.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/siphash.h"
#include "engine/export.h"

#define SHARE 64u
/* Of the wheels, each 63 entries: a quarter to half a millisecond where memory is slow. */
#define CHUNKS_A_TURN 64u

/* ---- effects ---- */

void
effects_init(struct effects *fx)
{
	*fx = (struct effects){ 0 };
}

void
effects_done(struct effects *fx)
{
	x_free(fx->v);
	effects_init(fx);
}

struct effect *
effects_add(struct effects *fx, enum effect_kind kind)
{
	if (fx->n == fx->cap) {
		fx->cap = fx->cap ? fx->cap * 2 : 16;
		fx->v = must_realloc(fx->v, fx->cap, sizeof *fx->v);
	}
	fx->v[fx->n].kind = kind;
	return &fx->v[fx->n++];
}

struct effect *
engine_effect(struct engine *e, enum effect_kind kind)
{
	return effects_add(e->fx, kind);
}

void
engine_reply(struct engine *e, uint64_t ticket, bool durable, const struct job_reply *r)
{
	struct effect *fx = engine_effect(e, FX_REPLY);

	fx->ticket = ticket;
	fx->durable = durable;
	fx->reply = *r;
	if (durable)
		reply_waits(e);
}

uint64_t
engine_random(const struct engine *e, uint64_t what, uint64_t n)
{
	uint64_t v[2] = { what, n };

	return siphash13(&e->cfg.seed[2], v, sizeof v);
}

/* ---- life ---- */

static void
engine_init_parts(struct engine *e)
{
	index_init(&e->keys);
	queue_map_init(&e->queue_names);
	waiter_map_init(&e->waiters);
	job_run_maps_init(&e->runs, &e->tokens);
	record_map_init(&e->results);
	answer_map_init(&e->answers);
	completion_map_init(&e->completions);
	sub_map_init(&e->subs);
	tenant_map_init(&e->tenants);
	timers_init(&e->timeouts);
	timers_init(&e->backoffs);
	timers_init(&e->paces);
	timers_init(&e->retires);
	timers_init(&e->answer_ends);
	timers_init(&e->restored);
	timers_init(&e->lease_ends);
	list_init(&e->pools);
	list_init(&e->queues);
	list_init(&e->all_subs);
	list_init(&e->crews);
	list_init(&e->all_waiters);
	list_init(&e->inside);
	list_init(&e->all_completions);
	list_init(&e->wake);
	list_init(&e->reviews);
	list_init(&e->purges);
	list_init(&e->sweeps);
	list_init(&e->dirty);
	list_init(&e->grave);
}

int
engine_new(const struct engine_config *cfg, struct engine **out)
{
	struct engine *e = x_zalloc(sizeof *e);
	struct queue_settings s;
	int err;

	if (!e)
		return -ENOMEM;
	e->magic = ENGINE_MAGIC;
	e->cfg = *cfg;
	e->fence = cfg->fence;
	engine_init_parts(e);
	queue_settings_default(&s);
	err = slab_init(&e->jobs, sizeof(struct job), cfg->max_jobs);
	if (err == 0)
		err = slab_init(&e->sides, sizeof(struct side), cfg->max_jobs);
	if (err == 0)
		err = wheel_init(&e->boot, &e->jobs, cfg->max_jobs);
	if (err == 0)
		err = wheel_init(&e->wall, &e->jobs, cfg->max_jobs);
	if (err == 0)
		err = pools_init(e);
	if (err == 0)
		err = queue_new(e, STR("default"), &s, &e->fallback);
	if (err < 0) {
		engine_free(e);
		return err;
	}
	*out = e;
	return 0;
}

static void
engine_free_jobs(struct engine *e)
{
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		struct job *j = job_live(e, i);

		if (!j)
			continue;
		if (side_of(j)->run)
			job_run_free(e, side_of(j)->run);
		history_drop_job(e, j);
		payload_free(e, job_payload(j));
		x_free(side_of(j)->waits);
		if (j->sided)
			list_del(&job_side(j)->dirty.link);
		job_free(e, j);
	}
}

static void
engine_free_answers(struct engine *e)
{
	struct timer *t;

	while ((t = timers_first(&e->answer_ends)) != NULL) {
		timer_del(&e->answer_ends, t);
		answer_drop(e, container_of(t, struct answer, timer));
	}
}

/* What the store was not told stays untold. */
static void
engine_free_dead(struct engine *e)
{
	struct dirty *d;

	while ((d = list_first(&e->dirty, struct dirty, link)) != NULL) {
		list_del(&d->link);
		if (d->gone)
			list_append(&e->grave, &d->link);
	}
	grave_clear(e);
}

static void
engine_free_queues(struct engine *e)
{
	struct queue *q;

	while ((q = list_first(&e->queues, struct queue, of_engine)) != NULL) {
		list_del(&q->of_engine);
		queue_free(e, q);
	}
}

void
engine_free(struct engine *e)
{
	if (!e)
		return;
	CHECK_OBJ(e, ENGINE_MAGIC);
	e->watched = false; /* there is no step that could tell */
	wait_free_all(e);
	history_free(e);
	tenants_free(e);
	engine_free_jobs(e);
	workers_free(e);
	engine_free_answers(e);
	completions_free(e);
	engine_free_dead(e);
	engine_free_queues(e);
	pools_done(e);
	slab_done(&e->jobs);
	slab_done(&e->sides);
	for (size_t i = 0; i < KEY_CLASSES; i++)
		slab_done(&e->key_bytes[i]);
	index_done(&e->keys);
	ids_done(&e->ids);
	map_done(&e->queue_names);
	map_done(&e->waiters);
	map_done(&e->runs);
	map_done(&e->tokens);
	map_done(&e->results);
	map_done(&e->answers);
	map_done(&e->completions);
	map_done(&e->subs);
	wheel_done(&e->boot);
	wheel_done(&e->wall);
	timers_done(&e->timeouts);
	timers_done(&e->backoffs);
	timers_done(&e->paces);
	timers_done(&e->retires);
	timers_done(&e->answer_ends);
	timers_done(&e->restored);
	timers_done(&e->lease_ends);
	MAGIC_DONE(e);
	x_free(e);
}

/* ---- deadlines ---- */

/* No memory: a second from now it is tried again. */
static void
engine_starves(struct engine *e)
{
	e->starved_until_ns = sat_add(e->now.boot_ns, NS_PER_S);
}

/* The job whose deadline came first, over both clocks; NULL: none has come, or it is not yet known
 * which. */
static struct job *
first_due(struct engine *e)
{
	struct job *b, *w;
	int64_t due_b, due_w;

	wheel_advance(&e->boot, e->now.boot_ns, &e->chunks);
	wheel_advance(&e->wall, e->now.wall_ns, &e->chunks);
	if (e->boot.starved || e->wall.starved)
		engine_starves(e);
	if (wheel_behind(&e->boot) || wheel_behind(&e->wall))
		return NULL;
	b = wheel_first(&e->boot, e->now.boot_ns);
	w = wheel_first(&e->wall, e->now.wall_ns);
	if (!b || !w)
		return b ? b : w;
	due_b = job_due_boot(e->now, b);
	due_w = job_due_boot(e->now, w);
	return due_b < due_w || (due_b == due_w && b->seq < w->seq) ? b : w;
}

static void
expire_some(struct engine *e, uint32_t most)
{
	struct job *j;

	while (most-- > 0 && (j = first_due(e)) != NULL && job_widen(e, j) == 0 &&
		engine_spend(e)) {
		e->stats.expired++;
		if (sweep_takes(e, j))
			continue;
		j->chained = false;
		job_apply(e, j, OP_EXPIRE);
		job_changed(e, j);
	}
}

/* When deadlines of jobs have something to do. Without memory not all the time. */
static int64_t
wheels_due(const struct engine *e, struct moment now)
{
	int64_t due_ns = wheel_next(&e->boot), wall_ns = wheel_next(&e->wall);

	if (wheel_behind(&e->boot) || wheel_behind(&e->wall))
		due_ns = now.boot_ns;
	else if (wall_ns < INT64_MAX && moment_boot(now, wall_ns) < due_ns)
		due_ns = moment_boot(now, wall_ns);
	return due_ns > e->starved_until_ns ? due_ns : e->starved_until_ns;
}

int64_t
engine_next_due(const struct engine *e, struct moment now)
{
	const struct timers *boot[] = { &e->timeouts, &e->backoffs, &e->paces, &e->retires,
		&e->answer_ends, &e->lease_ends };
	int64_t due_ns = dispatch_due(e);

	if (e->holding && list_empty(&e->wake) && list_empty(&e->sweeps) && list_empty(&e->purges))
		return INT64_MAX;
	if (!list_empty(&e->wake) || !list_empty(&e->sweeps) || !list_empty(&e->purges) ||
		!list_empty(&e->reviews) || due_ns <= now.boot_ns)
		return now.boot_ns;
	if (wheels_due(e, now) < due_ns)
		due_ns = wheels_due(e, now);
	for (size_t i = 0; i < ARRAY_SIZE(boot); i++) {
		const struct timer *t = timers_first(boot[i]);

		if (t && timer_due(boot[i], t) < due_ns)
			due_ns = timer_due(boot[i], t);
	}
	return due_ns;
}

/* ---- steps ---- */

/* What one step sets going goes on in it: starts, ends of runs that do nothing, answers. Those whom
 * a completion wakes are left to the tick, so that who completes is answered before them, as fast
 * for a thousand as for one. */
static void
engine_follow(struct engine *e, bool wake)
{
	uint32_t before;

	/* Mostly there is nothing. */
	if ((!wake || list_empty(&e->wake)) && dispatch_due(e) > e->now.boot_ns)
		return;
	do {
		before = e->budget;
		if (wake)
			wait_answer_some(e, SHARE);
		dispatch_some(e, SHARE);
	} while (e->budget > 0 && e->budget < before);
}

static void (*const tick_work[])(struct engine *e, uint32_t most) = {
	wait_answer_some,
	wait_timeouts_some,
	expire_some,
	leases_expire_some,
	sweep_some,
	backoff_some,
	paces_some,
	tenants_some,
	dispatch_some,
	history_retire_some,
	history_purge_some,
	answers_expire_some,
};

/* What was begun is finished, and nothing else. */
static void
engine_tick_holding(struct engine *e)
{
	uint32_t before;

	do {
		before = e->budget;
		wait_answer_some(e, SHARE);
		sweep_some(e, SHARE);
		history_purge_some(e, SHARE);
	} while (e->budget > 0 && e->budget < before);
}

/* A tick that is cut short has the next one begin with the work that comes after. */
static void
engine_tick(struct engine *e)
{
	uint32_t kinds = ARRAY_SIZE(tick_work), first = e->tick_from, before;

	if (e->holding) {
		engine_tick_holding(e);
		return;
	}

	do {
		before = e->budget;
		for (uint32_t i = 0; i < kinds; i++) {
			uint32_t kind = (first + i) % kinds;

			tick_work[kind](e, SHARE);
			e->tick_from = e->budget == 0 ? (kind + 1) % kinds : 0;
			if (e->budget == 0)
				return;
		}
	} while (e->budget < before);
}

static void
engine_event_apply(struct engine *e, const struct engine_event *ev)
{
	switch (ev->kind) {
	case EV_TICK:
		engine_tick(e);
		return;
	case EV_UPDATE:
		update_event(e, ev);
		return;
	case EV_CANCEL:
		cancel_event(e, ev);
		return;
	case EV_FLUSH:
		flush_event(e, ev);
		return;
	case EV_FLUSH_QUEUE:
		queue_flush_event(e, ev);
		return;
	case EV_WAIT:
		wait_event(e, ev);
		return;
	case EV_DELETE:
		delete_event(e, ev);
		return;
	case EV_DISABLE:
		disable_event(e, ev);
		return;
	case EV_ENABLE:
		enable_event(e, ev);
		return;
	case EV_KICK:
		kick_event(e, ev);
		return;
	case EV_QUEUE_CREATE:
		queue_create_event(e, ev);
		return;
	case EV_QUEUE_SET:
		queue_set_event(e, ev);
		return;
	case EV_QUEUE_DELETE:
		queue_delete_event(e, ev);
		return;
	case EV_PAUSE:
	case EV_RESUME:
		queue_pause_event(e, ev);
		return;
	case EV_DRAIN:
		drain_event(e, ev);
		return;
	case EV_COMPLETION_WAIT:
	case EV_COMPLETE:
	case EV_COMPLETE_ALL:
	case EV_COMPLETION_REINIT:
		completion_event(e, ev);
		return;
	case EV_IMPORT:
		import_event(e, ev);
		return;
	case EV_ABANDON:
		wait_abandon(e, ev->ticket);
		worker_leave(e, ev->ticket);
		return;
	case EV_RUN_STARTED:
		run_started_event(e, ev);
		return;
	case EV_RUN_NOT_STARTED:
		not_started_event(e, ev);
		return;
	case EV_RUN_ENDED:
		run_ended_event(e, ev);
		return;
	case EV_POOL_SAMPLE:
		pool_sample_event(e, ev);
		return;
	case EV_SUBSCRIBE:
		subscribe_event(e, ev);
		return;
	case EV_CREDITS:
	case EV_UNSUBSCRIBE:
		credits_event(e, ev);
		return;
	case EV_TOUCH:
	case EV_FINISH:
	case EV_FAIL:
	case EV_RELEASE:
		lease_event(e, ev);
		return;
	case EV_UNSENT:
		unsent_event(e, ev);
		return;
	case EV_STOP:
		e->stopping = true;
		return;
	}
}

static void
engine_enter(struct engine *e, struct moment now, struct effects *fx)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	e->now = now;
	e->fx = fx;
	e->asked = NULL;
	e->budget = e->cfg.turn_budget ? e->cfg.turn_budget : 1;
	e->chunks = CHUNKS_A_TURN;
	grave_clear(e);
}

static void
engine_leave(struct engine *e, bool wake)
{
	engine_follow(e, wake);
	if (e->asked && !job_gone(e->asked))
		job_narrow(e, e->asked);
	if (e->budget == 0 && engine_next_due(e, e->now) <= e->now.boot_ns)
		e->stats.turns_cut++;
	e->fx = NULL;
}

void
engine_step(struct engine *e, struct moment now, const struct engine_event *ev, struct effects *fx)
{
	engine_enter(e, now, fx);
	engine_event_apply(e, ev);
	engine_leave(e, ev->kind != EV_COMPLETE && ev->kind != EV_COMPLETE_ALL);
}

int
engine_configure_queue(struct engine *e, struct moment now, struct str name,
	const struct queue_settings *s, struct effects *fx)
{
	struct queue *q;
	int err = 0;

	engine_enter(e, now, fx);
	q = queue_find(e, name);
	if (!q)
		err = queue_new(e, name, s, &q);
	if (err == 0)
		queue_apply(e, q, s);
	engine_leave(e, true);
	return err;
}
