/* wheel: against a linear search, with clocks that go on, jump and go back; bounds; memory faults. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "engine/records.h"
#include "unit/random.h"
#include "unit/unit.h"

#define FEW  200
#define MANY 60000
#define TICK (1ll << WHEEL_TICK_BITS)

static struct slab slab;
static struct wheel *w;
static struct job *jobs[MANY];
static uint64_t seq;

static void
setup(size_t n)
{
	ck_assert_int_eq(slab_init(&slab, sizeof(struct job), n), 0);
	for (size_t i = 0; i < n; i++) {
		jobs[i] = slab_take(&slab);
		memset(jobs[i], 0, sizeof *jobs[i]);
	}
	w = must_alloc(sizeof *w);
	ck_assert_int_eq(wheel_init(w, &slab, n), 0);
	seq = 0;
}

static void
teardown(void)
{
	wheel_done(w);
	x_free(w);
	slab_done(&slab);
}

static struct job *
linear_first(size_t n)
{
	struct job *first = NULL;

	for (size_t i = 0; i < n; i++) {
		struct job *j = jobs[i];

		if (j->timer.place == 0)
			continue;
		if (!first || j->due_ns < first->due_ns ||
			(j->due_ns == first->due_ns && j->seq < first->seq))
			first = j;
	}
	return first;
}

static void
set(struct job *j, int64_t now_ns, int64_t due_ns)
{
	unit_check(wheel_set(w, j, now_ns, due_ns, ++seq) == 0);
}

static void
advance(int64_t now_ns)
{
	do {
		uint32_t most = 3;

		wheel_advance(w, now_ns, &most);
	} while (wheel_behind(w));
}

/* All that is due comes out, in order, and nothing else. */
static void
expire(size_t n, int64_t now_ns)
{
	for (;;) {
		struct job *first = linear_first(n), *j;

		advance(now_ns);
		if (first)
			unit_check(wheel_next(w) <= first->due_ns);
		else
			unit_check(wheel_next(w) == INT64_MAX);
		j = wheel_first(w, now_ns);
		unit_check(j == (first && first->due_ns <= now_ns ? first : NULL));
		if (!j)
			return;
		wheel_del(w, j);
	}
}

static int64_t
random_span(struct rnd *r)
{
	static const int64_t most[] = { TICK / 2, 3 * TICK, 600 * TICK, 200000 * TICK,
		40000000ll * TICK, 20ll << 30 << WHEEL_TICK_BITS };

	return (int64_t)rnd_below(r, (uint64_t)most[rnd_below(r, ARRAY_SIZE(most))]);
}

/* Deadlines from half a tick to years ahead, a few of them equal; jumps of the clock to match. */
START_TEST(random_changes_agree_with_a_linear_search)
{
	struct rnd r = { .s = (uint64_t)_i };
	int64_t now = 1900000000 * NS_PER_S, due = now;

	setup(FEW);
	for (int step = 0; step < 30000; step++) {
		struct job *j = jobs[rnd_below(&r, FEW)];

		if (rnd_one_in(&r, 5)) {
			if (j->timer.place)
				wheel_del(w, j);
		} else {
			due = rnd_one_in(&r, 4) ? due : now + random_span(&r) - TICK / 8;
			set(j, now, due);
		}
		if (rnd_one_in(&r, 8))
			now += random_span(&r) / (rnd_one_in(&r, 50) ? 1 : 1000);
		if (rnd_one_in(&r, 200))
			now -= random_span(&r) / 1000;
		if (rnd_one_in(&r, 4))
			expire(FEW, now);
		if (step % 257 == 0)
			wheel_verify(w, w->n);
	}
	teardown();
}
END_TEST

/* A timeout that is pushed off again and again costs one entry. */
START_TEST(putting_off_appends_nothing)
{
	int64_t now = 1000 * NS_PER_S;

	setup(1);
	for (int i = 0; i < 100000; i++) {
		now += NS_PER_MS;
		set(jobs[0], now, now + 30 * NS_PER_S);
		advance(now);
		unit_check(w->entries <= 1 && !wheel_first(w, now));
	}
	ck_assert_int_eq(wheel_next(w), now + 30 * NS_PER_S);
	expire(1, now + 30 * NS_PER_S);
	ck_assert_uint_eq(w->n, 0);
	teardown();
}
END_TEST

START_TEST(dead_entries_are_swept)
{
	struct rnd r = { 1 };
	int64_t now = 1000 * NS_PER_S;

	setup(1000);
	for (int i = 0; i < 400000; i++) {
		struct job *j = jobs[rnd_below(&r, 1000)];

		set(j, now, now + 3600 * NS_PER_S + random_span(&r));
		if (rnd_one_in(&r, 2))
			wheel_del(w, j);
		unit_check(w->entries <= 2 * w->n + 4096 + 64);
		unit_check(w->chunks.n * WHEEL_CHUNK <= w->entries + 4 * 512 * WHEEL_CHUNK);
	}
	wheel_verify(w, w->n);
	teardown();
}
END_TEST

/* Within the tick, and behind a clock that went back by an hour. */
START_TEST(the_front_is_bounded_by_what_is_live)
{
	int64_t now = 10000 * NS_PER_S;

	setup(2);
	set(jobs[1], now, now + 1);
	advance(now);
	now -= 3600 * NS_PER_S;
	for (int i = 0; i < 100000; i++) {
		set(jobs[0], now, now + 1000000 - i);
		unit_check(w->run_n - w->run_at + w->heap_n < 200);
	}
	ck_assert_ptr_eq(wheel_first(w, now + 2000000), jobs[0]);
	expire(2, now + 7200 * NS_PER_S);
	teardown();
}
END_TEST

START_TEST(many_of_one_deadline_come_a_few_at_a_time_and_in_order)
{
	int64_t now = 1000 * NS_PER_S, due = now + 100 * NS_PER_S + 77;
	int turns = 0;

	setup(MANY);
	for (int i = 0; i < MANY; i++)
		set(jobs[i], now, due);
	for (uint32_t most = 16; turns == 0 || wheel_behind(w); turns++, most = 16) {
		wheel_advance(w, due, &most);
		unit_check(!wheel_behind(w) || !wheel_first(w, due));
	}
	ck_assert_int_gt(turns, MANY / WHEEL_CHUNK / 16);
	for (int i = 0; i < MANY; i++) {
		unit_check(wheel_first(w, due) == jobs[i]);
		wheel_del(w, jobs[i]);
	}
	ck_assert_ptr_null(wheel_first(w, due));
	ck_assert_int_eq(wheel_next(w), INT64_MAX);
	teardown();
}
END_TEST

/* What must not be lost when there is none: the place of what is armed. */
START_TEST(without_memory_nothing_changes)
{
	int64_t now = 1000 * NS_PER_S;
	int refused = 0;

	setup(FEW);
	for (int i = 0; i < FEW; i++)
		set(jobs[i], now, now + i * NS_PER_S);
	alloc_fault_set(0, 1);
	for (int i = 0; i < FEW; i++) {
		int64_t was = jobs[i]->due_ns;
		int err =
			wheel_set(w, jobs[i], now, now + (i * 7919 % FEW + 1000) * NS_PER_S, ++seq);

		unit_check(err == 0 || (err == -ENOMEM && jobs[i]->due_ns == was));
		err = wheel_set(w, jobs[i], now, now + i * 1000000ll * NS_PER_S / 3, ++seq);
		refused += err < 0;
	}
	for (int64_t t = 0; t < 400; t++) {
		uint32_t most = 1000;

		wheel_advance(w, now + t * NS_PER_S, &most);
	}
	alloc_fault_set(-1, 0);
	wheel_verify(w, FEW);
	expire(FEW, now + 1000000000ll * NS_PER_S);
	ck_assert_uint_eq(w->n, 0);
	(void)refused;
	teardown();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("wheel");
	TCase *tc = unit_case(s, "wheel");

	tcase_add_loop_test(tc, random_changes_agree_with_a_linear_search, 0, 6);
	tcase_add_test(tc, putting_off_appends_nothing);
	tcase_add_test(tc, dead_entries_are_swept);
	tcase_add_test(tc, the_front_is_bounded_by_what_is_live);
	tcase_add_test(tc, many_of_one_deadline_come_a_few_at_a_time_and_in_order);
	tcase_add_test(tc, without_memory_nothing_changes);
	return unit_run(s);
}
