/* The connection, and one request with its reply. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_out.h"

/* A connection attempt may take this long; --timeout can only make it shorter. */
#define CONNECT_MS 5000
/* A reply that needs no waiting in the daemon is there within this, or never. */
#define REPLY_MS 30000

int
ctl_wait_ms(const struct ctl *c)
{
	int64_t ms = ctl_num(c, OPT_TIMEOUT, -1);

	return ms > INT_MAX / 2 ? INT_MAX / 2 : (int)ms;
}

/* What the library takes from the environment, options give it there: runs of `work` inherit it. */
static void
give_environment(const struct ctl *c)
{
	static const struct {
		enum ctl_option_id id;
		const char *name;
	} given[] = {
		{ OPT_TLS_CA, "WQ_TLS_CA" },
		{ OPT_TLS_CERT, "WQ_TLS_CERT" },
		{ OPT_TLS_KEY, "WQ_TLS_KEY" },
		{ OPT_TOKEN_FILE, "WQ_TOKEN_FILE" },
		{ OPT_NAMESPACE, "WQ_NAMESPACE" },
	};

	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		if (ctl_given(c, given[i].id))
			setenv(given[i].name, c->opt[given[i].id].text, 1);
}

/*
 * What of the options no address is to blame for: said before, or it would look like a daemon that
 * is not there. The token's file may be a pipe, so it is not opened here.
 */
static int
check_options(struct ctl *c)
{
	const char *token = getenv("WQ_TOKEN_FILE"), *cert = getenv("WQ_TLS_CERT");

	if (ctl_given(c, OPT_TLS_KEY) && !(cert && *cert))
		return ctl_usage(c, "--tls-key needs --tls-cert");
	if (token && *token && access(token, R_OK) < 0)
		return ctl_error(c, CTL_FAILED, wq_error_word(-errno),
			"cannot read the token from %s: %s", token, strerror(errno));
	return 0;
}

/*
 * No reconnecting: an answer that comes after the daemon went away and came back would be about
 * another time than the one asked about.
 *
 * Where a verb waits, --timeout is the daemon's business; else it bounds how long connecting and
 * the reply may take.
 */
int
ctl_connect(struct ctl *c)
{
	int timeout = c->verb->waits ? 0 : ctl_wait_ms(c);
	int connect = timeout > 0 && timeout < CONNECT_MS ? timeout : CONNECT_MS;
	const char *space;
	char options[160];
	int rc;

	snprintf(options, sizeof options,
		"client=wqctl,reconnect=%s,resend=%s,connect_timeout=%dms,timeout=%dms,insecure=%s",
		c->reconnects ? "yes" : "no", c->reconnects ? "yes" : "no", connect,
		timeout > 0 ? timeout : REPLY_MS, ctl_given(c, OPT_INSECURE) ? "yes" : "no");
	give_environment(c);
	space = getenv("WQ_NAMESPACE");
	rc = check_options(c);
	if (rc)
		return rc;
	rc = wq_connect(c->server, options, &c->wq);
	if (rc == 0)
		return 0;
	c->wq = NULL;
	if (rc == WQ_ERR_ADDRESS)
		return ctl_error(c, CTL_USAGE, wq_error_word(rc),
			"'%s' is no address (unix:PATH, tcp://HOST:PORT or tls://HOST:PORT)",
			c->server);
	if (rc == WQ_ERR_TLS || rc == WQ_ERR_UNTRUSTED || rc == WQ_ERR_WRONG_NAME ||
		rc == WQ_ERR_EXPIRED || rc == WQ_ERR_OPTION)
		return ctl_error(c, CTL_FAILED, wq_error_word(rc), "%s", wq_message(NULL));
	if (rc == -WQ_INVALID && space && *space)
		return ctl_error(c, CTL_FAILED, wq_error_word(rc),
			"%s: '%s' is no name of a namespace: 1 to 32 letters, digits and _ . -, "
			"the first a letter or digit",
			c->server, space);
	if (rc == -ENOMEM || rc == WQ_ERR_UNSUPPORTED)
		return ctl_error(
			c, CTL_FAILED, wq_error_word(rc), "%s: %s", c->server, wq_strerror(rc));
	if (rc == -EACCES || rc == -EPERM || rc == -WQ_UNAUTHORIZED)
		return ctl_error(c, CTL_UNAUTHORIZED, wq_error_word(rc), "%s: %s", c->server,
			wq_strerror(rc));
	if ((rc == -ETIMEDOUT || rc == WQ_ERR_TIMEOUT) && connect < CONNECT_MS)
		return ctl_error(c, CTL_TIMED_OUT, wq_error_word(WQ_ERR_TIMEOUT),
			"no answer from %s within --timeout", c->server);
	return ctl_error(
		c, CTL_NO_DAEMON, "NO_DAEMON", "no daemon at %s: %s", c->server, wq_strerror(rc));
}

void
ctl_disconnect(struct ctl *c)
{
	wq_free(c->wq);
	c->wq = NULL;
}

/* The daemon keeps the time of operations that wait; this is for one that stopped answering. */
int
ctl_turn(struct ctl *c, bool waits)
{
	int bound = ctl_wait_ms(c);

	if (waits)
		return wq_run(c->wq, bound < 0 ? -1 : bound + REPLY_MS);
	return wq_run(c->wq, bound > 0 ? bound : REPLY_MS);
}

void
ctl_expect(struct ctl *c, const struct ctl_target *t,
	int (*show)(struct ctl *, const struct ctl_target *, const wq_reply_t *))
{
	c->slot = (struct ctl_reply_slot){ .target = *t, .show = show };
}

void
ctl_on_reply(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct ctl *c = arg;

	(void)wq;
	if (c->slot.abandoned)
		return;
	c->slot.answered = true;
	c->slot.exit = c->slot.show(c, &c->slot.target, reply);
}

int
ctl_await(struct ctl *c, int sent, bool waits)
{
	int rc = sent < 0 ? sent : ctl_turn(c, waits);

	if (c->slot.answered)
		return c->slot.exit;
	/* wq_free will call back. */
	c->slot.abandoned = true;
	return ctl_fail(c, rc < 0 ? rc : WQ_ERR_CLOSED, NULL);
}

int
ctl_arg_target(struct ctl *c, int i, struct ctl_target *t)
{
	const char *text = c->arg[i];
	const char *wrong = ctl_target_parse(text, strlen(text), c->opt[OPT_QUEUE].text, t);

	return wrong ? ctl_usage(c, "'%s': %s", text, wrong) : 0;
}
