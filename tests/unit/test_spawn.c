/* run: what a child finds around it: environment, descriptors, signals, limits, user. */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "unit/exec_bench.h"

#define ARG(s) ((char[]){ s })

/* ---- the child's side: this program, called with --report ---- */

static void
report_fds(void)
{
	printf("fds");
	for (int fd = 0; fd < 20000; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf(" %d", fd);
	printf("\n");
}

static void
report_signals(void)
{
	sigset_t blocked;
	struct sigaction sa;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	printf("blocked");
	for (int sig = 1; sig < _NSIG; sig++)
		if (sigismember(&blocked, sig) == 1)
			printf(" %d", sig);
	printf("\nignored");
	for (int sig = 1; sig < _NSIG; sig++)
		if (sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			printf(" %d", sig);
	printf("\n");
}

static void
report_limit(const char *name, __rlimit_resource_t what)
{
	struct rlimit lim;

	getrlimit(what, &lim);
	printf("%s %ju %ju\n", name, (uintmax_t)lim.rlim_cur, (uintmax_t)lim.rlim_max);
}

static void
report_user(void)
{
	uid_t r, e, s;
	gid_t groups[64];
	int n = getgroups(64, groups);

	getresuid(&r, &e, &s);
	printf("uid %u %u %u\n", r, e, s);
	getresgid(&r, &e, &s);
	printf("gid %u %u %u\n", r, e, s);
	printf("groups");
	for (int i = 0; i < n; i++)
		printf(" %u", groups[i]);
	printf("\nregain %d\n", setuid(0));
}

static int
report(void)
{
	char dir[256];
	mode_t mask = umask(0);

	report_fds();
	report_signals();
	printf("umask %03o\n", (unsigned)mask);
	printf("directory %s\n", getcwd(dir, sizeof dir));
	printf("leader %d\n", getsid(0) == getpid() && getpgrp() == getpid());
	printf("terminal %d\n", open("/dev/tty", O_RDWR) >= 0);
	printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
	report_limit("nofile", RLIMIT_NOFILE);
	report_limit("nproc", RLIMIT_NPROC);
	report_user();
	return 0;
}

/* ---- asking it ---- */

/* This program where every user may run it: the build folder need not be such a place. */
static void
put_self(const struct bench *b, char *path, size_t size)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t n;

	snprintf(path, size, "%s/report", b->dir);
	to = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
	ck_assert(from >= 0 && to >= 0);
	do
		n = sendfile(to, from, NULL, 1 << 20);
	while (n > 0);
	ck_assert_int_eq(n, 0);
	close(from);
	close(to);
}

static const char *
play_report(struct bench *b, uint64_t id, const struct handler *like)
{
	char path[128], *argv[] = { path, ARG("--report"), NULL };
	struct handler h = like ? *like : bench_handler(argv);
	const struct seen *s;

	put_self(b, path, sizeof path);
	h.command = argv;
	s = bench_play(b, id, &h);
	ck_assert_msg(s->ended && s->end.outcome == RUN_DONE, "%s", s->output);
	return s->output;
}

/* `line` as a whole line of `text`. */
static void
check_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : p)
		if (strncmp(p, line, n) == 0 && p[n] == '\n')
			return;
	ck_abort_msg("no line \"%s\" in:\n%s", line, text);
}

/* ---- environment ---- */

START_TEST(the_environment_is_exactly_the_documented_one)
{
	struct bench *b = bench_new("unix:/run/wqd/wqd.sock");
	char *argv[] = { ARG("/usr/bin/env"), NULL };
	char *env[] = { ARG("MINE=yes"), ARG("LANG=de_DE.UTF-8"), ARG("WQ_INSTANCE=hidden"),
		ARG("EMPTY="), NULL };
	struct handler h = bench_handler(argv);
	struct str parts[] = { STR("a"), STR("b") };
	struct run_start start = bench_run(9);
	const struct passwd *me = getpwuid(geteuid());
	char want[1024];

	ck_assert_ptr_nonnull(me);
	setenv("LEAK", "1", 1);
	h.env = env;
	start.token = UINT64_MAX;
	start.queue = STR("mail/../x");
	start.key = STR("k=1 'two'\"\xc3\xa4");
	start.generation = 3000000000000;
	start.attempt = 4;
	start.coalesced = 99;
	start.due_wall_ns = 1767225600123999999;
	start.parts = parts;
	start.n_parts = 2;
	bench_start_run(b, &start, &h);
	BENCH_UNTIL(b, b->seen[9].ended);
	snprintf(want, sizeof want,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
		"HOME=%s\nUSER=%s\nLOGNAME=%s\nLANG=de_DE.UTF-8\n"
		"WQ_QUEUE=../x\nWQ_NAMESPACE=mail\nWQ_KEY=k=1 "
		"'two'\"\xc3\xa4\nWQ_GENERATION=3000000000000\n"
		"WQ_ATTEMPT=4\nWQ_COALESCED=99\nWQ_DEADLINE_MS=1767225600123\nWQ_PARTS=2\n"
		"WQ_RUN_ID=9\nWQ_RUN_TOKEN=18446744073709551615\nWQ_INSTANCE=%s\n"
		"WQ_SERVER=unix:/run/wqd/wqd.sock\nMINE=yes\nEMPTY=\n",
		me->pw_dir, me->pw_name, me->pw_name, b->instance);
	ck_assert_str_eq(b->seen[9].output, want);
	unsetenv("LEAK");
	bench_free(b);
}
END_TEST

START_TEST(the_longest_names_fit_into_the_environment)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/usr/bin/env"), NULL };
	struct handler h = bench_handler(argv);
	struct run_start start = bench_run(1);
	char name[KEY_MAX + 1];

	memset(name, 'n', sizeof name);
	start.run_id = 1;
	start.queue = (struct str){ name, QUEUE_NAME_MAX };
	start.key = (struct str){ name, KEY_MAX };
	start.generation = UINT64_MAX;
	start.attempt = start.coalesced = UINT32_MAX;
	start.due_wall_ns = INT64_MIN;
	bench_start_run(b, &start, &h);
	BENCH_UNTIL(b, b->seen[1].ended);
	ck_assert_int_eq(b->seen[1].end.outcome, RUN_DONE);
	ck_assert_ptr_nonnull(strstr(b->seen[1].output, "WQ_GENERATION=18446744073709551615\n"));
	ck_assert_ptr_null(strstr(b->seen[1].output, "WQ_SERVER"));
	bench_free(b);
}
END_TEST

static void
put_script(const char *dir, const char *name, mode_t mode, const char *says)
{
	char path[300], text[128];
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, mode);
	ck_assert_int_ge(fd, 0);
	snprintf(text, sizeof text, "#!/bin/sh\necho %s\n", says);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

START_TEST(the_command_is_searched_in_the_path_of_the_handler)
{
	struct bench *b = bench_new(NULL);
	char path[300], *argv[] = { ARG("wq-tool"), NULL };
	char *env[] = { path, NULL };
	struct handler h = bench_handler(argv);

	setenv("PATH", b->dir, 1);
	put_script(b->dir, "wq-tool", 0755, "found");
	ck_assert_int_eq(
		bench_play(b, 1, &h)->end.error, ENOENT); /* the daemon's PATH is not ours */
	h.env = env;
	snprintf(path, sizeof path, "PATH=/nonexistent:%s/", b->dir);
	ck_assert_str_eq(bench_play(b, 2, &h)->output, "found\n");
	snprintf(path, sizeof path, "PATH=/etc/passwd::/nonexistent");
	h.directory = b->dir; /* an empty part is the directory */
	ck_assert_str_eq(bench_play(b, 3, &h)->output, "found\n");
	h.directory = NULL;
	snprintf(path, sizeof path, "PATH=%s:/nonexistent", b->dir);
	put_script(b->dir, "no-tool", 0644, "never");
	argv[0] = ARG("no-tool");
	ck_assert_int_eq(bench_play(b, 4, &h)->end.error, EACCES);
	argv[0] = ARG("");
	ck_assert_int_eq(bench_play(b, 5, &h)->end.error, ENOENT);
	bench_free(b);
}
END_TEST

/* ---- stdin ---- */

static const char *
play_cat(struct bench *b, uint64_t id, const char *command, const struct str *parts, size_t n)
{
	char *argv[] = { ARG("/bin/sh"), ARG("-c"), must_strdup(command), NULL };
	struct handler h = bench_handler(argv);
	struct run_start start = bench_run(id);

	start.parts = parts;
	start.n_parts = n;
	bench_start_run(b, &start, &h);
	BENCH_UNTIL(b, b->seen[id].ended);
	ck_assert_int_eq(b->seen[id].end.outcome, RUN_DONE);
	x_free(argv[2]);
	return b->seen[id].output;
}

START_TEST(the_payload_is_on_stdin)
{
	struct bench *b = bench_new(NULL);
	struct str parts[] = { STR("one\0two"), STR(""), STR("three\n") };
	char *big = must_alloc(PAYLOAD_MAX);
	struct str large = { big, PAYLOAD_MAX };

	memset(big, 'x', PAYLOAD_MAX);
	ck_assert_str_eq(play_cat(b, 1, "readlink /proc/self/fd/0", NULL, 0), "/dev/null\n");
	ck_assert_str_eq(play_cat(b, 2, "readlink /proc/self/fd/0", &parts[1], 1), "/dev/null\n");
	play_cat(b, 3, "cat", parts, 1);
	ck_assert_uint_eq(b->seen[3].end.output.n, 7);
	ck_assert_int_eq(memcmp(b->seen[3].output, "one\0two", 7), 0);
	play_cat(b, 4, "cat", parts, 3);
	ck_assert_uint_eq(b->seen[4].end.output.n, 8 + 1 + 7);
	ck_assert_int_eq(memcmp(b->seen[4].output, "one\0two\n\nthree\n\n", 16), 0);
	ck_assert_str_eq(play_cat(b, 5, "wc -c", &large, 1), "1048576\n");
	/* a run that does not read it holds up nobody, and one may read it twice */
	ck_assert_str_eq(play_cat(b, 6, "true", &large, 1), "");
	ck_assert_str_eq(
		play_cat(b, 7, "wc -c; wc -c </dev/stdin", &large, 1), "1048576\n1048576\n");
	x_free(big);
	bench_free(b);
}
END_TEST

/* ---- descriptors and signals ---- */

static void
on_signal(int sig)
{
	(void)sig;
	ck_abort_msg("a handler of the daemon ran");
}

START_TEST(children_get_clean_descriptors_and_signals)
{
	struct bench *b = bench_new(NULL);
	sigset_t some, old, now;
	int low = dup(0), high = fcntl(0, F_DUPFD, 900);
	const char *text;

	ck_assert_int_ge(high, 900);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGRTMIN + 1, SIG_IGN);
	signal(SIGUSR1, on_signal);
	sigemptyset(&some);
	sigaddset(&some, SIGTERM);
	sigaddset(&some, SIGUSR2);
	sigaddset(&some, SIGRTMIN + 2);
	sigprocmask(SIG_SETMASK, &some, &old);
	text = play_report(b, 1, NULL);
	check_line(text, "fds 0 1 2");
	check_line(text, "blocked");
	check_line(text, "ignored");
	check_line(text, "leader 1");
	check_line(text, "terminal 0");
	/* and ours are as they were */
	sigprocmask(SIG_SETMASK, &old, &now);
	for (int sig = 1; sig < _NSIG; sig++)
		ck_assert_int_eq(sigismember(&now, sig), sigismember(&some, sig));
	ck_assert(signal(SIGUSR1, SIG_DFL) == on_signal);
	ck_assert(signal(SIGPIPE, SIG_DFL) == SIG_IGN);
	signal(SIGHUP, SIG_DFL);
	signal(SIGRTMIN + 1, SIG_DFL);
	close(low);
	close(high);
	bench_free(b);
}
END_TEST

/* A daemon that was started without them: what the runner opens takes the numbers 0 to 2. */
START_TEST(children_get_descriptors_though_the_daemon_has_none)
{
	int saved[3];
	struct bench *b;
	const char *text;

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		close(fd);
	}
	b = bench_new(NULL);
	text = play_report(b, 1, NULL);
	for (int fd = 0; fd < 3; fd++) {
		int spare = fcntl(fd, F_GETFD) >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 20) : -1;

		ck_assert(spare < 0 || spare >= 20);
		if (spare >= 0)
			close(spare);
	}
	ck_assert_msg(strncmp(text, "fds 0 1 2\n", 10) == 0, "%s", text);
	bench_free(b);
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}
END_TEST

/* ---- surroundings ---- */

START_TEST(umask_directory_limits_and_priority_are_the_handlers)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(NULL);
	char line[64];
	const char *text;

	h.umask = 027;
	h.directory = ARG("/usr");
	h.max_files = 77;
	h.max_processes = 7777;
	h.nice = 3;
	text = play_report(b, 1, &h);
	check_line(text, "umask 027");
	check_line(text, "directory /usr");
	check_line(text, "nofile 77 77");
	check_line(text, "nproc 7777 7777");
	snprintf(line, sizeof line, "nice %d", getpriority(PRIO_PROCESS, 0) + 3);
	check_line(text, line);
	bench_free(b);
}
END_TEST

START_TEST(without_limits_of_their_own_children_may_open_1024_files)
{
	struct bench *b = bench_new(NULL);
	struct rlimit old, lim;
	char line[64];

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	lim = old;
	lim.rlim_cur = lim.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	snprintf(line, sizeof line, "nofile %ju %ju",
		(uintmax_t)(lim.rlim_max < 1024 ? lim.rlim_max : 1024), (uintmax_t)lim.rlim_max);
	check_line(play_report(b, 1, NULL), line);
	check_line(b->seen[1].output, "directory /");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	bench_free(b);
}
END_TEST

/* Asked of a shell: this program may be built with a sanitizer, which needs it all. */
START_TEST(memory_is_limited)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/sh"), ARG("-c"), ARG("ulimit -v; ulimit -Hv"), NULL };
	struct handler h = bench_handler(argv);

	h.max_memory = 8ull << 30;
	ck_assert_str_eq(bench_play(b, 1, &h)->output, "8388608\n8388608\n");
	bench_free(b);
}
END_TEST

START_TEST(too_little_memory_is_a_failed_run)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);

	h.max_memory = 65536;
	ck_assert_int_eq(bench_play(b, 1, &h)->end.outcome, RUN_FAILED);
	ck_assert_int_eq(b->seen[1].end.error, 0);
	bench_free(b);
}
END_TEST

/* ---- user ---- */

START_TEST(root_changes_to_the_user_of_the_handler_for_good)
{
	struct bench *b = bench_new(NULL);
	struct handler h = bench_handler(NULL);
	gid_t extra[] = { 4242 };
	const char *text;

	if (geteuid() == 0) {
		ck_assert_int_eq(setgroups(1, extra), 0);
		h.user = ARG("nobody");
		text = play_report(b, 1, &h);
		check_line(text, "uid 65534 65534 65534");
		check_line(text, "gid 65534 65534 65534");
		check_line(text, "groups 65534");
		check_line(text, "regain -1");
		h.user = ARG("65534");
		h.group = ARG("daemon");
		text = play_report(b, 2, &h);
		check_line(text, "uid 65534 65534 65534");
		check_line(text, "gid 1 1 1");
		h.user = NULL;
		h.group = ARG("12345");
		text = play_report(b, 3, &h);
		check_line(text, "uid 0 0 0");
		check_line(text, "gid 12345 12345 12345");
		h.user = ARG("root");
		h.group = NULL;
		check_line(play_report(b, 4, &h), "uid 0 0 0");
		ck_assert_int_eq(setgroups(0, NULL), 0);
	}
	bench_free(b);
}
END_TEST

START_TEST(the_user_has_its_own_home_and_may_reopen_its_output)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/sh"), ARG("-c"),
		ARG("echo $HOME $USER $LOGNAME; cat /dev/stdin; echo err >/dev/stderr"), NULL };
	struct handler h = bench_handler(argv);
	struct run_start start = bench_run(1);
	struct str part = STR("payload\n");

	if (geteuid() == 0) {
		h.user = ARG("nobody");
		start.parts = &part;
		start.n_parts = 1;
		bench_start_run(b, &start, &h);
		BENCH_UNTIL(b, b->seen[1].ended);
		ck_assert_str_eq(b->seen[1].output, "/nonexistent nobody nobody\npayload\nerr\n");
	}
	bench_free(b);
}
END_TEST

START_TEST(directory_and_command_are_reached_as_the_user)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);

	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(b->dir, 0700), 0);
		h.directory = b->dir;
		ck_assert_int_eq(bench_play(b, 1, &h)->end.outcome, RUN_DONE);
		h.user = ARG("nobody");
		ck_assert_int_eq(bench_play(b, 2, &h)->end.error, EACCES);
		ck_assert_ptr_nonnull(strstr(b->seen[2].output, "directory"));
	}
	bench_free(b);
}
END_TEST

/* Everything that needs privileges fails with EPERM, and names the step. */
START_TEST(without_root_no_other_user)
{
	struct bench *b = bench_new(NULL);
	char *argv[] = { ARG("/bin/true"), NULL };
	struct handler h = bench_handler(argv);

	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	h.user = ARG("daemon");
	ck_assert_int_eq(bench_play(b, 1, &h)->end.error, EPERM);
	ck_assert_ptr_nonnull(strstr(b->seen[1].output, "change of groups daemon"));
	h.user = NULL;
	h.nice = -5;
	ck_assert_int_eq(bench_play(b, 2, &h)->end.error, EACCES);
	ck_assert_ptr_nonnull(strstr(b->seen[2].output, "priority"));
	h.nice = 0;
	h.max_files = 1ull << 40;
	ck_assert_int_eq(bench_play(b, 3, &h)->end.error, EPERM);
	ck_assert_ptr_nonnull(strstr(b->seen[3].output, "resource limits"));
	h.max_files = 0;
	ck_assert_int_eq(bench_play(b, 4, &h)->end.outcome, RUN_DONE);
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	bench_free(b);
}
END_TEST

/* ---- an old kernel, or a filter that does not know close_range ---- */

static void
forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_SIZE(code), .filter = code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

/* The filter stays with the process: the last test. */
START_TEST(descriptors_are_closed_without_close_range_too)
{
	struct bench *b = bench_new(NULL);
	int fds[200];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = fcntl(0, F_DUPFD, 100);
	forbid_close_range();
	check_line(play_report(b, 1, NULL), "fds 0 1 2");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	bench_free(b);
}
END_TEST

int
main(int argc, char **argv)
{
	Suite *s;
	TCase *tc;

	if (argc > 1 && strcmp(argv[1], "--report") == 0)
		return report();
	s = suite_create("spawn");
	tc = unit_case(s, "spawn");
	tcase_add_test(tc, the_environment_is_exactly_the_documented_one);
	tcase_add_test(tc, the_longest_names_fit_into_the_environment);
	tcase_add_test(tc, the_command_is_searched_in_the_path_of_the_handler);
	tcase_add_test(tc, the_payload_is_on_stdin);
	tcase_add_test(tc, children_get_clean_descriptors_and_signals);
	tcase_add_test(tc, children_get_descriptors_though_the_daemon_has_none);
	tcase_add_test(tc, umask_directory_limits_and_priority_are_the_handlers);
	tcase_add_test(tc, without_limits_of_their_own_children_may_open_1024_files);
	tcase_add_test(tc, memory_is_limited);
	tcase_add_test(tc, too_little_memory_is_a_failed_run);
	tcase_add_test(tc, root_changes_to_the_user_of_the_handler_for_good);
	tcase_add_test(tc, the_user_has_its_own_home_and_may_reopen_its_output);
	tcase_add_test(tc, directory_and_command_are_reached_as_the_user);
	tcase_add_test(tc, without_root_no_other_user);
	tcase_add_test(tc, descriptors_are_closed_without_close_range_too);
	return unit_run(s);
}
