/* Care of the daemon's state: backup, check, export, and jobs taken in. */
#include <errno.h>
#include <string.h>

#include "handle.h"
#include "mem.h"

static int
bytes_given(wq_bytes_cb each, void *arg, const Wq__V1__Reply *r)
{
	return r->data.len ? each(r->data.data, r->data.len, arg) : 0;
}

/* ---- backup ---- */

/* A stream of bytes on the stack of who waits for its end. */
struct streaming {
	struct call call; /* first */
	wq_bytes_cb each;
	void *arg;
	bool stopped; /* `each` wants no more */
};

static void
stream_more(wq_t *wq, struct pending *p, const Wq__V1__Reply *r)
{
	struct streaming *s = p->arg;

	(void)wq;
	if (!s->stopped)
		s->stopped = bytes_given(s->each, s->arg, r) != 0;
}

static void
stream_done(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r)
{
	struct streaming *s = p->arg;

	call_end(wq, &s->call, error, r);
}

int
wq_backup(wq_t *wq, wq_bytes_cb each, void *arg)
{
	struct streaming s = { .each = each, .arg = arg };
	struct sending how = { .rule = RESEND_NEVER,
		.wait_ms = -1,
		.done = stream_done,
		.more = stream_more,
		.arg = &s };
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Backup b = WQ__V1__BACKUP__INIT;
	int err = call_begin(wq);

	req.op_case = WQ__V1__REQUEST__OP_BACKUP;
	req.backup = &b;
	if (err == 0)
		err = request_send(wq, &req, &how, &s.call.id);
	return err < 0 ? err : call_wait(wq, &s.call, -1);
}

/* ---- check ---- */

int
wq_check(wq_t *wq, wq_counter_cb each, void *arg)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Check c = WQ__V1__CHECK__INIT;
	const Wq__V1__Reply *r;
	struct scratch page;
	int err;

	req.op_case = WQ__V1__REQUEST__OP_CHECK;
	req.check = &c;
	scratch_init(&page, SCRATCH_MAX);
	err = call_raw(wq, &req, RESEND_NEVER, -1, &page, &r);
	if (err == 0)
		show_counters(wq, r, each, arg);
	scratch_done(&page);
	return err;
}

/* ---- export ---- */

/* One page; *cursor is 0 behind the last. */
static int
export_page(wq_t *wq, uint64_t *cursor, struct scratch *page, const Wq__V1__Reply **r)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__Export x = WQ__V1__EXPORT__INIT;
	int err;

	x.cursor = *cursor;
	req.op_case = WQ__V1__REQUEST__OP_EXPORT;
	req.export = &x;
	scratch_reset(page);
	err = call_raw(wq, &req, RESEND_ALWAYS, 0, page, r);
	if (err == 0)
		*cursor = (*r)->cursor;
	return err;
}

int
wq_export(wq_t *wq, wq_bytes_cb each, void *arg)
{
	const Wq__V1__Reply *r;
	struct scratch page;
	uint64_t cursor = 0;
	bool stopped = false;
	int err;

	scratch_init(&page, SCRATCH_MAX);
	do {
		err = export_page(wq, &cursor, &page, &r);
		if (err == 0) {
			wq->looking++;
			stopped = bytes_given(each, arg, r) != 0;
			wq->looking--;
		}
	} while (err == 0 && cursor && !stopped);
	scratch_done(&page);
	return err;
}

/* ---- import ---- */

static int
saved_job_read(const wq_saved_job_t *job, wq_saved_job_t *out)
{
	*out = (wq_saved_job_t)WQ_SAVED_JOB_INIT;
	return job ? opts_over(out, sizeof *out, job, offsetof(wq_saved_job_t, state)) : -EINVAL;
}

static void
import_fill(Wq__V1__ImportJob *m, const wq_saved_job_t *o, int dry_run)
{
	m->queue = (char *)(uintptr_t)(o->queue ? o->queue : "");
	m->key = (ProtobufCBinaryData){ strlen(o->key), (uint8_t *)(uintptr_t)o->key };
	m->state = (Wq__V1__JobState)o->state;
	m->dry_run = dry_run != 0;
	if (o->due_ms >= 0) {
		m->has_due_ms_case = WQ__V1__IMPORT_JOB__HAS_DUE_MS_DUE_MS;
		m->due_ms = o->due_ms;
	}
	m->absolute = o->absolute != 0;
	if (o->delay_ms >= 0) {
		m->has_delay_ms_case = WQ__V1__IMPORT_JOB__HAS_DELAY_MS_DELAY_MS;
		m->delay_ms = o->delay_ms;
	}
	m->slack_ms = o->slack_ms;
	m->max_wait_ms = o->max_wait_ms;
	if (o->created_ms >= 0) {
		m->has_created_ms_case = WQ__V1__IMPORT_JOB__HAS_CREATED_MS_CREATED_MS;
		m->created_ms = o->created_ms;
	}
	m->generation = o->generation;
	m->attempt = o->attempt;
	m->retry = o->retry != 0;
	m->coalesced = o->coalesced;
	m->disable_depth = o->disable_depth;
	m->dead = o->dead != 0;
	m->command = o->command != 0;
	m->durability = (Wq__V1__Durability)o->durability;
}

static int
import_send(wq_t *wq, const wq_saved_job_t *o, int dry_run, const struct sending *how, uint64_t *id)
{
	Wq__V1__Request req = WQ__V1__REQUEST__INIT;
	Wq__V1__ImportJob m = WQ__V1__IMPORT_JOB__INIT;
	ProtobufCBinaryData *parts = NULL;
	int err;

	import_fill(&m, o, dry_run);
	if (o->n_parts > 0) {
		parts = mem_alloc(o->n_parts * sizeof *parts);
		if (!parts)
			return -ENOMEM;
		for (size_t i = 0; i < o->n_parts; i++)
			parts[i] = (ProtobufCBinaryData){ o->parts[i].len,
				(uint8_t *)(uintptr_t)o->parts[i].data };
		m.n_parts = o->n_parts;
		m.parts = parts;
	}
	req.op_case = WQ__V1__REQUEST__OP_IMPORT_JOB;
	req.import_job = &m;
	err = request_send(wq, &req, how, id);
	mem_free(parts);
	return err;
}

int
wq_send_import(wq_t *wq, const wq_saved_job_t *job, int dry_run, wq_reply_cb cb, void *arg)
{
	/* Sent again it finds the job there. */
	struct sending how = { .rule = RESEND_ALWAYS, .wait_ms = -1, .cb = cb, .arg = arg };
	wq_saved_job_t o;
	int err = saved_job_read(job, &o);

	if (err == 0)
		err = job_check(wq, o.queue, o.key);
	if (err < 0)
		return err;
	how.key = o.key;
	coalesce_forget(&wq->known, wq->pend.next_id);
	return import_send(wq, &o, dry_run, &how, NULL);
}
