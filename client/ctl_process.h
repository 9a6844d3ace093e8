/*
 * A process that `wqctl work` has started, in a group of its own: a command for one job (ctl_child.h)
 * or a program that stays (ctl_lines.h).
 */
#ifndef WQ_CTL_PROCESS_H
#define WQ_CTL_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct ctl_process {
	pid_t pid; /* 0: none */
	int pidfd;
	int64_t kill_at_ms; /* after TERM; -1: not told to end */
};

/* How one ended. */
struct ctl_ended {
	int code; /* -1: by a signal */
	int signal;
};

/* What it is; -1: our own descriptor of that number. */
struct ctl_spawn {
	char *const *argv;
	char *const *env;
	int in, out, err;
};

void
ctl_process_init(struct ctl_process *p);
/* 0 or -errno: ENOENT when there is no such program, and the like; then there is none. */
int
ctl_process_start(struct ctl_process *p, const struct ctl_spawn *how);
/* TERM to its group, once; KILL `grace_ms` later, by ctl_process_hurry. */
void
ctl_process_end(struct ctl_process *p, int64_t now_ms, int64_t grace_ms);
void
ctl_process_hurry(struct ctl_process *p, int64_t now_ms);
/* It has ended, or is to end now. Nothing of its group is left. */
struct ctl_ended
ctl_process_reap(struct ctl_process *p);
/* Closes it, if it is open: -1 then. */
void
ctl_close(int *fd);

#endif
