/*
 * A command that `wqctl work` runs for a job: payload on its stdin, output captured, in a process
 * group of its own. It is over when its main process is, whoever still holds the pipe.
 */
#ifndef WQ_CTL_CHILD_H
#define WQ_CTL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl_process.h"

#define CTL_CHILD_OUTPUT 65536u /* bytes kept: the first */

struct ctl_child {
	struct ctl_process process;
	int out;
	int64_t started_ms;
	char *output; /* owned */
	size_t n_output;
	bool truncated;
	struct ctl_ended exit; /* when it is over; -1 and 0 before */
};

struct ctl_command {
	char *const *argv;
	char *const *env;
	const void *payload;
	size_t payload_len;
};

/* 0 or -errno, as ctl_process_start. */
int
ctl_child_start(struct ctl_child *ch, const struct ctl_command *cmd, int64_t now_ms);
/* Takes what is in the pipe. */
void
ctl_child_read(struct ctl_child *ch);
/* Its main process has ended: the rest of the output, the status, and no descriptor is left. */
void
ctl_child_reap(struct ctl_child *ch);
/* Frees the output. */
void
ctl_child_done(struct ctl_child *ch);

#endif
