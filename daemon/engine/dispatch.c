/*
 * Ready -> run: whose turn it is.
 *
 * A queue that may start something is in the circle of its pool and priority. In
 * its turn it starts as many as its weight says, mostly one; then it goes to the
 * end, so that a queue with 100 000 ready jobs delays another's first start by one
 * turn. Of the priorities the higher comes first, but within a round each has only
 * so many starts while others want some: of 20 contended starts low queues get
 * one, normal ones get four. Pools take turns, a start each.
 */
#include <errno.h>

#include "engine/internal.h"

static const uint32_t credit_full[N_PRIORITIES] = {
	[PRIORITY_HIGH] = 15,
	[PRIORITY_NORMAL] = 4,
	[PRIORITY_LOW] = 1,
};

#define BACKOFF_NS NS_PER_S

int64_t
dispatch_due(const struct engine *e)
{
	int64_t due = INT64_MAX;

	/* Mostly there is nothing to start. */
	if (e->stopping || e->holding || e->stats.ready == 0)
		return INT64_MAX;
	list_each(p, &e->pools, struct pool, of_engine) {
		int64_t at = pool_start_due(e, p);

		due = at < due ? at : due;
	}
	return due < e->starved_until_ns ? e->starved_until_ns : due;
}

struct queue *
dispatch_turn(struct pool *p)
{
	for (;;) {
		for (int i = 0; i < N_PRIORITIES; i++) {
			if (list_empty(&p->turn[i]) || p->credit[i] == 0)
				continue;
			p->credit[i]--;
			return list_first(&p->turn[i], struct queue, turn);
		}
		memcpy(p->credit, credit_full, sizeof p->credit);
	}
}

/* The next start that is due, of the pools in turn; NULL: none after all. */
static struct queue *
next_queue(struct engine *e, bool *reserve)
{
	list_each(p, &e->pools, struct pool, of_engine) {
		if (pool_start_due(e, p) > e->now.boot_ns)
			continue;
		list_del(&p->of_engine);
		list_append(&e->pools, &p->of_engine);
		return pool_next(e, p, reserve);
	}
	return NULL;
}

/* After a start for which something ran short: the job stays in front, the queue tries later. */
static void
queue_back_off(struct engine *e, struct queue *q)
{
	int64_t until_ns = sat_add(e->now.boot_ns, BACKOFF_NS);

	e->stats.start_retries++;
	/* No memory even for that: then all queues wait, rather than try without a pause. */
	if (timer_set(&e->backoffs, &q->backoff, until_ns, ++e->seq) < 0)
		e->starved_until_ns = until_ns;
	queue_changed(e, q);
}

/* ---- rates ---- */

/* Until there is a token again the queue starts nothing. 0 or -ENOMEM: none can be. */
static int
rate_wait(struct engine *e, struct queue *q)
{
	int64_t opens_ns = bucket_opens(&q->bucket, &q->s.rate, q->s.burst);

	if (opens_ns <= e->now.boot_ns) {
		timer_del(&e->paces, &q->pace);
		return 0;
	}
	e->stats.rate_waits += !timer_armed(&q->pace);
	return timer_set(&e->paces, &q->pace, opens_ns, ++e->seq);
}

/* A token for a start. The wait for the next one begins before the start, so that it can't fail. */
static int
rate_take(struct engine *e, struct queue *q)
{
	struct bucket was = q->bucket;
	int err;

	if (q->s.rate.n == 0)
		return 0;
	bucket_take(&q->bucket, e->now.boot_ns, &q->s.rate);
	err = rate_wait(e, q);
	if (err < 0)
		q->bucket = was;
	return err;
}

static void
rate_give_back(struct engine *e, struct queue *q)
{
	if (q->s.rate.n == 0)
		return;
	bucket_give_back(&q->bucket, &q->s.rate);
	/* Sooner than it was: it needs no memory. */
	(void)rate_wait(e, q);
}

void
queue_rate_changed(struct engine *e, struct queue *q, const struct rate *was)
{
	bucket_change(&q->bucket, e->now.boot_ns, was, &q->s.rate, q->s.burst);
	/* Without memory for the wait one starts early. */
	(void)rate_wait(e, q);
}

void
paces_some(struct engine *e, uint32_t most)
{
	struct timer *t;

	while (most-- > 0 && (t = timers_past(&e->paces, e->now.boot_ns)) != NULL &&
		engine_spend(e)) {
		timer_del(&e->paces, t);
		queue_changed(e, container_of(t, struct queue, pace));
	}
}

/* ---- starts ---- */

/* The first whose tenant lets it start. NULL: none, or none yet. */
static struct job *
queue_next(struct engine *e, struct queue *q)
{
	struct job *j;

	while ((j = queue_first_ready(q)) != NULL && tenant_full(e, j)) {
		tenant_wait(e, j);
		if (!engine_spend(e))
			return NULL;
	}
	return j;
}

static void
queue_start(struct engine *e, struct queue *q, bool reserve)
{
	struct job *j = queue_next(e, q);

	queue_turn_leave(q);
	if (!j) {
		queue_changed(e, q);
		return;
	}
	if (job_running(j)) {
		/* Its own run still goes: it waits aside, in front of all behind it. */
		queue_ready_aside(j);
		tenant_pass(e, j);
		queue_changed(e, q);
	} else if (rate_take(e, q) < 0) {
		queue_back_off(e, q);
	} else if (job_run_start(e, j, reserve) < 0) {
		rate_give_back(e, q);
		queue_back_off(e, q);
	}
	/* Its turn goes on. */
	q->turns_left = q->turns_left > 0 ? q->turns_left - 1 : q->s.weight - 1;
	if (q->turns_left > 0 && list_linked(&q->turn)) {
		list_del(&q->turn);
		list_prepend(&q->pool->turn[q->s.priority], &q->turn);
	}
}

void
dispatch_some(struct engine *e, uint32_t most)
{
	while (most > 0 && dispatch_due(e) <= e->now.boot_ns && engine_spend(e)) {
		bool reserve;
		struct queue *q = next_queue(e, &reserve);

		most--;
		if (q)
			queue_start(e, q, reserve);
	}
}

void
backoff_some(struct engine *e, uint32_t most)
{
	struct timer *t;

	while (most-- > 0 && (t = timers_past(&e->backoffs, e->now.boot_ns)) != NULL &&
		engine_spend(e)) {
		timer_del(&e->backoffs, t);
		queue_changed(e, container_of(t, struct queue, backoff));
	}
}

/* ---- a hand-over taken back ---- */

/* Without memory for it, who asks for the older number is told that there is no such run. */
static void
merge_generation(struct engine *e, const struct run *run, struct job *j)
{
	if (!wait_slot(j, ON_WAIT_NEXT))
		return;
	job_set_merged(j, run->merged + 1);
	e->merged = true;
}

/* The instance is pending again, as if it had never been handed over: what came while it seemed to
 * run goes into it. */
static void
give_back_instance(struct engine *e, struct run *run, struct job *j)
{
	bool newer = job_pend(j) != PEND_NONE;

	/* Both numbers have been told: the newer one stays, and stands for the older too. */
	if (!run->retry && newer)
		merge_generation(e, run, j);
	else if (!run->retry)
		job_side(j)->generation--;
	job_side(j)->attempt = run->retry ? side_of(j)->attempt - 1 : side_of(j)->attempt;
	job_side(j)->retry = run->retry && !newer;
	j->stale = true;
	/* What was appended meanwhile is not for a command: then the newer instance stands alone. */
	if (!newer || (side_of(j)->appended && !(run->payload && run->payload->command)))
		*job_payload_at(j) = payload_join(e, run->payload, job_payload(j));
	else if (!job_payload(j))
		*job_payload_at(j) = run->payload;
	else
		payload_free(e, run->payload);
	run->payload = NULL;
	j->coalesced = newer ? j->coalesced + run->coalesced + 1 : run->coalesced;
	if (newer)
		return;
	job_set_merged(j, run->merged);
	job_side(j)->appended = run->appended;
	j->absolute = run->absolute;
	j->due_ns = run->due_ns;
	j->created_ns = run->created_ns;
	job_set_delay(j, run->delay_ns);
	job_side(j)->slack_ns = run->slack_ns;
	job_side(j)->max_wait_ns = run->max_wait_ns;
	j->chained = run->chained;
}

/* Those who wait for the run wait for the pending instance again. */
static void
give_back_waiters(struct engine *e, const struct run *run, struct job *j, bool newer)
{
	job_wait_merge(e, j, ON_FLUSH_RUN, ON_FLUSH_NEXT);
	if (job_pend(j) != PEND_READY)
		job_wait_unready(e, j);
	if (!run->retry)
		job_wait_merge(e, j, ON_WAIT_RUN, ON_WAIT_NEXT);
	else if (newer)
		job_wake(e, j, ON_WAIT_RUN, ST_OK, history_find(e, j, side_of(j)->generation));
}

static void
take_back(struct engine *e, struct run *run, struct job *j)
{
	bool newer = job_pend(j) != PEND_NONE;
	enum jstate next = j->state == JS_RA ? JS_A : JS_Q;

	give_back_instance(e, run, j);
	job_enter(e, j, OP_NOT_STARTED, next);
	if (next == JS_A)
		colour_leave(e, j->q, run->colour);
	job_side(j)->run = NULL;
	give_back_waiters(e, run, j, newer);
}

/* It was cancelled, or deleted, while it seemed to run: what was only pending goes. */
static void
take_back_dropped(struct engine *e, struct run *run, struct job *j)
{
	if (!run->retry)
		job_side(j)->generation--;
	job_side(j)->forget = false;
	j->stale = true;
	job_wake(e, j, ON_CANCEL, ST_CANCELLED, NULL);
	job_wake(e, j, ON_FLUSH_RUN, ST_OK, history_newest(j));
	job_wake(e, j, ON_WAIT_RUN, ST_CANCELLED, NULL);
	job_side(j)->run = NULL;
	job_enter(e, j, OP_END, job_after_run(j));
	colour_leave(e, j->q, run->colour);
}

void
not_started_event(struct engine *e, const struct engine_event *ev)
{
	struct run *run = job_run_by_id(e, ev->run_id);

	if (!run)
		return;
	queue_back_off(e, run->job->q);
	job_run_take_back(e, run);
}

void
job_run_take_back(struct engine *e, struct run *run)
{
	struct job *j = run->job;

	job_side(j)->pins++;
	e->stats.starts--;
	rate_give_back(e, j->q);
	tell_job(e, EVENT_RETURNED, j);
	if (j->state == JS_RX || side_of(j)->forget)
		take_back_dropped(e, run, j);
	else
		take_back(e, run, j);
	job_changed(e, j);
	job_run_free(e, run);
	job_side(j)->pins--;
	job_settle(e, j);
}
