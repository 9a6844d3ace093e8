/*
 * store: faults and losses of power while the log of moves is folded, while it is
 * read back, and while a database of schema 1 becomes one of schema 2. After each:
 * every group that was told committed is there, and no other in part.
 */
#include <sqlite3.h>

#include "fault/store_work.h"

#define STEPS 24
#define JOBS  30
/* As many groups as the log takes before it is folded. */
#define LOG_ROWS 4096

/* A database to begin with, and the state after so many groups more. */
struct course {
	char *file;
	size_t n;
	char *after[STEPS + 1];
};

static struct course folding, upgrade;

/* A group: a job moves, one changes its payload, one goes. */
static int
step(struct store *st, int v)
{
	const struct persist_sink *sink;
	int k[3] = { v % JOBS, v * 7 % JOBS, v * 11 % JOBS }, rc = st->ops->begin(st);
	struct job_saved j;

	if (rc)
		return rc;
	sink = st->ops->sink(st);
	j = job_of(&k[0], v);
	sink->job_put(sink->ctx, &j);
	if (v % 5 == 0) {
		j = job_of(&k[1], v);
		j.parts = &(struct str){ (const char *)&v, sizeof v };
		j.n_parts = 1;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
	}
	if (v % 7 == 0)
		sink->job_remove(
			sink->ctx, STR("q"), (struct str){ (const char *)&k[2], sizeof k[2] });
	return st->ops->commit(st, NOW, true);
}

/* ---- to begin with ---- */

static void
course_begin(const struct course *c)
{
	start_over();
	file_write(in_dir("wqd.db"), c->file, c->n);
}

static void
course_learn(struct course *c)
{
	struct store *st;

	c->file = file_read(in_dir("wqd.db"), &c->n);
	st = store_open_ok();
	for (int i = 0; i <= STEPS; i++) {
		if (i > 0)
			ck_assert_int_eq(step(st, i), 0);
		ck_assert_int_eq(recover_text(st, &c->after[i], &err), 0);
	}
	st->ops->close(st);
}

static void
course_forget(struct course *c)
{
	free(c->file);
	for (int i = 0; i <= STEPS; i++)
		free(c->after[i]);
}

static int64_t
rows_of(const char *table)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	char sql[64];
	int64_t n;

	(void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	ck_assert_int_eq(sqlite3_open(in_dir("wqd.db"), &db), SQLITE_OK);
	/* This file system has no shared memory. */
	ck_assert_int_eq(
		sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	return n;
}

/* The log is one group short of being folded; what follows folds it to its end. */
static void
make_full_log(void)
{
	struct store *st = store_open_ok();

	for (int v = 0; v < LOG_ROWS - 1; v++)
		ck_assert_int_eq(step(st, v), 0);
	st->ops->close(st);
	ck_assert_int_eq(rows_of("moved"), LOG_ROWS - 1);
}

static void
make_schema_1(void)
{
	struct store *st = store_open_ok();
	sqlite3 *db;

	ck_assert_int_eq(st->ops->begin(st), 0);
	for (int g = 0; g < GROUPS; g++) {
		struct job_saved j = job_of(&g, g);

		j.payload_changed = true;
		st->ops->sink(st)->job_put(st->ops->sink(st)->ctx, &j);
	}
	group_commit(st);
	st->ops->close(st);
	ck_assert_int_eq(sqlite3_open(in_dir("wqd.db"), &db), SQLITE_OK);
	/* This file system has no shared memory. */
	ck_assert_int_eq(
		sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(
		sqlite3_exec(db, "DROP TABLE moved; DROP TABLE completion; PRAGMA user_version = 1",
			NULL, NULL, NULL),
		SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

static void
learn(void)
{
	dir_make_quick();
	make_full_log();
	course_learn(&folding);
	ck_assert_int_lt(rows_of("moved"), STEPS + 1); /* all of it was folded */
	start_over();
	make_schema_1();
	course_learn(&upgrade);
	dir_remove();
}

static void
forget(void)
{
	course_forget(&folding);
	course_forget(&upgrade);
}

/* ---- one run ---- */

/* Steps until one can't be made, each tried twice. How many were told committed. */
static int
go(const struct sweep *sw, const struct course *c, bool *failed)
{
	struct store *st;
	uint64_t token;
	char *text;
	int rc = store_sqlite_open(case_dir, &st, &err), done = 0;

	*failed = rc != 0;
	if (rc) {
		CHECK_AT(sw, acceptable_error(rc));
		return 0;
	}
	rc = recover_text(st, &text, &err);
	CHECK_AT(sw, rc != 0 || strcmp(text, c->after[0]) == 0);
	free(text);
	if (!rc)
		rc = st->ops->claim(st, "me", &token);
	for (; !rc && done < STEPS; done += !rc) {
		rc = step(st, done + 1);
		if (rc && !sw->forever)
			rc = step(st, done + 1);
	}
	*failed = rc != 0;
	CHECK_AT(sw, !rc || acceptable_error(rc));
	st->ops->close(st);
	return done;
}

static void
expect_after(const struct sweep *sw, const struct course *c, int done, bool in_doubt)
{
	char *text;

	CHECK_AT(sw, reopened_text(&text, &err) == 0);
	if (!(in_doubt && done < STEPS && strcmp(text, c->after[done + 1]) == 0))
		CHECK_AT(sw, strcmp(text, c->after[done]) == 0);
	free(text);
}

static void
sweep_course(const struct course *c, enum fault_op op, bool forever, bool disk_full, long dense)
{
	struct sweep sw = { .op = op, .forever = forever, .disk_full = disk_full };
	bool hit = true;

	for (sw.nth = 1; hit; sw.nth += sw.nth < dense ? 1 : 1 + sw.nth / 7) {
		bool failed;
		int done;

		course_begin(c);
		arm(&sw);
		done = go(&sw, c, &failed);
		hit = fault_clear();
		CHECK_AT(&sw, hit || (done == STEPS && !failed));
		expect_after(&sw, c, done, failed && sw.op == FAULT_SYNC);
	}
}

static void
sweep_ops(const struct course *c, long dense)
{
	static const enum fault_op ops[] = { FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_SYNC,
		FAULT_TRUNCATE, FAULT_DELETE, FAULT_MALLOC, FAULT_ALLOC };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		for (int forever = 0; forever < 2; forever++)
			sweep_course(c, ops[i], forever, false, dense);
	sweep_course(c, FAULT_WRITE, false, true, dense);
	sweep_course(c, FAULT_WRITE, true, true, dense);
}

START_TEST(every_call_fails_while_folding)
{
	sweep_ops(&folding, 30);
}
END_TEST

START_TEST(every_call_fails_in_an_upgrade)
{
	sweep_ops(&upgrade, 60);
}
END_TEST

static void
lose_power(const struct course *c, long stride)
{
	static const unsigned chances[] = { 0, 50, 100 };
	struct sweep sw = { .op = FAULT_CHANGE, .forever = true };

	for (size_t i = 0; i < ARRAY_SIZE(chances); i++) {
		bool hit = true, failed;

		for (sw.nth = 1; hit; sw.nth += sw.nth < 30 ? 1 : stride) {
			int done;

			course_begin(c);
			power_track();
			arm(&sw);
			done = go(&sw, c, &failed);
			hit = fault_clear();
			power_loss((uint64_t)sw.nth, chances[i]);
			expect_after(&sw, c, done, failed);
		}
	}
}

START_TEST(the_power_fails_while_folding)
{
	lose_power(&folding, 13);
}
END_TEST

START_TEST(the_power_fails_in_an_upgrade)
{
	lose_power(&upgrade, 7);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_moves");
	TCase *tc = unit_case(s, "moves");

	fault_install();
	tcase_add_checked_fixture(tc, learn, forget);
	tcase_add_checked_fixture(tc, dir_make_quick, dir_remove);
	tcase_add_test(tc, every_call_fails_while_folding);
	tcase_add_test(tc, every_call_fails_in_an_upgrade);
	tcase_add_test(tc, the_power_fails_while_folding);
	tcase_add_test(tc, the_power_fails_in_an_upgrade);
	return unit_run(s);
}
