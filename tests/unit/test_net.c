/*
 * net: loop, listeners and connections over real sockets in a folder of their
 * own. Every turn of the loop is taken by the test's own thread, and waits on
 * events.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/err.h"
#include "net/listen.h"
#include "net/loop.h"
#include "unit/unit.h"

#define PATIENCE_NS (30 * NS_PER_S)

/* ---- the protocol of these tests: every line comes back; "quit" closes ---- */

struct echo {
	struct conn *c;
	struct peer peer;
	struct buf out;
	size_t out_limit; /* unsent bytes at which it wants no more */
	bool hold;        /* wants nothing for now */
	bool closing, expired;
	bool early; /* sends each line at once */
	int a_turn; /* lines it takes in one call; 0: all */
	int64_t deadline;
};

static struct loop *loop;
static struct conns *conns;
static struct echo *last; /* the newest session */
static int n_open, n_closed, n_refused, n_ticks, n_turns;
static int64_t tick_seen;
static size_t out_limit, n_lines;
static bool last_words;
static int64_t deadline;
static char log_of_turn[64]; /* what came in which order */

static void
note(char c)
{
	size_t n = strlen(log_of_turn);

	if (n + 1 < sizeof log_of_turn) {
		log_of_turn[n] = c;
		log_of_turn[n + 1] = '\0';
	}
}

static int
echo_open(void *ctx, struct conn *c, const struct peer *peer, struct moment now, void **session)
{
	struct echo *e = must_zalloc(sizeof *e);

	(void)ctx;
	e->c = c;
	e->peer = *peer;
	e->out_limit = out_limit;
	e->deadline = deadline == INT64_MAX ? INT64_MAX : sat_add(now.boot_ns, deadline);
	buf_init(&e->out, 64u << 20);
	*session = last = e;
	n_open++;
	return 0;
}

static void
echo_close(void *session, struct moment now)
{
	struct echo *e = session;

	(void)now;
	if (last == e)
		last = NULL;
	if (last_words)
		conn_output_ready(e->c);
	buf_done(&e->out);
	x_free(e);
	n_closed++;
}

static bool
echo_wants(const void *session)
{
	const struct echo *e = session;

	return !e->closing && !e->hold && buf_len(&e->out) < e->out_limit;
}

static int
echo_input(void *session, struct moment now, struct buf *in)
{
	struct echo *e = session;
	uint8_t *nl;
	int lines = 0;

	(void)now;
	note('i');
	while (echo_wants(e) && buf_len(in) > 0 &&
		(nl = memchr(buf_head(in), '\n', buf_len(in))) != NULL) {
		size_t n = (size_t)(nl + 1 - buf_head(in));

		if (e->a_turn && lines++ == e->a_turn)
			return 1;
		if (n == 5 && memcmp(buf_head(in), "quit", 4) == 0)
			e->closing = true;
		ck_assert_int_eq(buf_put(&e->out, buf_head(in), n), 0);
		buf_consume(in, n);
		n_lines++;
		if (e->early)
			conn_output_early(e->c);
		ck_assert(!e->early || buf_len(&e->out) == 0);
	}
	return 0;
}

static struct buf *
echo_output(void *session)
{
	return &((struct echo *)session)->out;
}

static bool
echo_closing(const void *session)
{
	return ((const struct echo *)session)->closing;
}

static int64_t
echo_deadline(const void *session)
{
	return ((const struct echo *)session)->deadline;
}

static void
echo_expired(void *session)
{
	struct echo *e = session;

	e->expired = e->closing = true;
	ck_assert_int_eq(buf_put(&e->out, "late\n", 5), 0);
}

static void
echo_refused(void *ctx)
{
	(void)ctx;
	n_refused++;
}

/* ---- fixture ---- */

static char dir[64], sock[128];
static const struct listen_options options = { .mode = 0660, .group = (gid_t)-1 };
static struct listen_error error;

static void
on_tick(void *ctx, struct moment now)
{
	(void)ctx;
	n_ticks++;
	tick_seen = now.boot_ns;
	note('t');
}

static void
on_turn(void *ctx, struct moment now)
{
	(void)ctx;
	(void)now;
	n_turns++;
}

static void
conns_up(uint32_t max)
{
	const struct conns_config cfg = {
		.loop = loop,
		.protocol = { .open = echo_open,
			.close = echo_close,
			.input = echo_input,
			.output = echo_output,
			.wants_input = echo_wants,
			.closing = echo_closing,
			.deadline = echo_deadline,
			.expired = echo_expired,
			.refused = echo_refused },
		.max = max,
		.frame_max = 4u << 20,
		.busy = STR("busy\n"),
	};

	ck_assert_int_eq(conns_new(&cfg, &conns), 0);
}

static void
up(void)
{
	const struct loop_hooks hooks = { .tick = on_tick, .turn = on_turn };

	n_open = n_closed = n_refused = n_ticks = n_turns = 0;
	out_limit = 1u << 20;
	n_lines = 0;
	deadline = INT64_MAX;
	log_of_turn[0] = '\0';
	snprintf(dir, sizeof dir, "/tmp/wqd-net-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(sock, sizeof sock, "%s/s", dir);
	ck_assert_int_eq(loop_new(&hooks, &loop), 0);
	conns_up(100);
}

static void
down(void)
{
	conns_free(conns);
	loop_free(loop);
	unlink(sock);
	ck_assert_int_eq(rmdir(dir), 0);
	ck_assert_int_eq(n_open, n_closed);
}

/* Turns the loop until `cond` (evaluated once a turn). */
#define UNTIL(cond) \
	do { \
		int64_t end_ = clock_boot_ns() + PATIENCE_NS; \
		while (!(cond)) { \
			unit_check(clock_boot_ns() < end_); \
			unit_check(loop_turn(loop, false) == 0); \
			usleep(200); \
		} \
	} while (0)

static struct sockaddr_un
unix_address(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	ck_assert_uint_lt(strlen(path), sizeof un.sun_path);
	memcpy(un.sun_path, path, strlen(path));
	return un;
}

static int
dial(const char *path)
{
	struct sockaddr_un un = unix_address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&un, sizeof un) < 0) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

static struct listener *
open_unix(void)
{
	char address[160];
	struct listener *ln = NULL;

	snprintf(address, sizeof address, "unix:%s", sock);
	ck_assert_int_eq(listener_open(conns, address, &options, &ln, &error), 0);
	ck_assert_str_eq(listener_address(ln), address);
	return ln;
}

static int
open_fails(const char *address)
{
	struct listener *ln = NULL;
	int err = listener_open(conns, address, &options, &ln, &error);

	ck_assert_int_lt(err, 0);
	ck_assert_uint_gt(strlen(error.text), 0);
	ck_assert_ptr_null(ln);
	return err;
}

static int
open_fails_at(const char *path)
{
	char address[400];

	snprintf(address, sizeof address, "unix:%s", path);
	return open_fails(address);
}

/* What arrives at `fd` until it is `want` bytes, or the end. */
static char got[4096];

static bool
receive(int fd, size_t want)
{
	static size_t n;
	ssize_t r = recv(fd, got + n, sizeof got - 1 - n, MSG_DONTWAIT);

	if (r > 0)
		n += (size_t)r;
	got[n] = '\0';
	if (n < want && r != 0)
		return false;
	n = 0;
	return true;
}

static void
say(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

#define EXPECT(fd, text) \
	do { \
		UNTIL(receive(fd, strlen(text))); \
		ck_assert_str_eq(got, text); \
	} while (0)

/* A connected pair: ours, and the daemon's given to conns. */
static int
pair(void)
{
	int sv[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	ck_assert_int_eq(conns_add(conns, sv[1], NULL), 0);
	return sv[0];
}

/* ---- loop ---- */

START_TEST(tick_comes_at_its_time_and_not_before)
{
	int64_t at = clock_boot_ns() + 3 * NS_PER_MS;

	loop_tick_at(loop, at);
	while (n_ticks == 0)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_ge(tick_seen, at);
	/* It sleeps on a timer, it does not spin. */
	ck_assert_int_le(n_turns, 4);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(n_ticks, 1);
}
END_TEST

START_TEST(tick_moves_later_and_earlier)
{
	int64_t first = clock_boot_ns() + 2 * NS_PER_MS, later = first + 3 * NS_PER_MS;

	loop_tick_at(loop, first);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	loop_tick_at(loop, later);
	while (n_ticks == 0)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_ge(tick_seen, later);

	loop_tick_at(loop, clock_boot_ns() + 3600 * NS_PER_S);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	loop_tick_at(loop, clock_boot_ns() + NS_PER_MS);
	while (n_ticks == 1)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	loop_tick_at(loop, 0); /* long ago: now */
	ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_eq(n_ticks, 3);
	loop_tick_at(loop, INT64_MAX);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(n_ticks, 3);
}
END_TEST

/* As after a SIGSTOP: input of many connections and an overdue tick at once. */
START_TEST(G15_input_that_has_arrived_comes_before_an_overdue_tick)
{
	int fd[80];

	for (int i = 0; i < 80; i++)
		fd[i] = pair();
	ck_assert_int_eq(loop_turn(loop, false), 0);
	log_of_turn[0] = '\0';
	for (int i = 0; i < 80; i++)
		say(fd[i], "x\n");
	loop_tick_at(loop, clock_boot_ns() - NS_PER_S);
	n_ticks = 0;
	while (n_ticks == 0)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	/* More than one poll's worth, and yet the tick came last. */
	ck_assert_uint_eq(strlen(log_of_turn), sizeof log_of_turn - 1);
	ck_assert_ptr_null(strchr(log_of_turn, 't'));
	for (int i = 0; i < 80; i++) {
		EXPECT(fd[i], "x\n");
		close(fd[i]);
	}
	UNTIL(n_closed == 80);
}
END_TEST

struct timer_seen {
	struct reactor_timer *t;
	int n;
};

static void
timer_cb(void *arg)
{
	((struct timer_seen *)arg)->n++;
}

START_TEST(reactor_timers_fire_once_move_and_disarm)
{
	const struct reactor *r = loop_reactor(loop);
	struct timer_seen a = { 0 }, b = { 0 };
	int64_t start = clock_boot_ns();

	ck_assert_int_eq(r->timer_new(r->ctx, timer_cb, &a, &a.t), 0);
	ck_assert_int_eq(r->timer_new(r->ctx, timer_cb, &b, &b.t), 0);
	r->timer_set(r->ctx, b.t, 0);
	r->timer_set(r->ctx, b.t, -1);
	r->timer_set(r->ctx, a.t, 3600 * NS_PER_S);
	r->timer_set(r->ctx, a.t, 2 * NS_PER_MS);
	while (a.n == 0)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_ge(clock_boot_ns(), start + 2 * NS_PER_MS);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(a.n, 1);
	ck_assert_int_eq(b.n, 0);
	r->timer_set(r->ctx, a.t, INT64_MAX);
	r->timer_del(r->ctx, a.t);
	r->timer_del(r->ctx, b.t);
}
END_TEST

struct io_seen {
	struct reactor_io *io;
	int n;
};

static void
io_once(void *arg, unsigned ready)
{
	struct io_seen *s = arg;
	const struct reactor *r = loop_reactor(loop);

	ck_assert_uint_eq(ready, REACTOR_READ);
	s->n++;
	r->io_del(r->ctx, s->io);
}

START_TEST(reactor_io_may_be_deleted_in_its_callback)
{
	const struct reactor *r = loop_reactor(loop);
	struct io_seen s = { 0 };
	int p[2];

	ck_assert_int_eq(pipe(p), 0);
	ck_assert_int_eq(r->io_add(r->ctx, p[0], REACTOR_READ, io_once, &s, &s.io), 0);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(s.n, 0);
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	UNTIL(s.n == 1);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(s.n, 1);
	r->io_del(r->ctx, NULL);
	close(p[0]);
	close(p[1]);
}
END_TEST

static int signals_seen[2];

static void
on_signal(void *arg, int signo)
{
	signals_seen[*(int *)arg]++;
	ck_assert_int_eq(signo, *(int *)arg ? SIGUSR2 : SIGUSR1);
}

START_TEST(signals_arrive_in_the_loop)
{
	static int which[2] = { 0, 1 };

	signals_seen[0] = signals_seen[1] = 0;
	ck_assert_int_eq(loop_signal(loop, SIGUSR1, on_signal, &which[0]), 0);
	ck_assert_int_eq(loop_signal(loop, SIGUSR2, on_signal, &which[1]), 0);
	raise(SIGUSR2);
	ck_assert_int_eq(signals_seen[1], 0);
	UNTIL(signals_seen[1] == 1);
	raise(SIGUSR1);
	UNTIL(signals_seen[0] == 1);
}
END_TEST

static int n_deferred;
static struct loop_task again;

static void
on_deferred(void *arg)
{
	(void)arg;
	if (++n_deferred < 3)
		loop_defer(loop, &again);
}

static int turns_before_task;

static void
count_turns(void *arg)
{
	(void)arg;
	turns_before_task = n_turns;
}

/* It is there that the next wake-up is decided. */
START_TEST(the_end_of_a_turn_comes_after_its_deferred_tasks)
{
	struct loop_task t;

	loop_task_init(&t, count_turns, NULL);
	loop_defer(loop, &t);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_gt(n_turns, turns_before_task);
}
END_TEST

START_TEST(deferred_tasks_run_once_a_turn_and_keep_it_awake)
{
	n_deferred = 0;
	loop_task_init(&again, on_deferred, NULL);
	loop_defer(loop, &again);
	loop_defer(loop, &again);
	for (int i = 1; i <= 3; i++) {
		ck_assert_int_eq(loop_turn(loop, true), 0);
		ck_assert_int_eq(n_deferred, i);
	}
	loop_defer(loop, &again);
	loop_task_cancel(&again);
	loop_task_cancel(&again);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(n_deferred, 3);
}
END_TEST

/* ---- listeners ---- */

START_TEST(a_socket_is_born_with_its_mode_whatever_the_umask)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	static const mode_t modes[] = { 0600, 0660, 0666 };

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(modes); j++) {
			const struct listen_options o = { .mode = modes[j], .group = getegid() };
			mode_t old = umask(masks[i]);
			struct listener *ln;
			struct stat st;
			char address[160];

			snprintf(address, sizeof address, "unix:%s", sock);
			ck_assert_int_eq(listener_open(conns, address, &o, &ln, &error), 0);
			umask(old);
			ck_assert_int_eq(lstat(sock, &st), 0);
			ck_assert(S_ISSOCK(st.st_mode));
			ck_assert_uint_eq(st.st_mode & 07777, modes[j]);
			ck_assert_uint_eq(st.st_gid, getegid());
			listener_close(ln);
			ck_assert_int_eq(lstat(sock, &st), -1);
		}
	}
}
END_TEST

START_TEST(another_group_can_be_given_by_who_may)
{
	const struct listen_options o = { .mode = 0660, .group = 12345 };
	struct listener *ln = NULL;
	struct stat st;
	char address[160];
	int err;

	snprintf(address, sizeof address, "unix:%s", sock);
	err = listener_open(conns, address, &o, &ln, &error);
	if (geteuid() == 0) {
		ck_assert_int_eq(err, 0);
		ck_assert_int_eq(lstat(sock, &st), 0);
		ck_assert_uint_eq(st.st_gid, 12345);
		listener_close(ln);
	} else {
		ck_assert_int_eq(err, -EPERM);
		/* Nothing half made is left. */
		ck_assert_int_eq(lstat(sock, &st), -1);
	}
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
	struct sockaddr_un un = unix_address(sock);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct listener *ln;

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	close(fd); /* as a killed daemon leaves it */
	ln = open_unix();
	fd = dial(sock);
	ck_assert_int_ge(fd, 0);
	say(fd, "hi\n");
	EXPECT(fd, "hi\n");
	close(fd);
	UNTIL(n_closed == 1);
	listener_close(ln);
}
END_TEST

START_TEST(a_live_socket_is_not_stolen)
{
	struct listener *ln = open_unix();
	struct stat before, after;
	int fd;

	ck_assert_int_eq(lstat(sock, &before), 0);
	ck_assert_int_eq(open_fails_at(sock), -EADDRINUSE);
	ck_assert_int_eq(lstat(sock, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	/* The probe was a connection like others; it goes by itself. */
	fd = dial(sock);
	say(fd, "still\n");
	EXPECT(fd, "still\n");
	close(fd);
	UNTIL(n_closed == n_open);
	listener_close(ln);
}
END_TEST

START_TEST(what_is_no_socket_is_never_removed)
{
	struct stat st;
	int fd = open(sock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	ck_assert_int_eq(write(fd, "mine", 4), 4);
	close(fd);
	ck_assert_int_eq(open_fails_at(sock), ERR_NOT_OURS);
	ck_assert_int_eq(lstat(sock, &st), 0);
	ck_assert_int_eq(st.st_size, 4);
	ck_assert_int_eq(unlink(sock), 0);
	ck_assert_int_eq(symlink("/tmp/nowhere-at-all", sock), 0);
	ck_assert_int_eq(open_fails_at(sock), ERR_NOT_OURS);
	ck_assert_int_eq(lstat(sock, &st), 0);
	ck_assert_int_eq(unlink(sock), 0);
	ck_assert_int_eq(mkdir(sock, 0700), 0);
	ck_assert_int_eq(open_fails_at(sock), ERR_NOT_OURS);
	ck_assert_int_eq(rmdir(sock), 0);
}
END_TEST

START_TEST(bad_addresses_are_errors_with_a_sentence)
{
	char path[300];

	memset(path, 'x', sizeof path);
	memcpy(path, dir, strlen(dir));
	path[strlen(dir)] = '/';
	path[107] = '\0';
	path[sizeof path - 1] = '\0';
	ck_assert_uint_eq(strlen(path), 107);
	{
		struct listener *ln;
		char address[320];

		snprintf(address, sizeof address, "unix:%s", path);
		ck_assert_int_eq(listener_open(conns, address, &options, &ln, &error), 0);
		ck_assert_str_eq(listener_address(ln), address);
		listener_close(ln);
	}
	path[107] = 'x';
	ck_assert_int_eq(open_fails_at(path), ERR_TOO_LONG);
	ck_assert_int_eq(open_fails("unix:"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("unix:/nonexistent-folder/s"), -ENOENT);
	ck_assert_int_eq(open_fails("http://127.0.0.1:80"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://127.0.0.1"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://127.0.0.1:"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://127.0.0.1:65536"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://127.0.0.1:12x"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://:7421"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://::1:7421"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://[::1:7421"), ERR_BAD_VALUE);
	ck_assert_int_eq(open_fails("tcp://0.0.0.0:0"), -EACCES);
	ck_assert_int_eq(open_fails("tcp://[::]:0"), -EACCES);
	ck_assert_int_eq(open_fails("tcp://192.0.2.1:0"), -EACCES);
}
END_TEST

START_TEST(only_our_own_socket_is_removed_at_the_end)
{
	struct listener *ln = open_unix();
	struct stat st;
	int fd;

	ck_assert_int_eq(unlink(sock), 0);
	fd = open(sock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	listener_close(ln);
	ck_assert_int_eq(lstat(sock, &st), 0);
	ck_assert_int_eq(unlink(sock), 0);
}
END_TEST

static void
check_tcp(const char *address, const char *prefix, int family)
{
	struct sockaddr_storage storage = { 0 };
	struct listener *ln;
	const char *now;
	int port, fd;
	socklen_t len;

	ck_assert_int_eq(listener_open(conns, address, &options, &ln, &error), 0);
	now = listener_address(ln);
	ck_assert_int_eq(strncmp(now, prefix, strlen(prefix)), 0);
	port = atoi(now + strlen(prefix));
	ck_assert_int_gt(port, 0);
	/* One port is one listener. */
	ck_assert_int_eq(open_fails(now), -EADDRINUSE);
	if (family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)&storage;

		*in = (struct sockaddr_in){ .sin_family = AF_INET,
			.sin_port = htons((uint16_t)port),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		len = sizeof *in;
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;

		*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
			.sin6_port = htons((uint16_t)port),
			.sin6_addr = in6addr_loopback };
		len = sizeof *in6;
	}
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&storage, len), 0);
	say(fd, "over tcp\n");
	EXPECT(fd, "over tcp\n");
	ck_assert(!last->peer.unix_socket);
	ck_assert_uint_eq(last->peer.uid, (uid_t)-1);
	ck_assert_int_eq(strncmp(last->peer.address, prefix + 6, strlen(prefix) - 6), 0);
	close(fd);
	UNTIL(n_closed == n_open);
	listener_close(ln);
}

START_TEST(tcp_on_loopback_tells_its_port)
{
	check_tcp("tcp://127.0.0.1:0", "tcp://127.0.0.1:", AF_INET);
	if (access("/proc/net/if_inet6", F_OK) == 0)
		check_tcp("tcp://[::1]:0", "tcp://[::1]:", AF_INET6);
}
END_TEST

START_TEST(plaintext_everywhere_is_a_decision)
{
	const struct listen_options o = { .group = (gid_t)-1, .allow_plaintext = true };
	struct listener *ln;

	ck_assert_int_eq(listener_open(conns, "tcp://0.0.0.0:0", &o, &ln, &error), 0);
	listener_close(ln);
}
END_TEST

START_TEST(a_passed_descriptor_is_used_and_left)
{
	struct sockaddr_un un = unix_address(sock);
	struct listener *ln = NULL;
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), peer;

	ck_assert_int_eq(listener_adopt(conns, fd, &options, &ln, &error), ERR_BAD_VALUE);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	ck_assert_int_eq(listener_adopt(conns, fd, &options, &ln, &error), 0);
	ck_assert_str_eq(listener_address(ln) + 5, sock);
	peer = dial(sock);
	say(peer, "a\n");
	EXPECT(peer, "a\n");
	close(peer);
	UNTIL(n_closed == 1);
	listener_close(ln);
	ck_assert_int_eq(lstat(sock, &st), 0);
}
END_TEST

START_TEST(PRO_04_out_of_descriptors_the_listener_waits_and_tells)
{
	struct listener *ln = open_unix();
	struct rlimit old, low;
	int fd[3], turns;

	for (int i = 0; i < 3; i++)
		fd[i] = dial(sock);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)dup(0); /* the lowest free one */
	close((int)low.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	UNTIL(n_refused == 3);
	for (int i = 0; i < 3; i++) {
		EXPECT(fd[i], "busy\n");
		close(fd[i]);
	}
	/* Paused: however many wait, the loop sleeps on its timer. */
	ck_assert_int_eq(n_open, 0);
	turns = n_turns;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	fd[0] = dial(sock);
	say(fd[0], "again\n");
	while (n_open == 0)
		ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_le(n_turns - turns, 4);
	EXPECT(fd[0], "again\n");
	close(fd[0]);
	UNTIL(n_closed == 1);
	listener_close(ln);
}
END_TEST

START_TEST(over_the_limit_newcomers_are_told)
{
	struct listener *ln;
	int fd[3];

	conns_free(conns);
	conns_up(2);
	ln = open_unix();
	for (int i = 0; i < 3; i++)
		fd[i] = dial(sock);
	UNTIL(n_open == 2 && n_refused == 1);
	EXPECT(fd[2], "busy\n");
	close(fd[0]);
	UNTIL(n_closed == 1);
	close(fd[2]);
	fd[2] = dial(sock);
	UNTIL(n_open == 3);
	ck_assert_uint_eq(conns_count(conns), 2);
	close(fd[1]);
	close(fd[2]);
	UNTIL(n_closed == 3);
	listener_close(ln);
}
END_TEST

START_TEST(the_budget_leaves_descriptors_for_the_rest)
{
	const struct rlimit low = { 64, 64 };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	ck_assert_uint_eq(conns_budget(10000, 256), 32);
	ck_assert_uint_eq(conns_budget(10, 256), 10);
	ck_assert_uint_eq(conns_budget(0, 256), 1);
}
END_TEST

/* ---- connections ---- */

START_TEST(lines_come_back_with_the_peer_known)
{
	struct listener *ln = open_unix();
	int fd = dial(sock);

	say(fd, "one\ntwo\nthr");
	EXPECT(fd, "one\ntwo\n");
	say(fd, "ee\n");
	EXPECT(fd, "three\n");
	ck_assert(last->peer.unix_socket);
	ck_assert_uint_eq(last->peer.uid, getuid());
	ck_assert_int_eq(last->peer.pid, getpid());
	close(fd);
	UNTIL(n_closed == 1);
	ck_assert_uint_eq(conns_count(conns), 0);
	listener_close(ln);
}
END_TEST

START_TEST(a_line_may_come_byte_by_byte)
{
	int fd = pair();

	for (const char *p = "slowly\nand\n"; *p; p++) {
		ck_assert_int_eq(send(fd, p, 1, 0), 1);
		ck_assert_int_eq(loop_turn(loop, false), 0);
	}
	EXPECT(fd, "slowly\nand\n");
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

/* A peer that sends and never reads is stopped by its own full socket. */
START_TEST(who_does_not_read_is_not_read)
{
	static char line[1000];
	size_t sent = 0, idle = 0, back = 0;
	int fd = pair();
	char sink[65536];

	memset(line, 'x', sizeof line - 1);
	line[sizeof line - 1] = '\n';
	out_limit = 50000;
	last->out_limit = out_limit;
	while (idle < 20) {
		ssize_t n = send(fd, line, sizeof line, MSG_DONTWAIT | MSG_NOSIGNAL);

		idle = n == (ssize_t)sizeof line ? 0 : idle + 1;
		ck_assert(n == (ssize_t)sizeof line || (n < 0 && errno == EAGAIN));
		sent += n > 0 ? (size_t)n : 0;
		ck_assert_int_eq(loop_turn(loop, false), 0);
		ck_assert_uint_le(buf_len(&last->out), out_limit + sizeof line);
	}
	/* When it reads at last, everything is there, in order. */
	while (back < sent) {
		ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);

		back += n > 0 ? (size_t)n : 0;
		ck_assert_int_eq(loop_turn(loop, false), 0);
	}
	ck_assert_uint_eq(back, sent);
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(what_is_said_early_leaves_within_the_input)
{
	int fd = pair();

	last->early = true;
	say(fd, "a\nb\nc");
	EXPECT(fd, "a\nb\n");
	say(fd, "\n");
	EXPECT(fd, "c\n");
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(a_paused_session_goes_on_with_what_it_left)
{
	int fd = pair();

	last->hold = true;
	say(fd, "a\nb\n");
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert_uint_eq(buf_len(&last->out), 0);
	say(fd, "c\n");
	last->hold = false;
	conn_output_ready(last->c);
	EXPECT(fd, "a\nb\nc\n");
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

/* However much it has in hand, a connection gets its share of each turn and no more. */
START_TEST(more_to_do_comes_turn_by_turn_and_keeps_the_loop_awake)
{
	int fd = pair();

	last->a_turn = 2;
	for (int i = 0; i < 20; i++)
		say(fd, "x\n");
	for (int i = 0; i < 8; i++) {
		log_of_turn[0] = '\0';
		ck_assert_int_eq(loop_turn(loop, true), 0);
		/* Its read and the end of the turn at most. */
		ck_assert_uint_ge(strlen(log_of_turn), 1);
		ck_assert_uint_le(strlen(log_of_turn), 2);
	}
	EXPECT(fd, "x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n");
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(a_paused_peer_that_hangs_up_is_noticed)
{
	int fd = pair();

	last->hold = true;
	say(fd, "a\n");
	ck_assert_int_eq(loop_turn(loop, false), 0);
	close(fd);
	while (n_closed == 0) /* sleeps between its looks */
		ck_assert_int_eq(loop_turn(loop, true), 0);
	ck_assert_int_lt(n_turns, 20);
}
END_TEST

/* It sends more than the replies that it leaves unread leave room for, and shuts its end. */
START_TEST(requests_of_a_paused_peer_that_hangs_up_are_taken)
{
	static char line[1000];
	size_t sent = 0, idle = 0;
	int fd = pair();

	memset(line, 'x', sizeof line - 1);
	line[sizeof line - 1] = '\n';
	last->out_limit = 50000;
	while (idle < 20) {
		ssize_t n = send(fd, line, sizeof line, MSG_DONTWAIT | MSG_NOSIGNAL);

		idle = n == (ssize_t)sizeof line ? 0 : idle + 1;
		sent += n == (ssize_t)sizeof line;
		ck_assert_int_eq(loop_turn(loop, false), 0);
	}
	ck_assert_uint_lt(n_lines, sent);
	ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
	UNTIL(n_closed == 1);
	ck_assert_uint_eq(n_lines, sent);
	close(fd);
}
END_TEST

START_TEST(what_a_session_says_when_it_is_closed_comes_too_late)
{
	struct listener *ln = open_unix();
	int peer = dial(sock);

	last_words = true;
	say(peer, "a\n");
	EXPECT(peer, "a\n");
	close(peer);
	UNTIL(n_closed == 1);
	/* Another connection has the memory now. */
	peer = dial(sock);
	say(peer, "b\n");
	EXPECT(peer, "b\n");
	close(peer);
	UNTIL(n_closed == 2);
	last_words = false;
	listener_close(ln);
}
END_TEST

START_TEST(requests_of_a_peer_that_is_gone_are_taken_all_the_same)
{
	int fd = pair();

	say(fd, "first\n");
	say(fd, "second\n");
	close(fd);
	log_of_turn[0] = '\0';
	UNTIL(n_closed == 1);
	ck_assert_ptr_nonnull(strchr(log_of_turn, 'i'));
}
END_TEST

START_TEST(closing_sends_the_last_reply_first)
{
	int fd = pair();

	say(fd, "quit\nmore that nobody reads\n");
	EXPECT(fd, "quit\n");
	UNTIL(receive(fd, 1)); /* the end */
	ck_assert_str_eq(got, "");
	ck_assert_int_eq(n_closed, 0); /* it waits for us to hang up */
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(a_deadline_expires_and_closes)
{
	int fd;

	deadline = 2 * NS_PER_MS;
	fd = pair();
	EXPECT(fd, "late\n");
	ck_assert(last->expired);
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(a_deadline_that_moves_later_does_not_expire)
{
	int fd;

	deadline = NS_PER_MS;
	fd = pair();
	last->deadline = sat_add(clock_boot_ns(), 3600 * NS_PER_S);
	usleep(3000);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert(!last->expired);
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

/* A megabyte in one line: more than a read, less than the limit. */
START_TEST(a_large_frame_arrives_in_pieces)
{
	size_t n = 3u << 20, sent = 0, back = 0;
	char *big = must_alloc(n), *sink = must_alloc(n);
	int fd = pair();

	memset(big, 'y', n);
	big[n - 1] = '\n';
	last->out_limit = SIZE_MAX;
	while (back < n) {
		ssize_t r = sent < n ? send(fd, big + sent, n - sent, MSG_DONTWAIT) : 0;

		sent += r > 0 ? (size_t)r : 0;
		ck_assert_int_eq(loop_turn(loop, false), 0);
		r = recv(fd, sink + back, n - back, MSG_DONTWAIT);
		back += r > 0 ? (size_t)r : 0;
	}
	ck_assert_int_eq(memcmp(big, sink, n), 0);
	x_free(big);
	x_free(sink);
	close(fd);
	UNTIL(n_closed == 1);
}
END_TEST

START_TEST(whatever_is_open_is_closed_at_the_end)
{
	int fd = pair();

	say(fd, "x\n");
	ck_assert_int_eq(loop_turn(loop, false), 0);
	ck_assert(conns_flushed(conns));
	conns_free(conns);
	conns = NULL;
	ck_assert_int_eq(n_closed, 1);
	close(fd);
}
END_TEST

START_TEST(no_memory_turns_a_newcomer_away_and_leaks_nothing)
{
	for (int i = 0; i < 4; i++) {
		int sv[2], err;

		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
		alloc_fault_set(i, 0);
		err = conns_add(conns, sv[1], NULL);
		alloc_fault_set(-1, 0);
		ck_assert(err == 0 || err == -ENOMEM);
		close(sv[0]);
	}
	UNTIL(n_closed == n_open);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("net");
	TCase *tc = unit_case(s, "loop");

	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, tick_comes_at_its_time_and_not_before);
	tcase_add_test(tc, tick_moves_later_and_earlier);
	tcase_add_test(tc, G15_input_that_has_arrived_comes_before_an_overdue_tick);
	tcase_add_test(tc, reactor_timers_fire_once_move_and_disarm);
	tcase_add_test(tc, reactor_io_may_be_deleted_in_its_callback);
	tcase_add_test(tc, signals_arrive_in_the_loop);
	tcase_add_test(tc, the_end_of_a_turn_comes_after_its_deferred_tasks);
	tcase_add_test(tc, deferred_tasks_run_once_a_turn_and_keep_it_awake);

	tc = unit_case(s, "listen");
	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, a_socket_is_born_with_its_mode_whatever_the_umask);
	tcase_add_test(tc, another_group_can_be_given_by_who_may);
	tcase_add_test(tc, a_stale_socket_is_replaced);
	tcase_add_test(tc, a_live_socket_is_not_stolen);
	tcase_add_test(tc, what_is_no_socket_is_never_removed);
	tcase_add_test(tc, bad_addresses_are_errors_with_a_sentence);
	tcase_add_test(tc, only_our_own_socket_is_removed_at_the_end);
	tcase_add_test(tc, tcp_on_loopback_tells_its_port);
	tcase_add_test(tc, plaintext_everywhere_is_a_decision);
	tcase_add_test(tc, a_passed_descriptor_is_used_and_left);
	tcase_add_test(tc, PRO_04_out_of_descriptors_the_listener_waits_and_tells);
	tcase_add_test(tc, over_the_limit_newcomers_are_told);

	tc = unit_case(s, "conn");
	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, lines_come_back_with_the_peer_known);
	tcase_add_test(tc, a_line_may_come_byte_by_byte);
	tcase_add_test(tc, who_does_not_read_is_not_read);
	tcase_add_test(tc, a_paused_session_goes_on_with_what_it_left);
	tcase_add_test(tc, what_is_said_early_leaves_within_the_input);
	tcase_add_test(tc, more_to_do_comes_turn_by_turn_and_keeps_the_loop_awake);
	tcase_add_test(tc, a_paused_peer_that_hangs_up_is_noticed);
	tcase_add_test(tc, requests_of_a_paused_peer_that_hangs_up_are_taken);
	tcase_add_test(tc, what_a_session_says_when_it_is_closed_comes_too_late);
	tcase_add_test(tc, requests_of_a_peer_that_is_gone_are_taken_all_the_same);
	tcase_add_test(tc, closing_sends_the_last_reply_first);
	tcase_add_test(tc, a_deadline_expires_and_closes);
	tcase_add_test(tc, a_deadline_that_moves_later_does_not_expire);
	tcase_add_test(tc, a_large_frame_arrives_in_pieces);
	tcase_add_test(tc, whatever_is_open_is_closed_at_the_end);
	tcase_add_test(tc, no_memory_turns_a_newcomer_away_and_leaks_nothing);

	/* Last: a hard limit can't be raised again. */
	tc = unit_case(s, "limits");
	tcase_add_test(tc, the_budget_leaves_descriptors_for_the_rest);
	return unit_run(s);
}
