/* slab: items stay where they are, numbers name them, empty chunks give their memory back. */
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/slab.h"
#include "unit/random.h"
#include "unit/unit.h"

#define ITEM 168
#define MANY 5000

static void
fill(void *v, uint32_t i)
{
	memset(v, (int)(i % 251), ITEM);
}

static bool
intact(const void *v, uint32_t i)
{
	const unsigned char *b = v;

	return b[0] == i % 251 && memcmp(b, b + 1, ITEM - 1) == 0;
}

/* Pages of the slab that have memory behind them. */
static size_t
resident(const struct slab *s)
{
	size_t pages = slab_bytes(s) / 4096, n = 0;
	unsigned char *v = must_alloc(pages + 1);

	ck_assert_int_eq(mincore(s->base, pages * 4096, v), 0);
	for (size_t i = 0; i < pages; i++)
		n += v[i] & 1;
	x_free(v);
	return n;
}

START_TEST(items_keep_place_and_contents)
{
	static void *v[MANY];
	struct rnd r = { .s = (uint64_t)_i };
	struct slab s;
	size_t n = 0;

	memset(v, 0, sizeof v);
	ck_assert_int_eq(slab_init(&s, ITEM, MANY), 0);
	for (int step = 0; step < 20 * MANY; step++) {
		uint32_t i = (uint32_t)rnd_below(&r, MANY);

		if (v[i]) {
			unit_check(intact(v[i], i));
			slab_give(&s, v[i]);
			v[i] = NULL;
			n--;
		} else {
			v[i] = slab_take(&s);
			unit_check(v[i] != NULL);
			fill(v[i], i);
			unit_check(slab_at(&s, slab_index(&s, v[i])) == v[i]);
			unit_check(slab_index(&s, v[i]) < slab_top(&s));
			n++;
		}
		unit_check(s.n == n);
	}
	for (uint32_t i = 0; i < MANY; i++)
		unit_check(!v[i] || intact(v[i], i));
	slab_done(&s);
}
END_TEST

START_TEST(what_is_empty_gives_its_memory_back)
{
	static void *v[MANY];
	struct slab s;
	size_t most;

	ck_assert_int_eq(slab_init(&s, ITEM, MANY), 0);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < MANY; i++)
			fill(v[i] = slab_take(&s), i);
		most = resident(&s);
		ck_assert_uint_gt(most, MANY * ITEM / 4096);
		ck_assert_uint_le(slab_bytes(&s), MANY * ITEM + 2 * SLAB_CHUNK);
		for (uint32_t i = 0; i < MANY; i++)
			slab_give(&s, v[i]);
		ck_assert_uint_eq(s.n, 0);
		ck_assert_uint_le(resident(&s), SLAB_CHUNK / 4096);
	}
	slab_done(&s);
}
END_TEST

START_TEST(at_its_limit_and_without_memory_it_refuses)
{
	struct slab s;
	size_t n = 0;
	void *v, *last = NULL;

	alloc_fault_set(0, 1);
	ck_assert_int_lt(slab_init(&s, ITEM, MANY), 0);
	alloc_fault_set(-1, 0);
	ck_assert_int_eq(slab_init(&s, ITEM, 1), 0);
	alloc_fault_set(0, 1);
	ck_assert_int_lt(slab_reserve(&s), 0);
	ck_assert_ptr_null(slab_take(&s));
	alloc_fault_set(-1, 0);
	ck_assert_int_eq(slab_reserve(&s), 0);
	alloc_fault_set(0, 1);
	while ((v = slab_take(&s)) != NULL) {
		last = v;
		n++;
	}
	alloc_fault_set(-1, 0);
	ck_assert_uint_eq(n, SLAB_CHUNK / ITEM);
	ck_assert_ptr_null(slab_take(&s));
	slab_give(&s, last);
	ck_assert_ptr_eq(slab_take(&s), last);
	slab_done(&s);
	slab_done(&s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("slab");
	TCase *tc = unit_case(s, "slab");

	tcase_add_loop_test(tc, items_keep_place_and_contents, 0, 3);
	tcase_add_test(tc, what_is_empty_gives_its_memory_back);
	tcase_add_test(tc, at_its_limit_and_without_memory_it_refuses);
	return unit_run(s);
}
