#include "bench/postgres.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* https://www.postgresql.org/docs/15/protocol-message-formats.html */
#define PROTOCOL_3 196608u
#define HEAD       5 /* type and length of a message */
#define NOBODY     65534
#define SOCKET     ".s.PGSQL.5432"

static char socket_path[300];

static uint32_t
get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void
put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static size_t
put_query(uint8_t *dst, const char *sql)
{
	size_t n = strlen(sql) + 1;

	dst[0] = 'Q';
	put_u32(dst + 1, (uint32_t)(4 + n));
	memcpy(dst + HEAD, sql, n);
	return HEAD + n;
}

/* A reply is complete with its ReadyForQuery. */
static size_t
pg_take(struct server *s, const uint8_t *p, size_t n, size_t *used)
{
	size_t count = 0, at = 0, whole = 0;

	while (n - at >= HEAD) {
		size_t size = 1 + get_u32(p + at + 1);

		if (size > n - at)
			break;
		if (p[at] == 'E')
			bench_die("%s: %.*s", s->name, (int)(size - HEAD),
				(const char *)p + at + HEAD);
		at += size;
		if (p[at - size] == 'Z') {
			count++;
			whole = at;
		}
	}
	*used = whole;
	return count;
}

static void
wait_ready(struct server *s, int fd)
{
	static uint8_t reply[65536];
	size_t have = 0, used;

	while (have == 0 || pg_take(s, reply, have, &used) == 0) {
		ssize_t n = read(fd, reply + have, sizeof reply - have);

		if (n <= 0)
			bench_die("postgres: gone");
		have += (size_t)n;
	}
}

static void
query(struct server *s, int fd, const char *sql)
{
	uint8_t msg[1024];

	bench_write(fd, msg, put_query(msg, sql));
	wait_ready(s, fd);
}

static void
send_startup(int fd)
{
	static const char names[] = "user\0postgres\0database\0postgres\0";
	uint8_t msg[8 + sizeof names];

	put_u32(msg, sizeof msg);
	put_u32(msg + 4, PROTOCOL_3);
	memcpy(msg + 8, names, sizeof names);
	bench_write(fd, msg, sizeof msg);
}

static void
pg_greet(struct server *s, int fd)
{
	send_startup(fd);
	wait_ready(s, fd);
	if (s->n_keys > 0)
		query(s, fd, "PREPARE u (bigint, text) AS UPDATE job SET due = $1 WHERE key = $2");
}

static size_t
pg_put(struct server *s, uint8_t *dst)
{
	char sql[128];

	snprintf(sql, sizeof sql, "EXECUTE u (%llu, '%016llu')",
		(unsigned long long)(3600000 + bench_below(&s->random, 1 << 20)),
		(unsigned long long)bench_below(&s->random, s->n_keys));
	return put_query(dst, sql);
}

/* Runs a program as a user that is not root, with its output going nowhere. */
static pid_t
spawn_as_nobody(int core, char *const argv[])
{
	char *with[24] = { (char[]){ "setpriv" }, (char[]){ "--reuid=65534" },
		(char[]){ "--regid=65534" }, (char[]){ "--clear-groups" } };
	size_t n = geteuid() == 0 ? 4 : 0;

	for (size_t i = 0; argv[i]; i++)
		with[n++] = argv[i];
	with[n] = NULL;
	return bench_spawn(core, with);
}

static const char *
find(const char *program, char dst[128])
{
	static const char *const places[] = { "/usr/local/bin/", "/usr/bin/",
		"/usr/lib/postgresql/17/bin/", "/usr/lib/postgresql/16/bin/",
		"/usr/lib/postgresql/15/bin/", "/usr/lib/postgresql/14/bin/" };

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(dst, 128, "%s%s", places[i], program);
		if (access(dst, X_OK) == 0)
			return dst;
	}
	return NULL;
}

/* It listens before it answers. */
static void
wait_started(const struct server *s)
{
	for (int i = 0; i < 100; i++) {
		int fd = bench_connect(s->path);
		uint8_t type = 0;

		send_startup(fd);
		if (read(fd, &type, 1) == 1 && type == 'R') {
			close(fd);
			return;
		}
		close(fd);
		(void)usleep(100000);
	}
	bench_die("postgres: does not start");
}

static void
fill(struct server *s, uint64_t n_jobs)
{
	char sql[256];
	int fd;

	wait_started(s);
	fd = bench_connect(s->path);
	pg_greet(s, fd);
	query(s, fd, "CREATE TABLE job (key text PRIMARY KEY, due bigint NOT NULL)");
	snprintf(sql, sizeof sql,
		"INSERT INTO job SELECT lpad(i::text, 16, '0'), i FROM generate_series(0, %llu) i",
		(unsigned long long)n_jobs - 1);
	query(s, fd, sql);
	query(s, fd, "CHECKPOINT");
	close(fd);
}

bool
postgres_start(struct server *s, const char *dir, uint64_t n_jobs)
{
	char initdb[128], postgres[128], data[300];
	char *init[] = { initdb, (char[]){ "-D" }, data, (char[]){ "-U" }, (char[]){ "postgres" },
		(char[]){ "-A" }, (char[]){ "trust" }, (char[]){ "--no-locale" }, (char[]){ "-E" },
		(char[]){ "UTF8" }, NULL };
	char *run[] = { postgres, (char[]){ "-D" }, data, (char[]){ "-k" }, (char *)(uintptr_t)dir,
		(char[]){ "-h" }, (char[]){ "" }, NULL };
	char version[320];

	if (!find("initdb", initdb) || !find("postgres", postgres))
		return false;
	snprintf(data, sizeof data, "%s/data", dir);
	snprintf(socket_path, sizeof socket_path, "%s/" SOCKET, dir);
	if (geteuid() == 0 && chown(dir, NOBODY, NOBODY) != 0)
		return false;
	bench_wait(spawn_as_nobody(-1, init));
	snprintf(version, sizeof version, "%s/PG_VERSION", data);
	if (access(version, F_OK) != 0)
		return false;
	*s = (struct server){
		.name = "postgres",
		.path = socket_path,
		.random = 1812433253,
		.greet = pg_greet,
		.put = pg_put,
		.take = pg_take,
	};
	s->pid = spawn_as_nobody(-1, run);
	fill(s, n_jobs);
	s->n_keys = n_jobs;
	return true;
}
