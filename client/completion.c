/* Named completions: what waits for them, and what completes them. */
#include <errno.h>
#include <string.h>

#include "handle.h"

static ProtobufCBinaryData
name_bytes(const char *name)
{
	return (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
}

static int
completion_check(wq_t *wq, const char *name)
{
	return name_check(wq, "completion's name", name ? name : "", KEY_MAX);
}

/* ---- waiting ---- */

static int
wait_send(wq_t *wq, const char *name, int timeout_ms, wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = {
		.rule = RESEND_ALWAYS, .wait_ms = timeout_ms, .cb = cb, .arg = arg, .key = name
	};
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__CompletionWait w = WQ__V1__COMPLETION_WAIT__INIT;
	int err = completion_check(wq, name);

	if (err < 0)
		return err;
	w.name = name_bytes(name);
	if (timeout_ms >= 0) {
		w.has_timeout_ms_case = WQ__V1__COMPLETION_WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
		w.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_COMPLETION_WAIT;
	req.completion_wait = &w;
	return request_send(wq, &req, &how, id);
}

int
wq_send_completion_wait(wq_t *wq, const char *name, int timeout_ms, wq_reply_cb cb, void *arg)
{
	return wait_send(wq, name, timeout_ms, cb, arg, NULL);
}

int
wq_completion_wait(wq_t *wq, const char *name, int timeout_ms)
{
	struct call c = { 0 };
	int err = call_begin(wq);

	if (err == 0)
		err = wait_send(wq, name, timeout_ms, call_reply, &c, &c.id);
	return err < 0 ? err : call_wait(wq, &c, timeout_ms);
}

/* ---- completing, closing, looking ---- */

/* False: no such operation. */
static bool
fill_op(Wq__V1__Request *req, wq_completion_op_t op, Wq__V1__Completion *c)
{
	switch (op) {
	case WQ_COMPLETION_COMPLETE:
		req->op_case = WQ__V1__REQUEST__OP_COMPLETE;
		req->complete = c;
		return true;
	case WQ_COMPLETION_COMPLETE_ALL:
		req->op_case = WQ__V1__REQUEST__OP_COMPLETE_ALL;
		req->complete_all = c;
		return true;
	case WQ_COMPLETION_REINIT:
		req->op_case = WQ__V1__REQUEST__OP_COMPLETION_REINIT;
		req->completion_reinit = c;
		return true;
	case WQ_COMPLETION_SHOW:
		req->op_case = WQ__V1__REQUEST__OP_COMPLETION_SHOW;
		req->completion_show = c;
		return true;
	}
	return false;
}

static int
op_send(wq_t *wq, wq_completion_op_t op, const char *name, wq_durability_t durability,
	wq_reply_cb cb, void *arg, uint64_t *id)
{
	bool look = op == WQ_COMPLETION_SHOW;
	struct sending how = { .rule = look ? RESEND_ALWAYS : rule_for_change(wq),
		.wait_ms = -1,
		.cb = cb,
		.arg = arg,
		.key = name };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Completion c = WQ__V1__COMPLETION__INIT;
	uint8_t idem[IDEM_LEN];
	int err = completion_check(wq, name);

	if (err < 0)
		return err;
	if (!fill_op(&req, op, &c))
		return -EINVAL;
	c.name = name_bytes(name);
	c.durability = (Wq__V1__Durability)durability;
	if (!look)
		c.idempotency_id = idem_for(wq, idem);
	return request_send(wq, &req, &how, id);
}

int
wq_send_completion(wq_t *wq, wq_completion_op_t op, const char *name, wq_durability_t durability,
	wq_reply_cb cb, void *arg)
{
	return op_send(wq, op, name, durability, cb, arg, NULL);
}

struct completion_call {
	struct call call;
	wq_completion_info_t *now; /* may be NULL */
};

static void
on_completion(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct completion_call *c = arg;

	call_reply(wq, reply, &c->call);
	if (reply->result < 0 || !c->now)
		return;
	if (reply->completion)
		*c->now = *reply->completion;
	else
		c->call.result = WQ_ERR_PROTOCOL;
}

int
wq_completion(wq_t *wq, wq_completion_op_t op, const char *name, wq_durability_t durability,
	wq_completion_info_t *now)
{
	struct completion_call c = { .now = now };
	int err = call_begin(wq);

	if (err == 0)
		err = op_send(wq, op, name, durability, on_completion, &c, &c.call.id);
	return err < 0 ? err : call_wait(wq, &c.call, 0);
}
