#include "opts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "wq.h"

#define YEAR_MS (365 * 86400000ll)
#define AT(f)   offsetof(struct options, f)

/* clang-format off */
const struct option_row option_table[] = {
	{ "client", OPTION_NAME, AT(client), 1, OPTION_CLIENT_MAX, "<the program's name>",
		"name shown in the daemon's log, at most 64 bytes" },
	{ "connect_timeout", OPTION_DURATION, AT(connect_timeout_ms), 1, YEAR_MS, "5s",
		"for one try to connect, hello included" },
	{ "timeout", OPTION_DURATION, AT(timeout_ms), 0, YEAR_MS, "30s",
		"for a blocking call, besides its own waiting time; 0: none" },
	{ "reconnect", OPTION_BOOL, AT(reconnect), 0, 1, "yes",
		"connect again by itself; else a broken connection fails what is in flight, and the next "
		"request connects" },
	{ "reconnect_min", OPTION_DURATION, AT(reconnect_min_ms), 1, YEAR_MS, "50ms",
		"first pause before that; doubled each time, with jitter" },
	{ "reconnect_max", OPTION_DURATION, AT(reconnect_max_ms), 1, YEAR_MS, "5s",
		"longest pause" },
	{ "resend", OPTION_BOOL, AT(resend), 0, 1, "yes",
		"give requests that change a job an idempotency id and send them again after a "
		"reconnect; else they fail" },
	{ "max_in_flight", OPTION_COUNT, AT(max_in_flight), 1, 1000000, "4096",
		"requests waiting for replies at once" },
	{ "run_token", OPTION_TOKEN, AT(run_token), 0, 0, "<$WQ_RUN_TOKEN>",
		"says which run the caller is part of" },
	{ "sole_updater", OPTION_BOOL, AT(sole_updater), 0, 1, "no",
		"the caller alone changes its jobs: updates that give a slack and stay inside it are "
		"answered here" },
	{ "tls_ca", OPTION_NAME, AT(tls_ca), 0, OPTION_PATH_MAX, "<$WQ_TLS_CA>",
		"file or folder of those who may have issued the daemon's certificate; empty: the "
		"system's" },
	{ "tls_cert", OPTION_NAME, AT(tls_cert), 0, OPTION_PATH_MAX, "<$WQ_TLS_CERT>",
		"file of the client's own certificate and its chain; empty: none" },
	{ "tls_key", OPTION_NAME, AT(tls_key), 0, OPTION_PATH_MAX, "<$WQ_TLS_KEY>",
		"file of its private key; empty: in the same file" },
	{ "tls_name", OPTION_NAME, AT(tls_name), 0, OPTION_PATH_MAX, "<the address's host>",
		"name that the daemon's certificate has to have" },
	{ "insecure", OPTION_BOOL, AT(insecure), 0, 1, "no",
		"takes whatever certificate the daemon shows; a warning says so on standard error" },
	{ "token_file", OPTION_NAME, AT(token_file), 0, OPTION_PATH_MAX, "<$WQ_TOKEN_FILE>",
		"file whose first line is the token that the daemon knows the client by; read at each "
		"connect; empty: none" },
	{ "namespace", OPTION_NAME, AT(space), 0, OPTION_SPACE_MAX, "<$WQ_NAMESPACE>",
		"namespace in which all names of queues and completions are; empty: none" },
};
/* clang-format on */
const size_t option_count = sizeof option_table / sizeof *option_table;

static int
parse_bool(const char *text, bool *out)
{
	static const char *const words[2][3] = {
		{ "no", "false", "off" },
		{ "yes", "true", "on" },
	};

	for (int v = 0; v < 2; v++)
		for (int i = 0; i < 3; i++)
			if (strcmp(text, words[v][i]) == 0) {
				*out = v;
				return 0;
			}
	return WQ_ERR_OPTION;
}

static int
parse_u64(const char *text, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (*text < '0' || *text > '9')
		return WQ_ERR_OPTION;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end)
		return WQ_ERR_OPTION;
	*out = v;
	return 0;
}

static int
set_name(const struct option_row *row, char *field, const char *value)
{
	size_t n = strlen(value);

	if (n < (size_t)row->min || n > (size_t)row->max)
		return WQ_ERR_OPTION;
	memcpy(field, value, n + 1);
	return 0;
}

static int
set_number(const struct option_row *row, int64_t *field, const char *value)
{
	uint64_t u = 0;
	int64_t v = 0;
	int err;

	if (row->type == OPTION_DURATION) {
		err = wq_parse_duration(value, &v);
	} else {
		err = parse_u64(value, &u);
		v = u > INT64_MAX ? INT64_MAX : (int64_t)u;
	}
	if (err < 0 || v < row->min || v > row->max)
		return WQ_ERR_OPTION;
	*field = v;
	return 0;
}

static int
set_row(struct options *o, const struct option_row *row, const char *value)
{
	void *field = (char *)o + row->offset;

	switch (row->type) {
	case OPTION_NAME:
		return set_name(row, field, value);
	case OPTION_BOOL:
		return parse_bool(value, field);
	case OPTION_TOKEN:
		return parse_u64(value, field);
	case OPTION_DURATION:
	case OPTION_COUNT:
		return set_number(row, field, value);
	}
	return WQ_ERR_OPTION;
}

int
options_set(struct options *o, const char *name, const char *value)
{
	if (!name || !value)
		return WQ_ERR_OPTION;
	for (size_t i = 0; i < option_count; i++)
		if (strcmp(option_table[i].name, name) == 0)
			return set_row(o, &option_table[i], value);
	return WQ_ERR_OPTION;
}

/* One "name=value" of `n` bytes. */
static int
set_pair(struct options *o, const char *text, size_t n)
{
	const char *eq = memchr(text, '=', n);
	char name[32], value[OPTION_PATH_MAX + 1];
	size_t name_len = eq ? (size_t)(eq - text) : 0;
	size_t value_len = eq ? n - name_len - 1 : 0;

	if (!eq || name_len >= sizeof name || value_len >= sizeof value)
		return WQ_ERR_OPTION;
	memcpy(name, text, name_len);
	name[name_len] = '\0';
	memcpy(value, eq + 1, value_len);
	value[value_len] = '\0';
	return options_set(o, name, value);
}

int
options_set_list(struct options *o, const char *text)
{
	struct options next = *o;

	while (text && *text) {
		size_t n = strcspn(text, ",");
		int err = set_pair(&next, text, n);

		if (err < 0)
			return err;
		text += n + (text[n] == ',');
	}
	*o = next;
	return 0;
}

/* A name that the daemon takes as it is: printable ASCII without spaces, cut to its length. */
static void
clean_name(char dst[OPTION_CLIENT_MAX + 1], const char *name)
{
	size_t n = 0;

	for (; name[n] && n < OPTION_CLIENT_MAX; n++)
		dst[n] = name[n] > ' ' && name[n] < 0x7f ? name[n] : '_';
	dst[n] = '\0';
}

/* Values of the environment for options that are not given; each fits, or is refused. */
static const char *
from_environment(struct options *o)
{
	static const struct {
		const char *variable, *option;
	} of[] = {
		{ "WQ_TLS_CA", "tls_ca" },
		{ "WQ_TLS_CERT", "tls_cert" },
		{ "WQ_TLS_KEY", "tls_key" },
		{ "WQ_TOKEN_FILE", "token_file" },
		{ "WQ_NAMESPACE", "namespace" },
	};

	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		const char *value = secure_getenv(of[i].variable);

		if (value && options_set(o, of[i].option, value) < 0)
			return of[i].variable;
	}
	return NULL;
}

/* What the process says of itself. A run's token that is no good counts as none: it is not the user's. */
static const char *
from_process(struct options *o)
{
	const char *token = secure_getenv("WQ_RUN_TOKEN");

	if (program_invocation_short_name)
		clean_name(o->client, program_invocation_short_name);
	if (token && options_set(o, "run_token", token) < 0)
		o->run_token = 0;
	return from_environment(o);
}

const char *
options_default(struct options *o)
{
	*o = (struct options){ 0 };
	for (size_t i = 0; i < option_count; i++)
		if (option_table[i].def[0] != '<')
			MUST(set_row(o, &option_table[i], option_table[i].def) == 0);
	return from_process(o);
}
