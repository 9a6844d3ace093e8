/* Verbs on one job that change it or wait for it. */
#include "ctl_out.h"
#include "ctl_show.h"

static wq_change_opts_t
change_opts(const struct ctl *c)
{
	wq_change_opts_t o = WQ_CHANGE_INIT;

	o.durability = (wq_durability_t)ctl_num(c, OPT_DURABILITY, WQ_DEFAULT);
	o.idempotency_id = c->opt[OPT_ID].text;
	return o;
}

/* `cancel` is too late when a run goes on; with --wait or --kill that run has ended by now. */
static int
show_cancel_waited(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply)
{
	int status = ctl_show_reply(c, t, reply);

	return reply->result == 0 && reply->status == WQ_NOT_PENDING_RUNNING ? CTL_DONE : status;
}

int
ctl_do_cancel(struct ctl *c)
{
	wq_cancel_mode_t mode = ctl_given(c, OPT_KILL) ? WQ_CANCEL_KILL
		: ctl_given(c, OPT_WAIT)               ? WQ_CANCEL_WAIT
						       : WQ_CANCEL_PLAIN;
	wq_change_opts_t opts = change_opts(c);
	struct ctl_target t;
	int rc;

	if (ctl_given(c, OPT_WAIT) && ctl_given(c, OPT_KILL))
		return ctl_usage(c, "--wait and --kill exclude each other");
	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	ctl_expect(c, &t, mode == WQ_CANCEL_PLAIN ? ctl_show_reply : show_cancel_waited);
	return ctl_await(c,
		wq_send_cancel_with(
			c->wq, t.queue, t.key, mode, ctl_wait_ms(c), &opts, ctl_on_reply, c),
		mode != WQ_CANCEL_PLAIN);
}

static int
flush_queue(struct ctl *c)
{
	const char *queue = c->opt[OPT_QUEUE].text;
	int rc;

	if (!queue)
		return ctl_usage(c, "an argument is missing: TARGET or --queue QUEUE");
	if (ctl_given(c, OPT_NOW))
		return ctl_usage(c, "--now is for one job; a queue's timers are left alone");
	rc = ctl_connect(c);
	if (rc)
		return rc;
	rc = wq_flush_queue(c->wq, queue, ctl_wait_ms(c));
	return rc < 0 ? ctl_fail(c, rc, NULL) : ctl_put_ok(c, queue, "flushed");
}

int
ctl_do_flush(struct ctl *c)
{
	struct ctl_target t;
	int rc;

	if (c->n_args == 0)
		return flush_queue(c);
	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	ctl_expect(c, &t, ctl_show_waited);
	return ctl_await(c,
		wq_send_flush(c->wq, t.queue, t.key, ctl_given(c, OPT_NOW), ctl_wait_ms(c),
			ctl_on_reply, c),
		true);
}

int
ctl_do_wait(struct ctl *c)
{
	uint64_t generation = (uint64_t)ctl_num(c, OPT_GENERATION, 0);
	struct ctl_target t;
	int rc;

	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	ctl_expect(c, &t, ctl_show_waited);
	return ctl_await(c,
		wq_send_wait(c->wq, t.queue, t.key, generation, ctl_wait_ms(c), ctl_on_reply, c),
		true);
}

/* These have done their work whatever the job was at. */
static int
show_always_done(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply)
{
	int status = ctl_show_reply(c, t, reply);

	return reply->result == 0 ? CTL_DONE : status;
}

int
ctl_do_job_op(struct ctl *c)
{
	wq_job_op_t op = (wq_job_op_t)c->verb->op;
	bool always = op == WQ_OP_DISABLE || op == WQ_OP_DELETE;
	wq_change_opts_t opts = change_opts(c);
	struct ctl_target t;
	int rc;

	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	ctl_expect(c, &t, always ? show_always_done : ctl_show_reply);
	return ctl_await(
		c, wq_send_job_with(c->wq, op, t.queue, t.key, &opts, ctl_on_reply, c), false);
}
