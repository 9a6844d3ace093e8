/*
 * The connection: one descriptor, or a reason why there is none and a time of the next try.
 *
 *   CLOSED ----> CONNECTING --connected--> HELLO --answered--> UP     (tls://: TLS before HELLO)
 *     ^            |   ^                     |                  |
 *     |         failed |                  refused             broken
 *     |            v   |                     |                  |
 *     +---(no)---- "reconnect"? <------------+------------------+
 *                   (yes) v
 *                        WAIT --pause over--> CONNECTING
 *
 * CONNECTING goes through the addresses of a host name, each with its share of the time.
 * Pauses double from "reconnect_min" to "reconnect_max"; each is cut by a random part of its
 * half, so that a thousand clients of a restarted daemon don't come back in the same moment. A
 * connection that lasted longer than the longest pause starts over from the shortest.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "handle.h"

#define TO(s) (1u << (s))
static const unsigned link_edges[] = {
	/* to itself or to WAIT: the try ended before there was a descriptor */
	[LINK_CLOSED] = TO(LINK_CONNECTING) | TO(LINK_WAIT) | TO(LINK_CLOSED),
	[LINK_CONNECTING] = TO(LINK_HELLO) | TO(LINK_TLS) | TO(LINK_WAIT) | TO(LINK_CLOSED),
	[LINK_TLS] = TO(LINK_HELLO) | TO(LINK_WAIT) | TO(LINK_CLOSED),
	[LINK_HELLO] = TO(LINK_UP) | TO(LINK_WAIT) | TO(LINK_CLOSED),
	[LINK_UP] = TO(LINK_WAIT) | TO(LINK_CLOSED),
	[LINK_WAIT] = TO(LINK_CONNECTING) | TO(LINK_WAIT) | TO(LINK_CLOSED),
};

static void
link_move(struct link *l, enum link_state to)
{
	MUST(link_edges[l->state] & TO(to));
	MUST((to == LINK_CLOSED || to == LINK_WAIT) == (l->fd < 0));
	l->state = to;
}

void
link_init(struct link *l)
{
	*l = (struct link){ .state = LINK_CLOSED, .fd = -1 };
}

static void
fd_close(struct link *l)
{
	tls_free(l->tls, l->fd);
	l->tls = NULL;
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

void
link_close(wq_t *wq)
{
	fd_close(&wq->link);
	if (wq->link.state != LINK_CLOSED)
		link_move(&wq->link, LINK_CLOSED);
	inbox_reset(&wq->in);
}

/* xorshift64*: only spreads pauses. */
static uint64_t
jitter(wq_t *wq)
{
	uint64_t x = wq->jitter;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	wq->jitter = x;
	return (x * 0x2545f4914f6cdd1dull) >> 1;
}

static int64_t
next_pause_ns(wq_t *wq)
{
	struct link *l = &wq->link;
	int64_t max = wq->opt.reconnect_max_ms, half_ns;

	l->pause_ms = l->pause_ms ? l->pause_ms * 2 : wq->opt.reconnect_min_ms;
	if (l->pause_ms > max)
		l->pause_ms = max;
	half_ns = l->pause_ms * NS_PER_MS / 2;
	return half_ns + (int64_t)(jitter(wq) % (uint64_t)(half_ns + 1));
}

static void
say_why(wq_t *wq, int error)
{
	char address[MESSAGE_MAX / 2 + 100], text[MESSAGE_MAX];

	address_text(&wq->addr, address, sizeof address);
	snprintf(text, sizeof text, "%s: %s", address, wq_strerror(error));
	message_set(wq, text);
}

static bool
comes_back(const wq_t *wq)
{
	return wq->opt.reconnect && wq->addr.kind != ADDRESS_FD;
}

int
link_down(wq_t *wq, int64_t now, int error, bool fatal)
{
	struct link *l = &wq->link;
	bool keep = comes_back(wq) && !fatal;

	if (l->state == LINK_UP && now - l->up_since_ns > wq->opt.reconnect_max_ms * NS_PER_MS)
		l->pause_ms = 0;
	if (l->state != LINK_UP && error < 0 && error > -2000)
		say_why(wq, error);
	fd_close(l);
	inbox_reset(&wq->in);
	l->out_off = 0;
	l->last_error = error;
	l->gone = !comes_back(wq);
	if (l->gone) {
		link_move(l, LINK_CLOSED);
	} else {
		l->retry_at_ns = now + next_pause_ns(wq);
		link_move(l, LINK_WAIT);
	}
	coalesce_forget(&wq->known, wq->pend.next_id);
	requests_fail(wq, pending_sweep(&wq->pend, now, !keep), keep ? WQ_ERR_CLOSED : error);
	return keep ? 0 : error;
}

/* Errors that another try would meet again: no request waits for that. */
static bool
is_fatal(int error)
{
	return error == WQ_ERR_PROTOCOL || error == -ENOMEM || !wq_retriable(error);
}

static void
keep_alive(int fd)
{
	static const struct {
		int level, name, value;
	} set[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 30 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 10 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
	};

	/* A peer that is gone without a word must not hold a waiting request for ever; where an
	 * option is not to be had, the connection works all the same. */
	for (size_t i = 0; i < sizeof set / sizeof *set; i++)
		(void)setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof set[i].value);
}

/* Begins to connect to one address; the descriptor, or -errno. */
static int
connect_begin(const struct endpoint *e)
{
	int fd = socket(e->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	if (e->sa.ss_family != AF_UNIX)
		keep_alive(fd);
	if (connect(fd, (const struct sockaddr *)&e->sa, e->len) == 0 || errno == EINPROGRESS ||
		errno == EINTR)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* A connection that came with the process: once it has ended there is no other. */
static int
take_given(int given)
{
	int fd = fcntl(given, F_DUPFD_CLOEXEC, 3), flags;

	if (fd < 0)
		return -errno;
	/* Not for what the process starts: the connection is to end with it. */
	(void)fcntl(given, F_SETFD, FD_CLOEXEC);
	flags = fcntl(fd, F_GETFL);
	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return fd;
}

/* Tries the addresses from `end` on. 0: one is on its way (state CONNECTING). */
static int
connect_next(wq_t *wq, int64_t now, int err)
{
	struct link *l = &wq->link;

	for (; l->end < l->n_ends; l->end++) {
		int fd = wq->addr.kind == ADDRESS_FD ? take_given(wq->addr.fd)
						     : connect_begin(&l->ends[l->end]);

		if (fd < 0) {
			err = system_error(-fd);
			continue;
		}
		l->fd = fd;
		l->this_until_ns = now + (l->try_until_ns - now) / (int64_t)(l->n_ends - l->end);
		if (l->state != LINK_CONNECTING)
			link_move(l, LINK_CONNECTING);
		return 0;
	}
	return err;
}

static int
link_start(wq_t *wq, int64_t now)
{
	struct link *l = &wq->link;
	int err;

	wq->started = true;
	l->gone = false;
	l->end = l->n_ends = 0;
	l->try_until_ns = later_ns(now, wq->opt.connect_timeout_ms);
	err = address_resolve(&wq->addr, l->ends, &l->n_ends);
	if (err == 0)
		err = connect_next(wq, now, -EHOSTUNREACH);
	return err ? link_down(wq, now, err, is_fatal(err)) : 0;
}

/* This address did not work; the next one, or none. */
static int
connect_failed(wq_t *wq, int64_t now, int err)
{
	struct link *l = &wq->link;

	fd_close(l);
	l->end++;
	err = connect_next(wq, now, err);
	return err ? link_down(wq, now, err, is_fatal(err)) : 0;
}

/* Has the connect come to an end? 1 yes, 0 not yet, -errno. */
static int
connect_result(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = 0;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	return err ? system_error(err) : 1;
}

static int
greet(wq_t *wq, int64_t now)
{
	int err = hello_encode(wq);

	if (err < 0)
		return link_down(wq, now, err, true);
	link_move(&wq->link, LINK_HELLO);
	return 0;
}

static int
turn_connecting(wq_t *wq, int64_t now)
{
	struct link *l = &wq->link;
	int r = connect_result(l->fd);

	if (r < 0)
		return connect_failed(wq, now, r);
	if (r == 0)
		return now < l->this_until_ns ? 0 : connect_failed(wq, now, -ETIMEDOUT);
	if (wq->addr.kind != ADDRESS_TLS)
		return greet(wq, now);
	r = secure_begin(wq);
	if (r < 0)
		return link_down(wq, now, r, true);
	link_move(l, LINK_TLS);
	return 0;
}

static int
turn_tls(wq_t *wq, int64_t now)
{
	int r = secure_turn(wq);

	if (r < 0)
		return link_down(wq, now, r, is_fatal(r));
	if (r > 0)
		return greet(wq, now);
	return now < wq->link.try_until_ns ? 0 : link_down(wq, now, -ETIMEDOUT, false);
}

static int
send_hello_secure(struct link *l, int64_t now)
{
	/* The end of the handshake may not have left yet. */
	int err = tls_flush(l->tls, l->fd);

	if (err == 0 && l->hello_off == 0 && tls_unsent(l->tls) == 0) {
		err = tls_put(l->tls, l->hello, l->hello_len);
		if (err < 0)
			return err;
		l->hello_off = l->hello_len;
		l->hello_sent_ns = now;
		err = tls_flush(l->tls, l->fd);
	}
	return err < 0 ? system_error(-err) : 0;
}

static int
send_hello(struct link *l, int64_t now)
{
	if (l->tls)
		return send_hello_secure(l, now);
	while (l->hello_off < l->hello_len) {
		ssize_t n = send(
			l->fd, l->hello + l->hello_off, l->hello_len - l->hello_off, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : system_error(errno);
		if (l->hello_off == 0)
			l->hello_sent_ns = now;
		l->hello_off += (size_t)n;
	}
	return 0;
}

static int
turn_hello(wq_t *wq, int64_t now, int ready)
{
	struct link *l = &wq->link;
	int err = send_hello(l, now);

	/* What the daemon said before it closed explains more than a broken pipe. */
	if (err == 0 || (ready & WQ_READABLE))
		err = recv_turn(wq, now);
	if (err < 0)
		return link_down(wq, now, err == WQ_ERR_CLOSED ? -ECONNRESET : err, is_fatal(err));
	if (l->state == LINK_HELLO && now >= l->try_until_ns)
		return link_down(wq, now, -ETIMEDOUT, false);
	return 0;
}

/* On a connection that worked, REFUSED_LIMIT without a request's id means that a message was too
 * much for the daemon: it would be so again. */
static bool
is_fatal_up(int error)
{
	return is_fatal(error) || error == -WQ_REFUSED_LIMIT;
}

static int
turn_up(wq_t *wq, int64_t now, int ready)
{
	int err = 0;
	bool fatal;

	if ((ready & WQ_READABLE) || (wq->link.tls && tls_pending(wq->link.tls)))
		err = recv_turn(wq, now);
	if (err == 0)
		err = send_turn(wq, now);
	if (err == 0)
		return 0;
	fatal = is_fatal_up(err);
	return link_down(wq, now, fatal ? err : WQ_ERR_CLOSED, fatal);
}

static int64_t
bounded(int64_t v)
{
	return v > INT64_MAX / 2 ? INT64_MAX / 2 : v < -(INT64_MAX / 2) ? -(INT64_MAX / 2) : v;
}

int
link_greeted(wq_t *wq, int64_t now, const Wq__V1__Reply *r)
{
	struct link *l = &wq->link;
	int result = reply_result(r->status);
	int64_t wall;

	if (result < 0) {
		message_set(wq, r->message);
		return result;
	}
	if (!r->hello || r->hello->version != 1 || r->hello->frame_max == 0)
		return WQ_ERR_PROTOCOL;
	l->frame_max = r->hello->frame_max;
	wall = bounded(later_ns(0, bounded(r->hello->now_ms)));
	l->offset.lo_ns = bounded(wall - now);
	l->offset.hi_ns = bounded(wall + NS_PER_MS - l->hello_sent_ns);
	l->up_since_ns = now;
	l->last_error = 0;
	link_move(l, LINK_UP);
	requests_fail(wq, pending_too_large(&wq->pend, l->frame_max), WQ_ERR_TOO_LARGE);
	return 0;
}

void
link_want(wq_t *wq)
{
	wq->link.gone = false;
}

int
link_turn(wq_t *wq, int64_t now, int ready)
{
	struct link *l = &wq->link;
	int err = 0;

	if (l->state == LINK_CLOSED) {
		if (l->gone)
			return l->last_error;
		err = link_start(wq, now);
	} else if (l->state == LINK_WAIT && now >= l->retry_at_ns) {
		err = link_start(wq, now);
	}
	if (err == 0 && l->state == LINK_CONNECTING)
		err = turn_connecting(wq, now);
	if (err == 0 && l->state == LINK_TLS)
		err = turn_tls(wq, now);
	if (err == 0 && l->state == LINK_HELLO)
		err = turn_hello(wq, now, ready);
	if (err == 0 && l->state == LINK_UP)
		err = turn_up(wq, now, ready);
	return err;
}

int64_t
link_next_due(const wq_t *wq)
{
	const struct link *l = &wq->link;

	switch (l->state) {
	case LINK_CLOSED:
		return l->gone ? NEVER_NS : 0;
	case LINK_CONNECTING:
		return l->this_until_ns;
	case LINK_TLS:
	case LINK_HELLO:
		return l->try_until_ns;
	case LINK_WAIT:
		return l->retry_at_ns;
	case LINK_UP:
		break;
	}
	return NEVER_NS;
}
