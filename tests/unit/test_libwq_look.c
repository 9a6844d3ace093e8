/* libwq: looks with their pages, queue operations, other ways to turn the handle (libevent), and
 * TCP. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/client_mem.h"
#include "unit/fakewqd.h"
#include "wq_libevent.h"

#define OP(name) WQ__V1__REQUEST__OP_##name
#define ST(name) WQ__V1__STATUS__STATUS_##name

static ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static char *
name(const char *s)
{
	return (char *)(uintptr_t)s;
}

/* ---- jobs ---- */

static void
script_get(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__JobInfo job, *jobs[] = { &job, &job };
	Wq__V1__Run last;

	fake_greet(f);
	q = fake_expect(f, OP(GET));
	ck_assert_str_eq(q->get->queue, "q");
	wq__v1__job_info__init(&job);
	wq__v1__run__init(&last);
	job.key = bytes("k");
	job.queue = name("q");
	job.state = WQ__V1__JOB_STATE__JOB_STATE_RUNNING;
	job.pending = 1;
	job.pending_state = WQ__V1__JOB_STATE__JOB_STATE_ARMED;
	job.has_deadline_ms_case = WQ__V1__JOB_INFO__HAS_DEADLINE_MS_DEADLINE_MS;
	job.deadline_ms = 99;
	job.payload_bytes = 1ull << 40;
	job.last = &last;
	last.key = bytes("k");
	last.queue = name("q");
	last.outcome = WQ__V1__RUN_OUTCOME__RUN_OUTCOME_TIMEOUT;
	last.output = bytes("some output");
	last.truncated = 1;
	r = fake_answer(q->id, ST(OK));
	r.n_jobs = 1;
	r.jobs = jobs;
	fake_reply(f, &r);
	fake_free(q);
	fake_serve(f, OP(GET), ST(NOT_FOUND));
	q = fake_expect(f, OP(GET));
	r.id = q->id;
	r.n_jobs = 2;
	fake_reply(f, &r);
	fake_free(q);
	fake_wait_eof(f);
}

static int
check_job(const wq_job_info_t *j, void *arg)
{
	++*(int *)arg;
	ck_assert_str_eq(j->queue, "q");
	ck_assert_str_eq(j->key, "k");
	ck_assert_int_eq(j->state, WQ_STATE_RUNNING);
	ck_assert_int_eq(j->pending, 1);
	ck_assert_int_eq(j->pending_state, WQ_STATE_ARMED);
	ck_assert_int_eq(j->deadline_ms, 99);
	ck_assert_uint_eq(j->payload_bytes, 1ull << 40);
	ck_assert_int_eq(j->last->outcome, WQ_RUN_TIMEOUT);
	ck_assert_uint_eq(j->last->output_len, 11);
	ck_assert_mem_eq(j->last->output, "some output", 11);
	ck_assert_int_eq(j->last->truncated, 1);
	ck_assert_int_eq(j->last->exit_code, -1);
	return 0;
}

START_TEST(get_shows_one_job_and_its_last_run)
{
	struct fake f;
	int n = 0;
	wq_t *wq = fake_connected(&f, script_get, NULL, NULL);

	ck_assert_int_eq(wq_get(wq, "q", "k", check_job, &n), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(wq_get(wq, "q", "k", check_job, &n), -WQ_NOT_FOUND);
	ck_assert_int_eq(wq_get(wq, "q", "k", check_job, &n), WQ_ERR_PROTOCOL);
	ck_assert_int_eq(n, 1);
	fake_done_with(&f, wq);
}
END_TEST

/* Ten jobs in pages of `limit`, an empty page in between, and pings of the callback's. */
static void
script_list(struct fake *f)
{
	Wq__V1__Request *q;
	uint64_t expected = 0;

	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		Wq__V1__Reply r = fake_answer(q->id, ST(OK));
		Wq__V1__JobInfo job[4], *jobs[4];

		if (q->op_case == OP(PING)) {
			r.echo = q->ping->echo;
			fake_reply(f, &r);
			fake_free(q);
			continue;
		}
		ck_assert_int_eq(q->op_case, OP(LIST));
		ck_assert_uint_eq(q->list->cursor, expected);
		ck_assert_uint_eq(q->list->limit, 4);
		ck_assert_int_eq(q->list->has_state_case, WQ__V1__LIST__HAS_STATE_STATE);
		ck_assert_int_eq(
			q->list->has_due_from_ms_case, WQ__V1__LIST__HAS_DUE_FROM_MS__NOT_SET);
		ck_assert_int_eq(q->list->due_to_ms, 77);
		ck_assert_mem_eq(q->list->prefix.data, "ho", 2);
		r.n_jobs = expected == 4 ? 0 : 4;
		r.jobs = jobs;
		for (size_t i = 0; i < r.n_jobs; i++) {
			jobs[i] = &job[i];
			wq__v1__job_info__init(&job[i]);
			job[i].key = bytes("host");
		}
		expected = expected == 8 ? 0 : expected + 4;
		r.cursor = expected;
		fake_reply(f, &r);
		fake_free(q);
	}
}

struct listing {
	wq_t *wq;
	int n, stop_at;
};

static int
count_job(const wq_job_info_t *j, void *arg)
{
	struct listing *l = arg;

	/* the callback may ask more, and what it was given stays */
	ck_assert_int_eq(wq_ping(l->wq, NULL), 0);
	ck_assert_str_eq(j->key, "host");
	ck_assert_int_eq(j->deadline_ms, -1);
	ck_assert_ptr_null(j->last);
	return ++l->n == l->stop_at;
}

START_TEST(list_pages_by_cursor_and_its_callback_may_ask_more)
{
	struct fake f;
	wq_list_opts_t o = WQ_LIST_INIT;
	wq_t *wq = fake_connected(&f, script_list, NULL, NULL);
	struct listing l = { .wq = wq };

	o.prefix = "ho";
	o.state = WQ_STATE_IDLE;
	o.due_to_ms = 77;
	o.page = 4;
	ck_assert_int_eq(wq_list(wq, &o, count_job, &l), 0);
	ck_assert_int_eq(l.n, 8);
	l = (struct listing){ .wq = wq, .stop_at = 2 };
	ck_assert_int_eq(wq_list(wq, &o, count_job, &l), 0);
	ck_assert_int_eq(l.n, 2);
	o.size = 1;
	ck_assert_int_eq(wq_list(wq, &o, count_job, &l), -EINVAL);
	o = (wq_list_opts_t)WQ_LIST_INIT;
	o.queue = "";
	ck_assert_int_eq(wq_list(wq, &o, count_job, &l), -WQ_INVALID);
	fake_done_with(&f, wq);
}
END_TEST

static void
script_list_stuck(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		Wq__V1__Reply r = fake_answer(q->id, ST(OK));

		r.cursor = 5;
		fake_reply(f, &r);
		fake_free(q);
	}
}

START_TEST(pages_that_don_t_move_on_are_a_protocol_error)
{
	struct fake f;
	wq_t *wq = fake_connected(&f, script_list_stuck, NULL, NULL);
	struct listing l = { .wq = wq };

	ck_assert_int_eq(wq_list(wq, NULL, count_job, &l), WQ_ERR_PROTOCOL);
	ck_assert_int_eq(wq_history(wq, "q", NULL, 0, NULL, NULL), WQ_ERR_PROTOCOL);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- runs ---- */

/* Runs 9, 8, 7 ...; a new one ends after each page, so that the next begins with one shown. */
static void
script_history(struct fake *f)
{
	Wq__V1__Request *q;
	uint64_t newest = 9;

	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		Wq__V1__Reply r = fake_answer(q->id, ST(OK));
		Wq__V1__Run run[3], *runs[3];
		uint64_t gen = newest - q->history->skip;

		ck_assert_int_eq(q->op_case, OP(HISTORY));
		ck_assert_uint_eq(q->history->key.len, 0);
		r.runs = runs;
		while (r.n_runs < 3 && r.n_runs < q->history->limit && gen > 0) {
			Wq__V1__Run *x = runs[r.n_runs] = &run[r.n_runs];

			wq__v1__run__init(x);
			x->queue = name("q");
			x->key = bytes("k");
			x->generation = gen--;
			x->attempt = 1;
			x->final = 1;
			r.n_runs++;
		}
		r.cursor = gen > 0 ? q->history->skip + r.n_runs : 0;
		newest++;
		fake_reply(f, &r);
		fake_free(q);
	}
}

struct runs {
	size_t n;
	uint64_t gen[32];
};

static int
keep_run(const wq_run_info_t *run, void *arg)
{
	struct runs *r = arg;

	ck_assert_uint_lt(r->n, 32);
	ck_assert_str_eq(run->key, "k");
	ck_assert_str_eq((const char *)run->output, "");
	r->gen[r->n++] = run->generation;
	return 0;
}

START_TEST(history_shows_each_run_once_though_new_ones_end_meanwhile)
{
	struct fake f;
	struct runs r = { 0 };
	wq_t *wq = fake_connected(&f, script_history, NULL, NULL);

	ck_assert_int_eq(wq_history(wq, "q", NULL, 0, keep_run, &r), 0);
	ck_assert_uint_eq(r.n, 9);
	for (size_t i = 0; i < r.n; i++)
		ck_assert_uint_eq(r.gen[i], 9 - i);
	r.n = 0;
	ck_assert_int_eq(wq_history(wq, "q", NULL, 5, keep_run, &r), 0);
	ck_assert_uint_eq(r.n, 5);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- queues and the daemon ---- */

static void
script_queues(struct fake *f)
{
	Wq__V1__Request *q;
	Wq__V1__Reply r;
	Wq__V1__QueueInfo info[2], *queues[] = { &info[0], &info[1] };
	Wq__V1__Setting set[2], *settings[] = { &set[0], &set[1] };
	Wq__V1__Counter counter, *counters[] = { &counter, &counter };

	fake_greet(f);
	q = fake_expect(f, OP(QUEUE_CREATE));
	ck_assert_uint_eq(q->queue_create->n_settings, 2);
	ck_assert_str_eq(q->queue_create->settings[1]->name, "slack");
	ck_assert_str_eq(q->queue_create->settings[1]->value, "50ms");
	fake_status(f, q->id, ST(EXISTS));
	fake_free(q);
	fake_serve(f, OP(QUEUE_SET), ST(OK));
	for (int i = 0; i < 2; i++) {
		wq__v1__queue_info__init(&info[i]);
		wq__v1__setting__init(&set[i]);
		info[i].queue = name(i ? "two" : "one");
		info[i].armed = 5;
		info[i].n_settings = 2;
		info[i].settings = settings;
		set[i].name = name(i ? "slack" : "action");
		set[i].value = name(i ? "50ms" : "none");
	}
	q = fake_expect(f, OP(QUEUE_SHOW));
	ck_assert_str_eq(q->queue_show->queue, "one");
	r = fake_answer(q->id, ST(OK));
	r.n_queues = 1;
	r.queues = queues;
	fake_reply(f, &r);
	fake_free(q);
	q = fake_expect(f, OP(QUEUE_LIST));
	r.id = q->id;
	r.n_queues = 2;
	fake_reply(f, &r);
	fake_free(q);
	q = fake_expect(f, OP(DRAIN));
	ck_assert_int_eq(q->drain->timers, WQ_TIMERS_EXPEDITE);
	ck_assert_int_eq(q->drain->pause_after, 1);
	ck_assert_int_eq(q->drain->timeout_ms, 9);
	fake_status(f, q->id, ST(TIMEOUT));
	fake_free(q);
	fake_serve(f, OP(PAUSE), ST(OK));
	fake_serve(f, OP(RESUME), ST(OK));
	fake_serve(f, OP(QUEUE_DELETE), ST(OK));
	fake_serve(f, OP(RELOAD), ST(OK));
	fake_serve(f, OP(SHUTDOWN), ST(OK));
	q = fake_expect(f, OP(STAT));
	wq__v1__counter__init(&counter);
	counter.name = name("requests");
	counter.value = -3;
	r = fake_answer(q->id, ST(OK));
	r.n_counters = 2;
	r.counters = counters;
	fake_reply(f, &r);
	fake_free(q);
	q = fake_expect(f, OP(PING));
	r = fake_answer(q->id, ST(OK));
	r.echo = q->ping->echo;
	fake_reply(f, &r);
	fake_free(q);
	fake_serve(f, OP(PING), ST(OK)); /* without the echo */
	fake_wait_eof(f);
}

static int
check_queue(const wq_queue_info_t *q, void *arg)
{
	int *n = arg;

	ck_assert_str_eq(q->queue, *n < 2 ? "one" : "two");
	ck_assert_uint_eq(q->armed, 5);
	ck_assert_uint_eq(q->n_settings, 2);
	ck_assert_str_eq(q->names[0], "action");
	ck_assert_str_eq(q->values[1], "50ms");
	++*n;
	return 0;
}

static int
check_counter(const char *what, int64_t value, void *arg)
{
	ck_assert_str_eq(what, "requests");
	ck_assert_int_eq(value, -3);
	++*(int *)arg;
	return 1; /* enough */
}

START_TEST(operations_on_queues_are_sent_as_they_are_called)
{
	static const char *const names[] = { "action", "slack" },
				 *const values[] = { "none", "50ms" };
	struct fake f;
	int n = 0;
	int64_t rtt = -1;
	wq_t *wq = fake_connected(&f, script_queues, NULL, NULL);

	ck_assert_int_eq(wq_queue_create(wq, "one", 2, names, values), -WQ_EXISTS);
	ck_assert_int_eq(wq_queue_set(wq, "one", 2, names, values), 0);
	ck_assert_int_eq(wq_queue_set(wq, "one", 65, names, values), -WQ_INVALID);
	ck_assert_int_eq(wq_queue_show(wq, "one", check_queue, &n), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(wq_queue_show(wq, NULL, check_queue, &n), 0);
	ck_assert_int_eq(n, 3);
	ck_assert_int_eq(wq_drain(wq, "one", WQ_TIMERS_EXPEDITE, 1, 9), -WQ_TIMEOUT);
	ck_assert_int_eq(wq_pause(wq, "one"), 0);
	ck_assert_int_eq(wq_resume(wq, "one"), 0);
	ck_assert_int_eq(wq_queue_delete(wq, "one", WQ_TIMERS_KEEP, -1), 0);
	ck_assert_int_eq(wq_reload(wq), 0);
	ck_assert_int_eq(wq_shutdown(wq, 1), 0);
	n = 0;
	ck_assert_int_eq(wq_stat(wq, check_counter, &n), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(wq_ping(wq, &rtt), 0);
	ck_assert_int_ge(rtt, 0);
	ck_assert_int_eq(wq_ping(wq, &rtt), WQ_ERR_PROTOCOL);
	fake_done_with(&f, wq);
}
END_TEST

/* ---- libevent ---- */

static void
script_break_and_serve(struct fake *f)
{
	Wq__V1__Request *q;

	fake_greet(f);
	fake_free(fake_expect(f, OP(UPDATE)));
	fake_close(f);
	fake_greet(f);
	while ((q = fake_recv(f)) != NULL) {
		fake_status(f, q->id, ST(CREATED));
		fake_free(q);
	}
}

struct turned {
	struct event_base *base;
	struct wq_libevent le;
	int left, failed;
};

static void
send_again(wq_t *wq, const wq_reply_t *r, void *arg)
{
	struct turned *t = arg;

	ck_assert_int_eq(r->result, 0);
	if (t->left-- > 0) {
		ck_assert_int_eq(wq_send_update(wq, NULL, "k", 1, NULL, send_again, t), 0);
		return;
	}
	wq_libevent_detach(&t->le);
	event_base_loopbreak(t->base);
}

/* Sent from outside any turn of the handle: the adapter has to hear of it. */
static void
send_from_timer(evutil_socket_t fd, short what, void *arg)
{
	struct turned *t = arg;

	(void)fd;
	(void)what;
	ck_assert_int_eq(wq_send_update(t->le.wq, NULL, "k", 1, NULL, send_again, t), 0);
}

START_TEST(libevent_turns_the_handle_over_a_reconnect)
{
	struct fake f;
	struct turned t = { .base = event_base_new(), .left = 3 };
	struct timeval soon = { 0, 1000 };
	wq_t *wq;

	fake_init(&f);
	fake_run(&f, script_break_and_serve, NULL);
	ck_assert_int_eq(wq_new(f.server, &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect_min", "1ms"), 0);
	wq_libevent_attach(&t.le, wq, t.base, NULL, NULL);
	event_base_once(t.base, -1, EV_TIMEOUT, send_from_timer, &t, &soon);
	event_base_dispatch(t.base);
	ck_assert_int_eq(t.left, -1);
	ck_assert_uint_eq(wq_in_flight(wq), 0);
	wq_free(wq);
	event_base_free(t.base);
	fake_done(&f);
}
END_TEST

static void
on_failed(wq_t *wq, int error, void *arg)
{
	struct turned *t = arg;

	(void)wq;
	t->failed = error;
	wq_libevent_detach(&t->le);
	event_base_loopbreak(t->base);
}

START_TEST(libevent_hears_of_what_cannot_be_got_over)
{
	struct turned t = { .base = event_base_new() };
	wq_t *wq;

	ck_assert_int_eq(wq_new("unix:/dev/null", &wq), 0);
	ck_assert_int_eq(wq_set(wq, "reconnect", "no"), 0);
	wq_libevent_attach(&t.le, wq, t.base, on_failed, &t);
	event_base_dispatch(t.base);
	ck_assert_int_eq(t.failed, -ECONNREFUSED);
	wq_free(wq);
	event_base_free(t.base);
}
END_TEST

/* ---- TCP ---- */

static void
script_tcp(struct fake *f)
{
	fake_greet(f);
	fake_serve(f, OP(UPDATE), ST(CREATED));
	fake_wait_eof(f);
}

/* Puts a TCP listener of 127.0.0.1 in the place of the unix one; returns its port. */
static unsigned
listen_tcp(struct fake *f)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;

	fake_stop_listening(f);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(f->listener, 0);
	ck_assert_int_eq(bind(f->listener, (struct sockaddr *)&in, len), 0);
	ck_assert_int_eq(listen(f->listener, 4), 0);
	ck_assert_int_eq(getsockname(f->listener, (struct sockaddr *)&in, &len), 0);
	return ntohs(in.sin_port);
}

START_TEST(tcp_works_by_number_and_by_name)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost" };
	struct fake f;
	char server[64];
	wq_t *wq;

	for (int i = 0; i < 2; i++) {
		fake_init(&f);
		snprintf(server, sizeof server, "tcp://%s:%u", hosts[i], listen_tcp(&f));
		fake_run(&f, script_tcp, NULL);
		ck_assert_int_eq(wq_connect(server, "connect_timeout=5m", &wq), 0);
		ck_assert_int_eq(wq_update(wq, NULL, "k", 1, NULL, NULL), 0);
		fake_done_with(&f, wq);
	}
}
END_TEST

START_TEST(a_closed_tcp_port_is_said_so)
{
	struct fake f;
	char server[64];
	wq_t *wq;

	fake_init(&f);
	snprintf(server, sizeof server, "tcp://127.0.0.1:%u", listen_tcp(&f));
	close(f.listener);
	f.listener = -1;
	ck_assert_int_eq(wq_connect(server, NULL, &wq), -ECONNREFUSED);
	fake_done(&f);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq look");
	TCase *tc = client_case(s, "look");

	tcase_add_test(tc, get_shows_one_job_and_its_last_run);
	tcase_add_test(tc, list_pages_by_cursor_and_its_callback_may_ask_more);
	tcase_add_test(tc, pages_that_don_t_move_on_are_a_protocol_error);
	tcase_add_test(tc, history_shows_each_run_once_though_new_ones_end_meanwhile);
	tcase_add_test(tc, operations_on_queues_are_sent_as_they_are_called);
	tc = client_case(s, "loops");
	tcase_add_test(tc, libevent_turns_the_handle_over_a_reconnect);
	tcase_add_test(tc, libevent_hears_of_what_cannot_be_got_over);
	tc = client_case(s, "tcp");
	tcase_add_test(tc, tcp_works_by_number_and_by_name);
	tcase_add_test(tc, a_closed_tcp_port_is_said_so);
	return unit_run(s);
}
