#include "crew_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/crew.h"
#include "run/group.h"

#define LOOK_NS      (100 * NS_PER_MS) /* while work waits */
#define IDLE_LOOK_NS NS_PER_S
#define PAUSE_MIN_NS NS_PER_S
#define PAUSE_MAX_NS (30 * NS_PER_S)
#define STEADY_NS    (10 * NS_PER_S) /* a life longer than this was no crash at start */
#define PIPE_MAX     65536u
#define LAST_WAIT_MS 1000

static const struct reactor *
reactor(const struct crew *c)
{
	return loop_reactor(c->d->loop);
}

static void
on_timer(void *arg)
{
	(void)arg; /* the turn that follows looks */
}

int
crew_new(struct daemon *d, struct crew **out)
{
	struct crew *c = x_zalloc(sizeof *c);
	int err;

	if (!c)
		return -ENOMEM;
	c->magic = CREW_MAGIC;
	c->d = d;
	list_init(&c->members);
	list_init(&c->shifts);
	err = launcher_init(&c->launcher, d->instance, NULL);
	if (err) {
		x_free(c);
		return err;
	}
	err = reactor(c)->timer_new(reactor(c)->ctx, on_timer, c, &c->timer);
	if (err) {
		launcher_done(&c->launcher);
		x_free(c);
		return err;
	}
	/* The first turn is not long in coming, whoever else has something to do. */
	reactor(c)->timer_set(reactor(c)->ctx, c->timer, 0);
	*out = c;
	return 0;
}

/* ---- the end of one ---- */

void
member_free(struct member *m)
{
	const struct reactor *r = reactor(m->c);

	r->io_del(r->ctx, m->pid_io);
	r->io_del(r->ctx, m->out_io);
	probe_close(&m->probe);
	if (m->pidfd >= 0)
		close(m->pidfd);
	if (m->out >= 0)
		close(m->out);
	list_del(&m->link);
	m->c->n--;
	x_free(m);
}

/* The whole group, which is its own from before its program began; while it is not reaped. */
static void
member_signal(struct member *m, int signo)
{
	(void)kill(-m->pid, signo);
}

static void
member_end(struct member *m)
{
	if (m->state == ENDING)
		return;
	m->state = ENDING;
	m->told = true;
	m->since_ns = m->c->now.boot_ns;
	member_signal(m, SIGTERM);
}

struct shift *
crew_shift(struct crew *c, const char *queue)
{
	struct shift *s;

	list_each(it, &c->shifts, struct shift, link)
		if (strcmp(it->queue, queue) == 0)
			return it;
	s = x_zalloc(sizeof *s);
	if (!s)
		return NULL;
	snprintf(s->queue, sizeof s->queue, "%s", queue);
	s->used = -1;
	list_append(&c->shifts, &s->link);
	return s;
}

/* The next one comes after a pause that doubles. */
static void
pause_more(struct shift *s, int64_t now_ns)
{
	s->pause_ns = s->pause_ns == 0 ? PAUSE_MIN_NS : 2 * s->pause_ns;
	if (s->pause_ns > PAUSE_MAX_NS)
		s->pause_ns = PAUSE_MAX_NS;
	s->not_before_ns = now_ns + s->pause_ns;
}

/* Nobody told it to go. */
static void
member_crashed(struct member *m, int status)
{
	struct shift *s = crew_shift(m->c, m->queue);
	char queue[4 * QUEUE_NAME_MAX + 8], said[4 * LAST_WORDS + 8];
	int64_t now = clock_boot_ns();

	if (s) {
		if (now - m->began_ns > STEADY_NS)
			s->pause_ns = 0;
		pause_more(s, now);
	}
	log_warn("worker_ended", "queue=%s handler=%s pid=%d %s=%d next_in_ms=%lld said=%s",
		log_field(queue, sizeof queue, str_from(m->queue)), m->handler, (int)m->pid,
		WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		s ? (long long)(s->pause_ns / NS_PER_MS) : 0ll,
		log_field(said, sizeof said, (struct str){ m->said, m->n_said }));
}

/* Once: it may write without end, and all that a pipe holds comes with one read. */
static void
member_read(struct member *m)
{
	char text[PIPE_MAX];
	ssize_t n = read(m->out, text, sizeof text);

	if (n > 0) {
		m->n_said = (size_t)n < LAST_WORDS ? (size_t)n : LAST_WORDS;
		memcpy(m->said, text + (size_t)n - m->n_said, m->n_said);
	} else if (n == 0) {
		/* It has closed its output: nothing comes any more. */
		reactor(m->c)->io_del(reactor(m->c)->ctx, m->out_io);
		m->out_io = NULL;
	}
}

static void
on_output(void *arg, unsigned ready)
{
	(void)ready;
	member_read(arg);
}

static void
on_exit_(void *arg, unsigned ready)
{
	struct member *m = arg;
	int status = 0;

	(void)ready;
	if (!process_exited(m->pidfd))
		return;
	/* What it has left behind in its group. */
	member_signal(m, SIGKILL);
	(void)waitpid(m->pid, &status, 0);
	member_read(m);
	if (!m->told)
		member_crashed(m, status);
	else
		log_debug("worker_gone", "pid=%d", (int)m->pid);
	/* Its connection ends by itself: the other side is closed. */
	member_free(m);
}

/* ---- the beginning of one ---- */

bool
member_watch(struct member *m)
{
	const struct reactor *r = reactor(m->c);

	return r->io_add(r->ctx, m->pidfd, REACTOR_READ, on_exit_, m, &m->pid_io) == 0 &&
		r->io_add(r->ctx, m->out, REACTOR_READ, on_output, m, &m->out_io) == 0;
}

static void
hire(struct crew *c, const struct crew_view *v, const struct handler *h, struct shift *s)
{
	struct member *m = x_zalloc(sizeof *m);

	if (m) {
		m->c = c;
		m->pidfd = m->out = -1;
		m->probe = PROBE_NONE;
		m->state = COMING;
		m->began_ns = m->since_ns = c->now.boot_ns;
		m->grace_ns = h->grace_ns;
		snprintf(m->queue, sizeof m->queue, "%.*s", STR_ARG(v->queue));
		snprintf(m->handler, sizeof m->handler, "%.*s", STR_ARG(v->handler));
		list_append(&c->members, &m->link);
		c->n++;
		if (member_start(m, h) && member_watch(m))
			return;
		if (m->pid > 0) {
			member_signal(m, SIGKILL);
			(void)waitpid(m->pid, NULL, 0);
		}
		member_free(m);
	}
	pause_more(s, c->now.boot_ns);
}

/* ---- looking ---- */

static bool
member_view(const struct member *m, struct worker_view *v)
{
	return m->s && engine_worker_get(m->c->d->engine, session_subscription(m->s), v);
}

static void
member_retire(struct member *m)
{
	m->state = GOING;
	m->told = true;
	m->since_ns = m->c->now.boot_ns;
	if (m->s && session_subscription(m->s))
		service_end_subscription(m->c->d->svc, m->s, m->c->now);
}

static bool
worn_out(const struct member *m, const struct handler *h, const struct worker_view *v)
{
	return (h->worker_jobs > 0 && v->given >= h->worker_jobs) ||
		(h->worker_memory > 0 && m->probe.memory >= h->worker_memory);
}

/* What there is, and the coldest of those that are idle. */
static struct member *
count(struct crew *c, const struct handler *h, struct shift *s, struct crew_state *out)
{
	struct member *coldest = NULL;
	int64_t used_ns = 0, took_ns = c->now.boot_ns - s->looked_ns;
	int64_t coldest_ns = INT64_MAX;
	uint32_t wanting = 0;

	list_each(m, &c->members, struct member, link) {
		struct worker_view v;
		int64_t cpu;

		if (m->state > ON || strcmp(m->queue, s->queue) != 0)
			continue;
		wanting += probe_look(&m->probe, c->now.boot_ns);
		cpu = m->probe.cpu_ns;
		used_ns += cpu > m->cpu_ns ? cpu - m->cpu_ns : 0;
		m->cpu_ns = cpu;
		out->alive++;
		if (!member_view(m, &v)) {
			out->coming++;
			continue;
		}
		m->state = ON;
		if (worn_out(m, h, &v)) {
			member_retire(m);
			out->alive--;
		} else if (v.holds == 0) {
			out->idle++;
			if (v.idle_since_ns < coldest_ns) {
				coldest_ns = v.idle_since_ns;
				coldest = m;
			}
		}
	}
	if (took_ns >= LOOK_NS / 2 && s->looked_ns > 0)
		s->used = (double)used_ns / (double)took_ns;
	/* Where others have the processors too it is not their time that says how many want one. */
	if (s->used >= 0 && s->used < wanting)
		s->used = wanting;
	s->looked_ns = c->now.boot_ns;
	s->alive = out->alive;
	out->used = s->used;
	out->coldest_ns = coldest ? c->now.boot_ns - coldest_ns : 0;
	return coldest;
}

static void
look_again(struct crew *c, int64_t after_ns)
{
	if (after_ns < c->look_ns)
		c->look_ns = after_ns;
}

/* What else is at work in the pool. */
static void
count_others(
	struct crew *c, const struct crew_view *v, const struct shift *own, struct crew_state *st)
{
	list_each(s, &c->shifts, struct shift, link) {
		if (s == own || s->pool != v->pool || s->alive == 0)
			continue;
		st->others += s->alive;
		st->used = s->used < 0 || st->used < 0 ? -1 : st->used + s->used;
	}
	st->others += v->busy;
	if (st->used >= 0)
		st->used += v->busy;
}

static void
look_at(void *arg, const struct crew_view *v)
{
	struct crew *c = arg;
	const struct handler *h = config_handler(c->d->conf, v->handler);
	char queue[QUEUE_NAME_MAX + 1];
	struct crew_state st = { .ready = v->ready };
	struct member *coldest;
	struct shift *s;

	snprintf(queue, sizeof queue, "%.*s", STR_ARG(v->queue));
	s = crew_shift(c, queue);
	if (!s)
		return;
	s->seen = true;
	if (!h || !h->worker)
		return;
	if (c->now.boot_ns - s->looked_ns < LOOK_NS / 2 && s->looked_ns > 0) {
		look_again(c, LOOK_NS / 2);
		return;
	}
	st.most = h->workers_max && h->workers_max < v->max_active ? h->workers_max : v->max_active;
	st.spare = h->workers_spare;
	st.idle_timeout_ns = h->worker_idle_ns;
	st.processors = runner_processors(c->d->runner);
	if (v->processors > 0 && v->processors < st.processors)
		st.processors = v->processors;
	st.cap = v->max_inflight;
	s->pool = v->pool;
	coldest = count(c, h, s, &st);
	count_others(c, v, s, &st);
	switch (crew_decide(&st)) {
	case CREW_HIRE:
		if (c->now.boot_ns >= s->not_before_ns)
			hire(c, v, h, s);
		else
			look_again(c, s->not_before_ns - c->now.boot_ns);
		break;
	case CREW_RETIRE:
		member_retire(coldest);
		break;
	case CREW_STAY:
		break;
	}
	if (st.ready > 0 || st.coming > 0)
		look_again(c, LOOK_NS);
	else if (st.idle > st.spare || h->worker_memory > 0)
		look_again(c, IDLE_LOOK_NS);
}

/* A queue that is gone, or is not ours any more: its workers go. */
static void
dismiss(struct crew *c)
{
	list_each_safe(s, &c->shifts, struct shift, link) {
		bool seen = s->seen;

		s->seen = false;
		if (seen && !c->stopping)
			continue;
		list_each(m, &c->members, struct member, link)
			if (strcmp(m->queue, s->queue) == 0 && m->state <= ON)
				member_retire(m);
		list_del(&s->link);
		x_free(s);
	}
}

/* Those that should be gone by now. */
static void
hurry(struct crew *c)
{
	list_each(m, &c->members, struct member, link) {
		int64_t over_ns = c->now.boot_ns - m->since_ns;
		struct worker_view v;

		if (m->state == GOING && member_view(m, &v) && v.holds > 0) {
			m->since_ns = c->now.boot_ns; /* it may end its job */
			look_again(c, IDLE_LOOK_NS);
		} else if (m->state == GOING && over_ns >= m->grace_ns) {
			member_end(m);
			look_again(c, m->grace_ns);
		} else if (m->state == ENDING && over_ns >= m->grace_ns) {
			member_signal(m, SIGKILL);
			look_again(c, IDLE_LOOK_NS);
		} else if (m->state >= GOING) {
			look_again(c, m->grace_ns - over_ns);
		}
	}
}

void
crew_turn(struct crew *c, struct moment now)
{
	if (!engine_has_crews(c->d->engine) && list_empty(&c->members) && list_empty(&c->shifts))
		return;
	c->now = now;
	c->look_ns = INT64_MAX;
	if (!c->stopping)
		engine_crew_each(c->d->engine, look_at, c);
	dismiss(c);
	hurry(c);
	reactor(c)->timer_set(reactor(c)->ctx, c->timer, c->look_ns == INT64_MAX ? -1 : c->look_ns);
}

/* ---- sessions ---- */

void
crew_session_opened(struct crew *c, struct session *s)
{
	if (c && c->opening)
		c->opening->s = s;
}

static struct member *
member_of(struct crew *c, const struct session *s)
{
	if (c)
		list_each(m, &c->members, struct member, link)
			if (m->s == s)
				return m;
	return NULL;
}

void
crew_session_closed(struct crew *c, const struct session *s)
{
	struct member *m = member_of(c, s);

	if (!m)
		return;
	m->s = NULL;
	/* It has no use without. If it lives, it has the grace to go. */
	if (m->state <= ON) {
		m->since_ns = clock_boot_ns();
		m->state = GOING;
	}
}

void
crew_revoked(struct crew *c, const struct session *s)
{
	struct member *m = member_of(c, s);

	if (!m)
		return;
	c->now = clock_now();
	member_end(m);
}

/* ---- the end ---- */

void
crew_stop(struct crew *c)
{
	c->stopping = true;
}

size_t
crew_alive(const struct crew *c)
{
	return c->n;
}

/* The connections are closed already: most have gone by themselves. */
static void
wait_a_little(const struct member *m)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };
	int64_t ms = m->grace_ns / NS_PER_MS;

	(void)poll(&p, 1, ms < LAST_WAIT_MS ? (int)ms : LAST_WAIT_MS);
}

void
crew_free(struct crew *c)
{
	struct member *m;
	struct shift *s;

	if (!c)
		return;
	list_each(it, &c->members, struct member, link)
		member_signal(it, SIGTERM);
	while ((m = list_first(&c->members, struct member, link)) != NULL) {
		wait_a_little(m);
		member_signal(m, SIGKILL);
		while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
			;
		member_free(m);
	}
	while ((s = list_first(&c->shifts, struct shift, link)) != NULL) {
		list_del(&s->link);
		x_free(s);
	}
	reactor(c)->timer_del(reactor(c)->ctx, c->timer);
	launcher_done(&c->launcher);
	MAGIC_DONE(c);
	x_free(c);
}
