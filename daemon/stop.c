#include "stop.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"

#define STOP_MAGIC 0x73746f70u
/* Between TERM and KILL at the end: a second, or a quarter of a short timeout. */
#define MARGIN_NS       NS_PER_S
#define COMMIT_LIMIT_NS (5 * NS_PER_S)

enum stop_state { DRAINING, LETTING_END, INTERRUPTING, KILLING, COMMITTING, DONE };

struct stop {
	uint32_t magic;
	enum stop_state state;
	struct stop_config cfg;
	struct reactor_timer *timer; /* the end of the state; its turn is then made */
	int64_t kill_at_ns;
	int64_t until_ns; /* of the state */
};

static void
on_timer(void *arg)
{
	(void)arg; /* the turn that follows looks at the time */
}

static void
enter(struct stop *st, struct moment now, enum stop_state state, int64_t until_ns)
{
	const struct reactor *re = loop_reactor(st->cfg.loop);
	int64_t left = until_ns - now.boot_ns;

	wq_assert(state >= st->state);
	st->state = state;
	st->until_ns = until_ns;
	re->timer_set(re->ctx, st->timer, left > 0 ? left : 0);
}

/* No starts from here on; what runs has the timeout to end. */
static void
let_end(struct stop *st, struct moment now)
{
	const struct engine_event ev = { .kind = EV_STOP };
	int64_t timeout = st->cfg.timeout_ns;
	int64_t margin = timeout / 4 < MARGIN_NS ? timeout / 4 : MARGIN_NS;

	st->kill_at_ns = sat_add(now.boot_ns, timeout);
	service_step(st->cfg.svc, now, &ev);
	enter(st, now, LETTING_END, st->kill_at_ns - margin);
}

/* Clears *arg when a queue that may start something has something to start or running. */
static bool
nothing_due(void *arg, const struct queue_view *q)
{
	bool *drained = arg;
	bool may_start = !q->paused && q->settings->max_active > 0;

	if (q->running > 0 || (may_start && q->ready + q->held > 0))
		*drained = false;
	return *drained;
}

static bool
drained(const struct stop *st)
{
	uint64_t from = 0;
	bool yes = true;

	engine_queue_each(st->cfg.engine, &from, nothing_due, &yes);
	return yes;
}

int
stop_new(const struct stop_config *cfg, struct moment now, struct stop **out)
{
	const struct reactor *re = loop_reactor(cfg->loop);
	struct stop *st = x_zalloc(sizeof *st);

	if (!st)
		return -ENOMEM;
	st->magic = STOP_MAGIC;
	st->cfg = *cfg;
	if (re->timer_new(re->ctx, on_timer, st, &st->timer) < 0) {
		x_free(st);
		return -ENOMEM;
	}
	cfg->close_listeners(cfg->ctx);
	service_set_stopping(cfg->svc);
	if (cfg->drain)
		enter(st, now, DRAINING, INT64_MAX);
	else
		let_end(st, now);
	*out = st;
	return 0;
}

void
stop_free(struct stop *st)
{
	const struct reactor *re;

	if (!st)
		return;
	CHECK_OBJ(st, STOP_MAGIC);
	re = loop_reactor(st->cfg.loop);
	re->timer_del(re->ctx, st->timer);
	MAGIC_DONE(st);
	x_free(st);
}

static void
interrupt(struct stop *st, struct moment now)
{
	int64_t left = st->kill_at_ns - now.boot_ns;

	log_warn("interrupting", "running=%zu", runner_active(st->cfg.runner));
	runner_kill_all(st->cfg.runner, RUN_INTERRUPTED, left > 0 ? left : 0);
	enter(st, now, INTERRUPTING, st->kill_at_ns);
}

void
stop_hurry(struct stop *st, struct moment now)
{
	CHECK_OBJ(st, STOP_MAGIC);
	if (st->state == DRAINING) {
		let_end(st, now);
		return;
	}
	if (st->state != LETTING_END)
		return;
	if (st->kill_at_ns > now.boot_ns + MARGIN_NS)
		st->kill_at_ns = now.boot_ns + MARGIN_NS;
	interrupt(st, now);
}

void
stop_turn(struct stop *st, struct moment now)
{
	bool over;

	CHECK_OBJ(st, STOP_MAGIC);
	if (st->state == DRAINING && drained(st))
		let_end(st, now);
	/* A worker can't be ended from here: what it holds then stays its until the lease is over. */
	if (st->state > DRAINING && st->state < COMMITTING && runner_active(st->cfg.runner) == 0 &&
		(st->state > LETTING_END || engine_leases_held(st->cfg.engine) == 0))
		enter(st, now, COMMITTING, now.boot_ns + COMMIT_LIMIT_NS);
	/* Of the state that this turn is in, which may be a new one. */
	over = now.boot_ns >= st->until_ns;
	switch (st->state) {
	case LETTING_END:
		if (over)
			interrupt(st, now);
		break;
	case INTERRUPTING:
		if (over) {
			runner_kill_all(st->cfg.runner, RUN_INTERRUPTED, 0);
			enter(st, now, KILLING, INT64_MAX);
		}
		break;
	case COMMITTING:
		if ((committer_finish(st->cfg.committer, now) && conns_flushed(st->cfg.conns)) ||
			over) {
			st->state = DONE;
			loop_stop(st->cfg.loop);
		}
		break;
	case DRAINING:
	case KILLING:
	case DONE:
		break;
	}
}
