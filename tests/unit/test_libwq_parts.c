/* libwq's parts by themselves: words, durations, options, addresses, memory, what a sole updater
 * knows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/address.h"
#include "client/coalesce.h"
#include "client/mem.h"
#include "client/opts.h"
#include "client/scratch.h"
#include "engine/words.h"
#include "unit/client_mem.h"
#include "wq.h"
#include "wq.pb-c.h"

/* ---- words ---- */

START_TEST(words_are_those_of_the_daemon_and_of_the_wire)
{
#define X(name, num, word, ...) ck_assert_str_eq(wq_status_word((wq_status_t)(num)), word);
	STATUS_TABLE(X)
#undef X
#define X(name, num, word) ck_assert_str_eq(wq_state_word((wq_state_t)(num)), word);
	JOB_STATE_TABLE(X)
#undef X
#define X(name, num, word) ck_assert_str_eq(wq_outcome_word((wq_outcome_t)(num)), word);
	RUN_OUTCOME_TABLE(X)
#undef X
	for (int i = 0; i < 200; i++) {
		const ProtobufCEnumValue *v =
			protobuf_c_enum_descriptor_get_value(&wq__v1__status__descriptor, i);

		if (v)
			ck_assert_str_eq(
				v->name + strlen("STATUS_"), wq_status_word((wq_status_t)i));
		else
			ck_assert_str_eq(wq_status_word((wq_status_t)i), "?");
	}
	ck_assert_str_eq(wq_state_word((wq_state_t)99), "?");
	ck_assert_str_eq(wq_outcome_word((wq_outcome_t)99), "?");
	ck_assert_str_eq(wq_version(), PACKAGE_VERSION);
}
END_TEST

START_TEST(every_error_has_a_word_and_a_sentence)
{
	ck_assert_str_eq(wq_error_word(0), "OK");
	ck_assert_str_eq(wq_error_word(-WQ_INVALID), "INVALID");
	ck_assert_str_eq(wq_error_word(-EPIPE), "EPIPE");
	ck_assert_str_eq(wq_error_word(WQ_ERR_CLOSED), "CLOSED");
	ck_assert_str_eq(wq_error_word(-99999), "?");
	ck_assert_str_eq(wq_error_word(-1500), "?");
	ck_assert_str_eq(wq_error_word(5), "?");
	ck_assert_str_eq(wq_strerror(-ENOENT), "No such file or directory");
	ck_assert_str_eq(wq_strerror(-99999), "unknown error");
	ck_assert_str_eq(wq_strerror(INT32_MIN), "unknown error");
	for (int e = WQ_ERR_UNSUPPORTED; e <= WQ_ERR_ADDRESS; e++) {
		ck_assert_str_ne(wq_error_word(e), "?");
		ck_assert_str_ne(wq_strerror(e), "unknown error");
	}
	for (int st = WQ_INVALID; st <= WQ_EXISTS; st++)
		ck_assert_str_ne(wq_strerror(-st), "unknown error");
	ck_assert_int_eq(wq_retriable(WQ_ERR_CLOSED), 1);
	ck_assert_int_eq(wq_retriable(-ECONNREFUSED), 1);
	ck_assert_int_eq(wq_retriable(-WQ_REFUSED_LIMIT), 1);
	ck_assert_int_eq(wq_retriable(-WQ_INVALID), 0);
	ck_assert_int_eq(wq_retriable(WQ_ERR_PROTOCOL), 0);
	ck_assert_int_eq(wq_retriable(0), 0);
}
END_TEST

/* ---- durations ---- */

static const struct {
	const char *text;
	int64_t ms; /* -1: refused */
} durations[] = {
	{ "0", 0 },
	{ "250", 250 },
	{ "250ms", 250 },
	{ "30s", 30000 },
	{ "1h30m", 5400000 },
	{ "2d", 172800000 },
	{ "1w1d1h1m1s1ms", 694861001 },
	{ "9223372036854775807", INT64_MAX },
	{ "9223372036854775808", -1 },
	{ "9223372036854775807s", -1 },
	{ "106751991167d8d", -1 },
	{ "", -1 },
	{ "s", -1 },
	{ "1x", -1 },
	{ "1s1s", -1 },
	{ "1s1h", -1 },
	{ "1h30", -1 },
	{ " 1s", -1 },
	{ "1s ", -1 },
	{ "-1s", -1 },
	{ "+1", -1 },
	{ "1.5s", -1 },
	{ "1S", -1 },
	{ "1us", -1 },
};

START_TEST(durations_are_read_strictly)
{
	for (size_t i = 0; i < ARRAY_SIZE(durations); i++) {
		int64_t ms = -7;
		int err = wq_parse_duration(durations[i].text, &ms);

		ck_assert_msg(err == (durations[i].ms < 0 ? WQ_ERR_OPTION : 0) &&
				ms == (err ? -7 : durations[i].ms),
			"%s: %d, %lld", durations[i].text, err, (long long)ms);
	}
	ck_assert_int_eq(wq_parse_duration(NULL, NULL), WQ_ERR_OPTION);
}
END_TEST

/* ---- options ---- */

START_TEST(options_have_their_documented_defaults)
{
	struct options o;

	unsetenv("WQ_RUN_TOKEN");
	options_default(&o);
	ck_assert_str_eq(o.client, "test_libwq_parts");
	program_invocation_short_name = (char *)(uintptr_t) "a b\n\xff-";
	options_default(&o);
	ck_assert_str_eq(o.client, "a_b__-");
	ck_assert_int_eq(o.connect_timeout_ms, 5000);
	ck_assert_int_eq(o.timeout_ms, 30000);
	ck_assert(o.reconnect && o.resend && !o.sole_updater);
	ck_assert_int_eq(o.reconnect_min_ms, 50);
	ck_assert_int_eq(o.reconnect_max_ms, 5000);
	ck_assert_int_eq(o.max_in_flight, 4096);
	ck_assert_uint_eq(o.run_token, 0);
	setenv("WQ_RUN_TOKEN", "18446744073709551615", 1);
	options_default(&o);
	ck_assert_uint_eq(o.run_token, UINT64_MAX);
	setenv("WQ_RUN_TOKEN", "12x", 1);
	options_default(&o);
	ck_assert_uint_eq(o.run_token, 0);
	unsetenv("WQ_RUN_TOKEN");
	setenv("WQ_NAMESPACE", "a-namespace-of-32-bytes.........", 1);
	ck_assert_ptr_null(options_default(&o));
	ck_assert_uint_eq(strlen(o.space), 32);
	setenv("WQ_NAMESPACE", "a-namespace-of-33-bytes..........", 1);
	ck_assert_str_eq(options_default(&o), "WQ_NAMESPACE");
	unsetenv("WQ_NAMESPACE");
}
END_TEST

START_TEST(bad_options_are_refused_and_change_nothing)
{
	static const char *const bad[] = { "client=", "connect_timeout=0", "connect_timeout=1x",
		"timeout=-1", "reconnect=maybe", "max_in_flight=0", "max_in_flight=1000001",
		"max_in_flight=18446744073709551616", "run_token=", "run_token=-1", "nothing=1",
		"=1", "timeout", ",", "timeout=1s,,", "timeout=1s,resend=perhaps",
		"client=0123456789012345678901234567890123456789012345678901234567890123456789",
		"a_name_that_is_longer_than_any_option_has=1" };
	struct options before, o;

	options_default(&before);
	o = before;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(options_set_list(&o, bad[i]) == WQ_ERR_OPTION, "%s", bad[i]);
		ck_assert_mem_eq(&o, &before, sizeof o);
	}
	ck_assert_int_eq(options_set(&o, NULL, "1"), WQ_ERR_OPTION);
	ck_assert_int_eq(options_set(&o, "timeout", NULL), WQ_ERR_OPTION);
	ck_assert_int_eq(options_set_list(&o, NULL), 0);
	ck_assert_int_eq(options_set_list(&o, ""), 0);
	ck_assert_int_eq(options_set_list(&o, "timeout=0,client=me,sole_updater=on,resend=no"), 0);
	ck_assert_int_eq(o.timeout_ms, 0);
	ck_assert_str_eq(o.client, "me");
	ck_assert(o.sole_updater && !o.resend);
}
END_TEST

/* The options as libwq(3) has them, between its marks. Returns the length. */
static size_t
man_options(char *dst, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < option_count; i++) {
		const struct option_row *o = &option_table[i];
		int def = (int)strcspn(o->def + (o->def[0] == '<'), ">");

		n += (size_t)snprintf(dst + n, size - n,
			".TP\n.BR %s \" (default \" \"%.*s\" )\n%c%s.\n", o->name, def,
			o->def + (o->def[0] == '<'), o->doc[0] - 'a' + 'A', o->doc + 1);
		wq_assert(n < size);
	}
	return n;
}

static void
read_file(const char *name, char *dst, size_t size)
{
	char path[1024];
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	n = fread(dst, 1, size - 1, f);
	fclose(f);
	ck_assert_uint_lt(n, size - 1);
	dst[n] = '\0';
}

START_TEST(the_manual_and_the_header_have_the_options_of_the_table)
{
	static char text[65536], want[8192];
	const char *begin, *end;
	size_t n = man_options(want, sizeof want);

	read_file("docs/man/libwq.3", text, sizeof text);
	begin = strstr(text, "begin options\n");
	end = strstr(text, ".\\\" end options");
	ck_assert(begin && end);
	begin += strlen("begin options\n");
	ck_assert_msg(
		(size_t)(end - begin) == n && memcmp(begin, want, n) == 0, "make update-libwq");

	read_file("include/wq.h", text, sizeof text);
	for (size_t i = 0; i < option_count; i++) {
		char row[64];

		if (option_table[i].def[0] == '<')
			snprintf(row, sizeof row, "\n *   %s ", option_table[i].name);
		else
			snprintf(row, sizeof row, "\n *   %-15s  %-7s  ", option_table[i].name,
				option_table[i].def);
		ck_assert_msg(strstr(text, row) != NULL, "wq.h: %s", option_table[i].name);
	}
}
END_TEST

/* ---- addresses ---- */

START_TEST(addresses_are_read_strictly)
{
	static const char *const bad[] = { "", "unix:", "unix", "/run/x", "tcp://", "tcp://host",
		"tcp://:1", "tcp://host:", "tcp://host:0", "tcp://host:65536", "tcp://host:1x",
		"tcp://::1:1", "tcp://[::1]", "tcp://[::1]1", "tcp://[::1", "tcp://[]:1",
		"tls://x" };
	char path[300] = "unix:/";
	struct address a;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(address_parse(bad[i], &a) == WQ_ERR_ADDRESS, "%s", bad[i]);
	memset(path + 6, 'x', 200);
	ck_assert_int_eq(address_parse(path, &a), WQ_ERR_ADDRESS);
	ck_assert_int_eq(address_parse("tls://host:1", &a), 0);
	ck_assert_int_eq(a.kind, ADDRESS_TLS);
	ck_assert_str_eq(a.host, "host");
	ck_assert_int_eq(address_parse("unix:rel", &a), 0);
	ck_assert_str_eq(a.path, "rel");
	ck_assert_int_eq(address_parse("tcp://[fe80::1%eth0]:65535", &a), 0);
	ck_assert_str_eq(a.host, "fe80::1%eth0");
	ck_assert_str_eq(a.port, "65535");
	unsetenv("WQ_SERVER");
	ck_assert_int_eq(address_parse(NULL, &a), 0);
	ck_assert_str_eq(a.path, "/run/wqd/wqd.sock");
	setenv("WQ_SERVER", "tcp://10.0.0.1:7421", 1);
	ck_assert_int_eq(address_parse(NULL, &a), 0);
	ck_assert_int_eq(a.kind, ADDRESS_TCP);
	unsetenv("WQ_SERVER");
}
END_TEST

START_TEST(literal_addresses_resolve_to_themselves)
{
	struct endpoint e[ADDRESS_ENDPOINTS];
	struct address a;
	size_t n = 0;

	ck_assert_int_eq(address_parse("tcp://127.0.0.1:80", &a), 0);
	ck_assert_int_eq(address_resolve(&a, e, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(e[0].sa.ss_family, AF_INET);
	ck_assert_int_eq(address_parse("tcp://[::1]:80", &a), 0);
	ck_assert_int_eq(address_resolve(&a, e, &n), 0);
	ck_assert_int_eq(e[0].sa.ss_family, AF_INET6);
}
END_TEST

/* ---- scratch ---- */

START_TEST(a_scratch_is_bounded_and_keeps_one_block)
{
	struct scratch s;
	void *p;

	scratch_init(&s, 100000);
	p = scratch_alloc(&s, 1);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq((uintptr_t)p % 16, 0);
	ck_assert_uint_eq((uintptr_t)scratch_alloc(&s, 3) % 16, 0);
	ck_assert_ptr_nonnull(scratch_alloc(&s, 60000));
	ck_assert_ptr_null(scratch_alloc(&s, 60000));
	ck_assert_ptr_null(scratch_alloc(&s, SIZE_MAX));
	ck_assert_ptr_null(scratch_text(&s, "x", SIZE_MAX));
	ck_assert(!s.no_memory);
	client_mem_fail_after(0);
	ck_assert_ptr_null(scratch_alloc(&s, 20000));
	ck_assert(s.no_memory);
	scratch_reset(&s);
	ck_assert(!s.no_memory);
	ck_assert_uint_le(s.total, 16384);
	ck_assert_ptr_eq(scratch_alloc(&s, 1), p);
	ck_assert_str_eq(scratch_text(&s, "abc", 2), "ab");
	ck_assert_str_eq(scratch_text(&s, NULL, 0), "");
	scratch_done(&s);
	ck_assert_ptr_null(mem_grow(NULL, SIZE_MAX, 2));
}
END_TEST

/* ---- what a sole updater knows ---- */

#define SEC   1000000000ll
#define SLACK 5000

/* The daemon's wall clock is this far ahead of elapsed time. */
static const struct clock_offset offset = { 500 * SEC, 500 * SEC };

struct world {
	struct coalesce_table t;
	uint64_t id;
	wq_update_opts_t o;
};

static void
world_init(struct world *w)
{
	*w = (struct world){ .o = WQ_UPDATE_INIT };
	w->o.slack_ms = SLACK;
	coalesce_init(&w->t, 42);
}

/* An update sent and answered: armed where it wanted, `off_ms` beside. */
static void
update_at(struct world *w, const char *key, int64_t sent, int64_t got, int64_t delay_ms,
	wq_status_t status, int64_t off_ms)
{
	struct coalesce_ask ask;
	wq_reply_t r = { .status = status, .generation = 7, .old_deadline_ms = -1 };

	r.deadline_ms = (sent + offset.lo_ns) / 1000000 + delay_ms + w->o.slack_ms + off_ms;
	coalesce_begin(&w->t, sent, ++w->id, "q", key, delay_ms, &w->o, &ask);
	coalesce_end(&ask, sent, got, offset, &r);
}

static bool
skips(struct world *w, const char *key, int64_t now, int64_t delay_ms)
{
	wq_reply_t r;
	bool yes = coalesce_skips(&w->t, now, "q", key, delay_ms, &w->o, &r);

	if (yes) {
		ck_assert_int_eq(r.status, WQ_SKIPPED);
		ck_assert_int_eq(r.local, 1);
		ck_assert_uint_eq(r.generation, 7);
	}
	return yes;
}

START_TEST(the_window_is_cut_at_both_ends_by_what_is_not_known)
{
	struct world w;
	/* sent at 100 s, answered 10 ms later, 30 s: armed in [135.000, 135.010] */
	int64_t sent = 100 * SEC, got = sent + SEC / 100, ms = 1000000;

	world_init(&w);
	ck_assert(!skips(&w, "k", sent, 30000));
	update_at(&w, "k", sent, got, 30000, WQ_CREATED, 0);
	ck_assert(skips(&w, "k", got, 30000));             /* target 130.010 */
	ck_assert(!skips(&w, "k", got - ms, 30000));       /* 130.009: could be too early */
	ck_assert(skips(&w, "k", sent + 5 * SEC, 30000));  /* 135.000 */
	ck_assert(!skips(&w, "k", sent + 5 * SEC, 30001)); /* 135.001: could be too late */
	ck_assert(!skips(&w, "k", got, 29000));            /* earlier is never skipped */
	ck_assert(!skips(&w, "other", got, 30000));
	ck_assert(skips(&w, "k", sent + 34 * SEC, 500)); /* still armed */
	ck_assert(!skips(&w, "k", sent + 35 * SEC, 1));  /* may have run */
	ck_assert(!skips(&w, "k", got, 0));              /* now is never skipped */
	ck_assert(!skips(&w, "k", got, INT64_MAX));
	coalesce_done(&w.t);
}
END_TEST

START_TEST(only_plain_updates_are_answered_here)
{
	struct world w;
	int64_t now = 100 * SEC;

	world_init(&w);
	update_at(&w, "k", now, now, 30000, WQ_CREATED, 0);
	ck_assert(skips(&w, "k", now, 30000));
	w.o.mode = WQ_LATER;
	ck_assert(skips(&w, "k", now, 30000));
	w.o.if_pending = 1;
	ck_assert(skips(&w, "k", now, 30000));
	w.o.mode = WQ_KEEP;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.mode = WQ_EARLIER;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.mode = WQ_SET;
	w.o.payload_mode = WQ_PAYLOAD_REPLACE;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.payload_mode = WQ_PAYLOAD_KEEP;
	w.o.align_ms = 1000;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.align_ms = 0;
	w.o.at_ms = 600000;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.at_ms = -1;
	w.o.slack_ms = -1;
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.slack_ms = SLACK;
	w.o.durability = WQ_SYNC; /* more than the reply promised */
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.durability = WQ_DEFAULT;
	w.o.idempotency_id = "id";
	ck_assert(!skips(&w, "k", now, 30000));
	w.o.idempotency_id = NULL;
	ck_assert(skips(&w, "k", now, 30000));
	coalesce_done(&w.t);
}
END_TEST

START_TEST(nothing_is_known_while_a_request_is_in_flight_or_after_it_failed)
{
	struct world w;
	struct coalesce_ask first, second, cancel;
	int64_t now = 100 * SEC;
	wq_reply_t r = { .status = WQ_UPDATED_TIMER, .generation = 7, .deadline_ms = 635000 };

	world_init(&w);
	update_at(&w, "k", now, now, 30000, WQ_CREATED, 0);
	coalesce_begin(&w.t, now, 10, "q", "k", 30000, &w.o, &first);
	ck_assert(!skips(&w, "k", now, 30000));
	coalesce_begin(&w.t, now, 11, "q", "k", 30000, &w.o, &second);
	/* answered the other way round: only the one sent last counts */
	coalesce_end(&second, now, now, offset, &r);
	ck_assert(!skips(&w, "k", now, 30000));
	coalesce_end(&first, now, now, offset, &r);
	ck_assert(skips(&w, "k", now, 30000));

	coalesce_begin(&w.t, now, 12, "q", "k", 30000, &w.o, &first);
	coalesce_begin(&w.t, now, 13, "q", "k", 0, NULL, &cancel);
	coalesce_end(&cancel, now, now, offset, &r);
	coalesce_end(&first, now, now, offset, &r);
	ck_assert(!skips(&w, "k", now, 30000));

	update_at(&w, "k", now, now, 30000, WQ_UPDATED_TIMER, 0);
	ck_assert(skips(&w, "k", now, 30000));
	coalesce_begin(&w.t, now, 14, "q", "k", 30000, &w.o, &first);
	coalesce_undo(&first);
	ck_assert(!skips(&w, "k", now, 30000));
	/* sent twice: the answer may be an old one */
	coalesce_begin(&w.t, now, 15, "q", "k", 30000, &w.o, &first);
	coalesce_end(&first, -1, now, offset, &r);
	ck_assert(!skips(&w, "k", now, 30000));
	coalesce_done(&w.t);
}
END_TEST

START_TEST(a_reply_that_was_decided_by_something_else_teaches_nothing)
{
	static const struct {
		wq_status_t status;
		int64_t off_ms;
		bool known;
	} cases[] = {
		{ WQ_CREATED, 0, true },
		{ WQ_UPDATED_READY, 0, true },
		{ WQ_REQUEUED_RUNNING, 0, true },
		{ WQ_UPDATED_TIMER, -1, true },   /* rounding */
		{ WQ_UPDATED_TIMER, -10, false }, /* max_wait, or the timer did not move */
		{ WQ_UPDATED_TIMER, 20, false },  /* a step of the clock */
		{ WQ_UNCHANGED, 0, false },
		{ WQ_SKIPPED, 0, false },
		{ WQ_IDLE, 0, false },
	};
	int64_t now = 100 * SEC;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world w;

		world_init(&w);
		update_at(&w, "k", now, now + SEC / 1000, 30000, cases[i].status, cases[i].off_ms);
		ck_assert_msg(skips(&w, "k", now + SEC, 30000) == cases[i].known, "case %zu", i);
		coalesce_done(&w.t);
	}
}
END_TEST

START_TEST(a_broken_connection_makes_it_forget)
{
	struct world w;
	struct coalesce_ask ask;
	int64_t now = 100 * SEC;
	wq_reply_t r = { .status = WQ_CREATED, .deadline_ms = 635000 };

	world_init(&w);
	update_at(&w, "k", now, now, 30000, WQ_CREATED, 0);
	coalesce_begin(&w.t, now, ++w.id, "q", "l", 30000, &w.o, &ask);
	coalesce_forget(&w.t, ++w.id);
	ck_assert(!skips(&w, "k", now, 30000));
	coalesce_end(&ask, now, now, offset, &r);
	ck_assert(!skips(&w, "l", now, 30000));
	coalesce_done(&w.t);
}
END_TEST

START_TEST(the_number_of_jobs_known_is_limited_and_old_ones_make_room)
{
	struct world w;
	char key[16];
	int64_t now = 100 * SEC;

	world_init(&w);
	for (unsigned i = 0; i < COALESCE_MAX + 100; i++) {
		snprintf(key, sizeof key, "%u", i);
		update_at(&w, key, now, now, 30000, WQ_CREATED, 0);
	}
	ck_assert_uint_eq(w.t.count, COALESCE_MAX);
	ck_assert(skips(&w, "5", now, 30000));
	ck_assert(!skips(&w, key, now, 30000));
	/* all have passed: newcomers push them out */
	now += 60 * SEC;
	for (unsigned i = 0; i < COALESCE_MAX; i++) {
		snprintf(key, sizeof key, "n%u", i % 1000);
		update_at(&w, key, now, now, 30000, WQ_CREATED, 0);
	}
	ck_assert_uint_lt(w.t.count, COALESCE_MAX);
	update_at(&w, "again", now, now, 30000, WQ_CREATED, 0);
	ck_assert(skips(&w, "again", now, 30000));
	coalesce_done(&w.t);
}
END_TEST

START_TEST(without_memory_it_just_knows_less)
{
	struct world w;
	int64_t now = 100 * SEC;

	world_init(&w);
	for (int i = 0; i < 2; i++) {
		client_mem_fail_after(i);
		update_at(&w, "k", now, now, 30000, WQ_CREATED, 0);
		ck_assert(client_mem_failed());
		ck_assert(!skips(&w, "k", now, 30000));
	}
	update_at(&w, "k", now, now, 30000, WQ_CREATED, 0);
	ck_assert(skips(&w, "k", now, 30000));
	coalesce_done(&w.t);
}
END_TEST

int
main(int argc, char **argv)
{
	Suite *s;
	TCase *tc;

	/* for `make update-libwq` */
	if (argc == 2 && strcmp(argv[1], "--man") == 0) {
		static char text[8192];

		fwrite(text, 1, man_options(text, sizeof text), stdout);
		return 0;
	}
	s = suite_create("libwq parts");
	tc = client_case(s, "parts");

	tcase_add_test(tc, words_are_those_of_the_daemon_and_of_the_wire);
	tcase_add_test(tc, every_error_has_a_word_and_a_sentence);
	tcase_add_test(tc, durations_are_read_strictly);
	tcase_add_test(tc, options_have_their_documented_defaults);
	tcase_add_test(tc, bad_options_are_refused_and_change_nothing);
	tcase_add_test(tc, the_manual_and_the_header_have_the_options_of_the_table);
	tcase_add_test(tc, addresses_are_read_strictly);
	tcase_add_test(tc, literal_addresses_resolve_to_themselves);
	tcase_add_test(tc, a_scratch_is_bounded_and_keeps_one_block);
	tc = client_case(s, "coalescing");
	tcase_add_test(tc, the_window_is_cut_at_both_ends_by_what_is_not_known);
	tcase_add_test(tc, only_plain_updates_are_answered_here);
	tcase_add_test(tc, nothing_is_known_while_a_request_is_in_flight_or_after_it_failed);
	tcase_add_test(tc, a_reply_that_was_decided_by_something_else_teaches_nothing);
	tcase_add_test(tc, a_broken_connection_makes_it_forget);
	tcase_add_test(tc, the_number_of_jobs_known_is_limited_and_old_ones_make_room);
	tcase_add_test(tc, without_memory_it_just_knows_less);
	return unit_run(s);
}
