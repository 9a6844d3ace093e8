/* libwq when the connection does not come, breaks, or brings nonsense. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/assert.h"
#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "wq.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name
#define QUICK    "reconnect_min=1ms,reconnect_max=5ms"

struct seen {
	int n;
	int result[8];
};

static void
note(wq_t *wq, const wq_reply_t *r, void *arg)
{
	struct seen *s = arg;

	(void)wq;
	ck_assert_int_lt(s->n, 8);
	s->result[s->n++] = r->result;
}

/* ---- no connection ---- */

START_TEST(connect_says_why_there_is_no_daemon)
{
	struct fake f;
	wq_t *wq;

	fake_init(&f);
	fake_stop_listening(&f);
	ck_assert_int_eq(wq_connect(f.server, NULL, &wq), -ENOENT);
	ck_assert_int_eq(wq_connect(f.server, "reconnect=no", &wq), -ENOENT);
	ck_assert_int_eq(wq_connect("unix:/dev/null", NULL, &wq), -ECONNREFUSED);
	ck_assert_int_eq(wq_connect("http://x", NULL, &wq), WQ_ERR_ADDRESS);
	ck_assert_int_eq(wq_connect("tls://host", NULL, &wq), WQ_ERR_ADDRESS);
	ck_assert_int_eq(wq_connect(f.server, "nonsense=1", &wq), WQ_ERR_OPTION);
	ck_assert_int_eq(wq_connect(f.server, "timeout", &wq), WQ_ERR_OPTION);
	fake_done(&f);
}
END_TEST

static void
script_silent(struct fake *f)
{
	fake_accept(f);
	fake_wait_eof(f);
}

START_TEST(a_daemon_that_does_not_greet_is_given_up)
{
	struct fake f;
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_silent, NULL);
	ck_assert_int_eq(wq_connect(f.server, "connect_timeout=20ms", &wq), -ETIMEDOUT);
	fake_done(&f);
}
END_TEST

static void
script_hang_up(struct fake *f)
{
	fake_accept(f);
	fake_free(fake_recv(f));
	fake_close(f);
}

static void
script_refuse_hello(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;

	fake_accept(f);
	q = fake_expect(f, OP(HELLO));
	r = fake_answer(*(bool *)f->arg ? q->id : 0, ST(UNAUTHORIZED));
	r.message = (char *)(uintptr_t) "go away";
	fake_reply(f, &r);
	fake_free(q);
	fake_close(f);
}

START_TEST(a_hello_refused_or_cut_off_is_an_error)
{
	struct fake f;
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_hang_up, NULL);
	ck_assert_int_eq(wq_connect(f.server, NULL, &wq), -ECONNRESET);
	fake_join(&f);
	for (int by_id = 0; by_id < 2; by_id++) {
		fake_run(&f, script_refuse_hello, &(bool){ by_id });
		ck_assert_int_eq(wq_connect(f.server, NULL, &wq), -WQ_UNAUTHORIZED);
		fake_join(&f);
	}
	fake_done(&f);
}
END_TEST

START_TEST(a_blocking_call_without_a_daemon_ends_with_the_reason)
{
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq;

	fake_init(&f);
	fake_stop_listening(&f);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "timeout", "10ms"), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect_min", "1ms"), 0);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), -ENOENT);
	ck_assert_ptr_nonnull(strstr(wq_message(wq), f.path));
	ck_assert_int_eq(wq_set(wq, "timeout", "10s"), WQ_ERR_OPTION); /* too late */
	/* an asynchronous one waits for the daemon */
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, 10), WQ_ERR_TIMEOUT);
	ck_assert_int_eq(s.n, 0);
	wq_free(wq);
	ck_assert_int_eq(s.result[0], WQ_ERR_CLOSED);

	/* without "reconnect" it fails at once */
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect", "no"), 0);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), -ENOENT);
	ck_assert_int_eq(wq_fd(wq), -1);
	ck_assert_int_eq(wq_timeout_ms(wq), -1);
	ck_assert_int_eq(wq_process(wq, 0), -ENOENT);
	wq_free(wq);
	fake_done(&f);
}
END_TEST

static void
script_one_ok(struct fake *f)
{
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(requests_wait_for_a_daemon_that_comes_later)
{
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq;

	fake_init(&f);
	fake_stop_listening(&f);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect_min", "1ms"), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect_max", "5ms"), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, 20), WQ_ERR_TIMEOUT);
	fake_listen(&f);
	fake_run(&f, script_one_ok, NULL);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.result[0], 0);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- a broken connection ---- */

/* Takes two updates and a look, answers none, breaks; the next connection has to bring the same
 * again, in order, and nothing else. */
static void
script_lose_replies(struct fake *f)
{
	static const Wq__V1__Request__OpCase ops[] = { OP(UPDATE), OP(CANCEL), OP(WAIT),
		OP(UPDATE_BATCH) };
	Wq__V1__Request *first[4], *again;

	fake_greet(f);
	for (int i = 0; i < 4; i++)
		first[i] = fake_expect(f, ops[i]);
	fake_free(fake_expect(f, OP(FLUSH))); /* flush now: not to be sent again */
	fake_close(f);
	fake_greet(f);
	for (int i = 0; i < 4; i++) {
		again = fake_expect(f, ops[i]);
		ck_assert_uint_eq(again->id, first[i]->id);
		if (i == 0)
			ck_assert_mem_eq(again->update->idempotency_id.data,
				first[0]->update->idempotency_id.data, 20);
		if (i < 3)
			fake_status(f, again->id, ST(OK));
		else
			fake_status(f, again->id, ST(REFUSED_LIMIT));
		fake_free(again);
		fake_free(first[i]);
	}
	fake_serve(f, OP(PAUSE), ST(OK));
	fake_wait_eof(f);
}

START_TEST(lost_replies_are_asked_for_again_with_the_same_id)
{
	struct fake f;
	struct seen s = { 0 }, flush = { 0 };
	wq_batch_t *b;
	wq_t *wq = fake_connected(&f, script_lose_replies, NULL, QUICK);

	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_send_cancel(wq, NULL, "k", WQ_CANCEL_PLAIN, -1, note, &s), 0);
	ck_assert_int_eq(wq_send_wait(wq, NULL, "k", 0, -1, note, &s), 0);
	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "k", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	ck_assert_int_eq(wq_send_flush(wq, NULL, "k", 1, -1, note, &flush), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 4);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(s.result[i], 0);
	ck_assert_int_eq(s.result[3], -WQ_REFUSED_LIMIT);
	ck_assert_int_eq(flush.n, 1);
	ck_assert_int_eq(flush.result[0], WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_pause(wq, "q"), 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_break_twice(struct fake *f)
{
	fake_greet(f);
	fake_free(fake_expect(f, OP(QUEUE_CREATE)));
	fake_close(f);
	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	fake_close(f);
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(what_may_not_be_sent_twice_fails)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_break_twice, NULL, QUICK ",resend=no");

	ck_assert_int_eq(wq_queue_create(wq, "q", 0, NULL, NULL), WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_break_once(struct fake *f)
{
	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	fake_close(f);
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(without_reconnect_a_broken_connection_is_an_error_until_the_next_request)
{
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq = fake_connected(&f, script_break_once, NULL, "reconnect=no");

	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), WQ_ERR_CLOSED);
	ck_assert_int_eq(s.result[0], WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_process(wq, 0), WQ_ERR_CLOSED);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_wait_lost(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	fake_free(fake_expect(f, OP(WAIT)));
	fake_close(f);
	fake_greet(f);
	/* It waits anew here, too long for its caller; on a slow machine it is not even sent. */
	q = fake_recv(f);
	ck_assert_ptr_nonnull(q);
	if (q->op_case == OP(WAIT)) {
		fake_free(q);
		q = fake_recv(f);
	}
	ck_assert_int_eq(q->op_case, OP(PAUSE));
	fake_status(f, q->id, ST(OK));
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(a_waiting_time_is_not_begun_anew_by_a_reconnect)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_wait_lost, NULL, QUICK);

	ck_assert_int_eq(wq_wait(wq, NULL, "k", 0, 50, NULL), -WQ_TIMEOUT);
	ck_assert_int_eq(wq_pause(wq, "q"), 0);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	fake_done_with(&f, wq);
}
END_TEST

/* Answers the first request only when the second is there. */
static void
script_late(struct fake *f)
{
	Wq__V1__Request *q;
	uint64_t late;

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE));
	late = q->id;
	fake_free(q);
	q = fake_expect(f, OP(WAIT));
	fake_status(f, late, ST(CREATED));
	fake_status(f, q->id, ST(OK));
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(the_late_reply_to_a_call_given_up_is_dropped)
{
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq = fake_connected(&f, script_late, NULL, "timeout=30ms");

	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), WQ_ERR_TIMEOUT);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	ck_assert_int_eq(wq_send_wait(wq, NULL, "k", 0, -1, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.n, 1);
	ck_assert_int_eq(s.result[0], 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
on_alarm(int sig)
{
	(void)sig;
}

static void
script_slow(struct fake *f)
{
	Wq__V1__Request *q;
	sigset_t set;

	/* the alarms are for the caller */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fake_greet(f);
	q = fake_expect(f, OP(UPDATE));
	nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
	fake_status(f, q->id, ST(CREATED));
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(signals_don_t_cut_a_blocking_call_short)
{
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } }, off = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm }; /* without SA_RESTART */
	struct fake f;
	wq_t *wq;

	wq = fake_connected(&f, script_slow, NULL, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
	setitimer(ITIMER_REAL, &off, NULL);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- nonsense ---- */

struct nonsense {
	const char *what;
	size_t n;
	const char *bytes;
};

#define BYTES(s) sizeof(s) - 1, s
static const struct nonsense nonsense[] = {
	{ "a length over the limit", BYTES("\xff\xff\xff\xff\x0f") },
	{ "a length that does not end", BYTES("\xff\xff\xff\xff\xff\x01") },
	{ "bytes that are no message", BYTES("\x03\xff\xff\xff") },
	{ "a field cut short", BYTES("\x03\x08\x80\x80") },
	{ "a wrong wire type", BYTES("\x02\x0a\x00") },
	{ "a group", BYTES("\x02\x0b\x0c") },
	{ "an id that nobody has", BYTES("\x04\x08\xe7\x07\x10") },
	{ "an unknown id, well formed", BYTES("\x03\x08\xe7\x07") },
	{ "a reply with id 0 that is no error", BYTES("\x00") },
};

static void
script_nonsense(struct fake *f)
{
	const struct nonsense *x = f->arg;

	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	fake_raw(f, x->bytes, x->n);
	fake_wait_eof(f);
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(nonsense_is_a_protocol_error_and_the_handle_lives_on)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_nonsense, (void *)(uintptr_t)&nonsense[_i], QUICK);

	ck_assert_msg(wq_update(wq, NULL, "k", 1, NULL, NULL) == WQ_ERR_PROTOCOL, "%s",
		nonsense[_i].what);
	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
	fake_done_with(&f, wq);
}
END_TEST

/* Replies that are well formed and lie. */
static void
lie(struct fake *f, const Wq__V1__Request *q, int which)
{
	static uint8_t key[256];
	Wq__V1__Reply r = fake_answer(q->id, ST(OK));
	Wq__V1__Result res[3], *p[3] = { &res[0], &res[1], &res[2] };

	for (int i = 0; i < 3; i++)
		wq__v1__result__init(&res[i]);
	r.results = p;
	switch (which) {
	case 0: /* too few results */
		r.n_results = 1;
		break;
	case 1: /* too many */
		r.n_results = 3;
		break;
	case 2: /* a key over its limit */
		r.n_results = 2;
		res[0].key = (ProtobufCBinaryData){ 256, key };
		break;
	case 3:
		r.n_results = 2;
		r.key = (ProtobufCBinaryData){ 256, key };
		break;
	case 4: /* answered twice */
		r.n_results = 2;
		fake_reply(f, &r);
		break;
	default: /* an answer to one that was not sent yet */
		r.id = q->id + 1;
		break;
	}
	fake_reply(f, &r);
}
#define LIES 6

static void
script_lie(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	q = fake_expect(f, OP(UPDATE_BATCH));
	lie(f, q, *(int *)f->arg);
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(a_reply_that_cannot_be_true_is_a_protocol_error)
{
	struct fake f;
	struct seen s = { 0 };
	wq_batch_t *b;
	wq_t *wq = fake_connected(&f, script_lie, &_i, QUICK);

	ck_assert_int_eq(wq_batch_new(wq, &b), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "a", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_update(b, NULL, "b", 1, NULL), 0);
	ck_assert_int_eq(wq_batch_send(b, note, &s), 0);
	while (s.n < 2)
		(void)wq_run(wq, 1000);
	ck_assert_int_eq(s.n, 2);
	ck_assert_int_eq(s.result[1], _i == 4 ? 0 : WQ_ERR_PROTOCOL);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_bad_hello(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__HelloInfo info;
	int which = *(int *)f->arg;

	fake_accept(f);
	q = fake_expect(f, OP(HELLO));
	r = fake_answer(q->id + (which == 1), ST(OK));
	wq__v1__hello_info__init(&info);
	info.version = which == 2 ? 2 : 1;
	info.frame_max = which == 3 ? 0 : 1000;
	info.now_ms = INT64_MAX;
	r.hello = which ? &info : NULL;
	fake_reply(f, &r);
	fake_free(q);
	fake_wait_eof(f);
}

START_TEST(a_greeting_of_another_protocol_is_refused)
{
	struct fake f;
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_bad_hello, &_i);
	ck_assert_int_eq(wq_connect(f.server, NULL, &wq), WQ_ERR_PROTOCOL);
	fake_done(&f);
}
END_TEST

/* One frame of a few MiB that would decode into a hundred times as much. */
static void
script_amplify(struct fake *f)
{
	static uint8_t piece[65536];
	size_t total = 4 << 20;
	uint8_t head[] = { 0x80, 0x80, 0x80, 0x02 };

	for (size_t i = 0; i < sizeof piece; i += 2) {
		piece[i] = 14 << 3 | 2; /* jobs: an empty one */
		piece[i + 1] = 0;
	}
	fake_greet(f);
	fake_free(fake_expect(f, OP(LIST)));
	fake_raw(f, head, sizeof head);
	for (size_t n = 0; n < total && fake_raw(f, piece, sizeof piece); n += sizeof piece)
		;
	fake_wait_eof(f);
}

static int
no_job(const wq_job_info_t *job, void *arg)
{
	(void)job;
	(void)arg;
	ck_abort_msg("a job was shown");
	return 0;
}

START_TEST(a_frame_that_would_unfold_without_end_is_refused)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_amplify, NULL, NULL);

	ck_assert_int_eq(wq_list(wq, NULL, no_job, NULL), WQ_ERR_PROTOCOL);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_complain(struct fake *f)
{
	Wq__V1__Reply r = fake_answer(0, *(Wq__V1__Status *)f->arg);

	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	r.message = (char *)(uintptr_t) "malformed";
	fake_reply(f, &r);
	fake_close(f);
	if (r.status != ST(TIMEOUT))
		return;
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

/* It was sent badly, or is too much: the next connection would see the same. */
START_TEST(a_complaint_about_a_message_fails_what_is_in_flight)
{
	Wq__V1__Status st = _i ? ST(REFUSED_LIMIT) : ST(INVALID);
	struct fake f;
	wq_t *wq = fake_connected(&f, script_complain, &st, "reconnect_min=1h,reconnect_max=1h");

	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), -(int)st);
	ck_assert_str_eq(wq_message(wq), "malformed");
	fake_done_with(&f, wq);
}
END_TEST

START_TEST(a_message_that_came_too_slowly_is_sent_again)
{
	Wq__V1__Status st = ST(TIMEOUT);
	struct fake f;
	wq_t *wq = fake_connected(&f, script_complain, &st, QUICK);

	ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_full(struct fake *f)
{
	fake_accept(f);
	fake_status(f, 0, ST(REFUSED_LIMIT));
	fake_wait_eof(f);
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

START_TEST(a_daemon_with_too_many_connections_is_tried_again)
{
	struct fake f;
	struct seen s = { 0 };
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_full, NULL);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect_min", "1ms"), 0);
	ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, note, &s), 0);
	ck_assert_int_eq(wq_run(wq, -1), 0);
	ck_assert_int_eq(s.result[0], 0);
	fake_done_with(&f, wq);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq link");
	TCase *tc = client_case(s, "link");

	tcase_add_test(tc, connect_says_why_there_is_no_daemon);
	tcase_add_test(tc, a_daemon_that_does_not_greet_is_given_up);
	tcase_add_test(tc, a_hello_refused_or_cut_off_is_an_error);
	tcase_add_test(tc, a_blocking_call_without_a_daemon_ends_with_the_reason);
	tcase_add_test(tc, requests_wait_for_a_daemon_that_comes_later);
	tcase_add_test(tc, lost_replies_are_asked_for_again_with_the_same_id);
	tcase_add_test(tc, what_may_not_be_sent_twice_fails);
	tcase_add_test(
		tc, without_reconnect_a_broken_connection_is_an_error_until_the_next_request);
	tcase_add_test(tc, a_waiting_time_is_not_begun_anew_by_a_reconnect);
	tcase_add_test(tc, the_late_reply_to_a_call_given_up_is_dropped);
	tcase_add_test(tc, signals_don_t_cut_a_blocking_call_short);
	tcase_add_loop_test(tc, nonsense_is_a_protocol_error_and_the_handle_lives_on, 0,
		(int)ARRAY_SIZE(nonsense));
	tcase_add_loop_test(tc, a_reply_that_cannot_be_true_is_a_protocol_error, 0, LIES);
	tcase_add_loop_test(tc, a_greeting_of_another_protocol_is_refused, 0, 4);
	tcase_add_test(tc, a_frame_that_would_unfold_without_end_is_refused);
	tcase_add_loop_test(tc, a_complaint_about_a_message_fails_what_is_in_flight, 0, 2);
	tcase_add_test(tc, a_message_that_came_too_slowly_is_sent_again);
	tcase_add_test(tc, a_daemon_with_too_many_connections_is_tried_again);
	return unit_run(s);
}
