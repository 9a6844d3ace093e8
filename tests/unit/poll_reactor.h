/*
 * The reactor as a few lines over poll(2): real descriptors, real timers, no
 * library. For tests of adapters that are given a reactor. Everything may be
 * deleted from inside any callback; what died is freed after the turn.
 */
#ifndef WQD_TESTS_POLL_REACTOR_H
#define WQD_TESTS_POLL_REACTOR_H

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/reactor.h"

struct reactor_io {
	int fd;
	unsigned what;
	void (*cb)(void *arg, unsigned ready);
	void *arg;
	bool dead;
	struct list link;
};

struct reactor_timer {
	void (*cb)(void *arg);
	void *arg;
	int64_t at_ns; /* -1: unarmed */
	bool dead;
	struct list link;
};

struct poll_reactor {
	struct reactor rx; /* what is handed out */
	struct list ios, timers;
	int io_add_fails_in; /* the one after so many more fails; negative: none */
};

static inline int64_t
poll_reactor_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline int
poll_reactor_io_add(void *ctx, int fd, unsigned what, void (*cb)(void *, unsigned), void *arg,
	struct reactor_io **out)
{
	struct poll_reactor *pr = ctx;
	struct reactor_io *io;

	if (pr->io_add_fails_in >= 0 && pr->io_add_fails_in-- == 0)
		return -ENOMEM;
	io = x_zalloc(sizeof *io);
	if (!io)
		return -ENOMEM;
	*io = (struct reactor_io){ .fd = fd, .what = what, .cb = cb, .arg = arg };
	list_append(&pr->ios, &io->link);
	*out = io;
	return 0;
}

static inline void
poll_reactor_io_del(void *ctx, struct reactor_io *io)
{
	(void)ctx;
	if (io)
		io->dead = true;
}

static inline int
poll_reactor_timer_new(void *ctx, void (*cb)(void *), void *arg, struct reactor_timer **out)
{
	struct poll_reactor *pr = ctx;
	struct reactor_timer *t = x_zalloc(sizeof *t);

	if (!t)
		return -ENOMEM;
	*t = (struct reactor_timer){ .cb = cb, .arg = arg, .at_ns = -1 };
	list_append(&pr->timers, &t->link);
	*out = t;
	return 0;
}

static inline void
poll_reactor_timer_set(void *ctx, struct reactor_timer *t, int64_t after_ns)
{
	(void)ctx;
	wq_assert(!t->dead);
	t->at_ns = after_ns < 0 ? -1 : sat_add(poll_reactor_now(), after_ns);
}

static inline void
poll_reactor_timer_del(void *ctx, struct reactor_timer *t)
{
	(void)ctx;
	t->dead = true;
	t->at_ns = -1;
}

static inline void
poll_reactor_sweep(struct poll_reactor *pr)
{
	list_each_safe(io, &pr->ios, struct reactor_io, link) {
		if (io->dead) {
			list_del(&io->link);
			x_free(io);
		}
	}
	list_each_safe(t, &pr->timers, struct reactor_timer, link) {
		if (t->dead) {
			list_del(&t->link);
			x_free(t);
		}
	}
}

static inline void
poll_reactor_init(struct poll_reactor *pr)
{
	*pr = (struct poll_reactor){
		.rx = { .ctx = pr,
			.io_add = poll_reactor_io_add,
			.io_del = poll_reactor_io_del,
			.timer_new = poll_reactor_timer_new,
			.timer_set = poll_reactor_timer_set,
			.timer_del = poll_reactor_timer_del },
		.io_add_fails_in = -1,
	};
	list_init(&pr->ios);
	list_init(&pr->timers);
}

/* Nothing may still be watched. */
static inline void
poll_reactor_done(struct poll_reactor *pr)
{
	poll_reactor_sweep(pr);
	wq_assert(list_empty(&pr->ios));
	wq_assert(list_empty(&pr->timers));
}

/* Milliseconds until the next timer, at most `max`. */
static inline int
poll_reactor_wait_ms(const struct poll_reactor *pr, int max)
{
	int64_t now = poll_reactor_now();

	list_each(t, &pr->timers, struct reactor_timer, link) {
		int64_t left = t->at_ns < 0 ? INT64_MAX : t->at_ns - now;

		if (left <= 0)
			return 0;
		if (left / NS_PER_MS < max)
			max = (int)(left / NS_PER_MS) + 1;
	}
	return max;
}

static inline void
poll_reactor_run_timers(struct poll_reactor *pr)
{
	int64_t now = poll_reactor_now();

	list_each(t, &pr->timers, struct reactor_timer, link) {
		if (t->at_ns >= 0 && t->at_ns <= now) {
			t->at_ns = -1;
			t->cb(t->arg);
		}
	}
}

/* One turn: waits at most `max_ms` for something to happen. */
static inline void
poll_reactor_turn(struct poll_reactor *pr, int max_ms)
{
	struct pollfd *p;
	struct reactor_io **of;
	size_t n = 0, i = 0;

	poll_reactor_sweep(pr);
	list_each(io, &pr->ios, struct reactor_io, link)
		n++;
	p = must_zalloc((n + 1) * sizeof *p);
	of = must_zalloc((n + 1) * sizeof(struct reactor_io *));
	list_each(io, &pr->ios, struct reactor_io, link) {
		p[i].fd = io->fd;
		p[i].events = (short)((io->what & REACTOR_READ ? POLLIN : 0) |
			(io->what & REACTOR_WRITE ? POLLOUT : 0));
		of[i++] = io;
	}
	wq_assert(poll(p, n, poll_reactor_wait_ms(pr, max_ms)) >= 0 || errno == EINTR);
	poll_reactor_run_timers(pr);
	for (i = 0; i < n; i++)
		if (p[i].revents && !of[i]->dead)
			of[i]->cb(of[i]->arg, of[i]->what);
	x_free(p);
	x_free(of);
	poll_reactor_sweep(pr);
}

#endif
