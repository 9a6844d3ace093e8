/*
 * Work: a job that came by the subscription, until its last word has been sent.
 */
#include <errno.h>
#include <string.h>

#include "handle.h"
#include "worker.h"

static void
work_link(wq_worker_t *w, struct wq_work *k)
{
	k->prev = w->tail;
	*(w->tail ? &w->tail->next : &w->head) = k;
	w->tail = k;
	w->n_work++;
}

void
work_free(struct wq_work *k)
{
	wq_worker_t *w = k->w;

	if (k->touch_id)
		request_abandon(w->wq, k->touch_id);
	*(k->prev ? &k->prev->next : &w->head) = k->next;
	*(k->next ? &k->next->prev : &w->tail) = k->prev;
	w->n_work--;
	k->magic = 0;
	mem_free(k);
}

void
work_lose(struct wq_work *k)
{
	wq_worker_t *w = k->w;

	k->touch_ns = NEVER_NS;
	if (k->info.lost)
		return;
	k->info.lost = 1;
	if (w->opts.lost)
		w->opts.lost(w, k, w->opts.arg);
}

struct wq_work *
work_by_token(const wq_worker_t *w, uint64_t token)
{
	for (struct wq_work *k = w->head; k; k = k->next)
		if (k->info.token == token && !k->stale)
			return k;
	return NULL;
}

static int64_t
touch_after(const wq_worker_t *w, int64_t now, int64_t lease_ms)
{
	return w->opts.manual_touch ? NEVER_NS : later_ns(now, lease_ms > 3 ? lease_ms / 3 : 1);
}

static size_t
payload_total(const Wq__V1__Leased *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_payload; i++)
		n += l->payload[i].len;
	return n;
}

/* One block: the work, lengths of parts, the payload, names. */
static struct wq_work *
work_new(wq_worker_t *w, const Wq__V1__Leased *l)
{
	size_t n = payload_total(l), n_queue = strlen(l->queue) + 1, at = 0;
	struct wq_work *k = mem_zalloc(
		sizeof *k + l->n_payload * sizeof(size_t) + n + n_queue + l->key.len + 1);
	size_t *parts;
	char *p, *names;

	if (!k)
		return NULL;
	parts = (size_t *)(k + 1);
	p = (char *)(parts + l->n_payload);
	names = p + n;
	for (size_t i = 0; i < l->n_payload; i++) {
		parts[i] = l->payload[i].len;
		if (parts[i])
			memcpy(p + at, l->payload[i].data, parts[i]);
		at += parts[i];
	}
	memcpy(names, l->queue, n_queue);
	if (l->key.len)
		memcpy(names + n_queue, l->key.data, l->key.len);
	k->magic = WORK_MAGIC;
	k->w = w;
	k->info = (wq_work_info_t){
		.size = sizeof k->info,
		.queue = names,
		.key = names + n_queue,
		.generation = l->generation,
		.attempt = l->attempt,
		.coalesced = l->coalesced,
		.payload = p,
		.payload_len = n,
		.parts = parts,
		.n_parts = l->n_payload,
		.due_ms = l->due_ms,
		.lease_ms = l->lease_ms,
		.token = l->token,
		.run_token = l->run_token,
	};
	return k;
}

void
work_came(wq_worker_t *w, const Wq__V1__Leased *l)
{
	struct wq_work *k = work_new(w, l);

	/* Without memory its lease runs out. */
	if (!k)
		return;
	k->touch_ns = touch_after(w, now_ns(), l->lease_ms);
	work_link(w, k);
	if (w->opts.work)
		w->opts.work(w, k, w->opts.arg);
	else
		k->waiting = true;
}

const wq_work_info_t *
wq_work_get(const wq_work_t *work)
{
	MUST(work->magic == WORK_MAGIC);
	return &work->info;
}

/* ---- requests about work ---- */

static int
lease_send(struct wq_work *k, int op, Wq__V1__Lease *l, struct sending *how, uint64_t *id)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;

	l->queue = (char *)(uintptr_t)k->info.queue;
	l->key.data = (uint8_t *)(uintptr_t)k->info.key;
	l->key.len = strlen(k->info.key);
	l->token = k->info.token;
	req.op_case = (Wq__V1__Request__OpCase)op;
	req.finish = l;
	how->wait_ms = -1;
	how->key = k->info.key;
	return request_send(k->w->wq, &req, how, id);
}

static void
touch_done(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	wq_worker_t *w = p->arg;

	(void)wq;
	(void)error;
	for (struct wq_work *k = w->head; k; k = k->next) {
		if (k->touch_id != p->id)
			continue;
		k->touch_id = 0;
		if (r && reply_result(r->status) == -WQ_LEASE_LOST)
			work_lose(k);
		return;
	}
}

int
wq_work_touch(wq_work_t *k, int64_t lease_ms)
{
	struct sending how = { .rule = RESEND_NEVER, .done = touch_done, .arg = k->w };
	Wq__V1__Lease l = WQ__V1__LEASE__INIT;
	int64_t now = now_ns();
	int err;

	MUST(k->magic == WORK_MAGIC);
	if (k->info.lost)
		return -WQ_LEASE_LOST;
	if (lease_ms > 0) {
		l.has_lease_ms_case = WQ__V1__LEASE__HAS_LEASE_MS_LEASE_MS;
		l.lease_ms = lease_ms;
	}
	if (k->touch_id)
		request_abandon(k->w->wq, k->touch_id);
	k->touch_id = 0;
	err = lease_send(k, WQ__V1__REQUEST__OP_TOUCH, &l, &how, &k->touch_id);
	k->touch_ns = touch_after(k->w, now, lease_ms > 0 ? lease_ms : k->info.lease_ms);
	return err;
}

static int
end_read(const wq_end_t *end, wq_end_t *out)
{
	*out = (wq_end_t)WQ_END_INIT;
	return opts_over(out, sizeof *out, end, offsetof(wq_end_t, output));
}

static void
end_fill(Wq__V1__Lease *l, const wq_end_t *e)
{
	if (e->exit_code >= 0) {
		l->has_exit_code_case = WQ__V1__LEASE__HAS_EXIT_CODE_EXIT_CODE;
		l->exit_code = e->exit_code;
	}
	if (e->retry_after_ms >= 0) {
		l->has_retry_after_ms_case = WQ__V1__LEASE__HAS_RETRY_AFTER_MS_RETRY_AFTER_MS;
		l->retry_after_ms = e->retry_after_ms;
	}
	l->signal = e->signal;
	l->output.data = (uint8_t *)(uintptr_t)e->output;
	l->output.len = e->output_len;
	l->truncated = e->truncated != 0;
	l->durability = (Wq__V1__Durability)e->durability;
}

/* Sends the last word, and the work is gone; on an error it stays. */
static int
work_end(struct wq_work *k, int op, const wq_end_t *end, wq_reply_cb cb, void *arg)
{
	wq_t *wq = k->w->wq;
	struct sending how = { .rule = rule_for_change(wq), .cb = cb, .arg = arg };
	Wq__V1__Lease l = WQ__V1__LEASE__INIT;
	wq_reply_t lost = reply_of_error(-WQ_LEASE_LOST, k->info.key);
	uint8_t idem[IDEM_LEN];
	wq_end_t e;
	int err = end_read(end, &e);

	MUST(k->magic == WORK_MAGIC);
	if (err < 0)
		return err;
	how.wait_ms = -1;
	how.key = k->info.key;
	if (k->stale) {
		err = cb ? request_answer(wq, &lost, &how, NULL) : 0;
	} else {
		end_fill(&l, &e);
		l.idempotency_id = idem_for(wq, idem);
		err = lease_send(k, op, &l, &how, NULL);
	}
	if (err == 0)
		work_free(k);
	return err;
}

int
wq_work_finish(wq_work_t *k, const wq_end_t *end, wq_reply_cb cb, void *arg)
{
	return work_end(k, WQ__V1__REQUEST__OP_FINISH, end, cb, arg);
}

int
wq_work_fail(wq_work_t *k, const wq_end_t *end, wq_reply_cb cb, void *arg)
{
	return work_end(k, WQ__V1__REQUEST__OP_FAIL, end, cb, arg);
}

int
wq_work_release(wq_work_t *k, wq_reply_cb cb, void *arg)
{
	return work_end(k, WQ__V1__REQUEST__OP_RELEASE, NULL, cb, arg);
}
