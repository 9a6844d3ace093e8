/*
 * G14 and section 5 of docs/semantics.md: what a restart keeps, levels, and what
 * is handed to the store when. Policies of recovery are in test_recovery.c.
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

/* Loop tests: 0 the same boot, 1 another one. */
#define SAME_BOOT (_i == 0)

START_TEST(G14_a_pending_job_keeps_its_deadline)
{
	struct op_update op = rig_op("absolute", 0);
	struct rig r;

	start(&r, "handler=h max_active=1");
	rig_update_payload(&r, "relative", 30 * SEC, "p");
	rig_update(&r, "far", DELAY_MAX_NS);
	op.absolute = true;
	op.when_ns = r.now.wall_ns + 40 * SEC;
	rig_update_op(&r, &op);
	rig_pass(&r, 5 * SEC);
	rig_restart(&r, 5 * SEC, SAME_BOOT);
	ck_assert_int_eq(rig_get(&r, "relative").deadline_wall_ns, r.now.wall_ns + 20 * SEC);
	ck_assert_int_eq(
		rig_get(&r, "far").deadline_wall_ns, r.now.wall_ns + DELAY_MAX_NS - 10 * SEC);
	ck_assert_int_eq(rig_get(&r, "absolute").deadline_wall_ns, r.now.wall_ns + 30 * SEC);
	rig_pass(&r, 20 * SEC - 1);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_pass(&r, 1);
	ck_assert_str_eq(rig_running(&r, "relative")->payload, "p;");
	rig_finish(&r, "relative");
	rig_pass(&r, 10 * SEC);
	ck_assert_ptr_nonnull(rig_running(&r, "absolute"));
	rig_done(&r);
}
END_TEST

/* What is not touched after a reboot keeps the row of the boot before, through further restarts. */
START_TEST(G14_a_deadline_outlives_any_restarts_and_reboots)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", HOUR);
	rig_update(&r, "moved", HOUR);
	for (int i = 0; i < 10; i++) {
		rig_restart(&r, SEC, (i * 7 + _i) % 3 != 0);
		rig_pass(&r, SEC);
		ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, RIG_WALL_NS + HOUR);
		rig_update(&r, "moved", HOUR);
	}
	rig_pass(&r, HOUR - 20 * SEC - 1);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_pass(&r, 1);
	ck_assert_str_eq(rig_order(&r), "k ");
	rig_done(&r);
}
END_TEST

START_TEST(G14_ready_ones_keep_their_order_and_payload)
{
	struct op_update op = rig_op("c", 0);
	struct rig r;

	start(&r, "handler=h max_active=0");
	rig_update_payload(&r, "b", 0, "x");
	rig_update(&r, "a", 0);
	op.payload_mode = PAYLOAD_APPEND;
	op.payload = STR("1");
	rig_update_op(&r, &op);
	op.payload = STR("2");
	op.mode = MODE_KEEP;
	rig_update_op(&r, &op);
	rig_update(&r, "d", SEC);
	rig_pass(&r, 2 * SEC);
	rig_update(&r, "b", 0);
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_uint_eq(rig_queue(&r, "q").held, 4);
	rig_queue_set(&r, "q", "max_active=9");
	ck_assert_str_eq(rig_order(&r), "a c d b ");
	ck_assert_str_eq(rig_running(&r, "c")->payload, "1;2;");
	ck_assert_str_eq(rig_running(&r, "b")->payload, "x;");
	ck_assert_uint_eq(rig_running(&r, "b")->coalesced, 1);
	rig_done(&r);
}
END_TEST

START_TEST(G14_queues_disabled_jobs_and_results_are_kept)
{
	struct rig r;

	start(&r, "handler=h max_active=7 slack=50ms");
	rig_queue_create(&r, "gone", "");
	rig_queue_delete(&r, "gone", TIMERS_CANCEL);
	rig_queue_create(&r, "paused", "misfire=skip");
	rig_pause(&r, "paused");
	rig_job(&r, EV_DISABLE, "off");
	rig_job(&r, EV_DISABLE, "off");
	rig_update(&r, "done", 0);
	rig_pass(&r, SEC);
	rig_end_run(&r, rig_running(&r, "done"), RUN_FAILED);
	rig_forget(&r);
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_uint_eq(rig_queue(&r, "q").settings->max_active, 7);
	ck_assert_int_eq(rig_queue(&r, "q").settings->slack_ns, 50 * MS);
	ck_assert_str_eq(rig_queue(&r, "q").settings->handler, "h");
	ck_assert(rig_queue(&r, "paused").paused);
	ck_assert(!rig_queue(&r, "q").paused);
	rig_expect(&r, rig_pause(&r, "gone"), ST_NOT_FOUND);
	ck_assert_uint_eq(rig_get(&r, "off").disable_depth, 2);
	rig_expect(&r, rig_update(&r, "off", 0), ST_REFUSED_DISABLED);
	ck_assert_int_eq(rig_get(&r, "done").last->outcome, RUN_FAILED);
	ck_assert_int_eq(rig_get(&r, "done").last->exit_code, 1);
	ck_assert_str_eq(rig_expect(&r, rig_wait(&r, "done", 1), ST_OK)->output, "out");
	rig_expect(&r, rig_update(&r, "done", 0), ST_CREATED);
	ck_assert_uint_eq(rig_running(&r, "done")->generation, 2);
	rig_done(&r);
}
END_TEST

START_TEST(G14_what_was_taken_away_does_not_come_back)
{
	struct rig r;

	start(&r, "handler=h max_active=0");
	rig_update(&r, "cancelled", SEC);
	rig_update(&r, "deleted", SEC);
	rig_update(&r, "disabled", 0);
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	rig_cancel(&r, "cancelled", CANCEL_PLAIN);
	rig_job(&r, EV_DELETE, "deleted");
	rig_job(&r, EV_DISABLE, "disabled");
	rig_restart(&r, 5 * SEC, SAME_BOOT);
	rig_queue_set(&r, "q", "max_active=9");
	rig_pass(&r, 5 * SEC);
	ck_assert_uint_eq(r.n_runs, 0);
	ck_assert_str_eq(rig_state(&r, "deleted"), "-");
	rig_done(&r);
}
END_TEST

/* Only what is set by all updates before is on disk: the newest position wins. */
START_TEST(G14_a_job_updated_many_times_is_written_once)
{
	struct rig r;

	start(&r, "handler=h");
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	for (int i = 0; i < 1000; i++)
		rig_update(&r, "k", 10 * SEC + i);
	ck_assert_uint_eq(engine_dirty(r.e), 1);
	rig_restart(&r, 0, SAME_BOOT);
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, r.now.wall_ns + 10 * SEC + 999);
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 999);
	rig_done(&r);
}
END_TEST

/* Taking the dirty things a few at a time gives the same as all at once. */
START_TEST(G14_dirty_things_can_be_taken_in_parts)
{
	char key[16];
	struct rig r;

	start(&r, "handler=h max_active=2");
	for (int i = 0; i < 30; i++) {
		snprintf(key, sizeof key, "%d", i % 13);
		rig_update_payload(&r, key, i * 100 * MS, key);
		saved_take(&r.saved, r.e, r.now, (size_t)i % 4);
		rig_pass(&r, 30 * MS);
	}
	while (engine_dirty(r.e))
		saved_take(&r.saved, r.e, r.now, 1);
	ck_assert_uint_eq(r.saved.n_jobs, 13);
	rig_restart(&r, 0, SAME_BOOT);
	for (int i = 0; i < 13; i++) {
		snprintf(key, sizeof key, "%d", i);
		rig_cancel(&r, key, CANCEL_PLAIN);
	}
	rig_done(&r);
}
END_TEST

/* Cut off after any number of changes: no run without its job, no queue before its jobs. */
START_TEST(G14_any_part_of_the_changes_can_be_restored)
{
	struct rig r;

	start(&r, "handler=h max_active=1");
	rig_queue_create(&r, "gone", "");
	rig_update(&r, "gone/k", 0);
	rig_update(&r, "k", 0);
	rig_finish(&r, "k");
	rig_update(&r, "l", 0);
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	rig_update(&r, "k", 0);
	rig_job(&r, EV_DELETE, "k");
	rig_finish(&r, "l");
	rig_job(&r, EV_DELETE, "l");
	rig_queue_delete(&r, "gone", TIMERS_CANCEL);
	rig_update(&r, "k", SEC);
	saved_take(&r.saved, r.e, r.now, (size_t)_i);
	rig_forget(&r);
	rig_crash(&r, 0, true);
	rig_done(&r);
}
END_TEST

START_TEST(G14_an_id_is_known_after_its_second_use_too)
{
	struct op_update op = rig_op("k", 5000 * SEC), other = rig_op("other", SEC);
	struct rig r;

	start(&r, "handler=h");
	op.idem = other.idem = STR("id");
	rig_update_op(&r, &op);
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	op.idem = STR_NONE;
	op.when_ns++;
	rig_update_op(&r, &op); /* changed, and not stored when the id's time is over */
	rig_pass(&r, 601 * SEC);
	op.idem = STR("id");
	op.when_ns++;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	rig_restart(&r, SEC, SAME_BOOT);
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 2);
	rig_expect(&r, rig_update_op(&r, &other), ST_INVALID);
	rig_done(&r);
}
END_TEST

START_TEST(G14_the_queue_that_is_always_there_has_its_place_again)
{
	struct rig r;

	start(&r, "handler=h");
	rig_expect(&r, rig_queue_set(&r, "default", "handler=h priority=high reserve=yes"), ST_OK);
	rig_update(&r, "default/late", SEC);
	rig_restart(&r, 5 * SEC, SAME_BOOT);
	engine_verify(r.e);
	ck_assert_int_eq(rig_running(&r, "default/late")->action, ACTION_EXEC);
	engine_verify(r.e);
	rig_expect(&r, rig_queue_set(&r, "default", "action=lease handler="), ST_OK);
	rig_restart(&r, 5 * SEC, SAME_BOOT);
	engine_verify(r.e);
	rig_done(&r);
}
END_TEST

START_TEST(G14_a_memory_job_is_never_stored_a_stored_one_always)
{
	struct op_update op = rig_op("memory", 10 * SEC), both = rig_op("both", 10 * SEC);
	struct rig r;

	start(&r, "handler=h");
	op.level = LEVEL_MEMORY;
	rig_update_op(&r, &op);
	op.when_ns = 11 * SEC;
	rig_update_op(&r, &op);
	rig_update_op(&r, &both);
	both.level = LEVEL_MEMORY;
	both.when_ns = 20 * SEC;
	rig_update_op(&r, &both);
	ck_assert_int_eq(rig_get(&r, "both").level, LEVEL_ASYNC);
	ck_assert_int_eq(rig_get(&r, "memory").level, LEVEL_MEMORY);
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_str_eq(rig_state(&r, "memory"), "-");
	ck_assert_int_eq(rig_get(&r, "both").deadline_wall_ns, r.now.wall_ns + 19 * SEC);
	rig_done(&r);
}
END_TEST

START_TEST(G14_a_handover_and_a_sync_request_are_urgent)
{
	struct op_update op = rig_op("k", 10 * SEC);
	struct rig r;

	start(&r, "handler=h");
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	rig_update_op(&r, &op);
	ck_assert(!engine_dirty_urgent(r.e));
	op.level = LEVEL_SYNC;
	op.when_ns = 11 * SEC;
	rig_update_op(&r, &op);
	ck_assert(engine_dirty_urgent(r.e));
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	ck_assert(!engine_dirty_urgent(r.e));
	/* What an answer relies on, though the request changes nothing. */
	op.level = LEVEL_ASYNC;
	op.when_ns = 12 * SEC;
	rig_update_op(&r, &op);
	ck_assert(!engine_dirty_urgent(r.e));
	op.level = LEVEL_SYNC;
	rig_expect(&r, rig_update_op(&r, &op), ST_SKIPPED);
	ck_assert(engine_dirty_urgent(r.e));
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	rig_expect(&r, rig_update_op(&r, &op), ST_SKIPPED);
	ck_assert(!engine_dirty_urgent(r.e));
	/* An answer given before, which may not be stored yet. */
	op.level = LEVEL_ASYNC;
	op.when_ns = 13 * SEC;
	op.idem = STR("once");
	rig_update_op(&r, &op);
	ck_assert(!engine_dirty_urgent(r.e));
	op.level = LEVEL_SYNC;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert(engine_dirty_urgent(r.e));
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	rig_pass(&r, 13 * SEC);
	ck_assert(engine_dirty_urgent(r.e));
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("restart");
	TCase *tc = unit_case(s, "G14");

	tcase_add_loop_test(tc, G14_a_pending_job_keeps_its_deadline, 0, 2);
	tcase_add_loop_test(tc, G14_a_deadline_outlives_any_restarts_and_reboots, 0, 3);
	tcase_add_loop_test(tc, G14_ready_ones_keep_their_order_and_payload, 0, 2);
	tcase_add_loop_test(tc, G14_queues_disabled_jobs_and_results_are_kept, 0, 2);
	tcase_add_loop_test(tc, G14_what_was_taken_away_does_not_come_back, 0, 2);
	tcase_add_loop_test(tc, G14_a_job_updated_many_times_is_written_once, 0, 2);
	tcase_add_loop_test(tc, G14_dirty_things_can_be_taken_in_parts, 0, 2);
	tcase_add_loop_test(tc, G14_any_part_of_the_changes_can_be_restored, 0, 15);
	tcase_add_loop_test(tc, G14_an_id_is_known_after_its_second_use_too, 0, 2);
	tcase_add_loop_test(tc, G14_the_queue_that_is_always_there_has_its_place_again, 0, 2);
	tcase_add_loop_test(tc, G14_a_memory_job_is_never_stored_a_stored_one_always, 0, 2);
	tcase_add_test(tc, G14_a_handover_and_a_sync_request_are_urgent);
	return unit_run(s);
}
