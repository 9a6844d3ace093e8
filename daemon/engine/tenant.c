/*
 * Limits by key: so many runs at a time of jobs of one queue whose keys begin
 * alike, up to the queue's separator ("acme" of "acme:invoice-17").
 *
 * A tenant is known while it has runs, or jobs that wait for one to end. When
 * the turn of a ready job of a full tenant comes, it leaves the queue's ready
 * list for its tenant's: it is held, all behind it go on, and no start has to
 * look at it again. When a run of the tenant ends, the first of them goes back
 * to where it was among the ready.
 *
 *              turn, tenant full
 *     ready ----------------------> waiting     (both are JS_Q)
 *           <----------------------
 *            a run of it ended; the limit was raised or lifted
 *
 * While any wait, the runs of the tenant and those of its jobs that were given
 * back make up the limit: so one that was given back and does not start after all
 * (it was cancelled, or has to wait for its own run) passes its turn on.
 *
 * A limit that changes is looked after in bounded steps: the queue's tenants
 * with waiting jobs go to engine.reviews, and each gives back as many as it may
 * start now. Until then newer ones of the tenant wait behind them.
 * Where the separator changes, all tenants of the queue are of an era that is
 * over: nobody finds them, runs are counted anew, all that wait go back.
 */
#include "engine/tenant.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/siphash.h"
#include "engine/internal.h"

struct tenant_name {
	const struct queue *q;
	struct str prefix;
};

static bool
tenant_match(const struct map_node *node, const void *key)
{
	const struct tenant *t = container_of(node, const struct tenant, node);
	const struct tenant_name *n = key;

	return t->q == n->q && t->era == n->q->tenant_era &&
		str_eq((struct str){ t->prefix, t->prefix_n }, n->prefix);
}

void
tenant_map_init(struct map *m)
{
	map_init(m, tenant_match);
}

struct str
tenant_of_key(const struct queue_settings *s, struct str key)
{
	const char *end = memchr(key.p, s->prefix_separator, key.n);

	return (struct str){ key.p, end ? (size_t)(end - key.p) : key.n };
}

static uint64_t
tenant_hash(const struct engine *e, const struct tenant_name *n)
{
	return siphash13(e->cfg.seed, n->prefix.p, n->prefix.n) ^ ~n->q->salt;
}

static struct tenant *
tenant_find(const struct engine *e, const struct job *j)
{
	const struct tenant_name n = { j->q, tenant_of_key(&j->q->s, job_key(j)) };
	struct map_node *node = map_find(&e->tenants, tenant_hash(e, &n), &n);

	return node ? container_of(node, struct tenant, node) : NULL;
}

static struct tenant *
tenant_get(struct engine *e, const struct job *j)
{
	const struct tenant_name n = { j->q, tenant_of_key(&j->q->s, job_key(j)) };
	struct tenant *t = tenant_find(e, j);

	if (t)
		return t;
	t = x_zalloc(sizeof *t + n.prefix.n);
	if (!t)
		return NULL;
	t->magic = TENANT_MAGIC;
	t->q = j->q;
	t->era = j->q->tenant_era;
	t->prefix_n = (uint8_t)n.prefix.n;
	if (n.prefix.n > 0)
		memcpy(t->prefix, n.prefix.p, n.prefix.n);
	list_init(&t->link);
	list_init(&t->waiting);
	if (map_add(&e->tenants, &t->node, tenant_hash(e, &n)) < 0) {
		x_free(t);
		return NULL;
	}
	return t;
}

static void
tenant_free(struct engine *e, struct tenant *t)
{
	map_del(&e->tenants, &t->node);
	list_del(&t->link);
	MAGIC_DONE(t);
	x_free(t);
}

static void
tenant_settle(struct engine *e, struct tenant *t)
{
	if (!list_empty(&t->waiting))
		return;
	list_del(&t->link);
	if (t->running == 0)
		tenant_free(e, t);
}

static bool
has_room(const struct tenant *t, uint32_t coming)
{
	uint32_t limit = t->q->s.prefix_limit;

	return limit == 0 || t->era != t->q->tenant_era || t->running + coming < limit;
}

static struct job *
first_waiting(const struct tenant *t)
{
	return list_first(&t->waiting, struct side, ready)->job;
}

bool
tenant_full(const struct engine *e, const struct job *j)
{
	const struct tenant *t;

	if (j->q->s.prefix_limit == 0)
		return false;
	t = tenant_find(e, j);
	if (!t)
		return false;
	return !has_room(t, 0) || (!list_empty(&t->waiting) && first_waiting(t)->seq < j->seq);
}

/* ---- jobs that wait ---- */

void
tenant_wait(struct engine *e, struct job *j)
{
	struct tenant *t = tenant_find(e, j);
	struct list *at = &t->waiting;

	CHECK_OBJ(t, TENANT_MAGIC);
	/* Mostly it is the last. One that comes a second time goes in front of newer ones. */
	while (at->prev != &t->waiting &&
		list_entry(at->prev, struct side, ready)->job->seq > j->seq)
		at = at->prev;
	list_del(&job_side(j)->ready);
	list_append(at, &job_side(j)->ready);
	job_side(j)->tenant = t;
	j->q->n_kept++;
	e->stats.prefix_waits++;
	if (!list_linked(&t->link))
		list_append(&j->q->tenants, &t->link);
}

void
tenant_unwait(struct engine *e, struct job *j)
{
	struct tenant *t = side_of(j)->tenant;

	if (!t)
		return;
	list_del(&job_side(j)->ready);
	job_side(j)->tenant = NULL;
	j->q->n_kept--;
	tenant_settle(e, t);
}

/* The first that waits is ready like all others. `t` may be gone then. */
static void
give_back(struct engine *e, struct tenant *t)
{
	struct job *j = first_waiting(t);

	tenant_unwait(e, j);
	queue_ready_back(e, j);
}

void
tenant_pass(struct engine *e, const struct job *j)
{
	struct tenant *t = j->q->n_kept > 0 ? tenant_find(e, j) : NULL;

	if (t && !list_empty(&t->waiting) && has_room(t, 0))
		give_back(e, t);
}

/* ---- runs ---- */

int
tenant_run_started(struct engine *e, struct run *run)
{
	struct tenant *t;

	if (run->job->q->s.prefix_limit == 0)
		return 0;
	t = tenant_get(e, run->job);
	if (!t)
		return -ENOMEM;
	t->running++;
	run->tenant = t;
	return 0;
}

void
tenant_run_over(struct engine *e, struct run *run)
{
	struct tenant *t = run->tenant;

	if (!t)
		return;
	CHECK_OBJ(t, TENANT_MAGIC);
	run->tenant = NULL;
	t->running--;
	if (list_empty(&t->waiting))
		tenant_settle(e, t);
	else if (has_room(t, 0)) {
		struct queue *q = t->q;

		give_back(e, t);
		queue_changed(e, q);
	}
}

/* ---- another limit ---- */

struct adopting {
	struct engine *e;
	struct queue *q;
};

/* Without memory one goes uncounted: the limit holds from the next start on. */
static void
adopt(void *arg, struct map_node *node)
{
	struct run *run = container_of(node, struct run, by_id);
	const struct adopting *a = arg;
	struct tenant *old = run->tenant;

	if (run->job->q != a->q || (old && old->era == a->q->tenant_era))
		return;
	run->tenant = NULL;
	if (old) {
		old->running--;
		tenant_settle(a->e, old);
	}
	(void)tenant_run_started(a->e, run);
}

void
tenants_changed(struct engine *e, struct queue *q, bool renamed)
{
	struct adopting a = { e, q };
	uint64_t cursor = 0;

	q->tenant_era += renamed;
	if (q->s.prefix_limit > 0)
		map_scan(&e->runs, &cursor, SIZE_MAX, adopt, &a);
	list_each(t, &q->tenants, struct tenant, link)
		t->let = 0;
	list_splice(&e->reviews, &q->tenants);
}

void
tenants_some(struct engine *e, uint32_t most)
{
	struct tenant *t;

	while (most-- > 0 && (t = list_first(&e->reviews, struct tenant, link)) != NULL &&
		engine_spend(e)) {
		struct queue *q = t->q;

		if (has_room(t, t->let)) {
			t->let++;
			give_back(e, t);
			queue_changed(e, q);
			continue;
		}
		list_del(&t->link);
		list_append(&q->tenants, &t->link);
	}
}

/* ---- the end ---- */

static void
forget_run(void *arg, struct map_node *node)
{
	(void)arg;
	container_of(node, struct run, by_id)->tenant = NULL;
}

static void
forget(void *arg, struct map_node *node)
{
	struct tenant *t = container_of(node, struct tenant, node);
	struct side *s;

	(void)arg;
	while ((s = list_first(&t->waiting, struct side, ready)) != NULL) {
		list_del(&s->ready);
		s->tenant = NULL;
	}
	list_del(&t->link);
	x_free(t);
}

void
tenants_free(struct engine *e)
{
	uint64_t cursor = 0;

	map_scan(&e->runs, &cursor, SIZE_MAX, forget_run, NULL);
	cursor = 0;
	map_scan(&e->tenants, &cursor, SIZE_MAX, forget, NULL);
	map_done(&e->tenants);
}

/* ---- what must hold ---- */

static void
count_run(void *arg, struct map_node *node)
{
	const struct run *run = container_of(node, const struct run, by_id);
	struct tenant *t = arg;

	t->counted += run->tenant == t;
}

struct tally {
	const struct engine *e;
	uint64_t waiting;
};

static void
verify_tenant(void *arg, struct map_node *node)
{
	struct tenant *t = container_of(node, struct tenant, node);
	struct tally *tally = arg;
	uint64_t cursor = 0, seq = 0;

	CHECK_OBJ(t, TENANT_MAGIC);
	t->counted = 0;
	map_scan(&tally->e->runs, &cursor, SIZE_MAX, count_run, t);
	wq_assert(t->counted == t->running);
	wq_assert(t->running > 0 || !list_empty(&t->waiting));
	wq_assert(list_linked(&t->link) == !list_empty(&t->waiting));
	list_each(s, &t->waiting, struct side, ready) {
		wq_assert(s->tenant == t && s->job->q == t->q && !s->aside && s->job->seq > seq);
		seq = s->job->seq;
		tally->waiting++;
	}
}

void
tenants_verify(const struct engine *e)
{
	struct tally tally = { e, 0 };
	uint64_t cursor = 0, kept = 0;

	map_verify(&e->tenants);
	map_scan(&e->tenants, &cursor, SIZE_MAX, verify_tenant, &tally);
	list_each(q, &e->queues, struct queue, of_engine) {
		kept += q->n_kept;
		wq_assert(q->n_kept <= q->n_ready);
	}
	wq_assert(kept == tally.waiting);
}
