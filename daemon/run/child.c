/*
 * The child's side of a start: from the clone to the new program.
 *
 * It runs in the daemon's memory on a small stack of its own, while the thread
 * that made it sleeps and other threads go on. So nothing here may allocate,
 * take a lock, or call what keeps state in the library: glibc's setuid and
 * setgroups would tell the daemon's other threads to change too, and a
 * sanitizer's sigaction would note the change for the daemon. Such calls are
 * made as plain system calls, and nothing here is instrumented.
 *
 * The steps are a table, in the one order that works: limits and priority while
 * still privileged; groups before the user; the directory as the user who must
 * be able to enter it; signals let through last.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "run/spawn.h"

#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#define NO_INSTRUMENTS __attribute__((disable_sanitizer_instrumentation))
#endif
#endif
#ifndef NO_INSTRUMENTS
#define NO_INSTRUMENTS
#endif
#define CHILD_SIDE __attribute__((no_sanitize("address", "undefined", "thread"))) NO_INSTRUMENTS

/* 32-bit machines have a second generation of these with wide ids. */
#ifdef SYS_setresuid32
#define CALL_SETGROUPS SYS_setgroups32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETRESUID SYS_setresuid32
#else
#define CALL_SETGROUPS SYS_setgroups
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETRESUID SYS_setresuid
#endif

#define FIRST_OTHER_FD 3
#define LOWEST         19
#define OOM_SCORE      "500"
#define DEFAULT_FILES  1024

/* A session of its own: a process group that nobody else is in, and no terminal to read
 * passwords from or to be stopped by. */
CHILD_SIDE static int
step_session(const struct spawn *s)
{
	(void)s;
	return setsid() < 0 ? errno : 0;
}

/* Before anything else, so that all it does is counted there. And should memory run out, runs go
 * before the daemon: nobody is kept from offering himself. */
CHILD_SIDE static int
step_cgroup(const struct spawn *s)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, OOM_SCORE, sizeof OOM_SCORE - 1);
		close(fd);
	}
	return s->cgroup_fd >= 0 && write(s->cgroup_fd, "0", 1) < 0 ? errno : 0;
}

/* What a kernel's getdents64 fills. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

CHILD_SIDE static int
entry_fd(const char *name)
{
	int n = 0;

	if (*name < '0' || *name > '9')
		return -1;
	for (; *name >= '0' && *name <= '9'; name++)
		n = n * 10 + (*name - '0');
	return n;
}

/* Closes what /proc/self/fd lists; -1 where there is no such thing. */
CHILD_SIDE static int
close_listed(int from)
{
	char room[1024] __attribute__((aligned(8)));
	long dir = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY), n;

	if (dir < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, dir, room, sizeof room)) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(const void *)(room + at);
			int fd = entry_fd(e->name);

			if (fd >= from && fd != dir)
				syscall(SYS_close, fd);
			at += e->len;
		}
	}
	syscall(SYS_close, dir);
	return n < 0 ? -1 : 0;
}

/* Libraries open descriptors without asking; close-on-exec alone is a promise of others. */
CHILD_SIDE static void
close_others(int from)
{
	struct rlimit lim;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, from, ~0u, 0) == 0)
		return;
#endif
	if (close_listed(from) == 0 || getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	for (rlim_t fd = (rlim_t)from; fd < lim.rlim_cur && fd < INT_MAX; fd++)
		syscall(SYS_close, (int)fd);
}

/* Where a descriptor stands in the way of 0 to 2 (a daemon started without them), move it. */
CHILD_SIDE static int
out_of_the_way(int fd)
{
	return fd < FIRST_OTHER_FD ? fcntl(fd, F_DUPFD, FIRST_OTHER_FD) : fd;
}

/* What was at 3 is at 0 to 2 by now, or of no use here. */
CHILD_SIDE static int
give_socket(int fd)
{
	if (fd == FIRST_OTHER_FD)
		return fcntl(fd, F_SETFD, 0);
	return dup2(fd, FIRST_OTHER_FD);
}

CHILD_SIDE static int
step_stdio(const struct spawn *s)
{
	int in = out_of_the_way(s->in_fd), out = out_of_the_way(s->out_fd);

	if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
		dup2(out, STDERR_FILENO) < 0)
		return errno;
	if (s->has_sock && give_socket(s->sock_fd) < 0)
		return errno;
	close_others(s->has_sock ? FIRST_OTHER_FD + 1 : FIRST_OTHER_FD);
	umask(s->umask);
	return 0;
}

CHILD_SIDE static int
limit(int what, uint64_t soft_and_hard)
{
	struct rlimit lim = { .rlim_cur = soft_and_hard, .rlim_max = soft_and_hard };

	if (soft_and_hard == 0)
		return 0;
	return setrlimit((__rlimit_resource_t)what, &lim) < 0 ? errno : 0;
}

/* The daemon's own limit is high for its connections. Programs that use select(), or close
 * everything up to the limit, expect the usual one; who needs more may raise it. */
CHILD_SIDE static int
limit_files_default(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return errno;
	if (lim.rlim_cur <= DEFAULT_FILES)
		return 0;
	lim.rlim_cur = DEFAULT_FILES;
	return setrlimit(RLIMIT_NOFILE, &lim) < 0 ? errno : 0;
}

CHILD_SIDE static int
step_limits(const struct spawn *s)
{
	int err = limit(RLIMIT_AS, s->max_memory);

	if (!err)
		err = limit(RLIMIT_NPROC, s->max_processes);
	if (!err)
		err = s->max_files ? limit(RLIMIT_NOFILE, s->max_files) : limit_files_default();
	return err;
}

CHILD_SIDE static int
step_nice(const struct spawn *s)
{
	int now;

	if (s->nice == 0 && !s->low)
		return 0;
	errno = 0;
	now = getpriority(PRIO_PROCESS, 0);
	if (errno)
		return errno;
	/* What it may not be it must not be later either, when it is lifted to it. */
	if (s->nice != 0 && setpriority(PRIO_PROCESS, 0, now + s->nice) < 0)
		return errno;
	return s->low && setpriority(PRIO_PROCESS, 0, LOWEST) < 0 ? errno : 0;
}

CHILD_SIDE static int
step_groups(const struct spawn *s)
{
	const struct identity *who = s->who;

	if (!who->change)
		return 0;
	if (who->set_groups && syscall(CALL_SETGROUPS, who->n_groups, who->groups) < 0)
		return errno;
	return syscall(CALL_SETRESGID, who->gid, who->gid, who->gid) < 0 ? errno : 0;
}

/* Real, effective and saved. A daemon that is not root may have what it takes as ambient
 * capabilities; they are its own, and no handler's. */
CHILD_SIDE static int
step_uid(const struct spawn *s)
{
	const struct identity *who = s->who;

	syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (!who->change)
		return 0;
	return syscall(CALL_SETRESUID, who->uid, who->uid, who->uid) < 0 ? errno : 0;
}

CHILD_SIDE static int
step_directory(const struct spawn *s)
{
	return chdir(s->directory) < 0 ? errno : 0;
}

/* A handler set to "ignore" would survive into the new program, and so would a blocked signal.
 * Zero reads as "default, no flags, empty mask" in every machine's layout of the structure. */
CHILD_SIDE static void
default_signals(void)
{
	static const unsigned long zero[16];

	for (int sig = 1; sig < _NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, zero, NULL, (size_t)_NSIG / 8);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, zero, NULL, (size_t)_NSIG / 8);
}

/* As a shell searches: a file that may not be executed is passed over, and only reported when
 * nothing else is found. A text without "#!" is an error, not a script for some shell. */
CHILD_SIDE static int
step_command(const struct spawn *s)
{
	int err = ENOENT;

	default_signals();
	for (char *const *p = s->paths; *p; p++) {
		execve(*p, s->argv, s->envp);
		if (errno == EACCES)
			err = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV)
			return errno;
		else if (err != EACCES && s->paths[1] == NULL)
			err = errno;
	}
	return err;
}

static const struct {
	enum spawn_step step;
	int (*take)(const struct spawn *s);
} steps[] = {
	{ STEP_CGROUP, step_cgroup },
	{ STEP_SESSION, step_session },
	{ STEP_STDIO, step_stdio },
	{ STEP_LIMITS, step_limits },
	{ STEP_NICE, step_nice },
	{ STEP_GROUPS, step_groups },
	{ STEP_UID, step_uid },
	{ STEP_DIRECTORY, step_directory },
	{ STEP_COMMAND, step_command },
};

CHILD_SIDE int
child_main(void *child)
{
	struct child *c = child;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int err = steps[i].take(c->s);

		if (err) {
			c->step = steps[i].step;
			c->error = err;
			break;
		}
	}
	syscall(SYS_exit_group, 127);
	return 127;
}
