/* Replies of the wire as the structs of wq.h, and the way to the callbacks. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "handle.h"

static bool
key_ok(ProtobufCBinaryData key)
{
	return key.len <= KEY_MAX;
}

bool
reply_plausible(const struct pending *p, const Wq__V1__Reply *r)
{
	size_t want = p->batch && reply_result(r->status) == 0 ? batch_sent(p->batch) : 0;

	if (!key_ok(r->key) || r->n_results != want)
		return false;
	for (size_t i = 0; i < r->n_results; i++)
		if (!key_ok(r->results[i]->key))
			return false;
	for (size_t i = 0; i < r->n_events; i++)
		if (!key_ok(r->events[i]->key))
			return false;
	return true;
}

int
reply_result(uint32_t status)
{
	if (wq_status_word((wq_status_t)status)[0] == '?')
		return WQ_ERR_UNSUPPORTED;
	return status >= WQ_INVALID ? -(int)status : 0;
}

bool
run_from_wire(struct scratch *s, const Wq__V1__Run *r, wq_run_info_t *out)
{
	const char *key = scratch_text(s, r->key.data, r->key.len);

	*out = (wq_run_info_t){
		.size = sizeof *out,
		.queue = r->queue,
		.key = key,
		.generation = r->generation,
		.attempt = r->attempt,
		.outcome = (wq_outcome_t)r->outcome,
		.exit_code = r->has_exit_code_case == WQ__V1__RUN__HAS_EXIT_CODE_EXIT_CODE
			? r->exit_code
			: -1,
		.signal = r->signal,
		.error = r->error,
		.due_ms = r->due_ms,
		.started_ms = r->started_ms,
		.ended_ms = r->ended_ms,
		.coalesced = r->coalesced,
		.output = r->output.len ? (const void *)r->output.data : "",
		.output_len = r->output.len,
		.truncated = r->truncated,
		.final = r->final,
	};
	return key != NULL;
}

bool
reply_from_wire(struct scratch *s, const Wq__V1__Reply *r, const char *key, wq_reply_t *out,
	wq_run_info_t *run)
{
	int result = reply_result(r->status);

	*out = (wq_reply_t){
		.size = sizeof *out,
		.result = result,
		.status = (wq_status_t)r->status,
		.message = result == 0  ? NULL
			: r->message[0] ? r->message
					: wq_strerror(result),
		.state_before = (wq_state_t)r->state_before,
		.pending_before = r->pending_before,
		.deadline_ms = r->has_deadline_ms_case ? r->deadline_ms : -1,
		.old_deadline_ms = r->has_old_deadline_ms_case ? r->old_deadline_ms : -1,
		.generation = r->generation,
		.coalesced = r->coalesced,
		.disable_depth = r->disable_depth,
		.key = r->key.len ? scratch_text(s, r->key.data, r->key.len) : key,
	};
	if (r->key.len && !out->key)
		return false;
	if (!r->run)
		return true;
	out->run = run;
	return run_from_wire(s, r->run, run);
}

bool
result_was_pending(wq_status_t status)
{
	return status == WQ_UPDATED_TIMER || status == WQ_UPDATED_READY || status == WQ_UNCHANGED ||
		status == WQ_SKIPPED;
}

bool
reply_from_result(struct scratch *s, const Wq__V1__Result *r, const char *key, wq_reply_t *out)
{
	int result = reply_result(r->status);

	*out = (wq_reply_t){
		.size = sizeof *out,
		.result = result,
		.status = (wq_status_t)r->status,
		.message = result == 0  ? NULL
			: r->message[0] ? r->message
					: wq_strerror(result),
		.state_before = (wq_state_t)r->state_before,
		.deadline_ms = r->has_deadline_ms_case ? r->deadline_ms : -1,
		.old_deadline_ms = r->has_old_deadline_ms_case ? r->old_deadline_ms : -1,
		.generation = r->generation,
		.coalesced = r->coalesced,
		.key = r->key.len ? scratch_text(s, r->key.data, r->key.len) : key,
	};
	out->pending_before = result_was_pending(out->status);
	return r->key.len == 0 || out->key;
}

void
reply_from_hot(const struct hot_reply *r, const char *key, wq_reply_t *out)
{
	*out = (wq_reply_t){
		.size = sizeof *out,
		.status = r->status,
		.state_before = r->state_before,
		.pending_before = r->pending_before,
		.deadline_ms = r->deadline_ms,
		.old_deadline_ms = r->old_deadline_ms,
		.generation = r->generation,
		.coalesced = r->coalesced,
		.disable_depth = r->disable_depth,
		.key = key,
	};
}

void
completion_from_wire(const Wq__V1__CompletionInfo *c, wq_completion_info_t *out)
{
	*out = (wq_completion_info_t){
		.done = c->done,
		.open = c->open,
		.waiters = c->waiters,
		.durability = (wq_durability_t)c->durability,
	};
}

wq_reply_t
reply_of_error(int error, const char *key)
{
	bool is_status = error <= -WQ_INVALID && reply_result((uint32_t)-error) == error;

	return (wq_reply_t){
		.size = sizeof(wq_reply_t),
		.result = error,
		.status = is_status ? (wq_status_t)-error : WQ_OK,
		.message = wq_strerror(error),
		.deadline_ms = -1,
		.old_deadline_ms = -1,
		.key = key,
	};
}

/* What the wall clock is ahead of elapsed time at the daemon. A unix socket's daemon reads the
 * same clocks, so they are read anew; another one's was seen at the hello. */
static struct clock_offset
daemon_offset(const wq_t *wq, int64_t now)
{
	struct timespec ts;
	int64_t off;

	if (wq->addr.kind != ADDRESS_UNIX && wq->addr.kind != ADDRESS_FD)
		return wq->link.offset;
	clock_gettime(CLOCK_REALTIME, &ts);
	off = (int64_t)ts.tv_sec * 1000 * NS_PER_MS + ts.tv_nsec - now;
	return (struct clock_offset){ off, off };
}

void
reply_teach(wq_t *wq, const struct pending *p, struct coalesce_ask *ask, const wq_reply_t *reply)
{
	int64_t now, sent_ns = p->resent || !reply ? -1 : p->sent_ns;

	if (!ask->job)
		return;
	now = now_ns();
	coalesce_end(ask, sent_ns, now, daemon_offset(wq, now), reply);
}

void
reply_deliver(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	wq_completion_info_t completion;
	wq_run_info_t run;
	wq_reply_t reply;

	if (p->local)
		reply = *p->local;
	else if (error < 0)
		reply = reply_of_error(error, p->key);
	else if (!reply_from_wire(&wq->in.scratch, r, p->key, &reply, &run))
		reply = reply_of_error(-ENOMEM, p->key);
	if (r && r->completion) {
		completion_from_wire(r->completion, &completion);
		reply.completion = &completion;
	}
	reply_teach(wq, p, &p->ask, r && reply.result == 0 ? &reply : NULL);
	if (r && reply.result < 0)
		message_set(wq, reply.message);
	if (p->cb)
		p->cb(wq, &reply, p->arg);
}

static void
deliver_hot(wq_t *wq, struct pending *p, const struct hot_reply *r)
{
	wq_reply_t reply;

	pending_remove(&wq->pend, p);
	if (p->abandoned) {
		reply_teach(wq, p, &p->ask, NULL);
	} else {
		reply_from_hot(r, p->key, &reply);
		reply_teach(wq, p, &p->ask, &reply);
		if (p->cb)
			p->cb(wq, &reply, p->arg);
	}
	pending_free(wq, p);
}

bool
reply_hot(wq_t *wq, const uint8_t *msg, size_t len)
{
	struct hot_reply r;
	struct pending *p;

	if (!hot_get_reply(msg, len, &r))
		return false;
	p = pending_find(&wq->pend, r.id);
	if (!p || !p->out || p == wq->pend.unsent)
		return false; /* to be told what is wrong with it */
	if (p->batch)
		return r.n_results > 0 && batch_hot(wq, p, &r);
	if (p->done != reply_deliver && !p->abandoned)
		return false;
	if (r.n_results > 0)
		return false;
	deliver_hot(wq, p, &r);
	return true;
}

void
result_from_reply(const wq_reply_t *r, wq_result_t *out)
{
	*out = (wq_result_t){
		.status = r->status,
		.state_before = r->state_before,
		.pending_before = r->pending_before,
		.deadline_ms = r->deadline_ms,
		.old_deadline_ms = r->old_deadline_ms,
		.generation = r->generation,
		.coalesced = r->coalesced,
		.disable_depth = r->disable_depth,
		.run_exit_code = -1,
		.local = r->local,
	};
	if (r->key)
		memcpy(out->key, r->key, strnlen(r->key, KEY_MAX));
	if (!r->run)
		return;
	out->has_run = 1;
	out->run_outcome = r->run->outcome;
	out->run_exit_code = r->run->exit_code;
	out->run_signal = r->run->signal;
	out->run_error = r->run->error;
	out->run_attempt = r->run->attempt;
}
