/*
 * TLS handshakes: newcomers who have yet to show that they mean it. What one can
 * cost is bounded in time, in number and in work of a turn.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/conn_int.h"
#include "net/peer.h"

/* Steps in one turn: a signature by RSA takes most of a millisecond. */
#define SHAKES_A_TURN 8

static void
shakes_anew(void *arg)
{
	struct conns *cs = arg;

	cs->shakes = 0;
}

void
shake_init(struct conns *cs)
{
	list_init(&cs->shaking);
	loop_task_init(&cs->new_turn, shakes_anew, cs);
}

void
shake_done(struct conns *cs)
{
	loop_task_cancel(&cs->new_turn);
	x_free(cs->encrypted);
}

void
shake_over(struct conn *c)
{
	if (!list_linked(&c->shaking))
		return;
	list_del(&c->shaking);
	c->cs->stats.handshaking--;
	if (c->state == CONN_SHAKING)
		c->cs->stats.handshakes_failed++;
	else
		c->cs->stats.handshakes++;
}

int
shake_begin(struct conn *c, struct tls *tls)
{
	struct conns *cs = c->cs;
	int err;

	c->state = CONN_SHAKING;
	c->close_by_ns = sat_add(clock_boot_ns(), cs->cfg.handshake_ns);
	if (!cs->encrypted)
		cs->encrypted = x_alloc(READ_MAX);
	if (!cs->encrypted)
		return -ENOMEM;
	err = stream_secure(&c->stream, tls);
	if (err)
		return err;
	if (cs->stats.handshaking >= cs->cfg.max_handshakes) {
		cs->stats.handshakes_dropped++;
		conn_gone(list_first(&cs->shaking, struct conn, shaking));
	}
	list_append(&cs->shaking, &c->shaking);
	cs->stats.handshaking++;
	return 0;
}

bool
shake_may(struct conns *cs)
{
	loop_defer(cs->cfg.loop, &cs->new_turn);
	return cs->shakes++ < SHAKES_A_TURN;
}

ssize_t
shake_step(struct conn *c, ssize_t n)
{
	const struct conn_protocol *p = &c->cs->cfg.protocol;
	struct peer peer;

	if (!stream_shakes(&c->stream) && (n > 0 || n == -EAGAIN))
		return conn_open(c) < 0 ? -ENOMEM : n;
	if (n != -EAGAIN && tls_conn_state(c->stream.tls) == TLS_FAILED && p->not_secured) {
		peer_of_socket(c->stream.fd, &peer);
		p->not_secured(p->ctx, peer.address, tls_conn_why(c->stream.tls));
	}
	return n;
}

void
shake_settle(struct conn *c, struct moment now)
{
	struct buf nothing = buf_view(NULL, 0);

	if (stream_send(&c->stream, &nothing) < 0 ||
		conn_want(c, &c->reading, true, REACTOR_READ, conn_readable) < 0 ||
		conn_want(c, &c->writing, stream_unsent(&c->stream) > 0, REACTOR_WRITE,
			conn_writable) < 0) {
		conn_gone(c);
		return;
	}
	conn_set_timer(c, c->close_by_ns, now);
}
