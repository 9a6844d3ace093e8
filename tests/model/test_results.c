/*
 * Attempts, results kept, idempotency ids, levels of replies, limits.
 */
#include <stdio.h>
#include <string.h>

#include "model/rig.h"
#include "unit/unit.h"

static void
start(struct rig *r, const char *settings)
{
	rig_init(r);
	rig_expect(r, rig_queue_create(r, "q", settings), ST_OK);
}

/* Time from now to the deadline of `job`. */
static int64_t
left(const struct rig *r, const char *job)
{
	struct job_view v = rig_get(r, job);

	ck_assert(v.has_deadline);
	return v.deadline_wall_ns - r->now.wall_ns;
}

/* ---- attempts ---- */

START_TEST(a_failed_attempt_is_retried_after_its_delay)
{
	static const int64_t exponential[] = { SEC, 2 * SEC, 4 * SEC, 5 * SEC, 5 * SEC };
	struct rig r;
	uint64_t wait, flush;

	start(&r,
		_i ? "handler=h max_attempts=6 retry_max_delay=5s"
		   : "handler=h max_attempts=6 retry_backoff=fixed");
	rig_update_payload(&r, "k", 0, "p");
	wait = rig_wait(&r, "k", 0);
	for (uint32_t attempt = 1; attempt < 6; attempt++) {
		int64_t delay = _i ? exponential[attempt - 1] : SEC;

		ck_assert_uint_eq(rig_running(&r, "k")->attempt, attempt);
		ck_assert_uint_eq(rig_running(&r, "k")->generation, 1);
		ck_assert_str_eq(rig_running(&r, "k")->payload, "p;");
		flush = rig_flush(&r, "k", false);
		rig_end_run(&r, rig_running(&r, "k"), attempt % 2 ? RUN_FAILED : RUN_TIMEOUT);
		ck_assert(!rig_expect(&r, flush, ST_OK)->run.final);
		rig_expect_waits(&r, wait);
		ck_assert_str_eq(rig_state(&r, "k"), "A");
		ck_assert_int_eq(left(&r, "k"), delay);
		ck_assert_uint_eq(rig_get(&r, "k").attempt, attempt + 1);
		rig_pass(&r, delay);
	}
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	ck_assert_int_eq(rig_expect(&r, wait, ST_OK)->run.outcome, RUN_DEAD);
	ck_assert(rig_answer(&r, wait)->run.final);
	ck_assert(rig_get(&r, "k").dead);
	ck_assert_str_eq(rig_state(&r, "k"), "I");
	ck_assert_uint_eq(rig_starts(&r, "k"), 6);
	rig_done(&r);
}
END_TEST

START_TEST(with_one_attempt_a_failure_is_just_failed)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	ck_assert_int_eq(rig_get(&r, "k").last->outcome, RUN_FAILED);
	ck_assert(rig_get(&r, "k").last->final);
	ck_assert(!rig_get(&r, "k").dead);
	rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_IDLE);
	rig_done(&r);
}
END_TEST

START_TEST(a_dead_job_is_kept_until_kicked_updated_cancelled_or_deleted)
{
	struct rig r;

	start(&r, "handler=h max_attempts=2 retry_delay=1s retention=1s");
	rig_update_payload(&r, "k", 0, "p");
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	rig_pass(&r, SEC);
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	rig_pass(&r, 2 * HOUR);
	ck_assert(rig_get(&r, "k").dead);
	switch (_i) {
	case 0:
		rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_CREATED);
		ck_assert_str_eq(rig_running(&r, "k")->payload, "p;");
		ck_assert_uint_eq(rig_running(&r, "k")->generation, 2);
		ck_assert_uint_eq(rig_running(&r, "k")->attempt, 1);
		break;
	case 1:
		rig_expect(&r, rig_update_payload(&r, "k", 0, "new"), ST_CREATED);
		ck_assert_str_eq(rig_running(&r, "k")->payload, "new;");
		break;
	case 2:
		rig_expect(&r, rig_cancel(&r, "k", CANCEL_PLAIN), ST_IDLE);
		rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_IDLE);
		ck_assert_str_eq(rig_state(&r, "k"), "-"); /* its results are too old */
		break;
	default:
		rig_expect(&r, rig_job(&r, EV_DELETE, "k"), ST_OK);
		ck_assert_str_eq(rig_state(&r, "k"), "-");
	}
	if (_i < 2)
		ck_assert(!rig_get(&r, "k").dead);
	rig_done(&r);
}
END_TEST

START_TEST(an_update_of_a_job_that_waits_for_a_retry_makes_it_a_new_instance)
{
	struct op_update op = rig_op("k", SEC);
	struct rig r;
	uint64_t wait;

	start(&r, "handler=h max_attempts=5 retry_delay=10s");
	rig_update_payload(&r, "k", 0, "old");
	wait = rig_wait(&r, "k", 1);
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	/* Mode keep acts like earlier: a later one changes nothing, a sooner one moves it. */
	op.mode = _i ? MODE_KEEP : MODE_SET;
	op.when_ns = 20 * SEC;
	if (_i)
		rig_expect(&r, rig_update_op(&r, &op), ST_UNCHANGED);
	rig_expect_waits(&r, wait);
	op.when_ns = SEC;
	op.payload_mode = PAYLOAD_REPLACE;
	op.payload = STR("new");
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_int_eq(rig_expect(&r, wait, ST_OK)->run.outcome, RUN_FAILED);
	ck_assert_int_eq(left(&r, "k"), SEC);
	rig_pass(&r, SEC);
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 2);
	ck_assert_uint_eq(rig_running(&r, "k")->attempt, 1);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "new;");
	rig_finish(&r, "k");
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

/* An update came while it ran: what failed is over, the newer instance takes its place. */
START_TEST(a_failed_attempt_gives_way_to_what_was_requested_meanwhile)
{
	struct rig r;
	uint64_t wait;

	start(&r, "handler=h max_attempts=5 retry_delay=10s");
	rig_update_payload(&r, "k", 0, "old");
	wait = rig_wait(&r, "k", 1);
	rig_update_payload(&r, "k", SEC, "new");
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	ck_assert_int_eq(rig_expect(&r, wait, ST_OK)->run.outcome, RUN_FAILED);
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "new;");
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 2);
	rig_finish(&r, "k");
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

START_TEST(a_killed_run_is_recorded_as_cancelled_and_not_retried)
{
	struct rig r;

	start(&r, "handler=h max_attempts=5");
	rig_update(&r, "k", 0);
	rig_cancel(&r, "k", CANCEL_KILL);
	ck_assert(rig_running(&r, "k")->killed);
	rig_end_run(&r, rig_running(&r, "k"), RUN_CANCELLED);
	ck_assert_int_eq(rig_get(&r, "k").last->outcome, RUN_CANCELLED);
	ck_assert(rig_get(&r, "k").last->final);
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

/* ---- results ---- */

static bool
count_run(void *arg, const struct run_record *run)
{
	(void)run;
	++*(unsigned *)arg;
	return true;
}

static unsigned
kept(const struct rig *r, const char *job)
{
	struct job_name name = rig_name(job);
	unsigned n = 0;

	(void)engine_history(r->e, &name, 0, 1000000, count_run, &n);
	return n;
}

START_TEST(results_are_kept_by_count_and_by_age)
{
	char key[16];
	struct rig r;

	start(&r, "retention_count=5 retention=10s");
	for (int i = 0; i < 8; i++) {
		snprintf(key, sizeof key, "%d", i);
		rig_update(&r, key, 0);
		rig_pass(&r, SEC);
	}
	ck_assert_uint_eq(kept(&r, "q/"), 5);
	ck_assert_uint_eq(kept(&r, "7"), 1);
	ck_assert_uint_eq(kept(&r, "0"), 0);
	ck_assert_str_eq(rig_state(&r, "0"), "-");
	rig_pass(&r, 8 * SEC - 1);
	ck_assert_uint_eq(kept(&r, "q/"), 2);
	rig_pass(&r, 1);
	ck_assert_uint_eq(kept(&r, "q/"), 1);
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(kept(&r, "q/"), 0);
	ck_assert_uint_eq(rig_queue(&r, "q").jobs, 0);
	rig_done(&r);
}
END_TEST

/* ---- idempotency ids, levels, limits ---- */

START_TEST(a_request_sent_again_is_applied_once_and_gets_the_first_answer)
{
	struct op_update op = rig_op("k", 5 * SEC);
	struct rig r;
	const struct answer *a;

	start(&r, "handler=h");
	op.idem = STR("id-1");
	a = rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_int_eq(a->r.deadline_wall_ns, r.now.wall_ns + 5 * SEC);
	rig_pass(&r, SEC);
	if (_i)
		rig_restart(&r, SEC, _i == 1);
	a = rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_int_eq(a->r.deadline_wall_ns, r.answers[1].r.deadline_wall_ns);
	ck_assert_uint_eq(a->r.generation, 1);
	ck_assert_str_eq(a->key, "k");
	ck_assert_int_eq(left(&r, "k"), 4 * SEC - (_i ? SEC : 0));
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 0);
	op.idem = STR("id-2");
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	/* Ten minutes later it is forgotten. */
	rig_pass(&r, 601 * SEC);
	rig_finish(&r, "k");
	op.idem = STR("id-1");
	rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_uint_eq(rig_get(&r, "k").generation, 2);
	rig_done(&r);
}
END_TEST

START_TEST(a_made_key_comes_back_in_the_reply_and_again_for_the_same_id)
{
	struct op_update op = rig_op("q/", SEC);
	struct rig r;
	const struct answer *a;
	char first[RIG_NAME];

	start(&r, "handler=h");
	op.idem = STR("id");
	a = rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert(key_valid(str_from(a->key)));
	snprintf(first, sizeof first, "%s", a->key);
	a = rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_str_eq(a->key, first);
	op.idem = STR_NONE;
	a = rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_str_ne(a->key, first);
	ck_assert_uint_eq(rig_queue(&r, "q").armed, 2);
	rig_done(&r);
}
END_TEST

START_TEST(a_sync_reply_is_durable_and_the_others_are_not)
{
	struct op_update op = rig_op("k", SEC);
	struct rig r;

	start(&r, _i ? "handler=h durability=sync" : "handler=h");
	ck_assert(rig_expect(&r, rig_update_op(&r, &op), ST_CREATED)->durable == (_i != 0));
	op.level = LEVEL_SYNC;
	ck_assert(rig_expect(&r, rig_update_op(&r, &op), ST_SKIPPED)->durable);
	op.mode = MODE_KEEP;
	ck_assert(rig_expect(&r, rig_update_op(&r, &op), ST_UNCHANGED)->durable);
	op.level = LEVEL_ASYNC;
	ck_assert(!rig_expect(&r, rig_update_op(&r, &op), ST_UNCHANGED)->durable);
	op.level = LEVEL_MEMORY;
	ck_assert(!rig_expect(&r, rig_update_op(&r, &op), ST_UNCHANGED)->durable);
	rig_done(&r);
}
END_TEST

/* An id belongs to what it was used for first, over a restart too. */
START_TEST(an_id_is_of_one_operation)
{
	struct op_update update = rig_op("k", SEC);
	struct op_cancel cancel = { .job = rig_name("k"), .timeout_ns = -1, .idem = STR("id") };
	struct op_job job = { .job = rig_name("k"), .idem = STR("id") };
	static const enum engine_event_kind kinds[] = { EV_KICK, EV_DISABLE, EV_ENABLE, EV_DELETE };
	struct rig r;

	start(&r, "handler=h");
	update.idem = STR("id");
	rig_expect(&r, rig_update_op(&r, &update), ST_CREATED);
	for (int again = 0; again < 2; again++) {
		rig_expect(&r, rig_send(&r, EV_CANCEL, &cancel, 0), ST_INVALID);
		for (size_t i = 0; i < 4; i++)
			rig_expect(&r, rig_send(&r, kinds[i], &job, 0), ST_INVALID);
		rig_expect(&r, rig_update_op(&r, &update), ST_CREATED);
		ck_assert_str_eq(rig_state(&r, "k"), "A");
		ck_assert_uint_eq(rig_get(&r, "k").disable_depth, 0);
		rig_restart(&r, MS, true);
	}
	cancel.idem = STR("other");
	rig_expect(&r, rig_send(&r, EV_CANCEL, &cancel, 0), ST_CANCELLED);
	rig_expect(&r, rig_send(&r, EV_CANCEL, &cancel, 0), ST_CANCELLED);
	update.idem = STR("other");
	rig_expect(&r, rig_update_op(&r, &update), ST_INVALID);
	rig_done(&r);
}
END_TEST

/* A hand-over is taken back after it was asked for again: both generations were promised, one run
 * stands for them. */
START_TEST(both_numbers_of_a_merged_instance_are_waited_for)
{
	uint64_t early[2], late[2];
	struct rig r;

	start(&r, "handler=h max_attempts=2 retry_delay=1s");
	ck_assert_uint_eq(rig_expect(&r, rig_update(&r, "k", 0), ST_CREATED)->r.generation, 1);
	early[0] = rig_wait(&r, "k", 1);
	ck_assert_uint_eq(
		rig_expect(&r, rig_update(&r, "k", _i * SEC), ST_REQUEUED_RUNNING)->r.generation,
		2);
	early[1] = rig_wait(&r, "k", 2);
	rig_not_started(&r, rig_running(&r, "k"));
	late[0] = rig_wait(&r, "k", 1);
	late[1] = rig_wait(&r, "k", 2);
	rig_pass(&r, 2 * SEC);
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 2);
	ck_assert_uint_eq(rig_running(&r, "k")->coalesced, 1);
	/* Once more, and then an attempt that fails. */
	rig_not_started(&r, rig_running(&r, "k"));
	rig_pass(&r, 2 * SEC);
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	rig_expect_waits(&r, rig_wait(&r, "k", 1));
	rig_pass(&r, 2 * SEC);
	rig_finish(&r, "k");
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig_expect(&r, early[i], ST_OK)->run.generation, 2);
		ck_assert_uint_eq(rig_expect(&r, late[i], ST_OK)->run.generation, 2);
		ck_assert_uint_eq(
			rig_expect(&r, rig_wait(&r, "k", (uint64_t)i + 1), ST_OK)->run.attempt, 2);
	}
	rig_expect(&r, rig_wait(&r, "k", 3), ST_NOT_FOUND);
	/* The next one is the next number. */
	ck_assert_uint_eq(rig_expect(&r, rig_update(&r, "k", SEC), ST_CREATED)->r.generation, 3);
	ck_assert_uint_eq(rig_expect(&r, rig_wait(&r, "k", 1), ST_OK)->run.generation, 2);
	rig_done(&r);
}
END_TEST

/* What was merged goes together. */
START_TEST(both_numbers_of_a_merged_instance_are_cancelled)
{
	uint64_t wait[2];
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_update(&r, "k", 0);
	wait[0] = rig_wait(&r, "k", 1);
	rig_not_started(&r, rig_running(&r, "k"));
	wait[1] = rig_wait(&r, "k", 1);
	rig_expect(&r, rig_cancel(&r, "k", CANCEL_PLAIN), ST_CANCELLED);
	rig_expect(&r, wait[0], ST_CANCELLED);
	rig_expect(&r, wait[1], ST_CANCELLED);
	rig_expect(&r, rig_wait(&r, "k", 1), ST_NOT_FOUND);
	rig_done(&r);
}
END_TEST

START_TEST(everything_that_happens_is_counted_once)
{
	static const enum run_outcome ends[] = { RUN_DONE, RUN_FAILED, RUN_TIMEOUT, RUN_CANCELLED,
		RUN_INTERRUPTED };
	struct op_update op = rig_op("k", SEC);
	struct engine_stats st;
	struct rig r;

	start(&r, "handler=h");
	op.idem = STR("id");
	rig_update_op(&r, &op);
	rig_update_op(&r, &op);
	rig_update(&r, "k", SEC);
	rig_update(&r, "k", 2 * SEC);
	rig_pass(&r, 2 * SEC);
	rig_not_started(&r, rig_running(&r, "k"));
	rig_pass(&r, SEC);
	rig_finish(&r, "k");
	for (int i = 0; i < 5; i++) {
		rig_update(&r, "other", 0);
		rig_end_run(&r, rig_running(&r, "other"), ends[i]);
	}
	rig_cancel(&r, "other", CANCEL_PLAIN); /* an interrupted one runs again at once: too late */
	rig_queue_create(&r, "p", "handler=h max_attempts=2 retry_delay=0");
	rig_update(&r, "p/dies", 0);
	rig_end_run(&r, rig_running(&r, "p/dies"), RUN_FAILED);
	rig_end_run(&r, rig_running(&r, "p/dies"), RUN_FAILED);
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.coalesced, 2);
	ck_assert_uint_eq(st.skipped, 1);
	ck_assert_uint_eq(st.answers_repeated, 1);
	ck_assert_uint_eq(st.expired, 1);
	ck_assert_uint_eq(st.start_retries, 1);
	ck_assert_uint_eq(st.starts, 9);
	ck_assert_uint_eq(st.runs_done, 2);
	ck_assert_uint_eq(st.runs_failed, 2);
	ck_assert_uint_eq(st.runs_timeout, 1);
	ck_assert_uint_eq(st.runs_cancelled, 1);
	ck_assert_uint_eq(st.runs_interrupted, 1);
	ck_assert_uint_eq(st.runs_dead, 1);
	ck_assert_uint_eq(st.running, 1);
	ck_assert_uint_eq(st.queues, 3);
	rig_done(&r);
}
END_TEST

START_TEST(limits_refuse_and_change_nothing)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct rig r;

	cfg.max_jobs = 3;
	cfg.max_waiters = 1;
	cfg.max_queues = 3; /* the default one among them */
	rig_init_config(&r, &cfg);
	rig_expect(&r, rig_queue_create(&r, "q", "handler=h max_jobs=2"), ST_OK);
	rig_expect(&r, rig_queue_create(&r, "p", "handler=h"), ST_OK);
	rig_expect(&r, rig_queue_create(&r, "o", "handler=h"), ST_REFUSED_LIMIT);
	rig_update(&r, "a", SEC);
	rig_update(&r, "b", SEC);
	rig_expect(&r, rig_update(&r, "c", SEC), ST_REFUSED_LIMIT);
	rig_expect(&r, rig_update(&r, "a", 2 * SEC), ST_UPDATED_TIMER);
	rig_expect(&r, rig_update(&r, "p/a", SEC), ST_CREATED);
	rig_expect(&r, rig_update(&r, "p/b", SEC), ST_REFUSED_LIMIT);
	rig_expect_waits(&r, rig_wait(&r, "a", 0));
	rig_expect(&r, rig_wait(&r, "a", 0), ST_REFUSED_LIMIT);
	rig_cancel(&r, "b", CANCEL_PLAIN);
	rig_expect(&r, rig_update(&r, "c", SEC), ST_CREATED);
	rig_done(&r);
}
END_TEST

START_TEST(names_and_ids_end_at_their_lengths)
{
	static const size_t lengths[] = { 1, 22, 23, 24, 254, 255, 256 };
	char key[257], id[IDEM_INNER + 1];
	struct op_update op = rig_op("q/", SEC);
	struct rig r;

	memset(key, 'k', sizeof key);
	memset(id, 'i', sizeof id);
	start(&r, "handler=h");
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		struct op_job job = { .job = { STR("q"), { key, lengths[i] } } };

		op.job.key = job.job.key;
		rig_expect(&r, rig_update_op(&r, &op), lengths[i] > 255 ? ST_INVALID : ST_CREATED);
		if (i % 2)
			rig_send(&r, EV_DELETE, &job, 0);
	}
	rig_restart(&r, 0, true);
	ck_assert_uint_eq(rig_queue(&r, "q").armed, 3);
	op.job.key = STR("k");
	op.idem = (struct str){ id, 64 };
	op.when_ns = 2 * SEC;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 1);
	op.idem.n = IDEM_INNER + 1; /* with a namespace; without one the service refuses it */
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	rig_done(&r);
}
END_TEST

START_TEST(time_limits_out_of_range_are_invalid_and_change_nothing)
{
	int64_t bad = _i ? DELAY_MAX_NS + 1 : -2;
	struct op_cancel cancel = { .job = rig_name("k"), .mode = CANCEL_KILL, .timeout_ns = bad };
	struct op_flush flush = { .job = rig_name("k"), .now = true, .timeout_ns = bad };
	struct op_flush_queue flush_queue = { .queue = STR("q"), .timeout_ns = bad };
	struct op_wait wait = { .job = rig_name("k"), .timeout_ns = bad };
	struct op_drain drain = { .queue = STR("q"), .timers = TIMERS_CANCEL, .timeout_ns = bad };
	struct op_queue_delete del = {
		.queue = STR("q"), .timers = TIMERS_CANCEL, .timeout_ns = bad
	};
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_update(&r, "k", SEC);
	rig_expect(&r, rig_send(&r, EV_CANCEL, &cancel, 0), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_FLUSH, &flush, 0), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_FLUSH_QUEUE, &flush_queue, 0), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_WAIT, &wait, 0), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_DRAIN, &drain, 0), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_QUEUE_DELETE, &del, 0), ST_INVALID);
	ck_assert_str_eq(rig_state(&r, "k"), "RA");
	ck_assert(!rig_running(&r, "k")->killed);
	ck_assert(!rig_queue(&r, "q").draining);
	rig_done(&r);
}
END_TEST

/* Each output is "out": three bytes. */
START_TEST(bytes_kept_end_at_their_limit)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct rig r;

	cfg.max_bytes = 10;
	rig_init_config(&r, &cfg);
	rig_queue_create(&r, "q", "handler=h");
	rig_expect(&r, rig_update_payload(&r, "k", SEC, "12345678901"), ST_REFUSED_LIMIT);
	ck_assert_str_eq(rig_state(&r, "k"), "-");
	rig_expect(&r, rig_update_payload(&r, "k", SEC, "1234567"), ST_CREATED);
	rig_update(&r, "a", 0);
	rig_finish(&r, "a");
	ck_assert_uint_eq(rig_get(&r, "a").last->output.n, 3);
	ck_assert(!rig_get(&r, "a").last->truncated);
	rig_update(&r, "b", 0);
	rig_finish(&r, "b");
	ck_assert_uint_eq(rig_get(&r, "b").last->output.n, 0);
	ck_assert(rig_get(&r, "b").last->truncated);
	rig_job(&r, EV_DELETE, "a");
	rig_update(&r, "b", 0);
	rig_finish(&r, "b");
	ck_assert_uint_eq(rig_get(&r, "b").last->output.n, 3);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("results");
	TCase *tc = unit_case(s, "attempts");
	tcase_add_loop_test(tc, a_failed_attempt_is_retried_after_its_delay, 0, 2);
	tcase_add_test(tc, with_one_attempt_a_failure_is_just_failed);
	tcase_add_loop_test(tc, a_dead_job_is_kept_until_kicked_updated_cancelled_or_deleted, 0, 4);
	tcase_add_loop_test(
		tc, an_update_of_a_job_that_waits_for_a_retry_makes_it_a_new_instance, 0, 2);
	tcase_add_test(tc, a_failed_attempt_gives_way_to_what_was_requested_meanwhile);
	tcase_add_test(tc, a_killed_run_is_recorded_as_cancelled_and_not_retried);
	tc = unit_case(s, "results, ids, limits");
	tcase_add_test(tc, results_are_kept_by_count_and_by_age);
	tcase_add_loop_test(
		tc, a_request_sent_again_is_applied_once_and_gets_the_first_answer, 0, 3);
	tcase_add_test(tc, a_made_key_comes_back_in_the_reply_and_again_for_the_same_id);
	tcase_add_loop_test(tc, a_sync_reply_is_durable_and_the_others_are_not, 0, 2);
	tcase_add_test(tc, names_and_ids_end_at_their_lengths);
	tcase_add_loop_test(tc, time_limits_out_of_range_are_invalid_and_change_nothing, 0, 2);
	tcase_add_test(tc, bytes_kept_end_at_their_limit);
	tcase_add_test(tc, an_id_is_of_one_operation);
	tcase_add_loop_test(tc, both_numbers_of_a_merged_instance_are_waited_for, 0, 2);
	tcase_add_test(tc, both_numbers_of_a_merged_instance_are_cancelled);
	tcase_add_test(tc, everything_that_happens_is_counted_once);
	tcase_add_test(tc, limits_refuse_and_change_nothing);
	return unit_run(s);
}
