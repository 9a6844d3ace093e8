/*
 * Every cell of the table operation x state in docs/semantics.md as a test of
 * its own name, "OPERATION in STATE".
 *
 * A cell is written as
 *     REPLY STATE            answered at once; the state afterwards
 *     run REPLY STATE        waits for the run that goes on
 *     next REPLY STATE       waits for the run of what is ready
 *     both REPLY STATE       waits for the run that goes on and the one after it
 *     kill REPLY STATE       has the run stopped and waits for its end
 * with states as rig_state() gives them; I stands for an unknown job too.
 */
#include <stdio.h>
#include <string.h>

#include "model/rig.h"
#include "unit/unit.h"

enum column { C_NEW, C_KEPT, C_A, C_Q, C_R, C_RA, C_RQ, C_X, C_XR, COLUMNS };

static const struct {
	const char *name, *state;
	enum job_state before;
	bool pending;
} columns[COLUMNS] = {
	[C_NEW] = { "I (unknown)", "-", JOB_IDLE, false },
	[C_KEPT] = { "I (a result kept)", "I", JOB_IDLE, false },
	[C_A] = { "A", "A", JOB_ARMED, true },
	[C_Q] = { "Q", "Q", JOB_HELD, true },
	[C_R] = { "R", "R", JOB_RUNNING, false },
	[C_RA] = { "RA", "RA", JOB_RUNNING, true },
	[C_RQ] = { "RQ", "RQ", JOB_RUNNING, true },
	[C_X] = { "X", "X", JOB_IDLE, false },
	[C_XR] = { "X with a run going on", "XR", JOB_RUNNING, false },
};

#define ARMED_FOR (10 * SEC) /* what is armed was armed for that long ... */
#define AGO       SEC        /* ... that long before the operation */

enum op { O_UPDATE, O_CANCEL, O_FLUSH, O_JOB };

static const struct row {
	const char *name;
	const char *cell[COLUMNS];
	enum op op;
	enum update_mode mode;
	int64_t delay;
	bool if_pending;
	enum cancel_mode cancel;
	bool now;
	enum engine_event_kind kind;
} rows[] = {
#define REFUSED "REFUSED_DISABLED X", "REFUSED_DISABLED XR"
	{ "UPDATE d>0",
		{ "CREATED A", "CREATED A", "UPDATED_TIMER A", "UPDATED_READY A",
			"REQUEUED_RUNNING RA", "UPDATED_TIMER RA", "UPDATED_READY RA", REFUSED },
		.delay = 20 * SEC },
	{ "UPDATE d=0",
		{ "CREATED Q", "CREATED Q", "UPDATED_TIMER Q", "UPDATED_READY Q",
			"REQUEUED_RUNNING RQ", "UPDATED_TIMER RQ", "UPDATED_READY RQ", REFUSED },
		.delay = 0 },
	{ "UPDATE keep",
		{ "CREATED A", "CREATED A", "UNCHANGED A", "UNCHANGED Q", "REQUEUED_RUNNING RA",
			"UNCHANGED RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_KEEP, .delay = 2 * SEC },
	{ "UPDATE keep d=0",
		{ "CREATED Q", "CREATED Q", "UNCHANGED A", "UNCHANGED Q", "REQUEUED_RUNNING RQ",
			"UNCHANGED RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_KEEP, .delay = 0 },
	{ "UPDATE earlier, is earlier",
		{ "CREATED A", "CREATED A", "UPDATED_TIMER A", "UNCHANGED Q", "REQUEUED_RUNNING RA",
			"UPDATED_TIMER RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_EARLIER, .delay = 2 * SEC },
	{ "UPDATE earlier, is later",
		{ "CREATED A", "CREATED A", "UNCHANGED A", "UNCHANGED Q", "REQUEUED_RUNNING RA",
			"UNCHANGED RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_EARLIER, .delay = 20 * SEC },
	{ "UPDATE earlier d=0",
		{ "CREATED Q", "CREATED Q", "UPDATED_TIMER Q", "UNCHANGED Q", "REQUEUED_RUNNING RQ",
			"UPDATED_TIMER RQ", "UNCHANGED RQ", REFUSED },
		.mode = MODE_EARLIER, .delay = 0 },
	{ "UPDATE later, is later",
		{ "CREATED A", "CREATED A", "UPDATED_TIMER A", "UPDATED_READY A",
			"REQUEUED_RUNNING RA", "UPDATED_TIMER RA", "UPDATED_READY RA", REFUSED },
		.mode = MODE_LATER, .delay = 20 * SEC },
	{ "UPDATE later, is earlier",
		{ "CREATED A", "CREATED A", "UNCHANGED A", "UPDATED_READY A", "REQUEUED_RUNNING RA",
			"UNCHANGED RA", "UPDATED_READY RA", REFUSED },
		.mode = MODE_LATER, .delay = 2 * SEC },
	{ "UPDATE later d=0",
		{ "CREATED Q", "CREATED Q", "UNCHANGED A", "UNCHANGED Q", "REQUEUED_RUNNING RQ",
			"UNCHANGED RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_LATER, .delay = 0 },
#define IF_PENDING .if_pending = true
	{ "UPDATE d>0 if_pending",
		{ "IDLE I", "IDLE I", "UPDATED_TIMER A", "UPDATED_READY A", "NOT_PENDING_RUNNING R",
			"UPDATED_TIMER RA", "UPDATED_READY RA", REFUSED },
		.delay = 20 * SEC, IF_PENDING },
	{ "UPDATE d=0 if_pending",
		{ "IDLE I", "IDLE I", "UPDATED_TIMER Q", "UPDATED_READY Q", "NOT_PENDING_RUNNING R",
			"UPDATED_TIMER RQ", "UPDATED_READY RQ", REFUSED },
		.delay = 0, IF_PENDING },
	{ "UPDATE keep if_pending",
		{ "IDLE I", "IDLE I", "UNCHANGED A", "UNCHANGED Q", "NOT_PENDING_RUNNING R",
			"UNCHANGED RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_KEEP, .delay = 2 * SEC, IF_PENDING },
	{ "UPDATE earlier if_pending",
		{ "IDLE I", "IDLE I", "UPDATED_TIMER A", "UNCHANGED Q", "NOT_PENDING_RUNNING R",
			"UPDATED_TIMER RA", "UNCHANGED RQ", REFUSED },
		.mode = MODE_EARLIER, .delay = 2 * SEC, IF_PENDING },
	{ "UPDATE later if_pending",
		{ "IDLE I", "IDLE I", "UPDATED_TIMER A", "UPDATED_READY A", "NOT_PENDING_RUNNING R",
			"UPDATED_TIMER RA", "UPDATED_READY RA", REFUSED },
		.mode = MODE_LATER, .delay = 20 * SEC, IF_PENDING },
	{ "CANCEL",
		{ "IDLE I", "IDLE I", "CANCELLED I", "CANCELLED I", "NOT_PENDING_RUNNING R",
			"CANCELLED_RUNNING R", "CANCELLED_RUNNING R", "IDLE X",
			"NOT_PENDING_RUNNING XR" },
		.op = O_CANCEL, .cancel = CANCEL_PLAIN },
	{ "CANCEL wait",
		{ "IDLE I", "IDLE I", "CANCELLED I", "CANCELLED I", "run NOT_PENDING_RUNNING I",
			"run CANCELLED_RUNNING I", "run CANCELLED_RUNNING I", "IDLE X",
			"run NOT_PENDING_RUNNING X" },
		.op = O_CANCEL, .cancel = CANCEL_WAIT },
	{ "CANCEL kill",
		{ "IDLE I", "IDLE I", "CANCELLED I", "CANCELLED I", "kill CANCELLED_RUNNING I",
			"kill CANCELLED_RUNNING I", "kill CANCELLED_RUNNING I", "IDLE X",
			"kill CANCELLED_RUNNING X" },
		.op = O_CANCEL, .cancel = CANCEL_KILL },
	{ "FLUSH",
		{ "IDLE I", "IDLE I", "OK A", "next OK I", "run OK I", "run OK A", "both OK I",
			"IDLE X", "run OK X" },
		.op = O_FLUSH },
	{ "FLUSH now",
		{ "IDLE I", "IDLE I", "next OK I", "next OK I", "run OK I", "both OK I",
			"both OK I", "IDLE X", "run OK X" },
		.op = O_FLUSH, .now = true },
	{ "DISABLE",
		{ "IDLE X", "IDLE X", "CANCELLED X", "CANCELLED X", "NOT_PENDING_RUNNING XR",
			"CANCELLED_RUNNING XR", "CANCELLED_RUNNING XR", "IDLE X",
			"NOT_PENDING_RUNNING XR" },
		.op = O_JOB, .kind = EV_DISABLE },
	{ "ENABLE",
		{ "INVALID I", "INVALID I", "INVALID A", "INVALID Q", "INVALID R", "INVALID RA",
			"INVALID RQ", "OK I", "OK R" },
		.op = O_JOB, .kind = EV_ENABLE },
	{ "DELETE",
		{ "NOT_FOUND -", "OK -", "CANCELLED -", "CANCELLED -", "NOT_PENDING_RUNNING R",
			"CANCELLED_RUNNING R", "CANCELLED_RUNNING R", "OK X",
			"NOT_PENDING_RUNNING XR" },
		.op = O_JOB, .kind = EV_DELETE },
	{ "KICK",
		{ "IDLE I", "IDLE I", "UPDATED_TIMER Q", "UNCHANGED Q", "NOT_PENDING_RUNNING R",
			"UPDATED_TIMER RQ", "UNCHANGED RQ", REFUSED },
		.op = O_JOB, .kind = EV_KICK },
};

#define ROWS (int)(sizeof rows / sizeof rows[0])

static void
set_up(struct rig *r, enum column c)
{
	rig_init(r);
	rig_queue_create(r, "q", "max_active=1 handler=h");
	if (c == C_KEPT) {
		rig_update(r, "job", 0);
		rig_finish(r, "job");
	}
	if (c == C_X)
		rig_job(r, EV_DISABLE, "job");
	/* The one slot is taken, by the job itself or by another. */
	rig_update(r, c >= C_R && c != C_X ? "job" : "blocker", 0);
	if (c == C_A || c == C_RA)
		rig_update(r, "job", ARMED_FOR);
	if (c == C_Q || c == C_RQ)
		rig_update(r, "job", 0);
	if (c == C_XR)
		rig_job(r, EV_DISABLE, "job");
	rig_pass(r, AGO);
	ck_assert_str_eq(rig_state(r, "job"), columns[c].state);
	rig_forget(r);
}

static uint64_t
ask(struct rig *r, const struct row *row)
{
	struct op_update op = rig_op("job", row->delay);

	switch (row->op) {
	case O_UPDATE:
		op.mode = row->mode;
		op.if_pending = row->if_pending;
		return rig_update_op(r, &op);
	case O_CANCEL:
		return rig_cancel(r, "job", row->cancel);
	case O_FLUSH:
		return rig_flush(r, "job", row->now);
	case O_JOB:
		break;
	}
	return rig_job(r, row->kind, "job");
}

/* Lets happen what the cell says is waited for. */
static void
let_happen(struct rig *r, const char *how, uint64_t ticket)
{
	rig_expect_waits(r, ticket);
	ck_assert_int_eq(rig_running(r, "job") ? rig_running(r, "job")->killed : false,
		strcmp(how, "kill") == 0);
	rig_pass(r, 50 * MS);
	rig_expect_waits(r, ticket);
	if (strcmp(how, "kill") == 0) {
		rig_end_run(r, rig_running(r, "job"), RUN_CANCELLED);
	} else if (strcmp(how, "run") == 0) {
		rig_finish(r, "job");
	} else {
		rig_finish(r, strcmp(how, "next") == 0 ? "blocker" : "job");
		rig_expect_waits(r, ticket);
		rig_pass(r, 50 * MS);
		rig_finish(r, "job");
	}
}

static void
check_run(const struct answer *a, const char *how)
{
	ck_assert((a->r.run != NULL) == (how[0] != '\0'));
	if (!a->r.run)
		return;
	ck_assert_int_eq(a->run.outcome, strcmp(how, "kill") == 0 ? RUN_CANCELLED : RUN_DONE);
	ck_assert_uint_eq(a->run.generation, strcmp(how, "both") == 0 ? 2 : 1);
}

/* An update's deadlines: the effective one of what is pending now, and the one before. */
static void
check_deadlines(const struct rig *r, const struct row *row, enum column c, const struct answer *a)
{
	const char *after = rig_state(r, "job");
	bool refused = status_is_error(a->r.status);
	bool pending = strpbrk(after, "AQ") != NULL;
	int64_t armed = r->now.wall_ns - AGO + ARMED_FOR, ready = r->now.wall_ns - AGO;
	int64_t old = c == C_A || c == C_RA ? armed : ready;
	int64_t want = a->r.status == ST_UNCHANGED ? old : r->now.wall_ns + row->delay;

	if (refused || row->op != O_UPDATE)
		return;
	ck_assert(a->r.has_deadline == pending);
	if (pending)
		ck_assert_int_eq(a->r.deadline_wall_ns, want);
	ck_assert(a->r.has_old_deadline == columns[c].pending);
	if (columns[c].pending)
		ck_assert_int_eq(a->r.old_deadline_wall_ns, old);
	/* The generation that the instance will run as, so that one can WAIT for it. */
	if (pending)
		ck_assert_uint_eq(a->r.generation, c == C_NEW || c == C_A || c == C_Q ? 1 : 2);
	ck_assert_uint_eq(a->r.coalesced, columns[c].pending ? 1 : 0);
}

struct cell_text {
	char how[8], reply[32], after[8];
};

static struct cell_text
cell_text(const char *text)
{
	struct cell_text t = { 0 };

	if (text[0] >= 'a' && text[0] <= 'z')
		ck_assert_int_eq(sscanf(text, "%7s %31s %7s", t.how, t.reply, t.after), 3);
	else
		ck_assert_int_eq(sscanf(text, "%31s %7s", t.reply, t.after), 2);
	return t;
}

START_TEST(cell)
{
	const struct row *row = &rows[_i / COLUMNS];
	enum column c = (enum column)(_i % COLUMNS);
	struct cell_text t = cell_text(row->cell[c]);
	const char *how = t.how, *reply = t.reply, *after = t.after, *state;
	struct rig r;
	const struct answer *a;
	uint64_t ticket;

	set_up(&r, c);
	ticket = ask(&r, row);
	if (how[0])
		let_happen(&r, how, ticket);
	a = rig_answer(&r, ticket);
	ck_assert_ptr_nonnull(a);
	ck_assert_str_eq(status_word(a->r.status), reply);
	state = rig_state(&r, "job");
	if (strcmp(state, "-") == 0 && strcmp(after, "I") == 0)
		state = "I";
	ck_assert_str_eq(state, after);
	ck_assert_int_eq(a->r.state_before, columns[c].before);
	ck_assert(a->r.pending_before == columns[c].pending);
	ck_assert_str_eq(a->key, "job");
	ck_assert_str_eq(a->queue, "q");
	check_run(a, how);
	if (!how[0])
		check_deadlines(&r, row, c, a);
	if (row->op == O_JOB && row->kind == EV_DISABLE)
		ck_assert_uint_eq(a->r.disable_depth, 1 + (c == C_X || c == C_XR));
	engine_verify(r.e);
	rig_done(&r);
}
END_TEST

/* One allocation fails, each in turn: the request is done as ever, or refused and without trace. */
START_TEST(cell_without_memory)
{
	const struct row *row = &rows[_i / COLUMNS];
	enum column c = (enum column)(_i % COLUMNS);
	struct cell_text t = cell_text(row->cell[c]);
	bool left = false;

	for (int n = 0; !left; n++) {
		const struct answer *a;
		struct rig r;

		set_up(&r, c);
		alloc_fault_set(n, 0);
		a = rig_answer(&r, ask(&r, row));
		left = alloc_fault_off();
		engine_verify(r.e);
		if (a && a->r.status == ST_REFUSED_LIMIT) {
			ck_assert(!left);
			ck_assert_str_eq(rig_state(&r, "job"), columns[c].state);
			ck_assert(!rig_running(&r, "job") || !rig_running(&r, "job")->killed);
			if (columns[c].pending)
				ck_assert_uint_eq(rig_get(&r, "job").coalesced, 0);
		} else if (a) {
			ck_assert_str_eq(status_word(a->r.status), t.reply);
		} else {
			ck_assert(t.how[0] != '\0');
		}
		rig_done(&r);
	}
}
END_TEST

int
main(void)
{
	static char names[ROWS * COLUMNS][80];
	Suite *s = suite_create("cells");
	TCase *tc;

	for (int i = 0; i < ROWS * COLUMNS; i++) {
		snprintf(names[i], sizeof names[i], "%s in %s", rows[i / COLUMNS].name,
			columns[i % COLUMNS].name);
		tc = unit_case(s, names[i]);
		tcase_add_loop_test(tc, cell, i, i + 1);
		tcase_add_loop_test(tc, cell_without_memory, i, i + 1);
	}
	return unit_run(s);
}
