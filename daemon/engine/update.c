/*
 * UPDATE: mod_delayed_work and its modes.
 *
 * Everything is decided and every bit of memory taken before the first change,
 * so that a refusal leaves no trace. A deadline is computed as the target, plus
 * the slack, rounded up where alignment is asked for, and at last held to
 * `max_wait` after the instance was made. An update whose target lies in
 * [armed - slack, armed] is skipped: the run comes late enough, and early enough.
 */
#include "engine/internal.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"

/* What an update will do. */
struct plan {
	const struct op_update *op;
	struct str key; /* of the job, made where none was given */
	int64_t slack_ns, max_wait_ns;
	int64_t created_ns;        /* of the instance that it makes or moves */
	bool past;                 /* the target has come: ready at once */
	int64_t target_ns, due_ns; /* on the clock that op->absolute says */
	enum job_op row;
	bool skipped;
	bool fresh;              /* a new instance */
	bool applies;            /* the payload differs */
	bool only_moves;         /* of what is stored nothing changes but the deadline */
	struct payload *payload; /* replaces, or is one part to append */
};

/* ---- what may be asked ---- */

static const char *
update_invalid(const struct op_update *op, struct moment now)
{
	int64_t most = op->absolute ? sat_add(now.wall_ns, DELAY_MAX_NS) : DELAY_MAX_NS;

	if (op->when_ns < 0 || op->when_ns > most)
		return op->absolute ? "the time is more than 100 years away"
				    : "the delay is not 0 to 100 years";
	if (!span_valid(op->slack_ns, -1))
		return "the slack is not 0 to 100 years";
	if (!span_valid(op->max_wait_ns, -1))
		return "max_wait is not 0 to 100 years";
	if (!span_valid(op->align_ns, 0))
		return "the alignment is not 0 to 100 years";
	if (op->payload_mode == PAYLOAD_KEEP && op->payload.n > 0)
		return "a payload needs the mode replace or append";
	if (op->payload.n > PAYLOAD_MAX)
		return "the payload is larger than 1 MiB";
	if (op->command.n > COMMAND_MAX)
		return "the command is larger than 128 KiB";
	if (op->command.n > 0 && op->payload_mode == PAYLOAD_APPEND)
		return "a command comes with its payload, which can't be appended";
	if (op->if_pending && op->job.key.n == 0)
		return "if_pending needs a key";
	return NULL;
}

/* A bound under the delay would mean a run that nobody asked for so early. */
static bool
bound_under_delay(const struct plan *p, struct moment now)
{
	int64_t delay = p->op->absolute ? p->op->when_ns - now.wall_ns : p->op->when_ns;

	return p->max_wait_ns > 0 && delay > p->max_wait_ns;
}

/* ---- the deadline ---- */

static int64_t
align_up(int64_t v, int64_t step, int64_t offset)
{
	int64_t rest = (v - offset) % step;

	if (rest < 0)
		rest += step;
	return rest == 0 ? v : sat_add(v, step - rest);
}

/* Multiples are those of Unix time, whatever clock the deadline is kept on. */
static int64_t
aligned(const struct plan *p, const struct engine *e, int64_t due_ns)
{
	const struct op_update *op = p->op;
	int64_t wall = op->absolute ? due_ns : moment_wall(e->now, due_ns), offset = 0;

	if (op->align_ns == 0)
		return due_ns;
	if (!op->align_exact)
		offset = (int64_t)(siphash13(e->cfg.seed, p->key.p, p->key.n) %
			(uint64_t)op->align_ns);
	wall = align_up(wall, op->align_ns, offset);
	return op->absolute ? wall : moment_boot(e->now, wall);
}

static void
plan_deadline(struct plan *p, const struct engine *e)
{
	const struct op_update *op = p->op;
	int64_t now = op->absolute ? e->now.wall_ns : e->now.boot_ns, bound;

	p->target_ns = op->absolute ? op->when_ns : sat_add(now, op->when_ns);
	p->due_ns = now;
	p->past = p->target_ns <= now;
	if (p->past)
		return;
	p->due_ns = aligned(p, e, sat_add(p->target_ns, p->slack_ns));
	if (p->max_wait_ns > 0) {
		bound = sat_add(p->created_ns, p->max_wait_ns);
		if (op->absolute)
			bound = moment_wall(e->now, bound);
		if (p->due_ns > bound)
			p->due_ns = bound;
	}
	if (p->due_ns <= now) {
		p->due_ns = now;
		p->past = true;
	}
}

/* ---- which row of the table ---- */

/* < 0: the new deadline is earlier than the armed one. */
static int
against_armed(const struct plan *p, const struct engine *e, const struct job *j)
{
	int64_t mine = p->op->absolute ? moment_boot(e->now, p->due_ns) : p->due_ns;
	int64_t armed = job_due_boot(e->now, j);

	return mine < armed ? -1 : mine > armed;
}

static bool
inside_slack(const struct plan *p, const struct job *j)
{
	if (p->past || p->op->absolute != j->absolute)
		return false;
	return p->due_ns == j->due_ns ||
		(p->target_ns <= j->due_ns && p->target_ns >= j->due_ns - p->slack_ns);
}

static void
plan_armed(struct plan *p, const struct engine *e, const struct job *j)
{
	enum update_mode mode = p->op->mode;

	if (mode == MODE_KEEP && side_of(j)->retry)
		mode = MODE_EARLIER;
	switch (mode) {
	case MODE_KEEP:
		p->row = OP_STAY;
		return;
	case MODE_EARLIER:
		if (against_armed(p, e, j) >= 0)
			p->row = OP_STAY;
		return;
	case MODE_LATER:
		if (against_armed(p, e, j) <= 0)
			p->row = OP_STAY;
		break;
	case MODE_SET:
		break;
	}
	if (p->row != OP_STAY && inside_slack(p, j)) {
		p->row = OP_STAY;
		p->skipped = true;
	}
}

static void
plan_ready(struct plan *p)
{
	if (p->op->mode == MODE_KEEP || p->op->mode == MODE_EARLIER ||
		(p->op->mode == MODE_LATER && p->past))
		p->row = OP_STAY;
}

static void
plan_row(struct plan *p, const struct engine *e, const struct job *j)
{
	p->row = p->past ? OP_NOW : OP_ARM;
	switch (j ? job_pend(j) : PEND_NONE) {
	case PEND_NONE:
		if (p->op->if_pending)
			p->row = OP_STAY;
		p->fresh = p->row != OP_STAY;
		return;
	case PEND_TIMER:
		plan_armed(p, e, j);
		return;
	case PEND_READY:
		plan_ready(p);
		return;
	}
}

/* ---- the payload ---- */

static bool
payload_same(const struct payload *p, const struct op_update *op)
{
	struct str s = op->payload;

	if (!str_eq(payload_command(p), op->command))
		return false;
	if (payload_parts(p) == 0)
		return s.n == 0;
	return payload_parts(p) == 1 && str_eq(p->parts[p->command], s);
}

static int
plan_command(struct plan *p, struct engine *e, struct queue *q)
{
	const struct str parts[] = { p->op->command, p->op->payload };

	return payload_of_parts(e, q, parts, p->op->payload.n > 0 ? 2 : 1, true, &p->payload);
}

static int
plan_replace(struct plan *p, struct engine *e, struct queue *q, const struct payload *now)
{
	p->applies = !payload_same(now, p->op);
	if (!p->applies)
		return 0;
	if (p->op->command.n > 0)
		return plan_command(p, e, q);
	return p->op->payload.n > 0 ? payload_new(e, q, p->op->payload, &p->payload) : 0;
}

static int
plan_append(struct plan *p, struct engine *e, struct queue *q, struct payload *now)
{
	p->applies = true;
	if (now && (now->n >= q->s.max_parts || now->bytes + p->op->payload.n > PAYLOAD_MAX))
		return ERR_LIMIT;
	return payload_new(e, q, p->op->payload, &p->payload);
}

static int
plan_payload(struct plan *p, struct engine *e, struct queue *q, struct job *j)
{
	struct payload *now = j && !p->fresh ? job_payload(j) : NULL;

	if (p->row == OP_STAY && (!j || job_pend(j) == PEND_NONE))
		return 0;
	switch (p->op->payload_mode) {
	case PAYLOAD_KEEP:
		return p->op->command.n > 0 ? plan_replace(p, e, q, now) : 0;
	case PAYLOAD_APPEND:
		return plan_append(p, e, q, now);
	case PAYLOAD_REPLACE:
		return plan_replace(p, e, q, now);
	}
	return 0;
}

static void
apply_payload(struct plan *p, struct engine *e, struct job *j)
{
	if (!p->applies)
		return;
	j->stale = true;
	if (p->op->command.n > 0)
		pools_note_command(e, j->q);
	if (p->op->payload_mode == PAYLOAD_APPEND && job_payload(j)) {
		payload_move(job_payload(j), p->payload);
	} else {
		payload_free(e, job_payload(j));
		*job_payload_at(j) = p->payload;
		job_side(j)->appended = p->op->payload_mode == PAYLOAD_APPEND;
	}
	p->payload = NULL;
}

/* ---- doing it ---- */

/* The pending instance is another one from here on. */
static void
instance_new(struct plan *p, struct engine *e, struct job *j)
{
	job_undead(e, j);
	j->coalesced = 0;
	j->created_ns = e->now.boot_ns;
	job_side(j)->interrupts = 0;
	job_side(j)->appended = false;
	/* While it runs, what is stored as its parts was the run's so far. */
	j->stale = j->stale || job_running(j);
	(void)p;
}

/* A retry that a user moves is a retry no more: a new instance, with what was gathered so far. */
static void
instance_from_retry(struct engine *e, struct job *j)
{
	job_wake(e, j, ON_WAIT_RUN, ST_OK, history_find(e, j, side_of(j)->generation));
	job_side(j)->retry = false;
	job_side(j)->interrupts = 0;
	j->created_ns = e->now.boot_ns;
	job_set_merged(j, 0);
}

static void
move(struct plan *p, struct engine *e, struct ask *a)
{
	struct job *j = a->j;
	enum pend was = job_pend(j);

	if (p->row == OP_STAY)
		return;
	j->chained = a->from && a->from->job->q == a->q;
	job_set_delay(j, p->op->absolute ? -1 : p->op->when_ns);
	job_side(j)->slack_ns = p->slack_ns;
	job_side(j)->max_wait_ns = p->max_wait_ns;
	if (p->row == OP_NOW) {
		j->absolute = p->op->absolute;
		/* Off its timer first: the deadline that it was armed for is its place there. */
		job_apply(e, j, OP_NOW);
		j->due_ns = p->due_ns;
	} else {
		job_apply(e, j, OP_ARM);
	}
	if (was == PEND_READY && p->row == OP_ARM)
		job_wait_unready(e, j);
}

/* Asked before anything is changed. */
static bool
only_moves(const struct plan *p, const struct ask *a)
{
	const struct job *j = a->j;

	return j && j->state == JS_A && p->row == OP_ARM && !side_of(j)->retry &&
		p->max_wait_ns == 0 && j->absolute == p->op->absolute &&
		job_only_moves(j, p->slack_ns, a->level);
}

static enum status
apply(struct plan *p, struct engine *e, struct ask *a)
{
	struct job *j = a->j;
	enum status st = job_word(p->row, j->state);

	if (p->row == OP_STAY && job_pend(j) == PEND_NONE)
		return st;
	if (p->fresh)
		instance_new(p, e, j);
	else
		job_count_coalesced(e, j);
	if (p->row == OP_STAY && !p->applies) {
		/* What the reply relies on must be as durable as was asked for. */
		if (!j->durable)
			job_touch(e, j, a->level);
		e->stats.skipped += p->skipped;
		if (p->skipped)
			tell_job(e, EVENT_SKIPPED, j);
		return p->skipped ? ST_SKIPPED : st;
	}
	if (p->row == OP_STAY)
		st = job_pend(j) == PEND_TIMER ? ST_UPDATED_TIMER : ST_UPDATED_READY;
	if (!p->fresh && side_of(j)->retry)
		instance_from_retry(e, j);
	apply_payload(p, e, j);
	move(p, e, a);
	job_touch(e, j, a->level);
	j->whole = !p->only_moves;
	return st;
}

/* Newcomers are; what is pending may still be moved, unless the queue is to go. */
static bool
refused_draining(const struct plan *p, const struct ask *a)
{
	if (a->q->deleting)
		return true;
	return p->fresh && a->q->draining && (!a->from || a->from->job->q != a->q);
}

#define MADE_KEY_LEN 32

static struct str
made_key(struct engine *e, const struct queue *q, char key[MADE_KEY_LEN])
{
	static const char digits[] = "0123456789abcdef";
	struct str made = { key, MADE_KEY_LEN };

	do {
		uint64_t n = ++e->made;
		uint64_t v[2] = { engine_random(e, 'k', n), engine_random(e, 'K', n) };

		for (int i = 0; i < MADE_KEY_LEN; i++)
			key[i] = digits[v[i / 16] >> (i % 16 * 4) & 15];
	} while (job_find(e, q, made));
	return made;
}

/* All that may fail for want of memory or by a limit. */
static int
prepare(struct plan *p, struct engine *e, struct ask *a)
{
	bool made = false;
	int err = plan_payload(p, e, a->q, a->j);

	if (err == 0 && p->applies && p->payload && a->j && !p->fresh &&
		p->op->payload_mode == PAYLOAD_APPEND && job_payload(a->j))
		err = payload_grow(job_payload_at(a->j));
	if (err == 0 && !a->j && p->fresh) {
		err = job_new(e, a->q, p->key, &a->j);
		made = err == 0;
	}
	if (err == 0 && p->row == OP_ARM)
		err = job_arm(e, a->j, p->op->absolute, p->due_ns);
	if (err == 0)
		return 0;
	payload_free(e, p->payload);
	if (made) {
		struct job *j = a->j;

		a->j = NULL;
		job_settle(e, j);
	}
	return err;
}

/* Who may not give a command may not feed one either. */
static bool
appends_to_command(const struct op_update *op, const struct job *j)
{
	return op->payload_mode == PAYLOAD_APPEND && j && job_pend(j) != PEND_NONE &&
		job_payload(j) && job_payload(j)->command;
}

/* False: refused, and answered. */
static bool
update_allowed(struct plan *p, struct engine *e, struct ask *a)
{
	const struct op_update *op = p->op;
	const char *why = update_invalid(op, e->now);

	p->slack_ns = op->slack_ns < 0 ? a->q->s.slack_ns : op->slack_ns;
	p->max_wait_ns = op->max_wait_ns < 0 ? a->q->s.max_wait_ns : op->max_wait_ns;
	if (!why && bound_under_delay(p, e->now))
		why = "max_wait is shorter than the delay";
	if (!why && op->command.n > 0 && a->q->s.action != ACTION_NONE &&
		a->q->s.action != ACTION_EXEC)
		why = "the queue runs no commands";
	if (!why && appends_to_command(op, a->j))
		why = "the job has a command, which has its payload";
	if (why) {
		ask_fail(a, ST_INVALID, why);
		return false;
	}
	if (a->j && job_word(OP_STAY, a->j->state) == ST_REFUSED_DISABLED) {
		ask_fail(a, ST_REFUSED_DISABLED, "the job is disabled or being cancelled");
		return false;
	}
	return true;
}

void
update_event(struct engine *e, const struct engine_event *ev)
{
	struct plan p = { .op = ev->update, .key = ev->update->job.key };
	char key[MADE_KEY_LEN];
	enum status st;
	struct ask a;
	int err;

	if (!ask_open(&a, e, ev, &p.op->job, p.op->level, p.op->idem))
		return;
	ask_before(&a);
	if (!update_allowed(&p, e, &a))
		return;
	if (p.key.n == 0)
		p.key = made_key(e, a.q, key);
	p.created_ns = a.j && job_pend(a.j) != PEND_NONE && !side_of(a.j)->retry ? a.j->created_ns
										 : e->now.boot_ns;
	plan_deadline(&p, e);
	plan_row(&p, e, a.j);
	if (refused_draining(&p, &a)) {
		ask_fail(&a, ST_REFUSED_DRAINING, "the queue is draining");
		return;
	}
	if (!ask_remember(&a, p.op->idem))
		return;
	p.only_moves = only_moves(&p, &a);
	err = prepare(&p, e, &a);
	if (err < 0) {
		ask_fail_err(&a, err);
		return;
	}
	st = a.j ? apply(&p, e, &a) : job_word(OP_STAY, JS_I);
	ask_instance(&a);
	ask_done(&a, st);
}
