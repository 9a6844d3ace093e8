/*
 * Requests to wqd as bytes, made by hand in fields of fixed width, so that all of
 * them have one size and the generator costs little, and its replies looked over.
 */
#include "bench/requests.h"

#include <string.h>
#include <unistd.h>

/* Request { id = 1 (varint of 3 bytes), op }, Update { key = 1 (16 bytes), queue = 2 "bench", delay_ms
 * = 3 (varint of 4 bytes) }. */
#define KEY_BYTES   16
#define UPDATE_SIZE (2 + KEY_BYTES + 2 + 5 + 1 + 4)

static uint8_t *
put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

static uint8_t *
put_key(uint8_t *p, uint64_t n)
{
	*p++ = 1 << 3 | 2;
	*p++ = KEY_BYTES;
	for (int i = KEY_BYTES; i-- > 0; n /= 10)
		p[i] = (uint8_t)('0' + n % 10);
	return p + KEY_BYTES;
}

static uint8_t *
put_target(uint8_t *p, uint64_t n)
{
	static const uint8_t queue[] = { 2 << 3 | 2, 5, 'b', 'e', 'n', 'c', 'h' };

	p = put_key(p, n);
	memcpy(p, queue, sizeof queue);
	return p + sizeof queue;
}

static uint8_t *
put_update(struct server *s, uint8_t *p, uint64_t key)
{
	p = put_target(p, key);
	*p++ = 3 << 3 | 0;
	/* About an hour, never the same, always four bytes. */
	return put_varint(p, 3600000 + bench_below(&s->random, 1 << 20));
}

static uint8_t *
put_head(struct server *s, uint8_t *p, unsigned op, size_t size)
{
	*p++ = 1 << 3 | 0;
	p = put_varint(p, 16384 + s->next++ % 2000000);
	p = put_varint(p, op << 3 | 2);
	return put_varint(p, size);
}

static size_t
put_frame(uint8_t *dst, size_t head, const uint8_t *end)
{
	size_t n = (size_t)(end - dst) - head;

	if (n < 0x80) {
		dst[0] = (uint8_t)n;
	} else {
		dst[0] = (uint8_t)(n | 0x80);
		dst[1] = (uint8_t)(n >> 7);
	}
	return (size_t)(end - dst);
}

static size_t
wqd_put_update(struct server *s, uint8_t *dst)
{
	uint8_t *p = put_head(s, dst + 1, 12, UPDATE_SIZE);

	return put_frame(dst, 1, put_update(s, p, bench_below(&s->random, s->n_keys)));
}

static size_t
wqd_put_fill(struct server *s, uint8_t *dst)
{
	uint8_t *p = put_head(s, dst + 2, 13, UPDATES_PER_BATCH * (2 + UPDATE_SIZE));
	uint64_t first = (s->next - 1) * UPDATES_PER_BATCH;

	for (uint64_t i = 0; i < UPDATES_PER_BATCH; i++) {
		*p++ = 1 << 3 | 2;
		*p++ = UPDATE_SIZE;
		p = put_update(s, p, (first + i) % s->n_keys);
	}
	return put_frame(dst, 2, p);
}

static size_t
wqd_put_batch(struct server *s, uint8_t *dst)
{
	uint8_t *p = put_head(s, dst + 2, 13, UPDATES_PER_BATCH * (2 + UPDATE_SIZE));

	for (uint64_t i = 0; i < UPDATES_PER_BATCH; i++) {
		*p++ = 1 << 3 | 2;
		*p++ = UPDATE_SIZE;
		p = put_update(s, p, bench_below(&s->random, s->n_keys));
	}
	return put_frame(dst, 2, p);
}

/* A frame's length before it; 0: not all of that is there. */
static size_t
frame_size(const uint8_t *p, size_t n)
{
	if (n >= 1 && p[0] < 0x80)
		return 1u + p[0];
	if (n >= 2 && p[1] < 0x80)
		return 2u + (p[0] & 0x7fu) + ((size_t)p[1] << 7);
	if (n >= 3)
		return 3u + (p[0] & 0x7fu) + ((size_t)(p[1] & 0x7fu) << 7) + ((size_t)p[2] << 14);
	return 0;
}

/* Of a reply with an id of three bytes, the status (field 2) stands next; from 64 on it is an error. */
static void
wqd_check(const uint8_t *reply, size_t n)
{
	const uint8_t *p = reply + (n < 0x80 + 1u ? 1 : n < 0x4000 + 2u ? 2 : 3);

	if (n > 7 && p[4] == (2 << 3 | 0) && p[5] >= 64)
		bench_die("wqd: a reply has the status %u", p[5]);
}

static size_t
wqd_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	size_t count = 0, at = 0, size;

	(void)s;
	while ((size = frame_size(p + at, n - at)) > 0 && size <= n - at) {
		wqd_check(p + at, size);
		at += size;
		count++;
	}
	*used = at;
	return count;
}

/* Request { id = 1, hello { version = 1, client = "bench" } } */
static size_t
wqd_put_hello(struct server *s, uint8_t *dst)
{
	static const uint8_t hello[] = { 13, 1 << 3, 1, 10 << 3 | 2, 9, 1 << 3, 1, 2 << 3 | 2, 5,
		'b', 'e', 'n', 'c', 'h' };

	(void)s;
	memcpy(dst, hello, sizeof hello);
	return sizeof hello;
}

static void
wqd_greet(struct server *s, int fd)
{
	uint8_t bytes[512];
	size_t have = 0, used;

	bench_write(fd, bytes, wqd_put_hello(s, bytes));
	while (have == 0 || wqd_take(s, bytes, have, &used) == 0) {
		ssize_t n = read(fd, bytes + have, sizeof bytes - have);

		if (n <= 0)
			bench_die("wqd: no answer to the hello");
		have += (size_t)n;
	}
}

void
wqd_use(struct server *s, enum wqd_op op)
{
	static size_t (*const put[])(struct server * s, uint8_t * dst) = {
		[WQD_UPDATE] = wqd_put_update,
		[WQD_BATCH] = wqd_put_batch,
		[WQD_FILL] = wqd_put_fill,
		[WQD_HELLO] = wqd_put_hello,
	};

	s->put = put[op];
	s->next = 0;
}

void
wqd_generator(struct server *s, uint64_t n_jobs)
{
	*s = (struct server){
		.name = "wqd",
		.random = 88172645463325252u,
		.n_keys = n_jobs,
		.greet = wqd_greet,
		.take = wqd_take,
	};
	wqd_use(s, WQD_HELLO);
}

/* ---- the seed's own comparison ---- */

static enum seed_op seed_op;
static bool seed_fallback;
static bool seed_cancelled[LOAD_CONNS_MAX]; /* the cancel has been sent, its update comes next */

static uint8_t *
seed_target(uint8_t *p, uint64_t key)
{
	return seed_fallback ? put_key(p, key) : put_target(p, key);
}

static uint8_t *
seed_level(uint8_t *p, unsigned field)
{
	*p++ = (uint8_t)(field << 3);
	*p++ = 3; /* memory */
	return p;
}

static size_t
seed_put_update(struct server *s, uint8_t *dst)
{
	uint8_t body[128], *p = seed_target(body, s->conn), *to;

	*p++ = 3 << 3 | 0;
	p = put_varint(p, 3600000 + bench_below(&s->random, 1 << 10));
	if (seed_op == SEED_SLACK) {
		*p++ = 7 << 3 | 0;
		p = put_varint(p, 100000);
	}
	p = seed_level(p, 13);
	to = put_head(s, dst + 1, 12, (size_t)(p - body));
	memcpy(to, body, (size_t)(p - body));
	return put_frame(dst, 1, to + (p - body));
}

static size_t
seed_put_cancel(struct server *s, uint8_t *dst)
{
	uint8_t body[128], *p = seed_target(body, s->conn), *to;

	if (seed_op == SEED_CANCEL_WAIT_QUEUE) {
		*p++ = 3 << 3 | 0;
		*p++ = 1;
	}
	p = seed_level(p, 5);
	to = put_head(s, dst + 1, 14, (size_t)(p - body));
	memcpy(to, body, (size_t)(p - body));
	return put_frame(dst, 1, to + (p - body));
}

static size_t
seed_put(struct server *s, uint8_t *dst)
{
	bool *cancelled = &seed_cancelled[s->conn];

	if (seed_op == SEED_UPDATE || seed_op == SEED_SLACK)
		return seed_put_update(s, dst);
	*cancelled = !*cancelled;
	return *cancelled ? seed_put_cancel(s, dst) : seed_put_update(s, dst);
}

void
seed_use(struct server *s, enum seed_op op, bool fallback)
{
	seed_op = op;
	seed_fallback = fallback;
	memset(seed_cancelled, 0, sizeof seed_cancelled);
	s->put = seed_put;
}
