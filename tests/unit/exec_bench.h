/*
 * A runner on a reactor of its own, with real processes, and a note of all that
 * it tells: for the tests of daemon/run.
 */
#ifndef WQD_TESTS_EXEC_BENCH_H
#define WQD_TESTS_EXEC_BENCH_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/runner.h"
#include "unit/poll_reactor.h"
#include "unit/unit.h"

#define BENCH_RUNS    1024
#define BENCH_WAIT_NS (100 * NS_PER_S) /* for a loaded machine */

struct seen {
	bool started, not_started, ended;
	pid_t pid;
	int error; /* of not_started */
	struct run_end end;
	char *output; /* owned, with a NUL behind */
};

struct bench {
	struct poll_reactor rx;
	struct runner *r;
	bool inside; /* of a call into the runner: callbacks are forbidden */
	struct seen seen[BENCH_RUNS];
	size_t n_ended, n_not_started;
	void (*on_started)(struct bench *b, uint64_t run_id);
	void (*on_ended)(struct bench *b, uint64_t run_id);
	char dir[64];
	char instance[64]; /* of this one alone: orphans_end looks at the whole machine */
};

static inline void
bench_started(void *ctx, uint64_t run_id, pid_t pid)
{
	struct bench *b = ctx;
	struct seen *s = &b->seen[run_id];

	ck_assert(!b->inside && !s->started && !s->not_started && !s->ended);
	ck_assert_int_gt(pid, 1);
	s->started = true;
	s->pid = pid;
	if (b->on_started)
		b->on_started(b, run_id);
}

static inline void
bench_not_started(void *ctx, uint64_t run_id, int error)
{
	struct bench *b = ctx;
	struct seen *s = &b->seen[run_id];

	ck_assert(!b->inside && !s->started && !s->not_started && !s->ended);
	s->not_started = true;
	s->error = error;
	b->n_not_started++;
}

static inline void
bench_ended(void *ctx, const struct run_end *end)
{
	struct bench *b = ctx;
	struct seen *s = &b->seen[end->run_id];

	ck_assert(!b->inside && !s->not_started && !s->ended);
	ck_assert(s->started || end->error);
	s->ended = true;
	s->end = *end;
	s->output = must_zalloc(end->output.n + 1);
	if (end->output.n)
		memcpy(s->output, end->output.p, end->output.n);
	b->n_ended++;
	if (b->on_ended)
		b->on_ended(b, end->run_id);
}

static inline struct bench *
bench_new(const char *socket)
{
	struct bench *b = must_zalloc(sizeof *b);
	struct runner_config cfg = {
		.reactor = &b->rx.rx,
		.instance = b->instance,
		.socket = socket,
		.ctx = b,
		.started = bench_started,
		.not_started = bench_not_started,
		.ended = bench_ended,
	};

	snprintf(b->instance, sizeof b->instance, "unit-test-%d-%lld", (int)getpid(),
		(long long)poll_reactor_now());
	poll_reactor_init(&b->rx);
	strcpy(b->dir, "/tmp/wqd-exec-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(b->dir));
	ck_assert_int_eq(chmod(b->dir, 0755), 0);
	ck_assert_int_eq(runner_new(&cfg, &b->r), 0);
	return b;
}

static inline void
bench_forget(struct bench *b)
{
	for (size_t i = 0; i < BENCH_RUNS; i++)
		x_free(b->seen[i].output);
	memset(b->seen, 0, sizeof b->seen);
	b->n_ended = b->n_not_started = 0;
}

/* The test's files are few and flat. */
static inline void
bench_free(struct bench *b)
{
	DIR *d = opendir(b->dir);

	for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(b->dir);
	ck_assert_uint_eq(runner_active(b->r), 0);
	runner_free(b->r);
	poll_reactor_done(&b->rx);
	bench_forget(b);
	x_free(b);
}

/* `argv` NULL-terminated; everything else as a handler without options. */
static inline struct handler
bench_handler(char **argv)
{
	return (struct handler){
		.name = "h",
		.command = argv,
		.umask = 022,
		.grace_ns = 60 * NS_PER_S,
		.output_max = 65536,
	};
}

static inline struct run_start
bench_run(uint64_t run_id)
{
	return (struct run_start){
		.run_id = run_id,
		.token = 77,
		.action = ACTION_EXEC,
		.handler = STR("h"),
		.queue = STR("q"),
		.key = STR("k"),
		.generation = 1,
		.attempt = 1,
	};
}

static inline void
bench_start_run(struct bench *b, const struct run_start *start, const struct handler *h)
{
	b->inside = true;
	runner_start(b->r, start, h);
	b->inside = false;
}

static inline void
bench_start(struct bench *b, uint64_t run_id, const struct handler *h)
{
	struct run_start start = bench_run(run_id);

	bench_start_run(b, &start, h);
}

static inline void
bench_kill(struct bench *b, uint64_t run_id, enum run_outcome why)
{
	b->inside = true;
	runner_kill(b->r, run_id, why);
	b->inside = false;
}

static inline void
bench_kill_all(struct bench *b, enum run_outcome why, int64_t grace_ns)
{
	b->inside = true;
	runner_kill_all(b->r, why, grace_ns);
	b->inside = false;
}

#define BENCH_UNTIL(b, cond) \
	do { \
		int64_t until_ = poll_reactor_now() + BENCH_WAIT_NS; \
\
		while (!(cond)) { \
			ck_assert_msg(poll_reactor_now() < until_, "never: %s", #cond); \
			poll_reactor_turn(&(b)->rx, 1000); \
		} \
	} while (0)

/* Starts it and turns the loop until it has ended. */
static inline const struct seen *
bench_play(struct bench *b, uint64_t run_id, const struct handler *h)
{
	bench_start(b, run_id, h);
	BENCH_UNTIL(b, b->seen[run_id].ended || b->seen[run_id].not_started);
	return &b->seen[run_id];
}

static inline const struct seen *
bench_shell(struct bench *b, uint64_t run_id, const char *script)
{
	char *argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, NULL, NULL };
	const struct seen *s;
	struct handler h;

	argv[2] = must_strdup(script);
	h = bench_handler(argv);
	s = bench_play(b, run_id, &h);
	x_free(argv[2]);
	return s;
}

/* Waits until the process is dead (its zombie may remain). */
static inline void
wait_gone(pid_t pid)
{
	struct pollfd p = { .fd = pidfd_open(pid, 0), .events = POLLIN };

	ck_assert_int_gt(pid, 1);
	if (p.fd < 0)
		return;
	ck_assert_int_eq(poll(&p, 1, (int)(BENCH_WAIT_NS / NS_PER_MS)), 1);
	close(p.fd);
}

static inline bool
is_alive(pid_t pid)
{
	struct pollfd p = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	int n;

	if (p.fd < 0)
		return false;
	n = poll(&p, 1, 0);
	close(p.fd);
	return n == 0;
}

/* The state letter and process group of a process; false: there is none. */
static inline bool
process_stat(pid_t pid, char *state, pid_t *group)
{
	char path[64], text[512];
	const char *after;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	after = strrchr(text, ')');
	return after && sscanf(after, ") %c %*d %d", state, group) == 2;
}

/* Nothing but zombies is left of the process group. */
static inline bool
group_is_dead(pid_t group)
{
	DIR *proc = opendir("/proc");
	bool dead = true;

	ck_assert_ptr_nonnull(proc);
	for (const struct dirent *e; dead && (e = readdir(proc)) != NULL;) {
		pid_t its;
		char state;

		if (process_stat((pid_t)atoi(e->d_name), &state, &its) && its == group)
			dead = state == 'Z' || state == 'X';
	}
	closedir(proc);
	return dead;
}

/* A fifo in the bench's directory, for a run to say how far it is. */
static inline void
bench_fifo(const struct bench *b, char *path, size_t size)
{
	snprintf(path, size, "%s/fifo", b->dir);
	ck_assert_int_eq(mkfifo(path, 0666), 0);
}

/* Waits until somebody has opened the fifo for writing and closed it again. */
static inline void
bench_fifo_wait(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c;

	ck_assert_int_ge(fd, 0);
	while (read(fd, &c, 1) > 0)
		;
	close(fd);
}

#endif
