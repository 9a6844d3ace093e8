/* store: what must be refused is refused with its own code, and stays as it was. */
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "store/sqlite_row.h"
#include "unit/random.h"
#include "unit/store_case.h"

#define NOBODY 65534

static struct store_error err;

static const char *
db_path(void)
{
	return in_dir("wqd.db");
}

/* Something else than wqd works on the database. */
static void
tamper(const char *sql, bool leave_log)
{
	sqlite3 *db;
	char *why = NULL;

	ck_assert_int_eq(sqlite3_open(db_path(), &db), SQLITE_OK);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave_log, NULL);
	ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK, "%s", why);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

/* Refused with `code`, told about `name` with `detail` in it, and nothing changed. */
static void
expect_refused(int code, const char *name, const char *detail)
{
	uint64_t before = dir_hash();
	char *text;
	int rc = reopened_text(&text, &err);

	ck_assert_msg(rc == code, "%d, not %d: %s: %s", rc, code, err.path, err.detail);
	ck_assert_int_eq(err.code, code);
	ck_assert_str_eq(err.path, *name ? in_dir(name) : case_dir);
	ck_assert_msg(strstr(err.detail, detail) != NULL, "%s", err.detail);
	ck_assert_uint_gt(strlen(err.next), 10);
	ck_assert_uint_eq(dir_hash(), before);
}

/* Every kind of row, payloads and outputs of all sizes; closed in order. Returns its text. */
static char *
make_database(int jobs)
{
	static char bytes[9000];
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct rnd rnd = { 5 };
	struct queue_settings s;
	char *text;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)rnd_next(&rnd);
	queue_settings_default(&s);
	sink->queue_put(sink->ctx, STR("a"), &s, true);
	sink->queue_put(sink->ctx, STR("b"), &s, false);
	for (int i = 0; i < jobs; i++) {
		struct str some = { bytes, i % 8 ? (size_t)i % 300 : (size_t)i * 37 % 9000 };
		struct job_saved j =
			job_make(i % 2 ? "a" : "b", (struct str){ (char *)&i, sizeof i }, i);
		struct run_record r = run_make("a", j.key, i, some);
		struct answer_saved a = { .id = j.key,
			.reply = { .queue = STR("b"), .key = j.key },
			.until_wall_ns = i };

		j.parts = &some;
		j.n_parts = 1;
		j.run_parts = (struct str[]){ STR("x"), some };
		j.n_run_parts = 2;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
		sink->run_add(sink->ctx, (uint64_t)i, &r);
		sink->answer_put(sink->ctx, &a);
	}
	group_commit(st);
	sink = group_begin(st);
	for (int i = 0; i < jobs; i += 3) /* makes free pages */
		sink->run_remove(sink->ctx, (uint64_t)i);
	group_commit(st);
	st->ops->close(st);
	ck_assert_int_eq(reopened_text(&text, &err), 0);
	return text;
}

/* ---- STO-05: a newer schema ---- */

START_TEST(sto_05_newer_schema)
{
	free(make_database(10));
	tamper("PRAGMA user_version = 9999", false);
	expect_refused(ERR_NEWER_SCHEMA, "wqd.db", "schema 9999, this wqd knows 4");
	tamper("PRAGMA user_version = 4", false);
	free(make_database(1));
}
END_TEST

START_TEST(sto_05_newer_schema_only_in_the_log)
{
	free(make_database(10));
	tamper("PRAGMA user_version = 9999; DELETE FROM answer", true);
	ck_assert_int_eq(access(in_dir("wqd.db-wal"), F_OK), 0);
	expect_refused(ERR_NEWER_SCHEMA, "wqd.db", "schema 9999, this wqd knows 4");
}
END_TEST

START_TEST(sto_05_a_newer_schema_that_was_never_committed)
{
	char *text = make_database(10), *got;
	struct stat sb;

	tamper("PRAGMA user_version = 9999", true);
	ck_assert_int_eq(stat(in_dir("wqd.db-wal"), &sb), 0);
	ck_assert_int_eq(truncate(in_dir("wqd.db-wal"), sb.st_size - 1), 0);
	ck_assert_int_eq(reopened_text(&got, &err), 0);
	ck_assert_str_eq(got, text);
	free(got);
	free(text);
}
END_TEST

/* A row as a newer wqd would write it, sum and all. */
START_TEST(sto_05_a_setting_of_a_newer_version)
{
	sqlite3 *db;
	sqlite3_stmt *q;
	struct row r;

	free(make_database(1));
	ck_assert_int_eq(sqlite3_open(db_path(), &db), SQLITE_OK);
	ck_assert_int_eq(
		sqlite3_prepare_v2(db, "INSERT INTO setting VALUES (?, ?, ?, ?)", -1, &q, NULL),
		SQLITE_OK);
	r = row_begin(q, ROW_SETTING);
	row_int(&r, 1);
	row_text(&r, STR("max_dreams"));
	row_text(&r, STR("3"));
	ck_assert_int_eq(row_end(&r), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(q), SQLITE_DONE);
	ck_assert_int_eq(sqlite3_finalize(q), SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	expect_refused(ERR_NEWER_SCHEMA, "wqd.db", "'max_dreams'");
}
END_TEST

/* ---- STO-07: damage ---- */

static void
expect_refused_or_same(const char *text, const char *what, size_t at)
{
	uint64_t before = dir_hash();
	char *got;
	int rc = reopened_text(&got, &err);

	if (rc == 0) {
		ck_assert_msg(strcmp(got, text) == 0, "%s at %zu was served", what, at);
		free(got);
		return;
	}
	ck_assert_msg(rc == ERR_DAMAGED || (rc == ERR_NOT_OURS && at < 100) ||
			(rc == ERR_NEWER_SCHEMA && at < 100),
		"%s at %zu: %d %s", what, at, rc, err.detail);
	ck_assert_str_eq(err.path, db_path());
	unit_check(dir_hash() == before);
}

START_TEST(sto_07_an_overwritten_page)
{
	char *text = make_database(150), *whole;
	struct rnd rnd = { 7 };
	size_t n, refused = 0;

	whole = file_read(db_path(), &n);
	for (size_t at = 0; at < n; at += 4096) {
		for (int how = 0; how < 5; how++) {
			char *bad = malloc(n);
			uint64_t r = 0;

			memcpy(bad, whole, n);
			for (size_t i = 0; i < 4096; i++) {
				r = i % 8 ? r >> 8 : rnd_next(&rnd);
				bad[at + i] = how == 0 ? 0
					: how == 1     ? (char)0xff
					: how == 2     ? 'A'
						       : (char)r;
			}
			if (how == 4) /* what belongs to another page */
				memcpy(bad + at, whole + rnd_below(&rnd, n / 4096) * 4096, 4096);
			file_write(db_path(), bad, n);
			free(bad);
			expect_refused_or_same(text, "page", at);
			refused += err.code != 0;
			err.code = 0;
		}
	}
	ck_assert_uint_gt(refused, n / 4096 * 4);
	file_write(db_path(), whole, n);
	expect_refused_or_same(text, "nothing", 0);
	free(whole);
	free(text);
}
END_TEST

static void
file_poke(const char *path, size_t at, char c)
{
	int f = open(path, O_WRONLY | O_CLOEXEC);

	unit_check(f >= 0 && pwrite(f, &c, 1, (off_t)at) == 1 && close(f) == 0);
}

/* Small damage, which leaves the structure of a page in order. */
START_TEST(sto_07_a_flipped_bit)
{
	char *text = make_database(60), *whole;
	struct rnd rnd = { 8 };
	size_t n;

	whole = file_read(db_path(), &n);
	for (size_t i = 0; i < 800 + 500; i++) {
		/* All of the header, and some of the rest. */
		size_t at = i < 800 ? i / 8 : rnd_below(&rnd, n);
		char was = whole[at];

		file_poke(db_path(), at, (char)(was ^ 1 << i % 8));
		expect_refused_or_same(text, "bit", at);
		file_poke(db_path(), at, was);
	}
	free(whole);
	free(text);
}
END_TEST

START_TEST(sto_07_a_cut_file)
{
	char *whole;
	size_t n;

	free(make_database(150));
	whole = file_read(db_path(), &n);
	for (size_t size = 0; size < n; size += size < 200 ? 33 : n / 23) {
		file_write(db_path(), whole, size);
		expect_refused(ERR_DAMAGED, "wqd.db", "");
	}
	free(whole);
}
END_TEST

START_TEST(sto_07_a_text_file)
{
	free(make_database(1));
	for (size_t n = 0; n < 20000; n = n * 3 + 1) {
		char *lines = malloc(n + 1);

		memset(lines, 'x', n);
		file_write(db_path(), lines, n);
		free(lines);
		expect_refused(
			ERR_DAMAGED, "wqd.db", n < 100 ? "cut off" : "not an SQLite database");
	}
}
END_TEST

/* Written by another hand, it would be served with the wrong values. */
START_TEST(sto_07_a_changed_row)
{
	static const char *const changes[] = {
		"UPDATE job SET key = CAST(key || 'x' AS BLOB)",
		"UPDATE job SET queue = queue + 1",
		"UPDATE job SET payload = (SELECT max(payload) FROM job)",
		"UPDATE job SET payload = CAST(payload || 'x' AS BLOB)",
		"UPDATE job SET payload = NULL WHERE id = (SELECT max(id) FROM job)",
		"UPDATE job SET run_payload = x'0100'",
		"DELETE FROM job WHERE id = (SELECT max(id) FROM job)",
		"UPDATE run SET exit_code = 0",
		"UPDATE run SET queue = 77",
		"UPDATE answer SET status = 1",
		"UPDATE queue SET paused = 1 - paused",
		"UPDATE setting SET value = '9' WHERE name = 'max_active'",
		"UPDATE meta SET token = token + 1",
		"DELETE FROM meta",
		"DROP TABLE run",
		"ALTER TABLE job DROP COLUMN run_payload",
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		free(make_database(20));
		tamper(changes[i], false);
		expect_refused(ERR_DAMAGED, "wqd.db", "");
		ck_assert_int_eq(unlink(db_path()), 0);
	}
}
END_TEST

START_TEST(sto_07_a_database_gone_or_emptied_beside_its_log)
{
	char *log;
	size_t n;

	free(make_database(10));
	tamper("UPDATE meta SET wall_ns = 1", true);
	log = file_read(in_dir("wqd.db-wal"), &n);
	ck_assert_uint_gt(n, 4096);
	ck_assert_int_eq(truncate(db_path(), 0), 0);
	expect_refused(ERR_DAMAGED, "wqd.db", "cut off after 0 bytes");
	ck_assert_int_eq(unlink(db_path()), 0);
	expect_refused(ERR_DAMAGED, "wqd.db", "its log of");
	ck_assert_int_eq(unlink(in_dir("wqd.db-wal")), 0);
	free(make_database(1)); /* all gone: a new one */
	free(log);
}
END_TEST

/* Leaves a log of `n` commits, as a killed daemon does. */
static void
leave_log(int n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store *st = store_open_ok();

		for (int i = 0; i < n; i++) {
			const struct persist_sink *sink = group_begin(st);
			struct job_saved j =
				job_make("log", (struct str){ (char *)&i, sizeof i }, 2 * i);

			sink->job_put(sink->ctx, &j);
			group_commit(st);
		}
		(void)raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
}

START_TEST(sto_07_a_log_broken_in_the_middle)
{
	char *log;
	size_t n;

	free(make_database(10));
	leave_log(12);
	log = file_read(in_dir("wqd.db-wal"), &n);
	log[32 + 24 + 100] ^= 1;
	file_write(in_dir("wqd.db-wal"), log, n);
	expect_refused(ERR_DAMAGED, "wqd.db-wal", "broken in the middle");
	free(log);
}
END_TEST

/* What a loss of power does to the end of a log is no damage: nothing there was promised. */
START_TEST(a_torn_end_of_the_log_is_left_out)
{
	struct store *st = store_open_ok();
	char *log, *text;
	size_t n, jobs_before = SIZE_MAX;

	st->ops->close(st);
	leave_log(6);
	log = file_read(in_dir("wqd.db-wal"), &n);
	for (size_t cut = n; cut > 0; cut -= cut < 1500 ? cut : 1500) {
		char *p;
		size_t jobs = 0;

		if (access(in_dir("wqd.db"), F_OK) == 0)
			ck_assert_int_eq(unlink(in_dir("wqd.db")), 0);
		(void)unlink(in_dir("wqd.db-wal"));
		st = store_open_ok();
		st->ops->close(st);
		leave_log(6);
		ck_assert_int_eq(truncate(in_dir("wqd.db-wal"), (off_t)cut), 0);
		ck_assert_int_eq(reopened_text(&text, &err), 0);
		for (p = text; (p = strstr(p, "job queue=3:log")) != NULL; p++)
			jobs++;
		ck_assert_uint_le(jobs, jobs_before);
		jobs_before = jobs;
		free(text);
	}
	free(log);
}
END_TEST

/* ---- not to be opened ---- */

START_TEST(another_programs_database)
{
	sqlite3 *db;

	ck_assert_int_eq(sqlite3_open(db_path(), &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
	file_write(in_dir("lock"), "", 0);
	expect_refused(ERR_NOT_OURS, "wqd.db", "another program");
}
END_TEST

START_TEST(something_else_under_the_name)
{
	file_write(in_dir("lock"), "", 0);
	file_write(in_dir("real"), "", 0);
	ck_assert_int_eq(symlink("real", db_path()), 0);
	expect_refused(ERR_NOT_OURS, "wqd.db", "not a regular file");
	ck_assert_int_eq(unlink(db_path()), 0);
	ck_assert_int_eq(mkfifo(db_path(), 0600), 0);
	ck_assert_int_eq(
		store_sqlite_open(case_dir, &(struct store *){ NULL }, &err), ERR_NOT_OURS);
}
END_TEST

START_TEST(a_link_to_the_directory_is_followed)
{
	char name[600];
	struct store *st;

	(void)snprintf(name, sizeof name, "%s-link", case_dir);
	ck_assert_int_eq(symlink(case_dir, name), 0);
	for (int round = 0; round < 2; round++) { /* made, then found */
		ck_assert_int_eq(store_sqlite_open(name, &st, &err), 0);
		st->ops->close(st);
	}
	ck_assert_int_eq(unlink(name), 0);
	ck_assert_int_eq(access(db_path(), R_OK), 0);
}
END_TEST

START_TEST(no_such_directory)
{
	char name[600];
	struct store *st;

	ck_assert_int_eq(store_sqlite_open(in_dir("none"), &st, &err), -ENOENT);
	file_write(in_dir("file"), "x", 1);
	ck_assert_int_eq(store_sqlite_open(in_dir("file"), &st, &err), -ENOTDIR);
	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	ck_assert_int_eq(store_sqlite_open(name, &st, &err), -ENAMETOOLONG);
}
END_TEST

START_TEST(another_program_has_it_open)
{
	int ready[2], go[2];
	char c = 0;
	pid_t pid;
	int status;

	free(make_database(1));
	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		sqlite3 *db;
		bool ok = sqlite3_open(db_path(), &db) == SQLITE_OK &&
			sqlite3_exec(db, "BEGIN; SELECT * FROM job", NULL, NULL, NULL) ==
				SQLITE_OK &&
			write(ready[1], &c, 1) == 1 && read(go[0], &c, 1) == 1;

		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	ck_assert_int_eq(store_sqlite_open(case_dir, &(struct store *){ NULL }, &err), ERR_LOCKED);
	ck_assert_str_eq(err.path, db_path());
	ck_assert_ptr_nonnull(strstr(err.detail, "another program"));
	ck_assert_int_eq(write(go[1], &c, 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
	free(make_database(1));
}
END_TEST

/* ---- STO-07: not readable, not writable ---- */

/* Permissions bind everybody but root. */
static void
become_nobody(void)
{
	static const char *const names[] = { "", "lock", "wqd.db" };

	if (geteuid() != 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_int_eq(chown(*names[i] ? in_dir(names[i]) : case_dir, NOBODY, NOBODY), 0);
	ck_assert_int_eq(setegid(NOBODY), 0);
	ck_assert_int_eq(seteuid(NOBODY), 0);
}

static void
become_root(void)
{
	if (getuid() != 0)
		return;
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(setegid(0), 0);
}

static void
expect_no_access(const char *name, mode_t mode, int code, const char *told, const char *detail)
{
	const char *path = *name ? in_dir(name) : case_dir;
	struct stat sb;
	int rc;

	ck_assert_int_eq(stat(path, &sb), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	rc = store_sqlite_open(case_dir, &(struct store *){ NULL }, &err);
	ck_assert_int_eq(chmod(path, sb.st_mode & 07777), 0);
	ck_assert_int_eq(rc, code);
	ck_assert_int_eq(err.code, code);
	ck_assert_str_eq(err.path, *told ? in_dir(told) : case_dir);
	ck_assert_msg(strstr(err.detail, detail) != NULL, "%s", err.detail);
	ck_assert_ptr_nonnull(strstr(err.next, "access"));
}

START_TEST(sto_07_unreadable_modes)
{
	uint64_t before;

	free(make_database(3));
	become_nobody();
	before = dir_hash();
	expect_no_access("wqd.db", 0000, -EACCES, "wqd.db", "Permission denied");
	expect_no_access("wqd.db", 0400, -EACCES, "wqd.db", "Permission denied");
	expect_no_access("lock", 0400, -EACCES, "lock", "Permission denied");
	expect_no_access("", 0500, -EACCES, "", "not writable");
	ck_assert_uint_eq(dir_hash(), before);
	ck_assert_int_eq(unlink(in_dir("lock")), 0);
	expect_no_access("", 0500, -EACCES, "lock", "Permission denied");
	become_root();
	free(make_database(3));
}
END_TEST

/* In a mount namespace of its own, of which this process is the only one. */
static bool
mount_read_only(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount(case_dir, case_dir, NULL, MS_BIND, NULL) == 0 &&
		mount(NULL, case_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

START_TEST(sto_07_a_read_only_mount)
{
	uint64_t before;
	pid_t pid;
	int status;

	free(make_database(3));
	before = dir_hash();
	pid = fork();
	if (pid == 0) {
		if (!mount_read_only())
			_exit(77);
		_exit(store_sqlite_open(case_dir, &(struct store *){ NULL }, &err) == -EROFS &&
					err.code == -EROFS &&
					strstr(err.next, "mount it for writing")
				? 0
				: 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77)
		fprintf(stderr, "read-only mount: not allowed to mount here, skipped\n");
	else
		ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(dir_hash(), before);
}
END_TEST

/* ---- not refused ---- */

START_TEST(a_start_that_was_cut_off_is_begun_again)
{
	file_write(in_dir("wqd.db.new"), "half", 4);
	file_write(in_dir("wqd.db.new-wal"), "made", 4);
	free(make_database(1));
	ck_assert_int_ne(access(in_dir("wqd.db.new"), F_OK), 0);
	ck_assert_int_ne(access(in_dir("wqd.db.new-wal"), F_OK), 0);
}
END_TEST

/* VACUUM INTO makes a database that is not in WAL mode. */
START_TEST(a_copy_by_another_program_serves)
{
	char *text = make_database(30), *got, sql[500];
	struct store *st;

	(void)snprintf(sql, sizeof sql, "VACUUM INTO '%s'", in_dir("copy"));
	tamper(sql, false);
	ck_assert_int_eq(rename(in_dir("copy"), db_path()), 0);
	ck_assert_int_eq(reopened_text(&got, &err), 0);
	ck_assert_str_eq(got, text);
	free(got);
	free(text);
	st = store_open_ok();
	(void)group_begin(st);
	group_commit(st);
	ck_assert_int_eq(access(in_dir("wqd.db-wal"), F_OK), 0);
	st->ops->close(st);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_refusals");
	TCase *tc = unit_case(s, "refusals");

	tcase_add_checked_fixture(tc, dir_make, dir_remove);
	tcase_add_test(tc, sto_05_newer_schema);
	tcase_add_test(tc, sto_05_newer_schema_only_in_the_log);
	tcase_add_test(tc, sto_05_a_newer_schema_that_was_never_committed);
	tcase_add_test(tc, sto_05_a_setting_of_a_newer_version);
	tcase_add_test(tc, sto_07_an_overwritten_page);
	tcase_add_test(tc, sto_07_a_flipped_bit);
	tcase_add_test(tc, sto_07_a_cut_file);
	tcase_add_test(tc, sto_07_a_text_file);
	tcase_add_test(tc, sto_07_a_changed_row);
	tcase_add_test(tc, sto_07_a_database_gone_or_emptied_beside_its_log);
	tcase_add_test(tc, sto_07_a_log_broken_in_the_middle);
	tcase_add_test(tc, a_torn_end_of_the_log_is_left_out);
	tcase_add_test(tc, another_programs_database);
	tcase_add_test(tc, something_else_under_the_name);
	tcase_add_test(tc, a_link_to_the_directory_is_followed);
	tcase_add_test(tc, no_such_directory);
	tcase_add_test(tc, another_program_has_it_open);
	tcase_add_test(tc, sto_07_unreadable_modes);
	tcase_add_test(tc, sto_07_a_read_only_mount);
	tcase_add_test(tc, a_start_that_was_cut_off_is_begun_again);
	tcase_add_test(tc, a_copy_by_another_program_serves);
	return unit_run(s);
}
