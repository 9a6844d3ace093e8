#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/carry.h"
#include "parts.h"
#include "service/carry.h"
#include "upgrade_state.h"

#define UPGRADE_MAGIC 0x75706772u
#define WORDS_MAX     512u
#define ALL_WORDS_MAX (64u << 10) /* all that a pipe holds */
/* Signals that came before they were blocked have been told of after so many turns. */
#define TURNS_MIN 2u

struct upgrade {
	uint32_t magic;
	enum upgrade_state state;
	struct daemon *d;
	struct reactor_timer *timer;
	bool only_check;
	int64_t until_ns, part_by_ns;
	unsigned turns; /* in this state */
	/* CHECKING */
	pid_t pid; /* 0: none */
	int pidfd, words_fd;
	struct reactor_io *io;
	bool child_over;
	/* HANDING */
	struct carry_out out;
	bool has_out;
	int exe; /* our own program, for the way back; -1: not open */
	/* what is told at the end */
	enum status status;
	char why[WORDS_MAX];
};

static const struct reactor *
reactor(const struct upgrade *u)
{
	return loop_reactor(u->d->loop);
}

/* The turn that follows looks at the time; PARTING has two. */
static void
on_timer(void *arg)
{
	struct upgrade *u = arg;
	int64_t left = u->until_ns - clock_boot_ns();

	if (u->state == UP_PARTING)
		reactor(u)->timer_set(reactor(u)->ctx, u->timer, left > 0 ? left : 0);
}

int
upgrade_new(struct daemon *d, struct upgrade **out)
{
	struct upgrade *u = x_zalloc(sizeof *u);
	int err;

	if (!u)
		return -ENOMEM;
	*u = (struct upgrade){
		.magic = UPGRADE_MAGIC, .d = d, .pidfd = -1, .words_fd = -1, .exe = -1
	};
	err = reactor(u)->timer_new(reactor(u)->ctx, on_timer, u, &u->timer);
	if (err < 0) {
		x_free(u);
		return err;
	}
	*out = u;
	return 0;
}

bool
upgrade_fault(const char *step)
{
#ifdef FAULT_INJECTION
	const char *path = getenv("WQD_UPGRADE_FAULT");
	char text[32] = "";
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && strncmp(text, step, strlen(step)) == 0;
#else
	(void)step;
	return false;
#endif
}

__attribute__((format(printf, 3, 4))) static void
fail(struct upgrade *u, enum status st, const char *fmt, ...)
{
	va_list ap;

	if (u->status != ST_OK)
		return;
	u->status = st;
	va_start(ap, fmt);
	vsnprintf(u->why, sizeof u->why, fmt, ap);
	va_end(ap);
}

/* ---- the check: the new program, as a child ---- */

/* The beginning of what it has said, in one line; and whether it says that it can, which comes last. */
static bool
read_words(struct upgrade *u, char *dst, size_t size)
{
	char *all = x_alloc(ALL_WORDS_MAX + 1);
	ssize_t n = all ? read(u->words_fd, all, ALL_WORDS_MAX) : 0;
	bool can;

	dst[0] = '\0';
	if (!all)
		return false;
	all[n > 0 ? n : 0] = '\0';
	can = strstr(all, UPGRADE_CAN) != NULL;
	snprintf(dst, size, "%s", all);
	x_free(all);
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = p[1] ? ' ' : '\0';
	return can;
}

static void
child_let_go(struct upgrade *u)
{
	reactor(u)->io_del(reactor(u)->ctx, u->io);
	u->io = NULL;
	if (u->pid > 0) {
		(void)kill(u->pid, SIGKILL);
		while (waitpid(u->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (u->pidfd >= 0)
		close(u->pidfd);
	if (u->words_fd >= 0)
		close(u->words_fd);
	u->pid = 0;
	u->pidfd = u->words_fd = -1;
}

static void
on_child(void *arg, unsigned ready)
{
	struct upgrade *u = arg;
	char words[WORDS_MAX - 64];
	int status = 0;
	bool can;

	(void)ready;
	if (waitpid(u->pid, &status, WNOHANG) != u->pid)
		return;
	u->pid = 0;
	can = read_words(u, words, sizeof words);
	u->child_over = true;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail(u, ST_INVALID, "the new program can't take over: %s",
			words[0] ? words : "it gave no reason");
	else if (!can)
		/* Some other program, which would leave nothing of the daemon. */
		fail(u, ST_INVALID, "the new program does not say that it can take over: %s",
			words[0] ? words : "it said nothing");
	else
		snprintf(u->why, sizeof u->why, "%s", words);
	child_let_go(u);
}

/* The arguments of this process, and one more. Only the array is new. */
static char **
check_arguments(const struct daemon *d)
{
	size_t n = 0;
	char **v;

	while (d->opt->argv[n])
		n++;
	v = x_alloc((n + 2) * sizeof *v);
	if (!v)
		return NULL;
	memcpy(v, d->opt->argv, n * sizeof *v);
	v[n] = (char *)(uintptr_t) "--check-upgrade";
	v[n + 1] = NULL;
	return v;
}

static int
spawn_check(struct upgrade *u, int question, int words)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	char **argv = check_arguments(u->d);
	int err = argv ? 0 : -ENOMEM;

	if (err)
		return err;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_adddup2(&files, question, 0);
	posix_spawn_file_actions_adddup2(&files, words, 1);
	posix_spawn_file_actions_adddup2(&files, words, 2);
	err = -posix_spawn(&u->pid, u->d->opt->exe, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	x_free(argv);
	if (err < 0)
		u->pid = 0;
	return err;
}

static int
ask_child(struct upgrade *u)
{
	char text[UPGRADE_QUESTION_MAX];
	size_t n = upgrade_question(u->d, text, sizeof text);
	int q[2], w[2], err;

	if (pipe2(q, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(w, O_CLOEXEC | O_NONBLOCK) < 0) {
		err = -errno;
		close(q[0]);
		close(q[1]);
		return err;
	}
	(void)fcntl(w[1], F_SETFL, 0);
	u->words_fd = w[0];
	/* Less than a pipe holds. */
	err = write(q[1], text, n) == (ssize_t)n ? 0 : -EIO;
	close(q[1]);
	if (!err)
		err = spawn_check(u, q[0], w[1]);
	close(q[0]);
	close(w[1]);
	if (!err) {
		u->pidfd = (int)syscall(SYS_pidfd_open, u->pid, 0);
		err = u->pidfd < 0 ? -errno : 0;
	}
	if (!err)
		err = reactor(u)->io_add(
			reactor(u)->ctx, u->pidfd, REACTOR_READ, on_child, u, &u->io);
	if (err)
		child_let_go(u);
	return err;
}

void
upgrade_free(struct upgrade *u)
{
	if (!u)
		return;
	CHECK_OBJ(u, UPGRADE_MAGIC);
	child_let_go(u);
	reactor(u)->timer_del(reactor(u)->ctx, u->timer);
	MAGIC_DONE(u);
	x_free(u);
}

/* ---- holding still ---- */

void
upgrade_block_signals(bool block)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void
hold(struct daemon *d, bool on)
{
	engine_hold(d->engine, on);
	conns_hold(d->conns, on);
	for (size_t i = 0; i < d->n_listeners; i++)
		listener_hold(d->listeners[i], on);
	/* One that comes from here on waits for whoever is there then. */
	upgrade_block_signals(on);
}

static bool
at_rest(struct upgrade *u, struct moment now)
{
	struct daemon *d = u->d;
	struct str queue;
	bool quiet = engine_quiet(d->engine, &queue);
	char name[4 * QUEUE_NAME_MAX + 8];

	if (queue.n > 0) {
		fail(u, ST_REFUSED_DRAINING, "queue %s drains: that can't be carried over",
			log_field(name, sizeof name, queue));
		return false;
	}
	if (u->state == UP_PARTING && upgrade_fault("part"))
		return false;
	if (upgrade_fault("settle"))
		fail(u, ST_TIMEOUT, "coming to rest took too long");
	return committer_finish(d->committer, now) && quiet && service_settled(d->svc) &&
		runner_settled(d->runner) && u->turns >= TURNS_MIN;
}

/* ---- the hand-over ---- */

static void
write_head(struct upgrade *u)
{
	struct carry_out *o = &u->out;

	carry_begin(o, CARRY_HEAD);
	carry_u64(o, HEAD_FORMAT, CARRY_FORMAT);
	carry_u64(o, HEAD_PID, (uint64_t)getpid());
	carry_i64(o, HEAD_BEGAN, clock_boot_ns());
	carry_str(o, HEAD_VERSION, STR(PACKAGE_STRING));
	carry_u64(o, HEAD_UPGRADES, u->d->upgrades + 1);
	carry_fd(o, HEAD_EXE, u->exe);
	carry_end(o);
}

/* All of it. False: it failed, and nothing has changed. */
static bool
save(struct upgrade *u, struct moment now)
{
	struct daemon *d = u->d;
	int err = 0;

	/* Without it there would be no way back. */
	u->exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (u->exe < 0)
		err = -errno;
	if (err == 0) {
		err = carry_out_new(&u->out);
		u->has_out = true;
	}
	if (err < 0) {
		fail(u, ST_INVALID, "the state can't be written down: %s", err_str(err));
		return false;
	}
	write_head(u);
	engine_carry_out(d->engine, now, &u->out);
	for (size_t i = 0; i < d->n_listeners; i++)
		listener_carry_out(d->listeners[i], &u->out);
	conns_carry_out(d->conns, &u->out);
	service_carry_out(d->svc, &u->out);
	runner_carry_out(d->runner, &u->out);
	crew_carry_out(d->crew, &u->out);
	if (upgrade_fault("save"))
		u->out.error = -ENOSPC;
	err = carry_finish(&u->out);
	if (err < 0)
		fail(u, ST_INVALID, "the state can't be written down: %s", err_str(err));
	return err == 0;
}

size_t
upgrade_environ(const struct daemon *d, char **dst)
{
	char *const *const parts[] = { environ, systemd_environ(d->sd) };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (char *const *v = parts[i]; *v; v++, n++)
			if (dst)
				dst[n] = *v;
	return n;
}

/* Returns only when it failed. */
static void
hand_over(struct upgrade *u)
{
	char text[64];
	size_t n = upgrade_environ(u->d, NULL);
	char **env = x_alloc((n + 2) * sizeof *env);

	if (!env) {
		fail(u, ST_INVALID, "no memory");
		return;
	}
	upgrade_environ(u->d, env);
	snprintf(text, sizeof text, CARRIED_FD "=%d", u->out.fd);
	env[n] = text;
	env[n + 1] = NULL;
	carry_keep_fds(&u->out, true);
	(void)fcntl(u->out.fd, F_SETFD, 0);
	if (upgrade_fault("exec"))
		errno = ENOENT;
	else
		execve(u->d->opt->exe, u->d->opt->argv, env);
	fail(u, ST_INVALID, "the new program can't be started: %s", err_str(-errno));
	(void)fcntl(u->out.fd, F_SETFD, FD_CLOEXEC);
	carry_keep_fds(&u->out, false);
	x_free(env);
}

static void
drop_state(struct upgrade *u)
{
	if (u->exe >= 0)
		close(u->exe);
	u->exe = -1;
	if (u->has_out)
		carry_out_done(&u->out);
	u->has_out = false;
}

/* ---- turns ---- */

static void
tell_end(struct upgrade *u)
{
	char field[2 * WORDS_MAX];

	if (u->status != ST_OK)
		log_error("upgrade_refused", "error=%s msg=\"this daemon goes on\"",
			log_field(field, sizeof field, str_from(u->why)));
	service_upgraded(u->d->svc, u->status, u->why[0] ? u->why : NULL);
}

static void
enter(struct upgrade *u, enum upgrade_state to, struct moment now)
{
	enum upgrade_state from = u->state;
	int64_t most = upgrade_state_most(to);

	wq_assert(upgrade_leads(from, to));
	log_debug("upgrade", "state=%s", upgrade_state_name(to));
	u->state = to;
	u->turns = 0;
	u->until_ns = sat_add(now.boot_ns, most);
	u->part_by_ns = sat_add(now.boot_ns, UPGRADE_PART_NS);
	reactor(u)->timer_set(reactor(u)->ctx, u->timer, most > 0 ? most : -1);
	if (to == UP_SETTLING) {
		log_info("upgrading", "program=\"%s\" running=%zu connections=%zu", u->d->opt->exe,
			runner_active(u->d->runner), conns_count(u->d->conns));
		systemd_reloading(u->d->sd);
		hold(u->d, true);
	}
	if (to == UP_PARTING)
		reactor(u)->timer_set(reactor(u)->ctx, u->timer, UPGRADE_PART_NS);
	if (to != UP_IDLE)
		return;
	if (from == UP_CHECKING)
		child_let_go(u);
	drop_state(u);
	if (from >= UP_SETTLING) {
		hold(u->d, false);
		systemd_ready(u->d->sd);
	}
	tell_end(u);
}

static void
look(struct upgrade *u, struct moment now, struct upgrade_seen *seen)
{
	*seen = (struct upgrade_seen){
		.only_check = u->only_check,
		.child_over = u->child_over,
		.stopping = u->d->stop || u->d->wants_stop,
		.over = now.boot_ns >= u->until_ns,
	};
	if (u->state == UP_SETTLING || u->state == UP_PARTING)
		seen->at_rest = at_rest(u, now);
	if (u->state == UP_PARTING && seen->at_rest) {
		seen->tls_left = conns_part(u->d->conns, now.boot_ns >= u->part_by_ns) > 0;
		/* What they held has come free. */
		seen->at_rest = at_rest(u, now);
	}
	if (u->state == UP_SAVING)
		seen->done = save(u, now);
	if (u->state == UP_HANDING)
		hand_over(u);
	if (seen->stopping)
		fail(u, ST_REFUSED_DRAINING, "the daemon is stopping");
	else if (seen->over && u->state != UP_SAVING && u->state != UP_HANDING)
		fail(u, ST_TIMEOUT, "%s took too long",
			u->state == UP_CHECKING ? "the new program's check" : "coming to rest");
	seen->failed = u->status != ST_OK && !seen->over;
}

void
upgrade_turn(struct upgrade *u, struct moment now)
{
	enum upgrade_state was;
	struct upgrade_seen seen;

	if (!u || u->state == UP_IDLE)
		return;
	CHECK_OBJ(u, UPGRADE_MAGIC);
	u->turns++;
	do {
		was = u->state;
		look(u, now, &seen);
		if (upgrade_next(was, &seen) != was)
			enter(u, upgrade_next(was, &seen), now);
	} while (u->state != was && u->state != UP_IDLE);
	/* Turns are counted: there has to be a next. */
	if (u->state >= UP_SETTLING && u->turns <= TURNS_MIN)
		loop_tick_at(u->d->loop, now.boot_ns);
}

bool
upgrade_holds(const struct upgrade *u)
{
	return u && u->state >= UP_SETTLING;
}

int
upgrade_begin(struct upgrade *u, bool check, char *why, size_t size)
{
	struct daemon *d = u->d;
	struct committer_stats cs;
	int err;

	CHECK_OBJ(u, UPGRADE_MAGIC);
	committer_stats_get(d->committer, &cs);
	if (!d->opt->exe || strcmp(d->conf->store, "memory") == 0) {
		snprintf(why, size, "%s",
			d->opt->exe ? "with store = \"memory\" nothing would be left"
				    : "it is not known where the program is");
		return ERR_CONFIG;
	}
	if (cs.degraded && !check) {
		snprintf(why, size, "commits fail: what is not on disk would be lost");
		return ERR_STORE;
	}
	u->only_check = check;
	u->child_over = false;
	u->status = ST_OK;
	u->why[0] = '\0';
	err = ask_child(u);
	if (err < 0) {
		snprintf(why, size, "%s can't be started: %s", d->opt->exe, err_str(err));
		return err;
	}
	enter(u, UP_CHECKING, clock_now());
	return 0;
}
