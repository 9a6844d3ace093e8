/*
 * A worker: one subscription on a handle, and the work that came by it.
 *
 *            subscribe            `more`                 unsubscribe
 *   IDLE -----------------> ASKED -------> ON ------------------------> ENDING
 *     ^ |                     |            |                              |
 *     | +-- stop --> OVER     | broken,    | broken: all work is lost     | last reply, broken
 *     +-----------------------+ later      | (the daemon gives it away)   v
 *     +------------------------------------+                             OVER
 *       refused for good: OVER, with the error
 *
 * Work is on the worker's list until the application has said how it ended, even when its
 * lease is lost: the daemon waits for that word too, before it gives the worker more. Work
 * of a connection that has broken is answered here. While work is on the list it is touched
 * each third of its lease.
 */
#include <errno.h>
#include <string.h>

#include "handle.h"
#include "worker.h"

#define TO(s) (1u << (s))
static const unsigned worker_edges[] = {
	[W_IDLE] = TO(W_ASKED) | TO(W_OVER),
	[W_ASKED] = TO(W_ON) | TO(W_IDLE) | TO(W_OVER),
	[W_ON] = TO(W_ENDING) | TO(W_IDLE) | TO(W_OVER),
	[W_ENDING] = TO(W_OVER),
	[W_OVER] = 0,
};

static void
move(wq_worker_t *w, enum worker_state to)
{
	MUST(worker_edges[w->state] & TO(to));
	w->state = to;
}

/* ---- the subscription ---- */

static void
say_state(wq_worker_t *w, int error)
{
	if (w->opts.state)
		w->opts.state(w, error, w->opts.arg);
}

static int
send_plain(wq_worker_t *w, Wq__V1__Request *req)
{
	struct sending how = { .rule = RESEND_NEVER, .wait_ms = -1 };

	return request_send(w->wq, req, &how, NULL);
}

static int
send_unsubscribe(wq_worker_t *w)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Unsubscribe u = WQ__V1__UNSUBSCRIBE__INIT;

	req.op_case = WQ__V1__REQUEST__OP_UNSUBSCRIBE;
	req.unsubscribe = &u;
	return send_plain(w, &req);
}

static void
sub_more(wq_t *wq, struct pending *p, const Wq__V1__Reply *r)
{
	wq_worker_t *w = p->arg;
	struct wq_work *k;

	(void)wq;
	if (w->state == W_ASKED) {
		move(w, W_ON);
		say_state(w, 0);
		/* The application may have stopped it, then or before. */
		if (w->stopping && w->state == W_ON)
			(void)wq_worker_stop(w);
	}
	if (r->leased)
		work_came(w, r->leased);
	k = r->revoked ? work_by_token(w, r->revoked->token) : NULL;
	if (k)
		work_lose(k);
}

/* The connection is gone: what came by it is others'. */
static void
lose_all(wq_worker_t *w)
{
	for (struct wq_work *k = w->head, *next; k; k = next) {
		next = k->next;
		k->stale = true;
		work_lose(k);
	}
}

static void
sub_done(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	wq_worker_t *w = p->arg;
	int result = r ? reply_result(r->status) : error;

	w->sub_id = 0;
	if (r && result < 0)
		message_set(wq, r->message);
	if (!r)
		lose_all(w);
	if (result == 0 || w->stopping || wq->freeing || wq->addr.kind == ADDRESS_FD) {
		/* Of a connection that was given, the end is the daemon's word to go. */
		w->error = w->stopping || !r ? 0 : result;
		move(w, W_OVER);
	} else if (!r || wq_retriable(result)) {
		move(w, W_IDLE);
		w->again_ns = r ? later_ns(now_ns(), AGAIN_MS) : 0;
	} else {
		w->error = result;
		move(w, W_OVER);
	}
	say_state(w, result);
}

static int
subscribe(wq_worker_t *w)
{
	struct sending how = {
		.rule = RESEND_NEVER, .wait_ms = -1, .done = sub_done, .more = sub_more, .arg = w
	};
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Subscribe s = WQ__V1__SUBSCRIBE__INIT;
	int err;

	s.queues = w->queues;
	s.n_queues = w->opts.n_queues;
	s.credits = w->opts.credits;
	req.op_case = WQ__V1__REQUEST__OP_SUBSCRIBE;
	req.subscribe = &s;
	err = request_send(w->wq, &req, &how, &w->sub_id);
	if (err == 0)
		move(w, W_ASKED);
	return err;
}

/* ---- life ---- */

static int
opts_read(const wq_worker_opts_t *opts, wq_worker_opts_t *out)
{
	int err;

	*out = (wq_worker_opts_t)WQ_WORKER_INIT;
	err = opts_over(out, sizeof *out, opts, offsetof(wq_worker_opts_t, manual_touch));
	return err == 0 && out->n_queues > QUEUES_MAX ? -EINVAL : err;
}

static void
worker_delete(wq_worker_t *w)
{
	for (size_t i = 0; i < QUEUES_MAX; i++)
		mem_free(w->queues[i]);
	w->magic = 0;
	mem_free(w);
}

static int
copy_queues(wq_worker_t *w)
{
	for (size_t i = 0; i < w->opts.n_queues; i++) {
		const char *name = w->opts.queues[i];
		int err = name_check(w->wq, "queue's name", name, QUEUE_MAX);
		size_t n = name ? strlen(name) + 1 : 1;

		if (err < 0)
			return err;
		w->queues[i] = mem_zalloc(n);
		if (!w->queues[i])
			return -ENOMEM;
		memcpy(w->queues[i], name ? name : "", n);
	}
	return 0;
}

int
wq_worker_new(wq_t *wq, const wq_worker_opts_t *opts, wq_worker_t **out)
{
	wq_worker_t *w;
	int err;

	if (wq->worker)
		return -EBUSY;
	w = mem_zalloc(sizeof *w);
	if (!w)
		return -ENOMEM;
	w->magic = WORKER_MAGIC;
	w->wq = wq;
	err = opts_read(opts, &w->opts);
	if (err == 0)
		err = copy_queues(w);
	if (err == 0)
		err = subscribe(w);
	if (err < 0) {
		worker_delete(w);
		return err;
	}
	wq->worker = w;
	*out = w;
	return 0;
}

void
wq_worker_free(wq_worker_t *w)
{
	if (!w)
		return;
	MUST(w->magic == WORKER_MAGIC);
	w->stopping = true;
	if (w->sub_id)
		request_abandon(w->wq, w->sub_id);
	/* One that was asked for only is there as soon as the daemon reads it. */
	if (w->state == W_ON || (w->state == W_ASKED && pending_find(&w->wq->pend, w->sub_id)))
		(void)send_unsubscribe(w);
	while (w->head)
		if (wq_work_release(w->head, NULL, NULL) < 0)
			work_free(w->head);
	w->wq->worker = NULL;
	worker_delete(w);
}

int
wq_worker_stop(wq_worker_t *w)
{
	int err = 0;

	MUST(w->magic == WORKER_MAGIC);
	w->stopping = true;
	if (w->state == W_IDLE)
		move(w, W_OVER);
	if (w->state != W_ON)
		return 0;
	err = send_unsubscribe(w);
	if (err == 0)
		move(w, W_ENDING);
	return err;
}

int
wq_worker_credits(wq_worker_t *w, unsigned credits)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Credits c = WQ__V1__CREDITS__INIT;

	MUST(w->magic == WORKER_MAGIC);
	w->opts.credits = credits;
	/* Otherwise the subscription asks for them. */
	if (w->state != W_ON)
		return 0;
	c.credits = credits;
	req.op_case = WQ__V1__REQUEST__OP_CREDITS;
	req.credits = &c;
	return send_plain(w, &req);
}

int
wq_worker_over(const wq_worker_t *w, int *error)
{
	MUST(w->magic == WORKER_MAGIC);
	if (error)
		*error = w->error;
	return w->state == W_OVER && w->n_work == 0;
}

/* ---- turns ---- */

void
worker_turn(wq_worker_t *w, int64_t now)
{
	if (w->state == W_IDLE && w->again_ns <= now && subscribe(w) < 0)
		w->again_ns = later_ns(now, AGAIN_MS);
	for (struct wq_work *k = w->head; k; k = k->next)
		if (k->touch_ns <= now && wq_work_touch(k, 0) < 0)
			k->touch_ns = later_ns(now, AGAIN_MS);
}

int64_t
worker_next_due(const wq_worker_t *w)
{
	int64_t due = w->state == W_IDLE ? w->again_ns : NEVER_NS;

	for (const struct wq_work *k = w->head; k; k = k->next)
		if (k->touch_ns < due)
			due = k->touch_ns;
	return due;
}

/* ---- blocking ---- */

static struct wq_work *
first_waiting(const wq_worker_t *w)
{
	for (struct wq_work *k = w->head; k; k = k->next)
		if (k->waiting)
			return k;
	return NULL;
}

static bool
something_to_do(const wq_t *wq, const void *arg)
{
	const wq_worker_t *w = arg;

	(void)wq;
	return first_waiting(w) || w->state == W_OVER;
}

int
wq_worker_next(wq_worker_t *w, int timeout_ms, wq_work_t **out)
{
	int64_t until = timeout_ms < 0 ? NEVER_NS : later_ns(now_ns(), timeout_ms);
	int err = call_begin(w->wq);

	MUST(w->magic == WORKER_MAGIC);
	while (err == 0 && !something_to_do(w->wq, w))
		err = turn_until(w->wq, something_to_do, w, until);
	if (first_waiting(w)) {
		*out = first_waiting(w);
		(*out)->waiting = false;
		return 0;
	}
	if (w->state == W_OVER)
		return w->error < 0 ? w->error : WQ_ERR_CLOSED;
	return err;
}

static bool
worker_over(const wq_t *wq, const void *arg)
{
	const wq_worker_t *w = arg;

	return wq_worker_over(w, NULL) && wq_in_flight(wq) == 0;
}

int
wq_worker_run(wq_worker_t *w)
{
	int err = call_begin(w->wq);

	/* An error of one turn is a connection that comes back. */
	while (err == 0 && !worker_over(w->wq, w))
		(void)turn_until(w->wq, worker_over, w, NEVER_NS);
	return err < 0 ? err : w->error;
}
