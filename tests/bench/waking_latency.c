/*
 * The trigger's own time, from one waiter to a thousand.
 *
 * A round places all waits, then asks once and takes the time to the reply. What
 * is asked is one of two: the trigger itself, or, in the very same state, to open
 * a completion that nobody waits for (idle). The daemon can't tell them apart but
 * by the waiters of the name; where both take the same, what grows with their
 * number is not work for them.
 *
 * The bare server does what any server must: it reads each wait from its socket,
 * answers the trigger, and then writes to all. What its trigger loses from one
 * waiter to a thousand is the price of a thousand sockets having been touched just
 * before (caches, translations), on both sides.
 *
 * Warm: between waits and question a few requests of another name, so that the
 * caches of both sides hold again what a request needs.
 *
 * All numbers of waiters, servers and questions are interleaved.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/waking.h"

#define WARM     20
#define N_COUNTS 6
/* Of one poll: as many as libevent comes to take. The next poll asks all of them again. */
#define EVENTS 4096

static const int counts[N_COUNTS] = { 1, 4, 16, 64, 256, 1000 };

/* ---- the bare server ---- */

enum bare_ask { BARE_COUNT = 'c', BARE_REINIT = 'r', BARE_IDLE = 'i', BARE_OPEN = 'o' };

#define BARE_ANSWER 3

struct bare {
	int epoll, trigger, n, waiting;
	int fd[WAITERS_MAX];
};

static void
bare_watch(struct bare *b, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		_exit(1);
}

static void
bare_answer(struct bare *b, unsigned char ask)
{
	unsigned char answer[BARE_ANSWER] = { 2, (unsigned char)(b->waiting & 0xff),
		(unsigned char)(b->waiting >> 8) };

	bench_write(b->trigger, answer, sizeof answer);
	if (ask != BARE_OPEN)
		return;
	for (int i = 0; i < b->n; i++)
		bench_write(b->fd[i], answer, sizeof answer);
	b->waiting = 0;
}

static void
bare_turn(struct bare *b)
{
	static struct epoll_event ev[EVENTS];
	int n = epoll_wait(b->epoll, ev, EVENTS, -1);
	unsigned char buf[256];

	for (int i = 0; i < n; i++) {
		ssize_t k = recv(ev[i].data.fd, buf, sizeof buf, MSG_DONTWAIT);

		if (k <= 0)
			_exit(0);
		if (ev[i].data.fd == b->trigger)
			bare_answer(b, buf[0]);
		else
			b->waiting++;
	}
}

/* A child with `n` connections and, first, that of the trigger. */
static pid_t
bare_start(const char *path, int n)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	static struct bare b;
	pid_t pid = fork();
	int ln;

	if (pid != 0)
		return pid;
	bench_pin(1);
	ln = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	if (bind(ln, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(ln, 1024) < 0)
		_exit(1);
	b.epoll = epoll_create1(EPOLL_CLOEXEC);
	b.n = n;
	b.trigger = accept(ln, NULL, NULL);
	bare_watch(&b, b.trigger);
	for (int i = 0; i < n; i++)
		bare_watch(&b, b.fd[i] = accept(ln, NULL, NULL));
	for (;;)
		bare_turn(&b);
}

static int
bare_call(int fd, enum bare_ask ask)
{
	unsigned char c = (unsigned char)ask, answer[BARE_ANSWER];

	bench_write(fd, &c, 1);
	if (recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer)
		bench_die("the bare server went away");
	return answer[1] | answer[2] << 8;
}

/* ---- one number of waiters ---- */

enum { TRIGGER, IDLE, N_ASKS };

/* One server with so many waiters on it, and what was measured. */
struct place {
	struct reader r;
	int trigger;
	bool bare;
	pid_t pid; /* of the bare server */
	struct samples own[N_ASKS][2];
};

static void
place_waits(struct place *p)
{
	unsigned char buf[64];
	size_t n = wqd_request(buf, OP_WAIT, "latency");

	if (!p->bare) {
		wqd_call(p->trigger, OP_REINIT, "latency");
		wqd_call(p->trigger, OP_REINIT, "idle");
		wqd_wait(&p->r, p->trigger, "latency", 1);
		return;
	}
	bare_call(p->trigger, BARE_REINIT);
	bare_call(p->trigger, BARE_REINIT);
	for (int i = 0; i < p->r.n; i++)
		bench_write(p->r.fd[i], buf, n);
	while (bare_call(p->trigger, BARE_COUNT) < p->r.n)
		;
}

static void
place_ask(struct place *p, bool idle)
{
	if (p->bare)
		bare_call(p->trigger, idle ? BARE_IDLE : BARE_OPEN);
	else
		wqd_call(p->trigger, OP_COMPLETE_ALL, idle ? "idle" : "latency");
}

static void
place_warm(struct place *p)
{
	for (int i = 0; i < WARM; i++)
		if (p->bare)
			bare_call(p->trigger, BARE_IDLE);
		else
			wqd_call(p->trigger, i % 2 ? OP_REINIT : OP_COMPLETE_ALL, "other");
}

static void
place_round(struct place *p, int ask, bool warm)
{
	int64_t begin;

	place_waits(p);
	if (warm)
		place_warm(p);
	begin = bench_now_ns();
	place_ask(p, ask == IDLE);
	sample(&p->own[ask][warm], bench_now_ns() - begin);
	if (ask == IDLE)
		place_ask(p, false);
	reader_take(&p->r, (size_t)p->r.n);
}

static void
place_open(struct place *p, const char *wqd, const char *dir, int n, bool bare)
{
	char path[108];

	*p = (struct place){ .bare = bare };
	reader_init(&p->r, 3);
	if (bare) {
		snprintf(path, sizeof path, "%s/bare%d", dir, n);
		p->pid = bare_start(path, n);
	}
	p->trigger = bare ? bench_connect(path) : wqd_connect(wqd);
	for (int i = 0; i < n; i++)
		reader_add(&p->r, bare ? bench_connect(path) : wqd_connect(wqd));
}

static void
place_close(struct place *p)
{
	close(p->trigger);
	reader_done(&p->r);
	if (p->pid)
		bench_stop(p->pid);
	for (int ask = 0; ask < N_ASKS; ask++)
		for (int warm = 0; warm < 2; warm++)
			free(p->own[ask][warm].v);
}

/* ---- all of them ---- */

static void
latency_report(struct place place[N_COUNTS][2], int warm)
{
	double one[2][N_ASKS];

	printf("\n%-12s %9s %9s %6s %9s %6s %9s %6s %9s %6s\n", warm ? "own, warm" : "own time",
		"trigger", "p99", "to 1", "idle", "to 1", "bare", "to 1", "bare idle", "to 1");
	for (int i = 0; i < N_COUNTS; i++) {
		double p50[2][N_ASKS];

		for (int bare = 0; bare < 2; bare++)
			for (int ask = 0; ask < N_ASKS; ask++) {
				p50[bare][ask] = quantile(&place[i][bare].own[ask][warm], .5);
				if (i == 0)
					one[bare][ask] = p50[bare][ask];
			}
		printf("%-12d %6.1f us %6.1f us %6.2f %6.1f us %6.2f %6.1f us %6.2f %6.1f us "
		       "%6.2f\n",
			counts[i], p50[0][TRIGGER], quantile(&place[i][0].own[TRIGGER][warm], .99),
			p50[0][TRIGGER] / one[0][TRIGGER], p50[0][IDLE],
			p50[0][IDLE] / one[0][IDLE], p50[1][TRIGGER],
			p50[1][TRIGGER] / one[1][TRIGGER], p50[1][IDLE],
			p50[1][IDLE] / one[1][IDLE]);
	}
}

void
waking_latency(const char *wqd, const char *dir, int rounds)
{
	static struct place place[N_COUNTS][2];

	for (int i = 0; i < N_COUNTS; i++)
		for (int bare = 0; bare < 2; bare++)
			place_open(&place[i][bare], wqd, dir, counts[i], bare);
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < N_COUNTS; i++)
			for (int which = 0; which < 8; which++)
				place_round(&place[i][which & 1], which >> 1 & 1, which >> 2);
	for (int warm = 0; warm < 2; warm++)
		latency_report(place, warm);
	for (int i = 0; i < N_COUNTS; i++)
		for (int bare = 0; bare < 2; bare++)
			place_close(&place[i][bare]);
}
