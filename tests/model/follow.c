/*
 * Watching, against the engine itself: one who has looked once and then hears
 * every event knows, without asking, which jobs are armed, until when, which are
 * ready and which run; and no event comes that can't follow the one before.
 */
#include <stdlib.h>
#include <string.h>

#include "model/play.h"

static struct followed *
followed_of(struct play *p, const struct watch_event *ev)
{
	for (int q = 0; q < REF_QUEUES; q++)
		if (str_eq(ev->queue, str_from(play_queue_names[q])))
			return &p->followed[q][ev->key.p[0] - '0'];
	play_differ("event of queue %.*s", STR_ARG(ev->queue));
}

static void
check(const struct watch_event *ev, bool can_be)
{
	if (!can_be)
		play_differ("event %d of %.*s/%.*s can't be now", (int)ev->kind, STR_ARG(ev->queue),
			STR_ARG(ev->key));
}

static void
armed(struct followed *f, const struct watch_event *ev)
{
	check(ev, ev->has_deadline);
	f->pending = JOB_ARMED;
	f->deadline = ev->deadline_wall_ns;
}

/* What was running runs no more. */
static void
over(struct followed *f, const struct watch_event *ev)
{
	check(ev, f->running && ev->generation == f->generation);
	f->running = false;
}

static void
told(void *ctx, const struct watch_event *ev)
{
	struct followed *f = ev->kind == EVENT_QUEUE ? NULL : followed_of(ctx, ev);
	const struct play *p = ctx;

	switch (ev->kind) {
	case EVENT_ARMED:
		check(ev, f->pending == JOB_IDLE);
		armed(f, ev);
		break;
	case EVENT_UPDATED:
		check(ev, f->pending != JOB_IDLE);
		armed(f, ev);
		break;
	case EVENT_SKIPPED:
		check(ev,
			f->pending == JOB_ARMED &&
				(p->stepped || ev->deadline_wall_ns == f->deadline));
		break;
	case EVENT_READY:
		check(ev, !ev->has_deadline);
		f->pending = JOB_READY;
		break;
	case EVENT_STARTED:
		check(ev, f->pending == JOB_READY && !f->running);
		f->pending = JOB_IDLE;
		f->running = true;
		f->generation = ev->generation;
		break;
	case EVENT_FINISHED:
	case EVENT_RETURNED:
		over(f, ev);
		break;
	case EVENT_CANCELLED:
		check(ev, f->pending != JOB_IDLE);
		f->pending = JOB_IDLE;
		break;
	case EVENT_QUEUE:
		break;
	}
}

static enum job_state
state_of(enum job_state s)
{
	return s == JOB_HELD ? JOB_READY : s;
}

static struct followed
look(struct play *p, int queue, int key)
{
	struct job_name name = rig_name(play_job_text(queue, key));
	struct followed f = { 0 };
	struct job_view v = { 0 };

	if (engine_get(p->rig.e, p->rig.now, &name, &v) != ST_OK)
		return f;
	f.running = v.state == JOB_RUNNING;
	f.pending = state_of(v.pending_state);
	f.deadline = f.pending == JOB_ARMED ? v.deadline_wall_ns : 0;
	f.generation = v.generation;
	return f;
}

void
follow_begin(struct play *p)
{
	rig_watch(&p->rig, told, p);
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			p->followed[q][k] = look(p, q, k);
}

void
follow_compare(struct play *p)
{
	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct followed is = look(p, q, k), *f = &p->followed[q][k];

			if (f->running != is.running || f->pending != is.pending)
				play_differ("%s: told %s%s, is %s%s", play_job_text(q, k),
					f->running ? "running/" : "", job_state_word(f->pending),
					is.running ? "running/" : "", job_state_word(is.pending));
			/* A deadline in boot time is another one by a clock that was set. */
			if (!p->stepped && is.pending == JOB_ARMED && f->deadline != is.deadline)
				play_differ("%s: told of deadline %ld, is %ld", play_job_text(q, k),
					(long)f->deadline, (long)is.deadline);
		}
	}
}
