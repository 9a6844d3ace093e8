#include "model/saved.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/rig.h"

static char *
copy(struct str s)
{
	char *z = must_alloc(s.n + 1);

	if (s.n)
		memcpy(z, s.p, s.n);
	z[s.n] = '\0';
	return z;
}

static struct saved_parts
parts_copy(const struct str *v, size_t n)
{
	struct saved_parts p = { .v = must_zalloc((n + 1) * sizeof *p.v), .n = n };

	for (size_t i = 0; i < n; i++)
		p.v[i] = (struct str){ copy(v[i]), v[i].n };
	return p;
}

static void
parts_free(struct saved_parts *p)
{
	for (size_t i = 0; i < p->n; i++)
		x_free((char *)(uintptr_t)p->v[i].p);
	x_free(p->v);
	*p = (struct saved_parts){ 0 };
}

static void
job_free(struct saved_job *s)
{
	x_free(s->queue);
	x_free(s->key);
	parts_free(&s->parts);
	parts_free(&s->run_parts);
}

static void
run_free(struct saved_run *s)
{
	x_free(s->queue);
	x_free(s->key);
	x_free(s->output);
}

static void
answer_free(struct saved_answer *s)
{
	x_free(s->id);
	x_free(s->queue);
	x_free(s->key);
}

void
saved_done(struct saved *s)
{
	for (size_t i = 0; i < s->n_jobs; i++)
		job_free(&s->jobs[i]);
	for (size_t i = 0; i < s->n_runs; i++)
		run_free(&s->runs[i]);
	for (size_t i = 0; i < s->n_answers; i++)
		answer_free(&s->answers[i]);
	x_free(s->jobs);
	x_free(s->queues);
	x_free(s->runs);
	x_free(s->answers);
	x_free(s->completions);
	*s = (struct saved){ 0 };
}

/* Room for one more at the end of an array. */
#define GROW(array, n) \
	((array) = must_realloc((array), (n) + 1, sizeof *(array)), \
		memset(&(array)[n], 0, sizeof *(array)), &(array)[(n)++])
/* The last takes the place of `i`: order among saved things is told by their numbers. */
#define DROP(array, n, i) ((array)[i] = (array)[--(n)])

static size_t
job_find(const struct saved *s, struct str queue, struct str key)
{
	size_t i = 0;

	while (i < s->n_jobs &&
		!(str_eq(s->jobs[i].j.queue, queue) && str_eq(s->jobs[i].j.key, key)))
		i++;
	return i;
}

static size_t
queue_find(const struct saved *s, struct str name)
{
	size_t i = 0;

	while (i < s->n_queues && !str_eq(str_from(s->queues[i].name), name))
		i++;
	return i;
}

static size_t
run_find(const struct saved *s, uint64_t seq)
{
	size_t i = 0;

	while (i < s->n_runs && s->runs[i].seq != seq)
		i++;
	return i;
}

static size_t
answer_find(const struct saved *s, struct str id)
{
	size_t i = 0;

	while (i < s->n_answers && !str_eq(s->answers[i].a.id, id))
		i++;
	return i;
}

static void
queue_put(void *ctx, struct str name, const struct queue_settings *settings, bool paused)
{
	struct saved *s = ctx;
	size_t i = queue_find(s, name);
	struct saved_queue *q = i < s->n_queues ? &s->queues[i] : GROW(s->queues, s->n_queues);

	rig_check(name.n <= QUEUE_NAME_MAX);
	memcpy(q->name, name.p, name.n);
	q->name[name.n] = '\0';
	q->settings = *settings;
	q->paused = paused;
}

static void
queue_remove(void *ctx, struct str name)
{
	struct saved *s = ctx;
	size_t i = queue_find(s, name);

	/* Its jobs must have gone before it. */
	for (size_t k = 0; k < s->n_jobs; k++)
		rig_check(!str_eq(s->jobs[k].j.queue, name));
	for (size_t k = 0; k < s->n_runs; k++)
		rig_check(!str_eq(s->runs[k].r.queue, name));
	if (i < s->n_queues)
		DROP(s->queues, s->n_queues, i);
}

/* Of a job that only moved nothing else may differ, nor may two have one number. */
static void
check_put(const struct saved *s, size_t i, const struct job_saved *j)
{
	struct job_saved was, is = *j;

	rig_check(j->id > 0);
	for (size_t k = 0; k < s->n_jobs; k++)
		rig_check((s->jobs[k].j.id == j->id) == (k == i));
	rig_check(!j->moved || (i < s->n_jobs && !j->payload_changed));
	if (!j->moved)
		return;
	was = s->jobs[i].j;
	rig_check(was.n_parts == is.n_parts && was.n_run_parts == is.n_run_parts);
	/* A wall clock that was set moves what was told by it: the job was made when it was made. */
	is.created_wall_ns = was.created_wall_ns;
#define SAME(f) rig_check(was.f == is.f)
	SAME(pending);
	SAME(running);
	SAME(absolute);
	SAME(slack_ns);
	SAME(max_wait_ns);
	SAME(generation);
	SAME(attempt);
	SAME(interrupts);
	SAME(retry);
	SAME(disable_depth);
	SAME(dead);
	SAME(level);
	SAME(run_coalesced);
	SAME(run_due_wall_ns);
	SAME(run_started_wall_ns);
#undef SAME
}

static void
job_put(void *ctx, const struct job_saved *j)
{
	struct saved *s = ctx;
	size_t i = job_find(s, j->queue, j->key);
	struct saved_job *to;

	check_put(s, i, j);
	to = i < s->n_jobs ? &s->jobs[i] : GROW(s->jobs, s->n_jobs);

	/* "default" is there in every engine: it is stored only when it was changed. */
	rig_check(str_eq(j->queue, STR("default")) || queue_find(s, j->queue) < s->n_queues);
	if (!to->queue) {
		rig_check(j->payload_changed || (j->n_parts == 0 && j->n_run_parts == 0));
		to->queue = copy(j->queue);
		to->key = copy(j->key);
	}
	to->j = *j;
	to->j.moved = false;
	to->j.boot = s->boot;
	to->j.queue.p = to->queue;
	to->j.key.p = to->key;
	if (j->payload_changed) {
		parts_free(&to->parts);
		parts_free(&to->run_parts);
		to->parts = parts_copy(j->parts, j->n_parts);
		to->run_parts = parts_copy(j->run_parts, j->n_run_parts);
	}
	to->j.payload_changed = true;
	to->j.parts = to->parts.v;
	to->j.n_parts = to->parts.n;
	to->j.run_parts = to->run_parts.v;
	to->j.n_run_parts = to->run_parts.n;
}

static void
job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	struct saved *s = ctx;
	size_t i = job_find(s, queue, key);

	rig_check(i == s->n_jobs || s->jobs[i].j.id == id);
	if (i == s->n_jobs)
		return;
	job_free(&s->jobs[i]);
	DROP(s->jobs, s->n_jobs, i);
}

static void
run_add(void *ctx, uint64_t seq, const struct run_record *r)
{
	struct saved *s = ctx;
	struct saved_run *to;

	rig_check(run_find(s, seq) == s->n_runs);
	to = GROW(s->runs, s->n_runs);
	to->seq = seq;
	to->queue = copy(r->queue);
	to->key = copy(r->key);
	to->output = copy(r->output);
	to->r = *r;
	to->r.queue.p = to->queue;
	to->r.key.p = to->key;
	to->r.output.p = to->output;
}

static void
run_remove(void *ctx, uint64_t seq)
{
	struct saved *s = ctx;
	size_t i = run_find(s, seq);

	if (i == s->n_runs)
		return;
	run_free(&s->runs[i]);
	DROP(s->runs, s->n_runs, i);
}

static void
answer_put(void *ctx, const struct answer_saved *a)
{
	struct saved *s = ctx;
	size_t i = answer_find(s, a->id);
	struct saved_answer *to =
		i < s->n_answers ? &s->answers[i] : GROW(s->answers, s->n_answers);

	answer_free(to);
	to->id = copy(a->id);
	to->queue = copy(a->reply.queue);
	to->key = copy(a->reply.key);
	to->a = *a;
	to->a.id.p = to->id;
	to->a.reply.queue.p = to->queue;
	to->a.reply.key.p = to->key;
	to->a.reply.message = NULL;
	to->a.reply.run = NULL;
}

static void
answer_remove(void *ctx, struct str id)
{
	struct saved *s = ctx;
	size_t i = answer_find(s, id);

	if (i == s->n_answers)
		return;
	answer_free(&s->answers[i]);
	DROP(s->answers, s->n_answers, i);
}

static size_t
completion_find(const struct saved *s, struct str name)
{
	size_t i = 0;

	while (i < s->n_completions && !str_eq(str_from(s->completions[i].name), name))
		i++;
	return i;
}

static void
completion_put(void *ctx, const struct completion_saved *c)
{
	struct saved *s = ctx;
	size_t i = completion_find(s, c->name);
	struct saved_completion *to =
		i < s->n_completions ? &s->completions[i] : GROW(s->completions, s->n_completions);

	to->c = *c;
	memcpy(to->name, c->name.p, c->name.n);
	to->name[c->name.n] = '\0';
}

static void
completion_remove(void *ctx, struct str name)
{
	struct saved *s = ctx;
	size_t i = completion_find(s, name);

	if (i < s->n_completions)
		DROP(s->completions, s->n_completions, i);
}

void
saved_take(struct saved *s, struct engine *e, struct moment now, size_t limit)
{
	const struct persist_sink sink = {
		.ctx = s,
		.queue_put = queue_put,
		.queue_remove = queue_remove,
		.job_put = job_put,
		.job_remove = job_remove,
		.run_add = run_add,
		.run_remove = run_remove,
		.answer_put = answer_put,
		.answer_remove = answer_remove,
		.completion_put = completion_put,
		.completion_remove = completion_remove,
	};
	size_t before = engine_dirty(e);
	uint64_t mark;

	/* Handing out is where the daemon ends for want of memory: service/commit.c. */
	alloc_fault_set(-1, 0);
	mark = engine_take_dirty(e, now, limit, &sink);

	rig_check(mark >= s->mark && mark <= engine_dirty_mark(e));
	/* Something, but not always at most `limit`: what belongs together comes together. */
	rig_check(engine_dirty(e) < before || before == 0 || limit == 0);
	rig_check(engine_dirty(e) > 0 || mark == engine_dirty_mark(e));
	s->mark = mark;
}

static int
by_due(const void *a, const void *b)
{
	const struct job_saved *x = &(*(struct saved_job *const *)a)->j;
	const struct job_saved *y = &(*(struct saved_job *const *)b)->j;

	if (x->due_wall_ns != y->due_wall_ns)
		return x->due_wall_ns < y->due_wall_ns ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int
by_seq(const void *a, const void *b)
{
	const struct saved_run *x = *(struct saved_run *const *)a;
	const struct saved_run *y = *(struct saved_run *const *)b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Pointers to the `n` elements of an array, sorted. */
static void **
sorted(void *array, size_t n, size_t size, int (*compare)(const void *a, const void *b))
{
	void **v = must_alloc((n + 1) * sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = (char *)array + i * size;
	qsort(v, n, sizeof *v, compare);
	return v;
}

static int
restore_things(const struct saved *s, struct engine *e, struct moment now, void **jobs, void **runs)
{
	int err = 0;

	for (size_t i = 0; i < s->n_queues && err == 0; i++)
		err = engine_restore_queue(e, str_from(s->queues[i].name), &s->queues[i].settings,
			s->queues[i].paused);
	for (size_t i = 0; i < s->n_jobs && err == 0; i++) {
		const struct job_saved *j = &((struct saved_job *)jobs[i])->j;

		err = engine_restore_job(e, now, j, j->boot == s->boot);
	}
	for (size_t i = 0; i < s->n_runs && err == 0; i++) {
		const struct saved_run *run = runs[i];

		err = engine_restore_run(e, run->seq, &run->r);
	}
	for (size_t i = 0; i < s->n_answers && err == 0; i++)
		err = engine_restore_answer(e, &s->answers[i].a);
	for (size_t i = 0; i < s->n_completions && err == 0; i++) {
		struct completion_saved c = s->completions[i].c;

		c.name = str_from(s->completions[i].name);
		err = engine_restore_completion(e, &c);
	}
	return err;
}

int
saved_try_restore(const struct saved *s, struct engine *e, struct moment now)
{
	void **jobs = sorted(s->jobs, s->n_jobs, sizeof *s->jobs, by_due);
	void **runs = sorted(s->runs, s->n_runs, sizeof *s->runs, by_seq);
	int err = restore_things(s, e, now, jobs, runs);

	if (err == 0)
		engine_recovered(e, now);
	x_free(jobs);
	x_free(runs);
	return err;
}

void
saved_restore(const struct saved *s, struct engine *e, struct moment now)
{
	rig_check(saved_try_restore(s, e, now) == 0);
}
