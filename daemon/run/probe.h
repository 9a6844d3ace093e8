/*
 * What a run is doing right now, seen from outside: how many of its processes
 * want a processor, and how much time on one it has had. No privilege is needed,
 * nor that the run is of our own user.
 *
 * The main process's state says most. A pipeline under a shell, or threads, show
 * otherwise: by the processor time of the run's cgroup where it has one, else by
 * the states of its descendants (a process that left the family is not seen
 * then) and the processor time of a main process with threads. Where /proc hides
 * it all, processor time alone says whether it is at work.
 *
 * Loop thread only.
 */
#ifndef WQD_RUN_PROBE_H
#define WQD_RUN_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "engine/pool.h"

struct probe {
	pid_t pid;   /* 0: closed */
	int stat_fd; /* of the main process; -1: can't be read */
	int cpu_fd;  /* cpu.stat of its cgroup; negative: it has none */
	clockid_t clock;
	/* as last seen */
	int64_t seen_ns; /* boot time */
	uint32_t wants;  /* processors */
	uint32_t family; /* descendants */
	uint64_t memory; /* bytes resident */
	int64_t cpu_ns;  /* time on processors */
	/* for shares of time between two looks */
	int64_t share_ns, share_at_ns;
	uint32_t share;
	int64_t family_at_ns, family_wait_ns; /* when to look for descendants again */
};

/* `cpu_fd`, negative or taken: where the run's cgroup counts its time. */
void
probe_open(struct probe *p, pid_t pid, int cpu_fd);
/* Before the process is reaped. Idempotent on what was zeroed by PROBE_NONE. */
void
probe_close(struct probe *p);
#define PROBE_NONE ((struct probe){ .stat_fd = -1, .cpu_fd = -1 })
/* Of its processes, how many are on a processor or wait for one; refreshes the rest. A second call
 * with the same time looks at nothing. */
uint32_t
probe_look(struct probe *p, int64_t now_ns);
enum pool_probe
probe_rank(const struct probe *p);

#endif
