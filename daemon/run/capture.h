/*
 * What a run writes to stdout and stderr: one pipe, read whenever it has
 * something, kept up to a cap, the rest dropped. The run never waits for us
 * longer than a turn of the loop, and what it writes takes no more memory than
 * the cap. Embedded. Loop thread only.
 */
#ifndef WQD_RUN_CAPTURE_H
#define WQD_RUN_CAPTURE_H

#include "base/buf.h"
#include "base/reactor.h"
#include "base/str.h"

struct capture {
	const struct reactor *rx;
	struct reactor_io *io; /* NULL once closed */
	int fd;                /* our end, -1 once closed */
	struct buf kept;
	bool truncated; /* something was dropped */
};

/* Opens the pipe and watches it; its writing end, the caller's to close, is set in *out. On
 * failure -errno, and only capture_done is left to call. */
int
capture_open(struct capture *c, const struct reactor *rx, size_t max, int *out);
/* Goes on with a pipe from before an exec (-1: it was closed), behind what is in `kept`. 0 or a
 * negative error. */
int
capture_adopt(struct capture *c, const struct reactor *rx, int fd);
/* Takes what is in the pipe now, waiting for nobody, and closes it. */
void
capture_close(struct capture *c);
void
capture_done(struct capture *c);
/* Borrowed. */
struct str
capture_text(const struct capture *c);

#endif
