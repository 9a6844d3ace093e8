/*
 * A run, from its hand-over to its end.
 *
 * All memory that its end needs is taken at the start, so that no run can end
 * without its record. What follows an end:
 *
 *   outcome                    another instance pending,   otherwise
 *                              or closed by a cancel
 *   done, cancelled            final                       final
 *   lost (a lease whose        final                       attempts left: again at once, else dead
 *   worker is gone, or that                                (one attempt only: as interrupted)
 *   ran out)
 *   failed, timeout            final                       attempts left: retry after a delay,
 *                                                          else dead (one attempt only: final)
 *   interrupted                final                       retry at once, at most max_interrupts
 *                                                          times in a row, then dead
 */
#include <errno.h>

#include "base/alloc.h"
#include "engine/inside.h"
#include "engine/internal.h"

/* ---- finding ---- */

static bool
run_id_match(const struct map_node *node, const void *key)
{
	return container_of(node, const struct run, by_id)->id == *(const uint64_t *)key;
}

static bool
run_token_match(const struct map_node *node, const void *key)
{
	return container_of(node, const struct run, by_token)->token == *(const uint64_t *)key;
}

void
job_run_maps_init(struct map *by_id, struct map *by_token)
{
	map_init(by_id, run_id_match);
	map_init(by_token, run_token_match);
}

static uint64_t
run_id_hash(const struct engine *e, uint64_t id)
{
	return engine_random(e, 'r', id);
}

struct run *
job_run_by_id(const struct engine *e, uint64_t id)
{
	struct map_node *node = map_find(&e->runs, run_id_hash(e, id), &id);

	return node ? container_of(node, struct run, by_id) : NULL;
}

struct run *
job_run_by_token(const struct engine *e, uint64_t token)
{
	/* The token is as random as a hash. */
	struct map_node *node = token ? map_find(&e->tokens, token, &token) : NULL;

	return node ? container_of(node, struct run, by_token) : NULL;
}

/* ---- starting ---- */

struct run *
job_run_new(struct engine *e, struct job *j)
{
	struct run *run = x_zalloc(sizeof *run);

	if (!run)
		return NULL;
	run->magic = RUN_MAGIC;
	run->job = j;
	run->id = ++e->run_id;
	run->token = engine_random(e, 'T', run->id);
	if (run->token == 0)
		run->token = 1;
	if (record_new(e, &run->record) < 0) {
		x_free(run);
		return NULL;
	}
	return run;
}

int
job_run_map(struct engine *e, struct run *run)
{
	if (map_add(&e->runs, &run->by_id, run_id_hash(e, run->id)) < 0)
		return -ENOMEM;
	if (map_add(&e->tokens, &run->by_token, run->token) < 0) {
		map_del(&e->runs, &run->by_id);
		return -ENOMEM;
	}
	run->mapped = true;
	return 0;
}

void
job_run_free(struct engine *e, struct run *run)
{
	if (run->mapped) {
		map_del(&e->runs, &run->by_id);
		map_del(&e->tokens, &run->by_token);
	}
	pool_run_over(e, run);
	tenant_run_over(e, run);
	inside_run_over(run);
	if (run->lease)
		lease_free(e, run->lease);
	payload_free(e, run->payload);
	record_unref(e, run->record);
	MAGIC_DONE(run);
	x_free(run);
}

/* The pending instance becomes the run. */
static void
run_take_instance(struct engine *e, struct run *run, struct job *j)
{
	run->seq = j->seq;
	run->colour = side_of(j)->colour;
	run->absolute = j->absolute;
	run->due_ns = j->due_ns;
	run->due_wall_ns = job_due_wall(e->now, j);
	run->created_ns = j->created_ns;
	run->delay_ns = job_delay(j);
	run->slack_ns = side_of(j)->slack_ns;
	run->max_wait_ns = side_of(j)->max_wait_ns;
	run->coalesced = j->coalesced;
	run->retry = side_of(j)->retry;
	run->appended = side_of(j)->appended;
	run->chained = j->chained;
	run->payload = job_payload(j);
	run->merged = job_merged(j);
	job_set_merged(j, 0);
	run->started_wall_ns = e->now.wall_ns;
	*job_payload_at(j) = NULL;
	j->coalesced = 0;
}

/* What was "next" for those who wait is "now". */
static void
run_take_waiters(struct engine *e, struct job *j)
{
	job_wait_merge(e, j, ON_FLUSH_NEXT, ON_FLUSH_RUN);
	job_wait_merge(e, j, ON_WAIT_NEXT, ON_WAIT_RUN);
}

static void
run_emit(struct engine *e, const struct run *run)
{
	const struct job *j = run->job;
	struct effect *fx = engine_effect(e, FX_START);

	fx->start = (struct run_start){
		.run_id = run->id,
		.token = run->token,
		.action = run->payload && run->payload->command ? ACTION_EXEC : j->q->s.action,
		.pool = run->pool->index,
		.usual_cpu_ns = j->q->usual_cpu_ns,
		.handler = str_from(j->q->s.handler),
		.command = payload_command(run->payload),
		.queue = j->q->name,
		.key = job_key(j),
		.generation = side_of(j)->generation,
		.attempt = side_of(j)->attempt,
		.coalesced = run->coalesced,
		.due_wall_ns = run->due_wall_ns,
		.parts = run->payload ? run->payload->parts + run->payload->command : NULL,
		.n_parts = payload_parts(run->payload),
	};
	if (!run->lease)
		return;
	fx->start.subscription = run->lease->sub->ticket;
	fx->start.lease_token = run->lease->token;
	fx->start.lease_ns = j->q->s.lease_ns;
}

int
job_run_start(struct engine *e, struct job *j, bool reserve)
{
	const struct run_end done = { .outcome = RUN_DONE, .exit_code = -1 };
	bool command = job_payload(j) && job_payload(j)->command;
	bool none = j->q->s.action == ACTION_NONE && !command;
	bool lease = j->q->s.action == ACTION_LEASE && !command;
	struct run *run = job_run_new(e, j);

	if (!run)
		return -ENOMEM;
	if ((!none && (job_run_map(e, run) < 0 || tenant_run_started(e, run) < 0)) ||
		(lease && lease_give(e, run, worker_next(j->q)) < 0)) {
		job_run_free(e, run);
		return -ENOMEM;
	}
	run->started = lease;
	hist_add(&e->lateness, e->now.boot_ns - job_due_boot(e->now, j));
	run_take_instance(e, run, j);
	pool_run_started(e, run, j->q, reserve);
	job_side(j)->attempt = side_of(j)->retry ? side_of(j)->attempt + 1 : 1;
	job_side(j)->generation = job_coming(j);
	job_side(j)->retry = false;
	job_side(j)->run = run;
	job_enter(e, j, OP_START, JS_R);
	run_take_waiters(e, j);
	e->stats.starts++;
	if (none) {
		job_run_end(e, run, &done);
		return 0;
	}
	/* Before it does anything it must be known that it may have. */
	job_changed(e, j);
	e->urgent = e->urgent || j->durable;
	run_emit(e, run);
	if (lease)
		worker_took(e, j->q);
	return 0;
}

void
run_started_event(struct engine *e, const struct engine_event *ev)
{
	struct run *run = job_run_by_id(e, ev->run_id);

	if (run)
		run->started = true;
}

void
job_run_kill(struct engine *e, struct run *run)
{
	if (run->killed)
		return;
	if (run->lease) {
		lease_revoke(e, run);
		return;
	}
	run->killed = true;
	engine_effect(e, FX_KILL)->run_id = run->id;
}

/* ---- ending ---- */

enum verdict { FINAL, RETRY, DEAD };

static bool
attempts_left(const struct job *j)
{
	return side_of(j)->attempt < j->q->s.max_attempts;
}

static enum verdict
verdict_interrupted(const struct job *j)
{
	return side_of(j)->interrupts < j->q->s.max_interrupts ? RETRY : DEAD;
}

static enum verdict
run_verdict(const struct job *j, const struct run_end *end)
{
	const struct queue_settings *s = &j->q->s;

	/* Another instance is pending, or the job is closed. */
	if (j->state != JS_R || side_of(j)->forget || j->q->deleting)
		return FINAL;
	if (end->lost && s->max_attempts == 1)
		return verdict_interrupted(j);
	if (end->lost)
		return attempts_left(j) ? RETRY : DEAD;
	switch (end->outcome) {
	case RUN_INTERRUPTED:
		return verdict_interrupted(j);
	case RUN_FAILED:
	case RUN_TIMEOUT:
		if (attempts_left(j))
			return RETRY;
		return s->max_attempts > 1 ? DEAD : FINAL;
	case RUN_DONE:
	case RUN_CANCELLED:
		return FINAL;
	case RUN_NONE:
	case RUN_DEAD:
		break;
	}
	wq_assert(!"an outcome that a runner reports");
	return FINAL;
}

static void
count_outcome(struct engine *e, enum run_outcome outcome)
{
	switch (outcome) {
	case RUN_DONE:
		e->stats.runs_done++;
		return;
	case RUN_FAILED:
		e->stats.runs_failed++;
		return;
	case RUN_DEAD:
		e->stats.runs_dead++;
		return;
	case RUN_CANCELLED:
		e->stats.runs_cancelled++;
		return;
	case RUN_INTERRUPTED:
		e->stats.runs_interrupted++;
		return;
	case RUN_TIMEOUT:
		e->stats.runs_timeout++;
		return;
	case RUN_NONE:
		return;
	}
}

static void
record_output(struct engine *e, struct run_record *r, const struct run_end *end)
{
	char *copy = NULL;

	r->truncated = end->truncated;
	if (end->output.n == 0)
		return;
	if (end->output.n <= e->cfg.max_bytes && e->stats.bytes <= e->cfg.max_bytes - end->output.n)
		copy = x_strndup(end->output.p, end->output.n);
	if (!copy) {
		r->truncated = true;
		return;
	}
	r->output = (struct str){ copy, end->output.n };
	e->stats.bytes += end->output.n;
}

static void
run_fill_record(
	struct engine *e, const struct run *run, const struct run_end *end, enum verdict verdict)
{
	const struct job *j = run->job;
	struct run_record *r = &run->record->r;
	/* A command that could not be started never was. */
	bool started = run->started || end->error == 0;

	run->record->job = run->job;
	run->record->merged = run->merged;
	run->record->q = j->q;
	r->queue = j->q->name;
	r->key = job_key(j);
	r->generation = side_of(j)->generation;
	r->attempt = side_of(j)->attempt;
	r->outcome = verdict == DEAD ? RUN_DEAD : end->outcome;
	r->final = verdict != RETRY;
	r->exit_code = end->exit_code;
	r->signal = end->signal;
	r->error = end->error;
	r->due_wall_ns = run->due_wall_ns;
	r->started_wall_ns = started ? run->started_wall_ns : 0;
	r->ended_wall_ns = e->now.wall_ns;
	r->coalesced = run->coalesced;
	record_output(e, r, end);
	run->record->ended_ns = e->now.boot_ns;
	count_outcome(e, r->outcome);
}

/* Chance shortens the delay: it stays the longest. */
static int64_t
retry_jittered(const struct engine *e, const struct job *j, int64_t delay_ns)
{
	uint64_t span = (uint64_t)delay_ns / 100 * j->q->s.retry_jitter;

	if (span == 0)
		return delay_ns;
	return delay_ns - (int64_t)(engine_random(e, 'j', job_number(e, j) ^ e->seq) % (span + 1));
}

static int64_t
retry_backoff(const struct job *j)
{
	const struct queue_settings *s = &j->q->s;
	int64_t delay = s->retry_delay_ns;

	if (s->retry_backoff == BACKOFF_EXPONENTIAL)
		for (uint32_t i = 1;
			i < side_of(j)->attempt && delay < s->retry_max_delay_ns && delay > 0; i++)
			delay = sat_add(delay, delay);
	return delay < s->retry_max_delay_ns ? delay : s->retry_max_delay_ns;
}

static int64_t
retry_delay(const struct engine *e, const struct job *j, const struct run_end *end)
{
	if (end->has_retry_after)
		return end->retry_after_ns;
	if (end->lost || end->outcome == RUN_INTERRUPTED)
		return 0;
	return retry_jittered(e, j, retry_backoff(j));
}

/* The same instance again. */
static void
run_retry(struct engine *e, struct run *run, const struct run_end *end)
{
	struct job *j = run->job;
	int64_t delay = retry_delay(e, j, end);
	bool cut = end->lost || end->outcome == RUN_INTERRUPTED, armed;

	job_side(j)->interrupts = !cut
		? 0
		: (uint16_t)(side_of(j)->interrupts + (side_of(j)->interrupts < UINT16_MAX));
	*job_payload_at(j) = run->payload;
	run->payload = NULL;
	j->coalesced = run->coalesced;
	job_side(j)->appended = run->appended;
	j->created_ns = run->created_ns;
	job_set_delay(j, delay);
	job_side(j)->slack_ns = 0;
	job_side(j)->max_wait_ns = 0;
	job_side(j)->retry = true;
	j->chained = true;
	job_set_merged(j, run->merged);
	/* A retry that comes early for want of memory is better than none. */
	armed = delay > 0 && job_arm(e, j, false, sat_add(e->now.boot_ns, delay)) == 0;
	if (!armed) {
		j->absolute = false;
		j->due_ns = e->now.boot_ns;
	}
	job_enter(e, j, OP_RETRY, armed ? JS_A : JS_Q);
	/* It never came to its end: in front of what was behind it. */
	if (!armed && cut) {
		list_del(&job_side(j)->ready);
		j->seq = run->seq;
		queue_ready_back(e, j);
	}
}

enum jstate
job_after_run(const struct job *j)
{
	if (j->state == JS_RA)
		return JS_A;
	if (j->state == JS_RQ)
		return JS_Q;
	return side_of(j)->disable_depth > 0 ? JS_X : JS_I;
}

static void
run_over(struct engine *e, struct run *run, enum verdict verdict)
{
	struct job *j = run->job;

	job_side(j)->interrupts = 0;
	if (verdict == DEAD) {
		job_side(j)->dead = true;
		*job_payload_at(j) = run->payload;
		run->payload = NULL;
	} else if (run->payload || job_payload(j)) {
		j->stale = true;
	}
	job_enter(e, j, OP_END, job_after_run(j));
}

static void
run_answer_waiters(struct engine *e, struct job *j, struct record *r)
{
	job_wake(e, j, ON_FLUSH_RUN, ST_OK, r);
	job_wake(e, j, ON_CANCEL, ST_OK, r);
	if (r->r.final)
		job_wake(e, j, ON_WAIT_RUN, ST_OK, r);
}

/* The median without a memory of its samples: a step up or down, by which more were. */
static void
queue_note_cpu(struct queue *q, int64_t cpu_ns)
{
	if (cpu_ns <= 0)
		return;
	if (q->usual_cpu_ns == 0)
		q->usual_cpu_ns = cpu_ns;
	else if (cpu_ns > q->usual_cpu_ns)
		q->usual_cpu_ns += q->usual_cpu_ns / 8 + 1;
	else
		q->usual_cpu_ns -= q->usual_cpu_ns / 8;
}

void
job_run_end(struct engine *e, struct run *run, const struct run_end *end)
{
	struct job *j = run->job;
	struct queue *q = j->q;
	struct colour *colour = run->colour;
	enum verdict verdict = run_verdict(j, end);

	CHECK_OBJ(run, RUN_MAGIC);
	run_fill_record(e, run, end, verdict);
	queue_note_cpu(q, end->cpu_ns);
	/* Pinned: it must not be forgotten before its record is kept. */
	job_side(j)->pins++;
	job_side(j)->run = NULL;
	tell_run(e, &run->record->r);
	run_answer_waiters(e, j, run->record);
	if (verdict == RETRY)
		run_retry(e, run, end);
	else
		run_over(e, run, verdict);
	if (!side_of(j)->forget)
		history_add(e, j, run->record);
	job_side(j)->forget = false;
	job_changed(e, j);
	if (colour)
		colour_leave(e, q, colour);
	job_run_free(e, run);
	job_side(j)->pins--;
	job_settle(e, j);
}

void
run_ended_event(struct engine *e, const struct engine_event *ev)
{
	struct run *run = job_run_by_id(e, ev->run_end->run_id);

	if (run)
		job_run_end(e, run, ev->run_end);
}
