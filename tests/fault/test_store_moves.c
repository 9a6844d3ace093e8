/*
 * store: faults and losses of power while the log of moves is folded, by groups and
 * by itself, while it is read back, and while a database of an older schema becomes one
 * of the newest. After each: every group that was told committed is there, and no
 * other in part.
 */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>

#include "fault/store_work.h"
#include "unit/random.h"

#define STEPS 24
#define JOBS  30
/* From so many bytes on the log of moves is folded. */
#define LOG_CAP (2 << 20)

/* Moves in a group that make it large enough to fold a good piece, and in one that fills the log. */
#define SOME_MOVES 5000
#define MANY_MOVES 30000

/* A database to begin with, and the state after so many groups more. */
struct course {
	char *file;
	size_t n;
	int filler; /* moves in each group besides */
	bool tidy;  /* after each group nothing is asked for, for a while */
	char *after[STEPS + 1];
};

static struct course folding = { .filler = SOME_MOVES }, idle = { .tidy = true }, upgrade;

static struct job_saved
job_at(const int *k, int v)
{
	struct job_saved j = job_of(k, v);

	j.queue = STR("s");
	j.id = 1000 + (uint32_t)*k; /* as no engine gives to what is in the files */
	return j;
}

/* Jobs that are there move, again and again. */
static void
put_moves(const struct persist_sink *sink, int n, int v)
{
	for (int i = 0; i < n; i++) {
		int k = i % 3;
		struct job_saved j = job_at(&k, v + i * 13);

		j.moved = true;
		sink->job_put(sink->ctx, &j);
	}
}

/* A group: a job moves, one changes its payload, one goes; three always stay. */
static int
step(struct store *st, int v, int filler)
{
	const struct persist_sink *sink;
	int k[3] = { 3 + v % JOBS, 3 + v * 7 % JOBS, 3 + v * 11 % JOBS };
	int rc = st->ops->begin(st);
	struct job_saved j;

	if (rc)
		return rc;
	sink = case_sink(st);
	put_moves(sink, filler, v);
	j = job_at(&k[0], v);
	sink->job_put(sink->ctx, &j);
	if (v % 5 == 0) {
		j = job_at(&k[1], v);
		j.parts = &(struct str){ (const char *)&v, sizeof v };
		j.n_parts = 1;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
	}
	if (v % 7 == 0) {
		j = job_at(&k[2], v);
		sink->job_remove(sink->ctx, j.queue, j.key, j.id);
	}
	return st->ops->commit(st, NOW, true);
}

/* ---- to begin with ---- */

static void
course_begin(const struct course *c)
{
	start_over();
	file_write(in_dir("wqd.db"), c->file, c->n);
}

/* The next group, and what comes when nothing does. */
static int
go_on(struct store *st, const struct course *c, int v)
{
	int rc = step(st, v, c->filler);

	for (int i = 0; !rc && c->tidy && i < 3; i++)
		(void)st->ops->tidy(st);
	return rc;
}

static void
course_learn(struct course *c)
{
	struct store *st;

	c->file = file_read(in_dir("wqd.db"), &c->n);
	st = store_open_ok();
	for (int i = 0; i <= STEPS; i++) {
		if (i > 0)
			ck_assert_int_eq(go_on(st, c, i), 0);
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
number_of(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	int64_t n;

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

/* Some jobs, and a log of at least so many bytes. */
static void
make_log(int64_t bytes)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);

	for (int k = 0; k < JOBS; k++) {
		struct job_saved j = job_at(&k, k);

		sink->job_put(sink->ctx, &j);
	}
	group_commit(st);
	st->ops->close(st);
	for (int v = 1; number_of("SELECT sum(length(moves)) FROM moved") < bytes; v++) {
		st = store_open_ok();
		ck_assert_int_eq(step(st, v, MANY_MOVES), 0);
		st->ops->close(st);
	}
}

static void
learn(void)
{
	dir_make_quick();
	make_log(LOG_CAP - (200 << 10));
	course_learn(&folding);
	/* All of it was folded meanwhile. */
	ck_assert_int_lt(number_of("SELECT sum(length(moves)) FROM moved"), LOG_CAP * 2 / 3);
	ck_assert_int_gt(number_of("SELECT min(id) FROM moved"), 5);
	start_over();
	make_log(140 << 10);
	course_learn(&idle);
	ck_assert_int_gt(number_of("SELECT count(*) FROM position"), 0);
	start_over();
	free(old_database(2));
	course_learn(&upgrade);
	dir_remove();
}

static void
forget(void)
{
	course_forget(&folding);
	course_forget(&idle);
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
		rc = go_on(st, c, done + 1);
		if (rc && !sw->forever)
			rc = go_on(st, c, done + 1);
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

	for (sw.nth = 1; hit; sw.nth += sw.nth < dense ? 1 : 1 + sw.nth / 3) {
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
	sweep_ops(&folding, 5);
}
END_TEST

START_TEST(every_call_fails_while_folding_by_itself)
{
	sweep_ops(&idle, 10);
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

		for (sw.nth = 1; hit; sw.nth += sw.nth < 12 ? 1 : stride) {
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
	lose_power(&folding, 61);
}
END_TEST

START_TEST(the_power_fails_while_folding_by_itself)
{
	lose_power(&idle, 29);
}
END_TEST

START_TEST(the_power_fails_in_an_upgrade)
{
	lose_power(&upgrade, 7);
}
END_TEST

/* ---- kill -9 ---- */

/* Says when the database is ours ('u'), and after each group ('g'). */
static _Noreturn void
work_aloud(const struct course *c, int fd)
{
	struct store *st = store_open_ok();
	uint64_t token;

	if (st->ops->claim(st, "me", &token) != 0 || write(fd, "u", 1) != 1)
		_exit(1);
	for (int i = 1; i <= STEPS; i++)
		if (go_on(st, c, i) != 0 || write(fd, "g", 1) != 1)
			_exit(1);
	_exit(0);
}

static int64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Kills it after so long, unless that is 0. How many groups it told of, and when it was at
 * `until`, if it came so far. */
static int
work_killed(const struct course *c, int64_t after_ns, char until, int64_t *took_ns)
{
	const struct timespec wait = { after_ns / NS_PER_S, after_ns % NS_PER_S };
	int fds[2], status, done = 0;
	int64_t start;
	pid_t pid;
	char word;

	course_begin(c);
	ck_assert_int_eq(pipe(fds), 0);
	start = now_ns();
	pid = fork();
	if (pid == 0)
		work_aloud(c, fds[1]);
	close(fds[1]);
	if (after_ns > 0) {
		(void)nanosleep(&wait, NULL);
		(void)kill(pid, SIGKILL);
	}
	while (read(fds[0], &word, 1) == 1) {
		done += word == 'g';
		if (word == until)
			*took_ns = now_ns() - start;
	}
	close(fds[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return done;
}

/* At moments spread over the time until `until`. */
static void
kill_somewhere(const struct course *c, int times, char until, uint64_t seed)
{
	const struct sweep sw = { .op = FAULT_OPS };
	struct rnd random = { seed };
	int64_t span_ns = 0, ignored;

	ck_assert_int_eq(work_killed(c, 0, until, &span_ns), STEPS);
	expect_after(&sw, c, STEPS, false);
	for (int i = 0; i < times; i++) {
		int64_t after_ns = 1 + (int64_t)rnd_below(&random, (uint64_t)span_ns);
		int done = work_killed(c, after_ns, until, &ignored);

		expect_after(&sw, c, done, true);
	}
}

START_TEST(killed_at_ten_moments_of_an_upgrade)
{
	kill_somewhere(&upgrade, 10, 'u', (uint64_t)getpid());
}
END_TEST

START_TEST(killed_at_ten_moments_while_folding)
{
	kill_somewhere(&folding, 10, 'g', (uint64_t)getpid());
	kill_somewhere(&idle, 10, 'g', (uint64_t)getpid());
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_moves");
	TCase *tc = unit_case(s, "moves"), *kills = unit_case(s, "kills");

	fault_install();
	tcase_add_checked_fixture(tc, learn, forget);
	tcase_add_checked_fixture(tc, dir_make_quick, dir_remove);
	tcase_add_test(tc, every_call_fails_while_folding);
	tcase_add_test(tc, every_call_fails_while_folding_by_itself);
	tcase_add_test(tc, every_call_fails_in_an_upgrade);
	tcase_add_test(tc, the_power_fails_while_folding);
	tcase_add_test(tc, the_power_fails_while_folding_by_itself);
	tcase_add_test(tc, the_power_fails_in_an_upgrade);
	tcase_add_checked_fixture(kills, learn, forget);
	tcase_add_checked_fixture(kills, dir_make_quick, dir_remove);
	tcase_set_timeout(kills, 300);
	tcase_add_test(kills, killed_at_ten_moments_of_an_upgrade);
	tcase_add_test(kills, killed_at_ten_moments_while_folding);
	return unit_run(s);
}
