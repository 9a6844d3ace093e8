/* text, siphash, hist: readings, boundaries, published vectors. */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/siphash.h"
#include "base/text.h"
#include "unit/random.h"
#include "unit/unit.h"

#define MIN_NS (60 * NS_PER_S)
#define DAY_NS (86400 * NS_PER_S)

static const struct {
	const char *text;
	int err;
	int64_t ns;
	const char *back; /* NULL: as `text` */
} durations[] = {
	{ "0", 0, 0, NULL },
	{ "0s", 0, 0, "0" },
	{ "1ns", 0, 1, NULL },
	{ "250ms", 0, 250 * NS_PER_MS, NULL },
	{ "30s", 0, 30 * NS_PER_S, NULL },
	{ "90s", 0, 90 * NS_PER_S, "1m30s" },
	{ "1h30m", 0, 90 * MIN_NS, NULL },
	{ "2d", 0, 2 * DAY_NS, NULL },
	{ "1w", 0, 7 * DAY_NS, NULL },
	{ "24h", 0, DAY_NS, "1d" },
	{ "1w2d3h4m5s6ms7us8ns", 0,
		9 * DAY_NS + 184 * MIN_NS + 5 * NS_PER_S + 6 * NS_PER_MS + 7 * NS_PER_US + 8,
		NULL },
	{ "007s", 0, 7 * NS_PER_S, "7s" },
	{ "9223372036854775807ns", 0, INT64_MAX, "15250w1d23h47m16s854ms775us807ns" },
	{ "9223372036854775808ns", ERR_OUT_OF_RANGE, 0, NULL },
	{ "15250w1d23h47m16s854ms775us808ns", ERR_OUT_OF_RANGE, 0, NULL },
	{ "99999999999999999999w", ERR_OUT_OF_RANGE, 0, NULL },
	{ "15251w", ERR_OUT_OF_RANGE, 0, NULL },
	{ "15251w1x", ERR_BAD_VALUE, 0, NULL },
	{ "", ERR_BAD_VALUE, 0, NULL },
	{ "00", ERR_BAD_VALUE, 0, NULL },
	{ "10", ERR_BAD_VALUE, 0, NULL },
	{ "s", ERR_BAD_VALUE, 0, NULL },
	{ "1", ERR_BAD_VALUE, 0, NULL },
	{ "1S", ERR_BAD_VALUE, 0, NULL },
	{ "1y", ERR_BAD_VALUE, 0, NULL },
	{ "1s1s", ERR_BAD_VALUE, 0, NULL },
	{ "1s1m", ERR_BAD_VALUE, 0, NULL },
	{ "1m1", ERR_BAD_VALUE, 0, NULL },
	{ "1.5s", ERR_BAD_VALUE, 0, NULL },
	{ "-1s", ERR_BAD_VALUE, 0, NULL },
	{ "+1s", ERR_BAD_VALUE, 0, NULL },
	{ " 1s", ERR_BAD_VALUE, 0, NULL },
	{ "1s ", ERR_BAD_VALUE, 0, NULL },
	{ "1 s", ERR_BAD_VALUE, 0, NULL },
	{ "1hm", ERR_BAD_VALUE, 0, NULL },
	{ "nan", ERR_BAD_VALUE, 0, NULL },
};

START_TEST(a_duration_reads_and_writes_back)
{
	char text[64];
	const char *back = durations[_i].back ? durations[_i].back : durations[_i].text;
	int64_t ns = -5;

	ck_assert_msg(text_duration(str_from(durations[_i].text), &ns) == durations[_i].err,
		"\"%s\"", durations[_i].text);
	ck_assert_int_eq(ns, durations[_i].err ? -5 : durations[_i].ns);
	if (durations[_i].err)
		return;
	ck_assert_uint_eq(text_put_duration(text, sizeof text, ns), strlen(back));
	ck_assert_str_eq(text, back);
}
END_TEST

START_TEST(any_duration_survives_the_way_through_text)
{
	struct rnd rnd = { .s = 1 };
	char text[64];

	for (int i = 0; i < 20000; i++) {
		int64_t ns = (int64_t)(rnd_next(&rnd) >> (1 + rnd_below(&rnd, 63))), back = -1;
		size_t n = text_put_duration(text, sizeof text, ns);

		ck_assert_int_eq(text_duration((struct str){ text, n }, &back), 0);
		ck_assert_int_eq(back, ns);
	}
}
END_TEST

START_TEST(bytes_after_the_end_of_a_str_are_not_read)
{
	uint64_t v = 0;
	int64_t ns = 0;

	ck_assert_int_eq(text_u64((struct str){ "123456", 3 }, &v), 0);
	ck_assert_uint_eq(v, 123);
	ck_assert_int_eq(text_duration((struct str){ "10ms", 3 }, &ns), 0);
	ck_assert_int_eq(ns, 10 * MIN_NS);
	ck_assert_int_eq(text_u64(STR("12\0"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_u64(STR_NONE, &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_duration(STR_NONE, &ns), ERR_BAD_VALUE);
	ck_assert_int_eq(text_size(STR_NONE, &v), ERR_BAD_VALUE);
}
END_TEST

START_TEST(numbers_and_sizes)
{
	uint64_t v = 9;

	ck_assert_int_eq(text_u64(STR("18446744073709551615"), &v), 0);
	ck_assert_uint_eq(v, UINT64_MAX);
	v = 9;
	ck_assert_int_eq(text_u64(STR("18446744073709551616"), &v), ERR_OUT_OF_RANGE);
	ck_assert_int_eq(text_u64(STR("99999999999999999999999x"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_u64(STR("-1"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_u64(STR("0x10"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_size(STR("k"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_size(STR("1kk"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_size(STR("1t"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_size(STR("18014398509481984k"), &v), ERR_OUT_OF_RANGE);
	ck_assert_uint_eq(v, 9);
	ck_assert_int_eq(text_size(STR("18014398509481983k"), &v), 0);
	ck_assert_uint_eq(v, UINT64_MAX - 1023);
	ck_assert_int_eq(text_size(STR("65536"), &v), 0);
	ck_assert_uint_eq(v, 65536);
	ck_assert_int_eq(text_size(STR("64k"), &v), 0);
	ck_assert_uint_eq(v, 65536);
	ck_assert_int_eq(text_size(STR("1m"), &v), 0);
	ck_assert_uint_eq(v, 1 << 20);
	ck_assert_int_eq(text_size(STR("2g"), &v), 0);
	ck_assert_uint_eq(v, 2ull << 30);
}
END_TEST

START_TEST(booleans_are_six_words)
{
	static const char *const yes[] = { "yes", "true", "on" },
				 *const no[] = { "no", "false", "off" };
	bool v = false;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(text_bool(str_from(yes[i]), &v), 0);
		ck_assert(v);
		ck_assert_int_eq(text_bool(str_from(no[i]), &v), 0);
		ck_assert(!v);
	}
	ck_assert_int_eq(text_bool(STR("1"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_bool(STR("Yes"), &v), ERR_BAD_VALUE);
	ck_assert_int_eq(text_bool(STR(""), &v), ERR_BAD_VALUE);
}
END_TEST

static const struct {
	struct str s;
	bool valid;
} utf8[] = {
	{ STR_NONE, true },
	{ { "a\0b", 3 }, true },
	{ { "\x7f\xc2\x80\xdf\xbf", 5 }, true },
	{ { "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12 }, true },
	{ { "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8 }, true },
	{ { "\x80", 1 }, false },
	{ { "\xc0\x80", 2 }, false },         /* overlong */
	{ { "\xc1\xbf", 2 }, false },         /* overlong */
	{ { "\xe0\x9f\xbf", 3 }, false },     /* overlong */
	{ { "\xf0\x8f\xbf\xbf", 4 }, false }, /* overlong */
	{ { "\xed\xa0\x80", 3 }, false },     /* surrogate */
	{ { "\xed\xbf\xbf", 3 }, false },     /* surrogate */
	{ { "\xf4\x90\x80\x80", 4 }, false }, /* over U+10FFFF */
	{ { "\xf5\x80\x80\x80", 4 }, false },
	{ { "\xff", 1 }, false },
	{ { "a\xc3", 2 }, false }, /* cut */
	{ { "\xe2\x82\xac", 2 }, false },
	{ { "\xf0\x90\x80\x80", 3 }, false },
	{ { "\xc3x", 2 }, false },
	{ { "\xe2\x82x", 3 }, false },
	{ { "\xf0\x90\x80x", 4 }, false },
};

START_TEST(utf8_is_checked_to_the_letter)
{
	ck_assert(text_utf8_valid(utf8[_i].s) == utf8[_i].valid);
}
END_TEST

/* The published vectors for key 00..0f and the message 00, 01, 02 ... of n bytes. */
START_TEST(siphash_gives_the_known_values)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} known[] = {
		{ 0, 0xabac0158050fc4dcu },
		{ 1, 0xc9f49bf37d57ca93u },
		{ 2, 0x82cb9b024dc7d44du },
		{ 7, 0xd3927d989bb11140u },
		{ 8, 0x369095118d299a8eu },
		{ 9, 0x25a48eb36c063de4u },
		{ 15, 0xd320d86d2a519956u },
		{ 16, 0xcc4fdd1a7d908b66u },
		{ 63, 0x9d199062b7bbb3a8u },
	};
	const uint64_t key[2] = { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u };
	uint8_t m[65];

	for (uint8_t i = 0; i < sizeof m; i++)
		m[i] = i;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		ck_assert_uint_eq(siphash13(key, m, known[i].n), known[i].hash);
	/* Not aligned. */
	memmove(m + 1, m, 63);
	ck_assert_uint_eq(siphash13(key, m + 1, 63), known[8].hash);
}
END_TEST

START_TEST(every_length_and_key_counts_in_the_hash)
{
	uint64_t key[2] = { 0, 0x0f0e0d0c0b0a0908u };
	uint8_t m[256];

	key[0] = 0;
	for (unsigned n = 0; n < 256; n++) {
		for (unsigned i = 0; i < n; i++)
			m[i] = (uint8_t)(i * 7 + n);
		key[0] = siphash13(key, m, n);
	}
	ck_assert_uint_eq(key[0], 0x97da2eaac23ce7efu);
}
END_TEST

START_TEST(a_histogram_errs_by_three_percent_at_most)
{
	struct rnd rnd = { .s = 3 };

	for (int i = 0; i < 20000; i++) {
		struct hist *h = must_zalloc(sizeof *h);
		int64_t v = (int64_t)(rnd_next(&rnd) >> (1 + rnd_below(&rnd, 63))), q;

		hist_add(h, v);
		ck_assert_int_eq(hist_quantile(h, 500), v);
		hist_add(h, INT64_MAX);
		q = hist_quantile(h, 500);
		ck_assert_int_ge(q, v);
		ck_assert_int_le(q - v, v / 32);
		ck_assert_int_eq(hist_quantile(h, 1000), INT64_MAX);
		x_free(h);
	}
}
END_TEST

START_TEST(quantiles_of_small_values_are_exact)
{
	struct hist *h = must_zalloc(sizeof *h);

	ck_assert_int_eq(hist_quantile(h, 500), 0);
	for (int v = 0; v < 20; v++)
		hist_add(h, v);
	ck_assert_int_eq(hist_quantile(h, 0), 0);
	ck_assert_int_eq(hist_quantile(h, 50), 0);
	ck_assert_int_eq(hist_quantile(h, 51), 1);
	ck_assert_int_eq(hist_quantile(h, 500), 9);
	ck_assert_int_eq(hist_quantile(h, 950), 18);
	ck_assert_int_eq(hist_quantile(h, 951), 19);
	ck_assert_int_eq(hist_quantile(h, 2000), 19);
	hist_add(h, -7);
	ck_assert_uint_eq(h->bucket[0], 2);
	ck_assert_int_eq(h->max, 19);
	x_free(h);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("text");
	TCase *tc = unit_case(s, "text");

	tcase_add_loop_test(tc, a_duration_reads_and_writes_back, 0,
		(int)(sizeof durations / sizeof durations[0]));
	tcase_add_test(tc, any_duration_survives_the_way_through_text);
	tcase_add_test(tc, bytes_after_the_end_of_a_str_are_not_read);
	tcase_add_test(tc, numbers_and_sizes);
	tcase_add_test(tc, booleans_are_six_words);
	tcase_add_loop_test(
		tc, utf8_is_checked_to_the_letter, 0, (int)(sizeof utf8 / sizeof utf8[0]));
	tc = unit_case(s, "siphash");
	tcase_add_test(tc, siphash_gives_the_known_values);
	tcase_add_test(tc, every_length_and_key_counts_in_the_hash);
	tc = unit_case(s, "hist");
	tcase_add_test(tc, a_histogram_errs_by_three_percent_at_most);
	tcase_add_test(tc, quantiles_of_small_values_are_exact);
	return unit_run(s);
}
