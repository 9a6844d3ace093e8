/*
 * The question that a running daemon puts to the program that is to take its
 * place, and the answer. The question is lines of a name and a value, so that
 * either side may know more than the other:
 *
 *   format 1             of the state that would be carried
 *   schema 4             of the store
 *   state_dir /var/...   as it was configured: it must not change
 *   tls 1                some listener speaks it: there must be a certificate
 *   jobs 17              that there are now, and likewise bytes, queues, completions:
 *                        the limits must not be below
 *
 * The answer is the exit status 0 and UPGRADE_CAN among what is said; or another
 * status, and the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/carry.h"
#include "base/text.h"
#include "parts.h"
#include "upgrade.h"

struct question {
	uint64_t format, schema;
	uint64_t jobs, bytes, queues, completions;
	bool tls;
	char state_dir[UPGRADE_QUESTION_MAX];
};

static bool
speaks_tls(const struct daemon *d)
{
	for (size_t i = 0; i < d->n_listeners; i++)
		if (strncmp(listener_address(d->listeners[i]), "tls:", 4) == 0)
			return true;
	return false;
}

size_t
upgrade_question(const struct daemon *d, char *dst, size_t size)
{
	struct engine_stats st;
	int n;

	engine_stats_get(d->engine, &st);
	n = snprintf(dst, size,
		"format %u\nschema %d\nstate_dir %s\ntls %d\njobs %llu\nbytes %llu\nqueues %llu\n"
		"completions %llu\n",
		CARRY_FORMAT, STORE_SCHEMA_VERSION, parts_state_dir(d), speaks_tls(d),
		(unsigned long long)st.jobs, (unsigned long long)st.bytes,
		(unsigned long long)st.queues, (unsigned long long)st.completions);
	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void
read_line(struct question *q, struct str line)
{
	const char *space = memchr(line.p, ' ', line.n);
	struct str name, value;
	uint64_t n = 0;

	if (!space)
		return;
	name = (struct str){ line.p, (size_t)(space - line.p) };
	value = (struct str){ space + 1, line.n - name.n - 1 };
	if (str_eq(name, STR("state_dir")))
		snprintf(q->state_dir, sizeof q->state_dir, "%.*s", STR_ARG(value));
	if (text_u64(value, &n) < 0)
		return;
	if (str_eq(name, STR("format")))
		q->format = n;
	else if (str_eq(name, STR("schema")))
		q->schema = n;
	else if (str_eq(name, STR("tls")))
		q->tls = n > 0;
	else if (str_eq(name, STR("jobs")))
		q->jobs = n;
	else if (str_eq(name, STR("bytes")))
		q->bytes = n;
	else if (str_eq(name, STR("queues")))
		q->queues = n;
	else if (str_eq(name, STR("completions")))
		q->completions = n;
}

static void
read_question(struct question *q)
{
	char text[UPGRADE_QUESTION_MAX];
	size_t n = fread(text, 1, sizeof text, stdin);

	*q = (struct question){ .format = CARRY_FORMAT, .schema = STORE_SCHEMA_VERSION };
	for (char *p = text, *end; (end = memchr(p, '\n', n - (size_t)(p - text))); p = end + 1)
		read_line(q, (struct str){ p, (size_t)(end - p) });
}

/* The program from before reads the same configuration: it could not take its place back either. */
static bool
within_limits(const struct question *q, const struct config *conf)
{
	const struct {
		const char *option;
		uint64_t limit, n;
	} v[] = {
		{ "max_jobs", (uint64_t)conf->max_jobs, q->jobs },
		{ "max_bytes", (uint64_t)conf->max_bytes, q->bytes },
		{ "max_queues", (uint64_t)conf->max_queues, q->queues },
		{ "max_completions", (uint64_t)conf->max_completions, q->completions },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		if (v[i].n > v[i].limit) {
			fprintf(stderr, "wqd: %s is %llu now, and there are %llu already\n",
				v[i].option, (unsigned long long)v[i].limit,
				(unsigned long long)v[i].n);
			return false;
		}
	return true;
}

static int
answer(const struct question *q, const struct daemon *d)
{
	const char *dir = parts_state_dir(d);

	if (q->format < CARRY_OLDEST || q->format > CARRY_FORMAT)
		fprintf(stderr, "wqd: %s takes states of formats %u to %u, not of %llu\n",
			PACKAGE_STRING, CARRY_OLDEST, CARRY_FORMAT, (unsigned long long)q->format);
	else if (q->schema > STORE_SCHEMA_VERSION)
		fprintf(stderr, "wqd: %s knows stores up to schema %d, not %llu\n", PACKAGE_STRING,
			STORE_SCHEMA_VERSION, (unsigned long long)q->schema);
	else if (q->state_dir[0] && strcmp(q->state_dir, dir) != 0)
		fprintf(stderr,
			"wqd: state_dir is %s now, and was %s: that changes with a restart\n", dir,
			q->state_dir);
	else if (strcmp(d->conf->store, "memory") == 0)
		fputs("wqd: store is memory now: that changes with a restart\n", stderr);
	else if (q->tls && !d->conf->tls_cert)
		fputs("wqd: a listener speaks TLS, and there is no tls_cert\n", stderr);
	else if (within_limits(q, d->conf))
		return WQD_EXIT_OK;
	return WQD_EXIT_CONFIG;
}

int
upgrade_check(const struct daemon_options *opt)
{
	struct daemon d = { .opt = opt };
	struct question q;
	char why[512];
	int r = parts_load_config(&d);

	if (r != 0)
		return r;
	read_question(&q);
	if (secure_check(d.conf, why, sizeof why) < 0) {
		fprintf(stderr, "wqd: %s\n", why);
		r = WQD_EXIT_CONFIG;
	}
	if (r == 0)
		r = answer(&q, &d);
	if (r == 0)
		puts(PACKAGE_STRING " " UPGRADE_CAN);
	config_free(d.conf);
	return r;
}
