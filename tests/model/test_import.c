/* Jobs that go out as they are stored, and come in again. */
#include "base/assert.h"
#include "base/err.h"
#include "model/rig.h"
#include "unit/unit.h"

#define MOST 64

/* What one engine has given out, copied. */
struct carried {
	struct op_import op[MOST];
	char queue[MOST][32], key[MOST][32], bytes[MOST][4][32];
	struct str parts[MOST][4];
	size_t n;
};

static bool
carry(void *arg, const struct job_saved *j)
{
	struct carried *c = arg;
	size_t i = c->n++;
	struct job_saved *to = &c->op[i].job;

	ck_assert_uint_lt(i, MOST);
	*to = *j;
	to->queue.p = memcpy(c->queue[i], j->queue.p, j->queue.n);
	to->key.p = memcpy(c->key[i], j->key.p, j->key.n);
	for (size_t k = 0; k < j->n_parts; k++)
		c->parts[i][k] = (struct str){ memcpy(c->bytes[i][k], j->parts[k].p, j->parts[k].n),
			j->parts[k].n };
	to->parts = c->parts[i];
	return true;
}

/* In pages of two. */
static void
carry_all(const struct rig *r, struct carried *c)
{
	uint64_t cursor = 0;

	c->n = 0;
	do
		engine_export(r->e, r->now, &cursor, 2, carry, c);
	while (cursor);
}

static struct op_import *
of_key(struct carried *c, const char *key)
{
	for (size_t i = 0; i < c->n; i++)
		if (str_eq(c->op[i].job.key, str_from(key)))
			return &c->op[i];
	ck_abort_msg("%s did not go out", key);
	return NULL;
}

static uint64_t
bring(struct rig *r, struct carried *c, const char *key)
{
	return rig_send(r, EV_IMPORT, of_key(c, key), 0);
}

static void
start(struct rig *r)
{
	rig_init(r);
	rig_queue_create(r, "q", "handler=h max_attempts=3 retry_delay=10s");
	rig_forget(r);
}

static struct op_import
a_job(const char *key, int64_t due_wall_ns)
{
	return (struct op_import){ .job = { .queue = STR("q"),
					   .key = str_from(key),
					   .pending = JOB_ARMED,
					   .due_wall_ns = due_wall_ns,
					   .delay_ns = SEC,
					   .created_wall_ns = -1 } };
}

START_TEST(jobs_come_back_as_they_were)
{
	static struct carried c;
	struct rig r, to;

	start(&r);
	rig_update_payload(&r, "armed", 30 * SEC, "p");
	rig_job(&r, EV_DISABLE, "off");
	rig_job(&r, EV_DISABLE, "off");
	rig_update(&r, "retries", 0);
	rig_end_run(&r, rig_running(&r, "retries"), RUN_FAILED);
	rig_update(&r, "gone", SEC);
	rig_cancel(&r, "gone", CANCEL_PLAIN);
	carry_all(&r, &c);
	ck_assert_uint_eq(c.n, 3);

	start(&to);
	rig_expect(&to, bring(&to, &c, "armed"), ST_CREATED);
	rig_expect(&to, bring(&to, &c, "off"), ST_CREATED);
	rig_expect(&to, bring(&to, &c, "retries"), ST_CREATED);
	ck_assert_str_eq(rig_state(&to, "armed"), "A");
	ck_assert_uint_eq(rig_get(&to, "off").disable_depth, 2);
	ck_assert_uint_eq(rig_get(&to, "retries").generation, 1);
	ck_assert_uint_eq(rig_get(&to, "retries").attempt, 2);
	ck_assert_int_eq(
		rig_get(&to, "armed").deadline_wall_ns, rig_get(&r, "armed").deadline_wall_ns);
	/* What was brought in is stored like all else. */
	rig_restart(&to, 0, true);
	rig_pass(&to, 10 * SEC);
	ck_assert_uint_eq(rig_running(&to, "retries")->attempt, 2);
	rig_pass(&to, 20 * SEC);
	ck_assert_str_eq(rig_running(&to, "armed")->payload, "p;");
	rig_expect(&to, rig_update(&to, "off", 0), ST_REFUSED_DISABLED);
	rig_done(&to);
	rig_done(&r);
}
END_TEST

START_TEST(what_is_there_or_has_run_since_is_left_alone)
{
	static struct carried c;
	struct rig r;

	start(&r);
	rig_update(&r, "k", 30 * SEC);
	rig_update(&r, "done", SEC);
	carry_all(&r, &c);
	rig_update(&r, "k", 60 * SEC);
	rig_expect(&r, bring(&r, &c, "k"), ST_UNCHANGED);
	ck_assert_int_eq(rig_get(&r, "k").deadline_wall_ns, r.now.wall_ns + 60 * SEC);
	rig_pass(&r, SEC);
	rig_expect(&r, bring(&r, &c, "done"), ST_UNCHANGED); /* it runs */
	rig_finish(&r, "done");
	rig_expect(&r, bring(&r, &c, "done"), ST_UNCHANGED); /* it has run */
	ck_assert_str_eq(rig_state(&r, "done"), "I");
	rig_done(&r);
}
END_TEST

START_TEST(a_job_whose_results_alone_are_kept_comes_back)
{
	struct op_import op;
	struct rig r;

	start(&r);
	rig_update(&r, "k", 0);
	rig_finish(&r, "k");
	op = a_job("k", r.now.wall_ns + 5 * SEC);
	op.job.generation = 7;
	rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED);
	ck_assert_str_eq(rig_state(&r, "k"), "A");
	rig_pass(&r, 5 * SEC);
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 8);
	rig_done(&r);
}
END_TEST

START_TEST(overdue_and_ready_ones_run_in_the_order_they_come)
{
	struct op_import op;
	struct rig r;

	start(&r);
	rig_queue_set(&r, "q", "max_active=1");
	for (const char *k = "abc"; *k; k++) {
		char key[2] = { *k };

		op = a_job(key, r.now.wall_ns - HOUR);
		op.job.pending = *k == 'b' ? JOB_READY : JOB_ARMED;
		op.job.absolute = *k == 'c';
		rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED);
	}
	for (const char *k = "abc"; *k; k++) {
		char key[2] = { *k };

		rig_finish(&r, key);
	}
	ck_assert_str_eq(rig_order(&r), "a b c ");
	rig_done(&r);
}
END_TEST

START_TEST(a_dry_run_changes_nothing)
{
	struct op_import op;
	uint64_t mark;
	struct rig r;

	start(&r);
	op = a_job("k", r.now.wall_ns + SEC);
	op.dry_run = true;
	mark = engine_dirty_mark(r.e);
	rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED);
	ck_assert_str_eq(rig_state(&r, "k"), "-");
	ck_assert_uint_eq(engine_dirty_mark(r.e), mark);
	rig_done(&r);
}
END_TEST

START_TEST(an_answer_waits_for_the_disk_unless_the_job_is_never_stored)
{
	struct op_import op;
	struct rig r;

	start(&r);
	op = a_job("k", r.now.wall_ns + SEC);
	ck_assert(rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED)->durable);
	op = a_job("m", r.now.wall_ns + SEC);
	op.job.level = LEVEL_MEMORY;
	ck_assert(!rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED)->durable);
	rig_restart(&r, 0, true);
	ck_assert_str_eq(rig_state(&r, "k"), "A");
	ck_assert_str_eq(rig_state(&r, "m"), "-");
	rig_done(&r);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
	static char big[PAYLOAD_MAX + 1];
	struct op_import op;
	struct rig r;

	start(&r);
#define REFUSED(change, status) \
	do { \
		op = a_job("k", r.now.wall_ns + SEC); \
		op.job.change; \
		rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), status); \
		ck_assert_str_eq(rig_state(&r, "k"), "-"); \
	} while (0)
	REFUSED(pending = JOB_RUNNING, ST_INVALID);
	REFUSED(pending = JOB_IDLE, ST_INVALID);
	REFUSED(dead = true, ST_INVALID);
	REFUSED(disable_depth = 1, ST_INVALID);
	REFUSED(due_wall_ns = -1, ST_INVALID);
	REFUSED(due_wall_ns = INT64_MAX, ST_INVALID);
	REFUSED(slack_ns = DELAY_MAX_NS + 1, ST_INVALID);
	REFUSED(delay_ns = -2, ST_INVALID);
	REFUSED(generation = UINT64_MAX, ST_INVALID);
	REFUSED(retry = true, ST_INVALID);
	REFUSED(queue = STR("none"), ST_NOT_FOUND);
	REFUSED(key = STR(""), ST_INVALID);
	op = a_job("k", r.now.wall_ns + SEC);
	op.job.parts = &(struct str){ big, sizeof big };
	op.job.n_parts = 1;
	rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_INVALID);
	rig_queue_set(&r, "q", "max_jobs=1");
	rig_update(&r, "one", SEC);
	REFUSED(slack_ns = 0, ST_REFUSED_LIMIT);
	rig_done(&r);
}
END_TEST

START_TEST(a_dead_job_comes_in_dead)
{
	struct op_import op;
	struct rig r;

	start(&r);
	op = a_job("k", 0);
	op.job.pending = JOB_IDLE;
	op.job.dead = true;
	op.job.generation = 3;
	op.job.parts = &STR("p");
	op.job.n_parts = 1;
	rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_CREATED);
	ck_assert(rig_get(&r, "k").dead);
	rig_expect(&r, rig_send(&r, EV_IMPORT, &op, 0), ST_UNCHANGED);
	rig_expect(&r, rig_job(&r, EV_KICK, "k"), ST_CREATED);
	ck_assert_str_eq(rig_running(&r, "k")->payload, "p;");
	ck_assert_uint_eq(rig_running(&r, "k")->generation, 4);
	rig_done(&r);
}
END_TEST

/* Whatever may come in, and whatever is done to it then: nothing that the engine's own check would
 * mind, now, after a restart, or when the same comes in again. */
static const struct kind {
	const char *name, *state;
	enum job_state pending;
	uint32_t disable_depth;
	bool dead, retry, command, late, memory;
	size_t n_parts;
} kinds[] = {
	{ "armed", "A", .pending = JOB_ARMED },
	{ "armed with a payload", "A", .pending = JOB_ARMED, .n_parts = 2 },
	{ "armed, in memory", "A", .pending = JOB_ARMED, .n_parts = 1, .memory = true },
	{ "armed, a command", "A", .pending = JOB_ARMED, .n_parts = 2, .command = true },
	{ "armed, a retry", "A", .pending = JOB_ARMED, .n_parts = 2, .retry = true },
	{ "overdue", "R", .pending = JOB_ARMED, .n_parts = 1, .late = true },
	{ "ready", "R", .pending = JOB_READY, .n_parts = 1 },
	{ "ready, a retry", "R", .pending = JOB_READY, .n_parts = 1, .retry = true },
	{ "disabled", "X", .pending = JOB_IDLE, .disable_depth = 1 },
	{ "disabled twice", "X", .pending = JOB_IDLE, .disable_depth = 2 },
	{ "disabled with a payload", NULL, .pending = JOB_IDLE, .disable_depth = 1, .n_parts = 1 },
	{ "disabled with a command", NULL, .pending = JOB_IDLE, .disable_depth = 1, .n_parts = 2,
		.command = true },
	{ "disabled, a retry", NULL, .pending = JOB_IDLE, .disable_depth = 1, .retry = true },
	{ "dead", "I", .pending = JOB_IDLE, .dead = true },
	{ "dead with a payload", "I", .pending = JOB_IDLE, .dead = true, .n_parts = 2 },
	{ "dead, a command", "I", .pending = JOB_IDLE, .dead = true, .n_parts = 2,
		.command = true },
	{ "dead and disabled", NULL, .pending = JOB_IDLE, .dead = true, .disable_depth = 1 },
	{ "dead and armed", NULL, .pending = JOB_ARMED, .dead = true },
	{ "nothing", NULL, .pending = JOB_IDLE },
};

static void
bring_kind(struct rig *r, const struct kind *k)
{
	static const struct str parts[] = { STR("true\0"), STR("p") };
	struct op_import op = a_job("k", r->now.wall_ns + (k->late ? -SEC : 5 * SEC));
	const struct answer *a;

	op.job.pending = k->pending;
	op.job.disable_depth = k->disable_depth;
	op.job.dead = k->dead;
	op.job.retry = k->retry;
	op.job.attempt = k->retry ? 2 : 0;
	op.job.generation = 3;
	op.job.command = k->command;
	op.job.parts = parts;
	op.job.n_parts = k->n_parts;
	op.job.level = k->memory ? LEVEL_MEMORY : LEVEL_DEFAULT;
	a = rig_answer(r, rig_send(r, EV_IMPORT, &op, 0));
	ck_assert_ptr_nonnull(a);
	ck_assert_msg(k->state ? a->r.status == ST_CREATED || a->r.status == ST_UNCHANGED
			       : a->r.status == ST_INVALID,
		"%s: %d %s", k->name, (int)a->r.status, a->r.message ? a->r.message : "");
}

enum {
	DO_UPDATE,
	DO_NOW,
	DO_CANCEL,
	DO_CANCEL_WAIT,
	DO_CANCEL_KILL,
	DO_FLUSH,
	DO_FLUSH_NOW,
	DO_DISABLE,
	DO_ENABLE,
	DO_KICK,
	DO_DELETE,
	DO_IMPORT,
	DO_PASS,
	DO_END,
	DO_FAIL,
	DO_RESTART,
	DO_REBOOT,
	DO_DRAIN,
	DOES
};

static void
do_to(struct rig *r, unsigned what, const struct kind *k)
{
	static const enum engine_event_kind events[] = { EV_DISABLE, EV_ENABLE, EV_KICK,
		EV_DELETE };
	struct rig_run *run = rig_running(r, "k");

	switch (what) {
	case DO_UPDATE:
	case DO_NOW:
		rig_update_payload(r, "k", what == DO_NOW ? 0 : 20 * SEC, "new");
		break;
	case DO_CANCEL:
	case DO_CANCEL_WAIT:
	case DO_CANCEL_KILL:
		rig_cancel(r, "k",
			what == DO_CANCEL                ? CANCEL_PLAIN
				: what == DO_CANCEL_WAIT ? CANCEL_WAIT
							 : CANCEL_KILL);
		break;
	case DO_FLUSH:
	case DO_FLUSH_NOW:
		rig_flush(r, "k", what == DO_FLUSH_NOW);
		break;
	case DO_DISABLE:
	case DO_ENABLE:
	case DO_KICK:
	case DO_DELETE:
		rig_job(r, events[what - DO_DISABLE], "k");
		break;
	case DO_IMPORT:
		bring_kind(r, k);
		break;
	case DO_PASS:
		rig_pass(r, 6 * SEC);
		break;
	case DO_END:
	case DO_FAIL:
		if (run)
			rig_end_run(r, run, what == DO_END ? RUN_DONE : RUN_FAILED);
		break;
	case DO_RESTART:
		rig_restart(r, SEC, true);
		break;
	case DO_REBOOT:
		rig_restart(r, SEC, false);
		break;
	case DO_DRAIN:
		rig_drain(r, "q", TIMERS_EXPEDITE, false);
		break;
	default:
		ck_abort();
	}
	engine_verify(r->e);
}

START_TEST(whatever_comes_in_and_is_done_to_it_then)
{
	const struct kind *k = &kinds[_i];

	for (unsigned what = 0; what < DOES * DOES; what++) {
		struct rig r;

		start(&r);
		rig_queue_set(&r, "q", what % 2 ? "retention=0" : "retention=1h");
		bring_kind(&r, k);
		ck_assert_msg(strcmp(rig_state(&r, "k"), k->state ? k->state : "-") == 0, "%s: %s",
			k->name, rig_state(&r, "k"));
		engine_verify(r.e);
		do_to(&r, what / DOES, k);
		do_to(&r, what % DOES, k);
		/* Usable still, by who lifts what disables it. */
		for (int i = 0; i < 5; i++)
			rig_job(&r, EV_ENABLE, "k");
		while (rig_running(&r, "k"))
			rig_end_run(&r, rig_running(&r, "k"), RUN_DONE);
		rig_update(&r, "k", 0);
		rig_finish(&r, "k");
		engine_verify(r.e);
		rig_restart(&r, 0, true);
		engine_verify(r.e);
		rig_done(&r);
	}
}
END_TEST

START_TEST(without_memory_nothing_is_left_of_it)
{
	struct op_import op;
	struct str parts[] = { STR("one"), STR("two") };
	struct rig r;
	bool left = false;

	for (long n = 0; !left; n++) {
		enum status st;

		start(&r);
		op = a_job("a key that is too long to lie in its record", r.now.wall_ns + SEC);
		op.job.parts = parts;
		op.job.n_parts = 2;
		alloc_fault_set(n, false);
		st = rig_answer(&r, rig_send(&r, EV_IMPORT, &op, 0))->r.status;
		left = alloc_fault_off();
		engine_verify(r.e);
		ck_assert(st == ST_CREATED || (st == ST_REFUSED_LIMIT && !left));
		ck_assert_uint_eq(rig_queue(&r, "q").jobs, st == ST_CREATED);
		rig_done(&r);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("import");
	TCase *tc = unit_case(s, "import");

	tcase_add_test(tc, jobs_come_back_as_they_were);
	tcase_add_test(tc, what_is_there_or_has_run_since_is_left_alone);
	tcase_add_test(tc, a_job_whose_results_alone_are_kept_comes_back);
	tcase_add_test(tc, overdue_and_ready_ones_run_in_the_order_they_come);
	tcase_add_test(tc, a_dry_run_changes_nothing);
	tcase_add_test(tc, an_answer_waits_for_the_disk_unless_the_job_is_never_stored);
	tcase_add_test(tc, what_makes_no_sense_is_refused);
	tcase_add_test(tc, a_dead_job_comes_in_dead);
	tcase_add_loop_test(
		tc, whatever_comes_in_and_is_done_to_it_then, 0, (int)ARRAY_SIZE(kinds));
	tcase_add_test(tc, without_memory_nothing_is_left_of_it);
	return unit_run(s);
}
