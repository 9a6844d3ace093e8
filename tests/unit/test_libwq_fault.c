/* libwq when memory runs out at any point, and against a daemon that sends random bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "unit/random.h"
#include "wq.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name

/* ---- no memory ---- */

/* Any number of connections, each served until it ends; the last is told by *arg. */
static void
script_serve_all(struct fake *f)
{
	Wq__V1__Request *q;

	for (;;) {
		fake_accept(f);
		while ((q = fake_recv(f)) != NULL) {
			Wq__V1__Reply r = fake_answer(q->id, ST(OK));
			Wq__V1__HelloInfo info;
			Wq__V1__Result res[2], *results[] = { &res[0], &res[1] };
			Wq__V1__JobInfo job, *jobs[] = { &job };
			Wq__V1__Run run;

			wq__v1__hello_info__init(&info);
			wq__v1__job_info__init(&job);
			wq__v1__run__init(&run);
			wq__v1__result__init(&res[0]);
			wq__v1__result__init(&res[1]);
			info.version = 1;
			info.frame_max = 1 << 20;
			if (q->op_case == OP(HELLO))
				r.hello = &info;
			if (q->op_case == OP(UPDATE_BATCH)) {
				r.n_results = 2;
				r.results = results;
			}
			if (q->op_case == OP(GET)) {
				job.last = &run;
				r.n_jobs = 1;
				r.jobs = jobs;
			}
			if (q->op_case == OP(WAIT))
				r.run = &run;
			if (q->op_case == OP(SHUTDOWN))
				f->arg = NULL;
			fake_reply(f, &r);
			fake_free(q);
		}
		fake_close(f);
		if (!f->arg)
			break;
	}
}

static void
count(wq_t *wq, const wq_reply_t *r, void *arg)
{
	(void)wq;
	ck_assert(r->result == 0 || r->result == -ENOMEM);
	++*(int *)arg;
}

static int
any_job(const wq_job_info_t *job, void *arg)
{
	(void)arg;
	ck_assert_str_eq(job->key, "");
	return 0;
}

static void
in_order_or_no_memory(int err)
{
	ck_assert_msg(err == 0 || err == -ENOMEM, "%s", wq_strerror(err));
}

/* Sends a batch of two; both are called back, if it was sent. */
static void
use_batch(wq_t *wq)
{
	wq_batch_t *b;
	int called = 0, err = wq_batch_new(wq, &b);

	if (err == 0) {
		err = wq_batch_update(b, "q", "a", 1, NULL);
		if (err == 0)
			err = wq_batch_update(b, "q", "b", 1, NULL);
		if (err < 0) {
			wq_batch_free(b);
		} else {
			err = wq_batch_send(b, count, &called);
			in_order_or_no_memory(wq_run(wq, -1));
			ck_assert_int_eq(called, err == 0 ? 2 : 0);
		}
	}
	in_order_or_no_memory(err);
}

/* What a program does; each step works or says -ENOMEM. Whether one did. */
static bool
use_library(const struct fake *f)
{
	bool hit;
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_result_t res;
	wq_t *wq;
	int err =
		wq_connect(f->server, "sole_updater=yes,reconnect_min=1ms,reconnect_max=2ms", &wq);

	in_order_or_no_memory(err);
	if (err < 0)
		return client_mem_failed();
	o.slack_ms = 1000;
	in_order_or_no_memory(wq_update(wq, "q", "k", 5000, &o, &res));
	in_order_or_no_memory(wq_wait(wq, "q", "k", 0, -1, &res));
	in_order_or_no_memory(wq_get(wq, "q", "k", any_job, NULL));
	use_batch(wq);
	hit = client_mem_failed();
	client_mem_fail_after(-1);
	/* afterwards all is well */
	ck_assert_int_eq(wq_update(wq, "q", "k", 5000, &o, &res), 0);
	wq_free(wq);
	return hit;
}

START_TEST(memory_that_runs_out_anywhere_is_an_error_and_no_leak)
{
	struct fake f;
	wq_t *wq;
	int n = 0;

	fake_init(&f);
	fake_run(&f, script_serve_all, &f);
	for (bool hit = true; hit; n++) {
		client_mem_fail_after(n);
		hit = use_library(&f);
		client_mem_fail_after(-1);
		ck_assert_int_lt(n, 1000);
	}
	ck_assert_int_gt(n, 10);
	ck_assert_int_eq(wq_connect(f.server, NULL, &wq), 0);
	ck_assert_int_eq(wq_shutdown(wq, 0), 0);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- random bytes ---- */

#define ROUNDS 300

/* A valid reply, some of its bytes changed, perhaps cut. */
static size_t
mangle(struct rnd *rnd, uint64_t id, uint8_t *dst, size_t size)
{
	Wq__V1__Reply r = fake_answer(id, (Wq__V1__Status)rnd_below(rnd, 80));
	Wq__V1__Run run;
	Wq__V1__Result res, *results[] = { &res };
	size_t n;

	wq__v1__run__init(&run);
	wq__v1__result__init(&res);
	run.output = (ProtobufCBinaryData){ 5, (uint8_t *)(uintptr_t) "hello" };
	run.key = run.output;
	r.run = &run;
	r.n_results = rnd_one_in(rnd, 4);
	r.results = results;
	r.message = (char *)(uintptr_t) "message";
	n = fake_pack(&r, dst, size);
	for (uint64_t i = rnd_below(rnd, 4); i > 0; i--)
		dst[rnd_below(rnd, n)] = (uint8_t)rnd_next(rnd);
	return rnd_one_in(rnd, 4) ? rnd_below(rnd, n + 1) : n;
}

/* Each connection gets one such reply, then ends. */
static void
script_random(struct fake *f)
{
	uint8_t bytes[512];

	for (int i = 0; i < ROUNDS; i++) {
		Wq__V1__Request *q;

		fake_greet(f);
		q = fake_expect(f, OP(UPDATE));
		fake_raw(f, bytes, mangle(f->arg, q->id, bytes, sizeof bytes));
		fake_free(q);
		fake_close(f);
	}
}

static void
read_all(wq_t *wq, const wq_reply_t *r, void *arg)
{
	(void)wq;
	++*(int *)arg;
	if (r->message)
		ck_assert_uint_lt(strlen(r->message), 1000);
	if (r->run)
		ck_assert_uint_lt(strlen(r->run->key) + r->run->output_len, 1000);
}

START_TEST(random_replies_never_do_harm)
{
	struct rnd rnd = { (uint64_t)_i + 1 };
	int called = 0;
	struct fake f;
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_random, &rnd);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect", "no"), 0);
	for (int i = 0; i < ROUNDS; i++) {
		int err;

		ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, read_all, &called), 0);
		do {
			/* with a good reply first, the end of the connection comes after it */
			err = wq_run(wq, -1);
		} while (called <= i);
		ck_assert_msg(err == 0 || err == WQ_ERR_CLOSED || err == WQ_ERR_PROTOCOL ||
				err == WQ_ERR_UNSUPPORTED || err > -2000,
			"%s", wq_error_word(err));
		while (wq_fd(wq) >= 0)
			wq_process(wq, WQ_READABLE);
	}
	fake_done_with(&f, wq);
	ck_assert_int_eq(called, ROUNDS);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq fault");
	TCase *tc = client_case(s, "fault");

	tcase_add_test(tc, memory_that_runs_out_anywhere_is_an_error_and_no_leak);
	tcase_add_loop_test(tc, random_replies_never_do_harm, 0, 5);
	return unit_run(s);
}
