/*
 * Requests out: encoded once, into the block of their pending entry, and sent from there, small ones
 * together. What is kept is limited in number ("max_in_flight") and bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handle.h"

#define STAGING 65536u /* bytes sent at once, of several requests */

/* The length before a message, as a varint; returns its bytes, at most 5. */
static size_t
put_len(uint8_t *dst, size_t len)
{
	size_t n = 0;

	for (; len >= 0x80; len >>= 7)
		dst[n++] = (uint8_t)(len | 0x80);
	dst[n++] = (uint8_t)len;
	return n;
}

static size_t
len_of_len(size_t len)
{
	uint8_t tmp[10];

	return put_len(tmp, len);
}

/* The first line of the token's file. 0 or -errno. */
static int
token_read(wq_t *wq, uint8_t token[TOKEN_MAX], size_t *n)
{
	const char *path = wq->opt.token_file;
	char text[MESSAGE_MAX];
	int fd, err = 0;
	ssize_t got;
	uint8_t *nl;

	*n = 0;
	if (!*path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	got = fd < 0 ? -1 : read(fd, token, TOKEN_MAX);
	if (got < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (err < 0) {
		snprintf(text, sizeof text, "%.300s: %s", path, wq_strerror(err));
		message_set(wq, text);
		return system_error(-err);
	}
	nl = memchr(token, '\n', (size_t)got);
	*n = nl ? (size_t)(nl - token) : (size_t)got;
	return 0;
}

int
hello_encode(wq_t *wq)
{
	struct link *l = &wq->link;
	uint8_t token[TOKEN_MAX];
	int err;
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Hello hello = WQ__V1__HELLO__INIT;
	size_t len, n;

	l->hello_id = wq->pend.next_id++;
	req.id = l->hello_id;
	req.op_case = WQ__V1__REQUEST__OP_HELLO;
	req.hello = &hello;
	hello.version = 1;
	hello.client = wq->opt.client;
	hello.namespace_ = wq->opt.space;
	err = token_read(wq, token, &hello.token.len);
	if (err < 0)
		return err;
	hello.token.data = token;
	len = wq__v1__request__get_packed_size(&req);
	MUST(len + len_of_len(len) <= sizeof l->hello);
	n = put_len(l->hello, len);
	l->hello_len = n + wq__v1__request__pack(&req, l->hello + n);
	l->hello_off = 0;
	explicit_bzero(token, sizeof token);
	return 0;
}

static int
may_send(wq_t *wq, size_t msg_len)
{
	const struct pending_table *t = &wq->pend;
	size_t max = wq->link.frame_max ? wq->link.frame_max : REQUEST_MAX;

	if (wq->freeing)
		return WQ_ERR_CLOSED;
	if (t->count + t->local >= (size_t)wq->opt.max_in_flight)
		return WQ_ERR_TOO_MANY;
	if (msg_len > max)
		return WQ_ERR_TOO_LARGE;
	if (msg_len > PENDING_BYTES_MAX - t->bytes)
		return WQ_ERR_TOO_MANY;
	return 0;
}

/*
 * One block: the entry, then `extra` bytes at *tail (aligned for anything), then the key. Those of
 * usual size are kept and used again.
 */
static struct pending *
pending_new(wq_t *wq, const struct sending *how, size_t extra, void **tail)
{
	size_t key_len = how->key ? strlen(how->key) + 1 : 0;
	struct pending *p;
	char *key;

	_Static_assert(sizeof(struct pending) % _Alignof(wq_reply_t) == 0, "tail not aligned");
	p = pending_block(&wq->pend, sizeof *p + extra + key_len);
	if (!p)
		return NULL;
	*tail = p + 1;
	key = (char *)(p + 1) + extra;
	if (key_len)
		memcpy(key, how->key, key_len);
	*p = (struct pending){
		.small = p->small,
		.id = wq->pend.next_id++,
		.done = how->done ? how->done : reply_deliver,
		.more = how->more,
		.progress = how->progress,
		.event = how->event,
		.cb = how->cb,
		.arg = how->arg,
		.batch = how->batch,
		.rule = how->rule,
		.wait_until_ns = how->wait_ms < 0 ? NEVER_NS : later_ns(now_ns(), how->wait_ms),
		.key = key_len ? key : NULL,
	};
	if (how->ask)
		p->ask = *how->ask;
	return p;
}

static void
queue_up(wq_t *wq, struct pending *p, uint64_t *id)
{
	if (id)
		*id = p->id;
	wq->started = true;
	pending_add(&wq->pend, p);
	link_want(wq);
	hooks_changed(wq);
}

int
request_begin(wq_t *wq, const struct sending *how, size_t room, struct pending **p, uint8_t **op)
{
	void *tail;
	int err = may_send(wq, 0);

	if (err == 0 && room > REQUEST_MAX + MESSAGE_MAX)
		err = WQ_ERR_TOO_LARGE;
	if (err < 0)
		return err;
	*p = pending_new(wq, how, HOT_HEAD_MAX + room, &tail);
	if (!*p)
		return -ENOMEM;
	*op = (uint8_t *)tail + HOT_HEAD_MAX;
	return 0;
}

int
request_send_op(
	wq_t *wq, struct pending *p, unsigned field, uint8_t *op, size_t op_len, uint64_t *id)
{
	uint8_t *frame = hot_put_head(op, field, op_len, p->id, wq->opt.run_token, &p->msg_len);
	int err = may_send(wq, p->msg_len);

	if (err < 0) {
		p->batch = NULL; /* not taken */
		pending_free(wq, p);
		return err;
	}
	p->frame = frame;
	p->frame_len = (size_t)(op + op_len - frame);
	queue_up(wq, p, id);
	return 0;
}

int
request_send(wq_t *wq, Wq__V1__Request *req, const struct sending *how, uint64_t *id)
{
	size_t msg_len, frame_len, n;
	struct pending *p;
	void *tail;
	int err;

	req->id = wq->pend.next_id;
	req->run_token = wq->opt.run_token;
	msg_len = wq__v1__request__get_packed_size(req);
	err = may_send(wq, msg_len);
	if (err < 0)
		return err;
	frame_len = msg_len + len_of_len(msg_len);
	p = pending_new(wq, how, frame_len, &tail);
	if (!p)
		return -ENOMEM;
	MUST(p->id == req->id);
	n = put_len(tail, msg_len);
	MUST(wq__v1__request__pack(req, (uint8_t *)tail + n) == msg_len);
	p->frame = tail;
	p->frame_len = frame_len;
	p->msg_len = msg_len;
	queue_up(wq, p, id);
	return 0;
}

int
request_answer(wq_t *wq, const wq_reply_t *answer, const struct sending *how, uint64_t *id)
{
	int err = may_send(wq, 0);
	wq_reply_t *copy;
	struct pending *p;
	void *tail;

	if (err < 0)
		return err;
	p = pending_new(wq, how, sizeof *copy, &tail);
	if (!p)
		return -ENOMEM;
	copy = tail;
	*copy = *answer;
	copy->key = p->key;
	p->local = copy;
	if (id)
		*id = p->id;
	pending_add_local(&wq->pend, p);
	hooks_changed(wq);
	return 0;
}

void
pending_free(wq_t *wq, struct pending *p)
{
	if (p->batch)
		wq_batch_free(p->batch);
	pending_give_block(&wq->pend, p);
}

void
request_abandon(wq_t *wq, uint64_t id)
{
	struct pending *p = pending_find(&wq->pend, id);

	if (!p)
		return;
	p->done = NULL;
	if (!pending_abandon(&wq->pend, p))
		return;
	reply_teach(wq, p, &p->ask, NULL);
	pending_free(wq, p);
}

void
requests_fail(wq_t *wq, struct pending *chain, int error)
{
	for (struct pending *p = chain, *next; p; p = next) {
		next = p->next;
		if (!p->abandoned)
			p->done(wq, p, error, NULL);
		else
			reply_teach(wq, p, &p->ask, NULL);
		pending_free(wq, p);
	}
}

void
requests_expire(wq_t *wq, int64_t now)
{
	struct pending_table *t = &wq->pend;
	struct pending *p = NULL, *prev;

	while ((prev = p, p = pending_expired(t, prev, now, wq->link.state == LINK_UP)) != NULL) {
		bool gone = pending_abandon(t, p);

		p->done(wq, p, -WQ_TIMEOUT, NULL);
		if (!gone)
			continue;
		pending_free(wq, p);
		p = NULL; /* it was the one to go on from */
	}
}

/*
 * The bytes that are next. Requests are small, and a system call looks at each piece of a vector:
 * copied together, up to `most`, they leave faster. One alone, or one that is larger, leaves from
 * where it is.
 */
static const uint8_t *
gather(wq_t *wq, size_t most, size_t *n)
{
	struct link *l = &wq->link;
	const struct pending *p = wq->pend.unsent;
	size_t off = l->out_off;

	if (!l->staging && p->next)
		l->staging = mem_alloc(STAGING);
	*n = p->frame_len - off;
	if (!p->next || !l->staging || *n + p->next->frame_len > most)
		return p->frame + off;
	*n = 0;
	for (; p && p->frame_len - off <= most - *n; p = p->next) {
		memcpy(l->staging + *n, p->frame + off, p->frame_len - off);
		*n += p->frame_len - off;
		off = 0;
	}
	return l->staging;
}

/* `n` more bytes have left. */
static void
advance(wq_t *wq, size_t n, int64_t now)
{
	struct pending_table *t = &wq->pend;

	n += wq->link.out_off;
	while (n > 0) {
		struct pending *p = t->unsent;

		if (!p->sent)
			p->sent_ns = now;
		p->sent = p->out = true;
		if (n < p->frame_len)
			break;
		n -= p->frame_len;
		t->unsent = p->next;
	}
	wq->link.out_off = n;
}

/* Requests become text of one record, however small each is, while the last record has left. */
static int
send_secure(wq_t *wq, int64_t now)
{
	struct link *l = &wq->link;
	const uint8_t *text;
	size_t n;
	int err;

	for (;;) {
		err = tls_flush(l->tls, l->fd);
		if (err < 0 || tls_unsent(l->tls) > 0 || !wq->pend.unsent)
			return err < 0 ? system_error(-err) : 0;
		text = gather(wq, TLS_PUT_MAX, &n);
		n = n < TLS_PUT_MAX ? n : TLS_PUT_MAX;
		err = tls_put(l->tls, text, n);
		if (err < 0)
			return err;
		advance(wq, n, now);
	}
}

int
send_turn(wq_t *wq, int64_t now)
{
	if (wq->link.tls)
		return send_secure(wq, now);
	while (wq->pend.unsent) {
		size_t len;
		const uint8_t *p = gather(wq, STAGING, &len);
		ssize_t n = send(wq->link.fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : system_error(errno);
		advance(wq, (size_t)n, now);
	}
	return 0;
}
