/*
 * TLS: bytes of one side into bytes of the other. The only place that knows
 * OpenSSL's TLS. It does no I/O: what was read from a socket goes in, what is to be
 * written comes out into a buffer, and everything that can be decrypted is
 * decrypted at once, so nothing is ever left inside that nobody asks for.
 *
 * TLS 1.2 and 1.3; ciphers with forward secrecy and authenticated encryption
 * alone; no renegotiation, compression or early data; sessions are resumed by
 * tickets whose keys go with the certificate, so that a reload ends them.
 *
 * Loop thread only.
 */
#ifndef WQD_NET_TLS_H
#define WQD_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct tls;      /* certificate, key and who is trusted: what all connections share */
struct tls_conn; /* one connection */

enum tls_clients { TLS_CLIENTS_OFF, TLS_CLIENTS_REQUEST, TLS_CLIENTS_REQUIRE };

struct tls_config {
	const char *cert;      /* PEM: the certificate, then its chain */
	const char *key;       /* PEM, not encrypted */
	const char *client_ca; /* PEM: who may issue certificates of clients; NULL: none */
	enum tls_clients clients;
};

/* Why it failed: one line, always terminated. */
struct tls_error {
	char text[512];
};

/* What it is now. */
struct tls_view {
	char subject[256], serial[64];
	int64_t not_after_s; /* Unix time */
};

/* -errno, ERR_BAD_VALUE: a file that is no PEM, a key that does not belong to the certificate,
 * ERR_NOT_OURS: a pipe in place of a file. */
int
tls_new(const struct tls_config *cfg, struct tls **out, struct tls_error *err);
/* For connections made from now on; on failure everything is as it was. */
int
tls_reload(struct tls *t, const struct tls_config *cfg, struct tls_error *err);
/* No connection may be left. NULL is allowed. */
void
tls_free(struct tls *t);
void
tls_view_get(const struct tls *t, struct tls_view *out);

/* ---- one connection ---- */

enum tls_state {
	TLS_HANDSHAKE,
	TLS_OPEN,
	TLS_ENDED,  /* the peer has said that it sends no more */
	TLS_FAILED, /* tls_conn_why says why */
};

#define TLS_RECORD_MAX 16384u /* bytes of text that one record holds */

/* As the server. 0 or -ENOMEM. */
int
tls_conn_new(struct tls *t, struct tls_conn **out);
/* NULL is allowed. */
void
tls_conn_free(struct tls_conn *tc);
enum tls_state
tls_conn_state(const struct tls_conn *tc);
/* Of a failed one; static storage of the library or of `tc`. */
const char *
tls_conn_why(const struct tls_conn *tc);
/*
 * Takes all `n` bytes that were read. Returns the bytes of text that came of them, at `dst`, which
 * has room for n + TLS_RECORD_MAX. What is to be sent (a handshake's messages, an alert) is
 * appended to `out`. The state tells what else has happened.
 */
size_t
tls_conn_input(struct tls_conn *tc, const uint8_t *p, size_t n, uint8_t *dst, struct buf *out);
/* Appends `n` bytes of text, encrypted, to `out`: at most a thirtieth and some hundred bytes more.
 * Only when open. 0; or a negative error, and the connection has to go. */
int
tls_conn_output(struct tls_conn *tc, const uint8_t *p, size_t n, struct buf *out);
/* Appends the word that nothing more will be sent. Idempotent; harmless in any state. */
void
tls_conn_end(struct tls_conn *tc, struct buf *out);
/*
 * The names in the verified certificate of the client: its common name and alternative names (DNS,
 * e-mail, URI), each ended by a NUL, at most `size` bytes; those that are no clean text or find
 * no room are left out. Returns the bytes; 0: no certificate.
 */
size_t
tls_conn_names(const struct tls_conn *tc, char *dst, size_t size);

#endif
