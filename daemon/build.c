/* Makes every part in order, and takes them down in the opposite one. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/carry.h"
#include "parts.h"
#include "recover.h"

#define DEFAULT_CONFIG   SYSCONFDIR "/wqd/wqd.conf"
#define ORPHANS_TIMEOUT  (10 * NS_PER_S)
#define PROGRESS_EACH_NS (500 * NS_PER_MS)

static int
failed(struct daemon *d, int exit, const char *event, const char *detail)
{
	char field[1024];

	snprintf(d->why, sizeof d->why, "%s: %s", event, detail);
	log_error(event, "error=%s", log_field(field, sizeof field, str_from(detail)));
	systemd_status(d->sd, "%s: %s", event, detail);
	return d->exit = exit;
}

int
parts_store_exit(const struct store_error *e)
{
	switch (e->code) {
	case ERR_LOCKED:
		return WQD_EXIT_IN_USE;
	case ERR_NEWER_SCHEMA:
		return WQD_EXIT_NEWER;
	case ERR_DAMAGED:
	case ERR_NOT_OURS:
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return WQD_EXIT_DAMAGED;
	default:
		return WQD_EXIT_FAILED;
	}
}

/* One line with the path, what was seen, and what to do. */
static int
store_failed(struct daemon *d, const struct store_error *e)
{
	log_error("store_unusable", "path=\"%s\" error=\"%s\" detail=\"%s\" next=\"%s\"", e->path,
		err_str(e->code), e->detail, e->next);
	snprintf(d->why, sizeof d->why, "%.200s: %.200s", e->path, e->detail);
	systemd_status(d->sd, "%s: %s; %s", e->path, e->detail, e->next);
	return d->exit = parts_store_exit(e);
}

int
parts_load_config(struct daemon *d)
{
	char *why = NULL;

	d->config_path = d->opt->config;
	if (!d->config_path && access(DEFAULT_CONFIG, F_OK) == 0)
		d->config_path = DEFAULT_CONFIG;
	if (config_load(d->config_path, &d->conf, &why) < 0) {
		fprintf(stderr, "wqd: %s\n", why ? why : "no memory");
		x_free(why);
		return WQD_EXIT_CONFIG;
	}
	return 0;
}

static void
on_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct daemon *d = ctx;
	int64_t now = clock_boot_ns();

	if (now < d->progress_at_ns)
		return;
	d->progress_at_ns = now + PROGRESS_EACH_NS;
	systemd_extend_timeout(d->sd, EXTEND_BY);
	/* Over an exec the watchdog goes on. */
	if (d->carried.map)
		systemd_watchdog_ping(d->sd);
	systemd_status(d->sd, "recovering: %llu of %llu", (unsigned long long)done,
		(unsigned long long)total);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rrecovering: %llu of %llu ", (unsigned long long)done,
			(unsigned long long)total);
}

const char *
parts_state_dir(const struct daemon *d)
{
	return d->opt->state_dir ? d->opt->state_dir : d->conf->state_dir;
}

/* From here on a commit of an earlier owner would be refused. */
static int
claim_store(struct daemon *d, const char *dir)
{
	struct store_error err = { 0 };
	char host[HOST_NAME_MAX + 1] = "", owner[HOST_NAME_MAX + 32];
	uint64_t token;

	gethostname(host, sizeof host - 1);
	snprintf(owner, sizeof owner, "%s:%d", host, (int)getpid());
	err.code = d->store->ops->claim(d->store, owner, &token);
	if (err.code == 0) {
		d->unclaimed = false;
		return 0;
	}
	if (err.code == -ENOSPC) {
		/* The lock of the directory holds all the same; commits heal when there is room. */
		log_warn("store_unclaimed", "path=\"%s\" error=\"%s\"", dir, err_str(err.code));
		return 0;
	}
	snprintf(err.path, sizeof err.path, "%s", dir);
	snprintf(err.detail, sizeof err.detail, "the state can't be claimed");
	snprintf(err.next, sizeof err.next, "look at the disk: is it full or read-only?");
	return store_failed(d, &err);
}

static int
open_store(struct daemon *d)
{
	struct store_error err = { 0 };
	const char *dir = parts_state_dir(d);
	int r;

	d->unclaimed = true;
	if (strcmp(d->conf->store, "memory") == 0)
		return store_memory_open(&d->store) < 0
			? failed(d, WQD_EXIT_FAILED, "store", "no memory")
			: 0;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
		err.code = -errno;
		snprintf(err.path, sizeof err.path, "%s", dir);
		snprintf(err.detail, sizeof err.detail, "the state directory can't be made");
		snprintf(err.next, sizeof err.next, "make it, or name another with state_dir");
		return store_failed(d, &err);
	}
	/* An orphan scan and a long check may come: say so before they do. */
	if (!d->carried.map)
		systemd_extend_timeout(d->sd, EXTEND_BY);
	r = d->carried.map ? store_sqlite_open_again(dir, &d->store, &err)
			   : store_sqlite_open(dir, &d->store, &err);
	if (r < 0) {
		err.code = err.code ? err.code : r;
		return store_failed(d, &err);
	}
	return claim_store(d, dir);
}

#define TURN_BUDGET 256 /* see build_engine */

/*
 * Tokens of leases grow over restarts as the token of the store's owner does: that is above, 2^40
 * leases are below. An owner whose own could not be written goes on in the upper half of those of
 * the one before, from a place that the wall clock tells.
 */
#define FENCE_BITS 40
#define FENCE_FROM (1577836800000ll) /* 2020, Unix ms */

static uint64_t
fence_from(const struct daemon *d)
{
	uint64_t from = d->store->meta.token << FENCE_BITS;
	int64_t ms = clock_now().wall_ns / NS_PER_MS - FENCE_FROM;

	if (!d->unclaimed)
		return from;
	return from + (1ull << (FENCE_BITS - 1)) + (ms > 0 ? (uint64_t)ms : 0);
}

static int
build_engine(struct daemon *d)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct store_error err = { 0 };
	struct recovered found;
	struct moment now;
	int64_t began = clock_boot_ns();
	const char *what = "";
	int r;

	cfg.max_jobs = d->conf->max_jobs;
	cfg.max_bytes = d->conf->max_bytes;
	cfg.max_queues = d->conf->max_queues;
	cfg.max_waiters = d->conf->max_waiters;
	cfg.max_completions = d->conf->max_completions;
	cfg.max_runs = d->conf->max_runs;
	/* About a millisecond of expirations with their runs: what a request waits for at most when
	 * many fall due together. */
	cfg.turn_budget = TURN_BUDGET;
	cfg.fence = fence_from(d);
	if (getrandom(cfg.seed, sizeof cfg.seed, 0) != sizeof cfg.seed)
		return failed(d, WQD_EXIT_FAILED, "start", "no entropy");
	if (engine_new(&cfg, &d->engine) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	memcpy(d->instance, d->store->meta.instance, sizeof d->instance);
	/* Of a state made just now there are none: no need to look at every process there is. */
	r = d->store->meta.fresh || d->carried.map ? 0 : orphans_end(d->instance, ORPHANS_TIMEOUT);
	if (r < 0)
		return failed(d, WQD_EXIT_FAILED, "orphans",
			"processes of an earlier daemon could not be ended");
	if (r > 0)
		log_warn("orphans_ended", "processes=%d", r);
	now = clock_now();
	if (recover(d->store, d->engine, now, on_progress, d, &found, &err) < 0)
		return store_failed(d, &err);
	if (d->carried.map && engine_carry_in(d->engine, now, &d->carried, &what) < 0)
		return failed(d, WQD_EXIT_FAILED, "carried over", what);
	log_info("recovered", "jobs=%llu queues=%llu runs=%llu took_ms=%lld",
		(unsigned long long)found.jobs, (unsigned long long)found.queues,
		(unsigned long long)found.runs, (long long)((clock_boot_ns() - began) / NS_PER_MS));
	return 0;
}

static int
build_service(struct daemon *d)
{
	struct service_config svc = {
		.engine = d->engine,
		.server = PACKAGE_STRING,
		.instance = d->instance,
		.frame_max = d->conf->frame_max,
		.max_in_flight = d->conf->max_in_flight,
		.output_max = d->conf->output_max,
		.watch_bytes = d->conf->watch_bytes,
		/* Microseconds: no daemon tells of a million things a second for all its life. */
		.watch_from = (uint64_t)(clock_now().wall_ns / NS_PER_US),
		.hello_timeout_ns = d->conf->hello_timeout_ns,
		.frame_timeout_ns = d->conf->frame_timeout_ns,
		.grants = &d->conf->grants,
		.ctx = d,
	};
	const struct reactor *re = loop_reactor(d->loop);
	int fd = -1;

	daemon_service_hooks(&svc);
	if (service_new(&svc, &d->svc) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	service_set_allow_command(d->svc, d->conf->allow_command == ALLOW_OWNER);
	if (writer_new(d->store, &d->writer, &fd) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "the writer thread can't be made");
	d->store = NULL;
	service_set_writer(d->svc, d->writer, parts_state_dir(d));
	if (re->io_add(re->ctx, fd, REACTOR_READ, daemon_on_writer_ready, d, &d->writer_io) < 0 ||
		committer_new(d->engine, d->svc, d->writer, d->conf->commit_interval_ns,
			&d->committer) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	return 0;
}

static int
build_runner(struct daemon *d)
{
	char address[512] = "";
	struct runner_config cfg = {
		.reactor = loop_reactor(d->loop),
		.instance = d->instance,
		.socket = address,
		.carried = d->carried.map != NULL,
		.ctx = d,
	};

	if (d->n_listeners > 0)
		snprintf(address, sizeof address, "%s", listener_address(d->listeners[0]));
	daemon_runner_hooks(&cfg);
	if (runner_new(&cfg, &d->runner) < 0 || crew_new(d, &d->crew) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	return 0;
}

static int
build_conns(struct daemon *d)
{
	const struct conns_config cfg = {
		.loop = d->loop,
		.protocol = clients_protocol(d),
		.max = conns_budget(d->conf->max_connections, d->conf->max_runs),
		.frame_max = d->conf->frame_max,
		.busy = service_busy_reply(d->svc),
		.max_handshakes = d->conf->tls_max_handshakes,
		.handshake_ns = d->conf->tls_handshake_ns,
	};

	if (conns_new(&cfg, &d->conns) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	return 0;
}

static int
socket_group(const struct config *conf, gid_t *gid)
{
	const struct group *gr;

	*gid = (gid_t)-1;
	if (!conf->socket_group || !conf->socket_group[0])
		return 0;
	gr = getgrnam(conf->socket_group);
	if (!gr)
		return -ENOENT;
	*gid = gr->gr_gid;
	return 0;
}

static int
add_listener(struct daemon *d, struct listener *ln)
{
	d->listeners = must_realloc(d->listeners, d->n_listeners + 1, sizeof(struct listener *));
	d->listeners[d->n_listeners++] = ln;
	log_info("listening", "address=\"%s\"", listener_address(ln));
	return 0;
}

static int
adopt_listeners(struct daemon *d, const struct listen_options *o)
{
	struct listen_error err;
	struct listener *ln;

	for (size_t i = 0; i < systemd_listen_count(d->sd); i++) {
		int fd = systemd_listen_take(d->sd, i);
		struct listen_options own = *o;

		if (!systemd_listen_named(d->sd, i, "tls")) {
			own.tls = NULL;
		} else if (!d->tls) {
			close(fd);
			return failed(d, WQD_EXIT_CONFIG, "listen",
				"the passed socket \"tls\" needs tls_cert and tls_key");
		}
		if (listener_adopt(d->conns, fd, &own, &ln, &err) < 0) {
			close(fd);
			return failed(d, WQD_EXIT_FAILED, "listen", err.text);
		}
		add_listener(d, ln);
	}
	return 0;
}

/* Those there were, whatever the configuration says now: addresses change with a restart. */
static int
carry_listeners(struct daemon *d, const struct listen_options *o)
{
	struct carry_record r;
	struct listener *ln;
	size_t at = 0;

	while (carry_next(&d->carried, &at, &r)) {
		int err = r.kind == CARRY_LISTENER ? listener_carry_in(d->conns, &r, o, &ln) : 1;

		if (err < 0)
			return failed(d, WQD_EXIT_FAILED, "listen", err_str(err));
		if (err == 0)
			add_listener(d, ln);
	}
	return 0;
}

static int
build_listeners(struct daemon *d)
{
	struct listen_options o = {
		.mode = d->conf->socket_mode,
		.allow_plaintext = d->conf->allow_plaintext,
		.tls = d->tls,
	};
	struct listen_error err;
	struct listener *ln;
	char own[512];

	if (socket_group(d->conf, &o.group) < 0)
		return failed(d, WQD_EXIT_CONFIG, "socket_group", "no such group");
	if (d->carried.map)
		return carry_listeners(d, &o);
	if (systemd_listen_count(d->sd) > 0)
		return adopt_listeners(d, &o);
	if (d->opt->socket) {
		snprintf(own, sizeof own, "unix:%s", d->opt->socket);
		if (listener_open(d->conns, own, &o, &ln, &err) < 0)
			return failed(d, WQD_EXIT_FAILED, "listen", err.text);
		return add_listener(d, ln);
	}
	for (char **a = d->conf->listen; *a; a++) {
		if (listener_open(d->conns, *a, &o, &ln, &err) < 0)
			return failed(d, WQD_EXIT_FAILED, "listen", err.text);
		add_listener(d, ln);
	}
	return 0;
}

static int
build_signals(struct daemon *d)
{
	const struct reactor *re = loop_reactor(d->loop);
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignore, NULL);
	if (loop_signal(d->loop, SIGTERM, daemon_on_terminate, d) < 0 ||
		loop_signal(d->loop, SIGINT, daemon_on_terminate, d) < 0 ||
		loop_signal(d->loop, SIGHUP, daemon_on_hangup, d) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "signals can't be watched");
	if (systemd_watchdog_ns(d->sd) == 0)
		return 0;
	if (re->timer_new(re->ctx, daemon_on_watchdog, d, &d->watchdog) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	re->timer_set(re->ctx, d->watchdog, 0);
	return 0;
}

void
parts_apply_queues(struct daemon *d, const struct config *conf)
{
	for (size_t i = 0; i < conf->n_queues; i++) {
		const struct config_queue *q = &conf->queues[i];
		char name[512];
		int r = service_configure_queue(
			d->svc, clock_now(), str_from(q->name), &q->settings);

		if (r < 0)
			log_error("queue_not_configured", "queue=%s error=\"%s\"",
				log_field(name, sizeof name, str_from(q->name)), err_str(r));
	}
}

void
parts_close_listeners(struct daemon *d)
{
	for (size_t i = 0; i < d->n_listeners; i++)
		listener_close(d->listeners[i]);
	x_free(d->listeners);
	d->listeners = NULL;
	d->n_listeners = 0;
}

/* In order; the first that fails has logged why and set the exit status. */
int
parts_build(struct daemon *d)
{
	struct loop_hooks hooks = daemon_hooks;
	int r;

	hooks.ctx = d;
	if ((r = open_store(d)) != 0 || (r = build_engine(d)) != 0)
		return r;
	if (loop_new(&hooks, &d->loop) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "the event loop can't be made");
	if ((r = build_service(d)) != 0 || (r = build_conns(d)) != 0 ||
		(r = secure_build(d)) != 0 || (r = build_listeners(d)) != 0 ||
		(r = build_runner(d)) != 0 || (r = build_signals(d)) != 0)
		return r;
	if (upgrade_new(d, &d->upgrade) < 0)
		return failed(d, WQD_EXIT_FAILED, "start", "no memory");
	parts_apply_pools(d, d->conf);
	parts_apply_queues(d, d->conf);
	engine_recovered(d->engine, clock_now());
	return d->carried.map ? carried_restore(d) : 0;
}

void
parts_teardown(struct daemon *d)
{
	const struct reactor *re = d->loop ? loop_reactor(d->loop) : NULL;
	int r;

	upgrade_free(d->upgrade);
	stop_free(d->stop);
	parts_close_listeners(d);
	conns_free(d->conns);
	crew_free(d->crew);
	d->crew = NULL;
	tls_free(d->tls);
	tokens_free(d->tokens);
	if (re && d->watchdog)
		re->timer_del(re->ctx, d->watchdog);
	/* A loop that failed leaves runs behind: the next start ends them as orphans. */
	if (d->runner && runner_active(d->runner) == 0)
		runner_free(d->runner);
	committer_free(d->committer);
	if (re && d->writer_io)
		re->io_del(re->ctx, d->writer_io);
	if (d->writer && (r = writer_close(d->writer)) < 0) {
		log_error("store_not_closed", "error=\"%s\"", err_str(r));
		d->exit = WQD_EXIT_FAILED;
	}
	if (d->store)
		d->store->ops->close(d->store);
	service_free(d->svc);
	loop_free(d->loop);
	engine_free(d->engine);
	systemd_free(d->sd);
	config_free(d->conf);
}
