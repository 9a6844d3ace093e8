#include "net/loop.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/watches.h"

#define LOOP_MAGIC 0x100b0001u

/* libevent takes this many events from a poll, twice as many after a full one, up to POLL_MAX. */
#define POLL_FIRST 32u
#define POLL_MAX   4096u
/* The loop's own descriptors among them. */
#define POLL_OWN 3u
/* A tick later than this means that the loop was stalled: then the input that has piled up goes
 * first, for at most so many turns. */
#define STALL_NS     (2 * NS_PER_MS)
#define STALL_TURNS  8u
#define FAR_FUTURE_S (30ll * 365 * 86400)

struct loop {
	unsigned magic;
	struct event_base *base; /* owned */
	struct watches watches;
	struct loop_hooks hooks;

	int tick_fd; /* timerfd, CLOCK_BOOTTIME */
	struct event *tick_ev;
	int64_t tick_ns;  /* when the tick is due; INT64_MAX: never */
	int64_t armed_ns; /* what the timerfd is set to, never later than needed */

	int step_fd; /* timerfd, CLOCK_REALTIME, cancelled when that is set */
	struct event *step_ev;
	bool stepped;

	bool stop;

	struct list deferred; /* struct loop_task */
	struct list signals;
	unsigned poll_room; /* events that a poll can return, as libevent does */
	bool input_left;
	unsigned stall_turns;
	struct moment turn_now;
};

struct signal_watch {
	struct list link;
	struct event *ev;
	void (*cb)(void *arg, int signo);
	void *arg;
};

const struct reactor *
loop_reactor(struct loop *l)
{
	CHECK_OBJ(l, LOOP_MAGIC);
	return &l->watches.reactor;
}

/* ---- the loop's own descriptors ---- */

static void
tick_ready(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	uint64_t n;

	(void)what;
	if (read(fd, &n, sizeof n) == (ssize_t)sizeof n)
		l->armed_ns = INT64_MAX;
}

/* Seconds as the system takes them: a time_t of 32 bits ends in 2038, and one that wrapped is past. */
static time_t
seconds(int64_t s)
{
	return sizeof(time_t) < sizeof s && s > INT32_MAX ? INT32_MAX : (time_t)s;
}

/* Set to wake at `tick_ns`. An earlier time that is set already stays: that costs one needless
 * wake-up instead of a system call each time the tick moves later. */
static void
tick_arm(struct loop *l)
{
	struct itimerspec its = { 0 };

	if (l->tick_ns >= l->armed_ns)
		return;
	its.it_value.tv_sec = seconds(l->tick_ns / NS_PER_S);
	its.it_value.tv_nsec = l->tick_ns % NS_PER_S;
	if (timerfd_settime(l->tick_fd, TFD_TIMER_ABSTIME, &its, NULL) == 0)
		l->armed_ns = l->tick_ns;
}

void
loop_tick_at(struct loop *l, int64_t boot_ns)
{
	CHECK_OBJ(l, LOOP_MAGIC);
	l->tick_ns = boot_ns;
}

/* Far ahead, to be cancelled by the next step of the wall clock. When a step comes between, settime
 * itself says so, with the timer set. */
static bool
step_arm(struct loop *l)
{
	struct itimerspec its = { 0 };

	its.it_value.tv_sec = seconds(clock_wall_ns() / NS_PER_S + FAR_FUTURE_S);
	if (timerfd_settime(l->step_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &its, NULL) ==
		0)
		return true;
	if (errno != ECANCELED)
		return false;
	l->stepped = true;
	return true;
}

static void
step_ready(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	uint64_t n;

	(void)what;
	if (read(fd, &n, sizeof n) < 0 && errno != ECANCELED)
		return;
	l->stepped = true;
	step_arm(l);
}

void
loop_stop(struct loop *l)
{
	CHECK_OBJ(l, LOOP_MAGIC);
	l->stop = true;
}

/* ---- signals ---- */

static void
signal_came(evutil_socket_t signo, short what, void *arg)
{
	struct signal_watch *w = arg;

	(void)what;
	w->cb(w->arg, (int)signo);
}

int
loop_signal(struct loop *l, int signo, void (*cb)(void *arg, int signo), void *arg)
{
	struct signal_watch *w = x_zalloc(sizeof *w);

	CHECK_OBJ(l, LOOP_MAGIC);
	if (!w)
		return -ENOMEM;
	w->cb = cb;
	w->arg = arg;
	list_append(&l->signals, &w->link);
	w->ev = evsignal_new(l->base, signo, signal_came, w);
	if (w->ev && event_add(w->ev, NULL) == 0)
		return 0;
	if (w->ev)
		event_free(w->ev);
	list_del(&w->link);
	x_free(w);
	return -ENOMEM;
}

/* ---- tasks ---- */

void
loop_task_init(struct loop_task *t, void (*fn)(void *arg), void *arg)
{
	*t = (struct loop_task){ .fn = fn, .arg = arg };
	list_init(&t->link);
}

void
loop_defer(struct loop *l, struct loop_task *t)
{
	CHECK_OBJ(l, LOOP_MAGIC);
	if (!list_linked(&t->link))
		list_append(&l->deferred, &t->link);
}

void
loop_task_cancel(struct loop_task *t)
{
	list_del(&t->link);
}

/* Those that are deferred meanwhile come with the next turn, which then does not sleep. What they did
 * may have to wake the loop sooner than the end of the turn knew: it is told again. */
static void
run_deferred(struct loop *l)
{
	struct loop_task *t;
	struct list now;

	if (list_empty(&l->deferred))
		return;
	list_init(&now);
	list_splice(&now, &l->deferred);
	while ((t = list_first(&now, struct loop_task, link)) != NULL) {
		list_del(&t->link);
		t->fn(t->arg);
	}
	if (l->hooks.turn)
		l->hooks.turn(l->hooks.ctx, clock_now());
}

void
loop_input_left(struct loop *l)
{
	l->input_left = true;
}

struct moment
loop_turn_now(const struct loop *l)
{
	CHECK_OBJ(l, LOOP_MAGIC);
	return l->turn_now;
}

/* ---- life ---- */

static struct event *
watch(struct loop *l, int fd, event_callback_fn fn)
{
	struct event *ev = fd >= 0 ? event_new(l->base, fd, EV_READ | EV_PERSIST, fn, l) : NULL;

	if (ev && event_add(ev, NULL) < 0) {
		event_free(ev);
		ev = NULL;
	}
	return ev;
}

static int
base_new(struct loop *l)
{
	struct event_config *cfg = event_config_new();

	if (!cfg)
		return -ENOMEM;
	/* No cached time: a timer set late in a long turn must not be short by that turn. No precise
	 * timers: they would be a timerfd_settime a turn, and deadlines of jobs have a timerfd of
	 * our own. */
	event_config_set_flag(cfg,
		EVENT_BASE_FLAG_NO_CACHE_TIME | EVENT_BASE_FLAG_IGNORE_ENV |
			EVENT_BASE_FLAG_NOLOCK);
	l->base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	if (!l->base)
		return -ENOMEM;
	watches_init(&l->watches, l->base);
	return 0;
}

static int
descriptors_new(struct loop *l)
{
	l->tick_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	l->step_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (l->tick_fd < 0 || l->step_fd < 0 || !step_arm(l))
		return -errno;
	l->tick_ev = watch(l, l->tick_fd, tick_ready);
	l->step_ev = watch(l, l->step_fd, step_ready);
	return l->tick_ev && l->step_ev ? 0 : -ENOMEM;
}

int
loop_new(const struct loop_hooks *hooks, struct loop **out)
{
	struct loop *l = x_zalloc(sizeof *l);
	int err;

	if (!l)
		return -ENOMEM;
	*l = (struct loop){
		.magic = LOOP_MAGIC,
		.hooks = *hooks,
		.tick_fd = -1,
		.step_fd = -1,
		.tick_ns = INT64_MAX,
		.armed_ns = INT64_MAX,
		.poll_room = POLL_FIRST,
		.turn_now = clock_now(),
	};
	list_init(&l->deferred);
	list_init(&l->signals);
	err = base_new(l);
	if (!err)
		err = descriptors_new(l);
	if (err) {
		loop_free(l);
		return err;
	}
	*out = l;
	return 0;
}

static void
unwatch(struct event *ev, int fd)
{
	if (ev)
		event_free(ev);
	if (fd >= 0)
		close(fd);
}

void
loop_free(struct loop *l)
{
	struct signal_watch *w;

	if (!l)
		return;
	CHECK_OBJ(l, LOOP_MAGIC);
	wq_assert(list_empty(&l->deferred));
	while ((w = list_first(&l->signals, struct signal_watch, link)) != NULL) {
		event_free(w->ev);
		list_del(&w->link);
		x_free(w);
	}
	unwatch(l->tick_ev, l->tick_fd);
	unwatch(l->step_ev, l->step_fd);
	if (l->base)
		event_base_free(l->base);
	MAGIC_DONE(l);
	x_free(l);
}

/* ---- turning ---- */

/* True when the poll may not have shown all that was ready, or not all of it was read. */
static bool
more_input(struct loop *l)
{
	bool full = l->watches.ready + POLL_OWN >= l->poll_room;

	if (full && l->poll_room < POLL_MAX)
		l->poll_room *= 2;
	return full || l->input_left;
}

static void
tick_if_due(struct loop *l, struct moment now, bool more)
{
	if (l->tick_ns > now.boot_ns)
		return;
	if (more && now.boot_ns - l->tick_ns > STALL_NS && l->stall_turns < STALL_TURNS) {
		l->stall_turns++;
		return;
	}
	l->stall_turns = 0;
	l->tick_ns = INT64_MAX;
	l->hooks.tick(l->hooks.ctx, now);
}

static bool
may_sleep(struct loop *l)
{
	if (!list_empty(&l->deferred) || l->stepped || l->stop)
		return false;
	if (l->tick_ns <= clock_boot_ns())
		return false;
	tick_arm(l);
	return true;
}

int
loop_turn(struct loop *l, bool block)
{
	int flags = EVLOOP_ONCE;
	struct moment now;

	CHECK_OBJ(l, LOOP_MAGIC);
	l->watches.ready = 0;
	l->input_left = false;
	if (!block || !may_sleep(l))
		flags |= EVLOOP_NONBLOCK;
	if (event_base_loop(l->base, flags) < 0)
		return errno ? -errno : -EIO;
	l->turn_now = now = clock_now();
	if (l->stepped) {
		l->stepped = false;
		if (l->hooks.clock_stepped)
			l->hooks.clock_stepped(l->hooks.ctx, now);
	}
	tick_if_due(l, now, more_input(l));
	if (l->hooks.turn)
		l->hooks.turn(l->hooks.ctx, now);
	run_deferred(l);
	return 0;
}

int
loop_run(struct loop *l)
{
	int err = 0;

	while (!err && !l->stop)
		err = loop_turn(l, true);
	l->stop = false;
	return err;
}
