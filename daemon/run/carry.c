/*
 * Runs over an exec: the process stays our child, its descriptors stay open, and
 * what it has written so far goes along. A run whose start has not been told yet,
 * or that failed to start, is not carried: runner_settled waits for those.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "run/run.h"

/* Never given to anything else; states are numbers of enum run_state. */
enum {
	CHILD_RUN = 1,
	CHILD_STATE,
	CHILD_PID,
	CHILD_PIDFD,
	CHILD_OUT,
	CHILD_KEPT,
	CHILD_KEPT_MAX,
	CHILD_TRUNCATED,
	CHILD_TIMER,
	CHILD_GRACE,
	CHILD_KEEP,
	CHILD_WHY,
	CHILD_KILL_AT,
	CHILD_LOOK,
	CHILD_EXIT,
	CHILD_SIGNAL,
	CHILD_CPU,
	CHILD_CGROUP,
	CHILD_POOL,
	CHILD_USUAL,
	CHILD_NICE,
	CHILD_LOW,
};

bool
runner_settled(const struct runner *r)
{
	CHECK_OBJ(r, RUNNER_MAGIC);
	if (!list_empty(&r->posted))
		return false;
	list_each(run, &r->all, struct run, all)
		if (run->state == RS_STARTING || run->state == RS_UNBORN)
			return false;
	return true;
}

static void
put_run(struct carry_out *o, const struct run *run)
{
	const struct buf *kept = &run->out.kept;

	carry_begin(o, CARRY_CHILD);
	carry_u64(o, CHILD_RUN, run->id);
	carry_u64(o, CHILD_STATE, run->state);
	carry_u64(o, CHILD_PID, (uint64_t)run->pid);
	carry_fd(o, CHILD_PIDFD, run->pidfd);
	carry_fd(o, CHILD_OUT, run->out.fd);
	carry_str(o, CHILD_KEPT, buf_str(kept));
	carry_u64(o, CHILD_KEPT_MAX, kept->max);
	carry_u64(o, CHILD_TRUNCATED, run->out.truncated);
	carry_i64(o, CHILD_TIMER, run->timer_ns);
	carry_i64(o, CHILD_GRACE, run->grace_ns);
	carry_u64(o, CHILD_KEEP, run->keep_children);
	carry_u64(o, CHILD_WHY, run->why);
	carry_i64(o, CHILD_KILL_AT, run->kill_at_ns);
	carry_i64(o, CHILD_LOOK, run->look_ns);
	carry_i64(o, CHILD_EXIT, run->exit_code);
	carry_i64(o, CHILD_SIGNAL, run->signal);
	carry_i64(o, CHILD_CPU, run->cpu_ns);
	carry_str(o, CHILD_CGROUP, str_from(run->cgroup.path));
	if (run->side) {
		carry_str(o, CHILD_POOL, str_from(run->side->name));
		carry_i64(o, CHILD_USUAL, run->rung.usual_ns);
		carry_i64(o, CHILD_NICE, run->rung.nice);
		carry_u64(o, CHILD_LOW, run->rung.low);
	}
	carry_end(o);
}

void
runner_carry_out(const struct runner *r, struct carry_out *o)
{
	CHECK_OBJ(r, RUNNER_MAGIC);
	list_each(run, &r->all, struct run, all)
		put_run(o, run);
}

static void
join_pool(struct run *run, const struct carry_record *r)
{
	char name[POOL_NAME_MAX + 1];
	struct pool_sides *pools = &run->r->pools;

	if (carry_get_text(r, CHILD_POOL, name, sizeof name) < 0 || !name[0] || run->pidfd < 0)
		return;
	run->side = pool_side_named(pools, name);
	/* One that the configuration knows no more leaves it to itself. */
	if (!run->side)
		return;
	probe_open(&run->rung.probe, run->pid, cgroup_run_cpu(&run->cgroup));
	run->rung.usual_ns = carry_get_i64(r, CHILD_USUAL, 0);
	run->rung.nice = (int)carry_get_i64(r, CHILD_NICE, 0);
	pool_side_join(pools, run->side, &run->rung, carry_get_u64(r, CHILD_LOW, 0) != 0);
}

static int
get_run(struct run *run, const struct carry_record *r)
{
	struct str kept = carry_get(r, CHILD_KEPT);

	run->pid = (pid_t)carry_get_u64(r, CHILD_PID, 0);
	run->pidfd = carry_get_fd(r, CHILD_PIDFD);
	run->timer_ns = carry_get_i64(r, CHILD_TIMER, INT64_MAX);
	run->grace_ns = carry_get_i64(r, CHILD_GRACE, 0);
	run->keep_children = carry_get_u64(r, CHILD_KEEP, 0) != 0;
	run->why = (enum run_outcome)carry_get_u64(r, CHILD_WHY, RUN_NONE);
	run->kill_at_ns = carry_get_i64(r, CHILD_KILL_AT, 0);
	run->look_ns = carry_get_i64(r, CHILD_LOOK, NS_PER_MS);
	run->exit_code = (int)carry_get_i64(r, CHILD_EXIT, -1);
	run->signal = (int)carry_get_i64(r, CHILD_SIGNAL, 0);
	run->cpu_ns = carry_get_i64(r, CHILD_CPU, 0);
	buf_init(&run->out.kept, (size_t)carry_get_u64(r, CHILD_KEPT_MAX, 0));
	run->out.truncated = carry_get_u64(r, CHILD_TRUNCATED, 0) != 0;
	if (run->pid <= 1 ||
		carry_get_text(r, CHILD_CGROUP, run->cgroup.path, sizeof run->cgroup.path) < 0)
		return ERR_DAMAGED;
	return kept.n ? buf_put(&run->out.kept, kept.p, kept.n) : 0;
}

int
runner_carry_in(struct runner *r, const struct carry_record *from)
{
	uint64_t state = carry_get_u64(from, CHILD_STATE, RS_ENDED);
	struct run *run;
	int err;

	CHECK_OBJ(r, RUNNER_MAGIC);
	if (state < RS_RUNNING || state >= RS_ENDED)
		return ERR_DAMAGED;
	run = run_new(r, carry_get_u64(from, CHILD_RUN, 0));
	err = get_run(run, from);
	if (err == 0)
		err = run_adopt(run, (enum run_state)state, carry_get_fd(from, CHILD_OUT));
	if (err == 0)
		join_pool(run, from);
	return err;
}
