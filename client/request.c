/* Operations on jobs as requests of the wire. */
#include <errno.h>
#include <string.h>

#include "handle.h"

/* protobuf-c's fields are not const; it only reads them. */
static ProtobufCBinaryData
bytes(const void *p, size_t n)
{
	return (ProtobufCBinaryData){ n, (uint8_t *)(uintptr_t)p };
}

static ProtobufCBinaryData
text(const char *s)
{
	return bytes(s, s ? strlen(s) : 0);
}

static char *
name(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

int
name_check(wq_t *wq, const char *what, const char *s, size_t max)
{
	char why[64];
	size_t n = s ? strnlen(s, max + 1) : 1;

	if (n >= 1 && n <= max)
		return 0;
	snprintf(why, sizeof why, "the %s is not 1 to %zu bytes", what, max);
	message_set(wq, why);
	return -WQ_INVALID;
}

int
job_check(wq_t *wq, const char *queue, const char *key)
{
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	return err ? err : name_check(wq, "key", key ? key : "", KEY_MAX);
}

void
idem_make(wq_t *wq, uint8_t out[IDEM_LEN])
{
	memcpy(out, wq->idem_random, IDEM_RANDOM);
	memcpy(out + IDEM_RANDOM, &wq->idem_next, sizeof wq->idem_next);
	wq->idem_next++;
}

ProtobufCBinaryData
idem_for(wq_t *wq, uint8_t buf[IDEM_LEN])
{
	if (!wq->opt.resend)
		return bytes(NULL, 0);
	idem_make(wq, buf);
	return bytes(buf, IDEM_LEN);
}

enum resend_rule
rule_for_change(const wq_t *wq)
{
	return wq->opt.resend ? RESEND_WITH_ID : RESEND_NEVER;
}

/* ---- update ---- */

int
update_opts_read(const wq_update_opts_t *opts, wq_update_opts_t *out)
{
	*out = (wq_update_opts_t)WQ_UPDATE_INIT;
	return opts_over(out, sizeof *out, opts, offsetof(wq_update_opts_t, at_ms));
}

/* The caller's id, or one of the library's own, where there has to be one. */
static struct hot_text
hot_idem(wq_t *wq, const char *given, uint8_t buf[IDEM_LEN])
{
	if (given)
		return hot_text(given, strlen(given));
	if (!wq->opt.resend)
		return hot_text(NULL, 0);
	idem_make(wq, buf);
	return hot_text(buf, IDEM_LEN);
}

/* A name of 1 to `max` bytes, or none at all. */
static int
name_take(wq_t *wq, const char *what, const char *s, size_t max, struct hot_text *out)
{
	size_t n = s ? strnlen(s, max + 1) : 0;

	*out = hot_text(s, n);
	return (s && n == 0) || n > max ? name_check(wq, what, s, max) : 0;
}

int
update_fill(wq_t *wq, struct hot_update *u, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *o, uint8_t idem[IDEM_LEN])
{
	int err = name_take(wq, "queue's name", queue, QUEUE_MAX, &u->queue);

	if (err == 0)
		err = name_take(wq, "key", key, KEY_MAX, &u->key);
	if (err == 0 && o->n_command > COMMAND_WORDS_MAX) {
		message_set(wq, "the command has over 1024 words");
		err = -WQ_INVALID;
	}
	if (err == 0 && o->payload_mode == WQ_PAYLOAD_KEEP && o->payload_len > 0) {
		message_set(wq, "a payload is given, but payload_mode is WQ_PAYLOAD_KEEP");
		err = -WQ_INVALID;
	}
	if (err == 0 && o->payload_len > REQUEST_MAX)
		err = WQ_ERR_TOO_LARGE;
	if (err < 0)
		return err;
	u->delay_ms = delay_ms;
	u->o = o;
	u->idem = hot_idem(wq, o->idempotency_id, idem);
	return 0;
}

static int
update_send(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *o, const struct sending *how, uint64_t *id)
{
	uint8_t idem[IDEM_LEN], *op;
	struct hot_update u;
	struct pending *p;
	int err = update_fill(wq, &u, queue, key, delay_ms, o, idem);

	if (err == 0)
		err = request_begin(wq, how, hot_update_room(&u), &p, &op);
	if (err < 0)
		return err;
	return request_send_op(wq, p, HOT_OP_UPDATE, op, hot_put_update(op, &u), id);
}

int
update_ask(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = {
		.rule = rule_for_change(wq), .wait_ms = -1, .cb = cb, .arg = arg, .key = key
	};
	struct coalesce_ask ask = { 0 };
	wq_update_opts_t o;
	wq_reply_t answer;
	int err = update_opts_read(opts, &o);

	if (err < 0)
		return err;
	if (!wq->opt.sole_updater)
		return update_send(wq, queue, key, delay_ms, &o, &how, id);
	if (coalesce_skips(&wq->known, now_ns(), queue, key, delay_ms, &o, &answer))
		return request_answer(wq, &answer, &how, id);
	coalesce_begin(&wq->known, now_ns(), wq->pend.next_id, queue, key, delay_ms, &o, &ask);
	how.ask = &ask;
	err = update_send(wq, queue, key, delay_ms, &o, &how, id);
	if (err < 0)
		coalesce_undo(&ask);
	return err;
}

int
wq_send_update(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_reply_cb cb, void *arg)
{
	return update_ask(wq, queue, key, delay_ms, opts, cb, arg, NULL);
}

/* ---- what else is done to one job ---- */

/* A request on a job that may change it: what a sole updater knew of it counts no more. */
static void
change_begin(wq_t *wq, const char *queue, struct sending *how, struct coalesce_ask *ask)
{
	if (wq->opt.sole_updater)
		coalesce_begin(
			&wq->known, now_ns(), wq->pend.next_id, queue, how->key, 0, NULL, ask);
	how->ask = ask;
}

static int
change_send(wq_t *wq, Wq__V1__Request *req, const char *queue, struct sending *how, uint64_t *id)
{
	struct coalesce_ask ask = { 0 };
	int err;

	change_begin(wq, queue, how, &ask);
	err = request_send(wq, req, how, id);
	if (err < 0)
		coalesce_undo(&ask);
	return err;
}

static int
change_read(const wq_change_opts_t *opts, wq_change_opts_t *out)
{
	return opts_over(out, sizeof *out, opts, offsetof(wq_change_opts_t, idempotency_id));
}

int
cancel_ask(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	const wq_change_opts_t *opts, wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = {
		.rule = rule_for_change(wq), .wait_ms = timeout_ms, .cb = cb, .arg = arg, .key = key
	};
	struct coalesce_ask ask = { 0 };
	struct hot_cancel c = { .mode = mode, .timeout_ms = -1 };
	wq_change_opts_t o = WQ_CHANGE_INIT;
	uint8_t idem[IDEM_LEN], *op;
	struct pending *p;
	int err = job_check(wq, queue, key);

	if (err == 0)
		err = change_read(opts, &o);
	if (err < 0)
		return err;
	if (mode == WQ_CANCEL_PLAIN)
		how.wait_ms = -1; /* waits for nothing */
	c.key = hot_text(key, strlen(key));
	c.queue = hot_text(queue, queue ? strlen(queue) : 0);
	c.timeout_ms = how.wait_ms;
	c.idem = hot_idem(wq, o.idempotency_id, idem);
	c.durability = o.durability;
	change_begin(wq, queue, &how, &ask);
	err = request_begin(wq, &how, hot_cancel_room(&c), &p, &op);
	if (err == 0)
		err = request_send_op(wq, p, HOT_OP_CANCEL, op, hot_put_cancel(op, &c), id);
	if (err < 0)
		coalesce_undo(&ask);
	return err;
}

int
wq_send_cancel(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	wq_reply_cb cb, void *arg)
{
	return cancel_ask(wq, queue, key, mode, timeout_ms, NULL, cb, arg, NULL);
}

int
wq_send_cancel_with(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode,
	int timeout_ms, const wq_change_opts_t *opts, wq_reply_cb cb, void *arg)
{
	return cancel_ask(wq, queue, key, mode, timeout_ms, opts, cb, arg, NULL);
}

int
flush_ask(wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_reply_cb cb,
	void *arg, uint64_t *id)
{
	/* Sent again after it has made the job ready, "now" could expedite the next instance. */
	struct sending how = { .rule = now ? RESEND_NEVER : RESEND_ALWAYS,
		.wait_ms = timeout_ms,
		.cb = cb,
		.arg = arg,
		.key = key };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Flush f = WQ__V1__FLUSH__INIT;
	int err = job_check(wq, queue, key);

	if (err < 0)
		return err;
	f.key = text(key);
	f.queue = name(queue);
	f.now = now != 0;
	if (timeout_ms >= 0) {
		f.has_timeout_ms_case = WQ__V1__FLUSH__HAS_TIMEOUT_MS_TIMEOUT_MS;
		f.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_FLUSH;
	req.flush = &f;
	return now ? change_send(wq, &req, queue, &how, id) : request_send(wq, &req, &how, id);
}

int
wq_send_flush(wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_reply_cb cb,
	void *arg)
{
	return flush_ask(wq, queue, key, now, timeout_ms, cb, arg, NULL);
}

int
flush_queue_ask(
	wq_t *wq, const char *queue, int timeout_ms, wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = { .rule = RESEND_ALWAYS, .wait_ms = timeout_ms, .cb = cb, .arg = arg };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__FlushQueue f = WQ__V1__FLUSH_QUEUE__INIT;
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	if (err < 0)
		return err;
	f.queue = name(queue);
	if (timeout_ms >= 0) {
		f.has_timeout_ms_case = WQ__V1__FLUSH_QUEUE__HAS_TIMEOUT_MS_TIMEOUT_MS;
		f.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_FLUSH_QUEUE;
	req.flush_queue = &f;
	return request_send(wq, &req, &how, id);
}

int
wq_send_flush_queue(wq_t *wq, const char *queue, int timeout_ms, wq_reply_cb cb, void *arg)
{
	return flush_queue_ask(wq, queue, timeout_ms, cb, arg, NULL);
}

int
wait_ask(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = {
		.rule = RESEND_ALWAYS, .wait_ms = timeout_ms, .cb = cb, .arg = arg, .key = key
	};
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Wait w = WQ__V1__WAIT__INIT;
	int err = job_check(wq, queue, key);

	if (err < 0)
		return err;
	w.key = text(key);
	w.queue = name(queue);
	w.generation = generation;
	if (timeout_ms >= 0) {
		w.has_timeout_ms_case = WQ__V1__WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
		w.timeout_ms = timeout_ms;
	}
	req.op_case = WQ__V1__REQUEST__OP_WAIT;
	req.wait = &w;
	return request_send(wq, &req, &how, id);
}

int
wq_send_wait(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_reply_cb cb, void *arg)
{
	return wait_ask(wq, queue, key, generation, timeout_ms, cb, arg, NULL);
}

int
job_ask(wq_t *wq, wq_job_op_t op, const char *queue, const char *key, const wq_change_opts_t *opts,
	wq_reply_cb cb, void *arg, uint64_t *id)
{
	struct sending how = {
		.rule = rule_for_change(wq), .wait_ms = -1, .cb = cb, .arg = arg, .key = key
	};
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Job j = WQ__V1__JOB__INIT;
	wq_change_opts_t o = WQ_CHANGE_INIT;
	uint8_t idem[IDEM_LEN];
	int err = job_check(wq, queue, key);

	if (err == 0)
		err = change_read(opts, &o);
	if (err < 0)
		return err;
	j.durability = (Wq__V1__Durability)o.durability;
	j.idempotency_id = o.idempotency_id ? text(o.idempotency_id) : idem_for(wq, idem);
	j.key = text(key);
	j.queue = name(queue);
	switch (op) {
	case WQ_OP_DELETE:
		req.op_case = WQ__V1__REQUEST__OP_DELETE;
		req.delete_ = &j;
		break;
	case WQ_OP_DISABLE:
		req.op_case = WQ__V1__REQUEST__OP_DISABLE;
		req.disable = &j;
		break;
	case WQ_OP_ENABLE:
		req.op_case = WQ__V1__REQUEST__OP_ENABLE;
		req.enable = &j;
		break;
	case WQ_OP_KICK:
		req.op_case = WQ__V1__REQUEST__OP_KICK;
		req.kick = &j;
		break;
	}
	return req.op_case ? change_send(wq, &req, queue, &how, id) : -EINVAL;
}

int
wq_send_job(wq_t *wq, wq_job_op_t op, const char *queue, const char *key, wq_reply_cb cb, void *arg)
{
	return job_ask(wq, op, queue, key, NULL, cb, arg, NULL);
}

int
wq_send_job_with(wq_t *wq, wq_job_op_t op, const char *queue, const char *key,
	const wq_change_opts_t *opts, wq_reply_cb cb, void *arg)
{
	return job_ask(wq, op, queue, key, opts, cb, arg, NULL);
}
