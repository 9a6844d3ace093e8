/*
 * The plain reschedule against the general path: two engines get the same
 * requests, one of them is watched, which keeps it off the plain path, and one
 * has its jobs announced first. Every reply, every stored row and every counter
 * must be the same. What is plain is asked often, what is not now and then, so
 * that jobs come into all states.
 */
#include <stdio.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "model/saved.h"
#include "unit/random.h"
#include "unit/unit.h"

#define KEYS  24
#define STEPS 30000
#define S(lit) \
	{ \
		lit, sizeof(lit) - 1 \
	} /* STR, as an initializer of static things */

struct twin {
	struct engine *e;
	struct effects fx;
	struct saved saved;
	unsigned plain; /* went by the plain path */
};

static struct moment now;

static void
twin_init(struct twin *t, bool watched)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	*t = (struct twin){ 0 };
	ck_assert_int_eq(engine_new(&cfg, &t->e), 0);
	engine_set_watched(t->e, watched);
	effects_init(&t->fx);
}

static void
twin_done(struct twin *t)
{
	engine_verify(t->e);
	effects_done(&t->fx);
	engine_free(t->e);
	saved_done(&t->saved);
}

/* The n-th effect that is not for who watches; NULL: there are no more. */
static const struct effect *
effect_at(const struct twin *t, size_t n)
{
	for (size_t i = 0; i < t->fx.n; i++)
		if (t->fx.v[i].kind != FX_EVENT && n-- == 0)
			return &t->fx.v[i];
	return NULL;
}

static void
same_reply(const struct job_reply *a, const struct job_reply *b)
{
	unit_check(a->status == b->status);
	unit_check(!a->message == !b->message);
	unit_check(str_eq(a->queue, b->queue) && str_eq(a->key, b->key));
	unit_check(a->state_before == b->state_before && a->pending_before == b->pending_before);
	unit_check(a->has_deadline == b->has_deadline);
	unit_check(a->has_old_deadline == b->has_old_deadline);
	unit_check(a->deadline_wall_ns == b->deadline_wall_ns);
	unit_check(a->old_deadline_wall_ns == b->old_deadline_wall_ns);
	unit_check(a->generation == b->generation && a->coalesced == b->coalesced);
	unit_check(a->disable_depth == b->disable_depth && !a->run == !b->run);
}

/* Ends the runs that were handed over, some later than others. */
static void
same_effects(struct twin t[2], uint64_t *going)
{
	const struct effect *a, *b;
	size_t i;

	for (i = 0; (a = effect_at(&t[0], i)) != NULL; i++) {
		b = effect_at(&t[1], i);
		unit_check(b && a->kind == b->kind);
		if (a->kind == FX_REPLY) {
			unit_check(a->ticket == b->ticket && a->durable == b->durable);
			same_reply(&a->reply, &b->reply);
		} else if (a->kind == FX_START) {
			unit_check(a->start.run_id == b->start.run_id);
			*going = a->start.run_id;
		}
	}
	unit_check(!effect_at(&t[1], i));

	unit_check(engine_dirty(t[0].e) == engine_dirty(t[1].e));
	unit_check(engine_dirty_mark(t[0].e) == engine_dirty_mark(t[1].e));
	unit_check(engine_dirty_urgent(t[0].e) == engine_dirty_urgent(t[1].e));
	unit_check(engine_next_due(t[0].e, now) == engine_next_due(t[1].e, now));
}

/* By the plain path, with its answer where the general one has it. */
static bool
reschedule(struct twin *t, const struct engine_event *ev)
{
	struct job_reply r;
	struct effect *fx;
	bool durable;

	if (ev->kind != EV_UPDATE ||
		!engine_reschedule(t->e, now, ev->update, ev->run_token, &r, &durable))
		return false;
	fx = effects_add(&t->fx, FX_REPLY);
	fx->ticket = ev->ticket;
	fx->durable = durable;
	fx->reply = r;
	t->plain++;
	return true;
}

static void
step_both(struct twin t[2], const struct engine_event *ev, uint64_t *going)
{
	const struct job_name *name = ev->kind == EV_UPDATE ? &ev->update->job : NULL;

	for (int i = 0; i < 2; i++) {
		effects_clear(&t[i].fx);
		if (i == 0 && name && ev->ticket % 4)
			engine_ahead(t[i].e, &name, 1);
		if (i == 1 || !reschedule(&t[i], ev))
			engine_step(t[i].e, now, ev, &t[i].fx);
	}
	same_effects(t, going);
}

static struct str
random_key(struct rnd *r, char dst[16])
{
	int n = snprintf(dst, 16, "key-%u", (unsigned)rnd_below(r, KEYS));

	return (struct str){ dst, (size_t)n };
}

static struct op_update
random_update(struct rnd *r, struct job_name job)
{
	static const enum durability levels[] = { LEVEL_DEFAULT, LEVEL_MEMORY, LEVEL_MEMORY,
		LEVEL_ASYNC, LEVEL_SYNC };
	struct op_update op = {
		.job = job,
		.when_ns = (int64_t)rnd_below(r, 50) * NS_PER_MS + (int64_t)rnd_below(r, 3),
		.slack_ns = rnd_one_in(r, 2) ? -1 : (int64_t)rnd_below(r, 20) * NS_PER_MS,
		.max_wait_ns = rnd_one_in(r, 2) ? -1 : 0,
		.level = levels[rnd_below(r, ARRAY_SIZE(levels))],
	};

	if (rnd_one_in(r, 12))
		op.max_wait_ns = 50 * NS_PER_MS + (int64_t)rnd_below(r, 100) * NS_PER_MS;
	if (rnd_one_in(r, 12)) {
		op.payload_mode = rnd_one_in(r, 2) ? PAYLOAD_REPLACE : PAYLOAD_APPEND;
		op.payload = STR("some payload");
	}
	if (rnd_one_in(r, 12))
		op.mode = (enum update_mode)rnd_below(r, 4);
	if (rnd_one_in(r, 16)) {
		op.absolute = true;
		op.when_ns += now.wall_ns;
	}
	if (rnd_one_in(r, 20))
		op.align_ns = 7 * NS_PER_MS;
	op.if_pending = rnd_one_in(r, 16);
	if (rnd_one_in(r, 40))
		op.when_ns = rnd_one_in(r, 2) ? -1 : DELAY_MAX_NS + 1;
	return op;
}

static void
random_step(struct twin t[2], struct rnd *r, uint64_t ticket, uint64_t *going)
{
	char key[16];
	struct job_name job = { rnd_one_in(r, 3) ? STR("default") : STR_NONE, random_key(r, key) };
	struct op_update update = random_update(r, job);
	struct op_cancel cancel = { .job = job, .level = LEVEL_ASYNC };
	struct op_job one = { .job = job, .level = LEVEL_ASYNC };
	struct op_queue queue = { STR_NONE };
	struct engine_event ev = { .kind = EV_UPDATE, .ticket = ticket, .update = &update };
	struct run_end end = { .run_id = *going, .outcome = RUN_DONE };
	uint64_t what = rnd_below(r, 100);

	if (what < 3) {
		ev = (struct engine_event){ .kind = EV_CANCEL, .ticket = ticket };
		ev.cancel = &cancel;
	} else if (what < 5) {
		ev = (struct engine_event){ .kind = EV_DISABLE, .ticket = ticket, .job = &one };
	} else if (what < 8) {
		ev = (struct engine_event){ .kind = EV_ENABLE, .ticket = ticket, .job = &one };
	} else if (what < 9) {
		ev = (struct engine_event){ .kind = rnd_one_in(r, 3) ? EV_PAUSE : EV_RESUME };
		ev.ticket = ticket;
		ev.queue = &queue;
	} else if (what < 30) {
		ev = (struct engine_event){ .kind = EV_TICK };
	} else if (what < 40) {
		ev = (struct engine_event){ .kind = EV_RUN_ENDED };
		ev.run_end = &end;
		end.outcome = rnd_one_in(r, 3) ? RUN_FAILED : RUN_DONE;
	}
	step_both(t, &ev, going);
}

static void
set_queue(struct twin t[2], const struct setting_text *settings, size_t n)
{
	const struct op_queue_set op = { STR("default"), settings, n };
	const struct engine_event ev = { .kind = EV_QUEUE_SET, .ticket = 1, .queue_set = &op };
	uint64_t going = 0;

	step_both(t, &ev, &going);
	ck_assert_int_eq(t[0].fx.v[0].reply.status, ST_OK);
}

/* The rows, in the order in which they were handed out. */
static void
same_rows(struct twin t[2])
{
	for (int i = 0; i < 2; i++)
		saved_take(&t[i].saved, t[i].e, now, SIZE_MAX);
	unit_check(t[0].saved.n_jobs == t[1].saved.n_jobs);
	for (size_t i = 0; i < t[0].saved.n_jobs; i++) {
		const struct job_saved *a = &t[0].saved.jobs[i].j, *b = &t[1].saved.jobs[i].j;

		unit_check(str_eq(a->key, b->key) && a->pending == b->pending);
		unit_check(a->due_boot_ns == b->due_boot_ns && a->due_wall_ns == b->due_wall_ns);
		unit_check(a->delay_ns == b->delay_ns && a->slack_ns == b->slack_ns);
		unit_check(a->max_wait_ns == b->max_wait_ns && a->seq == b->seq);
		unit_check(a->created_wall_ns == b->created_wall_ns && a->level == b->level);
		unit_check(a->coalesced == b->coalesced && a->generation == b->generation);
		unit_check(a->attempt == b->attempt && a->retry == b->retry);
		unit_check(a->n_parts == b->n_parts && a->absolute == b->absolute);
	}
}

static void
same_counters(const struct twin t[2])
{
	struct engine_stats a, b;

	engine_stats_get(t[0].e, &a);
	engine_stats_get(t[1].e, &b);
	ck_assert_mem_eq(&a, &b, sizeof a);
	/* All of it was met. */
	ck_assert_uint_gt(a.skipped, 100);
	ck_assert_uint_gt(a.coalesced, STEPS / 10);
	ck_assert_uint_gt(a.runs_failed, 10);
}

START_TEST(plain_reschedules_answer_as_the_general_path_does)
{
	static const struct setting_text runs[] = { { S("action"), S("exec") },
		{ S("handler"), S("h") }, { S("max_attempts"), S("3") },
		{ S("retry_delay"), S("5ms") } };
	static const struct setting_text slack[] = { { S("slack"), S("0") },
		{ S("slack"), S("3ms") } };
	struct rnd r = { .s = (uint64_t)_i };
	uint64_t going = 0;
	struct twin t[2];

	now = (struct moment){ 1000 * NS_PER_S, 1900000000 * NS_PER_S };
	for (int i = 0; i < 2; i++)
		twin_init(&t[i], i == 1);
	set_queue(t, runs, ARRAY_SIZE(runs));
	for (uint64_t ticket = 1; ticket <= STEPS; ticket++) {
		int64_t passed = (int64_t)rnd_below(&r, 2 * NS_PER_MS);

		now.boot_ns += passed;
		now.wall_ns += passed;
		if (ticket % 5000 == 0)
			set_queue(t, &slack[ticket / 5000 % 2], 1);
		random_step(t, &r, ticket, &going);
		if (ticket % 100 == 0)
			same_rows(t);
	}
	same_counters(t);
	ck_assert_uint_gt(t[0].plain, STEPS / 100);
	for (int i = 0; i < 2; i++)
		twin_done(&t[i]);
}
END_TEST

/* The memory of a name may hold another when its step comes, and the job may be gone. */
START_TEST(what_was_announced_is_only_a_hint)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	char key[] = "one";
	struct op_update op = { .job = { STR_NONE, { key, 3 } }, .when_ns = NS_PER_S };
	struct op_cancel cancel = { .job = op.job };
	const struct job_name *name = &op.job;
	struct engine_event ev = { .kind = EV_UPDATE, .ticket = 1, .update = &op };
	struct engine_event gone = { .kind = EV_CANCEL, .ticket = 2, .cancel = &cancel };
	struct effects fx;
	struct engine *e;

	op.level = cancel.level = LEVEL_MEMORY;
	ck_assert_int_eq(engine_new(&cfg, &e), 0);
	effects_init(&fx);
	engine_step(e, now, &ev, &fx);
	engine_ahead(e, &name, 1);
	memcpy(key, "two", 3);
	engine_step(e, now, &ev, &fx);
	ck_assert_int_eq(fx.v[1].reply.status, ST_CREATED);
	engine_ahead(e, &name, 1);
	engine_step(e, now, &gone, &fx);
	ck_assert_int_eq(fx.v[2].reply.status, ST_CANCELLED);
	engine_step(e, now, &ev, &fx);
	ck_assert_int_eq(fx.v[3].reply.status, ST_CREATED);
	ck_assert(str_eq(fx.v[3].reply.key, STR("two")));
	engine_verify(e);
	effects_done(&fx);
	engine_free(e);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("hot");
	TCase *tc = unit_case(s, "plain reschedules");

	tcase_add_loop_test(tc, plain_reschedules_answer_as_the_general_path_does, 0, 8);
	tcase_add_test(tc, what_was_announced_is_only_a_hint);
	return unit_run(s);
}
