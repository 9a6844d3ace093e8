/* sys: the service manager, played by a datagram socket and an environment. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/systemd.h"
#include "unit/unit.h"

#define FIRST_FD 3

static struct sockaddr_un manager_name;

/* An abstract name of the kernel's choice, and NOTIFY_SOCKET set to it. */
static int
manager_new(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	socklen_t n = sizeof manager_name;
	char name[64];

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof sun.sun_family), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&manager_name, &n), 0);
	snprintf(name, sizeof name, "@%.*s", (int)(n - sizeof sun.sun_family - 1),
		manager_name.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void
expect(int manager, const char *want)
{
	char got[1024] = "";
	ssize_t n = recv(manager, got, sizeof got - 1, 0);

	ck_assert_msg(n > 0, "nothing came; wanted %s", want);
	ck_assert_str_eq(got, want);
}

static struct systemd *
start(void)
{
	struct systemd *sd = NULL;
	const char *why = NULL;
	int err = systemd_new(&sd, &why);

	ck_assert_msg(err == 0, "%s", why ? why : "?");
	return sd;
}

/*
 * Passed descriptors begin at 3, where Check has its own: those tests run in a child of their own,
 * which returns the line of what was wrong, or 0.
 */
#define NEED(cond) \
	do { \
		if (!(cond)) \
			return __LINE__; \
	} while (0)

static void
in_child(int (*fn)(void))
{
	int out[2], line = -1;
	pid_t pid;

	ck_assert_int_eq(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		int to = fcntl(out[1], F_DUPFD, 100);

		for (int fd = FIRST_FD; fd < 100; fd++)
			close(fd);
		line = fn();
		_exit(write(to, &line, sizeof line) != sizeof line);
	}
	close(out[1]);
	ck_assert_int_eq(read(out[0], &line, sizeof line), sizeof line);
	close(out[0]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_msg(line == 0, "line %d", line);
}

static int
new_listener(int domain)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)domain };
	int fd = socket(domain, SOCK_STREAM, 0);
	socklen_t n = domain == AF_UNIX ? sizeof any.ss_family : sizeof any;

	return bind(fd, (struct sockaddr *)&any, n) == 0 && listen(fd, 1) == 0 ? fd : -1;
}

static void
pass_fds(const char *count, bool to_us)
{
	char pid[32];

	snprintf(pid, sizeof pid, "%d", getpid() + !to_us);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_FDNAMES", "a:b", 1);
}

static bool
refused(const char *count, const char *part)
{
	struct systemd *sd = NULL;
	const char *why = "";

	pass_fds(count, true);
	return systemd_new(&sd, &why) == ERR_BAD_VALUE && !sd && strstr(why, part) &&
		!getenv("LISTEN_FDS");
}

START_TEST(each_state_is_told)
{
	int manager = manager_new();
	struct systemd *sd = start();
	char got[256] = "", rest[2];
	long long us;

	systemd_status(sd, "recovering %d\nREADY=1", 7);
	expect(manager, "STATUS=recovering 7 READY=1");
	systemd_extend_timeout(sd, 90 * NS_PER_S);
	expect(manager, "EXTEND_TIMEOUT_USEC=90000000");
	systemd_ready(sd);
	expect(manager, "READY=1");
	systemd_watchdog_ping(sd);
	expect(manager, "WATCHDOG=1");
	systemd_reloading(sd);
	ck_assert_int_gt(recv(manager, got, sizeof got - 1, 0), 0);
	ck_assert_int_eq(sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%lld%1s", &us, rest), 1);
	ck_assert_int_gt(us, 0);
	systemd_stopping(sd);
	expect(manager, "STOPPING=1");
	systemd_free(sd);
	close(manager);
}
END_TEST

START_TEST(a_manager_that_does_not_read_holds_nobody_up)
{
	int manager = manager_new();
	struct systemd *sd = start();

	for (int i = 0; i < 10000; i++)
		systemd_watchdog_ping(sd);
	systemd_free(sd);
	close(manager);
}
END_TEST

START_TEST(without_a_manager_all_is_quiet)
{
	struct systemd *sd = start();

	systemd_ready(sd);
	systemd_status(sd, "%s", "x");
	systemd_stopping(sd);
	ck_assert_uint_eq(systemd_listen_count(sd), 0);
	ck_assert_int_eq(systemd_watchdog_ns(sd), 0);
	ck_assert(!systemd_stderr_is_journal(sd));
	systemd_free(sd);
	systemd_free(NULL);
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	sd = start();
	systemd_ready(sd);
	systemd_free(sd);
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	sd = start();
	systemd_ready(sd);
	systemd_free(sd);
}
END_TEST

START_TEST(children_see_none_of_it)
{
	static const char *const names[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
		"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "JOURNAL_STREAM" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		setenv(names[i], "1", 1);
	systemd_free(start());
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_ptr_null(getenv(names[i]));
}
END_TEST

static int64_t
watchdog_of(const char *usec, const char *pid)
{
	struct systemd *sd;
	int64_t ns;

	setenv("WATCHDOG_USEC", usec, 1);
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	sd = start();
	ns = systemd_watchdog_ns(sd);
	systemd_free(sd);
	return ns;
}

START_TEST(the_watchdog_is_half_of_its_time_and_ours)
{
	char own[32];

	snprintf(own, sizeof own, "%d", getpid());
	ck_assert_int_eq(watchdog_of("30000000", NULL), 15 * NS_PER_S);
	ck_assert_int_eq(watchdog_of("30000000", own), 15 * NS_PER_S);
	ck_assert_int_eq(watchdog_of("30000000", "1"), 0);
	ck_assert_int_eq(watchdog_of("soon", NULL), 0);
	ck_assert_int_eq(watchdog_of("18446744073709551615", NULL), 0);
}
END_TEST

START_TEST(the_journal_is_known_by_its_inode)
{
	struct systemd *sd;
	char text[64];
	struct stat st;

	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(text, sizeof text, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", text, 1);
	sd = start();
	ck_assert(systemd_stderr_is_journal(sd));
	systemd_free(sd);
	snprintf(text, sizeof text, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + 1);
	setenv("JOURNAL_STREAM", text, 1);
	sd = start();
	ck_assert(!systemd_stderr_is_journal(sd));
	systemd_free(sd);
}
END_TEST

static int
take_one_of_two(void)
{
	struct systemd *sd = NULL;
	const char *why;

	NEED(new_listener(AF_UNIX) == FIRST_FD && new_listener(AF_INET6) == FIRST_FD + 1);
	pass_fds("2", true);
	NEED(systemd_new(&sd, &why) == 0);
	NEED(systemd_listen_count(sd) == 2);
	NEED(systemd_listen_take(sd, 1) == FIRST_FD + 1);
	NEED(fcntl(FIRST_FD + 1, F_GETFD) == FD_CLOEXEC);
	systemd_free(sd);
	NEED(fcntl(FIRST_FD, F_GETFD) == -1);
	NEED(fcntl(FIRST_FD + 1, F_GETFD) >= 0);
	return 0;
}

START_TEST(passed_sockets_are_taken_or_closed)
{
	in_child(take_one_of_two);
}
END_TEST

static int
pass_nonsense(void)
{
	NEED(refused("1", "not open"));
	NEED(open("/dev/null", O_RDONLY) == FIRST_FD);
	NEED(refused("1", "no socket"));
	close(FIRST_FD);
	NEED(socket(AF_UNIX, SOCK_STREAM, 0) == FIRST_FD);
	NEED(refused("1", "no listening stream socket"));
	close(FIRST_FD);
	NEED(socket(AF_UNIX, SOCK_DGRAM, 0) == FIRST_FD);
	NEED(refused("1", "no listening stream socket"));
	NEED(refused("1000000", "LISTEN_FDS"));
	NEED(refused("-1", "LISTEN_FDS"));
	NEED(refused("", "LISTEN_FDS"));
	NEED(refused("2147483648", "LISTEN_FDS"));
	return 0;
}

START_TEST(what_is_no_listener_is_refused)
{
	in_child(pass_nonsense);
}
END_TEST

static int
pass_to_another(void)
{
	struct systemd *sd = NULL;
	const char *why;

	NEED(open("/dev/null", O_RDONLY) == FIRST_FD);
	pass_fds("1", false);
	NEED(systemd_new(&sd, &why) == 0);
	NEED(systemd_listen_count(sd) == 0);
	systemd_free(sd);
	NEED(fcntl(FIRST_FD, F_GETFD) == 0);
	setenv("LISTEN_FDS", "1", 1);
	NEED(systemd_new(&sd, &why) == 0);
	NEED(systemd_listen_count(sd) == 0);
	systemd_free(sd);
	return 0;
}

START_TEST(sockets_for_another_process_are_not_touched)
{
	in_child(pass_to_another);
}
END_TEST

START_TEST(no_memory_is_an_error)
{
	struct systemd *sd = NULL;
	const char *why = NULL;

	alloc_fault_set(0, 0);
	ck_assert_int_eq(systemd_new(&sd, &why), -ENOMEM);
	alloc_fault_set(-1, 0);
	ck_assert_ptr_nonnull(why);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("systemd");
	TCase *tc = unit_case(s, "systemd");

	tcase_add_test(tc, each_state_is_told);
	tcase_add_test(tc, a_manager_that_does_not_read_holds_nobody_up);
	tcase_add_test(tc, without_a_manager_all_is_quiet);
	tcase_add_test(tc, children_see_none_of_it);
	tcase_add_test(tc, the_watchdog_is_half_of_its_time_and_ours);
	tcase_add_test(tc, the_journal_is_known_by_its_inode);
	tcase_add_test(tc, passed_sockets_are_taken_or_closed);
	tcase_add_test(tc, what_is_no_listener_is_refused);
	tcase_add_test(tc, sockets_for_another_process_are_not_touched);
	tcase_add_test(tc, no_memory_is_an_error);
	return unit_run(s);
}
