/* engine/pool: the policy of pools, gate by gate. */
#include "base/assert.h"
#include "engine/pool.h"
#include "unit/unit.h"

#define MS NS_PER_MS

static struct pool_settings
usual(void)
{
	return (struct pool_settings)POOL_SETTINGS_DEFAULT;
}

static struct pool_sample
sees(uint32_t processors, uint32_t runnable)
{
	return (struct pool_sample){
		.processors = processors,
		.probe = PROBE_PROC,
		.runnable = runnable,
		.ladder = true,
	};
}

static struct pool_policy
pool_with(const struct pool_settings *s, uint32_t active)
{
	struct pool_policy p;

	pool_policy_init(&p, s);
	for (uint32_t i = 0; i < active; i++)
		pool_started(&p);
	return p;
}

/* Everything that decides, row by row. */
START_TEST(the_gate_is_what_the_table_says)
{
	static const struct {
		const char *what;
		uint32_t active, fresh, runnable;
		uint32_t max_inflight, allowed;
		bool all, tight, no_ladder, foreign, count;
		enum pool_gate gate;
	} rows[] = {
		{ .what = "nothing runs", .gate = GATE_OPEN },
		{ .what = "as many want it as the target",
			.active = 10,
			.runnable = 10,
			.gate = GATE_PROCESSORS },
		{ .what = "one fewer", .active = 10, .runnable = 9, .gate = GATE_OPEN },
		{ .what = "blocked ones don't count",
			.active = 100,
			.runnable = 0,
			.gate = GATE_OPEN },
		{ .what = "those just started count",
			.active = 100,
			.runnable = 4,
			.fresh = 6,
			.gate = GATE_PROCESSORS },
		{ .what = "a burst ends",
			.active = 100,
			.fresh = 32,
			.runnable = 0,
			.gate = GATE_PROCESSORS },
		{ .what = "fewer than processors, whatever is seen",
			.active = 1,
			.runnable = 50,
			.gate = GATE_OPEN },
		{ .what = "no ladder: a smaller target",
			.active = 4,
			.runnable = 4,
			.no_ladder = true,
			.gate = GATE_PROCESSORS },
		{ .what = "no ladder, below it",
			.active = 4,
			.runnable = 3,
			.no_ladder = true,
			.gate = GATE_OPEN },
		{ .what = "no ladder, others want them too",
			.active = 3,
			.runnable = 2,
			.no_ladder = true,
			.foreign = true,
			.gate = GATE_PROCESSORS },
		{ .what = "a ladder does not mind others",
			.active = 9,
			.runnable = 9,
			.foreign = true,
			.gate = GATE_OPEN },
		{ .what = "nothing seen: active ones count",
			.active = 10,
			.runnable = 0,
			.count = true,
			.gate = GATE_PROCESSORS },
		{ .what = "nothing seen, below",
			.active = 9,
			.runnable = 0,
			.count = true,
			.gate = GATE_OPEN },
		{ .what = "memory is short",
			.active = 2,
			.runnable = 0,
			.tight = true,
			.gate = GATE_MEMORY },
		{ .what = "memory is short, yet there is progress",
			.active = 1,
			.tight = true,
			.gate = GATE_OPEN },
		{ .what = "its cap", .active = 5, .max_inflight = 5, .gate = GATE_CAP },
		{ .what = "its cap, though processors idle",
			.active = 1,
			.max_inflight = 1,
			.gate = GATE_CAP },
		{ .what = "the usual cap", .active = 256, .gate = GATE_CAP },
		{ .what = "the system's", .active = 20, .allowed = 20, .gate = GATE_CAP },
		{ .what = "the smaller of both",
			.active = 20,
			.allowed = 20,
			.max_inflight = 30,
			.gate = GATE_CAP },
		{ .what = "cap before memory",
			.active = 5,
			.max_inflight = 5,
			.tight = true,
			.gate = GATE_CAP },
		{ .what = "admit all",
			.active = 1000,
			.runnable = 1000,
			.all = true,
			.gate = GATE_OPEN },
		{ .what = "admit all, though memory is short",
			.active = 1000,
			.all = true,
			.tight = true,
			.gate = GATE_OPEN },
		{ .what = "admit all, up to its cap",
			.active = 4,
			.max_inflight = 4,
			.all = true,
			.gate = GATE_CAP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pool_settings s = usual();
		struct pool_sample seen = sees(2, rows[i].runnable);
		struct pool_policy p;

		s.max_inflight = rows[i].max_inflight;
		s.admit = rows[i].all ? ADMIT_ALL : ADMIT_PROCESSORS;
		seen.memory_tight = rows[i].tight;
		seen.ladder = !rows[i].no_ladder;
		seen.foreign = rows[i].foreign;
		seen.allowed = rows[i].allowed;
		seen.probe = rows[i].count ? PROBE_COUNT : PROBE_PROC;
		p = pool_with(&s, rows[i].active - rows[i].fresh);
		pool_sampled(&p, 0, &seen);
		for (uint32_t k = 0; k < rows[i].fresh; k++)
			pool_started(&p);
		ck_assert_msg(pool_gate(&p) == rows[i].gate, "%s: %s", rows[i].what,
			pool_gate_word(pool_gate(&p)));
	}
}
END_TEST

START_TEST(before_the_first_sample_one_starts_and_a_sample_is_wanted_at_once)
{
	struct pool_settings s = usual();
	struct pool_policy p;

	pool_policy_init(&p, &s);
	ck_assert_int_eq(pool_gate(&p), GATE_OPEN);
	ck_assert_int_le(pool_sample_due(&p), 0);
	pool_started(&p);
	pool_started(&p);
	ck_assert_int_eq(pool_gate(&p), GATE_PROCESSORS);
}
END_TEST

START_TEST(samples_in_vain_become_less_frequent_and_a_start_makes_them_frequent)
{
	struct pool_settings s = usual();
	struct pool_policy p = pool_with(&s, 20);
	struct pool_sample full = sees(2, 20);
	int64_t now = 0, before;
	uint32_t n = 0;

	while (p.tick_ns < POOL_TICK_MAX_NS) {
		pool_sampled(&p, now, &full);
		before = now;
		now = pool_sample_due(&p);
		ck_assert_int_ge(now - before, POOL_TICK_MIN_NS);
		ck_assert_int_le(now - before, POOL_TICK_MAX_NS);
		ck_assert_uint_lt(++n, 100);
	}
	ck_assert_uint_ge(n, POOL_TICKS_SAME);
	pool_sampled(&p, now, &full);
	ck_assert_int_eq(pool_sample_due(&p), now + POOL_TICK_MAX_NS);
	pool_started(&p);
	ck_assert_int_eq(pool_sample_due(&p), now + POOL_TICK_MIN_NS);
}
END_TEST

START_TEST(an_end_asks_for_a_sample_soon_but_not_for_each_of_many)
{
	struct pool_settings s = usual();
	struct pool_policy p = pool_with(&s, 20);
	struct pool_sample full = sees(2, 20);

	pool_sampled(&p, 1000 * MS, &full);
	pool_ended(&p, 1000 * MS + 1);
	ck_assert_int_eq(pool_sample_due(&p), 1000 * MS + POOL_GAP_NS);
	pool_ended(&p, 1000 * MS + 2);
	ck_assert_int_eq(pool_sample_due(&p), 1000 * MS + POOL_GAP_NS);
	ck_assert_uint_eq(p.active, 18);
}
END_TEST

START_TEST(a_probe_that_costs_much_is_asked_less_often)
{
	struct pool_settings s = usual();
	struct pool_policy p = pool_with(&s, 20);
	struct pool_sample full = sees(2, 20);

	full.not_before_ns = 1500 * MS;
	pool_sampled(&p, 1000 * MS, &full);
	ck_assert_int_eq(pool_sample_due(&p), 1500 * MS);
	pool_ended(&p, 1001 * MS);
	ck_assert_int_eq(pool_sample_due(&p), 1500 * MS);
}
END_TEST

START_TEST(what_no_sample_can_change_is_not_looked_at)
{
	struct pool_settings s = usual();
	struct pool_policy p;
	struct pool_sample full = sees(2, 2);

	s.max_inflight = 2;
	p = pool_with(&s, 2);
	pool_sampled(&p, 1000 * MS, &full);
	ck_assert_int_eq(pool_sample_due(&p), 1000 * MS + POOL_LOOK_NS);
	s.admit = ADMIT_ALL;
	s.max_inflight = 0;
	pool_policy_set(&p, &s);
	ck_assert_int_eq(pool_sample_due(&p), INT64_MAX);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("pool");
	TCase *tc = unit_case(s, "policy");

	tcase_add_test(tc, the_gate_is_what_the_table_says);
	tcase_add_test(tc, before_the_first_sample_one_starts_and_a_sample_is_wanted_at_once);
	tcase_add_test(tc, samples_in_vain_become_less_frequent_and_a_start_makes_them_frequent);
	tcase_add_test(tc, an_end_asks_for_a_sample_soon_but_not_for_each_of_many);
	tcase_add_test(tc, a_probe_that_costs_much_is_asked_less_often);
	tcase_add_test(tc, what_no_sample_can_change_is_not_looked_at);
	return unit_run(s);
}
