#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "net/conn_int.h"
#include "net/peer.h"

/* How long a peer has to take the last replies, and then to hang up itself. */
#define CLOSE_NS (5 * NS_PER_S)
/* Nothing is read from a paused peer, so its end is looked for now and then. */
#define HANGUP_CHECK_NS (1 * NS_PER_S)
#define GROUPS_MAX      64   /* of a peer that are looked at */
#define NAMES_MAX       2048 /* bytes of names of a client certificate */

static void
conn_task(void *arg);
static void
conn_timer(void *arg);

/* ---- life ---- */

int
conns_new(const struct conns_config *cfg, struct conns **out)
{
	struct conns *cs = x_zalloc(sizeof *cs);

	if (!cs)
		return -ENOMEM;
	*cs = (struct conns){ .magic = CONNS_MAGIC, .cfg = *cfg, .r = loop_reactor(cfg->loop) };
	list_init(&cs->all);
	shake_init(cs);
	cs->scratch = x_alloc(READ_MAX);
	cs->busy = x_strndup(cfg->busy.n ? cfg->busy.p : "", cfg->busy.n);
	if (!cs->scratch || !cs->busy) {
		conns_free(cs);
		return -ENOMEM;
	}
	*out = cs;
	return 0;
}

void
conn_gone(struct conn *c)
{
	struct conns *cs = c->cs;

	CHECK_OBJ(c, CONN_MAGIC);
	cs->r->io_del(cs->r->ctx, c->reading);
	cs->r->io_del(cs->r->ctx, c->writing);
	cs->r->timer_del(cs->r->ctx, c->timer);
	list_del(&c->link);
	cs->n--;
	shake_over(c);
	if (c->session)
		cs->cfg.protocol.close(c->session, clock_now());
	/* At the end: what closes may have told us that it has something to send. */
	loop_task_cancel(&c->task);
	stream_done(&c->stream);
	buf_done(&c->in);
	MAGIC_DONE(c);
	x_free(c);
}

static void
conn_deaf(struct conn *c)
{
	if (!c->deaf && c->cs->cfg.protocol.deaf)
		c->cs->cfg.protocol.deaf(c->session);
	c->deaf = true;
}

/* Sends what the socket takes now. A peer that can't be written to may still have sent requests:
 * they are read to their end. */
static void
conn_flush(struct conn *c)
{
	struct buf *out = c->cs->cfg.protocol.output(c->session);

	if ((buf_len(out) > 0 || stream_unsent(&c->stream) > 0) && !c->deaf &&
		stream_send(&c->stream, out) < 0)
		conn_deaf(c);
	if (c->deaf)
		buf_consume(out, buf_len(out));
	if (buf_len(out) == 0 && out->cap > KEEP_MAX)
		buf_release(out);
}

/* Bytes of replies that the socket has not taken. */
static size_t
unsent(const struct conn *c)
{
	return buf_len(c->cs->cfg.protocol.output(c->session)) +
		(c->deaf ? 0 : stream_unsent(&c->stream));
}

void
conns_free(struct conns *cs)
{
	struct conn *c;

	if (!cs)
		return;
	CHECK_OBJ(cs, CONNS_MAGIC);
	while ((c = list_first(&cs->all, struct conn, link)) != NULL) {
		if (c->session)
			conn_flush(c);
		conn_gone(c);
	}
	shake_done(cs);
	x_free(cs->scratch);
	x_free(cs->busy);
	MAGIC_DONE(cs);
	x_free(cs);
}

size_t
conns_count(const struct conns *cs)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	return cs->n;
}

void
conns_set_max(struct conns *cs, uint32_t max)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	cs->cfg.max = max;
}

void
conns_set_handshakes(struct conns *cs, uint32_t max, int64_t time_ns)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	cs->cfg.max_handshakes = max;
	cs->cfg.handshake_ns = time_ns;
}

void
conns_stats_get(const struct conns *cs, struct conns_stats *out)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	*out = cs->stats;
}

bool
conns_flushed(const struct conns *cs)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	list_each(c, &cs->all, struct conn, link)
		if (c->session && unsent(c) > 0)
			return false;
	return true;
}

const struct reactor *
conns_reactor(const struct conns *cs)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	return cs->r;
}

/* ---- newcomers ---- */

void
conns_turn_away(struct conns *cs, int fd, bool plainly)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	if (cs->cfg.busy.n && plainly)
		(void)!send(fd, cs->busy, cs->cfg.busy.n, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
	if (cs->cfg.protocol.refused)
		cs->cfg.protocol.refused(cs->cfg.protocol.ctx);
}

int
conn_open(struct conn *c)
{
	struct conns *cs = c->cs;
	char names[NAMES_MAX];
	gid_t groups[GROUPS_MAX];
	struct peer peer;
	int err;

	peer_of_socket(c->stream.fd, &peer);
	if (peer.unix_socket) {
		peer.n_groups = peer_groups(c->stream.fd, groups, GROUPS_MAX);
		peer.groups = groups;
	}
	if (c->stream.tls) {
		peer.tls = true;
		peer.names = names;
		peer.names_n = tls_conn_names(c->stream.tls, names, sizeof names);
	}
	err = cs->cfg.protocol.open(cs->cfg.protocol.ctx, c, &peer, clock_now(), &c->session);
	if (!err)
		c->state = CONN_OPEN;
	shake_over(c);
	return err;
}

struct conn *
conn_new(struct conns *cs, int fd)
{
	struct conn *c = x_zalloc(sizeof *c);

	if (!c) {
		close(fd);
		return NULL;
	}
	*c = (struct conn){ .magic = CONN_MAGIC, .cs = cs, .timer_ns = INT64_MAX };
	stream_init(&c->stream, fd);
	buf_init(&c->in, cs->cfg.frame_max + FRAME_HEAD + READ_MAX);
	loop_task_init(&c->task, conn_task, c);
	list_append(&cs->all, &c->link);
	list_init(&c->shaking);
	cs->n++;
	if (cs->r->timer_new(cs->r->ctx, conn_timer, c, &c->timer) == 0)
		return c;
	conn_gone(c);
	return NULL;
}

int
conns_add(struct conns *cs, int fd, struct tls *tls)
{
	struct conn *c;
	int err;

	CHECK_OBJ(cs, CONNS_MAGIC);
	if (cs->n >= cs->cfg.max) {
		conns_turn_away(cs, fd, !tls);
		return ERR_LIMIT;
	}
	c = conn_new(cs, fd);
	if (!c)
		return -ENOMEM;
	err = tls ? shake_begin(c, tls) : conn_open(c);
	if (err) {
		conn_gone(c);
		return err;
	}
	/* What it has sent before it was accepted is input of now. */
	loop_input_left(cs->cfg.loop);
	conn_settle(c, clock_now());
	return 0;
}

/* ---- input ---- */

static void
give_input(struct conn *c, struct buf *in, struct moment now)
{
	const struct conn_protocol *p = &c->cs->cfg.protocol;

	c->stuck = false;
	c->again = p->input(c->session, now, in) > 0;
	c->paused = !p->wants_input(c->session);
}

/* `n` bytes in scratch go on where the last input ended. They are copied only when something was
 * left before or is left now, so that an idle peer holds no buffer. */
static int
take_input(struct conn *c, size_t n, struct moment now)
{
	struct buf view = buf_view(c->cs->scratch, n);
	int err;

	if (buf_len(&c->in) == 0) {
		give_input(c, &view, now);
		return buf_len(&view) ? buf_put(&c->in, buf_head(&view), buf_len(&view)) : 0;
	}
	err = buf_put(&c->in, view.data, n);
	if (!err)
		give_input(c, &c->in, now);
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
	return err;
}

void
conn_readable(void *arg, unsigned ready)
{
	struct conn *c = arg;
	struct moment now;
	ssize_t n;

	(void)ready;
	CHECK_OBJ(c, CONN_MAGIC);
	if (c->again || (c->state == CONN_SHAKING && !shake_may(c->cs)))
		return;
	n = stream_recv(&c->stream, c->cs->scratch, READ_MAX, c->cs->encrypted);
	if (c->state == CONN_SHAKING)
		n = shake_step(c, n);
	if (n == -EAGAIN) {
		if (c->stream.tls)
			conn_settle(c, clock_now());
		return;
	}
	if (n <= 0) {
		conn_gone(c);
		return;
	}
	if (n == (ssize_t)READ_MAX)
		loop_input_left(c->cs->cfg.loop);
	now = clock_now();
	if (c->state == CONN_OPEN && take_input(c, (size_t)n, now) < 0) {
		conn_gone(c);
		return;
	}
	conn_settle(c, now);
}

/* Something is left from earlier input that the protocol would take now. */
static bool
has_left(const struct conn *c)
{
	return c->state == CONN_OPEN && !c->cs->held &&
		(c->again || (c->paused && c->cs->cfg.protocol.wants_input(c->session)));
}

/* ---- what is watched, and until when ---- */

void
conn_writable(void *arg, unsigned ready)
{
	(void)ready;
	conn_settle(arg, clock_now());
}

int
conn_want(struct conn *c, struct reactor_io **io, bool wanted, unsigned what,
	void (*cb)(void *arg, unsigned ready))
{
	const struct reactor *r = c->cs->r;

	if (wanted && !*io)
		return r->io_add(r->ctx, c->stream.fd, what, cb, c, io);
	if (!wanted && *io) {
		r->io_del(r->ctx, *io);
		*io = NULL;
	}
	return 0;
}

void
conn_set_timer(struct conn *c, int64_t by_ns, struct moment now)
{
	if (by_ns >= c->timer_ns)
		return;
	c->timer_ns = by_ns;
	c->cs->r->timer_set(c->cs->r->ctx, c->timer, by_ns > now.boot_ns ? by_ns - now.boot_ns : 0);
}

void
conn_close_begin(struct conn *c, struct moment now)
{
	c->state = CONN_CLOSING;
	c->close_by_ns = now.boot_ns + CLOSE_NS;
	c->again = false;
	buf_consume(&c->in, buf_len(&c->in));
	buf_release(&c->in);
}

/* All is sent: our end is shut, and what the peer still sends is dropped until it hangs up. Closing
 * at once could reset the connection before it has read the last reply. */
static void
linger_begin(struct conn *c)
{
	c->state = CONN_LINGER;
	stream_shut(&c->stream);
}

void
conn_settle(struct conn *c, struct moment now)
{
	const struct conn_protocol *p = &c->cs->cfg.protocol;
	bool more;

	CHECK_OBJ(c, CONN_MAGIC);
	if (c->state == CONN_SHAKING) {
		shake_settle(c, now);
		return;
	}
	conn_flush(c);
	if (c->state == CONN_OPEN && p->closing(c->session))
		conn_close_begin(c, now);
	more = unsent(c) > 0;
	if (c->state == CONN_CLOSING && !more)
		linger_begin(c);
	if ((c->state != CONN_OPEN && c->deaf) ||
		(stream_ended(&c->stream) && !c->again && !c->paused) ||
		conn_want(c, &c->reading,
			c->state == CONN_LINGER ||
				(c->state == CONN_OPEN && !c->paused && !c->cs->held),
			REACTOR_READ, conn_readable) < 0 ||
		conn_want(c, &c->writing, more, REACTOR_WRITE, conn_writable) < 0) {
		conn_gone(c);
		return;
	}
	if (has_left(c))
		loop_defer(c->cs->cfg.loop, &c->task);
	if (c->state != CONN_OPEN)
		conn_set_timer(c, c->close_by_ns, now);
	else
		conn_set_timer(c, p->deadline(c->session), now);
	if (c->state == CONN_OPEN && c->paused)
		conn_set_timer(c, now.boot_ns + HANGUP_CHECK_NS, now);
}

static bool
hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Whether a paused peer has hung up and is done with. What it sent before is still to be taken: its
 * replies, which nobody waits for, are dropped, and as long as something is taken between two looks
 * it goes on. */
static bool
has_left_us(struct conn *c)
{
	if (!c->paused || !hung_up(c->stream.fd))
		return false;
	if (c->stuck)
		return true;
	c->stuck = true;
	conn_deaf(c);
	return false;
}

static void
conn_timer(void *arg)
{
	struct conn *c = arg;
	struct moment now = clock_now();
	int64_t now_ns = now.boot_ns;

	CHECK_OBJ(c, CONN_MAGIC);
	c->timer_ns = INT64_MAX;
	if ((c->state != CONN_OPEN && c->close_by_ns <= now_ns) ||
		(c->state == CONN_OPEN && has_left_us(c))) {
		conn_gone(c);
		return;
	}
	if (c->state == CONN_OPEN && c->cs->cfg.protocol.deadline(c->session) <= now_ns)
		c->cs->cfg.protocol.expired(c->session);
	conn_settle(c, now);
}

/* Once a turn, however much is left: the others have their turn too. */
static void
conn_task(void *arg)
{
	struct conn *c = arg;
	struct moment now = loop_turn_now(c->cs->cfg.loop);

	CHECK_OBJ(c, CONN_MAGIC);
	if (has_left(c)) {
		now = clock_now();
		give_input(c, &c->in, now);
		if (buf_len(&c->in) == 0)
			buf_release(&c->in);
	}
	conn_settle(c, now);
}

void
conn_output_ready(struct conn *c)
{
	CHECK_OBJ(c, CONN_MAGIC);
	loop_defer(c->cs->cfg.loop, &c->task);
}

void
conn_output_early(struct conn *c)
{
	CHECK_OBJ(c, CONN_MAGIC);
	conn_flush(c);
}
