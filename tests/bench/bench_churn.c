/*
 * Memory under churn: `bench_churn JOBS OPERATIONS`. Of so many live jobs with
 * keys of 16 to 48 bytes and payloads of up to 256, random ones are put off or
 * hurried, given another payload, deleted and made anew under other keys, while
 * time passes and deadlines are reached. What is resident at the end, and at its
 * most, stands beside what it was when the jobs had just been made.
 */
#include <string.h>

#include "bench/bench.h"
#include "engine/engine.h"

#define KEY_LEN_MAX 48
#define SAMPLES     100
#define HOUR_NS     (3600 * NS_PER_S)

static struct engine *e;
static struct effects fx;
static struct moment now = { 1000 * NS_PER_S, 1767225600 * NS_PER_S };
static uint64_t tickets;
static uint32_t *lives; /* of each place: how many jobs it has had; its key tells both */
static uint64_t updates, payloads, deletes;

static struct job_name
name_of(char key[KEY_LEN_MAX], uint64_t place)
{
	uint64_t n = 16 + (place * 2654435761u + lives[place]) % (KEY_LEN_MAX - 15);
	uint64_t v = place << 24 | (lives[place] & 0xffffff);

	memset(key, 'x', n);
	for (uint64_t i = 1; i <= 16; i++, v >>= 4)
		key[n - i] = "0123456789abcdef"[v & 15];
	return (struct job_name){ .queue = STR("default"), .key = { key, n } };
}

static void
step(const struct engine_event *ev)
{
	effects_clear(&fx);
	engine_step(e, now, ev, &fx);
}

static void
update(uint64_t place, struct rnd *r, bool payload)
{
	static char bytes[256];
	char key[KEY_LEN_MAX];
	struct op_update op = {
		.job = name_of(key, place),
		.when_ns = HOUR_NS + (int64_t)rnd_below(r, HOUR_NS / NS_PER_MS) * NS_PER_MS,
		.slack_ns = -1,
		.max_wait_ns = -1,
		.level = LEVEL_MEMORY,
	};
	const struct engine_event ev = { .kind = EV_UPDATE, .ticket = ++tickets, .update = &op };
	struct job_reply reply;
	bool durable;

	if (payload) {
		op.payload_mode = PAYLOAD_REPLACE;
		op.payload = (struct str){ bytes, 1 + rnd_below(r, sizeof bytes) };
		payloads++;
	} else if (engine_reschedule(e, now, &op, 0, &reply, &durable)) {
		updates++;
		return;
	}
	step(&ev);
	wq_assert(fx.n >= 1 && !status_is_error(fx.v[0].reply.status));
}

static void
delete_and_make(uint64_t place, struct rnd *r)
{
	char key[KEY_LEN_MAX];
	const struct op_job op = { .job = name_of(key, place), .level = LEVEL_MEMORY };
	const struct engine_event ev = { .kind = EV_DELETE, .ticket = ++tickets, .job = &op };

	step(&ev);
	lives[place]++;
	deletes++;
	update(place, r, true);
}

static void
churn(uint64_t n, uint64_t ops, uint64_t *most)
{
	const struct engine_event tick = { .kind = EV_TICK };
	struct rnd r = { 11 };

	for (uint64_t i = 0; i < ops; i++) {
		uint64_t place = rnd_below(&r, n), what = rnd_below(&r, 100);

		now.boot_ns += 20 * NS_PER_US;
		now.wall_ns += 20 * NS_PER_US;
		if (what < 60)
			update(place, &r, false);
		else if (what < 80)
			update(place, &r, true);
		else
			delete_and_make(place, &r);
		if (i % 64 == 0 && engine_next_due(e, now) <= now.boot_ns)
			step(&tick);
		if (i % (ops / SAMPLES + 1) == 0 && bench_resident_bytes() > *most)
			*most = bench_resident_bytes();
	}
}

int
main(int argc, char **argv)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	uint64_t n = bench_count(argc, argv, 1000000), ops = 10000000, empty, full, most = 0, end;
	struct rnd r = { 1 };
	struct engine_stats st;

	if (argc > 2)
		ops = strtoull(argv[2], NULL, 10);
	cfg.max_jobs = 2 * n;
	wq_assert(engine_new(&cfg, &e) == 0);
	effects_init(&fx);
	lives = must_zalloc(n * sizeof *lives);
	memset(lives, 0, n * sizeof *lives);
	empty = bench_resident_bytes();
	for (uint64_t i = 0; i < n; i++)
		update(i, &r, true);
	full = bench_resident_bytes() - empty;
	churn(n, ops, &most);
	end = bench_resident_bytes() - empty;
	engine_stats_get(e, &st);
	printf("churn-bytes-a-job-at-first %.1f bytes\n", (double)full / (double)n);
	printf("churn-bytes-a-job-at-the-end %.1f bytes\n", (double)end / (double)st.jobs);
	printf("churn-bytes-at-the-most %.1f bytes\n", (double)(most - empty) / (double)n);
	printf("churn-resident-at-the-end %.3f of-first\n", (double)end / (double)full);
	printf("churn-plain-updates %.0f times\n", (double)updates);
	printf("churn-payloads-replaced %.0f times\n", (double)payloads);
	printf("churn-deletes-and-inserts %.0f times\n", (double)deletes);
	printf("churn-expired %.0f times\n", (double)st.expired);
	x_free(lives);
	effects_done(&fx);
	engine_free(e);
	return 0;
}
