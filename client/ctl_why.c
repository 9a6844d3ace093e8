/*
 * why QUEUE/KEY: reasons, in sentences, for which a job has not run, most
 * important first, from what `get` and `queue show` say.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_text.h"
#include "ctl_time.h"

/* Of the queue, what reasons need. */
struct queue_facts {
	bool paused, draining, ordered, no_action, lease, handled;
	uint64_t running, workers;
	long long max_active; /* -1: not told */
	char rate[32], separator;
	int64_t rate_next_ms;
	long long prefix_limit;
};

struct why {
	struct ctl *c;
	struct queue_facts q;
	json_t *reasons; /* NULL without --json */
};

static int
take_queue(const wq_queue_info_t *q, void *arg)
{
	struct queue_facts *f = arg;

	f->paused = q->paused;
	f->draining = q->draining;
	f->running = q->running;
	f->workers = q->workers;
	f->rate_next_ms = q->rate_next_ms;
	for (size_t i = 0; i < q->n_settings; i++) {
		const char *name = q->names[i], *value = q->values[i];

		if (strcmp(name, "max_active") == 0)
			f->max_active = strtoll(value, NULL, 10);
		else if (strcmp(name, "rate") == 0)
			snprintf(f->rate, sizeof f->rate, "%s", value);
		else if (strcmp(name, "prefix_limit") == 0)
			f->prefix_limit = strtoll(value, NULL, 10);
		else if (strcmp(name, "prefix_separator") == 0)
			f->separator = value[0];
		else if (strcmp(name, "handler") == 0)
			f->handled = value[0] != '\0';
		else if (strcmp(name, "ordered") == 0)
			f->ordered = value[0] == 't' || value[0] == 'y';
		else if (strcmp(name, "action") == 0) {
			f->no_action = strcmp(value, "none") == 0;
			f->lease = strcmp(value, "lease") == 0;
		}
	}
	return 0;
}

/* Adds one reason: a word for scripts, a sentence for people. */
static void __attribute__((format(printf, 3, 4)))
because(struct why *w, const char *word, const char *format, ...)
{
	char sentence[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(sentence, sizeof sentence, format, ap);
	va_end(ap);
	if (w->reasons) {
		json_t *j = json_object();

		ctl_json_set(j, "reason", json_string(word));
		ctl_json_set(j, "text", ctl_text_jsons(sentence));
		if (json_array_append_new(w->reasons, j) < 0)
			ctl_no_memory();
	} else {
		ctl_text_puts(stdout, sentence);
		putchar('\n');
	}
}

static void
because_of_rate(struct why *w, const char *when)
{
	char at[CTL_TIME_SIZE], left[CTL_TIME_SIZE];

	ctl_time_local(w->q.rate_next_ms, at);
	ctl_relative(w->q.rate_next_ms, ctl_now_ms(), left);
	because(w, "rate", "%s: the rate of its queue (%s) lets the next one start %s (%s).", when,
		w->q.rate, at, left);
}

/* What the queue does to jobs that are due; `when` starts the sentence. True: something. */
static bool
because_of_queue(struct why *w, const char *when)
{
	const struct queue_facts *q = &w->q;

	if (q->paused)
		because(w, "paused", "%s: its queue is paused. 'wqctl resume' starts it.", when);
	if (q->draining)
		because(w, "draining", "%s: its queue is draining, and starts it afterwards.",
			when);
	if (q->max_active == 0)
		because(w, "max_active", "%s: max_active of its queue is 0.", when);
	else if (q->ordered && q->running > 0)
		because(w, "ordered", "%s: its queue is ordered, and another job is running.",
			when);
	else if (q->max_active > 0 && q->running >= (uint64_t)q->max_active)
		because(w, "max_active",
			"%s: max_active of its queue is reached (%llu running, %lld allowed).",
			when, (unsigned long long)q->running, q->max_active);
	else if (q->rate_next_ms > 0)
		because_of_rate(w, when);
	else if (!q->paused && !q->draining)
		return false;
	return true;
}

static void
because_of_timer(struct why *w, const wq_job_info_t *job)
{
	char at[CTL_TIME_SIZE], when[CTL_TIME_SIZE];
	int64_t now = ctl_now_ms();

	ctl_time_local(job->deadline_ms, at);
	ctl_relative(job->deadline_ms, now, when);
	if (job->attempt > 1)
		because(w, "retry",
			"Its last attempt failed; it waits for attempt %u, due %s (%s).",
			(unsigned)job->attempt, at, when);
	else if (job->deadline_ms > now)
		because(w, "armed", "It is not due yet: its deadline is %s (%s).", at, when);
	else
		because(w, "due", "Its deadline was %s (%s); it is about to start.", at, when);
	if (w->q.paused || w->q.draining || w->q.max_active == 0)
		because_of_queue(w, "It will be held when it is due");
}

static void
because_it_waits(struct why *w, wq_state_t state)
{
	if (because_of_queue(w, "It is due and held back"))
		return;
	if (w->q.lease && w->q.workers == 0) {
		because(w, "no_worker", "It is due, and no worker has subscribed to its queue%s.",
			w->q.handled ? ": the log of the daemon says what became of those that it "
				       "starts itself"
				     : "; 'wqctl work' makes one of a command");
		return;
	}
	if (w->q.lease) {
		because(w, "workers_busy",
			"It is due and waits for a worker: the %llu that there are have all they "
			"asked "
			"for.",
			(unsigned long long)w->q.workers);
		return;
	}
	if (state == WQ_STATE_HELD && w->q.prefix_limit > 0)
		because(w, "prefix_limit",
			"It is due and held back: as many jobs with keys like its own, up to '%c', "
			"run as prefix_limit of its queue allows (%lld).",
			w->q.separator, w->q.prefix_limit);
	else if (state == WQ_STATE_HELD)
		because(w, "held",
			"It is due and held back behind jobs that were ready before it.");
	else
		because(w, "ready", "It is due and next in line; it is about to start.");
}

static void
because_it_is_idle(struct why *w, const wq_job_info_t *job)
{
	const wq_run_info_t *last = job->last;
	char at[CTL_TIME_SIZE], when[CTL_TIME_SIZE], how[CTL_OUTCOME_SIZE];

	const char *detail = last ? strchr(ctl_outcome(last, how), ',') : NULL;

	if (job->dead)
		because(w, "dead",
			"It is dead: its attempts are used up%s%s. 'wqctl kick' runs it again.",
			detail ? ", the last one: " : "", detail ? detail + 2 : "");
	else if (last)
		because(w, "idle", "Nothing is pending: its last run (%s) ended %s (%s).", how,
			ctl_time_local(last->ended_ms, at),
			ctl_relative(last->ended_ms, ctl_now_ms(), when));
	else
		because(w, "idle", "Nothing is pending, and no run is kept.");
}

static void
because_of_lease(struct why *w, const wq_job_info_t *job)
{
	char left[CTL_TIME_SIZE];

	ctl_span(job->lease_left_ms, left);
	if (job->lease_holder[0])
		because(w, "leased",
			"A worker has it (%s); its lease ends in %s unless it is touched%s.",
			job->lease_holder, left, job->lease_touched ? " again" : "");
	else
		because(w, "leased",
			"A worker may still be at it since before the daemon's start; its lease is "
			"over "
			"in %s.",
			left);
}

static void
put_reasons(struct why *w, const wq_job_info_t *job)
{
	wq_state_t state = job->state;

	if (wq_trouble(w->c->wq)[0])
		because(w, "degraded", "The daemon is degraded: %s.", wq_trouble(w->c->wq));
	if (job->disable_depth)
		because(w, "disabled",
			"It is disabled %u deep: updates are refused until it is "
			"enabled as often.",
			(unsigned)job->disable_depth);
	if (state == WQ_STATE_RUNNING) {
		if (job->lease_holder)
			because_of_lease(w, job);
		else
			because(w, "running", "It is running now.");
		if (!job->pending)
			return;
		because(w, "requeued", "It will run once more after this run has ended.");
		state = job->pending_state;
	}
	if (state == WQ_STATE_ARMED)
		because_of_timer(w, job);
	else if (state == WQ_STATE_IDLE)
		because_it_is_idle(w, job);
	else if (job->state != WQ_STATE_RUNNING)
		because_it_waits(w, state);
	if (w->q.no_action && job->pending && !job->has_command)
		because(w, "no_action",
			"Its queue has action none: nothing is executed when it "
			"is due, the firing is recorded.");
}

static int
explain(const wq_job_info_t *job, void *arg)
{
	struct why *w = arg;
	json_t *j;

	if (!w->c->json) {
		ctl_put_target(job->queue, job->key);
		printf(" is %s.\n", job->dead ? "dead" : wq_state_word(job->state));
		put_reasons(w, job);
		if (job->command) {
			fputs("It runs a command of its own: ", stdout);
			ctl_put_command(job);
			putchar('\n');
		}
		return 0;
	}
	w->reasons = json_array();
	put_reasons(w, job);
	j = ctl_json_job(job);
	ctl_json_set(j, "reasons", w->reasons);
	ctl_json_put(w->c, j);
	return 0;
}

int
ctl_do_why(struct ctl *c)
{
	struct why w = { .c = c, .q = { .max_active = -1 } };
	struct ctl_target t;
	int rc;

	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	rc = wq_queue_show(c->wq, t.queue, take_queue, &w.q);
	if (rc == 0)
		rc = wq_ping(c->wq, NULL);
	if (rc == 0)
		rc = wq_get(c->wq, t.queue, t.key, explain, &w);
	return rc < 0 ? ctl_fail(c, rc, NULL) : CTL_DONE;
}
