/*
 * Sections 4 (coalescing, payloads) and 6 (completions) of docs/semantics.md.
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

/* ---- section 4: slack ---- */

START_TEST(S4_a_target_inside_the_slack_moves_nothing)
{
	struct rig r;
	const struct answer *a;

	start(&r, "handler=h slack=1s");
	a = rig_expect(&r, rig_update(&r, "k", 10 * SEC), ST_CREATED);
	ck_assert_int_eq(a->r.deadline_wall_ns, r.now.wall_ns + 11 * SEC);
	a = rig_expect(&r, rig_update(&r, "k", 11 * SEC), ST_SKIPPED);
	ck_assert_int_eq(a->r.deadline_wall_ns, r.now.wall_ns + 11 * SEC);
	rig_expect(&r, rig_update(&r, "k", 10 * SEC), ST_SKIPPED);
	ck_assert_int_eq(left(&r, "k"), 11 * SEC);
	ck_assert_uint_eq(rig_get(&r, "k").coalesced, 2);
	rig_done(&r);
}
END_TEST

START_TEST(S4_a_target_outside_the_slack_moves)
{
	struct rig r;

	start(&r, "handler=h slack=1s");
	rig_update(&r, "k", 10 * SEC);
	rig_expect(&r, rig_update(&r, "k", 11 * SEC + 1), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 12 * SEC + 1);
	/* Earlier than the window is never skipped. */
	rig_expect(&r, rig_update(&r, "k", 11 * SEC), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 12 * SEC);
	rig_done(&r);
}
END_TEST

START_TEST(S4_without_slack_only_an_equal_deadline_is_skipped)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update(&r, "k", 10 * SEC);
	rig_expect(&r, rig_update(&r, "k", 10 * SEC), ST_SKIPPED);
	rig_expect(&r, rig_update(&r, "k", 10 * SEC - 1), ST_UPDATED_TIMER);
	rig_expect(&r, rig_update(&r, "k", 10 * SEC), ST_UPDATED_TIMER);
	rig_pass(&r, SEC);
	rig_expect(&r, rig_update(&r, "k", 9 * SEC), ST_SKIPPED);
	rig_done(&r);
}
END_TEST

START_TEST(S4_slack_of_the_request_overrides_the_queues)
{
	struct op_update op = rig_op("k", 10 * SEC);
	struct rig r;

	start(&r, "handler=h slack=1s");
	op.slack_ns = 0;
	rig_update_op(&r, &op);
	ck_assert_int_eq(left(&r, "k"), 10 * SEC);
	op.slack_ns = 5 * SEC;
	op.when_ns = 6 * SEC;
	rig_expect(&r, rig_update_op(&r, &op), ST_SKIPPED);
	op.when_ns = 5 * SEC - 1;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 10 * SEC - 1);
	rig_done(&r);
}
END_TEST

START_TEST(S4_a_skipped_update_stores_nothing)
{
	struct rig r;
	uint64_t mark;

	start(&r, "handler=h slack=1s");
	rig_update(&r, "k", 10 * SEC);
	saved_take(&r.saved, r.e, r.now, SIZE_MAX);
	mark = engine_dirty_mark(r.e);
	for (int i = 0; i < 9; i++) {
		rig_pass(&r, 100 * MS);
		rig_expect(&r, rig_update(&r, "k", 10 * SEC), ST_SKIPPED);
	}
	ck_assert_uint_eq(engine_dirty(r.e), 0);
	ck_assert_uint_eq(engine_dirty_mark(r.e), mark);
	rig_done(&r);
}
END_TEST

/* A heartbeat every 100 ms with a slack of 1 s: at most one update in ten does work. */
START_TEST(S4_slack_saves_most_of_the_work_of_a_heartbeat)
{
	struct rig r;
	unsigned moved = 0;

	start(&r, "handler=h slack=1s");
	rig_update(&r, "k", 5 * SEC);
	for (int i = 0; i < 1000; i++) {
		enum status s;

		rig_pass(&r, 100 * MS);
		s = rig_answer(&r, rig_update(&r, "k", 5 * SEC))->r.status;
		ck_assert(s == ST_SKIPPED || s == ST_UPDATED_TIMER);
		moved += s == ST_UPDATED_TIMER;
	}
	ck_assert_uint_le(moved, 100);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_pass(&r, 5 * SEC - 1);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_pass(&r, SEC + 1);
	ck_assert_uint_eq(r.n_runs, 1);
	ck_assert_uint_eq(rig_running(&r, "k")->coalesced, 1000);
	rig_done(&r);
}
END_TEST

/* ---- section 4: max_wait, align ---- */

START_TEST(S4_max_wait_bounds_a_debounce)
{
	struct rig r;
	int64_t created;

	start(&r, "handler=h max_wait=3s");
	created = r.now.boot_ns;
	rig_update(&r, "k", SEC);
	while (rig_starts(&r, "k") == 0) {
		rig_pass(&r, 400 * MS);
		if (rig_starts(&r, "k") == 0)
			rig_update(&r, "k", SEC);
	}
	ck_assert_int_eq(r.runs[0].at_ns, created + 3 * SEC);
	/* The next instance has a bound of its own. */
	rig_update(&r, "k", SEC);
	ck_assert_int_eq(left(&r, "k"), SEC);
	rig_done(&r);
}
END_TEST

START_TEST(S4_max_wait_of_the_request_overrides_the_queues)
{
	struct op_update op = rig_op("k", 2 * SEC);
	struct rig r;

	start(&r, "handler=h max_wait=3s");
	op.max_wait_ns = 0;
	rig_update_op(&r, &op);
	rig_pass(&r, SEC);
	op.when_ns = 60 * SEC;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 60 * SEC);
	rig_done(&r);
}
END_TEST

START_TEST(S4_align_rounds_up_and_spreads_unless_exact)
{
	struct rig r;
	char key[16];
	unsigned on_grid = 0;

	start(&r, "handler=h");
	for (int i = 0; i < 50; i++) {
		struct op_update op;
		int64_t deadline;

		rig_pass(&r, 37 * MS + 1);
		snprintf(key, sizeof key, "%d", i);
		op = rig_op(key, 5 * SEC + i * 777 * MS);
		op.align_ns = SEC;
		rig_update_op(&r, &op);
		deadline = rig_get(&r, key).deadline_wall_ns;
		ck_assert_int_ge(deadline, r.now.wall_ns + op.when_ns);
		ck_assert_int_lt(deadline, r.now.wall_ns + op.when_ns + SEC);
		on_grid += deadline % SEC == 0;
		/* The same key has the same offset. */
		op.when_ns += 10 * SEC;
		rig_update_op(&r, &op);
		ck_assert_int_eq((rig_get(&r, key).deadline_wall_ns - deadline) % SEC, 0);
		op.align_exact = true;
		op.when_ns += 3 * SEC;
		rig_update_op(&r, &op);
		ck_assert_int_eq(rig_get(&r, key).deadline_wall_ns % SEC, 0);
	}
	ck_assert_uint_lt(on_grid, 10);
	rig_done(&r);
}
END_TEST

/* ---- section 4: payloads ---- */

START_TEST(S4_payload_keep_replace_append)
{
	struct op_update op = rig_op("k", SEC);
	struct rig r;

	start(&r, "handler=h max_active=0");
	rig_update_payload(&r, "k", SEC, "one");
	rig_update(&r, "k", 2 * SEC);
	op.payload_mode = PAYLOAD_APPEND;
	op.payload = STR("two");
	rig_update_op(&r, &op);
	op.payload = STR("");
	rig_update_op(&r, &op);
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, 6);
	rig_pass(&r, SEC);
	op.payload = STR("three");
	op.mode = MODE_KEEP;
	ck_assert(!status_is_error(rig_answer(&r, rig_update_op(&r, &op))->r.status));
	rig_queue_set(&r, "q", "max_active=1");
	ck_assert_str_eq(rig_running(&r, "k")->payload, "one;two;;three;");
	rig_finish(&r, "k");
	rig_update(&r, "k", 0);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "");
	rig_done(&r);
}
END_TEST

START_TEST(S4_a_payload_that_differs_is_applied_where_the_timer_stays)
{
	struct op_update op = rig_op("k", SEC);
	struct rig r;

	start(&r, "handler=h slack=1s");
	op.payload_mode = PAYLOAD_REPLACE;
	op.payload = STR("one");
	rig_update_op(&r, &op);
	rig_expect(&r, rig_update_op(&r, &op), ST_SKIPPED);
	op.payload = STR("two");
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 2 * SEC);
	op.mode = MODE_KEEP;
	rig_expect(&r, rig_update_op(&r, &op), ST_UNCHANGED);
	op.payload = STR("three");
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_int_eq(left(&r, "k"), 2 * SEC);
	rig_pass(&r, 2 * SEC);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "three;");
	ck_assert_uint_eq(rig_running(&r, "k")->coalesced, 4);
	rig_done(&r);
}
END_TEST

START_TEST(S4_appending_ends_at_the_stated_limits)
{
	struct op_update op = rig_op("k", SEC);
	struct rig r;
	char *big = must_zalloc(PAYLOAD_MAX + 1);

	start(&r, "handler=h max_parts=3 max_active=0");
	op.payload_mode = PAYLOAD_APPEND;
	op.payload = STR("x");
	for (int i = 0; i < 3; i++)
		ck_assert(!status_is_error(rig_answer(&r, rig_update_op(&r, &op))->r.status));
	op.when_ns = 7 * SEC;
	rig_expect(&r, rig_update_op(&r, &op), ST_REFUSED_LIMIT);
	ck_assert_int_eq(left(&r, "k"), SEC);
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, 3);
	op.payload_mode = PAYLOAD_REPLACE;
	op.payload = (struct str){ big, PAYLOAD_MAX + 1 };
	ck_assert(status_is_error(rig_answer(&r, rig_update_op(&r, &op))->r.status));
	op.payload.n = PAYLOAD_MAX;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	op.payload_mode = PAYLOAD_APPEND;
	op.payload.n = 1;
	rig_expect(&r, rig_update_op(&r, &op), ST_REFUSED_LIMIT);
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, PAYLOAD_MAX);
	op.payload_mode = PAYLOAD_REPLACE;
	op.payload.n = PAYLOAD_MAX - 1;
	rig_update_op(&r, &op);
	op.payload_mode = PAYLOAD_APPEND;
	op.payload.n = 1;
	rig_expect(&r, rig_update_op(&r, &op), ST_UPDATED_TIMER);
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, PAYLOAD_MAX);
	rig_done(&r);
	x_free(big);
}
END_TEST

/* ---- section 6 ---- */

START_TEST(S6_each_waiter_gets_exactly_one_result_late_ones_the_kept)
{
	struct rig r;
	uint64_t early[50], late;

	start(&r, "handler=h");
	rig_update(&r, "k", SEC);
	for (int i = 0; i < 50; i++)
		early[i] = rig_wait(&r, "k", i % 2);
	rig_abandon(&r, early[7]);
	rig_pass(&r, 2 * SEC);
	for (int i = 0; i < 50; i++)
		rig_expect_waits(&r, early[i]);
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	for (int i = 0; i < 50; i++) {
		if (i == 7) {
			rig_expect_waits(&r, early[i]);
			continue;
		}
		ck_assert_uint_eq(rig_expect(&r, early[i], ST_OK)->run.generation, 1);
	}
	late = rig_wait(&r, "k", 1);
	ck_assert_int_eq(rig_expect(&r, late, ST_OK)->run.outcome, RUN_FAILED);
	ck_assert_str_eq(rig_answer(&r, late)->output, "out");
	ck_assert_int_eq(rig_answer(&r, late)->run.exit_code, 1);
	rig_done(&r);
}
END_TEST

START_TEST(S6_wait_names_one_generation)
{
	struct rig r;
	uint64_t second;

	start(&r, "handler=h");
	rig_expect(&r, rig_wait(&r, "k", 0), ST_NOT_FOUND);
	rig_update(&r, "k", 0);
	rig_update(&r, "k", 0);
	second = rig_wait(&r, "k", 2);
	rig_expect(&r, rig_wait(&r, "k", 3), ST_NOT_FOUND);
	rig_finish(&r, "k");
	rig_expect_waits(&r, second);
	ck_assert_uint_eq(rig_expect(&r, rig_wait(&r, "k", 1), ST_OK)->run.generation, 1);
	rig_finish(&r, "k");
	ck_assert_uint_eq(rig_expect(&r, second, ST_OK)->run.generation, 2);
	ck_assert_uint_eq(rig_expect(&r, rig_wait(&r, "k", 0), ST_OK)->run.generation, 2);
	rig_done(&r);
}
END_TEST

START_TEST(S6_a_wait_that_timed_out_takes_nothing_away)
{
	struct op_wait look = { .job = rig_name("k") }, limited = look;
	struct rig r;
	uint64_t timed, other;

	start(&r, "handler=h");
	limited.timeout_ns = SEC;
	rig_update(&r, "k", 5 * SEC);
	rig_expect(&r, rig_send(&r, EV_WAIT, &look, 0), ST_TIMEOUT);
	timed = rig_send(&r, EV_WAIT, &limited, 0);
	other = rig_wait(&r, "k", 0);
	rig_pass(&r, SEC);
	rig_expect(&r, timed, ST_TIMEOUT);
	rig_pass(&r, 4 * SEC);
	rig_finish(&r, "k");
	rig_expect(&r, other, ST_OK);
	rig_expect(&r, rig_send(&r, EV_WAIT, &look, 0), ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(S6_waking_many_never_holds_up_the_loop)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct run_end end = { .outcome = RUN_DONE };
	struct engine_event ev = { .kind = EV_RUN_ENDED, .run_end = &end };
	uint64_t first;
	struct rig r;

	cfg.turn_budget = 10;
	rig_init_config(&r, &cfg);
	rig_queue_create(&r, "q", "handler=h");
	rig_update(&r, "k", 0);
	first = r.last_ticket + 1;
	for (int i = 0; i < 95; i++)
		rig_wait(&r, "k", 1);
	end.run_id = rig_running(&r, "k")->id;
	for (uint64_t next = first; next < first + 95;) {
		effects_clear(&r.fx);
		engine_step(r.e, r.now, &ev, &r.fx);
		ck_assert_uint_le(r.fx.n, 10);
		for (size_t i = 0; i < r.fx.n; i++)
			ck_assert_uint_eq(r.fx.v[i].ticket, next++);
		ck_assert(next == first + 95 || engine_next_due(r.e, r.now) <= r.now.boot_ns);
		ev = (struct engine_event){ .kind = EV_TICK };
	}
	rig_settle(&r);
	rig_done(&r);
}
END_TEST

START_TEST(S6_a_waiter_of_an_instance_taken_away_is_told)
{
	static const enum engine_event_kind how[] = { EV_CANCEL, EV_DISABLE, EV_DELETE };
	struct rig r;
	uint64_t wait, flush;

	start(&r, "handler=h max_active=0");
	rig_update(&r, "k", 0);
	wait = rig_wait(&r, "k", 1);
	flush = rig_flush(&r, "k", false);
	if (how[_i] == EV_CANCEL)
		rig_cancel(&r, "k", CANCEL_PLAIN);
	else
		rig_job(&r, how[_i], "k");
	ck_assert_ptr_null(rig_expect(&r, wait, ST_CANCELLED)->r.run);
	ck_assert_ptr_nonnull(rig_answer(&r, flush));
	ck_assert(!status_is_error(rig_answer(&r, flush)->r.status));
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("coalescing");
	TCase *tc = unit_case(s, "section 4");

	tcase_add_test(tc, S4_a_target_inside_the_slack_moves_nothing);
	tcase_add_test(tc, S4_a_target_outside_the_slack_moves);
	tcase_add_test(tc, S4_without_slack_only_an_equal_deadline_is_skipped);
	tcase_add_test(tc, S4_slack_of_the_request_overrides_the_queues);
	tcase_add_test(tc, S4_a_skipped_update_stores_nothing);
	tcase_add_test(tc, S4_slack_saves_most_of_the_work_of_a_heartbeat);
	tcase_add_test(tc, S4_max_wait_bounds_a_debounce);
	tcase_add_test(tc, S4_max_wait_of_the_request_overrides_the_queues);
	tcase_add_test(tc, S4_align_rounds_up_and_spreads_unless_exact);
	tcase_add_test(tc, S4_payload_keep_replace_append);
	tcase_add_test(tc, S4_a_payload_that_differs_is_applied_where_the_timer_stays);
	tcase_add_test(tc, S4_appending_ends_at_the_stated_limits);
	tc = unit_case(s, "section 6");
	tcase_add_test(tc, S6_each_waiter_gets_exactly_one_result_late_ones_the_kept);
	tcase_add_test(tc, S6_wait_names_one_generation);
	tcase_add_test(tc, S6_a_wait_that_timed_out_takes_nothing_away);
	tcase_add_test(tc, S6_waking_many_never_holds_up_the_loop);
	tcase_add_loop_test(tc, S6_a_waiter_of_an_instance_taken_away_is_told, 0, 3);
	return unit_run(s);
}
