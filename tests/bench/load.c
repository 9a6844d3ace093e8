#include "bench/load.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_SIZE  (512u << 10)
#define OUT_SIZE (1u << 20)

struct conn {
	int fd;
	size_t have; /* bytes of a reply begun, at the start of `in` */
	int64_t sent_ns;
	uint8_t in[4096]; /* that begun reply */
};

static struct conn conns[LOAD_CONNS_MAX];
static uint8_t in[IN_SIZE], out[OUT_SIZE];
static uint64_t bytes_out, bytes_in;

static void
send_requests(struct server *s, struct conn *c, size_t n)
{
	size_t at = 0;

	s->conn = (unsigned)(c - conns);
	for (size_t i = 0; i < n; i++) {
		at += s->put(s, out + at);
		if (OUT_SIZE - at < REQUEST_MAX) {
			bench_write(c->fd, out, at);
			bytes_out += at;
			at = 0;
		}
	}
	bench_write(c->fd, out, at);
	bytes_out += at;
}

/* Replies of one read. */
static size_t
receive(struct server *s, struct conn *c)
{
	size_t count, used;
	ssize_t n;

	memcpy(in, c->in, c->have);
	do
		n = recv(c->fd, in + c->have, IN_SIZE - c->have, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		bench_die("%s: the connection is gone", s->name);
	bytes_in += (uint64_t)n;
	count = s->take(s, in, c->have + (size_t)n, &used);
	c->have = c->have + (size_t)n - used;
	if (c->have > sizeof c->in)
		bench_die("%s: a reply of over %zu bytes", s->name, sizeof c->in);
	memcpy(c->in, in + used, c->have);
	return count;
}

static void
open_conns(struct server *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		conns[i].have = 0;
		conns[i].fd = bench_connect(s->path);
		if (s->greet)
			s->greet(s, conns[i].fd);
	}
}

static void
close_conns(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(conns[i].fd);
}

static uint64_t
run_one(struct server *s, unsigned depth, int64_t until, uint64_t most, struct hist *latency)
{
	uint64_t done = 0;
	int64_t now = bench_now_ns(), sent = now;

	send_requests(s, &conns[0], depth);
	while (now < until && done < most) {
		size_t n = receive(s, &conns[0]);

		done += n;
		now = bench_now_ns();
		if (latency && depth == 1 && n)
			hist_add(latency, now - sent);
		sent = now;
		send_requests(s, &conns[0], n);
	}
	return done;
}

static uint64_t
run_many(struct server *s, const struct load *load, int64_t until)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event got[64];
	uint64_t done = 0;

	for (unsigned i = 0; i < load->conns; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &conns[i] };

		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	for (unsigned i = 0; i < load->conns; i++)
		send_requests(s, &conns[i], load->depth);
	while (bench_now_ns() < until) {
		int n = epoll_wait(ep, got, 64, 10000);

		if (n == 0)
			bench_die("%s: no reply for ten seconds", s->name);
		for (int i = 0; i < n; i++) {
			size_t k = receive(s, got[i].data.ptr);

			done += k;
			send_requests(s, got[i].data.ptr, k);
		}
	}
	close(ep);
	return done;
}

void
load_run(struct server *s, const struct load *load, struct load_result *out_result)
{
	uint64_t done;
	int64_t start, took;

	*out_result = (struct load_result){ 0 };
	open_conns(s, load->conns);
	bytes_in = bytes_out = 0;
	start = bench_now_ns();
	if (load->conns == 1)
		done = run_one(
			s, load->depth, start + load->for_ns, UINT64_MAX, &out_result->latency);
	else
		done = run_many(s, load, start + load->for_ns);
	took = bench_now_ns() - start;
	close_conns(load->conns);
	if (done == 0)
		bench_die("%s: no reply at all", s->name);
	out_result->per_s = (double)done * 1e9 / (double)took;
	out_result->reply_bytes = (double)bytes_in / (double)done;
	out_result->request_bytes =
		(double)bytes_out / (double)(done + (uint64_t)load->conns * load->depth);
}

void
load_fill(struct server *s, uint64_t n, unsigned depth)
{
	open_conns(s, 1);
	run_one(s, depth, INT64_MAX, n, NULL);
	close_conns(1);
}
