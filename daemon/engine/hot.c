/*
 * The plain reschedule, by itself: an update in mode set, by a delay, of a job
 * that is armed and does not run. It is what nearly every request is, and what
 * remains of the general path (ask.c, update.c) when everything else that may
 * be asked is not: no payload, no bound, no alignment, no idempotency id, nobody
 * who watches, a queue that is not draining.
 *
 * It decides nothing of its own: the word and the next state are those of the
 * state table, the reply is the one of the general path, and whatever does not
 * fit is left to that, untouched. tests/model/test_hot.c holds both against each
 * other.
 */
#include "engine/internal.h"

/* Nothing that the plain path does not know. */
static bool
is_plain(const struct engine *e, const struct engine_event *ev)
{
	const struct op_update *op = ev->update;

	return op->mode == MODE_SET && op->payload_mode == PAYLOAD_KEEP && op->payload.n == 0 &&
		op->command.n == 0 && !op->absolute && span_valid(op->when_ns, 1) &&
		op->align_ns == 0 && span_valid(op->slack_ns, -1) && op->idem.n == 0 &&
		op->job.key.n > 0 && ev->run_token == 0 && !e->watched;
}

/* The queue, if it is the one that was named last; else NULL. */
static struct queue *
plain_queue(const struct engine *e, const struct op_update *op)
{
	struct queue *q = e->recent;

	if (!q || (op->job.queue.n == 0 ? q != e->fallback : !str_eq(q->name, op->job.queue)))
		return NULL;
	if (q->draining || (op->max_wait_ns < 0 ? q->s.max_wait_ns : op->max_wait_ns) != 0)
		return NULL;
	return q;
}

static bool
is_armed_plainly(const struct job *j)
{
	return j->state == JS_A && !side_of(j)->retry && !j->absolute && j->place == ON_BOOT;
}

static void
plain_reply(struct engine *e, const struct job *j, int64_t old_ns, enum status st, bool durable,
	uint64_t ticket)
{
	*engine_reply_new(e, ticket, durable) = (struct job_reply){
		.status = st,
		.queue = j->q->name,
		.key = job_key(j),
		.state_before = JOB_ARMED,
		.pending_before = true,
		.has_deadline = true,
		.has_old_deadline = true,
		.deadline_wall_ns = moment_wall(e->now, j->due_ns),
		.old_deadline_wall_ns = moment_wall(e->now, old_ns),
		.generation = job_coming(j),
		.coalesced = j->coalesced,
		.disable_depth = side_of(j)->disable_depth,
	};
}

/* The new deadline is worth nothing: it stays as it is. */
static enum status
plain_skip(struct engine *e, struct job *j, enum durability level)
{
	if (!j->durable)
		job_touch(e, j, level);
	e->stats.skipped++;
	return ST_SKIPPED;
}

static enum status
plain_move(struct engine *e, struct job *j, const struct op_update *op, int64_t slack_ns,
	enum durability level)
{
	bool moves = job_only_moves(j, slack_ns, level);

	wq_assert(job_leads(OP_ARM, JS_A, JS_A));
	j->chained = false;
	job_set_delay(j, op->when_ns);
	if (j->sided) {
		j->ext.side->slack_ns = slack_ns;
		j->ext.side->max_wait_ns = 0;
	}
	job_touch(e, j, level);
	j->whole = !moves;
	return job_word(OP_ARM, JS_A);
}

bool
hot_update(struct engine *e, const struct engine_event *ev)
{
	const struct op_update *op = ev->update;
	int64_t target_ns, due_ns, slack_ns, old_ns;
	enum durability level;
	enum status st;
	struct queue *q;
	struct job *j;
	bool skip;

	if (!is_plain(e, ev) || (q = plain_queue(e, op)) == NULL)
		return false;
	j = ahead_found(e, q, &op->job);
	if (!j || !is_armed_plainly(j))
		return false;
	slack_ns = op->slack_ns < 0 ? q->s.slack_ns : op->slack_ns;
	target_ns = sat_add(e->now.boot_ns, op->when_ns);
	due_ns = sat_add(target_ns, slack_ns);
	old_ns = j->due_ns;
	level = op->level == LEVEL_DEFAULT ? q->s.durability : op->level;
	if ((slack_ns || level != LEVEL_MEMORY || j->durable || !delay_fits(op->when_ns)) &&
		job_widen(e, j) < 0)
		return false;
	skip = due_ns == old_ns || (target_ns <= old_ns && target_ns >= old_ns - slack_ns);
	/* What is refused is refused by the general path. */
	if (!skip && job_arm(e, j, false, due_ns) < 0)
		return false;
	job_count_coalesced(e, j);
	st = skip ? plain_skip(e, j, level) : plain_move(e, j, op, slack_ns, level);
	plain_reply(e, j, old_ns, st, level == LEVEL_SYNC, ev->ticket);
	job_narrow(e, j);
	return true;
}
