/* map: against an array, with good and bad hashes; bounded steps, scans, faults. */
#include <errno.h>
#include <string.h>

#include "base/siphash.h"
#include "engine/map.h"
#include "unit/random.h"
#include "unit/unit.h"

#define KEYS 3000u
#define MANY 200000u

struct item {
	struct map_node node; /* first: a node is its item */
	uint32_t key;
	bool in;
	unsigned shown;
};

static bool
item_match(const struct map_node *node, const void *key)
{
	return ((const struct item *)node)->key == *(const uint32_t *)key;
}

/* `kind` 0: keyed and good; 1: eight values in the high bits; 2: all the same. */
static uint64_t
item_hash(int kind, uint32_t key)
{
	static const uint64_t secret[2] = { 1, 2 };

	if (kind == 0)
		return siphash13(secret, &key, sizeof key);
	return kind == 1 ? (uint64_t)(key % 8) << 61 : 42;
}

static struct item *
items_new(uint32_t n)
{
	struct item *v = must_zalloc(n * sizeof *v);

	for (uint32_t i = 0; i < n; i++)
		v[i].key = i;
	return v;
}

static void
add(struct map *m, struct item *it, int kind)
{
	unit_check(map_add(m, &it->node, item_hash(kind, it->key)) == 0);
	it->in = true;
}

static void
del(struct map *m, struct item *it)
{
	map_del(m, &it->node);
	it->in = false;
}

static void
expect(const struct map *m, struct item *it, int kind)
{
	uint64_t hash = item_hash(kind, it->key);

	unit_check(map_find(m, hash, &it->key) == (it->in ? &it->node : NULL));
}

START_TEST(random_adds_and_deletes_agree_with_an_array)
{
	struct rnd rnd = { .s = (uint64_t)_i };
	int kind = _i % 3;
	uint32_t keys = kind ? 200 : KEYS;
	struct item *v = items_new(keys);
	struct map m;

	map_init(&m, item_match);
	for (uint64_t step = 1; step <= 30000; step++) {
		struct item *it = &v[rnd_below(&rnd, keys)];

		expect(&m, it, kind);
		/* Phases that grow and phases that shrink. */
		if (!it->in && (step / 7000 % 2 == 0 || rnd_one_in(&rnd, 20)))
			add(&m, it, kind);
		else if (it->in && (step / 7000 % 2 == 1 || rnd_one_in(&rnd, 20)))
			del(&m, it);
		expect(&m, it, kind);
		expect(&m, &v[rnd_below(&rnd, keys)], kind);
		if (step % 256 == 0)
			map_verify(&m);
	}
	for (uint32_t i = 0; i < keys; i++) {
		expect(&m, &v[i], kind);
		if (v[i].in)
			del(&m, &v[i]);
	}
	ck_assert_uint_eq(map_count(&m), 0);
	map_verify(&m);
	map_done(&m);
	x_free(v);
}
END_TEST

/* What an operation may move, and that a resize is over before the next begins. */
START_TEST(no_operation_moves_more_than_a_few_buckets)
{
	struct item *v = items_new(MANY);
	struct map m;
	size_t moved = 0, size = 0;

	map_init(&m, item_match);
	for (uint32_t i = 0; i < 2 * MANY; i++) {
		size_t was = m.now.buckets ? m.now.mask + 1 : 0;

		if (i < MANY)
			add(&m, &v[i], 0);
		else
			del(&m, &v[i - MANY]);
		size = m.now.mask + 1;
		unit_check(size == was || size == 2 * was || 2 * size == was || was == 0);
		if (size == was && m.old.buckets)
			unit_check(m.moved - moved <= 16);
		unit_check(m.n <= size + 1);
		unit_check(size <= 32 || m.n >= size / 32);
		moved = m.moved;
	}
	ck_assert_uint_le(size, 32);
	ck_assert_ptr_null(m.old.buckets);
	map_done(&m);
	x_free(v);
}
END_TEST

START_TEST(an_empty_map_finds_and_scans_nothing)
{
	struct map m;
	uint32_t key = 1;
	uint64_t cursor = 0;

	map_init(&m, item_match);
	ck_assert_ptr_null(map_find(&m, 1, &key));
	map_scan(&m, &cursor, 10, NULL, NULL);
	ck_assert_uint_eq(cursor, 0);
	map_verify(&m);
	map_done(&m);
}
END_TEST

static void
count_shown(void *arg, struct map_node *node)
{
	((struct item *)node)->shown++;
	++*(unsigned *)arg;
}

START_TEST(a_scan_of_a_still_map_shows_each_node_once)
{
	struct item *v = items_new(KEYS);
	struct map m;

	map_init(&m, item_match);
	/* Every fill level, the ones in the middle of a resize too. */
	for (uint32_t n = 0; n < KEYS; n++) {
		uint64_t cursor = 0;
		unsigned shown = 0, calls = 0;

		add(&m, &v[n], 0);
		if (n > 100 && n % 37)
			continue;
		do {
			map_scan(&m, &cursor, 1 + n % 5, count_shown, &shown);
			calls++;
		} while (cursor);
		ck_assert_uint_eq(shown, n + 1);
		ck_assert_uint_le(calls, m.now.mask + 1);
		for (uint32_t i = 0; i <= n; i++) {
			unit_check(v[i].shown == 1);
			v[i].shown = 0;
		}
	}
	map_done(&m);
	x_free(v);
}
END_TEST

/* The even keys stay; the odd ones come and go between the calls. */
static void
churn(struct map *m, struct item *v, struct rnd *rnd, bool growing)
{
	for (unsigned i = rnd_below(rnd, 80); i > 0; i--) {
		struct item *it = &v[rnd_below(rnd, KEYS / 2) * 2 + 1];

		if (!it->in && growing)
			add(m, it, 0);
		else if (it->in && !growing)
			del(m, it);
	}
}

START_TEST(a_scan_of_a_changing_map_misses_nobody_who_stays)
{
	struct rnd rnd = { .s = (uint64_t)_i };
	struct item *v = items_new(KEYS);
	struct map m;

	map_init(&m, item_match);
	for (uint32_t i = 0; i < KEYS; i += 20 * (1 + (uint32_t)_i % 4))
		add(&m, &v[i], 0);
	for (int round = 0; round < 60; round++) {
		uint64_t cursor = 0;
		unsigned shown = 0;
		bool growing = rnd_one_in(&rnd, 2);

		for (uint32_t i = 0; i < KEYS; i++)
			v[i].shown = 0;
		do {
			if (rnd_one_in(&rnd, 8))
				growing = !growing;
			map_scan(&m, &cursor, 1 + rnd_below(&rnd, 40), count_shown, &shown);
			churn(&m, v, &rnd, growing);
		} while (cursor);
		for (uint32_t i = 0; i < KEYS; i += 2)
			unit_check(!v[i].in || v[i].shown > 0);
	}
	map_done(&m);
	x_free(v);
}
END_TEST

START_TEST(the_first_table_may_be_refused)
{
	struct item it = { .key = 1 };
	struct map m;

	map_init(&m, item_match);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(map_add(&m, &it.node, 5), -ENOMEM);
	ck_assert_uint_eq(map_count(&m), 0);
	map_verify(&m);
	ck_assert_int_eq(map_add(&m, &it.node, 5), 0);
	map_done(&m);
}
END_TEST

START_TEST(a_map_that_cannot_grow_goes_on_and_grows_later)
{
	struct item *v = items_new(KEYS);
	struct map m;

	map_init(&m, item_match);
	add(&m, &v[0], 0);
	alloc_fault_set(0, 1);
	for (uint32_t i = 1; i < KEYS - 200; i++)
		add(&m, &v[i], 0);
	ck_assert_uint_eq(m.now.mask, 15);
	for (uint32_t i = 0; i < KEYS; i++)
		expect(&m, &v[i], 0);
	alloc_fault_set(-1, 0);
	for (uint32_t i = KEYS - 200; i < KEYS; i++)
		add(&m, &v[i], 0);
	ck_assert_uint_gt(m.now.mask, 255);
	map_verify(&m);
	alloc_fault_set(0, 1);
	for (uint32_t i = 0; i < KEYS; i++)
		del(&m, &v[i]);
	map_verify(&m);
	alloc_fault_set(-1, 0);
	map_done(&m);
	x_free(v);
}
END_TEST

/* Reading a page that went back gives zeros: what was moved stays moved. */
START_TEST(pages_given_back_early_lose_nothing)
{
	size_t n = 3 * BIG_MIN;
	char *p = big_alloc(n), *q;

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < n; i++)
		unit_check(p[i] == 0);
	memset(p, 'x', n);
	big_discard(p, n, 0, BIG_MIN);
	big_discard(p, n, BIG_MIN + 1, BIG_MIN + 2);
	ck_assert_int_eq(p[0], 0);
	ck_assert_int_eq(p[BIG_MIN], 'x');
	q = big_resize(p, n, 2 * n);
	ck_assert_ptr_nonnull(q);
	ck_assert_int_eq(q[n - 1], 'x');
	ck_assert_int_eq(q[n], 0);
	p = big_resize(q, 2 * n, 100);
	ck_assert_ptr_nonnull(p);
	q = big_resize(p, 100, 2 * n);
	ck_assert_ptr_nonnull(q);
	ck_assert_int_eq(q[100], 0);
	alloc_fault_set(0, 1);
	ck_assert_ptr_null(big_resize(q, 2 * n, 4 * n));
	ck_assert_ptr_null(big_resize(q, 2 * n, 10));
	ck_assert_ptr_null(big_alloc(n));
	alloc_fault_set(-1, 0);
	big_free(q, 2 * n);
	big_free(NULL, n);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("map");
	TCase *tc = unit_case(s, "map");

	tcase_add_loop_test(tc, random_adds_and_deletes_agree_with_an_array, 0, 6);
	tcase_add_test(tc, no_operation_moves_more_than_a_few_buckets);
	tcase_add_test(tc, an_empty_map_finds_and_scans_nothing);
	tcase_add_test(tc, a_scan_of_a_still_map_shows_each_node_once);
	tcase_add_loop_test(tc, a_scan_of_a_changing_map_misses_nobody_who_stays, 0, 8);
	tcase_add_test(tc, the_first_table_may_be_refused);
	tcase_add_test(tc, a_map_that_cannot_grow_goes_on_and_grows_later);
	tcase_add_test(tc, pages_given_back_early_lose_nothing);
	return unit_run(s);
}
