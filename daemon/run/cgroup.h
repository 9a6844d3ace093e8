/*
 * Control groups of runs, where the unit has been given a tree of version 2 to
 * arrange (Delegate=):
 *
 *     the unit's group
 *       daemon                 we ourselves: processes may be in leaves alone
 *       pool-<index>           cpu.weight, memory.max of the pool
 *         run-<id>             memory.max, pids.max of the run
 *
 * A run's group ends with it, whatever its processes made of themselves. Without
 * such a tree all calls succeed and do nothing. Loop thread only.
 */
#ifndef WQD_RUN_CGROUP_H
#define WQD_RUN_CGROUP_H

#include "engine/pool.h"
#include "run/cgroup_find.h"

struct cgroup_tree {
	bool on;
	char base[CGROUP_PATH_MAX];
	char *leaving; /* owned: paths of groups that are not empty yet, each with a NUL behind */
	size_t leaving_n;
};

/* Of a run; "" : it has none. */
struct run_cgroup {
	char path[CGROUP_PATH_MAX];
};

/* Moves us into the leaf and takes what an earlier daemon left away; unless (`carried`) that was we
 * ourselves, before an exec, and goes on. */
void
cgroup_tree_init(struct cgroup_tree *t, const struct cgroup_place *place, bool carried);
void
cgroup_tree_done(struct cgroup_tree *t);
void
cgroup_pool_set(struct cgroup_tree *t, uint32_t index, const struct pool_settings *s);
/* Bytes in use by the pool's runs; UINT64_MAX: not known. */
uint64_t
cgroup_pool_memory(const struct cgroup_tree *t, uint32_t index);
/* 0 or -errno. Limits of 0 are none. */
int
cgroup_run_make(struct cgroup_tree *t, uint32_t pool, uint64_t run_id, uint64_t memory,
	uint64_t processes, struct run_cgroup *out);
/* Where the child writes itself in, and where its time is counted: the caller's to close, or
 * -errno. */
int
cgroup_run_procs(const struct run_cgroup *c);
int
cgroup_run_cpu(const struct run_cgroup *c);
void
cgroup_run_kill(const struct run_cgroup *c);
/* Was anything in it ended for want of memory? */
bool
cgroup_run_oom(const struct run_cgroup *c);
/* It goes, now or when its last process has. */
void
cgroup_run_drop(struct cgroup_tree *t, struct run_cgroup *c);

#endif
