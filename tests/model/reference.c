#include "model/reference_int.h"

struct ref_job *
ref_job_at(struct ref *r, int queue, int key)
{
	return &r->queue[queue].job[key];
}

bool
ref_pending(const struct ref_job *j)
{
	return j->p.at != JOB_IDLE;
}

const struct ref_record *
ref_last(const struct ref *r, int queue, int key)
{
	for (size_t i = r->n_records; i > 0; i--)
		if (r->record[i - 1].queue == queue && r->record[i - 1].key == key)
			return &r->record[i - 1];
	return NULL;
}

bool
ref_known(const struct ref *r, int queue, int key)
{
	const struct ref_job *j = &r->queue[queue].job[key];

	return ref_pending(j) || j->run.going || j->depth || j->dead || ref_last(r, queue, key);
}

bool
ref_gone(struct ref *r, uint64_t ticket, int queue)
{
	if (r->queue[queue].gone)
		ref_reply(r, ticket, ST_NOT_FOUND);
	return r->queue[queue].gone;
}

void
ref_init(struct ref *r, struct moment now)
{
	*r = (struct ref){ .now = now };
}

uint64_t
ref_coming(const struct ref_job *j)
{
	return j->generation + !j->p.retry;
}

/* ---- replies and waiters ---- */

struct ref_reply *
ref_reply(struct ref *r, uint64_t ticket, enum status status)
{
	struct ref_reply *to = &r->reply[r->n_replies++];

	rig_check(r->n_replies <= REF_OUT);
	*to = (struct ref_reply){ .ticket = ticket, .status = status };
	return to;
}

void
ref_reply_run(struct ref *r, uint64_t ticket, enum status status, const struct ref_record *run)
{
	struct ref_reply *to = ref_reply(r, ticket, status);

	to->has_run = run != NULL;
	if (run)
		to->run = *run;
}

struct ref_waiter *
ref_wait_for(
	struct ref *r, uint64_t ticket, enum ref_waits kind, int queue, int key, int64_t timeout)
{
	struct ref_waiter *w = &r->waiter[r->n_waiters++];

	rig_check(r->n_waiters <= REF_WAITERS);
	*w = (struct ref_waiter){ .kind = kind, .ticket = ticket, .queue = queue, .key = key };
	w->until = timeout < 0 ? INT64_MAX : r->now.boot_ns + timeout;
	return w;
}

void
ref_waiter_drop(struct ref *r, size_t i)
{
	r->n_waiters--;
	memmove(&r->waiter[i], &r->waiter[i + 1], (r->n_waiters - i) * sizeof r->waiter[0]);
}

bool
ref_cancelling(const struct ref *r, int queue, int key)
{
	for (size_t i = 0; i < r->n_waiters; i++)
		if (r->waiter[i].kind == W_CANCEL && r->waiter[i].queue == queue &&
			r->waiter[i].key == key)
			return true;
	return false;
}

static bool
anybody_waits(const struct ref *r, int queue, enum ref_waits kind)
{
	for (size_t i = 0; i < r->n_waiters; i++)
		if (r->waiter[i].kind == kind && r->waiter[i].queue == queue)
			return true;
	return false;
}

bool
ref_deleting(const struct ref *r, int queue)
{
	return r->queue[queue].removing || anybody_waits(r, queue, W_DELETE);
}

bool
ref_draining(const struct ref *r, int queue)
{
	return ref_deleting(r, queue) || anybody_waits(r, queue, W_DRAIN);
}

bool
ref_serial_over_for(struct ref *r, size_t i, uint64_t serial, const struct ref_record *run)
{
	struct ref_waiter *w = &r->waiter[i];
	uint64_t left = 0;

	for (int k = 0; k < REF_SNAPSHOT; k++) {
		if (w->serial[k] == serial)
			w->serial[k] = 0;
		left |= w->serial[k];
	}
	if (w->kind != W_FLUSH || left)
		return false;
	ref_reply_run(r, w->ticket, ST_OK, w->key < 0 ? NULL : run);
	ref_waiter_drop(r, i);
	return true;
}

void
ref_serial_over(struct ref *r, uint64_t serial, const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;)
		i += !ref_serial_over_for(r, i, serial, run);
}

void
ref_generation_over(struct ref *r, int queue, int key, uint64_t generation, enum status status,
	const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind == W_WAIT && w.queue == queue && w.key == key &&
			w.generation == generation) {
			ref_reply_run(r, w.ticket, status, run);
			ref_waiter_drop(r, i);
		} else {
			i++;
		}
	}
}

/* ---- levels and idempotency ids ---- */

enum durability
ref_level_of(const struct ref *r, int queue, enum durability level)
{
	return level == LEVEL_DEFAULT ? r->queue[queue].s.durability : level;
}

void
ref_touch(struct ref *r, int queue, int key, enum durability level)
{
	if (ref_level_of(r, queue, level) != LEVEL_MEMORY)
		ref_job_at(r, queue, key)->stored = true;
}

bool
ref_repeated(struct ref *r, uint64_t ticket, int queue, int key, int asked, enum durability level,
	struct str id)
{
	const struct ref_answer *a = id.n ? &r->answer[id.p[0] - 'a'] : NULL;
	struct ref_reply *to;

	if (!a || !a->known)
		return false;
	to = ref_reply(r, ticket, ST_INVALID);
	if (a->asked != asked || a->queue != queue || a->key != key)
		return true;
	*to = a->reply;
	to->ticket = ticket;
	to->durable = ref_level_of(r, queue, level) == LEVEL_SYNC;
	return true;
}

void
ref_finish(struct ref *r, int queue, int key, int asked, enum durability level, struct str id,
	struct ref_reply *made)
{
	struct ref_answer *a = id.n ? &r->answer[id.p[0] - 'a'] : NULL;
	bool memory = ref_level_of(r, queue, level) == LEVEL_MEMORY;

	if (status_is_error(made->status))
		return;
	made->durable = ref_level_of(r, queue, level) == LEVEL_SYNC;
	if (!a)
		return;
	*a = (struct ref_answer){
		.known = true,
		.stored = !memory || ref_job_at(r, queue, key)->stored,
		.queue = queue,
		.key = key,
		.asked = asked,
		.until = r->now.boot_ns + REF_KEEP_NS,
		.reply = *made,
	};
}

/* ---- instances ---- */

void
ref_place(struct ref *r, int queue, struct ref_instance *p, int64_t due, bool ready, bool lets_pass)
{
	p->at = ready ? JOB_READY : JOB_ARMED;
	p->due = due;
	p->seq = ++r->seq;
	p->parked = ready && ref_draining(r, queue) && !lets_pass;
	if (!p->serial)
		p->serial = ++r->serial;
}

void
ref_drop_pending(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	struct ref_instance p = j->p;
	const struct ref_record *last = ref_last(r, queue, key);

	if (!ref_pending(j))
		return;
	ref_generation_over(r, queue, key, ref_coming(j), ST_CANCELLED, p.retry ? last : NULL);
	j->p = (struct ref_instance){ 0 };
	ref_serial_over(r, p.serial, last);
}

struct ref_reply *
ref_job_reply(struct ref *r, uint64_t ticket, int queue, int key, enum status status)
{
	const struct ref_job *j = ref_job_at(r, queue, key);
	struct ref_reply *to = ref_reply(r, ticket, status);

	to->of_job = true;
	to->depth = j->depth;
	to->generation = ref_pending(j) ? ref_coming(j) : j->generation;
	to->has_deadline = ref_pending(j);
	to->deadline = moment_wall(r->now, j->p.due);
	to->coalesced = !ref_pending(j) && j->run.going ? j->run.was.coalesced : j->p.coalesced;
	return to;
}

void
ref_record_drop(struct ref *r, size_t i)
{
	r->n_records--;
	memmove(&r->record[i], &r->record[i + 1], (r->n_records - i) * sizeof r->record[0]);
}

void
ref_undead(struct ref *r, int queue, int key)
{
	ref_job_at(r, queue, key)->dead = false;
	for (size_t i = r->n_records; i-- > 0;)
		if (r->record[i].unlisted && r->record[i].queue == queue && r->record[i].key == key)
			ref_record_drop(r, i);
}

struct ref_job *
ref_first_armed(struct ref *r, int only, int *queue, int *key)
{
	struct ref_job *first = NULL;

	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = ref_job_at(r, q, k);

			if (j->p.at != JOB_ARMED || (only >= 0 && q != only))
				continue;
			if (first &&
				(first->p.due < j->p.due ||
					(first->p.due == j->p.due && first->p.seq < j->p.seq)))
				continue;
			first = j;
			*queue = q;
			*key = k;
		}
	}
	return first;
}

bool
ref_drained(struct ref *r, int queue)
{
	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = ref_job_at(r, queue, k);

		if (j->run.going || (j->p.at == JOB_READY && !j->p.parked))
			return false;
	}
	return true;
}

void
ref_undrain(struct ref *r, int queue)
{
	if (ref_draining(r, queue))
		return;
	for (int k = 0; k < REF_KEYS; k++)
		ref_job_at(r, queue, k)->p.parked = false;
}
