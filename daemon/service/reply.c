/*
 * Replies: encoded at once, because what they borrow dies with the engine's next
 * step. A durable one whose mark is not on disk yet is held, encoded, until the
 * commit that covers it; its bytes count as unsent output of the session.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "service/internal.h"

static const struct job_reply storage_error = {
	.status = ST_STORAGE_ERROR,
	.message = "the commit of this change failed; it is tried again",
};

static void
count(struct service *svc, enum status st)
{
	wq_assert((size_t)st < ARRAY_SIZE(svc->counters.replies));
	svc->counters.replies[st]++;
}

struct buf *
reply_begin(struct session *s)
{
	if (s->state == SESSION_CLOSING)
		return NULL;
	s->put_from = buf_len(&s->out);
	return &s->out;
}

void
reply_end(struct session *s, enum status st, int put_result)
{
	count(s->svc, st);
	s->svc->counters.bytes_out += buf_len(&s->out) - s->put_from;
	if (put_result < 0)
		session_close(s);
}

void
reply_status(struct session *s, uint64_t request_id, enum status st, const char *message)
{
	struct buf *out = reply_begin(s);

	if (out)
		reply_end(s, st, wire_put_status(out, request_id, st, message));
}

/* Inside its own input the caller looks by itself. */
void
session_changed(struct session *s)
{
	struct service *svc = s->svc;

	if (!svc->call || svc->call->s != s)
		svc->cfg.output_ready(svc->cfg.ctx, s);
}

static bool
must_wait(const struct service *svc, bool durable)
{
	return durable && engine_dirty_mark(svc->cfg.engine) > svc->committed;
}

/* ---- held replies ---- */

/* Holds what is in scratch: `n_ok` bytes of the reply, then the spoiled one, if any. */
static void
hold(struct session *s, uint64_t request_id, enum status st, size_t n_ok)
{
	struct service *svc = s->svc;
	const uint8_t *text = buf_head(&svc->scratch);
	size_t n = buf_len(&svc->scratch);
	struct held *h = x_alloc(sizeof *h + n);

	wq_assert(text && n >= n_ok);
	if (!h) {
		session_close(s);
		return;
	}
	*h = (struct held){
		.s = s,
		.mark = engine_dirty_mark(svc->cfg.engine),
		.request_id = request_id,
		.status = st,
		.n_ok = n_ok,
		.n_spoiled = n - n_ok,
	};
	memcpy(h->bytes, text, n);
	list_append(&svc->held, &h->link);
	list_append(&s->held, &h->of_session);
	svc->n_held++;
	s->in_flight++;
	s->held_bytes += n;
}

void
held_free(struct held *h)
{
	list_del(&h->link);
	list_del(&h->of_session);
	h->s->svc->n_held--;
	h->s->in_flight--;
	h->s->held_bytes -= h->n_ok + h->n_spoiled;
	x_free(h);
}

void
held_release(struct held *h, int error)
{
	struct session *s = h->s;
	struct buf *out = reply_begin(s);

	if (out && !error)
		reply_end(s, h->status, buf_put(out, h->bytes, h->n_ok));
	else if (out && h->n_spoiled)
		reply_end(s, ST_STORAGE_ERROR, buf_put(out, h->bytes + h->n_ok, h->n_spoiled));
	else if (out)
		reply_end(s, ST_STORAGE_ERROR,
			wire_put_status(out, h->request_id, ST_STORAGE_ERROR, err_str(error)));
	held_free(h);
	session_changed(s);
}

/* ---- answers of the engine ---- */

static void
ticket_done(struct service *svc, struct ticket *t)
{
	if (t->s->subscription == ticket_number(t))
		t->s->subscription = 0;
	t->s->in_flight--;
	accounts_waiter(t->s, -1);
	ticket_give(&svc->tickets, t);
}

/* Those who waited for one run are told in a row: it is encoded once. */
static bool
run_encoded(struct service *svc, const struct run_record *r)
{
	if (svc->run_of == r)
		return true;
	buf_consume(&svc->run_bytes, buf_len(&svc->run_bytes));
	svc->run_of = wire_put_run(&svc->run_bytes, r) == 0 ? r : NULL;
	return svc->run_of != NULL;
}

/* While its peer does not read, a session gets no outputs of runs on top: they are the one part of
 * a reply that is not small. One that is larger than all that may be unsent goes out alone. */
static int
put_job(struct session *s, struct buf *out, const struct ticket *t, const struct job_reply *r)
{
	struct job_reply lean = *r;
	struct service *svc = s->svc;
	struct run_record run;

	if (r->run && session_unsent(s) >= svc->cfg.output_max) {
		run = *r->run;
		run.truncated = run.truncated || run.output.n > 0;
		run.output = STR_NONE;
		lean.run = &run;
	} else if (r->run && run_encoded(svc, r->run)) {
		return wire_put_waited(out, t->request_id, r, buf_str(&svc->run_bytes));
	}
	return wire_put_job_reply(out, t->request_id, &lean, t->made_key);
}

static int
put_answer(struct service *svc, struct buf *out, const struct ticket *t, const struct job_reply *r)
{
	const struct call *c = svc->call;

	if ((t->kind == REQ_QUEUE_CREATE || t->kind == REQ_QUEUE_SET) &&
		!status_is_error(r->status) && c && c->ticket == ticket_number(t))
		return put_queue_reply(svc, out, t->request_id, r->status, c->req->queue_set.queue);
	if ((t->kind == REQ_COMPLETE || t->kind == REQ_COMPLETE_ALL ||
		    t->kind == REQ_COMPLETION_REINIT) &&
		!status_is_error(r->status))
		return put_completion_reply(svc, out, t->request_id, r->status, r->key);
	return put_job(t->s, out, t, r);
}

/* What has to wait for a commit. */
static void
answer_later(struct service *svc, const struct ticket *t, const struct job_reply *r)
{
	if (svc->degraded) {
		reply_status(t->s, t->request_id, ST_STORAGE_ERROR, storage_error.message);
		return;
	}
	buf_consume(&svc->scratch, buf_len(&svc->scratch));
	if (put_answer(svc, &svc->scratch, t, r) == 0)
		hold(t->s, t->request_id, r->status, buf_len(&svc->scratch));
	else
		session_close(t->s);
}

static void
answer(struct service *svc, const struct ticket *t, const struct job_reply *r, bool durable)
{
	struct buf *out = reply_begin(t->s);

	if (out && must_wait(svc, durable))
		answer_later(svc, t, r);
	else if (out)
		reply_end(t->s, r->status, put_answer(svc, out, t, r));
}

void
reply_job(struct service *svc, struct ticket *t, const struct job_reply *r, bool durable)
{
	struct session *s = t->s;

	answer(svc, t, r, durable);
	ticket_done(svc, t);
	session_changed(s);
}

void
reply_update(struct service *svc, const struct job_reply *r, bool durable)
{
	const struct call *c = svc->call;
	struct session *s = c->s;
	struct buf *out;

	if (must_wait(svc, durable)) {
		const struct ticket t = {
			.s = s,
			.request_id = c->req->id,
			.kind = REQ_UPDATE,
			.made_key = c->made_key,
		};

		answer(svc, &t, r, durable);
		return;
	}
	out = reply_begin(s);
	if (out)
		reply_end(s, r->status, wire_put_job_reply(out, c->req->id, r, c->made_key));
}

void
reply_plain(struct session *s, const struct request *req, const struct job_reply *r, bool durable)
{
	struct call c = { .s = s, .req = req };
	struct service *svc = s->svc;
	struct buf *out;

	if (must_wait(svc, durable)) {
		svc->call = &c;
		reply_update(svc, r, durable);
		svc->call = NULL;
		return;
	}
	out = reply_begin(s);
	if (out)
		reply_end(s, r->status, wire_put_job_reply(out, req->id, r, false));
}

void
batch_add(struct service *svc, const struct job_reply *r, bool durable)
{
	struct batch *b = &svc->batch;
	bool made_key = svc->call->made_key;
	int err = 0;

	if (durable && !b->durable) {
		b->durable = true;
		err = wire_list_copy(b->spoiled, b->results);
	}
	if (!err && b->durable)
		err = wire_list_result(b->spoiled, durable ? &storage_error : r, made_key);
	if (!err)
		err = wire_list_result(b->results, r, made_key);
	if (err)
		session_close(svc->call->s);
	count(svc, r->status);
	b->n++;
}

void
reply_batch(struct service *svc)
{
	struct batch *b = &svc->batch;
	struct session *s = svc->call->s;
	struct buf *out = reply_begin(s);
	size_t n_ok;
	int err;

	if (out && must_wait(svc, b->durable)) {
		buf_consume(&svc->scratch, buf_len(&svc->scratch));
		err = wire_list_end(b->results, 0, &svc->scratch);
		n_ok = buf_len(&svc->scratch);
		if (!err)
			err = wire_list_end(b->spoiled, 0, &svc->scratch);
		if (!err)
			hold(s, svc->call->req->id, ST_OK, n_ok);
		else
			session_close(s);
	} else if (out) {
		reply_end(s, ST_OK, wire_list_end(b->results, 0, out));
	}
}
