/*
 * A reschedule over TLS, beside a TLS server that only carries the bytes: epoll,
 * one SSL object on each socket, all that a turn brings read, then answered with
 * one write. Server on core 0, generator on core 1; certificates by P-256.
 *
 *   bench_tls [WQD [JOBS [ROUNDS [MS]]]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "bench/requests.h"

#define CONNS   64
#define IN_SIZE (512u << 10)
#define PORT    17431 /* wqd's; the echo's is the next */

static char dir[64] = "/tmp/wq-bench-XXXXXX";
static uint8_t in[IN_SIZE], out[IN_SIZE];

/* ---- a certificate ---- */

static void
make_pair(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	char path[96];
	FILE *f;

	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
		(const unsigned char *)"bench", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_sign(x, key, EVP_sha256());
	snprintf(path, sizeof path, "%s/cert.pem", dir);
	f = fopen(path, "we");
	if (!f || !PEM_write_X509(f, x) || fclose(f))
		bench_die("%s can't be written", path);
	snprintf(path, sizeof path, "%s/key.pem", dir);
	f = fopen(path, "we");
	if (!f || !PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) || fclose(f))
		bench_die("%s can't be written", path);
	X509_free(x);
	EVP_PKEY_free(key);
}

static SSL_CTX *
context(bool server)
{
	SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	char cert[96], key[96];

	snprintf(cert, sizeof cert, "%s/cert.pem", dir);
	snprintf(key, sizeof key, "%s/key.pem", dir);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, 65536);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	if (server &&
		(!SSL_CTX_use_certificate_chain_file(ctx, cert) ||
			!SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM)))
		bench_die("no certificate in %s", dir);
	return ctx;
}

/* ---- the yardstick ---- */

static struct {
	SSL *ssl;
	size_t part;
} peers[1024];

static void
write_all(SSL *ssl, const uint8_t *p, size_t n)
{
	size_t put;

	while (n > 0 && SSL_write_ex(ssl, p, n, &put)) {
		p += put;
		n -= put;
	}
}

static void
serve(int fd, size_t request, size_t reply)
{
	SSL *ssl = peers[fd].ssl;
	size_t got, whole = 0;

	while (SSL_read_ex(ssl, in, sizeof in, &got)) {
		peers[fd].part += got;
		whole += peers[fd].part / request;
		peers[fd].part %= request;
	}
	if (SSL_get_error(ssl, 0) != SSL_ERROR_WANT_READ) {
		SSL_free(ssl);
		close(fd);
		return;
	}
	write_all(ssl, out, whole * reply);
}

static int
listen_at(int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&sin, sizeof sin) < 0 || listen(fd, 1024) < 0)
		bench_die("port %d: %s", port, strerror(errno));
	return fd;
}

static void
run_echo(int at, size_t request, size_t reply)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = at }, got[64];
	int ep = epoll_create1(EPOLL_CLOEXEC), one = 1;
	SSL_CTX *ctx = context(true);

	epoll_ctl(ep, EPOLL_CTL_ADD, at, &ev);
	for (;;) {
		int n = epoll_wait(ep, got, 64, -1);

		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != at) {
				serve(got[i].data.fd, request, reply);
				continue;
			}
			ev.data.fd = accept4(at, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (ev.data.fd < 0 || ev.data.fd >= 1024)
				continue;
			setsockopt(ev.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
			peers[ev.data.fd].ssl = SSL_new(ctx);
			peers[ev.data.fd].part = 0;
			SSL_set_fd(peers[ev.data.fd].ssl, ev.data.fd);
			SSL_set_accept_state(peers[ev.data.fd].ssl);
			epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
		}
	}
}

/* ---- the generator ---- */

struct conn {
	int fd;
	SSL *ssl;
	size_t have;
	uint8_t in[4096];
};
static struct conn conns[CONNS];
static SSL_CTX *client;
static uint64_t bytes_in, bytes_out;

static void
send_requests(struct server *s, struct conn *c, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		at += s->put(s, out + at);
	write_all(c->ssl, out, at);
	bytes_out += at;
}

/* At least one read; all that the layer has taken from the socket. */
static size_t
receive(struct server *s, struct conn *c)
{
	size_t n = c->have, got, used, count;

	memcpy(in, c->in, n);
	do {
		if (!SSL_read_ex(c->ssl, in + n, IN_SIZE - n, &got))
			bench_die("%s: the connection is gone", s->name);
		n += got;
		bytes_in += got;
	} while (SSL_has_pending(c->ssl) && n < IN_SIZE / 2);
	count = s->take(s, in, n, &used);
	c->have = n - used;
	memcpy(c->in, in + used, c->have);
	return count;
}

static void
dial(struct conn *c, const char *port)
{
	c->fd = bench_connect(port);
	c->have = 0;
	c->ssl = SSL_new(client);
	SSL_set_fd(c->ssl, c->fd);
	if (SSL_connect(c->ssl) != 1)
		bench_die("no handshake at port %s", port);
}

static void
hang_up(struct conn *c)
{
	SSL_free(c->ssl);
	close(c->fd);
}

static void
greet(struct server *s, struct conn *c)
{
	wqd_use(s, WQD_HELLO);
	send_requests(s, c, 1);
	while (receive(s, c) == 0)
		;
	wqd_use(s, WQD_UPDATE);
}

static double
run_once(struct server *s, unsigned n_conns, unsigned depth, int64_t for_ns, bool greets)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event got[64];
	uint64_t done = 0;
	int64_t start;

	for (unsigned i = 0; i < n_conns; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &conns[i] };

		dial(&conns[i], s->path);
		if (greets)
			greet(s, &conns[i]);
		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	bytes_in = bytes_out = 0;
	start = bench_now_ns();
	for (unsigned i = 0; i < n_conns; i++)
		send_requests(s, &conns[i], depth);
	while (bench_now_ns() - start < for_ns) {
		int n = epoll_wait(ep, got, 64, 10000);

		if (n == 0)
			bench_die("%s: no reply for ten seconds", s->name);
		for (int i = 0; i < n; i++) {
			size_t k = receive(s, got[i].data.ptr);

			done += k;
			send_requests(s, got[i].data.ptr, k);
		}
	}
	start = bench_now_ns() - start;
	for (unsigned i = 0; i < n_conns; i++)
		hang_up(&conns[i]);
	close(ep);
	return (double)done * 1e9 / (double)start;
}

static double
handshakes(const char *port, int64_t for_ns)
{
	int64_t start = bench_now_ns();
	uint64_t n = 0;

	for (; bench_now_ns() - start < for_ns; n++) {
		dial(&conns[0], port);
		hang_up(&conns[0]);
	}
	return (double)n * 1e9 / (double)(bench_now_ns() - start);
}

/* ---- the two of them ---- */

static size_t
echo_put(struct server *s, uint8_t *dst)
{
	memset(dst, 'q', s->next);
	return s->next;
}

static size_t
echo_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	(void)p;
	*used = n - n % s->reply_size;
	return n / s->reply_size;
}

static void
wqd_start_tls(struct server *s, const char *program, uint64_t jobs)
{
	static char conf[96], port[16];
	char *argv[] = { (char *)(uintptr_t)program, (char[]){ "-c" }, conf, NULL };
	FILE *f;

	snprintf(conf, sizeof conf, "%s/wqd.conf", dir);
	snprintf(port, sizeof port, "%d", PORT);
	f = fopen(conf, "we");
	if (!f)
		bench_die("%s can't be written", conf);
	fprintf(f,
		"listen = { \"unix:%s/s\", \"tls://127.0.0.1:%d\" }\nstate_dir = \"%s/state\"\n"
		"tls_cert = \"%s/cert.pem\"\ntls_key = \"%s/key.pem\"\n"
		"queue \"bench\" { action = \"none\" durability = \"memory\" }\n",
		dir, PORT, dir, dir, dir);
	fclose(f);
	wqd_generator(s, jobs);
	s->name = "wqd";
	s->path = port;
	s->pid = bench_spawn(0, argv);
	dial(&conns[0], port);
	greet(s, &conns[0]);
	wqd_use(s, WQD_FILL);
	for (uint64_t n = 0; n < jobs / UPDATES_PER_BATCH; n++) {
		send_requests(s, &conns[0], 1);
		while (receive(s, &conns[0]) == 0)
			;
	}
	wqd_use(s, WQD_UPDATE);
	hang_up(&conns[0]);
}

static void
echo_start_tls(struct server *s, size_t request, size_t reply)
{
	static char port[16];
	int at = listen_at(PORT + 1);

	snprintf(port, sizeof port, "%d", PORT + 1);
	*s = (struct server){ .name = "echo",
		.path = port,
		.next = request,
		.reply_size = reply,
		.put = echo_put,
		.take = echo_take };
	s->pid = fork();
	if (s->pid == 0) {
		bench_pin(0);
		run_echo(at, request, reply);
	}
	close(at);
}

static const struct shape {
	const char *name;
	unsigned conns, depth;
} shapes[] = {
	{ "1 connection, 1 in flight", 1, 1 },
	{ "1 connection, 64 in flight", 1, 64 },
	{ "1 connection, 256 in flight", 1, 256 },
	{ "16 connections, 1 each", 16, 1 },
};

static void
print(const char *name, const struct figure *wqd, const struct figure *echo)
{
	char a[16], b[16];

	printf("%-28s wqd %9s/s  TLS echo %9s/s  spread %3.0f %% %3.0f %%  echo is %.2f x\n", name,
		bench_si(figure_median(wqd), a), bench_si(figure_median(echo), b),
		figure_spread(wqd), figure_spread(echo), figure_ratio(echo, wqd));
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	uint64_t jobs = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
	unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 7;
	int64_t for_ns = (argc > 4 ? strtoll(argv[4], NULL, 10) : 400) * 1000000;
	char *rm[] = { (char[]){ "rm" }, (char[]){ "-rf" }, dir, NULL };
	struct server wqd, echo;

	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir) || rounds == 0 || rounds > ROUNDS_MAX)
		bench_die("no folder, or rounds not from 1 to %d", ROUNDS_MAX);
	bench_pin(1);
	bench_machine();
	make_pair();
	client = context(false);
	wqd_start_tls(&wqd, argc > 1 ? argv[1] : "daemon/wqd", jobs);
	run_once(&wqd, 1, 1, for_ns / 4, true);
	/* Sizes of a message that does not change: those of a request and a reply of ours. */
	echo_start_tls(&echo, 41, 41);
	printf("bar: a TLS echo is at most 1.3 x as fast\n");
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct figure f[2] = { 0 };

		for (unsigned r = 0; r < rounds; r++) {
			figure_add(&f[0],
				run_once(&wqd, shapes[i].conns, shapes[i].depth, for_ns, true));
			figure_add(&f[1],
				run_once(&echo, shapes[i].conns, shapes[i].depth, for_ns, false));
		}
		print(shapes[i].name, &f[0], &f[1]);
	}
	struct figure f[2] = { 0 };

	for (unsigned r = 0; r < rounds; r++) {
		figure_add(&f[0], handshakes(wqd.path, for_ns));
		figure_add(&f[1], handshakes(echo.path, for_ns));
	}
	print("handshakes", &f[0], &f[1]);
	bench_stop(wqd.pid);
	bench_stop(echo.pid);
	bench_wait(bench_spawn(1, rm));
	return 0;
}
