#include "ctl_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl_mem.h"

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* A file in memory: neither side can block the other. */
static int
payload_file(const struct ctl_command *cmd)
{
	int fd = memfd_create("payload", MFD_CLOEXEC);
	const char *p = cmd->payload;
	size_t left = cmd->payload_len;

	while (fd >= 0 && left > 0) {
		ssize_t n = write(fd, p, left);

		if (n < 0 && errno != EINTR)
			close_fd(&fd);
		if (n > 0) {
			p += n;
			left -= (size_t)n;
		}
	}
	if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		close_fd(&fd);
	return fd;
}

static int
spawn_actions(posix_spawn_file_actions_t *fa, int in, int out)
{
	int err = posix_spawn_file_actions_adddup2(fa, in, STDIN_FILENO);

	if (!err)
		err = posix_spawn_file_actions_adddup2(fa, out, STDOUT_FILENO);
	if (!err)
		err = posix_spawn_file_actions_adddup2(fa, out, STDERR_FILENO);
	return err;
}

int
ctl_spawn_attributes(posix_spawnattr_t *at)
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
spawn(struct ctl_child *ch, const struct ctl_command *cmd, int in, int out)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	int err = posix_spawn_file_actions_init(&fa);

	if (err)
		return -err;
	err = posix_spawnattr_init(&at);
	if (!err) {
		err = spawn_actions(&fa, in, out);
		if (!err)
			err = ctl_spawn_attributes(&at);
		if (!err)
			err = posix_spawnp(&ch->pid, cmd->argv[0], &fa, &at, cmd->argv, cmd->env);
		(void)posix_spawnattr_destroy(&at);
	}
	(void)posix_spawn_file_actions_destroy(&fa);
	return -err;
}

int
ctl_child_start(struct ctl_child *ch, const struct ctl_command *cmd, int64_t now_ms)
{
	int in = payload_file(cmd), out[2] = { -1, -1 }, err = 0;

	*ch = (struct ctl_child){
		.pidfd = -1, .out = -1, .started_ms = now_ms, .kill_at_ms = -1, .exit_code = -1
	};
	if (in < 0 || pipe2(out, O_CLOEXEC) < 0)
		err = -errno;
	if (!err)
		err = spawn(ch, cmd, in, out[1]);
	close_fd(&in);
	close_fd(&out[1]);
	if (!err) {
		ch->pidfd = pidfd_open(ch->pid, 0);
		if (ch->pidfd < 0) {
			err = -errno;
			(void)kill(ch->pid, SIGKILL);
			(void)waitpid(ch->pid, NULL, 0);
		}
	}
	if (err) {
		close_fd(&out[0]);
		ch->pid = 0;
		return err;
	}
	ch->out = out[0];
	(void)fcntl(ch->out, F_SETFL, O_NONBLOCK);
	ch->output = ctl_alloc(CTL_CHILD_OUTPUT);
	return 0;
}

void
ctl_child_read(struct ctl_child *ch)
{
	char drop[4096];

	while (ch->out >= 0) {
		size_t room = CTL_CHILD_OUTPUT - ch->n_output;
		ssize_t n = read(ch->out, room ? ch->output + ch->n_output : drop,
			room ? room : sizeof drop);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0 || errno != EAGAIN)
				close_fd(&ch->out);
			return;
		}
		if (room)
			ch->n_output += (size_t)n;
		else
			ch->truncated = true;
	}
}

void
ctl_child_reap(struct ctl_child *ch)
{
	int status = 0;

	ctl_child_read(ch);
	/* What it left behind in its group goes too, before its number can be another's. */
	(void)kill(-ch->pid, SIGKILL);
	while (waitpid(ch->pid, &status, 0) < 0 && errno == EINTR)
		;
	ch->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	ch->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	close_fd(&ch->out);
	close_fd(&ch->pidfd);
	ch->pid = 0;
}

void
ctl_child_end(struct ctl_child *ch, int64_t now_ms, int64_t grace_ms)
{
	if (ch->kill_at_ms >= 0)
		return;
	ch->kill_at_ms = now_ms + grace_ms;
	(void)kill(-ch->pid, SIGTERM);
}

void
ctl_child_hurry(struct ctl_child *ch, int64_t now_ms)
{
	if (ch->kill_at_ms < 0 || now_ms < ch->kill_at_ms)
		return;
	ch->kill_at_ms = INT64_MAX;
	(void)kill(-ch->pid, SIGKILL);
}

void
ctl_child_done(struct ctl_child *ch)
{
	mem_free(ch->output);
	ch->output = NULL;
}
