/* Queues and the daemon: blocking calls whose reply is a status. None is sent twice. */
#include <errno.h>

#include "handle.h"

#define SETTINGS_MAX 64u

static char *
text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

/* Sends an operation on `queue`; -1 for `wait_ms`: no end. */
static int
queue_op(wq_t *wq, const char *queue, Wq__V1__Request *req, int64_t wait_ms)
{
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	return err ? err : call_plain(wq, req, RESEND_NEVER, wait_ms);
}

static int
queue_settings(wq_t *wq, Wq__V1__Request__OpCase op, const char *queue, size_t n,
	const char *const *names, const char *const *values)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__QueueSet qs = WQ__V1__QUEUE_SET__INIT;
	Wq__V1__Setting set[SETTINGS_MAX], *p[SETTINGS_MAX];

	if (n > SETTINGS_MAX) {
		message_set(wq, "more than 64 settings");
		return -WQ_INVALID;
	}
	for (size_t i = 0; i < n; i++) {
		wq__v1__setting__init(&set[i]);
		set[i].name = text(names[i]);
		set[i].value = text(values[i]);
		p[i] = &set[i];
	}
	qs.queue = text(queue);
	qs.n_settings = n;
	qs.settings = p;
	req.op_case = op;
	if (op == WQ__V1__REQUEST__OP_QUEUE_CREATE)
		req.queue_create = &qs;
	else
		req.queue_set = &qs;
	return queue_op(wq, queue, &req, 0);
}

int
wq_queue_create(
	wq_t *wq, const char *queue, size_t n, const char *const *names, const char *const *values)
{
	return queue_settings(wq, WQ__V1__REQUEST__OP_QUEUE_CREATE, queue, n, names, values);
}

int
wq_queue_set(
	wq_t *wq, const char *queue, size_t n, const char *const *names, const char *const *values)
{
	return queue_settings(wq, WQ__V1__REQUEST__OP_QUEUE_SET, queue, n, names, values);
}

int
wq_queue_delete(wq_t *wq, const char *queue, wq_timers_t timers, int timeout_ms)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__QueueDelete d = WQ__V1__QUEUE_DELETE__INIT;

	coalesce_forget(&wq->known, wq->pend.next_id);
	d.queue = text(queue);
	d.timers = (Wq__V1__TimerPolicy)timers;
	if (timeout_ms >= 0) {
		d.has_timeout_ms_case = WQ__V1__QUEUE_DELETE__HAS_TIMEOUT_MS_TIMEOUT_MS;
		d.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_QUEUE_DELETE;
	req.queue_delete = &d;
	return queue_op(wq, queue, &req, timeout_ms);
}

static int
pause_resume(wq_t *wq, Wq__V1__Request__OpCase op, const char *queue)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Queue q = WQ__V1__QUEUE__INIT;

	q.queue = text(queue);
	req.op_case = op;
	if (op == WQ__V1__REQUEST__OP_PAUSE)
		req.pause = &q;
	else
		req.resume = &q;
	return queue_op(wq, queue, &req, 0);
}

int
wq_pause(wq_t *wq, const char *queue)
{
	return pause_resume(wq, WQ__V1__REQUEST__OP_PAUSE, queue);
}

int
wq_resume(wq_t *wq, const char *queue)
{
	return pause_resume(wq, WQ__V1__REQUEST__OP_RESUME, queue);
}

int
wq_drain(wq_t *wq, const char *queue, wq_timers_t timers, int pause_after, int timeout_ms)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Drain d = WQ__V1__DRAIN__INIT;

	coalesce_forget(&wq->known, wq->pend.next_id);
	d.queue = text(queue);
	d.timers = (Wq__V1__TimerPolicy)timers;
	d.pause_after = pause_after != 0;
	if (timeout_ms >= 0) {
		d.has_timeout_ms_case = WQ__V1__DRAIN__HAS_TIMEOUT_MS_TIMEOUT_MS;
		d.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_DRAIN;
	req.drain = &d;
	return queue_op(wq, queue, &req, timeout_ms);
}

int
wq_reload(wq_t *wq)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Reload r = WQ__V1__RELOAD__INIT;

	req.op_case = WQ__V1__REQUEST__OP_RELOAD;
	req.reload = &r;
	return call_plain(wq, &req, RESEND_NEVER, 0);
}

int
wq_upgrade(wq_t *wq, int check)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Upgrade u = WQ__V1__UPGRADE__INIT;

	u.check = check != 0;
	req.op_case = WQ__V1__REQUEST__OP_UPGRADE;
	req.upgrade = &u;
	return call_plain(wq, &req, RESEND_NEVER, -1);
}

int
wq_shutdown(wq_t *wq, int drain)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Shutdown s = WQ__V1__SHUTDOWN__INIT;

	s.drain = drain != 0;
	req.op_case = WQ__V1__REQUEST__OP_SHUTDOWN;
	req.shutdown = &s;
	return call_plain(wq, &req, RESEND_NEVER, drain ? -1 : 0);
}
