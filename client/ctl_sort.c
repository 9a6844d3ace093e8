#include "ctl_sort.h"

#include <stdlib.h>
#include <string.h>

#include "ctl_mem.h"

/* A job, its last run and all their text in one block. */
struct kept {
	wq_job_info_t job;
	wq_run_info_t last;
	char text[];
};

struct ctl_sort {
	struct kept **v;
	size_t n, room;
};

struct ctl_sort *
ctl_sort_new(void)
{
	return ctl_alloc(sizeof(struct ctl_sort));
}

void
ctl_sort_free(struct ctl_sort *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		mem_free(s->v[i]);
	mem_free(s->v);
	mem_free(s);
}

/* Appends a terminated copy of p[0..n) at *at. */
static const char *
keep_text(char **at, const void *p, size_t n)
{
	char *copy = *at;

	if (n > 0)
		memcpy(copy, p, n);
	copy[n] = '\0';
	*at += n + 1;
	return copy;
}

static struct kept *
keep(const wq_job_info_t *job)
{
	size_t queue_len = strlen(job->queue), key_len = strlen(job->key);
	size_t output_len = job->last ? job->last->output_len : 0;
	struct kept *k = ctl_alloc(sizeof *k + queue_len + key_len + output_len + 3);
	char *at = k->text;

	k->job = *job;
	k->job.queue = keep_text(&at, job->queue, queue_len);
	k->job.key = keep_text(&at, job->key, key_len);
	if (job->last) {
		k->last = *job->last;
		k->last.queue = k->job.queue;
		k->last.key = k->job.key;
		k->last.output = keep_text(&at, job->last->output, output_len);
		k->job.last = &k->last;
	}
	return k;
}

int
ctl_sort_add(const wq_job_info_t *job, void *arg)
{
	struct ctl_sort *s = arg;

	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		s->v = ctl_grow(s->v, s->room, sizeof *s->v);
	}
	s->v[s->n++] = keep(job);
	return 0;
}

static int
by_key(const void *pa, const void *pb)
{
	const struct kept *a = *(const struct kept *const *)pa;
	const struct kept *b = *(const struct kept *const *)pb;
	int d = strcmp(a->job.queue, b->job.queue);

	return d ? d : strcmp(a->job.key, b->job.key);
}

static int
by_due(const void *pa, const void *pb)
{
	const struct kept *a = *(const struct kept *const *)pa;
	const struct kept *b = *(const struct kept *const *)pb;
	/* No deadline is -1, as an unsigned number the greatest. */
	uint64_t da = (uint64_t)a->job.deadline_ms, db = (uint64_t)b->job.deadline_ms;

	if (da != db)
		return da < db ? -1 : 1;
	return by_key(pa, pb);
}

void
ctl_sort_each(struct ctl_sort *s, enum ctl_order order, wq_job_cb each, void *arg)
{
	if (s->n > 1)
		qsort(s->v, s->n, sizeof *s->v, order == CTL_BY_DUE ? by_due : by_key);
	for (size_t i = 0; i < s->n; i++)
		if (each(&s->v[i]->job, arg) != 0)
			return;
}
