/*
 * Replies in: bytes to frames, frames to replies, replies to the requests they answer. Nothing
 * the peer announces is believed: memory grows with the bytes that have come, a frame has a
 * largest size, and so has what it decodes into. What makes no sense is WQ_ERR_PROTOCOL, and
 * the connection goes.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "handle.h"

#define READ_MIN  16384u
#define READ_KEEP 262144u /* an emptied buffer larger than this is given back */
#define TURNS     16      /* reads in one turn; the rest comes in the next */

int
inbox_init(struct inbox *in)
{
	*in = (struct inbox){ 0 };
	scratch_init(&in->scratch, SCRATCH_MAX);
	in->data = mem_alloc(READ_MIN);
	in->cap = READ_MIN;
	return in->data ? 0 : -ENOMEM;
}

void
inbox_done(struct inbox *in)
{
	scratch_done(&in->scratch);
	mem_free(in->data);
	in->data = NULL;
}

void
inbox_reset(struct inbox *in)
{
	in->start = in->end = 0;
}

/*
 * The length of the frame at the front. >0: bytes of the length itself, *len is the
 * message's. 0: not all there yet. WQ_ERR_PROTOCOL.
 */
static int
frame_len(const struct inbox *in, size_t *len)
{
	const uint8_t *p = in->data + in->start;
	size_t have = in->end - in->start;
	uint64_t v = 0;

	for (int i = 0; i < 5; i++) {
		if ((size_t)i >= have)
			return 0;
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (p[i] & 0x80)
			continue;
		if (v > REPLY_MAX)
			return WQ_ERR_PROTOCOL;
		*len = (size_t)v;
		return i + 1;
	}
	return WQ_ERR_PROTOCOL;
}

static void *
pb_alloc(void *ctx, size_t n)
{
	return scratch_alloc(ctx, n);
}

static void
pb_free(void *ctx, void *p)
{
	(void)ctx;
	(void)p; /* goes with the whole scratch */
}

/* A complaint about the connection itself, or a reply before the hello's. */
static int
dispatch_special(wq_t *wq, int64_t now, const Wq__V1__Reply *r)
{
	int result = reply_result(r->status);

	if (r->id == 0 && result < 0) {
		message_set(wq, r->message);
		return result;
	}
	if (wq->link.state == LINK_HELLO && r->id == wq->link.hello_id)
		return link_greeted(wq, now, r);
	return WQ_ERR_PROTOCOL;
}

static int
dispatch(wq_t *wq, int64_t now, const Wq__V1__Reply *r)
{
	struct pending *p;

	if (wq->link.state != LINK_UP || r->id == 0)
		return dispatch_special(wq, now, r);
	p = pending_find(&wq->pend, r->id);
	if (!p || !p->out || p == wq->pend.unsent || !reply_plausible(p, r))
		return WQ_ERR_PROTOCOL;
	if (r->more) {
		if (p->more && !p->abandoned)
			p->more(wq, p, r);
		return p->more ? 0 : WQ_ERR_PROTOCOL;
	}
	pending_remove(&wq->pend, p);
	if (p->abandoned)
		reply_teach(wq, p, &p->ask, NULL);
	else
		p->done(wq, p, 0, r);
	pending_free(wq, p);
	return 0;
}

static int
handle_message(wq_t *wq, int64_t now, const uint8_t *msg, size_t len)
{
	struct scratch *s = &wq->in.scratch;
	ProtobufCAllocator alloc = { pb_alloc, pb_free, s };
	Wq__V1__Reply *r;
	int err;

	if (wq->link.state == LINK_UP && reply_hot(wq, msg, len))
		return 0;
	scratch_reset(s);
	r = wq__v1__reply__unpack(&alloc, len, msg);
	if (r)
		err = dispatch(wq, now, r);
	else
		err = s->no_memory ? -ENOMEM : WQ_ERR_PROTOCOL;
	scratch_reset(s);
	return err;
}

/* All whole frames that are there. */
static int
handle_frames(wq_t *wq, int64_t now)
{
	struct inbox *in = &wq->in;

	for (;;) {
		size_t len;
		int n = frame_len(in, &len), err;

		if (n < 0)
			return n;
		if (n == 0 || in->end - in->start < (size_t)n + len)
			return 0;
		in->start += (size_t)n + len;
		err = handle_message(wq, now, in->data + in->start - len, len);
		if (err < 0)
			return err;
	}
}

/* Room for more bytes: moves what is left to the front, grows when that is not enough. */
static int
make_room(struct inbox *in)
{
	size_t have = in->end - in->start, cap = in->cap;
	uint8_t *p;

	if (have && in->start)
		memmove(in->data, in->data + in->start, have);
	in->start = 0;
	in->end = have;
	if (have == 0 && cap > READ_KEEP)
		cap = READ_MIN;
	else if (cap - have < READ_MIN / 2)
		cap *= 2;
	if (cap == in->cap)
		return 0;
	p = mem_grow(in->data, cap, 1);
	if (!p)
		return -ENOMEM;
	in->data = p;
	in->cap = cap;
	return 0;
}

static ssize_t
read_some(struct link *l, void *dst, size_t n)
{
	ssize_t r;

	if (l->tls)
		return tls_recv(l->tls, l->fd, dst, n);
	r = recv(l->fd, dst, n, MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

static int
recv_error(wq_t *wq, int err)
{
	if (err > -2000)
		return system_error(-err);
	message_set(wq, tls_why(wq->link.tls));
	return err;
}

int
recv_turn(wq_t *wq, int64_t now)
{
	struct inbox *in = &wq->in;
	int err;

	for (int i = 0; i < TURNS; i++) {
		ssize_t n;

		err = make_room(in);
		if (err < 0)
			return err;
		n = read_some(&wq->link, in->data + in->end, in->cap - in->end);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return n == -EAGAIN ? 0 : recv_error(wq, (int)n);
		if (n == 0)
			return WQ_ERR_CLOSED;
		in->end += (size_t)n;
		err = handle_frames(wq, now);
		if (err < 0)
			return err;
		if (in->end < in->cap)
			return 0;
	}
	return 0;
}
