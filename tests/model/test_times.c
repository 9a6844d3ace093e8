/*
 * The guarantees G12, G13 and G15 of docs/semantics.md: odd times, steps of the
 * wall clock, frozen daemons.
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

/* ---- G12 ---- */

START_TEST(G12_no_delay_never_passes_through_the_timer)
{
	struct rig r;

	start(&r, "handler=h slack=1s max_active=0");
	rig_update(&r, "k", 0);
	ck_assert_str_eq(rig_state(&r, "k"), "Q");
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, r.now.wall_ns);
	/* Though an armed deadline is within the slack. */
	rig_update(&r, "k", SEC / 2);
	rig_pass(&r, SEC);
	rig_expect(&r, rig_update(&r, "k", 0), ST_UPDATED_TIMER);
	ck_assert_str_eq(rig_state(&r, "k"), "Q");
	rig_done(&r);
}
END_TEST

START_TEST(G12_a_deadline_in_the_past_is_ready_at_once_once)
{
	struct op_update op = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	op.absolute = true;
	op.when_ns = _i ? r.now.wall_ns - HOUR : 0;
	rig_expect(&r, rig_update_op(&r, &op), ST_CREATED);
	ck_assert_ptr_nonnull(rig_running(&r, "k"));
	rig_finish(&r, "k");
	rig_pass(&r, HOUR / 2);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

static const struct {
	bool absolute;
	int64_t when; /* absolute: from now on, where RELATIVE */
	bool relative_to_now;
	enum status status;
} times[] = {
	{ false, -1, false, ST_INVALID },
	{ false, INT64_MIN, false, ST_INVALID },
	{ false, INT64_MAX, false, ST_INVALID },
	{ false, DELAY_MAX_NS + 1, false, ST_INVALID },
	{ false, DELAY_MAX_NS, false, ST_CREATED },
	{ true, -1, false, ST_INVALID },
	{ true, INT64_MIN, false, ST_INVALID },
	{ true, INT64_MAX, false, ST_INVALID },
	{ true, DELAY_MAX_NS + 1, true, ST_INVALID },
	{ true, DELAY_MAX_NS, true, ST_CREATED },
	{ true, 1, true, ST_CREATED },
};

START_TEST(G12_times_out_of_range_are_invalid_never_immediate)
{
	struct op_update op = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	op.absolute = times[_i].absolute;
	op.when_ns = times[_i].when + (times[_i].relative_to_now ? r.now.wall_ns : 0);
	rig_expect(&r, rig_update_op(&r, &op), times[_i].status);
	ck_assert_str_eq(rig_state(&r, "k"), times[_i].status == ST_INVALID ? "-" : "A");
	if (times[_i].status == ST_CREATED)
		ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns,
			op.absolute ? op.when_ns : r.now.wall_ns + op.when_ns);
	rig_done(&r);
}
END_TEST

START_TEST(G12_an_invalid_update_changes_nothing_of_a_pending_job)
{
	struct op_update op = rig_op("k", -1);
	struct rig r;
	int64_t deadline;

	start(&r, "handler=h");
	rig_update(&r, "k", SEC);
	deadline = rig_get(&r, "k").deadline_wall_ns;
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	op = rig_op("k", 10 * SEC);
	op.max_wait_ns = 9 * SEC;
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	op = rig_op("k", SEC);
	op.slack_ns = -2;
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	op.slack_ns = -1;
	op.align_ns = -1;
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	op.align_ns = 0;
	op.payload = STR("kept mode takes none");
	rig_expect(&r, rig_update_op(&r, &op), ST_INVALID);
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, deadline);
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 0);
	rig_done(&r);
}
END_TEST

/* ---- G13 ---- */

START_TEST(G13_relative_delays_ignore_steps_of_the_wall_clock)
{
	static const int64_t steps[] = { -HOUR, 2 * HOUR, -1, 1, 30 * 86400 * SEC };
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 5 * SEC);
	rig_pass(&r, 2 * SEC);
	rig_step_wall(&r, steps[_i]);
	rig_pass(&r, 3 * SEC - 1);
	ck_assert_uint_eq(rig_starts(&r, "k"), 0);
	rig_pass(&r, 1);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

START_TEST(G13_absolute_times_follow_the_wall_clock)
{
	struct op_update op = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	op.absolute = true;
	op.when_ns = r.now.wall_ns + HOUR;
	rig_update_op(&r, &op);
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, op.when_ns);
	rig_step_wall(&r, -HOUR);
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, op.when_ns);
	ck_assert_int_eq(engine_next_due(r.e, r.now), r.now.boot_ns + 2 * HOUR);
	rig_pass(&r, HOUR);
	ck_assert_uint_eq(rig_starts(&r, "k"), 0);
	rig_step_wall(&r, HOUR - 1);
	ck_assert_uint_eq(rig_starts(&r, "k"), 0);
	rig_pass(&r, 1);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

START_TEST(G13_a_step_past_an_absolute_time_runs_it_once_for_ever)
{
	struct op_update op = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	op.absolute = true;
	op.when_ns = r.now.wall_ns + HOUR;
	rig_update_op(&r, &op);
	rig_step_wall(&r, 2 * HOUR);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_step_wall(&r, -2 * HOUR);
	rig_finish(&r, "k");
	rig_pass(&r, 2 * HOUR);
	ck_assert_uint_eq(rig_starts(&r, "k"), 1);
	rig_done(&r);
}
END_TEST

START_TEST(G13_a_step_keeps_the_order_of_absolute_and_relative_ones)
{
	struct op_update op = rig_op("absolute", 0);
	struct rig r;

	start(&r, "handler=h");
	op.absolute = true;
	op.when_ns = r.now.wall_ns + 10 * SEC;
	rig_update_op(&r, &op);
	rig_update(&r, "relative", 5 * SEC);
	rig_step_wall(&r, 7 * SEC);
	rig_pass(&r, 10 * SEC);
	ck_assert_str_eq(rig_order(&r), "absolute relative ");
	rig_done(&r);
}
END_TEST

/* ---- G15 ---- */

START_TEST(G15_updates_that_came_in_beat_overdue_timers)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "a", SEC);
	rig_update(&r, "b", SEC);
	rig_update(&r, "c", SEC);
	rig_freeze(&r, 10 * SEC);
	/* One read of the socket, all of it before the first tick. */
	r.quiet_settle = true;
	rig_expect(&r, rig_update(&r, "a", SEC), ST_UPDATED_TIMER);
	rig_expect(&r, rig_update(&r, "b", SEC), ST_UPDATED_TIMER);
	rig_expect(&r, rig_cancel(&r, "c", CANCEL_PLAIN), ST_CANCELLED);
	r.quiet_settle = false;
	rig_settle(&r);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_done(&r);
}
END_TEST

START_TEST(G15_after_a_freeze_each_runs_once_oldest_first_within_the_limit)
{
	char key[16];
	struct rig r;

	start(&r, "handler=h max_active=4");
	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof key, "%02d", (i * 7) % 50);
		rig_update(&r, key, 3 * SEC + (i * 7) % 50);
	}
	rig_pass(&r, SEC);
	rig_freeze(&r, 9 * SEC);
	rig_settle(&r);
	for (size_t i = 0; i < 50; i++) {
		ck_assert_uint_eq(rig_running_count(&r, "q"), i > 46 ? 50 - i : 4);
		snprintf(key, sizeof key, "%02d", (int)i);
		ck_assert_str_eq(r.runs[i].key, key);
		rig_finish(&r, key);
	}
	rig_pass(&r, HOUR / 2);
	ck_assert_uint_eq(r.n_runs, 50);
	rig_done(&r);
}
END_TEST

START_TEST(G15_a_turn_does_a_bounded_number_and_the_rest_in_the_next)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	const struct engine_event tick = { .kind = EV_TICK };
	char key[16];
	struct rig r;
	int turns = 0;

	cfg.turn_budget = 10;
	rig_init_config(&r, &cfg);
	rig_queue_create(&r, "q", "handler=h max_active=1000");
	for (int i = 0; i < 95; i++) {
		snprintf(key, sizeof key, "%02d", i);
		rig_update(&r, key, SEC);
	}
	rig_freeze(&r, 2 * SEC);
	while (engine_next_due(r.e, r.now) <= r.now.boot_ns) {
		effects_clear(&r.fx);
		engine_step(r.e, r.now, &tick, &r.fx);
		ck_assert_uint_le(r.fx.n, 10);
		ck_assert_int_lt(turns, 100);
		turns++;
	}
	ck_assert_int_ge(turns, 10);
	ck_assert_uint_eq(rig_queue(&r, "q").running, 95);
	rig_done(&r);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

int
main(void)
{
	Suite *s = suite_create("times");
	TCase *tc = unit_case(s, "G12");
	tcase_add_test(tc, G12_no_delay_never_passes_through_the_timer);
	tcase_add_loop_test(tc, G12_a_deadline_in_the_past_is_ready_at_once_once, 0, 2);
	tcase_add_loop_test(
		tc, G12_times_out_of_range_are_invalid_never_immediate, 0, COUNT(times));
	tcase_add_test(tc, G12_an_invalid_update_changes_nothing_of_a_pending_job);
	tc = unit_case(s, "G13");
	tcase_add_loop_test(tc, G13_relative_delays_ignore_steps_of_the_wall_clock, 0, 5);
	tcase_add_test(tc, G13_absolute_times_follow_the_wall_clock);
	tcase_add_test(tc, G13_a_step_past_an_absolute_time_runs_it_once_for_ever);
	tcase_add_test(tc, G13_a_step_keeps_the_order_of_absolute_and_relative_ones);
	tc = unit_case(s, "G15");
	tcase_add_test(tc, G15_updates_that_came_in_beat_overdue_timers);
	tcase_add_test(tc, G15_after_a_freeze_each_runs_once_oldest_first_within_the_limit);
	tcase_add_test(tc, G15_a_turn_does_a_bounded_number_and_the_rest_in_the_next);
	return unit_run(s);
}
