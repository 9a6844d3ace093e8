#include "model/reference.h"

#include <stdio.h>
#include <string.h>

#include "model/rig.h"

static struct ref_job *
job_at(struct ref *r, int queue, int key)
{
	return &r->queue[queue].job[key];
}

static bool
pending(const struct ref_job *j)
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

	return pending(j) || j->run.going || j->depth || j->dead || ref_last(r, queue, key);
}

void
ref_init(struct ref *r, struct moment now)
{
	*r = (struct ref){ .now = now };
}

/* The generation that the pending instance will run as. */
static uint64_t
coming(const struct ref_job *j)
{
	return j->generation + !j->p.retry;
}

/* ---- replies and waiters ---- */

static struct ref_reply *
reply(struct ref *r, uint64_t ticket, enum status status)
{
	struct ref_reply *to = &r->reply[r->n_replies++];

	rig_check(r->n_replies <= REF_OUT);
	*to = (struct ref_reply){ .ticket = ticket, .status = status };
	return to;
}

static void
reply_run(struct ref *r, uint64_t ticket, enum status status, const struct ref_record *run)
{
	struct ref_reply *to = reply(r, ticket, status);

	to->has_run = run != NULL;
	if (run)
		to->run = *run;
}

static struct ref_waiter *
wait_for(struct ref *r, uint64_t ticket, enum ref_waits kind, int queue, int key, int64_t timeout)
{
	struct ref_waiter *w = &r->waiter[r->n_waiters++];

	rig_check(r->n_waiters <= REF_WAITERS);
	*w = (struct ref_waiter){ .kind = kind, .ticket = ticket, .queue = queue, .key = key };
	w->until = timeout < 0 ? INT64_MAX : r->now.boot_ns + timeout;
	return w;
}

static void
waiter_drop(struct ref *r, size_t i)
{
	r->n_waiters--;
	memmove(&r->waiter[i], &r->waiter[i + 1], (r->n_waiters - i) * sizeof r->waiter[0]);
}

static bool
cancelling(const struct ref *r, int queue, int key)
{
	for (size_t i = 0; i < r->n_waiters; i++)
		if (r->waiter[i].kind == W_CANCEL && r->waiter[i].queue == queue &&
			r->waiter[i].key == key)
			return true;
	return false;
}

bool
ref_draining(const struct ref *r, int queue)
{
	for (size_t i = 0; i < r->n_waiters; i++)
		if (r->waiter[i].kind == W_DRAIN && r->waiter[i].queue == queue)
			return true;
	return false;
}

/* Waiter `i` need not wait for `serial`; true when it was answered. */
static bool
serial_over_for(struct ref *r, size_t i, uint64_t serial, const struct ref_record *run)
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
	reply_run(r, w->ticket, ST_OK, w->key < 0 ? NULL : run);
	waiter_drop(r, i);
	return true;
}

/* The instance or run `serial` is over; `run`: the newest record of the job. */
static void
serial_over(struct ref *r, uint64_t serial, const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;)
		i += !serial_over_for(r, i, serial, run);
}

/* Generation `generation` of a job is decided. */
static void
generation_over(struct ref *r, int queue, int key, uint64_t generation, enum status status,
	const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind == W_WAIT && w.queue == queue && w.key == key &&
			w.generation == generation) {
			reply_run(r, w.ticket, status, run);
			waiter_drop(r, i);
		} else {
			i++;
		}
	}
}

/* ---- levels and idempotency ids ---- */

static enum durability
level_of(const struct ref *r, int queue, enum durability level)
{
	return level == LEVEL_DEFAULT ? r->queue[queue].s.durability : level;
}

/* A request of that level has changed the job, or relies on what it is. */
static void
touch(struct ref *r, int queue, int key, enum durability level)
{
	if (level_of(r, queue, level) != LEVEL_MEMORY)
		job_at(r, queue, key)->stored = true;
}

/* True: the id is known, and the request is answered. */
static bool
repeated(struct ref *r, uint64_t ticket, int queue, int key, enum durability level, struct str id)
{
	const struct ref_answer *a = id.n ? &r->answer[id.p[0] - 'a'] : NULL;
	struct ref_reply *to;

	if (!a || !a->known)
		return false;
	to = reply(r, ticket, ST_INVALID);
	if (a->queue != queue || a->key != key)
		return true;
	*to = a->reply;
	to->ticket = ticket;
	to->durable = level_of(r, queue, level) == LEVEL_SYNC;
	return true;
}

/* The reply to a request that was answered at once. */
static void
finish(struct ref *r, int queue, int key, enum durability level, struct str id,
	struct ref_reply *made)
{
	struct ref_answer *a = id.n ? &r->answer[id.p[0] - 'a'] : NULL;
	bool memory = level_of(r, queue, level) == LEVEL_MEMORY;

	if (status_is_error(made->status))
		return;
	made->durable = level_of(r, queue, level) == LEVEL_SYNC;
	if (!a)
		return;
	*a = (struct ref_answer){
		.known = true,
		.stored = !memory || job_at(r, queue, key)->stored,
		.queue = queue,
		.key = key,
		.until = r->now.boot_ns + REF_KEEP_NS,
		.reply = *made,
	};
}

/* ---- instances ---- */

/* On the timer, or at the tail of those who are ready. `lets_pass`: a drain waits for it. */
static void
place(struct ref *r, int queue, struct ref_instance *p, int64_t due, bool ready, bool lets_pass)
{
	p->at = ready ? JOB_READY : JOB_ARMED;
	p->due = due;
	p->seq = ++r->seq;
	p->parked = ready && ref_draining(r, queue) && !lets_pass;
	if (!p->serial)
		p->serial = ++r->serial;
}

/* Takes the pending instance away. */
static void
drop_pending(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_instance p = j->p;
	const struct ref_record *last = ref_last(r, queue, key);

	if (!pending(j))
		return;
	generation_over(r, queue, key, coming(j), ST_CANCELLED, p.retry ? last : NULL);
	j->p = (struct ref_instance){ 0 };
	serial_over(r, p.serial, last);
}

/* An instance that waited for a retry becomes one of its own. */
static void
renew(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);

	if (!j->p.retry)
		return;
	generation_over(r, queue, key, coming(j), ST_OK, ref_last(r, queue, key));
	j->p.retry = false;
	j->p.attempt = 1;
	j->p.created = r->now.boot_ns;
}

static struct ref_reply *
job_reply(struct ref *r, uint64_t ticket, int queue, int key, enum status status)
{
	const struct ref_job *j = job_at(r, queue, key);
	struct ref_reply *to = reply(r, ticket, status);

	to->of_job = true;
	to->depth = j->depth;
	to->generation = pending(j) ? coming(j) : j->generation;
	to->has_deadline = pending(j);
	to->deadline = moment_wall(r->now, j->p.due);
	to->coalesced = !pending(j) && j->run.going ? j->run.was.coalesced : j->p.coalesced;
	return to;
}

static void
record_drop(struct ref *r, size_t i)
{
	r->n_records--;
	memmove(&r->record[i], &r->record[i + 1], (r->n_records - i) * sizeof r->record[0]);
}

/* Not dead any more: what told of the death goes, when only that kept it. */
static void
undead(struct ref *r, int queue, int key)
{
	job_at(r, queue, key)->dead = false;
	for (size_t i = r->n_records; i-- > 0;)
		if (r->record[i].unlisted && r->record[i].queue == queue && r->record[i].key == key)
			record_drop(r, i);
}

/* ---- update ---- */

/* A flush of the queue waits no more for what went to the tail; one of the job does. */
static void
tail(struct ref *r, int queue, uint64_t serial)
{
	for (size_t i = r->n_waiters; i-- > 0;)
		if (r->waiter[i].kind == W_FLUSH && r->waiter[i].key < 0)
			serial_over_for(r, i, serial, NULL);
	(void)queue;
}

static void
put_payload(struct ref_instance *p, const struct op_update *op)
{
	char *to = p->payload;
	size_t n = op->payload_mode == PAYLOAD_APPEND ? strlen(to) : 0;

	if (op->payload_mode == PAYLOAD_KEEP)
		return;
	if (n == 0)
		p->appended = op->payload_mode == PAYLOAD_APPEND;
	rig_check(n + op->payload.n + 2 < REF_PAYLOAD);
	snprintf(to + n, REF_PAYLOAD - n, "%.*s;", STR_ARG(op->payload));
}

struct target {
	int64_t target, due;
	bool ready;
};

static int64_t
max_wait(const struct ref *r, int queue)
{
	return r->queue[queue].s.max_wait_ns;
}

static struct target
target_of(struct ref *r, int queue, const struct ref_job *j, const struct op_update *op)
{
	int64_t created = pending(j) && !j->p.retry ? j->p.created : r->now.boot_ns;
	struct target t;

	t.target = op->absolute ? moment_boot(r->now, op->when_ns) : r->now.boot_ns + op->when_ns;
	t.due = t.target + r->queue[queue].s.slack_ns;
	if (max_wait(r, queue) && t.due > created + max_wait(r, queue))
		t.due = created + max_wait(r, queue);
	t.ready = t.target <= r->now.boot_ns || t.due <= r->now.boot_ns;
	if (t.ready)
		t.due = r->now.boot_ns;
	return t;
}

/* Slack: the armed deadline is neither too early nor too late for the new target. */
static bool
skips(const struct ref_job *j, const struct op_update *op, struct target t)
{
	return !t.ready && op->absolute == j->p.absolute &&
		(t.due == j->p.due || (t.target <= j->p.due && t.due >= j->p.due));
}

/* What an update does to a pending job. */
static enum status
decide(const struct ref_job *j, const struct op_update *op, struct target t)
{
	enum update_mode mode = op->mode == MODE_KEEP && j->p.retry ? MODE_EARLIER : op->mode;
	bool ready = j->p.at == JOB_READY;

	switch (mode) {
	case MODE_KEEP:
		return ST_UNCHANGED;
	case MODE_EARLIER:
		return !ready && t.due < j->p.due ? ST_UPDATED_TIMER : ST_UNCHANGED;
	case MODE_LATER:
		if (ready)
			return t.ready ? ST_UNCHANGED : ST_UPDATED_READY;
		if (t.due <= j->p.due)
			return ST_UNCHANGED;
		break;
	case MODE_SET:
		break;
	}
	if (ready)
		return ST_UPDATED_READY;
	return skips(j, op, t) ? ST_SKIPPED : ST_UPDATED_TIMER;
}

static enum status
refusal(struct ref *r, int queue, int key, int own, const struct op_update *op)
{
	struct ref_job *j = job_at(r, queue, key);

	int64_t delay = op->absolute ? op->when_ns - r->now.wall_ns : op->when_ns;

	if (op->when_ns < 0 || (max_wait(r, queue) && delay > max_wait(r, queue)))
		return ST_INVALID;
	if (j->depth || cancelling(r, queue, key))
		return ST_REFUSED_DISABLED;
	if (!pending(j) && op->if_pending)
		return j->run.going ? ST_NOT_PENDING_RUNNING : ST_IDLE;
	if (!pending(j) && ref_draining(r, queue) && own != queue)
		return ST_REFUSED_DRAINING;
	return ST_OK;
}

static void
put_update(struct ref *r, int queue, struct ref_instance *p, const struct op_update *op,
	struct target t, int own)
{
	p->absolute = op->absolute;
	p->delay = op->when_ns + r->queue[queue].s.slack_ns;
	place(r, queue, p, t.due, t.ready, own == queue);
}

static enum status
create(struct ref *r, int queue, int key, int own, const struct op_update *op, struct target t)
{
	struct ref_job *j = job_at(r, queue, key);

	undead(r, queue, key);
	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	put_payload(&j->p, op);
	put_update(r, queue, &j->p, op, t, own);
	return j->run.going ? ST_REQUEUED_RUNNING : ST_CREATED;
}

static enum status
change(struct ref *r, int queue, int key, int own, const struct op_update *op, struct target t)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_instance p = j->p;
	enum status status = decide(j, op, t);
	bool stays = status == ST_UNCHANGED || status == ST_SKIPPED;

	j->p.coalesced++;
	put_payload(&p, op);
	if (stays && op->payload_mode != PAYLOAD_APPEND && strcmp(p.payload, j->p.payload) == 0)
		return status;
	renew(r, queue, key);
	memcpy(j->p.payload, p.payload, sizeof p.payload);
	j->p.appended = p.appended;
	if (stays)
		return p.at == JOB_READY ? ST_UPDATED_READY : ST_UPDATED_TIMER;
	put_update(r, queue, &j->p, op, t, own);
	/* Taken back: nobody need wait for it any more. */
	if (p.at == JOB_READY && !t.ready) {
		j->p.serial = ++r->serial;
		serial_over(r, p.serial, ref_last(r, queue, key));
	} else if (p.at == JOB_READY) {
		tail(r, queue, p.serial);
	}
	return status;
}

void
ref_update(struct ref *r, uint64_t ticket, int queue, int key, int own, const struct op_update *op)
{
	struct ref_job *j = job_at(r, queue, key), was = *j;
	enum status status = refusal(r, queue, key, own, op);
	struct target t = target_of(r, queue, j, op);
	struct ref_reply *to;

	if (repeated(r, ticket, queue, key, op->level, op->idem))
		return;
	if (status == ST_OK)
		touch(r, queue, key, op->level);
	if (status == ST_OK)
		status = pending(j) ? change(r, queue, key, own, op, t)
				    : create(r, queue, key, own, op, t);
	to = job_reply(r, ticket, queue, key, status);
	to->of_update = !status_is_error(status);
	to->before = was.run.going ? JOB_RUNNING : was.p.at;
	to->pending_before = pending(&was);
	finish(r, queue, key, op->level, op->idem, to);
}

/* ---- cancel, delete, disable, enable, kick ---- */

/* The reply word of a cancel, by what there was. */
static enum status
cancelled(const struct ref_job *j)
{
	if (j->run.going)
		return pending(j) ? ST_CANCELLED_RUNNING : ST_NOT_PENDING_RUNNING;
	return pending(j) ? ST_CANCELLED : ST_IDLE;
}

void
ref_cancel(struct ref *r, uint64_t ticket, int queue, int key, const struct op_cancel *op)
{
	struct ref_job *j = job_at(r, queue, key);
	enum status status = cancelled(j);
	struct ref_waiter *w;

	if (repeated(r, ticket, queue, key, op->level, op->idem))
		return;
	if (j->dead || pending(j))
		touch(r, queue, key, op->level);
	if (!j->run.going || op->mode == CANCEL_PLAIN)
		undead(r, queue, key);
	drop_pending(r, queue, key);
	if (!j->run.going || op->mode == CANCEL_PLAIN) {
		finish(r, queue, key, op->level, op->idem,
			job_reply(r, ticket, queue, key, status));
		return;
	}
	w = wait_for(r, ticket, W_CANCEL, queue, key, op->timeout_ns);
	w->status = status;
	w->durable = level_of(r, queue, op->level) == LEVEL_SYNC;
	w->kill = op->mode == CANCEL_KILL;
	j->run.killed |= w->kill;
}

static enum status
forget(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	bool known = ref_known(r, queue, key);
	enum status status = cancelled(j);

	undead(r, queue, key);
	drop_pending(r, queue, key);
	j->run.deleted = j->run.going;
	for (size_t i = r->n_records; i-- > 0;)
		if (r->record[i].queue == queue && r->record[i].key == key)
			record_drop(r, i);
	if (status != ST_IDLE)
		return status;
	return known ? ST_OK : ST_NOT_FOUND;
}

/* Ready now, whatever its deadline. */
static void
hurry(struct ref *r, int queue, struct ref_instance *p, bool lets_pass)
{
	p->absolute = false;
	place(r, queue, p, r->now.boot_ns, true, lets_pass);
}

static enum status
kick(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);

	if (j->depth || cancelling(r, queue, key))
		return ST_REFUSED_DISABLED;
	if (j->dead && ref_draining(r, queue))
		return ST_REFUSED_DRAINING;
	if (j->p.at == JOB_READY)
		return ST_UNCHANGED;
	if (j->p.at == JOB_ARMED) {
		hurry(r, queue, &j->p, false);
		return ST_UPDATED_TIMER;
	}
	if (j->run.going)
		return ST_NOT_PENDING_RUNNING;
	if (!j->dead)
		return ST_IDLE;
	undead(r, queue, key);
	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	memcpy(j->p.payload, j->kept, sizeof j->kept);
	hurry(r, queue, &j->p, false);
	return ST_CREATED;
}

static enum status
disable(struct ref *r, int queue, int key)
{
	enum status status = cancelled(job_at(r, queue, key));

	undead(r, queue, key);
	drop_pending(r, queue, key);
	job_at(r, queue, key)->depth++;
	return status;
}

static enum status
enable(struct ref_job *j)
{
	if (j->depth == 0)
		return ST_INVALID;
	j->depth--;
	return ST_OK;
}

void
ref_job(struct ref *r, uint64_t ticket, int queue, int key, enum engine_event_kind kind,
	const struct op_job *op)
{
	struct ref_job *j = job_at(r, queue, key);
	enum status status;

	if (repeated(r, ticket, queue, key, op->level, op->idem))
		return;
	if (kind == EV_DISABLE)
		status = disable(r, queue, key);
	else if (kind == EV_ENABLE)
		status = enable(j);
	else
		status = kind == EV_KICK ? kick(r, queue, key) : forget(r, queue, key);
	if (kind != EV_KICK ? !status_is_error(status)
			    : status == ST_CREATED || status == ST_UPDATED_TIMER)
		touch(r, queue, key, op->level);
	finish(r, queue, key, op->level, op->idem, job_reply(r, ticket, queue, key, status));
}

/* ---- flush, wait ---- */

void
ref_flush(struct ref *r, uint64_t ticket, int queue, int key, const struct op_flush *op)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_waiter *w;

	if (op->now && j->p.at == JOB_ARMED)
		hurry(r, queue, &j->p, false);
	if (!j->run.going && j->p.at != JOB_READY) {
		job_reply(r, ticket, queue, key, pending(j) ? ST_OK : ST_IDLE);
		return;
	}
	w = wait_for(r, ticket, W_FLUSH, queue, key, op->timeout_ns);
	w->serial[0] = j->run.going ? j->run.was.serial : 0;
	w->serial[1] = j->p.at == JOB_READY ? j->p.serial : 0;
}

void
ref_flush_queue(struct ref *r, uint64_t ticket, int queue, int64_t timeout_ns)
{
	struct ref_waiter *w = wait_for(r, ticket, W_FLUSH, queue, -1, timeout_ns);
	uint64_t any = 0;

	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		w->serial[2 * k] = j->run.going ? j->run.was.serial : 0;
		w->serial[2 * k + 1] = j->p.at == JOB_READY ? j->p.serial : 0;
		any |= w->serial[2 * k] | w->serial[2 * k + 1];
	}
	if (any)
		return;
	waiter_drop(r, r->n_waiters - 1);
	reply(r, ticket, ST_OK);
}

void
ref_wait(struct ref *r, uint64_t ticket, int queue, int key, const struct op_wait *op)
{
	const struct ref_job *j = job_at(r, queue, key);
	const struct ref_record *last = ref_last(r, queue, key);
	uint64_t generation = op->generation;

	if (generation == 0)
		generation = j->run.going ? j->run.generation
			: pending(j)      ? coming(j)
			: last            ? last->generation
					  : 0;
	if ((j->run.going && generation == j->run.generation) ||
		(pending(j) && generation == coming(j))) {
		if (op->timeout_ns == 0)
			reply(r, ticket, ST_TIMEOUT);
		else
			wait_for(r, ticket, W_WAIT, queue, key, op->timeout_ns)->generation =
				generation;
		return;
	}
	for (size_t i = r->n_records; i > 0; i--) {
		const struct ref_record *rec = &r->record[i - 1];

		if (rec->queue != queue || rec->key != key || rec->generation != generation)
			continue;
		reply_run(r, ticket, ST_OK, rec);
		return;
	}
	reply(r, ticket, ST_NOT_FOUND);
}

/* ---- queues ---- */

void
ref_pause(struct ref *r, uint64_t ticket, int queue, bool pause)
{
	r->queue[queue].paused = pause;
	reply(r, ticket, ST_OK)->durable = true;
}

void
ref_max_active(struct ref *r, uint64_t ticket, int queue, uint32_t max_active)
{
	bool refused = r->queue[queue].s.ordered && max_active != 1;

	if (!refused)
		r->queue[queue].s.max_active = max_active;
	reply(r, ticket, refused ? ST_INVALID : ST_OK)->durable = !refused;
}

/* The armed one of a queue (-1: of all) that comes first, or NULL. */
static struct ref_job *
first_armed(struct ref *r, int only, int *queue, int *key)
{
	struct ref_job *first = NULL;

	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

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

void
ref_drain(struct ref *r, uint64_t ticket, int queue, const struct op_drain *op)
{
	struct ref_job *j;
	int q, k;

	wait_for(r, ticket, W_DRAIN, queue, -1, op->timeout_ns)->pause_after = op->pause_after;
	while (op->timers != TIMERS_KEEP && (j = first_armed(r, queue, &q, &k)) != NULL) {
		if (op->timers == TIMERS_CANCEL)
			drop_pending(r, queue, k);
		else if (j->p.due <= r->now.boot_ns)
			place(r, queue, &j->p, j->p.due, true, true);
		else
			hurry(r, queue, &j->p, true);
	}
}

static bool
drained(struct ref *r, int queue)
{
	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		if (j->run.going || (j->p.at == JOB_READY && !j->p.parked))
			return false;
	}
	return true;
}

/* A drain of the queue is over: when none is left, what was held is like all others. */
static void
undrain(struct ref *r, int queue)
{
	if (ref_draining(r, queue))
		return;
	for (int k = 0; k < REF_KEYS; k++)
		job_at(r, queue, k)->p.parked = false;
}

void
ref_abandon(struct ref *r, uint64_t ticket)
{
	for (size_t i = 0; i < r->n_waiters; i++) {
		int queue = r->waiter[i].queue;

		if (r->waiter[i].ticket != ticket)
			continue;
		waiter_drop(r, i);
		undrain(r, queue);
		return;
	}
}

/* ---- runs ---- */

static int64_t
retry_delay(const struct queue_settings *s, uint32_t attempt)
{
	int64_t delay = s->retry_delay_ns;

	for (uint32_t i = 1; i < attempt && s->retry_backoff == BACKOFF_EXPONENTIAL; i++)
		delay = sat_add(delay, delay);
	return delay < s->retry_max_delay_ns ? delay : s->retry_max_delay_ns;
}

/* Out of the list of its queue: gone, but for the newest of a dead job. */
static void
retire(struct ref *r, size_t i)
{
	struct ref_record *rec = &r->record[i];

	if (job_at(r, rec->queue, rec->key)->dead && ref_last(r, rec->queue, rec->key) == rec)
		rec->unlisted = true;
	else
		record_drop(r, i);
}

/* The oldest that is listed goes when there are too many. */
static void
retire_surplus(struct ref *r, int queue)
{
	size_t n = 0, oldest = 0;

	for (size_t i = r->n_records; i-- > 0;) {
		if (r->record[i].queue != queue || r->record[i].unlisted)
			continue;
		n++;
		oldest = i;
	}
	if (n > r->queue[queue].s.retention_count)
		retire(r, oldest);
}

static struct ref_record
make_record(const struct ref *r, int queue, int key, enum run_outcome outcome, bool final)
{
	const struct ref_run *run = &r->queue[queue].job[key].run;

	return (struct ref_record){
		.queue = queue,
		.key = key,
		.generation = run->generation,
		.attempt = run->was.attempt,
		.coalesced = run->was.coalesced,
		.outcome = outcome,
		.final = final,
		.stored = r->queue[queue].job[key].stored,
		.ended = r->now.boot_ns,
	};
}

static void
keep_record(struct ref *r, const struct ref_record *rec)
{
	rig_check(r->n_records < REF_RECORDS);
	r->record[r->n_records++] = *rec;
	retire_surplus(r, rec->queue);
}

/* The last run, over, is to be done again at `due`. */
static void
again(struct ref *r, int queue, int key, int64_t due)
{
	struct ref_job *j = job_at(r, queue, key);

	j->p = j->run.was;
	j->p.serial = 0;
	j->p.retry = true;
	j->p.absolute = false;
	j->p.attempt++;
	j->p.delay = due - r->now.boot_ns;
	place(r, queue, &j->p, due, due <= r->now.boot_ns, true);
}

static void
die(struct ref_job *j)
{
	j->dead = true;
	memcpy(j->kept, j->run.was.payload, sizeof j->kept);
}

static void
cancels_over(struct ref *r, int queue, int key, const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind != W_CANCEL || w.queue != queue || w.key != key) {
			i++;
			continue;
		}
		if (!run)
			w.status = ST_CANCELLED;
		else if (w.kill && run->outcome == RUN_CANCELLED)
			w.status = ST_CANCELLED_RUNNING;
		reply_run(r, w.ticket, w.status, run);
		r->reply[r->n_replies - 1].durable = w.durable;
		waiter_drop(r, i);
	}
}

void
ref_ended(struct ref *r, int queue, int key, enum run_outcome outcome)
{
	struct ref_job *j = job_at(r, queue, key);
	const struct queue_settings *s = &r->queue[queue].s;
	bool free_to_retry =
		!pending(j) && !j->depth && !cancelling(r, queue, key) && !j->run.deleted;
	bool failed = (outcome == RUN_FAILED || outcome == RUN_TIMEOUT) && free_to_retry;
	bool retry = failed && j->run.was.attempt < s->max_attempts;
	bool dies = failed && !retry && s->max_attempts > 1;
	struct ref_record rec = make_record(r, queue, key, dies ? RUN_DEAD : outcome, !retry);

	j->run.going = false;
	j->interrupts = 0;
	serial_over(r, j->run.was.serial, &rec);
	cancels_over(r, queue, key, &rec);
	if (retry)
		again(r, queue, key, r->now.boot_ns + retry_delay(s, j->run.was.attempt));
	else
		generation_over(r, queue, key, rec.generation, ST_OK, &rec);
	if (dies)
		die(j);
	if (!j->run.deleted)
		keep_record(r, &rec);
}

static void
start(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_start *out;

	j->run = (struct ref_run){ .going = true, .was = j->p, .generation = coming(j) };
	j->generation = j->run.generation;
	j->p = (struct ref_instance){ 0 };
	if (r->queue[queue].s.action == ACTION_NONE) {
		ref_ended(r, queue, key, RUN_DONE);
		return;
	}
	rig_check(r->n_starts < REF_OUT);
	out = &r->start[r->n_starts++];
	*out = (struct ref_start){ .queue = queue,
		.key = key,
		.generation = j->run.generation,
		.attempt = j->run.was.attempt,
		.coalesced = j->run.was.coalesced };
	memcpy(out->payload, j->run.was.payload, sizeof out->payload);
}

/* ---- a hand-over taken back ---- */

/* What was asked for while it seemed to run goes into what was handed over. */
static void
merge(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_instance *p = &j->p, *was = &j->run.was;
	uint64_t newer = p->serial;

	p->coalesced += was->coalesced + 1;
	if (p->appended || !p->payload[0]) {
		size_t n = strlen(was->payload), own = strlen(p->payload) + 1;

		rig_check(n + own <= REF_PAYLOAD);
		memmove(p->payload + n, p->payload, own);
		memcpy(p->payload, was->payload, n);
	}
	if (was->retry)
		generation_over(r, queue, key, j->generation, ST_OK, ref_last(r, queue, key));
	else
		for (size_t i = 0; i < r->n_waiters; i++)
			if (r->waiter[i].kind == W_WAIT && r->waiter[i].queue == queue &&
				r->waiter[i].key == key &&
				r->waiter[i].generation == j->generation + 2)
				r->waiter[i].generation--;
	if (p->at == JOB_ARMED) {
		serial_over(r, was->serial, ref_last(r, queue, key));
		return;
	}
	p->parked = false;
	p->seq = was->seq;
	p->serial = was->serial;
	serial_over(r, newer, NULL);
}

void
ref_not_started(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	bool closed = j->depth || cancelling(r, queue, key) || j->run.deleted;
	uint64_t generation = j->generation;

	j->run.going = false;
	j->generation -= !j->run.was.retry;
	r->queue[queue].backs_off = true;
	r->queue[queue].no_start_before = r->now.boot_ns + SEC;
	if (closed) {
		cancels_over(r, queue, key, NULL);
		serial_over(r, j->run.was.serial, ref_last(r, queue, key));
		generation_over(r, queue, key, generation, ST_CANCELLED, NULL);
	} else if (pending(j)) {
		merge(r, queue, key);
	} else {
		j->p = j->run.was;
		j->p.parked = false;
	}
}

/* ---- time ---- */

/* The oldest ready one that may start, or -1. */
static int
first_ready(struct ref *r, int queue)
{
	int first = -1;

	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		if (j->p.at == JOB_READY && !j->p.parked && !j->run.going &&
			(first < 0 || j->p.seq < job_at(r, queue, first)->p.seq))
			first = k;
	}
	return first;
}

static bool
start_one(struct ref *r, int queue)
{
	uint32_t running = 0;
	int key = first_ready(r, queue);

	for (int k = 0; k < REF_KEYS; k++)
		running += job_at(r, queue, k)->run.going;
	if (key < 0 || r->queue[queue].paused || r->queue[queue].backs_off ||
		running >= r->queue[queue].s.max_active)
		return false;
	start(r, queue, key);
	return true;
}

static void
end_drains(struct ref *r)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind != W_DRAIN || !drained(r, w.queue)) {
			i++;
			continue;
		}
		reply(r, w.ticket, ST_OK)->durable = w.pause_after;
		r->queue[w.queue].paused |= w.pause_after;
		waiter_drop(r, i);
		undrain(r, w.queue);
	}
}

/* A job of which nothing is left to know begins anew. */
static void
forget_unknown(struct ref *r)
{
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (!ref_known(r, q, k))
				*job_at(r, q, k) = (struct ref_job){ 0 };
}

void
ref_follow(struct ref *r)
{
	bool more;

	do {
		more = false;
		end_drains(r);
		for (int queue = 0; queue < REF_QUEUES; queue++)
			more |= start_one(r, queue);
	} while (more);
	forget_unknown(r);
}

static void
time_out(struct ref *r)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.until > r->now.boot_ns) {
			i++;
			continue;
		}
		reply(r, w.ticket, ST_TIMEOUT);
		waiter_drop(r, i);
		undrain(r, w.queue);
	}
}

static void
retire_old(struct ref *r)
{
	for (size_t i = r->n_records; i-- > 0;) {
		const struct ref_record *rec = &r->record[i];

		if (!rec->unlisted &&
			rec->ended + r->queue[rec->queue].s.retention_ns <= r->now.boot_ns)
			retire(r, i);
	}
}

void
ref_settle(struct ref *r)
{
	struct ref_job *j;
	int queue, key;

	time_out(r);
	while ((j = first_armed(r, -1, &queue, &key)) != NULL && j->p.due <= r->now.boot_ns)
		place(r, queue, &j->p, j->p.due, true, false);
	for (queue = 0; queue < REF_QUEUES; queue++)
		r->queue[queue].backs_off &= r->now.boot_ns < r->queue[queue].no_start_before;
	ref_follow(r);
	retire_old(r);
	for (int i = 0; i < REF_IDS; i++)
		r->answer[i].known &= r->now.boot_ns < r->answer[i].until;
	forget_unknown(r);
}

void
ref_stepped(struct ref *r, int64_t by_ns)
{
	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

			j->p.due -= j->p.absolute ? by_ns : 0;
			j->run.was.due -= j->run.was.absolute ? by_ns : 0;
		}
	}
}

/* ---- restart ---- */

static void
interrupted(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	bool free_to_retry = !pending(j) && !j->depth;
	bool retry = free_to_retry && j->interrupts < r->queue[queue].s.max_interrupts;
	bool dies = free_to_retry && !retry;
	struct ref_record rec =
		make_record(r, queue, key, dies ? RUN_DEAD : RUN_INTERRUPTED, !retry);

	j->run.going = false;
	if (j->run.deleted)
		return;
	j->interrupts = retry ? j->interrupts + 1 : 0;
	if (retry) {
		again(r, queue, key, r->now.boot_ns);
		j->p.seq = j->run.was.seq; /* before all that was behind it */
	}
	if (dies)
		die(j);
	keep_record(r, &rec);
}

static void
misfired(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	const struct queue_settings *s = &r->queue[queue].s;

	if (j->p.retry)
		return;
	if (s->misfire == MISFIRE_SKIP)
		j->p = (struct ref_instance){ 0 };
	if (s->misfire == MISFIRE_REARM && !j->p.absolute) {
		j->p.created = r->now.boot_ns; /* max_wait begins anew too */
		place(r, queue, &j->p, r->now.boot_ns + j->p.delay, false, false);
	}
}

/* The running job that was handed over first, or NULL. */
static struct ref_job *
first_running(struct ref *r, int *queue, int *key)
{
	struct ref_job *first = NULL;

	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

			if (!j->run.going || (first && first->run.was.seq < j->run.was.seq))
				continue;
			first = j;
			*queue = q;
			*key = k;
		}
	}
	return first;
}

/* What was asked for at level memory alone. */
static void
lose_unstored(struct ref *r)
{
	for (size_t i = r->n_records; i-- > 0;)
		if (!r->record[i].stored)
			record_drop(r, i);
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (!job_at(r, q, k)->stored)
				*job_at(r, q, k) = (struct ref_job){ 0 };
	for (int i = 0; i < REF_IDS; i++)
		r->answer[i].known &= r->answer[i].stored;
}

void
ref_restarted(struct ref *r, struct moment now)
{
	int64_t by = now.boot_ns - r->now.boot_ns - (now.wall_ns - r->now.wall_ns);
	int queue, key;

	r->now = now;
	r->n_waiters = 0;
	lose_unstored(r);
	for (size_t i = 0; i < r->n_records; i++)
		r->record[i].ended += by;
	for (int i = 0; i < REF_IDS; i++)
		r->answer[i].until += by;
	for (int q = 0; q < REF_QUEUES; q++) {
		r->queue[q].backs_off = false;
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

			/* Another boot: boot time counts from somewhere else. */
			j->p.due += by;
			j->p.created += by;
			j->p.parked = false;
		}
	}
	while (first_running(r, &queue, &key))
		interrupted(r, queue, key);
	/* Oldest first; each is put aside until all have been seen. */
	while (first_armed(r, -1, &queue, &key) && job_at(r, queue, key)->p.due <= now.boot_ns) {
		misfired(r, queue, key);
		if (job_at(r, queue, key)->p.at == JOB_ARMED)
			job_at(r, queue, key)->p.at = JOB_HELD;
	}
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (job_at(r, q, k)->p.at == JOB_HELD)
				job_at(r, q, k)->p.at = JOB_ARMED;
	forget_unknown(r);
}
