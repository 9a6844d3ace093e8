#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "mem.h"
#include "must.h"
#include "wq.h"

#define IN_SIZE 32768u /* encrypted bytes of one read */

struct tls {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO_METHOD *method;
	uint8_t *in; /* owned, IN_SIZE */
	size_t in_start, in_end;
	bool in_over; /* the socket's end */
	bool verifies;
	int failed;   /* for good */
	uint8_t *out; /* owned */
	size_t out_start, out_end, out_cap;
	bool no_memory;
	char why[256];
};

/* ---- the library's side ---- */

static int
on_read(BIO *b, char *dst, size_t n, size_t *got)
{
	struct tls *t = BIO_get_data(b);
	size_t have = t->in_end - t->in_start;

	BIO_clear_retry_flags(b);
	if (have == 0) {
		if (!t->in_over)
			BIO_set_retry_read(b);
		return 0;
	}
	*got = n < have ? n : have;
	memcpy(dst, t->in + t->in_start, *got);
	t->in_start += *got;
	return 1;
}

static int
on_write(BIO *b, const char *p, size_t n, size_t *put)
{
	struct tls *t = BIO_get_data(b);
	size_t cap = t->out_cap ? t->out_cap : 4096;
	uint8_t *grown;

	BIO_clear_retry_flags(b);
	while (cap - t->out_end < n)
		cap *= 2;
	if (cap != t->out_cap) {
		grown = mem_grow(t->out, cap, 1);
		if (!grown) {
			t->no_memory = true;
			return 0;
		}
		t->out = grown;
		t->out_cap = cap;
	}
	memcpy(t->out + t->out_end, p, n);
	t->out_end += n;
	*put = n;
	return 1;
}

static long
on_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

/* ---- life ---- */

/* The first that was said is the cause; those behind it only say where it was met. */
static const char *
complaint(void)
{
	unsigned long e = ERR_peek_error();
	const char *s = NULL;

	if (ERR_SYSTEM_ERROR(e))
		s = strerrordesc_np(ERR_GET_REASON(e));
	else if (e)
		s = ERR_reason_error_string(e);
	ERR_clear_error();
	return s ? s : "no memory";
}

static int
bad_file(struct tls *t, const char *path)
{
	snprintf(t->why, sizeof t->why, "%.160s: %s", path, complaint());
	return WQ_ERR_TLS;
}

static int
no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static int
load_trusted(struct tls *t, const char *ca)
{
	struct stat st;
	int ok;

	if (!*ca)
		return SSL_CTX_set_default_verify_paths(t->ctx) ? 0 : -ENOMEM;
	if (stat(ca, &st) < 0) {
		snprintf(t->why, sizeof t->why, "%.160s: %s", ca, strerrordesc_np(errno));
		return WQ_ERR_TLS;
	}
	ok = S_ISDIR(st.st_mode) ? SSL_CTX_load_verify_dir(t->ctx, ca)
				 : SSL_CTX_load_verify_file(t->ctx, ca);
	return ok ? 0 : bad_file(t, ca);
}

static int
load_own(struct tls *t, const struct tls_options *o)
{
	/* One file may hold both. */
	static const char no_key[] = " (its private key is looked for there: no tls_key is given)";
	const char *key = *o->key ? o->key : o->cert;
	size_t n;
	int err;

	if (!*o->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(t->ctx, o->cert) != 1)
		return bad_file(t, o->cert);
	if (SSL_CTX_use_PrivateKey_file(t->ctx, key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(t->ctx) != 1) {
		err = bad_file(t, key);
		n = strlen(t->why);
		if (!*o->key)
			snprintf(t->why + n, sizeof t->why - n, "%s", no_key);
		return err;
	}
	return 0;
}

static bool
is_numeric(const char *name)
{
	uint8_t a[16];

	return inet_pton(AF_INET, name, a) == 1 || inet_pton(AF_INET6, name, a) == 1;
}

/* SSL_set_tlsext_host_name casts the const away where clang sees it. The name is copied. */
static bool
send_name(SSL *ssl, const char *name)
{
	return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
		       (void *)(uintptr_t)name) == 1;
}

/* Whom we want to talk to: said to the peer, and looked for in its certificate. */
static int
expect(struct tls *t, const struct tls_options *o)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
	bool numeric = is_numeric(o->name);

	if (!numeric && !send_name(t->ssl, o->name))
		return -ENOMEM;
	if (o->insecure)
		return 0;
	t->verifies = true;
	SSL_set_verify(t->ssl, SSL_VERIFY_PEER, NULL);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return (numeric ? X509_VERIFY_PARAM_set1_ip_asc(param, o->name)
			: SSL_set1_host(t->ssl, o->name))
		? 0
		: -ENOMEM;
}

static int
context_new(struct tls *t, const struct tls_options *o)
{
	int err;

	t->ctx = SSL_CTX_new(TLS_client_method());
	if (!t->ctx)
		return -ENOMEM;
	SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(t->ctx, no_password);
	err = o->insecure ? 0 : load_trusted(t, o->ca);
	return err ? err : load_own(t, o);
}

static int
session_new(struct tls *t, const struct tls_options *o)
{
	BIO *bio;

	t->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "wq");
	if (!t->method || !BIO_meth_set_read_ex(t->method, on_read) ||
		!BIO_meth_set_write_ex(t->method, on_write) ||
		!BIO_meth_set_ctrl(t->method, on_ctrl))
		return -ENOMEM;
	t->ssl = SSL_new(t->ctx);
	bio = t->ssl ? BIO_new(t->method) : NULL;
	if (!bio)
		return -ENOMEM;
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_connect_state(t->ssl);
	return expect(t, o);
}

int
tls_new(const struct tls_options *o, struct tls **out)
{
	struct tls *t = mem_zalloc(sizeof *t);
	int err;

	*out = t;
	if (!t)
		return -ENOMEM;
	t->in = mem_alloc(IN_SIZE);
	if (!t->in)
		return -ENOMEM;
	ERR_clear_error();
	err = context_new(t, o);
	if (err == 0)
		err = session_new(t, o);
	ERR_clear_error();
	return err;
}

void
tls_free(struct tls *t, int fd)
{
	if (!t)
		return;
	if (fd >= 0 && t->ssl && SSL_is_init_finished(t->ssl) && tls_unsent(t) == 0) {
		(void)SSL_shutdown(t->ssl);
		(void)tls_flush(t, fd);
	}
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	BIO_meth_free(t->method);
	ERR_clear_error();
	mem_free(t->in);
	mem_free(t->out);
	mem_free(t);
}

const char *
tls_why(const struct tls *t)
{
	return t ? t->why : "";
}

/* ---- bytes ---- */

size_t
tls_unsent(const struct tls *t)
{
	return t->out_end - t->out_start;
}

int
tls_flush(struct tls *t, int fd)
{
	while (tls_unsent(t) > 0) {
		ssize_t n = send(fd, t->out + t->out_start, tls_unsent(t), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		t->out_start += (size_t)n;
	}
	t->out_start = t->out_end = 0;
	return 0;
}

/* More encrypted bytes, when all are used up. 1: there are; 0: the end; -EAGAIN, other -errno. */
static int
fetch(struct tls *t, int fd)
{
	ssize_t n;

	MUST(t->in_start == t->in_end);
	if (t->in_over)
		return 0;
	do
		n = recv(fd, t->in, IN_SIZE, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	t->in_over = n == 0;
	t->in_start = 0;
	t->in_end = (size_t)n;
	return n > 0;
}

/* What the certificate's verification made of it. */
static int
verdict(struct tls *t)
{
	long v = t->verifies ? SSL_get_verify_result(t->ssl) : X509_V_OK;
	const char *what = complaint();

	if (t->no_memory)
		return -ENOMEM;
	snprintf(t->why, sizeof t->why, "%s",
		v == X509_V_OK ? what : X509_verify_cert_error_string(v));
	switch (v) {
	case X509_V_OK:
		return WQ_ERR_TLS;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return WQ_ERR_WRONG_NAME;
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return WQ_ERR_EXPIRED;
	default:
		return WQ_ERR_UNTRUSTED;
	}
}

/* A call of the library that brought nothing. 1: it has to have more bytes; 0: the end; negative. */
static int
stopped(struct tls *t, int result)
{
	int e = SSL_get_error(t->ssl, result);

	if (e == SSL_ERROR_WANT_READ)
		return 1;
	if (e == SSL_ERROR_ZERO_RETURN || (t->in_over && t->in_start == t->in_end)) {
		ERR_clear_error();
		return 0;
	}
	t->failed = verdict(t);
	return t->failed;
}

int
tls_shake(struct tls *t, int fd)
{
	int r, err, sent;

	for (;;) {
		ERR_clear_error();
		r = SSL_do_handshake(t->ssl);
		err = r > 0 ? 1 : stopped(t, r);
		/* Also an alert that says what we think of its certificate. */
		sent = tls_flush(t, fd);
		if (err < 0)
			return err;
		if (err == 0)
			return -ECONNRESET;
		if (sent < 0)
			return sent;
		if (r > 0)
			return 1;
		err = fetch(t, fd);
		if (err < 0)
			return err == -EAGAIN ? 0 : err;
	}
}

ssize_t
tls_recv(struct tls *t, int fd, void *dst, size_t n)
{
	size_t got = 0, k;
	int r, err;

	if (t->failed)
		return t->failed;
	while (got < n) {
		ERR_clear_error();
		r = SSL_read_ex(t->ssl, (char *)dst + got, n - got, &k);
		if (r > 0) {
			got += k;
			continue;
		}
		err = stopped(t, r);
		if (err > 0)
			err = fetch(t, fd);
		if (err > 0)
			continue;
		/* What has come is given first; an end or a failure shows again. */
		return got > 0 ? (ssize_t)got : err;
	}
	return (ssize_t)got;
}

bool
tls_pending(const struct tls *t)
{
	return t->in_start < t->in_end || t->in_over || SSL_has_pending(t->ssl);
}

int
tls_put(struct tls *t, const void *p, size_t n)
{
	size_t put;
	int r;

	MUST(tls_unsent(t) == 0);
	ERR_clear_error();
	r = SSL_write_ex(t->ssl, p, n, &put);
	if (r > 0 && put == n)
		return 0;
	return verdict(t);
}
