/*
 * What a durable reschedule costs: at our level `sync`, beside our own level
 * `memory`, the bare disk, SQLite alone and others that sync every change; bytes
 * that the daemon writes for one; disk for a job; the time of a restart.
 *
 *   bench_durable [--wqd PROGRAM] [--jobs N] [--rounds N] [--ms N] [--no-peers] [--dir DIR]
 *                 [--only 1|2|3|restart] [--no-memory]
 *
 * --only measures one part: a shape of the load, or the restart.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/peers.h"
#include "bench/postgres.h"

/* clang-format off */
static const struct shape {
	const char *name;
	unsigned conns, depth;
} shapes[] = {
	{ "1 connection, 1 in flight",       1,  1 },
	{ "1 connection, 256 in flight",     1,  256 },
	{ "64 connections, 16384 in flight", 64, 256 },
};
/* clang-format on */
#define N_SHAPES (sizeof shapes / sizeof *shapes)

enum { SYNC, MEMORY, REDIS, BEANSTALKD, POSTGRES, N_SERVERS };
static const char *const title[N_SERVERS] = { "wqd sync", "wqd memory", "redis always",
	"beanstalkd -f 0", "postgres" };

struct bench {
	const char *program, *parent;
	uint64_t jobs;
	unsigned rounds;
	int64_t for_ns;
	bool peers, memory;
	size_t from, to; /* shapes */
	bool restart;
	char dir[256], path[N_SERVERS][300];
	struct server server[N_SERVERS];
	bool there[N_SERVERS];
	struct figure rate[N_SERVERS], bytes;
	double append_ns; /* a page and its sync */
};

static struct bench b = {
	.program = "daemon/wqd",
	.parent = "/var/tmp",
	.jobs = 10000,
	.rounds = 5,
	.for_ns = 2000000000,
	.peers = true,
	.memory = true,
	.to = N_SHAPES,
	.restart = true,
};

/* ---- the disk alone ---- */

static void
bench_append(void)
{
	static char page[4096];
	struct figure f = { .n = 0 };
	char path[300];
	int fd;

	snprintf(path, sizeof path, "%s/append", b.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die("%s can't be made", path);
	for (unsigned r = 0; r < b.rounds; r++) {
		int64_t start = bench_now_ns();

		for (int i = 0; i < 500; i++)
			if (write(fd, page, sizeof page) != sizeof page || fdatasync(fd) != 0)
				bench_die("%s: a write failed", path);
		figure_add(&f, (double)(bench_now_ns() - start) / 500);
	}
	close(fd);
	unlink(path);
	b.append_ns = figure_median(&f);
	printf("append of 4 KiB + fdatasync    %8.1f us  spread %3.0f %%\n", b.append_ns / 1e3,
		figure_spread(&f));
}

static void
sql(sqlite3 *db, const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		bench_die("sqlite: %s", sqlite3_errmsg(db));
}

/* `n` rows from `first` on, or at random when it is negative. */
static void
upsert(sqlite3 *db, sqlite3_stmt *q, int64_t first, unsigned n)
{
	static uint64_t random = 4101842887655102017u;
	char key[24];

	sql(db, "BEGIN");
	for (unsigned i = 0; i < n; i++) {
		uint64_t k = first < 0 ? bench_below(&random, b.jobs) : (uint64_t)first + i;

		snprintf(key, sizeof key, "%016llu", (unsigned long long)k);
		sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
		sqlite3_bind_int64(q, 2, bench_now_ns());
		sqlite3_step(q);
		if (sqlite3_reset(q) != SQLITE_OK)
			bench_die("sqlite: %s", sqlite3_errmsg(db));
	}
	sql(db, "COMMIT");
}

static void
bench_sqlite_groups(sqlite3 *db, sqlite3_stmt *q)
{
	static const unsigned sizes[] = { 1, 100, 1000 };

	for (int i = 0; i < 3; i++) {
		struct figure f = { .n = 0 };

		for (unsigned r = 0; r < b.rounds; r++) {
			int64_t start = bench_now_ns(), now = start;
			uint64_t rows = 0;

			for (; now - start < b.for_ns / 2; now = bench_now_ns(), rows += sizes[i])
				upsert(db, q, -1, sizes[i]);
			figure_add(&f, (double)rows * 1e9 / (double)(now - start));
		}
		printf("SQLite, %4u rows a transaction %8.0f /s  spread %3.0f %%\n", sizes[i],
			figure_median(&f), figure_spread(&f));
	}
}

static void
bench_sqlite(void)
{
	char path[300];
	sqlite3 *db;
	sqlite3_stmt *q;

	snprintf(path, sizeof path, "%s/yard.db", b.dir);
	if (sqlite3_open(path, &db) != SQLITE_OK)
		bench_die("%s can't be opened", path);
	sql(db,
		"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
		"PRAGMA synchronous = FULL;"
		"CREATE TABLE job (key TEXT PRIMARY KEY, due INTEGER) WITHOUT ROWID");
	if (sqlite3_prepare_v2(db,
		    "INSERT INTO job VALUES (?, ?) ON CONFLICT DO UPDATE SET due = excluded.due",
		    -1, &q, NULL) != SQLITE_OK)
		bench_die("sqlite: %s", sqlite3_errmsg(db));
	for (uint64_t k = 0; k < b.jobs; k += 10000)
		upsert(db, q, (int64_t)k, b.jobs - k < 10000 ? (unsigned)(b.jobs - k) : 10000);
	bench_sqlite_groups(db, q);
	sqlite3_finalize(q);
	sqlite3_close(db);
	unlink(path);
}

/* ---- servers ---- */

static uint64_t
bytes_written(pid_t pid)
{
	char path[64], line[128];
	unsigned long long v = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		(void)sscanf(line, "write_bytes: %llu", &v);
	if (f)
		fclose(f);
	return v;
}

static uint64_t
disk_bytes(void)
{
	static const char *const names[] = { "wqd.db", "wqd.db-wal" };
	uint64_t sum = 0;
	struct stat sb;
	char path[400];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/state/%s", b.path[SYNC], names[i]);
		if (stat(path, &sb) == 0)
			sum += (uint64_t)sb.st_size;
	}
	return sum;
}

static void
run_once(int i, const struct shape *sh, bool counts)
{
	const struct load load = { sh->conns, sh->depth, counts ? b.for_ns : b.for_ns / 4 };
	uint64_t before = bytes_written(b.server[i].pid);
	static struct load_result r;

	load_run(&b.server[i], &load, &r);
	if (!counts)
		return;
	figure_add(&b.rate[i], r.per_s);
	if (i == SYNC)
		figure_add(&b.bytes,
			(double)(bytes_written(b.server[i].pid) - before) /
				(r.per_s * (double)b.for_ns / 1e9));
}

/* beanstalkd refuses what another connection has reserved: it gets one alone. */
static void
run_shape(const struct shape *sh)
{
	char si[16];

	memset(b.rate, 0, sizeof b.rate);
	b.bytes.n = 0;
	for (unsigned r = 0; r <= b.rounds; r++)
		for (int i = 0; i < N_SERVERS; i++)
			if (b.there[i] && !(i == BEANSTALKD && sh->conns > 1))
				run_once(i, sh, r > 0);
	printf("\n%s\n", sh->name);
	for (int i = 0; i < N_SERVERS; i++) {
		if (!b.rate[i].n)
			continue;
		printf("  %-16s %10s/s  spread %3.0f %%", title[i],
			bench_si(figure_median(&b.rate[i]), si), figure_spread(&b.rate[i]));
		if (i != SYNC && b.rate[SYNC].n)
			printf("  sync is %.2f x", figure_ratio(&b.rate[SYNC], &b.rate[i]));
		putchar('\n');
	}
	printf("  bytes written a reschedule %.0f\n", figure_median(&b.bytes));
	if (sh->conns * sh->depth == 1)
		printf("  a sync reschedule is %.2f x append + fdatasync\n",
			1e9 / figure_median(&b.rate[SYNC]) / b.append_ns);
	fflush(stdout);
}

/* Ended in order, started again: until the first request is answered. */
static void
bench_restart(void)
{
	struct figure f = { .n = 0 };
	uint64_t bytes = 0;

	b.server[SYNC].core = -1; /* recovery has two threads, and nobody else works */
	for (unsigned r = 0; r < b.rounds; r++) {
		int64_t start;

		bench_stop(b.server[SYNC].pid);
		bytes = disk_bytes();
		start = bench_now_ns();
		wqd_start_level(&b.server[SYNC], b.program, b.path[SYNC], "sync", 0, 0);
		b.server[SYNC].n_keys = b.jobs;
		load_fill(&b.server[SYNC], 1, 1);
		figure_add(&f, (double)(bench_now_ns() - start) / 1e6);
	}
	printf("\nrestart until the first answer %.0f ms  spread %.0f %%\n", figure_median(&f),
		figure_spread(&f));
	printf("disk for a job %.0f bytes (key of 16, no payload)\n",
		(double)bytes / (double)b.jobs);
}

/* ---- all of it ---- */

static void
only(const char *what)
{
	size_t n = strtoul(what, NULL, 10);

	b.restart = strcmp(what, "restart") == 0;
	b.from = b.to = 0;
	if (n >= 1 && n <= N_SHAPES) {
		b.from = n - 1;
		b.to = n;
	} else if (!b.restart) {
		exit(2);
	}
}

static void
options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "wqd", required_argument, NULL, 'w' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "ms", required_argument, NULL, 'm' },
		{ "no-peers", no_argument, NULL, 'n' },
		{ "no-memory", no_argument, NULL, 'M' },
		{ "only", required_argument, NULL, 'o' },
		{ "dir", required_argument, NULL, 'd' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'w')
			b.program = optarg;
		else if (c == 'j')
			b.jobs = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			b.rounds = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'm')
			b.for_ns = (int64_t)strtoll(optarg, NULL, 10) * 1000000;
		else if (c == 'n')
			b.peers = false;
		else if (c == 'M')
			b.memory = false;
		else if (c == 'o')
			only(optarg);
		else if (c == 'd')
			b.parent = optarg;
		else
			exit(2);
	}
	if (b.jobs == 0 || b.rounds == 0 || b.rounds > ROUNDS_MAX || b.for_ns <= 0)
		bench_die("jobs, rounds (at most %d) and ms are from 1 on", ROUNDS_MAX);
}

static void
start_all(void)
{
	static const char *const name[N_SERVERS] = { "sync", "memory", "redis", "beanstalkd",
		"postgres" };

	for (int i = 0; i < N_SERVERS; i++) {
		snprintf(b.path[i], sizeof b.path[i], "%s/%s", b.dir, name[i]);
		if (mkdir(b.path[i], 0700) != 0)
			bench_die("no folder %s", b.path[i]);
	}
	wqd_start_level(&b.server[SYNC], b.program, b.path[SYNC], "sync", b.jobs, 0);
	b.there[SYNC] = true;
	if (b.memory)
		wqd_start_level(&b.server[MEMORY], b.program, b.path[MEMORY], "memory", b.jobs, 0);
	b.there[MEMORY] = b.memory;
	if (b.peers) {
		b.there[REDIS] = redis_start_sync(&b.server[REDIS], b.path[REDIS], b.jobs, true);
		b.there[BEANSTALKD] = beanstalkd_start_sync(
			&b.server[BEANSTALKD], b.path[BEANSTALKD], b.jobs, true);
		b.there[POSTGRES] = postgres_start(&b.server[POSTGRES], b.path[POSTGRES], b.jobs);
		if (!b.there[POSTGRES])
			printf("PostgreSQL is not installed, or does not start here\n");
	}
}

static void
clean_up(void)
{
	char *argv[] = { (char[]){ "rm" }, (char[]){ "-rf" }, b.dir, NULL };

	if (getenv("BENCH_KEEP"))
		printf("kept %s\n", b.dir);
	else
		bench_wait(bench_spawn(1, argv));
}

int
main(int argc, char **argv)
{
	options(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	snprintf(b.dir, sizeof b.dir, "%s/wq-bench-XXXXXX", b.parent);
	if (!mkdtemp(b.dir))
		bench_die("no folder %s", b.dir);
	bench_pin(1);
	bench_machine();
	printf("reschedule of a random one of %llu jobs; %u rounds of %lld ms\n",
		(unsigned long long)b.jobs, b.rounds, (long long)b.for_ns / 1000000);
	if (chmod(b.dir, 0711) != 0) /* not all servers run as us */
		bench_die("%s: mode", b.dir);
	bench_append();
	if (b.peers)
		bench_sqlite();
	start_all();
	for (size_t i = b.from; i < b.to; i++)
		run_shape(&shapes[i]);
	if (b.restart)
		bench_restart();
	for (int i = 0; i < N_SERVERS; i++)
		bench_stop(b.server[i].pid);
	clean_up();
	return 0;
}
