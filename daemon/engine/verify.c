/*
 * What must always hold, checked over everything.
 */
#include "engine/internal.h"

struct tally {
	uint64_t bytes, jobs, armed, ready, parked, running, records;
};

static void
verify_job_lists(const struct job *j)
{
	bool ready = job_pend(j) == PEND_READY;

	wq_assert(timer_armed(&j->timer) == (job_pend(j) == PEND_TIMER));
	wq_assert(list_linked(&side_of(j)->ready) == (ready && !side_of(j)->aside));
	wq_assert(!side_of(j)->aside || j->state == JS_RQ);
	wq_assert((side_of(j)->colour != NULL) == ready);
	wq_assert(ready || side_of(j)->parked == 0);
}

static void
verify_job(const struct engine *e, const struct job *j)
{
	bool cancelling = wait_any(j, ON_CANCEL);

	CHECK_OBJ(j, JOB_MAGIC);
	wq_assert(job_find(e, j->q, job_key(j)) == j);
	wq_assert((side_of(j)->run != NULL) == job_running(j));
	verify_job_lists(j);
	wq_assert(!side_of(j)->dead || j->state == JS_I);
	wq_assert(!side_of(j)->retry || j->state == JS_A || j->state == JS_Q);
	wq_assert((side_of(j)->disable_depth > 0 || cancelling) ==
		(j->state == JS_X || j->state == JS_RX));
	wq_assert(!cancelling || j->state == JS_RX);
	wq_assert(!job_payload(j) || side_of(j)->dead || job_pend(j) != PEND_NONE);
	wq_assert(!wait_any(j, ON_FLUSH_RUN) || job_running(j));
	wq_assert(!wait_any(j, ON_FLUSH_NEXT) || job_pend(j) == PEND_READY);
	wq_assert(!wait_any(j, ON_WAIT_RUN) || job_running(j) || side_of(j)->retry);
	wq_assert(!wait_any(j, ON_WAIT_NEXT) || job_pend(j) != PEND_NONE);
	/* Forgotten when nothing is left to know. */
	wq_assert(j->state != JS_I || side_of(j)->dead || side_of(j)->pins ||
		!list_empty(&side_of(j)->records));
	if (side_of(j)->run) {
		CHECK_OBJ(side_of(j)->run, RUN_MAGIC);
		wq_assert(side_of(j)->run->job == j);
		wq_assert(job_run_by_id(e, side_of(j)->run->id) == side_of(j)->run);
		wq_assert(job_run_by_token(e, side_of(j)->run->token) == side_of(j)->run);
	}
}

static void
verify_job_records(const struct job *j)
{
	uint64_t seq = UINT64_MAX;

	list_each(r, &side_of(j)->records, struct record, of_job) {
		CHECK_OBJ(r, RECORD_MAGIC);
		wq_assert(r->job == j && r->q == j->q && r->refs > 0);
		wq_assert(r->seq < seq);
		seq = r->seq;
		wq_assert(
			list_linked(&r->of_queue) || (side_of(j)->dead && r == history_newest(j)));
	}
}

static void
count_payload(struct tally *t, const struct job *j, const struct payload *p)
{
	wq_assert(!p || p->q == j->q);
	t->bytes += p ? p->bytes : 0;
}

static void
count_job(struct tally *t, const struct job *j)
{
	t->bytes += job_key(j).n;
	count_payload(t, j, job_payload(j));
	count_payload(t, j, side_of(j)->run ? side_of(j)->run->payload : NULL);
	t->armed += job_pend(j) == PEND_TIMER;
	t->ready += job_pend(j) == PEND_READY;
	t->parked += job_pend(j) == PEND_READY && side_of(j)->parked == j->q->park_epoch;
	t->running += job_running(j);
}

static void
verify_ready(const struct engine *e, const struct queue *q)
{
	uint64_t n = 0;

	list_each(s, &q->ready, struct side, ready) {
		const struct job *j = s->job;

		wq_assert(j->q == q && side_of(j)->parked != q->park_epoch);
		n++;
	}
	list_each(s, &q->parked, struct side, ready) {
		const struct job *j = s->job;

		wq_assert(j->q == q && side_of(j)->parked == q->park_epoch);
		n++;
	}
	n += q->n_kept;
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		const struct job *j = job_live(e, i);

		n += j && j->q == q && side_of(j)->aside;
		wq_assert(!j || j->q != q || !side_of(j)->tenant || job_pend(j) == PEND_READY);
	}
	wq_assert(n == q->n_ready);
}

static void
verify_colours(const struct queue *q)
{
	uint64_t n = 0;
	bool oldest = true;

	list_each(c, &q->colours, struct colour, link) {
		bool newest = c->link.next == &q->colours;

		n += c->n;
		/* An empty one that is over goes soon, and nobody waits for one that is open. */
		wq_assert(!oldest || newest || c->n > 0 || list_linked(&q->sweep.link));
		wq_assert(!newest || !c->waiters);
		oldest = false;
	}
	wq_assert(n == q->n_ready + q->n_running);
}

static void
verify_records(const struct queue *q, uint64_t n)
{
	uint64_t listed = 0;

	list_each(r, &q->records, struct record, of_queue) {
		wq_assert(r->q == q);
		listed++;
	}
	wq_assert(listed == q->n_records);
	wq_assert(n >= listed);
}

static void
verify_turn(const struct queue *q)
{
	wq_assert(list_linked(&q->turn) == queue_may_start(q));
}

static void
verify_queue(const struct engine *e, const struct queue *q, struct tally *all)
{
	struct tally t = { 0 };
	uint64_t n = 0;

	CHECK_OBJ(q, QUEUE_MAGIC);
	wq_assert(queue_find(e, q->name) == q);
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		const struct job *j = job_live(e, i);

		if (!j || j->q != q)
			continue;
		verify_job(e, j);
		verify_job_records(j);
		count_job(&t, j);
		list_each(r, &side_of(j)->records, struct record, of_job)
			t.records++;
		n++;
	}
	wq_assert(n == q->n_jobs && t.bytes == q->n_bytes);
	wq_assert(t.armed == q->n_armed && t.ready == q->n_ready);
	wq_assert(t.parked == q->n_parked && t.running == q->n_running);
	wq_assert(q->draining || q->n_parked == 0);
	wq_assert(q->draining == (q->drains || q->deleter || q->removing));
	verify_ready(e, q);
	verify_colours(q);
	verify_records(q, t.records);
	verify_turn(q);
	timers_verify(&q->sweep.found);
	all->armed += t.armed;
	all->ready += t.ready;
	all->running += t.running;
	all->jobs += n;
}

static void
verify_dirty(const struct engine *e)
{
	uint64_t mark = 0;
	size_t n = 0;

	list_each(d, &e->dirty, struct dirty, link) {
		wq_assert(d->mark >= mark && d->mark > 0);
		mark = d->mark;
		n++;
	}
	wq_assert(n == e->n_dirty && mark <= e->marks);
}

static void
verify_waiters(const struct engine *e)
{
	uint64_t n = 0;

	list_each(w, &e->all_waiters, struct waiter, all) {
		CHECK_OBJ(w, WAITER_MAGIC);
		CHECK_OBJ(w->group, GROUP_MAGIC);
		n++;
	}
	wq_assert(n == e->stats.waiters && n == map_count(&e->waiters));
	list_each(g, &e->wake, struct wait_group, link)
		wq_assert(g->awake && !list_empty(&g->waiters));
}

static void
verify_completions(const struct engine *e)
{
	uint64_t n = 0;

	list_each(c, &e->all_completions, struct completion, of_engine) {
		completion_verify(e, c);
		n++;
	}
	wq_assert(n == e->stats.completions && n == map_count(&e->completions));
}

void
engine_verify(const struct engine *e)
{
	struct tally all = { 0 };
	uint64_t queues = 0, found = 0;

	CHECK_OBJ(e, ENGINE_MAGIC);
	list_each(q, &e->queues, struct queue, of_engine) {
		verify_queue(e, q, &all);
		found += q->sweep.found.n;
		queues++;
	}
	wq_assert(queues == e->stats.queues && queues == map_count(&e->queue_names));
	wq_assert(all.jobs == e->stats.jobs && all.jobs == e->keys.n);
	wq_assert(all.armed == e->stats.armed && all.armed == e->boot.n + e->wall.n + found);
	wq_assert(all.ready == e->stats.ready && all.running == e->stats.running);
	verify_dirty(e);
	verify_waiters(e);
	verify_completions(e);
	workers_verify(e);
	wheel_verify(&e->boot, e->boot.n);
	wheel_verify(&e->wall, all.armed - e->boot.n - found);
	timers_verify(&e->timeouts);
	index_verify(&e->keys);
	map_verify(&e->waiters);
	map_verify(&e->results);
	map_verify(&e->runs);
	map_verify(&e->tokens);
	map_verify(&e->answers);
	map_verify(&e->completions);
	timers_verify(&e->answer_ends);
	wq_assert(map_count(&e->answers) == e->answer_ends.n);
	timers_verify(&e->paces);
	tenants_verify(e);
	pools_verify(e);
}
