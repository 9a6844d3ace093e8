/*
 * The limits of a queue on its starts: rate, prefix_limit, restart_rate. By name,
 * one rule a test; then a random queue against a plain reference: a bucket that is
 * counted up, tenants that are counted by going through all runs.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/rate.h"
#include "model/rig.h"
#include "unit/random.h"
#include "unit/unit.h"

static void
start(struct rig *r, const char *settings)
{
	rig_init(r);
	rig_expect(r, rig_queue_create(r, "q", settings), ST_OK);
}

static void
set(struct rig *r, const char *settings)
{
	rig_expect(r, rig_queue_set(r, "q", settings), ST_OK);
}

/* Updates to now, one after another. */
static void
now(struct rig *r, const char *keys)
{
	char text[256], *save, *key;

	snprintf(text, sizeof text, "%s", keys);
	for (key = strtok_r(text, " ", &save); key; key = strtok_r(NULL, " ", &save))
		rig_update(r, key, 0);
}

static void
finish(struct rig *r, const char *keys)
{
	char text[256], *save, *key;

	snprintf(text, sizeof text, "%s", keys);
	for (key = strtok_r(text, " ", &save); key; key = strtok_r(NULL, " ", &save))
		rig_finish(r, key);
}

static int64_t
started_at(const struct rig *r, size_t i)
{
	ck_assert_uint_gt(r->n_runs, i);
	return r->runs[i].at_ns - RIG_BOOT_NS;
}

/* ---- the bucket alone ---- */

/* However odd the rate: in no time more than it gives, and never later than it must be. */
START_TEST(bucket_gives_what_the_rate_says)
{
	static const uint32_t rates[] = { 1, 3, 7, 10, 999, 65537, RATE_MAX };
	const struct rate r = { rates[_i % 7], _i < 7 ? 1 : 60 };
	struct rnd rnd = { 5 + (uint64_t)_i };
	struct bucket b = { 0 };
	int64_t at[600], now_ns = 1000 * NS_PER_S;
	const uint32_t burst = 4;

	for (size_t n = 0; n < ARRAY_SIZE(at); n++) {
		int64_t opens_ns = bucket_opens(&b, &r, burst);

		if (rnd_one_in(&rnd, 3))
			now_ns += (int64_t)rnd_below(&rnd, (uint64_t)(6 * rate_interval(&r)));
		if (opens_ns > now_ns)
			now_ns = opens_ns;
		bucket_take(&b, now_ns, &r);
		at[n] = now_ns;
		for (size_t i = 0; i < n; i++) {
			__int128 most = (__int128)(now_ns - at[i]) * r.n;

			/* burst, and what came meanwhile */
			ck_assert((__int128)(n - i + 1) * r.per_s * NS_PER_S <=
				(__int128)burst * r.per_s * NS_PER_S + most);
		}
	}
	/* Full again after as long as it takes, and a nanosecond for each at most. */
	ck_assert_int_le(b.full_ns, now_ns + burst * (r.per_s * NS_PER_S / r.n + 1));
}
END_TEST

START_TEST(bucket_change_keeps_what_was_taken)
{
	const struct rate slow = { 1, 1 }, fast = { 10, 1 }, none = { 0, 0 };
	struct bucket b = { 0 };
	int64_t t = 50 * NS_PER_S;

	for (int i = 0; i < 3; i++)
		bucket_take(&b, t, &slow);
	/* Three taken of four: one is left, under the other rate too. */
	bucket_change(&b, t, &slow, &fast, 4);
	ck_assert_int_le(bucket_opens(&b, &fast, 4), t);
	bucket_take(&b, t, &fast);
	ck_assert_int_eq(bucket_opens(&b, &fast, 4), t + NS_PER_S / 10);
	/* A smaller one is empty, and no emptier. */
	bucket_change(&b, t, &fast, &slow, 2);
	ck_assert_int_eq(bucket_opens(&b, &slow, 2), t + NS_PER_S);
	bucket_give_back(&b, &slow);
	ck_assert_int_eq(bucket_opens(&b, &slow, 2), t);
	bucket_change(&b, t, &slow, &none, 2);
	ck_assert_int_eq(bucket_opens(&b, &none, 2), INT64_MIN);
	bucket_change(&b, t, &none, &slow, 2);
	ck_assert_int_le(bucket_opens(&b, &slow, 2), t);
}
END_TEST

/* ---- rate ---- */

START_TEST(rate_spaces_starts_after_a_burst)
{
	static const int64_t at_ms[] = { 0, 0, 250, 500, 750, 1000 };
	struct rig r;

	start(&r, "handler=h rate=4/s burst=2");
	now(&r, "a b c d e f");
	ck_assert_str_eq(rig_order(&r), "a b ");
	ck_assert_str_eq(rig_state(&r, "c"), "Q");
	ck_assert_int_eq(rig_get(&r, "c").state, JOB_HELD);
	ck_assert_uint_eq(rig_queue(&r, "q").held, 4);
	ck_assert_int_eq(rig_queue(&r, "q").rate_next_wall_ns, RIG_WALL_NS + 250 * MS);
	rig_pass(&r, 10 * SEC);
	ck_assert_str_eq(rig_order(&r), "a b c d e f ");
	for (size_t i = 0; i < 6; i++)
		ck_assert_int_eq(started_at(&r, i), at_ms[i] * MS);
	ck_assert_int_eq(rig_queue(&r, "q").rate_next_wall_ns, 0);
	rig_done(&r);
}
END_TEST

/* All actions: what does nothing too, and workers' jobs. */
START_TEST(rate_holds_for_every_action)
{
	struct engine_stats st;
	struct rig r;

	start(&r, _i == 0 ? "rate=2/m" : "action=lease rate=2/m");
	if (_i == 1)
		rig_subscribe(&r, "q", 100);
	now(&r, "a b c");
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.starts, 1);
	rig_pass(&r, 29999 * MS);
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.starts, 1);
	rig_pass(&r, MS);
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.starts, 2);
	ck_assert_uint_eq(st.rate_waits, 2);
	rig_pass(&r, 30 * SEC);
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.starts, 3);
	rig_done(&r);
}
END_TEST

START_TEST(rate_goes_with_order_slots_and_pause)
{
	struct rig r;

	start(&r, "handler=h ordered=yes rate=1/s burst=3");
	now(&r, "a b c d e");
	/* One at a time, whatever the bucket has. */
	ck_assert_str_eq(rig_order(&r), "a ");
	rig_finish(&r, "a");
	rig_finish(&r, "b");
	rig_finish(&r, "c");
	ck_assert_str_eq(rig_order(&r), "a b c ");
	rig_pause(&r, "q");
	/* A pause fills it up, to its size and no more. */
	rig_pass(&r, HOUR);
	rig_resume(&r, "q");
	now(&r, "f g");
	finish(&r, "d e f");
	ck_assert_str_eq(rig_order(&r), "a b c d e f ");
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "a b c d e f g ");
	rig_done(&r);
}
END_TEST

START_TEST(rate_changes_at_run_time)
{
	struct rig r;

	start(&r, "handler=h rate=1/h");
	now(&r, "a b c d");
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "a ");
	/* One token is out: under the new rate too. */
	set(&r, "rate=10/s");
	ck_assert_str_eq(rig_order(&r), "a ");
	rig_pass(&r, 100 * MS);
	ck_assert_str_eq(rig_order(&r), "a b ");
	set(&r, "rate=1/d");
	rig_pass(&r, HOUR);
	ck_assert_str_eq(rig_order(&r), "a b ");
	set(&r, "rate=0");
	ck_assert_str_eq(rig_order(&r), "a b c d ");
	rig_done(&r);
}
END_TEST

START_TEST(rate_counts_starts_alone)
{
	struct rig r;

	start(&r, "handler=h rate=1/s max_attempts=3 retry_delay=0");
	now(&r, "a b c");
	/* What is cancelled took nothing. */
	rig_cancel(&r, "b", CANCEL_PLAIN);
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "a c ");
	/* What could not be started gives back. */
	rig_not_started(&r, rig_running(&r, "c"));
	rig_pass(&r, SEC);
	ck_assert_uint_eq(rig_starts(&r, "c"), 2);
	/* A retry is a start. */
	rig_end_run(&r, rig_running(&r, "c"), RUN_FAILED);
	ck_assert_ptr_null(rig_running(&r, "c"));
	rig_pass(&r, SEC);
	ck_assert_ptr_nonnull(rig_running(&r, "c"));
	rig_done(&r);
}
END_TEST

START_TEST(rate_is_full_after_a_restart)
{
	struct rig r;

	start(&r, "handler=h rate=1/h burst=2");
	now(&r, "a b c d e");
	rig_restart(&r, SEC, true);
	/* a and b were cut: they go first. */
	ck_assert_str_eq(rig_order(&r), "a b a b ");
	rig_done(&r);
}
END_TEST

/* ---- prefix_limit ---- */

START_TEST(prefix_holds_its_own_alone)
{
	struct rig r;

	start(&r, "handler=h prefix_limit=2");
	now(&r, "a:1 a:2 a:3 b:1 a:4 solo b:2 :x :y :z");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 b:1 solo b:2 :x :y ");
	ck_assert_int_eq(rig_get(&r, "a:3").state, JOB_HELD);
	ck_assert_uint_eq(rig_queue(&r, "q").held, 3);
	ck_assert_uint_eq(rig_queue(&r, "q").held_prefix, 3);
	ck_assert_uint_eq(rig_queue(&r, "q").ready, 0);
	rig_forget(&r);
	/* The oldest of those that waited, in their order. */
	rig_finish(&r, "a:2");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 b:1 solo b:2 :x :y a:3 ");
	rig_finish(&r, "a:1");
	rig_finish(&r, ":x");
	ck_assert_uint_eq(rig_queue(&r, "q").held, 0);
	rig_done(&r);
}
END_TEST

START_TEST(prefix_goes_with_max_active_oldest_first)
{
	struct rig r;

	start(&r, "handler=h prefix_limit=1 max_active=2");
	now(&r, "a:1 a:2 a:3 b:1 c:1 b:2");
	ck_assert_str_eq(rig_order(&r), "a:1 b:1 ");
	/* a:2 is older than c:1. */
	rig_finish(&r, "a:1");
	rig_finish(&r, "b:1");
	ck_assert_str_eq(rig_order(&r), "a:1 b:1 a:2 c:1 ");
	rig_finish(&r, "c:1");
	rig_finish(&r, "a:2");
	ck_assert_str_eq(rig_order(&r), "a:1 b:1 a:2 c:1 b:2 a:3 ");
	rig_done(&r);
}
END_TEST

START_TEST(prefix_limit_changes_at_run_time)
{
	struct rig r;

	start(&r, "handler=h max_active=100");
	now(&r, "a:1 a:2 a:3");
	/* Turned on: those that run count. */
	set(&r, "prefix_limit=2");
	now(&r, "a:4 b:1 a:5 b:2 b:3 a:6 a:7");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 a:3 b:1 b:2 ");
	rig_finish(&r, "a:1");
	ck_assert_ptr_null(rig_running(&r, "a:4"));
	rig_finish(&r, "a:2");
	ck_assert_ptr_nonnull(rig_running(&r, "a:4"));
	rig_forget(&r);
	/* Raised: the oldest start at once. */
	set(&r, "prefix_limit=3");
	ck_assert_str_eq(rig_order(&r), "a:3 b:1 b:2 a:4 a:5 b:3 ");
	/* Lowered: nothing is ended, starts wait. */
	set(&r, "prefix_limit=1");
	finish(&r, "a:3 a:4");
	ck_assert_ptr_null(rig_running(&r, "a:6"));
	rig_finish(&r, "a:5");
	ck_assert_ptr_nonnull(rig_running(&r, "a:6"));
	/* Lifted. */
	set(&r, "prefix_limit=0");
	ck_assert_ptr_nonnull(rig_running(&r, "a:7"));
	ck_assert_uint_eq(rig_queue(&r, "q").held, 0);
	rig_done(&r);
}
END_TEST

START_TEST(prefix_separator_changes_at_run_time)
{
	struct rig r;

	start(&r, "handler=h prefix_limit=1 max_active=100");
	now(&r, "a:x.1 a:y.1 a:x.2 a:z.3");
	ck_assert_str_eq(rig_order(&r), "a:x.1 ");
	/* "a:x", "a:y", "a:z" now; the one that runs is one of a:x. */
	set(&r, "prefix_separator=.");
	ck_assert_str_eq(rig_order(&r), "a:x.1 a:y.1 a:z.3 ");
	rig_finish(&r, "a:x.1");
	ck_assert_str_eq(rig_order(&r), "a:x.1 a:y.1 a:z.3 a:x.2 ");
	rig_done(&r);
}
END_TEST

/* Its turn was given to one that does not start: the next has it. */
START_TEST(prefix_turn_is_passed_on)
{
	struct rig r;

	start(&r, "handler=h prefix_limit=1 max_active=2");
	now(&r, "a:1 a:2 a:3 b:1 c:1 d:1");
	rig_pause(&r, "q");
	rig_finish(&r, "a:1");
	/* a:2 could start, but for the pause. */
	if (_i == 0)
		rig_cancel(&r, "a:2", CANCEL_PLAIN);
	else if (_i == 1)
		rig_update(&r, "a:2", HOUR);
	else
		rig_update(&r, "a:2", 0);
	rig_resume(&r, "q");
	ck_assert_ptr_nonnull(rig_running(&r, "a:3"));
	rig_done(&r);
}
END_TEST

/* One that waits for its own run does not keep the place of one that could go. */
START_TEST(prefix_place_is_not_kept_by_one_that_runs)
{
	struct rig r;

	start(&r, "handler=h prefix_limit=2 max_active=10");
	now(&r, "a:1 a:2 a:1 a:3");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 ");
	rig_finish(&r, "a:2");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 a:3 ");
	rig_finish(&r, "a:1");
	ck_assert_str_eq(rig_order(&r), "a:1 a:2 a:3 a:1 ");
	rig_done(&r);
}
END_TEST

START_TEST(prefix_counts_what_workers_hold_since_before_a_restart)
{
	struct rig r;

	start(&r, "action=lease prefix_limit=1 lease=10s");
	rig_subscribe(&r, "q", 10);
	now(&r, "a:1 a:2 b:1");
	rig_restart(&r, SEC, true);
	rig_forget(&r);
	rig_subscribe(&r, "q", 10);
	now(&r, "b:2 c:1");
	ck_assert_str_eq(rig_order(&r), "c:1 ");
	rig_pass(&r, 10 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "a:1"), 1);
	rig_done(&r);
}
END_TEST

/* Flush and drain wait for what a tenant holds back, as for all that is ready. */
START_TEST(prefix_held_ones_are_waited_for)
{
	uint64_t flush, drain;
	struct rig r;

	start(&r, "handler=h prefix_limit=1");
	now(&r, "a:1 a:2");
	flush = rig_flush_queue(&r, "q");
	drain = rig_drain(&r, "q", TIMERS_KEEP, false);
	rig_finish(&r, "a:1");
	rig_expect_waits(&r, flush);
	rig_expect_waits(&r, drain);
	rig_finish(&r, "a:2");
	rig_expect(&r, flush, ST_OK);
	rig_expect(&r, drain, ST_OK);
	rig_done(&r);
}
END_TEST

/* 20000 of one tenant in front: the step is bounded, and they are looked at once, not at each
 * start. */
START_TEST(prefix_of_many_is_looked_at_once)
{
	struct engine_stats st;
	char key[32];
	struct rig r;

	start(&r, "handler=h prefix_limit=1 max_active=2 max_jobs=100000");
	r.terse = true;
	rig_pause(&r, "q");
	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof key, "big:%d", i);
		rig_update(&r, key, 0);
	}
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof key, "small:%d", i);
		rig_update(&r, key, 0);
	}
	rig_resume(&r, "q");
	ck_assert_ptr_nonnull(rig_running(&r, "big:0"));
	ck_assert_ptr_nonnull(rig_running(&r, "small:0"));
	for (int i = 0; i < 19; i++) {
		snprintf(key, sizeof key, "small:%d", i);
		rig_finish(&r, key);
	}
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.prefix_waits, 2999);
	/* Lifted in bounded steps; then the two that there is room for, the oldest first. */
	set(&r, "prefix_limit=0");
	rig_finish(&r, "big:0");
	ck_assert_ptr_nonnull(rig_running(&r, "big:1"));
	rig_done(&r);
}
END_TEST

/* ---- restart_rate ---- */

START_TEST(restart_spreads_what_was_missed_oldest_first)
{
	struct engine_stats st;
	struct rig r;

	start(&r, "handler=h restart_rate=10/s max_active=100");
	rig_update(&r, "c", 30 * SEC);
	rig_update(&r, "a", 10 * SEC);
	rig_update(&r, "b", 20 * SEC);
	rig_update(&r, "d", 40 * SEC);
	rig_update(&r, "later", 100 * SEC);
	rig_restart(&r, 60 * SEC, _i == 0);
	ck_assert_str_eq(rig_order(&r), "a ");
	/* What comes now is not behind them. */
	now(&r, "new");
	ck_assert_str_eq(rig_order(&r), "a new ");
	ck_assert_str_eq(rig_state(&r, "b"), "A");
	rig_pass(&r, 100 * MS);
	ck_assert_str_eq(rig_order(&r), "a new b ");
	/* An update moves it as ever; a second restart keeps what is left where it is. */
	rig_update(&r, "c", 3 * SEC);
	rig_restart(&r, 0, true);
	rig_pass(&r, 99 * MS);
	ck_assert_uint_eq(rig_starts(&r, "d"), 0);
	rig_pass(&r, 101 * MS);
	ck_assert_uint_eq(rig_starts(&r, "d"), 1);
	rig_pass(&r, 3 * SEC);
	ck_assert_uint_eq(rig_starts(&r, "c"), 1);
	engine_stats_get(r.e, &st);
	ck_assert_uint_eq(st.misfires_paced, 0); /* of the second start */
	rig_done(&r);
}
END_TEST

START_TEST(restart_rate_spreads_retries_and_wall_times)
{
	struct op_update op;
	struct rig r;

	start(&r, "handler=h restart_rate=1/s max_attempts=2 retry_delay=5s misfire=skip");
	now(&r, "a b");
	rig_end_run(&r, rig_running(&r, "a"), RUN_FAILED);
	rig_end_run(&r, rig_running(&r, "b"), RUN_FAILED);
	op = rig_op("w", 0);
	op.absolute = true;
	op.when_ns = r.now.wall_ns + 7 * SEC;
	rig_update_op(&r, &op);
	rig_forget(&r);
	/* Retries are nobody's deadlines: they are not skipped. */
	rig_restart(&r, 60 * SEC, true);
	ck_assert_str_eq(rig_order(&r), "a ");
	rig_pass(&r, SEC);
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_pass(&r, HOUR);
	ck_assert_str_eq(rig_order(&r), "a b ");
	rig_done(&r);
}
END_TEST

/* ---- without memory ---- */

struct bare {
	struct engine *e;
	struct moment now;
	struct effects fx;
	uint64_t going[64];
	size_t n_going, starts, created;
};

static void
bare_step(struct bare *b, const struct engine_event *ev)
{
	engine_step(b->e, b->now, ev, &b->fx);
	for (size_t i = 0; i < b->fx.n; i++) {
		const struct effect *fx = &b->fx.v[i];

		if (fx->kind == FX_REPLY)
			b->created += fx->reply.status == ST_CREATED;
		if (fx->kind != FX_START)
			continue;
		b->going[b->n_going++] = fx->start.run_id;
		b->starts++;
	}
	effects_clear(&b->fx);
}

/* Time passes in ticks, and each run ends in the next one. */
static void
bare_play(struct bare *b, int ticks)
{
	for (int i = 0; i < ticks; i++) {
		b->now.boot_ns += 100 * MS;
		b->now.wall_ns += 100 * MS;
		bare_step(b, &(struct engine_event){ .kind = EV_TICK });
		for (size_t n = b->n_going; n > 0; n--) {
			struct run_end end = { .run_id = b->going[0], .outcome = RUN_DONE };

			memmove(b->going, b->going + 1, --b->n_going * sizeof *b->going);
			bare_step(
				b, &(struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &end });
		}
	}
}

static void
bare_updates(struct bare *b)
{
	static const char *const names[] = { "a:1", "a:2", "a:3", "b:1", "c:1", "d:1", "b:2", "e" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct op_update up = {
			.job = { STR("q"), str_from(names[i]) }, .slack_ns = -1, .max_wait_ns = -1
		};

		bare_step(b,
			&(struct engine_event){
				.kind = EV_UPDATE, .ticket = i + 1, .update = &up });
	}
}

/* Whatever fails: what was taken is started, once, within the limits of the queue. */
START_TEST(no_job_is_lost_for_want_of_memory)
{
	bool left = false;

	for (int n = 0; !left; n++) {
		struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
		struct bare b = { .now = { RIG_BOOT_NS, RIG_WALL_NS } };
		struct queue_settings s;

		ck_assert_int_lt(n, 2000);
		ck_assert_int_eq(engine_new(&cfg, &b.e), 0);
		effects_init(&b.fx);
		queue_settings_default(&s);
		ck_assert_int_eq(queue_settings_set(&s, STR("handler"), STR("h")), 0);
		ck_assert_int_eq(queue_settings_set(&s, STR("prefix_limit"), STR("1")), 0);
		ck_assert_int_eq(queue_settings_set(&s, STR("rate"), STR("5/s")), 0);
		ck_assert_int_eq(queue_settings_set(&s, STR("burst"), STR("3")), 0);
		ck_assert_int_eq(engine_configure_queue(b.e, b.now, STR("q"), &s, &b.fx), 0);
		alloc_fault_set(n, 0);
		bare_updates(&b);
		bare_play(&b, 3);
		left = alloc_fault_off();
		engine_verify(b.e);
		bare_play(&b, 100);
		engine_verify(b.e);
		ck_assert_uint_eq(b.starts, b.created);
		ck_assert_uint_ge(b.created, 7);
		effects_done(&b.fx);
		engine_free(b.e);
	}
}
END_TEST

/* ---- a random queue ---- */

#define KEYS  14
#define STEPS 1500

static const char *const keys[KEYS] = { "a:1", "a:2", "a:3", "a.x:4", "b:1", "b:2", "b.y:1",
	"b.y:2", "c.z", "c.w", "c:1", "d", "e", ":" };

struct game {
	struct rig r;
	struct rnd random;
	/* what the queue is told to be */
	uint32_t max_active, burst, prefix_limit;
	char separator;
	struct rate rate;
	bool paused;
	/* tokens x nanoseconds; exact, as the rates divide a second */
	__int128 level;
	int64_t level_ns;
	size_t seen; /* runs */
};

static uint32_t
roll(struct game *g, uint32_t below)
{
	return (uint32_t)rnd_below(&g->random, below);
}

static void
level_to(struct game *g, int64_t at_ns)
{
	__int128 full = (__int128)g->burst * NS_PER_S;

	g->level += (__int128)(at_ns - g->level_ns) * g->rate.n;
	if (g->level > full)
		g->level = full;
	g->level_ns = at_ns;
}

static size_t
prefix_n(const struct game *g, const char *key)
{
	const char *end = strchr(key, g->separator);

	return end ? (size_t)(end - key) : strlen(key);
}

static bool
same_prefix(const struct game *g, const char *a, const char *b)
{
	size_t n = prefix_n(g, a);

	return n == prefix_n(g, b) && memcmp(a, b, n) == 0;
}

/* Of those that were started before `before`. */
static uint32_t
running(const struct game *g, const char *key, size_t before)
{
	uint32_t n = 0;

	for (size_t i = 0; i < before; i++)
		n += g->r.runs[i].going && (!key || same_prefix(g, key, g->r.runs[i].key));
	return n;
}

/* Each start since the last step was one that might be. */
static void
see_starts(struct game *g)
{
	for (; g->seen < g->r.n_runs; g->seen++) {
		const struct rig_run *run = &g->r.runs[g->seen];

		unit_check(!g->paused);
		unit_check(running(g, NULL, g->seen) < g->max_active);
		if (g->prefix_limit > 0)
			unit_check(running(g, run->key, g->seen) < g->prefix_limit);
		if (g->rate.n == 0)
			continue;
		level_to(g, run->at_ns);
		unit_check(g->level >= NS_PER_S);
		g->level -= NS_PER_S;
	}
	if (g->rate.n > 0)
		level_to(g, g->r.now.boot_ns);
}

/* Nothing is ready that might start. */
static void
see_waits(struct game *g)
{
	struct queue_view q = rig_queue(&g->r, "q");

	unit_check(q.held_prefix <= q.held);
	if (g->paused || running(g, NULL, g->r.n_runs) >= g->max_active ||
		(g->rate.n > 0 && g->level < NS_PER_S))
		return;
	for (size_t i = 0; i < KEYS; i++) {
		if (strcmp(rig_state(&g->r, keys[i]), "Q") != 0)
			continue;
		unit_check(
			g->prefix_limit > 0 && running(g, keys[i], g->r.n_runs) >= g->prefix_limit);
	}
}

static void
change_rate(struct game *g)
{
	static const uint32_t rates[] = { 0, 1, 4, 10, 100 };
	uint32_t n = rates[roll(g, ARRAY_SIZE(rates))], burst = 1 + roll(g, 5);
	__int128 taken = 0, left;
	char text[64];

	left = (__int128)(burst)*NS_PER_S - ((__int128)g->burst * NS_PER_S - g->level);
	if (g->rate.n > 0)
		taken = ((__int128)g->burst * NS_PER_S - g->level + NS_PER_S - 1) / NS_PER_S;
	if (taken > burst)
		taken = burst;
	/* Of the same rate parts of tokens are kept too. */
	if (n != g->rate.n || left < 0)
		left = (burst - taken) * NS_PER_S;
	g->rate = (struct rate){ n, 1 };
	g->burst = burst;
	g->level = left;
	g->level_ns = g->r.now.boot_ns;
	if (g->rate.n)
		snprintf(text, sizeof text, "rate=%u/s burst=%u", g->rate.n, g->burst);
	else
		snprintf(text, sizeof text, "rate=0 burst=%u", g->burst);
	set(&g->r, text);
}

static void
change_limits(struct game *g)
{
	char text[80];

	switch (roll(g, 4)) {
	case 0:
		change_rate(g);
		return;
	case 1:
		g->max_active = roll(g, 8);
		break;
	case 2:
		g->prefix_limit = roll(g, 4);
		break;
	default:
		g->separator = ":.y"[roll(g, 3)];
		break;
	}
	snprintf(text, sizeof text, "max_active=%u prefix_limit=%u prefix_separator=%c",
		g->max_active, g->prefix_limit, g->separator);
	set(&g->r, text);
}

static struct rig_run *
some_run(struct game *g)
{
	size_t n = 0;
	struct rig_run *run = NULL;

	for (size_t i = 0; i < g->r.n_runs; i++)
		if (g->r.runs[i].going && rnd_one_in(&g->random, ++n))
			run = &g->r.runs[i];
	return run;
}

static void
end_some(struct game *g)
{
	struct rig_run *run = some_run(g);

	if (!run)
		return;
	if (!rnd_one_in(&g->random, 6)) {
		rig_end_run(&g->r, run, rnd_one_in(&g->random, 4) ? RUN_FAILED : RUN_DONE);
		return;
	}
	/* A second goes by: its queue tries none before. */
	if (g->rate.n > 0) {
		level_to(g, g->r.now.boot_ns);
		g->level += NS_PER_S;
		level_to(g, g->r.now.boot_ns);
	}
	rig_not_started(&g->r, run);
	see_starts(g);
	rig_pass(&g->r, SEC);
}

static void
step(struct game *g)
{
	const char *key = keys[roll(g, KEYS)];

	switch (roll(g, 20)) {
	case 0:
		change_limits(g);
		break;
	case 1:
		g->paused = rnd_one_in(&g->random, 3);
		(void)(g->paused ? rig_pause : rig_resume)(&g->r, "q");
		break;
	case 2:
		rig_cancel(&g->r, key, CANCEL_PLAIN);
		break;
	case 3:
		rig_update(&g->r, key, (int64_t)roll(g, 1000) * MS);
		break;
	case 4:
	case 5:
		rig_pass(&g->r, (int64_t)roll(g, 700) * MS);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
		end_some(g);
		break;
	default:
		rig_update(&g->r, key, 0);
		break;
	}
}

static void
restart(struct game *g)
{
	size_t before = g->r.n_runs;

	g->level = (__int128)g->burst * NS_PER_S;
	rig_restart(&g->r, SEC, true);
	g->level_ns = g->r.now.boot_ns;
	for (size_t i = 0; i < before; i++)
		g->r.runs[i].going = false;
}

START_TEST(a_random_queue_starts_what_it_may_and_no_more)
{
	struct game *g = x_zalloc(sizeof *g);

	g->random.s = 77 + (uint64_t)_i;
	g->max_active = 4;
	g->burst = 1;
	g->separator = ':';
	start(&g->r, "handler=h max_active=4 max_attempts=2 retry_delay=100ms retention=1s");
	g->level_ns = g->r.now.boot_ns;
	for (int i = 0; i < STEPS; i++) {
		step(g);
		see_starts(g);
		see_waits(g);
		if (rnd_one_in(&g->random, 300)) {
			restart(g);
			see_starts(g);
			see_waits(g);
		}
		if (rnd_one_in(&g->random, 50)) {
			rig_forget(&g->r);
			g->seen = g->r.n_runs;
		}
	}
	rig_done(&g->r);
	x_free(g);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("limits");
	TCase *tc = unit_case(s, "bucket");

	tcase_add_loop_test(tc, bucket_gives_what_the_rate_says, 0, 14);
	tcase_add_test(tc, bucket_change_keeps_what_was_taken);
	tc = unit_case(s, "rate");
	tcase_add_test(tc, rate_spaces_starts_after_a_burst);
	tcase_add_loop_test(tc, rate_holds_for_every_action, 0, 2);
	tcase_add_test(tc, rate_goes_with_order_slots_and_pause);
	tcase_add_test(tc, rate_changes_at_run_time);
	tcase_add_test(tc, rate_counts_starts_alone);
	tcase_add_test(tc, rate_is_full_after_a_restart);
	tc = unit_case(s, "prefix");
	tcase_add_test(tc, prefix_holds_its_own_alone);
	tcase_add_test(tc, prefix_goes_with_max_active_oldest_first);
	tcase_add_test(tc, prefix_limit_changes_at_run_time);
	tcase_add_test(tc, prefix_separator_changes_at_run_time);
	tcase_add_loop_test(tc, prefix_turn_is_passed_on, 0, 3);
	tcase_add_test(tc, prefix_place_is_not_kept_by_one_that_runs);
	tcase_add_test(tc, prefix_counts_what_workers_hold_since_before_a_restart);
	tcase_add_test(tc, prefix_held_ones_are_waited_for);
	tcase_add_test(tc, prefix_of_many_is_looked_at_once);
	tc = unit_case(s, "restart");
	tcase_add_loop_test(tc, restart_spreads_what_was_missed_oldest_first, 0, 2);
	tcase_add_test(tc, restart_rate_spreads_retries_and_wall_times);
	tc = unit_case(s, "memory");
	tcase_add_test(tc, no_job_is_lost_for_want_of_memory);
	tc = unit_case(s, "random");
	tcase_set_timeout(tc, 300);
	tcase_add_loop_test(tc, a_random_queue_starts_what_it_may_and_no_more, 0, 20);
	return unit_run(s);
}
