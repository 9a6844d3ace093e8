/* engine: the essential scenarios, step by step on a clock of their own. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/hist.h"
#include "engine/engine.h"
#include "unit/unit.h"

#define MS NS_PER_MS
#define S  NS_PER_S

static struct engine *e;
static struct effects fx;
static struct moment now;
static uint64_t tickets;
static struct engine_config cfg;

static void
open_engine(void)
{
	cfg = (struct engine_config)ENGINE_CONFIG_DEFAULT;
	cfg.seed[0] = 1;
	cfg.seed[3] = 4;
	now = (struct moment){ .boot_ns = 1000 * S, .wall_ns = 1700000000 * S };
	tickets = 0;
	effects_init(&fx);
	ck_assert_int_eq(engine_new(&cfg, &e), 0);
}

static void
close_engine(void)
{
	engine_verify(e);
	engine_free(e);
	effects_done(&fx);
}

static void
pass(int64_t ns)
{
	now.boot_ns += ns;
	now.wall_ns += ns;
}

static void
step(struct engine_event ev)
{
	effects_clear(&fx);
	engine_step(e, now, &ev, &fx);
	engine_verify(e);
}

static void
tick(void)
{
	step((struct engine_event){ .kind = EV_TICK });
}

static const struct effect *
find(enum effect_kind kind, size_t nth)
{
	for (size_t i = 0; i < fx.n; i++)
		if (fx.v[i].kind == kind && nth-- == 0)
			return &fx.v[i];
	return NULL;
}

static size_t
count(enum effect_kind kind)
{
	size_t n = 0;

	while (find(kind, n))
		n++;
	return n;
}

/* The reply to the newest ticket. */
static const struct job_reply *
reply(void)
{
	for (size_t i = 0; i < fx.n; i++)
		if (fx.v[i].kind == FX_REPLY && fx.v[i].ticket == tickets)
			return &fx.v[i].reply;
	return NULL;
}

static enum status
status(void)
{
	ck_assert_ptr_nonnull(reply());
	return reply()->status;
}

static struct op_update
up(const char *queue, const char *key, int64_t delay_ns)
{
	return (struct op_update){
		.job = { str_from(queue), str_from(key) },
		.when_ns = delay_ns,
		.slack_ns = -1,
		.max_wait_ns = -1,
	};
}

static enum status
update_op(struct op_update op)
{
	step((struct engine_event){ .kind = EV_UPDATE, .ticket = ++tickets, .update = &op });
	return status();
}

static enum status
update(const char *queue, const char *key, int64_t delay_ns)
{
	return update_op(up(queue, key, delay_ns));
}

static enum status
update_mode(const char *queue, const char *key, int64_t delay_ns, enum update_mode mode)
{
	struct op_update op = up(queue, key, delay_ns);

	op.mode = mode;
	return update_op(op);
}

static enum status
update_payload(const char *queue, const char *key, int64_t delay_ns, enum payload_mode mode,
	const char *payload)
{
	struct op_update op = up(queue, key, delay_ns);

	op.payload_mode = mode;
	op.payload = str_from(payload);
	return update_op(op);
}

static enum status
update_from(uint64_t token, const char *queue, const char *key, int64_t delay_ns)
{
	struct op_update op = up(queue, key, delay_ns);

	step((struct engine_event){
		.kind = EV_UPDATE, .ticket = ++tickets, .run_token = token, .update = &op });
	return status();
}

static void
cancel(const char *queue, const char *key, enum cancel_mode mode, int64_t timeout_ns)
{
	struct op_cancel op = {
		.job = { str_from(queue), str_from(key) }, .mode = mode, .timeout_ns = timeout_ns
	};

	step((struct engine_event){ .kind = EV_CANCEL, .ticket = ++tickets, .cancel = &op });
}

static void
flush(const char *queue, const char *key, bool at_once)
{
	struct op_flush op = {
		.job = { str_from(queue), str_from(key) }, .now = at_once, .timeout_ns = -1
	};

	step((struct engine_event){ .kind = EV_FLUSH, .ticket = ++tickets, .flush = &op });
}

static void
wait_for(const char *queue, const char *key, uint64_t generation, int64_t timeout_ns)
{
	struct op_wait op = { .job = { str_from(queue), str_from(key) },
		.generation = generation,
		.timeout_ns = timeout_ns };

	step((struct engine_event){ .kind = EV_WAIT, .ticket = ++tickets, .wait = &op });
}

static void
flush_queue(const char *queue)
{
	struct op_flush_queue op = { .queue = str_from(queue), .timeout_ns = -1 };

	step((struct engine_event){
		.kind = EV_FLUSH_QUEUE, .ticket = ++tickets, .flush_queue = &op });
}

static void
drain(const char *queue, enum timer_policy timers)
{
	struct op_drain op = { .queue = str_from(queue), .timers = timers, .timeout_ns = -1 };

	step((struct engine_event){ .kind = EV_DRAIN, .ticket = ++tickets, .drain = &op });
}

static enum status
job_op(enum engine_event_kind kind, const char *queue, const char *key)
{
	struct op_job op = { .job = { str_from(queue), str_from(key) } };

	step((struct engine_event){ .kind = kind, .ticket = ++tickets, .job = &op });
	return status();
}

static enum status
queue_op(enum engine_event_kind kind, const char *queue)
{
	struct op_queue op = { str_from(queue) };

	step((struct engine_event){ .kind = kind, .ticket = ++tickets, .queue = &op });
	return status();
}

/* Settings as "name=value", NULL at the end. */
static enum status
queue_set(enum engine_event_kind kind, const char *queue, const char *const *pairs)
{
	struct setting_text texts[16];
	struct op_queue_set op = { .queue = str_from(queue), .settings = texts };

	for (; *pairs; pairs++) {
		const char *eq = strchr(*pairs, '=');

		texts[op.n_settings++] = (struct setting_text){ { *pairs, (size_t)(eq - *pairs) },
			str_from(eq + 1) };
	}
	step((struct engine_event){ .kind = kind, .ticket = ++tickets, .queue_set = &op });
	return status();
}
#define CREATE(queue, ...) \
	ck_assert_int_eq(queue_set(EV_QUEUE_CREATE, queue, \
				 (const char *const[]){ "handler=h", ##__VA_ARGS__, NULL }), \
		ST_OK)
#define SET(queue, ...) queue_set(EV_QUEUE_SET, queue, (const char *const[]){ __VA_ARGS__, NULL })

static void
end(uint64_t run_id, enum run_outcome outcome)
{
	struct run_end re = { .run_id = run_id, .outcome = outcome };

	step((struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &re });
}

static void
not_started(uint64_t run_id)
{
	step((struct engine_event){ .kind = EV_RUN_NOT_STARTED, .run_id = run_id });
}

static struct run_start
started(size_t nth)
{
	ck_assert_ptr_nonnull(find(FX_START, nth));
	return find(FX_START, nth)->start;
}

static bool
is_key(struct str key, const char *want)
{
	return str_eq(key, str_from(want));
}

static struct job_view
get(const char *queue, const char *key)
{
	struct job_name name = { str_from(queue), str_from(key) };
	struct job_view v = { 0 };

	engine_get(e, now, &name, &v);
	return v;
}

static struct engine_stats
stats(void)
{
	struct engine_stats s;

	engine_stats_get(e, &s);
	return s;
}

/* ---- updates ---- */

START_TEST(a_heartbeat_fires_when_it_fails_to_come)
{
	struct job_view v;

	open_engine();
	ck_assert_int_eq(update("", "a", 30 * S), ST_CREATED);
	ck_assert_int_eq(reply()->generation, 1);
	for (int i = 0; i < 5; i++) {
		pass(10 * S);
		ck_assert_int_eq(update("", "a", 30 * S), ST_UPDATED_TIMER);
		ck_assert(reply()->deadline_wall_ns == now.wall_ns + 30 * S);
	}
	ck_assert(engine_next_due(e, now) == now.boot_ns + 30 * S);
	pass(30 * S - 1);
	tick();
	ck_assert_int_eq(get("", "a").state, JOB_ARMED);
	pass(1);
	tick();
	v = get("", "a");
	ck_assert_int_eq(v.state, JOB_IDLE);
	ck_assert_ptr_nonnull(v.last);
	ck_assert_int_eq(v.last->outcome, RUN_DONE);
	ck_assert_uint_eq(v.last->coalesced, 5);
	ck_assert(engine_next_due(e, now) == now.boot_ns + 3600 * S);
	close_engine();
}
END_TEST

START_TEST(modes_answer_as_the_table_says)
{
	open_engine();
	CREATE("q");
	ck_assert_int_eq(update("q", "a", 10 * S), ST_CREATED);
	ck_assert_int_eq(update("q", "a", 10 * S), ST_SKIPPED);
	ck_assert_int_eq(update_mode("q", "a", 0, MODE_KEEP), ST_UNCHANGED);
	ck_assert_int_eq(update_mode("q", "a", 11 * S, MODE_EARLIER), ST_UNCHANGED);
	ck_assert_int_eq(update_mode("q", "a", 9 * S, MODE_EARLIER), ST_UPDATED_TIMER);
	ck_assert_int_eq(update_mode("q", "a", 8 * S, MODE_LATER), ST_UNCHANGED);
	ck_assert_int_eq(update_mode("q", "a", 10 * S, MODE_LATER), ST_UPDATED_TIMER);
	ck_assert_uint_eq(reply()->coalesced, 6);
	queue_op(EV_PAUSE, "q");
	ck_assert_int_eq(update("q", "a", 0), ST_UPDATED_TIMER);
	ck_assert_int_eq(get("q", "a").state, JOB_HELD);
	ck_assert_int_eq(update_mode("q", "a", 5 * S, MODE_KEEP), ST_UNCHANGED);
	ck_assert_int_eq(update("q", "a", 5 * S), ST_UPDATED_READY);
	ck_assert_int_eq(reply()->state_before, JOB_HELD);
	ck_assert_int_eq(update("q", "a", 0), ST_UPDATED_TIMER);
	queue_op(EV_RESUME, "q");
	ck_assert_uint_eq(started(0).generation, 1);
	ck_assert_int_eq(update("q", "a", 5 * S), ST_REQUEUED_RUNNING);
	ck_assert_uint_eq(reply()->generation, 2);
	ck_assert_int_eq(reply()->state_before, JOB_RUNNING);
	ck_assert_int_eq(update("q", "a", 6 * S), ST_UPDATED_TIMER);
	ck_assert_int_eq(update("q", "a", 0), ST_UPDATED_TIMER);
	ck_assert_int_eq(update("q", "a", 0), ST_UPDATED_READY);
	end(1, RUN_DONE);
	ck_assert_uint_eq(started(0).generation, 2);
	close_engine();
}
END_TEST

START_TEST(running_requests_become_one_more_run)
{
	uint64_t id;

	open_engine();
	CREATE("q");
	update_payload("q", "k", 0, PAYLOAD_REPLACE, "one");
	id = started(0).run_id;
	for (int i = 0; i < 100; i++) {
		update_payload("q", "k", 0, PAYLOAD_REPLACE, "two");
		ck_assert_uint_eq(count(FX_START), 0);
	}
	end(id, RUN_DONE);
	ck_assert_uint_eq(count(FX_START), 1);
	ck_assert(str_eq(started(0).parts[0], STR("two")));
	ck_assert_uint_eq(started(0).generation, 2);
	ck_assert_uint_eq(started(0).coalesced, 99);
	end(started(0).run_id, RUN_DONE);
	ck_assert_uint_eq(count(FX_START), 0);
	close_engine();
}
END_TEST

START_TEST(slack_skips_and_is_never_early)
{
	struct op_update op;

	open_engine();
	CREATE("q", "slack=100ms");
	op = up("q", "a", 1 * S);
	update_op(op);
	ck_assert(reply()->deadline_wall_ns == now.wall_ns + 1100 * MS);
	pass(50 * MS);
	ck_assert_int_eq(update_op(op), ST_SKIPPED);
	pass(50 * MS);
	ck_assert_int_eq(update_op(op), ST_SKIPPED);
	pass(1);
	ck_assert_int_eq(update_op(op), ST_UPDATED_TIMER);
	ck_assert(reply()->deadline_wall_ns == now.wall_ns + 1100 * MS);
	close_engine();
}
END_TEST

START_TEST(max_wait_bounds_a_debounce)
{
	struct op_update op;

	open_engine();
	CREATE("q");
	op = up("q", "a", 1 * S);
	op.max_wait_ns = 3 * S;
	for (int i = 0; i < 6; i++) {
		update_op(op);
		pass(500 * MS);
		tick();
		if (count(FX_START))
			break;
		ck_assert_int_lt(i, 5);
	}
	ck_assert_uint_eq(count(FX_START), 1);
	op.max_wait_ns = S / 2;
	ck_assert_int_eq(update_op(op), ST_INVALID);
	close_engine();
}
END_TEST

START_TEST(alignment_rounds_up_to_unix_multiples)
{
	struct op_update op;

	open_engine();
	op = up("", "a", 1 * S);
	op.align_ns = 60 * S;
	op.align_exact = true;
	update_op(op);
	ck_assert(reply()->deadline_wall_ns % (60 * S) == 0);
	ck_assert(reply()->deadline_wall_ns >= now.wall_ns + 1 * S);
	op = up("", "b", 1 * S);
	op.align_ns = 60 * S;
	update_op(op);
	ck_assert(reply()->deadline_wall_ns >= now.wall_ns + 1 * S);
	ck_assert(reply()->deadline_wall_ns < now.wall_ns + 61 * S);
	close_engine();
}
END_TEST

START_TEST(bad_updates_change_nothing)
{
	struct op_update op;

	open_engine();
	ck_assert_int_eq(update("", "a", -1), ST_INVALID);
	ck_assert_int_eq(update("", "a", DELAY_MAX_NS + 1), ST_INVALID);
	ck_assert_int_eq(update("", "a", DELAY_MAX_NS), ST_CREATED);
	ck_assert_int_eq(update("nowhere", "a", 0), ST_NOT_FOUND);
	op = up("", "b", 1);
	op.job.key = (struct str){ "a\0b", 3 };
	ck_assert_int_eq(update_op(op), ST_INVALID);
	op = up("", "", 1);
	ck_assert_int_eq(update_op(op), ST_CREATED);
	ck_assert_uint_eq(reply()->key.n, 32);
	ck_assert_uint_eq(stats().jobs, 2);
	close_engine();
}
END_TEST

START_TEST(appended_payloads_arrive_whole)
{
	open_engine();
	CREATE("q", "max_parts=3");
	update_payload("q", "a", S, PAYLOAD_APPEND, "one");
	update_payload("q", "a", S, PAYLOAD_APPEND, "two");
	update_payload("q", "a", S, PAYLOAD_APPEND, "three");
	ck_assert_int_eq(update_payload("q", "a", S, PAYLOAD_APPEND, "four"), ST_REFUSED_LIMIT);
	pass(S);
	tick();
	ck_assert_uint_eq(started(0).n_parts, 3);
	ck_assert(str_eq(started(0).parts[2], STR("three")));
	close_engine();
}
END_TEST

START_TEST(absolute_deadlines_follow_the_wall_clock)
{
	struct op_update op;

	open_engine();
	op = up("", "abs", now.wall_ns + 10 * S);
	op.absolute = true;
	update_op(op);
	update("", "rel", 10 * S);
	now.boot_ns += S;
	now.wall_ns += S + 3600 * S;
	tick();
	ck_assert_int_eq(get("", "abs").state, JOB_IDLE);
	ck_assert_int_eq(get("", "rel").state, JOB_ARMED);
	now.wall_ns -= 7200 * S;
	now.boot_ns += 9 * S;
	tick();
	ck_assert_int_eq(get("", "rel").state, JOB_IDLE);
	close_engine();
}
END_TEST

/* ---- cancel, disable, flush, wait ---- */

START_TEST(cancel_answers_by_state)
{
	open_engine();
	CREATE("q");
	cancel("q", "a", CANCEL_PLAIN, -1);
	ck_assert_int_eq(status(), ST_IDLE);
	update("q", "a", S);
	cancel("q", "a", CANCEL_WAIT, -1);
	ck_assert_int_eq(status(), ST_CANCELLED);
	ck_assert_uint_eq(stats().jobs, 0);
	update("q", "a", 0);
	cancel("q", "a", CANCEL_PLAIN, -1);
	ck_assert_int_eq(status(), ST_NOT_PENDING_RUNNING);
	update("q", "a", S);
	cancel("q", "a", CANCEL_PLAIN, -1);
	ck_assert_int_eq(status(), ST_CANCELLED_RUNNING);
	close_engine();
}
END_TEST

START_TEST(cancel_wait_beats_rearming)
{
	uint64_t id, token, first;

	open_engine();
	CREATE("q");
	update("q", "a", 0);
	id = started(0).run_id;
	token = started(0).token;
	update("q", "a", S);
	cancel("q", "a", CANCEL_WAIT, -1);
	first = tickets;
	ck_assert_ptr_null(reply());
	cancel("q", "a", CANCEL_WAIT, -1);
	ck_assert_int_eq(update_from(token, "q", "a", 0), ST_REFUSED_DISABLED);
	end(id, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 2);
	ck_assert_uint_eq(find(FX_REPLY, 0)->ticket, first);
	ck_assert_int_eq(find(FX_REPLY, 0)->reply.status, ST_CANCELLED_RUNNING);
	ck_assert_int_eq(find(FX_REPLY, 1)->reply.status, ST_NOT_PENDING_RUNNING);
	ck_assert_ptr_nonnull(find(FX_REPLY, 1)->reply.run);
	ck_assert_int_eq(update("q", "a", 0), ST_CREATED);
	close_engine();
}
END_TEST

START_TEST(an_abandoned_cancel_reopens)
{
	open_engine();
	CREATE("q");
	update("q", "a", 0);
	cancel("q", "a", CANCEL_WAIT, -1);
	ck_assert_int_eq(update("q", "a", 0), ST_REFUSED_DISABLED);
	step((struct engine_event){ .kind = EV_ABANDON, .ticket = 3 });
	ck_assert_int_eq(update("q", "a", 0), ST_REQUEUED_RUNNING);
	cancel("q", "a", CANCEL_WAIT, S);
	pass(S);
	tick();
	ck_assert_int_eq(status(), ST_TIMEOUT);
	ck_assert_int_eq(update("q", "a", 0), ST_REQUEUED_RUNNING);
	close_engine();
}
END_TEST

START_TEST(kill_stops_the_run_once)
{
	uint64_t id;

	open_engine();
	CREATE("q", "max_attempts=5");
	update("q", "a", 0);
	id = started(0).run_id;
	cancel("q", "a", CANCEL_KILL, -1);
	ck_assert_uint_eq(count(FX_KILL), 1);
	cancel("q", "a", CANCEL_KILL, -1);
	ck_assert_uint_eq(count(FX_KILL), 0);
	end(id, RUN_CANCELLED);
	ck_assert_uint_eq(count(FX_REPLY), 2);
	ck_assert_int_eq(find(FX_REPLY, 0)->reply.status, ST_CANCELLED_RUNNING);
	ck_assert_int_eq(find(FX_REPLY, 0)->reply.run->outcome, RUN_CANCELLED);
	ck_assert_int_eq(get("q", "a").state, JOB_IDLE);
	close_engine();
}
END_TEST

START_TEST(disable_counts)
{
	open_engine();
	CREATE("q");
	ck_assert_int_eq(job_op(EV_ENABLE, "q", "a"), ST_INVALID);
	ck_assert_int_eq(job_op(EV_DISABLE, "q", "a"), ST_IDLE);
	ck_assert_uint_eq(reply()->disable_depth, 1);
	ck_assert_int_eq(job_op(EV_DISABLE, "q", "a"), ST_IDLE);
	ck_assert_int_eq(update("q", "a", 0), ST_REFUSED_DISABLED);
	ck_assert_int_eq(job_op(EV_ENABLE, "q", "a"), ST_OK);
	ck_assert_int_eq(update("q", "a", 0), ST_REFUSED_DISABLED);
	ck_assert_int_eq(job_op(EV_ENABLE, "q", "a"), ST_OK);
	ck_assert_uint_eq(stats().jobs, 0);
	ck_assert_int_eq(update("q", "a", 0), ST_CREATED);
	ck_assert_int_eq(job_op(EV_DISABLE, "q", "a"), ST_NOT_PENDING_RUNNING);
	ck_assert_int_eq(update("q", "a", 0), ST_REFUSED_DISABLED);
	ck_assert_int_eq(job_op(EV_ENABLE, "q", "a"), ST_OK);
	ck_assert_int_eq(update("q", "a", 0), ST_REQUEUED_RUNNING);
	close_engine();
}
END_TEST

START_TEST(flush_waits_for_what_it_saw)
{
	uint64_t id, second;

	open_engine();
	CREATE("q");
	flush("q", "a", false);
	ck_assert_int_eq(status(), ST_IDLE);
	update("q", "a", S);
	flush("q", "a", false);
	ck_assert_int_eq(status(), ST_OK);
	flush("q", "a", true);
	ck_assert_ptr_null(reply());
	id = started(0).run_id;
	update("q", "a", 0);
	flush("q", "a", false);
	second = tickets;
	end(id, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	ck_assert_uint_ne(find(FX_REPLY, 0)->ticket, second);
	id = started(0).run_id;
	/* Taken back from ready while it runs: the flush goes on for the run alone. */
	update("q", "a", 0);
	flush("q", "a", false);
	update("q", "a", S);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	end(id, RUN_FAILED);
	ck_assert_uint_eq(count(FX_REPLY), 2);
	ck_assert_int_eq(find(FX_REPLY, 1)->reply.run->outcome, RUN_FAILED);
	close_engine();
}
END_TEST

START_TEST(wait_gets_each_generation_once)
{
	uint64_t id;

	open_engine();
	CREATE("q");
	wait_for("q", "a", 0, -1);
	ck_assert_int_eq(status(), ST_NOT_FOUND);
	update("q", "a", S);
	wait_for("q", "a", 0, -1);
	ck_assert_ptr_null(reply());
	wait_for("q", "a", 1, 0);
	ck_assert_int_eq(status(), ST_TIMEOUT);
	wait_for("q", "a", 2, -1);
	ck_assert_int_eq(status(), ST_NOT_FOUND);
	pass(S);
	tick();
	id = started(0).run_id;
	update("q", "a", S);
	wait_for("q", "a", 2, -1);
	end(id, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	ck_assert_uint_eq(find(FX_REPLY, 0)->reply.run->generation, 1);
	wait_for("q", "a", 1, -1);
	ck_assert_int_eq(status(), ST_OK);
	ck_assert_uint_eq(reply()->run->generation, 1);
	cancel("q", "a", CANCEL_PLAIN, -1);
	ck_assert_uint_eq(count(FX_REPLY), 2);
	ck_assert_int_eq(find(FX_REPLY, 1)->reply.status, ST_CANCELLED);
	close_engine();
}
END_TEST

/* ---- queues ---- */

START_TEST(max_active_holds_and_lets_go)
{
	char key[16];
	uint64_t ids[6];

	open_engine();
	CREATE("q", "max_active=2");
	for (int i = 0; i < 6; i++) {
		snprintf(key, sizeof key, "k%d", i);
		update("q", key, 0);
		if (i < 2)
			ids[i] = started(0).run_id;
	}
	ck_assert_int_eq(get("q", "k5").state, JOB_HELD);
	ck_assert_int_eq(SET("q", "max_active=5"), ST_OK);
	ck_assert_uint_eq(count(FX_START), 3);
	ck_assert(is_key(started(0).key, "k2"));
	ids[2] = started(0).run_id;
	ck_assert_int_eq(SET("q", "max_active=1"), ST_OK);
	end(ids[0], RUN_DONE);
	ck_assert_uint_eq(count(FX_START), 0);
	end(ids[1], RUN_DONE);
	ck_assert_int_eq(SET("q", "max_active=4"), ST_OK);
	ck_assert_uint_eq(count(FX_START), 1);
	close_engine();
}
END_TEST

START_TEST(round_robin_between_queues)
{
	char key[16];

	open_engine();
	CREATE("a", "max_active=1000");
	CREATE("b");
	queue_op(EV_PAUSE, "a");
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "k%d", i);
		update("a", key, 0);
	}
	queue_op(EV_RESUME, "a");
	ck_assert_uint_eq(count(FX_START), 256);
	update("b", "x", 0);
	ck_assert_uint_eq(count(FX_START), 0);
	end(1, RUN_DONE);
	ck_assert_uint_eq(count(FX_START), 1);
	end(2, RUN_DONE);
	ck_assert_uint_eq(count(FX_START), 1);
	ck_assert_int_eq(get("b", "x").state, JOB_RUNNING);
	close_engine();
}
END_TEST

START_TEST(flush_of_a_queue_is_a_snapshot)
{
	uint64_t a, b, first;

	open_engine();
	CREATE("q", "max_active=1");
	flush_queue("q");
	ck_assert_int_eq(status(), ST_OK);
	update("q", "a", 0);
	a = started(0).run_id;
	update("q", "b", 0);
	flush_queue("q");
	first = tickets;
	flush_queue("q");
	update("q", "c", 0);
	end(a, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 0);
	b = started(0).run_id;
	flush_queue("q");
	end(b, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 2);
	ck_assert_uint_eq(find(FX_REPLY, 0)->ticket, first);
	end(started(0).run_id, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	close_engine();
}
END_TEST

START_TEST(a_drain_lets_its_own_chain_end)
{
	uint64_t id, token, ticket;

	open_engine();
	CREATE("q", "max_active=4");
	update("q", "t", 2 * S);
	update("q", "a", 0);
	id = started(0).run_id;
	token = started(0).token;
	drain("q", TIMERS_KEEP);
	ticket = tickets;
	ck_assert_int_eq(update("q", "b", 0), ST_REFUSED_DRAINING);
	ck_assert_int_eq(update("q", "t", S), ST_UPDATED_TIMER);
	ck_assert_int_eq(update_from(token, "q", "c", 0), ST_CREATED);
	ck_assert_uint_eq(count(FX_START), 1);
	pass(S);
	end(id, RUN_DONE);
	tick();
	ck_assert_int_eq(get("q", "t").state, JOB_HELD);
	ck_assert_uint_eq(count(FX_REPLY), 0);
	end(2, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	ck_assert_uint_eq(find(FX_REPLY, 0)->ticket, ticket);
	ck_assert(is_key(started(0).key, "t"));
	close_engine();
}
END_TEST

START_TEST(a_drain_expedites_in_order)
{
	char key[16];

	open_engine();
	CREATE("q", "max_active=1000");
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "k%d", i);
		update("q", key, (int64_t)((i * 37) % 100 + 1) * S);
	}
	drain("q", TIMERS_EXPEDITE);
	tick();
	ck_assert_uint_eq(count(FX_START), 100);
	for (size_t i = 0; i < 100; i++) {
		for (int k = 0; k < 100; k++)
			if ((size_t)((k * 37) % 100) == i)
				snprintf(key, sizeof key, "k%d", k);
		ck_assert(is_key(started(i).key, key));
	}
	for (uint64_t id = 1; id <= 100; id++) {
		ck_assert_uint_eq(count(FX_REPLY), 0);
		end(id, RUN_DONE);
	}
	ck_assert_uint_eq(count(FX_REPLY), 1);
	close_engine();
}
END_TEST

START_TEST(a_deleted_queue_takes_its_jobs_along)
{
	struct op_queue_delete op = { .queue = STR("q"), .timers = TIMERS_KEEP, .timeout_ns = -1 };

	open_engine();
	CREATE("q");
	update("q", "a", 0);
	update("q", "b", S);
	job_op(EV_DISABLE, "q", "c");
	step((struct engine_event){
		.kind = EV_QUEUE_DELETE, .ticket = ++tickets, .queue_delete = &op });
	ck_assert_int_eq(status(), ST_INVALID);
	op.timers = TIMERS_CANCEL;
	step((struct engine_event){
		.kind = EV_QUEUE_DELETE, .ticket = ++tickets, .queue_delete = &op });
	ck_assert_ptr_null(reply());
	tick();
	ck_assert_uint_eq(stats().armed, 0);
	end(1, RUN_DONE);
	tick();
	ck_assert_int_eq(status(), ST_OK);
	ck_assert_int_eq(update("q", "a", 0), ST_NOT_FOUND);
	ck_assert_uint_eq(stats().jobs, 0);
	CREATE("q");
	close_engine();
}
END_TEST

START_TEST(a_start_that_failed_is_tried_again)
{
	open_engine();
	CREATE("q", "max_active=1");
	update_payload("q", "a", 0, PAYLOAD_REPLACE, "one");
	update("q", "b", 0);
	not_started(1);
	ck_assert_uint_eq(count(FX_START), 0);
	ck_assert_int_eq(get("q", "a").state, JOB_READY);
	pass(S);
	tick();
	ck_assert(is_key(started(0).key, "a"));
	ck_assert_uint_eq(started(0).generation, 1);
	ck_assert(str_eq(started(0).parts[0], STR("one")));
	/* What came while it seemed to run went into the same instance. */
	update("q", "a", S);
	flush("q", "a", false);
	not_started(2);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	ck_assert_int_eq(get("q", "a").state, JOB_ARMED);
	ck_assert_uint_eq(get("q", "a").payload_bytes, 3);
	ck_assert_uint_eq(stats().start_retries, 2);
	close_engine();
}
END_TEST

/* ---- retries ---- */

START_TEST(failures_are_retried_then_dead)
{
	open_engine();
	CREATE("q", "max_attempts=3", "retry_delay=1s", "retry_backoff=exponential");
	update_payload("q", "a", 0, PAYLOAD_REPLACE, "p");
	wait_for("q", "a", 0, -1);
	end(1, RUN_FAILED);
	ck_assert(!get("q", "a").last->final);
	ck_assert_uint_eq(get("q", "a").attempt, 2);
	pass(S);
	tick();
	ck_assert_uint_eq(started(0).attempt, 2);
	ck_assert_uint_eq(started(0).generation, 1);
	end(2, RUN_TIMEOUT);
	pass(S);
	tick();
	ck_assert_uint_eq(count(FX_START), 0);
	pass(S);
	tick();
	ck_assert_uint_eq(started(0).attempt, 3);
	end(3, RUN_FAILED);
	ck_assert_uint_eq(count(FX_REPLY), 1);
	ck_assert_int_eq(find(FX_REPLY, 0)->reply.run->outcome, RUN_DEAD);
	ck_assert(get("q", "a").dead);
	pass(24 * 3600 * S);
	tick();
	ck_assert_int_eq(get("q", "a").last->outcome, RUN_DEAD);
	ck_assert_int_eq(job_op(EV_KICK, "q", "a"), ST_CREATED);
	ck_assert_uint_eq(started(0).generation, 2);
	ck_assert(str_eq(started(0).parts[0], STR("p")));
	close_engine();
}
END_TEST

START_TEST(a_sooner_schedule_moves_a_waiting_retry)
{
	open_engine();
	CREATE("q", "max_attempts=3", "retry_delay=10s");
	update("q", "k", 0);
	end(1, RUN_FAILED);
	ck_assert_int_eq(update_mode("q", "k", 20 * S, MODE_KEEP), ST_UNCHANGED);
	ck_assert_int_eq(update_mode("q", "k", S, MODE_KEEP), ST_UPDATED_TIMER);
	pass(S);
	tick();
	ck_assert_uint_eq(started(0).generation, 2);
	ck_assert_uint_eq(started(0).attempt, 1);
	close_engine();
}
END_TEST

START_TEST(an_idempotency_id_is_applied_once)
{
	struct op_update op;

	open_engine();
	op = up("", "", 10 * S);
	op.idem = STR("id-1");
	ck_assert_int_eq(update_op(op), ST_CREATED);
	ck_assert_int_eq(update_op(op), ST_CREATED);
	ck_assert_uint_eq(stats().jobs, 1);
	ck_assert_uint_eq(stats().answers_repeated, 1);
	op.job.key = STR("other");
	ck_assert_int_eq(update_op(op), ST_INVALID);
	pass(601 * S);
	tick();
	op.job.key = STR_NONE;
	ck_assert_int_eq(update_op(op), ST_CREATED);
	close_engine();
}
END_TEST

START_TEST(waking_many_takes_turns_in_order)
{
	uint64_t expect;

	open_engine();
	engine_free(e);
	cfg.turn_budget = 10;
	ck_assert_int_eq(engine_new(&cfg, &e), 0);
	CREATE("q");
	update("q", "a", 0);
	for (int i = 0; i < 64; i++)
		flush("q", "a", false);
	expect = tickets - 63;
	end(1, RUN_DONE);
	ck_assert_uint_eq(count(FX_REPLY), 10);
	while (fx.n > 0) {
		ck_assert_uint_le(fx.n, 10);
		for (size_t i = 0; i < fx.n; i++)
			ck_assert_uint_eq(fx.v[i].ticket, expect++);
		tick();
	}
	ck_assert_uint_eq(expect, tickets + 1);
	close_engine();
}
END_TEST

static bool
count_run(void *arg, const struct run_record *r)
{
	(void)r;
	(*(size_t *)arg)++;
	return true;
}

static size_t
kept(const char *queue, const char *key)
{
	struct job_name name = { str_from(queue), str_from(key) };
	size_t n = 0;

	engine_history(e, &name, 0, SIZE_MAX, count_run, &n);
	return n;
}

START_TEST(history_is_kept_by_count_and_age)
{
	open_engine();
	ck_assert_int_eq(SET("default", "retention_count=3", "retention=10s"), ST_OK);
	for (int i = 0; i < 5; i++) {
		update("", "a", 0);
		pass(S);
	}
	ck_assert_uint_eq(kept("", "a"), 3);
	pass(7 * S);
	tick();
	ck_assert_uint_eq(kept("", "a"), 2);
	pass(3 * S);
	tick();
	ck_assert_uint_eq(stats().jobs, 0);
	close_engine();
}
END_TEST

START_TEST(a_delete_of_many_runs_takes_turns)
{
	open_engine();
	for (int i = 0; i < 500; i++)
		update("", "a", 0);
	ck_assert_uint_eq(kept("", "a"), 500);
	ck_assert_int_eq(job_op(EV_DELETE, "", "a"), ST_OK);
	ck_assert_uint_lt(kept("", ""), 500);
	ck_assert_uint_gt(kept("", ""), 0);
	ck_assert_int_eq(update("", "a", 0), ST_CREATED);
	tick();
	ck_assert_uint_eq(kept("", ""), 1);
	close_engine();
}
END_TEST

START_TEST(low_priority_gets_its_share)
{
	char key[16];
	size_t low = 0;

	open_engine();
	engine_free(e);
	cfg.max_runs = 1;
	ck_assert_int_eq(engine_new(&cfg, &e), 0);
	CREATE("high", "priority=high");
	CREATE("low", "priority=low");
	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof key, "k%d", i);
		update("high", key, 0);
		update("low", key, 0);
	}
	for (uint64_t id = 1; id <= 34; id++) {
		end(id, RUN_DONE);
		low += str_eq(started(0).queue, STR("low"));
	}
	ck_assert_uint_eq(low, 2);
	close_engine();
}
END_TEST

/* ---- storing ---- */

struct store_copy {
	int jobs, removed, runs, runs_removed, queues;
	struct job_saved job;
	char key[256], part[16];
};

static void
copy_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)name, (void)s, (void)paused;
	((struct store_copy *)ctx)->queues++;
}

static void
copy_queue_remove(void *ctx, struct str name)
{
	(void)ctx, (void)name;
}

static void
copy_job(void *ctx, const struct job_saved *j)
{
	struct store_copy *c = ctx;

	c->jobs++;
	c->job = *j;
	memcpy(c->key, j->key.p, j->key.n);
	c->job.key.p = c->key;
	c->job.queue = STR("q");
	if (j->n_parts)
		memcpy(c->part, j->parts[0].p, j->parts[0].n);
}

static void
copy_job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	(void)queue, (void)key, (void)id;
	((struct store_copy *)ctx)->removed++;
}

static void
copy_run(void *ctx, uint64_t seq, const struct run_record *r)
{
	(void)seq, (void)r;
	((struct store_copy *)ctx)->runs++;
}

static void
copy_run_remove(void *ctx, uint64_t seq)
{
	(void)seq;
	((struct store_copy *)ctx)->runs_removed++;
}

static void
copy_answer(void *ctx, const struct answer_saved *a)
{
	(void)ctx, (void)a;
}

static void
copy_answer_remove(void *ctx, struct str id)
{
	(void)ctx, (void)id;
}

static void
copy_completion(void *ctx, const struct completion_saved *c)
{
	(void)ctx, (void)c;
}

static struct store_copy copy;
static const struct persist_sink sink = { &copy, copy_queue, copy_queue_remove, copy_job,
	copy_job_remove, copy_run, copy_run_remove, copy_answer, copy_answer_remove,
	copy_completion, copy_answer_remove };

static void
take(void)
{
	copy = (struct store_copy){ 0 };
	engine_take_dirty(e, now, SIZE_MAX, &sink);
	ck_assert_uint_eq(engine_dirty(e), 0);
}

START_TEST(positions_not_pushes)
{
	struct op_update op;

	open_engine();
	CREATE("q");
	for (int i = 0; i < 1000; i++)
		update("q", "a", (i + 1) * S);
	take();
	ck_assert_int_eq(copy.queues, 1);
	ck_assert_int_eq(copy.jobs, 1);
	ck_assert_int_eq(copy.job.pending, JOB_ARMED);
	op = up("q", "m", S);
	op.level = LEVEL_MEMORY;
	update_op(op);
	take();
	ck_assert_int_eq(copy.jobs, 0);
	cancel("q", "a", CANCEL_PLAIN, -1);
	take();
	ck_assert_int_eq(copy.removed, 1);
	close_engine();
}
END_TEST

START_TEST(a_cut_run_is_interrupted_and_runs_again)
{
	struct str part = STR("p");
	struct job_saved saved;
	struct queue_settings s;

	open_engine();
	CREATE("q");
	update_payload("q", "a", 0, PAYLOAD_REPLACE, "p");
	ck_assert(engine_dirty_urgent(e));
	take();
	ck_assert(copy.job.running);
	ck_assert_int_eq(copy.part[0], 'p');
	saved = copy.job;
	saved.parts = &part;
	close_engine();
	for (int i = 1; i <= 4; i++) {
		open_engine();
		pass(i * 10 * S);
		queue_settings_default(&s);
		ck_assert_int_eq(queue_settings_set(&s, STR("handler"), STR("h")), 0);
		ck_assert_int_eq(engine_restore_queue(e, STR("q"), &s, false), 0);
		ck_assert_int_eq(engine_restore_job(e, now, &saved, false), 0);
		engine_recovered(e, now);
		engine_verify(e);
		tick();
		ck_assert_int_eq(get("q", "a").last->outcome, i < 4 ? RUN_INTERRUPTED : RUN_DEAD);
		if (i == 4) {
			ck_assert(get("q", "a").dead);
			close_engine();
			break;
		}
		ck_assert_uint_eq(started(0).attempt, (uint32_t)i + 1);
		ck_assert_uint_eq(started(0).generation, 1);
		ck_assert(str_eq(started(0).parts[0], STR("p")));
		take();
		saved = copy.job;
		saved.parts = &part;
		close_engine();
	}
}
END_TEST

START_TEST(a_queue_without_memory_leaves_nothing_behind)
{
	const char *const crew[] = { "action=lease", "handler=h", NULL };
	enum status st = ST_REFUSED_LIMIT;

	open_engine();
	for (int n = 0; st != ST_OK; n++) {
		ck_assert_int_lt(n, 100);
		alloc_fault_set(n, 0);
		st = queue_set(EV_QUEUE_CREATE, "q", crew);
		alloc_fault_set(-1, 0);
		ck_assert(st == ST_OK || st == ST_REFUSED_LIMIT);
		ck_assert(engine_has_crews(e) == (st == ST_OK));
	}
	close_engine();
}
END_TEST

START_TEST(misfires_follow_the_policy)
{
	const char *policies[] = { "run", "skip", "rearm" };
	struct job_saved saved;
	struct queue_settings s;

	for (int i = 0; i < 3; i++) {
		open_engine();
		CREATE("q");
		update("q", "a", 5 * S);
		take();
		saved = copy.job;
		close_engine();
		open_engine();
		pass(60 * S);
		queue_settings_default(&s);
		queue_settings_set(&s, STR("misfire"), str_from(policies[i]));
		queue_settings_set(&s, STR("handler"), STR("h"));
		ck_assert_int_eq(engine_restore_queue(e, STR("q"), &s, false), 0);
		ck_assert_int_eq(engine_restore_job(e, now, &saved, true), 0);
		engine_recovered(e, now);
		tick();
		ck_assert_uint_eq(count(FX_START), i == 0);
		ck_assert_uint_eq(stats().misfires_skipped, i == 1);
		ck_assert_uint_eq(stats().misfires_rearmed, i == 2);
		if (i == 2)
			ck_assert(get("q", "a").deadline_wall_ns == now.wall_ns + 5 * S);
		close_engine();
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("engine");
	TCase *tc = unit_case(s, "engine");

	tcase_add_test(tc, a_heartbeat_fires_when_it_fails_to_come);
	tcase_add_test(tc, modes_answer_as_the_table_says);
	tcase_add_test(tc, running_requests_become_one_more_run);
	tcase_add_test(tc, slack_skips_and_is_never_early);
	tcase_add_test(tc, max_wait_bounds_a_debounce);
	tcase_add_test(tc, alignment_rounds_up_to_unix_multiples);
	tcase_add_test(tc, bad_updates_change_nothing);
	tcase_add_test(tc, appended_payloads_arrive_whole);
	tcase_add_test(tc, absolute_deadlines_follow_the_wall_clock);
	tcase_add_test(tc, cancel_answers_by_state);
	tcase_add_test(tc, cancel_wait_beats_rearming);
	tcase_add_test(tc, an_abandoned_cancel_reopens);
	tcase_add_test(tc, kill_stops_the_run_once);
	tcase_add_test(tc, disable_counts);
	tcase_add_test(tc, flush_waits_for_what_it_saw);
	tcase_add_test(tc, wait_gets_each_generation_once);
	tcase_add_test(tc, max_active_holds_and_lets_go);
	tcase_add_test(tc, round_robin_between_queues);
	tcase_add_test(tc, flush_of_a_queue_is_a_snapshot);
	tcase_add_test(tc, a_drain_lets_its_own_chain_end);
	tcase_add_test(tc, a_drain_expedites_in_order);
	tcase_add_test(tc, a_deleted_queue_takes_its_jobs_along);
	tcase_add_test(tc, a_start_that_failed_is_tried_again);
	tcase_add_test(tc, failures_are_retried_then_dead);
	tcase_add_test(tc, a_sooner_schedule_moves_a_waiting_retry);
	tcase_add_test(tc, an_idempotency_id_is_applied_once);
	tcase_add_test(tc, waking_many_takes_turns_in_order);
	tcase_add_test(tc, history_is_kept_by_count_and_age);
	tcase_add_test(tc, a_delete_of_many_runs_takes_turns);
	tcase_add_test(tc, low_priority_gets_its_share);
	tcase_add_test(tc, positions_not_pushes);
	tcase_add_test(tc, a_cut_run_is_interrupted_and_runs_again);
	tcase_add_test(tc, a_queue_without_memory_leaves_nothing_behind);
	tcase_add_test(tc, misfires_follow_the_policy);
	return unit_run(s);
}
