/*
 * Looking ahead: the memory that the steps of a read's requests will touch is
 * asked for in advance, all requests together, so that their misses overlap
 * instead of following one another. In a large map a step alone is three
 * misses in a row (place in the index, job, key); here each of
 * these is one pass over the requests. It answers nothing: a step that was not
 * announced is only slower.
 *
 * What was found is remembered by the address of the name, for the steps that
 * follow. It is a hint and checked as one: a record never leaves its place in
 * memory, so the step looks at it again and compares queue and key.
 */
#include "engine/internal.h"

struct glance {
	const struct job_name *name;
	uint64_t hash;
	struct job *job; /* of that hash, asked for; or NULL */
};

/* Queues of a read's requests are mostly one. */
static size_t
ask_for_slots(const struct engine *e, const struct job_name *const *names, size_t n,
	struct glance v[ENGINE_AHEAD_MAX])
{
	const struct queue *q = NULL;
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (!q || !str_eq(names[i]->queue, q->name))
			q = queue_find(e, names[i]->queue);
		if (!q || names[i]->key.n == 0 || names[i]->key.n > KEY_MAX)
			continue;
		v[found].name = names[i];
		v[found].hash = job_hash(e, q, names[i]->key);
		index_prefetch(&e->keys, v[found++].hash);
	}
	return found;
}

static void
ask_for_job(const struct engine *e, struct glance *g)
{
	const uint64_t *slot = index_slot(&e->keys, g->hash);
	uint32_t i = slot ? index_next(&slot, g->hash) : INDEX_NONE;

	g->job = i == INDEX_NONE ? NULL : job_at(e, i);
	if (g->job)
		__builtin_prefetch(g->job, 1);
}

static void
ask_for_rest(const struct glance *g)
{
	const struct job *j = g->job;

	__builtin_prefetch(j->key);
	if (j->sided)
		__builtin_prefetch(j->ext.side, 1);
}

static void
remember(struct ahead *a, const struct glance v[ENGINE_AHEAD_MAX], size_t n)
{
	a->n = a->next = 0;
	for (size_t i = 0; i < n; i++) {
		if (!v[i].job)
			continue;
		a->name[a->n] = v[i].name;
		a->job[a->n++] = v[i].job;
	}
}

/* It stays the next until another is asked for: a step may ask twice. */
struct job *
ahead_found_slow(struct engine *e, const struct queue *q, const struct job_name *name)
{
	struct ahead *a = &e->ahead;

	while (a->next < a->n && a->name[a->next] != name)
		a->next++;
	if (a->next == a->n)
		a->next = a->n = 0;
	else if (ahead_holds(a->job[a->next], q, name->key))
		return a->job[a->next];
	return job_find(e, q, name->key);
}

void
engine_ahead(struct engine *e, const struct job_name *const *names, size_t n)
{
	struct glance v[ENGINE_AHEAD_MAX];

	CHECK_OBJ(e, ENGINE_MAGIC);
	wq_assert(n <= ENGINE_AHEAD_MAX);
	n = ask_for_slots(e, names, n, v);
	for (size_t i = 0; i < n; i++)
		ask_for_job(e, &v[i]);
	for (size_t i = 0; i < n; i++)
		if (v[i].job)
			ask_for_rest(&v[i]);
	remember(&e->ahead, v, n);
}
