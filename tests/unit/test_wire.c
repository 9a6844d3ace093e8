/*
 * wire: requests as protobuf-c's own encoder writes them, replies as its decoder
 * reads them; what protobuf-c alone would let through.
 */
#include <errno.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "base/assert.h"
#include "base/err.h"
#include "unit/unit.h"
#include "wire/arena.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define ARENA_MAX (1u << 20)

static struct arena *arena;
static struct request req;
static const char *why;

static void
arena_up(void)
{
	ck_assert_int_eq(arena_new(ARENA_MAX, &arena), 0);
}

static void
arena_down(void)
{
	arena_free(arena);
}

/* Packs and decodes; the message as bytes stays in `packed`. */
static uint8_t packed[200000];
static const char filler[100];

static int
decode(const Wq__V1__Request *pb)
{
	size_t n = wq__v1__request__get_packed_size(pb);

	ck_assert_uint_le(n, sizeof packed);
	wq__v1__request__pack(pb, packed);
	return wire_decode(arena, packed, n, &req, &why);
}

static ProtobufCBinaryData
bin(const char *s, size_t n)
{
	return (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)s, .len = n };
}

#define BIN(lit) bin(lit, sizeof(lit) - 1)
#define ck_str(s, lit) \
	do { \
		ck_assert_uint_eq((s).n, sizeof(lit) - 1); \
		ck_assert_mem_eq((s).p, lit, (s).n); \
	} while (0)

static char queue_hb[] = "hb";

static Wq__V1__Request
request(Wq__V1__Request__OpCase op, void *body)
{
	Wq__V1__Request pb;

	wq__v1__request__init(&pb);
	pb.id = 7;
	pb.op_case = op;
	pb.hello = body;
	return pb;
}

static Wq__V1__Update
full_update(void)
{
	Wq__V1__Update u;

	wq__v1__update__init(&u);
	u.key = BIN("host-17");
	u.queue = queue_hb;
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = 30000;
	u.mode = WQ__V1__UPDATE_MODE__UPDATE_MODE_LATER;
	u.if_pending = 1;
	u.has_slack_ms_case = WQ__V1__UPDATE__HAS_SLACK_MS_SLACK_MS;
	u.slack_ms = 0;
	u.has_max_wait_ms_case = WQ__V1__UPDATE__HAS_MAX_WAIT_MS_MAX_WAIT_MS;
	u.max_wait_ms = 60000;
	u.align_ms = 1000;
	u.align_exact = 1;
	u.payload_mode = WQ__V1__PAYLOAD_MODE__PAYLOAD_MODE_APPEND;
	u.payload = BIN("p\0q");
	u.durability = WQ__V1__DURABILITY__DURABILITY_SYNC;
	u.idempotency_id = BIN("id-1");
	return u;
}

START_TEST(update_comes_through_whole)
{
	Wq__V1__Update u = full_update();
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE, &u);

	pb.run_token = 99;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_null(why);
	ck_assert_int_eq(req.kind, REQ_UPDATE);
	ck_assert_uint_eq(req.id, 7);
	ck_assert_uint_eq(req.run_token, 99);
	ck_str(req.update.job.key, "host-17");
	ck_str(req.update.job.queue, "hb");
	ck_assert(!req.update.absolute);
	ck_assert_int_eq(req.update.when_ns, 30 * NS_PER_S);
	ck_assert_int_eq(req.update.mode, MODE_LATER);
	ck_assert(req.update.if_pending);
	ck_assert_int_eq(req.update.slack_ns, 0);
	ck_assert_int_eq(req.update.max_wait_ns, 60 * NS_PER_S);
	ck_assert_int_eq(req.update.align_ns, NS_PER_S);
	ck_assert(req.update.align_exact);
	ck_assert_int_eq(req.update.payload_mode, PAYLOAD_APPEND);
	ck_str(req.update.payload, "p\0q");
	ck_assert_int_eq(req.update.level, LEVEL_SYNC);
	ck_str(req.update.idem, "id-1");
}
END_TEST

START_TEST(absent_is_not_zero)
{
	Wq__V1__Update u;
	Wq__V1__Wait w;
	Wq__V1__List l;
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE, &u);

	wq__v1__update__init(&u);
	u.when_case = WQ__V1__UPDATE__WHEN_AT_MS;
	u.at_ms = 1700000000000;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_null(why);
	ck_assert(req.update.absolute);
	ck_assert_int_eq(req.update.when_ns, 1700000000 * NS_PER_S);
	ck_assert_int_eq(req.update.slack_ns, -1);
	ck_assert_int_eq(req.update.max_wait_ns, -1);
	ck_assert_uint_eq(req.update.job.key.n, 0);
	ck_assert_uint_eq(req.update.job.queue.n, 0);

	wq__v1__wait__init(&w);
	pb = request(WQ__V1__REQUEST__OP_WAIT, &w);
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_int_eq(req.wait.timeout_ns, -1);
	w.has_timeout_ms_case = WQ__V1__WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_int_eq(req.wait.timeout_ns, 0);

	wq__v1__list__init(&l);
	pb = request(WQ__V1__REQUEST__OP_LIST, &l);
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert(!req.list.has_state);
	ck_assert_int_eq(req.list.due_to_ns, INT64_MAX);
	ck_assert_uint_eq(req.list.limit, PAGE_DEFAULT);
}
END_TEST

/* protobuf-c gives `a\0b` out as "a": the arena knows better. */
START_TEST(PRO_07_text_with_nul_is_not_cut)
{
	/* Request { id: 7, update { queue: "a\0b", delay_ms: 0 } } */
	static const uint8_t m[] = { 0x08, 7, 0x62, 7, 0x12, 3, 'a', 0, 'b', 0x18, 0 };
	/* hello { version: 1, client: "x\0", namespace: "\0" } */
	static const uint8_t h[] = { 0x52, 9, 0x08, 1, 0x12, 2, 'x', 0, 0x22, 1, 0 };
	/* queue_create { queue: "q", settings { name: "a\0", value: "b\0c" } } */
	static const uint8_t s[] = { 0xca, 0x01, 14, 0x0a, 1, 'q', 0x12, 9, 0x0a, 2, 'a', 0, 0x12,
		3, 'b', 0, 'c' };

	ck_assert_int_eq(wire_decode(arena, m, sizeof m, &req, &why), 0);
	ck_assert_int_eq(req.kind, REQ_UPDATE);
	ck_str(req.update.job.queue, "a\0b");
	ck_assert_int_eq(wire_decode(arena, h, sizeof h, &req, &why), 0);
	ck_str(req.hello.client, "x\0");
	ck_str(req.hello.namespace_, "\0");
	ck_assert_int_eq(wire_decode(arena, s, sizeof s, &req, &why), 0);
	ck_assert_int_eq(req.kind, REQ_QUEUE_CREATE);
	ck_assert_uint_eq(req.queue_set.n_settings, 1);
	ck_str(req.queue_set.settings[0].name, "a\0");
	ck_str(req.queue_set.settings[0].value, "b\0c");
}
END_TEST

/* The last of several counts, and an empty one after a full one is empty. */
START_TEST(a_repeated_field_counts_as_its_last)
{
	static const uint8_t m[] = { 0x08, 7, 0x62, 11, 0x12, 3, 'a', 0, 'b', 0x12, 0, 0x18, 0,
		0x18, 1 };

	ck_assert_int_eq(wire_decode(arena, m, sizeof m, &req, &why), 0);
	ck_assert_uint_eq(req.update.job.queue.n, 0);
	ck_assert_int_eq(req.update.when_ns, NS_PER_MS);
}
END_TEST

START_TEST(every_operation_has_its_kind)
{
	static const struct {
		uint8_t field;
		enum request_kind kind;
	} ops[] = { { 10, REQ_HELLO }, { 11, REQ_PING }, { 12, REQ_UPDATE },
		{ 13, REQ_UPDATE_BATCH }, { 14, REQ_CANCEL }, { 15, REQ_FLUSH },
		{ 16, REQ_FLUSH_QUEUE }, { 17, REQ_WAIT }, { 18, REQ_GET }, { 19, REQ_LIST },
		{ 20, REQ_HISTORY }, { 21, REQ_DELETE }, { 22, REQ_DISABLE }, { 23, REQ_ENABLE },
		{ 24, REQ_KICK }, { 25, REQ_QUEUE_CREATE }, { 26, REQ_QUEUE_SET },
		{ 27, REQ_QUEUE_SHOW }, { 28, REQ_QUEUE_LIST }, { 29, REQ_QUEUE_DELETE },
		{ 30, REQ_PAUSE }, { 31, REQ_RESUME }, { 32, REQ_DRAIN }, { 33, REQ_STAT },
		{ 34, REQ_RELOAD }, { 35, REQ_SHUTDOWN }, { 36, REQ_COMPLETION_WAIT },
		{ 37, REQ_COMPLETE }, { 38, REQ_COMPLETE_ALL }, { 39, REQ_COMPLETION_REINIT },
		{ 40, REQ_COMPLETION_SHOW }, { 41, REQ_WATCH }, { 50, REQ_SUBSCRIBE },
		{ 51, REQ_CREDITS }, { 52, REQ_UNSUBSCRIBE }, { 53, REQ_TOUCH }, { 54, REQ_FINISH },
		{ 55, REQ_FAIL }, { 56, REQ_RELEASE }, { 60, REQ_BACKUP }, { 61, REQ_CHECK },
		{ 62, REQ_EXPORT }, { 63, REQ_IMPORT_JOB }, { 64, REQ_UPGRADE },
		{ 99, REQ_UNKNOWN }, { 200, REQ_UNKNOWN } };

	ck_assert_uint_eq(ARRAY_SIZE(ops), REQ_KIND_COUNT + 1);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		uint8_t m[8] = { 0x08, 7 };
		size_t n = 2 + frame_put_len(m + 2, (uint32_t)ops[i].field << 3 | 2);

		m[n++] = 0;
		ck_assert_int_eq(wire_decode(arena, m, n, &req, &why), 0);
		ck_assert_int_eq(req.kind, ops[i].kind);
		ck_assert_uint_eq(req.id, 7);
	}
}
END_TEST

START_TEST(no_operation_is_invalid_an_unknown_field_is_not)
{
	static const uint8_t none[] = { 0x08, 7 };
	static const uint8_t extra[] = { 0x08, 7, 0x18, 5, 0x5a, 0 }; /* field 3, then ping */

	ck_assert_int_eq(wire_decode(arena, none, sizeof none, &req, &why), 0);
	ck_assert_uint_eq(req.id, 7);
	ck_assert_ptr_nonnull(why);
	ck_assert_int_eq(wire_decode(arena, extra, sizeof extra, &req, &why), 0);
	ck_assert_ptr_null(why);
	ck_assert_int_eq(req.kind, REQ_PING);
}
END_TEST

START_TEST(garbage_is_malformed)
{
	static const struct {
		uint8_t m[8];
		size_t n;
	} bad[] = {
		{ { 0x08 }, 1 },                   /* a tag without its value */
		{ { 0x0b }, 1 },                   /* a group */
		{ { 0x00 }, 1 },                   /* field 0 */
		{ { 0x62, 5, 0x12, 1 }, 4 },       /* a submessage cut short */
		{ { 0x62, 2, 0x12, 9 }, 4 },       /* a field longer than its message */
		{ { 0x60, 1 }, 2 },                /* a number where a message belongs */
		{ { 0xff, 0xff, 0xff, 0xff }, 4 }, /* an endless tag */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(wire_decode(arena, bad[i].m, bad[i].n, &req, &why), ERR_MALFORMED);
}
END_TEST

START_TEST(every_truncation_is_an_error_or_a_request)
{
	Wq__V1__Update u = full_update();
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE, &u);
	size_t n = wq__v1__request__get_packed_size(&pb);

	wq__v1__request__pack(&pb, packed);
	for (size_t i = 0; i < n; i++) {
		uint8_t *cut = x_alloc(i); /* exact, so that a read past it is seen */
		int err;

		memcpy(cut, packed, i);
		err = wire_decode(arena, cut, i, &req, &why);
		ck_assert(err == 0 || err == ERR_MALFORMED);
		ck_assert(err != 0 || why != NULL);
		x_free(cut);
	}
}
END_TEST

/* Values of no meaning: well-formed, INVALID with the request's id. */
static void
bad_update(void (*spoil)(Wq__V1__Update *), const char *message)
{
	Wq__V1__Update u = full_update();
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE, &u);

	spoil(&u);
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_uint_eq(req.id, 7);
	ck_assert_str_eq(why, message);
}

#define SPOIL(name, stmt) \
	static void name(Wq__V1__Update *u) \
	{ \
		stmt; \
	}
SPOIL(no_time, u->when_case = WQ__V1__UPDATE__WHEN__NOT_SET)
SPOIL(negative_delay, u->delay_ms = -1)
SPOIL(endless_delay, u->delay_ms = INT64_MAX)
SPOIL(just_over, u->delay_ms = INT64_MAX / NS_PER_MS + 1)
SPOIL(negative_slack, u->slack_ms = -1)
SPOIL(lowest_wait, u->max_wait_ms = INT64_MIN)
SPOIL(negative_align, u->align_ms = -5)
SPOIL(odd_mode, u->mode = (Wq__V1__UpdateMode)4)
SPOIL(negative_mode, u->mode = (Wq__V1__UpdateMode)-1)
SPOIL(odd_payload, u->payload_mode = (Wq__V1__PayloadMode)3)
SPOIL(odd_level, u->durability = (Wq__V1__Durability)9)
SPOIL(long_id, u->idempotency_id = bin(filler, 65))

START_TEST(values_of_no_meaning_are_invalid)
{
	bad_update(no_time, "an update needs delay_ms or at_ms");
	bad_update(negative_delay, "a time is negative");
	bad_update(endless_delay, "a time is out of range");
	bad_update(just_over, "a time is out of range");
	bad_update(negative_slack, "a time is negative");
	bad_update(lowest_wait, "a time is negative");
	bad_update(negative_align, "a time is negative");
	bad_update(odd_mode, "unknown update mode");
	bad_update(negative_mode, "unknown update mode");
	bad_update(odd_payload, "unknown payload mode");
	bad_update(odd_level, "unknown durability");
	bad_update(long_id, "the idempotency id is over 64 bytes");
}
END_TEST

START_TEST(limits_of_looks_and_greetings)
{
	Wq__V1__List l;
	Wq__V1__Ping p;
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_LIST, &l);

	wq__v1__list__init(&l);
	l.limit = PAGE_MAX;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_null(why);
	l.limit = PAGE_MAX + 1;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_nonnull(why);
	l.limit = 1;
	l.has_state_case = WQ__V1__LIST__HAS_STATE_STATE;
	l.state = (Wq__V1__JobState)5;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_str_eq(why, "unknown job state");

	wq__v1__ping__init(&p);
	pb = request(WQ__V1__REQUEST__OP_PING, &p);
	p.echo = bin(filler, ECHO_MAX);
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_null(why);
	p.echo = bin(filler, ECHO_MAX + 1);
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_nonnull(why);
}
END_TEST

START_TEST(each_update_of_a_batch_has_its_own_fault)
{
	Wq__V1__Update u[3] = { full_update(), full_update(), full_update() };
	Wq__V1__Update *v[3] = { &u[0], &u[1], &u[2] };
	Wq__V1__UpdateBatch b;
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE_BATCH, &b);

	wq__v1__update_batch__init(&b);
	b.n_updates = 3;
	b.updates = v;
	u[1].delay_ms = -1;
	ck_assert_int_eq(decode(&pb), 0);
	ck_assert_ptr_null(why);
	ck_assert_uint_eq(req.batch.n, 3);
	ck_assert_ptr_null(req.batch.why[0]);
	ck_assert_str_eq(req.batch.why[1], "a time is negative");
	ck_assert_ptr_null(req.batch.why[2]);
	ck_str(req.batch.v[2].job.key, "host-17");
}
END_TEST

/* Two bytes of input make a struct of over a hundred: the arena holds that down. */
static size_t
empty_updates(uint8_t *dst, size_t n)
{
	size_t at = 0;

	dst[at++] = 0x6a;
	at += frame_put_len(dst + at, (uint32_t)(2 * n));
	for (size_t i = 0; i < n; i++) {
		dst[at++] = 0x0a;
		dst[at++] = 0;
	}
	return at;
}

START_TEST(a_swarm_of_empty_messages_is_bounded)
{
	static uint8_t m[200000];

	ck_assert_int_eq(wire_decode(arena, m, empty_updates(m, 90000), &req, &why), -ENOMEM);
	arena_reset(arena);
	ck_assert_int_eq(wire_decode(arena, m, empty_updates(m, BATCH_MAX - 3096), &req, &why), 0);
	ck_assert_ptr_null(why);
	ck_assert_uint_eq(req.batch.n, 1000);
	arena_free(arena);
	ck_assert_int_eq(arena_new(64u << 20, &arena), 0);
	ck_assert_int_eq(wire_decode(arena, m, empty_updates(m, BATCH_MAX), &req, &why), 0);
	ck_assert_ptr_null(why);
	ck_assert_uint_eq(req.batch.n, BATCH_MAX);
	ck_assert_int_eq(wire_decode(arena, m, empty_updates(m, BATCH_MAX + 1), &req, &why), 0);
	ck_assert_ptr_nonnull(why);
}
END_TEST

START_TEST(a_small_arena_fails_cleanly_at_every_size)
{
	Wq__V1__Update u[3] = { full_update(), full_update(), full_update() };
	Wq__V1__Update *v[3] = { &u[0], &u[1], &u[2] };
	Wq__V1__UpdateBatch b;
	Wq__V1__Request pb = request(WQ__V1__REQUEST__OP_UPDATE_BATCH, &b);
	int err = -ENOMEM;

	wq__v1__update_batch__init(&b);
	b.n_updates = 3;
	b.updates = v;
	for (size_t max = 8; err != 0; max += 8) {
		ck_assert_uint_lt(max, 65536);
		arena_free(arena);
		ck_assert_int_eq(arena_new(max, &arena), 0);
		err = decode(&pb);
		ck_assert(err == 0 || err == -ENOMEM);
	}
	ck_assert_uint_eq(req.batch.n, 3);
}
END_TEST

/* ---- replies ---- */

static struct buf out;

static void
out_up(void)
{
	arena_up();
	buf_init(&out, 16u << 20);
}

static void
out_down(void)
{
	buf_done(&out);
	arena_down();
}

/* The next reply of `out`, to be freed. */
static Wq__V1__Reply *
next_reply(void)
{
	const uint8_t *m;
	size_t n, need;
	long used = frame_next(buf_head(&out), buf_len(&out), WIRE_REPLY_MAX, &m, &n, &need);
	Wq__V1__Reply *pb;

	ck_assert_int_gt(used, 0);
	pb = wq__v1__reply__unpack(NULL, n, m);
	ck_assert_ptr_nonnull(pb);
	buf_consume(&out, (size_t)used);
	return pb;
}

static void
drop(Wq__V1__Reply *pb)
{
	wq__v1__reply__free_unpacked(pb, NULL);
}

static const struct run_record a_run = {
	.queue = { "hb", 2 },
	.key = { "k", 1 },
	.generation = 3,
	.attempt = 2,
	.outcome = RUN_FAILED,
	.exit_code = 0,
	.due_wall_ns = 5 * NS_PER_S + 999999,
	.started_wall_ns = 5 * NS_PER_S + NS_PER_MS,
	.ended_wall_ns = 6 * NS_PER_S,
	.coalesced = 99,
	.output = { "hi\0there", 8 },
};

/* What is encoded once for many is, byte for byte, what each would have got by itself. */
START_TEST(a_run_that_many_waited_for_is_encoded_once)
{
	struct job_reply r = { .status = ST_OK,
		.key = STR("k"),
		.state_before = JOB_RUNNING,
		.generation = 3,
		.run = &a_run };
	struct buf run, one;

	buf_init(&run, WIRE_REPLY_MAX);
	buf_init(&one, WIRE_REPLY_MAX);
	ck_assert_int_eq(wire_put_run(&run, &a_run), 0);
	for (uint64_t id = 1; id < 100000; id *= 7) {
		struct str bytes = { (const char *)buf_head(&run), buf_len(&run) };

		buf_consume(&one, buf_len(&one));
		buf_consume(&out, buf_len(&out));
		ck_assert_int_eq(wire_put_job_reply(&one, id, &r, false), 0);
		ck_assert_int_eq(wire_put_waited(&out, id, &r, bytes), 0);
		ck_assert_uint_eq(buf_len(&out), buf_len(&one));
		ck_assert_mem_eq(buf_head(&out), buf_head(&one), buf_len(&one));
	}
	buf_consume(&out, buf_len(&out));
	buf_done(&run);
	buf_done(&one);
}
END_TEST

START_TEST(job_reply_reads_back)
{
	struct job_reply r = { .status = ST_UPDATED_TIMER,
		.key = STR("made"),
		.state_before = JOB_ARMED,
		.pending_before = true,
		.has_deadline = true,
		.deadline_wall_ns = 1700000000 * NS_PER_S + 1,
		.generation = 4,
		.coalesced = 5,
		.disable_depth = 6,
		.run = &a_run };
	Wq__V1__Reply *pb;

	ck_assert_int_eq(wire_put_job_reply(&out, 42, &r, false), 0);
	r = (struct job_reply){ .status = ST_CREATED, .key = STR("made"), .message = "m" };
	ck_assert_int_eq(wire_put_job_reply(&out, 43, &r, true), 0);

	pb = next_reply();
	ck_assert_uint_eq(pb->id, 42);
	ck_assert_int_eq(pb->status, WQ__V1__STATUS__STATUS_UPDATED_TIMER);
	ck_assert_int_eq(pb->state_before, WQ__V1__JOB_STATE__JOB_STATE_ARMED);
	ck_assert(pb->pending_before);
	ck_assert(pb->has_deadline_ms_case);
	ck_assert_int_eq(pb->deadline_ms, 1700000000000);
	ck_assert(!pb->has_old_deadline_ms_case);
	ck_assert_uint_eq(pb->generation, 4);
	ck_assert_uint_eq(pb->coalesced, 5);
	ck_assert_uint_eq(pb->disable_depth, 6);
	ck_assert_uint_eq(pb->key.len, 0);
	ck_assert_str_eq(pb->message, "");
	ck_assert_str_eq(pb->run->queue, "hb");
	ck_assert(pb->run->has_exit_code_case);
	ck_assert_int_eq(pb->run->exit_code, 0);
	ck_assert_int_eq(pb->run->due_ms, 5000);
	ck_assert_int_eq(pb->run->started_ms, 5001);
	ck_assert_uint_eq(pb->run->coalesced, 99);
	ck_assert_mem_eq(pb->run->output.data, "hi\0there", 8);
	drop(pb);

	pb = next_reply();
	ck_assert_mem_eq(pb->key.data, "made", 4);
	ck_assert_str_eq(pb->message, "m");
	ck_assert_ptr_null(pb->run);
	drop(pb);
	ck_assert_uint_eq(buf_len(&out), 0);
}
END_TEST

START_TEST(hello_pong_and_errors_read_back)
{
	const struct hello_info h = { "wqd 1", "uuid", 1000, 20, 1234 };
	Wq__V1__Reply *pb;

	ck_assert_int_eq(wire_put_hello(&out, 1, &h), 0);
	ck_assert_int_eq(wire_put_pong(&out, 2, STR("e\0cho"), ""), 0);
	ck_assert_int_eq(wire_put_status(&out, 0, ST_REFUSED_LIMIT, "too long"), 0);
	pb = next_reply();
	ck_assert_uint_eq(pb->hello->version, 1);
	ck_assert_str_eq(pb->hello->server, "wqd 1");
	ck_assert_uint_eq(pb->hello->frame_max, 1000);
	ck_assert_int_eq(pb->hello->now_ms, 1234);
	drop(pb);
	pb = next_reply();
	ck_assert_uint_eq(pb->echo.len, 5);
	drop(pb);
	pb = next_reply();
	ck_assert_uint_eq(pb->id, 0);
	ck_assert_int_eq(pb->status, WQ__V1__STATUS__STATUS_REFUSED_LIMIT);
	drop(pb);
}
END_TEST

START_TEST(a_full_buffer_takes_nothing)
{
	buf_done(&out);
	buf_init(&out, 8);
	ck_assert_int_eq(wire_put_status(&out, 1, ST_INVALID, "quite long a text"), ERR_TOO_LONG);
	ck_assert_uint_eq(buf_len(&out), 0);
	ck_assert_int_eq(wire_put_status(&out, 1, ST_INVALID, NULL), 0);
	ck_assert_uint_eq(buf_len(&out), 5);
	ck_assert_int_eq(wire_put_status(&out, 1, ST_INVALID, NULL), ERR_TOO_LONG);
	ck_assert_uint_eq(buf_len(&out), 5);
	buf_done(&out);
	buf_init(&out, 100);
	alloc_fault_set(0, 0);
	ck_assert_int_eq(wire_put_status(&out, 1, ST_OK, NULL), -ENOMEM);
}
END_TEST

START_TEST(lists_read_back)
{
	struct queue_settings settings;
	struct job_view j = { .queue = STR("hb"),
		.key = STR("k"),
		.state = JOB_RUNNING,
		.pending = true,
		.pending_state = JOB_ARMED,
		.has_deadline = true,
		.deadline_wall_ns = 77 * NS_PER_MS,
		.level = LEVEL_ASYNC,
		.last = &a_run };
	struct queue_view q = {
		.name = STR("hb"), .settings = &settings, .armed = 4, .paused = true
	};
	const struct job_reply r = { .status = ST_INVALID, .key = STR("x"), .message = "no" };
	struct wire_list *l;
	Wq__V1__Reply *pb;

	queue_settings_default(&settings);
	ck_assert_int_eq(wire_list_new(WIRE_REPLY_MAX, &l), 0);
	wire_list_begin(l, 5, ST_OK);
	ck_assert_int_eq(wire_list_job(l, &j), 0);
	ck_assert_int_eq(wire_list_run(l, &a_run), 0);
	ck_assert_int_eq(wire_list_queue(l, &q), 0);
	ck_assert_int_eq(wire_list_counter(l, "runs_done", -3), 0);
	ck_assert_int_eq(wire_list_result(l, &r, true), 0);
	ck_assert_int_eq(wire_list_end(l, 1234567890123, &out), 0);
	wire_list_begin(l, 6, ST_NOT_FOUND);
	ck_assert_int_eq(wire_list_end(l, 0, &out), 0);
	wire_list_free(l);

	pb = next_reply();
	ck_assert_uint_eq(pb->id, 5);
	ck_assert_uint_eq(pb->cursor, 1234567890123);
	ck_assert_uint_eq(pb->n_jobs, 1);
	ck_assert_int_eq(pb->jobs[0]->deadline_ms, 77);
	ck_assert_int_eq(pb->jobs[0]->last->outcome, WQ__V1__RUN_OUTCOME__RUN_OUTCOME_FAILED);
	ck_assert_uint_eq(pb->n_runs, 1);
	ck_assert_uint_eq(pb->n_queues, 1);
	ck_assert_uint_eq(pb->queues[0]->n_settings, queue_setting_count);
	ck_assert_str_eq(pb->queues[0]->settings[0]->name, queue_setting_table[0].name);
	ck_assert_uint_eq(pb->queues[0]->armed, 4);
	ck_assert_int_eq(pb->counters[0]->value, -3);
	ck_assert_int_eq(pb->results[0]->status, WQ__V1__STATUS__STATUS_INVALID);
	ck_assert_str_eq(pb->results[0]->message, "no");
	drop(pb);
	pb = next_reply();
	ck_assert_int_eq(pb->status, WQ__V1__STATUS__STATUS_NOT_FOUND);
	ck_assert_uint_eq(pb->n_jobs, 0);
	drop(pb);
}
END_TEST

START_TEST(a_page_ends_before_its_maximum_and_its_first_always_fits)
{
	static char big[3000];
	struct run_record r = a_run;
	struct wire_list *l;
	Wq__V1__Reply *pb;

	ck_assert_int_eq(wire_list_new(2000, &l), 0);
	wire_list_begin(l, 1, ST_OK);
	r.output = (struct str){ big, sizeof big };
	ck_assert_int_eq(wire_list_run(l, &r), 0);
	ck_assert_int_eq(wire_list_run(l, &a_run), ERR_TOO_LONG);
	ck_assert_int_eq(wire_list_end(l, 0, &out), 0);
	wire_list_free(l);
	pb = next_reply();
	ck_assert_uint_eq(pb->n_runs, 1);
	ck_assert(pb->runs[0]->truncated);
	ck_assert_uint_gt(pb->runs[0]->output.len, 1800);
	drop(pb);
}
END_TEST

/* The numbers of words.h and of proto/wq.proto are the same, by name. */
static void
check_number(const ProtobufCEnumDescriptor *d, const char *prefix, int num, const char *word)
{
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(d, num);

	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(strncmp(v->name, prefix, strlen(prefix)), 0);
	ck_assert_int_eq(strcasecmp(v->name + strlen(prefix), word), 0);
}

START_TEST(words_and_proto_agree)
{
	unsigned n = 0;
#define X(name, num, word, ...) check_number(d, prefix, num, word), n++;
#define EACH(TABLE, descriptor, pre) \
	do { \
		const ProtobufCEnumDescriptor *d = &descriptor; \
		const char *prefix = pre; \
		n = 0; \
		TABLE(X) \
		ck_assert_uint_eq(n, d->n_values); \
	} while (0)
	EACH(STATUS_TABLE, wq__v1__status__descriptor, "STATUS_");
	EACH(JOB_STATE_TABLE, wq__v1__job_state__descriptor, "JOB_STATE_");
	EACH(RUN_OUTCOME_TABLE, wq__v1__run_outcome__descriptor, "RUN_OUTCOME_");
	EACH(UPDATE_MODE_TABLE, wq__v1__update_mode__descriptor, "UPDATE_MODE_");
	EACH(PAYLOAD_MODE_TABLE, wq__v1__payload_mode__descriptor, "PAYLOAD_MODE_");
	EACH(CANCEL_MODE_TABLE, wq__v1__cancel_mode__descriptor, "CANCEL_MODE_");
	EACH(TIMER_POLICY_TABLE, wq__v1__timer_policy__descriptor, "TIMER_POLICY_");
	EACH(DURABILITY_TABLE, wq__v1__durability__descriptor, "DURABILITY_");
#undef X
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("wire");
	TCase *tc = unit_case(s, "decode");

	tcase_add_checked_fixture(tc, arena_up, arena_down);
	tcase_add_test(tc, update_comes_through_whole);
	tcase_add_test(tc, absent_is_not_zero);
	tcase_add_test(tc, PRO_07_text_with_nul_is_not_cut);
	tcase_add_test(tc, a_repeated_field_counts_as_its_last);
	tcase_add_test(tc, every_operation_has_its_kind);
	tcase_add_test(tc, no_operation_is_invalid_an_unknown_field_is_not);
	tcase_add_test(tc, garbage_is_malformed);
	tcase_add_test(tc, every_truncation_is_an_error_or_a_request);
	tcase_add_test(tc, values_of_no_meaning_are_invalid);
	tcase_add_test(tc, limits_of_looks_and_greetings);
	tcase_add_test(tc, each_update_of_a_batch_has_its_own_fault);
	tcase_add_test(tc, a_swarm_of_empty_messages_is_bounded);
	tcase_add_test(tc, a_small_arena_fails_cleanly_at_every_size);

	tc = unit_case(s, "encode");
	tcase_add_checked_fixture(tc, out_up, out_down);
	tcase_add_test(tc, a_run_that_many_waited_for_is_encoded_once);
	tcase_add_test(tc, job_reply_reads_back);
	tcase_add_test(tc, hello_pong_and_errors_read_back);
	tcase_add_test(tc, a_full_buffer_takes_nothing);
	tcase_add_test(tc, lists_read_back);
	tcase_add_test(tc, a_page_ends_before_its_maximum_and_its_first_always_fits);
	tcase_add_test(tc, words_and_proto_agree);
	return unit_run(s);
}
