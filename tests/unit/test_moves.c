/* store: the log of moves, written and merged, and in a database. */
#include <sqlite3.h>

#include "store/sqlite_moves.h"
#include "unit/random.h"
#include "unit/store_case.h"

#define QUEUES 3
#define KEYS   40

static struct store_error err;

/* ---- written and merged ---- */

/* What is last known of each job; queue and key are numbers from 1 on. */
struct known {
	bool there, moved;
	struct job_saved j;
};

static struct known known[QUEUES + 1][KEYS + 1];

static struct str
key_of(int k)
{
	static char text[KEYS + 1][16];
	int n = snprintf(text[k], sizeof text[k], "%s-%02d", k % 3 ? "host" : "h", k);

	return (struct str){ text[k], (size_t)n };
}

static void
random_move(struct moves *m, struct rnd *r)
{
	int q = 1 + (int)rnd_below(r, QUEUES), k = 1 + (int)rnd_below(r, KEYS);
	struct known *w = &known[q][k];

	w->moved = true;
	w->there = rnd_below(r, 8) > 0;
	if (w->there) {
		w->j = job_make("q", key_of(k), (int64_t)rnd_below(r, 1000));
		w->j.boot = rnd_next(r) & INT64_MAX;
		w->j.due_boot_ns = (int64_t)rnd_next(r);
	}
	ck_assert_int_eq(moves_add(m, w->there ? MOVE_PUT : MOVE_REMOVED, q, key_of(k), &w->j), 0);
	if (rnd_below(r, 100) == 0) {
		ck_assert_int_eq(moves_add(m, MOVE_QUEUE_REMOVED, q, STR_NONE, NULL), 0);
		memset(known[q], 0, sizeof known[q]);
	}
}

static void
expect_position(const struct known *w, const struct moved *mv)
{
	ck_assert_int_eq(w->moved, true);
	ck_assert_int_eq(mv->removed, !w->there);
	if (w->there) {
#define X(f, ...) ck_assert_int_eq(mv->v[POSITION_##f], (int64_t)w->j.f);
		JOB_FIELDS(X)
#undef X
	}
}

static void
expect_known(struct merge *g)
{
	struct moved mv;

	for (int q = 1; q <= QUEUES; q++) {
		for (size_t left = KEYS; left > 0; left--) {
			int best = 0;

			for (int k = 1; k <= KEYS; k++)
				if (known[q][k].moved &&
					(!best || moves_compare_keys(key_of(k), key_of(best)) < 0))
					best = k;
			if (!best)
				break;
			ck_assert_int_eq(merge_next(g, &mv), 1);
			ck_assert_int_eq(mv.queue, q);
			ck_assert(str_eq(mv.key, key_of(best)));
			expect_position(&known[q][best], &mv);
			known[q][best].moved = false;
		}
	}
	ck_assert_int_eq(merge_next(g, &mv), 0);
}

START_TEST(the_newest_word_on_each_job_counts)
{
	struct rnd r = { 11 };

	for (int round = 0; round < 100; round++) {
		struct moves m = { 0 };
		struct merge *g;

		memset(known, 0, sizeof known);
		ck_assert_int_eq(merge_new(&g), 0);
		for (uint64_t id = 1; id <= 1 + rnd_below(&r, 20); id++) {
			struct str bytes;

			moves_clear(&m);
			for (uint64_t n = rnd_below(&r, 30); n > 0; n--)
				random_move(&m, &r);
			ck_assert_int_eq(moves_encode(&m, &bytes), 0);
			ck_assert_int_eq(merge_add(g, id, bytes), 0);
		}
		expect_known(g);
		merge_free(g);
		moves_done(&m);
	}
}
END_TEST

/* What the design is for: neighbours that move by about as much. */
START_TEST(a_move_is_some_twenty_bytes)
{
	struct moves m = { 0 };
	struct str bytes;

	for (int i = 0; i < 10000; i++) {
		char key[32];
		int n = snprintf(key, sizeof key, "job-%08d", i * 7919 % 10000);
		struct job_saved j = { .pending = JOB_ARMED,
			.boot = INT64_MAX,
			.due_boot_ns = 3600 * NS_PER_S + i * 3000,
			.due_wall_ns = 1700003600 * NS_PER_S + i * 3000,
			.delay_ns = 3600 * NS_PER_S,
			.created_wall_ns = 1700000000 * NS_PER_S + i * 7919 % 10000 * 5000,
			.seq = 123456 + (uint64_t)i,
			.coalesced = (uint32_t)i % 50 };

		ck_assert_int_eq(moves_add(&m, MOVE_PUT, 1, (struct str){ key, (size_t)n }, &j), 0);
	}
	ck_assert_int_eq(moves_encode(&m, &bytes), 0);
	ck_assert_uint_lt(bytes.n, 10000 * 22);
	moves_done(&m);
}
END_TEST

/* Any bytes are read or refused. */
START_TEST(damaged_runs_are_refused)
{
	struct rnd r = { 12 };
	struct moves m = { 0 };
	struct str bytes;
	char *copy;

	memset(known, 0, sizeof known);
	for (int i = 0; i < 60; i++)
		random_move(&m, &r);
	ck_assert_int_eq(moves_encode(&m, &bytes), 0);
	copy = malloc(bytes.n);
	for (int i = 0; i < 20000; i++) {
		size_t n = 1 + rnd_below(&r, bytes.n);
		struct merge *g;
		struct moved mv;
		int rc;

		memcpy(copy, bytes.p, n);
		copy[rnd_below(&r, n)] ^= (char)(1 + rnd_below(&r, 255));
		ck_assert_int_eq(merge_new(&g), 0);
		rc = merge_add(g, 1, (struct str){ copy, n });
		for (rc = rc ? rc : 1; rc == 1;)
			rc = merge_next(g, &mv);
		ck_assert(rc == 0 || rc == ERR_DAMAGED);
		merge_free(g);
	}
	free(copy);
	moves_done(&m);
}
END_TEST

/* ---- in a database ---- */

static int64_t
db_number(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	int64_t v;

	ck_assert_int_eq(sqlite3_open(in_dir("wqd.db"), &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
	v = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	return v;
}

static void
change(struct store *st, int k, int v, bool payload)
{
	const struct persist_sink *sink = st->ops->sink(st);
	struct job_saved j = job_make("q", (struct str){ (char *)&k, sizeof k }, v);
	struct str part = { (char *)&v, sizeof v };

	if (v % 11 == 0) {
		sink->job_remove(sink->ctx, STR("q"), j.key);
		return;
	}
	j.parts = &part;
	j.n_parts = 1;
	j.payload_changed = payload;
	sink->job_put(sink->ctx, &j);
}

/* The state as text, sorted by the store; of a copy made of the same changes without folding. */
static char *
text_of(struct store *st)
{
	char *text;

	ck_assert_msg(recover_text(st, &text, &err) == 0, "%s", err.detail);
	return text;
}

/*
 * Groups of one: the log reaches its cap of rows again and again. Between any two groups, and
 * after any end, what is read back is what was put last.
 */
START_TEST(folding_shows_in_nothing)
{
	static int last[64];
	static bool there[64];
	struct rnd r = { 13 };
	struct store *st = store_open_ok();

	memset(last, 0, sizeof last);
	memset(there, 0, sizeof there);
	for (int i = 1; i <= 20000; i++) {
		int k = (int)rnd_below(&r, 64);

		(void)group_begin(st);
		change(st, k, i, rnd_below(&r, 4) == 0);
		there[k] = i % 11 != 0;
		last[k] = i;
		if (i % 3000 == 0) {
			const struct persist_sink *sink = st->ops->sink(st);

			sink->queue_remove(sink->ctx, STR("q"));
			memset(there, 0, sizeof there);
		}
		group_commit(st);
		(void)st->ops->checkpoint(st);
		if (i % 97 == 0 || (i > 4090 && i < 4110)) {
			char *text = text_of(st), *at = text;
			int found = 0;

			for (k = 0; k < 64; k++)
				found += there[k];
			for (; (at = strstr(at, "job queue")) != NULL; at++)
				found--;
			ck_assert_msg(found == 0, "at %d: %d", i, found);
			for (k = 0; k < 64; k++) {
				char seq[32];

				snprintf(seq, sizeof seq, " seq=%d ", last[k] + 7);
				ck_assert(!there[k] || strstr(text, seq));
			}
			free(text);
		}
	}
	st->ops->close(st);
	ck_assert_int_lt(db_number("SELECT count(*) FROM moved"), 8192);
	ck_assert_int_gt(db_number("SELECT count(*) FROM job"), 0);
}
END_TEST

START_TEST(the_log_of_moves_has_a_cap)
{
	struct store *st = store_open_ok();
	struct store_stats s;

	for (int i = 0; i < 200; i++) {
		put_some(st, 10000, i);
		(void)st->ops->checkpoint(st);
		st->ops->stats(st, &s);
		ck_assert_uint_lt(s.file_bytes + s.wal_bytes, 64 << 20);
	}
	st->ops->close(st);
	ck_assert_int_lt(db_number("SELECT sum(length(moves)) FROM moved"), 20 << 20);
	ck_assert_int_eq(db_number("SELECT count(*) FROM job"), 10000);
}
END_TEST

/* ---- damage ---- */

static void
tamper(const char *sql)
{
	sqlite3 *db;

	ck_assert_int_eq(sqlite3_open(in_dir("wqd.db"), &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

START_TEST(sto_07_a_changed_log_of_moves)
{
	static const char *const changes[] = {
		"UPDATE moved SET moves = CAST(moves || 'x' AS BLOB) WHERE id = 2",
		"UPDATE moved SET sum = sum + 1 WHERE id = 3",
		"UPDATE moved SET id = id + 7 WHERE id = 3",
		"DELETE FROM moved WHERE id = 2",
		"DELETE FROM queue",
		"DROP TABLE moved",
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct store *st = store_open_ok();
		uint64_t before;
		char *text;

		for (int g = 1; g <= 3; g++)
			put_some(st, 50, g);
		st->ops->close(st);
		tamper(changes[i]);
		before = dir_hash();
		ck_assert_int_eq(reopened_text(&text, &err), ERR_DAMAGED);
		ck_assert_uint_eq(dir_hash(), before);
		ck_assert_int_eq(unlink(in_dir("wqd.db")), 0);
	}
}
END_TEST

/* ---- from schema 1 ---- */

/* A database as the first schema had it: every job in its row. */
static char *
make_schema_1(void)
{
	struct store *st = store_open_ok();
	char *text;

	(void)group_begin(st);
	for (int k = 0; k < 300; k++)
		change(st, k, k + 1, true);
	group_commit(st);
	text = text_of(st);
	st->ops->close(st);
	tamper("DROP TABLE moved; DROP TABLE completion; PRAGMA user_version = 1");
	return text;
}

START_TEST(schema_1_is_read_untouched_and_upgraded_by_the_first_group)
{
	char *text = make_schema_1(), *got;
	uint64_t before = dir_hash();
	struct store *st;

	ck_assert_int_eq(reopened_text(&got, &err), 0);
	ck_assert_str_eq(got, text);
	free(got);
	ck_assert_uint_eq(dir_hash(), before);
	st = store_open_ok();
	(void)group_begin(st);
	group_commit(st);
	got = text_of(st);
	ck_assert_str_eq(got, text);
	free(got);
	st->ops->close(st);
	ck_assert_int_eq(db_number("PRAGMA user_version"), STORE_SCHEMA_VERSION);
	ck_assert_int_eq(reopened_text(&got, &err), 0);
	ck_assert_str_eq(got, text);
	free(got);
	free(text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("moves");
	TCase *tc = unit_case(s, "moves");

	tcase_add_checked_fixture(tc, dir_make_quick, dir_remove);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_newest_word_on_each_job_counts);
	tcase_add_test(tc, a_move_is_some_twenty_bytes);
	tcase_add_test(tc, damaged_runs_are_refused);
	tcase_add_test(tc, folding_shows_in_nothing);
	tcase_add_test(tc, the_log_of_moves_has_a_cap);
	tcase_add_test(tc, sto_07_a_changed_log_of_moves);
	tcase_add_test(tc, schema_1_is_read_untouched_and_upgraded_by_the_first_group);
	return unit_run(s);
}
