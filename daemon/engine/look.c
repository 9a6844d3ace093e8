/*
 * Looking: jobs, lists, history, queues, counters. Nothing changes.
 */
#include "engine/export.h"

/* ---- jobs ---- */

enum job_state
job_shown_pending(const struct job *j)
{
	switch (job_pend(j)) {
	case PEND_TIMER:
		return JOB_ARMED;
	case PEND_READY:
		return side_of(j)->tenant || queue_holds(j->q) ? JOB_HELD : JOB_READY;
	case PEND_NONE:
		break;
	}
	return JOB_IDLE;
}

enum job_state
job_shown(const struct job *j)
{
	return job_running(j) ? JOB_RUNNING : job_shown_pending(j);
}

static void
view_generation(const struct job *j, struct job_view *v)
{
	v->generation = side_of(j)->generation;
	v->attempt = side_of(j)->attempt;
	if (job_running(j) || job_pend(j) == PEND_NONE)
		return;
	v->generation = job_coming(j);
	v->attempt = side_of(j)->retry ? side_of(j)->attempt + 1 : 1;
}

static void
job_look(const struct engine *e, const struct job *j, struct moment now, struct job_view *v)
{
	const struct record *last = history_newest(j);
	const struct run *run = side_of(j)->run;
	bool pending = job_pend(j) != PEND_NONE;
	const struct payload *payload = pending || !run ? job_payload(j) : run->payload;

	*v = (struct job_view){
		.queue = j->q->name,
		.key = job_key(j),
		.state = job_shown(j),
		.pending = pending,
		.pending_state = job_shown_pending(j),
		.has_deadline = pending,
		.deadline_wall_ns = pending ? job_due_wall(now, j) : 0,
		.coalesced = pending || !run ? j->coalesced : run->coalesced,
		.disable_depth = side_of(j)->disable_depth,
		.level = (enum durability)j->level,
		.command = payload_command(payload),
		.payload_bytes = payload_bytes(payload) - payload_command(payload).n,
		.last = last ? &last->r : NULL,
		.dead = side_of(j)->dead,
	};
	view_generation(j, v);
	if (run && run->lease)
		lease_look(e, now, run, v);
}

static enum status
look_job(const struct engine *e, const struct job_name *name, struct job **out)
{
	struct queue *q = queue_find(e, name->queue);

	*out = q && key_valid(name->key) ? job_find(e, q, name->key) : NULL;
	return *out ? ST_OK : ST_NOT_FOUND;
}

enum status
engine_get(const struct engine *e, struct moment now, const struct job_name *name,
	struct job_view *out)
{
	struct job *j;
	enum status st = look_job(e, name, &j);

	if (st == ST_OK)
		job_look(e, j, now, out);
	return st;
}

bool
engine_run_job(const struct engine *e, struct moment now, uint64_t run_id, struct job_view *out)
{
	const struct run *run = job_run_by_id(e, run_id);

	if (run)
		job_look(e, run->job, now, out);
	return run != NULL;
}

/* ---- lists ---- */

#define LIST_LOOKS 4096u /* records looked at for one page */

static bool
list_matches(const struct list_filter *f, const struct job_view *v)
{
	struct str key = v->key;

	if (key.n < f->prefix.n || (f->prefix.n && memcmp(key.p, f->prefix.p, f->prefix.n) != 0))
		return false;
	if (f->has_state && v->state != f->state)
		return false;
	if (f->due_from_ns == 0 && f->due_to_ns == INT64_MAX)
		return true;
	return v->has_deadline && v->deadline_wall_ns >= f->due_from_ns &&
		v->deadline_wall_ns <= f->due_to_ns;
}

enum status
engine_list(const struct engine *e, struct moment now, const struct list_filter *f,
	uint64_t *cursor, size_t limit, bool (*each)(void *arg, const struct job_view *), void *arg)
{
	const struct queue *q = NULL;
	uint64_t at = *cursor, top = slab_top(&e->jobs), stop;
	struct job_view v;

	if (f->queue.n > 0) {
		q = queue_find(e, f->queue);
		if (!q)
			return ST_NOT_FOUND;
	}
	stop = at < top && top - at > LIST_LOOKS ? at + LIST_LOOKS : top;
	for (bool more = true; at < stop && limit > 0 && more; at++) {
		const struct job *j = job_live(e, (uint32_t)at);

		if (!j || (q && j->q != q))
			continue;
		job_look(e, j, now, &v);
		if (!list_matches(f, &v))
			continue;
		more = each(arg, &v);
		limit--;
	}
	*cursor = at < top ? at : 0;
	return ST_OK;
}

/* ---- history ---- */

static void
history_of_job(const struct job *j, size_t skip, size_t limit,
	bool (*each)(void *arg, const struct run_record *), void *arg)
{
	list_each(r, &side_of(j)->records, struct record, of_job) {
		if (skip > 0) {
			skip--;
			continue;
		}
		if (limit-- == 0 || !each(arg, &r->r))
			return;
	}
}

static void
history_of_queue(const struct queue *q, size_t skip, size_t limit,
	bool (*each)(void *arg, const struct run_record *), void *arg)
{
	for (const struct list *l = q->records.prev; l != &q->records; l = l->prev) {
		if (skip > 0) {
			skip--;
			continue;
		}
		if (limit-- == 0 || !each(arg, &list_entry(l, const struct record, of_queue)->r))
			return;
	}
}

enum status
engine_history(const struct engine *e, const struct job_name *name, size_t skip, size_t limit,
	bool (*each)(void *arg, const struct run_record *), void *arg)
{
	struct queue *q = queue_find(e, name->queue);
	struct job *j;

	if (!q)
		return ST_NOT_FOUND;
	if (name->key.n == 0) {
		history_of_queue(q, skip, limit, each, arg);
		return ST_OK;
	}
	if (look_job(e, name, &j) != ST_OK)
		return ST_NOT_FOUND;
	history_of_job(j, skip, limit, each, arg);
	return ST_OK;
}

/* ---- queues and counters ---- */

void
queue_look(const struct engine *e, const struct queue *q, struct queue_view *v)
{
	bool holds = queue_holds(q);
	uint64_t held = holds ? q->n_ready : q->n_kept;

	*v = (struct queue_view){
		.name = q->name,
		.settings = &q->s,
		.jobs = q->n_jobs,
		.bytes = q->n_bytes,
		.armed = q->n_armed,
		.ready = q->n_ready - held,
		.held = held,
		.held_prefix = q->n_kept,
		.rate_next_wall_ns = timer_armed(&q->pace)
			? moment_wall(e->now, timer_due(&e->paces, &q->pace))
			: 0,
		.running = q->n_running,
		.paused = q->paused,
		.draining = q->draining,
		.workers = q->n_places,
	};
}

enum status
engine_queue_get(const struct engine *e, struct str queue, struct queue_view *out)
{
	const struct queue *q = queue_find(e, queue);

	if (!q)
		return ST_NOT_FOUND;
	queue_look(e, q, out);
	return ST_OK;
}

struct oldest {
	const struct queue *q;
	int64_t since_ns; /* wall; INT64_MAX: none */
};

static void
look_at_run(void *arg, struct map_node *node)
{
	const struct run *run = container_of(node, const struct run, by_id);
	struct oldest *o = arg;

	if (run->job->q == o->q && run->started_wall_ns < o->since_ns)
		o->since_ns = run->started_wall_ns;
}

enum status
engine_drain_get(
	const struct engine *e, struct moment now, struct str queue, struct drain_view *out)
{
	const struct queue *q = queue_find(e, queue);
	struct oldest o = { q, INT64_MAX };
	uint64_t cursor = 0;

	if (!q)
		return ST_NOT_FOUND;
	map_scan(&e->runs, &cursor, SIZE_MAX, look_at_run, &o);
	*out = (struct drain_view){
		.left = q->n_ready - q->n_parked + q->n_running,
		.running = q->n_running,
		.oldest_ns = o.since_ns == INT64_MAX ? -1
			: now.wall_ns > o.since_ns   ? now.wall_ns - o.since_ns
						     : 0,
	};
	return ST_OK;
}

void
engine_queue_each(const struct engine *e, uint64_t *cursor,
	bool (*each)(void *arg, const struct queue_view *), void *arg)
{
	uint64_t from = *cursor;
	struct queue_view v;

	*cursor = 0;
	list_each(q, &e->queues, struct queue, of_engine) {
		if (q->n < from)
			continue;
		queue_look(e, q, &v);
		if (!each(arg, &v)) {
			*cursor = q->n;
			return;
		}
	}
}

void
engine_set_spaces(struct engine *e)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	e->spaces = true;
}

bool
engine_spaces(const struct engine *e)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	return e->spaces;
}

void
engine_stats_get(const struct engine *e, struct engine_stats *out)
{
	*out = e->stats;
	out->answers = map_count(&e->answers);
}

const struct hist *
engine_lateness(const struct engine *e)
{
	return &e->lateness;
}
