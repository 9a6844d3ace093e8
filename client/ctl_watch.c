/* The event stream: one line an event. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_text.h"
#include "ctl_time.h"

struct watching {
	struct ctl *c;
	int64_t left; /* events still to show; -1: no end */
	int error;    /* with which the stream ended */
	bool over;
};

/* ---- one event ---- */

static json_t *
json_event(const wq_event_t *e)
{
	bool none = e->kind == WQ_EVENT_NONE, gap = e->lost || e->lost_unknown;
	json_t *j = json_object();

	ctl_json_set(j, "position", json_integer((json_int_t)e->position));
	ctl_json_set(j, "event",
		ctl_text_jsons(none ? (gap ? "gap" : "begin") : wq_event_word(e->kind)));
	if (none) {
		ctl_json_set(j, "lost", json_integer((json_int_t)e->lost));
		ctl_json_set(j, "lost_unknown", json_boolean(e->lost_unknown));
		return j;
	}
	ctl_json_set(j, "at_ms", json_integer(e->at_ms));
	ctl_json_set(j, "queue", ctl_text_jsons(e->queue));
	if (e->kind == WQ_EVENT_QUEUE) {
		ctl_json_set(j, "change", ctl_text_jsons(e->change));
		return j;
	}
	ctl_json_set(j, "key", ctl_text_jsons(e->key));
	ctl_json_set(j, "generation", json_integer((json_int_t)e->generation));
	ctl_json_set(j, "coalesced", json_integer(e->coalesced));
	ctl_json_set(j, "deadline_ms", ctl_json_ms(e->deadline_ms));
	if (e->attempt)
		ctl_json_set(j, "attempt", json_integer(e->attempt));
	if (e->kind == WQ_EVENT_FINISHED) {
		ctl_json_set(j, "outcome", ctl_text_jsons(wq_outcome_word(e->outcome)));
		ctl_json_set(j, "final", json_boolean(e->final));
	}
	return j;
}

static void
put_event(const wq_event_t *e)
{
	char at[CTL_TIME_SIZE];

	if (e->kind == WQ_EVENT_NONE) {
		if (e->lost_unknown && !e->lost)
			puts("-- events lost, it is not known how many --");
		else if (e->lost)
			printf("-- %llu events lost%s --\n", (unsigned long long)e->lost,
				e->lost_unknown ? ", or more" : "");
		return;
	}
	printf("%s  %-9s  ", ctl_time_local(e->at_ms, at), wq_event_word(e->kind));
	if (e->kind == WQ_EVENT_QUEUE) {
		ctl_text_puts(stdout, e->queue);
		printf("  %s\n", e->change);
		return;
	}
	ctl_put_target(e->queue, e->key);
	printf("  generation %llu", (unsigned long long)e->generation);
	if (e->attempt)
		printf("  attempt %u", (unsigned)e->attempt);
	if (e->deadline_ms >= 0)
		printf("  due %s", ctl_time_local(e->deadline_ms, at));
	if (e->kind == WQ_EVENT_FINISHED)
		printf("  %s%s", wq_outcome_word(e->outcome), e->final ? "" : ", will be retried");
	if (e->coalesced)
		printf("  coalesced %u", (unsigned)e->coalesced);
	putchar('\n');
}

static void
on_event(wq_t *wq, const wq_event_t *e, void *arg)
{
	struct watching *w = arg;

	(void)wq;
	if (w->over)
		return;
	if (e->result < 0) {
		w->error = e->result;
		w->over = true;
		return;
	}
	if (w->c->json)
		ctl_json_put(w->c, json_event(e));
	else
		put_event(e);
	if (e->kind != WQ_EVENT_NONE && w->left > 0)
		w->left--;
	w->over = w->left == 0;
}

/* ---- the stream ---- */

/* The kinds of a list with commas: 0, or CTL_USAGE with the error printed. */
static int
take_kinds(struct ctl *c, uint32_t *kinds)
{
	const char *text = c->opt[OPT_KINDS].text;

	for (size_t n; text && *text; text += n + (text[n] == ',')) {
		uint32_t k = WQ_EVENT_ARMED;

		n = strcspn(text, ",");
		while (k <= WQ_EVENT_RETURNED &&
			(strlen(wq_event_word((wq_event_kind_t)k)) != n ||
				strncmp(wq_event_word((wq_event_kind_t)k), text, n) != 0))
			k++;
		if (k > WQ_EVENT_RETURNED)
			return ctl_usage(c, "--kinds: '%.*s' is no kind of event", (int)n, text);
		*kinds |= 1u << k;
	}
	return 0;
}

/* Turns the handle until the stream is over, stdout is gone or the time is up. */
static int
follow(struct ctl *c, struct watching *w)
{
	int64_t limit = ctl_wait_ms(c), until = limit < 0 ? -1 : ctl_now_ms() + limit;
	int ready = 0;

	while (!w->over && !ctl_out_broken(c)) {
		struct pollfd p;
		int ms;

		(void)wq_process(c->wq, ready);
		(void)fflush(stdout);
		if (w->over)
			break;
		if (until >= 0 && ctl_now_ms() >= until)
			return ctl_error(c, CTL_TIMED_OUT, "TIMEOUT", "the time to watch is over");
		p = (struct pollfd){ .fd = wq_fd(c->wq), .events = POLLIN };
		if (wq_events(c->wq) & WQ_WRITABLE)
			p.events |= POLLOUT;
		ms = wq_timeout_ms(c->wq);
		if (until >= 0 && (ms < 0 || ms > until - ctl_now_ms()))
			ms = until > ctl_now_ms() ? (int)(until - ctl_now_ms()) : 0;
		ready = poll(&p, p.fd >= 0, ms) > 0 ? WQ_READABLE | WQ_WRITABLE : 0;
	}
	return CTL_DONE;
}

int
ctl_do_watch(struct ctl *c)
{
	struct watching w = { .c = c, .left = ctl_num(c, OPT_COUNT, -1) };
	wq_watch_opts_t o = WQ_WATCH_INIT;
	int rc = take_kinds(c, &o.kinds);

	o.queue = c->opt[OPT_QUEUE].text;
	o.prefix = c->opt[OPT_PREFIX].text;
	o.resume = ctl_given(c, OPT_AFTER);
	o.after = (uint64_t)ctl_num(c, OPT_AFTER, 0);
	if (rc == 0)
		rc = ctl_connect(c);
	if (rc)
		return rc;
	rc = wq_send_watch(c->wq, &o, on_event, &w);
	if (rc < 0)
		return ctl_fail(c, rc, NULL);
	rc = follow(c, &w);
	w.over = true;
	ctl_disconnect(c); /* while `w` is here to be called back */
	if (w.error == WQ_ERR_CLOSED)
		return ctl_error(
			c, CTL_NO_DAEMON, "NO_DAEMON", "the daemon has closed the connection");
	return w.error < 0 ? ctl_fail(c, w.error, NULL) : rc;
}
