/* The process of ctl_lines.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "ctl_lines.h"
#include "ctl_mem.h"

#define LAST_MS 1000

void
ctl_program_init(struct ctl_program *p)
{
	*p = (struct ctl_program){ .in = -1, .out = -1 };
	ctl_process_init(&p->process);
}

int
ctl_program_start(struct ctl_program *p, char *const *argv, char *const *env)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err = 0;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		err = -errno;
	if (!err) {
		const struct ctl_spawn how = { argv, env, in[0], out[1], -1 };

		err = ctl_process_start(&p->process, &how);
	}
	ctl_close(&in[0]);
	ctl_close(&out[1]);
	if (err) {
		ctl_close(&in[1]);
		ctl_close(&out[0]);
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
			ctl_close(&p->in);
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

struct ctl_ended
ctl_program_reap(struct ctl_program *p)
{
	struct ctl_ended how = ctl_process_reap(&p->process);

	ctl_close(&p->in);
	ctl_close(&p->out);
	mem_free(p->job);
	mem_free(p->line);
	ctl_program_init(p);
	return how;
}

static bool
ends_within(const struct ctl_program *p, int ms)
{
	struct pollfd f = { .fd = p->process.pidfd, .events = POLLIN };

	return poll(&f, 1, ms) > 0;
}

void
ctl_program_close(struct ctl_program *p, int grace_ms)
{
	if (p->process.pid <= 0)
		return;
	ctl_close(&p->in);
	if (!ends_within(p, grace_ms)) {
		(void)kill(-p->process.pid, SIGTERM);
		(void)ends_within(p, LAST_MS);
	}
	(void)ctl_program_reap(p);
}
