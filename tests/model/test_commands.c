/*
 * Jobs with a command of their own: what becomes of it in updates, retries,
 * hand-overs taken back and restarts.
 */
#include <string.h>

#include "model/rig.h"
#include "unit/unit.h"

#define COMMAND STR("echo\0a b\0")
#define OTHER   STR("true\0")

static void
start(struct rig *r, const char *settings)
{
	rig_init(r);
	rig_expect(r, rig_queue_create(r, "q", settings), ST_OK);
}

static struct op_update
command(int64_t delay_ns, struct str words, const char *payload)
{
	struct op_update op = rig_op("k", delay_ns);

	op.command = words;
	if (payload) {
		op.payload_mode = PAYLOAD_REPLACE;
		op.payload = str_from(payload);
	}
	return op;
}

static void
update(struct rig *r, const struct op_update *op, enum status status)
{
	rig_expect(r, rig_update_op(r, op), status);
}

static void
expect_run(struct rig *r, const char *words, const char *payload)
{
	const struct rig_run *run = rig_running(r, "k");

	ck_assert_ptr_nonnull(run);
	ck_assert_str_eq(run->command, words);
	ck_assert_str_eq(run->payload, payload);
	ck_assert_int_eq(run->action, ACTION_EXEC);
}

START_TEST(a_command_is_handed_over_instead_of_the_handler)
{
	struct op_update op = command(SEC, COMMAND, _i & 1 ? "in" : NULL);
	struct job_view v;
	struct rig r;

	/* Also in a queue whose runs do nothing. */
	start(&r, _i & 2 ? "" : "handler=h");
	update(&r, &op, ST_CREATED);
	v = rig_get(&r, "k");
	ck_assert(str_eq(v.command, COMMAND));
	ck_assert_uint_eq(v.payload_bytes, _i & 1 ? 2 : 0);
	rig_pass(&r, SEC);
	expect_run(&r, "echo;a b;", _i & 1 ? "in;" : "");
	v = rig_get(&r, "k");
	ck_assert(str_eq(v.command, COMMAND));
	rig_finish(&r, "k");
	ck_assert_uint_eq(rig_get(&r, "k").command.n, 0);
	/* The next one is as its queue says. */
	rig_update(&r, "k", 0);
	if (_i & 2)
		ck_assert_ptr_null(rig_running(&r, "k"));
	else
		expect_run(&r, "", "");
	rig_done(&r);
}
END_TEST

START_TEST(a_command_and_its_payload_go_together)
{
	struct op_update op = command(SEC, COMMAND, "in"), append = rig_op("k", SEC);
	struct rig r;

	start(&r, "handler=h slack=1s");
	update(&r, &op, ST_CREATED);
	update(&r, &op, ST_SKIPPED);
	/* A push leaves it alone. */
	rig_expect(&r, rig_update(&r, "k", 5 * SEC), ST_UPDATED_TIMER);
	ck_assert(str_eq(rig_get(&r, "k").command, COMMAND));
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, 2);
	/* Who may not give a command can't feed one. */
	append.payload_mode = PAYLOAD_APPEND;
	append.payload = STR("more");
	update(&r, &append, ST_INVALID);
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, 2);
	/* Another command has its own payload: none. */
	op = command(5 * SEC, OTHER, NULL);
	update(&r, &op, ST_UPDATED_TIMER);
	ck_assert(str_eq(rig_get(&r, "k").command, OTHER));
	ck_assert_uint_eq(rig_get(&r, "k").payload_bytes, 0);
	/* A payload without a command is for the handler. */
	rig_update_payload(&r, "k", 5 * SEC, "x");
	ck_assert_uint_eq(rig_get(&r, "k").command.n, 0);
	update(&r, &append, ST_UPDATED_TIMER);
	op.payload_mode = PAYLOAD_APPEND;
	update(&r, &op, ST_INVALID);
	rig_pass(&r, 10 * SEC);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "x;more;");
	rig_done(&r);
}
END_TEST

START_TEST(a_command_too_long_is_refused)
{
	static char words[COMMAND_MAX + 2];
	struct op_update op;
	struct rig r;

	memset(words, 'x', sizeof words);
	words[COMMAND_MAX - 1] = words[COMMAND_MAX] = '\0';
	start(&r, "handler=h");
	op = command(SEC, (struct str){ words, COMMAND_MAX + 1 }, NULL);
	update(&r, &op, ST_INVALID);
	op.command.n = COMMAND_MAX;
	update(&r, &op, ST_CREATED);
	rig_done(&r);
}
END_TEST

START_TEST(a_command_is_retried_and_kicked_as_it_was)
{
	struct op_update op = command(0, COMMAND, "in");
	struct rig r;

	start(&r, "handler=h max_attempts=2 retry_delay=1s");
	update(&r, &op, ST_CREATED);
	expect_run(&r, "echo;a b;", "in;");
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	ck_assert(str_eq(rig_get(&r, "k").command, COMMAND));
	rig_pass(&r, SEC);
	expect_run(&r, "echo;a b;", "in;");
	rig_end_run(&r, rig_running(&r, "k"), RUN_FAILED);
	ck_assert(rig_get(&r, "k").dead);
	ck_assert(str_eq(rig_get(&r, "k").command, COMMAND));
	rig_restart(&r, SEC, false);
	ck_assert(rig_get(&r, "k").dead);
	rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_CREATED);
	expect_run(&r, "echo;a b;", "in;");
	rig_finish(&r, "k");
	rig_done(&r);
}
END_TEST

/* While it seemed to run, something was appended for the handler: that is not for the command. */
START_TEST(a_hand_over_taken_back_feeds_no_command)
{
	struct op_update op = command(0, COMMAND, "in"), more = rig_op("k", 0);
	struct rig r;

	start(&r, "handler=h");
	update(&r, &op, ST_CREATED);
	if (_i == 1) {
		more.payload_mode = PAYLOAD_APPEND;
		more.payload = STR("x");
	}
	if (_i > 0)
		update(&r, &more, ST_REQUEUED_RUNNING);
	rig_not_started(&r, rig_running(&r, "k"));
	rig_pass(&r, 2 * SEC);
	if (_i == 1)
		expect_run(&r, "", "x;");
	else
		expect_run(&r, "echo;a b;", "in;");
	rig_finish(&r, "k");
	rig_done(&r);
}
END_TEST

START_TEST(a_command_survives_a_restart)
{
	struct op_update op = command(_i ? 0 : SEC, COMMAND, "in"),
			 next = command(SEC, OTHER, NULL);
	struct rig r;

	start(&r, "handler=h");
	update(&r, &op, ST_CREATED);
	if (_i == 2)
		update(&r, &next, ST_REQUEUED_RUNNING);
	rig_restart(&r, 2 * SEC, _i != 1);
	if (_i == 2) { /* the one that was pending goes on */
		expect_run(&r, "true;", "");
	} else {
		expect_run(&r, "echo;a b;", "in;");
		ck_assert_uint_eq(rig_running(&r, "k")->attempt, _i ? 2 : 1);
	}
	rig_finish(&r, "k");
	rig_done(&r);
}
END_TEST

START_TEST(a_damaged_command_is_not_restored)
{
	static const struct str bad[] = { { "", 0 }, { "\0", 1 }, { "\0x\0", 3 }, { "echo", 4 } };
	struct job_saved j = { .queue = STR("q"),
		.key = STR("k"),
		.id = 1,
		.pending = JOB_ARMED,
		.level = LEVEL_ASYNC,
		.command = true,
		.parts = &bad[_i],
		.n_parts = 1 };
	struct rig r;

	start(&r, "handler=h");
	ck_assert_int_lt(engine_restore_job(r.e, r.now, &j, true), 0);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("commands");
	TCase *tc = unit_case(s, "commands");

	tcase_add_loop_test(tc, a_command_is_handed_over_instead_of_the_handler, 0, 4);
	tcase_add_test(tc, a_command_and_its_payload_go_together);
	tcase_add_test(tc, a_command_too_long_is_refused);
	tcase_add_test(tc, a_command_is_retried_and_kicked_as_it_was);
	tcase_add_loop_test(tc, a_hand_over_taken_back_feeds_no_command, 0, 3);
	tcase_add_loop_test(tc, a_command_survives_a_restart, 0, 3);
	tcase_add_loop_test(tc, a_damaged_command_is_not_restored, 0, 4);
	return unit_run(s);
}
