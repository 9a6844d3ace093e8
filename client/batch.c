/*
 * Batches: updates gathered as they will be sent, one behind the other, and sent in one message.
 * Beside that each has its key, for its reply, and what the library has to know to answer it itself
 * (coalesce.h). Such answers keep their place: callbacks come in the order of the updates.
 */
#include <errno.h>
#include <string.h>

#include "handle.h"

#define BATCH_BYTES_MAX PENDING_BYTES_MAX

struct batch_item {
	size_t to;       /* its end in `bytes`, where the next begins */
	const char *key; /* in the scratch; NULL: none */
};

/* What coalescing asks of an update. */
struct batch_known {
	wq_update_opts_t opts; /* without texts */
	int64_t delay_ms;
	const char *queue; /* in the scratch; may be NULL */
	bool local;
	wq_reply_t answer; /* `local` */
	struct coalesce_ask ask;
};

struct wq_batch {
	wq_t *wq;
	struct scratch scratch;
	uint8_t *bytes; /* owned: the updates, encoded */
	size_t len, bytes_cap;
	struct batch_item *items; /* owned */
	size_t n, cap;
	struct batch_known *known; /* owned; n of them, or NULL: not a sole updater's */
	const char *queue;         /* of the last update, in the scratch; NULL: none yet */
	size_t sent;               /* not local */
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
	mem_free(b->bytes);
	mem_free(b->items);
	mem_free(b->known);
	mem_free(b);
}

size_t
batch_sent(const struct wq_batch *b)
{
	return b->sent;
}

static bool
is_local(const wq_batch_t *b, size_t i)
{
	return b->known && b->known[i].local;
}

/* ---- gathering ---- */

static int
no_room(const wq_batch_t *b)
{
	return b->scratch.no_memory ? -ENOMEM : WQ_ERR_TOO_LARGE;
}

static int
items_grow(wq_batch_t *b)
{
	size_t cap = b->cap ? b->cap * 2 : 16;
	struct batch_item *items;
	struct batch_known *known;

	if (b->n >= BATCH_MAX)
		return WQ_ERR_TOO_MANY;
	if (b->n < b->cap)
		return 0;
	items = mem_grow(b->items, cap, sizeof *items);
	if (!items)
		return -ENOMEM;
	b->items = items;
	if (b->known || (b->n == 0 && b->wq->opt.sole_updater)) {
		known = mem_grow(b->known, cap, sizeof *known);
		if (!known)
			return -ENOMEM;
		b->known = known;
	}
	b->cap = cap;
	return 0;
}

/* Room for `n` more bytes. */
static int
bytes_grow(wq_batch_t *b, size_t n)
{
	size_t cap = b->bytes_cap ? b->bytes_cap : 1024;
	uint8_t *p;

	if (n > BATCH_BYTES_MAX - b->len)
		return WQ_ERR_TOO_LARGE;
	if (n <= b->bytes_cap - b->len)
		return 0;
	while (cap < b->len + n)
		cap *= 2;
	p = mem_grow(b->bytes, cap, 1);
	if (!p)
		return -ENOMEM;
	b->bytes = p;
	b->bytes_cap = cap;
	return 0;
}

/* Updates of a batch mostly name one queue: it is kept once in a row. */
static bool
keep_queue(wq_batch_t *b, const char *queue, const char **out)
{
	*out = NULL;
	if (!queue)
		return true;
	if (!b->queue || strcmp(b->queue, queue) != 0)
		b->queue = scratch_text(&b->scratch, queue, strlen(queue));
	*out = b->queue;
	return b->queue != NULL;
}

static bool
keep_known(wq_batch_t *b, const char *queue, int64_t delay_ms, const wq_update_opts_t *o)
{
	struct batch_known *k;

	if (!b->known)
		return true;
	k = &b->known[b->n];
	*k = (struct batch_known){ .opts = *o, .delay_ms = delay_ms };
	k->opts.payload = NULL;
	k->opts.command = NULL; /* likewise n_command */
	if (k->opts.idempotency_id)
		k->opts.idempotency_id = ""; /* that there is one is all that counts */
	return keep_queue(b, queue, &k->queue);
}

int
wq_batch_update(wq_batch_t *b, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts)
{
	struct batch_item it = { 0 };
	uint8_t idem[IDEM_LEN];
	wq_update_opts_t o;
	struct hot_update u;
	int err = update_opts_read(opts, &o);

	if (err == 0)
		err = items_grow(b);
	if (err == 0)
		err = update_fill(b->wq, &u, queue, key, delay_ms, &o, idem);
	if (err == 0)
		err = bytes_grow(b, hot_item_room(&u));
	if (err < 0)
		return err;
	if (key)
		it.key = scratch_text(&b->scratch, key, u.key.n);
	if ((key && !it.key) || !keep_known(b, queue, delay_ms, &o))
		return no_room(b);
	b->len += hot_put_item(b->bytes + b->len, &u);
	it.to = b->len;
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
		struct batch_known *k = &b->known[i];
		const char *key = b->items[i].key;

		k->local = coalesce_skips(
			known, now, k->queue, key, k->delay_ms, &k->opts, &k->answer);
		if (!k->local)
			coalesce_begin(
				known, now, id, k->queue, key, k->delay_ms, &k->opts, &k->ask);
		b->sent -= k->local;
	}
}

/* ---- answers ---- */

/* The reply to update `i` (NULL: `error`). */
static void
deliver_item(wq_t *wq, struct pending *p, size_t i, wq_reply_t *reply, int error)
{
	wq_batch_t *b = p->batch;
	const char *key = b->items[i].key;
	wq_reply_t own;

	if (is_local(b, i)) {
		own = b->known[i].answer;
		own.key = key;
	} else if (!reply) {
		own = reply_of_error(error, key);
	}
	if (b->known)
		reply_teach(wq, p, &b->known[i].ask, reply && reply->result == 0 ? reply : NULL);
	if (reply && reply->result < 0)
		message_set(wq, reply->message);
	if (b->cb)
		b->cb(wq, reply ? reply : &own, b->arg);
}

static void
deliver_result(wq_t *wq, struct pending *p, size_t i, const Wq__V1__Result *r)
{
	wq_reply_t reply;

	if (reply_from_result(&wq->in.scratch, r, p->batch->items[i].key, &reply))
		deliver_item(wq, p, i, &reply, 0);
	else
		deliver_item(wq, p, i, NULL, -ENOMEM);
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
	for (size_t i = 0; i < b->n; i++)
		if (r && !is_local(b, i))
			deliver_result(wq, p, i, r->results[next++]);
		else
			deliver_item(wq, p, i, NULL, error);
}

bool
batch_hot(wq_t *wq, struct pending *p, const struct hot_reply *r)
{
	wq_batch_t *b = p->batch;
	struct hot_reply *v;
	wq_reply_t reply;
	size_t next = 0;

	if (p->abandoned || r->n_results != b->sent)
		return false;
	scratch_reset(&wq->in.scratch);
	v = scratch_alloc(&wq->in.scratch, r->n_results * sizeof *v);
	if (!v || !hot_get_results(r, v))
		return false;
	pending_remove(&wq->pend, p);
	for (size_t i = 0; i < b->n; i++) {
		if (is_local(b, i)) {
			deliver_item(wq, p, i, NULL, 0);
			continue;
		}
		reply_from_hot(&v[next], b->items[i].key, &reply);
		reply.pending_before = result_was_pending(v[next++].status);
		deliver_item(wq, p, i, &reply, 0);
	}
	pending_free(wq, p);
	return true;
}

/* ---- sending ---- */

/* The updates that are sent, one behind the other. */
static size_t
put_items(const wq_batch_t *b, uint8_t *dst)
{
	size_t n = 0, from = 0;

	if (b->sent == b->n) {
		memcpy(dst, b->bytes, b->len);
		return b->len;
	}
	for (size_t i = 0; i < b->n; from = b->items[i++].to) {
		size_t len = b->items[i].to - from;

		if (is_local(b, i))
			continue;
		memcpy(dst + n, b->bytes + from, len);
		n += len;
	}
	return n;
}

static int
batch_encode(wq_batch_t *b, const struct sending *how)
{
	struct pending *p;
	uint8_t *op;
	int err = request_begin(b->wq, how, b->len, &p, &op);

	if (err < 0)
		return err;
	return request_send_op(b->wq, p, HOT_OP_UPDATE_BATCH, op, put_items(b, op), NULL);
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
	if (b->known)
		coalesce_items(b, wq->pend.next_id);
	if (b->sent > 0)
		err = batch_encode(b, &how);
	else if (b->n > 0)
		err = request_answer(wq, &nothing, &how, NULL);
	if (err < 0 && b->known)
		for (size_t i = 0; i < b->n; i++)
			coalesce_undo(&b->known[i].ask);
	if (err < 0 || b->n == 0)
		wq_batch_free(b);
	return err;
}
