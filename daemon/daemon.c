#include "daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "parts.h"

/* ---- what the parts call ---- */

static struct moment
step(struct daemon *d, struct engine_event ev)
{
	struct moment now = clock_now();

	service_step(d->svc, now, &ev);
	return now;
}

static void
on_start_run(void *ctx, const struct run_start *r)
{
	struct daemon *d = ctx;
	bool plain = r->command.n > 0 && r->handler.n == 0;
	const struct handler *h = plain ? &d->conf->plain : config_handler(d->conf, r->handler);

	/* A reload has made a worker program of it: for a run there is none of that name. */
	if (h && config_handler_misfit(h, ACTION_EXEC))
		h = NULL;
	runner_start(d->runner, r, h);
}

static const char *
on_handler_misfit(void *ctx, struct str handler, enum action action)
{
	const struct daemon *d = ctx;
	const struct handler *h = config_handler(d->conf, handler);

	return h ? config_handler_misfit(h, action) : NULL;
}

static void
on_kill_run(void *ctx, uint64_t run_id)
{
	struct daemon *d = ctx;

	runner_kill(d->runner, run_id, RUN_CANCELLED);
}

static void
on_revoked(void *ctx, struct session *s)
{
	struct daemon *d = ctx;

	if (d->crew)
		crew_revoked(d->crew, s);
}

static void
on_session_gone(void *ctx, const struct session *s)
{
	struct daemon *d = ctx;

	if (d->crew)
		crew_session_closed(d->crew, s);
}

static void
on_run_started(void *ctx, uint64_t run_id, pid_t pid)
{
	(void)pid;
	step(ctx, (struct engine_event){ .kind = EV_RUN_STARTED, .run_id = run_id });
}

static void
on_run_not_started(void *ctx, uint64_t run_id, int error)
{
	log_warn("run_put_off", "error=\"%s\" msg=\"tried again in a second\"", err_str(-error));
	step(ctx, (struct engine_event){ .kind = EV_RUN_NOT_STARTED, .run_id = run_id });
}

/* What went wrong is in the record; this says where to look for it. */
static void
log_bad_end(struct daemon *d, const struct run_end *end)
{
	char queue[4 * QUEUE_NAME_MAX + 8], key[4 * KEY_MAX + 8], how[128];
	struct job_view job;

	if (end->outcome == RUN_DONE || end->outcome == RUN_CANCELLED ||
		!engine_run_job(d->engine, clock_now(), end->run_id, &job))
		return;
	if (end->error)
		snprintf(how, sizeof how, "error=\"%s\"", err_str(-end->error));
	else if (end->signal)
		snprintf(how, sizeof how, "signal=%d", (int)end->signal);
	else
		snprintf(how, sizeof how, "exit=%d", (int)end->exit_code);
	log_warn("run_failed", "queue=%s key=%s generation=%llu attempt=%u outcome=%s %s",
		log_field(queue, sizeof queue, job.queue), log_field(key, sizeof key, job.key),
		(unsigned long long)job.generation, (unsigned)job.attempt,
		run_outcome_word(end->outcome), how);
}

static void
on_run_ended(void *ctx, const struct run_end *end)
{
	log_bad_end(ctx, end);
	step(ctx, (struct engine_event){ .kind = EV_RUN_ENDED, .run_end = end });
}

static void
on_tick(void *ctx, struct moment now)
{
	struct daemon *d = ctx;
	const struct engine_event tick = { .kind = EV_TICK };

	pools_tick(d, now);
	service_step(d->svc, now, &tick);
}

void
daemon_on_writer_ready(void *arg, unsigned ready)
{
	struct daemon *d = arg;

	(void)ready;
	committer_collect(d->committer, clock_now());
}

void
daemon_on_watchdog(void *arg)
{
	struct daemon *d = arg;

	/* From a timer of the loop itself: a loop that is stuck does not ping. */
	systemd_watchdog_ping(d->sd);
	loop_reactor(d->loop)->timer_set(
		loop_reactor(d->loop)->ctx, d->watchdog, systemd_watchdog_ns(d->sd));
}

void
daemon_runner_hooks(struct runner_config *cfg)
{
	cfg->started = on_run_started;
	cfg->not_started = on_run_not_started;
	cfg->ended = on_run_ended;
}

/* ---- reload ---- */

static int
on_reload(void *ctx, char *why, size_t size)
{
	struct daemon *d = ctx;
	struct config *conf;
	char *text = NULL, fixed[512], field[1024];
	int r;

	if (d->stop || d->wants_stop) {
		snprintf(why, size, "the daemon is stopping");
		return ERR_CLOSED;
	}
	r = config_load(d->config_path, &conf, &text);
	if (r < 0) {
		log_error("reload_refused", "error=%s msg=\"the old settings stay\"",
			log_field(field, sizeof field, str_from(text ? text : "no memory")));
		snprintf(why, size, "%s", text ? text : "no memory");
		x_free(text);
		return r;
	}
	r = secure_reload(d, conf, why, size);
	if (r < 0) {
		log_error("reload_refused", "error=%s msg=\"the old settings stay\"",
			log_field(field, sizeof field, str_from(why)));
		config_free(conf);
		return r;
	}
	systemd_reloading(d->sd);
	if (config_need_restart(d->conf, conf, fixed, sizeof fixed) > 0)
		log_warn("reload_incomplete", "options=\"%s\" msg=\"these change with a restart\"",
			fixed);
	log_setup(conf->log_level, systemd_stderr_is_journal(d->sd));
	committer_set_interval(d->committer, conf->commit_interval_ns);
	service_set_allow_command(d->svc, conf->allow_command == ALLOW_OWNER);
	conns_set_max(d->conns, conns_budget(conf->max_connections, conf->max_runs));
	conns_set_handshakes(d->conns, conf->tls_max_handshakes, conf->tls_handshake_ns);
	service_set_grants(d->svc, &conf->grants);
	config_free(d->conf);
	d->conf = conf;
	parts_apply_pools(d, conf);
	parts_apply_queues(d, conf);
	log_info("reloaded", "queues=%zu handlers=%zu", conf->n_queues, conf->n_handlers);
	systemd_ready(d->sd);
	return 0;
}

void
daemon_on_hangup(void *arg, int signo)
{
	char why[512];

	(void)signo;
	on_reload(arg, why, sizeof why);
}

/* ---- stop ---- */

static void
close_listeners(void *ctx)
{
	parts_close_listeners(ctx);
}

static void
begin_stop(struct daemon *d, bool drain)
{
	struct stop_config cfg = {
		.loop = d->loop,
		.engine = d->engine,
		.runner = d->runner,
		.svc = d->svc,
		.committer = d->committer,
		.conns = d->conns,
		.drain = drain,
		.timeout_ns = d->conf->stop_timeout_ns,
		.ctx = d,
		.close_listeners = close_listeners,
	};

	log_info("stopping", "running=%zu drain=%d timeout_ms=%lld", runner_active(d->runner),
		drain, (long long)(d->conf->stop_timeout_ns / NS_PER_MS));
	systemd_stopping(d->sd);
	systemd_extend_timeout(d->sd, d->conf->stop_timeout_ns + EXTEND_BY);
	crew_stop(d->crew);
	if (stop_new(&cfg, clock_now(), &d->stop) < 0)
		loop_stop(d->loop);
}

void
daemon_on_terminate(void *arg, int signo)
{
	struct daemon *d = arg;

	(void)signo;
	if (d->stop)
		stop_hurry(d->stop, clock_now());
	else
		begin_stop(d, false);
}

/* From inside a session: the stop begins at the end of the turn. Of several that are asked for in one
 * turn the soonest counts. */
static void
on_shutdown(void *ctx, bool drain)
{
	struct daemon *d = ctx;

	d->wants_drain = drain && (!d->wants_stop || d->wants_drain);
	d->wants_stop = true;
}

static int
on_upgrade(void *ctx, bool check, char *why, size_t size)
{
	struct daemon *d = ctx;

	return upgrade_begin(d->upgrade, check, why, size);
}

/* A stop that is asked for again goes on sooner, as by a second signal; one with drain changes
 * nothing then. */
static void
stop_as_asked(struct daemon *d)
{
	d->wants_stop = false;
	if (!d->stop)
		begin_stop(d, d->wants_drain);
	else if (!d->wants_drain)
		stop_hurry(d->stop, clock_now());
}

/* ---- turns ---- */

/* A test's way to have the loop stand still: once the file is there that WQD_STUCK names. */
static void
stick(void)
{
#ifdef FAULT_INJECTION
	const char *path = getenv("WQD_STUCK");

	while (path && access(path, F_OK) == 0)
		;
#endif
}

/* The end of a turn: commit what is due, then say when to wake up. */
static void
on_turn(void *ctx, struct moment now)
{
	struct daemon *d = ctx;
	int64_t due, other;

	stick();
	if (d->wants_stop)
		stop_as_asked(d);
	if (d->stop)
		stop_turn(d->stop, now);
	if (!upgrade_holds(d->upgrade))
		crew_turn(d->crew, now);
	committer_turn(d->committer, now);
	due = service_turn(d->svc, now);
	other = engine_next_due(d->engine, now);
	due = other < due ? other : due;
	other = pools_due(d);
	due = other < due ? other : due;
	other = committer_next_due(d->committer);
	loop_tick_at(d->loop, other < due ? other : due);
	upgrade_turn(d->upgrade, now);
}

const struct loop_hooks daemon_hooks = { .tick = on_tick, .turn = on_turn };

/* ---- statistics ---- */

static void
on_stat(void *ctx, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	struct daemon *d = ctx;
	struct committer_stats cs;
	struct store_stats ss;

	committer_stats_get(d->committer, &cs);
	writer_stats(d->writer, &ss);
	put(arg, "commits", (int64_t)cs.groups);
	put(arg, "commits_failed", (int64_t)cs.failures);
	put(arg, "commit_things", (int64_t)cs.things);
	put(arg, "commit_things_max", (int64_t)cs.largest);
	put(arg, "commit_p50_us", cs.took_p50_ns / NS_PER_US);
	put(arg, "commit_p99_us", cs.took_p99_ns / NS_PER_US);
	put(arg, "commit_max_us", cs.took_max_ns / NS_PER_US);
	put(arg, "degraded", cs.degraded);
	put(arg, "log_lines_lost", (int64_t)log_lost());
	put(arg, "dirty", (int64_t)engine_dirty(d->engine));
	put(arg, "store_bytes", (int64_t)ss.file_bytes);
	put(arg, "store_wal_bytes", (int64_t)ss.wal_bytes);
	put(arg, "store_bytes_written", (int64_t)ss.bytes_written);
	put(arg, "upgrades", (int64_t)d->upgrades);
	put(arg, "runner_active", (int64_t)runner_active(d->runner));
	put(arg, "worker_programs", (int64_t)crew_alive(d->crew));
	secure_stat(d, put, arg);
	pools_stat(d, put, arg);
}

static void
on_trouble(void *ctx, struct moment now, char *dst, size_t size)
{
	struct daemon *d = ctx;

	committer_trouble(d->committer, now, dst, size);
}

void
daemon_service_hooks(struct service_config *cfg)
{
	cfg->trouble = on_trouble;
	cfg->start_run = on_start_run;
	cfg->kill_run = on_kill_run;
	cfg->stalled = pools_on_stalled;
	cfg->output_ready = clients_output_ready;
	cfg->revoked = on_revoked;
	cfg->session_gone = on_session_gone;
	cfg->output_early = clients_output_early;
	cfg->handler_misfit = on_handler_misfit;
	cfg->reload = on_reload;
	cfg->shutdown = on_shutdown;
	cfg->upgrade = on_upgrade;
	cfg->stat = on_stat;
	cfg->token_name = secure_token_name;
}

/* ---- the process ---- */

int
daemon_run(const struct daemon_options *opt)
{
	struct daemon d = { .opt = opt };
	const char *why = NULL;
	int r = carried_open(&d);

	if (r < 0) {
		log_error("start", "error=\"what was carried over: %s\"", err_str(r));
		carried_close(&d);
		return WQD_EXIT_FAILED;
	}
	r = parts_load_config(&d);
	if (systemd_new(&d.sd, &why) < 0 && r == 0) {
		log_error("start", "error=\"%s\"", why);
		r = WQD_EXIT_FAILED;
	}
	if (r != 0) {
		if (d.carried.map && d.sd) {
			snprintf(d.why, sizeof d.why, "the configuration is refused");
			carried_back(&d);
		}
		carried_close(&d);
		systemd_free(d.sd);
		config_free(d.conf);
		return r;
	}
	log_setup(d.conf->log_level, systemd_stderr_is_journal(d.sd));
	r = parts_build(&d);
	if (r != 0 && d.carried.map)
		carried_back(&d);
	if (r == 0) {
		if (d.carried.map)
			carried_done(&d);
		else
			log_info("started", "version=%s pid=%d", PACKAGE_VERSION, (int)getpid());
		systemd_status(d.sd, "ready");
		systemd_ready(d.sd);
		if (loop_run(d.loop) < 0)
			d.exit = WQD_EXIT_FAILED;
		log_info("stopped", "exit=%d", d.exit);
	}
	parts_teardown(&d);
	carried_close(&d);
	return d.exit;
}

int
daemon_check(const struct daemon_options *opt)
{
	struct daemon d = { .opt = opt };
	char why[512];
	int r = parts_load_config(&d);

	if (r == 0 && secure_check(d.conf, why, sizeof why) < 0) {
		fprintf(stderr, "wqd: %s\n", why);
		r = WQD_EXIT_CONFIG;
	}
	if (r == 0)
		puts("wqd: the configuration is right");
	config_free(d.conf);
	return r;
}
