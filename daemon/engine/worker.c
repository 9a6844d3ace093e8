/*
 * Workers: who takes jobs of lease queues, and whose turn it is.
 *
 * A worker is known by the ticket of its SUBSCRIBE. In each of its queues it has
 * a place; while it has credit, its places are on the queues' `takers`. The first
 * of these gets the next job and goes to the end: a round robin. A queue without
 * takers starts nothing (queue_may_start).
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/internal.h"

/* Payloads that one worker is sent ahead of its answers. One job is always. */
#define SUB_BYTES_MAX (1u << 20)

/* ---- finding ---- */

static bool
sub_match(const struct map_node *node, const void *key)
{
	return container_of(node, const struct sub, node)->ticket == *(const uint64_t *)key;
}

void
sub_map_init(struct map *m)
{
	map_init(m, sub_match);
}

static uint64_t
sub_hash(const struct engine *e, uint64_t ticket)
{
	return engine_random(e, 'w', ticket);
}

struct sub *
worker_find(const struct engine *e, uint64_t ticket)
{
	struct map_node *node = ticket ? map_find(&e->subs, sub_hash(e, ticket), &ticket) : NULL;

	return node ? container_of(node, struct sub, node) : NULL;
}

struct lease *
worker_lost_lease(const struct engine *e, uint64_t subscription, uint64_t token)
{
	const struct sub *s = worker_find(e, subscription);

	if (!s)
		return NULL;
	list_each(l, &s->leases, struct lease, of_sub)
		if (!l->run && l->token == token)
			return l;
	return NULL;
}

/* ---- credit ---- */

static bool
sub_has_credit(const struct sub *s)
{
	return !s->closed && s->n_leases < s->credits &&
		(s->n_leases == 0 || s->bytes < SUB_BYTES_MAX);
}

static void
place_free(struct place *p)
{
	list_del(&p->of_sub);
	list_del(&p->of_queue);
	list_del(&p->taker);
	p->q->n_places--;
	x_free(p);
}

static void
sub_free_places(struct engine *e, struct sub *s)
{
	struct place *p;

	while ((p = list_first(&s->places, struct place, of_sub)) != NULL) {
		struct queue *q = p->q;

		place_free(p);
		queue_changed(e, q);
	}
}

static void
sub_free(struct engine *e, struct sub *s)
{
	struct lease *l;

	sub_free_places(e, s);
	while ((l = list_first(&s->leases, struct lease, of_sub)) != NULL)
		lease_free(e, l);
	map_del(&e->subs, &s->node);
	list_del(&s->all);
	e->stats.workers--;
	MAGIC_DONE(s);
	x_free(s);
}

static void
sub_over(struct engine *e, struct sub *s)
{
	struct job_reply r = { .status = ST_OK };

	if (list_empty(&s->places)) {
		r.status = ST_NOT_FOUND;
		r.message = "the queues are gone";
	}
	engine_reply(e, s->ticket, false, &r);
	sub_free(e, s);
}

void
worker_looked_at(struct engine *e, struct sub *s)
{
	bool credit;

	if (!s)
		return;
	if (s->closed && s->n_leases == 0) {
		sub_over(e, s);
		return;
	}
	credit = sub_has_credit(s);
	list_each(p, &s->places, struct place, of_sub) {
		if (credit == list_linked(&p->taker))
			continue;
		/* Of ours the warmest is next, so that the others come to rest and can go. */
		if (credit && list_linked(&p->q->crew))
			list_prepend(&p->q->takers, &p->taker);
		else if (credit)
			list_append(&p->q->takers, &p->taker);
		else
			list_del(&p->taker);
		queue_changed(e, p->q);
	}
}

struct sub *
worker_next(const struct queue *q)
{
	return list_first(&q->takers, struct place, taker)->sub;
}

/* Its turn in the queue is over. */
void
worker_took(struct engine *e, struct queue *q)
{
	struct place *p = list_first(&q->takers, struct place, taker);

	list_del(&p->taker);
	list_append(&q->takers, &p->taker);
	worker_looked_at(e, p->sub);
}

/* ---- requests ---- */

static struct place *
place_of(const struct sub *s, const struct queue *q)
{
	list_each(p, &s->places, struct place, of_sub)
		if (p->q == q)
			return p;
	return NULL;
}

static int
place_new(struct sub *s, struct queue *q)
{
	struct place *p;

	if (place_of(s, q))
		return 0;
	p = x_zalloc(sizeof *p);
	if (!p)
		return -ENOMEM;
	p->sub = s;
	p->q = q;
	list_init(&p->taker);
	list_append(&s->places, &p->of_sub);
	list_append(&q->places, &p->of_queue);
	q->n_places++;
	return 0;
}

static struct sub *
sub_new(struct engine *e, uint64_t ticket, const struct op_subscribe *op)
{
	struct sub *s = x_zalloc(sizeof *s);

	if (!s)
		return NULL;
	s->magic = SUB_MAGIC;
	s->ticket = ticket;
	s->credits = op->credits;
	s->idle_ns = e->now.boot_ns;
	s->holder_n = (uint8_t)(op->holder.n < HOLDER_MAX ? op->holder.n : HOLDER_MAX);
	if (s->holder_n)
		memcpy(s->holder, op->holder.p, s->holder_n);
	list_init(&s->leases);
	list_init(&s->places);
	if (map_add(&e->subs, &s->node, sub_hash(e, ticket)) < 0) {
		MAGIC_DONE(s);
		x_free(s);
		return NULL;
	}
	list_append(&e->all_subs, &s->all);
	e->stats.workers++;
	return s;
}

void
worker_goes_last(struct engine *e, struct queue *q, uint64_t ticket)
{
	struct sub *s = worker_find(e, ticket);
	struct place *p = s ? place_of(s, q) : NULL;

	if (!p || !list_linked(&p->taker))
		return;
	list_del(&p->taker);
	list_append(&q->takers, &p->taker);
}

int
worker_carry(struct engine *e, const struct worker_carried *from)
{
	const struct op_subscribe op = { .credits = from->credits, .holder = from->holder };
	struct sub *s = worker_find(e, from->ticket) ? NULL : sub_new(e, from->ticket, &op);
	int err = s ? 0 : -ENOMEM;

	for (size_t i = 0; err == 0 && i < from->n_queues; i++) {
		struct queue *q = queue_find(e, from->queues[i]);

		err = q ? place_new(s, q) : ERR_DAMAGED;
	}
	if (err < 0) {
		if (s)
			sub_free(e, s);
		return err;
	}
	s->given = from->given;
	s->idle_ns = from->idle_ns;
	s->closed = from->closed;
	/* A closed one has leases, which are yet to come. */
	if (!s->closed)
		worker_looked_at(e, s);
	return 0;
}

/* The reply is sent when something is wrong. */
static struct queue *
subscribe_queue(struct ask *a, struct str name)
{
	struct queue *q;

	a->r.queue = name;
	if (name.n > 0 && !queue_name_ok(a->e, name)) {
		ask_fail(a, ST_INVALID, BAD_QUEUE);
		return NULL;
	}
	q = queue_find(a->e, name);
	if (!q || q->removing) {
		ask_fail(a, ST_NOT_FOUND, "no such queue");
		return NULL;
	}
	if (q->s.action == ACTION_LEASE)
		return q;
	ask_fail(a, ST_INVALID, "workers take jobs of queues whose action is lease");
	return NULL;
}

void
subscribe_event(struct engine *e, const struct engine_event *ev)
{
	static const struct str fallback[1] = { { NULL, 0 } };
	const struct op_subscribe *op = ev->subscribe;
	const struct str *names = op->n_queues ? op->queues : fallback;
	size_t n = op->n_queues ? op->n_queues : 1;
	struct ask a = { .e = e, .ticket = ev->ticket, .level = LEVEL_MEMORY };
	struct sub *s;

	if (op->credits == 0 || op->credits > CREDITS_MAX || n > WORKER_QUEUES_MAX) {
		ask_fail(&a, ST_INVALID, "a worker has 1 to 1024 credits, and at most 64 queues");
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (!subscribe_queue(&a, names[i]))
			return;
	s = sub_new(e, ev->ticket, op);
	for (size_t i = 0; s && i < n; i++)
		if (place_new(s, queue_find(e, names[i])) < 0) {
			sub_free(e, s);
			s = NULL;
		}
	if (!s) {
		ask_fail_err(&a, -ENOMEM);
		return;
	}
	engine_effect(e, FX_SUBSCRIBED)->ticket = ev->ticket;
	worker_looked_at(e, s);
}

void
credits_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_credits *op = ev->credits;
	struct sub *s = worker_find(e, op->subscription);
	struct ask a = { .e = e, .ticket = ev->ticket, .level = LEVEL_MEMORY };

	if (!s || s->closed) {
		ask_fail(&a, ST_INVALID, "there is no subscription");
		return;
	}
	if (ev->kind == EV_CREDITS && op->credits > CREDITS_MAX) {
		ask_fail(&a, ST_INVALID, "a worker has at most 1024 credits");
		return;
	}
	ask_done(&a, ST_OK);
	if (ev->kind == EV_CREDITS)
		s->credits = op->credits;
	else
		s->closed = true;
	worker_looked_at(e, s);
}

/* ---- ends ---- */

void
worker_leave(struct engine *e, uint64_t ticket)
{
	struct sub *s = worker_find(e, ticket);
	struct lease *l;

	if (!s)
		return;
	s->closed = true;
	while ((l = list_first(&s->leases, struct lease, of_sub)) != NULL)
		lease_apply(e, l, LEASE_LEAVE, NULL);
	sub_free(e, s);
}

void
workers_queue_gone(struct engine *e, struct queue *q)
{
	struct place *p;

	while ((p = list_first(&q->places, struct place, of_queue)) != NULL) {
		struct sub *s = p->sub;

		place_free(p);
		if (!list_empty(&s->places))
			continue;
		s->closed = true;
		worker_looked_at(e, s);
	}
}

void
workers_free(struct engine *e)
{
	struct sub *s;

	while ((s = list_first(&e->all_subs, struct sub, all)) != NULL) {
		struct place *p;

		/* The queues are about to go as well: nothing is to be started. */
		while ((p = list_first(&s->places, struct place, of_sub)) != NULL)
			place_free(p);
		sub_free(e, s);
	}
}

uint64_t
engine_leases_held(const struct engine *e)
{
	uint64_t n = 0;

	list_each(s, &e->all_subs, struct sub, all)
		list_each(l, &s->leases, struct lease, of_sub)
			n += l->run != NULL;
	return n;
}

/* ---- workers of our own ---- */

void
workers_place_queue(struct engine *e, struct queue *q)
{
	list_del(&q->crew);
	if (q->s.action == ACTION_LEASE && q->s.handler[0])
		list_append(&e->crews, &q->crew);
}

bool
engine_has_crews(const struct engine *e)
{
	return !list_empty(&e->crews);
}

void
engine_crew_each(
	const struct engine *e, void (*each)(void *arg, const struct crew_view *), void *arg)
{
	list_each(q, &e->crews, struct queue, crew) {
		const struct pool *p = pools_named(e, q);
		bool held = queue_holds(q) && !q->draining;
		const struct crew_view v = {
			.queue = q->name,
			.handler = str_from(q->s.handler),
			.ready = held ? 0 : q->n_ready - q->n_kept,
			.max_active = queue_slots(q),
			.pool = p->index,
			.processors = p->policy.s.processors,
			.max_inflight = p->policy.s.max_inflight,
			.busy = p->policy.active > 0 ? p->policy.seen.runnable : 0,
		};

		each(arg, &v);
	}
}

bool
engine_worker_get(const struct engine *e, uint64_t subscription, struct worker_view *out)
{
	const struct sub *s = worker_find(e, subscription);

	if (s)
		*out = (struct worker_view){
			.holds = s->n_leases, .given = s->given, .idle_since_ns = s->idle_ns
		};
	return s != NULL;
}

/* ---- verify ---- */

static void
sub_verify(const struct engine *e, const struct sub *s)
{
	uint64_t n = 0;
	size_t bytes = 0;

	CHECK_OBJ(s, SUB_MAGIC);
	wq_assert(worker_find(e, s->ticket) == s);
	list_each(l, &s->leases, struct lease, of_sub) {
		lease_verify(e, l);
		wq_assert(l->sub == s);
		bytes += l->run ? l->bytes : 0;
		n++;
	}
	wq_assert(n == s->n_leases && bytes == s->bytes);
	wq_assert(!s->closed || n > 0);
	list_each(p, &s->places, struct place, of_sub)
		wq_assert(list_linked(&p->taker) == sub_has_credit(s));
}

void
workers_verify(const struct engine *e)
{
	uint64_t n = 0;

	list_each(s, &e->all_subs, struct sub, all) {
		sub_verify(e, s);
		n++;
	}
	wq_assert(n == e->stats.workers && n == map_count(&e->subs));
	wq_assert(e->stats.leased == e->lease_ends.n);
	timers_verify(&e->lease_ends);
}
