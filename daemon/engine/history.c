/*
 * Finished runs, kept: so many of a queue and for so long, oldest out first.
 *
 * The newest of a dead job outstays both, for it is what says why: it leaves
 * the queue's list and stays with the job.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/internal.h"

/* ---- one record ---- */

int
record_new(struct engine *e, struct record **out)
{
	struct record *r = x_zalloc(sizeof *r);

	(void)e;
	if (!r)
		return -ENOMEM;
	r->magic = RECORD_MAGIC;
	r->refs = 1;
	dirty_init(&r->dirty, DIRTY_RECORD);
	list_init(&r->of_queue);
	list_init(&r->of_job);
	*out = r;
	return 0;
}

void
record_ref(struct record *r)
{
	r->refs++;
}

void
record_unref(struct engine *e, struct record *r)
{
	if (r && --r->refs == 0)
		dirty_gone(e, &r->dirty);
}

void
record_free(struct engine *e, struct record *r)
{
	e->stats.bytes -= r->r.output.n;
	x_free((char *)(uintptr_t)r->r.output.p);
	MAGIC_DONE(r);
	x_free(r);
}

/* ---- by generation ---- */

struct record_search {
	const struct job *job;
	uint64_t generation;
};

static bool
record_match(const struct map_node *node, const void *key)
{
	const struct record *r = container_of(node, const struct record, node);
	const struct record_search *s = key;

	return r->job == s->job && r->r.generation == s->generation;
}

void
record_map_init(struct map *m)
{
	map_init(m, record_match);
}

static uint64_t
record_hash(const struct engine *e, const struct job *j, uint64_t generation)
{
	uint64_t v = e->cfg.seed[0] + job_number(e, j) * 0x9e3779b97f4a7c15u +
		generation * 0xd6e8feb86659fd93u;

	v = (v ^ v >> 32) * (e->cfg.seed[1] | 1);
	return v ^ v >> 32;
}

struct record *
history_find(const struct engine *e, const struct job *j, uint64_t generation)
{
	struct record_search s = { j, generation };
	struct map_node *node = map_find(&e->results, record_hash(e, j, generation), &s);

	return node ? container_of(node, struct record, node) : NULL;
}

struct record *
history_find_standing(const struct engine *e, const struct job *j, uint64_t generation)
{
	struct record *found = history_find(e, j, generation);

	/* Newest first. */
	if (found || !e->merged)
		return found;
	list_each(r, &side_of(j)->records, struct record, of_job) {
		if (r->r.generation < generation)
			break;
		if (r->r.generation - generation <= r->merged)
			return history_find(e, j, r->r.generation);
	}
	return NULL;
}

static void
record_unmap(struct engine *e, struct record *r)
{
	if (r->mapped)
		map_del(&e->results, &r->node);
	r->mapped = false;
}

/* The last attempt stands for the generation. */
static void
record_map(struct engine *e, struct record *r)
{
	struct record *before = history_find(e, r->job, r->r.generation);

	if (before)
		record_unmap(e, before);
	/* Without memory it is in the lists alone. */
	r->mapped = map_add(&e->results, &r->node, record_hash(e, r->job, r->r.generation)) == 0;
}

/* ---- keeping ---- */

/* What a delete leaves for later turns: the job's records up to `until_seq`. */
struct purge {
	struct list link; /* engine.purges */
	struct job *job;  /* pinned */
	uint64_t until_seq;
};

#define PURGE_AT_ONCE 64u

static void
history_unlink(struct engine *e, struct record *r)
{
	if (!list_linked(&r->of_queue))
		return;
	list_del(&r->of_queue);
	r->q->n_records--;
	(void)e;
}

void
history_drop(struct engine *e, struct record *r)
{
	history_unlink(e, r);
	list_del(&r->of_job);
	record_unmap(e, r);
	record_unref(e, r);
}

void
history_drop_job(struct engine *e, struct job *j)
{
	struct record *r;

	while ((r = history_newest(j)) != NULL)
		history_drop(e, r);
}

static struct record *
history_oldest_of(const struct job *j)
{
	return list_empty(&side_of(j)->records)
		? NULL
		: list_entry(side_of(j)->records.prev, struct record, of_job);
}

void
history_purge(struct engine *e, struct job *j)
{
	uint32_t most = PURGE_AT_ONCE;
	struct record *r;
	struct purge *p;

	while (most-- > 0 && (r = history_newest(j)) != NULL)
		history_drop(e, r);
	if (list_empty(&side_of(j)->records))
		return;
	p = x_alloc(sizeof *p);
	if (!p) {
		history_drop_job(e, j);
		return;
	}
	p->job = j;
	p->until_seq = e->run_seq;
	job_side(j)->pins++;
	list_append(&e->purges, &p->link);
}

static void
purge_end(struct engine *e, struct purge *p)
{
	list_del(&p->link);
	job_side(p->job)->pins--;
	job_settle(e, p->job);
	x_free(p);
}

void
history_purge_some(struct engine *e, uint32_t most)
{
	struct purge *p;

	while (most-- > 0 && (p = list_first(&e->purges, struct purge, link)) != NULL &&
		engine_spend(e)) {
		struct record *r = history_oldest_of(p->job);

		if (r && r->seq <= p->until_seq)
			history_drop(e, r);
		else
			purge_end(e, p);
	}
}

void
history_free(struct engine *e)
{
	struct purge *p;

	while ((p = list_first(&e->purges, struct purge, link)) != NULL)
		purge_end(e, p);
}

/* The oldest of the queue is over. */
static void
history_evict(struct engine *e, struct record *r)
{
	struct job *j = r->job;

	if (side_of(j)->dead && r == history_newest(j)) {
		history_unlink(e, r);
		return;
	}
	history_drop(e, r);
	job_settle(e, j);
}

static bool
history_over(const struct engine *e, const struct queue *q, const struct record *r)
{
	return q->n_records > q->s.retention_count ||
		sat_add(r->ended_ns, q->s.retention_ns) <= e->now.boot_ns;
}

static struct record *
history_oldest(const struct queue *q)
{
	return list_first(&q->records, struct record, of_queue);
}

void
history_schedule(struct engine *e, struct queue *q)
{
	const struct record *r = history_oldest(q);
	int64_t due_ns;

	if (!r) {
		timer_del(&e->retires, &q->retire);
		return;
	}
	due_ns = q->n_records > q->s.retention_count ? e->now.boot_ns
						     : sat_add(r->ended_ns, q->s.retention_ns);
	/* Without memory the next record tries again. */
	(void)timer_set(&e->retires, &q->retire, due_ns, ++e->seq);
}

void
history_link(struct engine *e, struct job *j, struct record *r)
{
	struct queue *q = j->q;

	r->job = j;
	r->q = q;
	record_ref(r);
	list_append(&q->records, &r->of_queue);
	list_prepend(&job_side(j)->records, &r->of_job);
	q->n_records++;
	record_map(e, r);
}

void
history_add(struct engine *e, struct job *j, struct record *r)
{
	struct queue *q = j->q;

	r->seq = ++e->run_seq;
	if (!side_of(j)->dead && (q->s.retention_count == 0 || q->s.retention_ns == 0))
		return;
	history_link(e, j, r);
	if (j->durable) {
		job_changed(e, j);
		dirty_mark_with(e, &r->dirty, &job_side(j)->dirty);
	}
	/* One comes, one goes; what a lowered limit left over goes in its own time. */
	if (q->n_records > q->s.retention_count)
		history_evict(e, history_oldest(q));
	if (!timer_armed(&q->retire) || q->n_records > q->s.retention_count)
		history_schedule(e, q);
}

void
history_retire_some(struct engine *e, uint32_t most)
{
	struct timer *t;

	while (most > 0 && (t = timers_past(&e->retires, e->now.boot_ns)) != NULL) {
		struct queue *q = container_of(t, struct queue, retire);
		struct record *r;

		while ((r = history_oldest(q)) != NULL && history_over(e, q, r)) {
			if (most == 0 || !engine_spend(e))
				return;
			most--;
			history_evict(e, r);
		}
		history_schedule(e, q);
	}
}
