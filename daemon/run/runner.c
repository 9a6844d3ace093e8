/*
 * The runner: which runs there are, and the turn of the reactor in which what
 * came of a start is told. The life of a run is in exec.c.
 */
#include <errno.h>
#include <signal.h>

#include "base/alloc.h"
#include "run/run.h"

static struct run *
run_find(struct runner *r, uint64_t id)
{
	list_each(run, &r->by_id[id % RUN_ID_BUCKETS], struct run, by_id)
		if (run->id == id)
			return run;
	return NULL;
}

static void
post(struct run *run)
{
	struct runner *r = run->r;

	if (list_empty(&r->posted))
		r->cfg.reactor->timer_set(r->cfg.reactor->ctx, r->post_timer, 0);
	list_append(&r->posted, &run->posted);
}

/* What callbacks start meanwhile is posted for the next turn, so that this one ends. */
static void
on_post(void *arg)
{
	struct runner *r = arg;
	struct list batch;
	struct run *run;

	CHECK_OBJ(r, RUNNER_MAGIC);
	list_init(&batch);
	list_splice(&batch, &r->posted);
	while ((run = list_first(&batch, struct run, posted)) != NULL) {
		list_del(&run->posted);
		run_tell(run);
	}
}

void
runner_start(struct runner *r, const struct run_start *start, const struct handler *h)
{
	struct run *run;

	CHECK_OBJ(r, RUNNER_MAGIC);
	run = run_new(r, start->run_id);
	run_make(run, start, h);
	post(run);
}

/* An ignored SIGCHLD, inherited from who started the daemon, makes the kernel throw exit
 * statuses away. */
static int
want_exit_statuses(void)
{
	struct sigaction sa;

	if (sigaction(SIGCHLD, NULL, &sa) < 0)
		return -errno;
	if (sa.sa_handler != SIG_IGN && !(sa.sa_flags & SA_NOCLDWAIT))
		return 0;
	sa = (struct sigaction){ .sa_handler = SIG_DFL };
	return sigaction(SIGCHLD, &sa, NULL) < 0 ? -errno : 0;
}

int
runner_new(const struct runner_config *cfg, struct runner **out)
{
	const struct reactor *rx = cfg->reactor;
	struct runner *r;
	int err = want_exit_statuses();

	if (err)
		return err;
	r = x_zalloc(sizeof *r);
	if (!r)
		return -ENOMEM;
	err = launcher_init(&r->launcher, cfg->instance, cfg->socket);
	if (err)
		goto free_runner;
	err = rx->timer_new(rx->ctx, on_post, r, &r->post_timer);
	if (err)
		goto free_launcher;
	err = pool_sides_init(&r->pools, rx, cfg->carried);
	if (err)
		goto free_timer;
	r->magic = RUNNER_MAGIC;
	r->cfg = *cfg;
	r->cfg.instance = r->launcher.instance;
	r->cfg.socket = r->launcher.socket;
	list_init(&r->posted);
	list_init(&r->all);
	for (size_t i = 0; i < RUN_ID_BUCKETS; i++)
		list_init(&r->by_id[i]);
	*out = r;
	return 0;
free_timer:
	pool_sides_done(&r->pools);
	rx->timer_del(rx->ctx, r->post_timer);
free_launcher:
	launcher_done(&r->launcher);
free_runner:
	x_free(r);
	return err;
}

void
runner_free(struct runner *r)
{
	if (!r)
		return;
	CHECK_OBJ(r, RUNNER_MAGIC);
	wq_assert(r->n == 0);
	r->cfg.reactor->timer_del(r->cfg.reactor->ctx, r->post_timer);
	pool_sides_done(&r->pools);
	launcher_done(&r->launcher);
	MAGIC_DONE(r);
	x_free(r);
}

void
runner_kill(struct runner *r, uint64_t run_id, enum run_outcome why)
{
	struct run *run = run_find(r, run_id);

	if (run)
		run_ask_stop(run, why, run->grace_ns);
}

void
runner_kill_all(struct runner *r, enum run_outcome why, int64_t grace_ns)
{
	list_each(run, &r->all, struct run, all)
		run_ask_stop(run, why, grace_ns < 0 ? run->grace_ns : grace_ns);
}

size_t
runner_active(const struct runner *r)
{
	return r->n;
}

int
runner_set_pool(struct runner *r, uint32_t index, const char *name, const struct pool_settings *s)
{
	CHECK_OBJ(r, RUNNER_MAGIC);
	return pool_sides_set(&r->pools, index, name, s);
}

bool
runner_sample(struct runner *r, uint32_t index, struct pool_sample *out)
{
	struct pool_side *side = pool_side_get(&r->pools, index);

	CHECK_OBJ(r, RUNNER_MAGIC);
	if (!side)
		return false;
	pool_side_sample(&r->pools, side, clock_boot_ns(), out);
	return true;
}

uint32_t
runner_processors(struct runner *r)
{
	CHECK_OBJ(r, RUNNER_MAGIC);
	return machine_processors(&r->pools.machine, clock_boot_ns());
}
