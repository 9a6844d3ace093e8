#include "run/pool_side.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"

/* Others want the processors for so long before that is more than a passing thing. */
#define FOREIGN_NS (200 * NS_PER_MS)
/* What reading the count of runnable tasks costs. */
#define COUNT_NS 3500u
/* Of a pool's own memory limit: from here on nothing more is started. */
#define MEMORY_PERCENT 75u

static int64_t
thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* ---- hogs, told ---- */

/* Less and less often: at the first, the second, the fourth... */
static void
tell_hogs(struct pool_side *side, const struct rung *hog)
{
	char name[4 * POOL_NAME_MAX + 8];

	if (side->ladder.hogs_total < 2 * side->hogs_told || side->ladder.hogs_total == 0)
		return;
	side->hogs_told = side->ladder.hogs_total;
	log_warn("hog", "pool=%s pid=%d used_ms=%lld hogs=%" PRIu64 " msg=\"%s\"",
		log_field(name, sizeof name, str_from(side->name)), (int)hog->probe.pid,
		(long long)((hog->probe.cpu_ns - hog->prime_ns) / NS_PER_MS),
		side->ladder.hogs_total,
		"a run keeps a processor busy while others wait: it goes behind them");
}

static void
look(struct pool_side *side, int64_t now_ns, bool others)
{
	struct rung *hog = NULL;
	int64_t began = thread_ns(), cost;

	side->looked_ns = now_ns;
	if (ladder_look(&side->ladder, now_ns, others, &hog) > 0)
		tell_hogs(side, hog);
	cost = thread_ns() - began;
	side->cost_ns += (uint64_t)cost;
	if (side->ladder.look_ns < cost * POOL_COST_PARTS)
		side->ladder.look_ns = cost * POOL_COST_PARTS;
}

/* ---- the timer of ladders ---- */

static bool
has_fillers(const struct pool_side *side)
{
	return side && side->ladder.n > side->ladder.primes;
}

/* Soonest of all that have fillers; none: it stays off. */
static void
time_next(struct pool_sides *p, int64_t now_ns)
{
	int64_t soonest = INT64_MAX;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct pool_side *side = p->v[i];

		if (has_fillers(side) && side->looked_ns + side->ladder.look_ns < soonest)
			soonest = side->looked_ns + side->ladder.look_ns;
	}
	p->timing = soonest != INT64_MAX;
	if (p->timing)
		p->reactor->timer_set(
			p->reactor->ctx, p->timer, soonest > now_ns ? soonest - now_ns : 0);
}

static void
on_timer(void *arg)
{
	struct pool_sides *p = arg;
	int64_t now = clock_boot_ns();

	for (uint32_t i = 0; i < p->n; i++) {
		struct pool_side *side = p->v[i];

		if (has_fillers(side) && side->looked_ns + side->ladder.look_ns <= now)
			look(side, now, false);
	}
	time_next(p, now);
}

/* ---- which there are ---- */

int
pool_sides_init(struct pool_sides *p, const struct reactor *rx, bool carried)
{
	*p = (struct pool_sides){ .reactor = rx };
	machine_init(&p->machine);
	cgroup_tree_init(&p->tree, &p->machine.place, carried);
	return rx->timer_new(rx->ctx, on_timer, p, &p->timer);
}

void
pool_sides_done(struct pool_sides *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		x_free(p->v[i]);
	x_free(p->v);
	if (p->timer)
		p->reactor->timer_del(p->reactor->ctx, p->timer);
	cgroup_tree_done(&p->tree);
	machine_done(&p->machine);
	*p = (struct pool_sides){ .machine.loadavg_fd = -1 };
}

static uint32_t
side_processors(const struct pool_sides *p, const struct pool_side *side)
{
	uint32_t all = p->machine.processors, own = side->s.processors;

	return own > 0 && own < all ? own : all;
}

static void
side_settle(struct pool_sides *p, struct pool_side *side)
{
	ladder_set(&side->ladder, side_processors(p, side), side->s.ladder && p->machine.ladder);
}

int
pool_sides_set(
	struct pool_sides *p, uint32_t index, const char *name, const struct pool_settings *s)
{
	struct pool_side *side;

	wq_assert(index < POOLS_MAX);
	if (index >= p->n) {
		struct pool_side **grown = x_realloc(p->v, index + 1, sizeof(struct pool_side *));

		if (!grown)
			return -ENOMEM;
		for (; p->n <= index; p->n++)
			grown[p->n] = NULL;
		p->v = grown;
	}
	side = p->v[index];
	if (!side) {
		side = x_zalloc(sizeof *side);
		if (!side)
			return -ENOMEM;
		side->others[0] = side->others[1] = -1;
		side->rank = PROBE_PROC;
		ladder_init(&side->ladder);
		side->index = index;
		p->v[index] = side;
	}
	snprintf(side->name, sizeof side->name, "%s", name);
	side->s = *s;
	side_settle(p, side);
	cgroup_pool_set(&p->tree, index, s);
	return 0;
}

struct pool_side *
pool_side_get(const struct pool_sides *p, uint32_t index)
{
	return index < p->n ? p->v[index] : NULL;
}

struct pool_side *
pool_side_named(const struct pool_sides *p, const char *name)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->v[i] && strcmp(p->v[i]->name, name) == 0)
			return p->v[i];
	return NULL;
}

/* ---- runs ---- */

bool
pool_side_begins_low(struct pool_sides *p, struct pool_side *side)
{
	machine_look(&p->machine, clock_boot_ns());
	side_settle(p, side);
	return ladder_begins_low(&side->ladder);
}

void
pool_side_join(struct pool_sides *p, struct pool_side *side, struct rung *r, bool low)
{
	int64_t now = clock_boot_ns();

	ladder_join(&side->ladder, r, low, now);
	side->rank = probe_rank(&r->probe);
	if (!p->timing && has_fillers(side)) {
		side->looked_ns = now;
		time_next(p, now);
	}
}

void
pool_side_leave(struct pool_side *side, struct rung *r)
{
	ladder_leave(&side->ladder, r);
}

/* ---- samples ---- */

struct seen {
	uint32_t runnable, hogs; /* hogs: those of the runnable processes that are of a hog */
	uint64_t memory;
};

static struct seen
sweep(struct pool_side *side, int64_t now_ns)
{
	struct seen s = { 0 };
	enum pool_probe worst = PROBE_CGROUP;

	list_each(r, &side->ladder.rungs, struct rung, link) {
		probe_look(&r->probe, now_ns);
		if (r->hog)
			s.hogs += r->probe.wants;
		else
			s.runnable += r->probe.wants;
		s.memory += r->probe.memory;
		if (probe_rank(&r->probe) > worst)
			worst = probe_rank(&r->probe);
	}
	if (side->ladder.n > 0)
		side->rank = worst;
	side->sweeps++;
	side->memory = s.memory;
	side->swept_hogs = s.hogs;
	return s;
}

/* How many of the machine's runnable tasks are not ours. */
static void
note_others(struct pool_side *side, int running, const struct seen *s, int64_t now_ns)
{
	int ours = (int)(s->runnable + s->hogs);

	side->others[1] = side->others[0];
	side->others[0] = running < 0 ? -1 : running > ours ? running - ours : 0;
	if (side->others[0] <= 0)
		side->foreign_ns = 0;
	else if (side->foreign_ns == 0)
		side->foreign_ns = now_ns;
}

/* Of others, as few as there were lately: rather too few of ours than too many. */
static int
others_least(const struct pool_side *side)
{
	if (side->others[0] < 0 || side->others[1] < 0)
		return -1;
	return side->others[0] < side->others[1] ? side->others[0] : side->others[1];
}

static uint32_t
at_least_zero(int n)
{
	return n > 0 ? (uint32_t)n : 0;
}

/* What a look costs is a part of the time until the next. */
static void
pay(struct pool_side *side, int64_t now_ns, int64_t cost_ns)
{
	int64_t wait = cost_ns * POOL_COST_PARTS;

	side->sweep_at_ns = now_ns + (wait > POOL_SWEEP_NS ? wait : POOL_SWEEP_NS);
}

/* The engine's target; see pool_target(). */
static uint32_t
side_target(const struct pool_side *side)
{
	return (side->ladder.holds ? POOL_TARGET_LADDER : POOL_TARGET_PLAIN) * side->ladder.primes;
}

static uint32_t
runnable_now(struct pool_sides *p, struct pool_side *side, int64_t now_ns)
{
	int running = machine_running(&p->machine), others = others_least(side);
	int hogs = side->ladder.hogs > 0 ? (int)side->swept_hogs : 0;
	bool few = running >= 0 && running - hogs < (int)side_target(side);
	struct seen s;
	int64_t began, cost;

	/* Asking for the thread's own time costs half as much as the count: that is an estimate. */
	side->cost_ns += COUNT_NS;
	if (now_ns >= side->sweep_at_ns && (!few || side->s.max_memory > 0)) {
		began = thread_ns();
		s = sweep(side, now_ns);
		note_others(side, running, &s, now_ns);
		cost = thread_ns() - began;
		pay(side, now_ns, cost);
		side->cost_ns += (uint64_t)cost;
		return s.runnable;
	}
	return at_least_zero(running - hogs - (few || others < 0 ? 0 : others));
}

static bool
memory_is_tight(const struct pool_sides *p, const struct pool_side *side)
{
	uint64_t used;

	if (p->machine.memory_tight || side->s.max_memory == 0)
		return p->machine.memory_tight;
	used = cgroup_pool_memory(&p->tree, side->index);
	if (used == UINT64_MAX)
		used = side->memory;
	return used / MEMORY_PERCENT >= side->s.max_memory / 100;
}

void
pool_side_sample(
	struct pool_sides *p, struct pool_side *side, int64_t now_ns, struct pool_sample *out)
{
	uint32_t runnable;

	machine_look(&p->machine, now_ns);
	side_settle(p, side);
	runnable = runnable_now(p, side, now_ns);
	if (side->looked_ns + side->ladder.look_ns <= now_ns)
		look(side, now_ns, true);
	*out = (struct pool_sample){
		.processors = side->ladder.primes,
		.probe = side->rank,
		.runnable = runnable,
		.hogs = side->ladder.hogs,
		.allowed = p->machine.allowed,
		.ladder = side->ladder.holds,
		.foreign = side->foreign_ns != 0 && now_ns - side->foreign_ns >= FOREIGN_NS,
		.memory_tight = memory_is_tight(p, side),
		.memory = side->memory,
		.hogs_total = side->ladder.hogs_total,
		.cost_ns = side->cost_ns,
		.not_before_ns = p->machine.loadavg_fd < 0 ? side->sweep_at_ns : 0,
	};
}
