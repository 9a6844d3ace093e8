/*
 * Left-over processes of an earlier daemon, found by WQ_INSTANCE in their
 * environment: their parent is gone, and a process that made itself a session
 * of its own is in no group that we know. What changed or hid its environment
 * (a set-uid program, one that writes its title over it) is only found through
 * a relative in its process group.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/group.h"
#include "run/runner.h"

#define BATCH_MAX 64 /* ended and waited for at once */

struct hunt {
	const char *entry; /* "WQ_INSTANCE=..." */
	size_t entry_len;
	int64_t until_ns;
	int caught[BATCH_MAX]; /* pidfds that got KILL */
	size_t n_caught;
	int ended; /* in all */
	int error;
};

/* ---- is it one? ---- */

/* Follows the bytes of an environment for one whole entry. */
struct matcher {
	const char *entry;
	size_t len, at;
	bool lost; /* until the next entry begins */
};

static bool
matcher_feed(struct matcher *m, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\0') {
			if (!m->lost && m->at == m->len)
				return true;
			m->at = 0;
			m->lost = false;
		} else if (!m->lost) {
			m->lost = m->at == m->len || p[i] != m->entry[m->at];
			m->at++;
		}
	}
	return false;
}

enum verdict { NOT_OURS, LEFT_OVER, SHOWS_NOTHING };

static enum verdict
search_environment(const struct hunt *h, int fd)
{
	struct matcher m = { .entry = h->entry, .len = h->entry_len };
	enum verdict v = SHOWS_NOTHING;
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof chunk)) > 0) {
		v = NOT_OURS;
		if (matcher_feed(&m, chunk, (size_t)n))
			return LEFT_OVER;
	}
	return v;
}

static int
open_of(pid_t pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Without arguments too, yet with a program file, which a kernel thread or a zombie has not. */
static bool
is_in_exec(pid_t pid)
{
	char path[64], c;
	int fd = open_of(pid, "cmdline");
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, &c, 1);
	close(fd);
	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	return n == 0 && readlink(path, &c, 1) >= 0;
}

/* Others' processes that we may not look into are not ours. */
static enum verdict
search_process(const struct hunt *h, pid_t pid)
{
	int fd = open_of(pid, "environ");
	enum verdict v;

	if (fd < 0)
		return NOT_OURS;
	v = search_environment(h, fd);
	close(fd);
	return v;
}

/* A process that is just becoming another program shows nothing for a moment. */
static enum verdict
judge(const struct hunt *h, pid_t pid)
{
	enum verdict v = search_process(h, pid);

	if (v != SHOWS_NOTHING || is_in_exec(pid))
		return v;
	/* there is nothing, or it has become that program since */
	v = search_process(h, pid);
	return v == LEFT_OVER ? v : NOT_OURS;
}

/* ---- ending it ---- */

/* 1: the process is dead; 0: not within `ms`; -ETIMEDOUT: nor will it be waited for. */
static int
wait_for(const struct hunt *h, int pidfd, int ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int64_t left = h->until_ns - clock_boot_ns();
	int n;

	if (left <= 0)
		return -ETIMEDOUT;
	n = poll(&p, 1, left < ms * NS_PER_MS ? (int)(left / NS_PER_MS) + 1 : ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n;
}

/* The group first, while its member is known to live, so that the number is still its own. */
static void
kill_group_of(pid_t pid, int pidfd)
{
	pid_t group = getpgid(pid);

	if (group > 1 && group != getpgrp() && pidfd_send_signal(pidfd, 0, NULL, 0) == 0)
		kill(-group, SIGKILL);
}

/* The descriptor is taken before the environment is read: a number that changed hands in
 * between then names a dead process, and nobody is hit. */
static int
examine(struct hunt *h, pid_t pid)
{
	int pidfd = pidfd_open(pid, 0);
	enum verdict v;

	if (pidfd < 0)
		return errno == ESRCH || errno == EINVAL ? 0 : -errno;
	while ((v = judge(h, pid)) == SHOWS_NOTHING && wait_for(h, pidfd, 1) == 0)
		;
	if (v != LEFT_OVER) {
		close(pidfd);
		return 0;
	}
	kill_group_of(pid, pidfd);
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	h->caught[h->n_caught++] = pidfd;
	h->ended++;
	return 0;
}

/* Until all that were caught are gone, or the time is up. */
static int
wait_for_caught(struct hunt *h)
{
	int err = 0;

	for (size_t i = 0; i < h->n_caught; i++) {
		int n = 0;

		while (err == 0 && n == 0) {
			n = wait_for(h, h->caught[i], 1000);
			err = n < 0 ? n : 0;
		}
		close(h->caught[i]);
	}
	h->n_caught = 0;
	return err;
}

static bool
hunt_one(void *arg, pid_t pid)
{
	struct hunt *h = arg;

	if (pid > 1 && pid != getpid())
		h->error = examine(h, pid);
	return h->error == 0 && h->n_caught < BATCH_MAX;
}

/* Looks at every process once, or at as many as one batch takes. */
static int
hunt_pass(struct hunt *h, bool *clean)
{
	int err = each_process(hunt_one, h), waited;

	*clean = h->n_caught == 0;
	waited = wait_for_caught(h);
	if (err == 0)
		err = h->error;
	return err ? err : waited;
}

int
orphans_end(const char *instance, int64_t timeout_ns)
{
	char entry[256];
	int n = snprintf(entry, sizeof entry, "WQ_INSTANCE=%s", instance);
	struct hunt h = {
		.entry = entry,
		.entry_len = (size_t)n,
		.until_ns = sat_add(clock_boot_ns(), timeout_ns),
	};
	bool clean = false;
	int err = 0;

	if (n < 0 || (size_t)n >= sizeof entry || *instance == '\0')
		return -EINVAL;
	while (err == 0 && !clean)
		err = hunt_pass(&h, &clean);
	return err ? err : h.ended;
}
