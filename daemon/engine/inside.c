/*
 * Runs that wait for jobs.
 *
 * A run that waits holds its slot. When all runs that fill a queue, or max_runs,
 * wait for jobs which can't start before one of them ends, none ever does. So the
 * wait that would complete such a ring is refused: its run goes on, and with it
 * the others. A wait with a time limit ends by itself and is let be.
 *
 *     ring of a queue   max_active runs of it, each waiting for a job of it that
 *                       is pending
 *     ring of all       max_runs runs, each waiting for a pending job that needs
 *                       one of them to end
 *
 * Of each run one wait is known, the first of those it made; so the list is as
 * long as there are runs, and is looked through only when the limit is reached. A
 * run with several waits at a time and a ring over several queues may go unseen:
 * such waits want a time limit.
 */
#include "engine/inside.h"

void
inside_joined(struct engine *e, struct waiter *w, struct run *from)
{
	if (from->waits)
		return;
	from->waits = w;
	w->from = from;
	list_append(&e->inside, &w->inside);
}

void
inside_left(struct waiter *w)
{
	if (!w->from)
		return;
	w->from->waits = NULL;
	w->from = NULL;
	list_del(&w->inside);
}

void
inside_run_over(struct run *run)
{
	if (run->waits)
		inside_left(run->waits);
}

/* It counts towards max_runs, and what it waits for does too. */
static bool
in_ring_of_all(const struct engine *e, const struct run *run, const struct job *j)
{
	return !run->lease && j->q->pool != e->direct;
}

static bool
in_ring_of_queue(const struct queue *q, const struct run *run, const struct job *j)
{
	return run->job->q == q && j->q == q;
}

/* How many of the runs wait for what can't start; with them that of `a`. `q` NULL: all runs. */
static uint64_t
ring(const struct ask *a, const struct queue *q)
{
	const struct engine *e = a->e;
	uint64_t n = 0;

	list_each(w, &e->inside, struct waiter, inside) {
		const struct job *j = w->group->job;

		if (w->from == a->from || group_root(w->group)->awake || job_running(j))
			continue;
		n += q ? in_ring_of_queue(q, w->from, j) : in_ring_of_all(e, w->from, j);
	}
	return n + (q ? in_ring_of_queue(q, a->from, a->j) : in_ring_of_all(e, a->from, a->j));
}

bool
inside_refused(struct ask *a, int64_t timeout_ns)
{
	const struct queue *q = a->j->q;
	const char *why = NULL;

	if (!a->from || timeout_ns >= 0 || job_running(a->j))
		return false;
	if (q->n_running > 0 && q->n_running >= queue_slots(q) && ring(a, q) >= q->n_running)
		why = "all runs that max_active allows would wait for jobs of this queue";
	else if (pool_runs_full(a->e, q) &&
		ring(a, NULL) >= a->e->stats.running - a->e->stats.leased)
		why = "all runs that max_runs allows would wait for jobs that need one of them to "
		      "end";
	if (why)
		ask_fail(a, ST_REFUSED_LIMIT, why);
	return why != NULL;
}
