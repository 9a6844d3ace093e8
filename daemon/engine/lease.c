/*
 * A lease: a run that a worker has, until a deadline that it may move.
 *
 *             dispatch                finish, fail, release, unsent, leave
 *     (none) ----------> HELD ------------------------------------------> (gone)
 *                        | ^ |
 *                        | +-+ touch
 *                        |
 *                        | expire, revoke: the run is over, its holder may not know
 *                        v
 *                       LOST -------- finish, fail, release, leave ------> (gone)
 *
 *     restart
 *     (none) ----------> ORPHAN ---------------- expire, revoke ---------> (gone)
 *
 * The hand-over is the send: until then the job is ready and can be pulled back.
 * From then on the job is running, and nobody else gets it before the lease is
 * over. A LOST lease still takes up one of its holder's credits: who is stuck on
 * one job is not given the next, and another, to let those run out too. The
 * holder's own word about it (whose answer is LEASE_LOST) gives the credit back.
 *
 * ORPHAN: it was held when the daemon stopped. Its holder may be at work still,
 * so the job goes on running until the lease would be over in any case: the
 * last touch came before the start, so that is a lease's length from there.
 *
 * Tokens grow with each lease, also over a restart (engine_config.fence): who
 * passes them on to what he changes can have older ones refused there.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/internal.h"

enum lease_state { LEASE_HELD, LEASE_LOST, LEASE_ORPHAN, LEASE_GONE };
#define N_LEASE_STATES LEASE_GONE

/* What becomes of the run. */
enum lease_end { GOES_ON, IS_DONE, IS_FAILED, IS_TIMEOUT, IS_CANCELLED, IS_LOST, NEVER_WAS };

struct lease_cell {
	uint8_t word; /* enum status, to the holder */
	uint8_t next; /* enum lease_state */
	uint8_t end;  /* enum lease_end */
	bool can;     /* false: this can't happen */
};

#define C(word, next, end) \
	{ \
		ST_##word, LEASE_##next, end, true \
	}

static const struct lease_cell lease_table[N_LEASE_OPS][N_LEASE_STATES] = {
	[LEASE_TOUCH] = {
		[LEASE_HELD] = C(OK, HELD, GOES_ON),
		[LEASE_LOST] = C(LEASE_LOST, LOST, GOES_ON),
	},
	[LEASE_FINISH] = {
		[LEASE_HELD] = C(OK, GONE, IS_DONE),
		[LEASE_LOST] = C(LEASE_LOST, GONE, GOES_ON),
	},
	[LEASE_FAIL] = {
		[LEASE_HELD] = C(OK, GONE, IS_FAILED),
		[LEASE_LOST] = C(LEASE_LOST, GONE, GOES_ON),
	},
	[LEASE_RELEASE] = {
		[LEASE_HELD] = C(OK, GONE, NEVER_WAS),
		[LEASE_LOST] = C(LEASE_LOST, GONE, GOES_ON),
	},
	[LEASE_UNSENT] = {
		[LEASE_HELD] = C(OK, GONE, NEVER_WAS),
	},
	[LEASE_EXPIRE] = {
		[LEASE_HELD] = C(OK, LOST, IS_TIMEOUT),
		[LEASE_ORPHAN] = C(OK, GONE, IS_LOST),
	},
	[LEASE_REVOKE] = {
		[LEASE_HELD] = C(OK, LOST, IS_CANCELLED),
		[LEASE_ORPHAN] = C(OK, GONE, IS_CANCELLED),
	},
	[LEASE_LEAVE] = {
		[LEASE_HELD] = C(OK, GONE, IS_LOST),
		[LEASE_LOST] = C(OK, GONE, GOES_ON),
	},
};

/* ---- life ---- */

static struct lease *
lease_new(struct engine *e, struct run *run, enum lease_state state)
{
	struct lease *l = x_zalloc(sizeof *l);
	int64_t until_ns = sat_add(e->now.boot_ns, run->job->q->s.lease_ns);

	if (!l)
		return NULL;
	if (timer_set(&e->lease_ends, &l->timer, until_ns, ++e->seq) < 0) {
		x_free(l);
		return NULL;
	}
	l->magic = LEASE_MAGIC;
	l->state = (uint8_t)state;
	l->run = run;
	list_init(&l->of_sub);
	run->lease = l;
	e->stats.leased++;
	return l;
}

int
lease_give(struct engine *e, struct run *run, struct sub *s)
{
	struct lease *l = lease_new(e, run, LEASE_HELD);

	if (!l)
		return -ENOMEM;
	l->token = ++e->fence;
	l->sub = s;
	l->bytes = payload_bytes(run->payload ? run->payload : job_payload(run->job));
	s->bytes += l->bytes;
	s->n_leases++;
	s->given++;
	list_append(&s->leases, &l->of_sub);
	e->stats.leases++;
	return 0;
}

int
lease_orphan(struct engine *e, struct run *run)
{
	struct lease *l = lease_new(e, run, LEASE_ORPHAN);

	if (l && job_run_map(e, run) == 0)
		return 0;
	if (l)
		lease_free(e, l);
	return -ENOMEM;
}

int
lease_carry(struct engine *e, const struct lease_carried *from)
{
	struct sub *s = worker_find(e, from->subscription);
	struct lease *l;

	if (from->state >= N_LEASE_STATES || (from->state == LEASE_LOST) != !from->run ||
		(from->state == LEASE_ORPHAN) != !s || (from->run && from->run->lease))
		return ERR_DAMAGED;
	l = x_zalloc(sizeof *l);
	if (!l)
		return -ENOMEM;
	if (from->run && timer_set(&e->lease_ends, &l->timer, from->due_ns, ++e->seq) < 0) {
		x_free(l);
		return -ENOMEM;
	}
	l->magic = LEASE_MAGIC;
	l->state = from->state;
	l->touched = from->touched;
	l->token = from->token;
	l->run = from->run;
	l->sub = s;
	l->bytes = from->bytes;
	list_init(&l->of_sub);
	if (l->run) {
		l->run->lease = l;
		e->stats.leased++;
	}
	if (s) {
		list_append(&s->leases, &l->of_sub);
		s->n_leases++;
		s->bytes += l->run ? l->bytes : 0;
		worker_looked_at(e, s);
	}
	return 0;
}

/* The run is no lease any more, or the lease of no run. */
static void
lease_part(struct engine *e, struct lease *l)
{
	if (!l->run)
		return;
	timer_del(&e->lease_ends, &l->timer);
	l->run->lease = NULL;
	l->run = NULL;
	e->stats.leased--;
	if (l->sub)
		l->sub->bytes -= l->bytes;
}

void
lease_free(struct engine *e, struct lease *l)
{
	CHECK_OBJ(l, LEASE_MAGIC);
	lease_part(e, l);
	if (l->sub && --l->sub->n_leases == 0)
		l->sub->idle_ns = e->now.boot_ns;
	list_del(&l->of_sub);
	MAGIC_DONE(l);
	x_free(l);
}

/* ---- ends ---- */

static const struct run_end lease_ends[] = {
	[IS_DONE] = { .outcome = RUN_DONE, .exit_code = -1 },
	[IS_FAILED] = { .outcome = RUN_FAILED, .exit_code = -1 },
	[IS_TIMEOUT] = { .outcome = RUN_TIMEOUT,
		.exit_code = -1,
		.lost = true,
		.output = { "the lease ran out", 17 } },
	[IS_CANCELLED] = { .outcome = RUN_CANCELLED, .exit_code = -1 },
	[IS_LOST] = { .outcome = RUN_INTERRUPTED,
		.exit_code = -1,
		.lost = true,
		.output = { "the worker is gone", 18 } },
};

static void
lease_count(struct engine *e, enum lease_op op, const struct lease *l)
{
	switch (op) {
	case LEASE_TOUCH:
		e->stats.leases_touched++;
		return;
	case LEASE_RELEASE:
	case LEASE_UNSENT:
		e->stats.leases_released++;
		return;
	case LEASE_EXPIRE:
		e->stats.leases_expired++;
		return;
	case LEASE_REVOKE:
		e->stats.leases_revoked++;
		return;
	case LEASE_LEAVE:
		e->stats.leases_lost += l->state == LEASE_HELD;
		return;
	case LEASE_FINISH:
	case LEASE_FAIL:
	case N_LEASE_OPS:
		return;
	}
}

static void
lease_tell_revoked(struct engine *e, const struct lease *l)
{
	struct effect *fx;

	if (!l->sub)
		return;
	fx = engine_effect(e, FX_REVOKED);
	fx->ticket = l->sub->ticket;
	fx->revoked =
		(struct lease_revoked){ l->run->job->q->name, job_key(l->run->job), l->token };
}

/* `how`: what the holder says of the end (NULL: nothing). The holder's credit is looked at by the
 * caller. */
void
lease_apply(struct engine *e, struct lease *l, enum lease_op op, const struct run_end *how)
{
	const struct lease_cell *cell = &lease_table[op][l->state];
	struct run *run = l->run;

	CHECK_OBJ(l, LEASE_MAGIC);
	wq_assert(cell->can && (cell->end == GOES_ON || run));
	if (cell->word == ST_OK)
		lease_count(e, op, l);
	if (cell->next == LEASE_LOST && l->state == LEASE_HELD) {
		lease_tell_revoked(e, l);
		lease_part(e, l);
	}
	if (cell->next == LEASE_GONE)
		lease_free(e, l);
	else
		l->state = cell->next;
	if (cell->end == NEVER_WAS)
		job_run_take_back(e, run);
	else if (cell->end != GOES_ON)
		job_run_end(e, run, how ? how : &lease_ends[cell->end]);
}

void
lease_revoke(struct engine *e, struct run *run)
{
	lease_apply(e, run->lease, LEASE_REVOKE, NULL);
}

void
leases_expire_some(struct engine *e, uint32_t most)
{
	struct timer *t;

	while (most-- > 0 && (t = timers_past(&e->lease_ends, e->now.boot_ns)) != NULL &&
		engine_spend(e))
		lease_apply(e, container_of(t, struct lease, timer), LEASE_EXPIRE, NULL);
}

/* ---- requests ---- */

/* The lease that the request speaks of, NULL: none that is known. */
static struct lease *
lease_asked(struct engine *e, const struct ask *a, const struct op_lease *op)
{
	struct lease *l = a->j && side_of(a->j)->run ? side_of(a->j)->run->lease : NULL;

	if (l && l->state == LEASE_HELD && l->token == op->token)
		return l;
	return worker_lost_lease(e, op->subscription, op->token);
}

static enum lease_op
lease_op_of(enum engine_event_kind kind)
{
	switch ((int)kind) {
	case EV_TOUCH:
		return LEASE_TOUCH;
	case EV_FINISH:
		return LEASE_FINISH;
	case EV_FAIL:
		return LEASE_FAIL;
	default:
		return LEASE_RELEASE;
	}
}

static bool
bad_lease_op(struct ask *a, const struct op_lease *op)
{
	if (op->lease_ns != -1 && (op->lease_ns < LEASE_MIN_NS || op->lease_ns > LEASE_MAX_NS))
		ask_fail(a, ST_INVALID, "a lease is 10 ms to a year");
	else if (op->has_retry_after && !span_valid(op->retry_after_ns, 0))
		ask_fail(a, ST_INVALID, "retry_after is not 0 to 100 years");
	else if (op->output.n > PAYLOAD_MAX)
		ask_fail(a, ST_REFUSED_LIMIT, "the output is over 1 MiB");
	else
		return false;
	return true;
}

static void
lease_said(struct engine *e, struct ask *a, struct lease *l, enum lease_op what,
	const struct op_lease *op)
{
	enum run_outcome outcome = what == LEASE_FAIL ? RUN_FAILED : RUN_DONE;
	const struct run_end end = {
		.outcome = outcome,
		.exit_code = op->exit_code,
		.signal = op->signal,
		.output = op->output,
		.truncated = op->truncated,
		.has_retry_after = op->has_retry_after,
		.retry_after_ns = op->retry_after_ns,
	};
	struct sub *s = l->sub;
	struct job *j = a->j;

	/* Pinned: the reply names it. */
	job_side(j)->pins++;
	lease_apply(e, l, what, &end);
	worker_looked_at(e, s);
	ask_done(a, ST_OK);
	job_side(j)->pins--;
	job_settle(e, j);
}

static void
lease_touch(struct engine *e, struct ask *a, struct lease *l, const struct op_lease *op)
{
	int64_t length_ns = op->lease_ns == -1 ? a->q->s.lease_ns : op->lease_ns;
	int err;

	lease_apply(e, l, LEASE_TOUCH, NULL);
	l->touched = true;
	err = timer_set(&e->lease_ends, &l->timer, sat_add(e->now.boot_ns, length_ns), ++e->seq);
	/* It was armed: nothing is needed. */
	wq_assert(err == 0);
	ask_done(a, ST_OK);
}

void
lease_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_lease *op = ev->lease;
	enum lease_op what = lease_op_of(ev->kind);
	struct lease *l;
	struct sub *s;
	struct ask a;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem) || bad_lease_op(&a, op))
		return;
	ask_before(&a);
	l = lease_asked(e, &a, op);
	if (l && l->state == LEASE_HELD) {
		if (!ask_remember(&a, op->idem))
			return;
		if (what == LEASE_TOUCH)
			lease_touch(e, &a, l, op);
		else
			lease_said(e, &a, l, what, op);
		return;
	}
	if (l) {
		s = l->sub;
		lease_apply(e, l, what, NULL);
		worker_looked_at(e, s);
	}
	e->stats.leases_refused++;
	ask_fail(&a, ST_LEASE_LOST, "the lease is over: another may hold the job");
}

void
unsent_event(struct engine *e, const struct engine_event *ev)
{
	struct run *run = job_run_by_id(e, ev->run_id);
	struct sub *s;

	if (!run || !run->lease)
		return;
	s = run->lease->sub;
	/* Its connection takes nothing: no more for it. */
	s->closed = true;
	lease_apply(e, run->lease, LEASE_UNSENT, NULL);
	worker_looked_at(e, s);
}

/* ---- looking ---- */

void
lease_look(const struct engine *e, struct moment now, const struct run *run, struct job_view *v)
{
	const struct lease *l = run->lease;
	int64_t left_ns = timer_due(&e->lease_ends, &l->timer) - now.boot_ns;

	v->leased = true;
	v->lease_left_ns = left_ns > 0 ? left_ns : 0;
	v->lease_token = l->token;
	v->lease_touched = l->touched;
	if (l->sub)
		v->holder = (struct str){ l->sub->holder, l->sub->holder_n };
}

void
lease_verify(const struct engine *e, const struct lease *l)
{
	CHECK_OBJ(l, LEASE_MAGIC);
	wq_assert((l->run != NULL) == (l->state != LEASE_LOST));
	wq_assert((l->sub != NULL) == (l->state != LEASE_ORPHAN));
	wq_assert(timer_armed(&l->timer) == (l->run != NULL));
	wq_assert(!l->run || (l->run->lease == l && side_of(l->run->job)->run == l->run));
	wq_assert(l->token <= e->fence);
}
