/* Sessions on connections: the network adapter and the service, which don't know each other. */
#include "base/log.h"
#include "parts.h"
#include "service/carry.h"

static int
open_session(void *ctx, struct conn *c, const struct peer *peer, struct moment now, void **session)
{
	struct daemon *d = ctx;
	struct session *s;
	struct peer p = *peer;
	int r;

	crew_peer(d->crew, &p);
	r = session_new(d->svc, &p, now, &s);
	if (r < 0)
		return r;
	session_set_user(s, c);
	crew_session_opened(d->crew, s);
	*session = s;
	return 0;
}

static void
close_session(void *session, struct moment now)
{
	session_free(session, now);
}

static int
session_input_(void *session, struct moment now, struct buf *in)
{
	return session_input(session, now, in);
}

static struct buf *
session_output_(void *session)
{
	return session_output(session);
}

static bool
session_wants_input_(const void *session)
{
	return session_wants_input(session);
}

static bool
session_closing_(const void *session)
{
	return session_closing(session);
}

static int64_t
session_deadline_(const void *session)
{
	return session_deadline(session);
}

static void
session_expired_(void *session)
{
	session_expired(session);
}

static void
session_carry_out_(const void *session, struct carry_out *o)
{
	session_carry_out(session, o);
}

static int
session_carry_in_(void *session, const struct carry_record *r, struct moment now)
{
	return session_carry_in(session, r, now);
}

static void
session_deaf_(void *session)
{
	session_deaf(session);
}

static void
on_refused(void *ctx)
{
	struct daemon *d = ctx;

	service_counters(d->svc)->connections_refused++;
}

static void
on_not_secured(void *ctx, const char *address, const char *why)
{
	(void)ctx;
	/* Whoever can reach the port can make such lines. */
	log_debug("tls_handshake_failed", "peer=\"%s\" error=\"%s\"", address, why);
}

void
clients_output_ready(void *ctx, struct session *s)
{
	(void)ctx;
	conn_output_ready(session_user(s));
}

void
clients_output_early(void *ctx, struct session *s)
{
	(void)ctx;
	conn_output_early(session_user(s));
}

struct conn_protocol
clients_protocol(struct daemon *d)
{
	return (struct conn_protocol){
		.ctx = d,
		.open = open_session,
		.close = close_session,
		.input = session_input_,
		.output = session_output_,
		.wants_input = session_wants_input_,
		.closing = session_closing_,
		.deadline = session_deadline_,
		.expired = session_expired_,
		.carry_out = session_carry_out_,
		.carry_in = session_carry_in_,
		.deaf = session_deaf_,
		.refused = on_refused,
		.not_secured = on_not_secured,
	};
}
