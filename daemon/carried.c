/* The process after the exec: what was carried becomes parts again. See upgrade.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/carry.h"
#include "parts.h"
#include "service/carry.h"
#include "upgrade.h"

/* The head says that it is for this process, and in what form. */
static int
read_head(struct daemon *d)
{
	struct carry_record r;
	size_t at = 0;
	uint64_t format;

	if (!carry_next(&d->carried, &at, &r) || r.kind != CARRY_HEAD)
		return ERR_DAMAGED;
	format = carry_get_u64(&r, HEAD_FORMAT, 0);
	if (format < CARRY_OLDEST || format > CARRY_FORMAT)
		return ERR_NEWER_SCHEMA;
	if (carry_get_u64(&r, HEAD_PID, 0) != (uint64_t)getpid())
		return ERR_NOT_OURS;
	d->before_fd = carry_get_fd(&r, HEAD_EXE);
	d->upgrades = carry_get_u64(&r, HEAD_UPGRADES, 1);
	d->carried_ns = carry_get_i64(&r, HEAD_BEGAN, 0);
	snprintf(d->before, sizeof d->before, "%.*s", STR_ARG(carry_get(&r, HEAD_VERSION)));
	return 0;
}

int
carried_open(struct daemon *d)
{
	const char *text = getenv(CARRIED_FD), *back = getenv(CARRIED_BACK);
	uint64_t fd;
	int err;

	d->carried_fd = d->before_fd = -1;
	if (!text)
		return 0;
	if (back)
		snprintf(d->back, sizeof d->back, "%s", back);
	err = text_u64(str_from(text), &fd) < 0 || fd > INT32_MAX ? ERR_BAD_VALUE : 0;
	unsetenv(CARRIED_FD);
	unsetenv(CARRIED_BACK);
	if (err == 0)
		err = carry_in_open(&d->carried, (int)fd);
	if (err < 0)
		return err;
	d->carried_fd = (int)fd;
	(void)fcntl(d->carried_fd, F_SETFD, FD_CLOEXEC);
	carry_in_keep_fds(&d->carried, false);
	return read_head(d);
}

void
carried_close(struct daemon *d)
{
	carry_in_close(&d->carried);
	if (d->carried_fd >= 0)
		close(d->carried_fd);
	if (d->before_fd >= 0)
		close(d->before_fd);
	d->carried_fd = d->before_fd = -1;
}

static int
restore_record(struct daemon *d, const struct carry_record *r, const char **what)
{
	switch ((int)r->kind) {
	case CARRY_CONN:
	case CARRY_SESSION:
	case CARRY_TICKET:
	case CARRY_WATCHER:
		*what = "a connection";
		return conns_carry_in(d->conns, r);
	case CARRY_CHILD:
		*what = "the process of a run";
		return runner_carry_in(d->runner, r);
	case CARRY_SHIFT:
	case CARRY_MEMBER:
		*what = "a worker program";
		return crew_carry_in(d->crew, r);
	case CARRY_SERVICE:
	case CARRY_SERVICE_COUNTER:
		*what = "the service";
		return service_carry_in(d->svc, r);
	default:
		return 0;
	}
}

static int
failed(struct daemon *d, const char *what, int err)
{
	snprintf(d->why, sizeof d->why, "carried over: %s: %s", what, err_str(err));
	log_error("start", "error=\"%s\"", d->why);
	return d->exit = WQD_EXIT_FAILED;
}

int
carried_restore(struct daemon *d)
{
	struct carry_record r;
	const char *what = "";
	size_t at = 0;
	int err = engine_carry_in_waiters(d->engine, clock_now(), &d->carried, &what);

	while (err == 0 && carry_next(&d->carried, &at, &r))
		err = restore_record(d, &r, &what);
	if (err < 0)
		return failed(d, what, err);
	if (!d->back[0] && upgrade_fault("start"))
		return failed(d, "a fault", -ENOMEM);
	return 0;
}

void
carried_done(struct daemon *d)
{
	int64_t took_ns = clock_boot_ns() - d->carried_ns;

	service_upgraded(
		d->svc, d->back[0] ? ST_INVALID : ST_OK, d->back[0] ? d->back : PACKAGE_STRING);
	conns_carried(d->conns);
	if (d->back[0])
		log_error("upgrade_undone", "error=\"%s\" took_ms=%lld", d->back,
			(long long)(took_ns / NS_PER_MS));
	else
		log_info("upgraded", "from=\"%s\" to=\"%s\" connections=%zu took_ms=%lld",
			d->before, PACKAGE_STRING, conns_count(d->conns),
			(long long)(took_ns / NS_PER_MS));
	carried_close(d);
	upgrade_block_signals(false);
}

void
carried_back(struct daemon *d)
{
	char fd_text[64], why[sizeof d->why + 64];
	size_t n;
	char **env;

	if (d->before_fd < 0 || d->back[0])
		return;
	log_warn("upgrade_undoing", "error=\"%s\"", d->why);
	n = upgrade_environ(d, NULL);
	env = must_alloc((n + 3) * sizeof *env);
	upgrade_environ(d, env);
	snprintf(fd_text, sizeof fd_text, CARRIED_FD "=%d", d->carried_fd);
	snprintf(why, sizeof why, CARRIED_BACK "=the new program could not start: %s", d->why);
	env[n] = fd_text;
	env[n + 1] = why;
	env[n + 2] = NULL;
	carry_in_keep_fds(&d->carried, true);
	(void)fcntl(d->carried_fd, F_SETFD, 0);
	fexecve(d->before_fd, d->opt->argv, env);
	log_error("upgrade_not_undone", "error=\"%s\"", err_str(-errno));
	x_free(env);
}
