/*
 * The wheel against the heap, in one process, slices of both interleaved:
 * `bench_timers TIMERS`. Jobs lie in slabs, no keys are looked up. Put off, as
 * heartbeats are: to thirty seconds from now, each ten seconds on average, while
 * time passes and what is due is taken off and armed again. Put anywhere: to one
 * of two hours at random. Expire: all that is armed, a millisecond at a time.
 */
#include "bench/bench.h"
#include "engine/front.h"
#include "engine/job.h"

#define SLICE   50000u
#define SLICES  20
#define HOUR_NS (3600 * NS_PER_S)
#define CHUNKS  64u /* moved a turn, as the engine does */

/* One of the two: what it is made of, and where its time is. */
struct side_by_side {
	struct slab jobs;
	struct wheel wheel;
	struct timers heap;
	bool is_heap;
	int64_t now_ns;
	uint64_t seq, fired;
	struct rnd random;
	int64_t took_ns;
};

static uint64_t n;

static struct job *
job_nth(const struct side_by_side *s, uint64_t i)
{
	return (struct job *)(void *)s->jobs.base + i;
}

static void
arm(struct side_by_side *s, struct job *j, int64_t due_ns)
{
	int err = s->is_heap ? timer_set(&s->heap, &j->timer, due_ns, ++s->seq)
			     : wheel_set(&s->wheel, j, s->now_ns, due_ns, ++s->seq);

	wq_assert(err == 0);
}

/* As engine_reschedule does: mostly the wheel has nothing to do. */
static void
put_off(struct side_by_side *s, struct job *j, int64_t due_ns)
{
	if (s->is_heap || !wheel_put_off(&s->wheel, j, due_ns, s->seq + 1))
		arm(s, j, due_ns);
	else
		s->seq++;
}

static struct job *
first_due(struct side_by_side *s)
{
	struct timer *t;

	if (!s->is_heap)
		return wheel_first(&s->wheel, s->now_ns);
	t = timers_first(&s->heap);
	return t && timer_due(&s->heap, t) <= s->now_ns ? container_of(t, struct job, timer) : NULL;
}

static void
disarm(struct side_by_side *s, struct job *j)
{
	if (s->is_heap)
		timer_del(&s->heap, &j->timer);
	else
		wheel_del(&s->wheel, j);
}

/* What is due is taken off; `again`: and armed as if made anew. */
static void
pass(struct side_by_side *s, int64_t ns, bool again)
{
	struct job *j;

	s->now_ns += ns;
	do {
		uint32_t most = CHUNKS;

		if (!s->is_heap)
			wheel_advance(&s->wheel, s->now_ns, &most);
		while ((j = first_due(s)) != NULL) {
			disarm(s, j);
			s->fired++;
			if (again)
				arm(s, j, s->now_ns + 30 * NS_PER_S);
		}
	} while (!s->is_heap && wheel_behind(&s->wheel));
}

static void
slice_heartbeats(struct side_by_side *s)
{
	int64_t each_ns = 10 * NS_PER_S / (int64_t)n, since = 0;

	for (unsigned i = 0; i < SLICE; i++) {
		put_off(s, job_nth(s, rnd_below(&s->random, n)), s->now_ns + 30 * NS_PER_S);
		since += each_ns;
		if (since >= NS_PER_MS) {
			pass(s, since, true);
			since = 0;
		}
	}
}

static void
slice_anywhere(struct side_by_side *s)
{
	for (unsigned i = 0; i < SLICE; i++)
		put_off(s, job_nth(s, rnd_below(&s->random, n)),
			s->now_ns + 1 + (int64_t)rnd_below(&s->random, 2 * HOUR_NS));
}

static void
duel(const char *what, struct side_by_side v[2], void (*slice)(struct side_by_side *s))
{
	char name[64];

	for (int i = 0; i < 2; i++)
		v[i].took_ns = 0;
	for (int k = 0; k < 2 * SLICES; k++) {
		struct side_by_side *s = &v[k % 2];
		int64_t from = bench_cpu_ns();

		slice(s);
		s->took_ns += bench_cpu_ns() - from;
	}
	for (int i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof name, "timers-%s-%s", what, i ? "heap" : "wheel");
		bench_per(name, v[i].took_ns, (uint64_t)SLICES * SLICE);
	}
	printf("timers-%s-heap-by-wheel %.2f times\n", what,
		(double)v[1].took_ns / (double)v[0].took_ns);
}

/* Within thirty seconds, a millisecond a turn; the longest turn is the structure's worst pause. */
static void
expire(struct side_by_side *s)
{
	const char *name = s->is_heap ? "heap" : "wheel";
	int64_t from, longest = 0;
	uint64_t before;

	for (uint64_t i = 0; i < n; i++)
		arm(s, job_nth(s, i),
			s->now_ns + 1 + (int64_t)rnd_below(&s->random, 30 * NS_PER_S));
	before = s->fired;
	from = bench_cpu_ns();
	while (s->fired - before < n) {
		int64_t at = clock_boot_ns(), took;

		pass(s, NS_PER_MS, false);
		took = clock_boot_ns() - at;
		longest = took > longest ? took : longest;
	}
	printf("timers-expire-%s %.1f ns\n", name, (double)(bench_cpu_ns() - from) / (double)n);
	printf("timers-expire-longest-turn-%s %.1f us\n", name, (double)longest / 1e3);
}

int
main(int argc, char **argv)
{
	static struct side_by_side v[2];

	n = bench_count(argc, argv, 1000000);
	for (int i = 0; i < 2; i++) {
		struct side_by_side *s = &v[i];

		s->is_heap = i == 1;
		s->now_ns = 1000 * NS_PER_S;
		s->random.s = 1;
		timers_init(&s->heap);
		wq_assert(slab_init(&s->jobs, sizeof(struct job), n) == 0);
		wq_assert(wheel_init(&s->wheel, &s->jobs, n) == 0);
		for (uint64_t k = 0; k < n; k++) {
			struct job *j = slab_take(&s->jobs);

			wq_assert(j == job_nth(s, k));
			*j = (struct job){ .magic = JOB_MAGIC };
			arm(s, j, s->now_ns + (int64_t)rnd_below(&s->random, 30 * NS_PER_S));
		}
	}
	duel("heartbeat", v, slice_heartbeats);
	duel("anywhere", v, slice_anywhere);
	for (int i = 0; i < 2; i++)
		expire(&v[i]);
	for (int i = 0; i < 2; i++) {
		timers_done(&v[i].heap);
		wheel_done(&v[i].wheel);
		slab_done(&v[i].jobs);
	}
	return 0;
}
