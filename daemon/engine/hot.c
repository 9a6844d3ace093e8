/*
 * The plain reschedule, by itself: an update in mode set, by a delay, of a job
 * that is armed and does not run. It is what nearly every request is, and what
 * remains of the general path (ask.c, update.c) when everything else that may
 * be asked is not: no payload, no bound, no alignment, no idempotency id, nobody
 * who watches, a queue that is not draining, nothing ready that could start.
 *
 * It decides nothing of its own: the word and the next state are those of the
 * state table, the reply is the one of the general path, and whatever does not
 * fit is left to that, untouched. tests/model/test_hot.c holds both against each
 * other.
 */
#include "engine/internal.h"

/* Nothing that the plain path does not know. All of it is one jump. */
static inline bool
is_plain(const struct engine *e, const struct op_update *op, uint64_t run_token)
{
	uint64_t other = (uint64_t)(op->mode ^ MODE_SET) |
		(uint64_t)(op->payload_mode ^ PAYLOAD_KEEP) | op->absolute | op->payload.n |
		op->command.n | (uint64_t)op->align_ns | op->idem.n | run_token | e->watched |
		(op->job.key.n == 0);

	return other == 0 && (uint64_t)(op->when_ns - 1) < (uint64_t)DELAY_MAX_NS &&
		(uint64_t)(op->slack_ns + 1) <= (uint64_t)DELAY_MAX_NS + 1;
}

/* The queue, if it is the one that was named last; else NULL. */
static inline struct queue *
plain_queue(const struct engine *e, const struct op_update *op)
{
	struct queue *q = e->recent;

	if (!q || (op->job.queue.n == 0 ? q != e->fallback : !str_eq(q->name, op->job.queue)))
		return NULL;
	if (q->draining || (op->max_wait_ns < 0 ? q->s.max_wait_ns : op->max_wait_ns) != 0)
		return NULL;
	return q;
}

static inline bool
is_armed_plainly(const struct job *j)
{
	return j->state == JS_A && !side_of(j)->retry && !j->absolute && j->place == ON_BOOT;
}

/* The step would do more than the update. */
static inline bool
has_more_to_do(const struct engine *e)
{
	return !list_empty(&e->wake) || (e->stats.ready > 0 && dispatch_due(e) <= e->now.boot_ns);
}

static inline void
plain_reply(
	struct engine *e, const struct job *j, int64_t old_ns, enum status st, struct job_reply *r)
{
	*r = (struct job_reply){
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

static inline enum status
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

/* The same of a job that has no side and needs none. */
static inline enum status
bare_move(struct job *j, uint32_t delay_ms)
{
	wq_assert(job_leads(OP_ARM, JS_A, JS_A));
	j->chained = false;
	j->delay_ms = delay_ms;
	j->whole = true;
	j->level = LEVEL_MEMORY;
	return job_word(OP_ARM, JS_A);
}

bool
engine_reschedule(struct engine *e, struct moment now, const struct op_update *op,
	uint64_t run_token, struct job_reply *r, bool *durable)
{
	int64_t target_ns, due_ns, slack_ns, old_ns, delay_ms;
	enum durability level;
	enum status st;
	struct queue *q;
	struct job *j;
	bool bare, skip;

	CHECK_OBJ(e, ENGINE_MAGIC);
	if (!is_plain(e, op, run_token) || (q = plain_queue(e, op)) == NULL)
		return false;
	e->now = now;
	if (has_more_to_do(e))
		return false;
	if (!list_empty(&e->grave))
		grave_clear(e);
	j = ahead_found(e, q, &op->job);
	if (!j || !is_armed_plainly(j))
		return false;
	slack_ns = op->slack_ns < 0 ? q->s.slack_ns : op->slack_ns;
	target_ns = sat_add(now.boot_ns, op->when_ns);
	due_ns = sat_add(target_ns, slack_ns);
	old_ns = j->due_ns;
	level = op->level == LEVEL_DEFAULT ? q->s.durability : op->level;
	delay_ms = op->when_ns / NS_PER_MS;
	bare = slack_ns == 0 && level == LEVEL_MEMORY && !j->durable && !j->sided &&
		delay_ms * NS_PER_MS == op->when_ns && delay_ms < DELAY_ASIDE;
	if (!bare && job_widen(e, j) < 0)
		return false;
	skip = due_ns == old_ns || (target_ns <= old_ns && target_ns >= old_ns - slack_ns);
	/* What is refused is refused by the general path. */
	if (!skip && !wheel_put_off(&e->boot, j, due_ns, e->seq + 1) &&
		job_arm_as(e, j, false, due_ns, e->seq + 1) < 0) {
		job_narrow(e, j);
		return false;
	}
	e->seq += !skip;
	job_count_coalesced(e, j);
	st = skip      ? plain_skip(e, j, level)
		: bare ? bare_move(j, (uint32_t)delay_ms)
		       : plain_move(e, j, op, slack_ns, level);
	plain_reply(e, j, old_ns, st, r);
	*durable = level == LEVEL_SYNC;
	if (*durable)
		reply_waits(e);
	if (!bare)
		job_narrow(e, j);
	return true;
}
