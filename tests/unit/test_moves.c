/* store: the log of moves: written and read, laid over blocks, folded in a database. */
#include <sqlite3.h>

#include "store/overlay.h"
#include "unit/random.h"
#include "unit/store_case.h"

#define IDS 200

static struct store_error err;

/* ---- written and read ---- */

/* What is last known of each job. */
struct known {
	bool in_block, in_log, there;
	struct position p;
};

static struct known known[IDS];

static struct position
random_position(struct rnd *r)
{
	struct job_saved j = job_make("q", STR("k"), (int64_t)rnd_below(r, 1000));
	struct position p;

	j.boot = rnd_next(r) & INT64_MAX;
	if (rnd_below(r, 2))
		j.due_boot_ns = (int64_t)rnd_next(r);
	if (rnd_below(r, 4) == 0)
		j.delay_ns = (int64_t)rnd_below(r, 5) - 1;
	position_of(&j, &p);
	return p;
}

/* Another change of a random job, into the run and what is known. */
static void
random_change(struct moves_writer *w, struct rnd *r, uint64_t boot)
{
	uint32_t id = 1 + (uint32_t)rnd_below(r, IDS - 1);
	struct known *k = &known[id];
	struct position p = random_position(r);
	enum entry_kind kind = (enum entry_kind)rnd_below(r, ENTRY_KINDS);

	if (kind == ENTRY_MOVED && !k->there)
		kind = ENTRY_PUT;
	k->in_log = true;
	k->there = kind != ENTRY_REMOVED;
	ck_assert_int_eq(moves_add(w, kind, id, &p), 0);
	p.v[POSITION_boot] = kind == ENTRY_MOVED ? (int64_t)boot : p.v[POSITION_boot];
	if (kind == ENTRY_MOVED)
		position_move(&k->p, &p);
	else if (kind == ENTRY_PUT)
		k->p = p;
}

static void
expect_position(const struct position *got, const struct position *want)
{
#define X(f, ...) ck_assert_int_eq(got->v[POSITION_##f], want->v[POSITION_##f]);
	JOB_FIELDS(X)
#undef X
}

static void
expect_known(struct overlay *o, const struct position *blocks)
{
	for (uint32_t id = 1; id < IDS; id++) {
		const struct known *k = &known[id];
		struct position p = blocks[id];
		int word = overlay_apply(o, id, k->in_block, &p);

		if (!k->in_log) {
			ck_assert_int_eq(word, OVERLAY_NOTHING);
			continue;
		}
		ck_assert_int_eq(word, k->there ? OVERLAY_THERE : OVERLAY_REMOVED);
		ck_assert(overlay_touches(o, block_of(id)));
		if (k->there)
			expect_position(&p, &k->p);
	}
}

START_TEST(the_newest_word_on_each_job_counts)
{
	static struct position blocks[IDS];
	struct rnd r = { 11 };
	struct overlay o = { 0 };

	for (int round = 0; round < 200; round++) {
		struct moves_writer w = { 0 };

		memset(known, 0, sizeof known);
		for (uint32_t id = 1; id < IDS; id++) {
			known[id].in_block = known[id].there = rnd_below(&r, 2);
			known[id].p = blocks[id] = random_position(&r);
		}
		ck_assert_int_eq(overlay_begin(&o, 0, overlay_span(IDS)), 0);
		for (uint64_t row = 1 + rnd_below(&r, 20); row > 0; row--) {
			uint64_t boot = rnd_next(&r) & INT64_MAX;

			moves_begin(&w, boot);
			for (uint64_t n = rnd_below(&r, 30); n > 0; n--)
				random_change(&w, &r, boot);
			ck_assert_int_eq(
				overlay_add(&o, (struct str){ (const char *)w.bytes.p, w.bytes.n }),
				0);
		}
		expect_known(&o, blocks);
		bytes_done(&w.bytes);
	}
	overlay_done(&o);
}
END_TEST

START_TEST(a_block_comes_back)
{
	struct rnd r = { 14 };
	struct bytes b = { 0 };

	for (int round = 0; round < 2000; round++) {
		struct block k = { .there = (uint16_t)rnd_next(&r) }, got;

		for (int i = 0; i < BLOCK_JOBS; i++)
			k.p[i] = random_position(&r);
		ck_assert_int_eq(block_write(&k, &b), 0);
		ck_assert_int_eq(block_read(&got, (struct str){ (const char *)b.p, b.n }), 0);
		ck_assert_uint_eq(got.there, k.there);
		for (int i = 0; i < BLOCK_JOBS; i++)
			if (k.there >> i & 1)
				expect_position(&got.p[i], &k.p[i]);
		for (size_t n = 0; n < b.n; n++)
			ck_assert_int_eq(block_read(&got, (struct str){ (const char *)b.p, n }),
				ERR_DAMAGED);
	}
	bytes_done(&b);
}
END_TEST

/* A job of some million, moved by a delay that differs, as a heartbeat is. */
static struct job_saved
heartbeat(struct rnd *r, int64_t i)
{
	struct job_saved j = { .pending = JOB_ARMED,
		.level = LEVEL_SYNC,
		.boot = INT64_MAX,
		.delay_ns = (3600000 + (int64_t)rnd_below(r, 1 << 20)) * NS_PER_MS,
		.seq = 12345678 + (uint64_t)i,
		.coalesced = (uint32_t)rnd_below(r, 50) };

	j.due_boot_ns = 100000 * NS_PER_S + i / 100 * 1234567 + j.delay_ns;
	j.due_wall_ns = j.due_boot_ns + 1700000000 * NS_PER_S;
	j.created_wall_ns = 1700000000 * NS_PER_S + (int64_t)rnd_below(r, 1000) * NS_PER_S;
	return j;
}

/* What the design is for. */
START_TEST(a_move_is_some_nine_bytes_and_a_position_some_thirty)
{
	struct moves_writer w = { 0 };
	struct rnd r = { 15 };
	struct bytes b = { 0 };
	struct block k = { .there = UINT16_MAX };
	struct position p;

	moves_begin(&w, INT64_MAX);
	for (int64_t i = 0; i < 10000; i++) {
		struct job_saved j = heartbeat(&r, i);

		position_of(&j, &p);
		ck_assert_int_eq(
			moves_add(&w, ENTRY_MOVED, 1 + (uint32_t)rnd_below(&r, 1000000), &p), 0);
	}
	ck_assert_uint_lt(w.bytes.n, 10000 * 95 / 10);
	for (int i = 0; i < BLOCK_JOBS; i++) {
		struct job_saved j = heartbeat(&r, (int64_t)rnd_below(&r, 10000000));

		position_of(&j, &k.p[i]);
	}
	ck_assert_int_eq(block_write(&k, &b), 0);
	ck_assert_uint_lt(b.n, BLOCK_JOBS * 32);
	bytes_done(&b);
	bytes_done(&w.bytes);
}
END_TEST

/* Any bytes are read or refused. */
START_TEST(damaged_runs_are_refused)
{
	struct rnd r = { 12 };
	struct moves_writer w = { 0 };
	struct overlay o = { 0 };
	char *copy;

	memset(known, 0, sizeof known);
	moves_begin(&w, 77);
	for (int i = 0; i < 60; i++)
		random_change(&w, &r, 77);
	copy = malloc(w.bytes.n);
	ck_assert_int_eq(overlay_begin(&o, 0, overlay_span(IDS)), 0);
	for (int i = 0; i < 20000; i++) {
		size_t n = 1 + rnd_below(&r, w.bytes.n);
		int rc;

		memcpy(copy, w.bytes.p, n);
		copy[rnd_below(&r, n)] ^= (char)(1 + rnd_below(&r, 255));
		rc = overlay_add(&o, (struct str){ copy, n });
		ck_assert(rc == 0 || rc == ERR_DAMAGED);
	}
	overlay_done(&o);
	free(copy);
	bytes_done(&w.bytes);
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
	const struct persist_sink *sink = case_sink(st);
	struct job_saved j = job_make("q", (struct str){ (char *)&k, sizeof k }, v);
	struct str part = { (char *)&v, sizeof v };

	if (v % 11 == 0) {
		sink->job_remove(sink->ctx, STR("q"), j.key, 0);
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

static void
remove_queue(struct store *st, bool there[64])
{
	const struct persist_sink *sink = case_sink(st);

	for (int k = 0; k < 64; k++) {
		if (there[k])
			sink->job_remove(
				sink->ctx, STR("q"), (struct str){ (char *)&k, sizeof k }, 0);
		there[k] = false;
	}
	sink->queue_remove(sink->ctx, STR("q"));
}

/*
 * Groups of one: the log reaches its cap again and again. Between any two groups, and after any end,
 * what is read back is what was put last.
 */
START_TEST(folding_shows_in_nothing)
{
	static int last[64];
	static bool there[64];
	struct rnd r = { 13 };
	struct store *st = store_open_ok();

	memset(last, 0, sizeof last);
	memset(there, 0, sizeof there);
	for (int i = 1; i <= 40000; i++) {
		int k = (int)rnd_below(&r, 64);

		(void)group_begin(st);
		change(st, k, i, rnd_below(&r, 4) == 0);
		there[k] = i % 11 != 0;
		last[k] = i;
		if (i % 3000 == 0)
			remove_queue(st, there);
		group_commit(st);
		(void)st->ops->checkpoint(st);
		if (i % 397 == 0 || (i > 14000 && i < 16000 && i % 50 == 0)) {
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
	ck_assert_int_lt(db_number("SELECT count(*) FROM moved"), 16000);
	ck_assert_int_gt(db_number("SELECT count(*) FROM job"), 0);
}
END_TEST

/* What is moved alone: the rest stays as it was put, its payload too. */
START_TEST(a_moved_job_keeps_all_else)
{
	struct store *st = store_open_ok();
	struct job_saved j = job_make("q", STR("k"), 2), want;
	const struct persist_sink *sink = group_begin(st);
	char *text, *expected;
	size_t n;
	FILE *f;

	j.parts = &STR("precious");
	j.n_parts = 1;
	j.payload_changed = true;
	sink->job_put(sink->ctx, &j);
	group_commit(st);
	want = j;
	for (int i = 1; i < 300; i++) {
		struct job_saved m = { .id = j.id, .moved = true };

		m.due_boot_ns = want.due_boot_ns = i * 1000000007ll;
		m.due_wall_ns = want.due_wall_ns = i * 1000000009ll;
		m.delay_ns = want.delay_ns = i % 2 ? i : i * NS_PER_MS;
		m.seq = want.seq = 100 + (uint64_t)i;
		m.coalesced = want.coalesced = (uint32_t)i;
		sink = group_begin(st);
		sink->job_put(sink->ctx, &m);
		group_commit(st);
		if (i % 100)
			continue;
		f = open_memstream(&expected, &n);
		put_job(f, &want);
		fclose(f);
		text = text_of(st);
		ck_assert_ptr_nonnull(strstr(text, expected));
		free(text);
		free(expected);
	}
	st->ops->close(st);
}
END_TEST

/* Numbers far apart: several ranges of the log, some of them empty. */
START_TEST(ranges_follow_each_other)
{
	static const uint32_t ids[] = { 1, 15, 16, 17, 262143, 262144, 262145, 700000, 2000000,
		2000016 };
	struct store *st = store_open_ok();
	char *text, *again;

	for (int round = 0; round < 3; round++) {
		const struct persist_sink *sink = group_begin(st);

		for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
			char key[16];
			int n = snprintf(key, sizeof key, "%u", ids[i]);
			struct job_saved j =
				job_make("q", (struct str){ key, (size_t)n }, round * 10 + 1);

			j.id = ids[i];
			if (round == 2 && i % 3 == 1)
				sink->job_remove(sink->ctx, STR("q"), j.key, j.id);
			else
				sink->job_put(sink->ctx, &j);
		}
		group_commit(st);
		text = text_of(st);
		/* Enough for it to be folded when there is nothing else to do. */
		for (int i = 0; i < 1500; i++) {
			sink = group_begin(st);
			group_commit(st);
		}
		while (st->ops->tidy(st))
			;
		again = text_of(st);
		ck_assert_str_eq(text, again);
		free(text);
		free(again);
	}
	st->ops->close(st);
	ck_assert_int_eq(db_number("SELECT count(*) FROM moved"), 0);
	ck_assert_int_eq(db_number("SELECT count(*) FROM job"), 7);
	ck_assert_int_eq(db_number("SELECT count(*) FROM position"), 5);
	st = store_open_ok();
	ck_assert(st->meta.same_boot);
	ck_assert_int_eq(st->meta.last_wall_ns, NOW.wall_ns);
	st->ops->close(st);
}
END_TEST

/* By a daemon that has committed nothing itself. */
START_TEST(a_fold_keeps_the_time_of_the_last_commit)
{
	struct store *st = store_open_ok();
	uint64_t token;

	for (int i = 0; i < 1500; i++) {
		(void)group_begin(st);
		group_commit(st);
	}
	st->ops->close(st);
	ck_assert_int_eq(db_number("SELECT count(*) FROM moved"), 1500);
	st = store_open_ok();
	ck_assert_int_eq(st->ops->claim(st, "wqd", &token), 0);
	while (st->ops->tidy(st))
		;
	st->ops->close(st);
	ck_assert_int_eq(db_number("SELECT count(*) FROM moved"), 0);
	st = store_open_ok();
	ck_assert_int_eq(st->meta.last_wall_ns, NOW.wall_ns);
	st->ops->close(st);
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
	ck_assert_int_lt(db_number("SELECT sum(length(moves)) FROM moved"), 4 << 20);
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
		"DELETE FROM moved",
		"DELETE FROM queue",
		"DELETE FROM job WHERE id = 7",
		"INSERT INTO position VALUES (3, x'0000', 0)",
		"DROP TABLE moved",
		"DROP TABLE position",
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

/* The same of what has been folded. */
START_TEST(sto_07_changed_positions)
{
	static const char *const changes[] = {
		"UPDATE position SET positions = CAST(positions || 'x' AS BLOB) WHERE block = 2",
		"UPDATE position SET sum = sum + 1 WHERE block = 1",
		"UPDATE position SET block = 9 WHERE block = 1",
		"DELETE FROM position WHERE block = 2",
		"DELETE FROM job WHERE id = 20",
		"UPDATE job SET id = 1000 WHERE id = 20",
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct store *st = store_open_ok();
		uint64_t before;
		char *text;

		put_some(st, 50, 1);
		for (int g = 0; g < 1200; g++) {
			(void)group_begin(st);
			group_commit(st);
		}
		while (st->ops->tidy(st))
			;
		st->ops->close(st);
		ck_assert_int_eq(db_number("SELECT count(*) FROM moved"), 0);
		tamper(changes[i]);
		before = dir_hash();
		ck_assert_msg(reopened_text(&text, &err) == ERR_DAMAGED, "%s", changes[i]);
		ck_assert_uint_eq(dir_hash(), before);
		ck_assert_int_eq(unlink(in_dir("wqd.db")), 0);
	}
}
END_TEST

/* ---- from older schemas ---- */

/* Queues have more settings by now than they had then: what follows them is compared. */
static void
expect_same(char *got, const char *want)
{
	const char *jobs = strstr(got, "\njob ");

	ck_assert_ptr_nonnull(jobs);
	ck_assert_msg(strcmp(jobs, strstr(want, "\njob ")) == 0, "not the same jobs");
	free(got);
}

/* Databases as wqd of that schema left them, and what it read from them. */
static void
upgrade_from(int schema)
{
	/* The tables of schema 3 are those of 2. */
	char *want = old_database(schema < 3 ? schema : 2), *got;
	uint64_t before;
	struct store *st;

	if (schema == 3)
		tamper("PRAGMA user_version = 3");
	before = dir_hash();
	ck_assert_int_eq(reopened_text(&got, &err), 0);
	expect_same(got, want);
	ck_assert_uint_eq(dir_hash(), before);
	st = store_open_ok();
	(void)group_begin(st);
	group_commit(st);
	expect_same(text_of(st), want);
	st->ops->close(st);
	ck_assert_int_eq(db_number("PRAGMA user_version"), STORE_SCHEMA_VERSION);
	ck_assert_int_eq(reopened_text(&got, &err), 0);
	expect_same(got, want);
	free(want);
}

START_TEST(an_older_schema_is_read_untouched_and_upgraded_by_the_first_group)
{
	upgrade_from(_i);
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
	tcase_add_test(tc, a_block_comes_back);
	tcase_add_test(tc, a_move_is_some_nine_bytes_and_a_position_some_thirty);
	tcase_add_test(tc, damaged_runs_are_refused);
	tcase_add_test(tc, folding_shows_in_nothing);
	tcase_add_test(tc, a_moved_job_keeps_all_else);
	tcase_add_test(tc, ranges_follow_each_other);
	tcase_add_test(tc, a_fold_keeps_the_time_of_the_last_commit);
	tcase_add_test(tc, the_log_of_moves_has_a_cap);
	tcase_add_test(tc, sto_07_a_changed_log_of_moves);
	tcase_add_test(tc, sto_07_changed_positions);
	tcase_add_loop_test(tc, an_older_schema_is_read_untouched_and_upgraded_by_the_first_group,
		1, STORE_SCHEMA_VERSION);
	return unit_run(s);
}
