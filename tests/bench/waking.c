#include "bench/waking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- samples ---- */

void
sample(struct samples *s, int64_t ns)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->v = realloc(s->v, s->cap * sizeof *s->v);
		if (!s->v)
			bench_die("no memory");
	}
	s->v[s->n++] = (double)ns / 1000;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
quantile(struct samples *s, double q)
{
	if (s->n == 0)
		return 0;
	qsort(s->v, s->n, sizeof *s->v, by_size);
	return s->v[(size_t)((double)(s->n - 1) * q)];
}

/* ---- the reader: connections, and answers on them ---- */

void
reader_init(struct reader *r, size_t answer_bytes)
{
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0)
		bench_die("epoll: %s", strerror(errno));
	r->n = 0;
	r->answer_bytes = answer_bytes;
}

void
reader_done(struct reader *r)
{
	for (int i = 0; i < r->n; i++)
		close(r->fd[i]);
	close(r->epoll);
}

void
reader_add(struct reader *r, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		bench_die("epoll: %s", strerror(errno));
	r->fd[r->n++] = fd;
}

/* Reads until `n` answers have come. */
void
reader_take(struct reader *r, size_t n)
{
	struct epoll_event ev[64];
	size_t bytes = 0, want = n * r->answer_bytes;
	char buf[16384];

	while (bytes < want) {
		int got = epoll_wait(r->epoll, ev, 64, 10000);

		if (got <= 0)
			bench_die("%zu bytes of %zu came", bytes, want);
		for (int i = 0; i < got; i++) {
			ssize_t k = recv(ev[i].data.fd, buf, sizeof buf, MSG_DONTWAIT);

			if (k <= 0)
				bench_die("a server went away");
			bytes += (size_t)k;
		}
	}
}

void
read_exactly(int fd, size_t n)
{
	char buf[4096];

	while (n > 0) {
		ssize_t k = recv(fd, buf, n < sizeof buf ? n : sizeof buf, 0);

		if (k <= 0)
			bench_die("a server went away");
		n -= (size_t)k;
	}
}

/* ---- wqd ---- */

/* A request {id 1, op {name}} as a frame. Returns its length. */
size_t
wqd_request(unsigned char *p, int op, const char *name)
{
	size_t n = strlen(name), at = 0;

	p[at++] = (unsigned char)(2 + 3 + 2 + n);
	p[at++] = 0x08;
	p[at++] = 1;
	p[at++] = (unsigned char)((op << 3 | 2) & 0x7f) | 0x80;
	p[at++] = (unsigned char)((op << 3 | 2) >> 7);
	p[at++] = (unsigned char)(2 + n);
	p[at++] = 0x0a;
	p[at++] = (unsigned char)n;
	memcpy(p + at, name, n);
	return at + n;
}

void
wqd_read_reply(int fd)
{
	unsigned char n;

	if (recv(fd, &n, 1, 0) != 1 || n > 127)
		bench_die("wqd: no reply");
	read_exactly(fd, n);
}

/* A connection that has said hello. A hello's reply may be longer than one byte tells. */
int
wqd_connect(const char *path)
{
	static const unsigned char hello[] = { 0x06, 0x08, 0x01, 0x52, 0x02, 0x08, 0x01 };
	int fd = bench_connect(path);
	unsigned char n[2];
	size_t len;

	bench_write(fd, hello, sizeof hello);
	if (recv(fd, n, 1, MSG_WAITALL) != 1)
		bench_die("wqd: no hello");
	len = n[0] & 0x7f;
	if (n[0] & 0x80) {
		if (recv(fd, n + 1, 1, MSG_WAITALL) != 1)
			bench_die("wqd: no hello");
		len |= (size_t)n[1] << 7;
	}
	read_exactly(fd, len);
	return fd;
}

void
wqd_call(int fd, int op, const char *name)
{
	unsigned char buf[64];

	bench_write(fd, buf, wqd_request(buf, op, name));
	wqd_read_reply(fd);
}

/* How many wait, by completion_show. Its reply: id, then the completion with its name, its waiters
 * and its level; a closed one at 0 says nothing of those. */
static uint64_t
waiters_of(int fd, const char *name)
{
	unsigned char buf[128], n;
	size_t at = 2 + 2 + 1 + 2 + strlen(name);
	uint64_t v = 0;

	bench_write(fd, buf, wqd_request(buf, OP_SHOW, name));
	if (recv(fd, &n, 1, 0) != 1 || n > sizeof buf || recv(fd, buf, n, MSG_WAITALL) != n)
		bench_die("wqd: no reply");
	if (at >= n || buf[at] != 0x20)
		return 0;
	for (int shift = 0; ++at < n; shift += 7) {
		v |= (uint64_t)(buf[at] & 0x7f) << shift;
		if (!(buf[at] & 0x80))
			break;
	}
	return v;
}

/* All wait for `name`, `each` on a connection, and the daemon has them. */
void
wqd_wait(struct reader *r, int trigger, const char *name, int each)
{
	unsigned char buf[64 * 16];
	size_t n = 0;

	for (int i = 0; i < each; i++)
		n += wqd_request(buf + n, OP_WAIT, name);
	for (int i = 0; i < r->n; i++)
		bench_write(r->fd[i], buf, n);
	while (waiters_of(trigger, name) < (uint64_t)r->n * (uint64_t)each)
		;
}

void
wqd_stage(struct reader *r, int trigger, const char *name, int each, struct samples *own,
	struct samples *whole)
{
	unsigned char buf[64];
	size_t n = wqd_request(buf, OP_COMPLETE_ALL, name);
	int64_t begin;

	wqd_call(trigger, OP_REINIT, name);
	wqd_wait(r, trigger, name, each);
	begin = bench_now_ns();
	bench_write(trigger, buf, n);
	wqd_read_reply(trigger);
	sample(own, bench_now_ns() - begin);
	reader_take(r, (size_t)r->n * (size_t)each);
	sample(whole, bench_now_ns() - begin);
}
