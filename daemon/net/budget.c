#include <sys/resource.h>

#include "net/conn.h"

/* Standard ones, loop, log, storage with its journal and its temporary files, listeners; and a run:
 * pipe, memfd, pidfd and what a start needs for a moment. */
#define RESERVE_BASE    32u
#define RESERVE_PER_RUN 4u

uint32_t
conns_budget(uint32_t wanted, uint32_t max_runs)
{
	struct rlimit rl;
	uint64_t limit, reserve;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return wanted ? wanted : 1;
	if (rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
			getrlimit(RLIMIT_NOFILE, &rl);
	}
	limit = rl.rlim_cur;
	reserve = RESERVE_BASE + (uint64_t)RESERVE_PER_RUN * max_runs;
	if (reserve > limit / 2)
		reserve = limit / 2;
	if (limit - reserve < wanted)
		wanted = (uint32_t)(limit - reserve);
	return wanted ? wanted : 1;
}
