/*
 * Recovery: misfire policies, interrupted runs, a lack of memory, damage.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
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

/* ---- misfire ---- */

START_TEST(misfire_run_once_oldest_first_paced_by_max_active)
{
	struct rig r;

	start(&r, "handler=h max_active=2 misfire=run");
	rig_update(&r, "c", 30 * SEC);
	rig_update(&r, "a", 10 * SEC);
	rig_update(&r, "b", 20 * SEC);
	rig_update(&r, "d", 200 * SEC);
	rig_restart(&r, 100 * SEC, SAME_BOOT);
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_finish(&r, "b");
	ck_assert_str_eq(rig_order(&r), "a b c ");
	ck_assert_str_eq(rig_state(&r, "d"), "A");
	ck_assert_uint_eq(rig_running(&r, "c")->coalesced, 0);
	rig_done(&r);
}
END_TEST

START_TEST(misfire_skip_drops_what_was_missed)
{
	struct engine_stats st;
	struct rig r;

	start(&r, "handler=h misfire=skip");
	rig_update(&r, "a", 10 * SEC);
	rig_update(&r, "b", 101 * SEC);
	rig_restart(&r, 100 * SEC, SAME_BOOT);
	rig_pass(&r, 10 * SEC);
	ck_assert_str_eq(rig_order(&r), "b ");
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.misfires_skipped, 1);
	/* Nor does it come back later. */
	rig_finish(&r, "b");
	rig_forget(&r);
	rig_restart(&r, SEC, SAME_BOOT);
	rig_pass(&r, 500 * SEC);
	ck_assert_uint_eq(r.n_runs, 0);
	rig_done(&r);
}
END_TEST

START_TEST(misfire_rearm_gives_the_full_delay_from_the_restart)
{
	struct op_update op = rig_op("absolute", 0);
	struct rig r;

	start(&r, "handler=h misfire=rearm");
	rig_update_payload(&r, "a", 10 * SEC, "p");
	rig_update(&r, "b", 150 * SEC);
	op.absolute = true;
	op.when_ns = r.now.wall_ns + 10 * SEC;
	rig_update_op(&r, &op);
	rig_restart(&r, 100 * SEC, SAME_BOOT);
	ck_assert_int_eq(rig_get(&r, "a").deadline_wall_ns, r.now.wall_ns + 10 * SEC);
	ck_assert_int_eq(rig_get(&r, "b").deadline_wall_ns, r.now.wall_ns + 50 * SEC);
	ck_assert_ptr_nonnull(rig_running(&r, "absolute"));
	rig_pass(&r, 10 * SEC);
	ck_assert_str_eq(rig_running(&r, "a")->payload, "p;");
	rig_done(&r);
}
END_TEST

START_TEST(misfire_is_about_armed_jobs_ready_ones_always_run)
{
	struct rig r;

	start(&r, "handler=h max_active=0 misfire=skip");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", SEC);
	rig_pass(&r, 2 * SEC);
	rig_restart(&r, 100 * SEC, SAME_BOOT);
	rig_queue_set(&r, "q", "max_active=5");
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_done(&r);
}
END_TEST

/* Away for less than the time to the deadline: nothing was missed. */
START_TEST(misfire_has_no_say_in_what_was_not_missed)
{
	struct rig r;

	start(&r, "handler=h misfire=skip");
	rig_update(&r, "a", 10 * SEC);
	rig_restart(&r, 9 * SEC, SAME_BOOT);
	rig_restart(&r, SEC / 2, SAME_BOOT);
	rig_pass(&r, SEC / 2);
	ck_assert_uint_eq(rig_starts(&r, "a"), 1);
	rig_done(&r);
}
END_TEST

/* ---- interrupted runs ---- */

START_TEST(an_interrupted_run_is_recorded_and_run_again_at_once)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update_payload(&r, "k", 0, "p");
	rig_update(&r, "k", 0); /* REQUEUED, pending beside the run in the second round */
	rig_cancel(&r, "k", CANCEL_PLAIN);
	rig_restart(&r, 5 * SEC, SAME_BOOT);
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 1);
	ck_assert_uint_eq(rig_running(&r, "k")->attempt, 2);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "p;");
	ck_assert_int_eq(rig_get(&r, "k").last->outcome, RUN_INTERRUPTED);
	ck_assert(!rig_get(&r, "k").last->final);
	rig_finish(&r, "k");
	ck_assert_int_eq(rig_get(&r, "k").last->outcome, RUN_DONE);
	rig_pass(&r, 60 * SEC);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 0);
	rig_done(&r);
}
END_TEST

START_TEST(a_run_that_is_always_interrupted_dies)
{
	struct rig r;

	start(&r, "handler=h max_interrupts=3");
	rig_update_payload(&r, "k", 0, "p");
	for (int i = 0; i < 3; i++) {
		rig_restart(&r, SEC, SAME_BOOT);
		ck_assert_ptr_nonnull(rig_running(&r, "k"));
	}
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_ptr_null(rig_running(&r, "k"));
	ck_assert(rig_get(&r, "k").dead);
	ck_assert_int_eq(rig_get(&r, "k").last->outcome, RUN_DEAD);
	rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_CREATED);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "p;");
	rig_done(&r);
}
END_TEST

START_TEST(an_interrupted_run_gives_way_to_what_was_requested_meanwhile)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update_payload(&r, "k", 0, "old");
	rig_update_payload(&r, "k", 30 * SEC, "new");
	rig_restart(&r, SEC, SAME_BOOT);
	rig_pass(&r, 30 * SEC);
	/* Either runs the old one again first or not: the new payload is what counts. */
	while (strcmp(rig_running(&r, "k")->payload, "new;") != 0) {
		rig_finish(&r, "k");
		rig_pass(&r, 30 * SEC);
		ck_assert_ptr_nonnull(rig_running(&r, "k"));
	}
	rig_done(&r);
}
END_TEST

/* Through several restarts: what was running was there before what was held. */
START_TEST(interrupted_runs_go_on_in_their_order_before_what_was_behind)
{
	struct rig r;

	start(&r, "handler=h max_active=3");
	rig_update(&r, "c", 0);
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "y", 0);
	rig_update(&r, "a", 0); /* again: behind y */
	rig_update(&r, "x", 0);
	rig_queue_set(&r, "q", "max_active=0");
	for (int i = 0; i < 3; i++)
		rig_restart(&r, SEC, SAME_BOOT);
	rig_queue_set(&r, "q", "max_active=9");
	ck_assert_str_eq(rig_order(&r), "c a b c b y a x ");
	rig_done(&r);
}
END_TEST

START_TEST(a_deleted_job_is_not_run_again_after_the_restart)
{
	struct rig r;

	start(&r, "handler=h");
	rig_update_payload(&r, "k", 0, "old");
	rig_update(&r, "again", 0);
	rig_update(&r, "off", 0);
	rig_job(&r, EV_DISABLE, "off");
	rig_job(&r, EV_DELETE, "k");
	rig_job(&r, EV_DELETE, "again");
	rig_job(&r, EV_DELETE, "off");
	rig_update_payload(&r, "again", SEC, "new");
	rig_forget(&r);
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_str_eq(rig_state(&r, "k"), "-");
	ck_assert_str_eq(rig_state(&r, "off"), "X");
	rig_pass(&r, 10 * SEC);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 1);
	ck_assert_str_eq(rig_running(&r, "again")->payload, "new;");
	rig_done(&r);
}
END_TEST

START_TEST(a_retry_and_a_dead_job_survive)
{
	struct rig r;

	start(&r, "handler=h max_attempts=2 retry_delay=10s");
	rig_update_payload(&r, "retry", 0, "r");
	rig_update_payload(&r, "dead", 0, "d");
	rig_end_run(&r, rig_running(&r, "dead"), RUN_FAILED);
	rig_pass(&r, 10 * SEC);
	rig_end_run(&r, rig_running(&r, "dead"), RUN_FAILED);
	rig_end_run(&r, rig_running(&r, "retry"), RUN_FAILED);
	rig_forget(&r);
	rig_restart(&r, 4 * SEC, SAME_BOOT);
	ck_assert(rig_get(&r, "dead").dead);
	ck_assert_int_eq(rig_get(&r, "retry").deadline_wall_ns, r.now.wall_ns + 6 * SEC);
	rig_pass(&r, 6 * SEC);
	ck_assert_uint_eq(rig_running(&r, "retry")->attempt, 2);
	ck_assert_uint_eq(rig_running(&r, "retry")->generation, 1);
	ck_assert_str_eq(rig_running(&r, "retry")->payload, "r;");
	rig_expect(&r, rig_job(&r, EV_KICK, "dead"), ST_CREATED);
	ck_assert_str_eq(rig_running(&r, "dead")->payload, "d;");
	rig_done(&r);
}
END_TEST

START_TEST(a_stopping_engine_starts_nothing_and_forgets_nothing)
{
	const struct engine_event stop = { .kind = EV_STOP };
	struct rig r;

	start(&r, "handler=h max_active=2");
	rig_update(&r, "a", 0);
	rig_update(&r, "b", 0);
	rig_update(&r, "c", 0);
	rig_update(&r, "t", SEC);
	effects_clear(&r.fx);
	engine_step(r.e, r.now, &stop, &r.fx);
	rig_finish(&r, "a");
	rig_pass(&r, 2 * SEC);
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_end_run(&r, rig_running(&r, "b"), RUN_INTERRUPTED);
	rig_pass(&r, 2 * SEC);
	rig_forget(&r);
	rig_restart(&r, SEC, SAME_BOOT);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 2);
	for (int i = 0; i < 3; i++)
		rig_finish(&r, r.runs[i].key);
	ck_assert_uint_eq(rig_starts(&r, "a"), 0);
	ck_assert_uint_eq(rig_starts(&r, "b"), 1);
	ck_assert_uint_eq(rig_starts(&r, "c"), 1);
	ck_assert_uint_eq(rig_starts(&r, "t"), 1);
	rig_done(&r);
}
END_TEST

/* ---- damaged input ---- */

/* States that no engine writes. */
START_TEST(a_job_that_can_not_be_is_damage)
{
	static const struct job_saved bad[] = {
		{ .pending = JOB_RUNNING },
		{ .pending = JOB_HELD },
		{ .pending = JOB_ARMED, .disable_depth = 1 },
		{ .pending = JOB_READY, .disable_depth = 1 },
		{ .pending = JOB_ARMED, .dead = true },
		{ .pending = JOB_READY, .dead = true },
		{ .pending = JOB_IDLE, .running = true, .dead = true },
	};
	struct run_record run = { .queue = STR("default"), .key = STR("unknown"), .generation = 1 };
	struct rig r;

	rig_init(&r);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct job_saved j = bad[i];

		j.id = 1;
		j.queue = STR("default");
		j.key = STR("k");
		j.level = LEVEL_ASYNC;
		j.attempt = 1;
		ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), ERR_DAMAGED);
	}
	ck_assert_int_eq(engine_restore_run(r.e, 1, &run), ERR_DAMAGED);
	run.queue = STR("nowhere");
	ck_assert_int_eq(engine_restore_run(r.e, 1, &run), ERR_DAMAGED);
	run.queue = STR("default");
	run.key = (struct str){ "a\0b", 3 };
	ck_assert_int_eq(engine_restore_run(r.e, 1, &run), ERR_DAMAGED);
	engine_recovered(r.e, r.now);
	ck_assert_uint_eq(rig_queue(&r, "default").jobs, 0);
	rig_done(&r);
}
END_TEST

START_TEST(what_the_store_gives_back_is_checked)
{
	struct job_saved j = { .id = 1,
		.queue = STR("default"),
		.key = STR("k"),
		.pending = JOB_ARMED,
		.level = LEVEL_ASYNC,
		.attempt = 1,
		.slack_ns = -1,
		.max_wait_ns = -1 };
	struct rig r;

	rig_init(&r);
	j.queue = STR("nowhere");
	ck_assert_int_lt(engine_restore_job(r.e, r.now, &j, true), 0);
	j.queue = STR("default");
	j.key = (struct str){ "a\0b", 3 };
	ck_assert_int_lt(engine_restore_job(r.e, r.now, &j, true), 0);
	j.key = STR("");
	ck_assert_int_lt(engine_restore_job(r.e, r.now, &j, true), 0);
	/* Two of one number, none, one that nobody has given. */
	j.key = STR("k");
	ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), 0);
	j.key = STR("l");
	ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), ERR_DAMAGED);
	j.id = 0;
	ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), ERR_DAMAGED);
	j.id = UINT32_MAX;
	ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), ERR_DAMAGED);
	j.id = 2;
	ck_assert_int_eq(engine_restore_job(r.e, r.now, &j, true), 0);
	rig_done(&r);
}
END_TEST

/* ---- no memory ---- */

/* One of everything that is stored. */
static void
fill(struct rig *r)
{
	struct op_update op = rig_op("with an id, and a name that is long", HOUR);

	start(r, "handler=h max_active=2 max_attempts=2");
	op.idem = STR("id");
	op.payload_mode = PAYLOAD_APPEND;
	op.payload = STR("part");
	rig_update_op(r, &op);
	rig_update_op(r, &op);
	rig_update_payload(r, "run", 0, "p");
	rig_update_payload(r, "run and pending", 0, "p");
	rig_update_payload(r, "run and pending", 0, "q");
	rig_update_payload(r, "ready", 0, "r");
	rig_update(r, "done", 0);
	rig_end_run(r, rig_running(r, "run"), RUN_FAILED);
	rig_finish(r, "ready");
	rig_job(r, EV_DISABLE, "off");
	rig_update(r, "ready", 0);
	saved_take(&r->saved, r->e, r->now, SIZE_MAX);
}

START_TEST(recovery_without_memory_says_so_and_leaves_nothing_behind)
{
	struct rig r;
	bool left = false;
	int err;

	fill(&r);
	for (int n = 0; !left; n++) {
		struct engine *e = NULL;

		ck_assert_int_lt(n, 1000);
		alloc_fault_set(n, 0);
		err = engine_new(&r.cfg, &e);
		if (err == 0)
			err = saved_try_restore(&r.saved, e, r.now);
		left = alloc_fault_off();
		/* Some of what fails is done without. */
		ck_assert(err == 0 || (err == -ENOMEM && !left));
		if (err == 0)
			engine_verify(e);
		engine_free(e);
	}
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("recovery");
	TCase *tc = unit_case(s, "misfire");

	tcase_add_loop_test(tc, misfire_run_once_oldest_first_paced_by_max_active, 0, 2);
	tcase_add_loop_test(tc, misfire_skip_drops_what_was_missed, 0, 2);
	tcase_add_loop_test(tc, misfire_rearm_gives_the_full_delay_from_the_restart, 0, 2);
	tcase_add_loop_test(tc, misfire_is_about_armed_jobs_ready_ones_always_run, 0, 2);
	tcase_add_loop_test(tc, misfire_has_no_say_in_what_was_not_missed, 0, 2);
	tc = unit_case(s, "interrupted");
	tcase_add_loop_test(tc, an_interrupted_run_is_recorded_and_run_again_at_once, 0, 2);
	tcase_add_loop_test(tc, a_run_that_is_always_interrupted_dies, 0, 2);
	tcase_add_loop_test(tc, an_interrupted_run_gives_way_to_what_was_requested_meanwhile, 0, 2);
	tcase_add_loop_test(tc, interrupted_runs_go_on_in_their_order_before_what_was_behind, 0, 2);
	tcase_add_loop_test(tc, a_deleted_job_is_not_run_again_after_the_restart, 0, 2);
	tcase_add_loop_test(tc, a_retry_and_a_dead_job_survive, 0, 2);
	tcase_add_loop_test(tc, a_stopping_engine_starts_nothing_and_forgets_nothing, 0, 2);
	tcase_add_test(tc, recovery_without_memory_says_so_and_leaves_nothing_behind);
	tc = unit_case(s, "damaged");
	tcase_add_test(tc, a_job_that_can_not_be_is_damage);
	tcase_add_test(tc, what_the_store_gives_back_is_checked);
	return unit_run(s);
}
