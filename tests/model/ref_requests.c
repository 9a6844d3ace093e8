#include "model/reference_int.h"

/* ---- update ---- */

/* An instance that waited for a retry becomes one of its own. */
static void
renew(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);

	if (!j->p.retry)
		return;
	ref_generation_over(r, queue, key, ref_coming(j), ST_OK, ref_last(r, queue, key));
	j->p.retry = false;
	j->interrupts = 0;
	j->p.attempt = 1;
	j->p.merged = 0;
	j->p.created = r->now.boot_ns;
}

/* A flush of the queue waits no more for what went to the tail; one of the job does. */
static void
tail(struct ref *r, int queue, uint64_t serial)
{
	for (size_t i = r->n_waiters; i-- > 0;)
		if (r->waiter[i].kind == W_FLUSH && r->waiter[i].key < 0)
			ref_serial_over_for(r, i, serial, NULL);
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
	int64_t latest; /* the end of the slack */
	bool ready;
};

static int64_t
max_wait(const struct ref *r, int queue)
{
	return r->queue[queue].s.max_wait_ns;
}

/* Multiples are those of the wall clock. */
static int64_t
rounded_up(const struct ref *r, int64_t due, int64_t step)
{
	int64_t over = moment_wall(r->now, due) % step;

	return over ? due + step - over : due;
}

static struct target
target_of(struct ref *r, int queue, const struct ref_job *j, const struct op_update *op)
{
	int64_t created = ref_pending(j) && !j->p.retry ? j->p.created : r->now.boot_ns;
	struct target t;

	t.target = op->absolute ? moment_boot(r->now, op->when_ns) : r->now.boot_ns + op->when_ns;
	t.due = t.latest = t.target + r->queue[queue].s.slack_ns;
	if (op->align_ns)
		t.due = rounded_up(r, t.due, op->align_ns);
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
		(t.due == j->p.due || (t.target <= j->p.due && t.latest >= j->p.due));
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
	struct ref_job *j = ref_job_at(r, queue, key);

	int64_t delay = op->absolute ? op->when_ns - r->now.wall_ns : op->when_ns;

	if (op->when_ns < 0 || (max_wait(r, queue) && delay > max_wait(r, queue)))
		return ST_INVALID;
	if (j->depth || ref_cancelling(r, queue, key))
		return ST_REFUSED_DISABLED;
	if (ref_deleting(r, queue))
		return ST_REFUSED_DRAINING;
	if (!ref_pending(j) && op->if_pending)
		return j->run.going ? ST_NOT_PENDING_RUNNING : ST_IDLE;
	if (!ref_pending(j) && ref_draining(r, queue) && own != queue)
		return ST_REFUSED_DRAINING;
	return ST_OK;
}

static void
put_update(struct ref *r, int queue, struct ref_instance *p, const struct op_update *op,
	struct target t, int own)
{
	p->absolute = op->absolute;
	p->delay = op->when_ns + r->queue[queue].s.slack_ns;
	ref_place(r, queue, p, t.due, t.ready, own == queue);
}

static enum status
create(struct ref *r, int queue, int key, int own, const struct op_update *op, struct target t)
{
	struct ref_job *j = ref_job_at(r, queue, key);

	ref_undead(r, queue, key);
	j->interrupts = 0;
	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	put_payload(&j->p, op);
	put_update(r, queue, &j->p, op, t, own);
	return j->run.going ? ST_REQUEUED_RUNNING : ST_CREATED;
}

static enum status
change(struct ref *r, int queue, int key, int own, const struct op_update *op, struct target t)
{
	struct ref_job *j = ref_job_at(r, queue, key);
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
		ref_serial_over(r, p.serial, ref_last(r, queue, key));
	} else if (p.at == JOB_READY) {
		tail(r, queue, p.serial);
	}
	return status;
}

void
ref_update(struct ref *r, uint64_t ticket, int queue, int key, int own, const struct op_update *op)
{
	struct ref_job *j = ref_job_at(r, queue, key), was = *j;
	enum status status = refusal(r, queue, key, own, op);
	struct target t = target_of(r, queue, j, op);
	struct ref_reply *to;

	if (ref_gone(r, ticket, queue) ||
		ref_repeated(r, ticket, queue, key, EV_UPDATE, op->level, op->idem))
		return;
	if (status == ST_OK)
		ref_touch(r, queue, key, op->level);
	if (status == ST_OK)
		status = ref_pending(j) ? change(r, queue, key, own, op, t)
					: create(r, queue, key, own, op, t);
	to = ref_job_reply(r, ticket, queue, key, status);
	to->of_update = !status_is_error(status);
	to->before = was.run.going ? JOB_RUNNING : was.p.at;
	to->pending_before = ref_pending(&was);
	ref_finish(r, queue, key, EV_UPDATE, op->level, op->idem, to);
}

/* ---- cancel, delete, disable, enable, kick ---- */

/* The reply word of a cancel, by what there was. */
static enum status
cancelled(const struct ref_job *j)
{
	if (j->run.going)
		return ref_pending(j) ? ST_CANCELLED_RUNNING : ST_NOT_PENDING_RUNNING;
	return ref_pending(j) ? ST_CANCELLED : ST_IDLE;
}

void
ref_cancel(struct ref *r, uint64_t ticket, int queue, int key, const struct op_cancel *op)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	enum status status = cancelled(j);
	struct ref_waiter *w;

	if (ref_gone(r, ticket, queue) ||
		ref_repeated(r, ticket, queue, key, EV_CANCEL, op->level, op->idem))
		return;
	if (j->dead || ref_pending(j))
		ref_touch(r, queue, key, op->level);
	if (!j->run.going || op->mode == CANCEL_PLAIN)
		ref_undead(r, queue, key);
	ref_drop_pending(r, queue, key);
	if (!j->run.going || op->mode == CANCEL_PLAIN) {
		ref_finish(r, queue, key, EV_CANCEL, op->level, op->idem,
			ref_job_reply(r, ticket, queue, key, status));
		return;
	}
	w = ref_wait_for(r, ticket, W_CANCEL, queue, key, op->timeout_ns);
	w->status = status;
	w->durable = ref_level_of(r, queue, op->level) == LEVEL_SYNC;
	w->kill = op->mode == CANCEL_KILL;
	j->run.killed |= w->kill;
}

static enum status
forget(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	bool known = ref_known(r, queue, key);
	enum status status = cancelled(j);

	ref_undead(r, queue, key);
	ref_drop_pending(r, queue, key);
	j->run.deleted = j->run.going;
	for (size_t i = r->n_records; i-- > 0;)
		if (r->record[i].queue == queue && r->record[i].key == key)
			ref_record_drop(r, i);
	if (status != ST_IDLE)
		return status;
	return known ? ST_OK : ST_NOT_FOUND;
}

/* Ready now, whatever its deadline. */
static void
hurry(struct ref *r, int queue, struct ref_instance *p, bool lets_pass)
{
	p->absolute = false;
	ref_place(r, queue, p, r->now.boot_ns, true, lets_pass);
}

static enum status
kick(struct ref *r, int queue, int key, bool own)
{
	struct ref_job *j = ref_job_at(r, queue, key);

	if (j->depth || ref_cancelling(r, queue, key))
		return ST_REFUSED_DISABLED;
	if (j->dead && ref_draining(r, queue))
		return ST_REFUSED_DRAINING;
	if (j->p.at == JOB_READY)
		return ST_UNCHANGED;
	if (j->p.at == JOB_ARMED) {
		hurry(r, queue, &j->p, own);
		return ST_UPDATED_TIMER;
	}
	if (j->run.going)
		return ST_NOT_PENDING_RUNNING;
	if (!j->dead)
		return ST_IDLE;
	ref_undead(r, queue, key);
	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	memcpy(j->p.payload, j->kept, sizeof j->kept);
	hurry(r, queue, &j->p, own);
	return ST_CREATED;
}

static enum status
disable(struct ref *r, int queue, int key)
{
	enum status status = cancelled(ref_job_at(r, queue, key));

	ref_undead(r, queue, key);
	ref_drop_pending(r, queue, key);
	ref_job_at(r, queue, key)->depth++;
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
ref_job(struct ref *r, uint64_t ticket, int queue, int key, int own, enum engine_event_kind kind,
	const struct op_job *op)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	enum status status;

	if (ref_gone(r, ticket, queue) ||
		ref_repeated(r, ticket, queue, key, kind, op->level, op->idem))
		return;
	if (kind == EV_DISABLE)
		status = disable(r, queue, key);
	else if (kind == EV_ENABLE)
		status = enable(j);
	else
		status =
			kind == EV_KICK ? kick(r, queue, key, own == queue) : forget(r, queue, key);
	if (kind != EV_KICK ? !status_is_error(status)
			    : status == ST_CREATED || status == ST_UPDATED_TIMER)
		ref_touch(r, queue, key, op->level);
	ref_finish(r, queue, key, kind, op->level, op->idem,
		ref_job_reply(r, ticket, queue, key, status));
}

/* ---- flush, wait ---- */

void
ref_flush(struct ref *r, uint64_t ticket, int queue, int key, const struct op_flush *op)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	struct ref_waiter *w;

	if (ref_gone(r, ticket, queue))
		return;
	if (op->now && j->p.at == JOB_ARMED)
		hurry(r, queue, &j->p, false);
	if (!j->run.going && j->p.at != JOB_READY) {
		ref_job_reply(r, ticket, queue, key, ref_pending(j) ? ST_OK : ST_IDLE);
		return;
	}
	w = ref_wait_for(r, ticket, W_FLUSH, queue, key, op->timeout_ns);
	w->serial[0] = j->run.going ? j->run.was.serial : 0;
	w->serial[1] = j->p.at == JOB_READY ? j->p.serial : 0;
}

void
ref_flush_queue(struct ref *r, uint64_t ticket, int queue, int64_t timeout_ns)
{
	struct ref_waiter *w;
	uint64_t any = 0;

	if (ref_gone(r, ticket, queue))
		return;
	w = ref_wait_for(r, ticket, W_FLUSH, queue, -1, timeout_ns);
	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = ref_job_at(r, queue, k);

		w->serial[2 * k] = j->run.going ? j->run.was.serial : 0;
		w->serial[2 * k + 1] = j->p.at == JOB_READY ? j->p.serial : 0;
		any |= w->serial[2 * k] | w->serial[2 * k + 1];
	}
	if (any)
		return;
	ref_waiter_drop(r, r->n_waiters - 1);
	ref_reply(r, ticket, ST_OK);
}

void
ref_wait(struct ref *r, uint64_t ticket, int queue, int key, const struct op_wait *op)
{
	const struct ref_job *j = ref_job_at(r, queue, key);
	const struct ref_record *last = ref_last(r, queue, key);
	uint64_t generation = op->generation;

	if (ref_gone(r, ticket, queue))
		return;
	/* Part of the one that is coming, or running. */
	if (ref_pending(j) && generation && generation < ref_coming(j) &&
		generation + j->p.merged >= ref_coming(j))
		generation = ref_coming(j);
	else if (j->run.going && generation && generation < j->run.generation &&
		generation + j->run.was.merged >= j->run.generation)
		generation = j->run.generation;
	if (generation == 0)
		generation = j->run.going ? j->run.generation
			: ref_pending(j)  ? ref_coming(j)
			: last            ? last->generation
					  : 0;
	if ((j->run.going && generation == j->run.generation) ||
		(ref_pending(j) && generation == ref_coming(j))) {
		if (op->timeout_ns == 0)
			ref_reply(r, ticket, ST_TIMEOUT);
		else
			ref_wait_for(r, ticket, W_WAIT, queue, key, op->timeout_ns)->generation =
				generation;
		return;
	}
	for (size_t i = r->n_records; i > 0; i--) {
		const struct ref_record *rec = &r->record[i - 1];

		if (rec->queue != queue || rec->key != key || rec->generation < generation ||
			rec->generation - rec->merged > generation)
			continue;
		ref_reply_run(r, ticket, ST_OK, rec);
		return;
	}
	ref_reply(r, ticket, ST_NOT_FOUND);
}

/* ---- queues ---- */

void
ref_pause(struct ref *r, uint64_t ticket, int queue, bool pause)
{
	if (ref_gone(r, ticket, queue))
		return;
	r->queue[queue].paused = pause;
	ref_reply(r, ticket, ST_OK)->durable = true;
}

void
ref_max_active(struct ref *r, uint64_t ticket, int queue, uint32_t max_active)
{
	bool refused = r->queue[queue].s.ordered && max_active != 1;

	if (ref_gone(r, ticket, queue))
		return;
	if (!refused)
		r->queue[queue].s.max_active = max_active;
	ref_reply(r, ticket, refused ? ST_INVALID : ST_OK)->durable = !refused;
}

static void
sweep(struct ref *r, int queue, enum timer_policy policy)
{
	struct ref_job *j;
	int q, k;

	while (policy != TIMERS_KEEP && (j = ref_first_armed(r, queue, &q, &k)) != NULL) {
		if (policy == TIMERS_CANCEL)
			ref_drop_pending(r, queue, k);
		else if (j->p.due <= r->now.boot_ns)
			ref_place(r, queue, &j->p, j->p.due, true, true);
		else
			hurry(r, queue, &j->p, true);
	}
}

void
ref_drain(struct ref *r, uint64_t ticket, int queue, const struct op_drain *op)
{
	if (ref_gone(r, ticket, queue))
		return;
	if (ref_deleting(r, queue)) {
		ref_reply(r, ticket, ST_REFUSED_DRAINING);
		return;
	}
	ref_wait_for(r, ticket, W_DRAIN, queue, -1, op->timeout_ns)->pause_after = op->pause_after;
	sweep(r, queue, op->timers);
}

void
ref_queue_delete(struct ref *r, uint64_t ticket, int queue, const struct op_queue_delete *op)
{
	if (ref_gone(r, ticket, queue))
		return;
	for (int k = 0; k < REF_KEYS && op->timers == TIMERS_KEEP; k++) {
		if (!ref_pending(ref_job_at(r, queue, k)))
			continue;
		ref_reply(r, ticket, ST_INVALID);
		return;
	}
	ref_wait_for(r, ticket, W_DELETE, queue, -1, op->timeout_ns);
	sweep(r, queue, op->timers);
}

void
ref_queue_create(struct ref *r, uint64_t ticket, int queue, const struct queue_settings *settings)
{
	struct ref_queue *q = &r->queue[queue];

	if (!q->gone) {
		ref_reply(r, ticket, ST_EXISTS);
		return;
	}
	*q = (struct ref_queue){ .s = *settings };
	ref_reply(r, ticket, ST_OK)->durable = true;
}

/* ---- completions ---- */

/* The first of those who wait, or -1. */
static int
first_waiter(const struct ref *r, int which)
{
	for (size_t i = 0; i < r->n_waiters; i++)
		if (r->waiter[i].kind == W_COMPLETION && r->waiter[i].key == which)
			return (int)i;
	return -1;
}

/* The first is let in; false: nobody waits. */
static bool
let_in(struct ref *r, int which)
{
	int i = first_waiter(r, which);

	if (i < 0)
		return false;
	ref_reply(r, r->waiter[i].ticket, ST_OK);
	ref_waiter_drop(r, (size_t)i);
	return true;
}

static void
completion_wait(
	struct ref *r, uint64_t ticket, struct ref_completion *c, int which, int64_t timeout_ns)
{
	if (c->open || c->done > 0) {
		c->done -= !c->open;
		ref_reply(r, ticket, ST_OK);
	} else if (timeout_ns == 0) {
		ref_reply(r, ticket, ST_TIMEOUT);
	} else {
		/* It belongs to no queue: one that is not deleted or drained. */
		ref_wait_for(r, ticket, W_COMPLETION, 0, which, timeout_ns);
	}
}

void
ref_completion(
	struct ref *r, uint64_t ticket, int which, enum engine_event_kind kind, int64_t timeout_ns)
{
	struct ref_completion *c = &r->completion[which];

	if (kind == EV_COMPLETION_WAIT) {
		completion_wait(r, ticket, c, which, timeout_ns);
		return;
	}
	ref_reply(r, ticket, ST_OK);
	if (kind == EV_COMPLETE && !c->open && !let_in(r, which))
		c->done++;
	if (kind == EV_COMPLETE_ALL) {
		*c = (struct ref_completion){ .open = true };
		while (let_in(r, which))
			continue;
	}
	if (kind == EV_COMPLETION_REINIT)
		*c = (struct ref_completion){ 0 };
}

uint64_t
ref_completion_waiters(const struct ref *r, int which)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n_waiters; i++)
		n += r->waiter[i].kind == W_COMPLETION && r->waiter[i].key == which;
	return n;
}

void
ref_abandon(struct ref *r, uint64_t ticket)
{
	for (size_t i = 0; i < r->n_waiters; i++) {
		int queue = r->waiter[i].queue;

		if (r->waiter[i].ticket != ticket)
			continue;
		ref_waiter_drop(r, i);
		ref_undrain(r, queue);
		return;
	}
}
