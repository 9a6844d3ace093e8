/*
 * Pools as the engine has them: which there are, the circles of queues that wait
 * for a start, what goes past a closed gate, who stalls. How many may be going on
 * is the policy's affair (pool.h); whose turn it is, dispatch.c's.
 *
 * Runs that use this machine's processors, those of action exec and of queues that
 * were given a command, go by the pool of their queue. All others go by the pool
 * that is called direct, whose gate is always open; nobody sees it. A pool that is
 * named nowhere any more stays for its runs; its queues go by the default one
 * meanwhile.
 *
 * Past a closed gate, but under the cap of all runs:
 *   reserve  where the cap is reached or memory is short, one run of a queue
 *            that is marked so
 *   floor    where processors or memory are what it lacks, once in a while a
 *            queue with fewer runs than its floor: jobs that wait for one another
 *            come on though nobody can see that they wait
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/inside.h"
#include "engine/internal.h"

#define DIRECT "(direct)"

/* ---- which there are ---- */

static struct pool *
pool_find(const struct engine *e, struct str name)
{
	list_each(p, &e->pools, struct pool, of_engine)
		if (p->named && str_eq(str_from(p->name), name))
			return p;
	return NULL;
}

static struct pool *
pool_new(struct engine *e, const char *name, const struct pool_settings *s)
{
	struct pool *p = x_zalloc(sizeof *p);

	if (!p)
		return NULL;
	p->magic = POOL_MAGIC;
	p->index = e->n_pools++;
	memcpy(p->name, name, strlen(name));
	pool_policy_init(&p->policy, s);
	for (int i = 0; i < N_PRIORITIES; i++)
		list_init(&p->turn[i]);
	list_init(&p->spares);
	list_append(&e->pools, &p->of_engine);
	return p;
}

int
pools_init(struct engine *e)
{
	struct pool_settings all = POOL_SETTINGS_DEFAULT;

	/* Until somebody configures pools, and looks after them, nothing is held back. */
	all.admit = ADMIT_ALL;
	e->direct = pool_new(e, DIRECT, &all);
	e->common = pool_new(e, POOL_DEFAULT, &all);
	if (!e->direct || !e->common)
		return -ENOMEM;
	e->common->named = true;
	return 0;
}

void
pools_done(struct engine *e)
{
	struct pool *p;

	while ((p = list_first(&e->pools, struct pool, of_engine)) != NULL) {
		list_del(&p->of_engine);
		MAGIC_DONE(p);
		x_free(p);
	}
}

bool
pools_known(const struct engine *e, struct str name)
{
	return name.n == 0 || pool_find(e, name) != NULL;
}

static struct pool *
named(const struct engine *e, const struct queue *q)
{
	struct pool *p = q->s.pool[0] ? pool_find(e, str_from(q->s.pool)) : NULL;

	return p ? p : e->common;
}

const struct pool *
pools_named(const struct engine *e, const struct queue *q)
{
	return named(e, q);
}

void
pools_place_queue(struct engine *e, struct queue *q)
{
	bool ours = q->s.action == ACTION_EXEC || q->commands;

	q->pool = ours ? named(e, q) : e->direct;
	workers_place_queue(e, q);
}

void
pools_note_command(struct engine *e, struct queue *q)
{
	if (q->commands)
		return;
	q->commands = true;
	queue_turn_leave(q);
	pools_place_queue(e, q);
	queue_changed(e, q);
}

static int
pool_configure(struct engine *e, const char *name, const struct pool_settings *s)
{
	struct pool *p;

	list_each(old, &e->pools, struct pool, of_engine)
		if (old != e->direct && strcmp(old->name, name) == 0) {
			old->named = true;
			pool_policy_set(&old->policy, s);
			return 0;
		}
	if (e->n_pools >= POOLS_MAX)
		return ERR_LIMIT;
	p = pool_new(e, name, s);
	if (!p)
		return -ENOMEM;
	p->named = true;
	return 0;
}

int
engine_configure_pools(
	struct engine *e, struct moment now, const struct pool_config *pools, size_t n)
{
	const struct pool_settings usual = POOL_SETTINGS_DEFAULT;
	int err = 0;

	CHECK_OBJ(e, ENGINE_MAGIC);
	e->now = now;
	list_each(p, &e->pools, struct pool, of_engine)
		p->named = false;
	pool_configure(e, POOL_DEFAULT, &usual);
	for (size_t i = 0; i < n && err == 0; i++)
		err = pool_configure(e, pools[i].name, &pools[i].settings);
	list_each(q, &e->queues, struct queue, of_engine) {
		queue_turn_leave(q);
		pools_place_queue(e, q);
		queue_changed(e, q);
	}
	return err;
}

/* ---- circles ---- */

/* Is any queue in its circles? */
static bool
pool_wanted(const struct pool *p)
{
	for (int i = 0; i < N_PRIORITIES; i++)
		if (!list_empty(&p->turn[i]))
			return true;
	return false;
}

void
queue_turn_join(struct engine *e, struct queue *q)
{
	if (list_linked(&q->turn))
		return;
	if (!pool_wanted(q->pool))
		q->pool->tried_ns = e->now.boot_ns;
	list_append(&q->pool->turn[q->s.priority], &q->turn);
	if (q->s.reserve)
		list_append(&q->pool->spares, &q->spare);
	q->waits_ns = e->now.boot_ns;
}

void
queue_turn_leave(struct queue *q)
{
	list_del(&q->turn);
	list_del(&q->spare);
	if (q->stalled)
		q->pool->stalled--;
	q->stalled = false;
}

/* ---- runs ---- */

void
pool_run_started(struct engine *e, struct run *run, struct queue *q, bool reserve)
{
	struct pool *p = q->pool;

	run->pool = p;
	run->reserve = reserve;
	pool_started(&p->policy);
	p->tried_ns = e->now.boot_ns;
	p->reserved += reserve;
}

void
pool_run_over(struct engine *e, struct run *run)
{
	if (!run->pool)
		return;
	pool_ended(&run->pool->policy, e->now.boot_ns);
	run->pool->reserved -= run->reserve;
	run->pool = NULL;
}

/* ---- past a closed gate ---- */

/* What runs elsewhere does not count. */
static bool
runs_full(const struct engine *e, const struct pool *p)
{
	return p != e->direct && e->stats.running - e->stats.leased >= e->cfg.max_runs;
}

static bool
reserve_free(const struct engine *e, const struct pool *p)
{
	return p->reserved == 0 && !list_empty(&p->spares) &&
		e->stats.running - e->stats.leased < (uint64_t)e->cfg.max_runs + 1;
}

static uint32_t
queue_floor(const struct queue *q)
{
	uint32_t slots = queue_slots(q);

	return slots < POOL_FLOOR ? slots : POOL_FLOOR;
}

bool
pool_runs_full(const struct engine *e, const struct queue *q)
{
	return q->pool && runs_full(e, q->pool) && !(q->s.reserve && q->pool->reserved == 0);
}

static struct queue *
below_floor(const struct pool *p)
{
	for (int i = 0; i < N_PRIORITIES; i++)
		list_each(q, &p->turn[i], struct queue, turn)
			if (q->n_running < queue_floor(q))
				return q;
	return NULL;
}

static enum pool_gate
gate_of(const struct engine *e, const struct pool *p)
{
	return runs_full(e, p) ? GATE_CAP : pool_gate(&p->policy);
}

int64_t
pool_start_due(const struct engine *e, const struct pool *p)
{
	if (!pool_wanted(p))
		return INT64_MAX;
	switch (gate_of(e, p)) {
	case GATE_OPEN:
		return INT64_MIN;
	case GATE_CAP:
		return reserve_free(e, p) ? INT64_MIN : INT64_MAX;
	case GATE_MEMORY:
		if (reserve_free(e, p))
			return INT64_MIN;
		break;
	case GATE_PROCESSORS:
		break;
	}
	return sat_add(p->tried_ns, POOL_FLOOR_NS);
}

struct queue *
pool_next(struct engine *e, struct pool *p, bool *reserve)
{
	enum pool_gate gate = gate_of(e, p);
	struct queue *q;

	*reserve = false;
	if (gate == GATE_OPEN)
		return dispatch_turn(p);
	if (gate != GATE_PROCESSORS && reserve_free(e, p)) {
		*reserve = true;
		return list_first(&p->spares, struct queue, spare);
	}
	/* Nobody is below: then not before the time has passed again. */
	p->tried_ns = e->now.boot_ns;
	q = below_floor(p);
	if (q)
		p->floor_starts++;
	return q;
}

/* ---- looking ---- */

static void
pool_look(const struct engine *e, const struct pool *p, struct pool_view *v)
{
	*v = (struct pool_view){
		.name = str_from(p->name),
		.index = p->index,
		.settings = &p->policy.s,
		.seen = p->policy.seen,
		.gate = gate_of(e, p),
		.processors = pool_processors(&p->policy),
		.target = pool_target(&p->policy),
		.cap = pool_cap(&p->policy),
		.active = p->policy.active,
		.samples = p->policy.samples,
		.stalled = p->stalled,
		.stalls = p->stalls,
		.floor_starts = p->floor_starts,
	};
	/* Nobody looks while nothing is ready. */
	if (v->active == 0)
		v->seen.runnable = v->seen.hogs = 0;
	list_each(q, &e->queues, struct queue, of_engine)
		if (q->pool == p) {
			v->queues++;
			v->ready += q->n_ready;
		}
}

void
engine_pool_each(
	const struct engine *e, bool (*each)(void *arg, const struct pool_view *), void *arg)
{
	struct pool_view v;

	list_each(p, &e->pools, struct pool, of_engine) {
		if (p == e->direct || (!p->named && p->policy.active == 0))
			continue;
		pool_look(e, p, &v);
		if (!each(arg, &v))
			return;
	}
}

/* ---- samples ---- */

int64_t
engine_sample_due(const struct engine *e, uint32_t *pool)
{
	int64_t due = INT64_MAX;

	if (e->stopping)
		return due;
	list_each(p, &e->pools, struct pool, of_engine) {
		int64_t at;

		if (p == e->direct || !pool_wanted(p))
			continue;
		at = pool_sample_due(&p->policy);
		/* It could not start anything; stalls are looked for all the same. */
		if (runs_full(e, p) && p->policy.sampled_ns != INT64_MIN)
			at = p->policy.sampled_ns + POOL_LOOK_NS;
		if (at < due) {
			due = at;
			*pool = p->index;
		}
	}
	return due;
}

static struct pool *
pool_at(const struct engine *e, uint32_t index)
{
	list_each(p, &e->pools, struct pool, of_engine)
		if (p->index == index)
			return p;
	return NULL;
}

static void
queue_stalls(struct engine *e, struct pool *p, struct queue *q)
{
	struct effect *fx = engine_effect(e, FX_STALL);

	q->stalled = true;
	p->stalled++;
	p->stalls++;
	fx->stall = (struct pool_stall){
		.queue = q->name,
		.pool = str_from(p->name),
		.ready = q->n_ready,
		.running = q->n_running,
		.waits_ns = e->now.boot_ns - q->waits_ns,
	};
	pool_look(e, p, &fx->stall.state);
}

static void
stalls_look(struct engine *e, struct pool *p)
{
	if (e->now.boot_ns < p->stalls_at_ns)
		return;
	p->stalls_at_ns = e->now.boot_ns + NS_PER_S;
	for (int i = 0; i < N_PRIORITIES; i++)
		list_each(q, &p->turn[i], struct queue, turn)
			if (!q->stalled && e->now.boot_ns - q->waits_ns >= POOL_STALL_NS)
				queue_stalls(e, p, q);
}

void
pool_sample_event(struct engine *e, const struct engine_event *ev)
{
	struct pool *p = pool_at(e, ev->sample->pool);

	if (!p || p == e->direct)
		return;
	pool_sampled(&p->policy, e->now.boot_ns, &ev->sample->seen);
	stalls_look(e, p);
}

/* ---- what must hold ---- */

struct pool_tally {
	const struct pool *p;
	uint32_t runs;
};

static void
count_run(void *arg, struct map_node *node)
{
	struct pool_tally *t = arg;

	t->runs += container_of(node, const struct run, by_id)->pool == t->p;
}

void
pools_verify(const struct engine *e)
{
	list_each(p, &e->pools, struct pool, of_engine) {
		struct pool_tally t = { .p = p };
		uint64_t cursor = 0;

		CHECK_OBJ(p, POOL_MAGIC);
		map_scan(&e->runs, &cursor, SIZE_MAX, count_run, &t);
		wq_assert(t.runs == p->policy.active);
		wq_assert(p->reserved <= 1);
	}
	list_each(q, &e->queues, struct queue, of_engine) {
		wq_assert(q->pool &&
			(q->s.action == ACTION_EXEC || q->commands) == (q->pool != e->direct));
		wq_assert(list_linked(&q->spare) == (list_linked(&q->turn) && q->s.reserve));
	}
}
