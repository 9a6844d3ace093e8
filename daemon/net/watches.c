#include "net/watches.h"

#include <errno.h>
#include <time.h>

#include <event2/event.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

#define IO_MAGIC      0x100b0002u
#define TIMER_MAGIC   0x100b0003u
#define WATCHES_MAGIC 0x100b0004u

/* No timer is set further ahead; libevent's sums must not wrap. */
#define FAR_FUTURE_S (30ll * 365 * 86400)

struct reactor_io {
	unsigned magic;
	struct watches *w;
	struct event *ev;
	void (*cb)(void *arg, unsigned ready);
	void *arg;
};

struct reactor_timer {
	unsigned magic;
	struct event *ev;
	void (*cb)(void *arg);
	void *arg;
};

static void
io_ready(evutil_socket_t fd, short what, void *arg)
{
	struct reactor_io *io = arg;
	unsigned ready = 0;

	(void)fd;
	CHECK_OBJ(io, IO_MAGIC);
	io->w->ready++;
	if (what & EV_READ)
		ready |= REACTOR_READ;
	if (what & EV_WRITE)
		ready |= REACTOR_WRITE;
	io->cb(io->arg, ready);
}

static int
io_add(void *ctx, int fd, unsigned what, void (*cb)(void *arg, unsigned ready), void *arg,
	struct reactor_io **out)
{
	struct watches *w = ctx;
	struct reactor_io *io = x_zalloc(sizeof *io);
	short events = EV_PERSIST;

	CHECK_OBJ(w, WATCHES_MAGIC);
	if (!io)
		return -ENOMEM;
	if (what & REACTOR_READ)
		events |= EV_READ;
	if (what & REACTOR_WRITE)
		events |= EV_WRITE;
	*io = (struct reactor_io){ .magic = IO_MAGIC, .w = w, .cb = cb, .arg = arg };
	io->ev = event_new(w->base, fd, events, io_ready, io);
	if (!io->ev || event_add(io->ev, NULL) < 0) {
		if (io->ev)
			event_free(io->ev);
		x_free(io);
		return -ENOMEM;
	}
	*out = io;
	return 0;
}

static void
io_del(void *ctx, struct reactor_io *io)
{
	(void)ctx;
	if (!io)
		return;
	CHECK_OBJ(io, IO_MAGIC);
	event_free(io->ev);
	MAGIC_DONE(io);
	x_free(io);
}

static void
timer_fired(evutil_socket_t fd, short what, void *arg)
{
	struct reactor_timer *t = arg;

	(void)fd;
	(void)what;
	CHECK_OBJ(t, TIMER_MAGIC);
	t->cb(t->arg);
}

static int
timer_new(void *ctx, void (*cb)(void *arg), void *arg, struct reactor_timer **out)
{
	struct watches *w = ctx;
	struct reactor_timer *t = x_zalloc(sizeof *t);

	CHECK_OBJ(w, WATCHES_MAGIC);
	if (!t)
		return -ENOMEM;
	*t = (struct reactor_timer){ .magic = TIMER_MAGIC, .cb = cb, .arg = arg };
	t->ev = evtimer_new(w->base, timer_fired, t);
	if (!t->ev) {
		x_free(t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

static void
timer_set(void *ctx, struct reactor_timer *t, int64_t after_ns)
{
	struct watches *w = ctx;
	int64_t us;
	struct timeval tv;

	CHECK_OBJ(w, WATCHES_MAGIC);
	CHECK_OBJ(t, TIMER_MAGIC);
	if (after_ns < 0) {
		event_del(t->ev);
		return;
	}
	us = sat_add(after_ns, NS_PER_US - 1) / NS_PER_US;
	if (us > 0)
		us = sat_add(us, w->grain_us);
	if (us / 1000000 > FAR_FUTURE_S)
		us = FAR_FUTURE_S * 1000000;
	tv = (struct timeval){ .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
	event_add(t->ev, &tv);
}

static void
timer_del(void *ctx, struct reactor_timer *t)
{
	(void)ctx;
	if (!t)
		return;
	CHECK_OBJ(t, TIMER_MAGIC);
	event_free(t->ev);
	MAGIC_DONE(t);
	x_free(t);
}

/* libevent reads a clock that only moves with the kernel's ticks; that much is added to each span so
 * that no timer is early. */
static int64_t
clock_grain_us(void)
{
	struct timespec ts;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &ts) < 0)
		return 10000;
	return ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + 1;
}

void
watches_init(struct watches *w, struct event_base *base)
{
	*w = (struct watches){
		.magic = WATCHES_MAGIC,
		.reactor = { w, io_add, io_del, timer_new, timer_set, timer_del },
		.base = base,
		.grain_us = clock_grain_us(),
	};
}
