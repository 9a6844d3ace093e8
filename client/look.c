/*
 * Looking: get, list, history, queues, counters, ping. A page's reply is taken out of the handle
 * before `each` is called, so `each` may make calls of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "handle.h"

#define PAGE_DEFAULT 500u
#define PAGE_MAX     1000u
#define PAGE_MIN     50u /* of a later page of runs: some of it may have been shown */

/* A look under way: its page of memory, and who is told. */
struct look {
	wq_t *wq;
	struct scratch page;
	bool stopped; /* `each` wants no more */
};

static void
look_begin(struct look *k, wq_t *wq)
{
	*k = (struct look){ .wq = wq };
	scratch_init(&k->page, SCRATCH_MAX);
}

static int
look_ask(struct look *k, Wq__V1__Request *req, const Wq__V1__Reply **r)
{
	scratch_reset(&k->page);
	return call_raw(k->wq, req, RESEND_ALWAYS, 0, &k->page, r);
}

static int
look_end(struct look *k, int err)
{
	scratch_done(&k->page);
	return err;
}

static ProtobufCBinaryData
key_bytes(const char *key)
{
	return (ProtobufCBinaryData){ key ? strlen(key) : 0, (uint8_t *)(uintptr_t)key };
}

static char *
text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

/* ---- jobs ---- */

/* The words, NULL-terminated. False: no memory. */
static bool
show_command(struct look *k, const Wq__V1__JobInfo *j, wq_job_info_t *info)
{
	const char **v;

	info->has_command = j->has_command;
	info->n_command = j->n_command;
	if (j->n_command == 0)
		return true;
	v = scratch_alloc(&k->page, (j->n_command + 1) * sizeof *v);
	for (size_t i = 0; v && i < j->n_command; i++) {
		v[i] = scratch_text(&k->page, j->command[i].data, j->command[i].len);
		if (!v[i])
			return false;
	}
	if (!v)
		return false;
	v[j->n_command] = NULL;
	info->command = v;
	return true;
}

static int
show_job(struct look *k, const Wq__V1__JobInfo *j, wq_job_cb each, void *arg)
{
	wq_run_info_t last;
	wq_job_info_t info = {
		.size = sizeof info,
		.queue = j->queue,
		.key = scratch_text(&k->page, j->key.data, j->key.len),
		.state = (wq_state_t)j->state,
		.pending = j->pending,
		.pending_state = (wq_state_t)j->pending_state,
		.deadline_ms = j->has_deadline_ms_case ? j->deadline_ms : -1,
		.generation = j->generation,
		.attempt = j->attempt,
		.coalesced = j->coalesced,
		.disable_depth = j->disable_depth,
		.durability = (wq_durability_t)j->durability,
		.payload_bytes = j->payload_bytes,
		.dead = j->dead,
		.lease_holder = j->lease ? j->lease->holder : NULL,
		.lease_left_ms = j->lease ? j->lease->left_ms : 0,
		.lease_token = j->lease ? j->lease->token : 0,
		.lease_touched = j->lease ? j->lease->touched : 0,
		.last = j->last ? &last : NULL,
	};

	if (!info.key || (j->last && !run_from_wire(&k->page, j->last, &last)) ||
		!show_command(k, j, &info))
		return -ENOMEM;
	k->wq->looking++;
	k->stopped = each(&info, arg) != 0;
	k->wq->looking--;
	return 0;
}

int
wq_get(wq_t *wq, const char *queue, const char *key, wq_job_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Job job = WQ__V1__JOB__INIT;
	const Wq__V1__Reply *r;
	struct look k;
	int err = job_check(wq, queue, key);

	if (err < 0)
		return err;
	job.key = key_bytes(key);
	job.queue = text(queue);
	req.op_case = WQ__V1__REQUEST__OP_GET;
	req.get = &job;
	look_begin(&k, wq);
	err = look_ask(&k, &req, &r);
	if (err == 0)
		err = r->n_jobs == 1 ? show_job(&k, r->jobs[0], each, arg) : WQ_ERR_PROTOCOL;
	return look_end(&k, err);
}

static int
list_opts_read(const wq_list_opts_t *opts, wq_list_opts_t *out)
{
	*out = (wq_list_opts_t)WQ_LIST_INIT;
	return opts_over(out, sizeof *out, opts, offsetof(wq_list_opts_t, prefix));
}

static void
list_fill(Wq__V1__List *l, const wq_list_opts_t *o)
{
	l->queue = text(o->queue);
	l->prefix = key_bytes(o->prefix);
	if (o->state >= 0) {
		l->has_state_case = WQ__V1__LIST__HAS_STATE_STATE;
		l->state = (Wq__V1__JobState)o->state;
	}
	if (o->due_from_ms >= 0) {
		l->has_due_from_ms_case = WQ__V1__LIST__HAS_DUE_FROM_MS_DUE_FROM_MS;
		l->due_from_ms = o->due_from_ms;
	}
	if (o->due_to_ms >= 0) {
		l->has_due_to_ms_case = WQ__V1__LIST__HAS_DUE_TO_MS_DUE_TO_MS;
		l->due_to_ms = o->due_to_ms;
	}
	l->limit = o->page == 0 ? PAGE_DEFAULT : o->page > PAGE_MAX ? PAGE_MAX : o->page;
}

int
wq_list(wq_t *wq, const wq_list_opts_t *opts, wq_job_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__List list = WQ__V1__LIST__INIT;
	const Wq__V1__Reply *r;
	wq_list_opts_t o;
	struct look k;
	int err = list_opts_read(opts, &o);

	if (err == 0)
		err = name_check(wq, "queue's name", o.queue, QUEUE_MAX);
	if (err < 0)
		return err;
	list_fill(&list, &o);
	req.op_case = WQ__V1__REQUEST__OP_LIST;
	req.list = &list;
	look_begin(&k, wq);
	do {
		err = look_ask(&k, &req, &r);
		if (err < 0)
			break;
		/* A page may be empty, but then it has to have moved on. */
		if (r->n_jobs == 0 && r->cursor != 0 && r->cursor == list.cursor)
			err = WQ_ERR_PROTOCOL;
		list.cursor = r->cursor;
		for (size_t i = 0; i < r->n_jobs && !err && !k.stopped; i++)
			err = show_job(&k, r->jobs[i], each, arg);
	} while (err == 0 && list.cursor != 0 && !k.stopped);
	return look_end(&k, err);
}

/* ---- runs ---- */

static int
show_run(struct look *k, const Wq__V1__Run *r, wq_run_cb each, void *arg)
{
	wq_run_info_t info;

	if (!run_from_wire(&k->page, r, &info))
		return -ENOMEM;
	k->wq->looking++;
	k->stopped = each(&info, arg) != 0;
	k->wq->looking--;
	return 0;
}

/* Enough of a run to know it again. */
struct run_mark {
	bool set;
	char queue[QUEUE_MAX + 1], key[KEY_MAX + 1];
	uint64_t generation;
	uint32_t attempt;
};

static void
mark_set(struct run_mark *m, const Wq__V1__Run *r)
{
	*m = (struct run_mark){ .set = true, .generation = r->generation, .attempt = r->attempt };
	memcpy(m->queue, r->queue, strnlen(r->queue, QUEUE_MAX));
	if (r->key.len) /* without one it has no address either */
		memcpy(m->key, r->key.data, r->key.len < KEY_MAX ? r->key.len : KEY_MAX);
}

static bool
mark_is(const struct run_mark *m, const Wq__V1__Run *r)
{
	struct run_mark other;

	mark_set(&other, r);
	return m->set && m->generation == other.generation && m->attempt == other.attempt &&
		strcmp(m->queue, other.queue) == 0 && strcmp(m->key, other.key) == 0;
}

/*
 * Runs that ended between two pages push the older ones back, so that a page may begin with
 * some that were shown: those up to the last shown one are left out.
 */
static size_t
first_new(const struct run_mark *last, const Wq__V1__Reply *r)
{
	for (size_t i = 0; i < r->n_runs; i++)
		if (mark_is(last, r->runs[i]))
			return i + 1;
	return 0;
}

int
wq_history(wq_t *wq, const char *queue, const char *key, uint64_t limit, wq_run_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__History h = WQ__V1__HISTORY__INIT;
	struct run_mark last = { 0 };
	const Wq__V1__Reply *r;
	uint64_t shown = 0;
	struct look k;
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	if (err == 0)
		err = name_check(wq, "key", key, KEY_MAX);
	if (err < 0)
		return err;
	h.queue = text(queue);
	h.key = key_bytes(key);
	req.op_case = WQ__V1__REQUEST__OP_HISTORY;
	req.history = &h;
	look_begin(&k, wq);
	do {
		uint64_t left = limit ? limit - shown : PAGE_DEFAULT;

		if (h.skip > 0 && left < PAGE_MIN)
			left = PAGE_MIN;
		h.limit = left < PAGE_DEFAULT ? (uint32_t)left : PAGE_DEFAULT;
		err = look_ask(&k, &req, &r);
		if (err < 0)
			break;
		if (r->cursor != 0 && r->n_runs == 0)
			err = WQ_ERR_PROTOCOL;
		for (size_t i = first_new(&last, r); i < r->n_runs && !err && !k.stopped; i++) {
			mark_set(&last, r->runs[i]);
			err = show_run(&k, r->runs[i], each, arg);
			shown++;
			k.stopped |= limit && shown >= limit;
		}
		h.skip += r->n_runs;
	} while (err == 0 && r->cursor != 0 && !k.stopped);
	return look_end(&k, err);
}

/* ---- queues ---- */

static int
show_queue(struct look *k, const Wq__V1__QueueInfo *q, wq_queue_cb each, void *arg)
{
	size_t bytes = q->n_settings * sizeof(char *);
	const char **names = scratch_alloc(&k->page, bytes);
	const char **values = scratch_alloc(&k->page, bytes);
	wq_queue_info_t info = {
		.size = sizeof info,
		.queue = q->queue,
		.jobs = q->jobs,
		.armed = q->armed,
		.ready = q->ready,
		.held = q->held,
		.running = q->running,
		.paused = q->paused,
		.draining = q->draining,
		.workers = q->workers,
		.held_prefix = q->held_prefix,
		.rate_next_ms = q->rate_next_ms,
		.n_settings = q->n_settings,
		.names = names,
		.values = values,
	};

	if (!names || !values)
		return -ENOMEM;
	for (size_t i = 0; i < q->n_settings; i++) {
		names[i] = q->settings[i]->name;
		values[i] = q->settings[i]->value;
	}
	k->wq->looking++;
	k->stopped = each(&info, arg) != 0;
	k->wq->looking--;
	return 0;
}

int
wq_queue_show(wq_t *wq, const char *queue, wq_queue_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Queue one = WQ__V1__QUEUE__INIT;
	Wq__V1__QueueList all = WQ__V1__QUEUE_LIST__INIT;
	const Wq__V1__Reply *r;
	struct look k;
	int err = name_check(wq, "queue's name", queue, QUEUE_MAX);

	if (err < 0)
		return err;
	if (queue) {
		one.queue = text(queue);
		req.op_case = WQ__V1__REQUEST__OP_QUEUE_SHOW;
		req.queue_show = &one;
	} else {
		req.op_case = WQ__V1__REQUEST__OP_QUEUE_LIST;
		req.queue_list = &all;
	}
	look_begin(&k, wq);
	do {
		err = look_ask(&k, &req, &r);
		if (err < 0)
			break;
		/* A later page begins where the one before ended. */
		if (r->cursor != 0 && (queue || r->cursor <= all.cursor))
			err = WQ_ERR_PROTOCOL;
		all.cursor = r->cursor;
		for (size_t i = 0; err == 0 && i < r->n_queues && !k.stopped; i++)
			err = show_queue(&k, r->queues[i], each, arg);
	} while (err == 0 && all.cursor != 0 && !k.stopped);
	return look_end(&k, err);
}

/* ---- the daemon ---- */

static void
take_trouble(wq_t *wq, const Wq__V1__Reply *r)
{
	snprintf(wq->trouble, sizeof wq->trouble, "%s", r->trouble);
}

const char *
wq_trouble(const wq_t *wq)
{
	return wq->trouble;
}

void
show_counters(wq_t *wq, const Wq__V1__Reply *r, wq_counter_cb each, void *arg)
{
	bool stopped = false;

	wq->looking++;
	for (size_t i = 0; i < r->n_counters && !stopped; i++)
		stopped = each(r->counters[i]->name, r->counters[i]->value, arg) != 0;
	wq->looking--;
}

int
wq_stat(wq_t *wq, wq_counter_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Stat stat = WQ__V1__STAT__INIT;
	const Wq__V1__Reply *r;
	struct look k;
	int err;

	req.op_case = WQ__V1__REQUEST__OP_STAT;
	req.stat = &stat;
	look_begin(&k, wq);
	err = look_ask(&k, &req, &r);
	if (err == 0) {
		take_trouble(wq, r);
		show_counters(wq, r, each, arg);
	}
	return look_end(&k, err);
}

int
wq_ping(wq_t *wq, int64_t *rtt_us)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Ping ping = WQ__V1__PING__INIT;
	const Wq__V1__Reply *r;
	int64_t start = now_ns();
	struct look k;
	int err;

	ping.echo = (ProtobufCBinaryData){ sizeof start, (uint8_t *)&start };
	req.op_case = WQ__V1__REQUEST__OP_PING;
	req.ping = &ping;
	look_begin(&k, wq);
	err = look_ask(&k, &req, &r);
	if (err == 0 && (r->echo.len != sizeof start || memcmp(r->echo.data, &start, sizeof start)))
		err = WQ_ERR_PROTOCOL;
	if (err == 0)
		take_trouble(wq, r);
	if (err == 0 && rtt_us)
		*rtt_us = (now_ns() - start) / 1000;
	return look_end(&k, err);
}
