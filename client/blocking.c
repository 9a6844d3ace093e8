/*
 * The blocking calls: the asynchronous ones, and a poll loop that turns the handle until the
 * reply is there or time is up. A call that is given up leaves its request to be answered and
 * dropped, so that nothing points into a stack that is gone.
 */
#include <errno.h>
#include <poll.h>

#include "handle.h"

/* Waits for the descriptor or the next timeout; what wq_process wants to know. */
static int
poll_once(const wq_t *wq, int64_t until_ns)
{
	struct pollfd p = { .fd = wq_fd(wq) };
	int events = wq_events(wq), ms = wq_timeout_ms(wq), ready = 0;

	if (until_ns != NEVER_NS) {
		int64_t left = (until_ns - now_ns()) / NS_PER_MS + 1;

		if (left < 0)
			left = 0;
		if (ms < 0 || left < ms)
			ms = left > INT32_MAX ? INT32_MAX : (int)left;
	}
	p.events =
		(short)((events & WQ_READABLE ? POLLIN : 0) | (events & WQ_WRITABLE ? POLLOUT : 0));
	/* Interrupted or out of memory: a turn with nothing ready does no harm. */
	if (poll(&p, p.fd >= 0, ms) <= 0)
		return 0;
	if (p.revents & (POLLIN | POLLHUP | POLLERR))
		ready |= WQ_READABLE;
	if (p.revents & (POLLOUT | POLLHUP | POLLERR))
		ready |= WQ_WRITABLE;
	return ready;
}

int
turn_until(
	wq_t *wq, bool (*done)(const wq_t *wq, const void *arg), const void *arg, int64_t until_ns)
{
	int ready = 0, err;

	for (;;) {
		err = wq_process(wq, ready);
		if (err < 0 || done(wq, arg))
			break;
		if (now_ns() >= until_ns) {
			err = WQ_ERR_TIMEOUT;
			break;
		}
		ready = poll_once(wq, until_ns);
	}
	hooks_changed(wq);
	return err;
}

static bool
none_waits(const wq_t *wq, const void *arg)
{
	(void)arg;
	return wq_in_flight(wq) == 0;
}

int
wq_run(wq_t *wq, int timeout_ms)
{
	if (wq->busy)
		return -EDEADLK;
	if (wq_in_flight(wq) == 0)
		return 0;
	return turn_until(
		wq, none_waits, NULL, timeout_ms < 0 ? NEVER_NS : later_ns(now_ns(), timeout_ms));
}

void
call_reply(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct call *c = arg;

	(void)wq;
	c->answered = true;
	c->result = reply->result;
	if (c->out)
		result_from_reply(reply, c->out);
}

int
call_begin(wq_t *wq)
{
	MUST(wq->magic == WQ_MAGIC);
	if (wq->busy)
		return -EDEADLK;
	wq->message[0] = '\0';
	return 0;
}

static bool
is_answered(const wq_t *wq, const void *arg)
{
	const struct call *c = arg;

	(void)wq;
	return c->answered;
}

/* Time is up. A request that never left was not done, and why it did not says more. */
static int
give_up(wq_t *wq, uint64_t id)
{
	const struct pending *p = pending_find(&wq->pend, id);
	int err = WQ_ERR_TIMEOUT;

	if (p && !p->sent && wq->link.last_error < 0)
		err = wq->link.last_error;
	request_abandon(wq, id);
	return err;
}

int
call_wait(wq_t *wq, struct call *c, int64_t wait_ms)
{
	int64_t until = NEVER_NS;

	if (wq->opt.timeout_ms > 0 && wait_ms >= 0)
		until = later_ns(later_ns(now_ns(), wait_ms), wq->opt.timeout_ms);
	/* An error of one turn that this call outlives is not its own. */
	while (!c->answered)
		if (turn_until(wq, is_answered, c, until) == WQ_ERR_TIMEOUT && !c->answered)
			return give_up(wq, c->id);
	return c->result;
}

void
call_end(wq_t *wq, struct call *c, int error, const Wq__V1__Reply *r)
{
	c->answered = true;
	c->result = r ? reply_result(r->status) : error;
	if (c->result < 0 && r)
		message_set(wq, r->message);
}

struct raw {
	struct call call; /* first */
	struct scratch *page;
	const Wq__V1__Reply *reply;
};

/* Keeps the decoded reply by taking the memory it is in. */
static void
raw_done(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	struct raw *raw = p->arg;

	call_end(wq, &raw->call, error, r);
	if (raw->call.result == 0) {
		struct scratch tmp = *raw->page;

		*raw->page = wq->in.scratch;
		wq->in.scratch = tmp;
		raw->reply = r;
	}
}

int
call_raw(wq_t *wq, Wq__V1__Request *req, enum resend_rule rule, int64_t wait_ms,
	struct scratch *page, const Wq__V1__Reply **out)
{
	struct raw raw = { .page = page };
	struct sending how = { .rule = rule, .wait_ms = -1, .done = raw_done, .arg = &raw };
	int err = call_begin(wq);

	if (err == 0)
		err = request_send(wq, req, &how, &raw.call.id);
	if (err == 0)
		err = call_wait(wq, &raw.call, wait_ms);
	if (err == 0)
		*out = raw.reply;
	return err;
}

int
call_plain(wq_t *wq, Wq__V1__Request *req, enum resend_rule rule, int64_t wait_ms)
{
	struct call c = { 0 };
	struct sending how = {
		.rule = rule, .wait_ms = wait_ms > 0 ? wait_ms : -1, .cb = call_reply, .arg = &c
	};
	int err = call_begin(wq);

	if (err == 0)
		err = request_send(wq, req, &how, &c.id);
	return err < 0 ? err : call_wait(wq, &c, wait_ms);
}

/* ---- the calls on jobs ---- */

int
wq_update(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_result_t *result)
{
	struct call c = { .out = result };
	int err = call_begin(wq);

	if (err == 0)
		err = update_ask(wq, queue, key, delay_ms, opts, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, 0);
}

int
wq_schedule(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_result_t *result)
{
	wq_update_opts_t o;
	int err = update_opts_read(opts, &o);

	if (err < 0)
		return err;
	o.mode = WQ_KEEP;
	return wq_update(wq, queue, key, delay_ms, &o, result);
}

int
wq_cancel(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	wq_result_t *result)
{
	return wq_cancel_with(wq, queue, key, mode, timeout_ms, NULL, result);
}

int
wq_cancel_with(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	const wq_change_opts_t *opts, wq_result_t *result)
{
	struct call c = { .out = result };
	int err = call_begin(wq);

	if (err == 0)
		err = cancel_ask(wq, queue, key, mode, timeout_ms, opts, call_reply, &c, &c.id);
	if (err < 0)
		return err;
	return call_wait(wq, &c, mode == WQ_CANCEL_PLAIN ? 0 : timeout_ms);
}

int
wq_flush(wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_result_t *result)
{
	struct call c = { .out = result };
	int err = call_begin(wq);

	if (err == 0)
		err = flush_ask(wq, queue, key, now, timeout_ms, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, timeout_ms);
}

int
wq_flush_queue(wq_t *wq, const char *queue, int timeout_ms)
{
	struct call c = { 0 };
	int err = call_begin(wq);

	if (err == 0)
		err = flush_queue_ask(wq, queue, timeout_ms, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, timeout_ms);
}

int
wq_wait(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_result_t *result)
{
	struct call c = { .out = result };
	int err = call_begin(wq);

	if (err == 0)
		err = wait_ask(wq, queue, key, generation, timeout_ms, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, timeout_ms);
}

int
wq_job(wq_t *wq, wq_job_op_t op, const char *queue, const char *key, wq_result_t *result)
{
	return wq_job_with(wq, op, queue, key, NULL, result);
}

int
wq_job_with(wq_t *wq, wq_job_op_t op, const char *queue, const char *key,
	const wq_change_opts_t *opts, wq_result_t *result)
{
	struct call c = { .out = result };
	int err = call_begin(wq);

	if (err == 0)
		err = job_ask(wq, op, queue, key, opts, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, 0);
}
