/*
 * TLS records, the server's side. What the first byte says:
 *
 *   raw       bytes from the first on, by one who knows no key
 *   after     such bytes behind a handshake that was right
 *   text      the library's own client sends the input as text, in records and
 *             pieces of the input's choice: all of it arrives, as it was
 *   changed   the same with one bit turned on its way: nothing that arrives was
 *             not sent, and the connection ends
 *   names     a client's certificate with the input as its names: what they
 *             come to is clean text
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "net/tls.h"

#define TEXT_MAX  (64u << 10)
#define RAW_MAX   (256u << 10)
#define NAMES_MAX 300
#define ROUNDS    20

enum what { RAW, AFTER, TEXT, CHANGED, NAMES, WHATS };

static struct {
	struct tls *tls;
	EVP_PKEY *key; /* of the server, of the authority and of clients */
	X509 *ca;
} w;

/* ---- certificates ---- */

/* NULL: the library itself won't have such a name. */
static X509 *
certificate(const char *cn, size_t cn_n, int cn_type, X509 *by, struct str alt)
{
	static long serial;
	X509 *x = X509_new();
	X509_EXTENSION *e;
	ASN1_OCTET_STRING *der;

	wq_assert(x && X509_set_version(x, X509_VERSION_3) && X509_set_pubkey(x, w.key));
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400l);
	X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, cn_type,
		(const unsigned char *)cn, (int)cn_n, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(by ? by : x));
	if (alt.n) {
		der = ASN1_OCTET_STRING_new();
		wq_assert(der &&
			ASN1_OCTET_STRING_set(der, (const unsigned char *)alt.p, (int)alt.n));
		e = X509_EXTENSION_create_by_NID(NULL, NID_subject_alt_name, 0, der);
		wq_assert(e && X509_add_ext(x, e, -1));
		X509_EXTENSION_free(e);
		ASN1_OCTET_STRING_free(der);
	}
	if (!by) {
		e = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
		wq_assert(e && X509_add_ext(x, e, -1));
		X509_EXTENSION_free(e);
	}
	if (X509_sign(x, w.key, EVP_sha256()))
		return x;
	X509_free(x);
	return NULL;
}

/* A file that is in memory; kept. */
static void
file_of(char path[64], X509 *x)
{
	int fd = memfd_create("pem", MFD_CLOEXEC);
	FILE *f;

	wq_assert(fd >= 0);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	f = fopen(path, "w");
	wq_assert(f);
	wq_assert(x ? PEM_write_X509(f, x)
		    : PEM_write_PrivateKey(f, w.key, NULL, NULL, 0, NULL, NULL));
	wq_assert(fclose(f) == 0);
}

static void
set_up(void)
{
	char cert[64], key[64];
	const struct tls_config cfg = {
		.cert = cert,
		.key = key,
		.client_ca = cert,
		.clients = TLS_CLIENTS_REQUEST,
	};
	struct tls_error err;

	w.key = EVP_EC_gen("P-256");
	wq_assert(w.key);
	w.ca = certificate("CA", 2, V_ASN1_UTF8STRING, NULL, STR_NONE);
	wq_assert(w.ca);
	file_of(cert, w.ca);
	file_of(key, NULL);
	wq_assert(tls_new(&cfg, &w.tls, &err) == 0);
}

/* ---- both sides ---- */

struct both {
	SSL_CTX *ctx;
	SSL *client;
	BIO *to_client, *from_client;
	struct tls_conn *server;
	struct buf out;
	struct buf text; /* what the server has got */
	size_t piece;    /* bytes given to the server at once */
	size_t turn;     /* byte of which a bit is turned; SIZE_MAX: none */
	bool turned;
};

static void
both_init(struct both *b, int version, X509 *mine)
{
	*b = (struct both){ .piece = 4096, .turn = SIZE_MAX };
	b->ctx = SSL_CTX_new(TLS_client_method());
	wq_assert(b->ctx && SSL_CTX_set_max_proto_version(b->ctx, version));
	if (mine)
		wq_assert(SSL_CTX_use_certificate(b->ctx, mine) == 1 &&
			SSL_CTX_use_PrivateKey(b->ctx, w.key) == 1);
	b->client = SSL_new(b->ctx);
	b->to_client = BIO_new(BIO_s_mem());
	b->from_client = BIO_new(BIO_s_mem());
	wq_assert(b->client && b->to_client && b->from_client);
	SSL_set_bio(b->client, b->to_client, b->from_client);
	SSL_set_connect_state(b->client);
	buf_init(&b->out, RAW_MAX);
	buf_init(&b->text, 2 * TEXT_MAX);
	wq_assert(tls_conn_new(w.tls, &b->server) == 0);
}

static void
both_done(struct both *b)
{
	tls_conn_end(b->server, &b->out);
	tls_conn_free(b->server);
	buf_done(&b->out);
	buf_done(&b->text);
	SSL_free(b->client);
	SSL_CTX_free(b->ctx);
}

/* The server gets `n` bytes, in pieces; each in memory of its own length. */
static void
give(struct both *b, const uint8_t *p, size_t n)
{
	for (size_t at = 0, piece; at < n; at += piece) {
		uint8_t *in, *text;
		size_t got;

		piece = b->piece < n - at ? b->piece : n - at;
		in = (uint8_t *)fuzz_copy(p + at, piece, false);
		text = must_alloc(piece + TLS_RECORD_MAX);
		if (b->turn >= at && b->turn < at + piece) {
			in[b->turn - at] ^= 1;
			b->turned = true;
		}
		got = tls_conn_input(b->server, in, piece, text, &b->out);
		wq_assert(got <= piece + TLS_RECORD_MAX);
		wq_assert(buf_put(&b->text, text, got) == 0);
		x_free(text);
		x_free(in);
		if (tls_conn_state(b->server) == TLS_FAILED)
			wq_assert(tls_conn_why(b->server) && *tls_conn_why(b->server));
	}
}

static void
carry(struct both *b)
{
	uint8_t *p;
	long n = BIO_get_mem_data(b->from_client, &p);

	if (n > 0)
		give(b, p, (size_t)n);
	(void)BIO_reset(b->from_client);
	if (buf_len(&b->out))
		wq_assert(BIO_write(b->to_client, buf_head(&b->out), (int)buf_len(&b->out)) > 0);
	buf_consume(&b->out, buf_len(&b->out));
}

static bool
shake(struct both *b)
{
	for (int i = 0; i < ROUNDS && tls_conn_state(b->server) != TLS_FAILED; i++) {
		int r = SSL_do_handshake(b->client);

		carry(b);
		if (r == 1 && tls_conn_state(b->server) == TLS_OPEN)
			return true;
	}
	return false;
}

/* ---- what is tried ---- */

static void
raw(struct fuzz_in *in, struct both *b)
{
	size_t said;

	b->piece = 1 + fuzz_below(in, 64) * 16;
	give(b, in->p, in->n < TEXT_MAX ? in->n : TEXT_MAX);
	/* Without the keys nobody says anything. */
	wq_assert(buf_len(&b->text) == 0);
	/* Nor is he told much. */
	said = buf_len(&b->out);
	wq_assert(said < RAW_MAX);
	if (tls_conn_state(b->server) == TLS_FAILED) {
		give(b, in->p, in->n < 64 ? in->n : 64);
		wq_assert(buf_len(&b->out) == said);
		wq_assert(tls_conn_output(b->server, (const uint8_t *)"x", 1, &b->out) < 0);
	}
}

/* The client says what the input says, in records as the input says. */
static void
text(struct fuzz_in *in, struct both *b, bool change)
{
	size_t at = 0, n, wrote;
	const uint8_t *all;

	b->piece = 1 + fuzz_below(in, 256) * 8;
	n = 1 + fuzz_below(in, 255);
	if (change)
		b->turn = fuzz_below(in, 256);
	all = in->p;
	in->n = in->n < TEXT_MAX ? in->n : TEXT_MAX;
	while (at < in->n) {
		size_t piece = n < in->n - at ? n : in->n - at;

		wq_assert(SSL_write_ex(b->client, all + at, piece, &wrote) && wrote == piece);
		at += piece;
	}
	carry(b);
	wq_assert(buf_len(&b->text) <= at);
	wq_assert(
		buf_len(&b->text) == 0 || memcmp(buf_head(&b->text), all, buf_len(&b->text)) == 0);
	if (b->turned)
		wq_assert(tls_conn_state(b->server) != TLS_OPEN || buf_len(&b->text) < at);
	else
		wq_assert(buf_len(&b->text) == at && tls_conn_state(b->server) == TLS_OPEN);
}

static void
look_at_names(const struct both *b, size_t room)
{
	char *names = must_alloc(room);
	size_t n = tls_conn_names(b->server, names, room);

	wq_assert(n <= room && (n == 0 || names[n - 1] == '\0'));
	for (size_t i = 0; i < n; i++)
		wq_assert(names[i] == '\0' ? i > 0 && names[i - 1] != '\0'
					   : (unsigned char)names[i] >= 0x20 && names[i] != 0x7f);
	x_free(names);
}

static void
named(struct fuzz_in *in, int version)
{
	static const int types[] = { V_ASN1_UTF8STRING, V_ASN1_T61STRING, V_ASN1_BMPSTRING,
		V_ASN1_IA5STRING };
	int type = types[fuzz_below(in, 4)];
	struct str cn = fuzz_str(in, 64);
	struct str alt = { (const char *)in->p, in->n < 4096 ? in->n : 4096 };
	X509 *x = certificate(cn.p, cn.n, type, w.ca, alt);
	struct both b;

	if (!x)
		return;
	both_init(&b, version, x);
	if (shake(&b)) {
		look_at_names(&b, NAMES_MAX);
		look_at_names(&b, 1 + cn.n);
	}
	both_done(&b);
	X509_free(x);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned first = fuzz_below(&in, 2 * WHATS);
	int version = first & 1 ? TLS1_2_VERSION : TLS1_3_VERSION;
	enum what what = (enum what)(first / 2);
	struct both b;
	int64_t live;

	if (!w.tls)
		set_up();
	ERR_clear_error();
	live = alloc_live();
	if (what == NAMES) {
		named(&in, version);
	} else {
		both_init(&b, version, NULL);
		if (what == RAW || shake(&b)) {
			if (what == RAW || what == AFTER)
				raw(&in, &b);
			else
				text(&in, &b, what == CHANGED);
		}
		both_done(&b);
	}
	wq_assert(alloc_live() == live);
	return 0;
}
