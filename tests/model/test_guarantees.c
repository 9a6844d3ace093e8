/*
 * The guarantees G1 to G9 of docs/semantics.md, as time-stamped scenarios. Each
 * test is named after the guarantee; the clock starts at 0 in the comments.
 * G10 and G11 are in test_queues.c, G12, G13 and G15 in test_times.c, G14 in
 * test_restart.c.
 */
#include <stdio.h>
#include <string.h>

#include "model/rig.h"
#include "unit/random.h"
#include "unit/unit.h"

static void
start(struct rig *r, const char *settings)
{
	rig_init(r);
	rig_expect(r, rig_queue_create(r, "q", settings), ST_OK);
}

/* ---- G1, G2, G3 ---- */

START_TEST(G1_one_pending_instance_however_many_ask)
{
	struct rig r;

	start(&r, "handler=h");
	rig_expect(&r, rig_update(&r, "k", SEC), ST_CREATED);
	for (int i = 1; i < 100; i++)
		rig_expect(&r, rig_update(&r, "k", SEC + i), ST_UPDATED_TIMER);
	ck_assert_uint_eq(rig_queue(&r, "q").armed, 1);
	rig_pass(&r, 2 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	ck_assert_uint_eq(rig_running(&r, "k")->coalesced, 99);
	rig_finish(&r, "k");
	rig_pass(&r, HOUR / 2);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

/* Whatever an update was answered, a run that sees its payload starts afterwards. */
START_TEST(G2_a_run_after_the_answer_sees_the_payload)
{
	static const struct {
		enum update_mode mode;
		int64_t delay;
	} how[] = {
		{ MODE_SET, 0 },
		{ MODE_SET, 10 * SEC },
		{ MODE_SET, 3 * SEC },
		{ MODE_KEEP, 3 * SEC },
		{ MODE_EARLIER, 20 * SEC },
		{ MODE_EARLIER, SEC },
		{ MODE_LATER, SEC },
		{ MODE_LATER, 20 * SEC },
	};
	/* 0: idle, 1: armed, 2: ready, 3: running, 4: running and armed, 5: running and ready. */
	int state = _i % 6;

	for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
		struct op_update op = rig_op("k", how[i].delay);
		struct rig r;
		size_t before;

		start(&r, "handler=h max_active=1");
		rig_update(&r, state < 3 ? "blocker" : "k", 0);
		if (state % 3)
			rig_update_payload(&r, "k", state % 3 == 1 ? 10 * SEC : 0, "old");
		op.mode = how[i].mode;
		op.payload_mode = PAYLOAD_REPLACE;
		op.payload = STR("new");
		ck_assert(!status_is_error(rig_answer(&r, rig_update_op(&r, &op))->r.status));
		before = rig_starts(&r, "k");
		rig_finish(&r, state < 3 ? "blocker" : "k");
		rig_pass(&r, 20 * SEC);
		ck_assert_uint_eq(rig_starts(&r, "k"), before + 1);
		ck_assert_str_eq(rig_running(&r, "k")->payload, "new;");
		rig_done(&r);
	}
}
END_TEST

START_TEST(G2_nothing_is_unchanged_once_handed_over)
{
	struct op_update op = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	ck_assert_ptr_nonnull(rig_running(&r, "k"));
	/* Handed over, though the runner has not said that it started. */
	op.mode = _i % 2 ? MODE_KEEP : MODE_EARLIER;
	op.when_ns = _i / 2 ? SEC : 0;
	rig_expect(&r, rig_update_op(&r, &op), ST_REQUEUED_RUNNING);
	rig_finish(&r, "k");
	rig_pass(&r, 2 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

/* The runner could not start it, and somebody has asked again meanwhile. */
START_TEST(G2_a_start_that_failed_for_want_of_processes_loses_nobody)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update_payload(&r, "k", 0, "one");
	if (_i)
		rig_expect(&r, rig_update_payload(&r, "k", _i == 1 ? 0 : 3 * SEC, "two"),
			ST_REQUEUED_RUNNING);
	rig_not_started(&r, rig_running(&r, "k"));
	ck_assert_ptr_null(rig_running(&r, "k"));
	rig_pass(&r, 900 * MS);
	ck_assert_ptr_null(rig_running(&r, "k"));
	rig_pass(&r, 4 * SEC);
	ck_assert_ptr_nonnull(rig_running(&r, "k"));
	while (rig_running(&r, "k")) {
		struct rig_run last = *rig_running(&r, "k");

		ck_assert_uint_le(rig_starts(&r, "k"), 3);
		rig_finish(&r, "k");
		rig_pass(&r, 4 * SEC);
		if (!rig_running(&r, "k"))
			ck_assert_str_eq(last.payload, _i ? "two;" : "one;");
	}
	rig_done(&r);
}
END_TEST

START_TEST(G3_requests_while_running_make_one_more_run)
{
	struct rig r;
	const struct answer *a;
	uint64_t waits;

	start(&r, "handler=h max_active=4");
	rig_update_payload(&r, "k", 0, "first");
	waits = rig_wait(&r, "k", 1);
	rig_expect(&r, rig_update_payload(&r, "k", 0, "0"), ST_REQUEUED_RUNNING);
	for (int i = 1; i < 100; i++)
		rig_expect(&r, rig_update_payload(&r, "k", 0, i == 99 ? "last" : "x"),
			ST_UPDATED_READY);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "first;");
	rig_pass(&r, 2 * SEC);
	rig_finish(&r, "k");
	a = rig_expect(&r, waits, ST_OK);
	ck_assert_uint_eq(a->run.generation, 1);
	ck_assert_uint_eq(a->run.coalesced, 0);
	ck_assert_int_eq(a->run.ended_wall_ns - a->run.started_wall_ns, 2 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "last;");
	ck_assert_uint_eq(rig_running(&r, "k")->coalesced, 99);
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 2);
	rig_finish(&r, "k");
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

/* ---- G4, G5 ---- */

/* rig_running() fails when two runs of a job are going. */
START_TEST(G4_a_job_never_runs_twice_at_once)
{
	struct rnd rnd = { .s = (uint64_t)_i };
	struct rig r;

	start(&r, "handler=h max_active=8 max_attempts=3 retry_delay=10ms");
	for (int step = 0; step < 2000; step++) {
		struct rig_run *run = rig_running(&r, "k");

		if (rnd_one_in(&rnd, 2))
			rig_update(&r, "k", (int64_t)rnd_below(&rnd, 3) * 10 * MS);
		else if (run && rnd_one_in(&rnd, 10))
			rig_not_started(&r, run);
		else if (run && rnd_one_in(&rnd, 2))
			rig_end_run(&r, run, rnd_one_in(&rnd, 2) ? RUN_DONE : RUN_FAILED);
		else if (rnd_one_in(&rnd, 50))
			rig_restart(&r, 10 * MS, rnd_one_in(&rnd, 2));
		rig_pass(&r, (int64_t)rnd_below(&rnd, 20) * MS);
		(void)rig_running(&r, "k");
		if (step % 100 == 0)
			rig_forget(&r);
	}
	rig_done(&r);
}
END_TEST

START_TEST(G5_a_run_may_rearm_cancel_and_delete_its_own_job)
{
	struct op_update update = rig_op("k", 0);
	struct op_cancel cancel = { .job = rig_name("k"), .timeout_ns = -1 };
	struct op_job job = { .job = rig_name("k") };
	struct rig r;
	uint64_t token;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	token = rig_running(&r, "k")->token;
	rig_expect(&r, rig_send(&r, EV_UPDATE, &update, token), ST_REQUEUED_RUNNING);
	rig_expect(&r, rig_send(&r, EV_CANCEL, &cancel, token), ST_CANCELLED_RUNNING);
	rig_expect(&r, rig_send(&r, EV_UPDATE, &update, token), ST_REQUEUED_RUNNING);
	rig_expect(&r, rig_send(&r, EV_DELETE, &job, token), ST_CANCELLED_RUNNING);
	rig_finish(&r, "k");
	ck_assert_str_eq(rig_state(&r, "k"), "-");
	rig_pass(&r, 10 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

START_TEST(G5_waiting_for_oneself_is_invalid)
{
	struct op_cancel wait = { .job = rig_name("k"), .mode = CANCEL_WAIT, .timeout_ns = -1 };
	struct op_cancel kill = { .job = rig_name("k"), .mode = CANCEL_KILL, .timeout_ns = -1 };
	struct op_flush flush = { .job = rig_name("k"), .timeout_ns = -1 };
	struct op_flush now = { .job = rig_name("k"), .now = true, .timeout_ns = -1 };
	struct op_wait own = { .job = rig_name("k"), .timeout_ns = -1 };
	struct op_flush_queue flush_queue = { .queue = STR("q"), .timeout_ns = -1 };
	struct op_drain drain = { .queue = STR("q"), .timeout_ns = -1 };
	struct op_flush other = { .job = rig_name("other"), .timeout_ns = -1 };
	struct rig r;
	uint64_t token, waits;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_update(&r, "k", SEC);
	rig_update(&r, "other", 0);
	token = rig_running(&r, "k")->token;
	rig_expect(&r, rig_send(&r, EV_CANCEL, &wait, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_CANCEL, &kill, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_FLUSH, &flush, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_FLUSH, &now, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_WAIT, &own, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_FLUSH_QUEUE, &flush_queue, token), ST_INVALID);
	rig_expect(&r, rig_send(&r, EV_DRAIN, &drain, token), ST_INVALID);
	ck_assert_str_eq(rig_state(&r, "k"), "RA");
	ck_assert(!rig_running(&r, "k")->killed);
	/* Another's job is another matter. */
	waits = rig_send(&r, EV_FLUSH, &other, token);
	rig_expect_waits(&r, waits);
	rig_finish(&r, "other");
	rig_expect(&r, waits, ST_OK);
	rig_finish(&r, "k");
	rig_done(&r);
}
END_TEST

/* ---- G6, G7 ---- */

START_TEST(G6_never_early)
{
	static const int64_t delays[] = { 1, 999999, MS, SEC + 1, 2147483648 * MS, 4294967296 * MS,
		15768000000 * MS, DELAY_MAX_NS };
	int64_t delay = delays[_i];
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", delay);
	rig_freeze(&r, delay - 1);
	rig_settle(&r);
	ck_assert_int_eq(engine_next_due(r.e, r.now), r.now.boot_ns + 1);
	ck_assert_uint_eq(rig_starts(&r, "k"), 0);
	rig_freeze(&r, 1);
	rig_settle(&r);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	ck_assert_int_eq(rig_running(&r, "k")->due_wall_ns, r.now.wall_ns);
	rig_done(&r);
}
END_TEST

START_TEST(G6_with_slack_between_target_and_target_and_slack)
{
	struct rnd rnd = { .s = (uint64_t)_i };

	for (int i = 0; i < 100; i++) {
		struct op_update op = rig_op("k", 0);
		int64_t target = 0;
		struct rig r;

		start(&r, "handler=h slack=1s");
		for (unsigned n = 1 + (unsigned)rnd_below(&rnd, 10); n > 0; n--) {
			op.when_ns = 1 + (int64_t)rnd_below(&rnd, 5 * SEC);
			op.slack_ns = rnd_one_in(&rnd, 2) ? -1 : SEC;
			target = r.now.boot_ns + op.when_ns;
			rig_update_op(&r, &op);
			if (rig_starts(&r, "k"))
				break;
			rig_pass(&r, (int64_t)rnd_below(&rnd, SEC / 2));
			if (rig_starts(&r, "k"))
				break;
		}
		rig_pass(&r, 10 * SEC);
		ck_assert_uint_eq(rig_starts(&r, "k"), 1);
		ck_assert_int_ge(r.runs[0].at_ns, target);
		ck_assert_int_le(r.runs[0].at_ns, target + SEC);
		rig_done(&r);
	}
}
END_TEST

START_TEST(G7_equal_deadlines_become_ready_in_the_order_they_were_set)
{
	struct op_update again = rig_op("b", SEC);
	struct rig r;

	start(&r, "handler=h max_active=10");
	rig_update(&r, "a", SEC);
	rig_update(&r, "b", SEC);
	rig_update(&r, "c", 2 * SEC);
	rig_update(&r, "d", SEC);
	rig_update(&r, "e", SEC);
	/* Set anew: behind the others. */
	rig_update(&r, "a", 2 * SEC);
	rig_update(&r, "a", SEC);
	rig_update(&r, "c", SEC);
	/* Not set: it keeps its place. */
	again.mode = MODE_KEEP;
	rig_expect(&r, rig_update_op(&r, &again), ST_UNCHANGED);
	rig_expect(&r, rig_update(&r, "d", SEC), ST_SKIPPED);
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "b d e a c ");
	rig_done(&r);
}
END_TEST

START_TEST(G7_fifo_within_a_queue_by_the_time_of_becoming_ready)
{
	struct rig r;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "blocker", 0);
	rig_update(&r, "late", 3 * SEC);
	rig_update(&r, "early", SEC);
	rig_pass(&r, 2 * SEC);
	rig_update(&r, "now", 0);
	rig_pass(&r, 2 * SEC);
	rig_update(&r, "last", 0);
	/* To the tail. */
	rig_expect(&r, rig_update(&r, "early", 0), ST_UPDATED_READY);
	for (int i = 0; i < 5; i++)
		rig_finish(&r, r.runs[r.n_runs - 1].key);
	ck_assert_str_eq(rig_order(&r), "blocker now late last early ");
	rig_done(&r);
}
END_TEST

START_TEST(G7_a_newcomer_queues_behind_held_ones_though_a_slot_is_free)
{
	struct rig r;

	start(&r, "handler=h max_active=1");
	rig_pause(&r, "q");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_resume(&r, "q");
	rig_update(&r, "c", 0);
	r.quiet_settle = true;
	/* A slot falls free and somebody new comes before the loop has gone round. */
	rig_finish(&r, "a");
	rig_update(&r, "d", 0);
	r.quiet_settle = false;
	rig_settle(&r);
	rig_finish(&r, "b");
	rig_finish(&r, "c");
	ck_assert_str_eq(rig_order(&r), "a b c d ");
	rig_done(&r);
}
END_TEST

/* Those that had to wait for their own runs are no later for it than they were. */
START_TEST(G7_who_waits_for_its_own_run_keeps_its_place)
{
	struct rig r;

	start(&r, "handler=h max_active=3");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "c", 0);
	rig_update(&r, "d", 0);
	rig_pause(&r, "q");
	rig_finish(&r, "c");
	rig_finish(&r, "a");
	rig_finish(&r, "b");
	rig_resume(&r, "q");
	ck_assert_str_eq(rig_order(&r), "a b c a b d ");
	rig_done(&r);
}
END_TEST

START_TEST(G7_an_ordered_queue_is_strictly_first_in_first_out_one_at_a_time)
{
	struct rig r;

	start(&r, "handler=h ordered=yes");
	ck_assert_uint_eq(rig_queue(&r, "q").settings->max_active, 1);
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "c", 0);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 1);
	rig_expect(&r, rig_queue_set(&r, "q", "max_active=4"), ST_INVALID);
	ck_assert_uint_eq(rig_queue(&r, "q").settings->max_active, 1);
	ck_assert_uint_eq(rig_queue(&r, "q").held, 2);
	ck_assert_int_eq(rig_get(&r, "b").state, JOB_HELD);
	rig_update(&r, "a", 0); /* the running one itself: at the tail */
	rig_finish(&r, "a");
	rig_finish(&r, "b");
	rig_finish(&r, "c");
	rig_finish(&r, "a");
	ck_assert_str_eq(rig_order(&r), "a b c a ");
	rig_done(&r);
}
END_TEST

/* ---- G8, G9 ---- */

START_TEST(G8_cancel_wait_beats_rearming)
{
	struct op_update own = rig_op("k", 0);
	struct rig r;
	uint64_t first, second;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_update(&r, "k", SEC);
	first = rig_cancel(&r, "k", CANCEL_WAIT);
	ck_assert_str_eq(rig_state(&r, "k"), "R");
	rig_expect(&r, rig_update(&r, "k", 0), ST_REFUSED_DISABLED);
	rig_expect(&r, rig_send(&r, EV_UPDATE, &own, rig_running(&r, "k")->token),
		ST_REFUSED_DISABLED);
	second = rig_cancel(&r, "k", CANCEL_WAIT);
	rig_pass(&r, 5 * SEC);
	rig_expect_waits(&r, first);
	rig_expect_waits(&r, second);
	rig_finish(&r, "k");
	rig_expect(&r, first, ST_CANCELLED_RUNNING);
	rig_expect(&r, second, ST_NOT_PENDING_RUNNING);
	rig_expect(&r, rig_update(&r, "k", 0), ST_CREATED);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

START_TEST(G8_a_cancel_that_gave_up_waiting_lets_updates_in_again)
{
	struct op_cancel op = { .job = rig_name("k"), .mode = CANCEL_WAIT, .timeout_ns = SEC };
	struct rig r;
	uint64_t timed, other;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	timed = rig_send(&r, EV_CANCEL, &op, 0);
	other = rig_cancel(&r, "k", CANCEL_WAIT);
	rig_pass(&r, SEC - 1);
	rig_expect_waits(&r, timed);
	rig_pass(&r, 1);
	rig_expect(&r, timed, ST_TIMEOUT);
	rig_expect(&r, rig_update(&r, "k", 0), ST_REFUSED_DISABLED);
	rig_abandon(&r, other);
	rig_expect(&r, rig_update(&r, "k", 0), ST_REQUEUED_RUNNING);
	rig_finish(&r, "k");
	rig_expect_waits(&r, other);
	ck_assert_uint_eq(rig_starts(&r, "k"), 2);
	rig_done(&r);
}
END_TEST

START_TEST(G9_flush_ends_though_the_job_requeues_itself_for_ever)
{
	struct op_update own = rig_op("k", 0);
	struct rig r;
	uint64_t waits;

	start(&r, "handler=h");
	rig_update(&r, "k", 0);
	rig_send(&r, EV_UPDATE, &own, rig_running(&r, "k")->token);
	waits = rig_flush(&r, "k", _i);
	for (int run = 1; run <= 4; run++) {
		rig_send(&r, EV_UPDATE, &own, rig_running(&r, "k")->token);
		rig_pass(&r, SEC);
		rig_finish(&r, "k");
		if (run < 2)
			rig_expect_waits(&r, waits);
		else
			ck_assert_uint_eq(rig_expect(&r, waits, ST_OK)->run.generation, 2);
	}
	rig_done(&r);
}
END_TEST

START_TEST(G9_flush_of_a_queue_is_a_snapshot)
{
	struct rig r;
	uint64_t first, second, none;

	start(&r, "handler=h max_active=2");
	none = rig_flush_queue(&r, "q");
	rig_expect(&r, none, ST_OK);
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "held", 0);
	rig_update(&r, "timer", SEC);
	first = rig_flush_queue(&r, "q");
	rig_update(&r, "later", 0);
	second = rig_flush_queue(&r, "q");
	rig_finish(&r, "b");
	rig_finish(&r, "a");
	rig_expect_waits(&r, first);
	rig_update(&r, "held", 0); /* runs again later; not waited for */
	rig_finish(&r, "held");
	rig_expect(&r, first, ST_OK);
	rig_expect_waits(&r, second);
	rig_finish(&r, "later");
	rig_expect(&r, second, ST_OK);
	ck_assert_ptr_nonnull(rig_running(&r, "held"));
	rig_done(&r);
}
END_TEST

/* What a flush of the queue waits for may go away in other ways than by running. */
START_TEST(G9_flush_of_a_queue_does_not_wait_for_what_was_taken_away)
{
	struct rig r;
	uint64_t waits;

	start(&r, "handler=h max_active=0");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "c", 0);
	rig_update(&r, "d", 0);
	waits = rig_flush_queue(&r, "q");
	rig_cancel(&r, "a", CANCEL_PLAIN);
	rig_update(&r, "b", 5 * SEC);
	rig_job(&r, EV_DISABLE, "c");
	rig_expect_waits(&r, waits);
	rig_job(&r, EV_DELETE, "d");
	rig_expect(&r, waits, ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(G9_a_flushed_instance_taken_back_to_the_timer_ends_its_flush)
{
	struct rig r;
	uint64_t flush, wait;

	start(&r, "handler=h max_active=0");
	rig_update(&r, "k", 0);
	flush = rig_flush(&r, "k", false);
	wait = rig_wait(&r, "k", 1);
	rig_expect_waits(&r, flush);
	rig_expect(&r, rig_update(&r, "k", SEC), ST_UPDATED_READY);
	rig_expect(&r, flush, ST_OK);
	rig_queue_set(&r, "q", "max_active=1");
	rig_pass(&r, SEC);
	rig_expect_waits(&r, wait);
	rig_finish(&r, "k");
	rig_expect(&r, wait, ST_OK);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("guarantees");
	TCase *tc = unit_case(s, "G1-G3");

	tcase_add_test(tc, G1_one_pending_instance_however_many_ask);
	tcase_add_loop_test(tc, G2_a_run_after_the_answer_sees_the_payload, 0, 6);
	tcase_add_loop_test(tc, G2_nothing_is_unchanged_once_handed_over, 0, 4);
	tcase_add_loop_test(tc, G2_a_start_that_failed_for_want_of_processes_loses_nobody, 0, 3);
	tcase_add_test(tc, G3_requests_while_running_make_one_more_run);
	tc = unit_case(s, "G4-G5");
	tcase_add_loop_test(tc, G4_a_job_never_runs_twice_at_once, 0, 4);
	tcase_add_test(tc, G5_a_run_may_rearm_cancel_and_delete_its_own_job);
	tcase_add_test(tc, G5_waiting_for_oneself_is_invalid);
	tc = unit_case(s, "G6-G7");
	tcase_add_loop_test(tc, G6_never_early, 0, 8);
	tcase_add_loop_test(tc, G6_with_slack_between_target_and_target_and_slack, 0, 4);
	tcase_add_test(tc, G7_equal_deadlines_become_ready_in_the_order_they_were_set);
	tcase_add_test(tc, G7_fifo_within_a_queue_by_the_time_of_becoming_ready);
	tcase_add_test(tc, G7_a_newcomer_queues_behind_held_ones_though_a_slot_is_free);
	tcase_add_test(tc, G7_who_waits_for_its_own_run_keeps_its_place);
	tcase_add_test(tc, G7_an_ordered_queue_is_strictly_first_in_first_out_one_at_a_time);
	tc = unit_case(s, "G8-G9");
	tcase_add_test(tc, G8_cancel_wait_beats_rearming);
	tcase_add_test(tc, G8_a_cancel_that_gave_up_waiting_lets_updates_in_again);
	tcase_add_loop_test(tc, G9_flush_ends_though_the_job_requeues_itself_for_ever, 0, 2);
	tcase_add_test(tc, G9_flush_of_a_queue_is_a_snapshot);
	tcase_add_test(tc, G9_flush_of_a_queue_does_not_wait_for_what_was_taken_away);
	tcase_add_test(tc, G9_a_flushed_instance_taken_back_to_the_timer_ends_its_flush);
	return unit_run(s);
}
