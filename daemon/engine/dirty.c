/*
 * What has changed and is not yet handed to the store: a FIFO of things, each
 * once, at the place of its first change, so that what a mark promises stays
 * promised. A thing that dies on it, or that the store knows, stays as a
 * tombstone in that place until it has been handed out.
 *
 * What only makes sense together (the end of a run and its record, a change and
 * the answer that tells of it) has one mark and is handed out together.
 */
#include "base/alloc.h"
#include "engine/export.h"

void
dirty_init(struct dirty *d, enum dirty_kind kind)
{
	*d = (struct dirty){ .kind = (uint8_t)kind };
	list_init(&d->link);
}

void
dirty_mark(struct engine *e, struct dirty *d)
{
	wq_assert(!d->gone);
	if (list_linked(&d->link))
		return;
	d->mark = ++e->marks;
	e->n_dirty++;
	list_append(&e->dirty, &d->link);
}

void
dirty_mark_with(struct engine *e, struct dirty *d, const struct dirty *leader)
{
	if (list_linked(&d->link))
		return;
	if (leader->gone || !list_linked(&leader->link)) {
		dirty_mark(e, d);
		return;
	}
	d->mark = leader->mark;
	e->n_dirty++;
	/* Right behind it. */
	list_append(leader->link.next, &d->link);
}

static void
dirty_unmark(struct engine *e, struct dirty *d)
{
	if (!list_linked(&d->link))
		return;
	list_del(&d->link);
	e->n_dirty--;
}

static void
bury(struct engine *e, struct dirty *d)
{
	list_append(&e->grave, &d->link);
}

/* Ahead of all, under the mark of the first: nothing that waits for a mark waits for this. */
static void
dirty_mark_first(struct engine *e, struct dirty *d)
{
	struct dirty *first = list_first(&e->dirty, struct dirty, link);

	if (!first || list_linked(&d->link)) {
		dirty_mark(e, d);
		return;
	}
	d->mark = first->mark;
	e->n_dirty++;
	list_prepend(&e->dirty, &d->link);
}

/* A queue goes after its jobs; runs go before theirs, and an answer before another to its id,
 * which may have come to stand further ahead, beside its job. */
static void
dirty_mark_gone(struct engine *e, struct dirty *d)
{
	switch ((enum dirty_kind)d->kind) {
	case DIRTY_QUEUE:
		dirty_unmark(e, d);
		dirty_mark(e, d);
		break;
	case DIRTY_RECORD:
	case DIRTY_ANSWER:
		dirty_mark_first(e, d);
		break;
	case DIRTY_JOB:
	case DIRTY_COMPLETION:
		dirty_mark(e, d);
		break;
	}
	d->gone = true;
}

void
dirty_gone(struct engine *e, struct dirty *d)
{
	wq_assert(!d->gone);
	if (d->stored) {
		dirty_mark_gone(e, d);
		return;
	}
	dirty_unmark(e, d);
	d->gone = true;
	bury(e, d);
}

static struct queue *
dirty_queue(struct dirty *d)
{
	return container_of(d, struct queue, dirty);
}

static struct job *
dirty_job(struct dirty *d)
{
	return container_of(d, struct side, dirty)->job;
}

static struct record *
dirty_record(struct dirty *d)
{
	return container_of(d, struct record, dirty);
}

static struct answer *
dirty_answer(struct dirty *d)
{
	return container_of(d, struct answer, dirty);
}

static struct completion *
dirty_completion(struct dirty *d)
{
	return container_of(d, struct completion, dirty);
}

/* ---- handing out ---- */

static void
put_queue(const struct persist_sink *sink, struct queue *q)
{
	if (q->dirty.gone)
		sink->queue_remove(sink->ctx, q->name);
	else
		sink->queue_put(sink->ctx, q->name, &q->s, q->paused);
}

/* One that was deleted is not to be run again because the daemon ended under it. */
static const struct run *
saved_run(const struct job *j)
{
	return side_of(j)->forget ? NULL : side_of(j)->run;
}

static void
save_run(struct job_saved *s, const struct run *run)
{
	s->running = true;
	if (s->pending == JOB_IDLE)
		s->seq = run->seq;
	s->run_coalesced = run->coalesced;
	s->run_due_wall_ns = run->due_wall_ns;
	s->run_started_wall_ns = run->started_wall_ns;
}

static void
save_parts(struct job_saved *s, const struct job *j, const struct run *going)
{
	const struct payload *run = going ? going->payload : NULL;
	const struct payload *own =
		job_pend(j) != PEND_NONE || !side_of(j)->run ? job_payload(j) : run;

	if (own) {
		s->parts = own->parts;
		s->n_parts = own->n;
		s->command = own->command;
	}
	if (run && own != run) {
		s->run_parts = run->parts;
		s->n_run_parts = run->n;
		s->run_command = run->command;
	}
}

static void
save(const struct job *j, const struct run *going, struct moment now, struct job_saved *s)
{
	*s = (struct job_saved){
		.queue = j->q->name,
		.key = job_key(j),
		.absolute = j->absolute,
		.delay_ns = job_delay(j),
		.slack_ns = side_of(j)->slack_ns,
		.max_wait_ns = side_of(j)->max_wait_ns,
		.seq = j->seq,
		.generation = side_of(j)->generation,
		.attempt = side_of(j)->retry ? side_of(j)->attempt + 1 : side_of(j)->attempt,
		.interrupts = side_of(j)->interrupts,
		.retry = side_of(j)->retry,
		.coalesced = j->coalesced,
		.disable_depth = side_of(j)->disable_depth,
		.dead = side_of(j)->dead,
		.level = (enum durability)j->level,
	};
	if (job_pend(j) != PEND_NONE) {
		s->pending = job_pend(j) == PEND_TIMER ? JOB_ARMED : JOB_READY;
		s->due_boot_ns = job_due_boot(now, j);
		s->due_wall_ns = job_due_wall(now, j);
		s->created_wall_ns = moment_wall(now, j->created_ns);
	}
	if (going)
		save_run(s, going);
	save_parts(s, j, going);
}

void
job_save(const struct job *j, struct moment now, struct job_saved *s)
{
	save(j, saved_run(j), now, s);
}

void
job_save_going(const struct job *j, struct moment now, struct job_saved *s)
{
	save(j, side_of(j)->run, now, s);
}

static void
forget_job(struct engine *e, const struct persist_sink *sink, struct job *j)
{
	uint32_t id = ids_of(&e->ids, job_number(e, j));

	if (!id)
		return;
	sink->job_remove(sink->ctx, j->q->name, job_key(j), id);
	ids_give(&e->ids, id);
	(void)ids_bind(&e->ids, job_number(e, j), 0);
}

/* 0 without memory. */
static uint32_t
new_id(struct engine *e, const struct job *j)
{
	uint32_t id = ids_take(&e->ids);

	if (id && ids_bind(&e->ids, job_number(e, j), id) < 0) {
		ids_give(&e->ids, id);
		return 0;
	}
	return id;
}

static void
put_job(struct engine *e, const struct persist_sink *sink, struct moment now, struct job *j)
{
	struct job_saved s;
	uint32_t id;
	bool first;

	if (job_gone(j) || (side_of(j)->forget && j->state == JS_R)) {
		forget_job(e, sink, j);
		return;
	}
	id = ids_of(&e->ids, job_number(e, j));
	first = id == 0;
	if (first)
		id = new_id(e, j);
	job_save(j, now, &s);
	s.id = id;
	s.payload_changed = j->stale || first;
	s.moved = !j->whole && !s.payload_changed;
	sink->job_put(sink->ctx, &s);
	j->stale = j->whole = false;
}

static void
put_record(const struct persist_sink *sink, struct record *r)
{
	if (r->dirty.gone)
		sink->run_remove(sink->ctx, r->seq);
	else
		sink->run_add(sink->ctx, r->seq, &r->r);
}

static void
put_answer(const struct persist_sink *sink, struct moment now, struct answer *a)
{
	struct str id = { a->text, a->id_n };
	struct answer_saved s = {
		.id = id,
		.asked = (enum asked)a->asked,
		.reply = a->reply,
		.until_wall_ns = moment_wall(now, a->until_ns),
	};

	if (a->dirty.gone)
		sink->answer_remove(sink->ctx, id);
	else
		sink->answer_put(sink->ctx, &s);
}

static void
put_completion(const struct persist_sink *sink, struct completion *c)
{
	struct completion_saved s = {
		.name = completion_name(c),
		.done = c->done,
		.open = c->open,
		.level = (enum durability)c->level,
	};

	if (c->dirty.gone)
		sink->completion_remove(sink->ctx, s.name);
	else
		sink->completion_put(sink->ctx, &s);
}

static void
put_thing(struct engine *e, const struct persist_sink *sink, struct moment now, struct dirty *d)
{
	switch ((enum dirty_kind)d->kind) {
	case DIRTY_QUEUE:
		put_queue(sink, dirty_queue(d));
		return;
	case DIRTY_JOB:
		put_job(e, sink, now, dirty_job(d));
		return;
	case DIRTY_RECORD:
		put_record(sink, dirty_record(d));
		return;
	case DIRTY_ANSWER:
		put_answer(sink, now, dirty_answer(d));
		return;
	case DIRTY_COMPLETION:
		put_completion(sink, dirty_completion(d));
		return;
	}
}

uint64_t
engine_take_dirty(
	struct engine *e, struct moment now, size_t limit, const struct persist_sink *sink)
{
	uint64_t mark = 0;
	struct dirty *d;

	while ((d = list_first(&e->dirty, struct dirty, link)) != NULL) {
		/* What has one mark stays together, whatever the limit. */
		if (d->mark != mark && limit == 0)
			break;
		mark = d->mark;
		limit -= limit > 0;
		put_thing(e, sink, now, d);
		dirty_unmark(e, d);
		d->stored = true;
		if (d->gone)
			bury(e, d);
		else if (d->kind == DIRTY_JOB)
			job_narrow(e, dirty_job(d));
	}
	e->urgent = false;
	d = list_first(&e->dirty, struct dirty, link);
	return d ? d->mark - 1 : e->marks;
}

size_t
engine_dirty(const struct engine *e)
{
	return e->n_dirty;
}

uint64_t
engine_dirty_mark(const struct engine *e)
{
	return e->marks;
}

bool
engine_dirty_urgent(const struct engine *e)
{
	return e->urgent;
}

/* ---- the graveyard ---- */

static void
grave_free_job(struct engine *e, struct job *j)
{
	struct queue *q = j->q;

	job_free(e, j);
	queue_unpin(e, q);
}

static void
grave_free(struct engine *e, struct dirty *d)
{
	switch ((enum dirty_kind)d->kind) {
	case DIRTY_QUEUE:
		/* What still names it buries it again when it goes. */
		if (dirty_queue(d)->pins == 0)
			queue_free(e, dirty_queue(d));
		return;
	case DIRTY_JOB:
		grave_free_job(e, dirty_job(d));
		return;
	case DIRTY_RECORD:
		record_free(e, dirty_record(d));
		return;
	case DIRTY_ANSWER:
		answer_free(e, dirty_answer(d));
		return;
	case DIRTY_COMPLETION:
		completion_free(e, dirty_completion(d));
		return;
	}
}

void
grave_clear(struct engine *e)
{
	struct dirty *d;

	while ((d = list_first(&e->grave, struct dirty, link)) != NULL) {
		list_del(&d->link);
		grave_free(e, d);
	}
}

void
queue_pin(struct queue *q)
{
	q->pins++;
}

void
queue_unpin(struct engine *e, struct queue *q)
{
	wq_assert(q->pins > 0);
	q->pins--;
	/* Off all lists: the store knows, and it was only waiting for this. */
	if (q->pins == 0 && q->dirty.gone && !list_linked(&q->dirty.link))
		bury(e, &q->dirty);
}
