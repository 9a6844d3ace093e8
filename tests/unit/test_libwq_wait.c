/* libwq's waiting half: named completions, the events of a watch, the progress of a drain, and what
 * more can be said about a change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "wq.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name
#define QUICK    "reconnect_min=1ms,reconnect_max=2ms"

static ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

/* ---- completions ---- */

static void
answer_completion(struct fake *f, uint64_t id, uint32_t done, bool open, uint64_t waiters)
{
	Wq__V1__Reply r = fake_answer(id, ST(OK));
	Wq__V1__CompletionInfo c = WQ__V1__COMPLETION_INFO__INIT;

	c.name = bytes("gate");
	c.done = done;
	c.open = open;
	c.waiters = waiters;
	c.durability = WQ__V1__DURABILITY__DURABILITY_SYNC;
	r.completion = &c;
	fake_reply(f, &r);
}

static void
script_completions(struct fake *f)
{
	static const Wq__V1__Request__OpCase ops[] = { OP(COMPLETE), OP(COMPLETE_ALL),
		OP(COMPLETION_REINIT), OP(COMPLETION_SHOW) };
	Wq__V1__Request *q;

	fake_greet(f);
	for (uint32_t i = 0; i < 4; i++) {
		q = fake_expect(f, ops[i]);
		/* one layout for all four */
		ck_assert_mem_eq(q->complete->name.data, "gate", 4);
		ck_assert_int_eq(q->complete->durability, WQ__V1__DURABILITY__DURABILITY_SYNC);
		ck_assert_int_eq(q->complete->idempotency_id.len > 0, i != 3);
		answer_completion(f, q->id, i == 1 ? 0 : i + 5, i == 1, 7);
		fake_free(q);
	}
	q = fake_expect(f, OP(COMPLETION_WAIT));
	ck_assert_mem_eq(q->completion_wait->name.data, "gate", 4);
	ck_assert_int_eq(q->completion_wait->has_timeout_ms_case,
		WQ__V1__COMPLETION_WAIT__HAS_TIMEOUT_MS__NOT_SET);
	fake_status(f, q->id, ST(OK));
	fake_free(q);
	q = fake_expect(f, OP(COMPLETION_WAIT));
	ck_assert_int_eq(q->completion_wait->has_timeout_ms_case,
		WQ__V1__COMPLETION_WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS);
	ck_assert_int_eq(q->completion_wait->timeout_ms, 0);
	fake_status(f, q->id, ST(TIMEOUT));
	fake_free(q);
	fake_serve(f, OP(COMPLETE), ST(REFUSED_LIMIT));
	fake_serve(f, OP(COMPLETE), ST(OK)); /* without what it is now */
	fake_wait_eof(f);
}

START_TEST(completions_are_asked_for_as_they_are_called)
{
	static const wq_completion_op_t ops[] = { WQ_COMPLETION_COMPLETE,
		WQ_COMPLETION_COMPLETE_ALL, WQ_COMPLETION_REINIT, WQ_COMPLETION_SHOW };
	wq_completion_info_t now = { 0 };
	struct fake f;
	wq_t *wq = fake_connected(&f, script_completions, NULL, NULL);

	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(wq_completion(wq, ops[i], "gate", WQ_SYNC, &now), 0);
		ck_assert_uint_eq(now.done, i == 1 ? 0 : i + 5);
		ck_assert_int_eq(now.open, i == 1);
		ck_assert_uint_eq(now.waiters, 7);
		ck_assert_int_eq(now.durability, WQ_SYNC);
	}
	ck_assert_int_eq(wq_completion_wait(wq, "gate", -1), 0);
	ck_assert_int_eq(wq_completion_wait(wq, "gate", 0), -WQ_TIMEOUT);
	now.done = 99;
	ck_assert_int_eq(wq_completion(wq, WQ_COMPLETION_COMPLETE, "gate", WQ_DEFAULT, &now),
		-WQ_REFUSED_LIMIT);
	ck_assert_uint_eq(now.done, 99);
	ck_assert_int_eq(wq_completion(wq, WQ_COMPLETION_COMPLETE, "gate", WQ_DEFAULT, &now),
		WQ_ERR_PROTOCOL);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(bad_names_of_completions_are_refused_at_once)
{
	char longest[257];
	wq_t *wq;

	memset(longest, 'x', 256);
	longest[256] = '\0';
	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	ck_assert_int_eq(wq_completion_wait(wq, NULL, 0), -WQ_INVALID);
	ck_assert_int_eq(wq_completion_wait(wq, "", 0), -WQ_INVALID);
	ck_assert_int_eq(wq_completion_wait(wq, longest, 0), -WQ_INVALID);
	ck_assert_int_eq(
		wq_completion(wq, WQ_COMPLETION_COMPLETE, NULL, WQ_DEFAULT, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_completion(wq, (wq_completion_op_t)99, "c", WQ_DEFAULT, NULL), -EINVAL);
	ck_assert_int_eq(wq_send_completion_wait(wq, "", -1, NULL, NULL), -WQ_INVALID);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	wq_free(wq);
}
END_TEST

struct seen {
	int n;
	int result[8];
	uint32_t done[8];
};

static void
note(wq_t *wq, const wq_reply_t *r, void *arg)
{
	struct seen *s = arg;

	(void)wq;
	ck_assert_int_lt(s->n, 8);
	s->result[s->n] = r->result;
	s->done[s->n] = r->completion ? r->completion->done : 0;
	s->n++;
}

/* Breaks with a completion, a wait and a look in flight: all three come again, the change under the
 * id that it had. */
static void
script_break_completions(struct fake *f)
{
	Wq__V1__Request *first[3], *again;

	fake_greet(f);
	first[0] = fake_expect(f, OP(COMPLETE));
	first[1] = fake_expect(f, OP(COMPLETION_WAIT));
	first[2] = fake_expect(f, OP(COMPLETION_SHOW));
	fake_close(f);
	fake_greet(f);
	again = fake_expect(f, OP(COMPLETE));
	ck_assert_uint_eq(again->complete->idempotency_id.len, 20);
	ck_assert_mem_eq(
		again->complete->idempotency_id.data, first[0]->complete->idempotency_id.data, 20);
	answer_completion(f, again->id, 1, false, 0);
	fake_free(again);
	fake_serve(f, OP(COMPLETION_WAIT), ST(OK));
	again = fake_expect(f, OP(COMPLETION_SHOW));
	answer_completion(f, again->id, 2, false, 0);
	fake_free(again);
	for (int i = 0; i < 3; i++)
		fake_free(first[i]);
	fake_wait_eof(f);
}

START_TEST(completions_are_asked_for_again_after_a_break)
{
	struct seen s = { 0 };
	struct fake f;
	wq_t *wq = fake_connected(&f, script_break_completions, NULL, QUICK);

	ck_assert_int_eq(
		wq_send_completion(wq, WQ_COMPLETION_COMPLETE, "gate", WQ_DEFAULT, note, &s), 0);
	ck_assert_int_eq(wq_send_completion_wait(wq, "gate", -1, note, &s), 0);
	ck_assert_int_eq(
		wq_send_completion(wq, WQ_COMPLETION_SHOW, "gate", WQ_DEFAULT, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(s.result[i], 0);
	ck_assert_uint_eq(s.done[0], 1);
	ck_assert_uint_eq(s.done[2], 2);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- watching ---- */

static void
send_events(struct fake *f, uint64_t id, uint64_t lost, bool unknown, uint64_t position, size_t n)
{
	Wq__V1__Event e[2], *p[2] = { &e[0], &e[1] };
	Wq__V1__Reply r = fake_answer(id, ST(OK));

	for (size_t i = 0; i < n; i++) {
		wq__v1__event__init(&e[i]);
		e[i].position = position + 1 + i;
		e[i].kind = WQ__V1__EVENT_KIND__EVENT_KIND_ARMED;
		e[i].at_ms = 1000;
		e[i].queue = (char *)(uintptr_t) "q";
		e[i].key = bytes("k");
		e[i].generation = 3;
		e[i].has_deadline_ms_case = WQ__V1__EVENT__HAS_DEADLINE_MS_DEADLINE_MS;
		e[i].deadline_ms = 5000;
	}
	if (n == 2) {
		e[1].kind = WQ__V1__EVENT_KIND__EVENT_KIND_FINISHED;
		e[1].has_deadline_ms_case = WQ__V1__EVENT__HAS_DEADLINE_MS__NOT_SET;
		e[1].outcome = WQ__V1__RUN_OUTCOME__RUN_OUTCOME_FAILED;
		e[1].attempt = 2;
		e[1].final = true;
	}
	r.more = true;
	r.lost = lost;
	r.lost_unknown = unknown;
	r.position = position;
	r.n_events = n;
	r.events = p;
	fake_reply(f, &r);
}

static void
script_watch(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	q = fake_expect(f, OP(WATCH));
	ck_assert_str_eq(q->watch->queue, "q");
	ck_assert_mem_eq(q->watch->prefix.data, "k", 1);
	ck_assert_uint_eq(q->watch->n_kinds, 2);
	ck_assert_int_eq(q->watch->kinds[0], WQ__V1__EVENT_KIND__EVENT_KIND_ARMED);
	ck_assert_int_eq(q->watch->kinds[1], WQ__V1__EVENT_KIND__EVENT_KIND_FINISHED);
	ck_assert_int_eq(q->watch->has_after_case, WQ__V1__WATCH__HAS_AFTER_AFTER);
	ck_assert_uint_eq(q->watch->after, 40);
	send_events(f, q->id, 0, false, 40, 0);
	send_events(f, q->id, 0, false, 40, 2);
	send_events(f, q->id, 5, true, 47, 1);
	fake_free(q);
	/* What else is asked meanwhile is answered between the events. */
	fake_serve(f, OP(PING), ST(REFUSED_LIMIT));
	fake_close(f);
	/* A stream does not come again by itself. */
	fake_greet(f);
	fake_serve(f, OP(WATCH), ST(REFUSED_LIMIT));
	fake_wait_eof(f);
}

struct told {
	int n;
	wq_event_t e[8]; /* without their texts */
	char key[8][8];
};

static void
on_event(wq_t *wq, const wq_event_t *e, void *arg)
{
	struct told *t = arg;

	(void)wq;
	ck_assert_int_lt(t->n, 8);
	ck_assert_uint_eq(e->size, sizeof *e);
	t->e[t->n] = *e;
	snprintf(t->key[t->n], sizeof t->key[0], "%s", e->key);
	t->n++;
}

START_TEST(a_watch_tells_beginning_events_gaps_and_end)
{
	wq_watch_opts_t o = WQ_WATCH_INIT;
	struct told t = { 0 };
	struct fake f;
	wq_t *wq = fake_connected(&f, script_watch, NULL, QUICK);

	o.queue = "q";
	o.prefix = "k";
	o.kinds = 1u << WQ_EVENT_ARMED | 1u << WQ_EVENT_FINISHED;
	o.resume = 1;
	o.after = 40;
	ck_assert_int_eq(wq_send_watch(wq, &o, on_event, &t), 0);
	ck_assert_int_eq(wq_ping(wq, NULL), -WQ_REFUSED_LIMIT);
	while (t.n < 6)
		ck_assert_int_ge(wq_run(wq, 1000), WQ_ERR_TIMEOUT);
	/* begins */
	ck_assert_int_eq(t.e[0].kind, WQ_EVENT_NONE);
	ck_assert_uint_eq(t.e[0].position, 40);
	ck_assert_uint_eq(t.e[0].lost, 0);
	/* two events */
	ck_assert_int_eq(t.e[1].kind, WQ_EVENT_ARMED);
	ck_assert_uint_eq(t.e[1].position, 41);
	ck_assert_int_eq(t.e[1].deadline_ms, 5000);
	ck_assert_uint_eq(t.e[1].generation, 3);
	ck_assert_str_eq(t.key[1], "k");
	ck_assert_int_eq(t.e[2].kind, WQ_EVENT_FINISHED);
	ck_assert_int_eq(t.e[2].deadline_ms, -1);
	ck_assert_int_eq(t.e[2].outcome, WQ_RUN_FAILED);
	ck_assert_uint_eq(t.e[2].attempt, 2);
	ck_assert_int_eq(t.e[2].final, 1);
	/* a gap, and what came behind it */
	ck_assert_int_eq(t.e[3].kind, WQ_EVENT_NONE);
	ck_assert_uint_eq(t.e[3].lost, 5);
	ck_assert_int_eq(t.e[3].lost_unknown, 1);
	ck_assert_uint_eq(t.e[4].position, 48);
	/* over */
	ck_assert_int_eq(t.e[5].result, WQ_ERR_CLOSED);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	t.n = 0;
	ck_assert_int_eq(wq_send_watch(wq, NULL, on_event, &t), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(t.n, 1);
	ck_assert_int_eq(t.e[0].result, -WQ_REFUSED_LIMIT);
	o.size = 1;
	ck_assert_int_eq(wq_send_watch(wq, &o, on_event, &t), -EINVAL);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(a_watch_ends_with_its_handle)
{
	struct told t = { 0 };
	wq_t *wq;

	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	ck_assert_int_eq(wq_send_watch(wq, NULL, on_event, &t), 0);
	wq_free(wq);
	ck_assert_int_eq(t.n, 1);
	ck_assert_int_eq(t.e[0].result, WQ_ERR_CLOSED);
}
END_TEST

/* ---- the progress of a drain ---- */

static void
script_drain(struct fake *f)
{
	Wq__V1__Progress progress = WQ__V1__PROGRESS__INIT;
	Wq__V1__Request *q;
	Wq__V1__Reply r;

	fake_greet(f);
	q = fake_expect(f, OP(DRAIN));
	ck_assert_str_eq(q->drain->queue, "q");
	ck_assert_int_eq(q->drain->timers, WQ__V1__TIMER_POLICY__TIMER_POLICY_CANCEL);
	ck_assert_int_eq(q->drain->progress_ms, 250);
	for (uint64_t left = 3; left > 0; left--) {
		r = fake_answer(q->id, ST(OK));
		r.more = true;
		progress.left = left;
		progress.running = 1;
		progress.has_oldest_ms_case = left > 1 ? WQ__V1__PROGRESS__HAS_OLDEST_MS_OLDEST_MS
						       : WQ__V1__PROGRESS__HAS_OLDEST_MS__NOT_SET;
		progress.oldest_ms = 77;
		r.progress = &progress;
		fake_reply(f, &r);
	}
	fake_status(f, q->id, ST(OK));
	fake_free(q);
	/* One that breaks off is undone, and is not begun again behind the caller's back. */
	fake_free(fake_expect(f, OP(DRAIN)));
	fake_close(f);
	fake_greet(f);
	fake_serve(f, OP(PAUSE), ST(OK));
	fake_wait_eof(f);
}

/* One argument for both callbacks. */
struct far {
	struct seen s; /* first */
	int n;
	uint64_t left[4];
	int64_t oldest[4];
};

static void
on_progress(wq_t *wq, const wq_progress_t *p, void *arg)
{
	struct far *far = arg;

	(void)wq;
	ck_assert_int_lt(far->n, 4);
	ck_assert_uint_eq(p->running, 1);
	far->left[far->n] = p->left;
	far->oldest[far->n] = p->oldest_ms;
	far->n++;
}

START_TEST(a_drain_tells_how_far_it_is)
{
	struct far far = { 0 };
	struct fake f;
	wq_t *wq = fake_connected(&f, script_drain, NULL, QUICK);

	ck_assert_int_eq(
		wq_send_drain(wq, "q", WQ_TIMERS_CANCEL, 0, -1, 250, on_progress, note, &far), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(far.n, 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(far.left[i], 3 - i);
		ck_assert_int_eq(far.oldest[i], i < 2 ? 77 : -1);
	}
	ck_assert_int_eq(far.s.n, 1);
	ck_assert_int_eq(far.s.result[0], 0);
	ck_assert_int_eq(wq_send_drain(wq, "q", WQ_TIMERS_KEEP, 0, -1, 0, NULL, note, &far), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(far.s.result[1], WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_pause(wq, "q"), 0);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- changes ---- */

static void
script_changes(struct fake *f)
{
	static const Wq__V1__Request__OpCase ops[] = { OP(DELETE), OP(DISABLE), OP(ENABLE),
		OP(KICK) };
	Wq__V1__Request *q;

	fake_greet(f);
	for (size_t i = 0; i < 4; i++) {
		q = fake_expect(f, ops[i]);
		ck_assert_int_eq(q->kick->durability, WQ__V1__DURABILITY__DURABILITY_SYNC);
		ck_assert_uint_eq(q->kick->idempotency_id.len, 4);
		ck_assert_mem_eq(q->kick->idempotency_id.data, "mine", 4);
		fake_status(f, q->id, ST(OK));
		fake_free(q);
	}
	q = fake_expect(f, OP(CANCEL));
	ck_assert_int_eq(q->cancel->durability, WQ__V1__DURABILITY__DURABILITY_MEMORY);
	ck_assert_uint_eq(q->cancel->idempotency_id.len, 20);
	fake_status(f, q->id, ST(CANCELLED));
	fake_free(q);
	q = fake_expect(f, OP(KICK));
	ck_assert_int_eq(q->kick->durability, WQ__V1__DURABILITY__DURABILITY_DEFAULT);
	fake_status(f, q->id, ST(OK));
	fake_free(q);
	q = fake_expect(f, OP(CANCEL));
	ck_assert_int_eq(q->cancel->durability, WQ__V1__DURABILITY__DURABILITY_DEFAULT);
	fake_status(f, q->id, ST(IDLE));
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(a_change_has_its_level_and_its_id)
{
	static const wq_job_op_t ops[] = { WQ_OP_DELETE, WQ_OP_DISABLE, WQ_OP_ENABLE, WQ_OP_KICK };
	wq_change_opts_t o = WQ_CHANGE_INIT;
	wq_result_t res;
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq = fake_connected(&f, script_changes, NULL, NULL);

	o.durability = WQ_SYNC;
	o.idempotency_id = "mine";
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(wq_job_with(wq, ops[i], "q", "k", &o, NULL), 0);
	o.durability = WQ_MEMORY;
	o.idempotency_id = NULL;
	ck_assert_int_eq(wq_cancel_with(wq, "q", "k", WQ_CANCEL_PLAIN, -1, &o, &res), 0);
	ck_assert_int_eq(res.status, WQ_CANCELLED);
	ck_assert_int_eq(wq_send_job_with(wq, WQ_OP_KICK, "q", "k", NULL, note, &s), 0);
	ck_assert_int_eq(wq_send_cancel_with(wq, "q", "k", WQ_CANCEL_PLAIN, -1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 2);
	o.size = 2;
	ck_assert_int_eq(wq_job_with(wq, WQ_OP_KICK, "q", "k", &o, NULL), -EINVAL);
	ck_assert_int_eq(wq_cancel_with(wq, "q", "k", WQ_CANCEL_PLAIN, -1, &o, NULL), -EINVAL);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	fake_done_with(&f, wq);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq_wait");
	TCase *tc = client_case(s, "waiting");

	tcase_add_test(tc, completions_are_asked_for_as_they_are_called);
	tcase_add_test(tc, bad_names_of_completions_are_refused_at_once);
	tcase_add_test(tc, completions_are_asked_for_again_after_a_break);
	tcase_add_test(tc, a_watch_tells_beginning_events_gaps_and_end);
	tcase_add_test(tc, a_watch_ends_with_its_handle);
	tcase_add_test(tc, a_drain_tells_how_far_it_is);
	tcase_add_test(tc, a_change_has_its_level_and_its_id);
	return unit_run(s);
}
