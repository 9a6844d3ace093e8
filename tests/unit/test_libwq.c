/* libwq against a scripted daemon: what is asked and answered. Broken connections and nonsense
 * are in test_libwq_link.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "wq.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name

/* ---- one job ---- */

static void
script_one_update(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE));
	ck_assert_uint_eq(q->run_token, 77);
	ck_assert_uint_eq(q->update->key.len, 7);
	ck_assert_mem_eq(q->update->key.data, "host-17", 7);
	ck_assert_str_eq(q->update->queue, "hb");
	ck_assert_int_eq(q->update->when_case, WQ__V1__UPDATE__WHEN_DELAY_MS);
	ck_assert_int_eq(q->update->delay_ms, 30000);
	ck_assert_int_eq(q->update->has_slack_ms_case, WQ__V1__UPDATE__HAS_SLACK_MS__NOT_SET);
	ck_assert_int_eq(q->update->has_max_wait_ms_case, WQ__V1__UPDATE__HAS_MAX_WAIT_MS__NOT_SET);
	ck_assert_uint_gt(q->update->idempotency_id.len, 0);
	r = fake_answer(q->id, ST(UPDATED_TIMER));
	r.state_before = WQ__V1__JOB_STATE__JOB_STATE_ARMED;
	r.pending_before = 1;
	r.has_deadline_ms_case = WQ__V1__REPLY__HAS_DEADLINE_MS_DEADLINE_MS;
	r.deadline_ms = 1234567890123;
	r.generation = 5;
	r.coalesced = 3;
	fake_reply(f, &r);
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(an_update_goes_out_and_its_reply_comes_back)
{
	struct fake f;
	wq_result_t res;
	wq_t *wq =
		fake_connected(&f, script_one_update, NULL, "client=test,timeout=60s,run_token=77");

	ck_assert_int_eq(wq_update(wq, "hb", "host-17", 30000, NULL, &res), 0);
	ck_assert_int_eq(res.status, WQ_UPDATED_TIMER);
	ck_assert_int_eq(res.state_before, WQ_STATE_ARMED);
	ck_assert_int_eq(res.pending_before, 1);
	ck_assert_int_eq(res.deadline_ms, 1234567890123);
	ck_assert_int_eq(res.old_deadline_ms, -1);
	ck_assert_uint_eq(res.generation, 5);
	ck_assert_uint_eq(res.coalesced, 3);
	ck_assert_str_eq(res.key, "host-17");
	ck_assert_int_eq(res.has_run, 0);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_all_options(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE));
	ck_assert_uint_eq(q->update->key.len, 0);
	ck_assert_str_eq(q->update->queue, "");
	ck_assert_int_eq(q->update->when_case, WQ__V1__UPDATE__WHEN_AT_MS);
	ck_assert_int_eq(q->update->at_ms, 1700000000000);
	ck_assert_int_eq(q->update->mode, WQ_KEEP);
	ck_assert_int_eq(q->update->if_pending, 1);
	ck_assert_int_eq(q->update->has_slack_ms_case, WQ__V1__UPDATE__HAS_SLACK_MS_SLACK_MS);
	ck_assert_int_eq(q->update->slack_ms, 0);
	ck_assert_int_eq(q->update->max_wait_ms, 9000);
	ck_assert_int_eq(q->update->align_ms, 1000);
	ck_assert_int_eq(q->update->align_exact, 1);
	ck_assert_int_eq(q->update->payload_mode, WQ_PAYLOAD_APPEND);
	ck_assert_uint_eq(q->update->payload.len, 3);
	ck_assert_mem_eq(q->update->payload.data, "a\0b", 3);
	ck_assert_int_eq(q->update->durability, WQ_SYNC);
	ck_assert_uint_eq(q->update->idempotency_id.len, 4);
	ck_assert_mem_eq(q->update->idempotency_id.data, "mine", 4);
	r = fake_answer(q->id, ST(CREATED));
	r.key = (ProtobufCBinaryData){ 4, (uint8_t *)(uintptr_t) "made" };
	fake_reply(f, &r);
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(schedule_sends_every_option_and_gets_the_key_made_by_the_daemon)
{
	struct fake f;
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_result_t res;
	wq_t *wq = fake_connected(&f, script_all_options, NULL, NULL);

	o.at_ms = 1700000000000;
	o.if_pending = 1;
	o.slack_ms = 0;
	o.max_wait_ms = 9000;
	o.align_ms = 1000;
	o.align_exact = 1;
	o.payload_mode = WQ_PAYLOAD_APPEND;
	o.payload = "a\0b";
	o.payload_len = 3;
	o.durability = WQ_SYNC;
	o.idempotency_id = "mine";
	ck_assert_int_eq(wq_schedule(wq, NULL, NULL, 0, &o, &res), 0);
	ck_assert_str_eq(res.key, "made");
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(arguments_that_make_no_sense_are_refused_at_once)
{
	char long_key[300] = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_t *wq;

	memset(long_key, 'k', sizeof long_key - 1);
	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	ck_assert_int_eq(wq_update(wq, "", "k", 1, NULL, NULL), -WQ_INVALID);
	ck_assert_str_eq(wq_message(wq), "the queue's name is not 1 to 128 bytes");
	ck_assert_int_eq(wq_update(wq, NULL, "", 1, NULL, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_update(wq, NULL, long_key, 1, NULL, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_update(wq, long_key, "k", 1, NULL, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_cancel(wq, NULL, NULL, WQ_CANCEL_PLAIN, -1, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_wait(wq, NULL, long_key, 0, -1, NULL), -WQ_INVALID);
	ck_assert_int_eq(wq_job(wq, (wq_job_op_t)99, NULL, "k", NULL), -EINVAL);
	o.payload = "x";
	o.payload_len = 1;
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, &o, NULL), -WQ_INVALID);
	o.size = 3;
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, &o, NULL), -EINVAL);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	wq_free(wq);
}
END_TEST

static void
script_job_ops(struct fake *f)
{
	static const Wq__V1__Request__OpCase ops[] = { OP(DELETE), OP(DISABLE), OP(ENABLE),
		OP(KICK) };
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__Run run;

	fake_greet(f);
	for (size_t i = 0; i < 4; i++) {
		q = fake_expect(f, ops[i]);
		/* one layout for all four, whichever the member is called */
		ck_assert_str_eq(q->kick->queue, "q");
		ck_assert_mem_eq(q->kick->key.data, "k", 1);
		ck_assert_uint_gt(q->kick->idempotency_id.len, 0);
		r = fake_answer(q->id, ST(OK));
		r.disable_depth = (uint32_t)i;
		fake_reply(f, &r);
		fake_free(q);
	}
	q = fake_expect(f, OP(CANCEL));
	ck_assert_int_eq(q->cancel->mode, WQ_CANCEL_KILL);
	ck_assert_int_eq(q->cancel->timeout_ms, 70);
	fake_status(f, q->id, ST(TIMEOUT));
	fake_free(q);
	q = fake_expect(f, OP(FLUSH));
	ck_assert_int_eq(q->flush->now, 1);
	ck_assert_int_eq(q->flush->has_timeout_ms_case, WQ__V1__FLUSH__HAS_TIMEOUT_MS__NOT_SET);
	r = fake_answer(q->id, ST(OK));
	wq__v1__run__init(&run);
	run.outcome = WQ__V1__RUN_OUTCOME__RUN_OUTCOME_FAILED;
	run.has_exit_code_case = WQ__V1__RUN__HAS_EXIT_CODE_EXIT_CODE;
	run.exit_code = 3;
	run.attempt = 2;
	r.run = &run;
	fake_reply(f, &r);
	fake_free(q);
	q = fake_expect(f, OP(WAIT));
	ck_assert_uint_eq(q->wait->generation, 9);
	ck_assert_int_eq(q->wait->has_timeout_ms_case, WQ__V1__WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS);
	ck_assert_int_eq(q->wait->timeout_ms, 0);
	run.has_exit_code_case = WQ__V1__RUN__HAS_EXIT_CODE__NOT_SET;
	run.signal = 9;
	r.id = q->id;
	fake_reply(f, &r);
	fake_free(q);
	fake_serve(f, OP(FLUSH_QUEUE), ST(OK));
	fake_wait_eof(f);
}

START_TEST(operations_on_a_job_are_sent_as_they_are_called)
{
	static const wq_job_op_t ops[] = { WQ_OP_DELETE, WQ_OP_DISABLE, WQ_OP_ENABLE, WQ_OP_KICK };
	struct fake f;
	wq_result_t res;
	wq_t *wq = fake_connected(&f, script_job_ops, NULL, NULL);

	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(wq_job(wq, ops[i], "q", "k", &res), 0);
		ck_assert_uint_eq(res.disable_depth, i);
	}
	ck_assert_int_eq(wq_cancel(wq, "q", "k", WQ_CANCEL_KILL, 70, &res), -WQ_TIMEOUT);
	ck_assert_int_eq(res.status, WQ_TIMEOUT);
	ck_assert_int_eq(wq_flush(wq, "q", "k", 1, -1, &res), 0);
	ck_assert_int_eq(res.has_run, 1);
	ck_assert_int_eq(res.run_outcome, WQ_RUN_FAILED);
	ck_assert_int_eq(res.run_exit_code, 3);
	ck_assert_uint_eq(res.run_attempt, 2);
	ck_assert_int_eq(wq_wait(wq, "q", "k", 9, 0, &res), 0);
	ck_assert_int_eq(res.run_exit_code, -1);
	ck_assert_int_eq(res.run_signal, 9);
	ck_assert_int_eq(wq_flush_queue(wq, "q", -1), 0);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- batches ---- */

static void
script_batch(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__Result res[3], *p[3] = { &res[0], &res[1], &res[2] };

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE_BATCH));
	ck_assert_uint_eq(q->update_batch->n_updates, 3);
	ck_assert_mem_eq(q->update_batch->updates[2]->key.data, "c", 1);
	ck_assert_mem_eq(q->update_batch->updates[2]->payload.data, "text", 4);
	ck_assert_mem_ne(q->update_batch->updates[0]->idempotency_id.data,
		q->update_batch->updates[2]->idempotency_id.data, 20);
	for (int i = 0; i < 3; i++)
		wq__v1__result__init(&res[i]);
	res[0].status = ST(CREATED);
	res[1].status = ST(CREATED);
	res[1].key = (ProtobufCBinaryData){ 4, (uint8_t *)(uintptr_t) "made" };
	res[2].status = ST(REFUSED_DISABLED);
	res[2].message = (char *)(uintptr_t) "no";
	r = fake_answer(q->id, ST(OK));
	r.n_results = 3;
	r.results = p;
	fake_reply(f, &r);
	fake_free(q);
	fake_serve(f, OP(UPDATE_BATCH), ST(REFUSED_LIMIT));
	fake_wait_eof(f);
}

struct seen {
	int n;
	int result[8];
	char key[8][16];
	bool local[8];
};

static void
note(wq_t *wq, const wq_reply_t *r, void *arg)
{
	struct seen *s = arg;

	(void)wq;
	ck_assert_int_lt(s->n, 8);
	s->result[s->n] = r->result;
	s->local[s->n] = r->local;
	snprintf(s->key[s->n], sizeof s->key[0], "%s", r->key ? r->key : "");
	ck_assert(r->result == 0 ? r->message == NULL : r->message[0] != '\0');
	s->n++;
}

START_TEST(a_batch_calls_back_for_each_update_in_order)
{
	struct fake f;
	struct seen s = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_batch_t *b;
	char key[] = "c", payload[] = "text";
	wq_t *wq = fake_connected(&f, script_batch, NULL, NULL);

	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, "q", "a", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_update(b, "q", NULL, 1, NULL), 0);
	ck_assert_int_eq(wq_batch_update(b, "q", "", 1, NULL), -WQ_INVALID);
	o.payload_mode = WQ_PAYLOAD_REPLACE;
	o.payload = payload;
	o.payload_len = 4;
	ck_assert_int_eq(wq_batch_update(b, "q", key, 1, &o), 0);
	key[0] = payload[0] = 'X'; /* copied */
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_int_eq(s.n, 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 3);
	ck_assert_str_eq(s.key[0], "a");
	ck_assert_str_eq(s.key[1], "made");
	ck_assert_str_eq(s.key[2], "c");
	ck_assert_int_eq(s.result[1], 0);
	ck_assert_int_eq(s.result[2], -WQ_REFUSED_DISABLED);
	ck_assert_str_eq(wq_message(wq), "no");

	/* refused as a whole: each hears it */
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, "q", "a", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_update(b, "q", "b", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 5);
	ck_assert_int_eq(s.result[4], -WQ_REFUSED_LIMIT);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(a_batch_has_limits_and_an_empty_one_does_nothing)
{
	struct seen s = { 0 };
	wq_batch_t *b;
	wq_t *wq;

	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	for (int i = 0; i < 4096; i++)
		ck_assert_int_eq(wq_batch_update(b, NULL, "k", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "k", 1, NULL), WQ_ERR_TOO_MANY);
	wq_batch_free(b);
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	wq_batch_free(NULL);
	wq_free(wq);
}
END_TEST

/* ---- callbacks ---- */

static void
script_ok(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		fake_status(f, q->id, ST(OK));
		fake_free(q);
	}
}

static void
send_three_more(wq_t *wq, const wq_reply_t *r, void *arg)
{
	int *left = arg;

	ck_assert_int_eq(r->result, 0);
	if ((*left)-- > 0)
		ck_assert_int_eq(wq_send_wait(wq, NULL, "k", 0, -1, send_three_more, arg), 0);
	ck_assert_int_eq(wq_process(wq, 0), -EDEADLK);
	ck_assert_int_eq(wq_ping(wq, NULL), -EDEADLK);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), -EDEADLK);
	ck_assert_int_eq(wq_run(wq, -1), -EDEADLK);
}

START_TEST(a_callback_may_send_but_not_block)
{
	struct fake f;
	int left = 3;
	wq_t *wq = fake_connected(&f, script_ok, NULL, NULL);

	ck_assert_int_eq(wq_send_wait(wq, NULL, "k", 0, -1, send_three_more, &left), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(left, -1);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(freeing_calls_back_what_is_in_flight)
{
	struct seen s = { 0 };
	wq_batch_t *b;
	wq_t *wq;

	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "one", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_send_cancel(wq, NULL, "two", WQ_CANCEL_WAIT, 5, note, &s), 0);
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "three", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_int_eq(wq_send_flush(wq, NULL, "four", 0, 5, NULL, NULL), 0);
	ck_assert_uint_eq(wq_in_flight(wq), 4);
	wq_free(wq);
	ck_assert_int_eq(s.n, 3);
	ck_assert_int_eq(s.result[2], WQ_ERR_CLOSED);
	ck_assert_str_eq(s.key[2], "three");
	wq_free(NULL);
}
END_TEST

static void
count_change(wq_t *wq, void *arg)
{
	(void)wq;
	++*(int *)arg;
}

START_TEST(an_event_loop_is_told_of_changes_outside_process)
{
	struct fake f;
	struct seen s = { 0 };
	int changes = 0;
	wq_t *wq = fake_connected(&f, script_ok, NULL, NULL);

	wq_on_change(wq, count_change, &changes);
	ck_assert_int_eq(wq_events(wq), WQ_READABLE);
	ck_assert_int_eq(wq_timeout_ms(wq), -1);
	ck_assert_int_eq(wq_send_wait(wq, NULL, "k", 0, -1, note, &s), 0);
	ck_assert_int_eq(changes, 1);
	ck_assert_int_eq(wq_events(wq), WQ_READABLE | WQ_WRITABLE);
	ck_assert_int_eq(wq_process(wq, WQ_WRITABLE), 0);
	ck_assert_int_eq(changes, 1);
	ck_assert_int_eq(wq_events(wq), WQ_READABLE);
	ck_assert_int_eq(wq_flush_queue(wq, NULL, -1), 0);
	ck_assert_int_ge(changes, 2);
	ck_assert_int_eq(s.n, 1); /* callbacks of others run meanwhile */
	fake_done_with(&f, wq);
}
END_TEST

/* ---- limits ---- */

START_TEST(too_many_and_too_large_are_refused_before_they_are_sent)
{
	struct fake f;
	struct seen s = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	void *big = calloc(1, 1 << 20);
	wq_t *wq = fake_connected(&f, script_ok, NULL, "max_in_flight=2");

	o.payload_mode = WQ_PAYLOAD_REPLACE;
	o.payload = big;
	o.payload_len = 1 << 20; /* with the rest over frame_max */
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, &o, note, &s), WQ_ERR_TOO_LARGE);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), WQ_ERR_TOO_MANY);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 2);
	free(big);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_greet_later(struct fake *f)
{
	fake_greet(f);
	fake_wait_eof(f);
}

START_TEST(what_was_queued_before_the_limit_was_known_fails_when_it_is)
{
	struct fake f;
	struct seen s = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	void *big = calloc(1, 2 << 20);
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_greet_later, NULL);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	o.payload_mode = WQ_PAYLOAD_REPLACE;
	o.payload = big;
	o.payload_len = 2 << 20;
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, &o, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 1);
	ck_assert_int_eq(s.result[0], WQ_ERR_TOO_LARGE);
	free(big);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- a sole updater ---- */

static int64_t
armed_ms(const Wq__V1__Update *u)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + u->delay_ms + u->slack_ms;
}

/* Answers updates as a daemon would that arms at target + slack; all else OK. */
static void
script_arm(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		Wq__V1__Reply r = fake_answer(q->id, ST(OK));
		Wq__V1__Result res[4], *p[4];

		if (q->op_case == OP(UPDATE)) {
			r.status = ST(UPDATED_TIMER);
			r.has_deadline_ms_case = WQ__V1__REPLY__HAS_DEADLINE_MS_DEADLINE_MS;
			r.deadline_ms = armed_ms(q->update);
		} else if (q->op_case == OP(UPDATE_BATCH)) {
			r.n_results = q->update_batch->n_updates;
			r.results = p;
			ck_assert_uint_le(r.n_results, 4);
			for (size_t i = 0; i < r.n_results; i++) {
				p[i] = &res[i];
				wq__v1__result__init(&res[i]);
				res[i].status = ST(CREATED);
				res[i].has_deadline_ms_case =
					WQ__V1__RESULT__HAS_DEADLINE_MS_DEADLINE_MS;
				res[i].deadline_ms = armed_ms(q->update_batch->updates[i]);
			}
		}
		fake_reply(f, &r);
		fake_free(q);
	}
}

START_TEST(a_sole_updater_is_answered_locally_inside_the_slack)
{
	struct fake f;
	struct seen s = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_result_t first, res;
	wq_t *wq = fake_connected(&f, script_arm, NULL, "sole_updater=yes");

	o.slack_ms = 3600000;
	ck_assert_int_eq(wq_update(wq, "hb", "k", 7200000, &o, &first), 0);
	ck_assert_int_eq(first.local, 0);
	ck_assert_int_eq(wq_update(wq, "hb", "k", 7200000, &o, &res), 0);
	ck_assert_int_eq(res.local, 1);
	ck_assert_int_eq(res.status, WQ_SKIPPED);
	ck_assert_int_eq(res.deadline_ms, first.deadline_ms);
	ck_assert_uint_eq(res.coalesced, first.coalesced);
	ck_assert_str_eq(res.key, "k");

	/* asynchronous: the callback comes from wq_process, not from the call */
	ck_assert_int_eq(wq_send_update(wq, "hb", "k", 7200000, &o, note, &s), 0);
	ck_assert_int_eq(s.n, 0);
	ck_assert_int_eq(wq_timeout_ms(wq), 0);
	ck_assert_uint_eq(wq_in_flight(wq), 1);
	ck_assert_int_eq(wq_process(wq, 0), 0);
	ck_assert_int_eq(s.n, 1);
	ck_assert(s.local[0]);

	/* a cancel of its own ends what was known */
	ck_assert_int_eq(wq_cancel(wq, "hb", "k", WQ_CANCEL_PLAIN, -1, NULL), 0);
	ck_assert_int_eq(wq_update(wq, "hb", "k", 7200000, &o, &res), 0);
	ck_assert_int_eq(res.local, 0);
	/* so does a drain */
	ck_assert_int_eq(wq_drain(wq, "hb", WQ_TIMERS_CANCEL, 0, -1), 0);
	ck_assert_int_eq(wq_update(wq, "hb", "k", 7200000, &o, &res), 0);
	ck_assert_int_eq(res.local, 0);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(a_batch_mixes_local_and_sent_answers_in_order)
{
	struct fake f;
	struct seen s = { 0 };
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_batch_t *b;
	wq_t *wq = fake_connected(&f, script_arm, NULL, "sole_updater=yes");

	o.slack_ms = 3600000;
	ck_assert_int_eq(wq_update(wq, NULL, "known", 7200000, &o, NULL), 0);
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "known", 7200000, &o), 0);
	ck_assert_int_eq(wq_batch_update(b, "default", "known", 7200000, &o), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0); /* nothing to send */
	ck_assert_int_eq(s.n, 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 2);
	ck_assert(s.local[0] && s.local[1]);

	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "new", 7200000, &o), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "known", 7200000, &o), 0);
	/* the first of this key is on its way: nothing is known of it */
	ck_assert_int_eq(wq_batch_update(b, NULL, "new", 7200000, &o), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 5);
	ck_assert_str_eq(s.key[3], "known");
	ck_assert(!s.local[2] && s.local[3] && !s.local[4]);
	ck_assert_int_eq(wq_send_update(wq, NULL, "new", 7200000, &o, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert(s.local[5]);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- replies ---- */

static void
script_new_status(struct fake *f)
{
	fake_greet(f);
	fake_serve(f, OP(UPDATE), (Wq__V1__Status)99);
	fake_serve(f, OP(UPDATE), (Wq__V1__Status)30);
	fake_serve(f, OP(PAUSE), ST(NOT_FOUND));
	fake_wait_eof(f);
}

START_TEST(a_status_of_a_later_version_fails_that_request_alone)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_new_status, NULL, NULL);

	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), WQ_ERR_UNSUPPORTED);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), WQ_ERR_UNSUPPORTED);
	ck_assert_int_eq(wq_pause(wq, "q"), -WQ_NOT_FOUND);
	ck_assert_str_eq(wq_message(wq), "no such queue, job or run");
	fake_done_with(&f, wq);
}
END_TEST

static void
script_trickle(struct fake *f)
{
	uint8_t bytes[512];
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	size_t n;

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE));
	r = fake_answer(q->id, ST(CREATED));
	r.generation = 123456789;
	n = fake_pack(&r, bytes, sizeof bytes);
	for (size_t i = 0; i < n; i++)
		fake_raw(f, bytes + i, 1);
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(a_reply_may_come_byte_by_byte)
{
	struct fake f;
	wq_result_t res;
	wq_t *wq = fake_connected(&f, script_trickle, NULL, NULL);

	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, &res), 0);
	ck_assert_uint_eq(res.generation, 123456789);
	fake_done_with(&f, wq);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq");
	TCase *tc = client_case(s, "calls");

	tcase_add_test(tc, an_update_goes_out_and_its_reply_comes_back);
	tcase_add_test(tc, schedule_sends_every_option_and_gets_the_key_made_by_the_daemon);
	tcase_add_test(tc, arguments_that_make_no_sense_are_refused_at_once);
	tcase_add_test(tc, operations_on_a_job_are_sent_as_they_are_called);
	tcase_add_test(tc, a_batch_calls_back_for_each_update_in_order);
	tcase_add_test(tc, a_batch_has_limits_and_an_empty_one_does_nothing);
	tcase_add_test(tc, a_callback_may_send_but_not_block);
	tcase_add_test(tc, freeing_calls_back_what_is_in_flight);
	tcase_add_test(tc, an_event_loop_is_told_of_changes_outside_process);
	tcase_add_test(tc, too_many_and_too_large_are_refused_before_they_are_sent);
	tcase_add_test(tc, what_was_queued_before_the_limit_was_known_fails_when_it_is);
	tcase_add_test(tc, a_sole_updater_is_answered_locally_inside_the_slack);
	tcase_add_test(tc, a_batch_mixes_local_and_sent_answers_in_order);
	tcase_add_test(tc, a_status_of_a_later_version_fails_that_request_alone);
	tcase_add_test(tc, a_reply_may_come_byte_by_byte);
	return unit_run(s);
}
