/*
 * What an update saves against cancel and queue again: the comparison that came
 * with the kernel's mod_delayed_work, over the socket, one at a time.
 *
 *   bench_seed [WQD [ROUNDS [MILLISECONDS]]]
 *
 * Three kinds of update. Plain: the deadline moves, half the messages. Inside
 * the slack: the same message, less work at the daemon. By the library
 * (sole_updater): most calls send nothing, so that is work not done rather than
 * work made cheap; the daemon sees one message for each slack that passes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/peers.h"
#include "wq.h"

#define CLIENTS 16
#define CALLS   1000 /* between two looks at the clock */

static char dir[64] = "/tmp/wq-bench-XXXXXX";
static struct server wqd;
static unsigned rounds = 5;
static int64_t for_ns = 500000000;

enum { PLAIN, SLACK, LIBRARY, CANCEL, CANCEL_WAIT, TOGETHER, N_WAYS };

/* Nanoseconds of one, over the socket. */
static double
measure(enum seed_op op, unsigned clients, unsigned depth, bool fallback)
{
	const struct load load = { clients, depth, for_ns };
	static struct load_result r;

	seed_use(&wqd, op, fallback);
	load_run(&wqd, &load, &r);
	return (op == SEED_CANCEL_QUEUE || op == SEED_CANCEL_WAIT_QUEUE ? 2e9 : 1e9) / r.per_s;
}

static void
must(int err, const char *what)
{
	if (err < 0)
		bench_die("%s: %s", what, wq_strerror(err));
}

/* Calls of one thread that updates `keys` jobs in turn, each inside its slack mostly. */
static double
measure_library(unsigned keys, bool fallback)
{
	static unsigned times;
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	char name[CLIENTS][24], server[128];
	uint64_t calls = 0;
	int64_t start, now;
	wq_t *wq;

	snprintf(server, sizeof server, "unix:%s", wqd.path);
	must(wq_connect(server, "sole_updater=yes", &wq), "connect");
	opts.slack_ms = 100000;
	opts.durability = WQ_MEMORY;
	for (unsigned i = 0; i < keys; i++)
		snprintf(name[i], sizeof name[i], "sole-%u-%u", times, i);
	/* Jobs of this handle alone: what an earlier one armed it knows nothing of. */
	times++;
	start = now = bench_now_ns();
	while (now - start < for_ns) {
		for (unsigned i = 0; i < CALLS; i++, calls++)
			must(wq_update(wq, fallback ? NULL : "bench", name[i % keys], 3600000,
				     &opts, NULL),
				"update");
		now = bench_now_ns();
	}
	wq_free(wq);
	return (double)(now - start) / (double)calls;
}

/* TOGETHER: cancel and update leave with one write, a round trip for both. */
static void
compare(const char *what, unsigned clients, unsigned depth, bool fallback)
{
	static const char *const names[N_WAYS] = { "update", "update inside the slack",
		"update, by the library", "cancel + queue", "cancel wait + queue",
		"cancel + queue, one write" };
	struct figure ns[N_WAYS] = { 0 };

	for (unsigned r = 0; r < rounds; r++) {
		figure_add(&ns[PLAIN], measure(SEED_UPDATE, clients, depth, fallback));
		figure_add(&ns[SLACK], measure(SEED_SLACK, clients, depth, fallback));
		figure_add(&ns[LIBRARY], measure_library(clients, fallback));
		figure_add(&ns[CANCEL], measure(SEED_CANCEL_QUEUE, clients, depth, fallback));
		figure_add(&ns[CANCEL_WAIT],
			measure(SEED_CANCEL_WAIT_QUEUE, clients, depth, fallback));
		if (depth == 1)
			figure_add(&ns[TOGETHER], measure(SEED_CANCEL_QUEUE, clients, 2, fallback));
	}
	printf("\n%s\n", what);
	for (int i = 0; i < N_WAYS && ns[i].n; i++) {
		printf("  %-26s %10.0f ns  spread %3.0f %%", names[i], figure_median(&ns[i]),
			figure_spread(&ns[i]));
		if (i < CANCEL)
			printf("  saves %.2f %% of cancel + queue, %.2f %% of cancel wait + queue",
				100 * (1 - figure_ratio(&ns[i], &ns[CANCEL])),
				100 * (1 - figure_ratio(&ns[i], &ns[CANCEL_WAIT])));
		putchar('\n');
	}
	fflush(stdout);
}

/* What an update saves at others, one at a time: two requests against one. */
static void
compare_peer(const char *name, struct server *s, void (*again)(struct server *s))
{
	const struct load load = { 1, 1, for_ns };
	struct figure update = { 0 }, both = { 0 };
	static struct load_result r;
	const struct server plain = *s;

	for (unsigned k = 0; k < rounds; k++) {
		*s = plain;
		load_run(s, &load, &r);
		figure_add(&update, 1e9 / r.per_s);
		again(s);
		load_run(s, &load, &r);
		figure_add(&both, 2e9 / r.per_s);
	}
	printf("\n%s, 1000 jobs, one client\n  update %22.0f ns  spread %3.0f %%  saves %.1f %%\n",
		name, figure_median(&update), figure_spread(&update),
		100 * (1 - figure_ratio(&update, &both)));
	printf("  cancel + queue %14.0f ns  spread %3.0f %%\n", figure_median(&both),
		figure_spread(&both));
	bench_stop(s->pid);
}

int
main(int argc, char **argv)
{
	static struct server peer;
	char *rm[] = { (char[]){ "rm" }, (char[]){ "-rf" }, dir, NULL };

	if (argc > 2)
		rounds = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		for_ns = (int64_t)strtoll(argv[3], NULL, 10) * 1000000;
	if (rounds == 0 || rounds > ROUNDS_MAX || for_ns <= 0)
		bench_die("usage: bench_seed [WQD [ROUNDS [MILLISECONDS]]]");
	if (!mkdtemp(dir))
		bench_die("no folder %s", dir);
	bench_pin(1);
	bench_machine();
	wqd_start(&wqd, argc > 1 ? argv[1] : "daemon/wqd", dir, 1000, 0);
	compare("same key, one client", 1, 1, false);
	compare("16 keys, 16 clients", CLIENTS, 1, false);
	compare("same key, one client, queue default", 1, 1, true);
	compare("16 keys, 16 clients, queue default", CLIENTS, 1, true);
	compare("same key, one client, 64 in flight", 1, 64, false);
	bench_stop(wqd.pid);
	if (redis_start(&peer, dir, 1000))
		compare_peer("Redis, keyed job", &peer, redis_use_again);
	if (beanstalkd_start(&peer, dir, 1000))
		compare_peer("beanstalkd", &peer, beanstalkd_use_again);
	bench_wait(bench_spawn(1, rm));
	return 0;
}
