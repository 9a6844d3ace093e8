/*
 * A reschedule over the socket, beside what carrying the bytes costs and what
 * others take for it. Server on core 0, generator on core 1.
 *
 *   bench_socket [--wqd PROGRAM] [--jobs N] [--rounds N] [--ms N] [--no-peers] [--tcp PORT]
 *                [--only WORD OF A SHAPE] [--hogs N]
 *
 * With hogs as many processes compute on the server's core meanwhile, and read and write 16 MiB
 * each to be in the way of its memory too.
 */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bench/libwq_load.h"
#include "bench/peers.h"

/* clang-format off */
static const struct shape {
	const char *name;
	unsigned conns, depth;
	bool batch;
	const char *bar;
} shapes[] = {
	{ "1 connection, 1 in flight",   1,    1,   false, ">= 0.9 x libevent" },
	{ "1 connection, 64 in flight",  1,    64,  false, ">= 0.6 x epoll" },
	{ "1 connection, 256 in flight", 1,    256, false, ">= 0.6 x epoll" },
	{ "16 connections, 1 each",      16,   1,   false, ">= 0.9 x libevent" },
	{ "1000 connections, 1 each",    1000, 1,   false, ">= 0.9 x libevent" },
	{ "batches of 100, 4 in flight", 1,    4,   true,  ">= 3 M updates/s" },
};
/* clang-format on */
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* LIBWQ: wqd again, by a program that uses the library; LIBWQ_IDS: with an idempotency id each, as by
 * default. */
enum { WQD, EPOLL, LIBEVENT, LIBWQ, LIBWQ_IDS, REDIS, BEANSTALKD, N_SERVERS };

#define HOGS_MAX 16

struct bench {
	const char *program, *dir;
	uint64_t jobs;
	unsigned rounds;
	int64_t for_ns;
	bool peers;
	const char *only;
	int tcp;
	unsigned n_hogs;
	pid_t hogs[HOGS_MAX];
	struct server server[N_SERVERS];
	bool there[N_SERVERS];
	size_t request, reply; /* bytes, of one message of ours in this shape */
	struct figure rate[N_SERVERS];
	struct hist latency[N_SERVERS];
};

static char dir[64] = "/tmp/wq-bench-XXXXXX";

static void
hist_join(struct hist *to, const struct hist *from)
{
	to->count += from->count;
	to->max = from->max > to->max ? from->max : to->max;
	for (size_t i = 0; i < HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

static bool
is_libwq(int i)
{
	return i == LIBWQ || i == LIBWQ_IDS;
}

static void
run_libwq(struct bench *b, int i, const struct shape *sh, int64_t for_ns, struct load_result *r)
{
	char server[128];
	const struct libwq_load load = {
		.server = server,
		.options = i == LIBWQ ? "resend=no" : NULL,
		.n_keys = b->jobs,
		.depth = sh->depth,
		.batch = sh->batch,
		.for_ns = for_ns,
	};

	if (b->tcp)
		snprintf(server, sizeof server, "tcp://127.0.0.1:%d", b->tcp);
	else
		snprintf(server, sizeof server, "unix:%s", b->server[WQD].path);
	*r = (struct load_result){ 0 };
	r->per_s = libwq_run(&load, sh->depth == 1 ? &r->latency : NULL);
}

static void
run_once(struct bench *b, int i, const struct shape *sh, bool counts)
{
	const struct load load = { sh->conns, sh->depth, counts ? b->for_ns : b->for_ns / 4 };
	static struct load_result r;

	if (is_libwq(i))
		run_libwq(b, i, sh, load.for_ns, &r);
	else
		load_run(&b->server[i], &load, &r);
	if (!counts && i == WQD) {
		b->request = (size_t)(r.request_bytes + 0.5);
		b->reply = (size_t)(r.reply_bytes + 0.5);
	}
	if (!counts)
		return;
	figure_add(&b->rate[i], r.per_s);
	hist_join(&b->latency[i], &r.latency);
}

/* Echo servers are made anew for the sizes of this shape. */
static void
echoes_start(struct bench *b)
{
	static char path[2][96], port[2][16];
	static const char *const kind[] = { "epoll", "libevent" };

	for (int i = 0; i < 2; i++) {
		struct server *s = &b->server[EPOLL + i];

		snprintf(path[i], sizeof path[i], "%s/%s.sock", b->dir, kind[i]);
		snprintf(port[i], sizeof port[i], "%d", b->tcp + 1 + i);
		unlink(path[i]);
		echo_start(s, kind[i], b->tcp ? port[i] : path[i], b->request, b->reply);
		b->there[EPOLL + i] = true;
	}
}

static void
print_latency(const struct bench *b)
{
	for (int i = 0; i < N_SERVERS; i++)
		if (b->latency[i].count)
			printf("  latency %-10s p50 %.1f us  p99 %.1f us  p99.9 %.1f us\n",
				b->server[i].name, (double)hist_quantile(&b->latency[i], 500) / 1e3,
				(double)hist_quantile(&b->latency[i], 990) / 1e3,
				(double)hist_quantile(&b->latency[i], 999) / 1e3);
}

static void
print_shape(const struct bench *b, const struct shape *sh)
{
	unsigned per = sh->batch ? UPDATES_PER_BATCH : 1;
	char si[16];

	printf("\n%s%s: %zu -> %zu bytes; bar %s\n", sh->name, b->tcp ? ", TCP" : "", b->request,
		b->reply, sh->bar);
	for (int i = 0; i < N_SERVERS; i++) {
		if (!b->rate[i].n)
			continue;
		printf("  %-10s %10s/s  spread %3.0f %%", b->server[i].name,
			bench_si(figure_median(&b->rate[i]) * (i <= LIBWQ_IDS ? per : 1), si),
			figure_spread(&b->rate[i]));
		if (i != WQD)
			printf("  wqd is %.2f x", figure_ratio(&b->rate[WQD], &b->rate[i]));
		putchar('\n');
	}
	print_latency(b);
	fflush(stdout);
}

static bool
takes_part(const struct bench *b, int i, const struct shape *sh)
{
	return b->there[i] && !(sh->batch && i > LIBWQ_IDS);
}

static void
run_shape(struct bench *b, const struct shape *sh)
{
	wqd_use(&b->server[WQD], sh->batch ? WQD_BATCH : WQD_UPDATE);
	memset(b->rate, 0, sizeof b->rate);
	memset(b->latency, 0, sizeof b->latency);
	run_once(b, WQD, sh, false);
	echoes_start(b);
	b->there[LIBWQ] = b->there[LIBWQ_IDS] = sh->conns == 1;
	for (int i = EPOLL; i < N_SERVERS; i++)
		if (takes_part(b, i, sh))
			run_once(b, i, sh, false);
	for (unsigned r = 0; r < b->rounds; r++)
		for (int i = 0; i < N_SERVERS; i++)
			if (takes_part(b, i, sh))
				run_once(b, i, sh, true);
	print_shape(b, sh);
	for (int i = EPOLL; i <= LIBEVENT; i++) {
		bench_stop(b->server[i].pid);
		b->server[i].pid = 0;
	}
}

static void
options(struct bench *b, int argc, char **argv)
{
	static const struct option known[] = {
		{ "wqd", required_argument, NULL, 'w' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "ms", required_argument, NULL, 'm' },
		{ "no-peers", no_argument, NULL, 'n' },
		{ "only", required_argument, NULL, 'o' },
		{ "tcp", required_argument, NULL, 't' },
		{ "hogs", required_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'w')
			b->program = optarg;
		else if (c == 'j')
			b->jobs = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			b->rounds = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'm')
			b->for_ns = (int64_t)strtoll(optarg, NULL, 10) * 1000000;
		else if (c == 'n')
			b->peers = false;
		else if (c == 'o')
			b->only = optarg;
		else if (c == 't')
			b->tcp = (int)strtol(optarg, NULL, 10);
		else if (c == 'h')
			b->n_hogs = (unsigned)strtoul(optarg, NULL, 10);
		else
			exit(2);
	}
	if (b->jobs == 0 || b->rounds == 0 || b->rounds > ROUNDS_MAX || b->for_ns <= 0 ||
		b->n_hogs > HOGS_MAX)
		bench_die("jobs, rounds (at most %d) and ms are from 1 on, hogs at most %d",
			ROUNDS_MAX, HOGS_MAX);
}

/* Until it is killed, or this program ends. */
static _Noreturn void
be_a_hog(void)
{
	size_t n = 16u << 20, at = 0;
	volatile unsigned char *v = must_zalloc(n);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	for (;;) {
		v[at]++;
		at = (at * 1103515245 + 12345) % n;
	}
}

static void
hogs_start(struct bench *b)
{
	for (unsigned i = 0; i < b->n_hogs; i++) {
		b->hogs[i] = fork();
		if (b->hogs[i] < 0)
			bench_die("no hog");
		if (b->hogs[i] == 0)
			be_a_hog();
	}
	if (b->n_hogs > 0)
		printf("%u processes compute on the server's core meanwhile\n", b->n_hogs);
}

static void
clean_up(void)
{
	char *argv[] = { (char[]){ "rm" }, (char[]){ "-rf" }, dir, NULL };

	bench_wait(bench_spawn(1, argv));
}

int
main(int argc, char **argv)
{
	static struct bench b = {
		.program = "daemon/wqd",
		.dir = dir,
		.jobs = 1000000,
		.rounds = 5,
		.for_ns = 500000000,
		.peers = true,
	};
	static char port[16];

	options(&b, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir))
		bench_die("no folder %s", dir);
	bench_pin(1);
	bench_machine();
	printf("reschedule of a random one of %llu jobs, level memory; %u rounds of %lld ms\n",
		(unsigned long long)b.jobs, b.rounds, (long long)b.for_ns / 1000000);
	wqd_start(&b.server[WQD], b.program, dir, b.jobs, b.tcp);
	if (b.tcp) {
		snprintf(port, sizeof port, "%d", b.tcp);
		b.server[WQD].path = port;
	}
	b.there[WQD] = true;
	b.server[LIBWQ].name = "libwq";
	b.server[LIBWQ_IDS].name = "libwq, ids";
	if (b.peers && !b.tcp) {
		b.there[REDIS] = redis_start(&b.server[REDIS], dir, b.jobs);
		b.there[BEANSTALKD] = beanstalkd_start(&b.server[BEANSTALKD], dir, b.jobs);
	}
	hogs_start(&b);
	for (size_t i = 0; i < N_SHAPES; i++)
		if (!b.only || strstr(shapes[i].name, b.only))
			run_shape(&b, &shapes[i]);
	for (unsigned i = 0; i < b.n_hogs; i++)
		bench_stop(b.hogs[i]);
	for (int i = 0; i < N_SERVERS; i++)
		bench_stop(b.server[i].pid);
	clean_up();
	return 0;
}
