/*
 * From a run and its handler to a process: who it is, its environment, its
 * payload as a file on stdin, then the spawn. Everything of the handler that is
 * needed is used up when launch() returns. Loop thread only.
 */
#ifndef WQD_RUN_LAUNCH_H
#define WQD_RUN_LAUNCH_H

#include "engine/engine.h"
#include "engine/handler.h"
#include "run/identity.h"
#include "run/spawn.h"

struct launcher {
	struct identities ids;
	struct spawner spawner;
	int null_fd;    /* stdin of a run without payload */
	char *instance; /* owned */
	char *socket;   /* owned; may be NULL */
};

/* Why a run did not start. */
struct launch_error {
	enum spawn_step step;
	int error;      /* errno; 0: it did start */
	char text[256]; /* a line for its output: what failed, on what, why */
};

/* What the pool, or the crew of a worker program, has to say about a process. */
struct launch_pool {
	bool low;      /* begins as nice as can be */
	int nice;      /* besides the handler's */
	int cgroup_fd; /* borrowed; see struct spawn */
	bool worker;   /* a worker program */
	int sock_fd;   /* its connection to us; borrowed */
};

int
launcher_init(struct launcher *l, const char *instance, const char *socket);
void
launcher_done(struct launcher *l);
/* `out_fd` is borrowed; becomes stdout and stderr. On failure false with *err filled. */
bool
launch(struct launcher *l, const struct run_start *start, const struct handler *h, int out_fd,
	const struct launch_pool *pool, struct spawned *out, struct launch_error *err);
/* Fills *err. `what` (may be NULL) is the thing that `step` failed on. */
void
launch_failed(struct launch_error *err, enum spawn_step step, const char *what, int error);
/* The machine is short of something now; the same start may well succeed later. */
bool
launch_error_transient(const struct launch_error *err);

#endif
