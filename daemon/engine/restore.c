/*
 * Recovery: the stored state becomes the engine's, before its first step.
 *
 * Things come one by one; engine_recovered() then does what needs all of them:
 * it puts the ready jobs in their order, ends the runs that were going on as
 * interrupted, which puts them in front of what was behind them, and applies the
 * misfire policies to what fell due meanwhile, and spreads what runs of that in
 * queues that have a restart_rate.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/export.h"

/* ---- queues ---- */

int
engine_restore_queue(struct engine *e, struct str name, const struct queue_settings *s, bool paused)
{
	struct queue *q;
	int err;

	if (!queue_name_inner_valid(name))
		return ERR_DAMAGED;
	e->spaces = e->spaces || !queue_name_valid(name);
	q = queue_find(e, name);
	if (!q) {
		err = queue_new(e, name, s, &q);
		if (err < 0)
			return err;
	}
	/* `default` is there already, and was made with other settings. */
	queue_turn_leave(q);
	q->s = *s;
	pools_place_queue(e, q);
	q->paused = paused;
	q->dirty.stored = true;
	return 0;
}

/* ---- jobs ---- */

void
engine_expect(struct engine *e, uint64_t jobs)
{
	index_expect(&e->keys, jobs < e->cfg.max_jobs ? jobs : e->cfg.max_jobs);
}

/* One that needs no side. */
static bool
saved_narrow(const struct job_saved *s)
{
	return s->pending == JOB_ARMED && !s->running && s->disable_depth == 0 && !s->dead &&
		s->generation == 0 && s->attempt == 0 && s->interrupts == 0 && !s->retry &&
		s->slack_ns == 0 && s->max_wait_ns == 0 && delay_fits(s->delay_ns);
}

static void
load_side(struct side *side, const struct job_saved *s)
{
	side->generation = s->generation;
	side->retry = s->retry;
	side->attempt = s->retry && s->attempt > 0 ? s->attempt - 1 : s->attempt;
	side->disable_depth = s->disable_depth;
	side->dead = s->dead;
	side->slack_ns = s->slack_ns;
	side->max_wait_ns = s->max_wait_ns;
}

void
job_load(struct job *j, struct moment now, const struct job_saved *s)
{
	if (j->sided)
		load_side(job_side(j), s);
	j->coalesced = s->coalesced;
	job_set_delay(j, s->delay_ns);
	j->created_ns = moment_boot(now, s->created_wall_ns);
}

static void
restore_fields(struct job *j, struct moment now, const struct job_saved *s, bool same_boot)
{
	bool stored = s->id > 0;

	job_load(j, now, s);
	j->level = (uint8_t)s->level;
	j->durable = stored;
	j->stored = stored;
	j->seq = s->seq;
	if (j->sided) {
		job_side(j)->dirty.stored = stored;
		job_side(j)->interrupts =
			s->interrupts < UINT16_MAX ? (uint16_t)s->interrupts : UINT16_MAX;
	}
	j->absolute = s->absolute;
	j->due_ns = s->absolute ? s->due_wall_ns
		: same_boot     ? s->due_boot_ns
				: moment_boot(now, s->due_wall_ns);
}

/* What was running: ended by engine_recovered. */
static int
restore_running(struct engine *e, struct job *j, const struct job_saved *s)
{
	bool alone = s->pending == JOB_IDLE;
	struct run *run = job_run_new(e, j);
	int err;

	if (!run)
		return -ENOMEM;
	err = alone ? payload_of_parts(e, j->q, s->parts, s->n_parts, s->command, &run->payload)
		    : payload_of_parts(
			      e, j->q, s->run_parts, s->n_run_parts, s->run_command, &run->payload);
	if (err < 0) {
		job_run_free(e, run);
		return err;
	}
	run->started = true;
	run->seq = s->seq;
	run->created_ns = j->created_ns;
	run->due_wall_ns = s->run_due_wall_ns;
	run->started_wall_ns = s->run_started_wall_ns;
	run->coalesced = s->run_coalesced;
	job_side(j)->run = run;
	return 0;
}

static int
restore_pending(struct engine *e, struct job *j, const struct job_saved *s)
{
	int err = 0;

	if (s->pending != JOB_IDLE || s->dead)
		err = payload_of_parts(
			e, j->q, s->parts, s->n_parts, s->command, job_payload_at(j));
	if (err < 0)
		return err;
	if (s->pending == JOB_ARMED)
		return job_arm_as(e, j, j->absolute, j->due_ns, s->seq);
	/* Its place among the others is known when all are here: idle until then, and pinned. */
	if (s->pending == JOB_READY && !s->running)
		err = timer_set(&e->restored, &j->timer, 0, s->seq);
	if (err == 0 && timer_armed(&j->timer))
		job_side(j)->pins++;
	return err;
}

static enum jstate
restored_state(const struct job_saved *s)
{
	if (s->disable_depth > 0)
		return s->running ? JS_RX : JS_X;
	if (s->pending == JOB_ARMED)
		return s->running ? JS_RA : JS_A;
	if (s->pending == JOB_READY && s->running)
		return JS_RQ;
	return s->running ? JS_R : JS_I;
}

static bool
saved_valid(const struct job_saved *s)
{
	bool pending = s->pending != JOB_IDLE;

	if (s->pending != JOB_IDLE && s->pending != JOB_ARMED && s->pending != JOB_READY)
		return false;
	if (pending && (s->disable_depth > 0 || s->dead))
		return false;
	if ((s->command && !payload_command_valid(s->parts, s->n_parts)) ||
		(s->run_command && !payload_command_valid(s->run_parts, s->n_run_parts)))
		return false;
	return key_valid(s->key) && !(s->dead && s->running);
}

static int
restore_job(struct engine *e, struct job *j, const struct job_saved *s)
{
	enum jstate state = restored_state(s);
	int err = restore_pending(e, j, s);

	if (err == 0 && s->running)
		err = restore_running(e, j, s);
	if (err == 0) {
		/* A ready one is idle until recover_ready: so long it is on a timer of its own. */
		if (state != JS_I)
			job_enter(e, j, OP_RESTORE, state);
		/* Its run ends last of all: then it finds its place. */
		if (state == JS_RQ)
			queue_ready_aside(j);
		/* Now, not at the end: so that never more is held than all of them need. */
		job_narrow(e, j);
		return 0;
	}
	if (s->pending == JOB_ARMED && timer_armed(&j->timer))
		(void)wheel_del(j->absolute ? &e->wall : &e->boot, j);
	else if (s->pending != JOB_ARMED)
		timer_del(&e->restored, &j->timer);
	payload_free(e, job_payload(j));
	*job_payload_at(j) = NULL;
	if (j->sided) {
		job_side(j)->dead = false;
		job_side(j)->dirty.stored = false;
	}
	j->stored = false;
	if (s->id > 0) {
		(void)ids_bind(&e->ids, job_number(e, j), 0);
		ids_give(&e->ids, s->id);
	}
	job_unmake(e, j);
	return err;
}

/* Takes the number that the store knows it by; 0: it does not. */
static int
restore_id(struct engine *e, struct job *j, const struct job_saved *s)
{
	int err = s->id > 0 ? ids_take_this(&e->ids, s->id) : 0;

	if (err == 0 && s->id == 0)
		return 0;

	if (err == 0 && ids_bind(&e->ids, job_number(e, j), s->id) < 0) {
		ids_give(&e->ids, s->id);
		err = -ENOMEM;
	}
	if (err < 0)
		job_unmake(e, j);
	return err;
}

void
engine_restore_ahead(struct engine *e, struct str queue, struct str key)
{
	struct queue *q = queue_find(e, queue);

	if (!q || key.n == 0)
		return;
	e->coming.key = key.p;
	e->coming.n = key.n;
	e->coming.q = q;
	e->coming.hash = job_hash(e, q, key);
	index_prefetch(&e->keys, e->coming.hash);
}

/* Told of once, used once: another key may come to lie there. */
static uint64_t
hash_of(struct engine *e, const struct queue *q, struct str key)
{
	bool came = e->coming.q == q && e->coming.key == key.p && e->coming.n == key.n;

	e->coming.q = NULL;
	return came ? e->coming.hash : job_hash(e, q, key);
}

int
engine_restore_job(struct engine *e, struct moment now, const struct job_saved *s, bool same_boot)
{
	return s->id > 0 ? job_restore(e, now, s, same_boot) : ERR_DAMAGED;
}

int
job_restore(struct engine *e, struct moment now, const struct job_saved *s, bool same_boot)
{
	struct queue *q = queue_find(e, s->queue);
	struct job *j;
	int err;

	e->now = now;
	if (!q || !saved_valid(s))
		return ERR_DAMAGED;
	err = job_new_unique(e, q, s->key, hash_of(e, q, s->key), saved_narrow(s), &j);
	if (err == -EEXIST)
		return ERR_DAMAGED;
	if (err == 0)
		err = restore_id(e, j, s);
	if (err < 0)
		return err;
	restore_fields(j, now, s, same_boot);
	if (s->command || s->run_command)
		pools_note_command(e, q);
	if (e->seq < s->seq)
		e->seq = s->seq;
	return restore_job(e, j, s);
}

/* ---- finished runs ---- */

static int
restore_record(struct engine *e, const struct run_record *from, struct record **out)
{
	struct record *r;
	char *copy = NULL;

	if (record_new(e, &r) < 0)
		return -ENOMEM;
	if (from->output.n > 0) {
		copy = x_strndup(from->output.p, from->output.n);
		if (!copy) {
			record_unref(e, r);
			return -ENOMEM;
		}
		e->stats.bytes += from->output.n;
	}
	r->r = *from;
	r->r.output = (struct str){ copy, from->output.n };
	*out = r;
	return 0;
}

int
engine_restore_run(struct engine *e, uint64_t run_seq, const struct run_record *from)
{
	struct record *r;
	int err = record_restore(e, run_seq, from, &r);

	if (err == 0)
		r->dirty.stored = true;
	return err;
}

int
record_restore(
	struct engine *e, uint64_t run_seq, const struct run_record *from, struct record **out)
{
	struct queue *q = queue_find(e, from->queue);
	struct job *j = q && key_valid(from->key) ? job_find(e, q, from->key) : NULL;
	struct record *r;

	if (!j)
		return ERR_DAMAGED;
	if (job_widen(e, j) < 0 || restore_record(e, from, &r) < 0)
		return -ENOMEM;
	r->r.queue = q->name;
	r->r.key = job_key(j);
	r->seq = run_seq;
	if (e->run_seq < run_seq)
		e->run_seq = run_seq;
	history_link(e, j, r);
	record_unref(e, r);
	*out = r;
	return 0;
}

/* ---- all of it ---- */

static void
recover_records(struct engine *e)
{
	list_each(q, &e->queues, struct queue, of_engine) {
		list_each(r, &q->records, struct record, of_queue)
			r->ended_ns = moment_boot(e->now, r->r.ended_wall_ns);
		history_schedule(e, q);
	}
}

static void
recover_run(struct engine *e, struct job *j)
{
	const struct queue_settings *s = &j->q->s;
	/* A worker of our own is ended with the processes of the daemon before. */
	bool leased = s->action == ACTION_LEASE && !s->handler[0];
	const struct run_end end = {
		.outcome = RUN_INTERRUPTED,
		.exit_code = -1,
		.has_retry_after = leased,
		.retry_after_ns = s->lease_ns,
	};

	if (side_of(j)->run->mapped)
		carried_run_goes_on(e, side_of(j)->run);
	else if (!leased || lease_orphan(e, side_of(j)->run) < 0)
		job_run_end(e, side_of(j)->run, &end);
	else {
		side_of(j)->run->colour = queue_colour_join(j->q);
		/* Without memory it goes uncounted, as one that the daemon does not know. */
		(void)tenant_run_started(e, side_of(j)->run);
	}
}

static void
recover_ready(struct engine *e)
{
	struct timer *t;

	while ((t = timers_first(&e->restored)) != NULL) {
		struct job *j = container_of(t, struct job, timer);

		timer_del(&e->restored, t);
		job_side(j)->pins--;
		job_enter(e, j, OP_RESTORE, JS_Q);
	}
	timers_done(&e->restored);
}

/* A retry is no deadline that anybody set: it runs, whatever the policy. Without memory, too. */
static void
recover_overdue(struct engine *e, struct job *j)
{
	int64_t delay_ns = sat_add(job_delay(j), side_of(j)->slack_ns);

	if (j->state != JS_A || side_of(j)->retry || job_due_boot(e->now, j) > e->now.boot_ns)
		return;
	switch (j->q->s.misfire) {
	case MISFIRE_RUN:
		return;
	case MISFIRE_SKIP:
		if (job_widen(e, j) < 0)
			return;
		e->stats.misfires_skipped++;
		job_drop_pending(e, j, OP_CANCEL, JS_I);
		break;
	case MISFIRE_REARM:
		if (job_delay(j) < 0 || job_widen(e, j) < 0 ||
			job_arm(e, j, false, sat_add(e->now.boot_ns, delay_ns)) < 0)
			return;
		/* As if its senders had reached us now: max_wait begins anew as well. */
		j->created_ns = e->now.boot_ns;
		e->stats.misfires_rearmed++;
		break;
	}
	job_changed(e, j);
}

/* ---- what was missed, spread ---- */

struct missed {
	struct job *j;
	int64_t due_ns;
};

static int
missed_order(const void *a, const void *b)
{
	const struct missed *x = a, *y = b;

	if (x->due_ns != y->due_ns)
		return x->due_ns < y->due_ns ? -1 : 1;
	return x->j->seq < y->j->seq ? -1 : 1;
}

static bool
missed(const struct engine *e, const struct job *j)
{
	return j && j->state == JS_A && j->q->s.restart_rate.n > 0 &&
		job_due_boot(e->now, j) <= e->now.boot_ns;
}

/* The oldest at once, the others one interval after another. One that can't be armed for want of
 * memory stays due. */
static void
spread(struct engine *e, struct missed *all, size_t n)
{
	qsort(all, n, sizeof *all, missed_order);
	list_each(q, &e->queues, struct queue, of_engine)
		q->spread = 0;
	for (size_t i = 0; i < n; i++) {
		struct job *j = all[i].j;
		int64_t after_ns;

		if (__builtin_mul_overflow(
			    j->q->spread++, rate_interval(&j->q->s.restart_rate), &after_ns))
			after_ns = INT64_MAX;
		if (after_ns == 0 || job_arm(e, j, false, sat_add(e->now.boot_ns, after_ns)) < 0)
			continue;
		e->stats.misfires_paced++;
		job_changed(e, j);
	}
}

/* Without the memory to know their order they come as they are. */
static void
recover_spread(struct engine *e)
{
	struct missed *all;
	size_t n = 0, at = 0;

	for (uint32_t i = 0; i < slab_top(&e->jobs); i++)
		n += missed(e, job_live(e, i));
	all = n > 0 ? x_zalloc(n * sizeof *all) : NULL;
	if (!all)
		return;
	for (uint32_t i = 0; i < slab_top(&e->jobs) && at < n; i++) {
		struct job *j = job_live(e, i);

		if (missed(e, j) && job_widen(e, j) == 0)
			all[at++] = (struct missed){ j, job_due_boot(e->now, j) };
	}
	spread(e, all, at);
	for (size_t i = 0; i < at; i++)
		job_narrow(e, all[i].j);
	x_free(all);
}

void
engine_recovered(struct engine *e, struct moment now)
{
	e->now = now;
	index_expect(&e->keys, 0);
	e->coming.q = NULL;
	recover_records(e);
	answers_recovered(e);
	recover_ready(e);
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		struct job *j = job_live(e, i);

		if (j && side_of(j)->run)
			recover_run(e, j);
	}
	for (uint32_t i = 0; i < slab_top(&e->jobs); i++) {
		struct job *j = job_live(e, i);

		if (!j)
			continue;
		/* Who was never away has missed nothing. */
		if (!e->carried)
			recover_overdue(e, j);
		job_settle(e, j);
		if (!job_gone(j))
			job_narrow(e, j);
	}
	if (!e->carried)
		recover_spread(e);
	e->carried = false;
}
