/* store, feed: rows from one thread to another, in order, bounded, ended by either. */
#include "store/feed.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "unit/unit.h"

struct source {
	int64_t rows;
	size_t bytes; /* of each */
	int rc;       /* in the end */
	_Atomic int64_t put;
};

static int
read_rows(void *ctx, struct feed *f)
{
	struct source *s = ctx;

	for (int64_t i = 0; i < s->rows; i++) {
		struct fed *row;
		char *space;
		int rc = feed_put(f, (uint32_t)(i % 3), 2, s->bytes, &row, &space);

		if (rc)
			return rc;
		memset(space, (int)i, s->bytes);
		row->cell[0] = (struct cell){ .type = CELL_INT, .i = i };
		row->cell[1] =
			(struct cell){ .type = CELL_BYTES, .n = (uint32_t)s->bytes, .p = space };
		atomic_fetch_add(&s->put, 1);
	}
	return s->rc;
}

static void
check_row(const struct fed *row, int64_t i, size_t bytes)
{
	unit_check(row->kind == (uint32_t)(i % 3));
	unit_check(row->cell[0].i == i);
	unit_check(row->cell[1].n == bytes);
	for (size_t k = 0; k < bytes; k += 997)
		unit_check(row->cell[1].p[k] == (char)i);
}

START_TEST(rows_come_in_order_and_the_end_tells_why)
{
	static const size_t bytes[] = { 0, 100, 5000, FEED_BYTES + 1 };
	static const int ends[] = { 0, -EIO };

	for (size_t b = 0; b < ARRAY_SIZE(bytes); b++) {
		struct source s = { .rows = bytes[b] > FEED_BYTES ? 5 : 6000,
			.bytes = bytes[b],
			.rc = ends[b % 2] };
		const struct fed *row;
		struct feed *f;
		int64_t i = 0;
		int rc;

		ck_assert_int_eq(feed_start(&f, read_rows, &s), 0);
		for (; (rc = feed_next(f, &row)) == 1; i++) {
			const struct fed *next = feed_peek(f);

			check_row(row, i, s.bytes);
			if (next)
				check_row(next, i + 1, s.bytes);
		}
		ck_assert_int_eq(rc, s.rc);
		ck_assert_int_eq(i, s.rows);
		ck_assert_int_eq(feed_next(f, &row), s.rc);
		feed_end(f);
	}
}
END_TEST

/* The reader is at most FEED_BYTES ahead, whatever there is; and gives up when nobody wants more. */
START_TEST(a_user_that_stops_stops_the_reader)
{
	struct source s = { .rows = INT64_MAX, .bytes = 1000 };
	int64_t most = (int64_t)(FEED_BYTES / s.bytes) + 1;
	const struct fed *row;
	struct feed *f;

	ck_assert_int_eq(feed_start(&f, read_rows, &s), 0);
	ck_assert_int_eq(feed_next(f, &row), 1);
	while (atomic_load(&s.put) < most / 2)
		;
	ck_assert_int_le(atomic_load(&s.put), most);
	feed_end(f);
	ck_assert_int_le(atomic_load(&s.put), most);
}
END_TEST

START_TEST(without_memory_it_ends)
{
	for (int64_t n = 0; n < 3; n++) {
		struct source s = { .rows = 20000, .bytes = 100 };
		const struct fed *row;
		struct feed *f;
		int rc;

		alloc_fault_set(n, 1);
		rc = feed_start(&f, read_rows, &s);
		while (!rc && (rc = feed_next(f, &row)) == 1)
			rc = 0;
		alloc_fault_set(-1, 0);
		ck_assert_int_eq(rc, -ENOMEM);
		if (n > 0)
			feed_end(f);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("feed");
	TCase *tc = unit_case(s, "feed");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, rows_come_in_order_and_the_end_tells_why);
	tcase_add_test(tc, a_user_that_stops_stops_the_reader);
	tcase_add_test(tc, without_memory_it_ends);
	return unit_run(s);
}
