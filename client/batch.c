/*
 * Batches: updates gathered with copies of all they name, sent in one message. Answers of the
 * library itself (coalesce.h) keep their place: callbacks come in the order of the updates.
 */
#include <errno.h>
#include <string.h>

#include "handle.h"

#define BATCH_BYTES_MAX PENDING_BYTES_MAX

struct batch_item {
	Wq__V1__Update *update; /* in the scratch, as all it points at */
	wq_update_opts_t opts;  /* likewise */
	int64_t delay_ms;
	const char *queue, *key; /* likewise; may be NULL */
	bool local;
	wq_reply_t answer; /* `local` */
	struct coalesce_ask ask;
};

struct wq_batch {
	wq_t *wq;
	struct scratch scratch;
	struct batch_item *items; /* owned */
	size_t n, cap;
	size_t sent; /* not local */
	wq_reply_cb cb;
	void *arg;
};

int
wq_batch_new(wq_t *wq, wq_batch_t **out)
{
	wq_batch_t *b = mem_zalloc(sizeof *b);

	if (!b)
		return -ENOMEM;
	b->wq = wq;
	scratch_init(&b->scratch, BATCH_BYTES_MAX);
	*out = b;
	return 0;
}

void
wq_batch_free(wq_batch_t *b)
{
	if (!b)
		return;
	scratch_done(&b->scratch);
	mem_free(b->items);
	mem_free(b);
}

size_t
batch_sent(const struct wq_batch *b)
{
	return b->sent;
}

/* A copy in the scratch; true for NULL too. */
static bool
keep_text(struct scratch *s, const char **text)
{
	if (*text)
		*text = scratch_text(s, *text, strlen(*text));
	else
		return true;
	return *text != NULL;
}

static bool
keep_all(struct scratch *s, struct batch_item *it)
{
	wq_update_opts_t *o = &it->opts;

	if (!keep_text(s, &it->queue) || !keep_text(s, &it->key) ||
		!keep_text(s, &o->idempotency_id))
		return false;
	if (o->payload_len > 0)
		o->payload = scratch_text(s, o->payload, o->payload_len);
	return o->payload_len == 0 || o->payload;
}

static int
items_grow(wq_batch_t *b)
{
	size_t cap = b->cap ? b->cap * 2 : 16;
	struct batch_item *items;

	if (b->n >= BATCH_MAX)
		return WQ_ERR_TOO_MANY;
	if (b->n < b->cap)
		return 0;
	items = mem_grow(b->items, cap, sizeof *items);
	if (!items)
		return -ENOMEM;
	b->items = items;
	b->cap = cap;
	return 0;
}

int
wq_batch_update(wq_batch_t *b, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts)
{
	struct batch_item it = { .queue = queue, .key = key, .delay_ms = delay_ms };
	uint8_t *idem;
	int err = update_opts_read(opts, &it.opts);

	if (err == 0)
		err = items_grow(b);
	if (err < 0)
		return err;
	it.update = scratch_alloc(&b->scratch, sizeof *it.update);
	idem = scratch_alloc(&b->scratch, IDEM_LEN);
	if (!it.update || !idem || !keep_all(&b->scratch, &it))
		return b->scratch.no_memory ? -ENOMEM : WQ_ERR_TOO_LARGE;
	err = update_fill(b->wq, it.update, it.queue, it.key, delay_ms, &it.opts, idem);
	if (err < 0)
		return err;
	b->items[b->n++] = it;
	return 0;
}

/* Which updates the library answers itself. */
static void
coalesce_items(wq_batch_t *b, uint64_t id)
{
	struct coalesce_table *known = &b->wq->known;
	int64_t now = now_ns();

	for (size_t i = 0; i < b->n; i++) {
		struct batch_item *it = &b->items[i];

		it->local = coalesce_skips(
			known, now, it->queue, it->key, it->delay_ms, &it->opts, &it->answer);
		if (!it->local)
			coalesce_begin(known, now, id, it->queue, it->key, it->delay_ms, &it->opts,
				&it->ask);
		b->sent -= it->local;
	}
}

/* The reply to update `i`: `r` its result on the wire, or NULL and `error`. */
static void
deliver_item(wq_t *wq, struct pending *p, struct batch_item *it, int error, const Wq__V1__Result *r)
{
	wq_reply_t reply;

	if (it->local) {
		reply = it->answer;
		reply.key = it->key;
	} else if (!r) {
		reply = reply_of_error(error, it->key);
	} else if (!reply_from_result(&wq->in.scratch, r, it->key, &reply)) {
		reply = reply_of_error(-ENOMEM, it->key);
	}
	reply_teach(wq, p, &it->ask, r && reply.result == 0 ? &reply : NULL);
	if (r && reply.result < 0)
		message_set(wq, reply.message);
	if (p->batch->cb)
		p->batch->cb(wq, &reply, p->batch->arg);
}

static void
batch_deliver(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	wq_batch_t *b = p->batch;
	size_t next = 0;

	/* Refused as a whole: every update gets that. */
	if (r && reply_result(r->status) < 0) {
		error = reply_result(r->status);
		message_set(wq, r->message);
		r = NULL;
	}
	for (size_t i = 0; i < b->n; i++) {
		struct batch_item *it = &b->items[i];

		deliver_item(wq, p, it, error, r && !it->local ? r->results[next++] : NULL);
	}
}

static int
batch_encode(wq_batch_t *b, const struct sending *how)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__UpdateBatch ub = WQ__V1__UPDATE_BATCH__INIT;
	int err;

	ub.updates = mem_grow(NULL, b->sent, sizeof(Wq__V1__Update *));
	if (!ub.updates)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		if (!b->items[i].local)
			ub.updates[ub.n_updates++] = b->items[i].update;
	req.op_case = WQ__V1__REQUEST__OP_UPDATE_BATCH;
	req.update_batch = &ub;
	err = request_send(b->wq, &req, how, NULL);
	mem_free(ub.updates);
	return err;
}

int
wq_batch_send(wq_batch_t *b, wq_reply_cb cb, void *arg)
{
	static const wq_reply_t nothing; /* each item has its own answer */
	wq_t *wq = b->wq;
	struct sending how = { .rule = wq->opt.resend ? RESEND_WITH_ID : RESEND_NEVER,
		.wait_ms = -1,
		.done = batch_deliver,
		.batch = b };
	int err = 0;

	b->cb = cb;
	b->arg = arg;
	b->sent = b->n;
	if (wq->opt.sole_updater)
		coalesce_items(b, wq->pend.next_id);
	if (b->sent > 0)
		err = batch_encode(b, &how);
	else if (b->n > 0)
		err = request_answer(wq, &nothing, &how, NULL);
	if (err < 0)
		for (size_t i = 0; i < b->n; i++)
			coalesce_undo(&b->items[i].ask);
	if (err < 0 || b->n == 0)
		wq_batch_free(b);
	return err;
}
