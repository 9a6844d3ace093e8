/*
 * How many worker programs the daemon keeps for a queue: a pure function of what
 * there is. One more when work is ready, nobody idle and a processor of the queue's
 * pool free; so many spare; who is idle for long goes, the coldest first. All that
 * is at work in the pool counts: other queues' workers, and runs. A queue without
 * any gets one all the same.
 */
#ifndef WQD_ENGINE_CREW_H
#define WQD_ENGINE_CREW_H

#include <stdint.h>

struct crew_state {
	uint32_t alive;      /* programs, those that come too, not those that go */
	uint32_t coming;     /* started, not subscribed yet */
	uint32_t idle;       /* subscribed, and hold nothing */
	uint64_t ready;      /* jobs that wait for a worker */
	uint32_t most;       /* alive at once */
	uint32_t spare;      /* idle ones to be kept */
	uint32_t processors; /* that the pool may fill */
	double used; /* of these, what its workers and runs keep busy; below 0: not known yet */
	int64_t coldest_ns; /* how long the one that is idle longest has been so */
	int64_t idle_timeout_ns;
	uint32_t others; /* workers of other queues of the pool, and runs at work in it */
	uint32_t cap;    /* of all of the pool's workers together; 0: none */
};

enum crew_step { CREW_STAY, CREW_HIRE, CREW_RETIRE };

enum crew_step
crew_decide(const struct crew_state *s);

#endif
