/*
 * DRAIN and the end of a queue, and the paced work both may need.
 *
 * While a queue drains, newcomers are refused; what its own running jobs queue
 * again goes on. Timers that expire meanwhile park: they are held, and nobody
 * waits for them. When nothing else is ready or running the drain is over and
 * what was parked is ready. A drain that nobody waits for any more is undone.
 *
 * Timers that are to be expedited or cancelled are found by a sweep over the
 * queue's jobs, a bounded number a step. Expedited ones are gathered first, so
 * that they become ready in the order of their deadlines. What was armed after
 * the sweep began is left alone, or a job that re-arms itself would never let a
 * drain end.
 *
 *   open --drain--> draining --all quiet, or nobody waits--> open
 *   open, draining --delete--> deleting --all quiet--> removing --no records--> gone
 *                              deleting --nobody waits--> open
 */
#include <errno.h>

#include "base/err.h"
#include "engine/internal.h"

/* ---- sweeps ---- */

static bool
sweep_active(const struct queue *q)
{
	return q->sweep.scanning || q->sweep.found.n > 0;
}

void
sweep_queue(struct engine *e, struct queue *q)
{
	if (!list_linked(&q->sweep.link))
		list_append(&e->sweeps, &q->sweep.link);
}

static void
sweep_begin(struct engine *e, struct queue *q, enum timer_policy policy)
{
	if (policy == TIMERS_KEEP)
		return;
	if (sweep_active(q)) {
		if (policy > q->sweep.again)
			q->sweep.again = policy;
		return;
	}
	q->sweep.scanning = true;
	q->sweep.policy = policy;
	q->sweep.until_seq = e->seq;
	q->sweep.next = 0;
	q->sweep.end = slab_top(&e->jobs);
	sweep_queue(e, q);
}

static void
sweep_ready(struct engine *e, struct job *j)
{
	/* There is room: sweep_some made it. */
	(void)job_widen(e, j);
	j->chained = true;
	job_expedite(e, j, OP_KICK);
	job_changed(e, j);
}

static void
sweep_gather(struct engine *e, struct queue *q, struct job *j)
{
	int64_t due_ns = job_due_boot(e->now, j);

	(void)wheel_del(j->place == ON_WALL ? &e->wall : &e->boot, j);
	j->place = ON_EXPEDITED;
	/* Without memory it does not wait for its place in the order. */
	if (timer_set(&q->sweep.found, &j->timer, due_ns, j->seq) < 0)
		sweep_ready(e, j);
}

static void
sweep_cancel(struct engine *e, struct job *j)
{
	(void)job_widen(e, j);
	job_drop_pending(e, j, OP_CANCEL, job_running(j) ? JS_R : JS_I);
	job_changed(e, j);
	job_settle(e, j);
}

static void
sweep_visit(struct engine *e, struct queue *q, struct job *j)
{
	if (job_pend(j) != PEND_TIMER || j->seq > q->sweep.until_seq)
		return;
	if (q->sweep.policy == TIMERS_CANCEL)
		sweep_cancel(e, j);
	else
		sweep_gather(e, q, j);
}

/* A deadline may come before the sweep does: the caller's word about timers holds as well. */
bool
sweep_takes(struct engine *e, struct job *j)
{
	const struct sweep *s = &j->q->sweep;
	enum timer_policy policy = s->again;

	if (s->scanning && j->seq <= s->until_seq && s->policy > policy)
		policy = s->policy;
	if (policy == TIMERS_CANCEL) {
		sweep_cancel(e, j);
	} else if (policy == TIMERS_EXPEDITE) {
		j->chained = true;
		job_apply(e, j, OP_EXPIRE);
		job_changed(e, j);
	}
	return policy != TIMERS_KEEP;
}

#define SWEEP_LOOKS 64u /* records looked at in one step: most are of other queues */

/* The next record of the queue below `end`; NULL: not among those that a step looks at. */
static struct job *
sweep_next(const struct engine *e, struct queue *q, uint32_t end)
{
	for (uint32_t looks = SWEEP_LOOKS; looks > 0 && q->sweep.next < end; looks--) {
		struct job *j = job_live(e, q->sweep.next++);

		if (j && j->q == q)
			return j;
	}
	return NULL;
}

/* False: there is nothing left to do. */
static bool
sweep_step(struct engine *e, struct queue *q)
{
	struct timer *t;
	struct job *j;

	if (queue_pop_colour(e, q))
		return true;
	if (q->sweep.scanning) {
		j = sweep_next(e, q, q->sweep.end);
		if (j)
			sweep_visit(e, q, j);
		q->sweep.scanning = q->sweep.next < q->sweep.end;
		return true;
	}
	t = timers_first(&q->sweep.found);
	if (t) {
		sweep_ready(e, container_of(t, struct job, timer));
		return true;
	}
	if (q->sweep.again != TIMERS_KEEP) {
		enum timer_policy again = q->sweep.again;

		q->sweep.again = TIMERS_KEEP;
		sweep_begin(e, q, again);
		return true;
	}
	return false;
}

/* ---- the end of a queue ---- */

/* One record, or one job. False: all are gone, or somebody is still to be answered first. */
static bool
remove_step(struct engine *e, struct queue *q)
{
	struct record *r;
	struct job *j;

	if (queue_pop_colour(e, q))
		return true;
	if (q->n_jobs == 0) {
		group_wake(e, &q->deleter, ST_OK, NULL);
		queue_remove(e, q);
		return false;
	}
	if (q->sweep.next >= slab_top(&e->jobs))
		q->sweep.next = 0;
	j = sweep_next(e, q, slab_top(&e->jobs));
	if (!j)
		return true;
	q->sweep.next--;
	r = history_newest(j);
	if (r) {
		history_drop(e, r);
		job_settle(e, j);
		return true;
	}
	if (side_of(j)->pins > 0)
		return false;
	job_undead(e, j);
	if (j->state == JS_X) {
		job_side(j)->disable_depth = 0;
		job_enter(e, j, OP_ENABLE, JS_I);
	}
	job_settle(e, j);
	return true;
}

void
sweep_some(struct engine *e, uint32_t most)
{
	struct queue *q;

	while (most > 0 && (q = list_first(&e->sweeps, struct queue, sweep.link)) != NULL) {
		bool more;

		if (!job_can_widen(e) || !engine_spend(e))
			return;
		most--;
		more = q->removing ? remove_step(e, q) : sweep_step(e, q);
		if (more)
			continue;
		list_del(&q->sweep.link);
		/* Whoever is to be answered first is: then the rest goes. */
		if (q->removing && !q->dirty.gone)
			list_append(&e->sweeps, &q->sweep.link);
		else
			queue_changed(e, q);
		return;
	}
}

/* ---- ends ---- */

static void
drain_end(struct engine *e, struct queue *q)
{
	if (q->pausers > 0 && !q->paused) {
		q->paused = true;
		dirty_mark(e, &q->dirty);
		tell_queue(e, q, "paused");
	}
	q->pausers = 0;
	if (q->drains)
		tell_queue(e, q, "drained");
	group_wake(e, &q->drains, ST_OK, NULL);
	if (q->deleting) {
		wq_assert(q->n_armed == 0);
		q->removing = true;
		q->sweep.next = 0;
		sweep_queue(e, q);
		return;
	}
	q->draining = false;
	queue_unpark(q);
	queue_changed(e, q);
}

void
drain_check(struct engine *e, struct queue *q)
{
	if (q->removing || sweep_active(q) || q->sweep.again != TIMERS_KEEP || q->n_running > 0 ||
		q->n_ready > q->n_parked)
		return;
	/* A queue that is to go has no held jobs that could go on afterwards: they run first. */
	if (q->deleting && q->n_parked > 0) {
		queue_unpark(q);
		queue_changed(e, q);
		return;
	}
	drain_end(e, q);
}

void
drain_left(struct engine *e, struct queue *q)
{
	if (q->removing)
		return;
	q->deleting = q->deleter != NULL;
	if (q->drains || q->deleter)
		return;
	q->sweep.scanning = false;
	q->sweep.again = TIMERS_KEEP;
	tell_queue(e, q, "undrained");
	q->draining = false;
	queue_unpark(q);
	queue_changed(e, q);
}

/* ---- requests ---- */

/* False: refused, and answered. */
static bool
drain_allowed(struct ask *a, int64_t timeout_ns)
{
	if (ask_bad_timeout(a, timeout_ns))
		return false;
	if (a->from && a->from->job->q == a->q) {
		ask_fail(a, ST_INVALID, "a run can't wait for its own queue");
		return false;
	}
	return true;
}

static void
drain_begin(struct engine *e, struct queue *q, enum timer_policy policy)
{
	if (!q->draining)
		tell_queue(e, q, "draining");
	q->draining = true;
	sweep_begin(e, q, policy);
	queue_changed(e, q);
}

void
drain_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_drain *op = ev->drain;
	struct ask a;
	int err;

	if (!ask_open_queue(&a, e, ev, op->queue) || !drain_allowed(&a, op->timeout_ns))
		return;
	if (a.q->deleting) {
		ask_fail(&a, ST_REFUSED_DRAINING, "the queue is being deleted");
		return;
	}
	if (!op->pause_after)
		a.level = LEVEL_ASYNC;
	err = wait_join(&a, op->pause_after ? W_DRAIN_PAUSE : W_DRAIN, &a.q->drains, a.q, NULL,
		op->timeout_ns);
	if (err < 0) {
		ask_fail_err(&a, err);
		return;
	}
	a.q->pausers += op->pause_after;
	drain_begin(e, a.q, op->timers);
}

void
queue_delete_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_queue_delete *op = ev->queue_delete;
	struct ask a;
	int err;

	if (!ask_open_queue(&a, e, ev, op->queue) || !drain_allowed(&a, op->timeout_ns))
		return;
	if (a.q == e->fallback) {
		ask_fail(&a, ST_INVALID, "the queue default can't be deleted");
		return;
	}
	if (op->timers == TIMERS_KEEP && a.q->n_armed + a.q->n_ready > 0) {
		ask_fail(&a, ST_INVALID, "the queue has pending jobs: expedite or cancel them");
		return;
	}
	err = wait_join(&a, W_DELETE, &a.q->deleter, a.q, NULL, op->timeout_ns);
	if (err < 0) {
		ask_fail_err(&a, err);
		return;
	}
	a.q->deleting = true;
	if (!a.q->removing)
		drain_begin(e, a.q, op->timers);
}
