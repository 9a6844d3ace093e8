/*
 * A job and its states.
 *
 *                 arm            expire            start
 *        I ------------------> A -------> Q -----------------> R
 *        ^ \______ now ________________/  ^ \                 /|\
 *        |                     ^          |  \_ not started _/ | |
 *        |<------ cancel ------+----------+                    | |
 *        |<------ end ------------------------------------------ |
 *        |                                                       |
 *        |      A <--- end --- RA <--- arm ---- R, RQ            |
 *        |      Q <--- end --- RQ <--- now ---- R, RA            |
 *        |      A, Q <--- retry --- R                            |
 *        |                                                       |
 *        +<---- end ---- RX <--- cancel wait, disable --- R, RA, RQ
 *        X <---- end ---- RX;  X <--- disable --- I, A, Q;  I <--- enable --- X
 *
 * Every operation on a job is a row of the table below, every state a column:
 * the reply word and where it may lead. An update first becomes one of three
 * rows, by its mode and what is pending:
 *
 *   mode      nothing pending   on the timer              ready
 *   set       arm or now        arm or now;               arm or now
 *                               inside the slack: stay
 *   keep      arm or now        stay (a waiting retry:    stay
 *                               as earlier)
 *   earlier   arm or now        earlier: arm or now;      stay
 *                               else stay
 *   later     arm or now        later: arm or now;        d > 0: arm; else stay
 *                               else stay
 *   any mode with if_pending and nothing pending: stay
 */
#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"

/* ---- the table ---- */

#define B(state) (1u << JS_##state)
#define C(word, next) \
	{ \
		ST_##word, next \
	}
#define NO \
	{ \
		0, 0 \
	}

/* clang-format off */
const struct job_cell job_table[N_JOB_OPS][N_JSTATES] = {
[OP_ARM] = {
	[JS_I]  = C(CREATED, B(A)),
	[JS_A]  = C(UPDATED_TIMER, B(A)),
	[JS_Q]  = C(UPDATED_READY, B(A)),
	[JS_R]  = C(REQUEUED_RUNNING, B(RA)),
	[JS_RA] = C(UPDATED_TIMER, B(RA)),
	[JS_RQ] = C(UPDATED_READY, B(RA)),
	[JS_X]  = C(REFUSED_DISABLED, B(X)),
	[JS_RX] = C(REFUSED_DISABLED, B(RX)),
},
[OP_NOW] = {
	[JS_I]  = C(CREATED, B(Q)),
	[JS_A]  = C(UPDATED_TIMER, B(Q)),
	[JS_Q]  = C(UPDATED_READY, B(Q)),
	[JS_R]  = C(REQUEUED_RUNNING, B(RQ)),
	[JS_RA] = C(UPDATED_TIMER, B(RQ)),
	[JS_RQ] = C(UPDATED_READY, B(RQ)),
	[JS_X]  = C(REFUSED_DISABLED, B(X)),
	[JS_RX] = C(REFUSED_DISABLED, B(RX)),
},
[OP_STAY] = {
	[JS_I]  = C(IDLE, B(I)),
	[JS_A]  = C(UNCHANGED, B(A)),
	[JS_Q]  = C(UNCHANGED, B(Q)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(R)),
	[JS_RA] = C(UNCHANGED, B(RA)),
	[JS_RQ] = C(UNCHANGED, B(RQ)),
	[JS_X]  = C(REFUSED_DISABLED, B(X)),
	[JS_RX] = C(REFUSED_DISABLED, B(RX)),
},
[OP_CANCEL] = {
	[JS_I]  = C(IDLE, B(I)),
	[JS_A]  = C(CANCELLED, B(I)),
	[JS_Q]  = C(CANCELLED, B(I)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(R)),
	[JS_RA] = C(CANCELLED_RUNNING, B(R)),
	[JS_RQ] = C(CANCELLED_RUNNING, B(R)),
	[JS_X]  = C(IDLE, B(X)),
	[JS_RX] = C(NOT_PENDING_RUNNING, B(RX)),
},
[OP_CANCEL_WAIT] = {
	[JS_I]  = C(IDLE, B(I)),
	[JS_A]  = C(CANCELLED, B(I)),
	[JS_Q]  = C(CANCELLED, B(I)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(RX)),
	[JS_RA] = C(CANCELLED_RUNNING, B(RX)),
	[JS_RQ] = C(CANCELLED_RUNNING, B(RX)),
	[JS_X]  = C(IDLE, B(X)),
	[JS_RX] = C(NOT_PENDING_RUNNING, B(RX)),
},
[OP_DISABLE] = {
	[JS_I]  = C(IDLE, B(X)),
	[JS_A]  = C(CANCELLED, B(X)),
	[JS_Q]  = C(CANCELLED, B(X)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(RX)),
	[JS_RA] = C(CANCELLED_RUNNING, B(RX)),
	[JS_RQ] = C(CANCELLED_RUNNING, B(RX)),
	[JS_X]  = C(IDLE, B(X)),
	[JS_RX] = C(NOT_PENDING_RUNNING, B(RX)),
},
[OP_ENABLE] = {
	[JS_I]  = C(INVALID, B(I)),
	[JS_A]  = C(INVALID, B(A)),
	[JS_Q]  = C(INVALID, B(Q)),
	[JS_R]  = C(INVALID, B(R)),
	[JS_RA] = C(INVALID, B(RA)),
	[JS_RQ] = C(INVALID, B(RQ)),
	[JS_X]  = C(OK, B(X) | B(I)),
	[JS_RX] = C(OK, B(RX) | B(R)),
},
[OP_FLUSH] = {
	[JS_I]  = C(IDLE, B(I)),
	[JS_A]  = C(OK, B(A)),
	[JS_Q]  = C(OK, B(Q)),
	[JS_R]  = C(OK, B(R)),
	[JS_RA] = C(OK, B(RA)),
	[JS_RQ] = C(OK, B(RQ)),
	[JS_X]  = C(IDLE, B(X)),
	[JS_RX] = C(OK, B(RX)),
},
[OP_FLUSH_NOW] = {
	[JS_I]  = C(IDLE, B(I)),
	[JS_A]  = C(OK, B(Q)),
	[JS_Q]  = C(OK, B(Q)),
	[JS_R]  = C(OK, B(R)),
	[JS_RA] = C(OK, B(RQ)),
	[JS_RQ] = C(OK, B(RQ)),
	[JS_X]  = C(IDLE, B(X)),
	[JS_RX] = C(OK, B(RX)),
},
[OP_KICK] = {
	[JS_I]  = C(IDLE, B(I)), /* a dead one: OP_NOW */
	[JS_A]  = C(UPDATED_TIMER, B(Q)),
	[JS_Q]  = C(UNCHANGED, B(Q)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(R)),
	[JS_RA] = C(UPDATED_TIMER, B(RQ)),
	[JS_RQ] = C(UNCHANGED, B(RQ)),
	[JS_X]  = C(REFUSED_DISABLED, B(X)),
	[JS_RX] = C(REFUSED_DISABLED, B(RX)),
},
[OP_DELETE] = {
	[JS_I]  = C(OK, B(I)),
	[JS_A]  = C(CANCELLED, B(I)),
	[JS_Q]  = C(CANCELLED, B(I)),
	[JS_R]  = C(NOT_PENDING_RUNNING, B(R)),
	[JS_RA] = C(CANCELLED_RUNNING, B(R)),
	[JS_RQ] = C(CANCELLED_RUNNING, B(R)),
	[JS_X]  = C(OK, B(X)),
	[JS_RX] = C(NOT_PENDING_RUNNING, B(RX)),
},
[OP_EXPIRE] = {
	[JS_A]  = C(OK, B(Q)),
	[JS_RA] = C(OK, B(RQ)),
},
[OP_START] = {
	[JS_Q]  = C(OK, B(R)),
},
[OP_NOT_STARTED] = {
	[JS_R]  = C(OK, B(Q)),
	[JS_RA] = C(OK, B(A)),
	[JS_RQ] = C(OK, B(Q)),
},
[OP_END] = {
	[JS_R]  = C(OK, B(I)),
	[JS_RA] = C(OK, B(A)),
	[JS_RQ] = C(OK, B(Q)),
	[JS_RX] = C(OK, B(I) | B(X)),
},
[OP_RETRY] = {
	[JS_R]  = C(OK, B(A) | B(Q)),
},
[OP_REOPEN] = {
	[JS_RX] = C(OK, B(R)),
},
[OP_RESTORE] = {
	[JS_I]  = C(OK, B(I) | B(A) | B(Q) | B(R) | B(RA) | B(RQ) | B(X) | B(RX)),
	/* Its run was deleted with an earlier instance, and goes on over an upgrade. */
	[JS_A]  = C(OK, B(RA)),
	[JS_X]  = C(OK, B(RX)),
},
};
/* clang-format on */

static const char *const jstate_names[N_JSTATES] = {
#define X(state, name, running, pend) [state] = name,
	JSTATE_TABLE(X)
#undef X
};

static const char *const job_op_names[N_JOB_OPS] = {
#define X(op, name) [op] = name,
	JOB_OP_TABLE(X)
#undef X
};

/* A change that the table does not know is a bug: say which. */
static void
check_edge(const struct job *j, enum job_op op, enum jstate next)
{
	char what[80];

	if (job_table[op][j->state].next & (1u << next))
		return;
	(void)snprintf(what, sizeof what, "%s leads from %s to %s", job_op_names[op],
		jstate_names[j->state], jstate_names[next]);
	wq_assert_fail(__func__, __FILE__, __LINE__, what);
}

/* ---- change of state ---- */

static struct wheel *
job_wheel(struct engine *e, bool absolute)
{
	return absolute ? &e->wall : &e->boot;
}

/* Off whatever it is on; what job_put_back takes. */
static uint32_t
job_disarm(struct engine *e, struct job *j)
{
	if (j->place != ON_EXPEDITED)
		return wheel_del(job_wheel(e, j->place == ON_WALL), j);
	timer_del(&j->q->sweep.found, &j->timer);
	return 0;
}

static void
job_put_back(struct engine *e, struct job *j, uint8_t place, uint32_t was)
{
	if (place != ON_EXPEDITED)
		wheel_undel(job_wheel(e, place == ON_WALL), j, was);
	/* The heap it came from has room: it shrinks to half when a quarter is used. */
	else if (timer_set(&j->q->sweep.found, &j->timer, job_due_boot(e->now, j), j->seq) < 0)
		wq_assert(!"a timer's place is lost");
}

int
job_arm_as(struct engine *e, struct job *j, bool absolute, int64_t due_ns, uint64_t seq)
{
	uint8_t to = absolute ? ON_WALL : ON_BOOT, from = j->place;
	bool move = timer_armed(&j->timer) && from != to;
	int64_t now_ns = absolute ? e->now.wall_ns : e->now.boot_ns;
	uint32_t was = move ? job_disarm(e, j) : 0;
	int err = wheel_set(job_wheel(e, absolute), j, now_ns, due_ns, seq);

	if (err < 0) {
		if (move)
			job_put_back(e, j, from, was);
		return err;
	}
	j->place = to & 3;
	j->absolute = absolute;
	return 0;
}

int
job_arm(struct engine *e, struct job *j, bool absolute, int64_t due_ns)
{
	return job_arm_as(e, j, absolute, due_ns, ++e->seq);
}

static void
count_pending(struct engine *e, struct job *j, enum pend was, enum pend is)
{
	int armed = (is == PEND_TIMER) - (was == PEND_TIMER);
	int ready = (is == PEND_READY) - (was == PEND_READY);

	j->q->n_armed += (uint64_t)(int64_t)armed;
	e->stats.armed += (uint64_t)(int64_t)armed;
	j->q->n_ready += (uint64_t)(int64_t)ready;
	e->stats.ready += (uint64_t)(int64_t)ready;
}

static void
count_running(struct engine *e, struct job *j, bool was, bool is)
{
	j->q->n_running += (uint64_t)((int64_t)is - (int64_t)was);
	e->stats.running += (uint64_t)((int64_t)is - (int64_t)was);
}

/* A ready job of a queue changes its place: only these put it somewhere else. */
static bool
requeues(enum job_op op)
{
	return op == OP_NOW || op == OP_NOT_STARTED;
}

static void
ready_leave(struct engine *e, struct job *j, enum job_op op)
{
	queue_ready_take(e, j);
	if (op != OP_START)
		queue_ready_dropped(e, j);
	job_side(j)->colour = NULL;
}

static void
ready_enter(struct engine *e, struct job *j, enum job_op op)
{
	uint64_t seq = j->seq;

	if (op != OP_NOT_STARTED) {
		queue_ready_put(e, j);
		if (op == OP_RESTORE)
			j->seq = seq;
		return;
	}
	job_side(j)->colour = side_of(j)->run->colour;
	j->seq = side_of(j)->run->seq;
	queue_ready_back(e, j);
}

/* The end of a run is told with its record. */
static void
tell_entered(struct engine *e, const struct job *j, enum job_op op, enum pend was, bool moves)
{
	enum pend is = job_pend(j);

	if (op == OP_START)
		tell_job(e, EVENT_STARTED, j);
	else if (is == PEND_TIMER && was == PEND_NONE)
		tell_job(e, EVENT_ARMED, j);
	else if (is == PEND_TIMER && op == OP_ARM)
		tell_job(e, EVENT_UPDATED, j);
	else if (is == PEND_READY && moves)
		tell_job(e, EVENT_READY, j);
	else if (is == PEND_NONE && was != PEND_NONE)
		tell_job(e, EVENT_CANCELLED, j);
}

void
job_enter(struct engine *e, struct job *j, enum job_op op, enum jstate next)
{
	enum pend was = job_pend(j), is = jstate_pend(next);
	bool moves = was != is || (is == PEND_READY && requeues(op));

	check_edge(j, op, next);
	if (was == PEND_TIMER && is != PEND_TIMER)
		(void)job_disarm(e, j);
	if (was == PEND_READY && moves)
		ready_leave(e, j, op);
	count_pending(e, j, was, is);
	count_running(e, j, job_running(j), jstate_running(next));
	j->state = (uint8_t)next;
	if (is == PEND_READY && moves)
		ready_enter(e, j, op);
	else if (side_of(j)->aside && !job_running(j))
		queue_ready_back(e, j);
	wq_assert(timer_armed(&j->timer) == (is == PEND_TIMER));
	if (__builtin_expect(e->watched, false))
		tell_entered(e, j, op, was, moves);
	queue_changed(e, j->q);
}

void
job_apply(struct engine *e, struct job *j, enum job_op op)
{
	unsigned next = job_table[op][j->state].next;

	wq_assert(next != 0 && (next & (next - 1)) == 0);
	job_enter(e, j, op, (enum jstate)__builtin_ctz(next));
}

/* ---- the record ---- */

uint64_t
job_hash(const struct engine *e, const struct queue *q, struct str key)
{
	return siphash13(e->cfg.seed, key.p, key.n) ^ q->salt;
}

static struct job *
find_hashed(const struct engine *e, const struct queue *q, struct str key, uint64_t hash)
{
	const uint64_t *slot = index_slot(&e->keys, hash);
	uint32_t i;

	while (slot && (i = index_next(&slot, hash)) != INDEX_NONE) {
		struct job *j = job_at(e, i);

		if (j->q == q && str_eq(job_key(j), key))
			return j;
	}
	return NULL;
}

struct job *
job_find(const struct engine *e, const struct queue *q, struct str key)
{
	return find_hashed(e, q, key, job_hash(e, q, key));
}

/* By way of an integer: nothing is written through it, as nothing may be. */
#define ALONE(l) \
	{ \
		(struct list *)(uintptr_t) & (l), (struct list *)(uintptr_t) & (l) \
	}

/* clang-format off */
const struct side side_none = {
	.dirty.link = ALONE(side_none.dirty.link),
	.ready = ALONE(side_none.ready),
	.records = ALONE(side_none.records),
};
/* clang-format on */

int
job_widen(struct engine *e, struct job *j)
{
	struct payload *payload = j->ext.payload;
	struct side *side;

	if (j->sided)
		return 0;
	side = slab_take(&e->sides);
	if (!side)
		return -ENOMEM;
	*side = (struct side){ .job = j, .payload = payload };
	dirty_init(&side->dirty, DIRTY_JOB);
	side->dirty.stored = j->stored;
	list_init(&side->ready);
	list_init(&side->records);
	j->ext.side = side;
	j->sided = true;
	return 0;
}

static bool
side_says_nothing(const struct job *j, const struct side *s)
{
	return j->state == JS_A && j->delay_ms != DELAY_ASIDE && !list_linked(&s->dirty.link) &&
		!s->dirty.gone && s->pins == 0 && s->generation == 0 && s->attempt == 0 &&
		s->disable_depth == 0 && list_empty(&s->records) && s->slack_ns == 0 &&
		s->max_wait_ns == 0 && s->interrupts == 0 && !s->retry && !s->appended;
}

void
job_narrow(struct engine *e, struct job *j)
{
	struct payload *payload;
	struct side *s;

	if (!j->sided || !side_says_nothing(j, j->ext.side))
		return;
	s = j->ext.side;
	wq_assert(!s->run && !s->colour && !list_linked(&s->ready) && !s->dead && !s->aside);
	j->stored = s->dirty.stored;
	payload = s->payload;
	x_free(s->waits);
	slab_give(&e->sides, s);
	j->sided = false;
	j->ext.payload = payload;
}

static int
new_hashed(struct engine *e, struct queue *q, struct str key, uint64_t hash, bool narrow,
	struct job **out)
{
	struct job *j;

	if (e->stats.jobs >= e->cfg.max_jobs)
		return ERR_LIMIT;
	j = slab_take(&e->jobs);
	if (!j)
		return -ENOMEM;
	*j = (struct job){ .magic = JOB_MAGIC, .q = q, .key_n = (uint8_t)key.n };
	j->key = job_key_copy(e, key);
	if (!j->key || (!narrow && job_widen(e, j) < 0) ||
		index_add(&e->keys, hash, job_number(e, j)) < 0) {
		job_free(e, j);
		return -ENOMEM;
	}
	j->level = LEVEL_MEMORY;
	j->state = JS_I;
	e->asked = j;
	q->n_jobs++;
	q->n_bytes += key.n;
	e->stats.jobs++;
	*out = j;
	return 0;
}

int
job_new(struct engine *e, struct queue *q, struct str key, struct job **out)
{
	if (q->n_jobs >= q->s.max_jobs)
		return ERR_LIMIT;
	return new_hashed(e, q, key, job_hash(e, q, key), false, out);
}

int
job_new_unique(struct engine *e, struct queue *q, struct str key, uint64_t hash, bool narrow,
	struct job **out)
{
	return find_hashed(e, q, key, hash) ? -EEXIST : new_hashed(e, q, key, hash, narrow, out);
}

void
job_unmake(struct engine *e, struct job *j)
{
	if (job_widen(e, j) == 0) {
		job_settle(e, j);
		return;
	}
	index_del(&e->keys, job_hash(e, j->q, job_key(j)), job_number(e, j));
	j->q->n_jobs--;
	e->stats.jobs--;
	job_free(e, j);
}

void
job_settle(struct engine *e, struct job *j)
{
	const struct side *s = side_of(j);

	if (j->state != JS_I || s->dead || s->pins || !list_empty(&s->records) || s->dirty.gone)
		return;
	wq_assert(!s->payload && !s->run);
	index_del(&e->keys, job_hash(e, j->q, job_key(j)), job_number(e, j));
	j->q->n_jobs--;
	j->q->n_bytes -= j->key_n;
	e->stats.jobs--;
	x_free(s->waits);
	job_side(j)->waits = NULL;
	queue_pin(j->q);
	dirty_gone(e, &job_side(j)->dirty);
}

void
job_free(struct engine *e, struct job *j)
{
	CHECK_OBJ(j, JOB_MAGIC);
	if (j->sided)
		slab_give(&e->sides, j->ext.side);
	job_key_free(e, j);
	j->magic = 0;
	slab_give(&e->jobs, j);
}

void
job_undead(struct engine *e, struct job *j)
{
	struct record *r = history_newest(j);

	if (!side_of(j)->dead)
		return;
	job_side(j)->dead = false;
	payload_free(e, job_payload(j));
	*job_payload_at(j) = NULL;
	j->stale = true;
	/* Kept beyond its time because it told of the death. */
	if (r && !list_linked(&r->of_queue))
		history_drop(e, r);
}

void
job_changed(struct engine *e, struct job *j)
{
	j->whole = true;
	if (j->durable)
		dirty_mark(e, &job_side(j)->dirty);
}

void
job_touch(struct engine *e, struct job *j, enum durability level)
{
	j->whole = true;
	if (level == LEVEL_MEMORY && !j->durable) {
		j->level = LEVEL_MEMORY;
		return;
	}
	j->level = level == LEVEL_MEMORY ? LEVEL_ASYNC : (uint8_t)level;
	j->durable = true;
	dirty_mark(e, &job_side(j)->dirty);
	if (level == LEVEL_SYNC)
		e->urgent = true;
}
