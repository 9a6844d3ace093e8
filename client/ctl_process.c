#include "ctl_process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

void
ctl_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void
ctl_process_init(struct ctl_process *p)
{
	*p = (struct ctl_process){ .pidfd = -1, .kill_at_ms = -1 };
}

static int
spawn_actions(posix_spawn_file_actions_t *fa, const struct ctl_spawn *how)
{
	const int given[] = { how->in, how->out, how->err };
	int err = 0;

	for (int fd = 0; !err && fd <= STDERR_FILENO; fd++)
		if (given[fd] >= 0)
			err = posix_spawn_file_actions_adddup2(fa, given[fd], fd);
	return err;
}

/* A process group of its own, and signals as they were before we took ours. */
static int
spawn_attributes(posix_spawnattr_t *at)
{
	sigset_t none, pipe;
	int err;

	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	err = posix_spawnattr_setsigmask(at, &none);
	if (!err)
		err = posix_spawnattr_setsigdefault(at, &pipe);
	if (!err)
		err = posix_spawnattr_setpgroup(at, 0);
	if (!err)
		err = posix_spawnattr_setflags(
			at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	return err;
}

static int
spawn(struct ctl_process *p, const struct ctl_spawn *how)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	int err = posix_spawn_file_actions_init(&fa);

	if (err)
		return -err;
	err = posix_spawnattr_init(&at);
	if (!err) {
		err = spawn_actions(&fa, how);
		if (!err)
			err = spawn_attributes(&at);
		if (!err)
			err = posix_spawnp(&p->pid, how->argv[0], &fa, &at, how->argv, how->env);
		(void)posix_spawnattr_destroy(&at);
	}
	(void)posix_spawn_file_actions_destroy(&fa);
	return -err;
}

int
ctl_process_start(struct ctl_process *p, const struct ctl_spawn *how)
{
	int err;

	ctl_process_init(p);
	err = spawn(p, how);
	if (err) {
		p->pid = 0;
		return err;
	}
	p->pidfd = pidfd_open(p->pid, 0);
	if (p->pidfd < 0) {
		err = -errno;
		(void)ctl_process_reap(p);
	}
	return err;
}

void
ctl_process_end(struct ctl_process *p, int64_t now_ms, int64_t grace_ms)
{
	if (p->pid <= 0 || p->kill_at_ms >= 0)
		return;
	p->kill_at_ms = now_ms + grace_ms;
	(void)kill(-p->pid, SIGTERM);
}

void
ctl_process_hurry(struct ctl_process *p, int64_t now_ms)
{
	if (p->pid <= 0 || p->kill_at_ms < 0 || now_ms < p->kill_at_ms)
		return;
	p->kill_at_ms = INT64_MAX;
	(void)kill(-p->pid, SIGKILL);
}

struct ctl_ended
ctl_process_reap(struct ctl_process *p)
{
	int status = 0;

	/* What it left behind in its group goes too, before its number can be another's. */
	(void)kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	ctl_close(&p->pidfd);
	ctl_process_init(p);
	return (struct ctl_ended){ .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0 };
}
