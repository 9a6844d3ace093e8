/*
 * Queues: settings, the FIFO of ready jobs, colours for flushes, pause.
 *
 * A ready job is on `ready`, or on `parked` (it became ready during a drain that
 * does not wait for it), or `aside`: its turn came while its own run was still
 * going, so it waits for that alone and then goes to the front, where it was.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"
#include "engine/internal.h"

/* ---- finding, making, ending ---- */

static bool
queue_match(const struct map_node *node, const void *key)
{
	return str_eq(container_of(node, const struct queue, node)->name, *(const struct str *)key);
}

void
queue_map_init(struct map *m)
{
	map_init(m, queue_match);
}

static uint64_t
queue_hash(const struct engine *e, struct str name)
{
	return siphash13(e->cfg.seed, name.p, name.n);
}

struct queue *
queue_find(const struct engine *e, struct str name)
{
	struct map_node *node;

	if (name.n == 0)
		return e->fallback;
	if (e->recent && str_eq(e->recent->name, name))
		return e->recent;
	node = map_find(&e->queue_names, queue_hash(e, name), &name);
	return node ? container_of(node, struct queue, node) : NULL;
}

static struct colour *
colour_new(struct queue *q)
{
	struct colour *c = x_zalloc(sizeof *c);

	if (c)
		list_append(&q->colours, &c->link);
	return c;
}

static void
colour_free(struct colour *c)
{
	list_del(&c->link);
	x_free(c);
}

static void
queue_init_lists(struct queue *q)
{
	list_init(&q->of_engine);
	list_init(&q->ready);
	list_init(&q->parked);
	list_init(&q->turn);
	list_init(&q->spare);
	list_init(&q->colours);
	list_init(&q->crew);
	list_init(&q->places);
	list_init(&q->takers);
	list_init(&q->tenants);
	list_init(&q->records);
	list_init(&q->sweep.link);
	timers_init(&q->sweep.found);
	dirty_init(&q->dirty, DIRTY_QUEUE);
}

int
queue_new(struct engine *e, struct str name, const struct queue_settings *s, struct queue **out)
{
	struct queue *q;

	if (e->stats.queues >= e->cfg.max_queues)
		return ERR_LIMIT;
	q = x_zalloc(sizeof *q);
	if (!q)
		return -ENOMEM;
	q->magic = QUEUE_MAGIC;
	q->s = *s;
	q->park_epoch = 1;
	q->salt = engine_random(e, 'q', ++e->made);
	q->n = ++e->queues_made;
	q->name = (struct str){ x_strndup(name.p, name.n), name.n };
	queue_init_lists(q);
	if (!q->name.p || !colour_new(q) ||
		map_add(&e->queue_names, &q->node, queue_hash(e, name)) < 0) {
		queue_free(e, q);
		return -ENOMEM;
	}
	pools_place_queue(e, q);
	list_append(&e->queues, &q->of_engine);
	e->stats.queues++;
	*out = q;
	return 0;
}

void
queue_remove(struct engine *e, struct queue *q)
{
	wq_assert(q->n_jobs == 0 && list_empty(&q->records) && list_empty(&q->tenants));
	map_del(&e->queue_names, &q->node);
	if (e->recent == q)
		e->recent = NULL;
	tell_queue(e, q, "deleted");
	workers_queue_gone(e, q);
	list_del(&q->crew);
	list_del(&q->of_engine);
	queue_turn_leave(q);
	list_del(&q->sweep.link);
	timer_del(&e->backoffs, &q->backoff);
	timer_del(&e->paces, &q->pace);
	timer_del(&e->retires, &q->retire);
	e->stats.queues--;
	dirty_gone(e, &q->dirty);
}

void
queue_free(struct engine *e, struct queue *q)
{
	struct colour *c;

	(void)e;
	while ((c = list_first(&q->colours, struct colour, link)) != NULL)
		colour_free(c);
	timers_done(&q->sweep.found);
	x_free((char *)(uintptr_t)q->name.p);
	MAGIC_DONE(q);
	x_free(q);
}

/* ---- ready jobs ---- */

uint32_t
queue_slots(const struct queue *q)
{
	return q->s.ordered && q->s.max_active > 1 ? 1 : q->s.max_active;
}

bool
queue_holds(const struct queue *q)
{
	return q->paused || q->draining || timer_armed(&q->pace) || q->n_running >= queue_slots(q);
}

bool
queue_may_start(const struct queue *q)
{
	if (q->s.action == ACTION_LEASE && list_empty(&q->takers))
		return false;
	return !list_empty(&q->ready) && !q->paused && !timer_armed(&q->backoff) &&
		!timer_armed(&q->pace) && q->n_running < queue_slots(q);
}

void
queue_changed(struct engine *e, struct queue *q)
{
	if (!queue_may_start(q))
		queue_turn_leave(q);
	else
		queue_turn_join(e, q);
	if (q->draining)
		drain_check(e, q);
}

static struct colour *
queue_colour(const struct queue *q)
{
	return list_entry(q->colours.prev, struct colour, link);
}

struct colour *
queue_colour_join(struct queue *q)
{
	struct colour *c = queue_colour(q);

	c->n++;
	return c;
}

void
queue_ready_put(struct engine *e, struct job *j)
{
	struct queue *q = j->q;

	j->seq = ++e->seq;
	job_side(j)->colour = queue_colour_join(q);
	if (q->draining && !j->chained) {
		job_side(j)->parked = q->park_epoch;
		q->n_parked++;
		list_append(&q->parked, &job_side(j)->ready);
	} else {
		list_append(&q->ready, &job_side(j)->ready);
	}
}

void
queue_ready_aside(struct job *j)
{
	list_del(&job_side(j)->ready);
	job_side(j)->aside = true;
}

/* Where it was. Before it can only be others that came back: as many as have been handed over or
 * put aside, never all who are ready. */
void
queue_ready_back(struct engine *e, struct job *j)
{
	struct list *at = j->q->ready.next;

	(void)e;
	job_side(j)->aside = false;
	while (at != &j->q->ready && list_entry(at, struct side, ready)->job->seq < j->seq)
		at = at->next;
	list_append(at, &job_side(j)->ready);
}

/* Steps that a merge may take: past that an abandoned drain costs order, not time. */
#define UNPARK_STEPS 4096u

/* What became ready while the queue drained goes in among those that did and could start. There
 * are few of these, only what the queue's own runs asked for: they are merged into the parked. */
void
queue_unpark(struct queue *q)
{
	uint32_t steps = UNPARK_STEPS;
	struct list *at = &q->parked;
	struct job *j;

	while (!list_empty(&q->parked) && !list_empty(&q->ready) && steps > 0) {
		j = list_entry(q->ready.prev, struct side, ready)->job;
		if (j->seq < list_entry(q->parked.next, struct side, ready)->job->seq)
			break;
		for (; steps > 0 && list_entry(at->prev, struct side, ready)->job->seq > j->seq;
			steps--)
			at = at->prev;
		list_del(&job_side(j)->ready);
		list_append(at, &job_side(j)->ready);
		at = &job_side(j)->ready;
	}
	list_splice(&q->ready, &q->parked);
	q->park_epoch++;
	q->n_parked = 0;
}

void
queue_ready_take(struct engine *e, struct job *j)
{
	tenant_unwait(e, j);
	list_del(&job_side(j)->ready);
	if (side_of(j)->parked == j->q->park_epoch)
		j->q->n_parked--;
	job_side(j)->parked = 0;
	job_side(j)->aside = false;
}

void
queue_ready_dropped(struct engine *e, struct job *j)
{
	colour_leave(e, j->q, side_of(j)->colour);
	tenant_pass(e, j);
}

/* The oldest colour is closed and empty. */
static bool
colour_over(const struct queue *q)
{
	const struct colour *oldest = list_first(&q->colours, struct colour, link);

	return oldest->n == 0 && oldest != queue_colour(q);
}

bool
queue_pop_colour(struct engine *e, struct queue *q)
{
	struct colour *oldest = list_first(&q->colours, struct colour, link);

	if (!colour_over(q))
		return false;
	group_wake(e, &oldest->waiters, ST_OK, NULL);
	colour_free(oldest);
	return true;
}

/* Flushes may have closed a great many behind one slow run. */
#define COLOURS_AT_ONCE 16u

void
colour_leave(struct engine *e, struct queue *q, struct colour *c)
{
	wq_assert(c->n > 0);
	c->n--;
	for (uint32_t most = COLOURS_AT_ONCE; most > 0; most--)
		if (!queue_pop_colour(e, q))
			return;
	if (colour_over(q))
		sweep_queue(e, q);
}

/* ---- requests ---- */

static int
settings_from_texts(
	struct engine *e, struct queue_settings *s, const struct op_queue_set *op, const char **why)
{
	for (size_t i = 0; i < op->n_settings; i++) {
		int err = queue_settings_set(s, op->settings[i].name, op->settings[i].value);

		if (err < 0) {
			*why = err == ERR_UNKNOWN_NAME    ? "no such setting"
				: err == ERR_OUT_OF_RANGE ? "a setting is out of its range"
							  : "a setting has a bad value";
			return err;
		}
	}
	if (!pools_known(e, str_from(s->pool))) {
		*why = "no such pool";
		return ERR_BAD_VALUE;
	}
	return queue_settings_check(s, why);
}

static void
queue_saved(struct engine *e, struct queue *q)
{
	dirty_mark(e, &q->dirty);
	e->urgent = true;
}

/* The rest in the next turns. */
#define TENANTS_AT_ONCE 64u

void
queue_apply(struct engine *e, struct queue *q, const struct queue_settings *s)
{
	struct queue_settings was = q->s;

	queue_turn_leave(q);
	q->s = *s;
	pools_place_queue(e, q);
	queue_rate_changed(e, q, &was.rate);
	if (was.prefix_limit != s->prefix_limit || was.prefix_separator != s->prefix_separator) {
		tenants_changed(e, q, was.prefix_separator != s->prefix_separator);
		tenants_some(e, TENANTS_AT_ONCE);
	}
	queue_saved(e, q);
	tell_queue(e, q, "changed");
	history_schedule(e, q);
	queue_changed(e, q);
}

void
queue_create_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_queue_set *op = ev->queue_set;
	struct queue_settings s;
	const char *why = NULL;
	struct ask a = { .e = e, .ticket = ev->ticket, .r.queue = op->queue };
	int err;

	if (!queue_name_ok(e, op->queue)) {
		ask_fail(&a, ST_INVALID, BAD_QUEUE);
		return;
	}
	if (queue_find(e, op->queue)) {
		ask_fail(&a, ST_EXISTS, "a queue of that name exists");
		return;
	}
	queue_settings_default(&s);
	if (settings_from_texts(e, &s, op, &why) < 0) {
		ask_fail(&a, ST_INVALID, why);
		return;
	}
	err = queue_new(e, op->queue, &s, &a.q);
	if (err < 0) {
		ask_fail_err(&a, err);
		return;
	}
	queue_saved(e, a.q);
	tell_queue(e, a.q, "created");
	a.level = LEVEL_SYNC;
	ask_done(&a, ST_OK);
}

void
queue_set_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_queue_set *op = ev->queue_set;
	struct queue_settings s;
	const char *why = NULL;
	struct ask a;

	if (!ask_open_queue(&a, e, ev, op->queue))
		return;
	s = a.q->s;
	if (settings_from_texts(e, &s, op, &why) < 0) {
		ask_fail(&a, ST_INVALID, why);
		return;
	}
	queue_apply(e, a.q, &s);
	ask_done(&a, ST_OK);
}

void
queue_pause_event(struct engine *e, const struct engine_event *ev)
{
	bool pause = ev->kind == EV_PAUSE;
	struct ask a;

	if (!ask_open_queue(&a, e, ev, ev->queue->queue))
		return;
	if (a.q->paused != pause) {
		a.q->paused = pause;
		queue_saved(e, a.q);
		tell_queue(e, a.q, pause ? "paused" : "resumed");
		queue_changed(e, a.q);
	}
	ask_done(&a, ST_OK);
}

int
queue_close_colour(struct queue *q, struct colour **out)
{
	struct colour *c = queue_colour(q);

	if (c->n == 0) {
		*out = c->link.prev == &q->colours ? NULL
						   : list_entry(c->link.prev, struct colour, link);
		return 0;
	}
	if (!colour_new(q))
		return -ENOMEM;
	*out = c;
	return 0;
}

void
queue_flush_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_flush_queue *op = ev->flush_queue;
	struct colour *c = NULL;
	struct ask a;
	int err;

	if (!ask_open_queue(&a, e, ev, op->queue) || ask_bad_timeout(&a, op->timeout_ns))
		return;
	a.level = LEVEL_ASYNC;
	if (a.from && a.from->job->q == a.q) {
		ask_fail(&a, ST_INVALID, "a run can't wait for its own queue");
		return;
	}
	err = queue_close_colour(a.q, &c);
	if (err == 0 && c)
		err = wait_join(&a, W_FLUSH_QUEUE, &c->waiters, a.q, NULL, op->timeout_ns);
	if (err < 0)
		ask_fail_err(&a, err);
	else if (!c)
		ask_done(&a, ST_OK);
}
