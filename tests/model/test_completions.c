/*
 * Named completions: a level and not an edge, first come first served, nothing
 * taken by those who left; many waiters a bounded number a turn.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/rig.h"
#include "unit/random.h"
#include "unit/unit.h"

static uint64_t
send(struct rig *r, enum engine_event_kind kind, const char *name, int64_t timeout_ns,
	enum durability level)
{
	struct op_completion op = {
		.name = str_from(name), .timeout_ns = timeout_ns, .level = level
	};

	return rig_send(r, kind, &op, 0);
}

static uint64_t
wait_for(struct rig *r, const char *name)
{
	return send(r, EV_COMPLETION_WAIT, name, -1, LEVEL_DEFAULT);
}

static uint64_t
complete(struct rig *r, const char *name)
{
	return send(r, EV_COMPLETE, name, 0, LEVEL_DEFAULT);
}

static uint64_t
complete_all(struct rig *r, const char *name)
{
	return send(r, EV_COMPLETE_ALL, name, 0, LEVEL_DEFAULT);
}

static uint64_t
reinit(struct rig *r, const char *name)
{
	return send(r, EV_COMPLETION_REINIT, name, 0, LEVEL_DEFAULT);
}

static void
expect(const struct rig *r, const char *name, uint32_t done, bool open, uint64_t waiters)
{
	struct completion_view v;

	ck_assert_int_eq(engine_completion_get(r->e, str_from(name), &v), ST_OK);
	ck_assert_uint_eq(v.done, done);
	ck_assert_int_eq(v.open, open);
	ck_assert_uint_eq(v.waiters, waiters);
}

static uint64_t
known(const struct rig *r)
{
	struct engine_stats st;

	engine_stats_get(r->e, &st);
	return st.completions;
}

START_TEST(what_was_completed_before_is_remembered)
{
	struct rig r;

	rig_init(&r);
	expect(&r, "c", 0, false, 0);
	rig_expect(&r, complete(&r, "c"), ST_OK);
	rig_expect(&r, complete(&r, "c"), ST_OK);
	expect(&r, "c", 2, false, 0);
	rig_expect(&r, wait_for(&r, "c"), ST_OK);
	rig_expect(&r, send(&r, EV_COMPLETION_WAIT, "c", 0, LEVEL_DEFAULT), ST_OK);
	ck_assert_uint_eq(known(&r), 0);
	rig_expect(&r, send(&r, EV_COMPLETION_WAIT, "c", 0, LEVEL_DEFAULT), ST_TIMEOUT);
	rig_expect_waits(&r, wait_for(&r, "c"));
	rig_done(&r);
}
END_TEST

START_TEST(waiters_are_served_in_the_order_in_which_they_came)
{
	uint64_t w[5];
	struct rig r;

	rig_init(&r);
	for (int i = 0; i < 5; i++)
		w[i] = wait_for(&r, "c");
	expect(&r, "c", 0, false, 5);
	for (int i = 0; i < 4; i++) {
		rig_expect(&r, complete(&r, "c"), ST_OK);
		rig_expect(&r, w[i], ST_OK);
		rig_expect_waits(&r, w[i + 1]);
		expect(&r, "c", 0, false, (uint64_t)(4 - i));
	}
	rig_done(&r);
}
END_TEST

START_TEST(an_open_gate_lets_everybody_through_until_it_is_closed)
{
	uint64_t w[3];
	struct rig r;

	rig_init(&r);
	for (int i = 0; i < 3; i++)
		w[i] = wait_for(&r, "gate");
	rig_expect(&r, complete_all(&r, "gate"), ST_OK);
	for (int i = 0; i < 3; i++)
		rig_expect(&r, w[i], ST_OK);
	expect(&r, "gate", 0, true, 0);
	for (int i = 0; i < 3; i++)
		rig_expect(&r, wait_for(&r, "gate"), ST_OK);
	rig_expect(&r, complete(&r, "gate"), ST_OK);
	expect(&r, "gate", 0, true, 0);
	rig_expect(&r, reinit(&r, "gate"), ST_OK);
	ck_assert_uint_eq(known(&r), 0);
	rig_expect_waits(&r, wait_for(&r, "gate"));
	rig_done(&r);
}
END_TEST

START_TEST(who_timed_out_or_left_has_taken_nothing)
{
	uint64_t a, b, c;
	struct rig r;

	rig_init(&r);
	a = send(&r, EV_COMPLETION_WAIT, "c", SEC, LEVEL_DEFAULT);
	b = wait_for(&r, "c");
	c = wait_for(&r, "c");
	rig_pass(&r, SEC);
	rig_expect(&r, a, ST_TIMEOUT);
	rig_abandon(&r, b);
	expect(&r, "c", 0, false, 1);
	rig_expect(&r, complete(&r, "c"), ST_OK);
	rig_expect(&r, c, ST_OK);
	ck_assert_uint_eq(known(&r), 0);
	rig_done(&r);
}
END_TEST

/* Between being given one and being answered a waiter may still go away. */
START_TEST(what_a_waiter_was_given_goes_on_when_it_leaves_unanswered)
{
	uint64_t a, b;
	struct rig r;

	rig_init(&r);
	r.quiet_settle = true;
	a = wait_for(&r, "c");
	b = wait_for(&r, "c");
	complete(&r, "c");
	rig_expect_waits(&r, a);
	rig_abandon(&r, a);
	rig_settle(&r);
	rig_expect(&r, b, ST_OK);
	a = wait_for(&r, "c");
	complete(&r, "c");
	rig_abandon(&r, a);
	expect(&r, "c", 1, false, 0);
	rig_expect(&r, wait_for(&r, "c"), ST_OK);
	a = wait_for(&r, "c");
	complete(&r, "c");
	reinit(&r, "c"); /* what was given before belongs to another time */
	rig_abandon(&r, a);
	ck_assert_uint_eq(known(&r), 0);
	a = wait_for(&r, "c");
	complete_all(&r, "c");
	reinit(&r, "c"); /* who was let in stays in */
	rig_settle(&r);
	rig_expect(&r, a, ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(its_time_limit_counts_no_more_when_it_was_given_one)
{
	struct rig r;
	uint64_t a;

	rig_init(&r);
	r.quiet_settle = true;
	a = send(&r, EV_COMPLETION_WAIT, "c", SEC, LEVEL_DEFAULT);
	rig_freeze(&r, 2 * SEC);
	complete(&r, "c"); /* input first: it beats the limit that passed meanwhile */
	rig_settle(&r);
	rig_expect(&r, a, ST_OK);
	rig_done(&r);
}
END_TEST

/* 10^5 rounds of a wait's limit against a completion, in either order and at the same instant: one
 * outcome each, and what was not taken is still there. */
START_TEST(limit_against_completion_has_one_outcome)
{
	struct rnd rnd = { 42 };
	struct rig r;

	rig_init(&r);
	r.quiet_settle = true;
	for (int round = 0; round < 100000; round++) {
		uint64_t w = send(&r, EV_COMPLETION_WAIT, "c", MS, LEVEL_DEFAULT);
		enum status got;

		rig_freeze(&r, (int64_t)rnd_below(&rnd, 3) * MS / 2 + MS / 2);
		if (rnd_below(&rnd, 2))
			rig_settle(&r);
		complete(&r, "c");
		rig_settle(&r);
		rig_freeze(&r, MS);
		rig_settle(&r);
		ck_assert_ptr_nonnull(rig_answer(&r, w));
		got = rig_answer(&r, w)->r.status;
		ck_assert(got == ST_OK || got == ST_TIMEOUT);
		expect(&r, "c", got == ST_TIMEOUT, false, 0);
		reinit(&r, "c");
		rig_forget(&r);
	}
	rig_done(&r);
}
END_TEST

START_TEST(many_are_woken_a_bounded_number_a_turn_and_the_trigger_is_first)
{
	enum { N = 1000, BUDGET = 100 };
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct engine_event tick = { .kind = EV_TICK };
	uint64_t w[N], trigger, n = 0;
	struct rig r;

	cfg.turn_budget = BUDGET;
	rig_init_config(&r, &cfg);
	r.quiet_settle = true;
	for (int i = 0; i < N; i++)
		w[i] = wait_for(&r, "c");
	trigger = complete_all(&r, "c");
	rig_expect(&r, trigger, ST_OK);
	rig_expect_waits(&r, w[0]);
	effects_clear(&r.fx);
	while (n < N) {
		engine_step(r.e, r.now, &tick, &r.fx);
		ck_assert_uint_le(r.fx.n, BUDGET);
		for (size_t i = 0; i < r.fx.n; i++, n++) {
			ck_assert_uint_eq(r.fx.v[i].ticket, w[n]);
			ck_assert_int_eq(r.fx.v[i].reply.status, ST_OK);
		}
		ck_assert_uint_gt(r.fx.n, 0);
		effects_clear(&r.fx);
	}
	rig_done(&r);
}
END_TEST

/* What the signaller waits for is the same for any number: one effect, its own reply, and no memory. */
START_TEST(a_trigger_does_nothing_for_those_it_wakes)
{
	static const int counts[] = { 1, 1000, 100000 };
	struct op_completion op = { .name = STR("c") };
	struct engine_event ev = { .kind = EV_COMPLETE_ALL, .completion = &op };

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct rig r;
		int64_t live;

		rig_init(&r);
		r.quiet_settle = true;
		for (int k = 0; k < counts[i]; k++)
			wait_for(&r, "c");
		reinit(&r, "other"); /* so that there is room for an effect */
		effects_clear(&r.fx);
		ev.ticket = ++r.last_ticket;
		live = alloc_live();
		alloc_fault_set(0, 1);
		engine_step(r.e, r.now, &ev, &r.fx);
		alloc_fault_set(-1, 0);
		ck_assert_int_eq(alloc_live(), live);
		ck_assert_uint_eq(r.fx.n, 1);
		ck_assert_uint_eq(r.fx.v[0].ticket, ev.ticket);
		ck_assert_int_eq(r.fx.v[0].reply.status, ST_OK);
		effects_clear(&r.fx);
		rig_done(&r);
	}
}
END_TEST

START_TEST(a_stored_one_survives_a_restart)
{
	struct rig r;

	rig_init(&r);
	send(&r, EV_COMPLETE, "count", 0, LEVEL_ASYNC);
	complete(&r, "count");
	send(&r, EV_COMPLETE_ALL, "gate", 0, LEVEL_SYNC);
	complete(&r, "memory");
	send(&r, EV_COMPLETE, "taken", 0, LEVEL_ASYNC);
	wait_for(&r, "taken");
	rig_restart(&r, SEC, true);
	expect(&r, "count", 2, false, 0);
	expect(&r, "gate", 0, true, 0);
	expect(&r, "memory", 0, false, 0);
	ck_assert_uint_eq(known(&r), 2);
	reinit(&r, "gate");
	rig_restart(&r, SEC, false);
	ck_assert_uint_eq(known(&r), 1);
	rig_done(&r);
}
END_TEST

START_TEST(sync_waits_for_the_disk_on_both_sides)
{
	struct rig r;
	uint64_t w;

	rig_init(&r);
	ck_assert(!rig_answer(&r, complete(&r, "c"))->durable);
	ck_assert(rig_answer(&r, send(&r, EV_COMPLETE, "c", 0, LEVEL_SYNC))->durable);
	ck_assert(rig_answer(&r, complete(&r, "c"))->durable);
	ck_assert(rig_answer(&r, wait_for(&r, "c"))->durable);
	reinit(&r, "c");
	w = wait_for(&r, "c");
	send(&r, EV_COMPLETE, "c", 0, LEVEL_SYNC);
	ck_assert(rig_answer(&r, w)->durable);
	rig_done(&r);
}
END_TEST

START_TEST(a_request_sent_again_completes_once)
{
	struct op_completion op = { .name = STR("c"), .level = LEVEL_ASYNC, .idem = STR("id") };
	struct rig r;

	rig_init(&r);
	for (int i = 0; i < 3; i++) {
		rig_expect(&r, rig_send(&r, EV_COMPLETE, &op, 0), ST_OK);
		expect(&r, "c", 1, false, 0);
		rig_restart(&r, SEC, true);
	}
	op.name = STR("other");
	rig_expect(&r, rig_send(&r, EV_COMPLETE, &op, 0), ST_INVALID);
	rig_done(&r);
}
END_TEST

START_TEST(limits_and_bad_input_change_nothing)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct rig r;
	uint64_t w;

	cfg.max_completions = 1;
	cfg.max_waiters = 1;
	rig_init_config(&r, &cfg);
	rig_expect(&r, complete(&r, "a"), ST_OK);
	rig_expect(&r, complete(&r, "b"), ST_REFUSED_LIMIT);
	rig_expect(&r, wait_for(&r, "b"), ST_REFUSED_LIMIT);
	rig_expect(&r, reinit(&r, "b"), ST_OK);
	rig_expect(&r, wait_for(&r, "a"), ST_OK);
	w = wait_for(&r, "b");
	rig_expect(&r, wait_for(&r, "b"), ST_REFUSED_LIMIT);
	rig_expect(&r, complete(&r, ""), ST_INVALID);
	rig_expect(&r, send(&r, EV_COMPLETION_WAIT, "b", -2, LEVEL_DEFAULT), ST_INVALID);
	rig_expect(&r, complete(&r, "b"), ST_OK);
	rig_expect(&r, w, ST_OK);
	rig_done(&r);
}
END_TEST

/* Everything at random, beside a plain count. */
START_TEST(at_random_nothing_is_lost_or_made)
{
	struct rnd rnd = { 7 };
	uint64_t w[64], given = 0, taken = 0;
	bool waits[64] = { false };
	struct completion_view v;
	struct rig r;

	rig_init(&r);
	r.quiet_settle = true;
	for (int step = 0; step < 20000; step++) {
		size_t i = (size_t)rnd_below(&rnd, 64);

		switch (rnd_below(&rnd, 4)) {
		case 0:
			if (waits[i])
				break;
			w[i] = wait_for(&r, "c");
			waits[i] = true;
			break;
		case 1:
			complete(&r, "c");
			given++;
			break;
		case 2:
			if (!waits[i] || rig_answer(&r, w[i]))
				break;
			rig_abandon(&r, w[i]);
			waits[i] = false;
			break;
		default:
			rig_settle(&r);
		}
		for (i = 0; i < 64; i++)
			if (waits[i] && rig_answer(&r, w[i])) {
				waits[i] = false;
				taken++;
			}
		if (step % 64 == 0)
			rig_forget(&r);
	}
	rig_settle(&r);
	for (size_t i = 0; i < 64; i++)
		taken += waits[i] && rig_answer(&r, w[i]);
	ck_assert_int_eq(engine_completion_get(r.e, STR("c"), &v), ST_OK);
	ck_assert_uint_eq(taken + v.done, given);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("completions");
	TCase *tc = unit_case(s, "completions");

	tcase_add_test(tc, what_was_completed_before_is_remembered);
	tcase_add_test(tc, waiters_are_served_in_the_order_in_which_they_came);
	tcase_add_test(tc, an_open_gate_lets_everybody_through_until_it_is_closed);
	tcase_add_test(tc, who_timed_out_or_left_has_taken_nothing);
	tcase_add_test(tc, what_a_waiter_was_given_goes_on_when_it_leaves_unanswered);
	tcase_add_test(tc, its_time_limit_counts_no_more_when_it_was_given_one);
	tcase_add_test(tc, limit_against_completion_has_one_outcome);
	tcase_add_test(tc, many_are_woken_a_bounded_number_a_turn_and_the_trigger_is_first);
	tcase_add_test(tc, a_trigger_does_nothing_for_those_it_wakes);
	tcase_add_test(tc, a_stored_one_survives_a_restart);
	tcase_add_test(tc, sync_waits_for_the_disk_on_both_sides);
	tcase_add_test(tc, a_request_sent_again_completes_once);
	tcase_add_test(tc, limits_and_bad_input_change_nothing);
	tcase_add_test(tc, at_random_nothing_is_lost_or_made);
	return unit_run(s);
}
