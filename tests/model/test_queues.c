/*
 * The guarantees G10 and G11 of docs/semantics.md: draining, limits and pauses of
 * queues.
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

/* ---- G10 ---- */

START_TEST(G10_drain_refuses_newcomers_and_takes_what_its_own_runs_requeue)
{
	struct op_update own = rig_op("a", 0), sibling = rig_op("new", 0);
	struct rig r;
	uint64_t drain, token;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	ck_assert(rig_queue(&r, "q").draining);
	rig_expect(&r, rig_update(&r, "c", 0), ST_REFUSED_DRAINING);
	rig_expect(&r, rig_update(&r, "c", SEC), ST_REFUSED_DRAINING);
	ck_assert_str_eq(rig_state(&r, "c"), "-");
	rig_expect(&r, rig_update(&r, "a", 0), ST_REFUSED_DRAINING);
	token = rig_running(&r, "a")->token;
	rig_expect(&r, rig_send(&r, EV_UPDATE, &own, token), ST_REQUEUED_RUNNING);
	rig_expect(&r, rig_send(&r, EV_UPDATE, &sibling, token), ST_CREATED);
	rig_finish(&r, "a");
	rig_finish(&r, "b");
	rig_finish(&r, "a");
	rig_expect_waits(&r, drain);
	rig_finish(&r, "new");
	rig_expect(&r, drain, ST_OK);
	ck_assert(!rig_queue(&r, "q").draining);
	rig_expect(&r, rig_update(&r, "c", 0), ST_CREATED);
	ck_assert_ptr_nonnull(rig_running(&r, "c"));
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_waits_for_what_its_own_runs_kick)
{
	struct op_job own = { .job = rig_name("t1") };
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "a", 0);
	rig_update(&r, "t1", HOUR);
	rig_update(&r, "t2", HOUR);
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_expect(&r, rig_send(&r, EV_KICK, &own, rig_running(&r, "a")->token), ST_UPDATED_TIMER);
	rig_expect(&r, rig_job(&r, EV_KICK, "t2"), ST_UPDATED_TIMER);
	rig_finish(&r, "a");
	rig_expect_waits(&r, drain);
	rig_finish(&r, "t1");
	rig_expect(&r, drain, ST_OK);
	ck_assert_ptr_nonnull(rig_running(&r, "t2"));
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_of_a_queue_with_nothing_to_do_ends_at_once)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "timer", SEC);
	rig_expect(&r, rig_drain(&r, "q", TIMERS_KEEP, false), ST_OK);
	ck_assert(!rig_queue(&r, "q").draining);
	rig_expect(&r, rig_update(&r, "c", 0), ST_CREATED);
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_keeps_timers_and_those_that_expire_wait_as_held)
{
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=8");
	rig_update(&r, "a", 0);
	rig_update(&r, "soon", SEC);
	rig_update(&r, "far", 60 * SEC);
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_pass(&r, 2 * SEC);
	ck_assert_int_eq(rig_get(&r, "soon").state, JOB_HELD);
	rig_finish(&r, "a");
	rig_expect(&r, drain, ST_OK);
	ck_assert_ptr_nonnull(rig_running(&r, "soon"));
	ck_assert_str_eq(rig_state(&r, "far"), "A");
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_expedites_timers)
{
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=8");
	rig_update(&r, "x", 60 * SEC);
	rig_update(&r, "y", 30 * SEC);
	drain = rig_drain(&r, "q", TIMERS_EXPEDITE, false);
	rig_expect_waits(&r, drain);
	/* In the order of their deadlines. */
	ck_assert_str_eq(rig_order(&r), "y x ");
	rig_finish(&r, "x");
	rig_expect_waits(&r, drain);
	rig_finish(&r, "y");
	rig_expect(&r, drain, ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_cancels_timers)
{
	struct rig r;
	uint64_t drain, wait;

	start(&r, "handler=h max_active=8");
	rig_update(&r, "a", 0);
	rig_update(&r, "x", 60 * SEC);
	wait = rig_wait(&r, "x", 0);
	drain = rig_drain(&r, "q", TIMERS_CANCEL, false);
	rig_expect(&r, wait, ST_CANCELLED);
	rig_expect_waits(&r, drain);
	rig_finish(&r, "a");
	rig_expect(&r, drain, ST_OK);
	rig_pass(&r, 100 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "x"), 0);
	ck_assert_uint_eq(rig_queue(&r, "q").armed, 0);
	rig_done(&r);
}
END_TEST

START_TEST(G10_drain_can_leave_the_queue_paused_before_anything_starts)
{
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=8");
	rig_update(&r, "a", 0);
	rig_update(&r, "soon", SEC);
	drain = rig_drain(&r, "q", TIMERS_KEEP, true);
	rig_pass(&r, 2 * SEC);
	rig_finish(&r, "a");
	rig_expect(&r, drain, ST_OK);
	ck_assert(rig_queue(&r, "q").paused);
	ck_assert_ptr_null(rig_running(&r, "soon"));
	rig_resume(&r, "q");
	ck_assert_ptr_nonnull(rig_running(&r, "soon"));
	rig_done(&r);
}
END_TEST

START_TEST(G10_an_abandoned_or_timed_out_drain_is_undone)
{
	struct op_drain op = { .queue = STR("q"), .timeout_ns = SEC };
	struct rig r;
	uint64_t timed, other;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "a", 0);
	rig_update(&r, "soon", SEC / 2);
	timed = rig_send(&r, EV_DRAIN, &op, 0);
	other = rig_drain(&r, "q", TIMERS_KEEP, true);
	rig_pass(&r, SEC);
	rig_expect(&r, timed, ST_TIMEOUT);
	rig_expect(&r, rig_update(&r, "b", 0), ST_REFUSED_DRAINING);
	rig_abandon(&r, other);
	ck_assert(!rig_queue(&r, "q").draining);
	ck_assert(!rig_queue(&r, "q").paused);
	rig_expect(&r, rig_update(&r, "b", 0), ST_CREATED);
	rig_finish(&r, "a");
	rig_finish(&r, "soon");
	rig_finish(&r, "b");
	rig_expect_waits(&r, other);
	rig_done(&r);
}
END_TEST

START_TEST(G10_what_was_held_by_an_undone_drain_keeps_its_place)
{
	struct op_update own = rig_op("own", 0);
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "a", 0);
	rig_update(&r, "before", 0);
	rig_update(&r, "t1", SEC);
	rig_update(&r, "t2", 3 * SEC);
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_pass(&r, 2 * SEC);
	rig_send(&r, EV_UPDATE, &own, rig_running(&r, "a")->token);
	rig_pass(&r, 2 * SEC);
	rig_abandon(&r, drain);
	for (int i = 0; i < 5; i++)
		rig_finish(&r, r.runs[i].key);
	ck_assert_str_eq(rig_order(&r), "a before t1 own t2 ");
	rig_done(&r);
}
END_TEST

START_TEST(G10_drains_overlap)
{
	struct rig r;
	uint64_t first, second;

	start(&r, "handler=h max_active=1");
	rig_update(&r, "a", 0);
	first = rig_drain(&r, "q", TIMERS_KEEP, false);
	second = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_finish(&r, "a");
	rig_expect(&r, first, ST_OK);
	rig_expect(&r, second, ST_OK);
	rig_expect(&r, rig_update(&r, "b", 0), ST_CREATED);
	rig_done(&r);
}
END_TEST

/* A retry that waits on the timer when a drain begins, or comes to be during it, is a timer. */
START_TEST(G10_nothing_is_stuck_when_a_run_fails_during_a_drain)
{
	struct rig r;
	uint64_t drain;

	start(&r, "handler=h max_active=1 max_attempts=2 retry_delay=1s");
	rig_update(&r, "a", 0);
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_end_run(&r, rig_running(&r, "a"), RUN_FAILED);
	rig_pass(&r, 2 * SEC);
	rig_expect(&r, drain, ST_OK);
	ck_assert_uint_eq(rig_running(&r, "a")->attempt, 2);
	rig_finish(&r, "a");
	rig_done(&r);
}
END_TEST

START_TEST(G10_destroy_refuses_while_timers_exist_unless_told_what_to_do)
{
	struct rig r;
	uint64_t destroy;

	start(&r, "handler=h");
	rig_update(&r, "x", 60 * SEC);
	rig_expect(&r, rig_queue_delete(&r, "q", TIMERS_KEEP), ST_INVALID);
	ck_assert_str_eq(rig_state(&r, "x"), "A");
	rig_update(&r, "run", 0);
	destroy = rig_queue_delete(&r, "q", _i ? TIMERS_EXPEDITE : TIMERS_CANCEL);
	rig_expect_waits(&r, destroy);
	rig_expect(&r, rig_update(&r, "new", 0), ST_REFUSED_DRAINING);
	rig_finish(&r, "run");
	if (_i) {
		rig_expect_waits(&r, destroy);
		rig_finish(&r, "x");
	}
	rig_expect(&r, destroy, ST_OK);
	ck_assert_uint_eq(rig_starts(&r, "x"), (size_t)_i);
	rig_expect(&r, rig_update(&r, "new", 0), ST_NOT_FOUND);
	rig_expect(&r, rig_queue_create(&r, "q", ""), ST_OK);
	ck_assert_str_eq(rig_state(&r, "x"), "-");
	rig_done(&r);
}
END_TEST

START_TEST(G10_the_default_queue_is_always_there)
{
	struct rig r;

	rig_init(&r);
	rig_expect(&r, rig_queue_delete(&r, "default", TIMERS_CANCEL), ST_INVALID);
	rig_expect(&r, rig_queue_create(&r, "default", ""), ST_EXISTS);
	rig_expect(&r, rig_update(&r, "/k", 0), ST_CREATED);
	ck_assert_uint_eq(rig_get(&r, "default/k").last->generation, 1);
	ck_assert_int_eq(rig_get(&r, "default/k").last->outcome, RUN_DONE);
	rig_done(&r);
}
END_TEST

/* ---- G11 ---- */

static void
fill(struct rig *r, int n)
{
	char key[16];

	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof key, "%02d", i);
		rig_update(r, key, 0);
	}
}

START_TEST(G11_raised_held_items_start_at_once_oldest_first)
{
	struct rig r;

	start(&r, "handler=h max_active=0");
	fill(&r, 6);
	ck_assert_uint_eq(rig_queue(&r, "q").held, 6);
	ck_assert_uint_eq(rig_queue(&r, "q").running, 0);
	rig_expect(&r, rig_queue_set(&r, "q", "max_active=4"), ST_OK);
	ck_assert_str_eq(rig_order(&r), "00 01 02 03 ");
	rig_queue_set(&r, "q", "max_active=5");
	ck_assert_str_eq(rig_order(&r), "00 01 02 03 04 ");
	rig_done(&r);
}
END_TEST

START_TEST(G11_lowered_nothing_is_killed_and_starts_wait)
{
	struct rig r;

	start(&r, "handler=h max_active=4");
	fill(&r, 6);
	rig_expect(&r, rig_queue_set(&r, "q", "max_active=2"), ST_OK);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 4);
	ck_assert(!rig_running(&r, "00")->killed);
	rig_finish(&r, "03");
	rig_finish(&r, "00");
	ck_assert_uint_eq(rig_running_count(&r, "q"), 2);
	rig_finish(&r, "01");
	ck_assert_str_eq(rig_order(&r), "00 01 02 03 04 ");
	rig_finish(&r, "02");
	ck_assert_str_eq(rig_order(&r), "00 01 02 03 04 05 ");
	rig_done(&r);
}
END_TEST

START_TEST(G11_pause_stops_starts_and_timers_expire_into_held)
{
	struct rig r;

	start(&r, "handler=h max_active=2");
	rig_update(&r, "run", 0);
	rig_update(&r, "t2", 2 * SEC);
	rig_update(&r, "t1", SEC);
	rig_expect(&r, rig_pause(&r, "q"), ST_OK);
	rig_update(&r, "new", 0);
	rig_pass(&r, 5 * SEC);
	ck_assert(!rig_running(&r, "run")->killed);
	rig_finish(&r, "run");
	ck_assert_uint_eq(rig_queue(&r, "q").held, 3);
	ck_assert_int_eq(rig_get(&r, "t1").state, JOB_HELD);
	rig_expect(&r, rig_pause(&r, "q"), ST_OK);
	rig_expect(&r, rig_resume(&r, "q"), ST_OK);
	rig_finish(&r, "new");
	ck_assert_str_eq(rig_order(&r), "run new t1 t2 ");
	rig_expect(&r, rig_resume(&r, "q"), ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(G11_cancelling_a_held_item_frees_no_slot)
{
	struct rig r;

	start(&r, "handler=h max_active=2");
	fill(&r, 5);
	rig_expect(&r, rig_cancel(&r, "02", CANCEL_PLAIN), ST_CANCELLED);
	rig_expect(&r, rig_update(&r, "03", SEC), ST_UPDATED_READY);
	rig_pass(&r, 2 * SEC);
	ck_assert_str_eq(rig_order(&r), "00 01 ");
	rig_finish(&r, "00");
	rig_finish(&r, "01");
	ck_assert_str_eq(rig_order(&r), "00 01 04 03 ");
	rig_done(&r);
}
END_TEST

START_TEST(G11_one_queue_does_not_hold_another_back)
{
	struct rig r;

	start(&r, "handler=h max_active=1");
	rig_queue_create(&r, "p", "handler=h max_active=1");
	fill(&r, 5);
	rig_update(&r, "p/k", 0);
	ck_assert_ptr_nonnull(rig_running(&r, "p/k"));
	rig_done(&r);
}
END_TEST

START_TEST(G11_without_memory_starts_wait_and_nobody_spins)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", SEC);
	rig_freeze(&r, SEC);
	alloc_fault_set(0, 1);
	rig_settle(&r);
	ck_assert_int_eq(engine_next_due(r.e, r.now), r.now.boot_ns + SEC);
	rig_pass(&r, 10 * SEC);
	ck_assert_ptr_null(rig_running(&r, "k"));
	ck_assert_str_eq(rig_state(&r, "k"), "Q");
	alloc_fault_set(-1, 0);
	rig_pass(&r, SEC);
	ck_assert_ptr_nonnull(rig_running(&r, "k"));
	rig_done(&r);
}
END_TEST

/* The limit of all queues together: 100 000 ready jobs delay another queue by one turn at most. */
START_TEST(G11_queues_take_turns_under_the_limit_of_all)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct rig r;

	cfg.max_runs = 2;
	rig_init_config(&r, &cfg);
	rig_queue_create(&r, "q", "handler=h max_active=10");
	rig_queue_create(&r, "p", "handler=h max_active=10");
	fill(&r, 8);
	rig_update(&r, "p/a", 0);
	rig_update(&r, "p/b", 0);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 2);
	rig_finish(&r, "00");
	rig_finish(&r, "01");
	ck_assert_ptr_nonnull(rig_running(&r, "p/a"));
	ck_assert_uint_eq(rig_running_count(&r, "q") + rig_running_count(&r, "p"), 2);
	while (rig_running(&r, "p/a") || rig_get(&r, "p/b").state != JOB_IDLE) {
		for (size_t i = 0; i < r.n_runs; i++)
			if (r.runs[i].going)
				rig_end_run(&r, &r.runs[i], RUN_DONE);
		ck_assert_uint_le(r.n_runs, 10);
	}
	rig_done(&r);
}
END_TEST

static uint64_t
wait_from(struct rig *r, const char *from, const char *job, int64_t timeout_ns)
{
	struct op_wait op = { .job = rig_name(job), .timeout_ns = timeout_ns };

	return rig_send(r, EV_WAIT, &op, rig_running(r, from)->token);
}

static void
start_all(struct rig *r, const char *const *jobs)
{
	for (; *jobs; jobs++)
		rig_update(r, *jobs, 0);
}

/* Runs that fill a queue and all wait for jobs of it would wait for ever: the last is refused. */
START_TEST(a_full_queue_is_not_let_wait_for_itself)
{
	static const char *const one[] = { "one/a", "one/b", NULL };
	static const char *const two[] = { "two/a", "two/b", "two/c", "two/d", NULL };
	uint64_t w;
	struct rig r;

	rig_init(&r);
	rig_queue_create(&r, "one", "handler=h max_active=1");
	rig_queue_create(&r, "two", "handler=h max_active=2");
	start_all(&r, one);
	rig_expect(&r, wait_from(&r, "one/a", "one/b", -1), ST_REFUSED_LIMIT);
	w = wait_from(&r, "one/a", "one/b", SEC);
	rig_expect_waits(&r, w);
	rig_finish(&r, "one/a");
	rig_finish(&r, "one/b");
	rig_expect(&r, w, ST_OK);
	start_all(&r, two);
	w = wait_from(&r, "two/a", "two/c", -1);
	rig_expect_waits(&r, w);
	rig_expect(&r, wait_from(&r, "two/b", "two/d", -1), ST_REFUSED_LIMIT);
	rig_abandon(&r, w);
	w = wait_from(&r, "two/b", "two/d", -1);
	rig_expect_waits(&r, w);
	rig_expect(&r, wait_from(&r, "two/a", "two/c", -1), ST_REFUSED_LIMIT);
	rig_finish(&r, "two/a");
	rig_finish(&r, "two/c");
	rig_finish(&r, "two/d");
	rig_expect(&r, w, ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(nor_are_all_runs_that_max_runs_allows)
{
	static const char *const jobs[] = { "p/a", "q/b", "p/c", "q/d", NULL };
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct op_flush now = { .now = true, .timeout_ns = -1, .job = rig_name("q/e") };
	uint64_t w, v;
	struct rig r;

	cfg.max_runs = 2;
	rig_init_config(&r, &cfg);
	rig_queue_create(&r, "p", "handler=h");
	rig_queue_create(&r, "q", "handler=h");
	rig_queue_create(&r, "none", "");
	start_all(&r, jobs);
	ck_assert_uint_eq(rig_running_count(&r, "p") + rig_running_count(&r, "q"), 2);
	w = wait_from(&r, "p/a", "q/d", -1);
	rig_expect_waits(&r, w);
	rig_expect(&r, wait_from(&r, "q/b", "p/c", -1), ST_REFUSED_LIMIT);
	rig_update(&r, "q/e", SEC);
	rig_expect(
		&r, rig_send(&r, EV_FLUSH, &now, rig_running(&r, "q/b")->token), ST_REFUSED_LIMIT);
	ck_assert_str_eq(rig_state(&r, "q/e"), "A");
	/* What needs none of the two to end comes true. */
	rig_update(&r, "none/f", SEC);
	v = wait_from(&r, "q/b", "none/f", -1);
	rig_pass(&r, SEC);
	rig_expect(&r, v, ST_OK);
	rig_finish(&r, "q/b");
	while (!rig_answer(&r, w))
		rig_finish(&r,
			rig_running(&r, "p/c")           ? "p/c"
				: rig_running(&r, "q/d") ? "q/d"
							 : "q/e");
	rig_expect(&r, w, ST_OK);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("queues");
	TCase *tc = unit_case(s, "G10");

	tcase_add_test(tc, G10_drain_refuses_newcomers_and_takes_what_its_own_runs_requeue);
	tcase_add_test(tc, G10_drain_waits_for_what_its_own_runs_kick);
	tcase_add_test(tc, G10_drain_of_a_queue_with_nothing_to_do_ends_at_once);
	tcase_add_test(tc, G10_drain_keeps_timers_and_those_that_expire_wait_as_held);
	tcase_add_test(tc, G10_drain_expedites_timers);
	tcase_add_test(tc, G10_drain_cancels_timers);
	tcase_add_test(tc, G10_drain_can_leave_the_queue_paused_before_anything_starts);
	tcase_add_test(tc, G10_an_abandoned_or_timed_out_drain_is_undone);
	tcase_add_test(tc, G10_what_was_held_by_an_undone_drain_keeps_its_place);
	tcase_add_test(tc, G10_drains_overlap);
	tcase_add_test(tc, G10_nothing_is_stuck_when_a_run_fails_during_a_drain);
	tcase_add_loop_test(
		tc, G10_destroy_refuses_while_timers_exist_unless_told_what_to_do, 0, 2);
	tcase_add_test(tc, G10_the_default_queue_is_always_there);
	tc = unit_case(s, "G11");
	tcase_add_test(tc, G11_raised_held_items_start_at_once_oldest_first);
	tcase_add_test(tc, G11_lowered_nothing_is_killed_and_starts_wait);
	tcase_add_test(tc, G11_pause_stops_starts_and_timers_expire_into_held);
	tcase_add_test(tc, G11_cancelling_a_held_item_frees_no_slot);
	tcase_add_test(tc, G11_one_queue_does_not_hold_another_back);
	tcase_add_test(tc, G11_without_memory_starts_wait_and_nobody_spins);
	tcase_add_test(tc, G11_queues_take_turns_under_the_limit_of_all);
	tcase_add_test(tc, a_full_queue_is_not_let_wait_for_itself);
	tcase_add_test(tc, nor_are_all_runs_that_max_runs_allows);
	return unit_run(s);
}
