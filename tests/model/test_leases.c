/*
 * Leases against a reference of a few lines: who holds what, until when, and who
 * owes his word about a lease that is over. Random workers, some of which are
 * slow, stuck, gone or late, on queues with different limits; restarts between.
 * What is checked after each step stands at check_ and see_.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "model/rig.h"
#include "unit/random.h"
#include "unit/unit.h"

#define STEPS   400
#define SEEDS   30
#define WORKERS 5
#define KEYS    4

static const struct {
	const char *name, *settings;
	int64_t lease_ns;
	uint32_t max_active, most_attempts;
} queues[] = {
	{ "many", "action=lease max_attempts=3 retry_delay=500ms lease=2s", 2 * SEC, 16, 3 },
	{ "one", "action=lease ordered=true lease=1s max_interrupts=2", SEC, 1, 3 },
	{ "two", "action=lease max_active=2 max_attempts=5 retry_delay=0 lease=5s", 5 * SEC, 2, 5 },
};
#define QUEUES ARRAY_SIZE(queues)

/* Beside r.runs[i]. */
struct ref_lease {
	size_t queue;
	int64_t until_ns;
	bool held;     /* its job is running under it */
	bool owed;     /* over, and its worker has not said so: the credit is taken */
	bool released; /* it never was */
};

struct ref_worker {
	uint64_t ticket; /* 0: none */
	uint32_t credits;
	bool closed;
	bool in[QUEUES];
};

struct game {
	struct rig r;
	struct rnd random;
	struct ref_lease leases[STEPS * 8];
	size_t n;
	struct ref_worker workers[WORKERS];
	int64_t orphan_until_ns[QUEUES][KEYS]; /* running since before a restart */
	bool killed;                           /* this step may revoke */
	uint64_t last_token;
};

static uint32_t
roll(struct game *g, uint32_t below)
{
	return (uint32_t)rnd_below(&g->random, below);
}

static size_t
queue_index(const char *name)
{
	for (size_t i = 0; i < QUEUES; i++)
		if (strcmp(queues[i].name, name) == 0)
			return i;
	ck_abort_msg("queue %s", name);
	return 0;
}

static const char *
job_text(size_t queue, uint32_t key)
{
	static char text[32];

	snprintf(text, sizeof text, "%s/%u", queues[queue].name, (unsigned)key);
	return text;
}

static struct ref_worker *
worker_by_ticket(struct game *g, uint64_t ticket)
{
	for (size_t i = 0; i < WORKERS; i++)
		if (g->workers[i].ticket == ticket)
			return &g->workers[i];
	return NULL;
}

static uint32_t
taken(const struct game *g, uint64_t ticket)
{
	uint32_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += g->r.runs[i].subscription == ticket &&
			(g->leases[i].held || g->leases[i].owed);
	return n;
}

/* ---- what the engine did ---- */

/* Attempts count from the last run of the job. */
static void
see_attempt(const struct game *g, size_t n)
{
	const struct rig_run *run = &g->r.runs[n];
	uint32_t expected = 1;

	for (size_t i = n; i > 0; i--) {
		const struct rig_run *was = &g->r.runs[i - 1];

		if (strcmp(was->queue, run->queue) != 0 || strcmp(was->key, run->key) != 0)
			continue;
		unit_check(!g->leases[i - 1].held); /* G4 */
		unit_check(was->generation <= run->generation);
		if (was->generation == run->generation)
			expected = was->attempt + !g->leases[i - 1].released;
		break;
	}
	unit_check(run->attempt == expected);
}

static void
see_start(struct game *g, size_t n)
{
	const struct rig_run *run = &g->r.runs[n];
	const struct ref_worker *w = worker_by_ticket(g, run->subscription);
	size_t q = queue_index(run->queue);
	int64_t *orphan = &g->orphan_until_ns[q][run->key[0] - '0'];

	unit_check(run->lease > g->last_token);
	g->last_token = run->lease;
	unit_check(w && !w->closed && w->in[q]);
	unit_check(run->at_ns >= *orphan);
	*orphan = 0;
	unit_check(run->attempt <= queues[q].most_attempts);
	see_attempt(g, n);
	g->leases[n] = (struct ref_lease){
		.queue = q, .until_ns = run->at_ns + queues[q].lease_ns, .held = true
	};
}

/* Leases end when their time is over, and not before, unless a cancel did it. */
static void
see_revoked(struct game *g, size_t i)
{
	const struct rig_run *run = &g->r.runs[i];
	struct ref_lease *l = &g->leases[i];

	if (l->held && run->revoked) {
		unit_check(g->killed || l->until_ns <= g->r.now.boot_ns);
		l->held = false;
		l->owed = true;
	}
	unit_check(!l->held || l->until_ns > g->r.now.boot_ns);
	unit_check(l->held == run->going);
}

static void
see(struct game *g)
{
	/* Those first that were there: a start may follow the end of another. */
	for (size_t i = 0; i < g->n; i++)
		see_revoked(g, i);
	for (; g->n < g->r.n_runs; g->n++) {
		ck_assert(g->n < ARRAY_SIZE(g->leases));
		see_start(g, g->n);
		/* A long pass of time may have ended it again. */
		see_revoked(g, g->n);
	}
	for (size_t i = 0; i < WORKERS; i++)
		if (g->workers[i].ticket)
			unit_check(g->killed || g->workers[i].closed ||
				taken(g, g->workers[i].ticket) <= g->workers[i].credits);
	g->killed = false;
}

/* ---- what must hold ---- */

static bool
worker_free_for(const struct game *g, size_t q)
{
	for (size_t i = 0; i < WORKERS; i++) {
		const struct ref_worker *w = &g->workers[i];

		if (w->ticket && !w->closed && w->in[q] && taken(g, w->ticket) < w->credits)
			return true;
	}
	return false;
}

/* Nothing waits that could be had. */
static void
check_work_conserving(const struct game *g, size_t q)
{
	struct queue_view v = rig_queue(&g->r, queues[q].name);
	uint64_t waits = v.ready + v.held;

	for (uint32_t k = 0; k < KEYS; k++)
		waits -= strcmp(rig_state(&g->r, job_text(q, k)), "RQ") == 0;
	if (!v.paused && v.running < queues[q].max_active && worker_free_for(g, q))
		unit_check(waits == 0);
	unit_check(v.running <= queues[q].max_active);
}

static void
check_looks(const struct game *g)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct rig_run *run = &g->r.runs[i];
		struct job_view v;

		if (!g->leases[i].held)
			continue;
		v = rig_get(&g->r, job_text(g->leases[i].queue, (uint32_t)(run->key[0] - '0')));
		unit_check(v.state == JOB_RUNNING && v.leased);
		unit_check(v.lease_token == run->lease && str_eq(v.holder, STR("worker")));
		unit_check(v.lease_left_ns == g->leases[i].until_ns - g->r.now.boot_ns);
	}
}

static void
check(struct game *g)
{
	see(g);
	for (size_t q = 0; q < QUEUES; q++)
		check_work_conserving(g, q);
	check_looks(g);
	engine_verify(g->r.e);
}

/* ---- what happens ---- */

static void
do_subscribe(struct game *g)
{
	struct ref_worker *w = worker_by_ticket(g, 0);
	char names[64] = "";

	if (!w)
		return;
	*w = (struct ref_worker){ .credits = 1 + roll(g, 3) };
	for (size_t q = 0; q < QUEUES; q++) {
		w->in[q] = roll(g, 2);
		if (!w->in[q])
			continue;
		strcat(names, names[0] ? " " : "");
		strcat(names, queues[q].name);
	}
	if (!names[0])
		return;
	w->ticket = g->r.last_ticket + 1;
	unit_check(rig_subscribe(&g->r, names, w->credits) == w->ticket);
}

/* Over: it is answered, and its number may be used again. */
static void
forget_closed(struct game *g)
{
	for (size_t i = 0; i < WORKERS; i++) {
		struct ref_worker *w = &g->workers[i];

		if (!w->ticket || !w->closed || taken(g, w->ticket) > 0)
			continue;
		rig_expect(&g->r, w->ticket, ST_OK);
		w->ticket = 0;
	}
}

static void
do_leave(struct game *g, struct ref_worker *w)
{
	uint64_t ticket = w->ticket;

	for (size_t i = 0; i < g->n; i++)
		if (g->r.runs[i].subscription == ticket)
			g->leases[i].held = g->leases[i].owed = false;
	w->ticket = 0;
	rig_leave(&g->r, ticket);
}

static void
do_worker(struct game *g)
{
	struct ref_worker *w = &g->workers[roll(g, WORKERS)];

	if (!w->ticket) {
		do_subscribe(g);
	} else if (roll(g, 3) == 0) {
		do_leave(g, w);
	} else if (w->closed) {
		rig_expect(&g->r, rig_credits(&g->r, EV_CREDITS, w->ticket, 1), ST_INVALID);
	} else if (roll(g, 3) == 0) {
		w->closed = true;
		rig_expect(&g->r, rig_credits(&g->r, EV_UNSUBSCRIBE, w->ticket, 0), ST_OK);
	} else {
		/* What it has already may be more. */
		w->credits = taken(g, w->ticket) + roll(g, 3);
		rig_expect(&g->r, rig_credits(&g->r, EV_CREDITS, w->ticket, w->credits), ST_OK);
	}
}

/* Of the last leases, held or long over. */
static void
do_word(struct game *g)
{
	static const enum engine_event_kind words[] = { EV_TOUCH, EV_FINISH, EV_FAIL, EV_RELEASE };
	enum engine_event_kind what = words[roll(g, ARRAY_SIZE(words))];
	size_t i = g->n - 1 - roll(g, g->n < 8 ? (uint32_t)g->n : 8);
	struct ref_lease *l = &g->leases[i];
	bool held = l->held;

	if (held && what == EV_TOUCH)
		l->until_ns = g->r.now.boot_ns + queues[l->queue].lease_ns;
	if (what != EV_TOUCH)
		l->held = l->owed = false;
	l->released = held ? what == EV_RELEASE : l->released;
	rig_expect(&g->r, rig_lease(&g->r, what, &g->r.runs[i]), held ? ST_OK : ST_LEASE_LOST);
}

static void
do_job(struct game *g)
{
	size_t q = roll(g, QUEUES);
	uint32_t k = roll(g, KEYS);
	const char *job = job_text(q, k);

	switch (roll(g, 8)) {
	case 0:
		(void)rig_cancel(&g->r, job, CANCEL_PLAIN);
		break;
	case 1:
		g->killed = true;
		g->orphan_until_ns[q][k] = 0;
		(void)rig_cancel(&g->r, job, CANCEL_KILL);
		break;
	case 2:
		(void)rig_job(&g->r, EV_KICK, job);
		break;
	case 3:
		if (roll(g, 3) == 0)
			(void)rig_pause(&g->r, queues[q].name);
		else
			(void)rig_resume(&g->r, queues[q].name);
		break;
	default:
		(void)rig_update(&g->r, job, roll(g, 2) ? 0 : roll(g, 2000) * MS);
		break;
	}
}

static void
do_restart(struct game *g)
{
	g->r.cfg.fence = g->last_token + 5;
	for (size_t q = 0; q < QUEUES; q++)
		for (size_t k = 0; k < KEYS; k++)
			if (g->orphan_until_ns[q][k] <= g->r.now.boot_ns)
				g->orphan_until_ns[q][k] = 0;
	for (size_t i = 0; i < WORKERS; i++)
		g->workers[i].ticket = 0;
	rig_restart(&g->r, roll(g, 3000) * MS, roll(g, 2));
	for (size_t i = 0; i < g->n; i++) {
		const struct ref_lease *l = &g->leases[i];

		if (l->held)
			g->orphan_until_ns[l->queue][g->r.runs[i].key[0] - '0'] =
				g->r.now.boot_ns + queues[l->queue].lease_ns;
		g->leases[i].held = g->leases[i].owed = false;
	}
	/* Boot time may have begun anew. */
	for (size_t q = 0; q < QUEUES; q++)
		for (size_t k = 0; k < KEYS; k++)
			if (g->orphan_until_ns[q][k] > 0)
				g->orphan_until_ns[q][k] = g->r.now.boot_ns + queues[q].lease_ns;
}

static void
play(struct game *g)
{
	switch (roll(g, 40)) {
	case 0:
		do_restart(g);
		break;
	case 1 ... 6:
		do_worker(g);
		break;
	case 7 ... 22:
		if (g->n > 0)
			do_word(g);
		break;
	case 23 ... 34:
		do_job(g);
		break;
	default:
		rig_pass(&g->r, roll(g, 1500) * MS);
		break;
	}
}

START_TEST(leases_agree_with_the_reference)
{
	struct game *g = must_realloc(NULL, 1, sizeof *g);
	const char *seed = getenv("WQD_MODEL_SEED");

	memset(g, 0, sizeof *g);
	g->random.s = seed ? strtoull(seed, NULL, 10) : (uint64_t)_i + 1;
	rig_init(&g->r);
	for (size_t q = 0; q < QUEUES; q++)
		rig_expect(
			&g->r, rig_queue_create(&g->r, queues[q].name, queues[q].settings), ST_OK);
	for (int i = 0; i < 3; i++)
		do_subscribe(g);
	for (int i = 0; i < STEPS; i++) {
		play(g);
		check(g);
		forget_closed(g);
	}
	ck_assert(g->n >= 5);
	rig_done(&g->r);
	x_free(g);
}
END_TEST

/* ---- single rules ---- */

START_TEST(payloads_ahead_of_answers_are_bounded)
{
	static char big[700000];
	struct op_update u;
	struct rig r;

	rig_init(&r);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	memset(big, 'x', sizeof big);
	for (int i = 0; i < 4; i++) {
		char key[16];

		snprintf(key, sizeof key, "q/%d", i);
		u = rig_op(key, 0);
		u.payload_mode = PAYLOAD_APPEND;
		u.payload = (struct str){ big, sizeof big };
		rig_expect(&r, rig_update_op(&r, &u), ST_CREATED);
	}
	r.terse = true;
	rig_subscribe(&r, "q", 100);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 2);
	rig_expect(&r, rig_lease(&r, EV_FINISH, &r.runs[0]), ST_OK);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 2);
	rig_done(&r);
}
END_TEST

START_TEST(requests_out_of_range_are_refused)
{
	struct op_lease op = { .job = rig_name("q/a"), .lease_ns = -1, .exit_code = -1 };
	struct rig_run run;
	struct rig r;

	rig_init(&r);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	rig_expect(&r, rig_queue_create(&r, "n", "action=none"), ST_OK);
	rig_expect(&r, rig_subscribe(&r, "q", 0), ST_INVALID);
	rig_expect(&r, rig_subscribe(&r, "q", CREDITS_MAX + 1), ST_INVALID);
	rig_expect(&r, rig_subscribe(&r, "q nowhere", 1), ST_NOT_FOUND);
	rig_expect(&r, rig_subscribe(&r, "q n", 1), ST_INVALID);
	rig_expect(&r, rig_subscribe(&r, "a/b", 1), ST_INVALID);
	rig_expect(&r, rig_credits(&r, EV_CREDITS, 12345, 1), ST_INVALID);
	rig_subscribe(&r, "q q", CREDITS_MAX);
	rig_update(&r, "q/a", 0);
	run = *rig_running(&r, "q/a");
	op.token = run.lease;
	op.lease_ns = LEASE_MIN_NS - 1;
	rig_expect(&r, rig_send(&r, EV_TOUCH, &op, 0), ST_INVALID);
	op.lease_ns = LEASE_MAX_NS + 1;
	rig_expect(&r, rig_send(&r, EV_TOUCH, &op, 0), ST_INVALID);
	op.lease_ns = -1;
	op.has_retry_after = true;
	op.retry_after_ns = -1;
	rig_expect(&r, rig_send(&r, EV_FAIL, &op, 0), ST_INVALID);
	op.retry_after_ns = DELAY_MAX_NS + 1;
	rig_expect(&r, rig_send(&r, EV_FAIL, &op, 0), ST_INVALID);
	op.has_retry_after = false;
	op.job.key = STR("b");
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_LEASE_LOST);
	op.job = rig_name("q/a");
	op.token++;
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_LEASE_LOST);
	op.token--;
	/* Another connection may speak for the holder: it has the token. */
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_OK);
	rig_done(&r);
}
END_TEST

START_TEST(a_finish_sent_again_gets_its_answer)
{
	struct op_lease op = {
		.job = rig_name("q/a"), .lease_ns = -1, .exit_code = 3, .idem = STR("id")
	};
	struct rig r;

	rig_init(&r);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease durability=sync"), ST_OK);
	rig_subscribe(&r, "q", 1);
	rig_update(&r, "q/a", 0);
	op.token = rig_running(&r, "q/a")->lease;
	rig_running(&r, "q/a")->going = false;
	ck_assert(rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_OK)->durable);
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_OK);
	rig_restart(&r, SEC, true);
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_OK);
	ck_assert_int_eq(rig_get(&r, "q/a").last->exit_code, 3);
	op.idem = STR_NONE;
	rig_expect(&r, rig_send(&r, EV_FINISH, &op, 0), ST_LEASE_LOST);
	rig_done(&r);
}
END_TEST

START_TEST(a_queue_that_goes_ends_its_subscriptions)
{
	struct rig r;
	uint64_t w, both;

	rig_init(&r);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	rig_expect(&r, rig_queue_create(&r, "p", "action=lease"), ST_OK);
	w = rig_subscribe(&r, "q", 1);
	both = rig_subscribe(&r, "q p", 1);
	ck_assert_uint_eq(rig_queue(&r, "q").workers, 2);
	rig_expect(&r, rig_queue_delete(&r, "q", TIMERS_CANCEL), ST_OK);
	rig_expect(&r, w, ST_NOT_FOUND);
	rig_expect_waits(&r, both);
	rig_update(&r, "p/a", 0);
	ck_assert_ptr_nonnull(rig_running(&r, "p/a"));
	rig_done(&r);
}
END_TEST

START_TEST(queues_of_a_namespace_have_workers_too)
{
	struct rig r;

	rig_init(&r);
	engine_set_spaces(r.e);
	rig_expect(&r, rig_queue_create(&r, "team/q", "action=lease"), ST_OK);
	rig_expect_waits(&r, rig_subscribe(&r, "team/q", 1));
	ck_assert_uint_eq(rig_queue(&r, "team/q").workers, 1);
	rig_expect(&r, rig_subscribe(&r, "other/q", 1), ST_NOT_FOUND);
	rig_expect(&r, rig_subscribe(&r, "team/q/x", 1), ST_INVALID);
	rig_done(&r);
}
END_TEST

START_TEST(leases_do_not_count_as_processes)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
	struct rig r;

	cfg.max_runs = 1;
	rig_init_config(&r, &cfg);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	rig_expect(&r, rig_queue_create(&r, "x", "handler=h"), ST_OK);
	rig_subscribe(&r, "q", 5);
	for (int i = 0; i < 5; i++) {
		char key[16];

		snprintf(key, sizeof key, "q/%d", i);
		rig_update(&r, key, 0);
	}
	rig_update(&r, "x/a", 0);
	rig_update(&r, "x/b", 0);
	ck_assert_uint_eq(rig_running_count(&r, "q"), 5);
	ck_assert_uint_eq(rig_running_count(&r, "x"), 1);
	rig_done(&r);
}
END_TEST

START_TEST(what_could_not_be_sent_never_was)
{
	struct engine_event ev = { .kind = EV_UNSENT };
	struct effects fx;
	struct rig r;

	rig_init(&r);
	effects_init(&fx);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	rig_subscribe(&r, "q", 1);
	rig_update(&r, "q/a", 0);
	ev.run_id = rig_running(&r, "q/a")->id;
	rig_running(&r, "q/a")->going = false;
	engine_step(r.e, r.now, &ev, &fx);
	ck_assert_str_eq(rig_state(&r, "q/a"), "Q");
	rig_subscribe(&r, "q", 1);
	ck_assert_uint_eq(rig_running(&r, "q/a")->attempt, 1);
	effects_done(&fx);
	rig_done(&r);
}
END_TEST

/* As where a start came to nothing: both generations were promised, one run stands for them. */
START_TEST(what_was_released_is_waited_for_by_both_numbers)
{
	struct rig r;

	rig_init(&r);
	rig_expect(&r, rig_queue_create(&r, "q", "action=lease"), ST_OK);
	rig_subscribe(&r, "q", 1);
	rig_update(&r, "q/a", 0);
	ck_assert_uint_eq(
		rig_expect(&r, rig_update(&r, "q/a", 0), ST_REQUEUED_RUNNING)->r.generation, 2);
	rig_expect(&r, rig_lease(&r, EV_RELEASE, rig_running(&r, "q/a")), ST_OK);
	ck_assert_uint_eq(rig_running(&r, "q/a")->generation, 2);
	rig_expect(&r, rig_lease(&r, EV_FINISH, rig_running(&r, "q/a")), ST_OK);
	for (uint64_t n = 1; n <= 2; n++)
		ck_assert_uint_eq(rig_expect(&r, rig_wait(&r, "q/a", n), ST_OK)->run.generation, 2);
	rig_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("leases");
	TCase *tc = unit_case(s, "rules");

	tcase_add_test(tc, payloads_ahead_of_answers_are_bounded);
	tcase_add_test(tc, requests_out_of_range_are_refused);
	tcase_add_test(tc, a_finish_sent_again_gets_its_answer);
	tcase_add_test(tc, a_queue_that_goes_ends_its_subscriptions);
	tcase_add_test(tc, queues_of_a_namespace_have_workers_too);
	tcase_add_test(tc, leases_do_not_count_as_processes);
	tcase_add_test(tc, what_could_not_be_sent_never_was);
	tcase_add_test(tc, what_was_released_is_waited_for_by_both_numbers);
	tc = unit_case(s, "random");
	tcase_add_loop_test(tc, leases_agree_with_the_reference, 0, SEEDS);
	return unit_run(s);
}
