/* timers: the heap against a linear search, memory faults, size bounds. */
#include <errno.h>

#include "engine/timer.h"
#include "unit/random.h"
#include "unit/unit.h"

#define FEW  120
#define MANY 60000

struct ref {
	struct timer timer;
	bool armed;
	int64_t due;
	uint64_t seq;
};

static struct ref *
ref_first(struct ref *r, size_t n)
{
	struct ref *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!r[i].armed)
			continue;
		if (!best || r[i].due < best->due ||
			(r[i].due == best->due && r[i].seq < best->seq))
			best = &r[i];
	}
	return best;
}

static void
ref_set(struct timers *ts, struct ref *r, int64_t due, uint64_t seq)
{
	unit_check(timer_set(ts, &r->timer, due, seq) == 0);
	r->armed = true;
	r->due = due;
	r->seq = seq;
	unit_check(timer_armed(&r->timer));
	unit_check(timer_due(ts, &r->timer) == due);
}

static void
ref_del(struct timers *ts, struct ref *r)
{
	timer_del(ts, &r->timer);
	r->armed = false;
	unit_check(!timer_armed(&r->timer));
}

/* Few different deadlines, so that the order among equals counts. */
START_TEST(random_sets_moves_and_deletes_agree_with_a_linear_search)
{
	struct rnd rnd = { .s = (uint64_t)_i };
	struct ref r[FEW] = { 0 };
	struct timers ts;

	timers_init(&ts);
	for (uint64_t step = 1; step <= 20000; step++) {
		struct ref *t = &r[rnd_below(&rnd, FEW)];

		if (rnd_one_in(&rnd, step / 5000 % 2 ? 2 : 5))
			ref_del(&ts, t);
		else
			ref_set(&ts, t, (int64_t)rnd_below(&rnd, 40) - 20, step);
		if (step % 64 == 0)
			timers_verify(&ts);
		t = ref_first(r, FEW);
		unit_check(timers_first(&ts) == (t ? &t->timer : NULL));
	}
	for (int i = 0; i < FEW; i++)
		ref_del(&ts, &r[i]);
	ck_assert_ptr_null(timers_first(&ts));
	timers_done(&ts);
}
END_TEST

START_TEST(many_come_out_in_order_and_memory_follows_the_live_ones)
{
	struct rnd rnd = { .s = 7 };
	struct timer *t = must_zalloc(MANY * sizeof *t);
	struct timer_entry before = { .due_ns = INT64_MIN }, e;
	struct timers ts;

	timers_init(&ts);
	for (uint64_t i = 0; i < MANY; i++)
		unit_check(timer_set(&ts, &t[i], (int64_t)rnd_below(&rnd, 1000), i) == 0);
	ck_assert_uint_lt(ts.cap, 2 * MANY);
	timers_verify(&ts);
	for (int i = 0; i < MANY; i++) {
		e = ts.heap[0];
		unit_check(timers_first(&ts) == e.timer);
		unit_check(e.due_ns > before.due_ns ||
			(e.due_ns == before.due_ns && e.seq > before.seq));
		before = e;
		timer_del(&ts, e.timer);
		unit_check(ts.cap <= 64 || ts.n >= ts.cap / 4);
	}
	ck_assert_uint_eq(ts.n, 0);
	timers_done(&ts);
	x_free(t);
}
END_TEST

START_TEST(extreme_deadlines_keep_their_order)
{
	struct timer t[4] = { 0 };
	struct timers ts;

	timers_init(&ts);
	ck_assert_int_eq(timer_set(&ts, &t[0], INT64_MAX, UINT64_MAX), 0);
	ck_assert_int_eq(timer_set(&ts, &t[1], INT64_MAX, 0), 0);
	ck_assert_int_eq(timer_set(&ts, &t[2], INT64_MIN, UINT64_MAX), 0);
	ck_assert_int_eq(timer_set(&ts, &t[3], 0, 1), 0);
	for (int i = 0; i < 4; i++) {
		static const int order[] = { 2, 3, 1, 0 };

		ck_assert_ptr_eq(timers_first(&ts), &t[order[i]]);
		timer_del(&ts, &t[order[i]]);
	}
	timers_done(&ts);
}
END_TEST

START_TEST(without_memory_a_new_timer_is_refused_and_an_armed_one_still_moves)
{
	struct timer t[65] = { 0 };
	struct timers ts;

	timers_init(&ts);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(timer_set(&ts, &t[0], 1, 1), -ENOMEM);
	ck_assert(!timer_armed(&t[0]));
	for (uint64_t i = 0; i < 64; i++)
		unit_check(timer_set(&ts, &t[i], (int64_t)i, i) == 0);
	alloc_fault_set(0, 1);
	ck_assert_int_eq(timer_set(&ts, &t[64], -1, 64), -ENOMEM);
	ck_assert(!timer_armed(&t[64]));
	ck_assert_ptr_eq(timers_first(&ts), &t[0]);
	ck_assert_int_eq(timer_set(&ts, &t[0], 100, 65), 0);
	ck_assert_ptr_eq(timers_first(&ts), &t[1]);
	timers_verify(&ts);
	alloc_fault_set(-1, 0);
	timers_done(&ts);
}
END_TEST

START_TEST(without_memory_to_shrink_the_array_stays)
{
	struct timer *t = must_zalloc(MANY * sizeof *t);
	struct timers ts;

	timers_init(&ts);
	for (uint64_t i = 0; i < MANY; i++)
		unit_check(timer_set(&ts, &t[i], (int64_t)i, i) == 0);
	alloc_fault_set(0, 1);
	for (int i = 0; i < MANY; i++)
		timer_del(&ts, &t[i]);
	timers_verify(&ts);
	ck_assert_uint_ge(ts.cap, MANY);
	alloc_fault_set(-1, 0);
	timers_done(&ts);
	x_free(t);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("timer");
	TCase *tc = unit_case(s, "timer");

	tcase_add_loop_test(tc, random_sets_moves_and_deletes_agree_with_a_linear_search, 0, 5);
	tcase_add_test(tc, many_come_out_in_order_and_memory_follows_the_live_ones);
	tcase_add_test(tc, extreme_deadlines_keep_their_order);
	tcase_add_test(tc, without_memory_a_new_timer_is_refused_and_an_armed_one_still_moves);
	tcase_add_test(tc, without_memory_to_shrink_the_array_stays);
	return unit_run(s);
}
