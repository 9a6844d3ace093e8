/*
 * The life of a run. See runner.h.
 *
 *             runner_start
 *                  |
 *              STARTING ---------- not made ----------> UNBORN
 *                  | told                                 | told
 *                  v                                      |
 *              RUNNING --- kill, time limit ---.          |
 *                  |                           v          |
 *                  |         .------------- STOPPING      |
 *                  |         | main process    | grace    |
 *                  |         v ended           v over     |
 *                  |     LINGERING          KILLING       |
 *         main     |         | group empty,    | main     |
 *         process  |         | or grace over   | process  |
 *         ended    v         v                 v ended    v
 *                  `------> ENDED <------------+----------' (told, freed)
 *
 * runner_start makes the process, but tells of it (or of the failure) in the
 * reactor's next turn, never from inside. STOPPING has sent TERM to the whole
 * group, KILLING has sent KILL. A run that is stopped gives all its processes
 * the grace: when the main process is the first to go (a shell that dies at
 * once while its children still clean up) the run lingers until the group is
 * empty, which it mostly is already.
 *
 * A run that ends by itself is over when its main process is: what remains of
 * the group gets KILL, unless the handler keeps it. That signal goes out before
 * the main process is reaped: a zombie still holds the group's number, so that
 * it can't meanwhile belong to somebody else.
 *
 * A process that leaves the group (setsid, setpgid) leaves the run: it is not
 * stopped with it, only by orphans_end. Unless the run has a cgroup of its own
 * (cgroup.h): nothing leaves that, and KILL reaches all of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "run/group.h"
#include "run/run.h"

/* How often the group of a lingering run is looked at: soon at first, then less often. */
#define LOOK_MIN_NS (5 * NS_PER_MS)
#define LOOK_MAX_NS (100 * NS_PER_MS)
/* Looking at all processes takes one part in so many of the time, however many runs linger. */
#define SCAN_PARTS 50

#define TO(state) (1u << (state))

static const struct {
	const char *name;
	unsigned to; /* allowed next states */
} run_states[] = {
	[RS_STARTING] = { "starting", TO(RS_RUNNING) | TO(RS_UNBORN) },
	[RS_UNBORN] = { "unborn", TO(RS_ENDED) },
	[RS_RUNNING] = { "running", TO(RS_STOPPING) | TO(RS_ENDED) },
	[RS_STOPPING] = { "stopping", TO(RS_KILLING) | TO(RS_LINGERING) },
	[RS_KILLING] = { "killing", TO(RS_ENDED) },
	[RS_LINGERING] = { "lingering", TO(RS_ENDED) },
	[RS_ENDED] = { "ended", 0 },
};

/* The main process is there, running or not yet reaped, in exactly these states. */
#define HAS_PROCESS (TO(RS_STARTING) | TO(RS_RUNNING) | TO(RS_STOPPING) | TO(RS_KILLING))
/* Somebody stops it, or its time was up. */
#define IS_STOPPED (TO(RS_STOPPING) | TO(RS_KILLING) | TO(RS_LINGERING))

static void
run_check(const struct run *run)
{
	CHECK_OBJ(run, RUN_MAGIC);
	if (HAS_PROCESS & TO(run->state))
		wq_assert(run->pidfd >= 0);
	else
		wq_assert(run->pidfd < 0);
	wq_assert(run->why != RUN_NONE || !(IS_STOPPED & TO(run->state)));
	wq_assert(run->failed.error != 0 || run->state != RS_UNBORN);
}

static void
run_go(struct run *run, enum run_state to)
{
	if (!(run_states[run->state].to & TO(to))) {
		log_error("run_state", "run=%" PRIu64 " from=%s to=%s", run->id,
			run_states[run->state].name, run_states[to].name);
		wq_assert(!"an edge that is not in the table");
	}
	run->state = to;
	run_check(run);
}

static void
run_timer(struct run *run, int64_t after_ns)
{
	const struct reactor *rx = run->r->cfg.reactor;

	run->timer_ns = after_ns < 0 ? INT64_MAX : sat_add(clock_boot_ns(), after_ns);
	rx->timer_set(rx->ctx, run->timer, after_ns);
}

/* ---- making and freeing ---- */

/* The one allocation that must not fail: without it there is nothing to report a failure with. */
struct run *
run_new(struct runner *r, uint64_t id)
{
	struct run *run = must_zalloc(sizeof *run);

	run->magic = RUN_MAGIC;
	run->r = r;
	run->id = id;
	run->pidfd = -1;
	run->timer_ns = INT64_MAX;
	run->out.fd = -1;
	run->rung.probe = PROBE_NONE;
	list_init(&run->rung.link);
	run->exit_code = -1;
	list_init(&run->posted);
	list_init(&run->by_id);
	list_init(&run->all);
	list_append(&r->all, &run->all);
	list_append(&r->by_id[id % RUN_ID_BUCKETS], &run->by_id);
	r->n++;
	return run;
}

/* ---- signals and exits ---- */

static void
signal_group(const struct run *run, int sig)
{
	wq_assert(run->pid > 1);
	kill(-run->pid, sig);
	/* What left the group is still in the run's own of the other kind. */
	if (sig == SIGKILL)
		cgroup_run_kill(&run->cgroup);
}

static int64_t
timeval_ns(struct timeval t)
{
	return t.tv_sec * NS_PER_S + t.tv_usec * NS_PER_US;
}

/* The library's waitid leaves out what the system call says of the usage. */
static int
wait_usage(int pidfd, siginfo_t *si, struct rusage *ru)
{
	return (int)syscall(SYS_waitid, P_PIDFD, pidfd, si, WEXITED, ru);
}

/* Its place in the ladder goes, and the number that its processes were found by. */
static void
leave_pool(struct run *run)
{
	if (run->side)
		pool_side_leave(run->side, &run->rung);
	run->side = NULL;
	probe_close(&run->rung.probe);
}

/* Takes the exit status, waiting for it if need be, and lets go of the process. */
static void
reap(struct run *run)
{
	const struct reactor *rx = run->r->cfg.reactor;
	siginfo_t si = { 0 };
	struct rusage ru = { 0 };
	int n;

	rx->io_del(rx->ctx, run->exit_io);
	run->exit_io = NULL;
	leave_pool(run);
	do
		n = wait_usage(run->pidfd, &si, &ru);
	while (n < 0 && errno == EINTR);
	run->cpu_ns = n < 0 ? 0 : timeval_ns(ru.ru_utime) + timeval_ns(ru.ru_stime);
	close(run->pidfd);
	run->pidfd = -1;
	if (n < 0)
		return; /* somebody else took it: neither code nor signal, so it failed */
	if (si.si_code == CLD_EXITED)
		run->exit_code = si.si_status;
	else
		run->signal = si.si_status;
}

/* ---- telling ---- */

static enum run_outcome
outcome_of(const struct run *run)
{
	if (run->why != RUN_NONE)
		return run->why;
	return run->exit_code == 0 ? RUN_DONE : RUN_FAILED;
}

static struct str
output_of(const struct run *run)
{
	return run->failed.error ? str_from(run->failed.text) : capture_text(&run->out);
}

/* Lets go of everything that needs the reactor; the output stays. */
static void
run_detach(struct run *run)
{
	const struct reactor *rx = run->r->cfg.reactor;

	capture_close(&run->out);
	if (run->timer)
		rx->timer_del(rx->ctx, run->timer);
	if (cgroup_run_oom(&run->cgroup))
		log_warn("run_out_of_memory",
			"run=%" PRIu64 " msg=\"its memory limit was reached\"", run->id);
	cgroup_run_drop(&run->r->pools.tree, &run->cgroup);
	list_del(&run->posted);
	list_del(&run->by_id);
	list_del(&run->all);
	run->r->n--;
	run->r = NULL;
}

/* The callback may start other runs, and free the runner when this was the last: nothing but
 * `run` is touched after it, and callers return. */
static void
run_finish(struct run *run)
{
	const struct runner_config cfg = run->r->cfg;

	run_go(run, RS_ENDED);
	run_detach(run);
	if (launch_error_transient(&run->failed)) {
		cfg.not_started(cfg.ctx, run->id, run->failed.error);
	} else {
		struct run_end end = {
			.run_id = run->id,
			.outcome = outcome_of(run),
			.exit_code = run->exit_code,
			.signal = run->signal,
			.error = run->failed.error,
			.cpu_ns = run->cpu_ns,
			.output = output_of(run),
			.truncated = run->out.truncated,
		};

		cfg.ended(cfg.ctx, &end);
	}
	capture_done(&run->out);
	MAGIC_DONE(run);
	x_free(run);
}

/* ---- stopping ---- */

/* A process that has already exited has its own outcome: nobody stopped it. */
static void
stop(struct run *run, enum run_outcome why, int64_t grace_ns)
{
	if (process_exited(run->pidfd))
		return;
	run->why = why;
	run->kill_at_ns = sat_add(clock_boot_ns(), grace_ns);
	signal_group(run, SIGTERM);
	signal_group(run, SIGCONT); /* a stopped process sees TERM only then */
	run_timer(run, grace_ns);
	run_go(run, RS_STOPPING);
}

/* Who asked first gives the outcome; who is in more of a hurry gives the grace. */
static void
hurry(struct run *run, int64_t grace_ns)
{
	int64_t at = sat_add(clock_boot_ns(), grace_ns);

	if (at >= run->kill_at_ns)
		return;
	run->kill_at_ns = at;
	run_timer(run, grace_ns);
}

void
run_ask_stop(struct run *run, enum run_outcome why, int64_t grace_ns)
{
	switch (run->state) {
	case RS_STARTING: /* told first, then stopped */
		if (run->asked == RUN_NONE || grace_ns < run->asked_grace_ns)
			run->asked_grace_ns = grace_ns;
		if (run->asked == RUN_NONE)
			run->asked = why;
		break;
	case RS_RUNNING:
		stop(run, why, grace_ns);
		break;
	case RS_STOPPING:
	case RS_LINGERING:
		hurry(run, grace_ns);
		break;
	case RS_UNBORN:
	case RS_KILLING:
	case RS_ENDED:
		break;
	}
}

/* ---- what happens to a run ---- */

/* Tells of the start, once. The process is still there afterwards, or at least its zombie. */
static void
announce(struct run *run)
{
	const struct runner_config *cfg = &run->r->cfg;

	list_del(&run->posted);
	run_go(run, RS_RUNNING);
	cfg->started(cfg->ctx, run->id, run->pid);
	if (run->asked != RUN_NONE)
		run_ask_stop(run, run->asked, run->asked_grace_ns);
}

/* Mostly it is plainly gone. Whether a group that is there has but zombies is asked when it may be. */
static bool
group_over(const struct run *run)
{
	struct runner *r = run->r;
	int64_t began = clock_boot_ns();
	bool over;

	if (!group_exists(run->pid))
		return true;
	if (began < r->scan_at_ns)
		return false;
	over = !group_alive(run->pid);
	r->scan_at_ns = began + SCAN_PARTS * (clock_boot_ns() - began);
	return over;
}

static void
linger(struct run *run)
{
	int64_t left = run->kill_at_ns - clock_boot_ns();

	if (group_over(run)) {
		cgroup_run_kill(&run->cgroup);
		run_finish(run);
		return;
	}
	if (left <= 0) {
		signal_group(run, SIGKILL);
		run_finish(run);
		return;
	}
	run_timer(run, left < run->look_ns ? left : run->look_ns);
	run->look_ns = run->look_ns * 2 < LOOK_MAX_NS ? run->look_ns * 2 : LOOK_MAX_NS;
}

static void
on_timer(void *arg)
{
	struct run *run = arg;

	run_check(run);
	switch (run->state) {
	case RS_STARTING:
		announce(run);
		if (run->state == RS_RUNNING)
			stop(run, RUN_TIMEOUT, run->grace_ns);
		break;
	case RS_RUNNING:
		stop(run, RUN_TIMEOUT, run->grace_ns);
		break;
	case RS_STOPPING:
		signal_group(run, SIGKILL);
		run_go(run, RS_KILLING);
		break;
	case RS_LINGERING:
		linger(run);
		break;
	case RS_UNBORN:
	case RS_KILLING:
	case RS_ENDED:
		break;
	}
}

static void
on_exit_ready(void *arg, unsigned ready)
{
	struct run *run = arg;

	(void)ready;
	run_check(run);
	if (!process_exited(run->pidfd))
		return;
	if (run->state == RS_STARTING)
		announce(run);
	if (run->state == RS_STOPPING) {
		reap(run);
		run->look_ns = LOOK_MIN_NS;
		run_go(run, RS_LINGERING);
		linger(run);
		return;
	}
	if (run->state == RS_KILLING || !run->keep_children)
		signal_group(run, SIGKILL);
	reap(run);
	run_finish(run);
}

/* ---- starting ---- */

/* The process is there, but its end would not be noticed: it can't stay. */
static void
unmake(struct run *run, int error)
{
	signal_group(run, SIGKILL);
	reap(run);
	run->exit_code = -1;
	run->signal = 0;
	launch_failed(&run->failed, STEP_WATCH, NULL, error);
}

/* What it came to, from what the daemon has. */
static int
pool_nice(int more)
{
	int nice = getpriority(PRIO_PROCESS, 0) + more;

	return nice < -20 ? -20 : nice > 19 ? 19 : nice;
}

static void
join_pool(struct run *run, const struct run_start *start, const struct handler *h, bool low)
{
	if (!run->side)
		return;
	probe_open(&run->rung.probe, run->pid, cgroup_run_cpu(&run->cgroup));
	run->rung.usual_ns = start->usual_cpu_ns;
	run->rung.nice = pool_nice(h->nice + run->side->s.nice);
	pool_side_join(&run->r->pools, run->side, &run->rung, low);
}

static bool
launch_in_pool(struct run *run, const struct run_start *start, const struct handler *h, int out_fd,
	bool low, struct spawned *made)
{
	struct launch_pool pool = { .low = low, .cgroup_fd = -1 };
	int err = 0;
	bool ok;

	if (run->side) {
		pool.nice = run->side->s.nice;
		err = cgroup_run_make(&run->r->pools.tree, run->side->index, run->id, h->run_memory,
			h->run_processes, &run->cgroup);
	}
	if (err == 0 && run->cgroup.path[0]) {
		pool.cgroup_fd = cgroup_run_procs(&run->cgroup);
		err = pool.cgroup_fd < 0 ? pool.cgroup_fd : 0;
	}
	if (err) {
		launch_failed(&run->failed, STEP_CGROUP, NULL, -err);
		return false;
	}
	ok = launch(&run->r->launcher, start, h, out_fd, &pool, made, &run->failed);
	if (pool.cgroup_fd >= 0)
		close(pool.cgroup_fd);
	return ok;
}

/* All that can fail and needs no process comes before the process. */
static void
make_process(struct run *run, const struct run_start *start, const struct handler *h)
{
	const struct reactor *rx = run->r->cfg.reactor;
	struct spawned made;
	int err, out_fd = -1;
	bool ok, low;

	err = rx->timer_new(rx->ctx, on_timer, run, &run->timer);
	if (err) {
		launch_failed(&run->failed, STEP_MEMORY, NULL, -err);
		return;
	}
	err = capture_open(&run->out, rx, h->output_max, &out_fd);
	if (err) {
		launch_failed(&run->failed, STEP_OUTPUT, NULL, -err);
		return;
	}
	low = run->side && pool_side_begins_low(&run->r->pools, run->side);
	ok = launch_in_pool(run, start, h, out_fd, low, &made);
	close(out_fd);
	if (!ok)
		return;
	run->pid = made.pid;
	run->pidfd = made.pidfd;
	join_pool(run, start, h, low);
	err = rx->io_add(rx->ctx, run->pidfd, REACTOR_READ, on_exit_ready, run, &run->exit_io);
	if (err)
		unmake(run, -err);
}

void
run_make(struct run *run, const struct run_start *start, const struct handler *h)
{
	if (h) {
		wq_assert(start->command.n > 0 || (h->command && h->command[0]));
		run->grace_ns = h->grace_ns;
		run->keep_children = h->keep_children;
		run->side = pool_side_get(&run->r->pools, start->pool);
		make_process(run, start, h);
		if (run->failed.error == 0 && h->timeout_ns > 0)
			run_timer(run, h->timeout_ns);
	} else {
		launch_failed(&run->failed, STEP_HANDLER, "is not in the configuration", ENOENT);
	}
	if (run->failed.error)
		run_go(run, RS_UNBORN);
	run_check(run);
}

int
run_adopt(struct run *run, enum run_state state, int out_fd)
{
	const struct reactor *rx = run->r->cfg.reactor;
	int64_t left = run->timer_ns - clock_boot_ns();
	int err = rx->timer_new(rx->ctx, on_timer, run, &run->timer);

	if (err == 0)
		err = capture_adopt(&run->out, rx, out_fd);
	if (err == 0 && run->pidfd >= 0)
		err = rx->io_add(
			rx->ctx, run->pidfd, REACTOR_READ, on_exit_ready, run, &run->exit_io);
	if (err < 0)
		return err;
	if (run->timer_ns != INT64_MAX)
		run_timer(run, left > 0 ? left : 0);
	run->state = state;
	run_check(run);
	return 0;
}

void
run_tell(struct run *run)
{
	if (run->state == RS_UNBORN)
		run_finish(run);
	else
		announce(run);
}
