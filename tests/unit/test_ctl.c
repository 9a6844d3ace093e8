/* wqctl's pure parts: targets, durations, RFC 3339, escapes, JSON strings, order of rows. */
#include <stdio.h>
#include <string.h>

#include "ctl_hist.h"
#include "ctl_sort.h"
#include "ctl_target.h"
#include "ctl_text.h"
#include "ctl_time.h"
#include "unit/unit.h"

/* ---- targets ---- */

static const char *
parse(const char *text, const char *queue, struct ctl_target *t)
{
	memset(t, 0, sizeof *t);
	return ctl_target_parse(text, strlen(text), queue, t);
}

START_TEST(target_splits_at_the_first_slash)
{
	static const struct {
		const char *text, *queue, *want_queue, *want_key;
	} cases[] = {
		{ "hb/host-1", NULL, "hb", "host-1" },
		{ "host-1", NULL, "default", "host-1" },
		{ "hb/rack/3/host", NULL, "hb", "rack/3/host" },
		{ "hb//x", NULL, "hb", "/x" },
		{ "rack/3", "hb", "hb", "rack/3" },
		{ "/", "hb", "hb", "/" },
	};
	struct ctl_target t;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ck_assert_ptr_null(parse(cases[i].text, cases[i].queue, &t));
		ck_assert_str_eq(t.queue, cases[i].want_queue);
		ck_assert_str_eq(t.key, cases[i].want_key);
	}
}
END_TEST

START_TEST(target_refuses_empty_and_long_parts)
{
	char text[400];
	struct ctl_target t;

	ck_assert_ptr_nonnull(parse("", NULL, &t));
	ck_assert_ptr_nonnull(parse("/x", NULL, &t));
	ck_assert_ptr_nonnull(parse("hb/", NULL, &t));
	ck_assert_ptr_nonnull(parse("x", "", &t));
	ck_assert_ptr_nonnull(parse("", "hb", &t));
	memset(text, 'k', sizeof text);
	text[255] = '\0';
	ck_assert_ptr_null(parse(text, NULL, &t));
	ck_assert_uint_eq(strlen(t.key), 255);
	text[255] = 'k';
	text[256] = '\0';
	ck_assert_ptr_nonnull(parse(text, NULL, &t));
	text[128] = '/';
	ck_assert_ptr_null(parse(text, NULL, &t));
	ck_assert_uint_eq(strlen(t.queue), 128);
	text[128] = 'k';
	text[129] = '/';
	ck_assert_ptr_nonnull(parse(text, NULL, &t));
}
END_TEST

/* ---- times ---- */

START_TEST(duration_needs_a_unit_unless_it_is_zero)
{
	int64_t ms = -1;

	ck_assert_ptr_null(ctl_duration_parse("0", &ms));
	ck_assert_int_eq(ms, 0);
	ck_assert_ptr_null(ctl_duration_parse("250ms", &ms));
	ck_assert_int_eq(ms, 250);
	ck_assert_ptr_null(ctl_duration_parse("30s", &ms));
	ck_assert_int_eq(ms, 30000);
	ck_assert_ptr_null(ctl_duration_parse("1h30m", &ms));
	ck_assert_int_eq(ms, 5400000);
	ms = 77;
	static const char *const bad[] = { "", "30", "00", "-1s", "+1s", "1.5s", "s", "1 s", "1x",
		" 1s", "1s ", "nan", "inf", "9999999999999999999s" };
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(ctl_duration_parse(bad[i], &ms) != NULL, "accepted '%s'", bad[i]);
	ck_assert_int_eq(ms, 77);
}
END_TEST

START_TEST(rfc3339_reads_dates_offsets_and_fractions)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "1970-01-01T00:00:00.001Z", 1 },
		{ "2026-03-01T08:30:00Z", 1772353800000 },
		{ "2026-03-01t08:30:00z", 1772353800000 },
		{ "2026-03-01 08:30:00Z", 1772353800000 },
		{ "2026-03-01T08:30:00+01:00", 1772350200000 },
		{ "2026-03-01T08:30:00-00:30", 1772355600000 },
		{ "2026-03-01T08:30:00-00:00", 1772353800000 },
		/* leap years: every 4th, not every 100th, every 400th */
		{ "2024-02-29T00:00:00Z", 1709164800000 },
		{ "2000-02-29T12:00:00Z", 951825600000 },
		{ "2000-03-01T00:00:00Z", 951868800000 },
		{ "2100-03-01T00:00:00Z", 4107542400000 },
		{ "2099-12-31T23:59:59Z", 4102444799000 },
		{ "9999-12-31T23:59:59.999Z", 253402300799999 },
		/* the offset may cross into another year */
		{ "2025-12-31T23:30:00-01:00", 1767227400000 },
		{ "2026-01-01T00:30:00+01:00", 1767223800000 },
		/* a fraction rounds up, so that nothing is early */
		{ "2026-03-01T08:30:00.5Z", 1772353800500 },
		{ "2026-03-01T08:30:00.250Z", 1772353800250 },
		{ "2026-03-01T08:30:00.2500000Z", 1772353800250 },
		{ "2026-03-01T08:30:00.2500001Z", 1772353800251 },
		{ "2026-03-01T08:30:00.999999Z", 1772353801000 },
		/* a leap second is the first of the next minute */
		{ "2016-12-31T23:59:60Z", 1483228800000 },
		/* before the epoch: long ago */
		{ "1969-12-31T23:59:59Z", 0 },
		{ "1970-01-01T00:30:00+01:00", 0 },
		{ "0000-01-01T00:00:00Z", 0 },
	};
	int64_t ms;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ms = -1;
		ck_assert_ptr_null(ctl_rfc3339_parse(cases[i].text, &ms));
		ck_assert_msg(ms == cases[i].want, "%s: %lld", cases[i].text, (long long)ms);
	}
}
END_TEST

START_TEST(rfc3339_refuses_what_is_none)
{
	static const char *const bad[] = { "", "2026-03-01", "2026-03-01T08:30Z",
		"2026-03-01T08:30:00", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
		"2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-04-31T00:00:00Z",
		"2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
		"2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z",
		"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+01:60",
		"2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+01", "2026-1-01T00:00:00Z",
		"26-01-01T00:00:00Z", "2026-01-01T00:00:00Zx", "2026-01-01T00:00:00Z ",
		" 2026-01-01T00:00:00Z", "+026-01-01T00:00:00Z", "2026-01-01_00:00:00Z",
		"2026/01/01T00:00:00Z", "1772353800", "tomorrow" };
	int64_t ms = 77;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(ctl_rfc3339_parse(bad[i], &ms) != NULL, "accepted '%s'", bad[i]);
	ck_assert_int_eq(ms, 77);
}
END_TEST

START_TEST(times_are_written_for_people)
{
	char dst[CTL_TIME_SIZE];

	ck_assert_int_eq(setenv("TZ", "UTC0", 1), 0);
	ck_assert_str_eq(ctl_time_local(1772353800007, dst), "2026-03-01 08:30:00.007");
	ck_assert_str_eq(ctl_time_local(INT64_MAX, dst),
		sizeof(time_t) > 4 ? "292278994-08-17 07:12:55.807" : "9223372036854775807 ms");
	ck_assert_str_eq(ctl_span(12345, dst), "12.345s");
	ck_assert_str_eq(ctl_span(-7, dst), "0.007s");
	ck_assert_str_eq(ctl_span(185000, dst), "3m05s");
	ck_assert_str_eq(ctl_span(7620000, dst), "2h07m");
	ck_assert_str_eq(ctl_span(3474000000, dst), "40d05h");
	ck_assert_str_eq(ctl_span(INT64_MIN, dst), "106751991167d07h");
	ck_assert_str_eq(ctl_relative(2000, 1000, dst), "in 1.000s");
	ck_assert_str_eq(ctl_relative(1000, 1000, dst), "0.000s ago");
	ck_assert_str_eq(ctl_relative(1000, 2500, dst), "1.500s ago");
}
END_TEST

/* ---- text ---- */

/* What is written for `n` bytes of `s`, in a static buffer. */
static const char *
written(const char *s, size_t n, const char *indent)
{
	static char out[4096];
	FILE *f = fmemopen(out, sizeof out, "w");

	ck_assert_ptr_nonnull(f);
	if (indent)
		ctl_text_put_block(f, indent, s, n);
	else
		ctl_text_put(f, s, n);
	putc('\0', f);
	fclose(f);
	return out;
}

#define LINE(lit)  written(lit, sizeof(lit) - 1, NULL)
#define BLOCK(lit) written(lit, sizeof(lit) - 1, "> ")

START_TEST(line_keeps_what_is_harmless)
{
	ck_assert_str_eq(LINE("host-1 /ü€😀"), "host-1 /ü€😀");
	ck_assert_str_eq(LINE(""), "");
}
END_TEST

START_TEST(line_escapes_what_acts_on_a_terminal)
{
	ck_assert_str_eq(LINE("a\nb\tc\r\a\b\v\f"), "a\\nb\\tc\\r\\a\\b\\v\\f");
	ck_assert_str_eq(LINE("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
	ck_assert_str_eq(LINE("a\0b"), "a\\x00b");
	ck_assert_str_eq(LINE("C:\\x1b"), "C:\\\\x1b");
	/* C1: CSI as one code point */
	ck_assert_str_eq(LINE("\xc2\x9b"
			      "2J"),
		"\\u{9b}2J");
	/* bidirectional overrides, isolates, marks; invisible and line-breaking ones */
	ck_assert_str_eq(LINE("\u202eevil\u202c"), "\\u{202e}evil\\u{202c}");
	ck_assert_str_eq(LINE("\u2066\u2069\u200f\u061c"), "\\u{2066}\\u{2069}\\u{200f}\\u{61c}");
	ck_assert_str_eq(LINE("\u200b\u2028\ufeff"), "\\u{200b}\\u{2028}\\u{feff}");
}
END_TEST

START_TEST(line_escapes_broken_utf8_bytewise)
{
	ck_assert_str_eq(LINE("\xff\xfe"), "\\xff\\xfe");
	ck_assert_str_eq(LINE("a\xc3"), "a\\xc3");
	ck_assert_str_eq(LINE("\xc0\xaf"), "\\xc0\\xaf");          /* overlong / */
	ck_assert_str_eq(LINE("\xe0\x80\xaf"), "\\xe0\\x80\\xaf"); /* overlong / */
	ck_assert_str_eq(LINE("\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* surrogate */
	ck_assert_str_eq(LINE("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
	ck_assert_str_eq(LINE("\xe2\x82z"), "\\xe2\\x82z");
	ck_assert_str_eq(LINE("\x80ok"), "\\x80ok");
}
END_TEST

START_TEST(block_keeps_lines_and_tabs)
{
	ck_assert_str_eq(BLOCK(""), "");
	ck_assert_str_eq(BLOCK("one"), "> one\n");
	ck_assert_str_eq(BLOCK("one\n\ttwo\n"), "> one\n> \ttwo\n");
	ck_assert_str_eq(BLOCK("\n\nx"), "> \n> \n> x\n");
	ck_assert_str_eq(BLOCK("50%\r100%\x1b[0m"), "> 50%\\r100%\\x1b[0m\n");
}
END_TEST

START_TEST(utf8_takes_the_longest_start_of_a_character)
{
	int32_t cp;

	ck_assert_uint_eq(ctl_utf8_next("\xf0\x9f\x98\x80", 4, &cp), 4);
	ck_assert_int_eq(cp, 0x1f600);
	ck_assert_uint_eq(ctl_utf8_next("\xf0\x9f\x98", 3, &cp), 3);
	ck_assert_int_eq(cp, -1);
	ck_assert_uint_eq(ctl_utf8_next("\xf0\x9f\x98z", 4, &cp), 3);
	ck_assert_uint_eq(ctl_utf8_next("\xf0\x80", 2, &cp), 1);
	ck_assert_uint_eq(ctl_utf8_next("\0", 1, &cp), 1);
	ck_assert_int_eq(cp, 0);
	ck_assert_uint_eq(ctl_utf8_next("\xed\x9f\xbf", 3, &cp), 3);
	ck_assert_int_eq(cp, 0xd7ff);
}
END_TEST

static void
check_json(const char *s, size_t n, const char *want, bool want_lossy)
{
	bool lossy = !want_lossy;
	json_t *j = ctl_text_json(s, n, &lossy);

	ck_assert_ptr_nonnull(j);
	ck_assert_uint_eq(json_string_length(j), strlen(want));
	ck_assert_str_eq(json_string_value(j), want);
	ck_assert_int_eq(lossy, want_lossy);
	json_decref(j);
}

START_TEST(json_text_is_valid_whatever_the_bytes)
{
	check_json("ü€", 5, "ü€", false);
	check_json("", 0, "", false);
	check_json("a\xff\xfez", 4, "a\ufffd\ufffdz", true);
	check_json("\xe2\x82", 2, "\ufffd", true);
	check_json("\xed\xa0\x80", 3, "\ufffd\ufffd\ufffd", true);
}
END_TEST

START_TEST(json_text_keeps_a_zero_byte)
{
	json_t *j = ctl_text_json("a\0b", 3, NULL);

	ck_assert_uint_eq(json_string_length(j), 3);
	json_decref(j);
}
END_TEST

START_TEST(base64_is_padded)
{
	static const struct {
		const char *bytes, *want;
	} cases[] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foobar", "Zm9vYmFy" }, { "\xfb\xff\xfe", "+//+" } };
	json_t *j;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		j = ctl_base64_json(cases[i].bytes, strlen(cases[i].bytes));
		ck_assert_str_eq(json_string_value(j), cases[i].want);
		json_decref(j);
	}
}
END_TEST

/* ---- order of rows ---- */

struct seen {
	char keys[64];
	size_t left;
};

static int
see(const wq_job_info_t *job, void *arg)
{
	struct seen *s = arg;
	size_t n = strlen(s->keys);

	snprintf(s->keys + n, sizeof s->keys - n, "%s/%s%s ", job->queue, job->key,
		job->last ? (const char *)job->last->output : "");
	return --s->left == 0;
}

START_TEST(rows_are_copied_and_sorted)
{
	struct ctl_sort *s = ctl_sort_new();
	wq_run_info_t last = { .output = "!", .output_len = 1 };
	struct {
		char queue[4], key[4];
		int64_t due;
	} jobs[] = { { "b", "x", 30 }, { "a", "z", -1 }, { "a", "y", 20 }, { "c", "w", 20 } };
	struct seen seen = { "", 99 };

	for (size_t i = 0; i < 4; i++) {
		wq_job_info_t job = { .queue = jobs[i].queue,
			.key = jobs[i].key,
			.deadline_ms = jobs[i].due,
			.last = i == 0 ? &last : NULL };

		ck_assert_int_eq(ctl_sort_add(&job, s), 0);
	}
	memset(jobs, '#', sizeof jobs);
	ctl_sort_each(s, CTL_BY_KEY, see, &seen);
	ck_assert_str_eq(seen.keys, "a/y a/z b/x! c/w ");
	seen = (struct seen){ "", 3 };
	ctl_sort_each(s, CTL_BY_DUE, see, &seen);
	ck_assert_str_eq(seen.keys, "a/y c/w b/x! ");
	ctl_sort_free(s);
	ctl_sort_free(NULL);
}
END_TEST

/* ---- latencies ---- */

START_TEST(hist_quantiles_are_close_from_above)
{
	static struct ctl_hist h;

	ck_assert_int_eq(ctl_hist_quantile(&h, 500), 0);
	for (int64_t v = 1; v <= 100000; v++)
		ctl_hist_add(&h, v);
	ck_assert_int_ge(ctl_hist_quantile(&h, 500), 50000);
	ck_assert_int_le(ctl_hist_quantile(&h, 500), 50400);
	ck_assert_int_ge(ctl_hist_quantile(&h, 990), 99000);
	ck_assert_int_le(ctl_hist_quantile(&h, 990), 99800);
	ck_assert_int_eq(ctl_hist_quantile(&h, 1000), 100000);
	ck_assert_int_eq(ctl_hist_quantile(&h, 1), 100);
	ck_assert_int_eq(h.max, 100000);
}
END_TEST

START_TEST(hist_takes_every_value)
{
	static struct ctl_hist h;

	ctl_hist_add(&h, -5);
	ctl_hist_add(&h, INT64_MAX);
	ck_assert_int_eq(ctl_hist_quantile(&h, 500), 0);
	ck_assert_int_eq(ctl_hist_quantile(&h, 990), INT64_MAX);
	for (unsigned shift = 0; shift < 63; shift++) {
		int64_t v = (int64_t)1 << shift;

		h = (struct ctl_hist){ 0 };
		ctl_hist_add(&h, v);
		ctl_hist_add(&h, INT64_MAX);
		ck_assert_int_ge(ctl_hist_quantile(&h, 500), v);
		ck_assert_int_le(ctl_hist_quantile(&h, 500), v + v / 128);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ctl");
	TCase *tc = unit_case(s, "ctl");

	tcase_add_test(tc, target_splits_at_the_first_slash);
	tcase_add_test(tc, target_refuses_empty_and_long_parts);
	tcase_add_test(tc, duration_needs_a_unit_unless_it_is_zero);
	tcase_add_test(tc, rfc3339_reads_dates_offsets_and_fractions);
	tcase_add_test(tc, rfc3339_refuses_what_is_none);
	tcase_add_test(tc, times_are_written_for_people);
	tcase_add_test(tc, line_keeps_what_is_harmless);
	tcase_add_test(tc, line_escapes_what_acts_on_a_terminal);
	tcase_add_test(tc, line_escapes_broken_utf8_bytewise);
	tcase_add_test(tc, block_keeps_lines_and_tabs);
	tcase_add_test(tc, utf8_takes_the_longest_start_of_a_character);
	tcase_add_test(tc, json_text_is_valid_whatever_the_bytes);
	tcase_add_test(tc, json_text_keeps_a_zero_byte);
	tcase_add_test(tc, base64_is_padded);
	tcase_add_test(tc, rows_are_copied_and_sorted);
	tcase_add_test(tc, hist_quantiles_are_close_from_above);
	tcase_add_test(tc, hist_takes_every_value);
	return unit_run(s);
}
