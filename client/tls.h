/*
 * TLS of one connection: text on one side, the socket on the other. The only part of the library
 * that knows OpenSSL. Nothing here blocks, and nothing raises SIGPIPE.
 *
 * A connection makes everything anew, certificates are read from their files again: what was
 * renewed meanwhile is used at the next connect.
 */
#ifndef WQ_CLIENT_TLS_H
#define WQ_CLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls;

struct tls_options {
	const char *name; /* whom the peer's certificate has to name: a host or a numeric address */
	const char *ca;   /* file or folder of those who are trusted; "": the system's */
	const char *cert, *key; /* of our own; "": none */
	bool insecure;          /* whoever it is */
};

/* 0; -ENOMEM; WQ_ERR_TLS: a file can't be used, tls_why says which. In both cases free *out. */
int
tls_new(const struct tls_options *o, struct tls **out);
/* NULL is allowed. Says goodbye at `fd` (-1: does not) without waiting. */
void
tls_free(struct tls *t, int fd);
/* A sentence on the last failure. */
const char *
tls_why(const struct tls *t);
/*
 * A step of the handshake. 1: done; 0: it goes on, when there is something to read, or to write
 * where tls_unsent; negative: WQ_ERR_UNTRUSTED, WQ_ERR_WRONG_NAME, WQ_ERR_EXPIRED, WQ_ERR_TLS,
 * -ECONNRESET or another -errno.
 */
int
tls_shake(struct tls *t, int fd);
/* As recv: bytes of text, as many as there are or find room; 0: the end; -EAGAIN; WQ_ERR_TLS; other
 * -errno. */
ssize_t
tls_recv(struct tls *t, int fd, void *dst, size_t n);
/* There is input that the socket no longer shows: tls_recv would have something. */
bool
tls_pending(const struct tls *t);
/* Takes `n` bytes of text, while nothing is unsent. 0 or a negative error. */
int
tls_put(struct tls *t, const void *p, size_t n);
#define TLS_PUT_MAX 16384u /* bytes that make one record */
/* Sends what can be sent. 0 or -errno. */
int
tls_flush(struct tls *t, int fd);
/* Bytes encrypted and not sent. */
size_t
tls_unsent(const struct tls *t);

#endif
