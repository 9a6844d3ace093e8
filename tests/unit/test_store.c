/* store: what is put comes back, in order, after any end; ownership. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "unit/store_case.h"

#define JOBS_MANY 100000

static struct store_error err;

/* ---- round trips ---- */

static void
expect_text(const char *want)
{
	char *got;

	ck_assert_msg(reopened_text(&got, &err) == 0, "%s: %s", err.path, err.detail);
	ck_assert_str_eq(got, want);
	free(got);
}

START_TEST(every_field_comes_back)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct str parts[] = { STR("first"), STR(""), STR("third\0bytes") };
	struct str run_parts[] = { STR("what it runs with") };
	struct job_saved j = job_make("mail", STR("k"), 1);
	struct run_record r = run_make("mail", STR("k"), 5, STR("out\0put"));
	struct answer_saved a = { .id = STR("idem"), .asked = ASKED_REINIT, .until_wall_ns = 77 };
	struct queue_settings s;
	char *want;
	size_t n;
	FILE *f = open_memstream(&want, &n);

	queue_settings_default(&s);
	ck_assert_int_eq(queue_settings_set(&s, STR("max_active"), STR("7")), 0);
	ck_assert_int_eq(queue_settings_set(&s, STR("misfire"), STR("rearm")), 0);
	ck_assert_int_eq(queue_settings_set(&s, STR("slack"), STR("250ms")), 0);
	ck_assert_int_eq(queue_settings_set(&s, STR("handler"), STR("page")), 0);
	j.parts = parts;
	j.n_parts = 3;
	j.run_parts = run_parts;
	j.n_run_parts = 1;
	j.payload_changed = true;
	a.reply = (struct job_reply){ .status = ST_REFUSED_LIMIT,
		.queue = STR("mail"),
		.key = STR("k"),
		.state_before = JOB_HELD,
		.pending_before = true,
		.has_deadline = true,
		.deadline_wall_ns = -5,
		.old_deadline_wall_ns = INT64_MAX,
		.generation = UINT64_MAX,
		.coalesced = UINT32_MAX,
		.disable_depth = 3 };
	sink->queue_put(sink->ctx, STR("mail"), &s, true);
	sink->job_put(sink->ctx, &j);
	sink->run_add(sink->ctx, UINT32_MAX + 1ull, &r);
	sink->answer_put(sink->ctx, &a);
	group_commit(st);
	st->ops->close(st);

	put_queue(f, STR("mail"), &s, true);
	put_job(f, &j);
	put_run(f, UINT32_MAX + 1ull, &r);
	put_answer(f, &a);
	fclose(f);
	expect_text(want);
	free(want);
}
END_TEST

/* A command alone, one with its payload, a running one beside a pending one without. */
START_TEST(commands_come_back)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct str alone[] = { STR("true\0") }, with[] = { STR("cat\0-n\0"), STR("") },
		   plain[] = { STR("cat\0") };
	struct job_saved a = job_make("q", STR("a"), 1), b = job_make("q", STR("b"), 2),
			 c = job_make("q", STR("c"), 3);
	char *want;
	size_t n;
	FILE *f = open_memstream(&want, &n);
	struct queue_settings s;

	queue_settings_default(&s);
	a.parts = alone;
	b.parts = with;
	c.parts = plain;
	c.run_parts = with;
	a.n_parts = c.n_parts = 1;
	b.n_parts = c.n_run_parts = 2;
	a.command = b.command = c.run_command = true;
	c.running = true;
	a.payload_changed = b.payload_changed = c.payload_changed = true;
	sink->queue_put(sink->ctx, STR("q"), &s, false);
	sink->job_put(sink->ctx, &a);
	sink->job_put(sink->ctx, &b);
	sink->job_put(sink->ctx, &c);
	group_commit(st);
	st->ops->close(st);
	put_queue(f, STR("q"), &s, false);
	put_job(f, &a);
	put_job(f, &b);
	put_job(f, &c);
	fclose(f);
	expect_text(want);
	free(want);
}
END_TEST

/* Each flag and word alone: a mix-up of two columns shows. */
START_TEST(single_fields_come_back)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	char *want;
	size_t n;
	FILE *f = open_memstream(&want, &n);
	struct queue_settings s;

	queue_settings_default(&s);
	put_queue(f, STR("q"), &s, false);
	for (int i = 0; i < 9; i++) {
		char key[2] = { (char)('a' + i), 0 };
		struct job_saved j = {
			.queue = STR("q"), .key = str_from(key), .seq = (uint64_t)i
		};

		j.pending = i == 3 ? JOB_READY : i == 1 ? JOB_ARMED : JOB_IDLE;
		j.running = i == 2;
		j.absolute = i == 0; /* long past: comes first */
		j.retry = i == 4;
		j.dead = i == 5;
		j.level = i == 6 ? LEVEL_SYNC : i == 7 ? LEVEL_MEMORY : LEVEL_DEFAULT;
		j.delay_ns = i == 8 ? -1 : 0;
		sink->job_put(sink->ctx, &j);
		put_job(f, &j);
	}
	group_commit(st);
	st->ops->close(st);
	fclose(f);
	expect_text(want);
	free(want);
}
END_TEST

START_TEST(unusual_keys_stay_apart)
{
	static char longest[KEY_MAX], other[KEY_MAX];
	/* In the order in which they come back. */
	const struct str keys[] = { STR("\"; DROP TABLE job; --"), STR("%s%n"), STR("'"), STR("01"),
		STR("1"), STR("A"), STR("a"), STR("a\0b"), STR("a "), STR("null"),
		{ longest, KEY_MAX }, { other, KEY_MAX }, STR("\xf0\x9f\x90\x9d \xc3\xa4") };
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct queue_settings s;
	char *want;
	size_t n;
	FILE *f = open_memstream(&want, &n);

	memset(longest, 'x', KEY_MAX);
	memset(other, 'x', KEY_MAX);
	other[KEY_MAX - 1] = 'y';
	queue_settings_default(&s);
	put_queue(f, STR("'q'"), &s, false);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct job_saved j = job_make("'q'", keys[i], 3 * (int64_t)i + 1);

		j.parts = &keys[i];
		j.n_parts = 1;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
		put_job(f, &j);
	}
	group_commit(st);
	st->ops->close(st);
	fclose(f);
	expect_text(want);
	free(want);
}
END_TEST

/* Puts one job with the given payload and returns the text of what is stored then. */
static char *
put_and_read(struct store *st, struct job_saved *j, const struct str *parts, size_t n, bool changed)
{
	const struct persist_sink *sink = group_begin(st);
	char *text;

	j->parts = parts;
	j->n_parts = n;
	j->payload_changed = changed;
	sink->job_put(sink->ctx, j);
	group_commit(st);
	ck_assert_int_eq(recover_text(st, &text, &err), 0);
	return text;
}

static void
expect_payload(struct store *st, struct job_saved *j, const struct str *parts, size_t n)
{
	char *got = put_and_read(st, j, parts, n, true), *want;
	size_t len;
	FILE *f = open_memstream(&want, &len);

	put_job(f, j);
	fclose(f);
	ck_assert_str_eq(strchr(got, '\n') + 1, want);
	free(got);
	free(want);
}

START_TEST(payloads_of_every_shape)
{
	struct store *st = store_open_ok();
	struct job_saved j = job_make("q", STR("k"), 2);
	char *big = calloc(1, PAYLOAD_MAX);
	struct str *many = calloc(5000, sizeof *many);

	for (size_t i = 0; i < PAYLOAD_MAX; i++)
		big[i] = (char)(i * 7 + i / 256);
	for (size_t i = 0; i < 5000; i++)
		many[i] = (struct str){ big + i, i % 200 };
	expect_payload(st, &j, NULL, 0);
	expect_payload(st, &j, &STR("one"), 1);
	expect_payload(st, &j, &STR(""), 1);
	expect_payload(st, &j, &(struct str){ big, PAYLOAD_MAX }, 1);
	expect_payload(st, &j, many, 5000);
	expect_payload(st, &j, (struct str[]){ STR(""), STR("") }, 2);
	expect_payload(
		st, &j, (struct str[]){ { big, PAYLOAD_MAX / 2 }, { big, PAYLOAD_MAX / 2 } }, 2);
	expect_payload(st, &j, NULL, 0);
	st->ops->close(st);
	free(many);
	free(big);
}
END_TEST

/* A reschedule hands no payload over, and leaves the stored one alone. */
START_TEST(a_move_keeps_the_payload)
{
	struct store *st = store_open_ok();
	struct job_saved j = job_make("q", STR("k"), 2);
	char *text = put_and_read(st, &j, &STR("precious"), 1, true);

	free(text);
	j.due_wall_ns = 123456789;
	text = put_and_read(st, &j, NULL, 0, false);
	ck_assert_ptr_nonnull(strstr(text, "part=8:precious"));
	ck_assert_ptr_nonnull(strstr(text, "/123456789"));
	free(text);
	st->ops->close(st);
}
END_TEST

START_TEST(payloads_of_finished_instances_are_not_handed_out)
{
	struct store *st = store_open_ok();
	struct job_saved j = { .queue = STR("q"), .key = STR("k"), .pending = JOB_ARMED };
	char *text = put_and_read(st, &j, &STR("old"), 1, true);

	free(text);
	j.pending = JOB_IDLE;
	text = put_and_read(st, &j, NULL, 0, false);
	ck_assert_ptr_null(strstr(text, "part="));
	free(text);
	j.dead = true;
	text = put_and_read(st, &j, NULL, 0, false);
	ck_assert_ptr_nonnull(strstr(text, "part=3:old"));
	free(text);
	st->ops->close(st);
}
END_TEST

/* ---- replacing and removing ---- */

START_TEST(completions_come_back)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct completion_saved c = { STR("deploy"), UINT32_MAX, false, LEVEL_SYNC };
	char *text;

	sink->completion_put(sink->ctx, &c);
	c = (struct completion_saved){ STR("gate"), 2, false, LEVEL_ASYNC };
	sink->completion_put(sink->ctx, &c);
	c = (struct completion_saved){ STR("gate"), 0, true, LEVEL_ASYNC };
	sink->completion_put(sink->ctx, &c);
	c.name = STR("goes");
	sink->completion_put(sink->ctx, &c);
	sink->completion_remove(sink->ctx, STR("goes"));
	sink->completion_remove(sink->ctx, STR("never there"));
	group_commit(st);
	st->ops->close(st);
	st = store_open_ok();
	ck_assert_int_eq(recover_text(st, &text, &err), 0);
	ck_assert_ptr_nonnull(strstr(text, "name=6:deploy done=4294967295 open=0 level=1"));
	ck_assert_ptr_nonnull(strstr(text, "name=4:gate done=0 open=1 level=2"));
	ck_assert_ptr_null(strstr(text, "goes"));
	free(text);
	st->ops->close(st);
}
END_TEST

START_TEST(removed_things_are_gone)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	struct run_record r = run_make("q", STR("k"), 1, STR("x"));
	struct answer_saved a = { .id = STR("i"), .reply = { .queue = STR("q"), .key = STR("k") } };
	struct job_saved j = job_make("q", STR("k"), 1), other = job_make("q", STR("l"), 1);
	char *text;

	j.parts = &STR("p");
	j.n_parts = 1;
	j.payload_changed = true;
	sink->job_put(sink->ctx, &j);
	sink->job_put(sink->ctx, &other);
	sink->run_add(sink->ctx, 1, &r);
	sink->answer_put(sink->ctx, &a);
	sink->job_remove(sink->ctx, STR("q"), STR("k"), 0);
	sink->job_remove(sink->ctx, STR("q"), STR("never there"), 0);
	sink->job_remove(sink->ctx, STR("no queue"), STR("k"), 0);
	sink->run_remove(sink->ctx, 1);
	sink->answer_remove(sink->ctx, STR("i"));
	group_commit(st);
	ck_assert_int_eq(recover_text(st, &text, &err), 0);
	ck_assert_ptr_nonnull(strstr(text, "key=1:l"));
	ck_assert_ptr_null(strstr(text, "key=1:k"));
	ck_assert_ptr_null(strstr(text, "\nrun "));
	ck_assert_ptr_null(strstr(text, "\nanswer "));
	free(text);
	st->ops->close(st);
}
END_TEST

START_TEST(a_queue_goes_after_all_that_is_in_it)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink;
	struct queue_settings s;
	char *before, *after;

	queue_settings_default(&s);
	sink = group_begin(st);
	sink->queue_put(sink->ctx, STR("stays"), &s, true);
	sink->job_put(sink->ctx, &(struct job_saved){ .queue = STR("stays"), .key = STR("k") });
	group_commit(st);
	ck_assert_int_eq(recover_text(st, &before, &err), 0);
	sink = group_begin(st);
	sink->queue_put(sink->ctx, STR("goes"), &s, false);
	for (int i = 0; i < 50; i++) {
		struct job_saved j = job_make("goes", (struct str){ (char *)&i, sizeof i }, i);
		struct run_record r = run_make("goes", j.key, i, STR("x"));

		j.parts = &STR("p");
		j.n_parts = 1;
		j.payload_changed = true;
		sink->job_put(sink->ctx, &j);
		sink->run_add(sink->ctx, (uint64_t)i, &r);
	}
	group_commit(st);
	sink = group_begin(st);
	for (int i = 0; i < 50; i++) {
		sink->run_remove(sink->ctx, (uint64_t)i);
		sink->job_remove(sink->ctx, STR("goes"), (struct str){ (char *)&i, sizeof i }, 0);
	}
	sink->queue_remove(sink->ctx, STR("goes"));
	sink->queue_remove(sink->ctx, STR("never there"));
	group_commit(st);
	ck_assert_int_eq(recover_text(st, &after, &err), 0);
	ck_assert_str_eq(before, after);
	free(before);
	free(after);
	st->ops->close(st);
}
END_TEST

/* ---- order, size, progress ---- */

struct order {
	uint32_t id;
	uint64_t jobs, progress, total;
};

static int
order_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)ctx, (void)name, (void)s, (void)paused;
	return 0;
}

static int
order_job(void *ctx, const struct job_saved *j)
{
	struct order *o = ctx;

	unit_check(j->id > o->id);
	o->id = j->id;
	o->jobs++;
	return 0;
}

static void
order_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct order *o = ctx;

	unit_check(done >= o->progress && done <= total);
	o->progress = done;
	o->total = total;
}

START_TEST(many_jobs_come_in_the_order_of_their_numbers)
{
	struct store *st = store_open_ok();
	struct order o = { .jobs = 0 };
	struct recover_sink sink = { &o, order_queue, order_job, NULL, NULL, NULL, order_progress,
		NULL, NULL };

	for (int i = 0; i < JOBS_MANY;) {
		const struct persist_sink *put = group_begin(st);

		for (int end = i + 5000; i < end; i++) {
			char key[32];
			int n = snprintf(key, sizeof key, "host-%d", i);
			struct job_saved j =
				job_make(i % 3 ? "b" : "a", (struct str){ key, (size_t)n }, i);

			j.payload_changed = i % 2;
			put->job_put(put->ctx, &j);
		}
		group_commit(st);
	}
	st->ops->close(st);
	st = store_open_ok();
	ck_assert(st->meta.same_boot);
	ck_assert_int_eq(st->ops->recover(st, &sink, &err), 0);
	ck_assert_uint_eq(o.jobs, JOBS_MANY);
	ck_assert_uint_eq(o.progress, JOBS_MANY + 2);
	ck_assert_uint_eq(o.total, JOBS_MANY + 2);
	st->ops->close(st);
}
END_TEST

static int
stop_at_once(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)ctx, (void)name, (void)s, (void)paused;
	return ERR_LIMIT;
}

START_TEST(recovery_passes_on_what_its_receiver_says)
{
	struct store *st = store_open_ok();
	struct recover_sink sink = { .queue = stop_at_once };
	const struct persist_sink *put = group_begin(st);

	put->job_put(put->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("k") });
	group_commit(st);
	ck_assert_int_eq(st->ops->recover(st, &sink, &err), ERR_LIMIT);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	st->ops->close(st);
}
END_TEST

/* ---- groups ---- */

START_TEST(an_unfinished_group_is_nowhere)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	char *text;

	sink->job_put(sink->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("k") });
	st->ops->close(st);
	ck_assert_int_eq(reopened_text(&text, &err), 0);
	ck_assert_str_eq(text, "");
	free(text);
}
END_TEST

START_TEST(a_killed_process_loses_no_commit)
{
	pid_t pid = fork();
	char *text;
	int status;

	if (pid == 0) {
		struct store *st = store_open_ok();
		const struct persist_sink *sink = group_begin(st);

		sink->job_put(
			sink->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("in") });
		group_commit(st);
		sink = group_begin(st);
		sink->job_put(
			sink->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("out") });
		(void)raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(reopened_text(&text, &err), 0);
	ck_assert_ptr_nonnull(strstr(text, "key=2:in"));
	ck_assert_ptr_null(strstr(text, "key=3:out"));
	free(text);
}
END_TEST

/* ---- facts and ownership ---- */

START_TEST(facts_of_the_directory_last)
{
	struct store *st = store_open_ok();
	char instance[sizeof st->meta.instance];

	ck_assert_uint_eq(strlen(st->meta.instance), 36);
	ck_assert(st->meta.fresh);
	ck_assert(!st->meta.same_boot);
	ck_assert_int_eq(st->meta.last_wall_ns, 0);
	memcpy(instance, st->meta.instance, sizeof instance);
	(void)group_begin(st);
	group_commit(st);
	st->ops->close(st);
	st = store_open_ok();
	ck_assert(!st->meta.fresh);
	ck_assert_str_eq(st->meta.instance, instance);
	ck_assert(st->meta.same_boot);
	ck_assert_int_eq(st->meta.last_wall_ns, NOW.wall_ns);
	st->ops->close(st);
}
END_TEST

static int
check_boot(void *ctx, const struct job_saved *j)
{
	const struct store *st = ctx;

	ck_assert_uint_ne(j->boot, 0);
	ck_assert_uint_eq(j->boot, st->meta.boot);
	return 0;
}

static int
any_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)ctx, (void)name, (void)s, (void)paused;
	return 0;
}

START_TEST(a_row_says_of_which_boot_its_times_are)
{
	struct store *st = store_open_ok();
	const struct persist_sink *put = group_begin(st);
	struct recover_sink sink = { .queue = any_queue, .job = check_boot };

	put->job_put(
		put->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("k"), .boot = 7 });
	group_commit(st);
	st->ops->close(st);
	st = store_open_ok();
	sink.ctx = st;
	ck_assert_int_eq(st->ops->recover(st, &sink, &err), 0);
	st->ops->close(st);
}
END_TEST

static void
own(struct store *st)
{
	uint64_t first, second;

	ck_assert_int_eq(st->ops->claim(st, "", &first), ERR_BAD_VALUE);
	ck_assert_int_eq(st->ops->claim(st, "one", &first), 0);
	ck_assert_int_eq(st->ops->renew(st, first), 0);
	ck_assert_int_eq(st->ops->claim(st, "two", &second), 0);
	ck_assert_uint_gt(second, first);
	ck_assert_int_eq(st->ops->renew(st, first), ERR_STALE_TOKEN);
	ck_assert_int_eq(st->ops->release(st, first), ERR_STALE_TOKEN);
	(void)group_begin(st);
	group_commit(st);
	ck_assert_int_eq(st->ops->release(st, second), 0);
	ck_assert_int_eq(st->ops->renew(st, second), ERR_STALE_TOKEN);
	(void)group_begin(st);
	ck_assert_int_eq(st->ops->commit(st, NOW, true), ERR_STALE_TOKEN);
	ck_assert_int_eq(st->ops->claim(st, "three", &first), 0);
	ck_assert_uint_gt(first, second);
	(void)group_begin(st);
	group_commit(st);
}

START_TEST(a_token_grows_with_each_owner)
{
	struct store *st = store_open_ok();
	uint64_t token;

	own(st);
	token = st->meta.token;
	st->ops->close(st);
	st = store_open_ok();
	ck_assert_uint_eq(st->meta.token, token);
	ck_assert(st->meta.same_boot);
	st->ops->close(st);
}
END_TEST

START_TEST(a_second_daemon_is_refused_and_harms_nothing)
{
	struct store *st = store_open_ok();
	const struct persist_sink *sink = group_begin(st);
	char want[64], *text;
	uint64_t before;
	pid_t pid;
	int status;

	sink->job_put(sink->ctx, &(struct job_saved){ .queue = STR("q"), .key = STR("k") });
	group_commit(st);
	before = dir_hash();
	(void)snprintf(want, sizeof want, "locked by process %d", (int)getpid());
	pid = fork();
	if (pid == 0) {
		struct store *other;
		int rc = store_sqlite_open(case_dir, &other, &err);

		_exit(rc == ERR_LOCKED && err.code == rc && strcmp(err.detail, want) == 0 &&
					strcmp(err.path, in_dir("lock")) == 0
				? 0
				: 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* In the same process too, and closing what was refused gives nothing up. */
	ck_assert_int_eq(store_sqlite_open(case_dir, &(struct store *){ NULL }, &err), ERR_LOCKED);
	ck_assert_int_eq(store_sqlite_open(case_dir, &(struct store *){ NULL }, &err), ERR_LOCKED);
	ck_assert_uint_eq(dir_hash(), before);
	(void)group_begin(st);
	group_commit(st);
	st->ops->close(st);
	ck_assert_int_eq(reopened_text(&text, &err), 0);
	free(text);
}
END_TEST

/* ---- the other implementation ---- */

START_TEST(memory_keeps_nothing_and_answers_alike)
{
	struct store *st;
	struct store_stats s;
	char *text;

	ck_assert_int_eq(store_memory_open(&st), 0);
	ck_assert_uint_eq(strlen(st->meta.instance), 36);
	put_some(st, 10, 0);
	own(st);
	ck_assert_int_eq(recover_text(st, &text, &err), 0);
	ck_assert_str_eq(text, "");
	free(text);
	st->ops->stats(st, &s);
	ck_assert_uint_eq(s.puts, 10);
	ck_assert_uint_eq(s.commits, 3);
	ck_assert_uint_eq(s.failed_commits, 1);
	ck_assert_int_eq(st->ops->checkpoint(st), 0);
	ck_assert_int_eq(store_backup(st, in_dir("copy")), -EOPNOTSUPP);
	st->ops->close(st);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store");
	TCase *tc = unit_case(s, "store");

	tcase_add_checked_fixture(tc, dir_make, dir_remove);
	tcase_add_test(tc, every_field_comes_back);
	tcase_add_test(tc, commands_come_back);
	tcase_add_test(tc, single_fields_come_back);
	tcase_add_test(tc, unusual_keys_stay_apart);
	tcase_add_test(tc, payloads_of_every_shape);
	tcase_add_test(tc, a_move_keeps_the_payload);
	tcase_add_test(tc, payloads_of_finished_instances_are_not_handed_out);
	tcase_add_test(tc, completions_come_back);
	tcase_add_test(tc, removed_things_are_gone);
	tcase_add_test(tc, a_queue_goes_after_all_that_is_in_it);
	tcase_add_test(tc, many_jobs_come_in_the_order_of_their_numbers);
	tcase_add_test(tc, recovery_passes_on_what_its_receiver_says);
	tcase_add_test(tc, an_unfinished_group_is_nowhere);
	tcase_add_test(tc, a_killed_process_loses_no_commit);
	tcase_add_test(tc, facts_of_the_directory_last);
	tcase_add_test(tc, a_row_says_of_which_boot_its_times_are);
	tcase_add_test(tc, a_token_grows_with_each_owner);
	tcase_add_test(tc, a_second_daemon_is_refused_and_harms_nothing);
	tcase_add_test(tc, memory_keeps_nothing_and_answers_alike);
	return unit_run(s);
}
