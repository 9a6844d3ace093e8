/* Everything that can be seen of the engine against what the reference says it is. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/play.h"

void
play_differ(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	rig_fail("engine", 0, text);
}

const char *
play_job_text(int queue, int key)
{
	static char text[4][32];
	static int i;

	i = (i + 1) % 4;
	snprintf(text[i], sizeof text[i], "%s/%d", play_queue_names[queue], key);
	return text[i];
}

/* ---- records and replies ---- */

static void
compare_record(const char *what, const struct ref_record *want, const struct run_record *got)
{
	if (got->generation == want->generation && got->attempt == want->attempt &&
		got->outcome == want->outcome && got->final == want->final &&
		got->coalesced == want->coalesced)
		return;
	play_differ("%s: run %lu.%u %s final %d coalesced %u, expected %lu.%u %s %d %u", what,
		(unsigned long)got->generation, got->attempt, run_outcome_word(got->outcome),
		got->final, got->coalesced, (unsigned long)want->generation, want->attempt,
		run_outcome_word(want->outcome), want->final, want->coalesced);
}

/* The fields of an update's answer beyond the word. */
static void
compare_update(const char *what, const struct ref_reply *want, const struct job_reply *got)
{
	enum job_state before = got->state_before == JOB_HELD ? JOB_READY : got->state_before;

	if (before != want->before || got->pending_before != want->pending_before)
		play_differ("%s: %s before, expected %s", what, job_state_word(before),
			job_state_word(want->before));
	if (got->generation != want->generation || got->coalesced != want->coalesced)
		play_differ("%s: generation %lu coalesced %u, expected %lu, %u", what,
			(unsigned long)got->generation, got->coalesced,
			(unsigned long)want->generation, want->coalesced);
	if (got->has_deadline != want->has_deadline ||
		(want->has_deadline && got->deadline_wall_ns != want->deadline))
		play_differ("%s: deadline %d %ld, expected %d %ld", what, got->has_deadline,
			(long)got->deadline_wall_ns, want->has_deadline, (long)want->deadline);
}

static void
compare_reply(const struct ref_reply *want, const struct answer *got)
{
	char what[64];

	snprintf(what, sizeof what, "answer %lu", (unsigned long)want->ticket);
	if (!got)
		play_differ("%s: none, expected %s", what, status_word(want->status));
	if (got->r.status != want->status)
		play_differ("%s: %s (%s), expected %s", what, status_word(got->r.status),
			got->r.message ? got->r.message : "", status_word(want->status));
	if (got->durable != want->durable)
		play_differ("%s: durable %d", what, got->durable);
	if ((got->r.run != NULL) != want->has_run)
		play_differ("%s: run attached %d", what, got->r.run != NULL);
	if (want->has_run)
		compare_record(what, &want->run, &got->run);
	if (want->of_job && got->r.disable_depth != want->depth)
		play_differ("%s: depth %u, expected %u", what, got->r.disable_depth, want->depth);
	if (want->of_update)
		compare_update(what, want, &got->r);
}

static void
compare_replies(struct play *p)
{
	for (size_t i = 0; i < p->ref.n_replies; i++)
		compare_reply(&p->ref.reply[i], rig_answer(&p->rig, p->ref.reply[i].ticket));
	if (p->rig.n_answers != p->ref.n_replies)
		play_differ("%zu answers, expected %zu", p->rig.n_answers, p->ref.n_replies);
	p->rig.n_answers = p->ref.n_replies = 0;
}

/* ---- starts ---- */

/* The first start in `queue` from run `*i` on, or NULL; *i is behind it. */
static const struct rig_run *
next_start(const struct play *p, int queue, size_t *i)
{
	while (*i < p->rig.n_runs) {
		const struct rig_run *run = &p->rig.runs[(*i)++];

		if (strcmp(run->queue, play_queue_names[queue]) == 0)
			return run;
	}
	return NULL;
}

/* In order within a queue; between queues there is none. */
static void
compare_starts(struct play *p)
{
	size_t at[REF_QUEUES] = { p->runs_seen, p->runs_seen, p->runs_seen };

	for (size_t i = 0; i < p->ref.n_starts; i++) {
		const struct ref_start *want = &p->ref.start[i];
		const struct rig_run *got = next_start(p, want->queue, &at[want->queue]);
		const char *what = play_job_text(want->queue, want->key);

		if (!got || atoi(got->key) != want->key)
			play_differ("start of %s, expected %s", got ? got->key : "none", what);
		if (got->generation != want->generation || got->attempt != want->attempt ||
			got->coalesced != want->coalesced ||
			strcmp(got->payload, want->payload) != 0)
			play_differ("start of %s: %lu.%u coalesced %u \"%s\", expected %lu.%u %u "
				    "\"%s\"",
				what, (unsigned long)got->generation, got->attempt, got->coalesced,
				got->payload, (unsigned long)want->generation, want->attempt,
				want->coalesced, want->payload);
	}
	if (p->rig.n_runs - p->runs_seen != p->ref.n_starts)
		play_differ(
			"%zu starts, expected %zu", p->rig.n_runs - p->runs_seen, p->ref.n_starts);
	p->runs_seen = p->rig.n_runs;
	p->ref.n_starts = 0;
}

/* ---- jobs ---- */

struct history {
	const struct ref *ref;
	int queue, key;
	size_t next; /* newest first: above which the next is to be found */
	const char *what;
};

static bool
compare_kept(void *arg, const struct run_record *got)
{
	struct history *h = arg;

	while (h->next > 0) {
		const struct ref_record *want = &h->ref->record[--h->next];

		if (want->queue != h->queue || want->key != h->key)
			continue;
		compare_record(h->what, want, got);
		return true;
	}
	play_differ("%s: keeps a run too many", h->what);
}

static void
compare_history(const struct play *p, int queue, int key, const char *what)
{
	struct job_name name = rig_name(what);
	struct history h = { &p->ref, queue, key, p->ref.n_records, what };

	(void)engine_history(p->rig.e, &name, 0, SIZE_MAX, compare_kept, &h);
	while (h.next > 0) {
		const struct ref_record *want = &p->ref.record[--h.next];

		if (want->queue == queue && want->key == key)
			play_differ("%s: run %lu.%u is not kept", what,
				(unsigned long)want->generation, want->attempt);
	}
}

static void
compare_pending(const struct play *p, const struct ref_job *want, const struct job_view *got,
	const char *what)
{
	if (want->p.at == JOB_ARMED &&
		got->deadline_wall_ns != moment_wall(p->ref.now, want->p.due))
		play_differ("%s: deadline %ld, expected %ld", what, (long)got->deadline_wall_ns,
			(long)moment_wall(p->ref.now, want->p.due));
	if (want->p.at == JOB_IDLE || want->run.going)
		return;
	if (got->coalesced != want->p.coalesced || got->attempt != want->p.attempt)
		play_differ("%s: coalesced %u attempt %u, expected %u, %u", what, got->coalesced,
			got->attempt, want->p.coalesced, want->p.attempt);
}

static enum job_state
plain_state(enum job_state s)
{
	return s == JOB_HELD ? JOB_READY : s;
}

static void
compare_job(struct play *p, int queue, int key)
{
	const char *what = play_job_text(queue, key);
	struct job_name name = rig_name(what);
	const struct ref_job *want = &p->ref.queue[queue].job[key];
	struct job_view got = { 0 };
	bool known = engine_get(p->rig.e, p->rig.now, &name, &got) == ST_OK;

	if (known != ref_known(&p->ref, queue, key))
		play_differ("%s: known %d", what, known);
	if (!known)
		return;
	if (plain_state(got.state) != (want->run.going ? JOB_RUNNING : want->p.at) ||
		plain_state(got.pending_state) != want->p.at)
		play_differ("%s: state %s/%s, expected %s%s", what, job_state_word(got.state),
			job_state_word(got.pending_state), want->run.going ? "running/" : "",
			job_state_word(want->p.at));
	if (got.disable_depth != want->depth || got.dead != want->dead)
		play_differ("%s: depth %u dead %d", what, got.disable_depth, got.dead);
	compare_pending(p, want, &got, what);
	if (ref_last(&p->ref, queue, key) || got.last)
		compare_history(p, queue, key, what);
}

/* ---- queues and lists ---- */

static void
compare_queue(struct play *p, int queue)
{
	struct queue_view got;
	uint64_t known = 0, armed = 0, ready = 0, running = 0;
	bool there = engine_queue_get(p->rig.e, str_from(play_queue_names[queue]), &got) == ST_OK;

	if (there == p->ref.queue[queue].gone)
		play_differ("%s: exists %d", play_queue_names[queue], there);
	if (!there)
		return;
	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = &p->ref.queue[queue].job[k];

		known += ref_known(&p->ref, queue, k);
		armed += j->p.at == JOB_ARMED;
		ready += j->p.at == JOB_READY;
		running += j->run.going;
	}
	if (got.paused != p->ref.queue[queue].paused ||
		got.draining != ref_draining(&p->ref, queue))
		play_differ("%s: paused %d draining %d", play_queue_names[queue], got.paused,
			got.draining);
	if (got.jobs != known || got.armed != armed || got.ready + got.held != ready ||
		got.running != running)
		play_differ("%s: counts %lu jobs %lu armed %lu ready %lu running",
			play_queue_names[queue], (unsigned long)got.jobs, (unsigned long)got.armed,
			(unsigned long)(got.ready + got.held), (unsigned long)got.running);
}

static bool
count_listed(void *arg, const struct job_view *v)
{
	unsigned(*seen)[REF_KEYS] = arg;

	for (int q = 0; q < REF_QUEUES; q++)
		if (str_eq(v->queue, str_from(play_queue_names[q])))
			seen[q][v->key.p[0] - '0']++;
	return true;
}

/* A list of all, two a page, shows each job once. */
static void
compare_list(struct play *p)
{
	const struct list_filter all = { .due_to_ns = INT64_MAX };
	unsigned seen[REF_QUEUES][REF_KEYS] = { 0 };
	uint64_t cursor = 0;

	do {
		(void)engine_list(p->rig.e, p->rig.now, &all, &cursor, 2, count_listed, seen);
	} while (cursor);
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (seen[q][k] != ref_known(&p->ref, q, k))
				play_differ("%s: listed %u times", play_job_text(q, k), seen[q][k]);
}

static void
compare_completion(struct play *p, int which)
{
	const struct ref_completion *want = &p->ref.completion[which];
	struct str name = play_completion_name(which);
	struct completion_view got;

	if (engine_completion_get(p->rig.e, name, &got) != ST_OK || got.done != want->done ||
		got.open != want->open || got.waiters != ref_completion_waiters(&p->ref, which))
		play_differ("completion %.*s: %u done, open %d, %lu wait", STR_ARG(name), got.done,
			got.open, (unsigned long)got.waiters);
}

void
play_compare(struct play *p)
{
	compare_replies(p);
	compare_starts(p);
	for (int q = 0; q < REF_QUEUES; q++) {
		compare_queue(p, q);
		for (int k = 0; k < REF_KEYS; k++)
			compare_job(p, q, k);
	}
	for (int i = 0; i < REF_COMPLETIONS; i++)
		compare_completion(p, i);
	compare_list(p);
	engine_verify(p->rig.e);
}
