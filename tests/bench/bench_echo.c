/*
 * The yardstick: a server that takes requests of one size and answers each with
 * a reply of another, and does nothing else.
 *
 *   bench_echo epoll|libevent PATH|PORT REQUEST_BYTES REPLY_BYTES
 *
 * epoll: level-triggered, one read and one write a turn. libevent: a bufferevent
 * as one would write it. Both take what a read brings and answer it at once.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "bench/kit.h"

#define READ_MAX (256u << 10)
#define CONNS    4096

static size_t request_size, reply_size;
static uint8_t in[READ_MAX], out[4 * READ_MAX];

static int
listen_at(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int port = path[0] == '/' ? 0 : (int)strtol(path, NULL, 10), one = 1, err;
	int fd = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (port) {
		sin.sin_port = htons((uint16_t)port);
		sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		err = bind(fd, (struct sockaddr *)&sin, sizeof sin);
	} else {
		snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
		err = bind(fd, (struct sockaddr *)&un, sizeof un);
	}
	if (err < 0 || listen(fd, 1024) < 0)
		bench_die("listen %s: %s", path, strerror(errno));
	return fd;
}

static void
no_delay(int fd)
{
	int one = 1;

	/* Fails on a unix socket, which has no such thing. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* ---- epoll ---- */

static size_t part[CONNS]; /* bytes of a request begun, by descriptor */

static void
serve(int fd)
{
	ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
	size_t whole;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		part[fd] = 0;
		close(fd);
		return;
	}
	whole = (part[fd] + (size_t)n) / request_size;
	part[fd] = (part[fd] + (size_t)n) % request_size;
	/* A client that is gone is seen at the next read; all that is in flight fits the socket. */
	if (whole > 0)
		(void)!send(fd, out, whole * reply_size, MSG_NOSIGNAL);
}

static void
run_epoll(const char *path)
{
	struct epoll_event ev = { .events = EPOLLIN }, got[64];
	int ep = epoll_create1(EPOLL_CLOEXEC), at = listen_at(path);

	ev.data.fd = at;
	epoll_ctl(ep, EPOLL_CTL_ADD, at, &ev);
	for (;;) {
		int n = epoll_wait(ep, got, 64, -1);

		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != at) {
				serve(got[i].data.fd);
				continue;
			}
			ev.data.fd = accept4(at, NULL, NULL, SOCK_CLOEXEC);
			if (ev.data.fd < 0 || ev.data.fd >= CONNS)
				continue;
			no_delay(ev.data.fd);
			epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
		}
	}
}

/* ---- libevent ---- */

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(bev);
	size_t whole = evbuffer_get_length(input) / request_size;

	(void)arg;
	for (size_t i = 0; i < whole; i++) {
		evbuffer_drain(input, request_size);
		bufferevent_write(bev, out, reply_size);
	}
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)what;
	(void)arg;
	bufferevent_free(bev);
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len, void *base)
{
	struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);

	(void)l;
	(void)sa;
	(void)len;
	no_delay(fd);
	bufferevent_setcb(bev, on_read, NULL, on_event, NULL);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

static void
run_libevent(const char *path)
{
	struct event_base *base = event_base_new();

	evconnlistener_new(base, on_accept, base, LEV_OPT_CLOSE_ON_FREE, 0, listen_at(path));
	event_base_dispatch(base);
}

int
main(int argc, char **argv)
{
	if (argc != 5)
		bench_die("usage: bench_echo epoll|libevent PATH|PORT REQUEST_BYTES REPLY_BYTES");
	request_size = strtoul(argv[3], NULL, 10);
	reply_size = strtoul(argv[4], NULL, 10);
	if (request_size == 0 || reply_size == 0)
		bench_die("sizes are from 1 byte on");
	memset(out, 'r', sizeof out);
	if (strcmp(argv[1], "epoll") == 0)
		run_epoll(argv[2]);
	else
		run_libevent(argv[2]);
	return 0;
}
