/*
 * What the process before the exec has written comes back on top of what the
 * store says. See carry.h.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/carry_int.h"

struct reading {
	struct engine *e;
	struct moment now;
	const struct carry_record *r;
};

static bool
flag(const struct carry_record *r, unsigned tag)
{
	return carry_get_u64(r, tag, 0) != 0;
}

static uint32_t
get_u32(const struct carry_record *r, unsigned tag)
{
	uint64_t v = carry_get_u64(r, tag, 0);

	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* All fields of one tag, in memory of their own; *n of them. NULL: none, or no memory (*n stays). */
static struct str *
get_all(const struct carry_record *r, unsigned tag, size_t *n)
{
	struct str *v;

	*n = carry_get_all(r, tag, NULL, 0);
	v = *n ? x_alloc(*n * sizeof *v) : NULL;
	if (v)
		(void)carry_get_all(r, tag, v, *n);
	return v;
}

static struct job *
named_job(const struct engine *e, const struct carry_record *r)
{
	struct queue *q = queue_find(e, carry_get(r, T_QUEUE));

	return q ? job_find(e, q, carry_get(r, T_KEY)) : NULL;
}

/* ---- the engine ---- */

static void
at_least(uint64_t *v, uint64_t least)
{
	if (*v < least)
		*v = least;
}

/* Numbers that were given out are not given out again. */
static int
in_engine(const struct reading *rd)
{
	struct engine *e = rd->e;

	at_least(&e->run_id, carry_get_u64(rd->r, T_ENGINE_RUN_ID, 0));
	at_least(&e->made, carry_get_u64(rd->r, T_ENGINE_MADE, 0));
	at_least(&e->seq, carry_get_u64(rd->r, T_ENGINE_SEQ, 0));
	at_least(&e->run_seq, carry_get_u64(rd->r, T_ENGINE_RUN_SEQ, 0));
	at_least(&e->fence, carry_get_u64(rd->r, T_ENGINE_FENCE, 0));
	/* Who does not say may have merged some. */
	e->merged = carry_get_u64(rd->r, T_ENGINE_MERGED, 1) != 0;
	return 0;
}

static int
in_counter(const struct reading *rd)
{
	struct str name = carry_get(rd->r, T_NAME);

#define X(counter, doc) \
	if (str_eq(name, STR(#counter))) \
		rd->e->stats.counter = carry_get_u64(rd->r, T_COUNTER_VALUE, 0);
	ENGINE_COUNTER_TABLE(X)
#undef X
	return 0;
}

static int
in_queue(const struct reading *rd)
{
	struct queue *q = queue_find(rd->e, carry_get(rd->r, T_QUEUE));

	if (!q)
		return 0;
	q->usual_cpu_ns = carry_get_i64(rd->r, T_QUEUE_USUAL_CPU, 0);
	q->bucket.full_ns = carry_get_i64(rd->r, T_QUEUE_BUCKET, q->bucket.full_ns);
	queue_rate_changed(rd->e, q, &q->s.rate);
	return 0;
}

/* ---- jobs ---- */

static void
get_saved(const struct carry_record *r, struct job_saved *s)
{
	*s = (struct job_saved){
		.queue = carry_get(r, T_QUEUE),
		.key = carry_get(r, T_KEY),
		.pending = (enum job_state)carry_get_u64(r, T_JOB_PENDING, JOB_IDLE),
		.running = flag(r, T_JOB_RUNNING),
		.absolute = flag(r, T_JOB_ABSOLUTE),
		.due_boot_ns = carry_get_i64(r, T_JOB_DUE_BOOT, 0),
		.due_wall_ns = carry_get_i64(r, T_JOB_DUE_WALL, 0),
		.delay_ns = carry_get_i64(r, T_JOB_DELAY, 0),
		.created_wall_ns = carry_get_i64(r, T_JOB_CREATED_WALL, 0),
		.slack_ns = carry_get_i64(r, T_JOB_SLACK, 0),
		.max_wait_ns = carry_get_i64(r, T_JOB_MAX_WAIT, 0),
		.seq = carry_get_u64(r, T_JOB_SEQ, 0),
		.generation = carry_get_u64(r, T_JOB_GENERATION, 0),
		.attempt = get_u32(r, T_JOB_ATTEMPT),
		.interrupts = get_u32(r, T_JOB_INTERRUPTS),
		.retry = flag(r, T_JOB_RETRY),
		.coalesced = get_u32(r, T_JOB_COALESCED),
		.disable_depth = get_u32(r, T_JOB_DEPTH),
		.dead = flag(r, T_JOB_DEAD),
		.level = (enum durability)carry_get_u64(r, T_JOB_LEVEL, LEVEL_MEMORY),
		.command = flag(r, T_JOB_COMMAND),
		.run_command = flag(r, T_JOB_RUN_COMMAND),
		.run_coalesced = get_u32(r, T_JOB_RUN_COALESCED),
		.run_due_wall_ns = carry_get_i64(r, T_JOB_RUN_DUE_WALL, 0),
		.run_started_wall_ns = carry_get_i64(r, T_JOB_RUN_STARTED_WALL, 0),
	};
}

static int
in_job(const struct reading *rd)
{
	struct job_saved s;
	struct str *parts, *run_parts;
	struct job *j;
	int err = -ENOMEM;

	get_saved(rd->r, &s);
	parts = get_all(rd->r, T_JOB_PART, &s.n_parts);
	run_parts = get_all(rd->r, T_JOB_RUN_PART, &s.n_run_parts);
	s.parts = parts;
	s.run_parts = run_parts;
	if ((parts || s.n_parts == 0) && (run_parts || s.n_run_parts == 0))
		err = job_restore(rd->e, rd->now, &s, true);
	x_free(parts);
	x_free(run_parts);
	if (err < 0)
		return err;
	j = named_job(rd->e, rd->r);
	if (j)
		j->durable = flag(rd->r, T_JOB_DURABLE);
	return j ? 0 : ERR_DAMAGED;
}

static int
in_extra(const struct reading *rd)
{
	struct job *j = named_job(rd->e, rd->r);
	uint32_t merged = get_u32(rd->r, T_EXTRA_MERGED);

	if (!j)
		return ERR_DAMAGED;
	if (job_widen(rd->e, j) < 0 || (merged && !wait_slot(j, ON_WAIT_NEXT)))
		return -ENOMEM;
	job_set_merged(j, merged);
	job_side(j)->appended = flag(rd->r, T_EXTRA_APPENDED);
	job_side(j)->forget = flag(rd->r, T_EXTRA_FORGET);
	return 0;
}

static int
in_coalesced(const struct reading *rd)
{
	struct str s = carry_get(rd->r, T_COALESCED_BY_ID);
	struct engine *e = rd->e;

	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		struct job *j = job_live(e, i);
		size_t id = j ? ids_of(&e->ids, i) : 0;

		if (id > 0 && (id + 1) * sizeof j->coalesced <= s.n)
			memcpy(&j->coalesced, s.p + id * sizeof j->coalesced, sizeof j->coalesced);
	}
	return 0;
}

/* ---- runs ---- */

static void
get_run(const struct carry_record *r, struct run *run)
{
	run->id = carry_get_u64(r, T_RUN_ID, run->id);
	run->token = carry_get_u64(r, T_RUN_TOKEN, run->token);
	run->started = flag(r, T_RUN_STARTED);
	run->killed = flag(r, T_RUN_KILLED);
	run->reserve = flag(r, T_RUN_RESERVE);
	run->retry = flag(r, T_RUN_RETRY);
	run->appended = flag(r, T_RUN_APPENDED);
	run->chained = flag(r, T_RUN_CHAINED);
	run->absolute = flag(r, T_RUN_ABSOLUTE);
	run->due_ns = carry_get_i64(r, T_RUN_DUE, 0);
	run->created_ns = carry_get_i64(r, T_RUN_CREATED, 0);
	run->delay_ns = carry_get_i64(r, T_RUN_DELAY, 0);
	run->slack_ns = carry_get_i64(r, T_RUN_SLACK, 0);
	run->max_wait_ns = carry_get_i64(r, T_RUN_MAX_WAIT, 0);
	run->due_wall_ns = carry_get_i64(r, T_RUN_DUE_WALL, 0);
	run->started_wall_ns = carry_get_i64(r, T_RUN_STARTED_WALL, 0);
	run->coalesced = get_u32(r, T_RUN_COALESCED);
	run->merged = get_u32(r, T_RUN_MERGED);
	run->seq = carry_get_u64(r, T_RUN_SEQ, run->seq);
}

/*
 * The store knows the job without the run: it was deleted while that went on, and made or disabled
 * anew. What the run was given is of no use any more.
 */
static int
forgotten_run(struct engine *e, struct job *j)
{
	struct run *run;

	if (j->state != JS_A && j->state != JS_X && !(j->state == JS_I && timer_armed(&j->timer)))
		return ERR_DAMAGED;
	run = job_run_new(e, j);
	if (!run)
		return -ENOMEM;
	job_side(j)->run = run;
	if (j->state != JS_I) {
		job_enter(e, j, OP_RESTORE, j->state == JS_A ? JS_RA : JS_RX);
		return 0;
	}
	/* Ready: it waits for its own run, not for its place (recover_ready). */
	timer_del(&e->restored, &j->timer);
	job_side(j)->pins--;
	job_enter(e, j, OP_RESTORE, JS_RQ);
	queue_ready_aside(j);
	return 0;
}

/* That it is on the maps says to engine_recovered that it goes on. */
static int
in_run(const struct reading *rd)
{
	struct job *j = named_job(rd->e, rd->r);
	int err = 0;

	if (!j)
		return ERR_DAMAGED;
	/* in_extra has made room. */
	if (!side_of(j)->run && side_of(j)->forget)
		err = forgotten_run(rd->e, j);
	if (err < 0)
		return err;
	if (!side_of(j)->run || side_of(j)->run->mapped)
		return ERR_DAMAGED;
	get_run(rd->r, side_of(j)->run);
	return job_run_map(rd->e, side_of(j)->run);
}

void
carried_run_goes_on(struct engine *e, struct run *run)
{
	struct queue *q = run->job->q;

	run->colour = queue_colour_join(q);
	pool_run_started(e, run, q, run->reserve);
	/* Without memory it does not count. */
	(void)tenant_run_started(e, run);
	queue_changed(e, q);
}

/* ---- what is kept ---- */

/* Behind those of the store that are older, in the lists of its job and its queue. */
static void
record_place(struct record *r)
{
	struct job *j = r->job;
	struct queue *q = r->q;
	struct list *at = r->of_job.next;

	list_del(&r->of_job);
	while (at != &job_side(j)->records && list_entry(at, struct record, of_job)->seq > r->seq)
		at = at->next;
	list_append(at, &r->of_job);
	at = r->of_queue.prev;
	list_del(&r->of_queue);
	while (at != &q->records && list_entry(at, struct record, of_queue)->seq > r->seq)
		at = at->prev;
	list_append(at->next, &r->of_queue);
}

static int
in_record(const struct reading *rd)
{
	const struct carry_record *r = rd->r;
	const struct run_record v = {
		.queue = carry_get(r, T_QUEUE),
		.key = carry_get(r, T_KEY),
		.generation = carry_get_u64(r, T_RECORD_GENERATION, 0),
		.attempt = get_u32(r, T_RECORD_ATTEMPT),
		.outcome = (enum run_outcome)carry_get_u64(r, T_RECORD_OUTCOME, RUN_DONE),
		.final = flag(r, T_RECORD_FINAL),
		.exit_code = (int32_t)carry_get_i64(r, T_RECORD_EXIT, -1),
		.signal = (int32_t)carry_get_i64(r, T_RECORD_SIGNAL, 0),
		.error = (int32_t)carry_get_i64(r, T_RECORD_ERROR, 0),
		.due_wall_ns = carry_get_i64(r, T_RECORD_DUE, 0),
		.started_wall_ns = carry_get_i64(r, T_RECORD_STARTED, 0),
		.ended_wall_ns = carry_get_i64(r, T_RECORD_ENDED, 0),
		.coalesced = get_u32(r, T_RECORD_COALESCED),
		.output = carry_get(r, T_RECORD_OUTPUT),
		.truncated = flag(r, T_RECORD_TRUNCATED),
	};
	struct record *rec;
	int err = record_restore(rd->e, carry_get_u64(r, T_RECORD_SEQ, 0), &v, &rec);

	if (err < 0)
		return err;
	rec->merged = get_u32(r, T_RECORD_MERGED);
	record_place(rec);
	return 0;
}

static int
in_completion(const struct reading *rd)
{
	const struct completion_saved s = {
		.name = carry_get(rd->r, T_NAME),
		.done = get_u32(rd->r, T_COMPLETION_DONE),
		.open = flag(rd->r, T_COMPLETION_OPEN),
		.level = LEVEL_MEMORY,
	};

	return completion_name_inner_valid(s.name) ? completion_carry(rd->e, &s) : ERR_DAMAGED;
}

static void
get_reply(const struct carry_record *r, struct job_reply *v)
{
	*v = (struct job_reply){
		.status = (enum status)carry_get_u64(r, T_REPLY_STATUS, ST_OK),
		.queue = carry_get(r, T_QUEUE),
		.key = carry_get(r, T_KEY),
		.state_before = (enum job_state)carry_get_u64(r, T_REPLY_STATE_BEFORE, JOB_IDLE),
		.pending_before = flag(r, T_REPLY_PENDING_BEFORE),
		.has_deadline = flag(r, T_REPLY_HAS_DEADLINE),
		.has_old_deadline = flag(r, T_REPLY_HAS_OLD),
		.deadline_wall_ns = carry_get_i64(r, T_REPLY_DEADLINE, 0),
		.old_deadline_wall_ns = carry_get_i64(r, T_REPLY_OLD, 0),
		.generation = carry_get_u64(r, T_REPLY_GENERATION, 0),
		.coalesced = get_u32(r, T_REPLY_COALESCED),
		.disable_depth = get_u32(r, T_REPLY_DEPTH),
	};
}

static int
in_answer(const struct reading *rd)
{
	struct answer_saved s = {
		.id = carry_get(rd->r, T_ANSWER_ID),
		.asked = (enum asked)carry_get_u64(rd->r, T_ANSWER_ASKED, 0),
		.until_wall_ns = carry_get_i64(rd->r, T_ANSWER_UNTIL_WALL, 0),
	};

	get_reply(rd->r, &s.reply);
	return answer_restore(rd->e, &s, false);
}

/* ---- those who wait ---- */

static struct wait_group **
wait_place(struct job *j, const struct carry_record *r)
{
	uint64_t on = carry_get_u64(r, T_WAITER_EVENT, N_JOB_EVENTS);

	return on < N_JOB_EVENTS ? wait_slot(j, (enum job_event)on) : NULL;
}

static int
wait_for_job(struct ask *a, enum wait_kind kind, const struct carry_record *r, int64_t timeout_ns)
{
	struct job *j = a->j;
	struct wait_group **slot;
	int err = job_widen(a->e, j);

	if (err < 0)
		return err;
	slot = wait_place(j, r);
	if (!slot)
		return -ENOMEM;
	err = wait_join(a, kind, slot, a->q, j, timeout_ns);
	/* While it is waited for to be cancelled it is closed. */
	if (err == 0 && (kind == W_CANCEL || kind == W_KILL) && j->state == JS_R)
		job_enter(a->e, j, OP_CANCEL_WAIT, JS_RX);
	return err;
}

/* What was ready or ran then is part of what does so now: all of that is waited for. */
static int
wait_for_queue(struct ask *a, int64_t timeout_ns)
{
	struct colour *c = NULL;
	int err = queue_close_colour(a->q, &c);

	if (err == 0 && !c)
		return ERR_DAMAGED;
	return err < 0 ? err : wait_join(a, W_FLUSH_QUEUE, &c->waiters, a->q, NULL, timeout_ns);
}

static int
wait_again(struct ask *a, enum wait_kind kind, const struct carry_record *r, int64_t timeout_ns)
{
	switch (kind) {
	case W_CANCEL:
	case W_KILL:
	case W_FLUSH:
	case W_WAIT:
		return a->j ? wait_for_job(a, kind, r, timeout_ns) : ERR_DAMAGED;
	case W_FLUSH_QUEUE:
		return a->q ? wait_for_queue(a, timeout_ns) : ERR_DAMAGED;
	case W_COMPLETION:
		return completion_carry_waiter(a, carry_get(r, T_NAME), timeout_ns);
	case W_DRAIN:
	case W_DRAIN_PAUSE:
	case W_DELETE:
		break;
	}
	return ERR_DAMAGED;
}

static int
in_waiter(const struct reading *rd)
{
	const struct carry_record *r = rd->r;
	int64_t due_ns = carry_get_i64(r, T_WAITER_DUE, INT64_MAX);
	int64_t left_ns = due_ns > rd->now.boot_ns ? due_ns - rd->now.boot_ns : 0;
	struct str id = carry_get(r, T_WAITER_ANSWER);
	struct ask a = {
		.e = rd->e,
		.again = true,
		.from = job_run_by_token(rd->e, carry_get_u64(r, T_WAITER_FROM, 0)),
		.ticket = carry_get_u64(r, T_WAITER_TICKET, 0),
		.level = (enum durability)carry_get_u64(r, T_WAITER_LEVEL, LEVEL_ASYNC),
		.q = queue_find(rd->e, carry_get(r, T_QUEUE)),
		.j = named_job(rd->e, r),
	};
	int err = 0;

	get_reply(r, &a.r);
	a.r.queue = a.q ? a.q->name : STR_NONE;
	a.r.key = a.j ? job_key(a.j) : STR_NONE;
	if (id.n > 0)
		err = answer_new(
			rd->e, id, (enum asked)carry_get_u64(r, T_WAITER_ASKED, 0), &a.answer);
	if (err == 0)
		err = wait_again(&a, (enum wait_kind)carry_get_u64(r, T_WAITER_KIND, W_DELETE), r,
			due_ns == INT64_MAX ? -1 : left_ns);
	answer_drop(rd->e, a.answer);
	return err;
}

/* ---- workers ---- */

static int
in_sub(const struct reading *rd)
{
	const struct carry_record *r = rd->r;
	struct str queues[WORKER_QUEUES_MAX];
	size_t n = carry_get_all(r, T_QUEUE, queues, WORKER_QUEUES_MAX);
	const struct worker_carried w = {
		.ticket = carry_get_u64(r, T_SUB_TICKET, 0),
		.credits = get_u32(r, T_SUB_CREDITS),
		.given = carry_get_u64(r, T_SUB_GIVEN, 0),
		.idle_ns = carry_get_i64(r, T_SUB_IDLE, 0),
		.closed = flag(r, T_SUB_CLOSED),
		.holder = carry_get(r, T_SUB_HOLDER),
		.queues = queues,
		.n_queues = n < WORKER_QUEUES_MAX ? n : WORKER_QUEUES_MAX,
	};

	return worker_carry(rd->e, &w);
}

static int
in_lease(const struct reading *rd)
{
	const struct carry_record *r = rd->r;
	struct job *j = carry_get(r, T_KEY).n > 0 ? named_job(rd->e, r) : NULL;
	const struct lease_carried l = {
		.run = j ? side_of(j)->run : NULL,
		.subscription = carry_get_u64(r, T_LEASE_SUB, 0),
		.state = (uint8_t)carry_get_u64(r, T_LEASE_STATE, 0),
		.touched = flag(r, T_LEASE_TOUCHED),
		.token = carry_get_u64(r, T_LEASE_TOKEN, 0),
		.due_ns = carry_get_i64(r, T_LEASE_DUE, 0),
		.bytes = (size_t)carry_get_u64(r, T_LEASE_BYTES, 0),
	};

	return lease_carry(rd->e, &l);
}

/* Who is next in the queue. */
static int
in_turns(const struct reading *rd)
{
	struct queue *q = queue_find(rd->e, carry_get(rd->r, T_QUEUE));
	size_t n;
	struct str *v = get_all(rd->r, T_TURNS_TICKET, &n);

	for (size_t i = 0; v && q && i < n; i++) {
		uint64_t ticket = 0;

		if (v[i].n == sizeof ticket)
			memcpy(&ticket, v[i].p, sizeof ticket);
		worker_goes_last(rd->e, q, ticket);
	}
	x_free(v);
	return 0;
}

/* ---- all ---- */

struct reader {
	enum carry_kind kind;
	int (*read)(const struct reading *rd);
	const char *what;
};

static int
read_all(struct engine *e, struct moment now, const struct carry_in *in, const struct reader *v,
	size_t n, const char **why)
{
	struct carry_record r;
	size_t at = 0;

	e->now = now;
	while (carry_next(in, &at, &r))
		for (size_t i = 0; i < n; i++) {
			const struct reading rd = { e, now, &r };
			int err = r.kind == v[i].kind ? v[i].read(&rd) : 0;

			if (err < 0) {
				*why = v[i].what;
				return err;
			}
		}
	return 0;
}

int
engine_carry_in(struct engine *e, struct moment now, const struct carry_in *in, const char **why)
{
	static const struct reader readers[] = {
		{ CARRY_ENGINE, in_engine, "the engine" },
		{ CARRY_COUNTER, in_counter, "a counter" },
		{ CARRY_QUEUE, in_queue, "a queue" },
		{ CARRY_JOB, in_job, "a job" },
		{ CARRY_EXTRA, in_extra, "more of a job" },
		{ CARRY_RUN, in_run, "a run" },
		{ CARRY_COALESCED, in_coalesced, "a job's counts" },
		{ CARRY_RECORD, in_record, "the record of a run" },
		{ CARRY_COMPLETION, in_completion, "a completion" },
		{ CARRY_ANSWER, in_answer, "an answer" },
	};

	CHECK_OBJ(e, ENGINE_MAGIC);
	e->carried = true;
	return read_all(e, now, in, readers, ARRAY_SIZE(readers), why);
}

int
engine_carry_in_waiters(
	struct engine *e, struct moment now, const struct carry_in *in, const char **why)
{
	static const struct reader readers[] = {
		{ CARRY_SUB, in_sub, "a worker" },
		{ CARRY_LEASE, in_lease, "a lease" },
		{ CARRY_TURNS, in_turns, "the turns of workers" },
		{ CARRY_WAITER, in_waiter, "one who waits" },
	};

	CHECK_OBJ(e, ENGINE_MAGIC);
	return read_all(e, now, in, readers, ARRAY_SIZE(readers), why);
}
