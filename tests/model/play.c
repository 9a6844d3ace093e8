#include "model/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const play_queue_names[REF_QUEUES] = { "fast", "ordered", "none" };
static const char *const queue_settings[REF_QUEUES] = {
	"handler=h max_active=2 retention=300ms",
	("handler=h ordered=yes max_attempts=3 retry_delay=4ms retry_max_delay=10ms slack=3ms "
	 "max_wait=40ms misfire=rearm retention=200ms durability=sync"),
	"max_active=2 misfire=skip retention=50ms retention_count=6",
};

/* ---- parts of an op ---- */

static uint64_t
next_ticket(const struct play *p)
{
	return p->rig.last_ticket + 1;
}

static void
send(struct play *p, enum engine_event_kind kind, const void *op, uint64_t token)
{
	(void)rig_send(&p->rig, kind, op, token);
}

static struct job_name
name_of(const struct op *o)
{
	return rig_name(play_job_text(o->queue, o->key));
}

static struct str
queue_of(const struct op *o)
{
	return str_from(play_queue_names[o->queue]);
}

static struct str
id_of(const struct op *o)
{
	static const char ids[REF_IDS] = "abcde";

	return o->id ? (struct str){ &ids[(o->id - 1) % REF_IDS], 1 } : STR_NONE;
}

/* n: ms, < 0: no limit */
static int64_t
limit_of(const struct op *o)
{
	return o->n < 0 ? -1 : o->n * MS;
}

static int
queue_number(const char *name)
{
	for (int q = 0; q < REF_QUEUES; q++)
		if (strcmp(name, play_queue_names[q]) == 0)
			return q;
	play_differ("a run of queue %s", name);
}

/* The run that `n` stands for among those going, or NULL. */
static struct rig_run *
choose_run(struct play *p, int n)
{
	int going = 0;

	for (size_t i = 0; i < p->rig.n_runs; i++)
		going += p->rig.runs[i].going;
	if (going == 0)
		return NULL;
	n %= going;
	for (size_t i = 0;; i++)
		if (p->rig.runs[i].going && n-- == 0)
			return &p->rig.runs[i];
}

/* ---- requests ---- */

/* a: mode, +4 if_pending, +8 absolute, +16 from a run; b: payload mode and letter, +32 aligned where
 * key is odd; n: ms */
static void
play_update(struct play *p, const struct op *o)
{
	struct op_update op = rig_op(play_job_text(o->queue, o->key), o->n * MS);
	const struct rig_run *run = o->a & 16 ? choose_run(p, o->b) : NULL;
	char letter = (char)('a' + o->b / 3 % 6);

	op.mode = (enum update_mode)(o->a & 3);
	op.if_pending = (o->a & 4) != 0;
	op.payload_mode = (enum payload_mode)(o->b % 3);
	op.level = (enum durability)o->level;
	op.idem = id_of(o);
	if (o->b & 32 && o->key & 1) {
		op.align_ns = 4 * MS;
		op.align_exact = true; /* the offset of a key is the engine's own affair */
	}
	if (op.payload_mode != PAYLOAD_KEEP)
		op.payload = (struct str){ &letter, 1 };
	if (o->a & 8) {
		op.absolute = true;
		op.when_ns += p->rig.now.wall_ns;
	}
	ref_update(&p->ref, next_ticket(p), o->queue, o->key, run ? queue_number(run->queue) : -1,
		&op);
	send(p, EV_UPDATE, &op, run ? run->token : 0);
}

/* a: mode */
static void
play_cancel(struct play *p, const struct op *o)
{
	struct op_cancel op = { .job = name_of(o),
		.mode = (enum cancel_mode)(o->a % 3),
		.timeout_ns = limit_of(o),
		.level = (enum durability)o->level };

	/* Of one that waits the answer would be kept when it comes. */
	if (op.mode == CANCEL_PLAIN)
		op.idem = id_of(o);
	ref_cancel(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_CANCEL, &op, 0);
}

/* a & 1: now */
static void
play_flush(struct play *p, const struct op *o)
{
	struct op_flush op = { .job = name_of(o), .now = o->a & 1, .timeout_ns = limit_of(o) };

	ref_flush(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_FLUSH, &op, 0);
}

static void
play_flush_queue(struct play *p, const struct op *o)
{
	struct op_flush_queue op = { .queue = queue_of(o), .timeout_ns = limit_of(o) };

	ref_flush_queue(&p->ref, next_ticket(p), o->queue, op.timeout_ns);
	send(p, EV_FLUSH_QUEUE, &op, 0);
}

/* a: 0, 1 the newest; 2 of the last start; 3 of the next; + 4: of one before these */
static void
play_wait(struct play *p, const struct op *o)
{
	uint64_t last = p->ref.queue[o->queue].job[o->key].generation;
	struct op_wait op = { .job = name_of(o), .timeout_ns = limit_of(o) };

	if (o->a & 2)
		op.generation = last + (o->a & 1);
	if (o->a & 4 && op.generation > 1)
		op.generation--;
	ref_wait(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_WAIT, &op, 0);
}

/* a & 16: from a run */
static void
play_job(struct play *p, const struct op *o)
{
	const struct rig_run *run = o->a & 16 ? choose_run(p, o->b) : NULL;
	enum engine_event_kind kind = o->kind == OP_DELETE ? EV_DELETE
		: o->kind == OP_DISABLE                    ? EV_DISABLE
		: o->kind == OP_ENABLE                     ? EV_ENABLE
							   : EV_KICK;
	struct op_job op = {
		.job = name_of(o), .level = (enum durability)o->level, .idem = id_of(o)
	};

	ref_job(&p->ref, next_ticket(p), o->queue, o->key, run ? queue_number(run->queue) : -1,
		kind, &op);
	send(p, kind, &op, run ? run->token : 0);
}

static void
play_pause(struct play *p, const struct op *o)
{
	struct op_queue op = { .queue = queue_of(o) };
	bool pause = o->kind == OP_PAUSE;

	ref_pause(&p->ref, next_ticket(p), o->queue, pause);
	send(p, pause ? EV_PAUSE : EV_RESUME, &op, 0);
}

/* a: the new limit */
static void
play_max_active(struct play *p, const struct op *o)
{
	char text[32];

	snprintf(text, sizeof text, "max_active=%d", o->a % 4);
	ref_max_active(&p->ref, next_ticket(p), o->queue, (uint32_t)o->a % 4);
	(void)rig_queue_set(&p->rig, play_queue_names[o->queue], text);
}

/* a: policy, and pause afterwards. Timers are swept when the loop turns: nothing comes between. */
static void
play_drain(struct play *p, const struct op *o)
{
	struct op_drain op = { .queue = queue_of(o),
		.timers = (enum timer_policy)(o->a % 3),
		.pause_after = o->a / 3 % 4 == 0,
		.timeout_ns = limit_of(o) };

	/* The sweep takes a turn: a drain that waits for none has no time for it. */
	if (op.timers != TIMERS_KEEP && op.timeout_ns == 0)
		op.timeout_ns = -1;
	ref_drain(&p->ref, next_ticket(p), o->queue, &op);
	send(p, EV_DRAIN, &op, 0);
}

/* a: policy */
static void
play_queue_delete(struct play *p, const struct op *o)
{
	struct op_queue_delete op = { .queue = queue_of(o),
		.timers = (enum timer_policy)(o->a % 3),
		.timeout_ns = limit_of(o) };

	if (op.timers != TIMERS_KEEP && op.timeout_ns == 0)
		op.timeout_ns = -1;
	ref_queue_delete(&p->ref, next_ticket(p), o->queue, &op);
	send(p, EV_QUEUE_DELETE, &op, 0);
}

static void
play_queue_create(struct play *p, const struct op *o)
{
	ref_queue_create(&p->ref, next_ticket(p), o->queue, &p->settings[o->queue]);
	(void)rig_queue_create(&p->rig, play_queue_names[o->queue], queue_settings[o->queue]);
}

struct str
play_completion_name(int which)
{
	static const char *const texts[REF_COMPLETIONS] = { "built", "deployed", "c" };

	return str_from(texts[which]);
}

/* key: which; n: ms */
static void
play_completion(struct play *p, const struct op *o)
{
	enum engine_event_kind kind = o->kind == OP_AWAIT ? EV_COMPLETION_WAIT
		: o->kind == OP_COMPLETE                  ? EV_COMPLETE
		: o->kind == OP_COMPLETE_ALL              ? EV_COMPLETE_ALL
							  : EV_COMPLETION_REINIT;
	int which = o->key % REF_COMPLETIONS;
	struct op_completion op = { .name = play_completion_name(which),
		.timeout_ns = limit_of(o) };

	/* Who is let in counts no more among those who wait, though not answered yet. */
	if (kind == EV_COMPLETION_WAIT && p->ref.n_waiters + 4 > REF_WAITERS)
		return;
	ref_completion(&p->ref, next_ticket(p), which, kind, op.timeout_ns);
	send(p, kind, &op, 0);
}

/* b: which of those who wait */
static void
play_abandon(struct play *p, const struct op *o)
{
	uint64_t ticket;

	if (p->ref.n_waiters == 0)
		return;
	ticket = p->ref.waiter[(size_t)o->b % p->ref.n_waiters].ticket;
	ref_abandon(&p->ref, ticket);
	rig_abandon(&p->rig, ticket);
}

/* ---- what happens ---- */

/* a: how; b: which run */
static void
play_run_end(struct play *p, const struct op *o)
{
	static const enum run_outcome outcomes[] = { RUN_DONE, RUN_DONE, RUN_FAILED, RUN_TIMEOUT };
	struct rig_run *run = choose_run(p, o->b);
	enum run_outcome outcome = outcomes[o->a % 4];

	if (!run)
		return;
	if (run->killed && o->a % 8 < 4)
		outcome = RUN_CANCELLED;
	ref_ended(&p->ref, queue_number(run->queue), atoi(run->key), outcome);
	rig_end_run(&p->rig, run, outcome);
}

/* b: which run */
static void
play_not_started(struct play *p, const struct op *o)
{
	struct rig_run *run = choose_run(p, o->b);

	if (!run)
		return;
	ref_not_started(&p->ref, queue_number(run->queue), atoi(run->key));
	rig_not_started(&p->rig, run);
}

/* n: ms, one at a time: what is due then happens then; a & 31 == 0: over a second */
static void
play_pass(struct play *p, const struct op *o)
{
	for (int i = o->a & 31 ? 0 : -1000; i < o->n; i++) {
		rig_freeze(&p->rig, MS);
		p->ref.now = p->rig.now;
		ref_settle(&p->ref);
		rig_settle(&p->rig);
	}
}

/* n: ms, unseen; not where a wait could end in them, before or after what else is overdue */
static void
play_freeze(struct play *p, const struct op *o)
{
	for (size_t i = 0; i < p->ref.n_waiters; i++)
		if (p->ref.waiter[i].until != INT64_MAX)
			return;
	rig_freeze(&p->rig, o->n * MS);
	p->ref.now = p->rig.now;
}

/* n: how many changes are taken to the store */
static void
play_commit(struct play *p, const struct op *o)
{
	saved_take(&p->rig.saved, p->rig.e, p->rig.now, o->n < 0 ? SIZE_MAX : (size_t)o->n);
}

/* n: ms that the wall clock is set forward or, with a & 1, back */
static void
play_step(struct play *p, const struct op *o)
{
	int64_t by = (o->a & 1 ? -1 : 1) * o->n * MS;

	p->stepped = true;
	p->ref.now.wall_ns += by;
	ref_stepped(&p->ref, by);
	p->rig.now = p->ref.now;
}

/* An update that changes nothing else is counted, but not worth being stored. */
static void
forget_counts(struct play *p)
{
	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_instance *want = &p->ref.queue[q].job[k].p;
			struct job_name name = rig_name(play_job_text(q, k));
			struct job_view got;

			if (want->at != JOB_IDLE &&
				engine_get(p->rig.e, p->rig.now, &name, &got) == ST_OK &&
				got.coalesced < want->coalesced)
				want->coalesced = got.coalesced;
		}
	}
}

/* a & 1: another boot; n: ms down */
static void
play_restart(struct play *p, const struct op *o)
{
	if (p->stepped)
		return;
	rig_restart(&p->rig, o->n * MS, (o->a & 1) == 0);
	ref_restarted(&p->ref, p->rig.now);
	forget_counts(p);
	follow_begin(p);
}

/* ---- all ops ---- */

static void (*const plays[OP_COUNT])(struct play *p, const struct op *o) = {
	[OP_UPDATE] = play_update,
	[OP_END] = play_run_end,
	[OP_PASS] = play_pass,
	[OP_FREEZE] = play_freeze,
	[OP_CANCEL] = play_cancel,
	[OP_FLUSH] = play_flush,
	[OP_FLUSH_QUEUE] = play_flush_queue,
	[OP_WAIT] = play_wait,
	[OP_DELETE] = play_job,
	[OP_DISABLE] = play_job,
	[OP_ENABLE] = play_job,
	[OP_KICK] = play_job,
	[OP_PAUSE] = play_pause,
	[OP_RESUME] = play_pause,
	[OP_MAX_ACTIVE] = play_max_active,
	[OP_DRAIN] = play_drain,
	[OP_ABANDON] = play_abandon,
	[OP_NOT_STARTED] = play_not_started,
	[OP_QUEUE_DELETE] = play_queue_delete,
	[OP_QUEUE_CREATE] = play_queue_create,
	[OP_AWAIT] = play_completion,
	[OP_COMPLETE] = play_completion,
	[OP_COMPLETE_ALL] = play_completion,
	[OP_REINIT] = play_completion,
	[OP_COMMIT] = play_commit,
	[OP_STEP] = play_step,
	[OP_RESTART] = play_restart,
};

/* What comes of these comes with the turn of the loop: it has to be awaited. */
static bool
settles(int kind)
{
	return kind == OP_DRAIN || kind == OP_QUEUE_DELETE || kind == OP_COMPLETE ||
		kind == OP_COMPLETE_ALL;
}

void
play_op(struct play *p, const struct op *o)
{
	uint64_t steps = p->rig.n_steps;

	plays[o->kind](p, o);
	if (p->rig.n_steps != steps)
		ref_follow(&p->ref);
	if (o->kind == OP_FREEZE || (o->quiet && !settles(o->kind)))
		return;
	ref_settle(&p->ref);
	rig_settle(&p->rig);
	play_compare(p);
	follow_compare(p);
	if (p->rig.n_runs > 64) {
		rig_forget(&p->rig);
		p->runs_seen = p->rig.n_runs;
	}
}

static void
ref_begin(struct play *p)
{
	ref_init(&p->ref, p->rig.now);
	for (int q = 0; q < REF_QUEUES; q++)
		p->ref.queue[q].s = p->settings[q];
}

void
play_op_alone(struct play *p, const struct op *o)
{
	if (o->kind == OP_STEP || o->kind == OP_RESTART)
		return;
	/* What it would say counts for nothing: it is as new for each op. */
	ref_begin(p);
	plays[o->kind](p, o);
	rig_settle(&p->rig);
	follow_compare(p);
	if (p->rig.n_runs > 64)
		rig_forget(&p->rig);
	p->rig.n_answers = 0;
}

void
play_begin(struct play *p, unsigned budget)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	memset(p, 0, sizeof *p);
	cfg.answer_keep_ns = REF_KEEP_NS;
	if (budget)
		cfg.turn_budget = budget;
	rig_init_config(&p->rig, &cfg);
	for (int q = 0; q < REF_QUEUES; q++) {
		(void)rig_queue_create(&p->rig, play_queue_names[q], queue_settings[q]);
		p->settings[q] = *rig_queue(&p->rig, play_queue_names[q]).settings;
	}
	ref_begin(p);
	saved_take(&p->rig.saved, p->rig.e, p->rig.now, SIZE_MAX);
	rig_forget(&p->rig);
	p->rig.quiet_settle = true;
	follow_begin(p);
}

void
play_end_of(struct play *p)
{
	rig_done(&p->rig);
}

/* ---- a crash ---- */

static void
end_all_runs(struct play *p)
{
	struct rig_run *run;

	while ((run = choose_run(p, 0)) != NULL)
		rig_end_run(&p->rig, run, RUN_DONE);
	rig_forget(&p->rig);
}

void
play_crash(struct play *p, size_t taken)
{
	saved_take(&p->rig.saved, p->rig.e, p->rig.now, taken);
	rig_crash(&p->rig, MS, true);
	follow_begin(p);
	p->rig.quiet_settle = false;
	for (int q = 0; q < REF_QUEUES; q++) {
		(void)rig_resume(&p->rig, play_queue_names[q]);
		if (q != 1)
			(void)rig_queue_set(&p->rig, play_queue_names[q], "max_active=2");
	}
	for (int i = 0; i < 200; i++) {
		rig_pass(&p->rig, 20 * MS);
		end_all_runs(p);
		engine_verify(p->rig.e);
	}
	for (int q = 0; q < REF_QUEUES; q++) {
		struct queue_view v;

		if (engine_queue_get(p->rig.e, str_from(play_queue_names[q]), &v) != ST_OK)
			continue;
		rig_check(v.armed + v.ready + v.held + v.running == 0);
	}
}
