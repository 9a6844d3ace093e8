/*
 * The engine alone: `bench_engine JOBS [growth]` of level `memory`, keys chosen at
 * random, every step with its effects. Beside it what the memory itself allows:
 * dependent and batched accesses to as many places, each on a cache line of its
 * own. What the making of a request costs is measured and taken off. `growth`:
 * inserts and reschedules alone, for the curve over the number of jobs.
 */
#include <string.h>

#include "base/hist.h"
#include "bench/bench.h"
#include "engine/engine.h"

#define KEY_LEN 16
#define HOUR_NS (3600 * NS_PER_S)
#define BATCH   64 /* a multiple of ENGINE_AHEAD_MAX */
#define OPS_MIN 1000000u
#define OPS_MAX 4000000u
/* As the daemon has it. */
#define TURN_BUDGET 256

static struct engine *e;
static struct effects fx;
static struct moment now = { 1000 * NS_PER_S, 1767225600 * NS_PER_S };
static uint64_t tickets;

/* Cheap to make, so that it is the engine that is measured. */
static struct job_name
name_of(char key[KEY_LEN], uint64_t i)
{
	for (size_t k = 0; k < KEY_LEN; k++)
		key[k] = (char)('a' + (i >> (4 * k) & 15));
	return (struct job_name){ .queue = STR("default"), .key = { key, KEY_LEN } };
}

static void
step(const struct engine_event *ev)
{
	effects_clear(&fx);
	engine_step(e, now, ev, &fx);
}

static struct op_update
op_for(char key[KEY_LEN], uint64_t i, int64_t delay_ns)
{
	return (struct op_update){
		.job = name_of(key, i),
		.when_ns = delay_ns,
		.slack_ns = -1,
		.max_wait_ns = -1,
		.level = LEVEL_MEMORY,
	};
}

static void
apply(const struct op_update *op)
{
	const struct engine_event ev = { .kind = EV_UPDATE, .ticket = ++tickets, .update = op };
	struct job_reply r;
	bool durable;

	/* As the service asks. */
	if (engine_reschedule(e, now, op, 0, &r, &durable)) {
		wq_assert(!status_is_error(r.status) && !durable);
		return;
	}
	step(&ev);
	wq_assert(fx.n == 1 && !status_is_error(fx.v[0].reply.status));
}

static void
update(uint64_t i, int64_t delay_ns)
{
	char key[KEY_LEN];
	const struct op_update op = op_for(key, i, delay_ns);

	apply(&op);
}

static void
cancel(uint64_t i)
{
	char key[KEY_LEN];
	const struct op_cancel op = {
		.job = name_of(key, i),
		.timeout_ns = -1,
		.level = LEVEL_MEMORY,
	};
	const struct engine_event ev = { .kind = EV_CANCEL, .ticket = ++tickets, .cancel = &op };

	step(&ev);
	wq_assert(fx.n == 1 && fx.v[0].reply.status == ST_CANCELLED);
}

/* One to two hours, in milliseconds as clients ask. */
static int64_t
later(struct rnd *r)
{
	return HOUR_NS + (int64_t)rnd_below(r, HOUR_NS / NS_PER_MS) * NS_PER_MS;
}

/* Distinct for i < n, n not a multiple of the factor: a key that is never the next in memory. */
static uint64_t
scattered(uint64_t i, uint64_t n)
{
	return (i * 2654435761u + 12345) % n;
}

/* Two for each job, but not for ever. */
static uint64_t
ops_for(uint64_t n)
{
	uint64_t ops = 2 * n < OPS_MIN ? OPS_MIN : 2 * n > OPS_MAX ? OPS_MAX : 2 * n;

	return ops / BATCH * BATCH;
}

static void
pass_ns(int64_t ns)
{
	now.boot_ns += ns;
	now.wall_ns += ns;
}

static void
reschedule(uint64_t n)
{
	struct rnd r = { 1 };
	uint64_t ops = ops_for(n);
	int64_t from = bench_cpu_ns();

	for (uint64_t i = 0; i < ops; i++) {
		pass_ns(100);
		update(rnd_below(&r, n), later(&r));
	}
	bench_per("engine-reschedule", bench_cpu_ns() - from, ops);
}

/* Each by itself, by the clock: what others take of the processor is in the worst. */
static void
show_each(const char *what, const struct hist *h)
{
	printf("engine-%s-p99.99 %.1f us\n", what, (double)hist_quantile_ppm(h, 999900) / 1e3);
	printf("engine-%s-worst %.1f us\n", what, (double)h->max / 1e3);
}

/* What it costs to time so many of them. */
static int64_t
timing_ns(uint64_t n)
{
	static struct hist h;
	int64_t from = bench_cpu_ns(), at;

	for (uint64_t i = 0; i < n; i++) {
		at = clock_boot_ns();
		hist_add(&h, clock_boot_ns() - at);
	}
	return bench_cpu_ns() - from;
}

static void
reschedule_each(uint64_t n)
{
	static struct hist h;
	struct rnd r = { 5 };

	h = (struct hist){ 0 };
	for (uint64_t i = 0; i < OPS_MIN; i++) {
		uint64_t which = rnd_below(&r, n);
		int64_t delay = later(&r), at;

		pass_ns(100);
		at = clock_boot_ns();
		update(which, delay);
		hist_add(&h, clock_boot_ns() - at);
	}
	show_each("reschedule", &h);
}

/* What is asked of the engine in one read. */
static struct batch {
	char keys[BATCH][KEY_LEN];
	struct op_update ops[BATCH];
	const struct job_name *announced[BATCH];
} batch;

static int64_t
in_thirty_seconds(struct rnd *r)
{
	(void)r;
	return 30 * NS_PER_S;
}

static void
batch_make(struct rnd *r, uint64_t n, int64_t (*delay)(struct rnd *r))
{
	for (size_t k = 0; k < BATCH; k++) {
		int64_t delay_ns = delay(r);

		batch.ops[k] = op_for(batch.keys[k], rnd_below(r, n), delay_ns);
		batch.announced[k] = &batch.ops[k].job;
	}
}

static void
batch_apply(int64_t each_ns)
{
	for (size_t k = 0; k < BATCH; k++) {
		if (k % ENGINE_AHEAD_MAX == 0)
			engine_ahead(e, batch.announced + k, ENGINE_AHEAD_MAX);
		pass_ns(each_ns);
		apply(&batch.ops[k]);
	}
}

static int64_t
making_ns(uint64_t n, uint64_t ops, int64_t (*delay)(struct rnd *r))
{
	struct rnd r = { 3 };
	int64_t from = bench_cpu_ns();

	for (uint64_t i = 0; i < ops; i += BATCH)
		batch_make(&r, n, delay);
	return bench_cpu_ns() - from;
}

/* The jobs of a read announced before the steps. Of its own, for profilers. */
__attribute__((noinline)) static void
reschedule_batches(uint64_t n)
{
	struct rnd r = { 3 };
	uint64_t ops = ops_for(n);
	int64_t from = bench_cpu_ns(), took;

	for (uint64_t i = 0; i < ops; i += BATCH) {
		batch_make(&r, n, later);
		batch_apply(100);
	}
	took = bench_cpu_ns() - from;
	bench_per("engine-reschedule-batch-64", took - making_ns(n, ops, later), ops);
}

/* Whatever is due, and what the wheel does ahead of its time. */
static void
tick(void)
{
	const struct engine_event ev = { .kind = EV_TICK };

	while (engine_next_due(e, now) <= now.boot_ns)
		step(&ev);
}

/* Every job put off to thirty seconds from now, each ten seconds on average, in time that passes
 * with it: always later, with the wheel's upkeep, and the one in twenty that comes too late is due and
 * made again. */
static void
heartbeats(uint64_t n)
{
	struct rnd r = { 7 };
	uint64_t ops = 4 * n < OPS_MIN ? OPS_MIN : 4 * n > 2 * OPS_MAX ? 2 * OPS_MAX : 4 * n;
	int64_t each_ns = 10 * NS_PER_S / (int64_t)n, from = 0, took;

	ops = ops / BATCH * BATCH;
	for (int measured = 0; measured < 2; measured++) {
		from = bench_cpu_ns();
		for (uint64_t i = 0; i < ops; i += BATCH) {
			batch_make(&r, n, in_thirty_seconds);
			batch_apply(each_ns);
			tick();
		}
	}
	took = bench_cpu_ns() - from;
	bench_per("engine-heartbeat-batch-64", took - making_ns(n, ops, in_thirty_seconds), ops);
}

static void
cancel_half(uint64_t n)
{
	static struct hist h;
	int64_t from = bench_cpu_ns(), at;

	h = (struct hist){ 0 };
	for (uint64_t i = 0; i < n / 2; i++) {
		at = clock_boot_ns();
		cancel(scattered(i, n));
		hist_add(&h, clock_boot_ns() - at);
	}
	bench_per("engine-cancel", bench_cpu_ns() - from - timing_ns(n / 2), n / 2);
	show_each("cancel", &h);
}

static void
pause_queue(bool pause)
{
	const struct op_queue op = { STR("default") };
	const struct engine_event ev = {
		.kind = pause ? EV_PAUSE : EV_RESUME,
		.ticket = ++tickets,
		.queue = &op,
	};

	step(&ev);
	wq_assert(fx.n > 0 && fx.v[0].reply.status == ST_OK);
}

/* Ticks until a counter has got there, `pass` of time between two that have nothing left to do. Of
 * its own, for profilers. */
__attribute__((noinline)) static void
ticks(const char *name, uint64_t n, uint64_t (*done)(const struct engine_stats *st), int64_t pass)
{
	const struct engine_event ev = { .kind = EV_TICK };
	struct engine_stats st;
	static struct hist h;
	int64_t from = bench_cpu_ns();

	h = (struct hist){ 0 };
	do {
		int64_t at = clock_boot_ns();

		step(&ev);
		hist_add(&h, clock_boot_ns() - at);
		if (engine_next_due(e, now) > now.boot_ns)
			pass_ns(pass);
		engine_stats_get(e, &st);
	} while (done(&st) < n);
	bench_per(name, bench_cpu_ns() - from, n);
	printf("%s-turn-p99.9 %.1f us\n", name, (double)hist_quantile_ppm(&h, 999000) / 1e3);
	printf("%s-longest-turn %.1f us\n", name, (double)h.max / 1e3);
}

static uint64_t
ready(const struct engine_stats *st)
{
	return st->ready;
}

static uint64_t done_before;

static uint64_t
runs_done(const struct engine_stats *st)
{
	return st->runs_done - done_before;
}

/* Deadlines are reached while the queue is paused, so that it is expiry alone; then it goes on, and
 * all run: action none, each run ends in the step that starts it. */
static void
expire(const char *name, const char *run, uint64_t n)
{
	struct engine_stats st;

	engine_stats_get(e, &st);
	done_before = st.runs_done;
	pause_queue(true);
	ticks(name, n, ready, NS_PER_MS);
	pause_queue(false);
	ticks(run, n, runs_done, NS_PER_MS);
}

/* All of them within thirty seconds, then all at one time. */
static void
expire_all(uint64_t n)
{
	struct rnd r = { 9 };

	for (uint64_t i = 0; i < n; i++)
		update(scattered(i, n), 1 + (int64_t)rnd_below(&r, 30 * NS_PER_S));
	expire("engine-expire", "engine-run", n);
	for (uint64_t i = 0; i < n; i++)
		update(scattered(i, n), NS_PER_S);
	pass_ns(NS_PER_S);
	expire("engine-expire-of-one-deadline", "engine-run-of-one-deadline", n);
}

/* What a page costs that nobody has touched yet: on a virtual machine more than all else. */
static void
memory_first_touch(void)
{
	size_t n = 64u << 20;
	char *v = big_alloc(n);
	int64_t from = bench_cpu_ns();

	wq_assert(v);
	for (size_t i = 0; i < n; i += 4096)
		v[i] = 1;
	bench_per("memory-first-touch-of-a-page", bench_cpu_ns() - from, n / 4096);
	big_free(v, n);
}

/* As many accesses at once as a batch has jobs: each place asked for, then all of them written. */
static void
memory_limit_batched(uint64_t n)
{
	struct place {
		uint64_t v[8];
	} *v = must_zalloc(n * sizeof *v), *at[BATCH];
	uint64_t count = n < 1000000 ? 1000000 : n;
	struct rnd r = { 2 };
	int64_t from;

	for (uint64_t i = 0; i < n; i++)
		v[i].v[0] = i;
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i += BATCH) {
		for (size_t k = 0; k < BATCH; k++)
			__builtin_prefetch(at[k] = &v[rnd_below(&r, n)], 1);
		for (size_t k = 0; k < BATCH; k++)
			at[k]->v[0]++;
	}
	bench_per("memory-batched-access", bench_cpu_ns() - from, count);
	x_free(v);
}

/* A ring through all places in random order: each access needs the one before. */
static void
memory_limit(uint64_t n)
{
	struct place {
		uint64_t next;
		char rest[56];
	} *v = must_zalloc(n * sizeof *v);
	struct rnd r = { 2 };
	uint64_t at = 0, count = n < 1000000 ? 1000000 : n;
	int64_t from;

	for (uint64_t i = 0; i < n; i++)
		v[i].next = i;
	for (uint64_t i = n - 1; i > 0; i--) { /* Sattolo: one cycle */
		uint64_t j = rnd_below(&r, i), t = v[i].next;

		v[i].next = v[j].next;
		v[j].next = t;
	}
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i++)
		at = v[at].next;
	bench_per("memory-dependent-access", bench_cpu_ns() - from, count);
	wq_assert(at < n);
	x_free(v);
}

static void
bench_bytes(const char *name, uint64_t bytes, uint64_t n)
{
	printf("%s %.1f bytes\n", name, (double)bytes / (double)n);
}

static void
insert_all(uint64_t n)
{
	static struct hist h;
	int64_t from = bench_cpu_ns(), at;

	for (uint64_t i = 0; i < n; i++) {
		at = clock_boot_ns();
		update(scattered(i, n), HOUR_NS + (int64_t)i * 3600 / (int64_t)n * NS_PER_S);
		hist_add(&h, clock_boot_ns() - at);
	}
	bench_per("engine-insert", bench_cpu_ns() - from - timing_ns(n), n);
	show_each("insert", &h);
}

int
main(int argc, char **argv)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	uint64_t n = bench_count(argc, argv, 100000);
	struct queue_settings s;
	uint64_t before;

	cfg.max_jobs = 2 * n;
	cfg.turn_budget = TURN_BUDGET;
	wq_assert(engine_new(&cfg, &e) == 0);
	effects_init(&fx);
	queue_settings_default(&s);
	s.max_jobs = cfg.max_jobs;
	wq_assert(engine_configure_queue(e, now, STR("default"), &s, &fx) == 0);
	before = bench_resident_bytes();
	insert_all(n);
	/* Key and all: 16 bytes of it are the key. */
	bench_bytes("engine-job-bytes", bench_resident_bytes() - before, n);
	reschedule(n);
	reschedule_batches(n);
	reschedule_each(n);
	bench_bytes("engine-job-bytes-after-reschedules", bench_resident_bytes() - before, n);
	if (argc <= 2 || strcmp(argv[2], "growth") != 0) {
		cancel_half(n);
		expire_all(n);
		heartbeats(n);
	}
	effects_done(&fx);
	engine_free(e);
	memory_limit(n);
	memory_limit_batched(n);
	memory_first_touch();
	return 0;
}
