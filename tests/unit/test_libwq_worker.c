/*
 * The worker of libwq against a scripted daemon: what it asks, what it says, and what becomes of
 * work whose lease or connection is gone.
 */
#include <errno.h>
#include <string.h>

#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "unit/unit.h"

static const char *const queue = "q";

struct seen {
	int states, lost, came;
	int last_state;
	wq_work_t *work;
	int answer; /* result of the last word */
};

static void
on_state(wq_worker_t *w, int error, void *arg)
{
	struct seen *s = arg;

	(void)w;
	s->states++;
	s->last_state = error;
}

static void
on_work(wq_worker_t *w, wq_work_t *work, void *arg)
{
	struct seen *s = arg;

	(void)w;
	s->came++;
	s->work = work;
}

static void
on_lost(wq_worker_t *w, wq_work_t *work, void *arg)
{
	struct seen *s = arg;

	(void)w;
	ck_assert_ptr_eq(work, s->work);
	ck_assert_int_eq(wq_work_get(work)->lost, 1);
	s->lost++;
}

static void
on_answer(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	(void)wq;
	((struct seen *)arg)->answer = reply->result;
}

static wq_worker_opts_t
opts(struct seen *s)
{
	wq_worker_opts_t o = WQ_WORKER_INIT;

	o.queues = &queue;
	o.n_queues = 1;
	o.work = on_work;
	o.lost = on_lost;
	o.state = on_state;
	o.arg = s;
	return o;
}

/* ---- the daemon's part ---- */

static uint64_t
take_subscribe(struct fake *f, unsigned credits)
{
	Wq__V1__Request *r = fake_expect(f, WQ__V1__REQUEST__OP_SUBSCRIBE);
	uint64_t id = r->id;
	Wq__V1__Reply more = fake_answer(id, WQ__V1__STATUS__STATUS_OK);

	ck_assert_uint_eq(r->subscribe->n_queues, 1);
	ck_assert_str_eq(r->subscribe->queues[0], "q");
	ck_assert_uint_eq(r->subscribe->credits, credits);
	fake_free(r);
	more.more = true;
	fake_reply(f, &more);
	return id;
}

static void
give(struct fake *f, uint64_t sub, uint64_t token, int64_t lease_ms)
{
	Wq__V1__Reply more = fake_answer(sub, WQ__V1__STATUS__STATUS_OK);
	static uint8_t ab[] = "ab", c[] = "c", key[] = "k";
	static char name[] = "q";
	Wq__V1__Leased l;
	ProtobufCBinaryData parts[2] = { { 2, ab }, { 1, c } };

	wq__v1__leased__init(&l);
	l.queue = name;
	l.key = (ProtobufCBinaryData){ 1, key };
	l.generation = 4;
	l.attempt = 2;
	l.payload = parts;
	l.n_payload = 2;
	l.lease_ms = lease_ms;
	l.token = token;
	l.run_token = 99;
	more.more = true;
	more.leased = &l;
	fake_reply(f, &more);
}

static uint64_t
take_lease(struct fake *f, Wq__V1__Request__OpCase op, uint64_t token, Wq__V1__Status status)
{
	Wq__V1__Request *r = fake_expect(f, op);
	uint64_t id = r->id;

	ck_assert_uint_eq(r->finish->token, token);
	ck_assert_str_eq(r->finish->queue, "q");
	ck_assert_uint_eq(r->finish->key.len, 1);
	fake_free(r);
	fake_status(f, id, status);
	return id;
}

static void
end_subscription(struct fake *f, uint64_t sub)
{
	Wq__V1__Request *r = fake_expect(f, WQ__V1__REQUEST__OP_UNSUBSCRIBE);

	fake_status(f, r->id, WQ__V1__STATUS__STATUS_OK);
	fake_free(r);
	fake_status(f, sub, WQ__V1__STATUS__STATUS_OK);
}

/* ---- tests ---- */

static void
one_job(struct fake *f)
{
	uint64_t sub;

	fake_greet(f);
	sub = take_subscribe(f, 1);
	give(f, sub, 7, 30000);
	take_lease(f, WQ__V1__REQUEST__OP_FINISH, 7, WQ__V1__STATUS__STATUS_OK);
	end_subscription(f, sub);
	fake_wait_eof(f);
}

START_TEST(next_gives_work_and_its_end_is_said)
{
	struct seen s = { .answer = 1 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w, *second;
	const wq_work_info_t *i;
	wq_work_t *work;
	struct fake f;
	wq_t *wq = fake_connected(&f, one_job, NULL, NULL);

	o.work = NULL;
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	ck_assert_int_eq(wq_worker_new(wq, &o, &second), -EBUSY);
	ck_assert_int_eq(wq_worker_next(w, -1, &work), 0);
	i = wq_work_get(work);
	ck_assert_str_eq(i->queue, "q");
	ck_assert_str_eq(i->key, "k");
	ck_assert_uint_eq(i->generation, 4);
	ck_assert_uint_eq(i->attempt, 2);
	ck_assert_uint_eq(i->payload_len, 3);
	ck_assert_mem_eq(i->payload, "abc", 3);
	ck_assert_uint_eq(i->n_parts, 2);
	ck_assert_uint_eq(i->parts[0], 2);
	ck_assert_uint_eq(i->run_token, 99);
	ck_assert_int_eq(wq_worker_over(w, NULL), 0);
	ck_assert_int_eq(wq_work_finish(work, NULL, on_answer, &s), 0);
	ck_assert_int_eq(wq_worker_stop(w), 0);
	ck_assert_int_eq(wq_worker_run(w), 0);
	ck_assert_int_eq(s.answer, 0);
	ck_assert_int_eq(wq_worker_next(w, 0, &work), WQ_ERR_CLOSED);
	wq_worker_free(w);
	fake_done_with(&f, wq);
}
END_TEST

static void
touched(struct fake *f)
{
	uint64_t sub;

	fake_greet(f);
	sub = take_subscribe(f, 1);
	give(f, sub, 7, 60);
	take_lease(f, WQ__V1__REQUEST__OP_TOUCH, 7, WQ__V1__STATUS__STATUS_OK);
	take_lease(f, WQ__V1__REQUEST__OP_TOUCH, 7, WQ__V1__STATUS__STATUS_OK);
	take_lease(f, WQ__V1__REQUEST__OP_TOUCH, 7, WQ__V1__STATUS__STATUS_LEASE_LOST);
	take_lease(f, WQ__V1__REQUEST__OP_FAIL, 7, WQ__V1__STATUS__STATUS_LEASE_LOST);
	end_subscription(f, sub);
	fake_wait_eof(f);
}

static void
turn_while(wq_t *wq, const int *value, int is)
{
	while (*value == is) {
		struct timespec t = { .tv_nsec = 1000000 };

		(void)wq_process(wq, WQ_READABLE | WQ_WRITABLE);
		nanosleep(&t, NULL);
	}
}

START_TEST(leases_are_touched_until_they_are_lost)
{
	struct seen s = { .answer = 1 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w;
	struct fake f;
	wq_t *wq = fake_connected(&f, touched, NULL, NULL);

	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	turn_while(wq, &s.lost, 0);
	ck_assert_int_eq(wq_work_touch(s.work, 0), -WQ_LEASE_LOST);
	ck_assert_int_eq(wq_work_fail(s.work, NULL, on_answer, &s), 0);
	turn_while(wq, &s.answer, 1);
	ck_assert_int_eq(s.answer, -WQ_LEASE_LOST);
	ck_assert_int_eq(s.lost, 1);
	ck_assert_int_eq(wq_worker_stop(w), 0);
	ck_assert_int_eq(wq_worker_run(w), 0);
	wq_worker_free(w);
	fake_done_with(&f, wq);
}
END_TEST

static void
broken(struct fake *f)
{
	uint64_t sub;

	fake_greet(f);
	sub = take_subscribe(f, 1);
	give(f, sub, 7, 30000);
	/* The first is waited for by the test: it is there. */
	take_lease(f, WQ__V1__REQUEST__OP_TOUCH, 7, WQ__V1__STATUS__STATUS_OK);
	fake_close(f);
	fake_greet(f);
	sub = take_subscribe(f, 1);
	give(f, sub, 8, 30000);
	take_lease(f, WQ__V1__REQUEST__OP_RELEASE, 8, WQ__V1__STATUS__STATUS_OK);
	end_subscription(f, sub);
	fake_wait_eof(f);
}

START_TEST(what_a_broken_connection_held_is_lost_and_the_worker_comes_back)
{
	struct seen s = { .answer = 1 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w;
	struct fake f;
	wq_t *wq = fake_connected(&f, broken, NULL, "reconnect_min=1ms");

	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	turn_while(wq, &s.came, 0);
	ck_assert_int_eq(wq_work_touch(s.work, 0), 0);
	turn_while(wq, &s.lost, 0);
	ck_assert_int_lt(s.last_state, 0);
	/* Answered here: the daemon of the next connection knows nothing of it. */
	ck_assert_int_eq(wq_work_finish(s.work, NULL, on_answer, &s), 0);
	turn_while(wq, &s.answer, 1);
	ck_assert_int_eq(s.answer, -WQ_LEASE_LOST);
	turn_while(wq, &s.came, 1);
	ck_assert_int_eq(s.last_state, 0);
	ck_assert_int_eq(wq_work_release(s.work, NULL, NULL), 0);
	ck_assert_int_eq(wq_worker_stop(w), 0);
	ck_assert_int_eq(wq_worker_run(w), 0);
	wq_worker_free(w);
	fake_done_with(&f, wq);
}
END_TEST

static void
refused(struct fake *f)
{
	Wq__V1__Request *r;

	fake_greet(f);
	r = fake_expect(f, WQ__V1__REQUEST__OP_SUBSCRIBE);
	fake_status(f, r->id, WQ__V1__STATUS__STATUS_NOT_FOUND);
	fake_free(r);
	fake_wait_eof(f);
}

START_TEST(a_refusal_ends_the_worker)
{
	struct seen s = { 0 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w;
	wq_work_t *work;
	struct fake f;
	wq_t *wq = fake_connected(&f, refused, NULL, NULL);
	int error = 0;

	o.work = NULL;
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	ck_assert_int_eq(wq_worker_next(w, -1, &work), -WQ_NOT_FOUND);
	ck_assert_int_eq(wq_worker_over(w, &error), 1);
	ck_assert_int_eq(error, -WQ_NOT_FOUND);
	ck_assert_int_eq(wq_worker_run(w), -WQ_NOT_FOUND);
	wq_worker_free(w);
	fake_done_with(&f, wq);
}
END_TEST

static void
freed(struct fake *f)
{
	uint64_t sub;

	fake_greet(f);
	sub = take_subscribe(f, 5);
	give(f, sub, 7, 30000);
	fake_free(fake_expect(f, WQ__V1__REQUEST__OP_UNSUBSCRIBE));
	fake_free(fake_expect(f, WQ__V1__REQUEST__OP_RELEASE));
	fake_wait_eof(f);
}

START_TEST(a_worker_that_is_freed_gives_back_what_it_has)
{
	struct seen s = { 0 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w;
	struct fake f;
	wq_t *wq = fake_connected(&f, freed, NULL, NULL);

	o.credits = 5;
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	turn_while(wq, &s.came, 0);
	wq_worker_free(w);
	(void)wq_process(wq, WQ_WRITABLE);
	fake_done_with(&f, wq);
}
END_TEST

static void
freed_early(struct fake *f)
{
	Wq__V1__Request *r;
	uint64_t sub;

	fake_greet(f);
	r = fake_expect(f, WQ__V1__REQUEST__OP_SUBSCRIBE);
	sub = r->id;
	fake_free(r);
	end_subscription(f, sub);
	sub = take_subscribe(f, 1);
	end_subscription(f, sub);
	fake_wait_eof(f);
}

START_TEST(a_worker_that_is_freed_before_its_subscription_is_answered_takes_it_back)
{
	struct seen s = { 0 };
	wq_worker_opts_t o = opts(&s);
	wq_worker_t *w;
	struct fake f;
	wq_t *wq = fake_connected(&f, freed_early, NULL, NULL);

	/* Nothing has left yet: there is nothing to take back. */
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	wq_worker_free(w);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	ck_assert_int_eq(wq_process(wq, WQ_WRITABLE), 0);
	wq_worker_free(w);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.states, 0);
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), 0);
	ck_assert_int_eq(wq_worker_stop(w), 0);
	ck_assert_int_eq(wq_worker_run(w), 0);
	wq_worker_free(w);
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(options_that_make_no_sense)
{
	wq_worker_opts_t o = WQ_WORKER_INIT;
	wq_worker_t *w;
	wq_t *wq;

	ck_assert_int_eq(wq_new("unix:/nowhere", &wq), 0);
	o.n_queues = 65;
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), -EINVAL);
	o.size = 4;
	ck_assert_int_eq(wq_worker_new(wq, &o, &w), -EINVAL);
	wq_free(wq);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq_worker");
	TCase *tc = client_case(s, "worker");

	tcase_add_test(tc, next_gives_work_and_its_end_is_said);
	tcase_add_test(tc, leases_are_touched_until_they_are_lost);
	tcase_add_test(tc, what_a_broken_connection_held_is_lost_and_the_worker_comes_back);
	tcase_add_test(tc, a_refusal_ends_the_worker);
	tcase_add_test(tc, a_worker_that_is_freed_gives_back_what_it_has);
	tcase_add_test(
		tc, a_worker_that_is_freed_before_its_subscription_is_answered_takes_it_back);
	tcase_add_test(tc, options_that_make_no_sense);
	return unit_run(s);
}
