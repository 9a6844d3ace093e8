/*
 * A request on its way from names to reply.
 *
 * ask_open finds what it is about, or answers at once: bad names, an unknown
 * queue, an idempotency id that was answered before. ask_before and
 * reply_after fill in the reply; ask_done and ask_fail send it.
 */
#include <errno.h>

#include "base/err.h"
#include "engine/internal.h"

static bool
ask_repeated(struct ask *a, struct str idem)
{
	const struct answer *known;

	if (idem.n == 0)
		return false;
	if (idem.n > IDEM_INNER) {
		ask_fail(a, ST_INVALID, "the idempotency id is longer than 64 bytes");
		return true;
	}
	known = answer_find(a->e, idem);
	if (!known)
		return false;
	if (known->asked != ASKED_ANYTHING && known->asked != a->asked) {
		ask_fail(a, ST_INVALID, "the idempotency id was used for another operation");
		return true;
	}
	if (!str_eq(known->reply.queue, a->q ? a->q->name : STR_NONE) ||
		(a->r.key.n > 0 && !str_eq(known->reply.key, a->r.key))) {
		ask_fail(a, ST_INVALID, "the idempotency id was used for another job");
		return true;
	}
	a->e->stats.answers_repeated++;
	engine_reply(a->e, a->ticket, a->level == LEVEL_SYNC, &known->reply);
	return true;
}

/* Of those that take an idempotency id. */
static enum asked
asked_of(enum engine_event_kind kind)
{
	static const uint8_t asked[] = {
		[EV_UPDATE] = ASKED_UPDATE,
		[EV_CANCEL] = ASKED_CANCEL,
		[EV_DELETE] = ASKED_DELETE,
		[EV_DISABLE] = ASKED_DISABLE,
		[EV_ENABLE] = ASKED_ENABLE,
		[EV_KICK] = ASKED_KICK,
		[EV_COMPLETE] = ASKED_COMPLETE,
		[EV_COMPLETE_ALL] = ASKED_COMPLETE_ALL,
		[EV_COMPLETION_REINIT] = ASKED_REINIT,
		[EV_FINISH] = ASKED_FINISH,
		[EV_FAIL] = ASKED_FAIL,
		[EV_RELEASE] = ASKED_RELEASE,
	};

	return (size_t)kind < ARRAY_SIZE(asked) ? (enum asked)asked[kind] : ASKED_ANYTHING;
}

/* The name of a queue that there is: valid without a look. Most requests name the same. */
static bool
queue_name_known(const struct engine *e, struct str name)
{
	return name.n == 0 || (e->recent && str_eq(e->recent->name, name));
}

bool
ask_open(struct ask *a, struct engine *e, const struct engine_event *ev,
	const struct job_name *name, enum durability level, struct str idem)
{
	bool make_key = ev->kind == EV_UPDATE && name->key.n == 0;

	*a = (struct ask){
		.e = e,
		.ticket = ev->ticket,
		.asked = asked_of(ev->kind),
		.from = job_run_by_token(e, ev->run_token),
		.r.queue = name->queue,
		.r.key = name->key,
	};
	if (!queue_name_known(e, name->queue) && !queue_name_ok(e, name->queue)) {
		ask_fail(a, ST_INVALID, BAD_QUEUE);
		return false;
	}
	if (!make_key && !key_valid(name->key)) {
		ask_fail(a, ST_INVALID, BAD_KEY);
		return false;
	}
	a->q = queue_find(e, name->queue);
	if (!a->q) {
		ask_fail(a, ST_NOT_FOUND, "no such queue");
		return false;
	}
	e->recent = a->q;
	a->level = level == LEVEL_DEFAULT ? a->q->s.durability : level;
	if (ask_repeated(a, idem))
		return false;
	a->j = make_key ? NULL : ahead_found(e, a->q, name);
	e->asked = a->j;
	if (!a->j || job_widen(e, a->j) == 0)
		return true;
	ask_fail_err(a, -ENOMEM);
	return false;
}

bool
ask_open_queue(struct ask *a, struct engine *e, const struct engine_event *ev, struct str name)
{
	*a = (struct ask){
		.e = e,
		.ticket = ev->ticket,
		.from = job_run_by_token(e, ev->run_token),
		.level = LEVEL_SYNC,
		.r.queue = name,
	};
	if (name.n > 0 && !queue_name_ok(e, name)) {
		ask_fail(a, ST_INVALID, BAD_QUEUE);
		return false;
	}
	a->q = queue_find(e, name);
	if (!a->q)
		ask_fail(a, ST_NOT_FOUND, "no such queue");
	return a->q != NULL;
}

bool
ask_open_completion(struct ask *a, struct engine *e, const struct engine_event *ev)
{
	const struct op_completion *op = ev->completion;

	*a = (struct ask){
		.e = e,
		.ticket = ev->ticket,
		.asked = asked_of(ev->kind),
		.level = op->level == LEVEL_DEFAULT ? LEVEL_MEMORY : op->level,
		.r.key = op->name,
	};
	if (completion_name_ok(e, op->name))
		return !ask_repeated(a, op->idem);
	ask_fail(a, ST_INVALID, "the completion's name is not 1 to 255 bytes " NAME_RULE);
	return false;
}

bool
ask_remember(struct ask *a, struct str idem)
{
	int err;

	if (idem.n == 0)
		return true;
	err = answer_new(a->e, idem, a->asked, &a->answer);
	if (err < 0)
		ask_fail_err(a, err);
	return err == 0;
}

bool
ask_bad_timeout(struct ask *a, int64_t timeout_ns)
{
	if (span_valid(timeout_ns, -1))
		return false;
	ask_fail(a, ST_INVALID, "the timeout is not 0 to 100 years");
	return true;
}

void
ask_before(struct ask *a)
{
	const struct job *j = a->j;
	struct job_reply *r = &a->r;

	if (!j)
		return;
	r->state_before = job_shown(j);
	r->pending_before = job_pend(j) != PEND_NONE;
	r->generation = r->pending_before ? job_coming(j) : side_of(j)->generation;
	r->coalesced = r->pending_before ? j->coalesced
		: side_of(j)->run        ? side_of(j)->run->coalesced
					 : 0;
	r->has_old_deadline = r->pending_before;
	r->old_deadline_wall_ns = r->pending_before ? job_due_wall(a->e->now, j) : 0;
}

void
reply_after(struct engine *e, struct job_reply *r, const struct queue *q, const struct job *j)
{
	if (q)
		r->queue = q->name;
	if (!j)
		return;
	r->key = job_key(j);
	r->disable_depth = side_of(j)->disable_depth;
	r->has_deadline = job_pend(j) != PEND_NONE;
	r->deadline_wall_ns = r->has_deadline ? job_due_wall(e->now, j) : 0;
}

void
ask_instance(struct ask *a)
{
	if (!a->j || job_pend(a->j) == PEND_NONE)
		return;
	a->r.generation = job_coming(a->j);
	a->r.coalesced = a->j->coalesced;
}

/* Names that came with the request don't outlive it; those of a reply do. */
static void
ask_copy_names(struct ask *a)
{
	char *p = a->e->names;
	struct job_reply *r = &a->r;

	if (!a->q) {
		r->queue.n = r->queue.n <= QUEUE_NAME_MAX ? r->queue.n : 0;
		if (r->queue.n)
			r->queue.p = memcpy(p, r->queue.p, r->queue.n);
	}
	if (!a->j) {
		r->key.n = r->key.n <= KEY_MAX ? r->key.n : 0;
		if (r->key.n)
			r->key.p = memcpy(p + QUEUE_NAME_MAX, r->key.p, r->key.n);
	}
}

void
ask_done(struct ask *a, enum status st)
{
	a->r.status = st;
	reply_after(a->e, &a->r, a->q, a->j);
	if (a->answer) {
		const struct dirty *about = a->j ? &job_side(a->j)->dirty
			: a->c                   ? &a->c->dirty
						 : NULL;
		bool stored = a->j ? a->j->durable : a->c && a->c->level != LEVEL_MEMORY;

		answer_keep(a->e, a->answer, &a->r, about, stored, a->level);
		a->answer = NULL;
	}
	ask_copy_names(a);
	engine_reply(a->e, a->ticket, a->level == LEVEL_SYNC, &a->r);
}

void
ask_fail(struct ask *a, enum status st, const char *message)
{
	a->r.status = st;
	a->r.message = message;
	reply_after(a->e, &a->r, a->q, a->j);
	answer_drop(a->e, a->answer);
	a->answer = NULL;
	ask_copy_names(a);
	engine_reply(a->e, a->ticket, false, &a->r);
}

void
ask_fail_err(struct ask *a, int err)
{
	ask_fail(a, ST_REFUSED_LIMIT, err == -ENOMEM ? "out of memory" : "a limit is reached");
}
