/*
 * What happens, told to those who watch: an effect for each change of state. An
 * engine that is not watched makes none.
 */
#include "engine/internal.h"

void
engine_set_watched(struct engine *e, bool watched)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	e->watched = watched;
}

void
tell_job_slow(struct engine *e, enum watch_kind kind, const struct job *j)
{
	bool handed = kind == EVENT_STARTED || kind == EVENT_RETURNED;
	bool coming = kind == EVENT_CANCELLED || (job_pend(j) != PEND_NONE && !handed);

	engine_effect(e, FX_EVENT)->event = (struct watch_event){
		.kind = kind,
		.queue = j->q->name,
		.key = job_key(j),
		.generation = coming ? job_coming(j) : side_of(j)->generation,
		.attempt = handed ? side_of(j)->attempt : 0,
		.coalesced = handed ? side_of(j)->run->coalesced : j->coalesced,
		.has_deadline = job_pend(j) == PEND_TIMER,
		.deadline_wall_ns = job_pend(j) == PEND_TIMER ? job_due_wall(e->now, j) : 0,
	};
}

void
tell_run_slow(struct engine *e, const struct run_record *r)
{
	engine_effect(e, FX_EVENT)->event = (struct watch_event){
		.kind = EVENT_FINISHED,
		.queue = r->queue,
		.key = r->key,
		.generation = r->generation,
		.attempt = r->attempt,
		.coalesced = r->coalesced,
		.outcome = r->outcome,
		.final = r->final,
	};
}

void
tell_queue_slow(struct engine *e, const struct queue *q, const char *change)
{
	engine_effect(e, FX_EVENT)->event = (struct watch_event){
		.kind = EVENT_QUEUE,
		.queue = q->name,
		.change = change,
	};
}
