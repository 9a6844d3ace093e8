/* Queues: list, show, create, set, delete, pause, resume, drain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_text.h"
#include "ctl_time.h"

#define SETTINGS_MAX 64 /* in a request */

/* ---- list and show ---- */

/*
 * Settings travel as text. Counts become numbers and switches booleans, by name and not by looks:
 * a handler may be called "4". What this version does not know stays text.
 */
static const char *const number_settings[] = { "max_active", "max_attempts", "max_interrupts",
	"retention_count", "max_jobs", "max_parts", "retry_jitter", "burst", "prefix_limit" };

static json_t *
json_setting(const char *name, const char *value)
{
	char *end;
	long long n = strtoll(value, &end, 10);

	if (strcmp(name, "ordered") == 0)
		return json_boolean(strcmp(value, "true") == 0 || strcmp(value, "yes") == 0);
	for (size_t i = 0; i < ARRAY_LEN(number_settings); i++)
		if (strcmp(name, number_settings[i]) == 0 && *value && !*end)
			return json_integer(n);
	return *value ? ctl_text_jsons(value) : json_null();
}

static json_t *
json_queue(const wq_queue_info_t *q)
{
	json_t *j = json_object();

	ctl_json_set(j, "queue", ctl_text_jsons(q->queue));
	for (size_t i = 0; i < q->n_settings; i++)
		ctl_json_set_named(j, q->names[i], json_setting(q->names[i], q->values[i]));
	ctl_json_set(j, "jobs", json_integer((json_int_t)q->jobs));
	ctl_json_set(j, "armed", json_integer((json_int_t)q->armed));
	ctl_json_set(j, "ready", json_integer((json_int_t)q->ready));
	ctl_json_set(j, "held", json_integer((json_int_t)q->held));
	ctl_json_set(j, "running", json_integer((json_int_t)q->running));
	ctl_json_set(j, "paused", json_boolean(q->paused));
	ctl_json_set(j, "draining", json_boolean(q->draining));
	ctl_json_set(j, "workers", json_integer((json_int_t)q->workers));
	ctl_json_set(j, "held_prefix", json_integer((json_int_t)q->held_prefix));
	ctl_json_set(j, "rate_next_ms",
		q->rate_next_ms ? json_integer((json_int_t)q->rate_next_ms) : json_null());
	return j;
}

static int
show_queue_row(const wq_queue_info_t *q, void *arg)
{
	struct ctl_rows *r = arg;
	struct ctl *c = r->c;

	if (c->json) {
		ctl_rows_json(r, json_queue(q));
		return ctl_out_broken(c);
	}
	ctl_rows_next(r);
	if (!c->quiet)
		printf("%9llu  %9llu  %9llu  %9llu  %9llu  %-8s  ", (unsigned long long)q->jobs,
			(unsigned long long)q->armed, (unsigned long long)q->ready,
			(unsigned long long)q->held, (unsigned long long)q->running,
			q->draining         ? "draining"
				: q->paused ? "paused"
					    : "open");
	ctl_text_puts(stdout, q->queue);
	putchar('\n');
	return ctl_out_broken(c);
}

int
ctl_do_queue_list(struct ctl *c)
{
	struct ctl_rows rows = { c, "queues",
		"     JOBS      ARMED      READY       HELD    RUNNING  STATE     QUEUE", 0 };
	int rc = ctl_connect(c);

	return rc ? rc : ctl_rows_end(&rows, wq_queue_show(c->wq, NULL, show_queue_row, &rows));
}

static int
show_queue(const wq_queue_info_t *q, void *arg)
{
	struct ctl *c = arg;

	if (c->json) {
		ctl_json_put(c, json_queue(q));
		return 0;
	}
	fputs("queue               ", stdout);
	ctl_text_puts(stdout, q->queue);
	printf("\nstate               %s%s\n", q->paused ? "paused" : "open",
		q->draining ? ", draining" : "");
	printf("jobs                %llu\narmed               %llu\nready               %llu\n"
	       "held                %llu\nrunning             %llu\nworkers             %llu\n",
		(unsigned long long)q->jobs, (unsigned long long)q->armed,
		(unsigned long long)q->ready, (unsigned long long)q->held,
		(unsigned long long)q->running, (unsigned long long)q->workers);
	if (q->held_prefix > 0)
		printf("held by prefix      %llu\n", (unsigned long long)q->held_prefix);
	if (q->rate_next_ms > 0) {
		fputs("next start          ", stdout);
		ctl_put_time(q->rate_next_ms);
		putchar('\n');
	}
	for (size_t i = 0; i < q->n_settings; i++) {
		long pad = 20 - (long)strlen(q->names[i]);

		ctl_text_puts(stdout, q->names[i]);
		printf("%*s", pad > 0 ? (int)pad : 1, "");
		ctl_text_puts(stdout, q->values[i]);
		putchar('\n');
	}
	return 0;
}

int
ctl_do_queue_show(struct ctl *c)
{
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_queue_show(c->wq, c->arg[0], show_queue, c);
	return rc < 0 ? ctl_fail(c, rc, NULL) : CTL_DONE;
}

/* ---- create and set ---- */

struct settings {
	size_t n;
	const char *names[SETTINGS_MAX], *values[SETTINGS_MAX];
	char *text[SETTINGS_MAX]; /* owned; names and values lie in it */
};

/* NAME=VALUE arguments from the second on: 0 or CTL_USAGE. */
static int
take_settings(struct ctl *c, struct settings *s)
{
	for (int i = 1; i < c->n_args; i++) {
		const char *equals = strchr(c->arg[i], '=');
		char *copy;

		if (!equals || equals == c->arg[i])
			return ctl_usage(c, "'%s' is not NAME=VALUE", c->arg[i]);
		if (s->n == SETTINGS_MAX)
			return ctl_usage(c, "more than %d settings", SETTINGS_MAX);
		copy = ctl_strdup(c->arg[i]);
		copy[equals - c->arg[i]] = '\0';
		s->text[s->n] = copy;
		for (size_t j = 0; j < s->n; j++)
			if (strcmp(s->names[j], copy) == 0) {
				s->n++;
				return ctl_usage(c, "%s is given twice", copy);
			}
		s->names[s->n] = copy;
		s->values[s->n++] = copy + (equals - c->arg[i]) + 1;
	}
	return 0;
}

int
ctl_do_queue_change(struct ctl *c)
{
	bool create = c->verb->op == CTL_QUEUE_CREATE;
	struct settings s = { .n = 0 };
	int rc = take_settings(c, &s);

	if (rc == 0)
		rc = ctl_connect(c);
	if (rc == 0) {
		rc = create ? wq_queue_create(c->wq, c->arg[0], s.n, s.names, s.values)
			    : wq_queue_set(c->wq, c->arg[0], s.n, s.names, s.values);
		rc = rc < 0 ? ctl_fail(c, rc, NULL)
			    : ctl_put_ok(c, c->arg[0], create ? "created" : "changed");
	}
	for (size_t i = 0; i < s.n; i++)
		mem_free(s.text[i]);
	return rc;
}

/* ---- the rest ---- */

static wq_timers_t
timers_option(const struct ctl *c)
{
	return (wq_timers_t)ctl_num(c, OPT_TIMERS, WQ_TIMERS_KEEP);
}

int
ctl_do_queue_delete(struct ctl *c)
{
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_queue_delete(c->wq, c->arg[0], timers_option(c), ctl_wait_ms(c));
	return rc < 0 ? ctl_fail(c, rc, NULL) : ctl_put_ok(c, c->arg[0], "deleted");
}

int
ctl_do_pause(struct ctl *c)
{
	bool pause = c->verb->op == CTL_PAUSE;
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = pause ? wq_pause(c->wq, c->arg[0]) : wq_resume(c->wq, c->arg[0]);
	return rc < 0 ? ctl_fail(c, rc, NULL)
		      : ctl_put_ok(c, c->arg[0], pause ? "paused" : "resumed");
}

/* A drain under way; on a terminal its line is written anew each time. */
struct draining {
	struct ctl *c;
	int64_t began_ms;
	uint64_t first; /* left at the beginning */
	bool shown, answered;
	int result;
};

static void
on_progress(wq_t *wq, const wq_progress_t *p, void *arg)
{
	struct draining *d = arg;
	int64_t took = ctl_now_ms() - d->began_ms;
	char span[CTL_TIME_SIZE];

	(void)wq;
	if (!d->shown)
		d->first = p->left;
	d->shown = true;
	fprintf(stderr, "\r\033[K%llu left, %llu running", (unsigned long long)p->left,
		(unsigned long long)p->running);
	if (took > 0 && d->first > p->left)
		fprintf(stderr, ", %.1f/s", (double)(d->first - p->left) * 1000 / (double)took);
	if (p->oldest_ms >= 0)
		fprintf(stderr, ", oldest %s", ctl_span(p->oldest_ms, span));
	(void)fflush(stderr);
}

static void
on_drained(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct draining *d = arg;

	(void)wq;
	d->answered = true;
	d->result = reply->result;
}

int
ctl_do_drain(struct ctl *c)
{
	bool pause_after = ctl_given(c, OPT_PAUSE_AFTER);
	bool live = isatty(STDERR_FILENO) && !c->json && !c->quiet;
	struct draining d = { .c = c, .began_ms = ctl_now_ms() };
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_send_drain(c->wq, c->arg[0], timers_option(c), pause_after, ctl_wait_ms(c), 500,
		live ? on_progress : NULL, on_drained, &d);
	if (rc == 0)
		rc = ctl_turn(c, true);
	if (!d.answered)
		ctl_disconnect(c); /* while `d` is here to be called back */
	else
		rc = d.result;
	if (d.shown)
		fputs("\r\033[K", stderr);
	return rc < 0 ? ctl_fail(c, rc, NULL)
		      : ctl_put_ok(c, c->arg[0], pause_after ? "drained and paused" : "drained");
}
