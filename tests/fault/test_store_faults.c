/*
 * store, writer: every call of the disk and of memory failing in turn. After each:
 * all of every group that was told committed, nothing of one that was not, and no
 * group in part. A group is retried as the writer does it.
 */
#include <poll.h>

#include "fault/store_work.h"
#include "store/writer.h"
#include "unit/random.h"

/* `step` over 1 leaves some out, never the first ones. */
static void
run_sweep(struct sweep sw, bool from_nothing, long step)
{
	bool hit = true;

	for (sw.nth = 1; hit; sw.nth += sw.nth < 20 ? 1 : step) {
		bool failed;
		int had = from_nothing ? 0 : 2, done;

		if (from_nothing)
			start_over();
		else
			make_two();
		arm(&sw);
		done = work(&sw, had, &failed);
		hit = fault_clear();
		CHECK_AT(&sw, hit || (done == GROUPS && !failed));
		expect_stored(&sw, done, failed && sw.op == FAULT_SYNC && done < GROUPS);
	}
	ck_assert_int_gt(sw.nth, 2);
}

static void
sweep_both(enum fault_op op, bool disk_full, long step)
{
	for (int forever = 0; forever < 2; forever++)
		for (int from_nothing = 0; from_nothing < 2; from_nothing++)
			run_sweep(
				(struct sweep){
					.op = op, .forever = forever, .disk_full = disk_full },
				from_nothing, step);
}

START_TEST(failing_opens)
{
	sweep_both(FAULT_OPEN, false, 1);
}
END_TEST

START_TEST(failing_reads)
{
	sweep_both(FAULT_READ, false, 1);
}
END_TEST

START_TEST(failing_writes)
{
	sweep_both(FAULT_WRITE, false, 5);
}
END_TEST

START_TEST(a_full_disk)
{
	sweep_both(FAULT_WRITE, true, 7);
}
END_TEST

START_TEST(failing_syncs)
{
	sweep_both(FAULT_SYNC, false, 1);
}
END_TEST

START_TEST(failing_truncates)
{
	sweep_both(FAULT_TRUNCATE, false, 1);
}
END_TEST

START_TEST(failing_deletes)
{
	sweep_both(FAULT_DELETE, false, 1);
}
END_TEST

START_TEST(no_memory_inside_sqlite)
{
	sweep_both(FAULT_MALLOC, false, 47);
}
END_TEST

START_TEST(no_memory_outside_sqlite)
{
	sweep_both(FAULT_ALLOC, false, 1);
}
END_TEST

/* ---- the log brought back, and begun anew ---- */

static void
checkpoint_once(const struct sweep *sw, bool *hit)
{
	struct store *st;
	int done = 2, rc = 0;

	make_two();
	st = store_open_ok();
	grow_log(st);
	arm(sw);
	rc = st->ops->checkpoint(st);
	CHECK_AT(sw, !rc || acceptable_error(rc));
	for (rc = 0; !rc && done < GROUPS; done += !rc) {
		rc = try_group(st, done);
		if (rc && !sw->forever) {
			expect_state(sw, st, done);
			rc = try_group(st, done);
		}
		CHECK_AT(sw, !rc || (sw->forever && acceptable_error(rc)));
		if (!rc)
			(void)st->ops->checkpoint(st);
	}
	st->ops->close(st);
	*hit = fault_clear();
	expect_stored(sw, done, rc && sw->op == FAULT_SYNC);
}

/* Two faults of different kinds in one run: the second may meet what the first left half done. */
struct pair {
	enum fault_op a, b;
};

/* Each group until it goes in, a few times as the writer would. */
static int
work_twice_hit(const struct sweep *sw, int had, bool *in_doubt)
{
	struct store *st;
	int rc = store_sqlite_open(case_dir, &st, &err), done = had;
	uint64_t token;

	*in_doubt = false;
	CHECK_AT(sw, !rc || acceptable_error(rc));
	if (rc)
		return done;
	for (int i = 0; i < 3 && (rc = st->ops->claim(st, "me", &token)); i++)
		CHECK_AT(sw, acceptable_error(rc));
	for (; !rc && done < GROUPS; done++) {
		for (int i = 0; i < 4 && (rc = try_group(st, done)); i++)
			CHECK_AT(sw, acceptable_error(rc));
		*in_doubt = rc != 0;
		if (rc)
			break;
		(void)st->ops->checkpoint(st);
		(void)st->ops->tidy(st);
	}
	st->ops->close(st);
	return done;
}

START_TEST(two_faults_of_different_kinds)
{
	static const struct pair pairs[] = { { FAULT_WRITE, FAULT_SYNC },
		{ FAULT_SYNC, FAULT_TRUNCATE }, { FAULT_WRITE, FAULT_MALLOC },
		{ FAULT_SYNC, FAULT_READ }, { FAULT_WRITE, FAULT_DELETE },
		{ FAULT_TRUNCATE, FAULT_WRITE }, { FAULT_ALLOC, FAULT_WRITE },
		{ FAULT_ALLOC, FAULT_SYNC }, { FAULT_OPEN, FAULT_WRITE },
		{ FAULT_MALLOC, FAULT_SYNC } };
	const struct pair *p = &pairs[_i / 4];
	struct rnd random = { (uint64_t)_i };
	int hits = 0;

	for (int round = 0; round < 10; round++) {
		struct sweep sw = { .op = p->a, .forever = _i & 1 };
		bool from_nothing = _i & 2, in_doubt;
		int done;

		if (from_nothing)
			start_over();
		else
			make_two();
		sw.nth = 1 + (long)(rnd_below(&random, p->a == FAULT_MALLOC ? 900 : 40));
		arm(&sw);
		fault_also(p->b, 1 + (long)(rnd_below(&random, p->b == FAULT_MALLOC ? 900 : 40)),
			!sw.forever && round % 2);
		done = work_twice_hit(&sw, from_nothing ? 0 : 2, &in_doubt);
		hits += fault_clear();
		expect_stored(&sw, done, in_doubt);
	}
	/* The one inside x_alloc is not counted with another behind it. */
	ck_assert(hits > 0 || p->a == FAULT_ALLOC || p->a == FAULT_TRUNCATE);
}
END_TEST

START_TEST(a_checkpoint_that_fails)
{
	static const enum fault_op ops[] = { FAULT_WRITE, FAULT_SYNC, FAULT_TRUNCATE, FAULT_READ };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (int forever = 0; forever < 2; forever++) {
			struct sweep sw = { .op = ops[i], .forever = forever };
			bool hit = true;

			for (sw.nth = 1; hit; sw.nth += sw.nth < 4 ? 1 : 173)
				checkpoint_once(&sw, &hit);
		}
	}
}
END_TEST

/* ---- reading back ---- */

static int
count_job(void *ctx, const struct job_saved *j)
{
	(void)j;
	++*(int *)ctx;
	return 0;
}

static int
ignore_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)ctx, (void)name, (void)s, (void)paused;
	return 0;
}

/* More jobs than SQLite would sort in memory, and no place for a temporary file. */
START_TEST(recovery_needs_no_temporary_file)
{
	enum { JOBS = 80000 };
	int seen = 0;
	char key[KEY_MAX] = "";
	struct recover_sink sink = { .ctx = &seen, .queue = ignore_queue, .job = count_job };
	struct store *st;
	const struct persist_sink *put;

	start_over();
	st = store_open_ok();
	put = group_begin(st);
	for (int k = 0; k < JOBS; k++) {
		struct job_saved j = job_of(&k, JOBS - k);

		memcpy(key, &k, sizeof k);
		j.key = (struct str){ key, sizeof key };
		put->job_put(put->ctx, &j);
	}
	group_commit(st);
	fault_set(FAULT_OPEN, 1, true, false);
	ck_assert_int_eq(st->ops->recover(st, &sink, &err), 0);
	(void)fault_clear();
	ck_assert_int_eq(seen, JOBS);
	st->ops->close(st);
}
END_TEST

/* ---- copies ---- */

START_TEST(a_backup_that_fails_leaves_nothing)
{
	static const enum fault_op ops[] = { FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_MALLOC };
	struct store *st;

	make_two();
	st = store_open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct sweep sw = { .op = ops[i] };
		int rc;

		for (sw.nth = 1;; sw.nth++) {
			bool hit;

			arm(&sw);
			rc = store_backup(st, in_dir("copy"));
			hit = fault_clear();
			CHECK_AT(
				&sw, rc ? acceptable_error(rc) : access(in_dir("copy"), F_OK) == 0);
			CHECK_AT(&sw, rc == 0 || access(in_dir("copy"), F_OK) != 0);
			(void)unlink(in_dir("copy"));
			if (!hit)
				break;
		}
		CHECK_AT(&sw, rc == 0);
		expect_state(&sw, st, 2);
	}
	st->ops->close(st);
}
END_TEST

/* ---- a disk that stays full ---- */

static int
move_all(struct store *st, int v)
{
	const struct persist_sink *sink;
	int rc = st->ops->begin(st);

	if (rc)
		return rc;
	sink = case_sink(st);
	for (int k = 0; k < 500; k++) {
		struct job_saved j = job_of(&k, k + 1000);

		j.seq = (uint64_t)v;
		j.payload_changed = v < 0; /* new: with a row of its own */
		sink->job_put(sink->ctx, &j);
	}
	return st->ops->commit(st, NOW, true);
}

/* What needs no more room than there was goes on: the log is used over again. */
START_TEST(positions_move_on_a_full_disk)
{
	struct store *st;
	int failed = 0;

	start_over();
	st = store_open_ok();
	ck_assert_int_eq(move_all(st, -1), 0);
	st->ops->close(st);
	st = store_open_ok();
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(move_all(st, i), 0);
	fault_room(0);
	for (int i = 0; i < 300; i++) {
		int rc = move_all(st, i);

		ck_assert(rc == 0 || rc == -ENOSPC);
		failed += rc != 0;
		if (rc)
			ck_assert_int_eq(move_all(st, i), 0);
	}
	ck_assert(fault_clear());
	ck_assert_int_gt(failed, 1);
	st->ops->close(st);
	st = store_open_ok();
	st->ops->close(st);
}
END_TEST

/* ---- under the writer ---- */

static void
submit_group(struct writer *w, int g)
{
	struct group *copy;

	ck_assert_int_eq(group_new(&copy), 0);
	put_group(group_sink(copy), g);
	ck_assert_int_eq(writer_submit(w, copy, (uint64_t)g, NOW, true), 0);
}

static struct group_done
wait_done(struct writer *w, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct group_done d;

	while (writer_collect(w, &d, 1) == 0)
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
	return d;
}

/* STO-01's heart: the disk fills, is freed, and nothing that was given away is lost. */
START_TEST(the_writer_keeps_what_a_full_disk_refuses)
{
	struct sweep sw = { .op = FAULT_WRITE };
	struct group_done d;
	struct writer *w;
	int fd;

	start_over();
	ck_assert_int_eq(writer_new(store_open_ok(), &w, &fd), 0);
	submit_group(w, 0);
	ck_assert_int_eq(wait_done(w, fd).result, 0);
	fault_set(FAULT_WRITE, 3, true, true);
	submit_group(w, 1);
	d = wait_done(w, fd);
	ck_assert_uint_eq(d.mark, 1);
	ck_assert_int_eq(d.result, -ENOSPC);
	ck_assert(writer_failed(w));
	ck_assert(fault_clear());
	writer_retry(w);
	d = wait_done(w, fd);
	ck_assert_uint_eq(d.mark, 1);
	ck_assert_int_eq(d.result, 0);
	for (int g = 2; g < GROUPS; g++) {
		submit_group(w, g);
		ck_assert_int_eq(wait_done(w, fd).result, 0);
	}
	ck_assert_int_eq(writer_close(w), 0);
	expect_stored(&sw, GROUPS, false);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_faults");
	TCase *tc = unit_case(s, "faults");

	fault_install();
	tcase_add_checked_fixture(tc, learn_states, forget_states);
	tcase_add_checked_fixture(tc, dir_make_quick, dir_remove);
	tcase_add_test(tc, failing_opens);
	tcase_add_test(tc, failing_reads);
	tcase_add_test(tc, failing_writes);
	tcase_add_test(tc, a_full_disk);
	tcase_add_test(tc, failing_syncs);
	tcase_add_test(tc, failing_truncates);
	tcase_add_test(tc, failing_deletes);
	tcase_add_test(tc, no_memory_inside_sqlite);
	tcase_add_test(tc, no_memory_outside_sqlite);
	tcase_add_loop_test(tc, two_faults_of_different_kinds, 0, 40);
	tcase_add_test(tc, a_checkpoint_that_fails);
	tcase_add_test(tc, recovery_needs_no_temporary_file);
	tcase_add_test(tc, a_backup_that_fails_leaves_nothing);
	tcase_add_test(tc, positions_move_on_a_full_disk);
	tcase_add_test(tc, the_writer_keeps_what_a_full_disk_refuses);
	return unit_run(s);
}
