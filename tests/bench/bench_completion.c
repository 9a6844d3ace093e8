/*
 * Waking many: what a completion costs against the transport under it.
 *
 *     bench_completion WQD [ROUNDS]
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
 * The rounds of all are interleaved in blocks.
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
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/kit.h"

#define WAITERS     64
#define WAITERS_MAX 1000
#define BLOCKS      10
#define STAGES      2
#define WARM        20

/* ---- samples ---- */

struct samples {
	double *v; /* microseconds */
	size_t n, cap;
};

static void
sample(struct samples *s, int64_t ns)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->v = realloc(s->v, s->cap * sizeof *s->v);
		if (!s->v)
			bench_die("no memory");
	}
	s->v[s->n++] = (double)ns / 1000;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
quantile(struct samples *s, double q)
{
	if (s->n == 0)
		return 0;
	qsort(s->v, s->n, sizeof *s->v, by_size);
	return s->v[(size_t)((double)(s->n - 1) * q)];
}

/* ---- the reader: connections, and answers on them ---- */

struct reader {
	int epoll;
	int fd[WAITERS_MAX];
	int n;
	size_t answer_bytes; /* of one answer; all are alike */
};

static void
reader_add(struct reader *r, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		bench_die("epoll: %s", strerror(errno));
	r->fd[r->n++] = fd;
}

/* Reads until `n` answers have come. */
static void
reader_take(struct reader *r, size_t n)
{
	struct epoll_event ev[64];
	size_t bytes = 0, want = n * r->answer_bytes;
	char buf[16384];

	while (bytes < want) {
		int got = epoll_wait(r->epoll, ev, 64, 10000);

		if (got <= 0)
			bench_die("%zu bytes of %zu came", bytes, want);
		for (int i = 0; i < got; i++) {
			ssize_t k = recv(ev[i].data.fd, buf, sizeof buf, MSG_DONTWAIT);

			if (k <= 0)
				bench_die("a server went away");
			bytes += (size_t)k;
		}
	}
}

static void
read_exactly(int fd, size_t n)
{
	char buf[4096];

	while (n > 0) {
		ssize_t k = recv(fd, buf, n < sizeof buf ? n : sizeof buf, 0);

		if (k <= 0)
			bench_die("a server went away");
		n -= (size_t)k;
	}
}

/* ---- wqd ---- */

enum { OP_WAIT = 36, OP_COMPLETE_ALL = 38, OP_REINIT = 39, OP_SHOW = 40 };

/* A request {id 1, op {name}} as a frame. Returns its length. */
static size_t
request(unsigned char *p, int op, const char *name)
{
	size_t n = strlen(name), at = 0;

	p[at++] = (unsigned char)(2 + 3 + 2 + n);
	p[at++] = 0x08;
	p[at++] = 1;
	p[at++] = (unsigned char)((op << 3 | 2) & 0x7f) | 0x80;
	p[at++] = (unsigned char)((op << 3 | 2) >> 7);
	p[at++] = (unsigned char)(2 + n);
	p[at++] = 0x0a;
	p[at++] = (unsigned char)n;
	memcpy(p + at, name, n);
	return at + n;
}

static void
read_reply(int fd)
{
	unsigned char n;

	if (recv(fd, &n, 1, 0) != 1 || n > 127)
		bench_die("wqd: no reply");
	read_exactly(fd, n);
}

/* A connection that has said hello. A hello's reply may be longer than one byte tells. */
static int
wqd_connect(const char *path)
{
	static const unsigned char hello[] = { 0x06, 0x08, 0x01, 0x52, 0x02, 0x08, 0x01 };
	int fd = bench_connect(path);
	unsigned char n[2];
	size_t len;

	bench_write(fd, hello, sizeof hello);
	if (recv(fd, n, 1, MSG_WAITALL) != 1)
		bench_die("wqd: no hello");
	len = n[0] & 0x7f;
	if (n[0] & 0x80) {
		if (recv(fd, n + 1, 1, MSG_WAITALL) != 1)
			bench_die("wqd: no hello");
		len |= (size_t)n[1] << 7;
	}
	read_exactly(fd, len);
	return fd;
}

static void
wqd_call(int fd, int op, const char *name)
{
	unsigned char buf[64];

	bench_write(fd, buf, request(buf, op, name));
	read_reply(fd);
}

/* How many wait, by completion_show. Its reply: id, then the completion with its name, its waiters
 * and its level; a closed one at 0 says nothing of those. */
static uint64_t
waiters_of(int fd, const char *name)
{
	unsigned char buf[128], n;
	size_t at = 2 + 2 + 1 + 2 + strlen(name);
	uint64_t v = 0;

	bench_write(fd, buf, request(buf, OP_SHOW, name));
	if (recv(fd, &n, 1, 0) != 1 || n > sizeof buf || recv(fd, buf, n, MSG_WAITALL) != n)
		bench_die("wqd: no reply");
	if (at >= n || buf[at] != 0x20)
		return 0;
	for (int shift = 0; ++at < n; shift += 7) {
		v |= (uint64_t)(buf[at] & 0x7f) << shift;
		if (!(buf[at] & 0x80))
			break;
	}
	return v;
}

/* All wait for `name`, `each` on a connection, and the daemon has them. */
static void
wqd_wait(struct reader *r, int trigger, const char *name, int each)
{
	unsigned char buf[64 * 16];
	size_t n = 0;

	for (int i = 0; i < each; i++)
		n += request(buf + n, OP_WAIT, name);
	for (int i = 0; i < r->n; i++)
		bench_write(r->fd[i], buf, n);
	while (waiters_of(trigger, name) < (uint64_t)r->n * (uint64_t)each)
		;
}

static void
wqd_stage(struct reader *r, int trigger, const char *name, int each, int warm, struct samples *own,
	struct samples *whole)
{
	unsigned char buf[64];
	size_t n = request(buf, OP_COMPLETE_ALL, name);
	int64_t begin;

	wqd_call(trigger, OP_REINIT, name);
	wqd_wait(r, trigger, name, each);
	for (int i = 0; i < warm; i++)
		wqd_call(trigger, i % 2 ? OP_REINIT : OP_COMPLETE_ALL, "other");
	begin = bench_now_ns();
	bench_write(trigger, buf, n);
	read_reply(trigger);
	sample(own, bench_now_ns() - begin);
	reader_take(r, (size_t)r->n * (size_t)each);
	sample(whole, bench_now_ns() - begin);
}

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
};

static void
reader_init(struct reader *r, size_t answer_bytes)
{
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	r->n = 0;
	r->answer_bytes = answer_bytes;
}

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
		wqd_stage(&b->r[kind], b->trigger[kind], name, 1, 0, own, whole);
	else if (kind == WQD_8)
		wqd_stage(&b->r[kind], b->trigger[kind], name, 8, 0, own, whole);
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

/* The trigger's own time, from one waiter to a thousand; and again after a few requests that have
 * nothing to do with it, so that both sides' caches hold what a request needs: what is left of the
 * difference then is work, and what is gone was what a thousand waits had pushed out. */
static void
latency(struct bench *b)
{
	static const int counts[] = { 1, 4, 16, 64, 256, 1000 };
	double one = 0, one_warm = 0;

	printf("\n%-10s %10s %10s %8s %10s %8s\n", "waiters", "own p50", "own p99", "to 1",
		"warm p50", "to 1");
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct samples own = { 0 }, warm = { 0 }, whole = { 0 };
		struct reader r;
		double p50, p50_warm;

		reader_init(&r, 3);
		for (int k = 0; k < counts[i]; k++)
			reader_add(&r, wqd_connect(b->wqd));
		for (int round = 0; round < 300; round++)
			wqd_stage(&r, b->trigger[WQD_64], "latency", 1, 0, &own, &whole);
		for (int round = 0; round < 300; round++)
			wqd_stage(&r, b->trigger[WQD_64], "latency", 1, WARM, &warm, &whole);
		p50 = quantile(&own, .5);
		p50_warm = quantile(&warm, .5);
		one = i ? one : p50;
		one_warm = i ? one_warm : p50_warm;
		printf("%-10d %8.1f us %7.1f us %7.2f %8.1f us %7.2f\n", counts[i], p50,
			quantile(&own, .99), p50 / one, p50_warm, p50_warm / one_warm);
		for (int k = 0; k < r.n; k++)
			close(r.fd[k]);
		close(r.epoll);
		free(own.v);
		free(warm.v);
		free(whole.v);
	}
}

static void
report(struct bench *b)
{
	double raw = quantile(&b->whole[RAW], .5);

	printf("%-10s %12s %12s %12s %12s %8s\n", "", "own p50", "own p99", "whole p50",
		"whole p99", "to raw");
	for (int k = 0; k < N_KINDS; k++)
		if (b->whole[k].n > 0)
			printf("%-10s %9.1f us %9.1f us %9.1f us %9.1f us %8.2f\n", names[k],
				quantile(&b->own[k], .5), quantile(&b->own[k], .99),
				quantile(&b->whole[k], .5), quantile(&b->whole[k], .99),
				quantile(&b->whole[k], .5) / raw);
}

static void
stop(struct bench *b)
{
	pthread_mutex_lock(&gate.lock);
	gate.over = true;
	pthread_cond_broadcast(&gate.go);
	pthread_mutex_unlock(&gate.lock);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(b->thread[i], NULL);
	bench_stop(b->wqd_pid);
	bench_stop(b->raw_pid);
	if (b->redis_pid)
		bench_stop(b->redis_pid);
}

int
main(int argc, char **argv)
{
	static struct bench b;
	int rounds = argc > 2 ? atoi(argv[2]) : 1000;

	if (argc < 2)
		bench_die("usage: bench_completion WQD [ROUNDS]");
	snprintf(b.dir, sizeof b.dir, "/tmp/wq-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		bench_die("no directory");
	for (int k = 0; k < N_KINDS; k++)
		reader_init(&b.r[k], 3);
	bench_machine();
	bench_pin(0);
	start_wqd(&b, argv[1]);
	start_others(&b);
	for (int block = 0; block < BLOCKS; block++)
		for (int k = 0; k < N_KINDS; k++)
			for (int i = 0; i < rounds / BLOCKS * STAGES; i++)
				stage(&b, k, i % STAGES ? "second" : "first");
	report(&b);
	latency(&b);
	stop(&b);
	return 0;
}
