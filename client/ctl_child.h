/*
 * A command that `wqctl work` runs for a job: payload on its stdin, output captured, in a process
 * group of its own. It is over when its main process is, whoever still holds the pipe.
 */
#ifndef WQ_CTL_CHILD_H
#define WQ_CTL_CHILD_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CTL_CHILD_OUTPUT 65536u /* bytes kept: the first */

struct ctl_child {
	pid_t pid; /* 0: none */
	int pidfd, out;
	int64_t started_ms;
	int64_t kill_at_ms; /* after TERM; -1: not told to end */
	char *output;       /* owned */
	size_t n_output;
	bool truncated;
	int exit_code, signal; /* when it is over; -1 and 0 before */
};

struct ctl_command {
	char *const *argv;
	char *const *env;
	const void *payload;
	size_t payload_len;
};

/* A process group of its own, and signals as they were before we took ours. 0 or errno. */
int
ctl_spawn_attributes(posix_spawnattr_t *at);
/* 0 or -errno: ENOENT when there is no such program, and the like. */
int
ctl_child_start(struct ctl_child *ch, const struct ctl_command *cmd, int64_t now_ms);
/* Takes what is in the pipe. */
void
ctl_child_read(struct ctl_child *ch);
/* Its main process has ended: the rest of the output, the status, and no descriptor is left. */
void
ctl_child_reap(struct ctl_child *ch);
/* TERM to its group; KILL `grace_ms` later, by ctl_child_hurry. */
void
ctl_child_end(struct ctl_child *ch, int64_t now_ms, int64_t grace_ms);
void
ctl_child_hurry(struct ctl_child *ch, int64_t now_ms);
/* Frees the output. */
void
ctl_child_done(struct ctl_child *ch);

#endif
