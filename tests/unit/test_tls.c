/*
 * net/tls: the server's side against the library's own client, in memory.
 */
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/err.h"
#include "unit/certs.h"
#include "unit/unit.h"

static char dir[64], paths[4][4][128];
static struct tls *tls;
static struct tls_config config;
static struct tls_error error;

enum { CA, SERVER, CLIENT, STRANGER };
enum { PEM, KEY, HALF };
static const char *const names[] = { "ca", "server", "client", "stranger" };

static void
make_all(void)
{
	const struct certs_spec spec[] = {
		{ "CA", 0, NULL, 0, 10 * CERTS_DAY, true },
		{ "localhost", 0, "DNS:localhost", 0, 10 * CERTS_DAY, false },
		{ "worker", 0, "DNS:w.example,email:w@example,URI:urn:w,IP:10.0.0.1", 0,
			10 * CERTS_DAY, false },
		{ "st\0ranger", 9, "DNS:stranger.example", 0, 10 * CERTS_DAY, false },
	};

	for (int i = 0; i < 4; i++) {
		certs_make(dir, names[i], i == CA ? NULL : "ca", &spec[i]);
		snprintf(paths[i][PEM], sizeof paths[i][PEM], "%s/%s.pem", dir, names[i]);
		snprintf(paths[i][KEY], sizeof paths[i][KEY], "%s/%s.key", dir, names[i]);
	}
}

static void
half_of(int who)
{
	char text[4096];
	FILE *f = fopen(paths[who][PEM], "r");
	size_t n = fread(text, 1, sizeof text, f);

	fclose(f);
	snprintf(paths[who][HALF], sizeof paths[who][HALF], "%s/half.pem", dir);
	f = fopen(paths[who][HALF], "w");
	fwrite(text, 1, n / 2, f);
	fclose(f);
}

static void
up(void)
{
	snprintf(dir, sizeof dir, "/tmp/wqd-tls-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	make_all();
	config = (struct tls_config){ .cert = paths[SERVER][PEM], .key = paths[SERVER][KEY] };
	ck_assert_int_eq(tls_new(&config, &tls, &error), 0);
}

static void
down(void)
{
	tls_free(tls);
	certs_remove(dir);
}

/* ---- both sides ---- */

struct both {
	SSL_CTX *ctx;
	SSL *client;
	BIO *to_client, *from_client;
	struct tls_conn *server;
	struct buf out; /* the server's, for the client */
	size_t piece;   /* bytes given to the server at once; 0: all */
	uint8_t text[1 << 20];
	size_t n_text; /* what the server has got */
};

static void
both_init(struct both *b, int version, int who)
{
	*b = (struct both){ 0 };
	b->ctx = SSL_CTX_new(TLS_client_method());
	if (version)
		ck_assert(SSL_CTX_set_min_proto_version(b->ctx, version) &&
			SSL_CTX_set_max_proto_version(b->ctx, version));
	ck_assert(SSL_CTX_load_verify_file(b->ctx, paths[CA][PEM]));
	if (who)
		ck_assert(SSL_CTX_use_certificate_chain_file(b->ctx, paths[who][PEM]) &&
			SSL_CTX_use_PrivateKey_file(b->ctx, paths[who][KEY], SSL_FILETYPE_PEM));
	SSL_CTX_set_verify(b->ctx, SSL_VERIFY_PEER, NULL);
	b->client = SSL_new(b->ctx);
	ck_assert(SSL_set1_host(b->client, "localhost"));
	b->to_client = BIO_new(BIO_s_mem());
	b->from_client = BIO_new(BIO_s_mem());
	SSL_set_bio(b->client, b->to_client, b->from_client);
	SSL_set_connect_state(b->client);
	buf_init(&b->out, 4u << 20);
	ck_assert_int_eq(tls_conn_new(tls, &b->server), 0);
}

static void
both_done(struct both *b)
{
	tls_conn_free(b->server);
	buf_done(&b->out);
	SSL_free(b->client);
	SSL_CTX_free(b->ctx);
}

/* What each has said goes to the other. */
static void
carry(struct both *b)
{
	static uint8_t raw[1 << 20], text[(1 << 20) + TLS_RECORD_MAX];
	int n = BIO_read(b->from_client, raw, sizeof raw);

	for (int at = 0; at < n;) {
		size_t piece =
			b->piece && b->piece < (size_t)(n - at) ? b->piece : (size_t)(n - at);
		size_t got = tls_conn_input(b->server, raw + at, piece, text, &b->out);

		unit_check(b->n_text + got <= sizeof b->text);
		memcpy(b->text + b->n_text, text, got);
		b->n_text += got;
		at += (int)piece;
	}
	if (buf_len(&b->out)) {
		BIO_write(b->to_client, buf_head(&b->out), (int)buf_len(&b->out));
		buf_consume(&b->out, buf_len(&b->out));
	}
}

static bool
shake(struct both *b)
{
	for (int i = 0; i < 20; i++) {
		int r = SSL_do_handshake(b->client);

		carry(b);
		if (r == 1 && tls_conn_state(b->server) != TLS_HANDSHAKE)
			return tls_conn_state(b->server) == TLS_OPEN;
		if (tls_conn_state(b->server) == TLS_FAILED)
			return false;
	}
	return false;
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
static const size_t pieces[] = { 0, 1, 7, 1000, 16384 };

START_TEST(text_passes_both_ways_in_any_pieces)
{
	static struct both b;
	static uint8_t text[300000], back[300000];
	size_t k, got = 0;

	ck_assert_int_eq(getrandom(text, sizeof text, 0), sizeof text);
	both_init(&b, versions[_i % 2], 0);
	b.piece = pieces[_i / 2];
	ck_assert(shake(&b));
	ck_assert(SSL_write_ex(b.client, text, sizeof text, &k));
	carry(&b);
	ck_assert_uint_eq(b.n_text, sizeof text);
	ck_assert_int_eq(memcmp(b.text, text, sizeof text), 0);
	ck_assert_int_eq(tls_conn_output(b.server, text, sizeof text, &b.out), 0);
	ck_assert_uint_le(buf_len(&b.out), sizeof text + sizeof text / 30 + 500);
	carry(&b);
	while (SSL_read_ex(b.client, back + got, sizeof back - got, &k))
		got += k;
	ck_assert_uint_eq(got, sizeof text);
	ck_assert_int_eq(memcmp(back, text, sizeof text), 0);
	both_done(&b);
}
END_TEST

START_TEST(text_before_a_goodbye_is_delivered_with_it)
{
	static struct both b;

	both_init(&b, versions[_i], 0);
	ck_assert(shake(&b));
	ck_assert_int_eq(SSL_write(b.client, "last words", 10), 10);
	SSL_shutdown(b.client);
	carry(&b);
	ck_assert_uint_eq(b.n_text, 10);
	ck_assert_int_eq(memcmp(b.text, "last words", 10), 0);
	ck_assert_int_eq(tls_conn_state(b.server), TLS_ENDED);
	/* Our half is open still. */
	ck_assert_int_eq(tls_conn_output(b.server, (const uint8_t *)"yours", 5, &b.out), 0);
	tls_conn_end(b.server, &b.out);
	tls_conn_end(b.server, &b.out);
	carry(&b);
	ck_assert_int_eq(SSL_read(b.client, b.text, 10), 5);
	ck_assert_int_eq(SSL_shutdown(b.client), 1);
	both_done(&b);
}
END_TEST

START_TEST(nonsense_fails_with_a_reason_at_any_point)
{
	static struct both b;
	static uint8_t text[65536 + TLS_RECORD_MAX], noise[65536];

	for (int i = 0; i < 200; i++) {
		size_t n = 1 + (size_t)i * 320, got;

		ck_assert_int_eq(getrandom(noise, n, 0), (ssize_t)n);
		/* Otherwise it may be a record whose end has to be waited for. */
		noise[0] = i % 2 ? 0xff : 0x17;
		noise[1] = 3;
		noise[2] = 3;
		noise[3] = 0;
		both_init(&b, versions[i % 2], 0);
		if (i % 3)
			ck_assert(shake(&b));
		got = tls_conn_input(b.server, noise, n, text, &b.out);
		unit_check(got == 0);
		if (n > 300) {
			ck_assert_int_eq(tls_conn_state(b.server), TLS_FAILED);
			ck_assert_uint_gt(strlen(tls_conn_why(b.server)), 0);
			ck_assert_int_lt(tls_conn_output(b.server, noise, 1, &b.out), 0);
			ck_assert_uint_eq(tls_conn_input(b.server, noise, n, text, &b.out), 0);
		}
		tls_conn_end(b.server, &b.out);
		both_done(&b);
	}
}
END_TEST

START_TEST(a_full_buffer_is_an_error_and_no_loss_of_mind)
{
	static struct both b;
	uint8_t text[1000] = { 0 };

	both_init(&b, 0, 0);
	ck_assert(shake(&b));
	b.out.max = buf_len(&b.out) + 100;
	ck_assert_int_eq(tls_conn_output(b.server, text, sizeof text, &b.out), ERR_CLOSED);
	ck_assert_int_eq(tls_conn_state(b.server), TLS_FAILED);
	both_done(&b);
}
END_TEST

/* ---- certificates ---- */

static bool
has_name(const char *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i += strlen(list + i) + 1)
		if (strcmp(list + i, name) == 0)
			return true;
	return false;
}

START_TEST(a_client_is_known_by_its_certificate)
{
	static struct both b;
	char list[256];
	size_t n;

	config.client_ca = paths[CA][PEM];
	config.clients = TLS_CLIENTS_REQUIRE;
	ck_assert_int_eq(tls_reload(tls, &config, &error), 0);
	both_init(&b, versions[_i], CLIENT);
	ck_assert(shake(&b));
	n = tls_conn_names(b.server, list, sizeof list);
	ck_assert(has_name(list, n, "worker") && has_name(list, n, "w.example") &&
		has_name(list, n, "w@example") && has_name(list, n, "urn:w"));
	/* What finds no room is left out whole. */
	ck_assert_uint_eq(tls_conn_names(b.server, list, 7), 7);
	ck_assert_uint_eq(tls_conn_names(b.server, list, 5), 0);
	both_done(&b);
	/* A name with a NUL inside is nobody's. */
	both_init(&b, versions[_i], STRANGER);
	ck_assert(shake(&b));
	n = tls_conn_names(b.server, list, sizeof list);
	ck_assert(!has_name(list, n, "st") && has_name(list, n, "stranger.example"));
	both_done(&b);
	both_init(&b, versions[_i], 0);
	ck_assert(!shake(&b));
	ck_assert_int_eq(tls_conn_state(b.server), TLS_FAILED);
	both_done(&b);
}
END_TEST

START_TEST(a_pair_that_is_no_good_changes_nothing)
{
	struct tls_view before, after;
	static struct both b;
	struct tls_config bad[6];
	char nowhere[160];

	half_of(SERVER);
	snprintf(nowhere, sizeof nowhere, "%s/nowhere", dir);
	for (size_t i = 0; i < 6; i++)
		bad[i] = config;
	bad[0].key = paths[CLIENT][KEY];
	bad[1].cert = paths[SERVER][HALF];
	bad[2].key = paths[SERVER][PEM];
	bad[3].cert = nowhere;
	bad[4].client_ca = nowhere;
	bad[4].clients = TLS_CLIENTS_REQUEST;
	bad[5].clients = TLS_CLIENTS_REQUIRE;
	tls_view_get(tls, &before);
	for (size_t i = 0; i < 6; i++) {
		struct tls *none;

		error.text[0] = '\0';
		ck_assert_int_lt(tls_reload(tls, &bad[i], &error), 0);
		ck_assert_ptr_nonnull(strstr(error.text, "tls_"));
		ck_assert_int_lt(tls_new(&bad[i], &none, &error), 0);
	}
	tls_view_get(tls, &after);
	ck_assert_str_eq(before.serial, after.serial);
	ck_assert_str_eq(before.subject, "/CN=localhost");
	both_init(&b, 0, 0);
	ck_assert(shake(&b));
	both_done(&b);
}
END_TEST

START_TEST(a_new_pair_is_for_newcomers)
{
	static struct both b;
	struct tls_view v;

	both_init(&b, 0, 0);
	ck_assert(shake(&b));
	config.cert = paths[CLIENT][PEM];
	config.key = paths[CLIENT][KEY];
	ck_assert_int_eq(tls_reload(tls, &config, &error), 0);
	tls_view_get(tls, &v);
	ck_assert_str_eq(v.subject, "/CN=worker");
	ck_assert_int_gt(v.not_after_s, time(NULL) + 9 * CERTS_DAY);
	ck_assert_int_eq(SSL_write(b.client, "on", 2), 2);
	carry(&b);
	ck_assert_uint_eq(b.n_text, 2);
	both_done(&b);
}
END_TEST

START_TEST(without_memory_there_is_an_error_and_no_leak)
{
	int err = -1;

	for (int n = 0; n < 50 && err; n++) {
		struct tls *t;

		alloc_fault_set(n, 0);
		err = tls_new(&config, &t, &error);
		if (!err) {
			struct tls_conn *c;

			alloc_fault_set(0, 0);
			ck_assert_int_eq(tls_conn_new(t, &c), -ENOMEM);
			tls_free(t);
		}
		alloc_fault_set(-1, 0);
	}
	ck_assert_int_eq(err, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("tls");
	TCase *tc = unit_case(s, "tls");

	tcase_add_checked_fixture(tc, up, down);
	tcase_add_loop_test(tc, text_passes_both_ways_in_any_pieces, 0, 10);
	tcase_add_loop_test(tc, text_before_a_goodbye_is_delivered_with_it, 0, 2);
	tcase_add_test(tc, nonsense_fails_with_a_reason_at_any_point);
	tcase_add_test(tc, a_full_buffer_is_an_error_and_no_loss_of_mind);
	tcase_add_loop_test(tc, a_client_is_known_by_its_certificate, 0, 2);
	tcase_add_test(tc, a_pair_that_is_no_good_changes_nothing);
	tcase_add_test(tc, a_new_pair_is_for_newcomers);
	tcase_add_test(tc, without_memory_there_is_an_error_and_no_leak);
	return unit_run(s);
}
