/*
 * Making a process: everything between "this command as this user" and the
 * first instruction of the new program.
 *
 * The child is made with clone(CLONE_VM | CLONE_VFORK), never with a copy of
 * the address space: a daemon that holds millions of jobs must not copy page
 * tables for each run, nor need memory for a copy that is thrown away at once.
 * The calling thread sleeps until the child has become the new program or has
 * given up; the child then leaves step and errno in the memory both share.
 *
 * Loop thread only.
 */
#ifndef WQD_RUN_SPAWN_H
#define WQD_RUN_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/identity.h"

/* clang-format off */
/*      step            what is said about it when it fails */
#define SPAWN_STEP_TABLE(X) \
	X(STEP_NONE,      "nothing") \
	X(STEP_HANDLER,   "handler") \
	X(STEP_USER,      "user") \
	X(STEP_MEMORY,    "memory") \
	X(STEP_PAYLOAD,   "payload") \
	X(STEP_OUTPUT,    "output pipe") \
	X(STEP_PROCESS,   "new process") \
	X(STEP_CGROUP,    "control group") \
	X(STEP_SESSION,   "new session") \
	X(STEP_STDIO,     "standard input and output") \
	X(STEP_LIMITS,    "resource limits") \
	X(STEP_NICE,      "priority") \
	X(STEP_GROUPS,    "change of groups") \
	X(STEP_UID,       "change of user") \
	X(STEP_DIRECTORY, "directory") \
	X(STEP_COMMAND,   "command") \
	X(STEP_WATCH,     "watching the process")
/* clang-format on */

#define X(name, text) name,
enum spawn_step { SPAWN_STEP_TABLE(X) };
#undef X

const char *
spawn_step_text(enum spawn_step step);

/* All borrowed for the length of spawn(). */
struct spawn {
	char *const *argv;
	char *const *envp;
	char *const *paths;         /* NULL-terminated: tried in this order */
	const char *directory;      /* entered as the new user */
	const struct identity *who; /* changed to when who->change */
	int in_fd, out_fd;          /* become 0, and 1 and 2 */
	bool has_sock;              /* a worker program */
	int sock_fd;                /* becomes 3 */
	mode_t umask;
	int cgroup_fd;          /* its cgroup.procs; -1: it stays in ours */
	bool low;               /* as nice as can be, to begin with */
	int nice;               /* added to the daemon's own */
	uint64_t max_memory;    /* RLIMIT_AS; 0: as it is */
	uint64_t max_files;     /* RLIMIT_NOFILE; 0: soft limit of at most 1024 */
	uint64_t max_processes; /* RLIMIT_NPROC; 0: as it is */
};

struct spawned {
	pid_t pid; /* leader of its own session and process group */
	int pidfd;
};

/* The stack children start on: one is enough, as the parent sleeps meanwhile. */
struct spawner {
	char *map;
	size_t size;
};

int
spawner_init(struct spawner *sp);
void
spawner_done(struct spawner *sp);
/* 0, or -errno with the step that failed; nothing is left running then. */
int
spawn(struct spawner *sp, const struct spawn *s, struct spawned *out, enum spawn_step *step);

/* ---- between spawn.c and child.c ---- */

/* Shared with the child, which has the same memory. */
struct child {
	const struct spawn *s;
	enum spawn_step step;
	int error;
};

/* The child's side; returns only by ending the process. */
int
child_main(void *child);

#endif
