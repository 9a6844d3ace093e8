/* libwq against a scripted daemon: connecting, asking, losing the connection, nonsense. */
#include <errno.h>
#include <string.h>

#include "unit/fakewqd.h"
#include "unit/unit.h"
#include "wq.h"

/* ---- basics ---- */

static void
script_one_update(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;

	fake_greet(f);
	q = fake_expect(f, WQ__V1__REQUEST__OP_UPDATE);
	ck_assert_uint_eq(q->update->key.len, 7);
	ck_assert_mem_eq(q->update->key.data, "host-17", 7);
	ck_assert_str_eq(q->update->queue, "hb");
	ck_assert_int_eq(q->update->when_case, WQ__V1__UPDATE__WHEN_DELAY_MS);
	ck_assert_int_eq(q->update->delay_ms, 30000);
	ck_assert_int_eq(q->update->has_slack_ms_case, WQ__V1__UPDATE__HAS_SLACK_MS__NOT_SET);
	ck_assert_uint_gt(q->update->idempotency_id.len, 0);
	wq__v1__reply__init(&r);
	r.id = q->id;
	r.status = WQ__V1__STATUS__STATUS_UPDATED_TIMER;
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
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_one_update, NULL);
	ck_assert_int_eq(wq_connect(f.server, "client=test,timeout=60s", &wq), 0);
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
	wq_free(wq);
	fake_done(&f);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq");
	TCase *tc = unit_case(s, "basics");

	tcase_add_test(tc, an_update_goes_out_and_its_reply_comes_back);
	return unit_run(s);
}
