/* settings and names: every row set, shown and refused; pairs; accepted names. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "engine/ops.h"
#include "engine/settings.h"
#include "unit/unit.h"

static struct queue_settings
defaults(void)
{
	struct queue_settings s;

	queue_settings_default(&s);
	return s;
}

static int
set(struct queue_settings *s, const char *name, const char *value)
{
	return queue_settings_set(s, str_from(name), str_from(value));
}

static const struct setting *
row(const char *name)
{
	for (size_t i = 0; i < queue_setting_count; i++)
		if (strcmp(queue_setting_table[i].name, name) == 0)
			return &queue_setting_table[i];
	ck_abort_msg("no setting %s", name);
}

static void
expect_text(const struct queue_settings *s, const char *name, const char *want)
{
	char text[128];
	size_t n = queue_settings_get(s, row(name), text, sizeof text);

	ck_assert_str_eq(text, want);
	ck_assert_uint_eq(n, strlen(want));
}

START_TEST(the_table_has_the_documented_names_in_order)
{
	static const char *const names[] = { "action", "handler", "lease", "max_active", "ordered",
		"priority", "pool", "weight", "reserve", "rate", "burst", "prefix_limit",
		"prefix_separator", "restart_rate", "durability", "misfire", "slack", "max_wait",
		"max_attempts", "max_interrupts", "retry_delay", "retry_backoff", "retry_max_delay",
		"retry_jitter", "retention", "retention_count", "max_jobs", "max_parts" };

	ck_assert_uint_eq(queue_setting_count, sizeof names / sizeof names[0]);
	for (size_t i = 0; i < queue_setting_count; i++) {
		ck_assert_str_eq(queue_setting_table[i].name, names[i]);
		ck_assert_uint_gt(strlen(queue_setting_table[i].doc), 10);
	}
}
END_TEST

START_TEST(the_defaults_are_the_documented_ones)
{
	struct queue_settings s = defaults();
	const char *why = NULL;

	ck_assert_int_eq(s.action, ACTION_NONE);
	ck_assert_str_eq(s.handler, "");
	ck_assert_uint_eq(s.max_active, 16);
	ck_assert(!s.ordered);
	ck_assert_int_eq(s.priority, PRIORITY_NORMAL);
	ck_assert_str_eq(s.pool, "");
	ck_assert_uint_eq(s.weight, 1);
	ck_assert(!s.reserve);
	ck_assert_int_eq(s.durability, LEVEL_ASYNC);
	ck_assert_int_eq(s.misfire, MISFIRE_RUN);
	ck_assert_int_eq(s.slack_ns, 0);
	ck_assert_int_eq(s.max_wait_ns, 0);
	ck_assert_uint_eq(s.max_attempts, 1);
	ck_assert_uint_eq(s.max_interrupts, 3);
	ck_assert_int_eq(s.retry_delay_ns, NS_PER_S);
	ck_assert_int_eq(s.retry_backoff, BACKOFF_EXPONENTIAL);
	ck_assert_int_eq(s.retry_max_delay_ns, 3600 * NS_PER_S);
	ck_assert_int_eq(s.retention_ns, 3600 * NS_PER_S);
	ck_assert_uint_eq(s.retention_count, 1000);
	ck_assert_uint_eq(s.max_jobs, 10000000);
	ck_assert_uint_eq(s.max_parts, 1024);
	ck_assert_int_eq(queue_settings_check(&s, &why), 0);
	for (size_t i = 0; i < queue_setting_count; i++)
		expect_text(&s, queue_setting_table[i].name, queue_setting_table[i].def);
}
END_TEST

/* Sets the text of `v` in row `which` and expects `err`; on success it must read back the same. */
static void
try_value(const struct setting *which, int64_t v, int err)
{
	struct queue_settings s = defaults(), before = s, again = s;
	char text[64], back[128];

	if (which->type == SET_DURATION)
		text_put_duration(text, sizeof text, v);
	else
		snprintf(text, sizeof text, "%lld", (long long)v);
	ck_assert_msg(set(&s, which->name, text) == err, "%s = %s", which->name, text);
	if (err) {
		ck_assert_mem_eq(&s, &before, sizeof s);
		return;
	}
	queue_settings_get(&s, which, back, sizeof back);
	ck_assert_str_eq(back, text);
	ck_assert_int_eq(set(&again, which->name, back), 0);
	ck_assert_mem_eq(&again, &s, sizeof s);
}

START_TEST(numbers_and_spans_end_at_their_limits)
{
	for (size_t i = 0; i < queue_setting_count; i++) {
		const struct setting *which = &queue_setting_table[i];

		if (which->type != SET_U32 && which->type != SET_DURATION)
			continue;
		try_value(which, which->min, 0);
		try_value(which, which->max, 0);
		try_value(which, which->max + 1, ERR_OUT_OF_RANGE);
		if (which->min > 0)
			try_value(which, which->min - 1, ERR_OUT_OF_RANGE);
	}
}
END_TEST

static const struct {
	const char *name, *value;
	int err;
} refused[] = {
	{ "", "1", ERR_UNKNOWN_NAME },
	{ "max_activ", "1", ERR_UNKNOWN_NAME },
	{ "max_active2", "1", ERR_UNKNOWN_NAME },
	{ "Max_active", "1", ERR_UNKNOWN_NAME },
	{ "max_active", "", ERR_BAD_VALUE },
	{ "max_active", "-1", ERR_BAD_VALUE },
	{ "max_active", "1s", ERR_BAD_VALUE },
	{ "max_active", "100001", ERR_OUT_OF_RANGE },
	{ "max_active", "4294967297", ERR_OUT_OF_RANGE },
	{ "max_active", "99999999999999999999", ERR_OUT_OF_RANGE },
	{ "max_attempts", "0", ERR_OUT_OF_RANGE },
	{ "action", "webhook", ERR_BAD_VALUE },
	{ "lease", "9ms", ERR_OUT_OF_RANGE },
	{ "lease", "0", ERR_OUT_OF_RANGE },
	{ "lease", "366d", ERR_OUT_OF_RANGE },
	{ "retry_jitter", "101", ERR_OUT_OF_RANGE },
	{ "action", "", ERR_BAD_VALUE },
	{ "action", "Exec", ERR_BAD_VALUE },
	{ "durability", "default", ERR_BAD_VALUE },
	{ "durability", "never", ERR_BAD_VALUE },
	{ "misfire", "all", ERR_BAD_VALUE },
	{ "retry_backoff", "linear", ERR_BAD_VALUE },
	{ "priority", "urgent", ERR_BAD_VALUE },
	{ "ordered", "2", ERR_BAD_VALUE },
	{ "slack", "50", ERR_BAD_VALUE },
	{ "slack", "-50ms", ERR_BAD_VALUE },
	{ "slack", "9w", ERR_OUT_OF_RANGE },
	{ "max_wait", "36501d", ERR_OUT_OF_RANGE },
	{ "rate", "", ERR_BAD_VALUE },
	{ "rate", "10", ERR_BAD_VALUE },
	{ "rate", "/s", ERR_BAD_VALUE },
	{ "rate", "-1/s", ERR_BAD_VALUE },
	{ "rate", "1/w", ERR_BAD_VALUE },
	{ "rate", "1/ms", ERR_BAD_VALUE },
	{ "rate", "1.5/s", ERR_BAD_VALUE },
	{ "rate", "0/s", ERR_OUT_OF_RANGE },
	{ "rate", "1000001/s", ERR_OUT_OF_RANGE },
	{ "rate", "99999999999999999999/s", ERR_OUT_OF_RANGE },
	{ "restart_rate", "1 /s", ERR_BAD_VALUE },
	{ "burst", "0", ERR_OUT_OF_RANGE },
	{ "burst", "100001", ERR_OUT_OF_RANGE },
	{ "prefix_separator", "", ERR_BAD_VALUE },
	{ "prefix_separator", "::", ERR_BAD_VALUE },
	{ "prefix_separator", " ", ERR_BAD_VALUE },
	{ "prefix_separator", "\xe4", ERR_BAD_VALUE },
	{ "handler", "a/b", ERR_BAD_VALUE },
	{ "handler", "a\nb", ERR_BAD_VALUE },
	{ "handler", " a", ERR_BAD_VALUE },
	{ "handler", "0123456789012345678901234567890123456789012345678901234567890123x",
		ERR_OUT_OF_RANGE },
};

START_TEST(what_is_refused_changes_nothing)
{
	struct queue_settings s = defaults(), before = s;

	ck_assert_msg(set(&s, refused[_i].name, refused[_i].value) == refused[_i].err, "%s = %s",
		refused[_i].name, refused[_i].value);
	ck_assert_mem_eq(&s, &before, sizeof s);
}
END_TEST

START_TEST(every_word_of_a_setting_is_taken_and_shown)
{
	for (size_t i = 0; i < queue_setting_count; i++) {
		const struct setting *which = &queue_setting_table[i];

		for (int n = (int)which->min; which->words && n < which->words->n; n++) {
			struct queue_settings s = defaults();

			ck_assert_int_eq(set(&s, which->name, which->words->words[n]), 0);
			expect_text(&s, which->name, which->words->words[n]);
		}
	}
}
END_TEST

START_TEST(rates_and_characters_read_back_as_they_were_written)
{
	static const char *const rates[] = { "0", "1/s", "1000000/s", "90/m", "3/h", "1/d" };
	struct queue_settings s = defaults();
	char one[2] = "";

	for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
		ck_assert_int_eq(set(&s, "rate", rates[i]), 0);
		expect_text(&s, "rate", rates[i]);
		expect_text(&s, "restart_rate", "0");
	}
	for (one[0] = '!'; one[0] <= '~'; one[0]++) {
		ck_assert_int_eq(set(&s, "prefix_separator", one), 0);
		expect_text(&s, "prefix_separator", one);
	}
}
END_TEST

START_TEST(a_text_that_does_not_fit_is_cut)
{
	struct queue_settings s = defaults();
	char text[8] = "zzzzzzz";

	ck_assert_int_eq(set(&s, "handler", "0123456789"), 0);
	ck_assert_uint_eq(queue_settings_get(&s, row("handler"), text, 5), 4);
	ck_assert_str_eq(text, "0123");
	ck_assert_uint_eq(queue_settings_get(&s, row("handler"), text, 1), 0);
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(queue_settings_get(&s, row("handler"), text, 0), 0);
	ck_assert_uint_eq(queue_settings_get(&s, row("retry_backoff"), text, sizeof text), 7);
	ck_assert_str_eq(text, "exponen");
}
END_TEST

/* Two settings in the order given, from the defaults; "" : none. */
static const struct {
	const char *text[3][2];
	int check;
	uint32_t max_active;
} pairs[] = {
	{ { { "ordered", "yes" } }, 0, 1 },
	{ { { "ordered", "yes" }, { "max_active", "1" } }, 0, 1 },
	{ { { "max_active", "1" }, { "ordered", "yes" } }, 0, 1 },
	{ { { "ordered", "yes" }, { "max_active", "4" } }, ERR_BAD_VALUE, 4 },
	{ { { "max_active", "4" }, { "ordered", "yes" } }, ERR_BAD_VALUE, 4 },
	{ { { "ordered", "yes" }, { "max_active", "0" } }, ERR_BAD_VALUE, 0 },
	{ { { "ordered", "yes" }, { "ordered", "no" } }, 0, 1 },
	{ { { "ordered", "no" } }, 0, 16 },
	{ { { "ordered", "yes" }, { "max_active", "16" }, { "ordered", "yes" } }, ERR_BAD_VALUE,
		16 },
	{ { { "max_active", "4" }, { "ordered", "yes" }, { "max_active", "1" } }, 0, 1 },
	{ { { "action", "exec" } }, ERR_BAD_VALUE, 16 },
	{ { { "action", "exec" }, { "handler", "page" } }, 0, 16 },
	{ { { "handler", "page" }, { "action", "none" } }, ERR_BAD_VALUE, 16 },
	{ { { "handler", "page" }, { "action", "none" }, { "handler", "" } }, 0, 16 },
	{ { { "max_wait", "1s" }, { "slack", "1s" } }, 0, 16 },
	{ { { "max_wait", "1s" }, { "slack", "1001ms" } }, ERR_BAD_VALUE, 16 },
	{ { { "slack", "1s" }, { "max_wait", "0" } }, 0, 16 },
	{ { { "retry_delay", "1h" } }, 0, 16 },
	{ { { "retry_delay", "2h" } }, ERR_BAD_VALUE, 16 },
	{ { { "retry_delay", "2h" }, { "retry_max_delay", "2h" } }, 0, 16 },
};

START_TEST(pairs_that_make_no_sense_are_refused_with_a_sentence)
{
	struct queue_settings s = defaults();
	const char *why = NULL;

	for (int i = 0; i < 3 && pairs[_i].text[i][0]; i++)
		ck_assert_int_eq(set(&s, pairs[_i].text[i][0], pairs[_i].text[i][1]), 0);
	ck_assert_int_eq(queue_settings_check(&s, &why), pairs[_i].check);
	ck_assert((why != NULL) == (pairs[_i].check != 0));
	ck_assert_uint_eq(s.max_active, pairs[_i].max_active);
}
END_TEST

START_TEST(naming_a_handler_makes_the_action_exec)
{
	struct queue_settings s = defaults();
	const char *why = NULL;

	ck_assert_int_eq(set(&s, "handler", ""), 0);
	ck_assert_int_eq(s.action, ACTION_NONE);
	ck_assert_int_eq(set(&s, "handler", "page"), 0);
	ck_assert_int_eq(s.action, ACTION_EXEC);
	ck_assert_int_eq(queue_settings_check(&s, &why), 0);
}
END_TEST

static const struct {
	struct str s;
	bool key, queue;
} names[] = {
	{ STR("a"), true, true },
	{ STR("a b"), true, true },
	{ STR("a/b"), true, false },
	{ STR("/"), true, false },
	{ STR(".."), true, true },
	{ STR("-x"), true, true },
	{ STR("~"), true, true },
	{ { "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 15 }, true, true },
	{ STR_NONE, false, false },
	{ STR(""), false, false },
	{ STR(" a"), false, false },
	{ STR("a "), false, false },
	{ STR(" "), false, false },
	{ { "a\0b", 3 }, false, false },
	{ { "\0", 1 }, false, false },
	{ STR("a\nb"), false, false },
	{ STR("\x1f"), false, false },
	{ STR("\x7f"), false, false },
	{ { "a\xc2\x80", 3 }, false, false },
	{ { "a\xc2\x9f", 3 }, false, false },
	{ { "a\xc2\xa0", 3 }, true, true },
	{ { "\xd8\x9b", 2 }, true, true },
	{ { "\xd8\x9c", 2 }, false, false },
	{ { "\xd8\x9d", 2 }, true, true },
	{ { "\xe2\x80\x8d", 3 }, true, true },
	{ { "\xe2\x80\x8e", 3 }, false, false },
	{ { "\xe2\x80\x8f", 3 }, false, false },
	{ { "\xe2\x80\x90", 3 }, true, true },
	{ { "\xe2\x80\xa9", 3 }, true, true },
	{ { "\xe2\x80\xaa", 3 }, false, false },
	{ { "\xe2\x80\xae", 3 }, false, false },
	{ { "\xe2\x80\xaf", 3 }, true, true },
	{ { "\xe2\x81\xa5", 3 }, true, true },
	{ { "\xe2\x81\xa6", 3 }, false, false },
	{ { "x\xe2\x81\xa9y", 5 }, false, false },
	{ { "\xe2\x81\xaa", 3 }, true, true },
	{ { "a\xff", 2 }, false, false },
	{ { "\xed\xa0\x80", 3 }, false, false },
	{ { "\xe2\x80", 2 }, false, false },
};

START_TEST(names_are_accepted_as_documented)
{
	ck_assert(key_valid(names[_i].s) == names[_i].key);
	ck_assert(queue_name_valid(names[_i].s) == names[_i].queue);
}
END_TEST

START_TEST(names_end_at_their_length)
{
	char long_name[KEY_MAX + 1];

	memset(long_name, 'x', sizeof long_name);
	ck_assert(key_valid((struct str){ long_name, 255 }));
	ck_assert(!key_valid((struct str){ long_name, 256 }));
	ck_assert(queue_name_valid((struct str){ long_name, 128 }));
	ck_assert(!queue_name_valid((struct str){ long_name, 129 }));
}
END_TEST

/* Wherever a single byte stands among others, and however many there are. */
START_TEST(each_byte_counts_at_each_place)
{
	char name[20];

	for (size_t n = 3; n <= sizeof name; n++)
		for (size_t at = 1; at < n - 1; at++)
			for (int byte = 0; byte < 256; byte++) {
				struct str s = { name, n };

				memset(name, 'x', n);
				name[at] = (char)byte;
				ck_assert(key_valid(s) == (byte >= 0x20 && byte < 0x7f));
				ck_assert(queue_name_valid(s) == (key_valid(s) && byte != '/'));
			}
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

int
main(void)
{
	Suite *s = suite_create("settings");
	TCase *tc = unit_case(s, "settings");

	tcase_add_test(tc, the_table_has_the_documented_names_in_order);
	tcase_add_test(tc, the_defaults_are_the_documented_ones);
	tcase_add_test(tc, numbers_and_spans_end_at_their_limits);
	tcase_add_loop_test(tc, what_is_refused_changes_nothing, 0, COUNT(refused));
	tcase_add_test(tc, every_word_of_a_setting_is_taken_and_shown);
	tcase_add_test(tc, rates_and_characters_read_back_as_they_were_written);
	tcase_add_test(tc, a_text_that_does_not_fit_is_cut);
	tcase_add_loop_test(
		tc, pairs_that_make_no_sense_are_refused_with_a_sentence, 0, COUNT(pairs));
	tcase_add_test(tc, naming_a_handler_makes_the_action_exec);
	tc = unit_case(s, "names");
	tcase_add_loop_test(tc, names_are_accepted_as_documented, 0, COUNT(names));
	tcase_add_test(tc, names_end_at_their_length);
	tcase_add_test(tc, each_byte_counts_at_each_place);
	return unit_run(s);
}
