/* run: the life of a run, with real processes. EXE-01, 02, 05, 07, 08. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit/exec_bench.h"

/* A text that may be changed, as argv wants it. */
#define ARG(s) ((char[]){ s })

#define SHELL(script) \
	(char *[]) \
	{ \
		ARG("/bin/sh"), ARG("-c"), ARG(script), NULL \
	}

/* ---- ends ---- */

START_TEST(a_run_is_told_started_then_ended_and_keeps_its_output)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = bench_shell(b, 5, "echo one; echo two >&2; echo three");

	ck_assert(s->started);
	ck_assert_int_eq(s->end.outcome, RUN_DONE);
	ck_assert_int_eq(s->end.exit_code, 0);
	ck_assert_int_eq(s->end.signal, 0);
	ck_assert_int_eq(s->end.error, 0);
	ck_assert_str_eq(s->output, "one\ntwo\nthree\n");
	ck_assert(!s->end.truncated);
	bench_free(b);
}
END_TEST

START_TEST(EXE_05_exit_codes_and_signals_are_kept_apart)
{
	static const struct {
		const char *script;
		enum run_outcome outcome;
		int exit_code, signal;
	} ends[] = {
		{ "exit 0", RUN_DONE, 0, 0 },
		{ "exit 1", RUN_FAILED, 1, 0 },
		{ "exit 137", RUN_FAILED, 137, 0 },
		{ "exit 255", RUN_FAILED, 255, 0 },
		{ "kill -9 $$", RUN_FAILED, -1, SIGKILL },
		{ "ulimit -c 0; kill -SEGV $$", RUN_FAILED, -1, SIGSEGV },
		{ "kill -TERM $$", RUN_FAILED, -1, SIGTERM },
	};
	struct bench *b = bench_new(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const struct seen *s = bench_shell(b, i + 1, ends[i].script);

		ck_assert(s->started);
		ck_assert_int_eq(s->end.outcome, ends[i].outcome);
		ck_assert_int_eq(s->end.exit_code, ends[i].exit_code);
		ck_assert_int_eq(s->end.signal, ends[i].signal);
		ck_assert_int_eq(s->end.error, 0);
	}
	bench_free(b);
}
END_TEST

/* ---- EXE-05: what does not start ---- */

static char *
bench_file(struct bench *b, const char *name, const char *text, mode_t mode, char *path)
{
	int fd;

	snprintf(path, 128, "%s/%s", b->dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, mode);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static void
check_not_startable(
	struct bench *b, uint64_t id, const struct handler *h, int error, const char *says)
{
	const struct seen *s = bench_play(b, id, h);

	ck_assert(s->ended && !s->started);
	ck_assert_int_eq(s->end.outcome, RUN_FAILED);
	ck_assert_int_eq(s->end.error, error);
	ck_assert_int_eq(s->end.exit_code, -1);
	ck_assert_int_eq(s->end.signal, 0);
	ck_assert_msg(strstr(s->output, says) != NULL, "%s", s->output);
	ck_assert_ptr_nonnull(strstr(s->output, strerror(error)));
}

START_TEST(EXE_05_a_command_that_cannot_start_fails_with_its_errno)
{
	struct bench *b = bench_new(NULL);
	char path[128];
	char *argv[] = { NULL, NULL };
	struct handler h = bench_handler(argv);

	argv[0] = ARG("/nonexistent/command");
	check_not_startable(b, 1, &h, ENOENT, "command /nonexistent/command");
	argv[0] = ARG("no-such-command-in-path");
	check_not_startable(b, 2, &h, ENOENT, "command no-such-command-in-path");
	argv[0] = bench_file(b, "not-executable", "#!/bin/sh\n", 0644, path);
	check_not_startable(b, 3, &h, EACCES, "not-executable");
	argv[0] = bench_file(b, "no-interpreter", "#!/nonexistent/sh\n", 0755, path);
	check_not_startable(b, 4, &h, ENOENT, "no-interpreter");
	argv[0] = bench_file(b, "no-shebang", "echo hi\n", 0755, path);
	check_not_startable(b, 5, &h, ENOEXEC, "no-shebang");
	argv[0] = ARG("/etc/passwd/x");
	check_not_startable(b, 6, &h, ENOTDIR, "/etc/passwd/x");
	argv[0] = ARG("/");
	check_not_startable(b, 7, &h, EACCES, "command /");
	argv[0] = ARG("/bin/true");
	h.directory = ARG("/nonexistent/directory");
	check_not_startable(b, 8, &h, ENOENT, "directory /nonexistent/directory");
	h.directory = ARG("/etc/passwd");
	check_not_startable(b, 9, &h, ENOTDIR, "directory /etc/passwd");
	h.directory = NULL;
	h.user = ARG("no-such-user");
	check_not_startable(b, 10, &h, ESRCH, "user no-such-user");
	h.user = NULL;
	h.group = ARG("no-such-group");
	check_not_startable(b, 11, &h, ESRCH, "user no-such-group");
	check_not_startable(b, 12, NULL, ENOENT, "handler");
	bench_free(b);
}
END_TEST

START_TEST(EXE_05_arguments_that_are_too_long)
{
	struct bench *b = bench_new(NULL);
	char *big = must_zalloc(131073), *argv[] = { ARG("/bin/true"), big, NULL };
	struct handler h = bench_handler(argv);

	memset(big, 'x', 131072);
	check_not_startable(b, 1, &h, E2BIG, "command /bin/true");
	x_free(big);
	bench_free(b);
}
END_TEST

START_TEST(EXE_05_a_program_that_is_being_written)
{
	struct bench *b = bench_new(NULL);
	char path[128], *argv[] = { path, NULL };
	struct handler h = bench_handler(argv);
	int fd;

	bench_file(b, "busy", "#!/bin/sh\n", 0755, path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	check_not_startable(b, 1, &h, ETXTBSY, "busy");
	close(fd);
	ck_assert_int_eq(bench_play(b, 2, &h)->end.outcome, RUN_DONE);
	bench_free(b);
}
END_TEST

START_TEST(a_failed_start_leaves_no_process)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/nonexistent/command"), NULL };
	struct handler h = bench_handler(argv);

	bench_play(b, 1, &h);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
	bench_free(b);
}
END_TEST

/* ---- short of something ---- */

START_TEST(out_of_descriptors_is_not_started_and_tried_again_later)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);
	struct rlimit old, low;
	int free_fds;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	/* the pipe, the payload and the pidfd in turn find no place; then it fits */
	for (free_fds = 0; free_fds < 8; free_fds++) {
		struct run_start start = bench_run((uint64_t)free_fds + 1);
		struct str part = STR("payload");
		int top = dup(0);

		close(top);
		start.parts = &part;
		start.n_parts = 1;
		low = old;
		low.rlim_cur = (rlim_t)(top + free_fds);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
		bench_start_run(b, &start, &h);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		BENCH_UNTIL(b, b->n_ended + b->n_not_started > (size_t)free_fds);
		if (b->n_ended)
			break;
		ck_assert_int_eq(b->seen[start.run_id].error, EMFILE);
	}
	ck_assert_int_ge(free_fds, 3);
	ck_assert_int_lt(free_fds, 8);
	ck_assert_int_eq(b->seen[free_fds + 1].end.outcome, RUN_DONE);
	bench_free(b);
}
END_TEST

START_TEST(too_many_processes_is_not_started)
{
	struct bench *b = bench_new(NULL);
	struct handler h;

	if (geteuid() == 0) {
		h = bench_handler(SHELL("exec sleep 1000"));
		h.user = ARG("nobody");
		bench_start(b, 1, &h);
		bench_start(b, 2, &h);
		h.max_processes = 1;
		bench_start(b, 3, &h);
		BENCH_UNTIL(b, b->seen[3].not_started);
		ck_assert_int_eq(b->seen[3].error, EAGAIN);
		bench_kill_all(b, RUN_CANCELLED, 0);
		BENCH_UNTIL(b, b->n_ended == 2);
	}
	bench_free(b);
}
END_TEST

START_TEST(every_allocation_that_fails_is_survived)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("sh"), ARG("-c"), ARG("cat; echo x"), NULL };
	struct handler h = bench_handler(argv);
	struct str part = STR("payload");
	bool done = false;

	h.user = geteuid() == 0 ? ARG("nobody") : NULL;
	for (uint64_t i = 1; !done; i++) {
		struct run_start start = bench_run(i);

		ck_assert_uint_lt(i, 100);
		start.parts = &part;
		start.n_parts = 1;
		alloc_fault_set((int64_t)i - 1, 0);
		bench_start_run(b, &start, &h);
		alloc_fault_set(-1, 0);
		BENCH_UNTIL(b, b->n_ended + b->n_not_started == i);
		if (b->seen[i].not_started) {
			ck_assert_int_eq(b->seen[i].error, ENOMEM);
		} else if (b->seen[i].end.error) {
			/* only its watch was missing: it may have begun */
			ck_assert_int_eq(b->seen[i].end.error, ENOMEM);
			ck_assert_ptr_nonnull(strstr(b->seen[i].output, "watching"));
		} else {
			ck_assert_int_eq(b->seen[i].end.outcome, RUN_DONE);
			done = b->n_not_started > 5;
		}
	}
	bench_free(b);
}
END_TEST

START_TEST(a_process_that_cannot_be_watched_does_not_stay)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("exec sleep 1000"));

	b->rx.io_add_fails_in = 1;
	bench_play(b, 1, &h);
	ck_assert_int_eq(b->seen[1].end.error, ENOMEM);
	ck_assert_int_eq(b->seen[1].end.signal, 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	bench_free(b);
}
END_TEST

START_TEST(a_runner_that_cannot_be_made_leaves_nothing)
{
	struct poll_reactor rx;
	struct runner_config cfg = { .reactor = &rx.rx, .instance = "i", .socket = "s" };
	struct runner *r = NULL;
	int err = -ENOMEM;

	poll_reactor_init(&rx);
	for (int i = 0; err == -ENOMEM; i++) {
		ck_assert_int_lt(i, 10);
		ck_assert_ptr_null(r);
		alloc_fault_set(i, 0);
		err = runner_new(&cfg, &r);
		alloc_fault_set(-1, 0);
	}
	ck_assert_int_eq(err, 0);
	runner_free(r);
	runner_free(NULL);
	poll_reactor_done(&rx);
}
END_TEST

/* ---- EXE-01: time limits and kills ---- */

/* The pids that a script printed on its first line. */
static int
read_pids(const struct seen *s, pid_t pids[2])
{
	return sscanf(s->output, "%d %d", &pids[0], &pids[1]);
}

static void
check_all_gone(struct bench *b, uint64_t run_id)
{
	while (!group_is_dead(b->seen[run_id].pid))
		poll_reactor_turn(&b->rx, 10);
	ck_assert_uint_eq(runner_active(b->r), 0);
}

static void
check_timeout(char *script, int64_t grace_ns)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/sh"), ARG("-c"), script, NULL };
	struct handler h = bench_handler(argv);

	h.timeout_ns = NS_PER_S;
	h.grace_ns = grace_ns;
	ck_assert_int_eq(bench_play(b, 1, &h)->end.outcome, RUN_TIMEOUT);
	check_all_gone(b, 1);
	bench_free(b);
}

START_TEST(EXE_01_a_timeout_ends_the_whole_group)
{
	check_timeout(ARG("sleep 1000 & sleep 1000 & wait"), 60 * NS_PER_S);
}
END_TEST

START_TEST(EXE_01_a_group_that_ignores_term_is_killed_after_the_grace)
{
	check_timeout(ARG("trap '' TERM; sleep 1000 & sleep 1000 & wait"), NS_PER_S / 10);
}
END_TEST

START_TEST(EXE_01_a_stopped_group_is_ended_by_term_too)
{
	check_timeout(ARG("sleep 1000 & sleep 1000 & kill -STOP 0"), 60 * NS_PER_S);
}
END_TEST

/* Kills run 1 once its script has written to the fifo. */
static const struct seen *
kill_when_ready(struct bench *b, const char *format, int64_t grace_ns)
{
	char fifo[128], script[512], *argv[] = { ARG("/bin/sh"), ARG("-c"), script, NULL };
	struct handler h = bench_handler(argv);

	bench_fifo(b, fifo, sizeof fifo);
	snprintf(script, sizeof script, "ready='%s'; %s", fifo, format);
	h.grace_ns = grace_ns;
	bench_start(b, 1, &h);
	bench_fifo_wait(fifo);
	bench_kill(b, 1, RUN_CANCELLED);
	BENCH_UNTIL(b, b->seen[1].ended);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_CANCELLED);
	check_all_gone(b, 1);
	return &b->seen[1];
}

START_TEST(EXE_01_a_kill_that_is_ignored_becomes_a_real_one)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = kill_when_ready(
		b, "trap '' TERM; sleep 1000 & sleep 1000 & echo >$ready; wait", NS_PER_S / 10);

	ck_assert_int_eq(s->end.signal, SIGKILL);
	bench_free(b);
}
END_TEST

START_TEST(EXE_01_children_that_ignore_term_are_killed_though_the_shell_is_gone)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = kill_when_ready(
		b, "(trap '' TERM; echo >$ready; exec sleep 1000) & wait", NS_PER_S / 2);

	ck_assert_int_eq(s->end.signal, SIGTERM);
	bench_free(b);
}
END_TEST

START_TEST(the_grace_is_for_the_whole_group_not_for_its_leader_alone)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = kill_when_ready(b,
		"(trap 'sleep 0.3; echo cleaned up; exit' TERM; echo >$ready; "
		"while :; do sleep 0.1; done) & wait",
		60 * NS_PER_S);

	ck_assert_int_eq(s->end.signal, SIGTERM);
	ck_assert_ptr_nonnull(strstr(s->output, "cleaned up\n"));
	bench_free(b);
}
END_TEST

START_TEST(a_run_that_ends_well_after_term_is_still_a_killed_one)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = kill_when_ready(
		b, "trap 'exit 0' TERM; echo >$ready; while :; do sleep 0.1; done", 60 * NS_PER_S);

	ck_assert_int_eq(s->end.exit_code, 0);
	bench_free(b);
}
END_TEST

/* Documented: who leaves the session leaves the run; a later daemon's orphans_end finds it. */
START_TEST(EXE_01_a_setsid_grandchild_is_left_to_orphans_end)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = kill_when_ready(b,
		"setsid sh -c 'echo $$ 0; echo >\"$0\"; exec sleep 1000' $ready & wait", NS_PER_S);
	pid_t pids[2];

	ck_assert_int_eq(read_pids(s, pids), 2);
	ck_assert(is_alive(pids[0]));
	ck_assert_int_eq(orphans_end(b->instance, BENCH_WAIT_NS), 1);
	ck_assert(!is_alive(pids[0]));
	bench_free(b);
}
END_TEST

START_TEST(a_kill_is_reported_as_what_it_was_for)
{
	struct bench *b = bench_new(NULL);
	struct handler h =
		bench_handler(SHELL("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"));

	h.timeout_ns = 1000 * NS_PER_S;
	bench_start(b, 1, &h);
	bench_start(b, 2, &h);
	BENCH_UNTIL(b, b->seen[1].started && b->seen[2].started);
	bench_kill(b, 1, RUN_CANCELLED);
	bench_kill(b, 1, RUN_INTERRUPTED);
	bench_kill(b, 2, RUN_INTERRUPTED);
	BENCH_UNTIL(b, b->n_ended == 2);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_CANCELLED);
	ck_assert_int_eq(b->seen[2].end.outcome, RUN_INTERRUPTED);
	bench_free(b);
}
END_TEST

START_TEST(a_kill_right_after_the_start)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("exec sleep 1000"));

	bench_start(b, 1, &h);
	bench_kill(b, 1, RUN_CANCELLED);
	ck_assert(!b->seen[1].started);
	bench_kill_all(b, RUN_INTERRUPTED, 0);
	BENCH_UNTIL(b, b->seen[1].ended);
	ck_assert(b->seen[1].started);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_CANCELLED);
	ck_assert_int_ne(b->seen[1].end.signal, 0);
	bench_free(b);
}
END_TEST

static void
kill_it(struct bench *b, uint64_t run_id)
{
	runner_kill(b->r, run_id, RUN_CANCELLED);
}

START_TEST(a_kill_from_inside_the_started_callback)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("exec sleep 1000"));

	b->on_started = kill_it;
	bench_play(b, 1, &h);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_CANCELLED);
	bench_free(b);
}
END_TEST

START_TEST(a_kill_that_comes_too_late_changes_nothing)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);
	siginfo_t si;

	bench_kill(b, 1, RUN_CANCELLED); /* never heard of */
	bench_start(b, 1, &h);
	BENCH_UNTIL(b, b->seen[1].started);
	/* exited, not yet noticed */
	if (!b->seen[1].ended) {
		ck_assert_int_eq(waitid(P_PID, (id_t)b->seen[1].pid, &si, WEXITED | WNOWAIT), 0);
		bench_kill(b, 1, RUN_CANCELLED);
	}
	BENCH_UNTIL(b, b->seen[1].ended);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_DONE);
	bench_kill(b, 1, RUN_CANCELLED);
	poll_reactor_turn(&b->rx, 0);
	ck_assert_uint_eq(b->n_ended, 1);
	bench_free(b);
}
END_TEST

START_TEST(kill_all_can_shorten_the_grace)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("trap '' TERM; while :; do sleep 1000; done"));

	h.grace_ns = 1000 * NS_PER_S;
	for (uint64_t i = 1; i <= 3; i++)
		bench_start(b, i, &h);
	BENCH_UNTIL(b, b->seen[1].started && b->seen[2].started && b->seen[3].started);
	bench_kill(b, 1, RUN_CANCELLED);
	bench_kill_all(b, RUN_INTERRUPTED, -1);
	for (int i = 0; i < 3; i++)
		poll_reactor_turn(&b->rx, 10);
	bench_kill_all(b, RUN_INTERRUPTED, 0);
	BENCH_UNTIL(b, b->n_ended == 3);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_CANCELLED);
	ck_assert_int_eq(b->seen[2].end.outcome, RUN_INTERRUPTED);
	ck_assert_int_eq(b->seen[3].end.outcome, RUN_INTERRUPTED);
	bench_free(b);
}
END_TEST

/* ---- EXE-02: who holds the pipe ---- */

START_TEST(EXE_02_a_background_child_does_not_hold_up_the_end)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = bench_shell(b, 1, "sleep 1000 & echo $! 0");
	pid_t pids[2];

	ck_assert_int_eq(s->end.outcome, RUN_DONE);
	ck_assert_int_eq(s->end.exit_code, 0);
	ck_assert_int_eq(read_pids(s, pids), 2);
	wait_gone(pids[0]); /* documented: what is left of the group is killed */
	bench_free(b);
}
END_TEST

START_TEST(EXE_02_keep_children_leaves_it_alone)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("sleep 1000 & echo $! 0"));
	const struct seen *s;
	pid_t pids[2];

	h.keep_children = true;
	s = bench_play(b, 1, &h);
	ck_assert_int_eq(s->end.outcome, RUN_DONE);
	ck_assert_int_eq(read_pids(s, pids), 2);
	ck_assert(is_alive(pids[0]));
	kill(pids[0], SIGKILL);
	wait_gone(pids[0]);
	bench_free(b);
}
END_TEST

START_TEST(a_child_that_floods_the_pipe_does_not_hold_up_the_end)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("yes & echo"));

	h.output_max = 1000;
	bench_play(b, 1, &h);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_DONE);
	bench_free(b);
}
END_TEST

START_TEST(a_run_that_closes_its_output_early_is_waited_for)
{
	struct bench *b = bench_new(NULL);
	const struct seen *s = bench_shell(b, 1, "echo hi; exec >&- 2>&-; sleep 0.3; exit 3");

	ck_assert_int_eq(s->end.exit_code, 3);
	ck_assert_str_eq(s->output, "hi\n");
	bench_free(b);
}
END_TEST

/* ---- EXE-07, EXE-08 and many at once ---- */

/* All wait to read from a fifo; closing its other end releases them together. */
START_TEST(EXE_07_five_hundred_that_die_together_are_all_reaped)
{
	enum { MANY = 500 };
	struct bench *b = bench_new(NULL);
	char fifo[128], *argv[] = { ARG("/bin/cat"), fifo, NULL };
	struct handler h = bench_handler(argv);
	struct rlimit lim;
	int fd;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	bench_fifo(b, fifo, sizeof fifo);
	fd = open(fifo, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	for (uint64_t i = 0; i < MANY; i++)
		bench_start(b, i, &h);
	BENCH_UNTIL(b, b->seen[MANY - 1].started);
	ck_assert_uint_eq(b->n_ended, 0);
	ck_assert_uint_eq(runner_active(b->r), MANY);
	close(fd);
	while (b->n_ended < MANY) {
		poll_reactor_turn(&b->rx, 100);
		/* for those that open the fifo only now */
		fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
	}
	for (size_t i = 0; i < MANY; i++)
		ck_assert_int_eq(b->seen[i].end.outcome, RUN_DONE);
	ck_assert_uint_eq(runner_active(b->r), 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* no zombie */
	bench_free(b);
}
END_TEST

static long
resident_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(f);
	ck_assert_int_gt(kib, 0);
	return kib;
}

START_TEST(EXE_08_large_output_costs_no_memory_and_never_blocks)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("echo first; head -c 500000000 /dev/zero; "
					       "head -c 500000000 /dev/zero >&2"));
	long before = resident_kib();
	const struct seen *s = bench_play(b, 1, &h);

	ck_assert_int_eq(s->end.outcome, RUN_DONE);
	ck_assert_uint_eq(s->end.output.n, 65536);
	ck_assert(s->end.truncated);
	ck_assert_str_eq(strtok(s->output, "\n"), "first");
	ck_assert_int_lt(resident_kib() - before, 32 * 1024);
	bench_free(b);
}
END_TEST

START_TEST(output_of_exactly_the_cap_is_not_truncated)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("printf 12345678"));

	h.output_max = 8;
	ck_assert(!bench_play(b, 1, &h)->end.truncated);
	ck_assert_str_eq(b->seen[1].output, "12345678");
	h.output_max = 7;
	ck_assert(bench_play(b, 2, &h)->end.truncated);
	ck_assert_str_eq(b->seen[2].output, "1234567");
	h.output_max = 0;
	ck_assert(bench_play(b, 3, &h)->end.truncated);
	ck_assert_str_eq(b->seen[3].output, "");
	bench_free(b);
}
END_TEST

START_TEST(several_runs_at_once_do_not_mix)
{
	enum { MANY = 20 };
	struct bench *b = bench_new(NULL);
	struct handler h =
		bench_handler(SHELL("read x; for i in 1 2 3; do echo $x $i; done; exit $x"));

	for (uint64_t i = 1; i <= MANY; i++) {
		struct run_start start = bench_run(i);
		char text[16];
		struct str part;

		snprintf(text, sizeof text, "%d\n", (int)i);
		part = str_from(text);
		start.parts = &part;
		start.n_parts = 1;
		bench_start_run(b, &start, &h);
	}
	BENCH_UNTIL(b, b->n_ended == MANY);
	for (int i = 1; i <= MANY; i++) {
		char want[64];

		snprintf(want, sizeof want, "%d 1\n%d 2\n%d 3\n", i, i, i);
		ck_assert_int_eq(b->seen[i].end.exit_code, i);
		ck_assert_str_eq(b->seen[i].output, want);
	}
	bench_free(b);
}
END_TEST

static void
start_next(struct bench *b, uint64_t run_id)
{
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);
	struct run_start start = bench_run(run_id + 1);

	if (run_id < 10)
		bench_start_run(b, &start, run_id % 2 ? &h : NULL);
}

START_TEST(a_run_may_be_started_from_inside_the_end_of_another)
{
	struct bench *b = bench_new(NULL);

	b->on_ended = start_next;
	bench_start(b, 1, NULL);
	BENCH_UNTIL(b, b->seen[10].ended);
	ck_assert_uint_eq(b->n_ended, 10);
	bench_free(b);
}
END_TEST

/* A reload frees the handlers while their runs go on. */
START_TEST(a_handler_may_go_while_its_run_goes_on)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { must_strdup("/bin/sh"), must_strdup("-c"),
		must_strdup("trap '' TERM; sleep 1000"), NULL };
	char *env[] = { must_strdup("A=b"), NULL };
	struct handler *h = must_zalloc(sizeof *h);

	*h = bench_handler(argv);
	h->env = env;
	h->directory = must_strdup("/tmp");
	h->timeout_ns = NS_PER_S / 2;
	h->grace_ns = NS_PER_S / 10;
	bench_start(b, 1, h);
	for (int i = 0; i < 3; i++) {
		memset(argv[i], 'x', strlen(argv[i]));
		x_free(argv[i]);
	}
	x_free(env[0]);
	x_free(h->directory);
	memset(h, 0xff, sizeof *h);
	x_free(h);
	BENCH_UNTIL(b, b->seen[1].ended);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_TIMEOUT);
	ck_assert_int_eq(b->seen[1].end.signal, SIGKILL);
	bench_free(b);
}
END_TEST

/* A parent that ignores SIGCHLD passes that on; then the kernel keeps no exit status. */
START_TEST(an_ignored_sigchld_loses_no_exit_status)
{
	struct bench *b;

	signal(SIGCHLD, SIG_IGN);
	b = bench_new(NULL);
	ck_assert_int_eq(bench_shell(b, 1, "exit 7")->end.exit_code, 7);
	bench_free(b);
}
END_TEST

/* ---- orphans ---- */

START_TEST(orphans_of_another_instance_are_left_alone)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(SHELL("exec sleep 1000"));
	char other[80];

	ck_assert_int_eq(orphans_end(b->instance, BENCH_WAIT_NS), 0);
	bench_start(b, 1, &h);
	BENCH_UNTIL(b, b->seen[1].started);
	snprintf(other, sizeof other, "%sx", b->instance);
	ck_assert_int_eq(orphans_end(other, BENCH_WAIT_NS), 0);
	other[strlen(other) - 2] = '\0';
	ck_assert_int_eq(orphans_end(other, BENCH_WAIT_NS), 0);
	ck_assert_int_eq(orphans_end("", BENCH_WAIT_NS), -EINVAL);
	ck_assert(is_alive(b->seen[1].pid));
	ck_assert_int_eq(orphans_end(b->instance, BENCH_WAIT_NS), 1);
	ck_assert(!is_alive(b->seen[1].pid));
	BENCH_UNTIL(b, b->seen[1].ended);
	bench_free(b);
}
END_TEST

START_TEST(orphans_of_any_kind_are_ended)
{
	enum { MANY = 70 }; /* more than one batch */
	struct bench *b = bench_new(NULL);
	/* in the group, in a session of its own, and one that hides its environment */
	struct handler h = bench_handler(SHELL("setsid sleep 1000 & env -i sleep 1000 & echo $! 0; "
					       "exec 1>&-; exec sleep 1000"));
	pid_t pids[2];

	h.keep_children = true;
	for (uint64_t i = 1; i <= MANY; i++)
		bench_start(b, i, &h);
	BENCH_UNTIL(b, b->seen[MANY].started);
	ck_assert_int_ge(orphans_end(b->instance, BENCH_WAIT_NS), MANY);
	ck_assert_int_eq(orphans_end(b->instance, BENCH_WAIT_NS), 0);
	BENCH_UNTIL(b, b->n_ended == MANY);
	for (size_t i = 1; i <= MANY; i++) {
		ck_assert_int_eq(b->seen[i].end.signal, SIGKILL);
		if (read_pids(&b->seen[i], pids) == 2)
			wait_gone(pids[0]);
	}
	bench_free(b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("exec");
	TCase *tc = unit_case(s, "exec");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, a_run_is_told_started_then_ended_and_keeps_its_output);
	tcase_add_test(tc, EXE_05_exit_codes_and_signals_are_kept_apart);
	tcase_add_test(tc, EXE_05_a_command_that_cannot_start_fails_with_its_errno);
	tcase_add_test(tc, EXE_05_arguments_that_are_too_long);
	tcase_add_test(tc, EXE_05_a_program_that_is_being_written);
	tcase_add_test(tc, a_failed_start_leaves_no_process);
	tcase_add_test(tc, out_of_descriptors_is_not_started_and_tried_again_later);
	tcase_add_test(tc, too_many_processes_is_not_started);
	tcase_add_test(tc, every_allocation_that_fails_is_survived);
	tcase_add_test(tc, a_process_that_cannot_be_watched_does_not_stay);
	tcase_add_test(tc, a_runner_that_cannot_be_made_leaves_nothing);
	tcase_add_test(tc, EXE_01_a_timeout_ends_the_whole_group);
	tcase_add_test(tc, EXE_01_a_group_that_ignores_term_is_killed_after_the_grace);
	tcase_add_test(tc, EXE_01_a_kill_that_is_ignored_becomes_a_real_one);
	tcase_add_test(tc, a_run_that_ends_well_after_term_is_still_a_killed_one);
	tcase_add_test(tc, EXE_01_children_that_ignore_term_are_killed_though_the_shell_is_gone);
	tcase_add_test(tc, EXE_01_a_stopped_group_is_ended_by_term_too);
	tcase_add_test(tc, EXE_01_a_setsid_grandchild_is_left_to_orphans_end);
	tcase_add_test(tc, the_grace_is_for_the_whole_group_not_for_its_leader_alone);
	tcase_add_test(tc, a_kill_is_reported_as_what_it_was_for);
	tcase_add_test(tc, a_kill_right_after_the_start);
	tcase_add_test(tc, a_kill_from_inside_the_started_callback);
	tcase_add_test(tc, a_kill_that_comes_too_late_changes_nothing);
	tcase_add_test(tc, kill_all_can_shorten_the_grace);
	tcase_add_test(tc, EXE_02_a_background_child_does_not_hold_up_the_end);
	tcase_add_test(tc, EXE_02_keep_children_leaves_it_alone);
	tcase_add_test(tc, a_child_that_floods_the_pipe_does_not_hold_up_the_end);
	tcase_add_test(tc, a_run_that_closes_its_output_early_is_waited_for);
	tcase_add_test(tc, EXE_07_five_hundred_that_die_together_are_all_reaped);
	tcase_add_test(tc, EXE_08_large_output_costs_no_memory_and_never_blocks);
	tcase_add_test(tc, output_of_exactly_the_cap_is_not_truncated);
	tcase_add_test(tc, several_runs_at_once_do_not_mix);
	tcase_add_test(tc, a_run_may_be_started_from_inside_the_end_of_another);
	tcase_add_test(tc, a_handler_may_go_while_its_run_goes_on);
	tcase_add_test(tc, an_ignored_sigchld_loses_no_exit_status);
	tcase_add_test(tc, orphans_of_another_instance_are_left_alone);
	tcase_add_test(tc, orphans_of_any_kind_are_ended);
	return unit_run(s);
}
