/* wire/frame: lengths whole, cut, oversized and malformed. */
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "wire/frame.h"

#define MAX 1000000

static const uint8_t *msg;
static size_t len, need;

START_TEST(a_length_is_written_and_read_back)
{
	static const uint32_t lens[] = { 0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455,
		268435456, UINT32_MAX };
	static const size_t sizes[] = { 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5 };
	uint8_t dst[5];
	size_t n = frame_put_len(dst, lens[_i]);

	ck_assert_uint_eq(n, sizes[_i]);
	/* Whole but for its message: what is needed is known. */
	if (lens[_i] > 0) {
		ck_assert_int_eq(frame_next(dst, n, UINT32_MAX, &msg, &len, &need), 0);
		ck_assert_uint_eq(need, n + lens[_i]);
	}
	/* Each byte but the last asks for one more. */
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_eq(frame_next(dst, i, UINT32_MAX, &msg, &len, &need), 0);
		ck_assert_uint_eq(need, i + 1);
	}
}
END_TEST

START_TEST(frames_come_out_one_after_the_other)
{
	static const uint8_t in[] = { 3, 'a', 'b', 'c', 0, 1, 'd', 2, 'e' };
	size_t at = 0;
	long n;

	n = frame_next(in, sizeof in, MAX, &msg, &len, &need);
	ck_assert_int_eq(n, 4);
	ck_assert_uint_eq(len, 3);
	ck_assert_mem_eq(msg, "abc", 3);
	at += (size_t)n;
	n = frame_next(in + at, sizeof in - at, MAX, &msg, &len, &need);
	ck_assert_int_eq(n, 1);
	ck_assert_uint_eq(len, 0);
	at += (size_t)n;
	n = frame_next(in + at, sizeof in - at, MAX, &msg, &len, &need);
	ck_assert_int_eq(n, 2);
	ck_assert_mem_eq(msg, "d", 1);
	at += (size_t)n;
	ck_assert_int_eq(frame_next(in + at, sizeof in - at, MAX, &msg, &len, &need), 0);
	ck_assert_uint_eq(need, 3);
}
END_TEST

START_TEST(an_oversized_length_is_refused_before_its_bytes)
{
	uint8_t dst[5];
	size_t n = frame_put_len(dst, MAX + 1);

	ck_assert_int_eq(frame_next(dst, n, MAX, &msg, &len, &need), ERR_TOO_LONG);
	n = frame_put_len(dst, MAX);
	ck_assert_int_eq(frame_next(dst, n, MAX, &msg, &len, &need), 0);
	n = frame_put_len(dst, UINT32_MAX);
	ck_assert_int_eq(frame_next(dst, n, MAX, &msg, &len, &need), ERR_TOO_LONG);
}
END_TEST

START_TEST(a_length_of_more_than_five_bytes_is_malformed)
{
	static const uint8_t endless[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x01 };
	static const uint8_t over32[] = { 0xff, 0xff, 0xff, 0xff, 0x7f };
	static const uint8_t padded[] = { 0x81, 0x80, 0x80, 0x80, 0x00, 'x' };

	ck_assert_int_eq(frame_next(endless, 4, MAX, &msg, &len, &need), 0);
	ck_assert_int_eq(frame_next(endless, 6, MAX, &msg, &len, &need), ERR_MALFORMED);
	ck_assert_int_eq(frame_next(over32, 5, MAX, &msg, &len, &need), ERR_MALFORMED);
	/* A longer form of a small number is a varint all the same. */
	ck_assert_int_eq(frame_next(padded, 6, MAX, &msg, &len, &need), 6);
	ck_assert_uint_eq(len, 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("frame");
	TCase *tc = unit_case(s, "frame");

	tcase_add_loop_test(tc, a_length_is_written_and_read_back, 0, 11);
	tcase_add_test(tc, frames_come_out_one_after_the_other);
	tcase_add_test(tc, an_oversized_length_is_refused_before_its_bytes);
	tcase_add_test(tc, a_length_of_more_than_five_bytes_is_malformed);
	return unit_run(s);
}
