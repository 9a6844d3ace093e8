#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "engine/ops.h"

#define TLS_MAGIC      0x715c0001u
#define TLS_CONN_MAGIC 0x715c0002u

/* Of a client's certificate and its chain: bytes, and length. */
#define CERT_LIST_MAX 65536
#define CHAIN_MAX     8
/* TLS 1.3 has no others. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls {
	unsigned magic;
	SSL_CTX *ctx;       /* owned; connections hold on to theirs */
	BIO_METHOD *method; /* owned */
	struct tls_view view;
	size_t n_conns;
};

struct tls_conn {
	unsigned magic;
	struct tls *t; /* borrowed */
	SSL *ssl;      /* owned */
	enum tls_state state;
	const uint8_t *in; /* borrowed while a call goes on: what is left of its input */
	size_t n_in;
	struct buf *out; /* borrowed while a call goes on */
	bool ended;      /* our end */
	char why[160];
};

/* ---- the library's side of a connection ---- */

static int
on_read(BIO *b, char *dst, size_t n, size_t *got)
{
	struct tls_conn *tc = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (tc->n_in == 0) {
		BIO_set_retry_read(b);
		return 0;
	}
	*got = n < tc->n_in ? n : tc->n_in;
	memcpy(dst, tc->in, *got);
	tc->in += *got;
	tc->n_in -= *got;
	return 1;
}

static int
on_write(BIO *b, const char *p, size_t n, size_t *put)
{
	struct tls_conn *tc = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (!tc->out || buf_put(tc->out, p, n) < 0)
		return 0;
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

static BIO_METHOD *
method_new(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "wqd");

	if (m && BIO_meth_set_read_ex(m, on_read) && BIO_meth_set_write_ex(m, on_write) &&
		BIO_meth_set_ctrl(m, on_ctrl))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- certificates ---- */

/* The library's latest complaint; its queue is empty after. */
static const char *
complaint(void)
{
	unsigned long e = ERR_peek_last_error();
	const char *s = NULL;

	if (ERR_SYSTEM_ERROR(e))
		s = err_str(-ERR_GET_REASON(e));
	else if (e)
		s = ERR_reason_error_string(e);
	ERR_clear_error();
	return s ? s : "no memory";
}

static int
fail(struct tls_error *err, const char *option, const char *path)
{
	snprintf(err->text, sizeof err->text, "%s: %s: %s", option, path, complaint());
	return ERR_BAD_VALUE;
}

/* A key that wants a password would have it asked for at the terminal. */
static int
no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static void
set_up(SSL_CTX *ctx)
{
	static const unsigned char name[] = "wqd";

	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx,
		SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	/* Tens of kilobytes for each idle connection are not kept. */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(ctx, name, sizeof name - 1);
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_max_cert_list(ctx, CERT_LIST_MAX);
	SSL_CTX_set_verify_depth(ctx, CHAIN_MAX);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
}

static int
load_clients(SSL_CTX *ctx, const struct tls_config *cfg, struct tls_error *err)
{
	STACK_OF(X509_NAME) * names;
	int mode = SSL_VERIFY_PEER;

	if (cfg->clients == TLS_CLIENTS_OFF)
		return 0;
	if (!cfg->client_ca) {
		snprintf(err->text, sizeof err->text,
			"tls_clients: certificates of clients need tls_client_ca");
		return ERR_BAD_VALUE;
	}
	names = SSL_load_client_CA_file(cfg->client_ca);
	if (!names || !SSL_CTX_load_verify_file(ctx, cfg->client_ca)) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return fail(err, "tls_client_ca", cfg->client_ca);
	}
	SSL_CTX_set_client_CA_list(ctx, names);
	if (cfg->clients == TLS_CLIENTS_REQUIRE)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(ctx, mode, NULL);
	return 0;
}

static void
view_of(SSL_CTX *ctx, struct tls_view *v)
{
	const X509 *x = SSL_CTX_get0_certificate(ctx);
	BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), NULL);
	char *hex = serial ? BN_bn2hex(serial) : NULL;
	struct tm tm = { 0 };

	*v = (struct tls_view){ 0 };
	X509_NAME_oneline(X509_get_subject_name(x), v->subject, sizeof v->subject);
	snprintf(v->serial, sizeof v->serial, "%s", hex ? hex : "?");
	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm))
		v->not_after_s = timegm(&tm);
	OPENSSL_free(hex);
	BN_free(serial);
}

/* The library would wait for somebody at the other end. */
static int
refuse_pipe(struct tls_error *err, const char *option, const char *path)
{
	struct stat sb;

	if (!path || stat(path, &sb) < 0 || !S_ISFIFO(sb.st_mode))
		return 0;
	snprintf(err->text, sizeof err->text, "%s: %s: it is a pipe", option, path);
	return ERR_NOT_OURS;
}

static int
context_new(const struct tls_config *cfg, SSL_CTX **out, struct tls_view *v, struct tls_error *err)
{
	SSL_CTX *ctx;
	int code = refuse_pipe(err, "tls_cert", cfg->cert);

	if (!code)
		code = refuse_pipe(err, "tls_key", cfg->key);
	if (!code)
		code = refuse_pipe(err, "tls_client_ca", cfg->client_ca);
	if (code)
		return code;
	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_server_method());
	if (!ctx || !SSL_CTX_set_cipher_list(ctx, CIPHERS_12)) {
		SSL_CTX_free(ctx);
		snprintf(err->text, sizeof err->text, "TLS: %s", complaint());
		return -ENOMEM;
	}
	set_up(ctx);
	if (SSL_CTX_use_certificate_chain_file(ctx, cfg->cert) != 1)
		code = fail(err, "tls_cert", cfg->cert);
	else if (SSL_CTX_use_PrivateKey_file(ctx, cfg->key, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(ctx) != 1)
		code = fail(err, "tls_key", cfg->key);
	else
		code = load_clients(ctx, cfg, err);
	if (code) {
		SSL_CTX_free(ctx);
		return code;
	}
	view_of(ctx, v);
	ERR_clear_error();
	*out = ctx;
	return 0;
}

int
tls_new(const struct tls_config *cfg, struct tls **out, struct tls_error *err)
{
	struct tls *t = x_zalloc(sizeof *t);
	int code;

	if (!t) {
		snprintf(err->text, sizeof err->text, "TLS: no memory");
		return -ENOMEM;
	}
	t->magic = TLS_MAGIC;
	t->method = method_new();
	if (!t->method) {
		snprintf(err->text, sizeof err->text, "TLS: no memory");
		code = -ENOMEM;
	} else {
		code = context_new(cfg, &t->ctx, &t->view, err);
	}
	if (code) {
		tls_free(t);
		return code;
	}
	*out = t;
	return 0;
}

int
tls_reload(struct tls *t, const struct tls_config *cfg, struct tls_error *err)
{
	struct tls_view view;
	SSL_CTX *ctx;
	int code;

	CHECK_OBJ(t, TLS_MAGIC);
	code = context_new(cfg, &ctx, &view, err);
	if (code)
		return code;
	SSL_CTX_free(t->ctx);
	t->ctx = ctx;
	t->view = view;
	return 0;
}

void
tls_free(struct tls *t)
{
	if (!t)
		return;
	CHECK_OBJ(t, TLS_MAGIC);
	wq_assert(t->n_conns == 0);
	SSL_CTX_free(t->ctx);
	BIO_meth_free(t->method);
	MAGIC_DONE(t);
	x_free(t);
}

void
tls_view_get(const struct tls *t, struct tls_view *out)
{
	CHECK_OBJ(t, TLS_MAGIC);
	*out = t->view;
}

/* ---- connections ---- */

int
tls_conn_new(struct tls *t, struct tls_conn **out)
{
	struct tls_conn *tc = x_zalloc(sizeof *tc);
	BIO *bio;

	CHECK_OBJ(t, TLS_MAGIC);
	if (!tc)
		return -ENOMEM;
	*tc = (struct tls_conn){ .magic = TLS_CONN_MAGIC, .t = t };
	t->n_conns++;
	tc->ssl = SSL_new(t->ctx);
	bio = tc->ssl ? BIO_new(t->method) : NULL;
	if (!bio) {
		ERR_clear_error();
		tls_conn_free(tc);
		return -ENOMEM;
	}
	BIO_set_data(bio, tc);
	BIO_set_init(bio, 1);
	SSL_set_bio(tc->ssl, bio, bio);
	SSL_set_accept_state(tc->ssl);
	*out = tc;
	return 0;
}

void
tls_conn_free(struct tls_conn *tc)
{
	if (!tc)
		return;
	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	tc->t->n_conns--;
	SSL_free(tc->ssl);
	MAGIC_DONE(tc);
	x_free(tc);
}

enum tls_state
tls_conn_state(const struct tls_conn *tc)
{
	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	return tc->state;
}

const char *
tls_conn_why(const struct tls_conn *tc)
{
	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	return tc->why;
}

static void
failed(struct tls_conn *tc)
{
	long v = SSL_get_verify_result(tc->ssl);

	tc->state = TLS_FAILED;
	snprintf(tc->why, sizeof tc->why, "%s%s%s", complaint(), v == X509_V_OK ? "" : ": ",
		v == X509_V_OK ? "" : X509_verify_cert_error_string(v));
}

/* A read that brought nothing: the end, a failure, or only for now. */
static void
stopped(struct tls_conn *tc, int result)
{
	int e = SSL_get_error(tc->ssl, result);

	if (e == SSL_ERROR_ZERO_RETURN)
		tc->state = TLS_ENDED;
	else if (e != SSL_ERROR_WANT_READ)
		failed(tc);
	else if (tc->state == TLS_HANDSHAKE && SSL_is_init_finished(tc->ssl))
		tc->state = TLS_OPEN;
}

size_t
tls_conn_input(struct tls_conn *tc, const uint8_t *p, size_t n, uint8_t *dst, struct buf *out)
{
	size_t room = n + TLS_RECORD_MAX, got = 0, k;
	int r;

	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	if (tc->state > TLS_OPEN)
		return 0;
	tc->in = p;
	tc->n_in = n;
	tc->out = out;
	ERR_clear_error();
	while ((r = SSL_read_ex(tc->ssl, dst + got, room - got, &k)) > 0) {
		tc->state = TLS_OPEN;
		got += k;
		wq_assert(got < room);
	}
	stopped(tc, r);
	tc->in = NULL;
	tc->out = NULL;
	wq_assert(tc->n_in == 0 || tc->state > TLS_OPEN);
	tc->n_in = 0;
	return got;
}

int
tls_conn_output(struct tls_conn *tc, const uint8_t *p, size_t n, struct buf *out)
{
	size_t put = 0;
	int r;

	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	if (tc->state != TLS_OPEN && tc->state != TLS_ENDED)
		return ERR_CLOSED;
	tc->out = out;
	ERR_clear_error();
	r = SSL_write_ex(tc->ssl, p, n, &put);
	tc->out = NULL;
	if (r > 0 && put == n)
		return 0;
	failed(tc);
	return ERR_CLOSED;
}

void
tls_conn_end(struct tls_conn *tc, struct buf *out)
{
	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	if (tc->ended || tc->state == TLS_HANDSHAKE || tc->state == TLS_FAILED)
		return;
	tc->ended = true;
	tc->out = out;
	/* The peer's own word is not waited for. */
	(void)SSL_shutdown(tc->ssl);
	tc->out = NULL;
	ERR_clear_error();
}

/* ---- names of a client ---- */

struct names {
	char *dst;
	size_t size, n;
};

static void
names_add(struct names *l, const ASN1_STRING *s)
{
	unsigned char *utf8 = NULL;
	int n = s ? ASN1_STRING_to_UTF8(&utf8, s) : -1;

	if (n > 0 && key_valid((struct str){ (const char *)utf8, (size_t)n }) &&
		(size_t)n + 1 <= l->size - l->n) {
		memcpy(l->dst + l->n, utf8, (size_t)n);
		l->n += (size_t)n;
		l->dst[l->n++] = '\0';
	}
	OPENSSL_free(utf8);
}

static void
names_alternative(struct names *l, X509 *x)
{
	GENERAL_NAMES *list = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; i < sk_GENERAL_NAME_num(list); i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(list, i);

		if (g->type == GEN_DNS || g->type == GEN_EMAIL || g->type == GEN_URI)
			names_add(l, g->d.ia5);
	}
	GENERAL_NAMES_free(list);
}

size_t
tls_conn_names(const struct tls_conn *tc, char *dst, size_t size)
{
	struct names l = { .dst = dst, .size = size };
	const X509_NAME *subject;
	X509 *x;
	int at = -1;

	CHECK_OBJ(tc, TLS_CONN_MAGIC);
	x = SSL_get0_peer_certificate(tc->ssl);
	if (!x || SSL_get_verify_result(tc->ssl) != X509_V_OK)
		return 0;
	subject = X509_get_subject_name(x);
	while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0)
		names_add(&l, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	names_alternative(&l, x);
	ERR_clear_error();
	return l.n;
}
