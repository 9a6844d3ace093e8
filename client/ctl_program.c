/* The process of ctl_lines.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl_child.h"
#include "ctl_lines.h"
#include "ctl_mem.h"

#define LAST_MS 1000

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void
ctl_program_init(struct ctl_program *p)
{
	*p = (struct ctl_program){ .pidfd = -1, .in = -1, .out = -1, .kill_at_ms = -1 };
}

static int
spawn(struct ctl_program *p, char *const *argv, char *const *env, int in, int out)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	int err = posix_spawn_file_actions_init(&fa);

	if (err)
		return -err;
	err = posix_spawnattr_init(&at);
	if (!err) {
		err = posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
		if (!err)
			err = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
		if (!err)
			err = ctl_spawn_attributes(&at);
		if (!err)
			err = posix_spawnp(&p->pid, argv[0], &fa, &at, argv, env);
		(void)posix_spawnattr_destroy(&at);
	}
	(void)posix_spawn_file_actions_destroy(&fa);
	return -err;
}

int
ctl_program_start(struct ctl_program *p, char *const *argv, char *const *env)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err = 0;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		err = -errno;
	if (!err)
		err = spawn(p, argv, env, in[0], out[1]);
	close_fd(&in[0]);
	close_fd(&out[1]);
	if (!err) {
		p->pidfd = pidfd_open(p->pid, 0);
		err = p->pidfd < 0 ? -errno : 0;
	}
	if (err) {
		close_fd(&in[1]);
		close_fd(&out[0]);
		if (p->pid > 0) {
			(void)kill(p->pid, SIGKILL);
			(void)waitpid(p->pid, NULL, 0);
		}
		ctl_program_init(p);
		return err;
	}
	p->in = in[1];
	p->out = out[0];
	(void)fcntl(p->in, F_SETFL, O_NONBLOCK);
	(void)fcntl(p->out, F_SETFL, O_NONBLOCK);
	return 0;
}

void
ctl_program_job(struct ctl_program *p, enum ctl_lines how, const wq_work_info_t *job)
{
	mem_free(p->job);
	p->job = ctl_job_line(how, job, &p->n_job);
	p->at = 0;
	p->n_line = 0;
}

/* One that does not read has closed its input, or will answer or end without. */
static void
write_some(struct ctl_program *p)
{
	while (p->in >= 0 && p->at < p->n_job) {
		ssize_t n = write(p->in, p->job + p->at, p->n_job - p->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			close_fd(&p->in);
		if (n < 0)
			return;
		p->at += (size_t)n;
	}
}

static int
read_some(struct ctl_program *p)
{
	for (;;) {
		const char *end;
		ssize_t n;

		if (p->n_line == p->cap) {
			p->cap = p->cap ? 2 * p->cap : 4096;
			p->line = ctl_grow(p->line, p->cap, 1);
		}
		n = read(p->out, p->line + p->n_line, p->cap - p->n_line);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		end = memchr(p->line + p->n_line, '\n', (size_t)n);
		p->n_line = end ? (size_t)(end - p->line) : p->n_line + (size_t)n;
		if (end)
			return 1;
		if (p->n_line > CTL_LINE_MAX)
			return -1;
	}
}

int
ctl_program_turn(struct ctl_program *p)
{
	write_some(p);
	return p->out >= 0 ? read_some(p) : -1;
}

void
ctl_program_end(struct ctl_program *p, int64_t now_ms, int64_t grace_ms)
{
	if (p->pid <= 0 || p->kill_at_ms >= 0)
		return;
	p->kill_at_ms = now_ms + grace_ms;
	(void)kill(-p->pid, SIGTERM);
}

void
ctl_program_hurry(struct ctl_program *p, int64_t now_ms)
{
	if (p->pid <= 0 || p->kill_at_ms < 0 || now_ms < p->kill_at_ms)
		return;
	p->kill_at_ms = INT64_MAX;
	(void)kill(-p->pid, SIGKILL);
}

void
ctl_program_reap(struct ctl_program *p)
{
	int status = 0;

	/* What it left behind in its group goes too, before its number can be another's. */
	(void)kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	close_fd(&p->in);
	close_fd(&p->out);
	close_fd(&p->pidfd);
	mem_free(p->job);
	mem_free(p->line);
	ctl_program_init(p);
	p->status = status;
}

static bool
ends_within(const struct ctl_program *p, int ms)
{
	struct pollfd f = { .fd = p->pidfd, .events = POLLIN };

	return poll(&f, 1, ms) > 0;
}

void
ctl_program_close(struct ctl_program *p, int grace_ms)
{
	if (p->pid <= 0)
		return;
	close_fd(&p->in);
	if (!ends_within(p, grace_ms)) {
		(void)kill(-p->pid, SIGTERM);
		(void)ends_within(p, LAST_MS);
	}
	ctl_program_reap(p);
}
