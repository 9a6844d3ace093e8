#include "model/reference_int.h"

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

	if (ref_job_at(r, rec->queue, rec->key)->dead && ref_last(r, rec->queue, rec->key) == rec)
		rec->unlisted = true;
	else
		ref_record_drop(r, i);
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
		.merged = run->was.merged,
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
	struct ref_job *j = ref_job_at(r, queue, key);

	j->p = j->run.was;
	j->p.serial = 0;
	j->p.retry = true;
	j->p.absolute = false;
	j->p.attempt++;
	j->p.delay = due - r->now.boot_ns;
	ref_place(r, queue, &j->p, due, due <= r->now.boot_ns, true);
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
		ref_reply_run(r, w.ticket, w.status, run);
		r->reply[r->n_replies - 1].durable = w.durable;
		ref_waiter_drop(r, i);
	}
}

void
ref_ended(struct ref *r, int queue, int key, enum run_outcome outcome)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	const struct queue_settings *s = &r->queue[queue].s;
	bool free_to_retry = !ref_pending(j) && !j->depth && !ref_cancelling(r, queue, key) &&
		!j->run.deleted && !ref_deleting(r, queue);
	bool failed = (outcome == RUN_FAILED || outcome == RUN_TIMEOUT) && free_to_retry;
	bool retry = failed && j->run.was.attempt < s->max_attempts;
	bool dies = failed && !retry && s->max_attempts > 1;
	struct ref_record rec = make_record(r, queue, key, dies ? RUN_DEAD : outcome, !retry);

	j->run.going = false;
	j->interrupts = 0;
	ref_serial_over(r, j->run.was.serial, &rec);
	cancels_over(r, queue, key, &rec);
	if (retry)
		again(r, queue, key, r->now.boot_ns + retry_delay(s, j->run.was.attempt));
	else
		ref_generation_over(r, queue, key, rec.generation, ST_OK, &rec);
	if (dies)
		die(j);
	if (!j->run.deleted)
		keep_record(r, &rec);
}

static void
start(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	struct ref_start *out;

	j->run = (struct ref_run){ .going = true, .was = j->p, .generation = ref_coming(j) };
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
	struct ref_job *j = ref_job_at(r, queue, key);
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
		ref_generation_over(r, queue, key, j->generation, ST_OK, ref_last(r, queue, key));
	else
		for (size_t i = 0; i < r->n_waiters; i++)
			if (r->waiter[i].kind == W_WAIT && r->waiter[i].queue == queue &&
				r->waiter[i].key == key && r->waiter[i].generation == j->generation)
				r->waiter[i].generation++;
	if (!was->retry)
		p->merged = was->merged + 1;
	if (p->at == JOB_ARMED) {
		ref_serial_over(r, was->serial, ref_last(r, queue, key));
		return;
	}
	p->parked = false;
	p->seq = was->seq;
	p->serial = was->serial;
	ref_serial_over(r, newer, NULL);
}

void
ref_not_started(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	bool closed = j->depth || ref_cancelling(r, queue, key) || j->run.deleted;
	uint64_t generation = j->generation;

	j->run.going = false;
	/* The number of one that goes on as part of a newer one is not given again. */
	j->generation -= !j->run.was.retry && (closed || !ref_pending(j));
	r->queue[queue].backs_off = true;
	r->queue[queue].no_start_before = r->now.boot_ns + SEC;
	if (closed) {
		cancels_over(r, queue, key, NULL);
		ref_serial_over(r, j->run.was.serial, ref_last(r, queue, key));
		ref_generation_over(r, queue, key, generation, ST_CANCELLED, NULL);
	} else if (ref_pending(j)) {
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
		const struct ref_job *j = ref_job_at(r, queue, k);

		if (j->p.at == JOB_READY && !j->p.parked && !j->run.going &&
			(first < 0 || j->p.seq < ref_job_at(r, queue, first)->p.seq))
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
		running += ref_job_at(r, queue, k)->run.going;
	if (key < 0 || r->queue[queue].paused || r->queue[queue].backs_off ||
		running >= r->queue[queue].s.max_active)
		return false;
	start(r, queue, key);
	return true;
}

/* Nothing is left to run: but for what a drain has held, and runs before its queue goes. */
static bool
queue_ends(struct ref *r, int queue)
{
	bool held = false;

	for (int k = 0; k < REF_KEYS; k++)
		held |= ref_job_at(r, queue, k)->p.parked;
	for (int k = 0; k < REF_KEYS && held; k++)
		ref_job_at(r, queue, k)->p.parked = false;
	return !held;
}

static void
end_deletions(struct ref *r)
{
	for (int queue = 0; queue < REF_QUEUES; queue++)
		if (ref_deleting(r, queue) && ref_drained(r, queue) && queue_ends(r, queue))
			r->queue[queue].removing = true;
}

static void
remove_queues(struct ref *r)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind != W_DELETE || !r->queue[w.queue].removing) {
			i++;
			continue;
		}
		ref_reply(r, w.ticket, ST_OK)->durable = true;
		ref_waiter_drop(r, i);
	}
	for (size_t i = r->n_records; i-- > 0;)
		if (r->queue[r->record[i].queue].removing)
			ref_record_drop(r, i);
	for (int queue = 0; queue < REF_QUEUES; queue++)
		if (r->queue[queue].removing)
			r->queue[queue] = (struct ref_queue){ .gone = true };
}

static void
end_drains(struct ref *r)
{
	for (size_t i = 0; i < r->n_waiters;) {
		struct ref_waiter w = r->waiter[i];

		if (w.kind != W_DRAIN || !ref_drained(r, w.queue) ||
			(ref_deleting(r, w.queue) && !r->queue[w.queue].removing)) {
			i++;
			continue;
		}
		ref_reply(r, w.ticket, ST_OK)->durable = w.pause_after;
		r->queue[w.queue].paused |= w.pause_after;
		ref_waiter_drop(r, i);
		ref_undrain(r, w.queue);
	}
}

/* A job of which nothing is left to know begins anew. */
static void
forget_unknown(struct ref *r)
{
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (!ref_known(r, q, k))
				*ref_job_at(r, q, k) = (struct ref_job){ 0 };
}

void
ref_follow(struct ref *r)
{
	bool more;

	do {
		more = false;
		end_deletions(r);
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
		ref_reply(r, w.ticket, ST_TIMEOUT);
		ref_waiter_drop(r, i);
		ref_undrain(r, w.queue);
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
	while ((j = ref_first_armed(r, -1, &queue, &key)) != NULL && j->p.due <= r->now.boot_ns)
		ref_place(r, queue, &j->p, j->p.due, true, false);
	for (queue = 0; queue < REF_QUEUES; queue++)
		r->queue[queue].backs_off &= r->now.boot_ns < r->queue[queue].no_start_before;
	ref_follow(r);
	remove_queues(r);
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
			struct ref_job *j = ref_job_at(r, q, k);

			j->p.due -= j->p.absolute ? by_ns : 0;
			j->run.was.due -= j->run.was.absolute ? by_ns : 0;
		}
	}
}

/* ---- restart ---- */

static void
interrupted(struct ref *r, int queue, int key)
{
	struct ref_job *j = ref_job_at(r, queue, key);
	bool free_to_retry = !ref_pending(j) && !j->depth;
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
	struct ref_job *j = ref_job_at(r, queue, key);
	const struct queue_settings *s = &r->queue[queue].s;

	if (j->p.retry)
		return;
	if (s->misfire == MISFIRE_SKIP)
		j->p = (struct ref_instance){ 0 };
	if (s->misfire == MISFIRE_REARM && !j->p.absolute) {
		j->p.created = r->now.boot_ns; /* max_wait begins anew too */
		ref_place(r, queue, &j->p, r->now.boot_ns + j->p.delay, false, false);
	}
}

/* The running job that was handed over first, or NULL. */
static struct ref_job *
first_running(struct ref *r, int *queue, int *key)
{
	struct ref_job *first = NULL;

	for (int q = 0; q < REF_QUEUES; q++) {
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = ref_job_at(r, q, k);

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
			ref_record_drop(r, i);
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (!ref_job_at(r, q, k)->stored)
				*ref_job_at(r, q, k) = (struct ref_job){ 0 };
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
	memset(r->completion, 0, sizeof r->completion);
	lose_unstored(r);
	for (size_t i = 0; i < r->n_records; i++) {
		r->record[i].ended += by;
		r->record[i].merged = 0;
	}
	for (int i = 0; i < REF_IDS; i++)
		r->answer[i].until += by;
	for (int q = 0; q < REF_QUEUES; q++) {
		r->queue[q].backs_off = false;
		r->queue[q].removing = false;
		for (int k = 0; k < REF_KEYS; k++) {
			struct ref_job *j = ref_job_at(r, q, k);

			/* Another boot: boot time counts from somewhere else. */
			j->p.due += by;
			j->p.created += by;
			j->p.parked = false;
			j->p.merged = j->run.was.merged = 0;
		}
	}
	while (first_running(r, &queue, &key))
		interrupted(r, queue, key);
	/* Oldest first; each is put aside until all have been seen. */
	while (ref_first_armed(r, -1, &queue, &key) &&
		ref_job_at(r, queue, key)->p.due <= now.boot_ns) {
		misfired(r, queue, key);
		if (ref_job_at(r, queue, key)->p.at == JOB_ARMED)
			ref_job_at(r, queue, key)->p.at = JOB_HELD;
	}
	for (int q = 0; q < REF_QUEUES; q++)
		for (int k = 0; k < REF_KEYS; k++)
			if (ref_job_at(r, q, k)->p.at == JOB_HELD)
				ref_job_at(r, q, k)->p.at = JOB_ARMED;
	forget_unknown(r);
}
