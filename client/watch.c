/* Replies that come in a row: the events of a watch, the progress of a drain. */
#include <errno.h>
#include <string.h>

#include "handle.h"

/* ---- watch ---- */

static void
deliver(wq_t *wq, struct pending *p, const wq_event_t *event)
{
	if (p->event)
		p->event(wq, event, p->arg);
}

/* False: no memory. */
static bool
event_from_wire(struct scratch *s, const Wq__V1__Event *e, wq_event_t *out)
{
	*out = (wq_event_t){
		.size = sizeof *out,
		.kind = (wq_event_kind_t)e->kind,
		.position = e->position,
		.at_ms = e->at_ms,
		.queue = e->queue,
		.key = scratch_text(s, e->key.data, e->key.len),
		.generation = e->generation,
		.attempt = e->attempt,
		.coalesced = e->coalesced,
		.deadline_ms = e->has_deadline_ms_case ? e->deadline_ms : -1,
		.outcome = (wq_outcome_t)e->outcome,
		.final = e->final,
		.change = e->change,
	};
	return out->key != NULL;
}

static wq_event_t
no_event(int result)
{
	return (wq_event_t){ .size = sizeof(wq_event_t),
		.result = result,
		.queue = "",
		.key = "",
		.deadline_ms = -1,
		.change = "" };
}

/* The beginning and each gap come before the events that follow them. */
static void
watch_more(wq_t *wq, struct pending *p, const Wq__V1__Reply *r)
{
	wq_event_t event = no_event(0);

	event.position = r->position;
	event.lost = r->lost;
	event.lost_unknown = r->lost_unknown;
	if (r->n_events == 0 || r->lost || r->lost_unknown)
		deliver(wq, p, &event);
	for (size_t i = 0; i < r->n_events; i++) {
		/* Without memory for its key an event is a gap. */
		if (!event_from_wire(&wq->in.scratch, r->events[i], &event)) {
			event = no_event(0);
			event.position = r->events[i]->position;
			event.lost = 1;
		}
		deliver(wq, p, &event);
	}
}

static void
watch_done(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	/* A last reply without `more` is a refusal; one that is none makes no sense. */
	int result = r ? reply_result(r->status) : error;
	wq_event_t event = no_event(result < 0 ? result : WQ_ERR_PROTOCOL);

	if (r && result < 0)
		message_set(wq, r->message);
	deliver(wq, p, &event);
}

static int
watch_opts_read(const wq_watch_opts_t *opts, wq_watch_opts_t *out)
{
	*out = (wq_watch_opts_t)WQ_WATCH_INIT;
	return opts_over(out, sizeof *out, opts, offsetof(wq_watch_opts_t, prefix));
}

int
wq_send_watch(wq_t *wq, const wq_watch_opts_t *opts, wq_event_cb cb, void *arg)
{
	struct sending how = { .rule = RESEND_NEVER,
		.wait_ms = -1,
		.arg = arg,
		.done = watch_done,
		.more = watch_more,
		.event = cb };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Watch w = WQ__V1__WATCH__INIT;
	Wq__V1__EventKind kinds[WQ_EVENT_RETURNED];
	wq_watch_opts_t o;
	int err = watch_opts_read(opts, &o);

	if (err == 0)
		err = name_check(wq, "queue's name", o.queue, QUEUE_MAX);
	if (err < 0)
		return err;
	w.queue = (char *)(uintptr_t)(o.queue ? o.queue : "");
	if (o.prefix)
		w.prefix =
			(ProtobufCBinaryData){ strlen(o.prefix), (uint8_t *)(uintptr_t)o.prefix };
	w.kinds = kinds;
	for (uint32_t k = WQ_EVENT_ARMED; k <= WQ_EVENT_RETURNED; k++)
		if (o.kinds & 1u << k)
			kinds[w.n_kinds++] = (Wq__V1__EventKind)k;
	if (o.resume) {
		w.has_after_case = WQ__V1__WATCH__HAS_AFTER_AFTER;
		w.after = o.after;
	}
	req.op_case = WQ__V1__REQUEST__OP_WATCH;
	req.watch = &w;
	return request_send(wq, &req, &how, NULL);
}

/* ---- drain ---- */

static void
drain_more(wq_t *wq, struct pending *p, const Wq__V1__Reply *r)
{
	wq_progress_t progress = { .size = sizeof progress, .oldest_ms = -1 };

	if (!r->progress || !p->progress)
		return;
	progress.left = r->progress->left;
	progress.running = r->progress->running;
	if (r->progress->has_oldest_ms_case)
		progress.oldest_ms = r->progress->oldest_ms;
	p->progress(wq, &progress, p->arg);
}

int
wq_send_drain(wq_t *wq, const char *queue, wq_timers_t timers, int pause_after, int timeout_ms,
	int progress_ms, wq_progress_cb progress, wq_reply_cb cb, void *arg)
{
	struct sending how = { .rule = RESEND_NEVER,
		.wait_ms = timeout_ms,
		.cb = cb,
		.arg = arg,
		.more = drain_more,
		.progress = progress };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Drain d = WQ__V1__DRAIN__INIT;
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	if (err < 0)
		return err;
	coalesce_forget(&wq->known, wq->pend.next_id);
	d.queue = (char *)(uintptr_t)(queue ? queue : "");
	d.timers = (Wq__V1__TimerPolicy)timers;
	d.pause_after = pause_after != 0;
	if (timeout_ms >= 0) {
		d.has_timeout_ms_case = WQ__V1__DRAIN__HAS_TIMEOUT_MS_TIMEOUT_MS;
		d.timeout_ms = timeout_ms;
	}
	d.progress_ms = progress ? progress_ms : 0;
	req.op_case = WQ__V1__REQUEST__OP_DRAIN;
	req.drain = &d;
	return request_send(wq, &req, &how, NULL);
}
