/*
 * Operations that are about the connection or the daemon; and the table of all.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "service/internal.h"

const struct op op_table[REQ_KIND_COUNT] = {
	[REQ_UNKNOWN] = { op_unknown, 1 },
	[REQ_HELLO] = { op_hello, 1 },
	[REQ_PING] = { op_ping, 1 },
	[REQ_UPDATE] = { op_update, 1 },
	[REQ_UPDATE_BATCH] = { op_update_batch, 1 },
	[REQ_CANCEL] = { op_cancel, 1 },
	[REQ_FLUSH] = { op_flush, 1 },
	[REQ_FLUSH_QUEUE] = { op_flush_queue, 1 },
	[REQ_WAIT] = { op_wait, 1 },
	[REQ_GET] = { op_get, 1 },
	[REQ_LIST] = { op_list, 128 },
	[REQ_HISTORY] = { op_history, 128 },
	[REQ_DELETE] = { op_delete, 1 },
	[REQ_DISABLE] = { op_disable, 1 },
	[REQ_ENABLE] = { op_enable, 1 },
	[REQ_KICK] = { op_kick, 1 },
	[REQ_QUEUE_CREATE] = { op_queue_create, 8 },
	[REQ_QUEUE_SET] = { op_queue_set, 8 },
	[REQ_QUEUE_SHOW] = { op_queue_show, 8 },
	[REQ_QUEUE_LIST] = { op_queue_list, 512 },
	[REQ_QUEUE_DELETE] = { op_queue_delete, 1 },
	[REQ_PAUSE] = { op_pause, 1 },
	[REQ_RESUME] = { op_resume, 1 },
	[REQ_DRAIN] = { op_drain, 1 },
	[REQ_STAT] = { op_stat, 32 },
	[REQ_RELOAD] = { op_reload, 2048 },
	[REQ_SHUTDOWN] = { op_shutdown, 1 },
	[REQ_UPGRADE] = { op_upgrade, 1 },
	[REQ_COMPLETION_WAIT] = { op_completion_wait, 1 },
	[REQ_COMPLETE] = { op_complete, 1 },
	[REQ_COMPLETE_ALL] = { op_complete_all, 1 },
	[REQ_COMPLETION_REINIT] = { op_completion_reinit, 1 },
	[REQ_COMPLETION_SHOW] = { op_completion_show, 1 },
	[REQ_WATCH] = { op_watch, 8 },
	[REQ_SUBSCRIBE] = { op_subscribe, 8 },
	[REQ_CREDITS] = { op_credits, 8 },
	[REQ_UNSUBSCRIBE] = { op_unsubscribe, 8 },
	[REQ_TOUCH] = { op_touch, 1 },
	[REQ_FINISH] = { op_finish, 1 },
	[REQ_FAIL] = { op_fail, 1 },
	[REQ_RELEASE] = { op_release, 1 },
	[REQ_BACKUP] = { op_backup, 8 },
	[REQ_CHECK] = { op_check, 8 },
	[REQ_EXPORT] = { op_export, 2048 },
	[REQ_IMPORT_JOB] = { op_import_job, 2 },
};

void
op_unknown(struct service *svc, struct call *c)
{
	(void)svc;
	reply_status(c->s, c->req->id, ST_UNIMPLEMENTED, "this daemon does not know the operation");
}

/* OK, or what is wrong with the greeting. */
static enum status
hello_status(struct service *svc, struct session *s, const struct req_hello *h, const char **why)
{
	bool whole = str_eq(h->namespace_, STR("*"));
	const char *name;

	*why = NULL;
	if (h->version != WIRE_VERSION)
		*why = "this daemon speaks version 1 of the protocol";
	else if (h->client.n > 0 && !key_valid(h->client))
		*why = "the client name is no clean text";
	else if (h->namespace_.n > 0 && !whole && !namespace_valid(h->namespace_))
		*why = "no acceptable name of a namespace";
	if (*why)
		return ST_INVALID;
	s->whole = whole;
	s->space_n = whole ? 0 : (uint8_t)h->namespace_.n;
	if (s->space_n)
		memcpy(s->space, h->namespace_.p, s->space_n);
	if (h->token.n > 0) {
		name = svc->cfg.token_name ? svc->cfg.token_name(svc->cfg.ctx, h->token) : NULL;
		if (!name)
			return ST_UNAUTHORIZED;
		snprintf(s->id.token, sizeof s->id.token, "%s", name);
	}
	return access_compute(s) && (!whole || (s->access.all & MAY_ADMIN)) ? ST_OK
									    : ST_UNAUTHORIZED;
}

/* What there is a limit of, and the queue that a namespace always has. */
static enum status
hello_limits(struct service *svc, struct call *c, const char **why)
{
	*why = "so many connections, and no more";
	if (!accounts_open(c->s, c->now))
		return ST_REFUSED_LIMIT;
	*why = "there is no room for one more namespace";
	return space_open(svc, c->s, c->now);
}

void
op_hello(struct service *svc, struct call *c)
{
	const struct req_hello *h = &c->req->hello;
	const struct hello_info info = {
		.server = svc->cfg.server,
		.instance = svc->cfg.instance,
		.frame_max = svc->cfg.frame_max,
		.in_flight_max = svc->cfg.max_in_flight,
		.now_ms = c->now.wall_ns / NS_PER_MS,
	};
	char name[2 * CLIENT_NAME_MAX];
	struct buf *out;
	const char *why;
	enum status st;

	if (c->s->state == SESSION_OPEN) {
		reply_status(c->s, c->req->id, ST_INVALID, "hello was said already");
		return;
	}
	st = hello_status(svc, c->s, h, &why);
	if (st == ST_UNAUTHORIZED) {
		session_deny(c->s, c->req->id, c->now);
		return;
	}
	if (st == ST_OK)
		st = hello_limits(svc, c, &why);
	if (st != ST_OK) {
		reply_status(c->s, c->req->id, st, why);
		session_close(c->s);
		return;
	}
	c->s->state = SESSION_OPEN;
	if (h->client.n > 0)
		memcpy(c->s->client, h->client.p, h->client.n);
	log_debug("hello", "peer=\"%s\" client=%s", c->s->peer.address,
		log_field(name, sizeof name, h->client));
	out = reply_begin(c->s);
	if (out)
		reply_end(c->s, ST_OK, wire_put_hello(out, c->req->id, &info));
}

void
service_trouble(const struct service *svc, struct moment now, char dst[TROUBLE_MAX])
{
	dst[0] = '\0';
	if (svc->cfg.trouble)
		svc->cfg.trouble(svc->cfg.ctx, now, dst, TROUBLE_MAX);
}

void
op_ping(struct service *svc, struct call *c)
{
	struct buf *out = reply_begin(c->s);

	char trouble[TROUBLE_MAX];

	service_trouble(svc, c->now, trouble);
	if (out)
		reply_end(c->s, ST_OK, wire_put_pong(out, c->req->id, c->req->ping.echo, trouble));
}

void
service_log_command(const struct call *c, const char *what)
{
	if (what)
		log_info(what, "peer=\"%s\"", c->s->peer.address);
}

void
op_reload(struct service *svc, struct call *c)
{
	char why[512] = "";

	service_log_command(c, "reload_asked");
	if (svc->cfg.reload(svc->cfg.ctx, why, sizeof why) < 0)
		reply_status(c->s, c->req->id, ST_INVALID, why);
	else
		reply_status(c->s, c->req->id, ST_OK, NULL);
}

void
op_shutdown(struct service *svc, struct call *c)
{
	service_log_command(c, "shutdown_asked");
	reply_status(c->s, c->req->id, ST_OK, NULL);
	svc->cfg.shutdown(svc->cfg.ctx, c->req->drain_first);
}

void
op_upgrade(struct service *svc, struct call *c)
{
	char why[512] = "this daemon can't be upgraded while it runs";

	service_log_command(c, c->req->upgrade_check ? "upgrade_check_asked" : "upgrade_asked");
	if (svc->stopping) {
		reply_status(c->s, c->req->id, ST_REFUSED_DRAINING, "the daemon is stopping");
		return;
	}
	if (svc->upgrading) {
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, "an upgrade is going on already");
		return;
	}
	if (!svc->cfg.upgrade ||
		svc->cfg.upgrade(svc->cfg.ctx, c->req->upgrade_check, why, sizeof why) < 0) {
		reply_status(c->s, c->req->id, ST_INVALID, why);
		return;
	}
	svc->upgrading = true;
	svc->upgrader = c->s;
	svc->upgrade_id = c->req->id;
	c->s->in_flight++;
}

void
service_upgraded(struct service *svc, enum status st, const char *message)
{
	struct session *s = svc->upgrader;

	CHECK_OBJ(svc, SERVICE_MAGIC);
	svc->upgrading = false;
	svc->upgrader = NULL;
	if (!s)
		return;
	s->in_flight--;
	reply_status(s, svc->upgrade_id, st, message);
	svc->cfg.output_ready(svc->cfg.ctx, s);
}
