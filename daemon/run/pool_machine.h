/*
 * The machine as pools see it: how many processors there are for us, how many
 * tasks want one right now, whether memory is short, whether a ladder of
 * niceness would hold. Loop thread only.
 */
#ifndef WQD_RUN_POOL_MACHINE_H
#define WQD_RUN_POOL_MACHINE_H

#include "run/cgroup_find.h"

struct machine {
	struct cgroup_place place;
	int loadavg_fd; /* -1: can't be read */
	uint32_t processors;
	uint32_t allowed; /* runs that limits on processes leave room for; 0: no limit */
	bool memory_tight;
	int64_t slow_at_ns, memory_at_ns; /* when to look again; boot time */
	bool ladder;                      /* niceness works, and can be taken back */
};

void
machine_init(struct machine *m);
void
machine_done(struct machine *m);
/* Looks again at what its age calls for. */
void
machine_look(struct machine *m, int64_t now_ns);
/* Processors, after a look when the last one is too long ago. */
uint32_t
machine_processors(struct machine *m, int64_t now_ns);
/* Tasks of the whole machine on a processor or waiting for one, ourselves left out; -1: can't be
 * seen. About three microseconds. */
int
machine_running(const struct machine *m);

#endif
