/*
 * The engine against the reference: random requests from a seed, in episodes, with
 * everything compared after each step. A sequence that fails is made as short
 * as it gets and printed as a script that can be played again:
 *
 *     WQD_MODEL_SEED=7 tests/model/test_model       one seed alone
 *     WQD_MODEL_SCRIPT=FILE tests/model/test_model  the lines of FILE
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/reference.h"
#include "model/rig.h"
#include "unit/random.h"
#include "unit/unit.h"

#define SEEDS    20
#define STEPS    100000 /* a seed */
#define EPISODE  2500   /* steps from an empty engine on */
#define TRIES    4000   /* runs of a failing sequence to make it shorter */
#define TEXT_MAX 512

#ifdef WITH_SANITIZERS
#define SLOWER 5
#else
#define SLOWER 1
#endif

#define OP_TABLE(X) \
	X(UPDATE, 40) \
	X(END, 16) \
	X(PASS, 14) \
	X(FREEZE, 2) \
	X(CANCEL, 6) \
	X(FLUSH, 4) \
	X(FLUSH_QUEUE, 2) \
	X(WAIT, 4) \
	X(DELETE, 2) \
	X(DISABLE, 2) \
	X(ENABLE, 4) \
	X(KICK, 3) \
	X(PAUSE, 1) \
	X(RESUME, 2) \
	X(MAX_ACTIVE, 2) \
	X(DRAIN, 2) \
	X(ABANDON, 2) \
	X(NOT_STARTED, 1) \
	X(STEP, 1) \
	X(RESTART, 1)

enum op_kind {
#define X(name, weight) OP_##name,
	OP_TABLE(X)
#undef X
		OP_COUNT
};

static const struct {
	const char *name;
	unsigned weight;
} op_table[OP_COUNT] = {
#define X(name, weight) { #name, weight },
	OP_TABLE(X)
#undef X
};

/* What the letters mean is said in play_KIND(). `quiet`: the next comes before the loop turns. */
struct op {
	int kind, queue, key, a, b, n, quiet;
};

static const char *const queue_names[REF_QUEUES] = { "fast", "ordered", "none" };
static const char *const queue_settings[REF_QUEUES] = {
	"handler=h max_active=2 retention=300ms",
	("handler=h ordered=yes max_attempts=3 retry_delay=4ms retry_max_delay=10ms slack=3ms "
	 "max_wait=40ms misfire=rearm retention=200ms"),
	"max_active=2 misfire=skip retention=50ms retention_count=6",
};

struct play {
	struct rig rig;
	struct ref ref;
	size_t runs_seen;
	bool stepped; /* what was stored before means another time now: no restart any more */
};

/* ---- failure ---- */

static sigjmp_buf on_failure;
static char failure[TEXT_MAX];

static _Noreturn void
differ(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
differ(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(failure, sizeof failure, fmt, ap);
	va_end(ap);
	siglongjmp(on_failure, 1);
}

static void
on_check(const char *what)
{
	differ("%s", what);
}

static void
on_signal(int sig)
{
	differ("signal %d, see the assertion above", sig);
}

/* ---- comparison ---- */

static const char *
job_text(int queue, int key)
{
	static char text[4][32];
	static int i;

	i = (i + 1) % 4;
	snprintf(text[i], sizeof text[i], "%s/%d", queue_names[queue], key);
	return text[i];
}

static void
compare_record(const char *what, const struct ref_record *want, const struct run_record *got)
{
	if (got->generation != want->generation || got->attempt != want->attempt ||
		got->outcome != want->outcome || got->final != want->final ||
		got->coalesced != want->coalesced)
		differ("%s: run %lu.%u %s final %d coalesced %u, expected %lu.%u %s final %d "
		       "coalesced %u",
			what, (unsigned long)got->generation, got->attempt,
			run_outcome_word(got->outcome), got->final, got->coalesced,
			(unsigned long)want->generation, want->attempt,
			run_outcome_word(want->outcome), want->final, want->coalesced);
}

/* The fields of an update's answer beyond the word. */
static void
compare_update(const char *what, const struct ref_reply *want, const struct job_reply *got)
{
	enum job_state before = got->state_before == JOB_HELD ? JOB_READY : got->state_before;

	if (before != want->before || got->pending_before != want->pending_before)
		differ("%s: %s before, expected %s", what, job_state_word(before),
			job_state_word(want->before));
	if (got->generation != want->generation || got->coalesced != want->coalesced)
		differ("%s: generation %lu coalesced %u, expected %lu, %u", what,
			(unsigned long)got->generation, got->coalesced,
			(unsigned long)want->generation, want->coalesced);
	if (got->has_deadline != want->has_deadline ||
		(want->has_deadline && got->deadline_wall_ns != want->deadline))
		differ("%s: deadline %d %ld, expected %d %ld", what, got->has_deadline,
			(long)got->deadline_wall_ns, want->has_deadline, (long)want->deadline);
}

static void
compare_replies(struct play *p)
{
	for (size_t i = 0; i < p->ref.n_replies; i++) {
		const struct ref_reply *want = &p->ref.reply[i];
		const struct answer *got = rig_answer(&p->rig, want->ticket);
		char what[64];

		snprintf(what, sizeof what, "answer %lu", (unsigned long)want->ticket);
		if (!got)
			differ("%s: none, expected %s", what, status_word(want->status));
		if (got->r.status != want->status)
			differ("%s: %s (%s), expected %s", what, status_word(got->r.status),
				got->r.message ? got->r.message : "", status_word(want->status));
		if ((got->r.run != NULL) != want->has_run)
			differ("%s: run attached %d", what, got->r.run != NULL);
		if (want->has_run)
			compare_record(what, &want->run, &got->run);
		if (want->of_job && got->r.disable_depth != want->depth)
			differ("%s: depth %u, expected %u", what, got->r.disable_depth,
				want->depth);
		if (want->of_update)
			compare_update(what, want, &got->r);
	}
	if (p->rig.n_answers != p->ref.n_replies)
		differ("%zu answers, expected %zu; the last is to %lu", p->rig.n_answers,
			p->ref.n_replies,
			p->rig.n_answers
				? (unsigned long)p->rig.answers[p->rig.n_answers - 1].ticket
				: 0);
	p->rig.n_answers = p->ref.n_replies = 0;
}

static void
compare_starts(struct play *p)
{
	size_t n = p->rig.n_runs - p->runs_seen;
	int last_of[REF_QUEUES] = { -1, -1, -1 };

	for (size_t i = 0; i < p->ref.n_starts; i++) {
		const struct ref_start *want = &p->ref.start[i];
		const struct rig_run *got = NULL;
		size_t k;

		/* In order within a queue. */
		for (k = p->runs_seen + (size_t)(last_of[want->queue] + 1); k < p->rig.n_runs; k++)
			if (strcmp(p->rig.runs[k].queue, queue_names[want->queue]) == 0)
				break;
		if (k < p->rig.n_runs)
			got = &p->rig.runs[k];
		last_of[want->queue] = (int)(k - p->runs_seen);
		if (!got || atoi(got->key) != want->key)
			differ("start of %s, expected %s", got ? got->key : "none",
				job_text(want->queue, want->key));
		if (got->generation != want->generation || got->attempt != want->attempt ||
			got->coalesced != want->coalesced ||
			strcmp(got->payload, want->payload) != 0)
			differ("start of %s: %lu.%u coalesced %u \"%s\", expected %lu.%u %u \"%s\"",
				job_text(want->queue, want->key), (unsigned long)got->generation,
				got->attempt, got->coalesced, got->payload,
				(unsigned long)want->generation, want->attempt, want->coalesced,
				want->payload);
	}
	if (n != p->ref.n_starts)
		differ("%zu starts, expected %zu", n, p->ref.n_starts);
	p->runs_seen = p->rig.n_runs;
	p->ref.n_starts = 0;
}

static void
compare_job(struct play *p, int queue, int key)
{
	const char *what = job_text(queue, key);
	struct job_name name = rig_name(what);
	const struct ref_job *want = &p->ref.queue[queue].job[key];
	const struct ref_record *last = ref_last(&p->ref, queue, key);
	struct job_view got = { 0 };
	enum job_state state = want->run.going ? JOB_RUNNING : want->p.at;

	if ((engine_get(p->rig.e, p->rig.now, &name, &got) == ST_OK) !=
		ref_known(&p->ref, queue, key))
		differ("%s: known %d", what, !ref_known(&p->ref, queue, key));
	if (!ref_known(&p->ref, queue, key))
		return;
	if (got.state == JOB_HELD)
		got.state = JOB_READY;
	if (got.pending_state == JOB_HELD)
		got.pending_state = JOB_READY;
	if (got.state != state || got.pending_state != want->p.at)
		differ("%s: state %s/%s, expected %s/%s", what, job_state_word(got.state),
			job_state_word(got.pending_state), job_state_word(state),
			job_state_word(want->p.at));
	if (got.disable_depth != want->depth || got.dead != want->dead)
		differ("%s: depth %u dead %d", what, got.disable_depth, got.dead);
	if (want->p.at == JOB_ARMED && got.deadline_wall_ns != moment_wall(p->ref.now, want->p.due))
		differ("%s: deadline %ld, expected %ld", what, (long)got.deadline_wall_ns,
			(long)moment_wall(p->ref.now, want->p.due));
	if (want->p.at != JOB_IDLE && !want->run.going &&
		(got.coalesced != want->p.coalesced || got.attempt != want->p.attempt))
		differ("%s: coalesced %u attempt %u, expected %u, %u", what, got.coalesced,
			got.attempt, want->p.coalesced, want->p.attempt);
	if ((got.last != NULL) != (last != NULL))
		differ("%s: has a last run %d", what, got.last != NULL);
	if (last)
		compare_record(what, last, got.last);
}

static void
compare(struct play *p)
{
	compare_replies(p);
	compare_starts(p);
	for (int q = 0; q < REF_QUEUES; q++) {
		struct queue_view v = rig_queue(&p->rig, queue_names[q]);

		if (v.paused != p->ref.queue[q].paused || v.draining != ref_draining(&p->ref, q))
			differ("%s: paused %d draining %d", queue_names[q], v.paused, v.draining);
		for (int k = 0; k < REF_KEYS; k++)
			compare_job(p, q, k);
	}
	engine_verify(p->rig.e);
}

/* ---- playing an op to both ---- */

static void
send(struct play *p, enum engine_event_kind kind, const void *op, uint64_t token)
{
	(void)rig_send(&p->rig, kind, op, token);
}

static uint64_t
next_ticket(const struct play *p)
{
	return p->rig.last_ticket + 1;
}

/* The run that `n` stands for among those going, or NULL. */
static struct rig_run *
choose_run(struct play *p, int n)
{
	size_t going = 0;

	for (size_t i = 0; i < p->rig.n_runs; i++)
		going += p->rig.runs[i].going;
	if (going == 0)
		return NULL;
	n = n % (int)going;
	for (size_t i = 0;; i++)
		if (p->rig.runs[i].going && n-- == 0)
			return &p->rig.runs[i];
}

static int
queue_number(const char *name)
{
	for (int q = 0; q < REF_QUEUES; q++)
		if (strcmp(name, queue_names[q]) == 0)
			return q;
	abort();
}

/* a: mode, +4 if_pending, +8 absolute, +16 from a run; b: payload mode and letter; n: ms */
static void
play_update(struct play *p, const struct op *o)
{
	struct op_update op = rig_op(job_text(o->queue, o->key), o->n * MS);
	const struct rig_run *run = o->a & 16 ? choose_run(p, o->b) : NULL;
	char letter = (char)('a' + o->b / 3 % 6);

	op.mode = (enum update_mode)(o->a & 3);
	op.if_pending = (o->a & 4) != 0;
	op.payload_mode = (enum payload_mode)(o->b % 3);
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

/* n: ms, < 0: no limit */
static int64_t
limit(const struct op *o)
{
	return o->n < 0 ? -1 : o->n * MS;
}

static void
play_cancel(struct play *p, const struct op *o)
{
	struct op_cancel op = { .job = rig_name(job_text(o->queue, o->key)),
		.mode = (enum cancel_mode)(o->a % 3),
		.timeout_ns = limit(o) };

	ref_cancel(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_CANCEL, &op, 0);
}

static void
play_flush(struct play *p, const struct op *o)
{
	struct op_flush op = {
		.job = rig_name(job_text(o->queue, o->key)), .now = o->a & 1, .timeout_ns = limit(o)
	};

	ref_flush(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_FLUSH, &op, 0);
}

static void
play_flush_queue(struct play *p, const struct op *o)
{
	struct op_flush_queue op = { .queue = str_from(queue_names[o->queue]),
		.timeout_ns = limit(o) };

	ref_flush_queue(&p->ref, next_ticket(p), o->queue, op.timeout_ns);
	send(p, EV_FLUSH_QUEUE, &op, 0);
}

/* a: 0, 1 the newest; 2 of the last start; 3 of the next */
static void
play_wait(struct play *p, const struct op *o)
{
	uint64_t last = p->ref.queue[o->queue].job[o->key].generation;
	struct op_wait op = { .job = rig_name(job_text(o->queue, o->key)), .timeout_ns = limit(o) };

	if (o->a & 2)
		op.generation = last + (o->a & 1);
	ref_wait(&p->ref, next_ticket(p), o->queue, o->key, &op);
	send(p, EV_WAIT, &op, 0);
}

static void
play_job(struct play *p, const struct op *o, enum engine_event_kind kind)
{
	struct op_job op = { .job = rig_name(job_text(o->queue, o->key)) };

	ref_job(&p->ref, next_ticket(p), o->queue, o->key, kind);
	send(p, kind, &op, 0);
}

static void
play_pause(struct play *p, const struct op *o, bool pause)
{
	struct op_queue op = { .queue = str_from(queue_names[o->queue]) };

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
	(void)rig_queue_set(&p->rig, queue_names[o->queue], text);
}

/* a: policy, +3 pause afterwards. Timers are swept when the loop turns: nothing comes between. */
static void
play_drain(struct play *p, const struct op *o)
{
	struct op_drain op = { .queue = str_from(queue_names[o->queue]),
		.timers = (enum timer_policy)(o->a % 3),
		.pause_after = o->a / 3 % 4 == 0,
		.timeout_ns = limit(o) };

	/* The sweep of timers takes a turn: a drain that waits for none has no time for it. */
	if (op.timers != TIMERS_KEEP && op.timeout_ns == 0)
		op.timeout_ns = -1;
	ref_drain(&p->ref, next_ticket(p), o->queue, &op);
	send(p, EV_DRAIN, &op, 0);
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

/* a: how; b: which run */
static void
play_end(struct play *p, const struct op *o)
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
			struct job_name name = rig_name(job_text(q, k));
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
}

static void
play_one(struct play *p, const struct op *o)
{
	p->rig.quiet_settle = true;
	switch ((enum op_kind)o->kind) {
	case OP_UPDATE:
		play_update(p, o);
		break;
	case OP_END:
		play_end(p, o);
		break;
	case OP_PASS:
		play_pass(p, o);
		break;
	case OP_FREEZE:
		play_freeze(p, o);
		return;
	case OP_CANCEL:
		play_cancel(p, o);
		break;
	case OP_FLUSH:
		play_flush(p, o);
		break;
	case OP_FLUSH_QUEUE:
		play_flush_queue(p, o);
		break;
	case OP_WAIT:
		play_wait(p, o);
		break;
	case OP_DELETE:
		play_job(p, o, EV_DELETE);
		break;
	case OP_DISABLE:
		play_job(p, o, EV_DISABLE);
		break;
	case OP_ENABLE:
		play_job(p, o, EV_ENABLE);
		break;
	case OP_KICK:
		play_job(p, o, EV_KICK);
		break;
	case OP_PAUSE:
		play_pause(p, o, true);
		break;
	case OP_RESUME:
		play_pause(p, o, false);
		break;
	case OP_MAX_ACTIVE:
		play_max_active(p, o);
		break;
	case OP_DRAIN:
		play_drain(p, o);
		break;
	case OP_ABANDON:
		play_abandon(p, o);
		break;
	case OP_NOT_STARTED:
		play_not_started(p, o);
		break;
	case OP_STEP:
		play_step(p, o);
		break;
	case OP_RESTART:
		play_restart(p, o);
		break;
	case OP_COUNT:
		abort();
	}
	if (o->kind != OP_RESTART)
		ref_follow(&p->ref);
	if (o->quiet && o->kind != OP_DRAIN)
		return;
	ref_settle(&p->ref);
	rig_settle(&p->rig);
	compare(p);
}

/* ---- sequences ---- */

static struct op
random_op(struct rnd *rnd)
{
	unsigned total = 0, pick;
	struct op o = { 0 };

	for (int i = 0; i < OP_COUNT; i++)
		total += op_table[i].weight;
	pick = (unsigned)rnd_below(rnd, total);
	while (pick >= op_table[o.kind].weight)
		pick -= op_table[o.kind++].weight;
	o.queue = (int)rnd_below(rnd, REF_QUEUES);
	o.key = (int)rnd_below(rnd, REF_KEYS);
	o.a = (int)rnd_below(rnd, 32);
	o.b = (int)rnd_below(rnd, 64);
	o.n = (int)rnd_below(rnd, rnd_one_in(rnd, 3) ? 30 : 6);
	/* Unlimited waits, delays that make no sense. */
	if (rnd_one_in(rnd, o.kind == OP_UPDATE ? 100 : 2))
		o.n = -1;
	if ((o.kind >= OP_STEP || o.kind == OP_FREEZE) && o.n < 0)
		o.n = 3;
	if (o.kind == OP_UPDATE && !rnd_one_in(rnd, 4))
		o.a &= ~28; /* plain ones mostly */
	o.quiet = rnd_one_in(rnd, 6);
	return o;
}

/* Plays `n` ops to a new pair; the number of those played before it failed, `n` if it did not. */
static size_t
play(const struct op *v, size_t n)
{
	static struct play p; /* zeroed by play_begin; static, to be there after the jump */
	static size_t at;

	memset(&p, 0, sizeof p);
	at = 0;
	if (sigsetjmp(on_failure, 1))
		return at;
	rig_init(&p.rig);
	ref_init(&p.ref, p.rig.now);
	for (int q = 0; q < REF_QUEUES; q++) {
		(void)rig_queue_create(&p.rig, queue_names[q], queue_settings[q]);
		p.ref.queue[q].s = *rig_queue(&p.rig, queue_names[q]).settings;
	}
	rig_forget(&p.rig);
	for (; at < n; at++) {
		play_one(&p, &v[at]);
		if (p.rig.n_runs > 64 && p.runs_seen == p.rig.n_runs) {
			rig_forget(&p.rig);
			p.runs_seen = p.rig.n_runs;
		}
	}
	rig_done(&p.rig);
	return n;
}

/* Leaves out ever smaller pieces as long as the rest still fails. The new length. */
static size_t
shrink(struct op *v, size_t n)
{
	struct op *trial = must_alloc(n * sizeof *trial);
	int tries = 0;

	for (size_t piece = n / 2; piece > 0; piece /= 2) {
		for (size_t i = 0; i + piece <= n && tries < TRIES; tries++) {
			size_t len = n - piece, failed;

			memcpy(trial, v, i * sizeof *v);
			memcpy(trial + i, v + i + piece, (n - i - piece) * sizeof *v);
			failed = play(trial, len);
			if (failed == len) {
				i += piece;
				continue;
			}
			n = failed + 1;
			memcpy(v, trial, n * sizeof *v);
		}
	}
	x_free(trial);
	return n;
}

static void
print_script(const struct op *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%-12s %-8s %d  a=%-2d b=%-2d n=%-3d quiet=%d\n",
			op_table[v[i].kind].name, queue_names[v[i].queue], v[i].key, v[i].a, v[i].b,
			v[i].n, v[i].quiet);
}

/* Shrinking plays a broken engine thousands of times: its complaints are left out. */
static int
hush(void)
{
	int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	dup2(null, STDERR_FILENO);
	close(null);
	return kept;
}

static void
unhush(int kept)
{
	dup2(kept, STDERR_FILENO);
	close(kept);
}

static void
check(struct op *v, size_t n, unsigned seed)
{
	size_t failed = play(v, n);
	int kept;

	if (failed == n)
		return;
	fprintf(stderr, "seed %u: %s\n", seed, failure);
	kept = hush();
	n = shrink(v, failed + 1);
	unhush(kept);
	play(v, n);
	print_script(v, n);
	ck_abort_msg("seed %u, %zu ops: %s", seed, n, failure);
}

static void
set_traps(void)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };

	rig_on_failure = on_check;
	sigaction(SIGABRT, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
}

START_TEST(engine_and_reference_agree)
{
	const char *only = getenv("WQD_MODEL_SEED");
	unsigned seed = only ? (unsigned)atoi(only) : (unsigned)_i + 1;
	struct rnd rnd = { .s = seed };
	struct op *v;

	if (only && _i > 0)
		return;
	v = must_alloc(EPISODE * sizeof *v);
	set_traps();
	for (int done = 0; done < STEPS / SLOWER; done += EPISODE) {
		for (int i = 0; i < EPISODE; i++) {
			v[i] = random_op(&rnd);
			/* Either the clock is set or the daemon restarts. */
			if (v[i].kind == (done / EPISODE % 2 ? OP_STEP : OP_RESTART))
				v[i].kind = OP_PASS;
		}
		check(v, EPISODE, seed);
	}
	x_free(v);
}
END_TEST

START_TEST(a_script_plays_again)
{
	const char *path = getenv("WQD_MODEL_SCRIPT");
	struct op *v = must_alloc(EPISODE * sizeof *v);
	FILE *f = path ? fopen(path, "r") : NULL;
	char kind[32], queue[32];
	size_t n = 0;

	ck_assert(!path || f);
	while (f && n < EPISODE &&
		fscanf(f, "%31s %31s %d a=%d b=%d n=%d quiet=%d", kind, queue, &v[n].key, &v[n].a,
			&v[n].b, &v[n].n, &v[n].quiet) == 7) {
		v[n].queue = queue_number(queue);
		for (v[n].kind = 0; strcmp(kind, op_table[v[n].kind].name) != 0;)
			ck_assert_int_lt(++v[n].kind, OP_COUNT);
		n++;
	}
	if (f)
		fclose(f);
	set_traps();
	check(v, n, 0);
	x_free(v);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("model");
	TCase *tc = unit_case(s, "model");

	if (!getenv("WQD_MODEL_SCRIPT"))
		tcase_add_loop_test(tc, engine_and_reference_agree, 0, SEEDS);
	tcase_add_test(tc, a_script_plays_again);
	return unit_run(s);
}
