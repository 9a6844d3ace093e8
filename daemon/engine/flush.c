/*
 * FLUSH of a job and WAIT for one of its instances.
 *
 * A flush ends with the attempt that it waited for, so that a job which goes on
 * re-queueing or retrying does not hold it for ever. A wait ends with the last
 * attempt of its generation, or when that instance is taken away.
 */
#include <errno.h>

#include "base/err.h"
#include "engine/inside.h"
#include "engine/internal.h"

static bool
own_job(struct ask *a)
{
	if (!a->from || a->from->job != a->j)
		return false;
	ask_fail(a, ST_INVALID, "a run can't wait for its own job");
	return true;
}

static void
join(struct ask *a, enum wait_kind kind, enum job_event on, int64_t timeout_ns)
{
	struct wait_group **slot;
	int err;

	if (inside_refused(a, timeout_ns))
		return;
	slot = wait_slot(a->j, on);
	err = slot ? wait_join(a, kind, slot, a->q, a->j, timeout_ns) : -ENOMEM;

	if (err < 0)
		ask_fail_err(a, err);
}

static void
wait_coming(struct ask *a, enum job_event on, const struct op_wait *op, uint64_t generation)
{
	a->r.generation = generation;
	if (op->timeout_ns == 0)
		ask_fail(a, ST_TIMEOUT, "it has not ended yet");
	else
		join(a, W_WAIT, on, op->timeout_ns);
}

/* ---- flush ---- */

/* It becomes ready first: the group is joined before, so that nothing has changed on failure. */
static void
flush_armed(struct ask *a, const struct op_flush *op)
{
	struct wait_group **slot;
	int err;

	if (inside_refused(a, op->timeout_ns))
		return;
	slot = wait_slot(a->j, ON_FLUSH_NEXT);
	err = slot ? wait_join(a, W_FLUSH, slot, a->q, a->j, op->timeout_ns) : -ENOMEM;

	if (err < 0) {
		ask_fail_err(a, err);
		return;
	}
	a->j->chained = false;
	job_expedite(a->e, a->j, OP_FLUSH_NOW);
	job_changed(a->e, a->j);
}

void
flush_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_flush *op = ev->flush;
	struct ask a;
	enum status st;

	if (!ask_open(&a, e, ev, &op->job, LEVEL_ASYNC, STR_NONE) ||
		ask_bad_timeout(&a, op->timeout_ns))
		return;
	if (!a.j) {
		ask_done(&a, job_word(OP_FLUSH, JS_I));
		return;
	}
	if (own_job(&a))
		return;
	ask_before(&a);
	st = job_word(op->now ? OP_FLUSH_NOW : OP_FLUSH, a.j->state);
	if (op->now && job_pend(a.j) == PEND_TIMER)
		flush_armed(&a, op);
	else if (job_pend(a.j) == PEND_READY)
		join(&a, W_FLUSH, ON_FLUSH_NEXT, op->timeout_ns);
	else if (job_running(a.j))
		join(&a, W_FLUSH, ON_FLUSH_RUN, op->timeout_ns);
	else
		ask_done(&a, st);
}

/* ---- wait ---- */

static uint64_t
newest_generation(const struct job *j)
{
	const struct record *last = history_newest(j);

	if (job_running(j))
		return side_of(j)->generation;
	if (job_pend(j) != PEND_NONE)
		return job_coming(j);
	/* A number may have been given to an instance that was taken away. */
	return last ? last->r.generation : side_of(j)->generation;
}

/* The one that stands for `generation`: the coming or the running one it became part of, or itself. */
static uint64_t
standing_generation(const struct job *j, uint64_t generation)
{
	uint64_t coming = job_coming(j);

	if (job_pend(j) != PEND_NONE && generation < coming && coming - generation <= job_merged(j))
		return coming;
	if (side_of(j)->run && generation < side_of(j)->generation &&
		side_of(j)->generation - generation <= side_of(j)->run->merged)
		return side_of(j)->generation;
	return generation;
}

static void
wait_kept(struct ask *a, uint64_t generation)
{
	struct record *r = history_find_standing(a->e, a->j, generation);

	if (!r) {
		ask_fail(a, ST_NOT_FOUND, "no such run, or its result is not kept any more");
		return;
	}
	a->r.run = &r->r;
	a->r.generation = r->r.generation;
	ask_done(a, ST_OK);
}

void
wait_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_wait *op = ev->wait;
	uint64_t generation;
	struct ask a;

	if (!ask_open(&a, e, ev, &op->job, LEVEL_ASYNC, STR_NONE) ||
		ask_bad_timeout(&a, op->timeout_ns))
		return;
	if (!a.j) {
		ask_fail(&a, ST_NOT_FOUND, "no such job");
		return;
	}
	if (own_job(&a))
		return;
	ask_before(&a);
	generation =
		op->generation ? standing_generation(a.j, op->generation) : newest_generation(a.j);
	/* While it runs, or waits for its retry, the generation has no last result. */
	if (generation == side_of(a.j)->generation && (job_running(a.j) || side_of(a.j)->retry))
		wait_coming(&a, ON_WAIT_RUN, op, generation);
	else if (job_pend(a.j) != PEND_NONE && generation == job_coming(a.j))
		wait_coming(&a, ON_WAIT_NEXT, op, generation);
	else
		wait_kept(&a, generation);
}
