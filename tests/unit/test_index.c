/* index: against a plain list of what is in it, through growth and shrinking; memory faults. */
#include <errno.h>

#include "engine/index.h"
#include "unit/random.h"
#include "unit/unit.h"

#define MANY 40000

/* What the keyed hash is to the engine; some collide. */
static uint64_t
hash_of(uint32_t id)
{
	struct rnd r = { .s = id / 2 };

	return rnd_next(&r);
}

static bool
there(const struct index *ix, uint32_t id)
{
	const uint64_t *slot = index_slot(ix, hash_of(id));
	uint32_t found;

	while (slot && (found = index_next(&slot, hash_of(id))) != INDEX_NONE)
		if (found == id)
			return true;
	return false;
}

START_TEST(an_empty_one_has_nothing)
{
	struct index ix;

	index_init(&ix);
	index_prefetch(&ix, 1);
	ck_assert(!there(&ix, 0));
	index_verify(&ix);
	index_done(&ix);
}
END_TEST

/* Up and down, so that there is always some of it in the old table and some in the new. */
START_TEST(what_is_added_is_found_until_it_is_deleted)
{
	static bool in[MANY];
	struct rnd r = { .s = (uint64_t)_i };
	struct index ix;
	size_t n = 0;

	memset(in, 0, sizeof in);
	index_init(&ix);
	for (int step = 0; step < 12 * MANY; step++) {
		uint32_t id = (uint32_t)rnd_below(&r, MANY);
		bool grow = step / (2 * MANY) % 2 == 0;

		unit_check(there(&ix, id) == in[id]);
		if (in[id] && (!grow || rnd_one_in(&r, 4))) {
			index_del(&ix, hash_of(id), id);
			in[id] = false;
			n--;
		} else if (!in[id] && (grow || rnd_one_in(&r, 8))) {
			unit_check(index_add(&ix, hash_of(id), id) == 0);
			in[id] = true;
			n++;
		}
		unit_check(ix.n == n);
		if (step % 4099 == 0)
			index_verify(&ix);
	}
	for (uint32_t id = 0; id < MANY; id++)
		unit_check(there(&ix, id) == in[id]);
	index_done(&ix);
}
END_TEST

START_TEST(its_size_follows_what_is_in_it)
{
	struct index ix;
	size_t most;

	index_init(&ix);
	for (uint32_t id = 0; id < MANY; id++)
		unit_check(index_add(&ix, hash_of(id), id) == 0);
	most = ix.now.n;
	ck_assert_uint_lt(most, 2 * MANY);
	for (uint32_t id = 0; id < MANY; id++)
		index_del(&ix, hash_of(id), id);
	ck_assert_uint_eq(ix.n, 0);
	ck_assert_uint_lt(ix.now.n, most / 50);
	index_verify(&ix);
	index_done(&ix);
}
END_TEST

/* Numbers of one hash, next to one another at the very end of the table. */
START_TEST(the_same_hash_many_times)
{
	struct index ix;

	index_init(&ix);
	for (uint32_t id = 0; id < 100; id++)
		ck_assert_int_eq(index_add(&ix, UINT64_MAX, id), 0);
	index_verify(&ix);
	for (uint32_t id = 0; id < 100; id += 2)
		index_del(&ix, UINT64_MAX, id);
	index_verify(&ix);
	for (uint32_t id = 1; id < 100; id += 2)
		index_del(&ix, UINT64_MAX, id);
	ck_assert_uint_eq(ix.n, 0);
	index_done(&ix);
}
END_TEST

START_TEST(without_memory_it_fills_up_and_then_refuses)
{
	struct index ix;
	uint32_t id = 0;

	index_init(&ix);
	alloc_fault_set(0, 1);
	ck_assert_int_eq(index_add(&ix, hash_of(0), 0), -ENOMEM);
	alloc_fault_set(-1, 0);
	ck_assert_int_eq(index_add(&ix, hash_of(0), 0), 0);
	alloc_fault_set(0, 1);
	while (index_add(&ix, hash_of(id + 1), id + 1) == 0)
		id++;
	ck_assert_uint_gt(id, 40);
	ck_assert(!there(&ix, id + 1));
	index_verify(&ix);
	for (uint32_t k = 0; k <= id; k++)
		unit_check(there(&ix, k));
	alloc_fault_set(-1, 0);
	ck_assert_int_eq(index_add(&ix, hash_of(id + 1), id + 1), 0);
	index_verify(&ix);
	index_done(&ix);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("index");
	TCase *tc = unit_case(s, "index");

	tcase_add_test(tc, an_empty_one_has_nothing);
	tcase_add_loop_test(tc, what_is_added_is_found_until_it_is_deleted, 0, 3);
	tcase_add_test(tc, its_size_follows_what_is_in_it);
	tcase_add_test(tc, the_same_hash_many_times);
	tcase_add_test(tc, without_memory_it_fills_up_and_then_refuses);
	return unit_run(s);
}
