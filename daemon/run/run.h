/*
 * One run, between runner.c (which runs there are, what is asked of them) and
 * exec.c (what happens to one). Loop thread only.
 */
#ifndef WQD_RUN_RUN_H
#define WQD_RUN_RUN_H

#include "base/list.h"
#include "run/capture.h"
#include "run/cgroup.h"
#include "run/launch.h"
#include "run/pool_side.h"
#include "run/runner.h"

#define RUN_MAGIC    0x52554e21u
#define RUNNER_MAGIC 0x52554e52u

/* See the diagram in exec.c. */
enum run_state {
	RS_STARTING,
	RS_UNBORN,
	RS_RUNNING,
	RS_STOPPING,
	RS_KILLING,
	RS_LINGERING,
	RS_ENDED,
};

struct run {
	unsigned magic;
	enum run_state state;
	struct runner *r;
	uint64_t id;
	pid_t pid;                   /* of the main process, and of its group; 0: none made */
	int pidfd;                   /* -1 once reaped */
	struct reactor_io *exit_io;  /* watches pidfd */
	struct reactor_timer *timer; /* by state: time limit, end of the grace, next look */
	int64_t timer_ns;            /* boot time when it fires; INT64_MAX: never */
	struct capture out;
	struct pool_side *side; /* its pool's; NULL: it has none */
	struct rung rung;
	struct run_cgroup cgroup;
	int64_t cpu_ns; /* once reaped: time on processors, reaped children included */
	/* from the handler, which a reload may free */
	int64_t grace_ns;
	bool keep_children;
	/* asked to stop before its start was told: RUN_NONE: nobody asked */
	enum run_outcome asked;
	int64_t asked_grace_ns;
	/* being stopped */
	enum run_outcome why; /* RUN_NONE: it is not */
	int64_t kill_at_ns;   /* boot time */
	int64_t look_ns;      /* between two looks at a lingering group */
	/* how it ended */
	int exit_code, signal;
	struct launch_error failed; /* .error 0: it did start */
	struct list by_id, all, posted;
};

#define RUN_ID_BUCKETS 256u

struct runner {
	unsigned magic;
	struct runner_config cfg; /* its strings are the launcher's */
	struct launcher launcher;
	struct pool_sides pools;
	struct reactor_timer *post_timer;
	struct list posted; /* starts whose outcome has to be told */
	struct list all;
	struct list by_id[RUN_ID_BUCKETS];
	size_t n;
	int64_t scan_at_ns; /* boot time before which group_alive is not asked */
};

/* A run that has yet to be made, known to the runner. Never NULL. */
struct run *
run_new(struct runner *r, uint64_t id);
/* Makes the process, or finds out why not (`h` NULL: there is no such handler); nothing is told
 * yet. */
void
run_make(struct run *run, const struct run_start *start, const struct handler *h);
/* Watches a process that was there before an exec, in its state. 0 or a negative error. */
int
run_adopt(struct run *run, enum run_state state, int out_fd);
/* Tells what came of run_make. The run, and the runner, may be gone afterwards. */
void
run_tell(struct run *run);
/* TERM now, KILL after the grace. What is asked later may only shorten the grace. */
void
run_ask_stop(struct run *run, enum run_outcome why, int64_t grace_ns);

#endif
