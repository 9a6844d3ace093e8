/*
 * What takes instances away, or hurries them: CANCEL, DISABLE, ENABLE, DELETE,
 * KICK.
 */
#include <errno.h>

#include "base/err.h"
#include "engine/internal.h"

void
job_drop_pending(struct engine *e, struct job *j, enum job_op op, enum jstate next)
{
	enum pend was = job_pend(j);

	job_enter(e, j, op, next);
	if (was == PEND_NONE)
		return;
	job_wait_dropped(e, j);
	payload_free(e, job_payload(j));
	*job_payload_at(j) = NULL;
	job_side(j)->retry = false;
	j->stale = true;
	j->coalesced = 0;
	job_set_merged(j, 0);
}

void
job_expedite(struct engine *e, struct job *j, enum job_op op)
{
	j->absolute = false;
	job_apply(e, j, op);
	j->due_ns = e->now.boot_ns;
}

/* The state after an operation that leaves no pending instance, by the table's own columns. */
static enum jstate
closed_state(const struct job *j, bool running)
{
	bool closed = side_of(j)->disable_depth > 0 || (running && wait_any(j, ON_CANCEL));

	if (running)
		return closed ? JS_RX : JS_R;
	return closed ? JS_X : JS_I;
}

/* ---- cancel ---- */

/* The run is to be waited for. 0: the request waits; or an error, and nothing has changed. */
static int
cancel_join(struct ask *a, const struct op_cancel *op, enum job_op row)
{
	struct wait_group **slot = wait_slot(a->j, ON_CANCEL);
	enum wait_kind kind = op->mode == CANCEL_KILL ? W_KILL : W_CANCEL;

	if (!slot)
		return -ENOMEM;
	a->r.status = job_word(row, a->j->state);
	return wait_join(a, kind, slot, a->q, a->j, op->timeout_ns);
}

static void
cancel_running(struct engine *e, struct ask *a, const struct op_cancel *op)
{
	struct job *j = a->j;
	int err;

	if (a->from && a->from->job == j) {
		ask_fail(a, ST_INVALID, "a run can't wait for its own end");
		return;
	}
	if (!ask_remember(a, op->idem))
		return;
	err = cancel_join(a, op, OP_CANCEL_WAIT);
	if (err < 0) {
		ask_fail_err(a, err);
		return;
	}
	job_drop_pending(e, j, OP_CANCEL_WAIT, JS_RX);
	if (a->r.pending_before)
		job_touch(e, j, a->level);
	if (op->mode == CANCEL_KILL)
		job_run_kill(e, side_of(j)->run);
}

void
cancel_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_cancel *op = ev->cancel;
	struct ask a;
	enum status st;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem) ||
		ask_bad_timeout(&a, op->timeout_ns))
		return;
	ask_before(&a);
	if (a.j && job_running(a.j) && op->mode != CANCEL_PLAIN) {
		cancel_running(e, &a, op);
		return;
	}
	if (!ask_remember(&a, op->idem))
		return;
	if (!a.j) {
		ask_done(&a, job_word(OP_CANCEL, JS_I));
		return;
	}
	st = job_word(OP_CANCEL, a.j->state);
	if (side_of(a.j)->dead || a.r.pending_before)
		job_touch(e, a.j, a.level);
	job_undead(e, a.j);
	job_drop_pending(e, a.j, OP_CANCEL, closed_state(a.j, job_running(a.j)));
	ask_done(&a, st);
	job_settle(e, a.j);
}

/* ---- disable and enable ---- */

void
disable_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_job *op = ev->job;
	struct ask a;
	enum status st;
	int err;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem))
		return;
	ask_before(&a);
	if (a.j && side_of(a.j)->disable_depth == UINT32_MAX) {
		ask_fail(&a, ST_REFUSED_LIMIT, "disabled too often");
		return;
	}
	if (!ask_remember(&a, op->idem))
		return;
	err = a.j ? 0 : job_new(e, a.q, op->job.key, &a.j);
	if (err < 0) {
		ask_fail_err(&a, err);
		return;
	}
	st = job_word(OP_DISABLE, a.j->state);
	job_undead(e, a.j);
	job_side(a.j)->disable_depth++;
	job_drop_pending(e, a.j, OP_DISABLE, closed_state(a.j, job_running(a.j)));
	job_touch(e, a.j, a.level);
	ask_done(&a, st);
}

void
enable_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_job *op = ev->job;
	struct ask a;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem))
		return;
	ask_before(&a);
	if (!a.j || side_of(a.j)->disable_depth == 0) {
		ask_fail(&a, ST_INVALID, "the job is not disabled");
		return;
	}
	if (!ask_remember(&a, op->idem))
		return;
	job_side(a.j)->disable_depth--;
	job_enter(e, a.j, OP_ENABLE, closed_state(a.j, job_running(a.j)));
	job_touch(e, a.j, a.level);
	ask_done(&a, ST_OK);
	job_settle(e, a.j);
}

/* ---- delete ---- */

void
delete_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_job *op = ev->job;
	struct ask a;
	enum status st;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem))
		return;
	ask_before(&a);
	if (!a.j) {
		ask_fail(&a, ST_NOT_FOUND, "no such job");
		return;
	}
	if (!ask_remember(&a, op->idem))
		return;
	st = job_word(OP_DELETE, a.j->state);
	job_undead(e, a.j);
	job_drop_pending(e, a.j, OP_DELETE, closed_state(a.j, job_running(a.j)));
	history_purge(e, a.j);
	job_side(a.j)->forget = job_running(a.j);
	job_touch(e, a.j, a.level);
	ask_done(&a, st);
	job_settle(e, a.j);
}

/* ---- kick ---- */

/* A dead job runs again: a new instance with the payload that was kept. */
static void
kick_dead(struct engine *e, struct ask *a)
{
	struct job *j = a->j;
	struct payload *kept = job_payload(j);

	*job_payload_at(j) = NULL;
	job_undead(e, j);
	*job_payload_at(j) = kept;
	j->coalesced = 0;
	job_side(j)->interrupts = 0;
	job_side(j)->appended = false;
	j->chained = a->from && a->from->job->q == a->q;
	j->created_ns = e->now.boot_ns;
	job_set_delay(j, 0);
	job_expedite(e, j, OP_NOW);
}

static enum status
kick(struct engine *e, struct ask *a)
{
	struct job *j = a->j;
	enum status st = job_word(OP_KICK, j->state);

	if (side_of(j)->dead && j->state == JS_I) {
		st = job_word(OP_NOW, j->state);
		kick_dead(e, a);
	} else if (job_pend(j) == PEND_TIMER) {
		j->chained = a->from && a->from->job->q == a->q;
		job_expedite(e, j, OP_KICK);
	} else {
		return st;
	}
	job_touch(e, j, a->level);
	return st;
}

void
kick_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_job *op = ev->job;
	enum status st;
	struct ask a;

	if (!ask_open(&a, e, ev, &op->job, op->level, op->idem))
		return;
	ask_before(&a);
	if (a.j && job_word(OP_KICK, a.j->state) == ST_REFUSED_DISABLED) {
		ask_fail(&a, ST_REFUSED_DISABLED, "the job is disabled or being cancelled");
		return;
	}
	if (a.j && side_of(a.j)->dead && a.q->draining) {
		ask_fail(&a, ST_REFUSED_DRAINING, "the queue is draining");
		return;
	}
	if (!ask_remember(&a, op->idem))
		return;
	st = a.j ? kick(e, &a) : job_word(OP_KICK, JS_I);
	ask_instance(&a);
	ask_done(&a, st);
}
