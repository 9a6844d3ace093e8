/*
 * The engine alone: `bench_engine N` jobs of level `memory`, keys chosen at
 * random, every step with its effects. Beside it what the memory itself allows:
 * one dependent access to as many places, each on a cache line of its own.
 */
#include <string.h>

#include "bench/bench.h"
#include "engine/engine.h"

#define KEY_LEN 16
#define TIMED   1024 /* one in so many operations is timed alone, for the worst */
#define HOUR_NS (3600 * NS_PER_S)
#define ROUNDS  2  /* reschedules per job */
#define BATCH   64 /* a multiple of ENGINE_AHEAD_MAX */

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

static void
reschedule(uint64_t n)
{
	struct rnd r = { 1 };
	int64_t from = bench_cpu_ns(), worst = 0;

	for (uint64_t i = 0; i < ROUNDS * n; i++) {
		int64_t at = i % TIMED ? 0 : clock_boot_ns(), took;

		now.boot_ns += 100;
		now.wall_ns += 100;
		update(rnd_below(&r, n), later(&r));
		took = at ? clock_boot_ns() - at : 0;
		worst = took > worst ? took : worst;
	}
	bench_per("engine-reschedule", bench_cpu_ns() - from, ROUNDS * n);
	printf("engine-reschedule-worst-seen %.1f us\n", (double)worst / 1e3);
}

/* The same with the jobs of a read announced before the steps. */
/* Of its own, for profilers. */
__attribute__((noinline)) static void
reschedule_batches(uint64_t n)
{
	static char keys[BATCH][KEY_LEN];
	static struct op_update ops[BATCH];
	const struct job_name *announced[BATCH];
	struct rnd r = { 3 };
	int64_t from = bench_cpu_ns();

	for (uint64_t i = 0; i < ROUNDS * n; i += BATCH) {
		for (size_t k = 0; k < BATCH; k++) {
			int64_t delay = later(&r);

			ops[k] = op_for(keys[k], rnd_below(&r, n), delay);
			announced[k] = &ops[k].job;
		}
		for (size_t k = 0; k < BATCH; k++) {
			if (k % ENGINE_AHEAD_MAX == 0)
				engine_ahead(e, announced + k, ENGINE_AHEAD_MAX);
			now.boot_ns += 100;
			now.wall_ns += 100;
			apply(&ops[k]);
		}
	}
	bench_per("engine-reschedule-batch-64", bench_cpu_ns() - from, ROUNDS * n);
}

/* All deadlines are reached; action none, so that each run ends in the step that starts it. */
static void
expire(uint64_t n)
{
	const struct engine_event tick = { .kind = EV_TICK };
	struct engine_stats st;
	int64_t from = bench_cpu_ns(), longest = 0;

	now.boot_ns += 3 * HOUR_NS;
	now.wall_ns += 3 * HOUR_NS;
	do {
		int64_t at = bench_cpu_ns(), took;

		step(&tick);
		took = bench_cpu_ns() - at;
		longest = took > longest ? took : longest;
		engine_stats_get(e, &st);
	} while (st.runs_done < n);
	bench_per("engine-expire-and-run", bench_cpu_ns() - from, n);
	printf("engine-longest-turn %.1f us\n", (double)longest / 1e3);
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

static uint64_t
resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long size, resident;

	wq_assert(f && fscanf(f, "%lu %lu", &size, &resident) == 2);
	(void)fclose(f);
	return (uint64_t)resident * 4096;
}

int
main(int argc, char **argv)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	uint64_t n = bench_count(argc, argv, 100000);
	uint64_t before;
	int64_t from;

	cfg.max_jobs = 2 * n;
	wq_assert(engine_new(&cfg, &e) == 0);
	effects_init(&fx);
	before = resident_bytes();
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < n; i++)
		update(scattered(i, n), HOUR_NS + (int64_t)i * 3600 / (int64_t)n * NS_PER_S);
	bench_per("engine-insert", bench_cpu_ns() - from, n);
	/* Key and all: 16 bytes of it are the key. */
	bench_bytes("engine-job-bytes", resident_bytes() - before, n);
	reschedule(n);
	reschedule_batches(n);
	bench_bytes("engine-job-bytes-after-reschedules", resident_bytes() - before, n);
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < n / 2; i++)
		cancel(scattered(i, n));
	bench_per("engine-cancel", bench_cpu_ns() - from, n / 2);
	expire(n - n / 2);
	effects_done(&fx);
	engine_free(e);
	memory_limit(n);
	memory_limit_batched(n);
	return 0;
}
