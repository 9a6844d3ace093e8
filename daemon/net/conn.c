#include "net/conn.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "net/peer.h"

#define CONN_MAGIC  0xc0220001u
#define CONNS_MAGIC 0xc0220002u

#define READ_MAX   (256u << 10) /* bytes of one read */
#define FRAME_HEAD 5u           /* the longest length before a frame */
#define KEEP_MAX   4096u        /* memory that an emptied buffer of an idle peer may keep */
/* How long a peer has to take the last replies, and then to hang up itself. */
#define CLOSE_NS (5 * NS_PER_S)
/* Nothing is read from a paused peer, so its end is looked for now and then. */
#define HANGUP_CHECK_NS (1 * NS_PER_S)

enum conn_state { CONN_OPEN, CONN_CLOSING, CONN_LINGER };

struct conn {
	unsigned magic;
	enum conn_state state;
	struct conns *cs; /* borrowed */
	struct list link;
	int fd;                               /* owned */
	void *session;                        /* the protocol's */
	struct reactor_io *reading, *writing; /* NULL: not wanted */
	struct reactor_timer *timer;
	int64_t timer_ns;    /* when it fires, boot time; INT64_MAX: not set */
	int64_t close_by_ns; /* CLOSING, LINGER */
	struct buf in;       /* what the protocol has left */
	bool paused;         /* the protocol wanted no more of it */
	bool again;          /* the protocol has more of it to do, in the next turn */
	bool deaf;           /* the peer takes no more output; its input is still read */
	bool stuck;          /* it has hung up, and nothing was taken since that was seen */
	struct loop_task task;
};

struct conns {
	unsigned magic;
	struct conns_config cfg;
	const struct reactor *r; /* borrowed */
	char *busy;              /* owned */
	struct list all;
	size_t n;
	uint8_t *scratch; /* owned; READ_MAX bytes that each read goes to first */
};

static void
conn_task(void *arg);
static void
conn_timer(void *arg);
static void
conn_settle(struct conn *c);

/* ---- life ---- */

int
conns_new(const struct conns_config *cfg, struct conns **out)
{
	struct conns *cs = x_zalloc(sizeof *cs);

	if (!cs)
		return -ENOMEM;
	*cs = (struct conns){ .magic = CONNS_MAGIC, .cfg = *cfg, .r = loop_reactor(cfg->loop) };
	list_init(&cs->all);
	cs->scratch = x_alloc(READ_MAX);
	cs->busy = x_strndup(cfg->busy.n ? cfg->busy.p : "", cfg->busy.n);
	if (!cs->scratch || !cs->busy) {
		conns_free(cs);
		return -ENOMEM;
	}
	*out = cs;
	return 0;
}

/* The peer is gone, or has to go: everything is freed. */
static void
conn_gone(struct conn *c)
{
	struct conns *cs = c->cs;

	CHECK_OBJ(c, CONN_MAGIC);
	cs->r->io_del(cs->r->ctx, c->reading);
	cs->r->io_del(cs->r->ctx, c->writing);
	cs->r->timer_del(cs->r->ctx, c->timer);
	loop_task_cancel(&c->task);
	list_del(&c->link);
	cs->n--;
	if (c->session)
		cs->cfg.protocol.close(c->session, clock_now());
	close(c->fd);
	buf_done(&c->in);
	MAGIC_DONE(c);
	x_free(c);
}

/* Sends what the socket takes now. A peer that can't be written to may still have sent requests:
 * they are read to their end. */
static void
conn_flush(struct conn *c)
{
	struct buf *out = c->cs->cfg.protocol.output(c->session);
	size_t len = buf_len(out);
	ssize_t n;

	if (len > 0 && !c->deaf) {
		n = send(c->fd, buf_head(out), len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			buf_consume(out, (size_t)n);
		else if (errno != EAGAIN && errno != EINTR)
			c->deaf = true;
	}
	if (c->deaf)
		buf_consume(out, buf_len(out));
	if (buf_len(out) == 0 && out->cap > KEEP_MAX)
		buf_release(out);
}

void
conns_free(struct conns *cs)
{
	struct conn *c;

	if (!cs)
		return;
	CHECK_OBJ(cs, CONNS_MAGIC);
	while ((c = list_first(&cs->all, struct conn, link)) != NULL) {
		conn_flush(c);
		conn_gone(c);
	}
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

bool
conns_flushed(const struct conns *cs)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	list_each(c, &cs->all, struct conn, link)
		if (buf_len(cs->cfg.protocol.output(c->session)) > 0)
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
conns_turn_away(struct conns *cs, int fd)
{
	CHECK_OBJ(cs, CONNS_MAGIC);
	if (cs->cfg.busy.n)
		(void)!send(fd, cs->busy, cs->cfg.busy.n, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
	if (cs->cfg.protocol.refused)
		cs->cfg.protocol.refused(cs->cfg.protocol.ctx);
}

int
conns_add(struct conns *cs, int fd)
{
	struct conn *c;
	struct peer peer;
	int err;

	CHECK_OBJ(cs, CONNS_MAGIC);
	if (cs->n >= cs->cfg.max) {
		conns_turn_away(cs, fd);
		return ERR_LIMIT;
	}
	c = x_zalloc(sizeof *c);
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	*c = (struct conn){ .magic = CONN_MAGIC, .cs = cs, .fd = fd, .timer_ns = INT64_MAX };
	buf_init(&c->in, cs->cfg.frame_max + FRAME_HEAD + READ_MAX);
	loop_task_init(&c->task, conn_task, c);
	list_append(&cs->all, &c->link);
	cs->n++;
	peer_of_socket(fd, &peer);
	err = cs->r->timer_new(cs->r->ctx, conn_timer, c, &c->timer);
	if (!err)
		err = cs->cfg.protocol.open(
			cs->cfg.protocol.ctx, c, &peer, clock_now(), &c->session);
	if (err) {
		conn_gone(c);
		return err;
	}
	/* What it has sent before it was accepted is input of now. */
	loop_input_left(cs->cfg.loop);
	conn_settle(c);
	return 0;
}

/* ---- input ---- */

static void
give_input(struct conn *c, struct buf *in)
{
	const struct conn_protocol *p = &c->cs->cfg.protocol;

	c->stuck = false;
	c->again = p->input(c->session, clock_now(), in) > 0;
	c->paused = !p->wants_input(c->session);
}

/* `n` bytes in scratch go on where the last input ended. They are copied only when something was
 * left before or is left now, so that an idle peer holds no buffer. */
static int
take_input(struct conn *c, size_t n)
{
	struct buf view = buf_view(c->cs->scratch, n);
	int err;

	if (buf_len(&c->in) == 0) {
		give_input(c, &view);
		return buf_len(&view) ? buf_put(&c->in, buf_head(&view), buf_len(&view)) : 0;
	}
	err = buf_put(&c->in, view.data, n);
	if (!err)
		give_input(c, &c->in);
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
	return err;
}

static void
conn_readable(void *arg, unsigned ready)
{
	struct conn *c = arg;
	ssize_t n;

	(void)ready;
	CHECK_OBJ(c, CONN_MAGIC);
	if (c->again)
		return;
	n = recv(c->fd, c->cs->scratch, READ_MAX, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_gone(c);
		return;
	}
	if (n == (ssize_t)READ_MAX)
		loop_input_left(c->cs->cfg.loop);
	if (c->state == CONN_OPEN && take_input(c, (size_t)n) < 0) {
		conn_gone(c);
		return;
	}
	conn_settle(c);
}

/* Something is left from earlier input that the protocol would take now. */
static bool
has_left(const struct conn *c)
{
	return c->state == CONN_OPEN &&
		(c->again || (c->paused && c->cs->cfg.protocol.wants_input(c->session)));
}

/* ---- what is watched, and until when ---- */

static void
conn_writable(void *arg, unsigned ready)
{
	(void)ready;
	conn_settle(arg);
}

static int
want(struct conn *c, struct reactor_io **io, bool wanted, unsigned what,
	void (*cb)(void *arg, unsigned ready))
{
	const struct reactor *r = c->cs->r;

	if (wanted && !*io)
		return r->io_add(r->ctx, c->fd, what, cb, c, io);
	if (!wanted && *io) {
		r->io_del(r->ctx, *io);
		*io = NULL;
	}
	return 0;
}

/* A time that moves later leaves the timer as it is: when that fires early, it is set again. */
static void
set_timer(struct conn *c, int64_t by_ns, struct moment now)
{
	if (by_ns >= c->timer_ns)
		return;
	c->timer_ns = by_ns;
	c->cs->r->timer_set(c->cs->r->ctx, c->timer, by_ns > now.boot_ns ? by_ns - now.boot_ns : 0);
}

static void
close_begin(struct conn *c, struct moment now)
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
	shutdown(c->fd, SHUT_WR);
}

/* Brings everything in line with what the protocol wants now. The connection may be gone after. */
static void
conn_settle(struct conn *c)
{
	const struct conn_protocol *p = &c->cs->cfg.protocol;
	struct moment now = clock_now();
	bool unsent;

	CHECK_OBJ(c, CONN_MAGIC);
	conn_flush(c);
	if (c->state == CONN_OPEN && p->closing(c->session))
		close_begin(c, now);
	unsent = buf_len(p->output(c->session)) > 0;
	if (c->state == CONN_CLOSING && !unsent)
		linger_begin(c);
	if ((c->state != CONN_OPEN && c->deaf) ||
		want(c, &c->reading,
			c->state == CONN_LINGER || (c->state == CONN_OPEN && !c->paused),
			REACTOR_READ, conn_readable) < 0 ||
		want(c, &c->writing, unsent, REACTOR_WRITE, conn_writable) < 0) {
		conn_gone(c);
		return;
	}
	if (has_left(c))
		loop_defer(c->cs->cfg.loop, &c->task);
	if (c->state != CONN_OPEN)
		set_timer(c, c->close_by_ns, now);
	else
		set_timer(c, p->deadline(c->session), now);
	if (c->state == CONN_OPEN && c->paused)
		set_timer(c, now.boot_ns + HANGUP_CHECK_NS, now);
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
	if (!c->paused || !hung_up(c->fd))
		return false;
	if (c->stuck)
		return true;
	c->stuck = true;
	c->deaf = true;
	return false;
}

static void
conn_timer(void *arg)
{
	struct conn *c = arg;
	int64_t now_ns = clock_boot_ns();

	CHECK_OBJ(c, CONN_MAGIC);
	c->timer_ns = INT64_MAX;
	if ((c->state != CONN_OPEN && c->close_by_ns <= now_ns) ||
		(c->state == CONN_OPEN && has_left_us(c))) {
		conn_gone(c);
		return;
	}
	if (c->state == CONN_OPEN && c->cs->cfg.protocol.deadline(c->session) <= now_ns)
		c->cs->cfg.protocol.expired(c->session);
	conn_settle(c);
}

/* Once a turn, however much is left: the others have their turn too. */
static void
conn_task(void *arg)
{
	struct conn *c = arg;

	CHECK_OBJ(c, CONN_MAGIC);
	if (has_left(c)) {
		give_input(c, &c->in);
		if (buf_len(&c->in) == 0)
			buf_release(&c->in);
	}
	conn_settle(c);
}

void
conn_output_ready(struct conn *c)
{
	CHECK_OBJ(c, CONN_MAGIC);
	loop_defer(c->cs->cfg.loop, &c->task);
}

/* ---- descriptors ---- */

/* Standard ones, loop, log, storage with its journal and its temporary files, listeners; and a run:
 * pipe, memfd, pidfd and what a start needs for a moment. */
#define RESERVE_BASE    32u
#define RESERVE_PER_RUN 4u

uint32_t
conns_budget(uint32_t wanted, uint32_t max_runs)
{
	struct rlimit rl;
	uint64_t limit, reserve;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return wanted ? wanted : 1;
	if (rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
			getrlimit(RLIMIT_NOFILE, &rl);
	}
	limit = rl.rlim_cur;
	reserve = RESERVE_BASE + (uint64_t)RESERVE_PER_RUN * max_runs;
	if (reserve > limit / 2)
		reserve = limit / 2;
	if (limit - reserve < wanted)
		wanted = (uint32_t)(limit - reserve);
	return wanted ? wanted : 1;
}
