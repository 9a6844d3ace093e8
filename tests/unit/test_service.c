/*
 * service: sessions and the real engine, with the clock in the test's hand and
 * commits when it says so. That what the two promise each other holds.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "base/err.h"
#include "engine/engine.h"
#include "service/service.h"
#include "service/session.h"
#include "unit/unit.h"
#include "wire/frame.h"
#include "wire/wire.h"

static struct engine *engine;
static struct service *svc;
static struct session *s;
static struct buf in;
static struct moment now;
static uint64_t next_id, run_token;
/* the run that was last handed over */
static uint64_t run_id, token_of_run;
static int n_started, n_killed;

static void
start_run(void *ctx, const struct run_start *r)
{
	(void)ctx;
	run_id = r->run_id;
	token_of_run = r->token;
	n_started++;
}

static void
kill_run(void *ctx, uint64_t id)
{
	(void)ctx;
	ck_assert_uint_eq(id, run_id);
	n_killed++;
}

static void
output_ready(void *ctx, struct session *of)
{
	(void)ctx;
	(void)of;
}

static void
no_stat(void *ctx, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	(void)ctx;
	(void)put;
	(void)arg;
}

/* ---- time and commits ---- */

static void
step(const struct engine_event *ev)
{
	service_step(svc, now, ev);
	engine_verify(engine);
}

static void
pass(int64_t ms)
{
	const struct engine_event tick = { .kind = EV_TICK };

	now.boot_ns += ms * NS_PER_MS;
	now.wall_ns += ms * NS_PER_MS;
	step(&tick);
}

static void
run_ends(enum run_outcome outcome)
{
	const struct run_end end = { .run_id = run_id,
		.outcome = outcome,
		.exit_code = outcome == RUN_DONE ? 0 : 3,
		.output = STR("said") };
	const struct engine_event ended = { .kind = EV_RUN_ENDED, .run_end = &end };

	step(&ended);
}

static void
run_begins(void)
{
	const struct engine_event ev = { .kind = EV_RUN_STARTED, .run_id = run_id };

	step(&ev);
}

static void
on_queue(void *ctx, struct str name, const struct queue_settings *q, bool paused)
{
	(void)ctx, (void)name, (void)q, (void)paused;
}

static void
on_name(void *ctx, struct str name)
{
	(void)ctx, (void)name;
}

static void
on_job(void *ctx, const struct job_saved *j)
{
	(void)ctx, (void)j;
}

static void
on_job_gone(void *ctx, struct str queue, struct str key, uint32_t id)
{
	(void)ctx, (void)queue, (void)key, (void)id;
}

static void
on_run(void *ctx, uint64_t seq, const struct run_record *r)
{
	(void)ctx, (void)seq, (void)r;
}

static void
on_run_gone(void *ctx, uint64_t seq)
{
	(void)ctx, (void)seq;
}

static void
on_answer(void *ctx, const struct answer_saved *a)
{
	(void)ctx, (void)a;
}

static void
on_completion(void *ctx, const struct completion_saved *c)
{
	(void)ctx, (void)c;
}

/* All that is dirty is on disk. */
static void
commit(void)
{
	const struct persist_sink sink = { NULL, on_queue, on_name, on_job, on_job_gone, on_run,
		on_run_gone, on_answer, on_name, on_completion, on_name };

	service_committed(svc, engine_take_dirty(engine, now, SIZE_MAX, &sink));
}

/* ---- talking ---- */

static void
send_op(Wq__V1__Request__OpCase op, void *body)
{
	static uint8_t packed[1 << 20];
	uint8_t len[5];
	Wq__V1__Request pb;
	size_t n;

	wq__v1__request__init(&pb);
	pb.id = ++next_id;
	pb.run_token = run_token;
	pb.op_case = op;
	pb.hello = body;
	n = wq__v1__request__pack(&pb, packed);
	ck_assert_int_eq(buf_put(&in, len, frame_put_len(len, (uint32_t)n)), 0);
	ck_assert_int_eq(buf_put(&in, packed, n), 0);
	ck_assert_int_eq(session_input(s, now, &in), 0);
	engine_verify(engine);
}

/* The next reply; it lives until the next call. */
static Wq__V1__Reply *
reply(void)
{
	static Wq__V1__Reply *kept;
	struct buf *out = session_output(s);
	const uint8_t *m;
	size_t n, need;
	long used;

	if (kept)
		wq__v1__reply__free_unpacked(kept, NULL);
	kept = NULL;
	if (buf_len(out) == 0)
		return NULL;
	used = frame_next(buf_head(out), buf_len(out), WIRE_REPLY_MAX, &m, &n, &need);
	ck_assert_int_gt(used, 0);
	kept = wq__v1__reply__unpack(NULL, n, m);
	ck_assert_ptr_nonnull(kept);
	buf_consume(out, (size_t)used);
	return kept;
}

static Wq__V1__Reply *
expect(enum status st)
{
	Wq__V1__Reply *r = reply();

	ck_assert_ptr_nonnull(r);
	ck_assert_msg((int)r->status == (int)st, "%s, not %s: %s",
		status_word((enum status)r->status), status_word(st), r->message);
	return r;
}

static char *
text(const char *z)
{
	return (char *)(uintptr_t)z;
}

static ProtobufCBinaryData
bin(const char *z)
{
	return (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)z, .len = strlen(z) };
}

static Wq__V1__Reply *
update(const char *key, int64_t delay_ms, enum status st)
{
	Wq__V1__Update u;

	wq__v1__update__init(&u);
	u.key = bin(key);
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = delay_ms;
	send_op(WQ__V1__REQUEST__OP_UPDATE, &u);
	return expect(st);
}

static void
send_cancel(const char *key, Wq__V1__CancelMode mode)
{
	Wq__V1__Cancel c;

	wq__v1__cancel__init(&c);
	c.key = bin(key);
	c.mode = mode;
	send_op(WQ__V1__REQUEST__OP_CANCEL, &c);
}

static void
send_job(Wq__V1__Request__OpCase op, const char *key)
{
	Wq__V1__Job j;

	wq__v1__job__init(&j);
	j.key = bin(key);
	send_op(op, &j);
}

static void
send_wait(const char *key)
{
	Wq__V1__Wait w;

	wq__v1__wait__init(&w);
	w.key = bin(key);
	send_op(WQ__V1__REQUEST__OP_WAIT, &w);
}

static void
send_settings(Wq__V1__Request__OpCase op, const char *queue, const char *name, const char *value)
{
	Wq__V1__QueueSet q;
	Wq__V1__Setting one, *v = &one;

	wq__v1__setting__init(&one);
	one.name = text(name);
	one.value = text(value);
	wq__v1__queue_set__init(&q);
	q.queue = text(queue);
	q.n_settings = 1;
	q.settings = &v;
	send_op(op, &q);
}

static void
up(void)
{
	struct engine_config ecfg = ENGINE_CONFIG_DEFAULT;
	const struct peer peer = { .unix_socket = true };
	struct queue_settings exec;
	Wq__V1__Hello h;
	struct service_config cfg = {
		.server = "wqd test",
		.instance = "i",
		.frame_max = 1u << 20,
		.max_in_flight = 1000,
		.output_max = 1u << 20,
		.watch_bytes = 65536,
		.hello_timeout_ns = NS_PER_S,
		.frame_timeout_ns = NS_PER_S,
		.start_run = start_run,
		.kill_run = kill_run,
		.output_ready = output_ready,
		.stat = no_stat,
	};

	next_id = run_token = 0;
	n_started = n_killed = 0;
	now = (struct moment){ 1000 * NS_PER_S, 1700000000 * NS_PER_S };
	ck_assert_int_eq(engine_new(&ecfg, &engine), 0);
	engine_recovered(engine, now);
	cfg.engine = engine;
	ck_assert_int_eq(service_new(&cfg, &svc), 0);
	queue_settings_default(&exec);
	ck_assert_int_eq(queue_settings_set(&exec, STR("handler"), STR("h")), 0);
	ck_assert_int_eq(service_configure_queue(svc, now, STR("default"), &exec), 0);
	commit();
	buf_init(&in, 16u << 20);
	ck_assert_int_eq(session_new(svc, &peer, now, &s), 0);
	wq__v1__hello__init(&h);
	h.version = 1;
	send_op(WQ__V1__REQUEST__OP_HELLO, &h);
	expect(ST_OK);
}

static void
down(void)
{
	ck_assert_ptr_null(reply());
	session_free(s, now);
	buf_done(&in);
	service_free(svc);
	engine_free(engine);
}

/* ---- tests ---- */

START_TEST(an_update_runs_once_and_is_waited_for)
{
	Wq__V1__Reply *r = update("k", 1000, ST_CREATED);

	ck_assert_int_eq(r->deadline_ms, 1700000001000);
	ck_assert_uint_eq(r->generation, 1);
	r = update("k", 2000, ST_UPDATED_TIMER);
	ck_assert_int_eq(r->old_deadline_ms, 1700000001000);
	ck_assert_uint_eq(r->coalesced, 1);
	send_wait("k");
	ck_assert_ptr_null(reply());
	pass(1999);
	ck_assert_int_eq(n_started, 0);
	pass(1);
	ck_assert_int_eq(n_started, 1);
	run_begins();
	ck_assert_ptr_null(reply());
	run_ends(RUN_DONE);
	r = expect(ST_OK);
	ck_assert_ptr_nonnull(r->run);
	ck_assert_int_eq((int)r->run->outcome, RUN_DONE);
	ck_assert_uint_eq(r->run->coalesced, 1);
	ck_assert_mem_eq(r->run->output.data, "said", 4);
	ck_assert_str_eq(r->run->queue, "default");
}
END_TEST

START_TEST(a_made_key_can_be_used)
{
	char key[KEY_MAX + 1] = "";
	Wq__V1__Reply *r = update("", 1000, ST_CREATED);

	ck_assert_uint_gt(r->key.len, 0);
	memcpy(key, r->key.data, r->key.len);
	send_cancel(key, WQ__V1__CANCEL_MODE__CANCEL_MODE_PLAIN);
	expect(ST_CANCELLED);
}
END_TEST

START_TEST(PRO_07_a_key_with_nul_never_acts_on_its_beginning)
{
	Wq__V1__Update u;
	Wq__V1__Reply *r;

	update("a", 1000, ST_CREATED);
	wq__v1__update__init(&u);
	u.key = (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t) "a\0b", .len = 3 };
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = 5000;
	send_op(WQ__V1__REQUEST__OP_UPDATE, &u);
	expect(ST_INVALID);
	send_job(WQ__V1__REQUEST__OP_GET, "a");
	r = expect(ST_OK);
	ck_assert_int_eq(r->jobs[0]->deadline_ms, 1700000001000);
	ck_assert_uint_eq(r->jobs[0]->coalesced, 0);
}
END_TEST

START_TEST(cancel_wait_holds_until_the_run_is_over_and_then_lets_go)
{
	update("k", 0, ST_CREATED);
	pass(0);
	run_begins();
	send_cancel("k", WQ__V1__CANCEL_MODE__CANCEL_MODE_WAIT);
	ck_assert_ptr_null(reply());
	update("k", 0, ST_REFUSED_DISABLED);
	run_ends(RUN_DONE);
	ck_assert_ptr_nonnull(expect(ST_NOT_PENDING_RUNNING)->run);
	update("k", 1000, ST_CREATED);
}
END_TEST

START_TEST(a_gone_client_lets_its_cancel_wait_go)
{
	const struct peer peer = { .unix_socket = true };

	update("k", 0, ST_CREATED);
	pass(0);
	run_begins();
	send_cancel("k", WQ__V1__CANCEL_MODE__CANCEL_MODE_WAIT);
	session_free(s, now);
	engine_verify(engine);
	run_ends(RUN_DONE);
	ck_assert_int_eq(session_new(svc, &peer, now, &s), 0);
	{
		Wq__V1__Hello h;

		wq__v1__hello__init(&h);
		h.version = 1;
		send_op(WQ__V1__REQUEST__OP_HELLO, &h);
		expect(ST_OK);
	}
	update("k", 1000, ST_CREATED);
}
END_TEST

START_TEST(cancel_kill_reaches_the_runner)
{
	update("k", 0, ST_CREATED);
	pass(0);
	run_begins();
	send_cancel("k", WQ__V1__CANCEL_MODE__CANCEL_MODE_KILL);
	ck_assert_int_eq(n_killed, 1);
	run_ends(RUN_CANCELLED);
	ck_assert_int_eq((int)expect(ST_CANCELLED_RUNNING)->run->outcome, RUN_CANCELLED);
}
END_TEST

START_TEST(a_run_may_not_wait_for_itself_but_may_come_again)
{
	update("k", 0, ST_CREATED);
	pass(0);
	run_begins();
	run_token = token_of_run;
	send_wait("k");
	expect(ST_INVALID);
	update("k", 1000, ST_REQUEUED_RUNNING);
	run_token = 0;
	run_ends(RUN_DONE);
}
END_TEST

START_TEST(queues_are_made_shown_and_answered_when_on_disk)
{
	Wq__V1__Reply *r;
	Wq__V1__Queue q;

	send_settings(WQ__V1__REQUEST__OP_QUEUE_CREATE, "mail", "max_active", "3");
	ck_assert_ptr_null(reply());
	commit();
	r = expect(ST_OK);
	ck_assert_uint_eq(r->n_queues, 1);
	ck_assert_str_eq(r->queues[0]->queue, "mail");
	send_settings(WQ__V1__REQUEST__OP_QUEUE_CREATE, "mail", "max_active", "3");
	commit();
	expect(ST_EXISTS);
	send_settings(WQ__V1__REQUEST__OP_QUEUE_SET, "mail", "max_actve", "3");
	commit();
	expect(ST_INVALID);
	send_settings(WQ__V1__REQUEST__OP_QUEUE_SET, "mail", "max_active", "5");
	commit();
	r = expect(ST_OK);
	for (size_t i = 0; i < r->queues[0]->n_settings; i++)
		if (strcmp(r->queues[0]->settings[i]->name, "max_active") == 0)
			ck_assert_str_eq(r->queues[0]->settings[i]->value, "5");
	wq__v1__queue__init(&q);
	q.queue = text("mail");
	send_op(WQ__V1__REQUEST__OP_QUEUE_SHOW, &q);
	ck_assert_str_eq(expect(ST_OK)->queues[0]->queue, "mail");
}
END_TEST

START_TEST(sync_updates_wait_for_their_commit_alone)
{
	Wq__V1__Update u;

	wq__v1__update__init(&u);
	u.key = bin("d");
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = 1000;
	u.durability = WQ__V1__DURABILITY__DURABILITY_SYNC;
	send_op(WQ__V1__REQUEST__OP_UPDATE, &u);
	ck_assert_ptr_null(reply());
	ck_assert_uint_eq(service_waiting_commit(svc), 1);
	update("other", 1000, ST_CREATED);
	commit();
	expect(ST_CREATED);
	/* Equal deadline, nothing dirty: at once. */
	u.mode = WQ__V1__UPDATE_MODE__UPDATE_MODE_KEEP;
	send_op(WQ__V1__REQUEST__OP_UPDATE, &u);
	if (service_waiting_commit(svc) > 0)
		commit();
	expect(ST_UNCHANGED);
}
END_TEST

START_TEST(a_batch_with_everything_in_it)
{
	static const enum status want[] = { ST_CREATED, ST_INVALID, ST_UPDATED_TIMER, ST_CREATED,
		ST_NOT_FOUND, ST_INVALID };
	Wq__V1__Update u[6], *v[6];
	Wq__V1__UpdateBatch b;
	Wq__V1__Reply *r;

	for (int i = 0; i < 6; i++) {
		wq__v1__update__init(&u[i]);
		u[i].key = bin("k");
		u[i].when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
		u[i].delay_ms = 1000 + i;
		v[i] = &u[i];
	}
	u[1].delay_ms = -5;
	u[3].key = bin("");
	u[3].durability = WQ__V1__DURABILITY__DURABILITY_SYNC;
	u[4].queue = text("nowhere");
	u[5].key = bin(" k");
	wq__v1__update_batch__init(&b);
	b.updates = v;
	b.n_updates = 6;
	send_op(WQ__V1__REQUEST__OP_UPDATE_BATCH, &b);
	ck_assert_ptr_null(reply());
	commit();
	r = expect(ST_OK);
	ck_assert_uint_eq(r->n_results, 6);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq((int)r->results[i]->status, (int)want[i]);
	ck_assert_uint_gt(r->results[3]->key.len, 0);
}
END_TEST

START_TEST(a_list_shows_each_job_once)
{
	static bool seen[3000];
	Wq__V1__List l;
	Wq__V1__Reply *r;
	char key[16];
	size_t n = 0;

	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof key, "k%04d", i);
		update(key, 100000 + i, ST_CREATED);
	}
	memset(seen, 0, sizeof seen);
	wq__v1__list__init(&l);
	l.queue = text("default");
	l.limit = 700;
	do {
		send_op(WQ__V1__REQUEST__OP_LIST, &l);
		r = expect(ST_OK);
		for (size_t i = 0; i < r->n_jobs; i++) {
			int k = 0;

			memcpy(key, r->jobs[i]->key.data, 5);
			key[5] = '\0';
			ck_assert_int_eq(sscanf(key, "k%d", &k), 1);
			ck_assert(!seen[k]);
			seen[k] = true;
			n++;
		}
		l.cursor = r->cursor;
	} while (l.cursor);
	ck_assert_uint_eq(n, 3000);
	/* Due range, both ends included. */
	l.has_due_from_ms_case = WQ__V1__LIST__HAS_DUE_FROM_MS_DUE_FROM_MS;
	l.due_from_ms = 1700000000000 + 100010;
	l.has_due_to_ms_case = WQ__V1__LIST__HAS_DUE_TO_MS_DUE_TO_MS;
	l.due_to_ms = 1700000000000 + 100019;
	n = 0;
	do {
		send_op(WQ__V1__REQUEST__OP_LIST, &l);
		r = expect(ST_OK);
		n += r->n_jobs;
		l.cursor = r->cursor;
	} while (l.cursor);
	ck_assert_uint_eq(n, 10);
	l.queue = text("nowhere");
	send_op(WQ__V1__REQUEST__OP_LIST, &l);
	expect(ST_NOT_FOUND);
}
END_TEST

START_TEST(failed_runs_are_in_the_history)
{
	Wq__V1__History h;
	Wq__V1__Reply *r;

	for (int i = 0; i < 3; i++) {
		update("k", 0, ST_CREATED);
		pass(0);
		run_begins();
		run_ends(RUN_FAILED);
	}
	wq__v1__history__init(&h);
	h.key = bin("k");
	h.limit = 2;
	send_op(WQ__V1__REQUEST__OP_HISTORY, &h);
	r = expect(ST_OK);
	ck_assert_uint_eq(r->n_runs, 2);
	ck_assert_uint_eq(r->runs[0]->generation, 3);
	ck_assert_int_eq(r->runs[0]->exit_code, 3);
	ck_assert_uint_eq(r->cursor, 2);
	h.skip = r->cursor;
	send_op(WQ__V1__REQUEST__OP_HISTORY, &h);
	r = expect(ST_OK);
	ck_assert_uint_eq(r->n_runs, 1);
	ck_assert_uint_eq(r->cursor, 0);
}
END_TEST

START_TEST(a_drain_is_answered_when_the_queue_is_quiet)
{
	Wq__V1__Drain d;

	update("k", 0, ST_CREATED);
	pass(0);
	run_begins();
	wq__v1__drain__init(&d);
	send_op(WQ__V1__REQUEST__OP_DRAIN, &d);
	commit();
	ck_assert_ptr_null(reply());
	update("new", 0, ST_REFUSED_DRAINING);
	run_ends(RUN_DONE);
	pass(0);
	commit();
	expect(ST_OK);
	update("new", 1000, ST_CREATED);
}
END_TEST

START_TEST(a_timeout_is_a_timeout)
{
	Wq__V1__Wait w;

	update("k", 60000, ST_CREATED);
	wq__v1__wait__init(&w);
	w.key = bin("k");
	w.has_timeout_ms_case = WQ__V1__WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
	send_op(WQ__V1__REQUEST__OP_WAIT, &w);
	expect(ST_TIMEOUT);
	w.timeout_ms = 100;
	send_op(WQ__V1__REQUEST__OP_WAIT, &w);
	ck_assert_ptr_null(reply());
	pass(100);
	expect(ST_TIMEOUT);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("service");
	TCase *tc = unit_case(suite, "service");

	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, an_update_runs_once_and_is_waited_for);
	tcase_add_test(tc, a_made_key_can_be_used);
	tcase_add_test(tc, PRO_07_a_key_with_nul_never_acts_on_its_beginning);
	tcase_add_test(tc, cancel_wait_holds_until_the_run_is_over_and_then_lets_go);
	tcase_add_test(tc, a_gone_client_lets_its_cancel_wait_go);
	tcase_add_test(tc, cancel_kill_reaches_the_runner);
	tcase_add_test(tc, a_run_may_not_wait_for_itself_but_may_come_again);
	tcase_add_test(tc, queues_are_made_shown_and_answered_when_on_disk);
	tcase_add_test(tc, sync_updates_wait_for_their_commit_alone);
	tcase_add_test(tc, a_batch_with_everything_in_it);
	tcase_add_test(tc, a_list_shows_each_job_once);
	tcase_add_test(tc, failed_runs_are_in_the_history);
	tcase_add_test(tc, a_drain_is_answered_when_the_queue_is_quiet);
	tcase_add_test(tc, a_timeout_is_a_timeout);
	return unit_run(suite);
}
