/*
 * Pools as the runner has them: the runs of each in their ladder, and the samples
 * that the engine's policy decides by. Loop thread only.
 *
 * A sample wants to know how many runs of the pool are runnable, at a cost that
 * stays under one part in POOL_COST_PARTS of a processor. Looking at each run is
 * a sweep, some microseconds a run: no sweep begins before the last one has been
 * paid for. Between sweeps the kernel's count of all runnable tasks serves, which
 * costs the same for one run as for a thousand and knows of every descendant:
 *
 *     count < target                then so are ours: no need to know more
 *     count >= target               ours are the count less those of others, as
 *                                   many as the last sweeps found there to be
 */
#ifndef WQD_RUN_POOL_SIDE_H
#define WQD_RUN_POOL_SIDE_H

#include "base/reactor.h"
#include "run/cgroup.h"
#include "run/ladder.h"
#include "run/pool_machine.h"

#define POOL_COST_PARTS 100
#define POOL_SWEEP_NS   (5 * NS_PER_MS) /* between two sweeps at least */

struct pool_side {
	char name[POOL_NAME_MAX + 1];
	uint32_t index;
	struct pool_settings s;
	struct ladder ladder;
	int64_t sweep_at_ns; /* boot time before which there is no sweep */
	uint32_t swept_hogs; /* runnable hogs of the last one */
	int others[2];       /* runnable tasks of others at the last two sweeps; -1: not known */
	int64_t foreign_ns;  /* boot time since when there were others all the time; 0: not now */
	uint64_t memory;     /* bytes, of the last sweep */
	enum pool_probe rank;
	int64_t looked_ns;
	uint64_t hogs_told; /* of hogs_total, when it was last logged */
	uint64_t cost_ns, sweeps;
};

struct pool_sides {
	struct cgroup_tree tree;
	struct machine machine;
	struct pool_side **v; /* owned; by index */
	uint32_t n;
	const struct reactor *reactor;
	struct reactor_timer *timer; /* for ladders, while there are fillers */
	bool timing;
};

int
pool_sides_init(struct pool_sides *p, const struct reactor *rx, bool carried);
void
pool_sides_done(struct pool_sides *p);
/* A pool is to be so from now on. */
int
pool_sides_set(
	struct pool_sides *p, uint32_t index, const char *name, const struct pool_settings *s);
/* NULL: there is none of that name. */
struct pool_side *
pool_side_named(const struct pool_sides *p, const char *name);
/* NULL: a pool that nobody has set. */
struct pool_side *
pool_side_get(const struct pool_sides *p, uint32_t index);
/* Before a run's process is made: does it begin on a lower step? */
bool
pool_side_begins_low(struct pool_sides *p, struct pool_side *side);
/* `r->probe` is open, `r->usual_ns` and `r->nice` set. */
void
pool_side_join(struct pool_sides *p, struct pool_side *side, struct rung *r, bool low);
void
pool_side_leave(struct pool_side *side, struct rung *r);
void
pool_side_sample(
	struct pool_sides *p, struct pool_side *side, int64_t now_ns, struct pool_sample *out);

#endif
