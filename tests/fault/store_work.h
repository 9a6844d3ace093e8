/*
 * The work that the fault tests let the store do: a few groups of everything,
 * and the text of the state after each.
 */
#ifndef WQD_TESTS_STORE_WORK_H
#define WQD_TESTS_STORE_WORK_H

#include "fault/fault_vfs.h"
#include "unit/store_case.h"

#define GROUPS 7

static struct store_error err;
/* The state after so many groups. */
static char *states[GROUPS + 1];

/* ---- the work ---- */

/* Ordered the same by either clock. */
static inline struct job_saved
job_of(const int *k, int v)
{
	struct job_saved j = job_make("q", (struct str){ (const char *)k, sizeof *k }, v);

	j.absolute = false;
	return j;
}

static inline void
put_jobs(const struct persist_sink *sink, int g)
{
	static char big[6000];
	struct str parts[] = { STR("small"), { big, sizeof big } };

	memset(big, 'a' + g, sizeof big);
	for (int i = 0; i < 4; i++) {
		int k = g * 4 + i;
		struct job_saved j = job_of(&k, k);

		j.parts = parts;
		j.n_parts = (size_t)i % 3;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
	}
	for (int k = 0; k < g * 4; k += 3) { /* older ones move */
		struct job_saved j = job_of(&k, k + 1000 * g);

		sink->job_put(sink->ctx, &j);
	}
}

static inline void
put_group(const struct persist_sink *sink, int g)
{
	int gone = g * 4 - 3;
	struct run_record r = run_make("q", STR("r"), g, STR("output"));
	struct answer_saved a = { .id = { (char *)&g, sizeof g },
		.reply = { .queue = STR("q"), .key = STR("k") },
		.until_wall_ns = g };
	struct queue_settings s;

	queue_settings_default(&s);
	s.max_active = (uint32_t)g + 1;
	sink->queue_put(sink->ctx, STR("q"), &s, g % 2);
	put_jobs(sink, g);
	if (g > 0) {
		struct str key = { (char *)&gone, sizeof gone };

		sink->job_remove(sink->ctx, STR("q"), key, job_id(STR("q"), key));
		sink->run_remove(sink->ctx, (uint64_t)g - 1);
	}
	sink->run_add(sink->ctx, (uint64_t)g, &r);
	sink->answer_put(sink->ctx, &a);
}

static inline int
try_group(struct store *st, int g)
{
	int rc = st->ops->begin(st);

	if (rc)
		return rc;
	put_group(case_sink(st), g);
	return st->ops->commit(st, NOW, true);
}

static inline void
learn_states(void)
{
	struct store *st;

	dir_make_quick();
	st = store_open_ok();
	for (int g = 0; g <= GROUPS; g++) {
		if (g > 0)
			ck_assert_int_eq(try_group(st, g - 1), 0);
		ck_assert_int_eq(recover_text(st, &states[g], &err), 0);
	}
	st->ops->close(st);
	dir_remove();
}

static inline void
forget_states(void)
{
	for (int g = 0; g <= GROUPS; g++)
		free(states[g]);
}

/* An empty directory again, but for the lock. */
static inline void
start_over(void)
{
	static const char *const names[] = { "wqd.db", "wqd.db-wal", "wqd.db.new", "wqd.db.new-wal",
		"copy" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlink(in_dir(names[i]));
}

/* A database with the first two groups, one of them still in its log. */
static inline void
make_two(void)
{
	struct store *st;

	start_over();
	st = store_open_ok();
	ck_assert_int_eq(try_group(st, 0), 0);
	st->ops->close(st);
	st = store_open_ok();
	ck_assert_int_eq(try_group(st, 1), 0);
	/* Nothing can be brought back or removed now: as if the process had been killed. */
	fault_set(FAULT_CHANGE, 1, true, false);
	st->ops->close(st);
	(void)fault_clear();
	ck_assert_int_eq(access(in_dir("wqd.db-wal"), F_OK), 0);
}

static inline bool
acceptable_error(int rc)
{
	return rc == -EIO || rc == -ENOSPC || rc == -ENOMEM || rc == -EMFILE;
}

/* What a fault was. */
struct sweep {
	enum fault_op op;
	bool forever, disk_full;
	long nth;
};

static inline void
arm(const struct sweep *sw)
{
	fault_set(sw->op, sw->nth, sw->forever, sw->disk_full);
}

#define CHECK_AT(sw, cond) \
	ck_assert_msg(cond, "op %d nth %ld forever %d: %s (%d: %s)", (sw)->op, (sw)->nth, \
		(sw)->forever, #cond, err.code, err.detail)

/* ---- one run ---- */

/* The store has exactly what was committed, also as this process sees it. */
static inline void
expect_state(const struct sweep *sw, struct store *st, int done)
{
	char *text;

	CHECK_AT(sw, recover_text(st, &text, &err) == 0);
	CHECK_AT(sw, strcmp(text, states[done]) == 0);
	free(text);
}

/*
 * Works on from what is there, each group until it goes in or can't. Returns how many groups have
 * been told committed, `had` included.
 */
static inline int
work(const struct sweep *sw, int had, bool *failed)
{
	struct store *st;
	uint64_t token;
	int rc = store_sqlite_open(case_dir, &st, &err), done = had;
	char *text;

	*failed = rc != 0;
	if (rc) {
		CHECK_AT(sw, acceptable_error(rc) && err.code == rc);
		return done;
	}
	rc = recover_text(st, &text, &err);
	free(text);
	if (!rc)
		rc = st->ops->claim(st, "me", &token);
	for (; !rc && done < GROUPS; done++) {
		rc = try_group(st, done);
		if (rc && !sw->forever) {
			CHECK_AT(sw, acceptable_error(rc));
			expect_state(sw, st, done);
			rc = try_group(st, done);
		}
		if (rc)
			break;
		(void)st->ops->checkpoint(st);
	}
	*failed = rc != 0;
	CHECK_AT(sw, !rc || acceptable_error(rc));
	st->ops->close(st);
	return done;
}

/*
 * What is there after the faults have gone. A group whose sync failed may be there whole: its
 * bytes were written, and nobody can call them back from a disk that fails.
 */
static inline void
expect_stored(const struct sweep *sw, int done, bool in_doubt)
{
	char *text;

	if (reopened_text(&text, &err) != 0)
		ck_abort_msg("op %d nth %ld forever %d: %s: %s", sw->op, sw->nth, sw->forever,
			err.path, err.detail);
	if (!(in_doubt && strcmp(text, states[done + 1]) == 0))
		CHECK_AT(sw, strcmp(text, states[done]) == 0);
	free(text);
}

/*
 * Leaves `st` with a log that is worth a checkpoint, and with the state it had: a large job comes
 * and goes.
 */
static inline void
grow_log(struct store *st)
{
	static const char big[PAYLOAD_MAX];
	struct job_saved j = { .queue = STR("q"),
		.key = STR("big"),
		.parts = &(struct str){ big, sizeof big },
		.n_parts = 1,
		.payload_changed = true };

	for (int i = 0; i < 9; i++) {
		const struct persist_sink *sink = group_begin(st);

		sink->job_put(sink->ctx, &j);
		if (i == 8)
			sink->job_remove(sink->ctx, j.queue, j.key, 0);
		group_commit(st);
	}
}

#endif
