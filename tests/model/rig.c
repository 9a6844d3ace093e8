#include "model/rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "unit/unit.h"

void (*rig_on_failure)(const char *what);

void
rig_fail(const char *file, int line, const char *what)
{
	char text[256];

	snprintf(text, sizeof text, "%s:%d: %s", file, line, what);
	if (rig_on_failure)
		rig_on_failure(text);
	ck_abort_msg("%s", text);
}

void
rig_init_config(struct rig *r, const struct engine_config *cfg)
{
	*r = (struct rig){ .cfg = *cfg, .now = { RIG_BOOT_NS, RIG_WALL_NS } };
	effects_init(&r->fx);
	rig_check(engine_new(&r->cfg, &r->e) == 0);
}

void
rig_init(struct rig *r)
{
	static const struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	rig_init_config(r, &cfg);
	r->cfg.seed[0] = 1;
}

void
rig_watch(struct rig *r, void (*told)(void *ctx, const struct watch_event *ev), void *ctx)
{
	r->told = told;
	r->told_ctx = ctx;
	engine_set_watched(r->e, true);
}

void
rig_done(struct rig *r)
{
	engine_verify(r->e);
	engine_free(r->e);
	effects_done(&r->fx);
	saved_done(&r->saved);
	x_free(r->answers);
	x_free(r->runs);
}

void
rig_forget(struct rig *r)
{
	size_t kept = 0;

	r->n_answers = 0;
	for (size_t i = 0; i < r->n_runs; i++)
		if (r->runs[i].going)
			r->runs[kept++] = r->runs[i];
	r->n_runs = kept;
}

/* ---- effects ---- */

static void
copy(char *dst, size_t size, struct str s)
{
	rig_check(s.n < size);
	if (s.n)
		memcpy(dst, s.p, s.n);
	dst[s.n] = '\0';
}

static void
keep_answer(struct rig *r, const struct effect *fx)
{
	struct answer *a;

	rig_check(rig_answer(r, fx->ticket) == NULL);
	if (r->n_answers == r->cap_answers) {
		r->cap_answers = r->cap_answers ? r->cap_answers * 2 : 16;
		r->answers = must_realloc(r->answers, r->cap_answers, sizeof *r->answers);
	}
	a = &r->answers[r->n_answers++];
	a->ticket = fx->ticket;
	a->at_ns = r->now.boot_ns;
	a->durable = fx->durable;
	a->r = fx->reply;
	copy(a->queue, sizeof a->queue, fx->reply.queue);
	copy(a->key, sizeof a->key, fx->reply.key);
	if (!fx->reply.run)
		return;
	a->run = *fx->reply.run;
	copy(a->output, sizeof a->output, fx->reply.run->output);
}

static struct rig_run *
run_by_id(struct rig *r, uint64_t id)
{
	for (size_t i = r->n_runs; i > 0; i--)
		if (r->runs[i - 1].id == id)
			return &r->runs[i - 1];
	return NULL;
}

static struct rig_run *
run_by_lease(struct rig *r, uint64_t lease)
{
	for (size_t i = r->n_runs; i > 0; i--)
		if (r->runs[i - 1].lease == lease)
			return &r->runs[i - 1];
	return NULL;
}

static void
keep_start(struct rig *r, const struct run_start *s)
{
	struct rig_run *run;
	size_t n = 0;

	rig_check(run_by_id(r, s->run_id) == NULL);
	rig_check(s->token != 0);
	if (r->n_runs == r->cap_runs) {
		r->cap_runs = r->cap_runs ? r->cap_runs * 2 : 16;
		r->runs = must_realloc(r->runs, r->cap_runs, sizeof *r->runs);
	}
	run = &r->runs[r->n_runs++];
	*run = (struct rig_run){
		.id = s->run_id,
		.token = s->token,
		.generation = s->generation,
		.attempt = s->attempt,
		.coalesced = s->coalesced,
		.due_wall_ns = s->due_wall_ns,
		.at_ns = r->now.boot_ns,
		.going = true,
		.subscription = s->subscription,
		.lease = s->lease_token,
	};
	copy(run->queue, sizeof run->queue, s->queue);
	copy(run->key, sizeof run->key, s->key);
	for (size_t i = 0; i < s->n_parts && !r->terse; i++)
		n += (size_t)snprintf(
			run->payload + n, sizeof run->payload - n, "%.*s;", STR_ARG(s->parts[i]));
	run->action = s->action;
	rig_check(s->command.n < sizeof run->command);
	if (s->command.n)
		memcpy(run->command, s->command.p, s->command.n);
	for (size_t i = 0; i < s->command.n; i++)
		if (!run->command[i])
			run->command[i] = ';';
}

static void
step(struct rig *r, const struct engine_event *ev)
{
	r->n_steps++;
	effects_clear(&r->fx);
	engine_step(r->e, r->now, ev, &r->fx);
	for (size_t i = 0; i < r->fx.n; i++) {
		const struct effect *fx = &r->fx.v[i];
		struct rig_run *run;

		switch (fx->kind) {
		case FX_REPLY:
			keep_answer(r, fx);
			break;
		case FX_START:
			keep_start(r, &fx->start);
			break;
		case FX_EVENT:
			if (r->told)
				r->told(r->told_ctx, &fx->event);
			break;
		case FX_STALL:
		case FX_SUBSCRIBED:
			break;
		case FX_REVOKED:
			run = run_by_lease(r, fx->revoked.token);
			rig_check(run && run->going && run->subscription == fx->ticket);
			run->going = false;
			run->revoked = true;
			break;
		case FX_KILL:
			run = run_by_id(r, fx->run_id);
			rig_check(run && run->going);
			run->killed = true;
			break;
		}
	}
}

/* ---- time ---- */

void
rig_settle(struct rig *r)
{
	const struct engine_event tick = { .kind = EV_TICK };

	for (int i = 0; engine_next_due(r->e, r->now) <= r->now.boot_ns; i++) {
		rig_check(i < 100000);
		step(r, &tick);
	}
}

void
rig_pass(struct rig *r, int64_t ns)
{
	int64_t end = r->now.boot_ns + ns, due;

	rig_settle(r);
	while ((due = engine_next_due(r->e, r->now)) <= end) {
		rig_freeze(r, due - r->now.boot_ns);
		rig_settle(r);
	}
	rig_freeze(r, end - r->now.boot_ns);
}

void
rig_freeze(struct rig *r, int64_t ns)
{
	r->now.boot_ns += ns;
	r->now.wall_ns += ns;
}

void
rig_step_wall(struct rig *r, int64_t by_ns)
{
	const struct engine_event tick = { .kind = EV_TICK };

	r->now.wall_ns += by_ns;
	step(r, &tick);
	rig_settle(r);
}

void
rig_crash(struct rig *r, int64_t down_ns, bool same_boot)
{
	engine_free(r->e);
	for (size_t i = 0; i < r->n_runs; i++) {
		r->runs[i].going = false;
		r->runs[i].id = 0; /* the next engine counts anew */
	}
	rig_freeze(r, down_ns);
	if (!same_boot) {
		r->now.boot_ns = 5 * SEC;
		r->saved.boot++;
	}
	r->cfg.seed[1]++;
	r->saved.mark = 0;
	rig_check(engine_new(&r->cfg, &r->e) == 0);
	saved_restore(&r->saved, r->e, r->now);
	engine_verify(r->e);
	if (!r->quiet_settle)
		rig_settle(r);
}

void
rig_restart(struct rig *r, int64_t down_ns, bool same_boot)
{
	saved_take(&r->saved, r->e, r->now, SIZE_MAX);
	rig_check(engine_dirty(r->e) == 0);
	rig_crash(r, down_ns, same_boot);
}

/* ---- requests ---- */

struct job_name
rig_name(const char *job)
{
	const char *slash = strchr(job, '/');

	if (!slash)
		return (struct job_name){ STR("q"), str_from(job) };
	return (struct job_name){ { job, (size_t)(slash - job) }, str_from(slash + 1) };
}

uint64_t
rig_send(struct rig *r, enum engine_event_kind kind, const void *op, uint64_t run_token)
{
	/* All members of the union but the number are such a pointer. */
	struct engine_event ev = {
		.kind = kind, .ticket = ++r->last_ticket, .run_token = run_token, .update = op
	};

	step(r, &ev);
	if (!r->quiet_settle)
		rig_settle(r);
	return ev.ticket;
}

struct op_update
rig_op(const char *job, int64_t delay_ns)
{
	return (struct op_update){
		.job = rig_name(job), .when_ns = delay_ns, .slack_ns = -1, .max_wait_ns = -1
	};
}

uint64_t
rig_update_op(struct rig *r, const struct op_update *op)
{
	return rig_send(r, EV_UPDATE, op, 0);
}

uint64_t
rig_update(struct rig *r, const char *job, int64_t delay_ns)
{
	struct op_update op = rig_op(job, delay_ns);

	return rig_update_op(r, &op);
}

uint64_t
rig_update_payload(struct rig *r, const char *job, int64_t delay_ns, const char *payload)
{
	struct op_update op = rig_op(job, delay_ns);

	op.payload_mode = PAYLOAD_REPLACE;
	op.payload = str_from(payload);
	return rig_update_op(r, &op);
}

uint64_t
rig_cancel(struct rig *r, const char *job, enum cancel_mode mode)
{
	struct op_cancel op = { .job = rig_name(job), .mode = mode, .timeout_ns = -1 };

	return rig_send(r, EV_CANCEL, &op, 0);
}

uint64_t
rig_flush(struct rig *r, const char *job, bool now)
{
	struct op_flush op = { .job = rig_name(job), .now = now, .timeout_ns = -1 };

	return rig_send(r, EV_FLUSH, &op, 0);
}

uint64_t
rig_flush_queue(struct rig *r, const char *queue)
{
	struct op_flush_queue op = { .queue = str_from(queue), .timeout_ns = -1 };

	return rig_send(r, EV_FLUSH_QUEUE, &op, 0);
}

uint64_t
rig_wait(struct rig *r, const char *job, uint64_t generation)
{
	struct op_wait op = { .job = rig_name(job), .generation = generation, .timeout_ns = -1 };

	return rig_send(r, EV_WAIT, &op, 0);
}

uint64_t
rig_job(struct rig *r, enum engine_event_kind kind, const char *job)
{
	struct op_job op = { .job = rig_name(job) };

	return rig_send(r, kind, &op, 0);
}

uint64_t
rig_drain(struct rig *r, const char *queue, enum timer_policy timers, bool pause_after)
{
	struct op_drain op = { .queue = str_from(queue),
		.timers = timers,
		.pause_after = pause_after,
		.timeout_ns = -1 };

	return rig_send(r, EV_DRAIN, &op, 0);
}

uint64_t
rig_pause(struct rig *r, const char *queue)
{
	struct op_queue op = { .queue = str_from(queue) };

	return rig_send(r, EV_PAUSE, &op, 0);
}

uint64_t
rig_resume(struct rig *r, const char *queue)
{
	struct op_queue op = { .queue = str_from(queue) };

	return rig_send(r, EV_RESUME, &op, 0);
}

static uint64_t
queue_settings(struct rig *r, enum engine_event_kind kind, const char *queue, const char *settings)
{
	struct setting_text v[32];
	struct op_queue_set op = { .queue = str_from(queue), .settings = v };

	while (*settings) {
		size_t name = strcspn(settings, "="), value = strcspn(settings + name + 1, " ");

		rig_check(op.n_settings < 32);
		v[op.n_settings].name = (struct str){ settings, name };
		v[op.n_settings++].value = (struct str){ settings + name + 1, value };
		settings += name + 1 + value;
		settings += strspn(settings, " ");
	}
	return rig_send(r, kind, &op, 0);
}

uint64_t
rig_queue_create(struct rig *r, const char *queue, const char *settings)
{
	return queue_settings(r, EV_QUEUE_CREATE, queue, settings);
}

uint64_t
rig_queue_set(struct rig *r, const char *queue, const char *settings)
{
	return queue_settings(r, EV_QUEUE_SET, queue, settings);
}

uint64_t
rig_queue_delete(struct rig *r, const char *queue, enum timer_policy timers)
{
	struct op_queue_delete op = {
		.queue = str_from(queue), .timers = timers, .timeout_ns = -1
	};

	return rig_send(r, EV_QUEUE_DELETE, &op, 0);
}

void
rig_abandon(struct rig *r, uint64_t ticket)
{
	const struct engine_event ev = { .kind = EV_ABANDON, .ticket = ticket };

	step(r, &ev);
	if (!r->quiet_settle)
		rig_settle(r);
}

/* ---- workers ---- */

uint64_t
rig_subscribe(struct rig *r, const char *queues, uint32_t credits)
{
	struct str v[8];
	struct op_subscribe op = { .queues = v, .credits = credits, .holder = STR("worker") };

	while (*queues) {
		size_t n = strcspn(queues, " ");

		rig_check(op.n_queues < ARRAY_SIZE(v));
		v[op.n_queues++] = (struct str){ queues, n };
		queues += n + (queues[n] == ' ');
	}
	return rig_send(r, EV_SUBSCRIBE, &op, 0);
}

uint64_t
rig_credits(struct rig *r, enum engine_event_kind kind, uint64_t subscription, uint32_t credits)
{
	struct op_credits op = { subscription, credits };

	return rig_send(r, kind, &op, 0);
}

uint64_t
rig_lease(struct rig *r, enum engine_event_kind kind, struct rig_run *run)
{
	struct op_lease op = { .job = { str_from(run->queue), str_from(run->key) },
		.token = run->lease,
		.subscription = run->subscription,
		.lease_ns = -1,
		.exit_code = -1 };

	/* Before the next start of the job is seen. */
	if (kind != EV_TOUCH)
		run->going = false;
	return rig_send(r, kind, &op, 0);
}

void
rig_leave(struct rig *r, uint64_t subscription)
{
	for (size_t i = 0; i < r->n_runs; i++)
		if (r->runs[i].subscription == subscription)
			r->runs[i].going = false;
	rig_abandon(r, subscription);
}

/* ---- answers ---- */

const struct answer *
rig_answer(const struct rig *r, uint64_t ticket)
{
	for (size_t i = r->n_answers; i > 0; i--)
		if (r->answers[i - 1].ticket == ticket)
			return &r->answers[i - 1];
	return NULL;
}

const struct answer *
rig_expect_at(const char *file, int line, const struct rig *r, uint64_t ticket, enum status status)
{
	const struct answer *a = rig_answer(r, ticket);

	if (!a)
		ck_abort_msg("%s:%d: no answer, expected %s", file, line, status_word(status));
	if (a->r.status != status)
		ck_abort_msg("%s:%d: answer %s (%s), expected %s", file, line,
			status_word(a->r.status), a->r.message ? a->r.message : "",
			status_word(status));
	return a;
}

void
rig_expect_waits_at(const char *file, int line, const struct rig *r, uint64_t ticket)
{
	const struct answer *a = rig_answer(r, ticket);

	if (a)
		ck_abort_msg("%s:%d: answered %s, expected to wait", file, line,
			status_word(a->r.status));
}

/* ---- runs ---- */

static bool
is_job(const struct rig_run *run, const char *job)
{
	struct job_name name = rig_name(job);

	return str_eq(name.queue, str_from(run->queue)) && str_eq(name.key, str_from(run->key));
}

struct rig_run *
rig_running(struct rig *r, const char *job)
{
	struct rig_run *found = NULL;

	for (size_t i = 0; i < r->n_runs; i++) {
		if (!r->runs[i].going || !is_job(&r->runs[i], job))
			continue;
		rig_check(!found && "two runs at once");
		found = &r->runs[i];
	}
	return found;
}

size_t
rig_running_count(const struct rig *r, const char *queue)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_runs; i++)
		n += r->runs[i].going && strcmp(r->runs[i].queue, queue) == 0;
	return n;
}

size_t
rig_starts(const struct rig *r, const char *job)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_runs; i++)
		n += is_job(&r->runs[i], job);
	return n;
}

const char *
rig_order(const struct rig *r)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < r->n_runs && n + RIG_NAME < sizeof text; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s ", r->runs[i].key);
	return text;
}

void
rig_end_run(struct rig *r, struct rig_run *run, enum run_outcome outcome)
{
	struct run_end end = { .run_id = run->id,
		.outcome = outcome,
		.exit_code = outcome == RUN_FAILED ? 1 : 0,
		.output = STR("out") };
	struct engine_event ev = { .kind = EV_RUN_ENDED, .run_end = &end };

	rig_check(run->going);
	if (outcome != RUN_DONE && outcome != RUN_FAILED) {
		end.exit_code = -1;
		end.signal = 15;
	}
	run->going = false;
	step(r, &ev);
	if (!r->quiet_settle)
		rig_settle(r);
}

void
rig_finish(struct rig *r, const char *job)
{
	struct rig_run *run = rig_running(r, job);

	ck_assert_msg(run != NULL, "%s is not running", job);
	rig_end_run(r, run, RUN_DONE);
}

void
rig_not_started(struct rig *r, struct rig_run *run)
{
	const struct engine_event ev = { .kind = EV_RUN_NOT_STARTED, .run_id = run->id };

	run->going = false;
	step(r, &ev);
	if (!r->quiet_settle)
		rig_settle(r);
}

/* ---- looking ---- */

struct job_view
rig_get(const struct rig *r, const char *job)
{
	struct job_name name = rig_name(job);
	struct job_view v = { 0 };

	ck_assert_msg(engine_get(r->e, r->now, &name, &v) == ST_OK, "%s is unknown", job);
	return v;
}

const char *
rig_state(const struct rig *r, const char *job)
{
	static char text[8];
	struct job_name name = rig_name(job);
	struct job_view v;
	size_t n = 0;

	if (engine_get(r->e, r->now, &name, &v) != ST_OK)
		return "-";
	if (v.disable_depth)
		text[n++] = 'X';
	if (v.state == JOB_RUNNING)
		text[n++] = 'R';
	if (v.pending)
		text[n++] = v.pending_state == JOB_ARMED ? 'A' : 'Q';
	if (n == 0)
		text[n++] = 'I';
	text[n] = '\0';
	return text;
}

struct queue_view
rig_queue(const struct rig *r, const char *queue)
{
	struct queue_view v = { 0 };

	rig_check(engine_queue_get(r->e, str_from(queue), &v) == ST_OK);
	return v;
}
