/*
 * What wqctl makes of bytes from outside: on a terminal nothing acts, JSON is
 * valid, and what people type is read or refused, never read past its end.
 */
#include <ctl_target.h>
#include <ctl_text.h>
#include <ctl_time.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "fuzz/fuzz.h"

/* No control character but those `kept`, and only whole characters. */
static void
check_harmless(const char *text, size_t n, const char *kept)
{
	wq_assert(text_utf8_valid((struct str){ text, n }));
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)text[i];

		wq_assert((c >= 0x20 && c != 0x7f) || strchr(kept, c));
		if (c == 0xc2 && i + 1 < n)
			wq_assert((uint8_t)text[i + 1] >= 0xa0); /* C1 controls */
		if (c == 0xe2 && i + 2 < n && (uint8_t)text[i + 1] == 0x80)
			wq_assert((uint8_t)text[i + 2] < 0xaa || (uint8_t)text[i + 2] > 0xae);
	}
}

static void
try_print(struct str s, bool block)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	wq_assert(out != NULL);
	if (block)
		ctl_text_put_block(out, "  ", s.p, s.n);
	else
		ctl_text_put(out, s.p, s.n);
	wq_assert(fclose(out) == 0);
	check_harmless(text, n, block ? "\n\t" : "");
	if (block)
		wq_assert(s.n == 0 ? n == 0 : text[n - 1] == '\n');
	free(text);
}

static void
try_json(struct str s)
{
	bool lossy = false;
	json_t *j = ctl_text_json(s.p, s.n, &lossy), *back;
	char *text;
	json_error_t error;

	wq_assert(j && json_is_string(j));
	wq_assert(lossy == !text_utf8_valid(s));
	if (!lossy) {
		wq_assert(json_string_length(j) == s.n);
		wq_assert(s.n == 0 || memcmp(json_string_value(j), s.p, s.n) == 0);
	}
	text = json_dumps(j, JSON_ENCODE_ANY);
	wq_assert(text != NULL);
	back = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	wq_assert(back && json_equal(j, back));
	free(text);
	json_decref(back);
	json_decref(j);
	j = ctl_base64_json(s.p, s.n);
	wq_assert(json_string_length(j) == (s.n + 2) / 3 * 4);
	json_decref(j);
}

/* Said wrong: the result is as before. */
static void
try_typed(const char *z, size_t n)
{
	struct ctl_target target = { "q", "k" };
	int64_t ms = -77, daemon_ns;
	char text[CTL_TIME_SIZE];

	if (ctl_duration_parse(z, &ms) == NULL) {
		wq_assert(ms >= 0);
		wq_assert(text_duration(str_from(z), &daemon_ns) != 0 || daemon_ns / 1000000 == ms);
		ctl_span(ms, text);
	}
	ms = -77;
	if (ctl_rfc3339_parse(z, &ms) == NULL) {
		wq_assert(ms >= 0);
		ctl_time_local(ms, text);
		ctl_relative(ms, 1767225600000, text);
	}
	if (ctl_target_parse(z, n, NULL, &target) == NULL)
		wq_assert(strlen(target.queue) + strlen(target.key) <= n + strlen("default"));
	else
		wq_assert(strcmp(target.queue, "q") == 0 && strcmp(target.key, "k") == 0);
	if (ctl_target_parse(z, n, "queue", &target) == NULL)
		wq_assert(strcmp(target.queue, "queue") == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = fuzz_copy(data, size, false), *z = fuzz_copy(data, size, true);
	struct str s = { exact, size };

	try_print(s, false);
	try_print(s, true);
	try_json(s);
	try_typed(z, strlen(z));
	x_free(z);
	x_free(exact);
	return 0;
}
