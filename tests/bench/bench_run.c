/*
 * Runs of /bin/true, one after the other and several at once: how many a second,
 * and what each costs the daemon's own thread. With a second argument the daemon
 * is that many MiB large, which must not matter.
 */
#include <string.h>

#include "bench/bench.h"
#include "run/runner.h"
#include "unit/poll_reactor.h"

#define AT_ONCE 16

struct bench {
	struct poll_reactor rx;
	struct runner *r;
	uint64_t started, ended, want;
};

static void
start(struct bench *b)
{
	static char command[] = "/bin/true";
	char *argv[] = { command, NULL };
	const struct handler h = {
		.name = "true",
		.command = argv,
		.umask = 022,
		.grace_ns = NS_PER_S,
		.output_max = 65536,
	};
	const struct run_start run = {
		.run_id = ++b->started,
		.queue = STR("bench"),
		.key = STR("key"),
		.generation = 1,
		.attempt = 1,
	};

	runner_start(b->r, &run, &h);
}

static void
on_started(void *ctx, uint64_t run_id, pid_t pid)
{
	(void)ctx;
	(void)run_id;
	(void)pid;
}

static void
on_not_started(void *ctx, uint64_t run_id, int error)
{
	(void)ctx;
	(void)run_id;
	(void)error;
	wq_assert(!"short of processes: close something and try again");
}

static void
on_ended(void *ctx, const struct run_end *end)
{
	struct bench *b = ctx;

	wq_assert(end->outcome == RUN_DONE);
	b->ended++;
	if (b->started < b->want)
		start(b);
}

static void
play(struct bench *b, const char *name, unsigned at_once, uint64_t count)
{
	int64_t from = clock_boot_ns(), cpu = bench_cpu_ns();

	b->started = b->ended = 0;
	b->want = count;
	for (unsigned i = 0; i < at_once; i++)
		start(b);
	while (b->ended < count)
		poll_reactor_turn(&b->rx, 1000);
	printf("%s %.0f 1/s\n", name,
		(double)count * (double)NS_PER_S / (double)(clock_boot_ns() - from));
	printf("%s-own-cpu %.1f us\n", name, (double)(bench_cpu_ns() - cpu) / 1e3 / (double)count);
}

int
main(int argc, char **argv)
{
	struct bench b = { 0 };
	const struct runner_config cfg = {
		.reactor = &b.rx.rx,
		.instance = "bench",
		.ctx = &b,
		.started = on_started,
		.not_started = on_not_started,
		.ended = on_ended,
	};
	uint64_t count = bench_count(argc, argv, 1000);
	size_t ballast = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) << 20 : 0;
	char *memory = must_alloc(ballast);

	memset(memory, 1, ballast);
	poll_reactor_init(&b.rx);
	wq_assert(runner_new(&cfg, &b.r) == 0);
	play(&b, "run-one-at-a-time", 1, count);
	play(&b, "run-16-at-once", AT_ONCE, count);
	runner_free(b.r);
	poll_reactor_done(&b.rx);
	x_free(memory);
	return 0;
}
