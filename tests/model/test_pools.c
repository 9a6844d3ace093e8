/*
 * Pools on a machine that is not there: an engine on a virtual clock, its runs
 * simulated as bursts on so many processors and sleeps between them. Random
 * workloads, each with the same questions at every step:
 *
 *   is a limit exceeded?        max_active, the pool's cap, all runs; one more each for a reserve
 *   does a processor idle       while a queue may start something, for longer than the longest
 *                               time between two samples?
 *   is the gate where it should be?  every start is one that the last sample leaves room for, and
 *                               nothing that it leaves room for waits
 *   are samples too many, too few?   after starts, after ends, in vain
 *   does a queue starve?        while it may start, of the starts of its pool it must get its share
 *   does it all end?            jobs that wait for others of their queue included
 *
 * WQ_POOL_WORKLOADS says how many workloads (1000).
 *
 * What is asked for are numbers, not the constants of pool.h: who changes one of
 * these has to say so here (and in docs/pools.md). With POOL_MUTANTS this is a
 * program of its own, test_pool_mutants, in which every constant is changed in
 * turn, and each time one of the questions must have another answer.
 */
#include <stdio.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "model/pool_mutable.h"
#include "unit/random.h"
#include "unit/unit.h"

#define STEP_NS    (NS_PER_MS / 2)
#define MAX_JOBS   160
#define MAX_QUEUES 8
#define MAX_POOLS  3
#define MAX_PARTS  6
#define HOG_NS     (100 * NS_PER_MS)

/* What docs/pools.md and ADR 0009 promise. */
#define TARGET_LADDER 5u
#define TARGET_PLAIN  2u
#define INFLIGHT      128u
#define BURST         32u
#define TICK_MIN_NS   NS_PER_MS
#define TICK_MAX_NS   (10 * NS_PER_MS)
#define GAP_NS        (NS_PER_MS / 4)
#define FLOOR         8u
#define FLOOR_NS      NS_PER_S
#define STALL_NS      (30 * NS_PER_S)
/* A processor may idle for the longest tick, and the step in which it is noticed on either side. */
#define IDLE_NS (TICK_MAX_NS + 2 * STEP_NS)

enum part_kind { BURN, SLEEP, MEET };

struct part {
	enum part_kind kind;
	int64_t ns; /* MEET: until so many jobs of the queue have been started */
};

struct sim_job {
	struct part parts[MAX_PARTS];
	uint32_t n_parts, at;
	int64_t left_ns, used_ns;
	uint32_t queue, pool;
	uint64_t run_id; /* 0: not running */
	uint64_t order;
	bool done, hog;
};

struct sim_queue {
	char name[16];
	uint32_t pool, max_active, weight;
	enum priority priority;
	bool reserve;
	uint32_t running, started, jobs;
	uint64_t passed; /* starts of its pool since it could have had one */
};

struct sim {
	struct rnd rnd;
	struct engine *e;
	struct effects fx;
	struct moment now;
	struct sim_job jobs[MAX_JOBS];
	struct sim_queue queues[MAX_QUEUES];
	struct pool_config pools[MAX_POOLS];
	uint32_t n_jobs, n_queues, n_pools, processors, max_runs;
	uint64_t order, n_done, n_running;
	bool ladder, blind;
	int64_t idle_since_ns[MAX_POOLS]; /* -1: not now */
	struct seen {
		int64_t at_ns; /* of the last sample; 0: none yet */
		uint32_t runnable, fresh;
		bool ended;    /* a run, since then */
		uint64_t past; /* the gate: floor_starts of the engine */
	} seen[MAX_POOLS];
	uint64_t seed;
};

/* A mutant was noticed: the process that plays it ends with this. */
#define NOTICED 77
static bool mutating;

static _Noreturn void
sim_fail(const struct sim *s, const char *what)
{
	if (mutating)
		_exit(NOTICED);
	ck_abort_msg("workload %llu at %.1f ms: %s", (unsigned long long)s->seed,
		(double)(s->now.boot_ns - NS_PER_S) / 1e6, what);
}

#define sim_check(s, cond) \
	do { \
		if (!(cond)) \
			sim_fail((s), #cond); \
	} while (0)

/* ---- the machine ---- */

static bool
wants(const struct sim_job *j)
{
	return j->run_id != 0 && j->at < j->n_parts && j->parts[j->at].kind == BURN;
}

static uint32_t
count_wanting(const struct sim *s, uint32_t pool, bool hogs)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_jobs; i++)
		n += wants(&s->jobs[i]) && s->jobs[i].pool == pool && (hogs || !s->jobs[i].hog);
	return n;
}

static void
part_begin(struct sim_job *j)
{
	if (j->at < j->n_parts)
		j->left_ns = j->parts[j->at].ns;
}

static void
part_over(struct sim_job *j)
{
	j->at++;
	part_begin(j);
}

/* The oldest first where there is a ladder, hogs last; else by turns, which one order in random
 * places comes near enough to. */
static struct sim_job *
next_to_run(struct sim *s, const bool *has_run)
{
	struct sim_job *best = NULL;

	for (uint32_t i = 0; i < s->n_jobs; i++) {
		struct sim_job *j = &s->jobs[i];

		if (!wants(j) || has_run[i])
			continue;
		if (!best ||
			(s->ladder ? (j->hog == best->hog ? j->order < best->order : !j->hog)
				   : rnd_one_in(&s->rnd, 3)))
			best = j;
	}
	return best;
}

static void
machine_step(struct sim *s)
{
	bool has_run[MAX_JOBS] = { false };

	for (uint32_t p = 0; p < s->processors; p++) {
		struct sim_job *j = next_to_run(s, has_run);

		if (!j)
			break;
		has_run[j - s->jobs] = true;
		j->used_ns += STEP_NS;
		j->left_ns -= STEP_NS;
		j->hog = j->hog || j->used_ns > HOG_NS;
		if (j->left_ns <= 0)
			part_over(j);
	}
	for (uint32_t i = 0; i < s->n_jobs; i++) {
		struct sim_job *j = &s->jobs[i];

		if (j->run_id == 0 || j->at >= j->n_parts)
			continue;
		if (j->parts[j->at].kind == SLEEP && (j->left_ns -= STEP_NS) <= 0)
			part_over(j);
		else if (j->parts[j->at].kind == MEET &&
			s->queues[j->queue].started >= (uint32_t)j->parts[j->at].ns)
			part_over(j);
	}
}

/* ---- the engine's effects ---- */

static bool
may_start(const struct sim *s, uint32_t q)
{
	struct queue_view v;

	(void)engine_queue_get(s->e, str_from(s->queues[q].name), &v);
	return v.ready > 0;
}

static uint32_t
pool_width(const struct sim *s, uint32_t pool)
{
	uint32_t own = s->pools[pool].settings.processors;

	return own && own < s->processors ? own : s->processors;
}

static uint32_t
pool_running(const struct sim *s, uint32_t pool)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_queues; i++)
		n += s->queues[i].pool == pool ? s->queues[i].running : 0;
	return n;
}

/* Does the last sample leave room for one more? */
static bool
has_room(const struct sim *s, uint32_t pool)
{
	const struct seen *seen = &s->seen[pool];
	uint32_t width = pool_width(s, pool), active = pool_running(s, pool);
	uint32_t busy = s->blind ? active : seen->runnable + seen->fresh;

	return active < width ||
		(busy < (s->ladder ? TARGET_LADDER : TARGET_PLAIN) * width && seen->fresh < BURST);
}

struct floors {
	const char *name;
	uint64_t n;
};

static bool
find_floors(void *arg, const struct pool_view *v)
{
	struct floors *f = arg;

	if (str_eq(v->name, str_from(f->name)))
		f->n = v->floor_starts;
	return true;
}

/* Room by the last sample, or a floor, or the reserve. */
static void
check_start(struct sim *s, const struct sim_queue *q)
{
	struct floors f = { .name = s->pools[q->pool].name };
	struct seen *seen = &s->seen[q->pool];

	engine_pool_each(s->e, find_floors, &f);
	/* Before the first sample nothing is known. */
	if (seen->at_ns != 0 && !q->reserve && f.n == seen->past)
		sim_check(s, has_room(s, q->pool));
	if (f.n > seen->past)
		seen->past++;
}

static void
on_start(struct sim *s, const struct run_start *start)
{
	uint32_t n = (uint32_t)(start->key.p[0] - '0') * 100 +
		(uint32_t)(start->key.p[1] - '0') * 10 + (uint32_t)(start->key.p[2] - '0');
	struct sim_job *j = &s->jobs[n];
	struct sim_queue *q = &s->queues[j->queue];

	sim_check(s, n < s->n_jobs && j->run_id == 0 && !j->done);
	j->run_id = start->run_id;
	j->order = ++s->order;
	part_begin(j);
	check_start(s, q);
	q->running++;
	q->started++;
	s->seen[q->pool].fresh++;
	s->n_running++;
	for (uint32_t i = 0; i < s->n_queues; i++)
		if (s->queues[i].pool == q->pool)
			s->queues[i].passed++;
	q->passed = 0;
}

static void
step(struct sim *s, const struct engine_event *ev)
{
	engine_step(s->e, s->now, ev, &s->fx);
	for (size_t i = 0; i < s->fx.n; i++)
		if (s->fx.v[i].kind == FX_START)
			on_start(s, &s->fx.v[i].start);
	effects_clear(&s->fx);
}

static void
end_what_is_over(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_jobs; i++) {
		struct sim_job *j = &s->jobs[i];
		struct run_end end = {
			.run_id = j->run_id, .outcome = RUN_DONE, .cpu_ns = j->used_ns
		};

		if (j->run_id == 0 || j->at < j->n_parts)
			continue;
		j->run_id = 0;
		j->done = true;
		s->queues[j->queue].running--;
		s->seen[j->pool].ended = true;
		s->n_running--;
		s->n_done++;
		step(s, &(struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &end });
	}
}

static bool
find_index(void *arg, const struct pool_view *v)
{
	const char *const *want = arg;

	if (!str_eq(v->name, str_from(want[0])))
		return true;
	*(uint32_t *)(uintptr_t)want[1] = v->index;
	return false;
}

static uint32_t
pool_of_index(const struct sim *s, uint32_t index)
{
	for (uint32_t p = 0; p < s->n_pools; p++) {
		uint32_t is = 0;
		const char *want[] = { s->pools[p].name, (const char *)&is };

		engine_pool_each(s->e, find_index, want);
		if (is == index)
			return p;
	}
	ck_abort_msg("no pool %u", index);
}

static void
sample_what_is_due(struct sim *s)
{
	struct pool_report r;

	while (engine_sample_due(s->e, &r.pool) <= s->now.boot_ns) {
		uint32_t p = pool_of_index(s, r.pool);

		r.seen = (struct pool_sample){
			.processors = pool_width(s, p),
			.probe = s->blind ? PROBE_COUNT : PROBE_PROC,
			.runnable = count_wanting(s, p, false),
			.ladder = s->ladder,
		};
		s->seen[p].at_ns = s->now.boot_ns;
		s->seen[p].runnable = r.seen.runnable;
		s->seen[p].fresh = 0;
		s->seen[p].ended = false;
		step(s, &(struct engine_event){ .kind = EV_POOL_SAMPLE, .sample = &r });
	}
}

/* ---- what must hold ---- */

static void
check_limits(struct sim *s)
{
	uint32_t in_pool[MAX_POOLS] = { 0 }, reserves = 0;

	for (uint32_t i = 0; i < s->n_queues; i++) {
		const struct sim_queue *q = &s->queues[i];

		sim_check(s, q->running <= q->max_active);
		in_pool[q->pool] += q->running;
		reserves += q->reserve;
	}
	for (uint32_t p = 0; p < s->n_pools; p++) {
		uint32_t cap = s->pools[p].settings.max_inflight;

		if (cap == 0)
			cap = INFLIGHT * pool_width(s, p);
		sim_check(s, in_pool[p] <= cap + (reserves > 0));
	}
	sim_check(s, s->n_running <= s->max_runs + (reserves > 0));
}

static bool
cap_reached(const struct sim *s, uint32_t pool)
{
	uint32_t cap = s->pools[pool].settings.max_inflight;

	return pool_running(s, pool) >= (cap ? cap : INFLIGHT * pool_width(s, pool)) ||
		s->n_running >= s->max_runs;
}

static void
check_idle(struct sim *s)
{
	for (uint32_t p = 0; p < s->n_pools; p++) {
		bool waits = false;

		for (uint32_t i = 0; i < s->n_queues; i++)
			waits = waits || (s->queues[i].pool == p && may_start(s, i));
		if (!waits || cap_reached(s, p) || count_wanting(s, p, true) >= pool_width(s, p)) {
			s->idle_since_ns[p] = -1;
			continue;
		}
		if (s->idle_since_ns[p] < 0)
			s->idle_since_ns[p] = s->now.boot_ns;
		/* Who sees nothing has only his floor. */
		sim_check(s,
			s->now.boot_ns - s->idle_since_ns[p] <=
				(s->blind ? 2 * FLOOR_NS : IDLE_NS));
	}
}

static bool
pool_waits(const struct sim *s, uint32_t pool)
{
	for (uint32_t i = 0; i < s->n_queues; i++)
		if (s->queues[i].pool == pool && may_start(s, i))
			return true;
	return false;
}

/* What the last sample leaves room for has been started; the next sample is neither late nor
 * early. */
static void
check_gate(struct sim *s)
{
	for (uint32_t p = 0; p < s->n_pools; p++) {
		const struct seen *seen = &s->seen[p];
		int64_t due_ns;
		uint32_t pool;

		if (seen->at_ns == 0 || !pool_waits(s, p) || cap_reached(s, p))
			continue;
		sim_check(s, !has_room(s, p));
		/* Of several pools only the first that is due can be seen. */
		if (s->n_pools > 1)
			continue;
		due_ns = engine_sample_due(s->e, &pool) - seen->at_ns;
		sim_check(s, due_ns <= TICK_MAX_NS);
		sim_check(s, seen->fresh == 0 || due_ns <= TICK_MIN_NS);
		sim_check(s, due_ns >= (seen->ended ? GAP_NS : TICK_MIN_NS));
	}
}

static const uint32_t band_parts[] = {
	[PRIORITY_HIGH] = 2, [PRIORITY_NORMAL] = 5, [PRIORITY_LOW] = 20
};

/* In a round of 20 starts each band gets its part; in a band a queue comes after the weights of
 * all others. */
static void
check_share(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_queues; i++) {
		struct sim_queue *q = &s->queues[i];
		uint64_t weights = 0;

		if (!may_start(s, i)) {
			q->passed = 0;
			continue;
		}
		for (uint32_t k = 0; k < s->n_queues; k++)
			if (s->queues[k].pool == q->pool && s->queues[k].priority == q->priority)
				weights += s->queues[k].weight;
		sim_check(s, q->passed <= (weights + 1) * band_parts[q->priority] + 20);
	}
}

/* ---- workloads ---- */

static void
set(struct sim *s, struct queue_settings *to, const char *name, const char *value)
{
	sim_check(s, queue_settings_set(to, str_from(name), str_from(value)) == 0);
}

static void
make_pools(struct sim *s)
{
	s->n_pools = 1 + (uint32_t)rnd_below(&s->rnd, MAX_POOLS);
	for (uint32_t p = 0; p < s->n_pools; p++) {
		struct pool_config *c = &s->pools[p];

		*c = (struct pool_config){ .settings = POOL_SETTINGS_DEFAULT };
		snprintf(c->name, sizeof c->name, p == 0 ? POOL_DEFAULT : "p%u", p);
		if (rnd_one_in(&s->rnd, 3))
			c->settings.processors = 1 + (uint32_t)rnd_below(&s->rnd, s->processors);
		if (rnd_one_in(&s->rnd, 3))
			c->settings.max_inflight = 9 + (uint32_t)rnd_below(&s->rnd, 20);
	}
	sim_check(s, engine_configure_pools(s->e, s->now, s->pools, s->n_pools) == 0);
}

static void
make_queue(struct sim *s, uint32_t i)
{
	struct sim_queue *q = &s->queues[i];
	struct queue_settings set_to;
	char number[16];

	*q = (struct sim_queue){
		.pool = (uint32_t)rnd_below(&s->rnd, s->n_pools),
		.max_active = 1 + (uint32_t)rnd_below(&s->rnd, rnd_one_in(&s->rnd, 2) ? 4 : 100),
		.weight = rnd_one_in(&s->rnd, 3) ? 1 + (uint32_t)rnd_below(&s->rnd, 5) : 1,
		.priority = (enum priority)rnd_below(&s->rnd, 3),
		.reserve = rnd_one_in(&s->rnd, 6),
	};
	snprintf(q->name, sizeof q->name, "q%u", i);
	queue_settings_default(&set_to);
	set(s, &set_to, "handler", "h");
	set(s, &set_to, "pool", s->pools[q->pool].name);
	set(s, &set_to, "priority",
		q->priority == PRIORITY_HIGH          ? "high"
			: q->priority == PRIORITY_LOW ? "low"
						      : "normal");
	set(s, &set_to, "reserve", q->reserve ? "yes" : "no");
	snprintf(number, sizeof number, "%u", q->max_active);
	set(s, &set_to, "max_active", number);
	snprintf(number, sizeof number, "%u", q->weight);
	set(s, &set_to, "weight", number);
	sim_check(s, engine_configure_queue(s->e, s->now, str_from(q->name), &set_to, &s->fx) == 0);
	effects_clear(&s->fx);
}

static int64_t
some_ms(struct sim *s, uint32_t most)
{
	return (int64_t)(1 + rnd_below(&s->rnd, most)) * NS_PER_MS;
}

/* Kinds as the study's: burning, sleeping, both in turn, asleep first, long ones. */
static void
make_parts(struct sim *s, struct sim_job *j)
{
	uint32_t kind = (uint32_t)rnd_below(&s->rnd, 5);

	j->n_parts = 0;
#define PART(what, span) \
	j->parts[j->n_parts++] = (struct part) \
	{ \
		what, span \
	}
	if (kind == 0) {
		PART(BURN, some_ms(s, 50));
	} else if (kind == 1) {
		PART(BURN, some_ms(s, 2));
		PART(SLEEP, some_ms(s, 200));
		PART(BURN, some_ms(s, 2));
	} else if (kind == 2) {
		for (uint32_t i = 0; i < MAX_PARTS / 2; i++) {
			PART(BURN, some_ms(s, 20));
			PART(SLEEP, some_ms(s, 60));
		}
	} else if (kind == 3) {
		PART(SLEEP, some_ms(s, 100));
		PART(BURN, some_ms(s, 50));
	} else {
		PART(BURN, rnd_one_in(&s->rnd, 8) ? some_ms(s, 800) : some_ms(s, 20));
	}
}

/* Some wait until later ones of their queue have been started, at most as many as may go on. */
static void
make_meeting(struct sim *s, struct sim_job *j, const struct sim_queue *q)
{
	uint32_t most = q->max_active < FLOOR ? q->max_active : FLOOR, n = q->jobs + most;

	if (!rnd_one_in(&s->rnd, 10) || most < 2 || s->n_queues > 1)
		return;
	j->parts[0] = (struct part){ MEET, n < s->n_jobs ? n : s->n_jobs };
	j->n_parts = j->n_parts > 1 ? j->n_parts : 1;
}

static void
make_jobs(struct sim *s)
{
	bool at_once = rnd_one_in(&s->rnd, 2);

	s->n_jobs = 20 + (uint32_t)rnd_below(&s->rnd, MAX_JOBS - 20);
	memset(s->jobs, 0, sizeof s->jobs);
	for (uint32_t i = 0; i < s->n_jobs; i++) {
		struct sim_job *j = &s->jobs[i];
		struct sim_queue *q;
		char key[16];
		struct op_update up = { .slack_ns = -1, .max_wait_ns = -1 };

		j->queue = (uint32_t)rnd_below(&s->rnd, s->n_queues);
		q = &s->queues[j->queue];
		j->pool = q->pool;
		make_parts(s, j);
		make_meeting(s, j, q);
		q->jobs++;
		snprintf(key, sizeof key, "%03u", i);
		up.job = (struct job_name){ str_from(q->name), str_from(key) };
		/* Those who meet come in the order of their numbers. */
		up.when_ns = at_once || s->n_queues == 1 ? 0 : some_ms(s, 500);
		step(s,
			&(struct engine_event){
				.kind = EV_UPDATE, .ticket = i + 1, .update = &up });
	}
}

static void
sim_init(struct sim *s, uint64_t seed)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->rnd.s = seed * 7919 + 13;
	s->now = (struct moment){ NS_PER_S, 1900000000 * NS_PER_S };
	s->processors = 1u << rnd_below(&s->rnd, 4);
	s->ladder = rnd_one_in(&s->rnd, 2);
	s->blind = rnd_one_in(&s->rnd, 10);
	s->max_runs = rnd_one_in(&s->rnd, 3) ? 9 + (uint32_t)rnd_below(&s->rnd, 30) : 256;
	cfg.max_runs = s->max_runs;
	ck_assert_int_eq(engine_new(&cfg, &s->e), 0);
	effects_init(&s->fx);
	make_pools(s);
	s->n_queues = 1 + (uint32_t)rnd_below(&s->rnd, MAX_QUEUES);
	for (uint32_t i = 0; i < s->n_queues; i++)
		make_queue(s, i);
	for (uint32_t p = 0; p < s->n_pools; p++)
		s->idle_since_ns[p] = -1;
}

static void
sim_done(struct sim *s)
{
	effects_done(&s->fx);
	engine_free(s->e);
}

static void
sim_play(struct sim *s)
{
	uint64_t steps = 0;

	make_jobs(s);
	while (s->n_done < s->n_jobs) {
		s->now.boot_ns += STEP_NS;
		s->now.wall_ns += STEP_NS;
		machine_step(s);
		end_what_is_over(s);
		sample_what_is_due(s);
		if (engine_next_due(s->e, s->now) <= s->now.boot_ns)
			step(s, &(struct engine_event){ .kind = EV_TICK });
		check_limits(s);
		check_idle(s);
		check_gate(s);
		check_share(s);
		if (steps++ % 512 == 0)
			engine_verify(s->e);
		sim_check(s, steps < 400000);
	}
	/* Nothing is left to look for. */
	uint32_t pool;

	sim_check(s, engine_sample_due(s->e, &pool) == INT64_MAX);
	engine_verify(s->e);
}

static uint64_t
workloads(void)
{
	const char *text = getenv("WQ_POOL_WORKLOADS");

	return text ? strtoull(text, NULL, 10) : 1000;
}

static void
check_random_workloads_keep_processors_busy_and_starve_nobody(void)
{
	static struct sim s;

	for (uint64_t seed = 1; seed <= workloads(); seed++) {
		sim_init(&s, seed);
		sim_play(&s);
		sim_done(&s);
	}
}

/* ---- by hand ---- */

static void
hand_init(struct sim *s, uint32_t max_runs)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	memset(s, 0, sizeof *s);
	s->now = (struct moment){ NS_PER_S, 1900000000 * NS_PER_S };
	s->processors = 2;
	s->ladder = true;
	cfg.max_runs = s->max_runs = max_runs;
	sim_check(s, engine_new(&cfg, &s->e) == 0);
	effects_init(&s->fx);
}

static void
hand_pools(struct sim *s, uint32_t max_inflight)
{
	s->n_pools = 1;
	s->pools[0] =
		(struct pool_config){ .name = POOL_DEFAULT, .settings = POOL_SETTINGS_DEFAULT };
	s->pools[0].settings.max_inflight = max_inflight;
	sim_check(s, engine_configure_pools(s->e, s->now, s->pools, 1) == 0);
}

static void
hand_queue(struct sim *s, uint32_t i, const char *more, const char *value)
{
	struct queue_settings to;

	s->queues[i].max_active = 1000;
	s->n_queues = i + 1 > s->n_queues ? i + 1 : s->n_queues;
	snprintf(s->queues[i].name, sizeof s->queues[i].name, "q%u", i);
	queue_settings_default(&to);
	set(s, &to, "handler", "h");
	set(s, &to, "max_active", "1000");
	if (more)
		set(s, &to, more, value);
	sim_check(s,
		engine_configure_queue(s->e, s->now, str_from(s->queues[i].name), &to, &s->fx) ==
			0);
	effects_clear(&s->fx);
}

static void
hand_jobs(struct sim *s, uint32_t queue, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct op_update up = { .slack_ns = -1, .max_wait_ns = -1 };
		char key[16];

		snprintf(key, sizeof key, "%03u", s->n_jobs);
		s->jobs[s->n_jobs++] = (struct sim_job){ .queue = queue };
		up.job = (struct job_name){ str_from(s->queues[queue].name), str_from(key) };
		step(s, &(struct engine_event){ .kind = EV_UPDATE, .ticket = 1, .update = &up });
	}
}

static void
hand_sample(struct sim *s, uint32_t runnable, bool tight)
{
	struct pool_report r = { .seen = { .processors = s->processors,
					 .probe = PROBE_PROC,
					 .ladder = true,
					 .runnable = runnable,
					 .memory_tight = tight } };

	sim_check(s, engine_sample_due(s->e, &r.pool) <= s->now.boot_ns);
	step(s, &(struct engine_event){ .kind = EV_POOL_SAMPLE, .sample = &r });
}

static void
hand_end(struct sim *s, uint32_t job)
{
	struct run_end end = { .run_id = s->jobs[job].run_id, .outcome = RUN_DONE };

	s->jobs[job].run_id = 0;
	s->queues[s->jobs[job].queue].running--;
	s->n_running--;
	step(s, &(struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &end });
}

static void
hand_wait(struct sim *s, int64_t ns)
{
	s->now.boot_ns += ns;
	s->now.wall_ns += ns;
	step(s, &(struct engine_event){ .kind = EV_TICK });
}

static void
check_a_reserve_queue_gets_one_run_past_the_limits(void)
{
	static struct sim s;

	hand_init(&s, 3);
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_queue(&s, 1, "reserve", "yes");
	hand_jobs(&s, 0, 5);
	hand_sample(&s, 0, false);
	sim_check(&s, s.queues[0].running == 3);
	hand_jobs(&s, 1, 3);
	sim_check(&s, s.queues[1].running == 1);
	engine_verify(s.e);
	/* When it ends the reserve is there again, and no more than that. */
	hand_end(&s, 5);
	sim_check(&s, s.queues[1].running == 1);
	sim_check(&s, s.n_running == 4);
	/* An end of another makes no room: there was one too many. */
	hand_end(&s, 0);
	sim_check(&s, s.n_running == 3);
	sim_done(&s);
}

static void
check_short_of_memory_only_a_reserve_and_what_is_needed_for_progress_start(void)
{
	static struct sim s;

	hand_init(&s, 100);
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_queue(&s, 1, "reserve", "yes");
	hand_jobs(&s, 0, 5);
	hand_sample(&s, 0, true);
	sim_check(&s, s.queues[0].running == 2);
	hand_jobs(&s, 1, 2);
	sim_check(&s, s.queues[1].running == 1);
	hand_wait(&s, TICK_MAX_NS);
	hand_sample(&s, 0, false);
	sim_check(&s, s.n_running == 7);
	sim_done(&s);
}

static void
check_a_queue_below_its_floor_gets_a_start_a_second(void)
{
	static struct sim s;

	hand_init(&s, 100);
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_jobs(&s, 0, 40);
	hand_sample(&s, 40, false);
	sim_check(&s, s.queues[0].running == 2);
	for (uint32_t n = 3; n <= FLOOR; n++) {
		sim_check(&s, engine_next_due(s.e, s.now) <= s.now.boot_ns + FLOOR_NS);
		hand_wait(&s, FLOOR_NS - 1);
		sim_check(&s, s.queues[0].running == n - 1);
		hand_wait(&s, 1);
		sim_check(&s, s.queues[0].running == n);
	}
	hand_wait(&s, 10 * FLOOR_NS);
	sim_check(&s, s.queues[0].running == FLOOR);
	sim_done(&s);
}

static uint64_t n_stalls;

static void
step_for_stalls(struct sim *s)
{
	struct pool_report r = {
		.seen = { .processors = 2, .probe = PROBE_PROC, .ladder = true, .runnable = 40 }
	};
	const struct engine_event ev = { .kind = EV_POOL_SAMPLE, .sample = &r };

	sim_check(s, engine_sample_due(s->e, &r.pool) <= s->now.boot_ns);
	engine_step(s->e, s->now, &ev, &s->fx);
	for (size_t i = 0; i < s->fx.n; i++)
		if (s->fx.v[i].kind == FX_STALL) {
			const struct pool_stall *st = &s->fx.v[i].stall;

			n_stalls++;
			sim_check(s, str_eq(st->queue, STR("q0")));
			sim_check(s, st->waits_ns >= STALL_NS);
			sim_check(s, st->state.gate == GATE_CAP);
			sim_check(s, st->ready == 8);
		}
	effects_clear(&s->fx);
}

static void
check_a_queue_that_nobody_serves_for_30_s_is_told_once(void)
{
	static struct sim s;
	uint32_t pool;

	n_stalls = 0;
	hand_init(&s, 100);
	hand_pools(&s, 2);
	hand_queue(&s, 0, NULL, NULL);
	hand_jobs(&s, 0, 10);
	hand_sample(&s, 40, false);
	sim_check(&s, s.queues[0].running == 2);
	for (int second = 0; second < 29; second++) {
		hand_wait(&s, NS_PER_S);
		step_for_stalls(&s);
		sim_check(&s, engine_sample_due(s.e, &pool) == s.now.boot_ns + NS_PER_S);
	}
	sim_check(&s, n_stalls == 0);
	for (int second = 0; second < 60; second++) {
		hand_wait(&s, NS_PER_S);
		step_for_stalls(&s);
	}
	sim_check(&s, n_stalls == 1);
	hand_end(&s, 0);
	sim_check(&s, s.queues[0].running == 2);
	sim_done(&s);
}

static void
check_weights_and_bands_get_what_they_say(void)
{
	static struct sim s;

	hand_init(&s, 1);
	hand_pools(&s, 0);
	hand_queue(&s, 0, "weight", "3");
	hand_queue(&s, 1, NULL, NULL);
	hand_queue(&s, 2, "priority", "low");
	hand_jobs(&s, 0, 60);
	hand_jobs(&s, 1, 60);
	hand_jobs(&s, 2, 20);
	for (int n = 0; n < 50; n++)
		for (uint32_t i = 0; i < s.n_jobs; i++)
			if (s.jobs[i].run_id) {
				hand_end(&s, i);
				break;
			}
	/* Four of normal to one of low, three of the heavy one to one of the other. */
	sim_check(&s, s.queues[0].started + s.queues[1].started + s.queues[2].started == 51);
	sim_check(&s, s.queues[2].started >= 9);
	sim_check(&s, s.queues[2].started <= 11);
	sim_check(&s, s.queues[0].started >= 28);
	sim_check(&s, s.queues[1].started >= 9);
	sim_done(&s);
}

/* The samples after one start, in vain: eight of each tick, each twice as long as those before. */
static void
check_samples_in_vain_become_rare(void)
{
	static const int64_t ms[] = { 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4,
		4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 10, 10, 10 };
	static struct sim s;
	uint32_t pool;

	hand_init(&s, 100);
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_jobs(&s, 0, 40);
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		int64_t before_ns = s.now.boot_ns, due_ns;

		hand_sample(&s, 40, false);
		due_ns = engine_sample_due(s.e, &pool);
		sim_check(&s, due_ns - before_ns == ms[i] * NS_PER_MS);
		hand_wait(&s, due_ns - before_ns);
	}
	/* An end: soon, but not at once. */
	hand_sample(&s, 40, false);
	hand_end(&s, 0);
	sim_check(&s, engine_sample_due(s.e, &pool) == s.now.boot_ns + GAP_NS);
	sim_done(&s);
}

/* All asleep: as many as the default cap says. */
static void
check_the_default_cap_is_128_a_processor(void)
{
	static struct sim s;

	hand_init(&s, 1000);
	s.processors = 1;
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_jobs(&s, 0, 150);
	for (int i = 0; i < 40; i++) {
		uint32_t pool;

		if (engine_sample_due(s.e, &pool) <= s.now.boot_ns)
			hand_sample(&s, 0, false);
		hand_wait(&s, TICK_MIN_NS);
	}
	sim_check(&s, s.queues[0].running == INFLIGHT);
	sim_done(&s);
}

static void
check_a_burst_is_32_starts(void)
{
	static struct sim s;

	hand_init(&s, 1000);
	s.processors = 16;
	hand_pools(&s, 0);
	hand_queue(&s, 0, NULL, NULL);
	hand_jobs(&s, 0, 100);
	hand_sample(&s, 0, false);
	sim_check(&s, s.seen[0].fresh == s.queues[0].running);
	sim_check(&s, s.queues[0].running <= BURST + 2);
	for (uint32_t n = s.queues[0].running; n < 3 * BURST; n += BURST) {
		hand_wait(&s, TICK_MIN_NS);
		hand_sample(&s, 0, false);
		sim_check(&s, s.queues[0].running == (n + BURST < 100 ? n + BURST : 100));
	}
	sim_done(&s);
}

#ifndef POOL_MUTANTS

START_TEST(random_workloads_keep_processors_busy_and_starve_nobody)
{
	check_random_workloads_keep_processors_busy_and_starve_nobody();
}
END_TEST

START_TEST(a_reserve_queue_gets_one_run_past_the_limits)
{
	check_a_reserve_queue_gets_one_run_past_the_limits();
}
END_TEST

START_TEST(short_of_memory_only_a_reserve_and_what_is_needed_for_progress_start)
{
	check_short_of_memory_only_a_reserve_and_what_is_needed_for_progress_start();
}
END_TEST

START_TEST(a_queue_below_its_floor_gets_a_start_a_second)
{
	check_a_queue_below_its_floor_gets_a_start_a_second();
}
END_TEST

START_TEST(a_queue_that_nobody_serves_for_30_s_is_told_once)
{
	check_a_queue_that_nobody_serves_for_30_s_is_told_once();
}
END_TEST

START_TEST(weights_and_bands_get_what_they_say)
{
	check_weights_and_bands_get_what_they_say();
}
END_TEST

START_TEST(samples_in_vain_become_rare)
{
	check_samples_in_vain_become_rare();
}
END_TEST

START_TEST(the_default_cap_is_128_a_processor)
{
	check_the_default_cap_is_128_a_processor();
}
END_TEST

START_TEST(a_burst_is_32_starts)
{
	check_a_burst_is_32_starts();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("pools");
	TCase *tc = unit_case(s, "simulated machine");

	tcase_add_test(tc, random_workloads_keep_processors_busy_and_starve_nobody);
	tcase_add_test(tc, a_reserve_queue_gets_one_run_past_the_limits);
	tcase_add_test(tc, short_of_memory_only_a_reserve_and_what_is_needed_for_progress_start);
	tcase_add_test(tc, a_queue_below_its_floor_gets_a_start_a_second);
	tcase_add_test(tc, a_queue_that_nobody_serves_for_30_s_is_told_once);
	tcase_add_test(tc, weights_and_bands_get_what_they_say);
	tcase_add_test(tc, samples_in_vain_become_rare);
	tcase_add_test(tc, the_default_cap_is_128_a_processor);
	tcase_add_test(tc, a_burst_is_32_starts);
	return unit_run(s);
}

#else

static void (*const checks[])(void) = {
	check_a_reserve_queue_gets_one_run_past_the_limits,
	check_short_of_memory_only_a_reserve_and_what_is_needed_for_progress_start,
	check_a_queue_below_its_floor_gets_a_start_a_second,
	check_a_queue_that_nobody_serves_for_30_s_is_told_once,
	check_weights_and_bands_get_what_they_say,
	check_samples_in_vain_become_rare,
	check_the_default_cap_is_128_a_processor,
	check_a_burst_is_32_starts,
	check_random_workloads_keep_processors_busy_and_starve_nobody,
};

/* Which check notices the mutant; -1: none does. */
static int
noticed_by(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int status = 0;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			mutating = true;
			checks[i]();
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			return (int)i;
	}
	return -1;
}

START_TEST(what_is_not_changed_is_not_noticed)
{
	setenv("WQ_POOL_WORKLOADS", "100", 1);
	ck_assert_int_eq(noticed_by(), -1);
}
END_TEST

START_TEST(a_change_of_any_constant_is_noticed)
{
	const char *what = pool_mutate((unsigned)_i);

	setenv("WQ_POOL_WORKLOADS", "100", 1);
	ck_assert_msg(noticed_by() >= 0, "nobody notices: %s", what);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("mutants of the policy");
	TCase *tc = unit_case(s, "constants");

	tcase_add_test(tc, what_is_not_changed_is_not_noticed);
	tcase_add_loop_test(tc, a_change_of_any_constant_is_noticed, 0, POOL_MUTATIONS);
	return unit_run(s);
}

#endif
