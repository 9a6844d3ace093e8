/*
 * libwq inside TLS: the scripted daemon stands behind a front that speaks TLS on
 * a port of the loopback and passes the text on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "unit/certs.h"
#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "wq.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name

static char dir[64], cert[4][128];
enum { GOOD, ELSEWHERE, EXPIRED, SELF };

/* ---- a socket that takes nothing ---- */

/* After so many sends of this thread so many find no room; -1: all do. */
static _Thread_local int full_after = -1, full_for;

/* Stands in for the C library's, in all of the program. */
ssize_t
send(int fd, const void *p, size_t n, int flags)
{
	if (full_after == 0 && full_for > 0) {
		full_for--;
		errno = EAGAIN;
		return -1;
	}
	if (full_after > 0)
		full_after--;
	return sendto(fd, p, n, flags, NULL, 0);
}

/* ---- the front ---- */

struct front {
	int at;
	char address[64], numeric[64];
	const char *unix_path;
	SSL_CTX *ctx;
	bool silent;   /* never answers the handshake */
	bool resets;   /* ends with a reset, not with a goodbye */
	size_t record; /* bytes of text in a record; 0: as many as there are */
	pthread_t thread;
};

static bool
pump_out(const struct front *f, SSL *ssl, int fd)
{
	uint8_t text[65536];
	ssize_t n = read(fd, text, sizeof text);

	for (ssize_t at = 0; at < n;) {
		size_t k = f->record && f->record < (size_t)(n - at) ? f->record : (size_t)(n - at);

		if (SSL_write(ssl, text + at, (int)k) <= 0)
			return false;
		at += (ssize_t)k;
	}
	return n > 0;
}

static bool
pump_in(SSL *ssl, int fd)
{
	uint8_t text[65536];
	int n;

	do {
		n = SSL_read(ssl, text, sizeof text);
		if (n <= 0 || write(fd, text, (size_t)n) != n)
			return false;
	} while (SSL_pending(ssl) > 0);
	return true;
}

static void
pump(const struct front *f, SSL *ssl, int fd)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int back = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { back, POLLIN, 0 } };

	memcpy(un.sun_path, f->unix_path, strlen(f->unix_path));
	if (connect(back, (struct sockaddr *)&un, sizeof un) == 0)
		while (poll(p, 2, -1) > 0)
			if ((p[0].revents && !pump_in(ssl, back)) ||
				(p[1].revents && !pump_out(f, ssl, back)))
				break;
	close(back);
}

static void
serve(const struct front *f, int fd)
{
	const struct linger hard = { 1, 0 };
	SSL *ssl = SSL_new(f->ctx);
	char c;

	SSL_set_fd(ssl, fd);
	if (f->silent) {
		while (read(fd, &c, 1) > 0)
			;
	} else if (SSL_accept(ssl) == 1) {
		pump(f, ssl, fd);
		if (f->resets)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
		else
			SSL_shutdown(ssl);
	}
	SSL_free(ssl);
	close(fd);
}

static void *
front_main(void *arg)
{
	struct front *f = arg;
	int fd;

	while ((fd = accept4(f->at, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		serve(f, fd);
	OPENSSL_thread_stop();
	return NULL;
}

static void
front_start(struct front *f, const char *unix_path, int which)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof sin;
	char key[128];

	f->unix_path = unix_path;
	f->at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(f->at, (struct sockaddr *)&sin, sizeof sin), 0);
	ck_assert_int_eq(listen(f->at, 16), 0);
	getsockname(f->at, (struct sockaddr *)&sin, &len);
	snprintf(f->address, sizeof f->address, "tls://localhost:%u", ntohs(sin.sin_port));
	snprintf(f->numeric, sizeof f->numeric, "tls://127.0.0.1:%u", ntohs(sin.sin_port));
	f->ctx = SSL_CTX_new(TLS_server_method());
	snprintf(key, sizeof key, "%.*s.key", (int)strlen(cert[which]) - 4, cert[which]);
	ck_assert(SSL_CTX_use_certificate_chain_file(f->ctx, cert[which]));
	ck_assert(SSL_CTX_use_PrivateKey_file(f->ctx, key, SSL_FILETYPE_PEM));
	ck_assert_int_eq(pthread_create(&f->thread, NULL, front_main, f), 0);
}

static void
front_stop(struct front *f)
{
	shutdown(f->at, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->at);
	SSL_CTX_free(f->ctx);
}

/* ---- fixture ---- */

static void
up(void)
{
	const struct certs_spec ca = { "CA", 0, NULL, -30 * CERTS_DAY, CERTS_DAY, true };
	const char *good = "DNS:localhost,IP:127.0.0.1";
	const struct certs_spec spec[] = {
		{ "localhost", 0, good, 0, CERTS_DAY, false },
		{ "elsewhere", 0, "DNS:elsewhere.example", 0, CERTS_DAY, false },
		{ "localhost", 0, good, -20 * CERTS_DAY, -CERTS_DAY, false },
		{ "localhost", 0, good, 0, CERTS_DAY, false },
	};
	static const char *const base[] = { "good", "elsewhere", "expired", "self" };

	snprintf(dir, sizeof dir, "/tmp/wq-tls-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	certs_make(dir, "ca", NULL, &ca);
	for (int i = 0; i < 4; i++) {
		certs_make(dir, base[i], i == SELF ? NULL : "ca", &spec[i]);
		snprintf(cert[i], sizeof cert[i], "%s/%s.pem", dir, base[i]);
	}
}

static void
down(void)
{
	certs_remove(dir);
}

static const char *
options(const char *more)
{
	static char text[512];

	snprintf(text, sizeof text, "tls_ca=%s/ca.pem%s%s", dir, *more ? "," : "", more);
	return text;
}

/* ---- whom it trusts ---- */

static void
script_greet(struct fake *f)
{
	fake_greet(f);
	fake_wait_eof(f);
}

/* WQ_ERR_* of a connect to a daemon with that certificate. */
static int
connects(int which, bool numeric, const char *more)
{
	struct front front = { 0 };
	struct fake f;
	wq_t *wq = NULL;
	int err;

	fake_init(&f);
	front_start(&front, f.path, which);
	err = wq_connect(numeric ? front.numeric : front.address, NULL, &wq);
	ck_assert_int_eq(err, WQ_ERR_UNTRUSTED); /* by the system's store */
	ck_assert_ptr_nonnull(strstr(wq_message(NULL), "tls://"));
	fake_run(&f, script_greet, NULL);
	err = wq_connect(numeric ? front.numeric : front.address, options(more), &wq);
	if (err) {
		wq_t *other;

		/* The script still waits for somebody. */
		ck_assert_int_eq(wq_connect(f.server, NULL, &other), 0);
		wq_free(other);
	}
	wq_free(err ? NULL : wq);
	front_stop(&front);
	fake_done(&f);
	return err;
}

START_TEST(TLS_03_only_a_good_certificate_is_taken)
{
	ck_assert_int_eq(connects(GOOD, _i, ""), 0);
	ck_assert_int_eq(connects(ELSEWHERE, _i, ""), WQ_ERR_WRONG_NAME);
	ck_assert_int_eq(connects(EXPIRED, _i, ""), WQ_ERR_EXPIRED);
	ck_assert_int_eq(connects(SELF, _i, ""), WQ_ERR_UNTRUSTED);
	for (int i = GOOD; i <= SELF; i++)
		ck_assert_int_eq(connects(i, _i, "insecure=yes"), 0);
	ck_assert_int_eq(connects(ELSEWHERE, _i, "tls_name=elsewhere.example"), 0);
	ck_assert_int_eq(connects(GOOD, _i, "tls_name=elsewhere.example"), WQ_ERR_WRONG_NAME);
}
END_TEST

static void
note(wq_t *wq, const wq_reply_t *r, void *arg)
{
	(void)wq;
	*(int *)arg = r->result;
}

START_TEST(TLS_03_a_request_never_leaves_for_a_stranger)
{
	struct front front = { 0 };
	struct fake f;
	int result = 0;
	wq_t *wq;

	fake_init(&f);
	front_start(&front, f.path, SELF);
	ck_assert_int_eq(wq_new(front.address, &wq), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &result), 0);
	ck_assert_int_eq(wq_run(wq, -1), WQ_ERR_UNTRUSTED);
	ck_assert_int_eq(result, WQ_ERR_UNTRUSTED);
	ck_assert_int_eq(wq_retriable(result), 0);
	wq_free(wq);
	front_stop(&front);
	fake_done(&f);
}
END_TEST

/* ---- time, ends, signals ---- */

START_TEST(a_handshake_that_stalls_is_given_up)
{
	struct front front = { .silent = true };
	wq_t *wq;

	front_start(&front, "/nowhere", GOOD);
	ck_assert_int_eq(
		wq_connect(front.address, options("connect_timeout=30ms"), &wq), -ETIMEDOUT);
	front_stop(&front);
}
END_TEST

static void
script_twice(struct fake *f)
{
	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	fake_close(f);
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(a_broken_connection_is_made_again)
{
	struct front front = { .resets = _i };
	struct fake f;
	wq_result_t r;
	wq_t *wq;

	/* A write to a socket that is gone kills nobody. */
	signal(SIGPIPE, SIG_DFL);
	fake_init(&f);
	front_start(&front, f.path, GOOD);
	fake_run(&f, script_twice, NULL);
	ck_assert_int_eq(
		wq_connect(front.address, options("reconnect_min=1ms,reconnect_max=5ms"), &wq), 0);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1000, NULL, &r), 0);
	ck_assert_int_eq(r.status, WQ_CREATED);
	wq_free(wq);
	front_stop(&front);
	fake_done(&f);
}
END_TEST

#define MANY 3000

static void
script_many(struct fake *f)
{
	static uint64_t ids[MANY];

	fake_greet(f);
	/* All are taken before the first is answered: the front does one thing at a time. */
	for (int i = 0; i < MANY; i++) {
		Wq__V1__Request *q = fake_expect(f, OP(UPDATE));

		ids[i] = q->id;
		fake_free(q);
	}
	for (int i = 0; i < MANY; i++)
		fake_status(f, ids[i], ST(CREATED));
	fake_wait_eof(f);
}

static void
count(wq_t *wq, const wq_reply_t *r, void *arg)
{
	(void)wq;
	ck_assert_int_eq(r->result, 0);
	++*(int *)arg;
}

/* A reply may be in a record that is decrypted already, with nothing more to come on the socket. */
START_TEST(what_is_left_inside_the_layer_is_delivered)
{
	static const size_t records[] = { 0, 1, 100, 16384 };
	struct front front = { .record = records[_i] };
	static uint8_t payload[100000];
	wq_update_opts_t o = WQ_UPDATE_INIT;
	struct fake f;
	int n = 0;
	wq_t *wq;

	o.payload_mode = WQ_PAYLOAD_REPLACE;
	o.payload = payload;
	fake_init(&f);
	front_start(&front, f.path, GOOD);
	fake_run(&f, script_many, NULL);
	ck_assert_int_eq(wq_connect(front.address, options(""), &wq), 0);
	for (int i = 0; i < MANY; i++) {
		o.payload_len = i % 500 ? 10 : sizeof payload;
		ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1000, &o, count, &n), 0);
	}
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(n, MANY);
	wq_free(wq);
	front_stop(&front);
	fake_done(&f);
}
END_TEST

/* The hello waits for the handshake's last bytes. */
START_TEST(a_full_socket_keeps_nothing_from_being_said)
{
	struct front front = { 0 };
	struct fake f;
	wq_t *wq;
	int err;

	fake_init(&f);
	front_start(&front, f.path, GOOD);
	fake_run(&f, script_greet, NULL);
	full_after = _i;
	full_for = 3;
	err = wq_connect(front.address, options(""), &wq);
	full_after = -1;
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(full_for, 0);
	wq_free(wq);
	front_stop(&front);
	fake_done(&f);
}
END_TEST

START_TEST(without_memory_it_fails_and_leaks_nothing)
{
	struct front front = { 0 };
	int err = -ENOMEM;

	/* Behind the front nobody is: the handshake is all that works. */
	front_start(&front, "/nowhere", GOOD);
	for (int n = 0; n < 100 && err == -ENOMEM; n++) {
		wq_t *wq;

		client_mem_fail_after(n);
		err = wq_connect(front.address, options("reconnect=no"), &wq);
		client_mem_fail_after(-1);
	}
	ck_assert_int_eq(err, -ECONNRESET);
	front_stop(&front);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq tls");
	TCase *tc = client_case(s, "tls");

	signal(SIGPIPE, SIG_IGN); /* of the front */
	tcase_add_checked_fixture(tc, up, down);
	tcase_add_loop_test(tc, TLS_03_only_a_good_certificate_is_taken, 0, 2);
	tcase_add_test(tc, TLS_03_a_request_never_leaves_for_a_stranger);
	tcase_add_test(tc, a_handshake_that_stalls_is_given_up);
	tcase_add_loop_test(tc, a_broken_connection_is_made_again, 0, 2);
	tcase_add_loop_test(tc, what_is_left_inside_the_layer_is_delivered, 0, 4);
	/* The first to be sent: hello of TLS, end of the handshake, ours. */
	tcase_add_loop_test(tc, a_full_socket_keeps_nothing_from_being_said, 0, 3);
	tcase_add_test(tc, without_memory_it_fails_and_leaks_nothing);
	return unit_run(s);
}
