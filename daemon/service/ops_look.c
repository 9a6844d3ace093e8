/*
 * Looks at jobs, runs and counters: pages that are bounded in number and bytes.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/hist.h"
#include "service/internal.h"

/* In a page of jobs beyond this commands and the outputs of last runs are left out, so that the page always
 * holds the jobs it was asked for. */
#define OUTPUTS_MAX (WIRE_REPLY_MAX / 2)

struct page {
	struct session *s;
	struct wire_list *list;
	size_t n;
	bool full;
	int err;
};

/* The name of a look, or NULL after having answered. */
static bool
name_ok(struct call *c, const struct job_name *job, bool need_key)
{
	const char *why = NULL;

	if (job->queue.n > 0 && !c->s->svc->spaces && !queue_name_valid(job->queue))
		why = "no acceptable queue name";
	else if ((job->key.n > 0 || need_key) && !key_valid(job->key))
		why = "no acceptable key";
	if (why)
		reply_status(c->s, c->req->id, ST_INVALID, why);
	return !why;
}

/* Ends the page as the call's reply. */
static void
page_reply(struct call *c, struct page *p, enum status st, uint64_t cursor)
{
	struct buf *out;

	if (st != ST_OK) {
		reply_status(c->s, c->req->id, st, "no such queue or job");
		return;
	}
	out = reply_begin(c->s);
	if (out)
		reply_end(c->s, st, p->err ? p->err : wire_list_end(p->list, cursor, out));
}

/* ---- jobs ---- */

void
op_get(struct service *svc, struct call *c)
{
	struct page p = { .list = svc->list };
	struct job_view j;
	enum status st;

	if (!name_ok(c, &c->req->job.job, true))
		return;
	wire_list_begin(svc->list, c->req->id, ST_OK);
	st = engine_get(svc->cfg.engine, c->now, &c->req->job.job, &j);
	if (st == ST_OK)
		p.err = wire_list_job(svc->list, &j);
	page_reply(c, &p, st, 0);
}

static bool
list_job(void *arg, const struct job_view *j)
{
	struct page *p = arg;
	struct job_view lean = *j;
	struct run_record run;

	if (!access_sees(p->s, j->queue))
		return true;
	/* Told of, but not shown. */
	if (wire_list_size(p->list) + j->command.n > OUTPUTS_MAX)
		lean.command.p = NULL;
	if (j->last && wire_list_size(p->list) + j->command.n + j->last->output.n > OUTPUTS_MAX) {
		run = *j->last;
		run.truncated = run.truncated || run.output.n > 0;
		run.output = STR_NONE;
		lean.last = &run;
	}
	p->err = wire_list_job(p->list, &lean);
	return p->err == 0;
}

void
op_list(struct service *svc, struct call *c)
{
	const struct req_list *l = &c->req->list;
	const struct job_name name = { .queue = l->queue };
	const struct list_filter f = {
		.queue = l->queue,
		.prefix = l->prefix,
		.has_state = l->has_state,
		.state = l->state,
		.due_from_ns = l->due_from_ns,
		.due_to_ns = l->due_to_ns,
	};
	struct page p = { .s = c->s, .list = svc->list };
	uint64_t cursor = l->cursor;
	enum status st;

	if (!name_ok(c, &name, false))
		return;
	wire_list_begin(svc->list, c->req->id, ST_OK);
	st = engine_list(svc->cfg.engine, c->now, &f, &cursor, l->limit, list_job, &p);
	page_reply(c, &p, st, cursor);
}

/* ---- runs ---- */

static bool
list_run(void *arg, const struct run_record *r)
{
	struct page *p = arg;

	p->err = wire_list_run(p->list, r);
	if (p->err == ERR_TOO_LONG) {
		p->err = 0;
		p->full = true;
		return false;
	}
	p->n++;
	return p->err == 0;
}

/* The cursor of a history is the `skip` of the next page. */
void
op_history(struct service *svc, struct call *c)
{
	const struct req_history *h = &c->req->history;
	struct page p = { .list = svc->list };
	enum status st;

	if (!name_ok(c, &h->job, false))
		return;
	wire_list_begin(svc->list, c->req->id, ST_OK);
	st = engine_history(svc->cfg.engine, &h->job, h->skip, h->limit, list_run, &p);
	page_reply(c, &p, st, p.full || p.n == h->limit ? h->skip + p.n : 0);
}

/* ---- counters ---- */

static void
put_counter(void *arg, const char *name, int64_t value)
{
	struct page *p = arg;

	if (!p->err)
		p->err = wire_list_counter(p->list, name, value);
}

static void
put_engine(const struct engine *e, struct page *p)
{
	const struct hist *late = engine_lateness(e);
	struct engine_stats st;

	engine_stats_get(e, &st);
#define X(name, doc) put_counter(p, #name, (int64_t)st.name);
	ENGINE_COUNTER_TABLE(X)
#undef X
	put_counter(p, "jobs", (int64_t)st.jobs);
	put_counter(p, "armed", (int64_t)st.armed);
	put_counter(p, "ready", (int64_t)st.ready);
	put_counter(p, "running", (int64_t)st.running);
	put_counter(p, "waiters", (int64_t)st.waiters);
	put_counter(p, "workers", (int64_t)st.workers);
	put_counter(p, "leased", (int64_t)st.leased);
	put_counter(p, "queues", (int64_t)st.queues);
	put_counter(p, "completions", (int64_t)st.completions);
	put_counter(p, "kept_bytes", (int64_t)st.bytes);
	put_counter(p, "kept_answers", (int64_t)st.answers);
	put_counter(p, "lateness_p50_us", hist_quantile(late, 500) / NS_PER_US);
	put_counter(p, "lateness_p99_us", hist_quantile(late, 990) / NS_PER_US);
	put_counter(p, "lateness_max_us", late->max / NS_PER_US);
}

static void
put_service(const struct service *svc, struct page *p)
{
	const struct service_counters *k = &svc->counters;

#define X(name, doc) put_counter(p, #name, (int64_t)k->name);
	SERVICE_COUNTER_TABLE(X)
#undef X
	put_counter(p, "connections", (int64_t)k->connections);
	put_counter(p, "waiting_commit", (int64_t)svc->n_held);
#define X(name, num, word, doc) put_counter(p, "replies_" word, (int64_t)k->replies[name]);
	STATUS_TABLE(X)
#undef X
}

struct own {
	struct session *s;
	int64_t queues, jobs, armed, ready, running;
};

static bool
add_own(void *arg, const struct queue_view *q)
{
	struct own *o = arg;

	if (!access_sees(o->s, q->name))
		return true;
	o->queues++;
	o->jobs += (int64_t)q->jobs;
	o->armed += (int64_t)q->armed;
	o->ready += (int64_t)(q->ready + q->held);
	o->running += (int64_t)q->running;
	return true;
}

/* Who may not see everything is told of what he may see. */
static void
put_own(const struct service *svc, struct session *s, struct page *p)
{
	struct own o = { .s = s };
	uint64_t from = 0;

	engine_queue_each(svc->cfg.engine, &from, add_own, &o);
	put_counter(p, "jobs", o.jobs);
	put_counter(p, "armed", o.armed);
	put_counter(p, "ready", o.ready);
	put_counter(p, "running", o.running);
	put_counter(p, "queues", o.queues);
}

static bool
sees_all(const struct session *s)
{
	return s->space_n == 0 && (s->access.all & MAY_OBSERVE);
}

void
op_stat(struct service *svc, struct call *c)
{
	struct page p = { .list = svc->list };

	char trouble[TROUBLE_MAX];

	service_trouble(svc, c->now, trouble);
	wire_list_begin(svc->list, c->req->id, ST_OK);
	wire_list_trouble(svc->list, trouble);
	if (sees_all(c->s)) {
		put_engine(svc->cfg.engine, &p);
		put_service(svc, &p);
		svc->cfg.stat(svc->cfg.ctx, put_counter, &p);
	} else {
		put_own(svc, c->s, &p);
	}
	page_reply(c, &p, ST_OK, 0);
}
