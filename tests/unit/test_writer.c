/* writer: groups are committed in order, kept when they fail; calls; the end. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "store/writer.h"
#include "unit/store_case.h"

/* ---- a store that does as it is told ---- */

struct script {
	struct store pub;
	struct persist_sink sink;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	/* under `lock` */
	bool gate;      /* commits wait for passes */
	int passes;     /* commits let through */
	int waiting;    /* commits at the gate */
	int fail_begin; /* what begin returns */
	int fail;       /* what commit returns */
	int tries;
	char log[4096]; /* names of removed queues, in order, of groups that were committed */
	char open[1024];
	bool closed;
};

static void
append(char *dst, size_t size, const char *s)
{
	size_t n = strlen(dst), m = strlen(s);

	wq_assert(n + m < size);
	memcpy(dst + n, s, m + 1);
}

static struct script *
script_of(struct store *s)
{
	return container_of(s, struct script, pub);
}

static void
script_name(void *ctx, struct str name)
{
	struct script *sc = ctx;
	size_t n = strlen(sc->open);

	(void)snprintf(sc->open + n, sizeof sc->open - n, "%.*s ", STR_ARG(name));
}

static const struct persist_sink *
script_sink(struct store *s)
{
	return &script_of(s)->sink;
}

static int
script_begin(struct store *s)
{
	struct script *sc = script_of(s);
	int rc;

	sc->open[0] = '\0';
	pthread_mutex_lock(&sc->lock);
	rc = sc->fail_begin;
	if (rc) {
		sc->tries++;
		pthread_cond_broadcast(&sc->moved);
	}
	pthread_mutex_unlock(&sc->lock);
	return rc;
}

static int
script_commit(struct store *s, struct moment now, bool sync)
{
	struct script *sc = script_of(s);
	int rc;

	(void)now, (void)sync;
	pthread_mutex_lock(&sc->lock);
	sc->waiting++;
	pthread_cond_broadcast(&sc->moved);
	while (sc->gate && sc->passes == 0)
		pthread_cond_wait(&sc->moved, &sc->lock);
	sc->waiting--;
	sc->passes -= sc->gate;
	sc->tries++;
	rc = sc->fail;
	if (!rc)
		append(sc->log, sizeof sc->log, sc->open);
	pthread_cond_broadcast(&sc->moved);
	pthread_mutex_unlock(&sc->lock);
	return rc;
}

static int
script_checkpoint(struct store *s)
{
	(void)s;
	return 0;
}

static bool
script_tidy(struct store *s)
{
	(void)s;
	return false;
}

static int
script_in_place(struct store *s)
{
	(void)s;
	return 0;
}

static void
script_stats(struct store *s, struct store_stats *out)
{
	struct script *sc = script_of(s);

	memset(out, 0, sizeof *out);
	pthread_mutex_lock(&sc->lock);
	out->commits = (uint64_t)sc->tries;
	pthread_mutex_unlock(&sc->lock);
}

static void
script_close(struct store *s)
{
	script_of(s)->closed = true;
}

static const struct store_ops script_ops = {
	.name = "script",
	.begin = script_begin,
	.sink = script_sink,
	.commit = script_commit,
	.checkpoint = script_checkpoint,
	.tidy = script_tidy,
	.stats = script_stats,
	.in_place = script_in_place,
	.close = script_close,
};

static struct script sc;
static struct writer *w;
static int fd;

static void
script_start(void)
{
	sc = (struct script){ .pub = { .ops = &script_ops } };
	sc.sink = (struct persist_sink){ .ctx = &sc, .queue_remove = script_name };
	pthread_mutex_init(&sc.lock, NULL);
	pthread_cond_init(&sc.moved, NULL);
	ck_assert_int_eq(writer_new(&sc.pub, &w, &fd), 0);
}

static int
script_end(void)
{
	int rc = writer_close(w);

	ck_assert(sc.closed);
	pthread_cond_destroy(&sc.moved);
	pthread_mutex_destroy(&sc.lock);
	return rc;
}

static void
set(int *field, int v)
{
	pthread_mutex_lock(&sc.lock);
	*field = v;
	pthread_cond_broadcast(&sc.moved);
	pthread_mutex_unlock(&sc.lock);
}

/* Waits until `*field` has come to `v`. */
static void
await(const int *field, int v)
{
	pthread_mutex_lock(&sc.lock);
	while (*field < v)
		pthread_cond_wait(&sc.moved, &sc.lock);
	pthread_mutex_unlock(&sc.lock);
}

static void
gate_close(void)
{
	pthread_mutex_lock(&sc.lock);
	sc.gate = true;
	pthread_mutex_unlock(&sc.lock);
}

static struct group *
group_of(const char *name)
{
	struct group *g;

	ck_assert_int_eq(group_new(&g), 0);
	group_sink(g)->queue_remove(group_sink(g)->ctx, str_from(name));
	return g;
}

static int
submit(const char *name, uint64_t mark)
{
	struct group *g = group_of(name);
	int rc = writer_submit(w, g, mark, NOW, true);

	if (rc)
		group_free(g);
	return rc;
}

/* The next result; waits for it. */
static struct group_done
next_done(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct group_done d;

	for (;;) {
		if (writer_collect(w, &d, 1) == 1)
			return d;
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
	}
}

static void
expect_done(uint64_t mark, int result)
{
	struct group_done d = next_done();

	ck_assert_uint_eq(d.mark, mark);
	ck_assert_int_eq(d.result, result);
	ck_assert_uint_eq(d.count, 1);
	ck_assert_int_ge(d.took_ns, 0);
}

/* ---- no memory ---- */

START_TEST(a_group_that_misses_something_is_not_taken)
{
	int64_t i;
	int rc = -ENOMEM;

	script_start();
	for (i = 0; rc; i++) {
		struct group *g;

		ck_assert_int_eq(group_new(&g), 0);
		alloc_fault_set(i, 0);
		group_sink(g)->queue_remove(group_sink(g)->ctx, STR("one"));
		for (int k = 0; k < 1000; k++)
			group_sink(g)->queue_remove(group_sink(g)->ctx, STR("two"));
		rc = writer_submit(w, g, 1, NOW, true);
		alloc_fault_set(-1, 0);
		ck_assert(rc == 0 || rc == -ENOMEM);
		if (rc)
			group_free(g);
	}
	ck_assert_int_gt(i, 2);
	ck_assert_uint_eq(next_done().count, 1001);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(making_one_survives_a_lack_of_memory)
{
	struct group *g;

	alloc_fault_set(0, 0);
	ck_assert_int_eq(group_new(&g), -ENOMEM);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(writer_new(&sc.pub, &w, &fd), -ENOMEM);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(store_memory_open(&(struct store *){ NULL }), -ENOMEM);
	alloc_fault_set(-1, 0);
	group_free(NULL);
}
END_TEST

/* ---- order and states ---- */

START_TEST(groups_are_committed_in_order)
{
	char want[sizeof sc.log] = "";

	script_start();
	for (int i = 0; i < 200; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "g%d", i);
		ck_assert_int_eq(submit(name, (uint64_t)i), 0);
		append(want, sizeof want, name);
		append(want, sizeof want, " ");
		if (i % 2)
			for (int k = i - 1; k <= i; k++)
				expect_done((uint64_t)k, 0);
	}
	ck_assert_str_eq(sc.log, want);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(one_syncs_and_one_waits)
{
	script_start();
	gate_close();
	ck_assert(writer_ready(w));
	ck_assert_int_eq(submit("a", 1), 0);
	await(&sc.waiting, 1);
	ck_assert(writer_ready(w));
	ck_assert_int_eq(submit("b", 2), 0);
	ck_assert(!writer_ready(w));
	ck_assert_int_eq(submit("c", 3), -EAGAIN);
	set(&sc.passes, 1);
	expect_done(1, 0);
	ck_assert(writer_ready(w));
	ck_assert_int_eq(submit("c", 3), 0);
	set(&sc.passes, 2);
	expect_done(2, 0);
	expect_done(3, 0);
	ck_assert_str_eq(sc.log, "a b c ");
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(a_failed_group_is_kept_and_told_once)
{
	struct pollfd p = { .events = POLLIN };
	struct group_done d;

	script_start();
	p.fd = fd;
	gate_close();
	set(&sc.fail, -ENOSPC);
	ck_assert_int_eq(submit("a", 1), 0);
	ck_assert_int_eq(submit("b", 2), 0);
	set(&sc.passes, 1);
	expect_done(1, -ENOSPC);
	ck_assert(writer_failed(w));
	ck_assert(!writer_ready(w));
	ck_assert_int_eq(submit("c", 3), -EAGAIN);
	for (int i = 2; i < 5; i++) {
		set(&sc.passes, 1);
		writer_retry(w);
		await(&sc.tries, i);
	}
	set(&sc.fail, 0);
	ck_assert_uint_eq(writer_collect(w, &d, 1), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	set(&sc.passes, 2);
	writer_retry(w);
	expect_done(1, 0);
	expect_done(2, 0);
	ck_assert(!writer_failed(w));
	ck_assert(writer_ready(w));
	ck_assert_str_eq(sc.log, "a b ");
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(a_failed_group_is_retried_unasked)
{
	script_start();
	set(&sc.fail_begin, -EIO);
	ck_assert_int_eq(submit("a", 1), 0);
	expect_done(1, -EIO);
	await(&sc.tries, 2);
	set(&sc.fail_begin, 0);
	expect_done(1, 0);
	ck_assert_str_eq(sc.log, "a ");
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(results_wait_to_be_collected)
{
	struct group_done d[4];
	struct pollfd p = { .events = POLLIN };

	script_start();
	p.fd = fd;
	for (uint64_t i = 0; i < 10; i++) {
		while (submit("x", i))
			await(&sc.tries, (int)i);
	}
	await(&sc.tries, 10);
	for (size_t got = 0, n; got < 10; got += n) {
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
		n = writer_collect(w, d, ARRAY_SIZE(d));
		for (size_t i = 0; i < n; i++)
			ck_assert_uint_eq(d[i].mark, got + i);
	}
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

/* ---- calls ---- */

struct visit {
	int calls, result;
	bool done;
	sigset_t mask;
	pthread_t thread;
};

static int
visit_store(struct store *st, void *arg)
{
	struct visit *v = arg;

	wq_assert(st == &sc.pub);
	v->calls++;
	v->thread = pthread_self();
	(void)pthread_sigmask(SIG_BLOCK, NULL, &v->mask);
	return -EXDEV;
}

static void
visited(void *arg, int result)
{
	struct visit *v = arg;

	v->done = true;
	v->result = result;
}

static void
wait_visited(const struct visit *v)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct group_done d;

	while (!v->done) {
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
		ck_assert_uint_eq(writer_collect(w, &d, 1), 0);
	}
	ck_assert_int_eq(v->result, -EXDEV);
}

START_TEST(a_call_runs_on_the_thread_with_signals_blocked)
{
	struct visit v = { 0 };
	sigset_t before = { 0 }, after = { 0 };

	(void)pthread_sigmask(SIG_BLOCK, NULL, &before);
	script_start();
	(void)pthread_sigmask(SIG_BLOCK, NULL, &after);
	ck_assert_int_eq(memcmp(&before, &after, sizeof before), 0);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &v), 0);
	wait_visited(&v);
	ck_assert_int_eq(v.calls, 1);
	ck_assert(!pthread_equal(v.thread, pthread_self()));
	ck_assert(sigismember(&v.mask, SIGTERM) && sigismember(&v.mask, SIGCHLD) &&
		sigismember(&v.mask, SIGHUP));
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(one_call_at_a_time_between_groups)
{
	struct visit v = { 0 }, u = { 0 };

	script_start();
	gate_close();
	ck_assert_int_eq(submit("a", 1), 0);
	await(&sc.waiting, 1);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &v), 0);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &u), -EAGAIN);
	set(&sc.passes, 1);
	expect_done(1, 0);
	wait_visited(&v);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &u), 0);
	wait_visited(&u);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

START_TEST(a_call_runs_while_a_group_fails)
{
	struct visit v = { 0 };

	script_start();
	set(&sc.fail, -EIO);
	ck_assert_int_eq(submit("a", 1), 0);
	expect_done(1, -EIO);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &v), 0);
	wait_visited(&v);
	set(&sc.fail, 0);
	writer_retry(w);
	expect_done(1, 0);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

/* ---- the end ---- */

START_TEST(closing_waits_for_what_was_submitted)
{
	struct visit v = { 0 };

	script_start();
	ck_assert_int_eq(submit("a", 1), 0);
	ck_assert_int_eq(submit("b", 2), 0);
	ck_assert_int_eq(writer_call(w, visit_store, visited, &v), 0);
	ck_assert_int_eq(script_end(), 0);
	ck_assert(v.done);
	ck_assert_str_eq(sc.log, "a b ");
}
END_TEST

START_TEST(closing_gives_a_failed_group_one_last_try)
{
	script_start();
	set(&sc.fail, -ENOSPC);
	ck_assert_int_eq(submit("a", 1), 0);
	expect_done(1, -ENOSPC);
	set(&sc.fail, 0);
	ck_assert_int_eq(script_end(), 0);
	ck_assert_str_eq(sc.log, "a ");
}
END_TEST

START_TEST(closing_tells_what_could_not_be_stored)
{
	script_start();
	set(&sc.fail, -ENOSPC);
	gate_close();
	ck_assert_int_eq(submit("a", 1), 0);
	ck_assert_int_eq(submit("b", 2), 0);
	set(&sc.passes, 100);
	ck_assert_int_eq(script_end(), -ENOSPC);
	ck_assert_str_eq(sc.log, "");
	ck_assert_int_le(sc.tries, 2);
}
END_TEST

START_TEST(figures_follow_the_groups)
{
	struct store_stats s;

	script_start();
	writer_stats(w, &s);
	ck_assert_uint_eq(s.commits, 0);
	ck_assert_int_eq(submit("a", 1), 0);
	expect_done(1, 0);
	ck_assert_int_eq(submit("b", 2), 0);
	expect_done(2, 0);
	writer_stats(w, &s);
	ck_assert_uint_ge(s.commits, 1);
	ck_assert_int_eq(script_end(), 0);
}
END_TEST

/* ---- with the real store ---- */

static int
back_up(struct store *st, void *arg)
{
	return store_backup(st, arg);
}

static void
set_int(void *arg, int result)
{
	(void)arg;
	ck_assert_int_eq(result, 0);
}

START_TEST(what_goes_through_the_writer_is_in_the_database)
{
	struct store_error err;
	struct group *g;
	char *text;
	char copy[100];

	(void)snprintf(copy, sizeof copy, "%s", in_dir("copy"));
	ck_assert_int_eq(writer_new(store_open_ok(), &w, &fd), 0);
	for (uint64_t i = 0; i < 50; i++) {
		struct job_saved j =
			job_make("q", (struct str){ (char *)&i, sizeof i }, 2 * (int64_t)i);

		ck_assert_int_eq(group_new(&g), 0);
		group_sink(g)->job_put(group_sink(g)->ctx, &j);
		ck_assert_int_eq(writer_submit(w, g, i, NOW, i % 2), 0);
		expect_done(i, 0);
	}
	ck_assert_int_eq(writer_call(w, back_up, set_int, copy), 0);
	ck_assert_int_eq(writer_close(w), 0);
	ck_assert_int_eq(access(copy, F_OK), 0);
	ck_assert_int_eq(reopened_text(&text, &err), 0);
	for (uint64_t i = 0, lines = 0; text[i]; i++) {
		lines += text[i] == '\n';
		ck_assert(text[i + 1] || lines == 51);
	}
	free(text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("writer");
	TCase *tc = unit_case(s, "writer");

	tcase_add_checked_fixture(tc, dir_make, dir_remove);
	tcase_add_test(tc, a_group_that_misses_something_is_not_taken);
	tcase_add_test(tc, making_one_survives_a_lack_of_memory);
	tcase_add_test(tc, groups_are_committed_in_order);
	tcase_add_test(tc, one_syncs_and_one_waits);
	tcase_add_test(tc, a_failed_group_is_kept_and_told_once);
	tcase_add_test(tc, a_failed_group_is_retried_unasked);
	tcase_add_test(tc, results_wait_to_be_collected);
	tcase_add_test(tc, a_call_runs_on_the_thread_with_signals_blocked);
	tcase_add_test(tc, one_call_at_a_time_between_groups);
	tcase_add_test(tc, a_call_runs_while_a_group_fails);
	tcase_add_test(tc, closing_waits_for_what_was_submitted);
	tcase_add_test(tc, closing_gives_a_failed_group_one_last_try);
	tcase_add_test(tc, closing_tells_what_could_not_be_stored);
	tcase_add_test(tc, figures_follow_the_groups);
	tcase_add_test(tc, what_goes_through_the_writer_is_in_the_database);
	return unit_run(s);
}
