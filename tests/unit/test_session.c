/*
 * service: sessions over byte buffers and a scripted engine. Who gets which
 * answer, when, and what a hostile or absent peer can not do.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "base/assert.h"
#include "base/err.h"
#include "service/service.h"
#include "service/session.h"
#include "unit/scripted_engine.h"
#include "unit/unit.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define FRAME_MAX  (1u << 20)
#define IN_FLIGHT  100
#define OUTPUT_MAX (256u << 10)
#define HELLO_NS   (10 * NS_PER_S)
#define FRAME_NS   (30 * NS_PER_S)

static struct engine engine;
static struct service *svc;
static struct moment now;

/* One client: its session, and the bytes on their way to it. */
struct client {
	struct session *s;
	struct buf in;
	int told;          /* output_ready calls */
	int early;         /* output_early calls */
	size_t left_early; /* bytes that such a call has sent */
};
static struct client a, b;

static bool early_output; /* of the service that `up` makes */
static int n_started, n_killed, n_reloads, n_shutdowns;
static bool shutdown_drain;

/* ---- the daemon's side ---- */

static void
start_run(void *ctx, const struct run_start *r)
{
	(void)ctx;
	ck_assert_uint_eq(r->run_id, 77);
	n_started++;
}

static void
kill_run(void *ctx, uint64_t run_id)
{
	(void)ctx;
	ck_assert_uint_eq(run_id, 78);
	n_killed++;
}

static void
output_ready(void *ctx, struct session *s)
{
	(void)ctx;
	((struct client *)session_user(s))->told++;
}

/* The socket takes it all. */
static void
output_early(void *ctx, struct session *s)
{
	struct client *c = session_user(s);
	struct buf *out = session_output(s);

	(void)ctx;
	ck_assert_uint_gt(buf_len(out), 0);
	c->early++;
	c->left_early += buf_len(out);
	buf_consume(out, buf_len(out));
}

static int
reload(void *ctx, char *why, size_t size)
{
	(void)ctx;
	if (n_reloads++ == 0)
		return 0;
	snprintf(why, size, "line 3: no such option");
	return ERR_CONFIG;
}

static void
shut_down(void *ctx, bool drain)
{
	(void)ctx;
	n_shutdowns++;
	shutdown_drain = drain;
}

static void
stat(void *ctx, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	(void)ctx;
	put(arg, "commits", 12);
}

/* ---- fixture ---- */

static const struct peer owner = { .unix_socket = true, .address = "unix pid=1" };

static void
connect_as(struct client *c, const struct peer *peer)
{
	*c = (struct client){ 0 };
	buf_init(&c->in, 16u << 20);
	ck_assert_int_eq(session_new(svc, peer, now, &c->s), 0);
	session_set_user(c->s, c);
}

static void
hang_up(struct client *c)
{
	session_free(c->s, now);
	buf_done(&c->in);
	c->s = NULL;
}

static void
up(void)
{
	const struct service_config cfg = {
		.engine = &engine,
		.server = "wqd test",
		.instance = "an-instance",
		.frame_max = FRAME_MAX,
		.max_in_flight = IN_FLIGHT,
		.output_max = OUTPUT_MAX,
		.watch_bytes = 65536,
		.hello_timeout_ns = HELLO_NS,
		.frame_timeout_ns = FRAME_NS,
		.start_run = start_run,
		.kill_run = kill_run,
		.output_ready = output_ready,
		.output_early = early_output ? output_early : NULL,
		.reload = reload,
		.shutdown = shut_down,
		.stat = stat,
	};
	struct peer me = owner;

	scripted_init(&engine);
	n_started = n_killed = n_reloads = n_shutdowns = 0;
	now = (struct moment){ 1000 * NS_PER_S, 1700000000 * NS_PER_S };
	ck_assert_int_eq(service_new(&cfg, &svc), 0);
	me.uid = geteuid();
	connect_as(&a, &me);
	connect_as(&b, &me);
}

static void
down(void)
{
	if (a.s)
		hang_up(&a);
	if (b.s)
		hang_up(&b);
	ck_assert_uint_eq(service_counters(svc)->connections, 0);
	ck_assert_uint_eq(service_waiting_commit(svc), 0);
	service_free(svc);
}

/* ---- requests ---- */

static void
send_bytes(struct client *c, const void *p, size_t n)
{
	ck_assert_int_eq(buf_put(&c->in, p, n), 0);
}

static void
send_request(struct client *c, uint64_t id, Wq__V1__Request__OpCase op, void *body)
{
	static uint8_t packed[FRAME_MAX];
	uint8_t len[5];
	Wq__V1__Request pb;
	size_t n;

	wq__v1__request__init(&pb);
	pb.id = id;
	pb.run_token = 4711;
	pb.op_case = op;
	pb.hello = body;
	n = wq__v1__request__get_packed_size(&pb);
	ck_assert_uint_le(n, sizeof packed);
	wq__v1__request__pack(&pb, packed);
	send_bytes(c, len, frame_put_len(len, (uint32_t)n));
	send_bytes(c, packed, n);
}

static ProtobufCBinaryData
bin(const char *z)
{
	return (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)z, .len = strlen(z) };
}

static void
send_hello(struct client *c, uint64_t id)
{
	static char name[] = "test";
	Wq__V1__Hello h;

	wq__v1__hello__init(&h);
	h.version = 1;
	h.client = name;
	send_request(c, id, WQ__V1__REQUEST__OP_HELLO, &h);
}

static void
send_update(struct client *c, uint64_t id, const char *key, Wq__V1__Durability level)
{
	Wq__V1__Update u;

	wq__v1__update__init(&u);
	u.key = bin(key);
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.durability = level;
	send_request(c, id, WQ__V1__REQUEST__OP_UPDATE, &u);
}
#define ASYNC WQ__V1__DURABILITY__DURABILITY_DEFAULT
#define SYNC  WQ__V1__DURABILITY__DURABILITY_SYNC

static void
send_wait(struct client *c, uint64_t id, const char *key)
{
	Wq__V1__Wait w;

	wq__v1__wait__init(&w);
	w.key = bin(key);
	send_request(c, id, WQ__V1__REQUEST__OP_WAIT, &w);
}

static void
send_ping(struct client *c, uint64_t id)
{
	Wq__V1__Ping p;

	wq__v1__ping__init(&p);
	send_request(c, id, WQ__V1__REQUEST__OP_PING, &p);
}

static void
send_list(struct client *c, uint64_t id, uint64_t cursor)
{
	Wq__V1__List l;

	wq__v1__list__init(&l);
	l.limit = PAGE_MAX;
	l.cursor = cursor;
	send_request(c, id, WQ__V1__REQUEST__OP_LIST, &l);
}

static int
input(struct client *c)
{
	return session_input(c->s, now, &c->in);
}

/* ---- replies ---- */

static Wq__V1__Reply *
next_reply(struct client *c)
{
	struct buf *out = session_output(c->s);
	const uint8_t *m;
	size_t n, need;
	long used = frame_next(buf_head(out), buf_len(out), WIRE_REPLY_MAX, &m, &n, &need);
	Wq__V1__Reply *pb;

	ck_assert_int_gt(used, 0);
	pb = wq__v1__reply__unpack(NULL, n, m);
	ck_assert_ptr_nonnull(pb);
	buf_consume(out, (size_t)used);
	return pb;
}

static void
drop(Wq__V1__Reply *pb)
{
	wq__v1__reply__free_unpacked(pb, NULL);
}

static void
expect(struct client *c, uint64_t id, enum status st)
{
	Wq__V1__Reply *pb = next_reply(c);

	ck_assert_uint_eq(pb->id, id);
	ck_assert_int_eq((int)pb->status, (int)st);
	ck_assert(!status_is_error(st) || pb->message[0]);
	drop(pb);
}

#define expect_silence(c) ck_assert_uint_eq(buf_len(session_output((c)->s)), 0)

static void
greet(struct client *c)
{
	send_hello(c, 1);
	ck_assert_int_eq(input(c), 0);
	expect(c, 1, ST_OK);
	expect_silence(c);
}

static void
answer_last(enum engine_event_kind kind, const struct job_reply *r, bool durable)
{
	const struct engine_event tick = { .kind = EV_TICK };

	scripted_answer(&engine, scripted_last(&engine, kind)->ticket, r, durable);
	service_step(svc, now, &tick);
}

/* ---- hello ---- */

START_TEST(hello_tells_who_is_there_and_what_is_taken)
{
	Wq__V1__Reply *pb;

	send_hello(&a, 9);
	ck_assert_int_eq(input(&a), 0);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->id, 9);
	ck_assert_str_eq(pb->hello->server, "wqd test");
	ck_assert_str_eq(pb->hello->instance, "an-instance");
	ck_assert_uint_eq(pb->hello->frame_max, FRAME_MAX);
	ck_assert_uint_eq(pb->hello->in_flight_max, IN_FLIGHT);
	ck_assert_int_eq(pb->hello->now_ms, 1700000000000);
	drop(pb);
	send_hello(&a, 10);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 10, ST_INVALID);
	ck_assert(!session_closing(a.s));
}
END_TEST

START_TEST(nothing_comes_before_hello)
{
	send_update(&a, 3, "k", ASYNC);
	send_hello(&a, 4);
	ck_assert_int_lt(input(&a), 0);
	expect(&a, 3, ST_INVALID);
	expect_silence(&a);
	ck_assert(session_closing(a.s));
	ck_assert(!session_wants_input(a.s));
	ck_assert_uint_eq(engine.n_seen, 0);
}
END_TEST

static void
bad_hello(uint32_t version, char *client, const char *token, char *namespace, enum status st)
{
	Wq__V1__Hello h;
	struct client c;

	wq__v1__hello__init(&h);
	h.version = version;
	h.client = client;
	h.token = bin(token);
	h.namespace_ = namespace;
	connect_as(&c, &owner);
	send_request(&c, 5, WQ__V1__REQUEST__OP_HELLO, &h);
	if (st == ST_UNAUTHORIZED) {
		/* Not at once, and nothing is taken meanwhile. */
		ck_assert_int_eq(input(&c), 0);
		expect_silence(&c);
		ck_assert(!session_wants_input(c.s) && !session_closing(c.s));
		ck_assert_int_gt(session_deadline(c.s), now.boot_ns);
		session_expired(c.s);
	} else {
		ck_assert_int_lt(input(&c), 0);
	}
	expect(&c, 5, st);
	ck_assert(session_closing(c.s));
	hang_up(&c);
}

START_TEST(a_bad_hello_is_told_and_closed)
{
	static char none[] = "", some[] = "n/s", dirty[] = "a\nb", odd[] = "a\xff";
	static char lengthy[CLIENT_NAME_MAX + 2];

	memset(lengthy, 'x', sizeof lengthy - 1);
	bad_hello(0, none, "", none, ST_INVALID);
	bad_hello(2, none, "", none, ST_INVALID);
	bad_hello(1, dirty, "", none, ST_INVALID);
	bad_hello(1, odd, "", none, ST_INVALID);
	bad_hello(1, lengthy, "", none, ST_INVALID);
	bad_hello(1, none, "secret", none, ST_UNAUTHORIZED);
	bad_hello(1, none, "", some, ST_INVALID);
	ck_assert_uint_eq(service_counters(svc)->connections_dropped, 7);
}
END_TEST

/* ---- bad input ---- */

START_TEST(a_malformed_message_closes_after_the_good_ones_before_it)
{
	static const uint8_t bad[] = { 3, 0xff, 0xff, 0xff };

	greet(&a);
	send_update(&a, 2, "k", ASYNC);
	send_bytes(&a, bad, sizeof bad);
	send_update(&a, 3, "l", ASYNC);
	ck_assert_int_lt(input(&a), 0);
	expect(&a, 2, ST_CREATED);
	expect(&a, 0, ST_INVALID);
	expect_silence(&a);
	ck_assert_uint_eq(scripted_count(&engine, EV_UPDATE), 1);
	ck_assert_uint_eq(service_counters(svc)->requests_malformed, 1);
	/* The other client does not notice. */
	greet(&b);
}
END_TEST

START_TEST(PRO_01_an_oversized_length_is_refused_before_its_bytes)
{
	static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0x0f };
	static const uint8_t endless[] = { 0xff, 0xff, 0xff, 0xff, 0xff };
	int64_t live = alloc_live();

	send_bytes(&a, huge, sizeof huge);
	ck_assert_int_lt(input(&a), 0);
	expect(&a, 0, ST_REFUSED_LIMIT);
	send_bytes(&b, endless, sizeof endless);
	ck_assert_int_lt(input(&b), 0);
	expect(&b, 0, ST_INVALID);
	/* Two output buffers, and what the test's own buffers hold: nothing of the announced size. */
	ck_assert_int_le(alloc_live() - live, 4);
}
END_TEST

START_TEST(what_is_unknown_or_bad_keeps_its_id_and_the_connection)
{
	static const uint8_t later_op[] = { 6, 0x08, 2, 0xc2, 0x3e, 1, 0 };
	static const uint8_t no_op[] = { 2, 0x08, 3 };
	Wq__V1__Update u;

	greet(&a);
	send_bytes(&a, later_op, sizeof later_op);
	send_bytes(&a, no_op, sizeof no_op);
	wq__v1__update__init(&u);
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = -1;
	send_request(&a, 4, WQ__V1__REQUEST__OP_UPDATE, &u);
	send_update(&a, 5, "k", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_UNIMPLEMENTED);
	expect(&a, 3, ST_INVALID);
	expect(&a, 4, ST_INVALID);
	expect(&a, 5, ST_CREATED);
	expect_silence(&a);
	ck_assert_uint_eq(scripted_count(&engine, EV_UPDATE), 1);
}
END_TEST

/* Two bytes each, over a hundred when decoded. */
START_TEST(a_swarm_of_empty_updates_is_refused)
{
	static uint8_t m[FRAME_MAX];
	uint8_t len[5];
	size_t n = 0, body = 400000;

	greet(&a);
	m[n++] = 0x6a;
	n += frame_put_len(m + n, (uint32_t)(2 * body));
	for (size_t i = 0; i < body; i++) {
		m[n++] = 0x0a;
		m[n++] = 0;
	}
	send_update(&a, 2, "k", ASYNC);
	send_bytes(&a, len, frame_put_len(len, (uint32_t)n));
	send_bytes(&a, m, n);
	ck_assert_int_lt(input(&a), 0);
	expect(&a, 2, ST_CREATED);
	expect(&a, 0, ST_REFUSED_LIMIT);
}
END_TEST

START_TEST(PRO_07_odd_names_are_invalid_in_every_look)
{
	static char slash[] = "a/b";
	Wq__V1__Job j;
	Wq__V1__List l;
	Wq__V1__History h;
	Wq__V1__Queue q;

	greet(&a);
	wq__v1__job__init(&j);
	send_request(&a, 2, WQ__V1__REQUEST__OP_GET, &j);
	j.key = (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t) "job\0x", .len = 5 };
	send_request(&a, 3, WQ__V1__REQUEST__OP_GET, &j);
	j.key = bin("job");
	j.queue = slash;
	send_request(&a, 4, WQ__V1__REQUEST__OP_GET, &j);
	wq__v1__list__init(&l);
	l.queue = slash;
	send_request(&a, 5, WQ__V1__REQUEST__OP_LIST, &l);
	wq__v1__history__init(&h);
	h.key = bin(" x");
	send_request(&a, 6, WQ__V1__REQUEST__OP_HISTORY, &h);
	wq__v1__queue__init(&q);
	q.queue = slash;
	send_request(&a, 7, WQ__V1__REQUEST__OP_QUEUE_SHOW, &q);
	ck_assert_int_eq(input(&a), 0);
	for (uint64_t id = 2; id <= 7; id++)
		expect(&a, id, ST_INVALID);
	expect_silence(&a);
}
END_TEST

/* ---- time limits ---- */

START_TEST(hello_has_a_time_limit_that_half_a_hello_does_not_move)
{
	int64_t limit = now.boot_ns + HELLO_NS;

	ck_assert_int_eq(session_deadline(a.s), limit);
	now.boot_ns += NS_PER_S;
	send_bytes(&a, "\x05\x08", 2);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(session_deadline(a.s), limit);
	session_expired(a.s);
	expect(&a, 0, ST_TIMEOUT);
	ck_assert(session_closing(a.s));
	ck_assert_int_eq(session_deadline(a.s), INT64_MAX);
}
END_TEST

START_TEST(a_begun_message_has_a_time_limit_from_its_first_byte)
{
	int64_t begun;

	greet(&a);
	ck_assert_int_eq(session_deadline(a.s), INT64_MAX);
	begun = now.boot_ns;
	send_bytes(&a, "\x08", 1);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(session_deadline(a.s), begun + FRAME_NS);
	for (int i = 0; i < 5; i++) {
		now.boot_ns += NS_PER_S;
		send_bytes(&a, "\x08", 1);
		ck_assert_int_eq(input(&a), 0);
		ck_assert_int_eq(session_deadline(a.s), begun + FRAME_NS);
	}
	session_expired(a.s);
	expect(&a, 0, ST_TIMEOUT);
}
END_TEST

START_TEST(the_next_begun_message_has_a_limit_of_its_own)
{
	greet(&a);
	send_ping(&a, 2);
	send_bytes(&a, "\x08", 1);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_OK);
	ck_assert_int_eq(session_deadline(a.s), now.boot_ns + FRAME_NS);
	now.boot_ns += NS_PER_S;
	send_bytes(&a, "\x08\x03\x5a\x00\x40\x00\x40\x00",
		8); /* its rest: ping 3 with unknown fields */
	send_bytes(&a, "\x08", 1);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 3, ST_OK);
	ck_assert_int_eq(session_deadline(a.s), now.boot_ns + FRAME_NS);
}
END_TEST

/* ---- order and answers ---- */

START_TEST(a_read_is_applied_and_answered_in_order)
{
	char key[16];

	greet(&a);
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "k%d", i);
		send_update(&a, 100 + (uint64_t)i, key, ASYNC);
	}
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_eq(buf_len(&a.in), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "k%d", i);
		ck_assert_str_eq(engine.seen[i].key, key);
		ck_assert_uint_eq(engine.seen[i].run_token, 4711);
		expect(&a, 100 + (uint64_t)i, ST_CREATED);
	}
	ck_assert_int_eq(a.told, 0); /* the reader looks by itself */
	ck_assert_uint_eq(service_counters(svc)->requests, 1001);
	ck_assert_uint_eq(service_counters(svc)->replies[ST_CREATED], 1000);
}
END_TEST

START_TEST(waiting_requests_hold_nobody_up_and_find_their_client)
{
	const struct job_reply r = { .status = ST_OK };
	uint64_t first;

	greet(&a);
	greet(&b);
	send_wait(&a, 2, "wait-1");
	send_wait(&a, 3, "wait-2");
	send_ping(&a, 4);
	ck_assert_int_eq(input(&a), 0);
	first = engine.seen[0].ticket;
	expect(&a, 4, ST_OK);
	expect_silence(&a);

	/* Answered by a step that another client caused. */
	scripted_answer(&engine, first, &r, false);
	answer_last(EV_WAIT, &r, false);
	ck_assert_int_eq(a.told, 2);
	expect(&a, 2, ST_OK);
	expect(&a, 3, ST_OK);
	/* Once is all. */
	scripted_answer(&engine, first, &r, false);
	answer_last(EV_WAIT, &r, false);
	expect_silence(&a);
}
END_TEST

START_TEST(runs_start_and_stop_by_effects)
{
	greet(&a);
	engine.start_run = true;
	send_update(&a, 2, "k", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_CREATED);
	ck_assert_int_eq(n_started, 1);
	ck_assert_int_eq(n_killed, 1);
}
END_TEST

START_TEST(a_made_key_is_told_a_given_one_is_not)
{
	Wq__V1__Reply *pb;

	greet(&a);
	send_update(&a, 2, "", ASYNC);
	send_update(&a, 3, "mine", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->key.len, 4);
	ck_assert_mem_eq(pb->key.data, "made", 4);
	drop(pb);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->key.len, 0);
	drop(pb);
}
END_TEST

START_TEST(a_gone_client_abandons_what_it_waited_for)
{
	const struct job_reply r = { .status = ST_OK };
	uint64_t old;

	greet(&a);
	greet(&b);
	send_wait(&a, 2, "wait-1");
	send_wait(&a, 3, "wait-2");
	ck_assert_int_eq(input(&a), 0);
	old = scripted_last(&engine, EV_WAIT)->ticket;
	now.boot_ns += NS_PER_S;
	hang_up(&a);
	ck_assert_uint_eq(scripted_count(&engine, EV_ABANDON), 2);
	ck_assert_uint_eq(scripted_last(&engine, EV_ABANDON)->ticket, old);
	ck_assert_int_eq(scripted_last(&engine, EV_ABANDON)->at_ns, now.boot_ns);

	/* The slot is somebody else's now: a late answer to the old ticket is not his. */
	send_wait(&b, 7, "wait-3");
	ck_assert_int_eq(input(&b), 0);
	ck_assert_uint_ne(scripted_last(&engine, EV_WAIT)->ticket, old);
	scripted_answer(&engine, old, &r, false);
	scripted_answer(&engine, old ^ 0xffffffff, &r, false); /* nobody's, ever */
	answer_last(EV_WAIT, &r, false);
	expect(&b, 7, ST_OK);
	expect_silence(&b);
}
END_TEST

/* ---- limits ---- */

START_TEST(too_much_in_flight_stops_the_reading)
{
	const struct job_reply r = { .status = ST_OK };

	greet(&a);
	for (uint64_t i = 0; i < IN_FLIGHT + 20; i++)
		send_wait(&a, 10 + i, "wait");
	ck_assert_int_eq(input(&a), 0);
	ck_assert(!session_wants_input(a.s));
	ck_assert_uint_gt(buf_len(&a.in), 0);
	ck_assert_uint_eq(scripted_count(&engine, EV_WAIT), IN_FLIGHT);
	ck_assert_uint_eq(service_counters(svc)->reads_paused, 1);
	/* What waits in hand is no begun message. */
	ck_assert_int_eq(session_deadline(a.s), INT64_MAX);

	answer_last(EV_WAIT, &r, false);
	ck_assert_int_eq(a.told, 1);
	ck_assert(session_wants_input(a.s));
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_eq(scripted_count(&engine, EV_WAIT), IN_FLIGHT + 1);
	ck_assert(!session_wants_input(a.s));
	for (int i = 0; i < 19; i++) {
		answer_last(EV_WAIT, &r, false);
		ck_assert_int_eq(input(&a), 0);
	}
	ck_assert_uint_eq(buf_len(&a.in), 0);
	ck_assert_uint_eq(scripted_count(&engine, EV_WAIT), IN_FLIGHT + 20);
}
END_TEST

START_TEST(PRO_03_a_peer_that_never_reads_costs_a_bounded_amount)
{
	size_t largest = 0;
	uint64_t asked = 0;

	greet(&a);
	engine.n_jobs = 1000;
	/* As the network does it: input while it is wanted, never an output taken. */
	while (asked < 100000 && session_wants_input(a.s)) {
		for (int i = 0; i < 100; i++)
			send_list(&a, ++asked, 0);
		ck_assert_int_ge(input(&a), 0);
		if (buf_len(session_output(a.s)) > largest)
			largest = buf_len(session_output(a.s));
	}
	ck_assert(!session_wants_input(a.s));
	ck_assert_uint_lt(asked, 1000);
	ck_assert_uint_ge(largest, OUTPUT_MAX);
	ck_assert_uint_le(largest, OUTPUT_MAX + 200000); /* one page more */
	/* Others go on; and when it reads, so does it. */
	greet(&b);
	buf_consume(session_output(a.s), largest);
	ck_assert(session_wants_input(a.s));
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_gt(buf_len(session_output(a.s)), 0);
}
END_TEST

/* Twelve bytes each, and thousands of jobs to be looked at. */
START_TEST(requests_that_look_at_much_are_spread_over_turns)
{
	size_t calls = 0;
	int more;

	greet(&a);
	for (uint64_t i = 0; i < 2000; i++)
		send_list(&a, 10 + i, 0);
	do {
		size_t before = service_counters(svc)->requests;

		more = input(&a);
		ck_assert_int_ge(more, 0);
		ck_assert_uint_le(service_counters(svc)->requests - before, 100);
		/* What is in hand is no begun message. */
		ck_assert_int_eq(session_deadline(a.s), INT64_MAX);
		calls++;
	} while (more);
	ck_assert_uint_eq(buf_len(&a.in), 0);
	ck_assert_uint_ge(calls, 20);
	for (uint64_t i = 0; i < 2000; i++)
		expect(&a, 10 + i, ST_OK);
	/* Updates are what a turn is measured in. */
	for (uint64_t i = 0; i < 10000; i++)
		send_update(&a, i, "k", ASYNC);
	ck_assert_int_eq(input(&a), 1);
	ck_assert_int_eq(input(&a), 0);
}
END_TEST

START_TEST(outputs_of_runs_are_left_out_while_the_peer_does_not_read)
{
	static char text[100000];
	const struct run_record run = {
		.queue = STR("q"), .key = STR("k"), .output = { text, sizeof text }
	};
	const struct job_reply r = { .status = ST_OK, .run = &run };
	Wq__V1__Reply *pb;
	size_t n;

	greet(&a);
	for (uint64_t i = 0; i < IN_FLIGHT; i++)
		send_wait(&a, 10 + i, "wait");
	ck_assert_int_eq(input(&a), 0);
	for (size_t i = 0; i < IN_FLIGHT; i++)
		scripted_answer(&engine, engine.seen[i].ticket, &r, false);
	answer_last(EV_WAIT, &r, false);
	ck_assert_uint_le(buf_len(session_output(a.s)), OUTPUT_MAX + sizeof text + IN_FLIGHT * 100);
	n = 0;
	for (int i = 0; i < IN_FLIGHT; i++) {
		pb = next_reply(&a);
		ck_assert(pb->run->truncated == (pb->run->output.len == 0));
		n += pb->run->output.len > 0;
		drop(pb);
	}
	ck_assert_uint_eq(n, 3);
	expect_silence(&a);
}
END_TEST

START_TEST(a_peer_that_reads_gets_an_output_of_any_size)
{
	static char text[5u << 20];
	struct run_record run = {
		.queue = STR("q"), .key = STR("k"), .output = { text, 2 * OUTPUT_MAX }
	};
	const struct job_reply r = { .status = ST_OK, .run = &run };
	Wq__V1__Reply *pb;

	greet(&a);
	send_wait(&a, 2, "wait");
	send_wait(&a, 3, "wait");
	ck_assert_int_eq(input(&a), 0);
	scripted_answer(&engine, engine.seen[0].ticket, &r, false);
	answer_last(EV_WAIT, &r, false);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->run->output.len, run.output.n);
	ck_assert(!pb->run->truncated);
	drop(pb);
	pb = next_reply(&a); /* behind one that was not read yet */
	ck_assert_uint_eq(pb->run->output.len, 0);
	ck_assert(pb->run->truncated);
	drop(pb);
	/* As much as a reply holds. */
	run.output.n = sizeof text;
	send_wait(&a, 4, "wait");
	ck_assert_int_eq(input(&a), 0);
	answer_last(EV_WAIT, &r, false);
	pb = next_reply(&a);
	ck_assert_uint_gt(pb->run->output.len, 4000000);
	ck_assert(pb->run->truncated);
	drop(pb);
}
END_TEST

/* ---- durable replies ---- */

START_TEST(durable_replies_wait_for_the_commit_that_covers_them)
{
	greet(&a);
	greet(&b);
	send_update(&a, 2, "k", SYNC);
	send_update(&a, 3, "l", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 3, ST_CREATED);
	expect_silence(&a);
	send_update(&b, 4, "m", SYNC);
	ck_assert_int_eq(input(&b), 0);
	expect_silence(&b);
	ck_assert_uint_eq(service_waiting_commit(svc), 2);

	service_committed(svc, 0);
	ck_assert_uint_eq(service_waiting_commit(svc), 2);
	service_committed(svc, 1);
	ck_assert_int_eq(a.told, 1);
	expect(&a, 2, ST_CREATED);
	expect_silence(&b);
	service_committed(svc, 2);
	expect(&b, 4, ST_CREATED);
	/* Nothing is dirty now: at once. */
	engine.mark = 2;
	engine.reply.status = ST_UNCHANGED;
	send_wait(&a, 5, "wait");
	ck_assert_int_eq(input(&a), 0);
	scripted_answer(&engine, scripted_last(&engine, EV_WAIT)->ticket, &engine.reply, true);
	engine.mark = 2;
	{
		const struct engine_event tick = { .kind = EV_TICK };

		service_step(svc, now, &tick);
	}
	expect(&a, 5, ST_UNCHANGED);
}
END_TEST

START_TEST(a_failed_commit_is_told_to_all_who_wait)
{
	greet(&a);
	send_update(&a, 2, "k", SYNC);
	send_update(&a, 3, "l", SYNC);
	ck_assert_int_eq(input(&a), 0);
	service_commit_failed(svc, -ENOSPC);
	expect(&a, 2, ST_STORAGE_ERROR);
	/* Of a later group: that has to wait until this one comes through, which may be for ever. */
	expect(&a, 3, ST_STORAGE_ERROR);
	ck_assert_uint_eq(service_waiting_commit(svc), 0);
	service_committed(svc, 2);
	expect_silence(&a);
}
END_TEST

START_TEST(nobody_waits_for_a_failing_store)
{
	Wq__V1__Cancel k;

	greet(&a);
	send_update(&a, 2, "k", SYNC);
	ck_assert_int_eq(input(&a), 0);
	service_set_degraded(svc, true);
	service_commit_failed(svc, -ENOSPC);
	expect(&a, 2, ST_STORAGE_ERROR);
	/* Not refused as updates are, but it can't be on disk before that one. */
	wq__v1__cancel__init(&k);
	k.key = bin("k");
	k.durability = SYNC;
	send_request(&a, 3, WQ__V1__REQUEST__OP_CANCEL, &k);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 3, ST_STORAGE_ERROR);
	ck_assert_uint_eq(scripted_count(&engine, EV_CANCEL), 1);
	ck_assert_uint_eq(service_waiting_commit(svc), 0);
	service_set_degraded(svc, false);
	service_committed(svc, engine.mark);
	expect_silence(&a);
}
END_TEST

START_TEST(held_replies_of_a_gone_client_fall_away)
{
	greet(&a);
	greet(&b);
	send_update(&a, 2, "k", SYNC);
	send_update(&b, 3, "k", SYNC);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(input(&b), 0);
	hang_up(&a);
	ck_assert_uint_eq(service_waiting_commit(svc), 1);
	service_committed(svc, 2);
	expect(&b, 3, ST_CREATED);
}
END_TEST

START_TEST(held_replies_count_as_in_flight_and_as_unsent)
{
	greet(&a);
	for (uint64_t i = 0; i < IN_FLIGHT + 5; i++)
		send_update(&a, 10 + i, "k", SYNC);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_eq(service_waiting_commit(svc), IN_FLIGHT);
	ck_assert(!session_wants_input(a.s));
	service_committed(svc, engine.mark);
	ck_assert(session_wants_input(a.s));
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_eq(service_waiting_commit(svc), 5);
}
END_TEST

/* ---- batches ---- */

static Wq__V1__Update batch_items[BATCH_MAX];

static void
send_batch(struct client *c, uint64_t id, size_t n)
{
	static Wq__V1__Update *v[BATCH_MAX];
	Wq__V1__UpdateBatch pb;

	wq__v1__update_batch__init(&pb);
	for (size_t i = 0; i < n; i++)
		v[i] = &batch_items[i];
	pb.updates = v;
	pb.n_updates = n;
	send_request(c, id, WQ__V1__REQUEST__OP_UPDATE_BATCH, &pb);
}

static void
fill_batch(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		wq__v1__update__init(&batch_items[i]);
		batch_items[i].key = bin("k");
		batch_items[i].when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	}
}

START_TEST(a_batch_answers_each_in_its_place)
{
	Wq__V1__Reply *pb;

	greet(&a);
	fill_batch(BATCH_MAX);
	batch_items[1].delay_ms = -1;
	batch_items[2].key = bin("");
	send_batch(&a, 2, BATCH_MAX);
	send_batch(&a, 3, 0);
	ck_assert_int_eq(input(&a), 0);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->id, 2);
	ck_assert_int_eq((int)pb->status, ST_OK);
	ck_assert_uint_eq(pb->n_results, BATCH_MAX);
	ck_assert_int_eq((int)pb->results[0]->status, ST_CREATED);
	ck_assert_uint_eq(pb->results[0]->key.len, 0);
	ck_assert_int_eq((int)pb->results[1]->status, ST_INVALID);
	ck_assert_str_eq(pb->results[1]->message, "a time is negative");
	ck_assert_mem_eq(pb->results[2]->key.data, "made", 4);
	ck_assert_int_eq((int)pb->results[BATCH_MAX - 1]->status, ST_CREATED);
	drop(pb);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->id, 3);
	ck_assert_uint_eq(pb->n_results, 0);
	drop(pb);
	ck_assert_uint_eq(scripted_count(&engine, EV_UPDATE), BATCH_MAX - 1);
	ck_assert_uint_eq(service_counters(svc)->replies[ST_INVALID], 1);
}
END_TEST

/* The second update of four is durable, the fourth too. */
static void
durable_batch(void)
{
	greet(&a);
	fill_batch(4);
	batch_items[1].durability = SYNC;
	batch_items[3].durability = SYNC;
	send_batch(&a, 2, 4);
	ck_assert_int_eq(input(&a), 0);
	expect_silence(&a);
	ck_assert_uint_eq(service_waiting_commit(svc), 1);
	service_committed(svc, 1); /* not all of it yet */
	expect_silence(&a);
}

START_TEST(a_batch_waits_for_its_last_durable_update)
{
	Wq__V1__Reply *pb;

	durable_batch();
	service_committed(svc, 2);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->n_results, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq((int)pb->results[i]->status, ST_CREATED);
	drop(pb);
}
END_TEST

START_TEST(a_failed_commit_spoils_only_the_durable_updates_of_a_batch)
{
	static const enum status want[] = { ST_CREATED, ST_STORAGE_ERROR, ST_CREATED,
		ST_STORAGE_ERROR };
	Wq__V1__Reply *pb;

	durable_batch();
	service_commit_failed(svc, -EIO);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->n_results, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq((int)pb->results[i]->status, (int)want[i]);
	drop(pb);
	expect_silence(&a);
}
END_TEST

/* ---- what leaves early ---- */

static void
up_early(void)
{
	early_output = true;
	up();
	early_output = false;
}

static void
send_updates(struct client *c, uint64_t from, int n)
{
	for (int i = 0; i < n; i++)
		send_update(c, from + (uint64_t)i, "k", ASYNC);
}

START_TEST(what_is_answered_leaves_while_more_is_done)
{
	size_t all;

	greet(&a);
	send_updates(&a, 200, 64);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(a.early, 0);
	all = buf_len(session_output(a.s));
	buf_consume(session_output(a.s), all);
	send_updates(&a, 300, 130);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(a.early, 2);
	ck_assert_uint_eq(a.left_early, 2 * all);
	expect(&a, 428, ST_CREATED);
	expect(&a, 429, ST_CREATED);
	expect_silence(&a);
}
END_TEST

START_TEST(a_batch_counts_by_its_updates)
{
	greet(&a);
	fill_batch(64);
	send_batch(&a, 2, 64);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(a.early, 0);
	drop(next_reply(&a));
	send_batch(&a, 3, 64);
	send_update(&a, 4, "k", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_int_eq(a.early, 1);
	expect(&a, 4, ST_CREATED);
	expect_silence(&a);
}
END_TEST

/* ---- degraded and stopping ---- */

START_TEST(a_failing_store_refuses_what_it_would_have_to_keep)
{
	static char mem[] = "mem", nowhere[] = "nowhere";
	Wq__V1__Update u;
	Wq__V1__Cancel k;

	greet(&a);
	service_set_degraded(svc, true);
	send_update(&a, 2, "k", ASYNC);
	send_update(&a, 3, "k", SYNC);
	send_update(&a, 4, "k", WQ__V1__DURABILITY__DURABILITY_MEMORY);
	wq__v1__update__init(&u);
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.queue = mem;
	send_request(&a, 5, WQ__V1__REQUEST__OP_UPDATE, &u);
	u.queue = nowhere; /* the engine's to answer */
	send_request(&a, 6, WQ__V1__REQUEST__OP_UPDATE, &u);
	wq__v1__cancel__init(&k);
	k.key = bin("k");
	send_request(&a, 7, WQ__V1__REQUEST__OP_CANCEL, &k);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_STORAGE_ERROR);
	expect(&a, 3, ST_STORAGE_ERROR);
	for (uint64_t id = 4; id <= 7; id++)
		expect(&a, id, ST_CREATED);
	service_set_degraded(svc, false);
	send_update(&a, 8, "k", ASYNC);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 8, ST_CREATED);
}
END_TEST

START_TEST(a_stopping_daemon_takes_only_what_its_runs_ask)
{
	Wq__V1__Update u;
	Wq__V1__Request pb;
	uint8_t m[64];

	greet(&a);
	service_set_stopping(svc);
	send_update(&a, 2, "k", ASYNC); /* with the token of a run */
	wq__v1__update__init(&u);
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	wq__v1__request__init(&pb);
	pb.id = 3;
	pb.op_case = WQ__V1__REQUEST__OP_UPDATE;
	pb.update = &u;
	m[0] = (uint8_t)wq__v1__request__pack(&pb, m + 1);
	send_bytes(&a, m, m[0] + 1u);
	send_ping(&a, 4);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_CREATED);
	expect(&a, 3, ST_REFUSED_DRAINING);
	expect(&a, 4, ST_OK);
}
END_TEST

/* ---- looks ---- */

START_TEST(lists_go_on_by_their_cursor)
{
	Wq__V1__Reply *pb;
	uint64_t cursor = 0;
	size_t n = 0;

	greet(&a);
	engine.n_jobs = 2500;
	do {
		send_list(&a, 2, cursor);
		ck_assert_int_eq(input(&a), 0);
		pb = next_reply(&a);
		n += pb->n_jobs;
		cursor = pb->cursor;
		drop(pb);
	} while (cursor);
	ck_assert_uint_eq(n, 2500);
}
END_TEST

START_TEST(a_page_holds_its_jobs_whatever_their_runs_have_said)
{
	static char text[100000];
	Wq__V1__Reply *pb;
	size_t with = 0;

	greet(&a);
	engine.n_jobs = 1000;
	engine.run_output = (struct str){ text, sizeof text };
	send_list(&a, 2, 0);
	ck_assert_int_eq(input(&a), 0);
	ck_assert_uint_le(buf_len(session_output(a.s)), WIRE_REPLY_MAX);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->n_jobs, 1000);
	for (size_t i = 0; i < pb->n_jobs; i++) {
		with += pb->jobs[i]->last->output.len > 0;
		ck_assert(pb->jobs[i]->last->truncated == (pb->jobs[i]->last->output.len == 0));
	}
	ck_assert_uint_gt(with, 10);
	drop(pb);
}
END_TEST

START_TEST(history_goes_on_by_its_cursor_in_pages_that_fit)
{
	static char text[100000];
	Wq__V1__History h;
	Wq__V1__Reply *pb;
	uint64_t next = 150;

	greet(&a);
	engine.n_runs = 150;
	engine.run_output = (struct str){ text, sizeof text };
	wq__v1__history__init(&h);
	h.limit = PAGE_MAX;
	do {
		send_request(&a, 2, WQ__V1__REQUEST__OP_HISTORY, &h);
		ck_assert_int_eq(input(&a), 0);
		pb = next_reply(&a);
		for (size_t i = 0; i < pb->n_runs; i++) {
			ck_assert_uint_eq(pb->runs[i]->generation, next--);
			ck_assert_uint_eq(pb->runs[i]->output.len, sizeof text);
		}
		h.skip = pb->cursor;
		drop(pb);
	} while (h.skip);
	ck_assert_uint_eq(next, 0);
}
END_TEST

START_TEST(get_show_and_their_not_found)
{
	static char nowhere[] = "nowhere";
	Wq__V1__Job j;
	Wq__V1__Queue q;
	Wq__V1__QueueList ql;
	Wq__V1__List l;
	Wq__V1__QueueSet set;
	Wq__V1__Reply *pb;

	greet(&a);
	wq__v1__job__init(&j);
	j.key = bin("job");
	send_request(&a, 2, WQ__V1__REQUEST__OP_GET, &j);
	j.key = bin("other");
	send_request(&a, 3, WQ__V1__REQUEST__OP_GET, &j);
	wq__v1__queue__init(&q);
	send_request(&a, 4, WQ__V1__REQUEST__OP_QUEUE_SHOW, &q);
	q.queue = nowhere;
	send_request(&a, 5, WQ__V1__REQUEST__OP_QUEUE_SHOW, &q);
	wq__v1__queue_list__init(&ql);
	send_request(&a, 6, WQ__V1__REQUEST__OP_QUEUE_LIST, &ql);
	wq__v1__list__init(&l);
	l.queue = nowhere;
	send_request(&a, 7, WQ__V1__REQUEST__OP_LIST, &l);
	wq__v1__queue_set__init(&set);
	send_request(&a, 8, WQ__V1__REQUEST__OP_QUEUE_SET, &set);
	engine.reply.status = ST_OK;
	ck_assert_int_eq(input(&a), 0);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->n_jobs, 1);
	ck_assert_mem_eq(pb->jobs[0]->key.data, "job", 3);
	drop(pb);
	expect(&a, 3, ST_NOT_FOUND);
	pb = next_reply(&a);
	ck_assert_str_eq(pb->queues[0]->queue, "default");
	drop(pb);
	expect(&a, 5, ST_NOT_FOUND);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->n_queues, 2);
	drop(pb);
	expect(&a, 7, ST_NOT_FOUND);
	pb = next_reply(&a);
	ck_assert_uint_eq(pb->id, 8);
	ck_assert_uint_eq(pb->n_queues, 1);
	drop(pb);
}
END_TEST

START_TEST(more_queues_than_a_reply_holds_come_in_pages)
{
	Wq__V1__QueueList ql;
	Wq__V1__Reply *pb;
	size_t n = 0;
	uint64_t id = 2;

	greet(&a);
	engine.n_queues = 30000;
	wq__v1__queue_list__init(&ql);
	do {
		send_request(&a, id, WQ__V1__REQUEST__OP_QUEUE_LIST, &ql);
		ck_assert_int_eq(input(&a), 0);
		pb = next_reply(&a);
		ck_assert_uint_eq(pb->id, id++);
		ck_assert_uint_gt(pb->n_queues, 0);
		n += pb->n_queues;
		ck_assert(pb->cursor == 0 || pb->cursor == n);
		ql.cursor = pb->cursor;
		drop(pb);
	} while (ql.cursor != 0);
	ck_assert_uint_eq(n, 30000);
	ck_assert_uint_gt(id, 4);
}
END_TEST

static int64_t
counter(const Wq__V1__Reply *pb, const char *name)
{
	int64_t found = -1;

	for (size_t i = 0; i < pb->n_counters; i++) {
		if (strcmp(pb->counters[i]->name, name) != 0)
			continue;
		ck_assert_int_eq(found, -1); /* each name once */
		found = pb->counters[i]->value;
	}
	return found;
}

START_TEST(stat_has_every_counter_once)
{
	Wq__V1__Stat st;
	Wq__V1__Reply *pb;

	greet(&a);
	send_update(&a, 2, "k", ASYNC);
	wq__v1__stat__init(&st);
	send_request(&a, 3, WQ__V1__REQUEST__OP_STAT, &st);
	ck_assert_int_eq(input(&a), 0);
	expect(&a, 2, ST_CREATED);
	pb = next_reply(&a);
	ck_assert_int_eq(counter(pb, "coalesced"), 5);
	ck_assert_int_eq(counter(pb, "replies_CREATED"), 1);
	ck_assert_int_eq(counter(pb, "replies_OK"), 1);
	ck_assert_int_eq(counter(pb, "replies_EXISTS"), 0);
	ck_assert_int_eq(counter(pb, "requests"), 3);
	ck_assert_int_eq(counter(pb, "connections"), 2);
	ck_assert_int_eq(counter(pb, "lateness_p99_us"), 0);
	ck_assert_int_eq(counter(pb, "commits"), 12);
	for (size_t i = 0; i < pb->n_counters; i++)
		ck_assert_int_ne(counter(pb, pb->counters[i]->name), -1);
	drop(pb);
}
END_TEST

/* ---- the daemon ---- */

static void
command(struct client *c, enum status reload_status, enum status shutdown_status)
{
	Wq__V1__Reload r;
	Wq__V1__Shutdown s;

	greet(c);
	wq__v1__reload__init(&r);
	send_request(c, 2, WQ__V1__REQUEST__OP_RELOAD, &r);
	wq__v1__shutdown__init(&s);
	s.drain = 1;
	send_request(c, 3, WQ__V1__REQUEST__OP_SHUTDOWN, &s);
	ck_assert_int_eq(input(c), 0);
	expect(c, 2, reload_status);
	expect(c, 3, shutdown_status);
}

START_TEST(only_root_and_the_daemons_user_command_it)
{
	const struct peer other = { .unix_socket = true, .uid = geteuid() + 1 };
	const struct peer tcp = { .unix_socket = false, .uid = 0 };
	struct client c;

	connect_as(&c, &other);
	command(&c, ST_UNAUTHORIZED, ST_UNAUTHORIZED);
	hang_up(&c);
	connect_as(&c, &tcp);
	command(&c, ST_UNAUTHORIZED, ST_UNAUTHORIZED);
	hang_up(&c);
	ck_assert_int_eq(n_reloads + n_shutdowns, 0);
	command(&a, ST_OK, ST_OK);
	ck_assert(shutdown_drain);
	command(&b, ST_INVALID, ST_OK); /* its second reload fails, with a reason */
	ck_assert_int_eq(n_shutdowns, 2);
}
END_TEST

START_TEST(who_is_turned_away_gets_a_whole_reply)
{
	struct str busy = service_busy_reply(svc);
	struct buf *out = session_output(a.s);

	ck_assert_int_eq(buf_put(out, busy.p, busy.n), 0);
	expect(&a, 0, ST_REFUSED_LIMIT);
	expect_silence(&a);
}
END_TEST

/* ---- memory ---- */

/* Whichever allocation fails: an error reply or a closed session, no crash, no leak. */
START_TEST(no_memory_is_survived_at_every_allocation)
{
	for (int i = 0; i < 40; i++) {
		struct client c;

		connect_as(&c, &owner);
		send_hello(&c, 1);
		send_update(&c, 2, "k", SYNC);
		send_wait(&c, 3, "wait");
		fill_batch(3);
		batch_items[1].durability = SYNC;
		send_batch(&c, 4, 3);
		send_list(&c, 5, 0);
		alloc_fault_set(i, 0);
		input(&c);
		alloc_fault_set(-1, 0);
		service_committed(svc, engine.mark);
		hang_up(&c);
	}
}
END_TEST

START_TEST(no_memory_for_a_service_or_a_session)
{
	const struct service_config cfg = { .engine = &engine, .frame_max = 65536 };
	struct service *s2 = NULL;
	struct session *s = NULL;
	int err = -ENOMEM;

	for (int i = 0; err; i++) {
		ck_assert_int_lt(i, 20);
		alloc_fault_set(i, 0);
		err = service_new(&cfg, &s2);
	}
	alloc_fault_set(0, 0);
	ck_assert_int_eq(session_new(s2, &owner, now, &s), -ENOMEM);
	service_free(s2);
	alloc_fault_set(-1, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("session");
	TCase *tc = unit_case(s, "session");

	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, hello_tells_who_is_there_and_what_is_taken);
	tcase_add_test(tc, nothing_comes_before_hello);
	tcase_add_test(tc, a_bad_hello_is_told_and_closed);
	tcase_add_test(tc, a_malformed_message_closes_after_the_good_ones_before_it);
	tcase_add_test(tc, PRO_01_an_oversized_length_is_refused_before_its_bytes);
	tcase_add_test(tc, what_is_unknown_or_bad_keeps_its_id_and_the_connection);
	tcase_add_test(tc, a_swarm_of_empty_updates_is_refused);
	tcase_add_test(tc, PRO_07_odd_names_are_invalid_in_every_look);
	tcase_add_test(tc, hello_has_a_time_limit_that_half_a_hello_does_not_move);
	tcase_add_test(tc, a_begun_message_has_a_time_limit_from_its_first_byte);
	tcase_add_test(tc, the_next_begun_message_has_a_limit_of_its_own);
	tcase_add_test(tc, a_read_is_applied_and_answered_in_order);
	tcase_add_test(tc, waiting_requests_hold_nobody_up_and_find_their_client);
	tcase_add_test(tc, runs_start_and_stop_by_effects);
	tcase_add_test(tc, a_made_key_is_told_a_given_one_is_not);
	tcase_add_test(tc, a_gone_client_abandons_what_it_waited_for);
	tcase_add_test(tc, too_much_in_flight_stops_the_reading);
	tcase_add_test(tc, PRO_03_a_peer_that_never_reads_costs_a_bounded_amount);
	tcase_add_test(tc, requests_that_look_at_much_are_spread_over_turns);
	tcase_add_test(tc, outputs_of_runs_are_left_out_while_the_peer_does_not_read);
	tcase_add_test(tc, a_peer_that_reads_gets_an_output_of_any_size);

	tc = unit_case(s, "early");
	tcase_add_checked_fixture(tc, up_early, down);
	tcase_add_test(tc, what_is_answered_leaves_while_more_is_done);
	tcase_add_test(tc, a_batch_counts_by_its_updates);

	tc = unit_case(s, "durable");
	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, durable_replies_wait_for_the_commit_that_covers_them);
	tcase_add_test(tc, a_failed_commit_is_told_to_all_who_wait);
	tcase_add_test(tc, nobody_waits_for_a_failing_store);
	tcase_add_test(tc, held_replies_of_a_gone_client_fall_away);
	tcase_add_test(tc, held_replies_count_as_in_flight_and_as_unsent);
	tcase_add_test(tc, a_batch_answers_each_in_its_place);
	tcase_add_test(tc, a_batch_waits_for_its_last_durable_update);
	tcase_add_test(tc, a_failed_commit_spoils_only_the_durable_updates_of_a_batch);
	tcase_add_test(tc, a_failing_store_refuses_what_it_would_have_to_keep);
	tcase_add_test(tc, a_stopping_daemon_takes_only_what_its_runs_ask);

	tc = unit_case(s, "looks");
	tcase_add_checked_fixture(tc, up, down);
	tcase_add_test(tc, lists_go_on_by_their_cursor);
	tcase_add_test(tc, a_page_holds_its_jobs_whatever_their_runs_have_said);
	tcase_add_test(tc, history_goes_on_by_its_cursor_in_pages_that_fit);
	tcase_add_test(tc, get_show_and_their_not_found);
	tcase_add_test(tc, more_queues_than_a_reply_holds_come_in_pages);
	tcase_add_test(tc, stat_has_every_counter_once);
	tcase_add_test(tc, only_root_and_the_daemons_user_command_it);
	tcase_add_test(tc, who_is_turned_away_gets_a_whole_reply);
	tcase_add_test(tc, no_memory_is_survived_at_every_allocation);
	tcase_add_test(tc, no_memory_for_a_service_or_a_session);
	return unit_run(s);
}
