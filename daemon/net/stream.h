/*
 * The bytes of one connection on its socket, plain or inside TLS: reading and
 * writing for net/conn. For the files of net/ alone.
 *
 * Inside TLS a read takes from the socket once, as a plain one does, and gives
 * all the text that comes of it; a write encrypts a bounded piece at a time and
 * only when the one before has left, so that what is encrypted and unsent is
 * bounded too. Loop thread only.
 */
#ifndef WQD_NET_STREAM_H
#define WQD_NET_STREAM_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/tls.h"

struct stream {
	int fd;               /* owned */
	struct tls_conn *tls; /* owned; NULL: plain */
	struct buf raw;       /* TLS: encrypted, not sent */
};

/* What one read may bring of encrypted bytes, so that its text is no more than `room`. */
#define STREAM_ROOM_MIN (2 * TLS_RECORD_MAX)
/* Memory that an emptied buffer of an idle peer may keep. */
#define KEEP_MAX 4096u

/* Takes the descriptor. */
void
stream_init(struct stream *s, int fd);
/* 0 or -ENOMEM; the stream is still to be closed. */
int
stream_secure(struct stream *s, struct tls *t);
/* Closes; says so to a TLS peer that may listen. */
void
stream_done(struct stream *s);
ssize_t
stream_recv_secure(struct stream *s, uint8_t *dst, size_t room, uint8_t *scratch);
int
stream_send_secure(struct stream *s, struct buf *out);
/* Everything is sent: our end is shut. */
void
stream_shut(struct stream *s);

/*
 * Reads once. > 0: bytes of text at `dst`, at most `room`; 0: the peer's end; -EAGAIN: nothing for
 * now; else a negative error: it is of no more use. `scratch` has room for `room` bytes, and is
 * touched for TLS alone.
 */
static inline ssize_t
stream_recv(struct stream *s, uint8_t *dst, size_t room, uint8_t *scratch)
{
	ssize_t n;

	if (s->tls)
		return stream_recv_secure(s, dst, room, scratch);
	n = recv(s->fd, dst, room, MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return n;
}

/* Sends what the socket takes now of `out`, which is consumed. 0, or a negative error: the peer
 * takes no more. */
static inline int
stream_send(struct stream *s, struct buf *out)
{
	ssize_t n;

	if (s->tls)
		return stream_send_secure(s, out);
	n = send(s->fd, buf_head(out), buf_len(out), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0)
		buf_consume(out, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		return -errno;
	return 0;
}

/* Bytes that have been taken and not yet left. */
static inline size_t
stream_unsent(const struct stream *s)
{
	return buf_len(&s->raw);
}

/* A handshake goes on. */
static inline bool
stream_shakes(const struct stream *s)
{
	return s->tls && tls_conn_state(s->tls) == TLS_HANDSHAKE;
}

/* The peer has said that it sends no more. */
static inline bool
stream_ended(const struct stream *s)
{
	return s->tls && tls_conn_state(s->tls) > TLS_OPEN;
}

#endif
