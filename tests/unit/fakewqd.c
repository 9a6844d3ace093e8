#include "unit/fakewqd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/unit.h"

void
fake_listen(struct fake *f)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, f->path, strlen(f->path) + 1);
	unlink(f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(f->listener, 0);
	ck_assert_int_eq(bind(f->listener, (struct sockaddr *)&un, sizeof un), 0);
	ck_assert_int_eq(listen(f->listener, 16), 0);
}

void
fake_stop_listening(struct fake *f)
{
	if (f->listener >= 0)
		close(f->listener);
	f->listener = -1;
	unlink(f->path);
}

void
fake_init(struct fake *f)
{
	*f = (struct fake){ .listener = -1, .fd = -1 };
	snprintf(f->dir, sizeof f->dir, "/tmp/wqtest.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	snprintf(f->path, sizeof f->path, "%s/s", f->dir);
	snprintf(f->server, sizeof f->server, "unix:%s", f->path);
	fake_listen(f);
}

static void *
thread_main(void *arg)
{
	struct fake *f = arg;

	f->script(f);
	return NULL;
}

void
fake_run(struct fake *f, void (*script)(struct fake *f), void *arg)
{
	f->script = script;
	f->arg = arg;
	f->running = true;
	ck_assert_int_eq(pthread_create(&f->thread, NULL, thread_main, f), 0);
}

void
fake_join(struct fake *f)
{
	if (f->running)
		pthread_join(f->thread, NULL);
	f->running = false;
}

void
fake_done(struct fake *f)
{
	fake_join(f);
	fake_close(f);
	fake_stop_listening(f);
	rmdir(f->dir);
}

wq_t *
fake_connected(struct fake *f, void (*script)(struct fake *f), void *arg, const char *options)
{
	char all[256];
	wq_t *wq;

	snprintf(all, sizeof all, "connect_timeout=5m,timeout=5m%s%s", options ? "," : "",
		options ? options : "");
	fake_init(f);
	fake_run(f, script, arg);
	ck_assert_int_eq(wq_connect(f->server, all, &wq), 0);
	return wq;
}

void
fake_done_with(struct fake *f, wq_t *wq)
{
	wq_free(wq);
	fake_done(f);
}

void
fake_accept(struct fake *f)
{
	fake_close(f);
	f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(f->fd, 0);
}

void
fake_close(struct fake *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

void
fake_wait_eof(struct fake *f)
{
	char tmp[4096];
	ssize_t n;

	do {
		n = recv(f->fd, tmp, sizeof tmp, 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	fake_close(f);
}

/* `n` bytes; false at the end of the connection. */
static bool
read_all(int fd, uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t r = recv(fd, p, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

Wq__V1__Request *
fake_recv(struct fake *f)
{
	static uint8_t msg[4 << 20];
	size_t len = 0;
	uint8_t b;
	Wq__V1__Request *r;

	for (unsigned shift = 0;; shift += 7) {
		if (!read_all(f->fd, &b, 1))
			return NULL;
		len |= (size_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	ck_assert_uint_le(len, sizeof msg);
	if (!read_all(f->fd, msg, len))
		return NULL;
	r = wq__v1__request__unpack(NULL, len, msg);
	ck_assert_ptr_nonnull(r);
	return r;
}

void
fake_free(Wq__V1__Request *r)
{
	wq__v1__request__free_unpacked(r, NULL);
}

Wq__V1__Request *
fake_expect(struct fake *f, Wq__V1__Request__OpCase op)
{
	Wq__V1__Request *r = fake_recv(f);

	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(r->op_case, op);
	return r;
}

bool
fake_raw(struct fake *f, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = send(f->fd, at, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return false;
		at += w;
		n -= (size_t)w;
	}
	return true;
}

size_t
fake_pack(const Wq__V1__Reply *r, uint8_t *dst, size_t size)
{
	size_t len = wq__v1__reply__get_packed_size(r), v = len, n = 0;

	ck_assert_uint_le(len + 5, size);
	for (; v >= 0x80; v >>= 7)
		dst[n++] = (uint8_t)(v | 0x80);
	dst[n++] = (uint8_t)v;
	return n + wq__v1__reply__pack(r, dst + n);
}

void
fake_reply(struct fake *f, const Wq__V1__Reply *r)
{
	static uint8_t msg[4 << 20];

	fake_raw(f, msg, fake_pack(r, msg, sizeof msg));
}

Wq__V1__Reply
fake_answer(uint64_t id, Wq__V1__Status status)
{
	Wq__V1__Reply r;

	wq__v1__reply__init(&r);
	r.id = id;
	r.status = status;
	return r;
}

void
fake_status(struct fake *f, uint64_t id, Wq__V1__Status status)
{
	Wq__V1__Reply r = fake_answer(id, status);

	fake_reply(f, &r);
}

void
fake_serve(struct fake *f, Wq__V1__Request__OpCase op, Wq__V1__Status status)
{
	Wq__V1__Request *q = fake_expect(f, op);

	fake_status(f, q->id, status);
	fake_free(q);
}

void
fake_greet(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__HelloInfo info;

	fake_accept(f);
	q = fake_expect(f, WQ__V1__REQUEST__OP_HELLO);
	ck_assert_uint_eq(q->hello->version, 1);
	wq__v1__reply__init(&r);
	wq__v1__hello_info__init(&info);
	r.id = q->id;
	r.hello = &info;
	info.version = 1;
	info.frame_max = 1 << 20;
	info.in_flight_max = 1024;
	fake_reply(f, &r);
	fake_free(q);
}
