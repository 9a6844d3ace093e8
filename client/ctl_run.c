/* run: a command as a job, and with --wait the result of its run. */
#include <stdio.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"

/* The answer that says which run to wait for. */
struct asked {
	struct ctl_target t; /* key "": until the daemon has made one */
	uint64_t generation;
	bool accepted;
};

static int
show_asked(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply)
{
	struct asked *a = c->slot.more;

	a->t = *t;
	/* The daemon may have made it. */
	if (reply->key)
		snprintf(a->t.key, sizeof a->t.key, "%s", reply->key);
	a->generation = reply->generation;
	a->accepted = reply->result == 0;
	if (a->accepted && ctl_given(c, OPT_WAIT))
		return CTL_DONE;
	return ctl_show_reply(c, &a->t, reply);
}

static int
take_target(struct ctl *c, struct ctl_target *t)
{
	const char *key = c->opt[OPT_KEY].text, *queue = c->opt[OPT_QUEUE].text, *wrong;

	queue = queue ? queue : "default";
	wrong = ctl_target_parse(key ? key : "?", key ? strlen(key) : 1, queue, t);
	if (wrong)
		return ctl_usage(c, "'%s': %s", key ? key : queue, wrong);
	if (!key)
		t->key[0] = '\0';
	return 0;
}

static int
take_options(struct ctl *c, wq_update_opts_t *opts)
{
	if (ctl_given(c, OPT_IN) && ctl_given(c, OPT_AT))
		return ctl_usage(c, "--in and --at exclude each other");
	opts->at_ms = ctl_num(c, OPT_AT, -1);
	opts->durability = (wq_durability_t)ctl_num(c, OPT_DURABILITY, WQ_DEFAULT);
	opts->idempotency_id = c->opt[OPT_ID].text;
	opts->command = c->arg;
	opts->n_command = (size_t)c->n_args;
	return 0;
}

static int
run_asked(struct ctl *c, const wq_update_opts_t *opts, struct asked *a)
{
	const char *key = a->t.key[0] ? a->t.key : NULL;
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	ctl_expect(c, &a->t, show_asked);
	c->slot.more = a;
	rc = ctl_await(c,
		wq_send_update(
			c->wq, a->t.queue, key, ctl_num(c, OPT_IN, 0), opts, ctl_on_reply, c),
		false);
	if (!a->accepted || !ctl_given(c, OPT_WAIT))
		return rc;
	ctl_expect(c, &a->t, ctl_show_waited);
	return ctl_await(c,
		wq_send_wait(c->wq, a->t.queue, a->t.key, a->generation, ctl_wait_ms(c),
			ctl_on_reply, c),
		true);
}

int
ctl_do_run(struct ctl *c)
{
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	struct ctl_payload file = { NULL, 0 };
	struct asked a = { .accepted = false };
	int rc;

	if (c->arg[0][0] == '\0')
		return ctl_usage(c, "the command is empty");
	if ((rc = take_target(c, &a.t)) || (rc = take_options(c, &opts)))
		return rc;
	rc = ctl_take_payload(c, &opts, &file);
	if (rc == 0)
		rc = run_asked(c, &opts, &a);
	mem_free(file.buf);
	return rc;
}
