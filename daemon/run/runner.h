/*
 * The exec runner: starts the command of a handler for a run, feeds it the
 * payload, captures output, enforces time limits and reports the end.
 *
 * A run is over when its main process has been reaped; a grandchild that holds
 * the pipe open does not hold that up. Each run has its own session, and so its
 * own process group; what leaves it by a setsid of its own is out of reach of
 * time limits and kills, unless runs have cgroups of their own (cgroup.h). State table in exec.c.
 * Loop thread only.
 *
 * A run that did not start (`error` set) has one line as its output: what failed
 * and why. A file without "#!" is not run by a shell: ENOEXEC. A user or group
 * that is not known is ESRCH, a handler that is not known ENOENT.
 */
#ifndef WQD_RUN_RUNNER_H
#define WQD_RUN_RUNNER_H

#include "base/carry.h"
#include "base/reactor.h"
#include "engine/engine.h"
#include "engine/handler.h"

struct runner;

struct runner_config {
	const struct reactor *reactor; /* borrowed */
	const char *instance;          /* for WQ_INSTANCE; copied */
	const char *socket; /* for WQ_SERVER: how a run reaches us; copied; may be NULL */
	bool carried; /* runs of before an exec are about to come: their groups are left alone */
	void *ctx;
	/* Called from the loop, never from inside runner_start or runner_kill. `end` is borrowed. */
	void (*started)(void *ctx, uint64_t run_id, pid_t pid);
	void (*not_started)(void *ctx, uint64_t run_id, int error); /* errno; try again later */
	void (*ended)(void *ctx, const struct run_end *end);
};

int
runner_new(const struct runner_config *cfg, struct runner **out);
/* All runs must have ended. NULL is allowed; so is the callback of the last run. */
void
runner_free(struct runner *r);
/*
 * Starts one. The handler (NULL: named but unknown) is copied as far as needed. Whatever
 * happens is reported through the callbacks: EAGAIN, ENOMEM, EMFILE, ENFILE as not_started,
 * any other failure to start as ended with outcome failed and `error`.
 */
void
runner_start(struct runner *r, const struct run_start *start, const struct handler *h);
/* TERM to the group, KILL after the grace; the end is reported with `why` (RUN_CANCELLED or
 * RUN_INTERRUPTED), once the group is empty or was killed. Unknown or already ended ids are
 * ignored: a run whose main process has exited before this call keeps its own outcome. Of several
 * kills the first gives the outcome, the most urgent the grace. */
void
runner_kill(struct runner *r, uint64_t run_id, enum run_outcome why);
/* The same for all; `grace_ns` -1: each handler's own. */
void
runner_kill_all(struct runner *r, enum run_outcome why, int64_t grace_ns);
size_t
runner_active(const struct runner *r);
/* The pool with that index is to be so from now on; runs of one that nobody has set are left to
 * themselves. 0 or -ENOMEM. */
int
runner_set_pool(struct runner *r, uint32_t index, const char *name, const struct pool_settings *s);
/* What can be seen of the pool's runs. False: nobody has set it. */
bool
runner_sample(struct runner *r, uint32_t index, struct pool_sample *out);
/* Processors that we may use: affinity and quotas considered, looked at every ten seconds. */
uint32_t
runner_processors(struct runner *r);
/* Over an exec: no start is still to be told, only then may it be; all runs; one of them back, which
 * is as it was. A CARRY_CHILD that fails (a negative error) has left nothing but what its process is. */
bool
runner_settled(const struct runner *r);
void
runner_carry_out(const struct runner *r, struct carry_out *o);
int
runner_carry_in(struct runner *r, const struct carry_record *from);

/*
 * Ends what an earlier daemon of this state directory left running: every process whose
 * environment names `instance` gets SIGKILL (process group and all), until none is left or
 * `timeout_ns` has passed. Returns how many were ended, -ETIMEDOUT, or another -errno (there is
 * no /proc, no descriptor is left). Blocks: for the start, before the loop.
 */
int
orphans_end(const char *instance, int64_t timeout_ns);

#endif
