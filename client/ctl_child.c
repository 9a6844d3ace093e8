#include "ctl_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ctl_mem.h"

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
			ctl_close(&fd);
		if (n > 0) {
			p += n;
			left -= (size_t)n;
		}
	}
	if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		ctl_close(&fd);
	return fd;
}

int
ctl_child_start(struct ctl_child *ch, const struct ctl_command *cmd, int64_t now_ms)
{
	int in = payload_file(cmd), out[2] = { -1, -1 }, err = 0;

	*ch = (struct ctl_child){ .out = -1, .started_ms = now_ms, .exit.code = -1 };
	ctl_process_init(&ch->process);
	if (in < 0 || pipe2(out, O_CLOEXEC) < 0)
		err = -errno;
	if (!err) {
		const struct ctl_spawn how = { cmd->argv, cmd->env, in, out[1], out[1] };

		err = ctl_process_start(&ch->process, &how);
	}
	ctl_close(&in);
	ctl_close(&out[1]);
	if (err) {
		ctl_close(&out[0]);
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
				ctl_close(&ch->out);
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
	ctl_child_read(ch);
	ch->exit = ctl_process_reap(&ch->process);
	ctl_close(&ch->out);
}

void
ctl_child_done(struct ctl_child *ch)
{
	mem_free(ch->output);
	ch->output = NULL;
}
