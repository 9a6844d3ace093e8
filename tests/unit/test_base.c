/* base: buffers, lists, log fields, errors, allocation faults. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "unit/unit.h"

START_TEST(buf_keeps_order_over_growth_and_slides)
{
	struct buf b;
	uint8_t next_in = 0, next_out = 0;

	buf_init(&b, 4096);
	for (int round = 0; round < 2000; round++) {
		for (int i = 0; i < 7; i++) {
			ck_assert_int_eq(buf_put(&b, &next_in, 1), 0);
			next_in++;
		}
		for (int i = 0; i < 7 - (round % 500 == 0); i++) {
			ck_assert_uint_eq(*buf_head(&b), next_out);
			next_out++;
			buf_consume(&b, 1);
		}
	}
	ck_assert_uint_eq(buf_len(&b), 4);
	buf_done(&b);
}
END_TEST

START_TEST(buf_refuses_over_its_maximum_and_stays_as_it_was)
{
	struct buf b;
	char big[101] = { 0 };

	buf_init(&b, 100);
	ck_assert_int_eq(buf_put(&b, "abc", 3), 0);
	ck_assert_int_eq(buf_put(&b, big, 98), ERR_TOO_LONG);
	ck_assert_int_eq(buf_put(&b, big, SIZE_MAX), ERR_TOO_LONG);
	ck_assert_uint_eq(buf_len(&b), 3);
	ck_assert_int_eq(buf_put(&b, big, 97), 0);
	buf_done(&b);
}
END_TEST

/* Adding to a null pointer, be it 0, is undefined: clang's sanitizer stops at it. */
START_TEST(buf_that_holds_nothing_has_a_head_to_ask_for)
{
	struct buf b;

	buf_init(&b, 100);
	ck_assert_ptr_null(buf_head(&b));
	ck_assert_int_eq(buf_put(&b, NULL, 0), 0);
	ck_assert_uint_eq(buf_len(&b), 0);
	buf_done(&b);
}
END_TEST

START_TEST(buf_reports_no_memory)
{
	struct buf b;

	buf_init(&b, 100);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(buf_put(&b, "abc", 3), -ENOMEM);
	ck_assert_int_eq(buf_put(&b, "abc", 3), 0);
	buf_done(&b);
}
END_TEST

struct node {
	int v;
	struct list link;
};

START_TEST(list_keeps_fifo_order_and_delete_is_idempotent)
{
	struct list l;
	struct node n[4];
	int want = 0;

	list_init(&l);
	for (int i = 0; i < 4; i++) {
		n[i].v = i;
		list_append(&l, &n[i].link);
	}
	list_each(p, &l, struct node, link)
		ck_assert_int_eq(p->v, want++);
	list_each_safe(p, &l, struct node, link)
		if (p->v % 2)
			list_del(&p->link);
	list_del(&n[1].link);
	ck_assert_int_eq(list_first(&l, struct node, link)->v, 0);
	ck_assert_int_eq(list_entry(l.prev, struct node, link)->v, 2);
}
END_TEST

START_TEST(log_field_cannot_forge_a_line)
{
	char dst[64];

	ck_assert_str_eq(
		log_field(dst, sizeof dst, STR("a\nb\"\\\x80")), "\"a\\x0ab\\\"\\\\\\x80\"");
	ck_assert_uint_lt(strlen(log_field(dst, 16, STR("0123456789012345678901234567"))), 16);
}
END_TEST

START_TEST(errors_have_sentences)
{
	ck_assert_str_eq(err_str(ERR_LOCKED), "in use by another daemon");
	ck_assert_str_eq(err_str(-ENOENT), "No such file or directory");
	ck_assert_str_eq(err_str(-99999), "unknown error");
}
END_TEST

START_TEST(time_sums_saturate)
{
	ck_assert_int_eq(sat_add(INT64_MAX, 1), INT64_MAX);
	ck_assert_int_eq(sat_add(INT64_MIN, -1), INT64_MIN);
	ck_assert_int_eq(sat_add(1, -2), -1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("base");
	TCase *tc = unit_case(s, "base");

	tcase_add_test(tc, buf_keeps_order_over_growth_and_slides);
	tcase_add_test(tc, buf_refuses_over_its_maximum_and_stays_as_it_was);
	tcase_add_test(tc, buf_that_holds_nothing_has_a_head_to_ask_for);
	tcase_add_test(tc, buf_reports_no_memory);
	tcase_add_test(tc, list_keeps_fifo_order_and_delete_is_idempotent);
	tcase_add_test(tc, log_field_cannot_forge_a_line);
	tcase_add_test(tc, errors_have_sentences);
	tcase_add_test(tc, time_sums_saturate);
	return unit_run(s);
}
