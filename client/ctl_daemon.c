/* The daemon itself: stat, ping, reload, upgrade, shutdown. */
#include <stdio.h>

#include "ctl_out.h"
#include "ctl_text.h"

static int
put_counter(const char *name, int64_t value, void *arg)
{
	(void)arg;
	printf("%20lld  ", (long long)value);
	ctl_text_puts(stdout, name);
	putchar('\n');
	return 0;
}

static int
add_counter(const char *name, int64_t value, void *arg)
{
	ctl_json_set_named(arg, name, json_integer(value));
	return 0;
}

static void
put_trouble(const struct ctl *c)
{
	if (!wq_trouble(c->wq)[0])
		return;
	fputs("degraded: ", stdout);
	ctl_text_puts(stdout, wq_trouble(c->wq));
	putchar('\n');
}

int
ctl_do_stat(struct ctl *c)
{
	json_t *j;
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	if (!c->json) {
		rc = wq_stat(c->wq, put_counter, NULL);
		if (rc < 0)
			return ctl_fail(c, rc, NULL);
		put_trouble(c);
		return CTL_DONE;
	}
	j = json_object();
	rc = wq_stat(c->wq, add_counter, j);
	if (rc < 0) {
		json_decref(j);
		return ctl_fail(c, rc, NULL);
	}
	/* The rest are numbers, for programs that add them up. */
	if (wq_trouble(c->wq)[0])
		ctl_json_set(j, "trouble", ctl_text_jsons(wq_trouble(c->wq)));
	ctl_json_put(c, j);
	return CTL_DONE;
}

int
ctl_do_ping(struct ctl *c)
{
	int64_t us;
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_ping(c->wq, &us);
	if (rc < 0)
		return ctl_fail(c, rc, NULL);
	if (c->json) {
		json_t *j = json_object();

		ctl_json_set(j, "outcome", json_string("OK"));
		ctl_json_set(j, "server", ctl_text_jsons(c->server));
		ctl_json_set(j, "rtt_us", json_integer(us));
		ctl_json_set(j, "trouble", ctl_text_jsons(wq_trouble(c->wq)));
		ctl_json_put(c, j);
	} else if (!c->quiet) {
		ctl_text_puts(stdout, c->server);
		printf(" answered in %lld us\n", (long long)us);
		put_trouble(c);
	}
	return CTL_DONE;
}

int
ctl_do_reload(struct ctl *c)
{
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_reload(c->wq);
	return rc < 0 ? ctl_fail(c, rc, NULL) : ctl_put_ok(c, NULL, "reloaded");
}

int
ctl_do_upgrade(struct ctl *c)
{
	bool check = ctl_given(c, OPT_CHECK);
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_upgrade(c->wq, check);
	return rc < 0 ? ctl_fail(c, rc, NULL)
		      : ctl_put_ok(c, NULL, check ? "the new program can take over" : "upgraded");
}

int
ctl_do_shutdown(struct ctl *c)
{
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_shutdown(c->wq, ctl_given(c, OPT_DRAIN));
	return rc < 0 ? ctl_fail(c, rc, NULL) : ctl_put_ok(c, NULL, "the daemon is stopping");
}
