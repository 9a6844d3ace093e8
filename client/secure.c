/* TLS of the connection: what the handle's options ask of it, and how its failures are told. */
#include <errno.h>
#include <stdio.h>

#include "handle.h"

/* "tls://host:1: certificate has expired" */
static int
failed(wq_t *wq, int err)
{
	char address[MESSAGE_MAX / 2 + 100], text[MESSAGE_MAX];
	const char *why = tls_why(wq->link.tls);

	address_text(&wq->addr, address, sizeof address);
	snprintf(text, sizeof text, "%s: %s%s%s", address, wq_strerror(err), *why ? ": " : "", why);
	message_set(wq, text);
	return err;
}

/* Once a handle. */
static void
warn_insecure(wq_t *wq)
{
	char address[MESSAGE_MAX / 2 + 100];

	if (!wq->opt.insecure || wq->link.warned)
		return;
	wq->link.warned = true;
	address_text(&wq->addr, address, sizeof address);
	fprintf(stderr, "warning: %s: its certificate is not verified (insecure)\n", address);
}

int
secure_begin(wq_t *wq)
{
	const struct options *opt = &wq->opt;
	const struct tls_options o = {
		.name = *opt->tls_name ? opt->tls_name : wq->addr.host,
		.ca = opt->tls_ca,
		.cert = opt->tls_cert,
		.key = opt->tls_key,
		.insecure = opt->insecure,
	};
	int err = tls_new(&o, &wq->link.tls);

	warn_insecure(wq);
	return err < 0 ? failed(wq, err) : 0;
}

int
secure_turn(wq_t *wq)
{
	int r = tls_shake(wq->link.tls, wq->link.fd);

	if (r > -2000)
		return r < 0 ? system_error(-r) : r;
	return failed(wq, r);
}
