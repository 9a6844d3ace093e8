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

/* Answers each waiter of the kind (and of the job) that `over` says is done. */
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

/* The instance or run `serial` is over, with `run` as its record if it ran. */
static void
serial_over(struct ref *r, uint64_t serial, const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter *w = &r->waiter[i];
		uint64_t left = 0;

		for (int k = 0; k < REF_SNAPSHOT; k++) {
			if (w->serial[k] == serial)
				w->serial[k] = 0;
			left |= w->serial[k];
		}
		if (w->kind == W_FLUSH && left == 0) {
			reply_run(r, w->ticket, ST_OK, w->key < 0 ? NULL : run);
			waiter_drop(r, i);
		} else {
			i++;
		}
	}
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

/* ---- instances ---- */

static void
place(struct ref *r, int queue, struct ref_instance *p, int64_t due, bool ready)
{
	p->at = ready ? JOB_READY : JOB_ARMED;
	p->due = due;
	p->seq = ++r->seq;
	p->after_drain = false;
	if (!p->serial)
		p->serial = ++r->serial;
	(void)queue;
}

/* Takes the pending instance away. */
static void
drop_pending(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_instance p = j->p;
	const struct ref_record *last = p.retry ? ref_last(r, queue, key) : NULL;

	if (!pending(j))
		return;
	generation_over(r, queue, key, coming(j), ST_CANCELLED, last);
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
	to->coalesced = j->p.coalesced;
	return to;
}

/* ---- update ---- */

static void
put_payload(char *to, const struct op_update *op)
{
	size_t n = op->payload_mode == PAYLOAD_APPEND ? strlen(to) : 0;

	if (op->payload_mode != PAYLOAD_KEEP)
		snprintf(to + n, REF_PAYLOAD - n, op->payload.n || n ? "%.*s;" : "%.*s",
			STR_ARG(op->payload));
}

struct target {
	int64_t target, due;
	bool ready;
};

static struct target
target_of(struct ref *r, int queue, const struct ref_job *j, const struct op_update *op)
{
	const struct queue_settings *s = &r->queue[queue].s;
	int64_t slack = op->slack_ns < 0 ? s->slack_ns : op->slack_ns;
	int64_t created = pending(j) && !j->p.retry ? j->p.created : r->now.boot_ns;
	struct target t;

	t.target = op->absolute ? moment_boot(r->now, op->when_ns) : r->now.boot_ns + op->when_ns;
	t.ready = op->when_ns == 0 || t.target <= r->now.boot_ns;
	t.due = t.ready ? r->now.boot_ns : t.target + slack;
	if (s->max_wait_ns && t.due > created + s->max_wait_ns)
		t.due = created + s->max_wait_ns;
	return t;
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
		return t.due > j->p.due ? ST_UPDATED_TIMER : ST_UNCHANGED;
	case MODE_SET:
		break;
	}
	if (ready)
		return ST_UPDATED_READY;
	return !t.ready && t.target <= j->p.due && t.due >= j->p.due ? ST_SKIPPED
								     : ST_UPDATED_TIMER;
}

static enum status
refusal(struct ref *r, int queue, int key, int own, const struct op_update *op)
{
	struct ref_job *j = job_at(r, queue, key);

	if (op->when_ns < 0)
		return ST_INVALID;
	if (j->depth || cancelling(r, queue, key))
		return ST_REFUSED_DISABLED;
	if (!pending(j) && op->if_pending)
		return j->run.going ? ST_NOT_PENDING_RUNNING : ST_IDLE;
	if (!pending(j) && ref_draining(r, queue) && own != queue)
		return ST_REFUSED_DRAINING;
	return ST_OK;
}

static enum status
create(struct ref *r, int queue, int key, const struct op_update *op, struct target t)
{
	struct ref_job *j = job_at(r, queue, key);

	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	j->dead = false;
	put_payload(j->p.payload, op);
	place(r, queue, &j->p, t.due, t.ready);
	return j->run.going ? ST_REQUEUED_RUNNING : ST_CREATED;
}

static enum status
change(struct ref *r, int queue, int key, const struct op_update *op, struct target t)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_instance *p = &j->p;
	enum status status = decide(j, op, t);
	char payload[REF_PAYLOAD];
	uint64_t flushed = p->serial;

	memcpy(payload, p->payload, sizeof payload);
	put_payload(payload, op);
	p->coalesced++;
	if ((status == ST_UNCHANGED || status == ST_SKIPPED) && strcmp(payload, p->payload) == 0)
		return status;
	renew(r, queue, key);
	memcpy(p->payload, payload, sizeof payload);
	if (status == ST_UNCHANGED || status == ST_SKIPPED)
		return p->at == JOB_READY ? ST_UPDATED_READY : ST_UPDATED_TIMER;
	if (p->at == JOB_READY && !t.ready) {
		p->serial = 0;
		serial_over(r, flushed, NULL);
	}
	place(r, queue, p, t.due, t.ready);
	return status;
}

void
ref_update(struct ref *r, uint64_t ticket, int queue, int key, int own, const struct op_update *op)
{
	struct ref_job *j = job_at(r, queue, key), was = *j;
	enum status status = refusal(r, queue, key, own, op);
	struct target t = target_of(r, queue, j, op);
	struct ref_reply *to;

	if (status == ST_OK)
		status = pending(j) ? change(r, queue, key, op, t) : create(r, queue, key, op, t);
	j->p.absolute = op->absolute;
	j->p.delay = op->when_ns;
	to = job_reply(r, ticket, queue, key, status);
	to->of_update = !status_is_error(status);
	to->before = was.run.going ? JOB_RUNNING : was.p.at;
	to->pending_before = pending(&was);
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

	drop_pending(r, queue, key);
	j->dead = false;
	if (!j->run.going || op->mode == CANCEL_PLAIN) {
		job_reply(r, ticket, queue, key, status);
		return;
	}
	w = wait_for(r, ticket, W_CANCEL, queue, key, op->timeout_ns);
	w->status = status;
	if (op->mode == CANCEL_KILL) {
		j->run.killed = true;
		w->status = ST_CANCELLED_RUNNING;
	}
}

static enum status
forget(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	bool known = ref_known(r, queue, key);
	enum status status = cancelled(j);

	drop_pending(r, queue, key);
	j->dead = false;
	j->run.deleted = j->run.going;
	for (size_t i = 0; i < r->n_records;) {
		if (r->record[i].queue == queue && r->record[i].key == key) {
			r->n_records--;
			memmove(&r->record[i], &r->record[i + 1],
				(r->n_records - i) * sizeof r->record[0]);
		} else {
			i++;
		}
	}
	if (status != ST_IDLE)
		return status;
	return known ? ST_OK : ST_NOT_FOUND;
}

static enum status
kick(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);

	if (j->p.at == JOB_READY)
		return ST_UNCHANGED;
	if (j->p.at == JOB_ARMED) {
		place(r, queue, &j->p, r->now.boot_ns, true);
		return ST_UPDATED_TIMER;
	}
	if (j->run.going)
		return ST_NOT_PENDING_RUNNING;
	if (!j->dead)
		return ST_IDLE;
	if (j->depth)
		return ST_REFUSED_DISABLED;
	j->p = (struct ref_instance){ .created = r->now.boot_ns, .attempt = 1 };
	memcpy(j->p.payload, j->kept, sizeof j->kept);
	j->dead = false;
	place(r, queue, &j->p, r->now.boot_ns, true);
	return ST_CREATED;
}

void
ref_job(struct ref *r, uint64_t ticket, int queue, int key, enum engine_event_kind kind)
{
	struct ref_job *j = job_at(r, queue, key);
	enum status status = cancelled(j);

	if (kind == EV_DISABLE) {
		drop_pending(r, queue, key);
		j->depth++;
	} else if (kind == EV_ENABLE) {
		status = j->depth ? ST_OK : ST_INVALID;
		j->depth -= j->depth > 0;
	} else {
		status = kind == EV_KICK ? kick(r, queue, key) : forget(r, queue, key);
	}
	job_reply(r, ticket, queue, key, status);
}

/* ---- flush, wait ---- */

void
ref_flush(struct ref *r, uint64_t ticket, int queue, int key, const struct op_flush *op)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_waiter *w;

	if (op->now && j->p.at == JOB_ARMED)
		place(r, queue, &j->p, r->now.boot_ns, true);
	if (!j->run.going && j->p.at != JOB_READY) {
		job_reply(r, ticket, queue, key, pending(j) ? ST_OK : ST_IDLE);
		return;
	}
	w = wait_for(r, ticket, W_FLUSH, queue, key, op->timeout_ns);
	w->serial[0] = j->run.going ? j->run.serial : 0;
	w->serial[1] = j->p.at == JOB_READY ? j->p.serial : 0;
}

void
ref_flush_queue(struct ref *r, uint64_t ticket, int queue, int64_t timeout_ns)
{
	struct ref_waiter *w = wait_for(r, ticket, W_FLUSH, queue, -1, timeout_ns);
	uint64_t any = 0;

	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		w->serial[2 * k] = j->run.going ? j->run.serial : 0;
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
	reply(r, ticket, ST_OK);
}

void
ref_max_active(struct ref *r, uint64_t ticket, int queue, uint32_t max_active)
{
	bool refused = r->queue[queue].s.ordered && max_active != 1;

	if (!refused)
		r->queue[queue].s.max_active = max_active;
	reply(r, ticket, refused ? ST_INVALID : ST_OK);
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

	while (op->timers != TIMERS_KEEP && (j = first_armed(r, queue, &q, &k)) != NULL) {
		if (op->timers == TIMERS_CANCEL)
			drop_pending(r, queue, k);
		else
			place(r, queue, &j->p, j->p.due, true);
	}
	wait_for(r, ticket, W_DRAIN, queue, -1, op->timeout_ns)->pause_after = op->pause_after;
}

static bool
drained(struct ref *r, int queue)
{
	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		if (j->run.going || (j->p.at == JOB_READY && !j->p.after_drain))
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
		job_at(r, queue, k)->p.after_drain = false;
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

static const struct ref_record *
record(struct ref *r, int queue, int key, enum run_outcome outcome, bool final)
{
	const struct ref_run *run = &job_at(r, queue, key)->run;
	struct ref_record *to = &r->record[r->n_records++];

	rig_check(r->n_records <= REF_RECORDS);
	*to = (struct ref_record){ .queue = queue,
		.key = key,
		.generation = run->generation,
		.attempt = run->attempt,
		.coalesced = run->coalesced,
		.outcome = outcome,
		.final = final,
		.ended = r->now.boot_ns };
	return to;
}

/* The last run, over, is to be done again at `due`. */
static void
again(struct ref *r, int queue, int key, int64_t due)
{
	struct ref_job *j = job_at(r, queue, key);

	j->p = (struct ref_instance){ .created = r->now.boot_ns,
		.retry = true,
		.attempt = j->run.attempt + 1,
		.coalesced = j->run.coalesced };
	memcpy(j->p.payload, j->run.payload, sizeof j->p.payload);
	place(r, queue, &j->p, due, false);
}

static void
die(struct ref_job *j)
{
	j->dead = true;
	memcpy(j->kept, j->run.payload, sizeof j->kept);
}

static void
cancels_over(struct ref *r, int queue, int key, const struct ref_record *run)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind == W_CANCEL && w.queue == queue && w.key == key) {
			reply_run(r, w.ticket, w.status, run);
			waiter_drop(r, i);
		} else {
			i++;
		}
	}
}

void
ref_ended(struct ref *r, int queue, int key, enum run_outcome outcome)
{
	struct ref_job *j = job_at(r, queue, key);
	const struct queue_settings *s = &r->queue[queue].s;
	bool failed = outcome == RUN_FAILED || outcome == RUN_TIMEOUT;
	bool free_to_retry = !pending(j) && !j->depth && !cancelling(r, queue, key) &&
		!j->run.deleted && !j->run.killed;
	bool retry = failed && free_to_retry && j->run.attempt < s->max_attempts;
	const struct ref_record *rec;
	struct ref_record copy;

	if (failed && !retry && s->max_attempts > 1 && j->run.attempt >= s->max_attempts)
		outcome = RUN_DEAD;
	rec = record(r, queue, key, outcome, !retry);
	copy = *rec;
	if (j->run.deleted)
		r->n_records--;
	j->run.going = false;
	j->interrupts = 0;
	if (retry)
		again(r, queue, key, r->now.boot_ns + retry_delay(s, j->run.attempt));
	else
		generation_over(r, queue, key, copy.generation, ST_OK, &copy);
	if (outcome == RUN_DEAD && free_to_retry)
		die(j);
	serial_over(r, j->run.serial, &copy);
	cancels_over(r, queue, key, &copy);
}

static void
start(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_start *out = &r->start[r->n_starts++];

	rig_check(r->n_starts <= REF_OUT);
	j->run = (struct ref_run){ .going = true,
		.serial = j->p.serial,
		.generation = coming(j),
		.attempt = j->p.attempt,
		.coalesced = j->p.coalesced };
	memcpy(j->run.payload, j->p.payload, sizeof j->run.payload);
	j->generation = j->run.generation;
	j->p = (struct ref_instance){ 0 };
	*out = (struct ref_start){ .queue = queue,
		.key = key,
		.generation = j->run.generation,
		.attempt = j->run.attempt,
		.coalesced = j->run.coalesced };
	memcpy(out->payload, j->run.payload, sizeof out->payload);
	if (r->queue[queue].s.action == ACTION_NONE) {
		r->n_starts--;
		ref_ended(r, queue, key, RUN_DONE);
	}
}

/* The runner could not start it: it is ready again, in its old place. */
void
ref_not_started(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	struct ref_run *run = &j->run;

	run->going = false;
	j->generation -= run->attempt == 1;
	(void)r;
}

/* ---- time ---- */

/* The oldest ready one that may start. */
static int
first_ready(struct ref *r, int queue)
{
	int first = -1;

	for (int k = 0; k < REF_KEYS; k++) {
		const struct ref_job *j = job_at(r, queue, k);

		if (j->p.at == JOB_READY && !j->p.after_drain && !j->run.going &&
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
	if (key < 0 || r->queue[queue].paused || running >= r->queue[queue].s.max_active)
		return false;
	start(r, queue, key);
	return true;
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
end_drains(struct ref *r)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind != W_DRAIN || !drained(r, w.queue)) {
			i++;
			continue;
		}
		reply(r, w.ticket, ST_OK);
		r->queue[w.queue].paused |= w.pause_after;
		waiter_drop(r, i);
		undrain(r, w.queue);
	}
}

static void
forget_old(struct ref *r)
{
	size_t of[REF_QUEUES] = { 0 };

	for (size_t i = r->n_records; i-- > 0;) {
		const struct ref_record *rec = &r->record[i];
		const struct queue_settings *s = &r->queue[rec->queue].s;

		if (++of[rec->queue] <= s->retention_count &&
			r->now.boot_ns < rec->ended + s->retention_ns)
			continue;
		r->n_records--;
		memmove(&r->record[i], &r->record[i + 1], (r->n_records - i) * sizeof r->record[0]);
	}
	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

			if (!ref_known(r, q, k))
				*j = (struct ref_job){ 0 };
		}
	}
}

void
ref_settle(struct ref *r)
{
	struct ref_job *j;
	int queue, key;

	while ((j = first_armed(r, -1, &queue, &key)) != NULL && j->p.due <= r->now.boot_ns) {
		place(r, queue, &j->p, j->p.due, true);
		j->p.after_drain = ref_draining(r, queue);
	}
	do {
		end_drains(r);
		for (queue = 0; queue < REF_QUEUES; queue++)
			while (start_one(r, queue))
				;
		end_drains(r);
	} while (start_one(r, 0) || start_one(r, 1) || start_one(r, 2));
	time_out(r);
	forget_old(r);
}

void
ref_stepped(struct ref *r, int64_t by_ns)
{
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (job_at(r, q, k)->p.at == JOB_ARMED && job_at(r, q, k)->p.absolute)
				job_at(r, q, k)->p.due -= by_ns;
}

/* ---- restart ---- */

static void
interrupted(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);
	bool retry = !pending(j) && !j->depth && !j->run.deleted &&
		j->interrupts < r->queue[queue].s.max_interrupts;

	record(r, queue, key, retry || pending(j) || j->depth ? RUN_INTERRUPTED : RUN_DEAD, !retry);
	if (j->run.deleted)
		r->n_records--;
	j->run.going = false;
	j->interrupts++;
	if (retry)
		again(r, queue, key, r->now.boot_ns);
	else if (!pending(j) && !j->depth && !j->run.deleted)
		die(j);
}

static void
misfired(struct ref *r, int queue, int key)
{
	struct ref_job *j = job_at(r, queue, key);

	if (j->p.at != JOB_ARMED || j->p.due > r->now.boot_ns)
		return;
	if (r->queue[queue].s.misfire == MISFIRE_SKIP)
		j->p = (struct ref_instance){ 0 };
	else if (r->queue[queue].s.misfire == MISFIRE_REARM && !j->p.absolute)
		place(r, queue, &j->p, r->now.boot_ns + j->p.delay, false);
}

void
ref_restarted(struct ref *r, struct moment now)
{
	int64_t by = now.boot_ns - r->now.boot_ns - (now.wall_ns - r->now.wall_ns);

	r->now = now;
	r->n_waiters = 0;
	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = job_at(r, q, k);

			/* Another boot: boot time counts from somewhere else. */
			j->p.due += by;
			j->p.created += by;
			j->p.after_drain = false;
			misfired(r, q, k);
			if (j->run.going)
				interrupted(r, q, k);
		}
	}
	for (size_t i = 0; i < r->n_records; i++)
		r->record[i].ended += by;
}
