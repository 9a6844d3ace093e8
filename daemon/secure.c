/* TLS: from the configuration to the network adapter, and what there is to know of it. */
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "parts.h"

/* A certificate that ends sooner than this is worth a warning at every start and reload. */
#define SOON_S (14 * 86400)

static struct tls_config
tls_config(const struct config *conf)
{
	_Static_assert(TLS_CLIENTS_OFF == 0 && TLS_CLIENTS_REQUEST == 1 && TLS_CLIENTS_REQUIRE == 2,
		"the words of tls_clients");
	return (struct tls_config){
		.cert = conf->tls_cert,
		.key = conf->tls_key,
		.client_ca = conf->tls_client_ca,
		.clients = (enum tls_clients)conf->tls_clients,
	};
}

static int64_t
now_s(void)
{
	return clock_wall_ns() / NS_PER_S;
}

static void
log_certificate(const struct tls *tls)
{
	char subject[600], end[32] = "?";
	struct tls_view v;
	struct tm tm;
	time_t t;

	tls_view_get(tls, &v);
	t = (time_t)v.not_after_s;
	if (gmtime_r(&t, &tm))
		strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", &tm);
	log_field(subject, sizeof subject, str_from(v.subject));
	if (v.not_after_s - now_s() < SOON_S)
		log_warn("tls_certificate", "subject=%s serial=%s expires=%s msg=\"%s\"", subject,
			v.serial, end,
			v.not_after_s < now_s() ? "it has expired" : "it expires soon");
	else
		log_info("tls_certificate", "subject=%s serial=%s expires=%s", subject, v.serial,
			end);
}

int
secure_build(struct daemon *d)
{
	struct tls_config cfg = tls_config(d->conf);
	char field[600];
	struct tls_error err;

	if (!cfg.cert)
		return 0;
	if (tls_new(&cfg, &d->tls, &err) < 0) {
		log_error("tls", "error=%s", log_field(field, sizeof field, str_from(err.text)));
		systemd_status(d->sd, "%s", err.text);
		return d->exit = WQD_EXIT_CONFIG;
	}
	log_certificate(d->tls);
	return 0;
}

int
secure_check(const struct config *conf, char *why, size_t size)
{
	struct tls_config cfg = tls_config(conf);
	struct tls_error err;
	struct tls *tls;
	int r;

	if (!cfg.cert)
		return 0;
	r = tls_new(&cfg, &tls, &err);
	if (r < 0)
		snprintf(why, size, "%s", err.text);
	else
		tls_free(tls);
	return r;
}

int
secure_reload(struct daemon *d, const struct config *conf, char *why, size_t size)
{
	struct tls_config cfg = tls_config(conf);
	struct tls_error err;
	int r;

	/* Addresses change with a restart, and with them whether there is TLS at all. */
	if (!d->tls || !cfg.cert)
		return secure_check(conf, why, size);
	r = tls_reload(d->tls, &cfg, &err);
	if (r < 0)
		snprintf(why, size, "%s", err.text);
	else
		log_certificate(d->tls);
	return r;
}

void
secure_stat(struct daemon *d, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	struct conns_stats st;
	struct tls_view v;

	conns_stats_get(d->conns, &st);
	put(arg, "tls_handshakes", (int64_t)st.handshakes);
	put(arg, "tls_handshakes_failed", (int64_t)st.handshakes_failed);
	put(arg, "tls_handshakes_dropped", (int64_t)st.handshakes_dropped);
	put(arg, "tls_handshaking", (int64_t)st.handshaking);
	if (!d->tls)
		return;
	tls_view_get(d->tls, &v);
	put(arg, "tls_certificate_expires_s", v.not_after_s - now_s());
}
