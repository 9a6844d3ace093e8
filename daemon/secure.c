/* TLS and tokens: from the configuration to their adapters, and what there is to know of them. */
#include <stdio.h>
#include <string.h>
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

static int
refuse(struct daemon *d, const char *event, const char *why)
{
	char field[600];

	log_error(event, "error=%s", log_field(field, sizeof field, str_from(why)));
	systemd_status(d->sd, "%s", why);
	return d->exit = WQD_EXIT_CONFIG;
}

const char *
secure_token_name(void *ctx, struct str token)
{
	const struct daemon *d = ctx;

	return d->tokens ? tokens_find(d->tokens, token) : NULL;
}

int
daemon_hash_token(const char *name)
{
	char token[TOKEN_BYTES_MAX + 2], line[TOKEN_LINE_MAX];
	size_t n = fread(token, 1, sizeof token, stdin);
	int r;

	if (strlen(name) > TOKEN_NAME_MAX || !key_valid(str_from(name)) || strchr(name, ' ')) {
		fprintf(stderr, "wqd: --hash-token: the name is 1 to %d bytes without spaces\n",
			TOKEN_NAME_MAX);
		return WQD_EXIT_USAGE;
	}
	if (n > 0 && token[n - 1] == '\n')
		n--;
	r = tokens_hash((struct str){ token, n }, line);
	if (r < 0) {
		fprintf(stderr, "wqd: --hash-token: a token has %d to %d bytes\n", TOKEN_BYTES_MIN,
			TOKEN_BYTES_MAX);
		return WQD_EXIT_FAILED;
	}
	printf("%s %s\n", name, line);
	return fflush(stdout) == 0 ? WQD_EXIT_OK : WQD_EXIT_FAILED;
}

int
secure_build(struct daemon *d)
{
	struct tls_config cfg = tls_config(d->conf);
	struct tls_error err;
	char why[512];

	if (d->conf->token_file &&
		tokens_load(d->conf->token_file, &d->tokens, why, sizeof why) < 0)
		return refuse(d, "tokens", why);
	if (!cfg.cert)
		return 0;
	if (tls_new(&cfg, &d->tls, &err) < 0)
		return refuse(d, "tls", err.text);
	log_certificate(d->tls);
	return 0;
}

static int
check_tls(const struct config *conf, char *why, size_t size)
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
secure_check(const struct config *conf, char *why, size_t size)
{
	struct tokens *tokens = NULL;
	int r = 0;

	if (conf->token_file)
		r = tokens_load(conf->token_file, &tokens, why, size);
	tokens_free(tokens);
	return r < 0 ? r : check_tls(conf, why, size);
}

static int
reload_tls(struct daemon *d, const struct config *conf, char *why, size_t size)
{
	struct tls_config cfg = tls_config(conf);
	struct tls_error err;
	int r;

	/* Addresses change with a restart, and with them whether there is TLS at all. */
	if (!d->tls || !cfg.cert)
		return check_tls(conf, why, size);
	r = tls_reload(d->tls, &cfg, &err);
	if (r < 0)
		snprintf(why, size, "%s", err.text);
	else
		log_certificate(d->tls);
	return r;
}

int
secure_reload(struct daemon *d, const struct config *conf, char *why, size_t size)
{
	struct tokens *tokens = NULL;
	int r = 0;

	if (conf->token_file)
		r = tokens_load(conf->token_file, &tokens, why, size);
	if (r == 0)
		r = reload_tls(d, conf, why, size);
	if (r < 0) {
		tokens_free(tokens);
		return r;
	}
	tokens_free(d->tokens);
	d->tokens = tokens;
	return 0;
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
