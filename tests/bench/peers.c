#include "bench/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ECHO_FILL 'q'

static char *
join(const char *a, const char *b)
{
	size_t n = strlen(a) + strlen(b) + 1;
	char *z = malloc(n);

	if (!z)
		bench_die("out of memory");
	snprintf(z, n, "%s%s", a, b);
	return z;
}

static bool
installed(const char *program)
{
	static const char *const places[] = { "/usr/bin/", "/usr/sbin/", "/usr/local/bin/" };
	char path[256];

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", places[i], program);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* ---- echo ---- */

static size_t
echo_put(struct server *s, uint8_t *dst)
{
	memset(dst, ECHO_FILL, s->next);
	return s->next;
}

static size_t
echo_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	(void)p;
	*used = n - n % s->reply_size;
	return n / s->reply_size;
}

void
echo_start(struct server *s, const char *kind, const char *path, size_t request, size_t reply)
{
	char sizes[2][16];
	char *program = getenv("BENCH_ECHO");
	char *argv[] = { program ? program : (char[]){ "tests/bench/bench_echo" },
		(char *)(uintptr_t)kind, (char *)(uintptr_t)path, sizes[0], sizes[1], NULL };

	snprintf(sizes[0], sizeof sizes[0], "%zu", request);
	snprintf(sizes[1], sizeof sizes[1], "%zu", reply);
	*s = (struct server){
		.name = kind,
		.path = path,
		.next = request,
		.put = echo_put,
		.take = echo_take,
		.reply_size = reply,
	};
	s->pid = bench_spawn(0, argv);
}

/* ---- wqd ---- */

/*
 * Requests are made by hand in fields of fixed width, so that all of them have one size and the
 * generator costs little: Request { id = 1 (varint of 3 bytes), op }, Update { key = 1 (16 bytes),
 * queue = 2 "bench", delay_ms = 3 (varint of 4 bytes) }.
 */
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

static void
wqd_greet(struct server *s, int fd)
{
	/* Request { id = 1, hello { version = 1, client = "bench" } } */
	static const uint8_t hello[] = { 13, 1 << 3, 1, 10 << 3 | 2, 9, 1 << 3, 1, 2 << 3 | 2, 5,
		'b', 'e', 'n', 'c', 'h' };
	uint8_t reply[512];
	size_t have = 0, used;

	bench_write(fd, hello, sizeof hello);
	while (have == 0 || wqd_take(s, reply, have, &used) == 0) {
		ssize_t n = read(fd, reply + have, sizeof reply - have);

		if (n <= 0)
			bench_die("wqd: no answer to the hello");
		have += (size_t)n;
	}
}

void
wqd_use(struct server *s, enum wqd_op op)
{
	s->put = op == WQD_BATCH ? wqd_put_batch : wqd_put_update;
}

/* ---- the seed's own comparison ---- */

static enum seed_op seed_op;
static bool seed_fallback;
static bool seed_cancelled[LOAD_CONNS_MAX]; /* the cancel has been sent, its update comes next */

static uint8_t *
seed_target(uint8_t *p, uint64_t key, unsigned level_field)
{
	p = seed_fallback ? put_key(p, key) : put_target(p, key);
	*p++ = (uint8_t)(level_field << 3);
	*p++ = 3; /* memory */
	return p;
}

static size_t
seed_put_update(struct server *s, uint8_t *dst)
{
	uint8_t body[128], *p = seed_target(body, s->conn, 13), *to;

	*p++ = 3 << 3 | 0;
	p = put_varint(p, 3600000 + bench_below(&s->random, 1 << 10));
	if (seed_op == SEED_SLACK) {
		*p++ = 7 << 3 | 0;
		p = put_varint(p, 100000);
	}
	to = put_head(s, dst + 1, 12, (size_t)(p - body));
	memcpy(to, body, (size_t)(p - body));
	return put_frame(dst, 1, to + (p - body));
}

static size_t
seed_put_cancel(struct server *s, uint8_t *dst)
{
	uint8_t body[128], *p = seed_target(body, s->conn, 5), *to;

	if (seed_op == SEED_CANCEL_WAIT_QUEUE) {
		*p++ = 3 << 3 | 0;
		*p++ = 1;
	}
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

static char *
wqd_config(const char *dir, const char *level, int port)
{
	char *path = join(dir, "/wqd.conf");
	FILE *f = fopen(path, "we");

	if (!f)
		bench_die("%s can't be written", path);
	fprintf(f, "listen = { \"unix:%s/wqd.sock\"", dir);
	if (port)
		fprintf(f, ", \"tcp://127.0.0.1:%d\"", port);
	fprintf(f, " }\nstate_dir = \"%s/state\"\n", dir);
	fprintf(f, "queue \"bench\" { action = \"none\" durability = \"%s\" }\n", level);
	fclose(f);
	return path;
}

void
wqd_start_level(struct server *s, const char *program, const char *dir, const char *level,
	uint64_t n_jobs, int port)
{
	char *argv[] = { (char *)(uintptr_t)program, (char[]){ "-c" }, wqd_config(dir, level, port),
		NULL };

	*s = (struct server){
		.name = "wqd",
		.path = join(dir, "/wqd.sock"),
		.random = 88172645463325252u,
		.n_keys = n_jobs,
		.greet = wqd_greet,
		.put = wqd_put_fill,
		.take = wqd_take,
	};
	s->pid = bench_spawn(0, argv);
	if (n_jobs > 0)
		load_fill(s, (n_jobs + UPDATES_PER_BATCH - 1) / UPDATES_PER_BATCH, 4);
	s->next = 0;
	wqd_use(s, WQD_UPDATE);
}

void
wqd_start(struct server *s, const char *program, const char *dir, uint64_t n_jobs, int port)
{
	wqd_start_level(s, program, dir, "memory", n_jobs, port);
}

/* ---- Redis ---- */

static const char redis_update[] =
	"local k='j:'..KEYS[1];"
	"redis.call('HSET',k,'due',ARGV[1]);redis.call('ZADD','due',ARGV[1],KEYS[1]);return 1";
static const char redis_fill[] =
	"for i=ARGV[1],ARGV[2] do local n=string.format('%016d',i);"
	"redis.call('HSET','j:'..n,'due',i);redis.call('ZADD','due',i,n) end return 1";
static char redis_sha[41];

static size_t
redis_put(struct server *s, uint8_t *dst)
{
	return (size_t)snprintf((char *)dst, REQUEST_MAX,
		"*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$16\r\n%016llu\r\n$7\r\n%07llu\r\n",
		redis_sha, (unsigned long long)bench_below(&s->random, s->n_keys),
		(unsigned long long)(3600000 + bench_below(&s->random, 1 << 20)));
}

static size_t
line_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	size_t count = 0, at = 0;
	const uint8_t *nl;

	while ((nl = memchr(p + at, '\n', n - at)) != NULL) {
		if (p[at] == '-')
			bench_die("%s: %.*s", s->name, (int)(nl - p - at), (const char *)p + at);
		at = (size_t)(nl - p) + 1;
		count++;
	}
	*used = at;
	return count;
}

static void
redis_command(int fd, char *reply, size_t size, const char *cmd)
{
	ssize_t n;

	bench_write(fd, cmd, strlen(cmd));
	n = read(fd, reply, size - 1);
	if (n <= 0 || reply[0] == '-')
		bench_die("redis: %s", n > 0 ? reply : "gone");
	reply[n] = '\0';
}

bool
redis_start(struct server *s, const char *dir, uint64_t n_jobs)
{
	return redis_start_sync(s, dir, n_jobs, false);
}

bool
redis_start_sync(struct server *s, const char *dir, uint64_t n_jobs, bool sync)
{
	char *path = join(dir, "/redis.sock");
	char cmd[1024], reply[256], from[24], to[24];
	char *argv[] = { (char[]){ "redis-server" }, (char[]){ "--port" }, (char[]){ "0" },
		(char[]){ "--unixsocket" }, path, (char[]){ "--save" }, (char[]){ "" },
		(char[]){ "--dir" }, (char *)(uintptr_t)dir, (char[]){ "--appendfsync" },
		(char[]){ "always" }, (char[]){ "--appendonly" },
		(char *)(uintptr_t)(sync ? "yes" : "no"), NULL };
	int fd;

	if (!installed(argv[0]))
		return false;
	*s = (struct server){
		.name = "redis",
		.path = path,
		.random = 362436069,
		.n_keys = n_jobs,
		.put = redis_put,
		.take = line_take,
	};
	s->pid = bench_spawn(0, argv);
	fd = bench_connect(path);
	for (uint64_t i = 0; i < n_jobs; i += 10000) {
		snprintf(from, sizeof from, "%llu", (unsigned long long)i);
		snprintf(to, sizeof to, "%llu",
			(unsigned long long)(i + 10000 < n_jobs ? i + 10000 : n_jobs) - 1);
		snprintf(cmd, sizeof cmd,
			"*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
			strlen(redis_fill), redis_fill, strlen(from), from, strlen(to), to);
		redis_command(fd, reply, sizeof reply, cmd);
	}
	snprintf(cmd, sizeof cmd, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
		strlen(redis_update), redis_update);
	redis_command(fd, reply, sizeof reply, cmd);
	memcpy(redis_sha, reply + 5, 40);
	close(fd);
	return true;
}

/* ---- beanstalkd ---- */

static size_t
beanstalkd_put_fill(struct server *s, uint8_t *dst)
{
	(void)s;
	memcpy(dst, "put 0 100000 60 4\r\njobs\r\n", 25);
	return 25;
}

/* Two commands count as one request: the reply that counts is the second. */
static size_t
beanstalkd_put(struct server *s, uint8_t *dst)
{
	unsigned long long id = 1 + bench_below(&s->random, s->n_keys);

	return (size_t)snprintf((char *)dst, REQUEST_MAX,
		"reserve-job %llu\r\nrelease %llu 0 %llu\r\n", id, id,
		(unsigned long long)(100000 + bench_below(&s->random, 1000)));
}

static size_t
beanstalkd_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	size_t count = 0, at = 0, missing = 0;
	const uint8_t *nl;

	(void)s;
	*used = 0;
	while ((nl = memchr(p + at, '\n', n - at)) != NULL) {
		bool last = p[at] == 'R' && p[at + 2] == 'L';

		/* Another connection has it: neither of the two is done. */
		if (p[at] == 'N')
			last = missing++ % 2 == 1;
		at = (size_t)(nl - p) + 1;
		if (!last)
			continue;
		*used = at;
		count++;
	}
	return count;
}

bool
beanstalkd_start(struct server *s, const char *dir, uint64_t n_jobs)
{
	return beanstalkd_start_sync(s, dir, n_jobs, false);
}

bool
beanstalkd_start_sync(struct server *s, const char *dir, uint64_t n_jobs, bool sync)
{
	char *path = join(dir, "/beanstalkd.sock");
	char *argv[] = { (char[]){ "beanstalkd" }, (char[]){ "-l" }, join("unix:", path),
		sync ? (char[]){ "-b" } : NULL, (char *)(uintptr_t)dir, (char[]){ "-f" },
		(char[]){ "0" }, NULL };

	if (!installed(argv[0]))
		return false;
	*s = (struct server){
		.name = "beanstalkd",
		.path = path,
		.random = 521288629,
		.n_keys = n_jobs,
		.put = beanstalkd_put_fill,
		.take = line_take,
	};
	s->pid = bench_spawn(0, argv);
	load_fill(s, n_jobs + 256, 256);
	s->put = beanstalkd_put;
	s->take = beanstalkd_take;
	return true;
}
