#include "run/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK_SIZE 32768u
#define TURN_MAX   262144u /* then the loop may look at others */

static void
stop_watching(struct capture *c)
{
	if (c->io)
		c->rx->io_del(c->rx->ctx, c->io);
	c->io = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* Without memory for it the output is dropped: the run goes on. */
static void
keep(struct capture *c, const uint8_t *p, size_t n)
{
	size_t room = c->kept.max - buf_len(&c->kept), take = n < room ? n : room;

	if (take > 0 && buf_put(&c->kept, p, take) < 0)
		take = 0;
	if (take < n) {
		c->truncated = true;
		c->kept.max = buf_len(&c->kept);
	}
}

/* Reads at most about `limit` bytes. False at the end of the pipe. */
static bool
take(struct capture *c, size_t limit)
{
	uint8_t chunk[CHUNK_SIZE];
	size_t got = 0;

	while (got < limit) {
		ssize_t n = read(c->fd, chunk, sizeof chunk);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0)
			return false;
		keep(c, chunk, (size_t)n);
		got += (size_t)n;
	}
	return true;
}

static void
on_readable(void *arg, unsigned ready)
{
	struct capture *c = arg;

	(void)ready;
	if (!take(c, TURN_MAX))
		stop_watching(c);
}

int
capture_open(struct capture *c, const struct reactor *rx, size_t max, int *out)
{
	int end[2], err;

	*c = (struct capture){ .rx = rx, .fd = -1 };
	buf_init(&c->kept, max);
	if (pipe2(end, O_CLOEXEC) < 0)
		return -errno;
	c->fd = end[0];
	/* Ours alone: programs don't expect an output that refuses. */
	err = fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0
		? -errno
		: rx->io_add(rx->ctx, c->fd, REACTOR_READ, on_readable, c, &c->io);
	if (err) {
		close(end[1]);
		stop_watching(c);
		return err;
	}
	*out = end[1];
	return 0;
}

int
capture_adopt(struct capture *c, const struct reactor *rx, int fd)
{
	c->rx = rx;
	c->fd = fd;
	return fd < 0 ? 0 : rx->io_add(rx->ctx, fd, REACTOR_READ, on_readable, c, &c->io);
}

/* No further than what is there at this moment: somebody may go on writing. */
void
capture_close(struct capture *c)
{
	int there = 0;

	if (c->fd >= 0 && ioctl(c->fd, FIONREAD, &there) == 0 && there > 0)
		take(c, (size_t)there);
	stop_watching(c);
}

void
capture_done(struct capture *c)
{
	stop_watching(c);
	buf_done(&c->kept);
}

struct str
capture_text(const struct capture *c)
{
	if (buf_len(&c->kept) == 0)
		return STR_NONE;
	return buf_str(&c->kept);
}
