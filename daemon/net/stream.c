#include "net/stream.h"

#include <unistd.h>

#include "base/assert.h"

/* Text encrypted at once, and what that may come to: 16 records with their heads and tails, and a
 * handshake's last words. */
#define PIECE_MAX (16 * TLS_RECORD_MAX)
#define RAW_MAX   (2 * PIECE_MAX)

void
stream_init(struct stream *s, int fd)
{
	*s = (struct stream){ .fd = fd };
	buf_init(&s->raw, RAW_MAX);
}

int
stream_secure(struct stream *s, struct tls *t)
{
	return tls_conn_new(t, &s->tls);
}

/* Sends what is encrypted. True: all of it has left. *err: the peer takes no more. */
static bool
send_raw(struct stream *s, int *err)
{
	size_t len = buf_len(&s->raw);
	ssize_t n;

	*err = 0;
	if (len == 0)
		return true;
	n = send(s->fd, buf_head(&s->raw), len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0)
		buf_consume(&s->raw, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		*err = -errno;
	if (buf_len(&s->raw) == 0 && s->raw.cap > KEEP_MAX)
		buf_release(&s->raw);
	return n == (ssize_t)len;
}

int
stream_send_secure(struct stream *s, struct buf *out)
{
	int err;

	while (send_raw(s, &err) && buf_len(out) > 0 && !stream_shakes(s)) {
		size_t n = buf_len(out) < PIECE_MAX ? buf_len(out) : PIECE_MAX;

		err = tls_conn_output(s->tls, buf_head(out), n, &s->raw);
		if (err)
			return err;
		buf_consume(out, n);
	}
	return err;
}

ssize_t
stream_recv_secure(struct stream *s, uint8_t *dst, size_t room, uint8_t *scratch)
{
	size_t got;
	ssize_t n;
	int err;

	wq_assert(room >= STREAM_ROOM_MIN);
	if (stream_ended(s))
		return 0;
	n = recv(s->fd, scratch, room - TLS_RECORD_MAX, MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (n == 0)
		return 0;
	got = tls_conn_input(s->tls, scratch, (size_t)n, dst, &s->raw);
	/* An alert is of no use later. */
	if (tls_conn_state(s->tls) == TLS_FAILED)
		send_raw(s, &err);
	if (got > 0)
		return (ssize_t)got;
	switch (tls_conn_state(s->tls)) {
	case TLS_HANDSHAKE:
	case TLS_OPEN:
		return -EAGAIN;
	case TLS_ENDED:
		return 0;
	case TLS_FAILED:
		break;
	}
	return -EPROTO;
}

static void
say_end(struct stream *s)
{
	int err;

	if (!s->tls)
		return;
	tls_conn_end(s->tls, &s->raw);
	send_raw(s, &err);
}

void
stream_shut(struct stream *s)
{
	say_end(s);
	shutdown(s->fd, SHUT_WR);
}

void
stream_done(struct stream *s)
{
	say_end(s);
	tls_conn_free(s->tls);
	close(s->fd);
	buf_done(&s->raw);
}
