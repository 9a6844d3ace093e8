/* store: the log kept short, figures, copies, modes of files. */
#include "unit/store_case.h"

static struct store_error err;

/* One group of so many MiB. */
static void
put_much(struct store *st, int mib)
{
	const struct persist_sink *sink = group_begin(st);
	char *big = calloc(1, PAYLOAD_MAX);
	struct str part = { big, PAYLOAD_MAX };

	for (int i = 0; i < mib; i++)
		sink->job_put(sink->ctx,
			&(struct job_saved){ .queue = STR("q"),
				.key = { (char *)&i, sizeof i },
				.parts = &part,
				.n_parts = 1,
				.payload_changed = true });
	group_commit(st);
	free(big);
}

START_TEST(the_log_stays_bounded)
{
	struct store *st = store_open_ok();
	struct store_stats s = { 0 };
	struct moment later = NOW;

	for (int i = 0; i < 60; i++) {
		put_some(st, 3000, i);
		ck_assert_int_eq(st->ops->checkpoint(st), 0);
		st->ops->stats(st, &s);
		ck_assert_uint_lt(s.wal_bytes, 16 << 20);
	}
	put_much(st, 40);
	st->ops->stats(st, &s);
	ck_assert_uint_gt(s.wal_bytes, 32 << 20);
	/* It is written over for ten seconds at most before it is cut. */
	later.boot_ns += 10 * NS_PER_S;
	group_begin(st);
	ck_assert_int_eq(st->ops->commit(st, later, true), 0);
	ck_assert_int_eq(st->ops->checkpoint(st), 0);
	st->ops->stats(st, &s);
	ck_assert_uint_eq(s.wal_bytes, 0);
	st->ops->close(st);
}
END_TEST

/* Whatever was there once: the file follows what is there now. */
START_TEST(the_file_shrinks)
{
	struct store *st = store_open_ok();
	struct store_stats most, s;

	put_much(st, 60);
	ck_assert_int_eq(st->ops->checkpoint(st), 0);
	st->ops->stats(st, &most);
	ck_assert_uint_gt(most.file_bytes, 60 << 20);
	for (int i = 0; i < 60; i++) {
		const struct persist_sink *sink = group_begin(st);

		sink->job_remove(sink->ctx, STR("q"), (struct str){ (char *)&i, sizeof i }, 0);
		group_commit(st);
		ck_assert_int_eq(st->ops->checkpoint(st), 0);
	}
	for (int i = 0; i < 200; i++) {
		put_some(st, 2000, i);
		ck_assert_int_eq(st->ops->checkpoint(st), 0);
	}
	st->ops->stats(st, &s);
	ck_assert_uint_lt(s.file_bytes, 32 << 20); /* the log of moves included */
	st->ops->close(st);
	st = store_open_ok();
	st->ops->close(st);
}
END_TEST

START_TEST(figures_are_true)
{
	struct store *st = store_open_ok();
	struct store_stats a, b;
	struct stat sb;

	st->ops->stats(st, &a);
	ck_assert_uint_eq(a.commits, 0);
	put_some(st, 10, 0);
	st->ops->stats(st, &b);
	ck_assert_uint_eq(b.commits, 1);
	ck_assert_uint_eq(b.failed_commits, 0);
	ck_assert_uint_eq(b.puts, 10);
	ck_assert_int_eq(stat(in_dir("wqd.db"), &sb), 0);
	ck_assert_uint_eq(b.file_bytes, (uint64_t)sb.st_size);
	ck_assert_int_eq(stat(in_dir("wqd.db-wal"), &sb), 0);
	ck_assert_uint_eq(b.wal_bytes, (uint64_t)sb.st_size);
	ck_assert_uint_eq(b.bytes_written + 32, b.wal_bytes);
	st->ops->close(st);
}
END_TEST

START_TEST(a_backup_is_a_whole_database_of_its_own)
{
	struct store *st = store_open_ok();
	char *text, *copy;
	struct stat sb;
	mode_t mask;

	put_some(st, 2000, 1);
	ck_assert_int_eq(recover_text(st, &text, &err), 0);
	mask = umask(0777);
	ck_assert_int_eq(store_backup(st, in_dir("copy")), 0);
	(void)umask(mask);
	ck_assert_int_eq(store_backup(st, in_dir("copy")), -EEXIST);
	ck_assert_int_eq(store_backup(st, in_dir("wqd.db")), -EEXIST);
	ck_assert_int_eq(store_backup(st, in_dir("none/copy")), -ENOENT);
	ck_assert_int_eq(stat(in_dir("copy"), &sb), 0);
	ck_assert_uint_eq(sb.st_mode & 07777, 0600);
	ck_assert_int_ne(access(in_dir("copy-wal"), F_OK), 0);
	ck_assert_int_ne(access(in_dir("copy-journal"), F_OK), 0);
	put_some(st, 3000, 2); /* the daemon goes on */
	st->ops->close(st);
	ck_assert_int_eq(rename(in_dir("copy"), in_dir("wqd.db")), 0);
	ck_assert_int_eq(reopened_text(&copy, &err), 0);
	ck_assert_str_eq(copy, text);
	free(copy);
	free(text);
}
END_TEST

START_TEST(files_are_private_whatever_the_umask)
{
	static const mode_t masks[] = { 0, 0022, 0777 };

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		static const char *const names[] = { "lock", "wqd.db", "wqd.db-wal" };
		mode_t mask = umask(masks[i]);
		struct store *st = store_open_ok();

		(void)group_begin(st);
		group_commit(st);
		(void)umask(mask);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			struct stat sb;

			ck_assert_int_eq(stat(in_dir(names[k]), &sb), 0);
			ck_assert_uint_eq(sb.st_mode & 07777, 0600);
		}
		st->ops->close(st);
		ck_assert_int_ne(access(in_dir("wqd.db-wal"), F_OK), 0);
		ck_assert_int_ne(access(in_dir("wqd.db-shm"), F_OK), 0);
		ck_assert_int_eq(unlink(in_dir("lock")), 0);
		ck_assert_int_eq(unlink(in_dir("wqd.db")), 0);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_care");
	TCase *tc = unit_case(s, "care");

	tcase_add_checked_fixture(tc, dir_make, dir_remove);
	tcase_add_test(tc, the_log_stays_bounded);
	tcase_add_test(tc, the_file_shrinks);
	tcase_add_test(tc, figures_are_true);
	tcase_add_test(tc, a_backup_is_a_whole_database_of_its_own);
	tcase_add_test(tc, files_are_private_whatever_the_umask);
	return unit_run(s);
}
