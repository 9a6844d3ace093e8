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
	s->pid = bench_spawn(s->core, argv);
}

/* ---- wqd ---- */

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

	wqd_generator(s, n_jobs);
	s->path = join(dir, "/wqd.sock");
	wqd_use(s, WQD_FILL);
	s->pid = bench_spawn(s->core, argv);
	if (n_jobs > 0)
		load_fill(s, (n_jobs + UPDATES_PER_BATCH - 1) / UPDATES_PER_BATCH, 4);
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
redis_put_key(struct server *s, uint8_t *dst, uint64_t key)
{
	return (size_t)snprintf((char *)dst, REQUEST_MAX,
		"*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$16\r\n%016llu\r\n$7\r\n%07llu\r\n",
		redis_sha, (unsigned long long)key,
		(unsigned long long)(3600000 + bench_below(&s->random, 1 << 20)));
}

static size_t
redis_put(struct server *s, uint8_t *dst)
{
	return redis_put_key(s, dst, bench_below(&s->random, s->n_keys));
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

/* Cancel and queue: the job is taken away, the next request makes it again. */
static uint64_t again_key;
static bool again_cancelled;

static size_t
redis_put_again(struct server *s, uint8_t *dst)
{
	static const char cancel[] = "redis.call('DEL','j:'..KEYS[1]);"
				     "redis.call('ZREM','due',KEYS[1]);return 1";
	again_cancelled = !again_cancelled;
	if (!again_cancelled)
		return redis_put_key(s, dst, again_key);
	again_key = bench_below(&s->random, s->n_keys);
	return (size_t)snprintf((char *)dst, REQUEST_MAX,
		"*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$16\r\n%016llu\r\n",
		sizeof cancel - 1, cancel, (unsigned long long)again_key);
}

void
redis_use_again(struct server *s)
{
	again_cancelled = false;
	s->put = redis_put_again;
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

/* One at a time: the job that was put last is deleted, then put anew. */
static unsigned long long again_id;

static size_t
beanstalkd_put_again(struct server *s, uint8_t *dst)
{
	(void)s;
	again_cancelled = !again_cancelled;
	if (again_cancelled && again_id > 0)
		return (size_t)snprintf((char *)dst, REQUEST_MAX, "delete %llu\r\n", again_id);
	memcpy(dst, "put 0 100000 60 4\r\njobs\r\n", 25);
	return 25;
}

static size_t
beanstalkd_take_again(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	size_t count = line_take(s, p, n, used);

	if (count > 0 && n > 9 && p[0] == 'I')
		again_id = strtoull((const char *)p + 9, NULL, 10);
	return count;
}

void
beanstalkd_use_again(struct server *s)
{
	again_cancelled = false;
	s->put = beanstalkd_put_again;
	s->take = beanstalkd_take_again;
}

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
