#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "net/bind.h"
#include "net/peer.h"

#define LISTENER_MAGIC 0x115e0001u

/* Newcomers taken in one turn, so that a rush of them leaves time for the others. */
#define ACCEPT_MAX 64
/* Out of descriptors: newcomers told so, and the time until the next try. */
#define TURN_AWAY_MAX 16
#define PAUSE_NS      (200 * NS_PER_MS)

struct listener {
	unsigned magic;
	struct conns *cs;        /* borrowed */
	const struct reactor *r; /* borrowed */
	struct bound bound;
	struct tls *tls;       /* borrowed; NULL: plain */
	struct reactor_io *io; /* NULL: paused */
	struct reactor_timer *timer;
	bool held;
	int spare; /* a descriptor to give up for a newcomer who can't be kept; -1: not now */
};

static void
listener_ready(void *arg, unsigned ready);

static int
spare_open(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int
accept_one(struct listener *ln)
{
	return accept4(ln->bound.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* With no descriptor left: those who wait are told instead of left hanging. */
static void
turn_away(struct listener *ln)
{
	for (int i = 0; i < TURN_AWAY_MAX && ln->spare >= 0; i++) {
		int fd;

		close(ln->spare);
		fd = accept_one(ln);
		if (fd >= 0)
			conns_turn_away(ln->cs, fd, !ln->tls);
		ln->spare = spare_open();
		if (fd < 0)
			break;
	}
}

static void
listener_pause(struct listener *ln)
{
	ln->r->io_del(ln->r->ctx, ln->io);
	ln->io = NULL;
	ln->r->timer_set(ln->r->ctx, ln->timer, PAUSE_NS);
}

static void
listener_resume(void *arg)
{
	struct listener *ln = arg;

	CHECK_OBJ(ln, LISTENER_MAGIC);
	if (ln->held || ln->io)
		return;
	if (ln->spare < 0)
		ln->spare = spare_open();
	if (ln->r->io_add(ln->r->ctx, ln->bound.fd, REACTOR_READ, listener_ready, ln, &ln->io) < 0)
		ln->r->timer_set(ln->r->ctx, ln->timer, PAUSE_NS);
}

/* A failed accept: true when the next one may work. */
static bool
goes_on(int error)
{
	/* The newcomer's own trouble. */
	return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN ||
		error == ENETUNREACH || error == EHOSTDOWN || error == EHOSTUNREACH ||
		error == ENONET || error == ENOPROTOOPT || error == EOPNOTSUPP || error == EPERM;
}

static void
listener_ready(void *arg, unsigned ready)
{
	struct listener *ln = arg;

	(void)ready;
	CHECK_OBJ(ln, LISTENER_MAGIC);
	for (int i = 0; i < ACCEPT_MAX; i++) {
		int fd = accept_one(ln);

		if (fd >= 0) {
			conns_add(ln->cs, fd, ln->tls);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (goes_on(errno))
			continue;
		if (errno == EMFILE || errno == ENFILE)
			turn_away(ln);
		listener_pause(ln);
		return;
	}
}

static int
listener_new(
	struct conns *cs, struct bound *b, const struct listen_options *o, struct listener **out)
{
	struct listener *ln = x_zalloc(sizeof *ln);
	int err;

	if (!ln)
		return -ENOMEM;
	*ln = (struct listener){
		.magic = LISTENER_MAGIC,
		.cs = cs,
		.r = conns_reactor(cs),
		.bound = *b,
		.tls = b->tls ? o->tls : NULL,
		.spare = spare_open(),
	};
	err = ln->r->timer_new(ln->r->ctx, listener_resume, ln, &ln->timer);
	if (!err)
		err = ln->r->io_add(ln->r->ctx, b->fd, REACTOR_READ, listener_ready, ln, &ln->io);
	if (err) {
		ln->bound = (struct bound){ .fd = -1 }; /* stays the caller's */
		listener_close(ln);
		return err;
	}
	*out = ln;
	return 0;
}

int
listener_open(struct conns *cs, const char *address, const struct listen_options *o,
	struct listener **out, struct listen_error *err)
{
	struct bound b;
	int code = bind_address(address, o, &b, err);

	if (code)
		return code;
	code = listener_new(cs, &b, o, out);
	if (code) {
		snprintf(err->text, sizeof err->text, "out of memory");
		bind_release(&b);
	}
	return code;
}

int
listener_adopt(struct conns *cs, int fd, const struct listen_options *o, struct listener **out,
	struct listen_error *err)
{
	struct bound b;
	int code = bind_adopted(fd, o, &b, err);

	if (code)
		return code;
	code = listener_new(cs, &b, o, out);
	if (code)
		snprintf(err->text, sizeof err->text, "out of memory");
	return code;
}

/* ---- over an exec ---- */

/* Never given to anything else. */
enum { LISTENER_FD = 1, LISTENER_ADDRESS, LISTENER_TLS, LISTENER_FILE, LISTENER_DEV, LISTENER_INO };

void
listener_hold(struct listener *ln, bool hold)
{
	CHECK_OBJ(ln, LISTENER_MAGIC);
	ln->held = hold;
	if (!hold) {
		listener_resume(ln);
		return;
	}
	ln->r->io_del(ln->r->ctx, ln->io);
	ln->io = NULL;
}

void
listener_carry_out(const struct listener *ln, struct carry_out *o)
{
	const struct bound *b = &ln->bound;

	CHECK_OBJ(ln, LISTENER_MAGIC);
	carry_begin(o, CARRY_LISTENER);
	carry_fd(o, LISTENER_FD, b->fd);
	carry_str(o, LISTENER_ADDRESS, str_from(b->address));
	carry_u64(o, LISTENER_TLS, b->tls);
	carry_u64(o, LISTENER_FILE, b->made_file);
	carry_u64(o, LISTENER_DEV, (uint64_t)b->dev);
	carry_u64(o, LISTENER_INO, (uint64_t)b->ino);
	carry_end(o);
}

int
listener_carry_in(struct conns *cs, const struct carry_record *r, const struct listen_options *o,
	struct listener **out)
{
	struct bound b = {
		.fd = carry_get_fd(r, LISTENER_FD),
		.tls = carry_get_u64(r, LISTENER_TLS, 0) != 0,
		.made_file = carry_get_u64(r, LISTENER_FILE, 0) != 0,
		.dev = (dev_t)carry_get_u64(r, LISTENER_DEV, 0),
		.ino = (ino_t)carry_get_u64(r, LISTENER_INO, 0),
	};

	if (b.fd < 0 || carry_get_text(r, LISTENER_ADDRESS, b.address, sizeof b.address) < 0 ||
		!b.address[0])
		return ERR_DAMAGED;
	if (b.tls && !o->tls)
		return ERR_CONFIG;
	return listener_new(cs, &b, o, out);
}

/* ---- the end ---- */

void
listener_close(struct listener *ln)
{
	if (!ln)
		return;
	CHECK_OBJ(ln, LISTENER_MAGIC);
	ln->r->io_del(ln->r->ctx, ln->io);
	ln->r->timer_del(ln->r->ctx, ln->timer);
	if (ln->spare >= 0)
		close(ln->spare);
	bind_release(&ln->bound);
	MAGIC_DONE(ln);
	x_free(ln);
}

const char *
listener_address(const struct listener *ln)
{
	CHECK_OBJ(ln, LISTENER_MAGIC);
	return ln->bound.address;
}
