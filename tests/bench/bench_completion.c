/*
 * Waking many: what a completion costs against the transport under it.
 *
 *     bench_completion WQD [ROUNDS [stages | latency | figures]]
 *
 * Each round has two stages. In a stage 64 waiters wait for a completion, a
 * trigger opens it, and the stage is over when the last of them has read its
 * answer; that is the whole time. The trigger's own time is from its request to
 * its reply. Getting into place (closing the last one, waiting for the next) is
 * not timed. One process reads for all waiters, by epoll, and stays the same for
 * all servers, so that what differs is the server:
 *
 *     wqd 64x1     64 connections, one wait each
 *     wqd 8x8      8 connections, eight waits each
 *     raw          a process that answers each trigger by 64 writes: the transport alone
 *     redis        PUBLISH to 64 subscribers
 *     blpop        64 clients in BLPOP, an LPUSH of 64 values
 *
 * and inside one process, for scale: 64 eventfds, a broadcast to 64 threads.
 * The rounds of all are interleaved in blocks; a ratio is the median of the ratios of the medians
 * within a block.
 *
 * Then the trigger's own time by the number of waiters: waking_latency.c. `figures` are the stages as
 * one figure a line, for bench.py.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/waking.h"
#include "unit/remove_tree.h"

#define BLOCKS 25
#define STAGES 2

/* ---- the transport alone ---- */

/* Answers each byte on the first connection by one answer on each of the others, then on it. */
static void
raw_serve(const char *path)
{
	static const char answer[] = { 2, 8, 1 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int ln = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd[WAITERS + 1];
	char c;

	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	if (bind(ln, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(ln, 128) < 0)
		_exit(1);
	for (int i = 0; i <= WAITERS; i++)
		fd[i] = accept(ln, NULL, NULL);
	while (recv(fd[0], &c, 1, 0) == 1) {
		bench_write(fd[0], answer, sizeof answer);
		for (int i = 1; i <= WAITERS; i++)
			bench_write(fd[i], answer, sizeof answer);
	}
	_exit(0);
}

static void
raw_stage(struct reader *r, int trigger, struct samples *own, struct samples *whole)
{
	int64_t begin = bench_now_ns();

	bench_write(trigger, "x", 1);
	read_exactly(trigger, r->answer_bytes);
	sample(own, bench_now_ns() - begin);
	reader_take(r, WAITERS);
	sample(whole, bench_now_ns() - begin);
}

/* ---- redis ---- */

#define PUBLISH "*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nx\r\n"

static void
redis_stage(struct reader *r, int trigger, struct samples *own, struct samples *whole)
{
	int64_t begin = bench_now_ns();

	bench_write(trigger, PUBLISH, sizeof PUBLISH - 1);
	read_exactly(trigger, sizeof ":64\r\n" - 1);
	sample(own, bench_now_ns() - begin);
	reader_take(r, WAITERS);
	sample(whole, bench_now_ns() - begin);
}

static void
redis_subscribe(struct reader *r, const char *path)
{
	static const char subscribe[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n";
	static const char subscribed[] = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";

	r->answer_bytes = sizeof "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n" - 1;
	for (int i = 0; i < WAITERS; i++) {
		int fd = bench_connect(path);

		bench_write(fd, subscribe, sizeof subscribe - 1);
		read_exactly(fd, sizeof subscribed - 1);
		reader_add(r, fd);
	}
}

/* One LPUSH of as many values as wait in BLPOP. */
static void
blpop_stage(struct reader *r, int trigger, struct samples *own, struct samples *whole)
{
	static const char blpop[] = "*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n";
	static const char info[] = "*2\r\n$4\r\nINFO\r\n$7\r\nclients\r\n";
	static const char value[] = "$1\r\nx\r\n";
	char push[64 + sizeof value * WAITERS], text[4096];
	size_t n = (size_t)snprintf(
		push, sizeof push, "*%d\r\n$5\r\nLPUSH\r\n$1\r\nl\r\n", WAITERS + 2);
	int64_t begin;

	for (int i = 0; i < WAITERS; i++) {
		memcpy(push + n, value, sizeof value - 1);
		n += sizeof value - 1;
		bench_write(r->fd[i], blpop, sizeof blpop - 1);
	}
	do {
		ssize_t k;

		bench_write(trigger, info, sizeof info - 1);
		k = recv(trigger, text, sizeof text - 1, 0);
		text[k > 0 ? k : 0] = '\0';
	} while (!strstr(text, "blocked_clients:64\r"));
	begin = bench_now_ns();
	bench_write(trigger, push, n);
	read_exactly(trigger, sizeof ":64\r\n" - 1);
	sample(own, bench_now_ns() - begin);
	reader_take(r, WAITERS);
	sample(whole, bench_now_ns() - begin);
}

static void
redis_add_poppers(struct reader *r, const char *path)
{
	r->answer_bytes = sizeof "*2\r\n$1\r\nl\r\n$1\r\nx\r\n" - 1;
	for (int i = 0; i < WAITERS; i++)
		reader_add(r, bench_connect(path));
}

/* ---- inside one process ---- */

static void
eventfd_stage(const int fd[WAITERS], int epoll, struct samples *own, struct samples *whole)
{
	struct epoll_event ev[WAITERS];
	int64_t begin = bench_now_ns();
	uint64_t one = 1;
	int seen = 0;

	for (int i = 0; i < WAITERS; i++)
		if (write(fd[i], &one, sizeof one) != sizeof one)
			bench_die("eventfd");
	sample(own, bench_now_ns() - begin);
	while (seen < WAITERS) {
		int n = epoll_wait(epoll, ev, WAITERS, -1);

		for (int i = 0; i < n; i++, seen++)
			if (read(ev[i].data.fd, &one, sizeof one) != sizeof one)
				bench_die("eventfd");
	}
	sample(whole, bench_now_ns() - begin);
}

/* Guarded by `lock`. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t go, all;
	unsigned stage;
	int waiting, woken;
	bool over;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.go = PTHREAD_COND_INITIALIZER,
	.all = PTHREAD_COND_INITIALIZER };

static void *
gate_waiter(void *arg)
{
	pthread_mutex_lock(&gate.lock);
	while (!gate.over) {
		unsigned stage = gate.stage;

		if (++gate.waiting == WAITERS)
			pthread_cond_signal(&gate.all);
		while (gate.stage == stage && !gate.over)
			pthread_cond_wait(&gate.go, &gate.lock);
		if (++gate.woken == WAITERS)
			pthread_cond_signal(&gate.all);
	}
	pthread_mutex_unlock(&gate.lock);
	return arg;
}

static void
gate_stage(struct samples *own, struct samples *whole)
{
	int64_t begin;

	pthread_mutex_lock(&gate.lock);
	while (gate.waiting < WAITERS)
		pthread_cond_wait(&gate.all, &gate.lock);
	gate.waiting = gate.woken = 0;
	begin = bench_now_ns();
	gate.stage++;
	pthread_cond_broadcast(&gate.go);
	pthread_mutex_unlock(&gate.lock);
	sample(own, bench_now_ns() - begin);
	pthread_mutex_lock(&gate.lock);
	while (gate.woken < WAITERS)
		pthread_cond_wait(&gate.all, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	sample(whole, bench_now_ns() - begin);
}

/* ---- all of it ---- */

enum { WQD_64, WQD_8, RAW, REDIS, BLPOP, EVENTFD, CONDITION, N_KINDS };
static const char *const names[N_KINDS] = { "wqd 64x1", "wqd 8x8", "raw", "redis", "blpop",
	"eventfd", "condition" };

struct bench {
	char dir[64], wqd[108], raw[108], redis[108];
	pid_t wqd_pid, raw_pid, redis_pid; /* redis 0: not installed */
	struct reader r[N_KINDS];
	int trigger[N_KINDS];
	int event[WAITERS], event_epoll;
	pthread_t thread[WAITERS];
	struct samples own[N_KINDS], whole[N_KINDS];
	struct figure block[N_KINDS]; /* the median whole time of each block */
};

static void
start_wqd(struct bench *b, const char *program)
{
	char conf[128];
	char *argv[] = { (char *)(uintptr_t)program, (char[]){ "-c" }, conf, NULL };
	FILE *f;

	snprintf(conf, sizeof conf, "%s/conf", b->dir);
	snprintf(b->wqd, sizeof b->wqd, "%s/wqd", b->dir);
	f = fopen(conf, "we");
	if (!f)
		bench_die("%s: %s", conf, strerror(errno));
	fprintf(f, "state_dir = \"%s\"\nstore = \"memory\"\nlisten = { \"unix:%s\" }\n", b->dir,
		b->wqd);
	fclose(f);
	b->wqd_pid = bench_spawn(1, argv);
	b->trigger[WQD_64] = b->trigger[WQD_8] = wqd_connect(b->wqd);
	for (int i = 0; i < WAITERS; i++)
		reader_add(&b->r[WQD_64], wqd_connect(b->wqd));
	for (int i = 0; i < 8; i++)
		reader_add(&b->r[WQD_8], wqd_connect(b->wqd));
}

static void
start_others(struct bench *b)
{
	char *argv[] = { (char[]){ "redis-server" }, (char[]){ "--port" }, (char[]){ "0" },
		(char[]){ "--unixsocket" }, b->redis, (char[]){ "--save" }, (char[]){ "" }, NULL };

	snprintf(b->raw, sizeof b->raw, "%s/raw", b->dir);
	snprintf(b->redis, sizeof b->redis, "%s/redis", b->dir);
	b->raw_pid = fork();
	if (b->raw_pid == 0) {
		bench_pin(1);
		raw_serve(b->raw);
	}
	b->trigger[RAW] = bench_connect(b->raw);
	for (int i = 0; i < WAITERS; i++)
		reader_add(&b->r[RAW], bench_connect(b->raw));
	if (access("/usr/bin/redis-server", X_OK) == 0) {
		b->redis_pid = bench_spawn(1, argv);
		b->trigger[REDIS] = bench_connect(b->redis);
		redis_subscribe(&b->r[REDIS], b->redis);
		b->trigger[BLPOP] = bench_connect(b->redis);
		redis_add_poppers(&b->r[BLPOP], b->redis);
	}
	b->event_epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < WAITERS; i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		ev.data.fd = b->event[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		epoll_ctl(b->event_epoll, EPOLL_CTL_ADD, b->event[i], &ev);
		if (pthread_create(&b->thread[i], NULL, gate_waiter, NULL))
			bench_die("threads");
	}
}

static void
stage(struct bench *b, int kind, const char *name)
{
	struct samples *own = &b->own[kind], *whole = &b->whole[kind];

	if (kind == WQD_64)
		wqd_stage(&b->r[kind], b->trigger[kind], name, 1, own, whole);
	else if (kind == WQD_8)
		wqd_stage(&b->r[kind], b->trigger[kind], name, 8, own, whole);
	else if (kind == RAW)
		raw_stage(&b->r[kind], b->trigger[kind], own, whole);
	else if (kind == REDIS && b->redis_pid)
		redis_stage(&b->r[kind], b->trigger[kind], own, whole);
	else if (kind == BLPOP && b->redis_pid)
		blpop_stage(&b->r[kind], b->trigger[kind], own, whole);
	else if (kind == EVENTFD)
		eventfd_stage(b->event, b->event_epoll, own, whole);
	else if (kind == CONDITION)
		gate_stage(own, whole);
}

static void
report(struct bench *b)
{
	printf("%-10s %12s %12s %12s %12s %8s %8s\n", "", "own p50", "own p99", "whole p50",
		"whole p99", "to raw", "to redis");
	for (int k = 0; k < N_KINDS; k++)
		if (b->whole[k].n > 0)
			printf("%-10s %9.1f us %9.1f us %9.1f us %9.1f us %8.2f %8.2f\n", names[k],
				quantile(&b->own[k], .5), quantile(&b->own[k], .99),
				quantile(&b->whole[k], .5), quantile(&b->whole[k], .99),
				figure_ratio(&b->block[k], &b->block[RAW]),
				figure_ratio(&b->block[k], &b->block[REDIS]));
}

/* For bench.py: a figure, its value and its unit a line. */
static void
figures(struct bench *b)
{
	static const char *const word[N_KINDS] = { "64x1", "8x8", "raw", "publish", "blpop",
		"eventfd", "condition" };

	for (int k = 0; k < N_KINDS; k++) {
		if (b->whole[k].n == 0)
			continue;
		printf("wake-64-%s-trigger %.1f us\n", word[k], quantile(&b->own[k], .5));
		printf("wake-64-%s-whole %.1f us\n", word[k], quantile(&b->whole[k], .5));
	}
	printf("wake-64-to-raw %.2f x\n", figure_ratio(&b->block[WQD_64], &b->block[RAW]));
}

static void
stop_others(struct bench *b)
{
	pthread_mutex_lock(&gate.lock);
	gate.over = true;
	pthread_cond_broadcast(&gate.go);
	pthread_mutex_unlock(&gate.lock);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(b->thread[i], NULL);
	bench_stop(b->raw_pid);
	if (b->redis_pid)
		bench_stop(b->redis_pid);
}

/* One block of one kind, and the median of its whole times. */
static void
block(struct bench *b, int kind, int rounds)
{
	size_t before = b->whole[kind].n;
	struct samples these;

	for (int i = 0; i < rounds * STAGES; i++)
		stage(b, kind, i % STAGES ? "second" : "first");
	these = (struct samples){ .v = b->whole[kind].v + before, .n = b->whole[kind].n - before };
	if (these.n > 0)
		figure_add(&b->block[kind], quantile(&these, .5));
}

static void
stages(struct bench *b, int rounds)
{
	for (int i = 0; i < BLOCKS; i++)
		for (int k = 0; k < N_KINDS; k++)
			block(b, k, rounds < BLOCKS ? 1 : rounds / BLOCKS);
}

int
main(int argc, char **argv)
{
	static struct bench b;
	int rounds = argc > 2 ? atoi(argv[2]) : 1000;
	const char *part = argc > 3 ? argv[3] : "";

	if (argc < 2)
		bench_die("usage: bench_completion WQD [ROUNDS [stages | latency | figures]]");
	snprintf(b.dir, sizeof b.dir, "/tmp/wq-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		bench_die("no directory");
	for (int k = 0; k < N_KINDS; k++)
		reader_init(&b.r[k], 3);
	if (strcmp(part, "figures") != 0)
		bench_machine();
	bench_pin(0);
	start_wqd(&b, argv[1]);
	if (strcmp(part, "latency") != 0) {
		start_others(&b);
		stages(&b, rounds);
		(strcmp(part, "figures") == 0 ? figures : report)(&b);
		stop_others(&b);
	}
	if (strcmp(part, "stages") != 0 && strcmp(part, "figures") != 0)
		waking_latency(b.wqd, b.dir, rounds);
	bench_stop(b.wqd_pid);
	(void)remove_tree(b.dir);
	return 0;
}
