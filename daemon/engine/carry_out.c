/*
 * What the store does not say of the engine, for the process after an exec. See
 * carry.h; read back by carry_in.c.
 */
#include "base/alloc.h"
#include "engine/carry_int.h"
#include "engine/export.h"

void
engine_hold(struct engine *e, bool hold)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	e->holding = hold;
}

bool
engine_quiet(const struct engine *e, struct str *queue)
{
	bool quiet = list_empty(&e->wake) && list_empty(&e->sweeps) && list_empty(&e->purges);

	CHECK_OBJ(e, ENGINE_MAGIC);
	*queue = STR_NONE;
	list_each(q, &e->queues, struct queue, of_engine) {
		quiet = quiet && !q->draining;
		/* One that is gone but for its records is over soon. */
		if (q->draining && !q->removing)
			*queue = q->name;
	}
	return quiet;
}

/* ---- the engine ---- */

static void
put_counter(struct carry_out *o, const char *name, uint64_t value)
{
	carry_begin(o, CARRY_COUNTER);
	carry_str(o, T_NAME, str_from(name));
	carry_u64(o, T_COUNTER_VALUE, value);
	carry_end(o);
}

static void
put_engine(struct carry_out *o, const struct engine *e)
{
	carry_begin(o, CARRY_ENGINE);
	carry_u64(o, T_ENGINE_RUN_ID, e->run_id);
	carry_u64(o, T_ENGINE_MADE, e->made);
	carry_u64(o, T_ENGINE_SEQ, e->seq);
	carry_u64(o, T_ENGINE_RUN_SEQ, e->run_seq);
	carry_u64(o, T_ENGINE_FENCE, e->fence);
	carry_u64(o, T_ENGINE_MERGED, e->merged);
	carry_end(o);
#define X(name, doc) put_counter(o, #name, e->stats.name);
	ENGINE_COUNTER_TABLE(X)
#undef X
	list_each(q, &e->queues, struct queue, of_engine) {
		carry_begin(o, CARRY_QUEUE);
		carry_str(o, T_QUEUE, q->name);
		carry_i64(o, T_QUEUE_USUAL_CPU, q->usual_cpu_ns);
		carry_i64(o, T_QUEUE_BUCKET, q->bucket.full_ns);
		carry_end(o);
	}
}

/* ---- jobs ---- */

static void
put_name(struct carry_out *o, const struct job *j)
{
	carry_str(o, T_QUEUE, j->q->name);
	carry_str(o, T_KEY, job_key(j));
}

static void
put_saved(struct carry_out *o, const struct job_saved *s)
{
	carry_u64(o, T_JOB_PENDING, s->pending);
	carry_u64(o, T_JOB_RUNNING, s->running);
	carry_u64(o, T_JOB_ABSOLUTE, s->absolute);
	carry_i64(o, T_JOB_DUE_BOOT, s->due_boot_ns);
	carry_i64(o, T_JOB_DUE_WALL, s->due_wall_ns);
	carry_i64(o, T_JOB_DELAY, s->delay_ns);
	carry_i64(o, T_JOB_CREATED_WALL, s->created_wall_ns);
	carry_i64(o, T_JOB_SLACK, s->slack_ns);
	carry_i64(o, T_JOB_MAX_WAIT, s->max_wait_ns);
	carry_u64(o, T_JOB_SEQ, s->seq);
	carry_u64(o, T_JOB_GENERATION, s->generation);
	carry_u64(o, T_JOB_ATTEMPT, s->attempt);
	carry_u64(o, T_JOB_INTERRUPTS, s->interrupts);
	carry_u64(o, T_JOB_RETRY, s->retry);
	carry_u64(o, T_JOB_COALESCED, s->coalesced);
	carry_u64(o, T_JOB_DEPTH, s->disable_depth);
	carry_u64(o, T_JOB_DEAD, s->dead);
	carry_u64(o, T_JOB_LEVEL, s->level);
	carry_u64(o, T_JOB_COMMAND, s->command);
	carry_u64(o, T_JOB_RUN_COMMAND, s->run_command);
	for (size_t i = 0; i < s->n_parts; i++)
		carry_bytes(o, T_JOB_PART, s->parts[i]);
	for (size_t i = 0; i < s->n_run_parts; i++)
		carry_bytes(o, T_JOB_RUN_PART, s->run_parts[i]);
	carry_u64(o, T_JOB_RUN_COALESCED, s->run_coalesced);
	carry_i64(o, T_JOB_RUN_DUE_WALL, s->run_due_wall_ns);
	carry_i64(o, T_JOB_RUN_STARTED_WALL, s->run_started_wall_ns);
}

static void
put_job(struct carry_out *o, const struct engine *e, const struct job *j, struct moment now)
{
	struct job_saved s;

	if (ids_of(&e->ids, job_number(e, j)) != 0)
		return;
	job_save_going(j, now, &s);
	carry_begin(o, CARRY_JOB);
	put_name(o, j);
	put_saved(o, &s);
	carry_u64(o, T_JOB_DURABLE, j->durable);
	carry_end(o);
}

static void
put_extra(struct carry_out *o, const struct job *j)
{
	const struct side *s = side_of(j);

	if (!job_merged(j) && !s->appended && !s->forget)
		return;
	carry_begin(o, CARRY_EXTRA);
	put_name(o, j);
	carry_u64(o, T_EXTRA_MERGED, job_merged(j));
	carry_u64(o, T_EXTRA_APPENDED, s->appended);
	carry_u64(o, T_EXTRA_FORGET, s->forget);
	carry_end(o);
}

static void
put_run(struct carry_out *o, const struct job *j)
{
	const struct run *run = side_of(j)->run;

	if (!run)
		return;
	carry_begin(o, CARRY_RUN);
	put_name(o, j);
	carry_u64(o, T_RUN_ID, run->id);
	carry_u64(o, T_RUN_TOKEN, run->token);
	carry_u64(o, T_RUN_STARTED, run->started);
	carry_u64(o, T_RUN_KILLED, run->killed);
	carry_u64(o, T_RUN_RESERVE, run->reserve);
	carry_u64(o, T_RUN_RETRY, run->retry);
	carry_u64(o, T_RUN_APPENDED, run->appended);
	carry_u64(o, T_RUN_CHAINED, run->chained);
	carry_u64(o, T_RUN_ABSOLUTE, run->absolute);
	carry_i64(o, T_RUN_DUE, run->due_ns);
	carry_i64(o, T_RUN_CREATED, run->created_ns);
	carry_i64(o, T_RUN_DELAY, run->delay_ns);
	carry_i64(o, T_RUN_SLACK, run->slack_ns);
	carry_i64(o, T_RUN_MAX_WAIT, run->max_wait_ns);
	carry_i64(o, T_RUN_DUE_WALL, run->due_wall_ns);
	carry_i64(o, T_RUN_STARTED_WALL, run->started_wall_ns);
	carry_u64(o, T_RUN_COALESCED, run->coalesced);
	carry_u64(o, T_RUN_MERGED, run->merged);
	carry_u64(o, T_RUN_SEQ, run->seq);
	carry_end(o);
}

/* By number of the store. Without memory they are as the store has them: fewer. */
static void
put_coalesced(struct carry_out *o, const struct engine *e)
{
	uint32_t top = 0, *v;

	for (uint32_t i = 0; i < slab_top(&e->jobs); i++)
		if (job_live(e, i) && ids_of(&e->ids, i) > top)
			top = ids_of(&e->ids, i);
	v = top ? x_zalloc((top + 1) * sizeof *v) : NULL;
	for (uint32_t i = 0; v && i < slab_top(&e->jobs); i++) {
		const struct job *j = job_live(e, i);

		if (j)
			v[ids_of(&e->ids, i)] = j->coalesced;
	}
	carry_begin(o, CARRY_COALESCED);
	if (v)
		carry_bytes(o, T_COALESCED_BY_ID,
			(struct str){ (const char *)v, (top + 1) * sizeof *v });
	carry_end(o);
	x_free(v);
}

/* ---- what is kept ---- */

static void
put_record(struct carry_out *o, const struct record *r)
{
	const struct run_record *v = &r->r;

	if (r->dirty.stored)
		return;
	carry_begin(o, CARRY_RECORD);
	carry_str(o, T_QUEUE, v->queue);
	carry_str(o, T_KEY, v->key);
	carry_u64(o, T_RECORD_SEQ, r->seq);
	carry_u64(o, T_RECORD_GENERATION, v->generation);
	carry_u64(o, T_RECORD_ATTEMPT, v->attempt);
	carry_u64(o, T_RECORD_OUTCOME, v->outcome);
	carry_u64(o, T_RECORD_FINAL, v->final);
	carry_i64(o, T_RECORD_EXIT, v->exit_code);
	carry_i64(o, T_RECORD_SIGNAL, v->signal);
	carry_i64(o, T_RECORD_ERROR, v->error);
	carry_i64(o, T_RECORD_DUE, v->due_wall_ns);
	carry_i64(o, T_RECORD_STARTED, v->started_wall_ns);
	carry_i64(o, T_RECORD_ENDED, v->ended_wall_ns);
	carry_u64(o, T_RECORD_COALESCED, v->coalesced);
	carry_str(o, T_RECORD_OUTPUT, v->output);
	carry_u64(o, T_RECORD_TRUNCATED, v->truncated);
	carry_u64(o, T_RECORD_MERGED, r->merged);
	carry_end(o);
}

/* Oldest first, as they are read back. */
static void
put_records(struct carry_out *o, const struct engine *e)
{
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		const struct job *j = job_live(e, i);
		struct list *at;

		if (!j || !j->sided)
			continue;
		for (at = side_of(j)->records.prev; at != &j->ext.side->records; at = at->prev)
			put_record(o, list_entry(at, struct record, of_job));
	}
}

static void
put_completions(struct carry_out *o, const struct engine *e)
{
	list_each(c, &e->all_completions, struct completion, of_engine) {
		if (c->level != LEVEL_MEMORY || (c->done == 0 && !c->open))
			continue;
		carry_begin(o, CARRY_COMPLETION);
		carry_str(o, T_NAME, completion_name(c));
		carry_u64(o, T_COMPLETION_DONE, c->done);
		carry_u64(o, T_COMPLETION_OPEN, c->open);
		carry_end(o);
	}
}

static void
put_reply(struct carry_out *o, const struct job_reply *r)
{
	carry_str(o, T_QUEUE, r->queue);
	carry_str(o, T_KEY, r->key);
	carry_u64(o, T_REPLY_STATUS, r->status);
	carry_u64(o, T_REPLY_STATE_BEFORE, r->state_before);
	carry_u64(o, T_REPLY_PENDING_BEFORE, r->pending_before);
	carry_u64(o, T_REPLY_HAS_DEADLINE, r->has_deadline);
	carry_u64(o, T_REPLY_HAS_OLD, r->has_old_deadline);
	carry_i64(o, T_REPLY_DEADLINE, r->deadline_wall_ns);
	carry_i64(o, T_REPLY_OLD, r->old_deadline_wall_ns);
	carry_u64(o, T_REPLY_GENERATION, r->generation);
	carry_u64(o, T_REPLY_COALESCED, r->coalesced);
	carry_u64(o, T_REPLY_DEPTH, r->disable_depth);
}

static struct str
answer_name(const struct answer *a)
{
	return (struct str){ a->text, a->id_n };
}

static void
put_answers(struct carry_out *o, const struct engine *e, struct moment now)
{
	for (size_t i = 0; i < e->answer_ends.n; i++) {
		const struct answer *a =
			container_of(e->answer_ends.heap[i].timer, struct answer, timer);

		if (a->dirty.stored)
			continue;
		carry_begin(o, CARRY_ANSWER);
		put_reply(o, &a->reply);
		carry_str(o, T_ANSWER_ID, answer_name(a));
		carry_u64(o, T_ANSWER_ASKED, a->asked);
		carry_i64(o, T_ANSWER_UNTIL_WALL, moment_wall(now, a->until_ns));
		carry_end(o);
	}
}

/* ---- those who wait ---- */

static void
put_waiter(struct carry_out *o, const struct engine *e, const struct waiter *w)
{
	const struct wait_group *g = group_root(w->group);
	struct job_reply reply = w->reply;

	wq_assert(!g->awake && g->slot);
	/* The names in it are those of a request that is gone: reply_after puts others there. */
	reply.queue = g->q ? g->q->name : STR_NONE;
	reply.key = g->job ? job_key(g->job) : STR_NONE;
	carry_begin(o, CARRY_WAITER);
	put_reply(o, &reply);
	carry_u64(o, T_WAITER_KIND, w->kind);
	carry_u64(o, T_WAITER_TICKET, w->ticket);
	carry_u64(o, T_WAITER_LEVEL, w->level);
	carry_i64(o, T_WAITER_DUE,
		timer_armed(&w->timer) ? timer_due(&e->timeouts, &w->timer) : INT64_MAX);
	if (w->from)
		carry_u64(o, T_WAITER_FROM, w->from->token);
	if (g->completion)
		carry_str(o, T_NAME, completion_name(g->completion));
	if (g->job)
		carry_u64(o, T_WAITER_EVENT, (uint64_t)(g->slot - side_of(g->job)->waits->on));
	if (w->answer) {
		carry_str(o, T_WAITER_ANSWER, answer_name(w->answer));
		carry_u64(o, T_WAITER_ASKED, w->answer->asked);
	}
	carry_end(o);
}

/* ---- workers ---- */

static void
put_lease(struct carry_out *o, const struct engine *e, const struct lease *l)
{
	carry_begin(o, CARRY_LEASE);
	if (l->run)
		put_name(o, l->run->job);
	carry_u64(o, T_LEASE_SUB, l->sub ? l->sub->ticket : 0);
	carry_u64(o, T_LEASE_STATE, l->state);
	carry_u64(o, T_LEASE_TOUCHED, l->touched);
	carry_u64(o, T_LEASE_TOKEN, l->token);
	carry_i64(o, T_LEASE_DUE, l->run ? timer_due(&e->lease_ends, &l->timer) : 0);
	carry_u64(o, T_LEASE_BYTES, l->bytes);
	carry_end(o);
}

static void
put_sub(struct carry_out *o, const struct sub *s)
{
	carry_begin(o, CARRY_SUB);
	carry_u64(o, T_SUB_TICKET, s->ticket);
	carry_u64(o, T_SUB_CREDITS, s->credits);
	carry_u64(o, T_SUB_GIVEN, s->given);
	carry_i64(o, T_SUB_IDLE, s->idle_ns);
	carry_u64(o, T_SUB_CLOSED, s->closed);
	carry_str(o, T_SUB_HOLDER, (struct str){ s->holder, s->holder_n });
	list_each(p, &s->places, struct place, of_sub)
		carry_str(o, T_QUEUE, p->q->name);
	carry_end(o);
}

static void
put_workers(struct carry_out *o, const struct engine *e)
{
	list_each(s, &e->all_subs, struct sub, all)
		put_sub(o, s);
	list_each(s, &e->all_subs, struct sub, all)
		list_each(l, &s->leases, struct lease, of_sub)
			put_lease(o, e, l);
	list_each(q, &e->queues, struct queue, of_engine) {
		carry_begin(o, CARRY_TURNS);
		carry_str(o, T_QUEUE, q->name);
		list_each(p, &q->takers, struct place, taker)
			carry_u64(o, T_TURNS_TICKET, p->sub->ticket);
		carry_end(o);
	}
	/* Nobody's: their holders were there before the daemon. */
	for (size_t i = 0; i < e->lease_ends.n; i++) {
		const struct lease *l =
			container_of(e->lease_ends.heap[i].timer, struct lease, timer);

		if (!l->sub)
			put_lease(o, e, l);
	}
}

/* ---- all ---- */

void
engine_carry_out(const struct engine *e, struct moment now, struct carry_out *o)
{
	CHECK_OBJ(e, ENGINE_MAGIC);
	wq_assert(e->n_dirty == 0);
	put_engine(o, e);
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		const struct job *j = job_live(e, i);

		if (!j)
			continue;
		put_job(o, e, j, now);
		put_extra(o, j);
		put_run(o, j);
	}
	put_coalesced(o, e);
	put_records(o, e);
	put_completions(o, e);
	put_answers(o, e, now);
	put_workers(o, e);
	list_each(w, &e->all_waiters, struct waiter, all)
		put_waiter(o, e, w);
}
