/* What must hold between options of a file, when all of it has been read. */
#include <string.h>

#include "conf/check.h"
#include "conf/load_int.h"

static int
cross_check_tls(struct loading *l)
{
	const struct config *c = l->c;

	for (size_t i = 0; c->listen[i]; i++)
		if (check_address_is_tls(str_from(c->listen[i])) && !c->tls_cert)
			return load_fail(l, l->listen_line,
				"listen: \"%s\" needs a certificate; right is: tls_cert = "
				"\"/PATH\" "
				"and tls_key = \"/PATH\"",
				c->listen[i]);
	if (!c->tls_cert != !c->tls_key)
		return load_fail(l, 1, "tls_cert and tls_key belong together; %s is missing",
			c->tls_cert ? "tls_key" : "tls_cert");
	if (c->tls_clients && !c->tls_client_ca)
		return load_fail(l, 1,
			"tls_clients: certificates of clients need tls_client_ca, which says who "
			"issues them");
	return 0;
}

static int
cross_check_listen(struct loading *l)
{
	char **list = l->c->listen;

	for (size_t i = 0; list[i]; i++) {
		for (size_t j = 0; j < i; j++)
			if (strcmp(list[i], list[j]) == 0)
				return load_fail(l, l->listen_line, "listen: \"%s\" is named twice",
					list[i]);
		if (!l->c->allow_plaintext && check_address_is_remote(str_from(list[i])))
			return load_fail(l, l->listen_line,
				"listen: \"%s\" would serve other machines without TLS; right is a "
				"loopback address, or allow_plaintext = yes",
				list[i]);
	}
	return 0;
}

int
cross_check(struct loading *l)
{
	for (size_t i = 0; i < l->c->n_queues; i++) {
		const struct config_queue *q = &l->c->queues[i];
		const struct handler *h = config_handler(l->c, str_from(q->settings.handler));
		const char *misfit = h ? config_handler_misfit(h, q->settings.action) : NULL;

		if (misfit)
			return load_fail(l, l->lines[i].handler, "queue \"%s\": handler: \"%s\" %s",
				q->name, h->name, misfit);
		if (q->settings.handler[0] && !h)
			return load_fail(l, l->lines[i].handler,
				"queue \"%s\": handler: \"%s\" is defined nowhere; right is the "
				"name "
				"of a handler section of this file",
				q->name, q->settings.handler);
		if (q->settings.pool[0] && strcmp(q->settings.pool, POOL_DEFAULT) != 0 &&
			!config_has_pool(l->c, q->settings.pool))
			return load_fail(l, l->lines[i].pool,
				"queue \"%s\": pool: \"%s\" is defined nowhere; right is the "
				"name of a pool section of this file, or " POOL_DEFAULT,
				q->name, q->settings.pool);
	}
	return cross_check_tls(l) ? -1 : cross_check_listen(l);
}
