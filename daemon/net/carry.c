/*
 * Connections over an exec: the descriptor stays open, what was read of it and
 * not used and what was not sent goes along. What lies in the kernel stays there.
 */
#include <errno.h>

#include "base/assert.h"
#include "base/err.h"
#include "net/conn_int.h"

/* Never given to anything else. */
enum { CONN_FD = 1, CONN_IN, CONN_DEAF, CONN_NUMBER };

void
conns_hold(struct conns *cs, bool hold)
{
	struct moment now = clock_now();

	CHECK_OBJ(cs, CONNS_MAGIC);
	cs->held = hold;
	list_each_safe(c, &cs->all, struct conn, link)
		if (c->session)
			conn_settle(c, now);
}

size_t
conns_part(struct conns *cs, bool now)
{
	struct moment at = clock_now();
	size_t n = 0;

	CHECK_OBJ(cs, CONNS_MAGIC);
	list_each_safe(c, &cs->all, struct conn, link) {
		if (!c->stream.tls)
			continue;
		if (c->state == CONN_SHAKING || now) {
			conn_gone(c);
			continue;
		}
		n++;
		if (c->state != CONN_OPEN)
			continue;
		conn_close_begin(c, at);
		conn_settle(c, at);
	}
	return n;
}

void
conns_carry_out(struct conns *cs, struct carry_out *o)
{
	const struct conn_protocol *p = &cs->cfg.protocol;

	CHECK_OBJ(cs, CONNS_MAGIC);
	cs->numbers = 0;
	list_each(c, &cs->all, struct conn, link) {
		wq_assert(!c->stream.tls);
		c->number = ++cs->numbers;
		carry_begin(o, CARRY_CONN);
		carry_fd(o, CONN_FD, c->stream.fd);
		carry_str(o, CONN_IN, buf_str(&c->in));
		carry_u64(o, CONN_DEAF, c->deaf);
		carry_u64(o, CONN_NUMBER, c->number);
		carry_end(o);
		p->carry_out(c->session, o);
	}
}

static int
conn_carry_in(struct conns *cs, const struct carry_record *r)
{
	struct str in = carry_get(r, CONN_IN);
	int fd = carry_get_fd(r, CONN_FD), err;
	struct conn *c;

	if (fd < 0)
		return ERR_DAMAGED;
	c = conn_new(cs, fd);
	if (!c)
		return -ENOMEM;
	err = conn_open(c);
	if (!err && in.n)
		err = buf_put(&c->in, in.p, in.n);
	if (err) {
		conn_gone(c);
		return err;
	}
	c->deaf = carry_get_u64(r, CONN_DEAF, 0) != 0;
	c->number = carry_get_u64(r, CONN_NUMBER, 0);
	/* Whole requests may be among what was read. */
	c->again = in.n > 0;
	cs->newest = c;
	return 0;
}

int
conns_carry_in(struct conns *cs, const struct carry_record *r)
{
	const struct conn_protocol *p = &cs->cfg.protocol;

	CHECK_OBJ(cs, CONNS_MAGIC);
	if (r->kind == CARRY_CONN)
		return conn_carry_in(cs, r);
	return cs->newest ? p->carry_in(cs->newest->session, r, clock_now()) : 0;
}

void
conns_carried(struct conns *cs)
{
	struct moment now = clock_now();

	CHECK_OBJ(cs, CONNS_MAGIC);
	cs->newest = NULL;
	list_each_safe(c, &cs->all, struct conn, link) {
		c->paused = !cs->cfg.protocol.wants_input(c->session);
		conn_settle(c, now);
	}
	loop_input_left(cs->cfg.loop);
}

uint64_t
conn_number(const struct conn *c)
{
	CHECK_OBJ(c, CONN_MAGIC);
	return c->number;
}

void *
conns_session(const struct conns *cs, uint64_t number)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	list_each(c, &cs->all, struct conn, link)
		if (c->number == number && number > 0)
			return c->session;
	return NULL;
}
