/*
 * Those who wait: for an event of a job, a colour of a queue, a drain.
 *
 * Waiters of one event are a group. When it happens the group as a whole goes
 * to engine.wake, however many they are; from there they are answered first
 * come, first served, so many a step. A waiter whose event has happened keeps
 * its result: its time limit counts no more. One that went away is gone from
 * the list and gets nothing.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/inside.h"
#include "engine/internal.h"

/* ---- by ticket ---- */

static bool
waiter_match(const struct map_node *node, const void *key)
{
	return container_of(node, const struct waiter, node)->ticket == *(const uint64_t *)key;
}

void
waiter_map_init(struct map *m)
{
	map_init(m, waiter_match);
}

static uint64_t
ticket_hash(const struct engine *e, uint64_t ticket)
{
	return engine_random(e, 't', ticket);
}

/* ---- groups ---- */

static struct wait_group *
group_new(struct wait_group **slot, struct queue *q, struct job *j, struct completion *c)
{
	struct wait_group *g = x_zalloc(sizeof *g);

	if (!g)
		return NULL;
	g->magic = GROUP_MAGIC;
	g->refs = 1;
	g->slot = slot;
	g->q = q;
	g->job = j;
	g->completion = c;
	list_init(&g->waiters);
	list_init(&g->link);
	if (q)
		queue_pin(q);
	if (j)
		job_side(j)->pins++;
	if (c)
		c->pins++;
	*slot = g;
	return g;
}

static void
group_free(struct engine *e, struct wait_group *g)
{
	record_unref(e, g->record);
	if (g->job) {
		job_side(g->job)->pins--;
		job_settle(e, g->job);
	}
	if (g->q)
		queue_unpin(e, g->q);
	if (g->completion) {
		g->completion->pins--;
		completion_settle(e, g->completion);
	}
	MAGIC_DONE(g);
	x_free(g);
}

static void
group_put(struct engine *e, struct wait_group *g)
{
	while (g && --g->refs == 0) {
		struct wait_group *into = g->into;

		group_free(e, g);
		g = into;
	}
}

struct wait_group *
group_root(struct wait_group *g)
{
	while (g->into)
		g = g->into;
	return g;
}

/* Nobody waits in it any more: its owner, or engine.wake, lets it go. */
static void
group_drop(struct engine *e, struct wait_group *g)
{
	if (g->slot)
		*g->slot = NULL;
	g->slot = NULL;
	list_del(&g->link);
	group_put(e, g);
}

void
group_awake(struct engine *e, struct wait_group *g, enum status st)
{
	g->awake = true;
	g->status = st;
	list_append(&e->wake, &g->link);
}

void
group_wake(struct engine *e, struct wait_group **slot, enum status st, struct record *r)
{
	struct wait_group *g = *slot;

	if (!g)
		return;
	*slot = NULL;
	g->slot = NULL;
	g->record = r;
	if (r)
		record_ref(r);
	group_awake(e, g, st);
}

struct waiter *
group_move_first(struct engine *e, struct wait_group **from, struct wait_group **to)
{
	struct wait_group *g = *from;
	struct waiter *w = list_first(&g->waiters, struct waiter, link);

	wq_assert(w->group == g);
	if (!*to && !group_new(to, g->q, g->job, g->completion))
		return NULL;
	list_del(&w->link);
	list_append(&(*to)->waiters, &w->link);
	w->group = *to;
	(*to)->refs++;
	if (list_empty(&g->waiters))
		group_drop(e, g);
	group_put(e, g);
	return w;
}

void
group_merge(struct engine *e, struct wait_group **from, struct wait_group **to)
{
	struct wait_group *g = *from;

	if (!g)
		return;
	*from = NULL;
	if (!*to) {
		*to = g;
		g->slot = to;
		return;
	}
	list_splice(&(*to)->waiters, &g->waiters);
	g->slot = NULL;
	g->into = *to;
	(*to)->refs++;
	group_put(e, g);
}

/* ---- the groups of a job ---- */

struct wait_group **
wait_slot(struct job *j, enum job_event on)
{
	if (!side_of(j)->waits)
		job_side(j)->waits = x_zalloc(sizeof *side_of(j)->waits);
	return side_of(j)->waits ? &job_side(j)->waits->on[on] : NULL;
}

void
job_wake(struct engine *e, struct job *j, enum job_event on, enum status st, struct record *r)
{
	if (side_of(j)->waits)
		group_wake(e, &job_side(j)->waits->on[on], st, r);
}

void
job_wait_merge(struct engine *e, struct job *j, enum job_event from, enum job_event to)
{
	if (side_of(j)->waits)
		group_merge(e, &job_side(j)->waits->on[from], &job_side(j)->waits->on[to]);
}

void
job_wait_unready(struct engine *e, struct job *j)
{
	if (job_running(j))
		job_wait_merge(e, j, ON_FLUSH_NEXT, ON_FLUSH_RUN);
	else
		job_wake(e, j, ON_FLUSH_NEXT, ST_OK, history_newest(j));
}

void
job_wait_dropped(struct engine *e, struct job *j)
{
	job_wait_unready(e, j);
	if (side_of(j)->retry)
		job_wake(e, j, ON_WAIT_RUN, ST_CANCELLED,
			history_find(e, j, side_of(j)->generation));
	else
		job_wake(e, j, ON_WAIT_NEXT, ST_CANCELLED, NULL);
}

/* ---- waiters ---- */

static void
waiter_free(struct engine *e, struct waiter *w)
{
	map_del(&e->waiters, &w->node);
	timer_del(&e->timeouts, &w->timer);
	list_del(&w->link);
	list_del(&w->all);
	inside_left(w);
	answer_drop(e, w->answer);
	e->stats.waiters--;
	MAGIC_DONE(w);
	x_free(w);
}

/* 0, or nothing has changed. */
static int
waiter_register(struct engine *e, struct waiter *w, int64_t timeout_ns)
{
	int64_t due_ns = sat_add(e->now.boot_ns, timeout_ns);

	if (timeout_ns >= 0 && timer_set(&e->timeouts, &w->timer, due_ns, ++e->seq) < 0)
		return -ENOMEM;
	if (map_add(&e->waiters, &w->node, ticket_hash(e, w->ticket)) == 0)
		return 0;
	timer_del(&e->timeouts, &w->timer);
	return -ENOMEM;
}

int
wait_join(struct ask *a, enum wait_kind kind, struct wait_group **slot, struct queue *q,
	struct job *j, int64_t timeout_ns)
{
	struct engine *e = a->e;
	struct waiter *w;
	struct wait_group *g;

	if (e->stats.waiters >= e->cfg.max_waiters && !a->again)
		return ERR_LIMIT;
	w = x_zalloc(sizeof *w);
	if (!w)
		return -ENOMEM;
	w->magic = WAITER_MAGIC;
	w->kind = kind;
	w->ticket = a->ticket;
	if (waiter_register(e, w, timeout_ns) < 0) {
		x_free(w);
		return -ENOMEM;
	}
	g = *slot ? *slot : group_new(slot, q, j, a->c);
	if (!g) {
		map_del(&e->waiters, &w->node);
		timer_del(&e->timeouts, &w->timer);
		x_free(w);
		return -ENOMEM;
	}
	w->level = a->level;
	w->reply = a->r;
	w->answer = a->answer;
	a->answer = NULL;
	w->group = g;
	g->refs++;
	list_append(&g->waiters, &w->link);
	list_append(&e->all_waiters, &w->all);
	list_init(&w->inside);
	if (a->from && j && timeout_ns < 0)
		inside_joined(e, w, a->from);
	e->stats.waiters++;
	return 0;
}

/* Whoever holds the group learns that nobody waits any more. */
static void
waiter_left(struct engine *e, struct wait_group *g, enum wait_kind kind)
{
	struct job *j = g->job;
	struct queue *q = g->q;

	if (kind == W_DRAIN_PAUSE && !g->awake)
		q->pausers--;
	if (kind == W_COMPLETION && !g->awake)
		g->completion->n_waiting--;
	if (!list_empty(&g->waiters))
		return;
	if (g->awake) {
		group_drop(e, g);
		return;
	}
	group_drop(e, g);
	if ((kind == W_CANCEL || kind == W_KILL) && side_of(j)->disable_depth == 0)
		job_enter(e, j, OP_REOPEN, JS_R);
	if (kind == W_DRAIN || kind == W_DRAIN_PAUSE || kind == W_DELETE)
		drain_left(e, q);
}

static void
waiter_end(struct engine *e, struct waiter *w)
{
	struct wait_group *own = w->group, *g = group_root(own);
	enum wait_kind kind = w->kind;

	g->refs++;
	waiter_free(e, w);
	group_put(e, own);
	waiter_left(e, g, kind);
	group_put(e, g);
}

/* ---- answering ---- */

static enum status
waiter_status(const struct waiter *w, const struct wait_group *g)
{
	const struct record *r = g->record;

	switch (w->kind) {
	case W_CANCEL:
	case W_KILL:
		/* The hand-over was taken back: it was only pending after all. */
		if (g->status == ST_CANCELLED)
			return ST_CANCELLED;
		if (w->kind == W_KILL && r && r->r.outcome == RUN_CANCELLED)
			return ST_CANCELLED_RUNNING;
		return w->reply.status;
	case W_WAIT:
	case W_FLUSH:
	case W_FLUSH_QUEUE:
	case W_DRAIN:
	case W_DRAIN_PAUSE:
	case W_DELETE:
	case W_COMPLETION:
		return g->status;
	}
	return g->status;
}

/* A waiter of a completion relies on what that is now, however it was when it came. */
static enum durability
waiter_level(const struct waiter *w, const struct wait_group *g)
{
	return g->completion ? (enum durability)g->completion->level : w->level;
}

static void
waiter_answer(struct engine *e, struct waiter *w, struct wait_group *g)
{
	bool durable = waiter_level(w, g) == LEVEL_SYNC;

	w->reply.status = waiter_status(w, g);
	w->reply.run = g->record ? &g->record->r : NULL;
	reply_after(e, &w->reply, g->q, g->job);
	if (w->answer) {
		answer_keep(e, w->answer, &w->reply, g->job ? &job_side(g->job)->dirty : NULL,
			g->job && g->job->durable, w->level);
		w->answer = NULL;
	}
	engine_reply(e, w->ticket, durable, &w->reply);
	waiter_end(e, w);
}

void
wait_answer_some(struct engine *e, uint32_t most)
{
	struct wait_group *g;

	while (most-- > 0 && (g = list_first(&e->wake, struct wait_group, link)) != NULL &&
		engine_spend(e)) {
		struct waiter *w = list_first(&g->waiters, struct waiter, link);

		CHECK_OBJ(w, WAITER_MAGIC);
		waiter_answer(e, w, g);
	}
}

void
wait_timeouts_some(struct engine *e, uint32_t most)
{
	struct timer *t;

	while (most > 0 && (t = timers_past(&e->timeouts, e->now.boot_ns)) != NULL) {
		struct waiter *w = container_of(t, struct waiter, timer);

		if (!engine_spend(e))
			return;
		most--;
		if (group_root(w->group)->awake) {
			timer_del(&e->timeouts, t);
			continue;
		}
		w->reply.status = ST_TIMEOUT;
		w->reply.message = "the wait ended before what was waited for";
		reply_after(e, &w->reply, w->group->q, w->group->job);
		engine_reply(e, w->ticket, false, &w->reply);
		waiter_end(e, w);
	}
}

void
wait_abandon(struct engine *e, uint64_t ticket)
{
	struct map_node *node = map_find(&e->waiters, ticket_hash(e, ticket), &ticket);

	struct waiter *w;

	if (!node)
		return;
	w = container_of(node, struct waiter, node);
	if (w->kind == W_COMPLETION)
		completion_return(e, w);
	waiter_end(e, w);
}

void
wait_free_all(struct engine *e)
{
	struct waiter *w;

	while ((w = list_first(&e->all_waiters, struct waiter, all)) != NULL)
		waiter_end(e, w);
}
