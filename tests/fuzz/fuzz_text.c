/*
 * Text of durations, sizes, numbers, names and queue settings: what is taken
 * means the same when it is written and read again; what is refused changes
 * nothing. The client's reading of a duration agrees with the daemon's.
 */
#include <wq.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "engine/ops.h"
#include "engine/settings.h"
#include "fuzz/fuzz.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5a

static void
check_error(int err)
{
	wq_assert(err == 0 || err == ERR_BAD_VALUE || err == ERR_OUT_OF_RANGE);
}

static bool
is_plain(struct str s, const char *allowed)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\0' || !strchr(allowed, s.p[i]))
			return false;
	return s.n > 0;
}

static void
try_duration(struct str s, const char *z)
{
	int64_t ns = UNTOUCHED, again, ms;
	char text[64];
	size_t n;
	int err = text_duration(s, &ns);

	check_error(err);
	if (err) {
		wq_assert(ns == UNTOUCHED);
		return;
	}
	wq_assert(ns >= 0 && is_plain(s, "0123456789wdhmsun"));
	n = text_put_duration(text, sizeof text, ns);
	wq_assert(n == strlen(text) && n < sizeof text);
	wq_assert(text_duration((struct str){ text, n }, &again) == 0 && again == ns);
	/* The client knows milliseconds; a bare number is theirs there, and only 0 ours here. */
	if (wq_parse_duration(z, &ms) == 0)
		wq_assert(ns % NS_PER_MS == 0 && ms == ns / NS_PER_MS);
}

static void
try_numbers(struct str s)
{
	uint64_t v = UNTOUCHED, size = UNTOUCHED;
	int err = text_u64(s, &v), size_err = text_size(s, &size);
	bool b = false;

	check_error(err);
	check_error(size_err);
	wq_assert(err == 0 || v == UNTOUCHED);
	wq_assert(size_err == 0 || size == UNTOUCHED);
	if (err == 0)
		wq_assert(is_plain(s, "0123456789") && size_err == 0 && size == v);
	check_error(text_bool(s, &b));
}

/* The plainest reading of UTF-8's table, to compare with. */
static bool
utf8_plainly(struct str s)
{
	for (size_t i = 0; i < s.n;) {
		const uint8_t *p = (const uint8_t *)s.p + i;
		size_t more = *p < 0x80 ? 0 : *p < 0xc2 ? 4 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
		uint32_t cp = more == 0 ? *p : *p & (0x3fu >> more);

		if (more == 4 || *p > 0xf4 || s.n - i <= more)
			return false;
		for (size_t k = 1; k <= more; k++) {
			if ((p[k] & 0xc0) != 0x80)
				return false;
			cp = cp << 6 | (p[k] & 0x3f);
		}
		if ((more == 2 && cp < 0x800) || (more == 3 && (cp < 0x10000 || cp > 0x10ffff)) ||
			(cp >= 0xd800 && cp <= 0xdfff))
			return false;
		i += more + 1;
	}
	return true;
}

static void
try_names(struct str s)
{
	bool utf8 = text_utf8_valid(s), key = key_valid(s), queue = queue_name_valid(s);

	wq_assert(utf8 == utf8_plainly(s));
	if (key)
		wq_assert(utf8 && s.n >= 1 && s.n <= KEY_MAX && !memchr(s.p, '\0', s.n) &&
			!memchr(s.p, '\n', s.n) && s.p[0] != ' ' && s.p[s.n - 1] != ' ');
	if (queue)
		wq_assert(key && s.n <= QUEUE_NAME_MAX && !memchr(s.p, '/', s.n));
	else if (key && s.n <= QUEUE_NAME_MAX)
		wq_assert(memchr(s.p, '/', s.n));
}

/* The first byte names the setting. */
static void
try_setting(struct str s)
{
	const struct setting *which;
	struct queue_settings before, set, again;
	char text[256];
	size_t n;
	int err;

	if (s.n == 0)
		return;
	which = &queue_setting_table[(uint8_t)s.p[0] % queue_setting_count];
	queue_settings_default(&before);
	set = before;
	err = queue_settings_set(&set, str_from(which->name), (struct str){ s.p + 1, s.n - 1 });
	check_error(err);
	if (err) {
		wq_assert(memcmp(&set, &before, sizeof set) == 0);
		return;
	}
	n = queue_settings_get(&set, which, text, sizeof text);
	wq_assert(n == strlen(text) && n < sizeof text);
	again = before;
	wq_assert(queue_settings_set(&again, str_from(which->name), str_from(text)) == 0);
	wq_assert(memcmp(&again, &set, sizeof set) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = fuzz_copy(data, size, false), *z = fuzz_copy(data, size, true);
	struct str s = { exact, size };

	if (!memchr(exact, '\0', size))
		try_duration(s, z);
	try_numbers(s);
	try_names(s);
	try_setting(s);
	x_free(z);
	x_free(exact);
	return 0;
}
