/*
 * The library's hand-written codec against protobuf-c: requests to the byte,
 * replies random, damaged and whole.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz/client_hot_check.h"
#include "unit/random.h"
#include "unit/unit.h"

#define MESSAGES    40000
#define MESSAGE_MAX 4096
#define RESULTS_MAX 12

static struct rnd rnd = { 11 };

static bool
one_in(uint64_t n)
{
	return rnd_below(&rnd, n) == 0;
}

/* Of any length on the wire, now and then negative. */
static int64_t
number(void)
{
	if (one_in(3))
		return 0;
	return one_in(12) ? -(int64_t)rnd_below(&rnd, 300)
			  : (int64_t)(rnd_next(&rnd) >> rnd_below(&rnd, 64));
}

static struct hot_text
some_text(size_t most)
{
	static const char all[600] = "0123456789abcdef";
	size_t n = one_in(10) ? rnd_below(&rnd, most + 1) : rnd_below(&rnd, 20);

	return hot_text(all, n);
}

static ProtobufCBinaryData
bin(struct hot_text s)
{
	return (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)s.p, .len = s.n };
}

/* Terminated, in a buffer of the caller's. */
static char *
name(struct hot_text s, char buf[160])
{
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	for (size_t i = 0; i < s.n; i++)
		if (buf[i] == '\0')
			buf[i] = 'x';
	return buf;
}

/* ---- requests ---- */

static const char *const words[] = { "echo", "", "a b", NULL };

static wq_update_opts_t
some_opts(void)
{
	wq_update_opts_t o = WQ_UPDATE_INIT;
	struct hot_text payload = some_text(600);

	o.mode = (wq_mode_t)(one_in(10) ? number() : (int64_t)rnd_below(&rnd, 4));
	o.at_ms = one_in(2) ? -1 : number();
	o.if_pending = one_in(3) ? 5 : 0;
	o.slack_ms = one_in(2) ? -1 : number();
	o.max_wait_ms = one_in(2) ? -1 : number();
	o.align_ms = number();
	o.align_exact = one_in(3);
	o.payload_mode = (wq_payload_t)rnd_below(&rnd, 3);
	o.payload = payload.p;
	o.payload_len = payload.n;
	o.durability = (wq_durability_t)rnd_below(&rnd, 4);
	o.command = words;
	o.n_command = one_in(4) ? rnd_below(&rnd, 4) : 0;
	return o;
}

static void
fill_pb(Wq__V1__Update *pb, const struct hot_update *u, const char *queue)
{
	static ProtobufCBinaryData command[3];
	const wq_update_opts_t *o = u->o;

	wq__v1__update__init(pb);
	for (size_t i = 0; i < 3; i++)
		command[i] = bin(hot_text(words[i], strlen(words[i])));
	pb->command = command;
	pb->n_command = o->n_command;
	pb->key = bin(u->key);
	pb->queue = (char *)(uintptr_t)queue;
	pb->mode = (Wq__V1__UpdateMode)o->mode;
	pb->if_pending = o->if_pending != 0;
	pb->when_case = o->at_ms == -1 ? WQ__V1__UPDATE__WHEN_DELAY_MS : WQ__V1__UPDATE__WHEN_AT_MS;
	pb->delay_ms = o->at_ms == -1 ? u->delay_ms : o->at_ms;
	pb->has_slack_ms_case = o->slack_ms == -1 ? 0 : WQ__V1__UPDATE__HAS_SLACK_MS_SLACK_MS;
	pb->slack_ms = o->slack_ms;
	pb->has_max_wait_ms_case =
		o->max_wait_ms == -1 ? 0 : WQ__V1__UPDATE__HAS_MAX_WAIT_MS_MAX_WAIT_MS;
	pb->max_wait_ms = o->max_wait_ms;
	pb->align_ms = o->align_ms;
	pb->align_exact = o->align_exact != 0;
	pb->payload_mode = (Wq__V1__PayloadMode)o->payload_mode;
	pb->payload = bin(hot_text(o->payload, o->payload_len));
	pb->durability = (Wq__V1__Durability)o->durability;
	pb->idempotency_id = bin(u->idem);
}

/* The frame that protobuf-c would make, against the one that was made by hand around `op`. */
static void
same_frame(Wq__V1__Request *req, unsigned field, uint8_t *op, size_t op_len)
{
	static uint8_t want[MESSAGE_MAX];
	size_t n = wq__v1__request__get_packed_size(req), head = 1, msg_len;
	const uint8_t *got;

	ck_assert_uint_le(n + 5, sizeof want);
	want[0] = (uint8_t)n;
	if (n >= 0x80) {
		want[0] |= 0x80;
		want[1] = (uint8_t)(n >> 7);
		head = 2;
	}
	wq__v1__request__pack(req, want + head);
	got = hot_put_head(op, field, op_len, req->id, req->run_token, &msg_len);
	unit_check(msg_len == n);
	unit_check((size_t)(op + op_len - got) == head + n);
	unit_check(memcmp(got, want, head + n) == 0);
}

START_TEST(updates_are_written_as_protobuf_c_would)
{
	uint8_t block[HOT_HEAD_MAX + MESSAGE_MAX], *op = block + HOT_HEAD_MAX;

	for (int i = 0; i < MESSAGES; i++) {
		wq_update_opts_t o = some_opts();
		char queue[160];
		struct hot_update u = { some_text(255), some_text(128), some_text(64), number(),
			&o };
		Wq__V1__Request req = { 0 };
		Wq__V1__Update pb;
		size_t n;

		name(u.queue, queue);
		u.queue.p = queue;
		fill_pb(&pb, &u, queue);
		wq__v1__request__init(&req);
		req.id = rnd_next(&rnd) >> rnd_below(&rnd, 64);
		req.run_token = one_in(2) ? 0 : rnd_next(&rnd);
		req.op_case = WQ__V1__REQUEST__OP_UPDATE;
		req.update = &pb;
		unit_check(hot_update_room(&u) <= MESSAGE_MAX);
		n = hot_put_update(op, &u);
		unit_check(n + 8 <= hot_update_room(&u));
		same_frame(&req, HOT_OP_UPDATE, op, n);
	}
}
END_TEST

START_TEST(batches_are_written_as_protobuf_c_would)
{
	uint8_t block[HOT_HEAD_MAX + MESSAGE_MAX], *op = block + HOT_HEAD_MAX;

	for (int i = 0; i < MESSAGES / 4; i++) {
		size_t n = rnd_below(&rnd, 4), len = 0;
		Wq__V1__Update pb[4], *v[4];
		Wq__V1__UpdateBatch ub;
		Wq__V1__Request req;
		char queue[4][160];

		wq__v1__request__init(&req);
		wq__v1__update_batch__init(&ub);
		for (size_t k = 0; k < n; k++) {
			wq_update_opts_t o = some_opts();
			struct hot_update u = { some_text(255), some_text(128), some_text(64),
				number(), &o };

			name(u.queue, queue[k]);
			u.queue.p = queue[k];
			fill_pb(&pb[k], &u, queue[k]);
			v[k] = &pb[k];
			unit_check(len + hot_item_room(&u) <= MESSAGE_MAX);
			len += hot_put_item(op + len, &u);
		}
		ub.n_updates = n;
		ub.updates = v;
		req.id = 300;
		req.op_case = WQ__V1__REQUEST__OP_UPDATE_BATCH;
		req.update_batch = &ub;
		same_frame(&req, HOT_OP_UPDATE_BATCH, op, len);
	}
}
END_TEST

START_TEST(cancels_are_written_as_protobuf_c_would)
{
	uint8_t block[HOT_HEAD_MAX + MESSAGE_MAX], *op = block + HOT_HEAD_MAX;

	for (int i = 0; i < MESSAGES / 4; i++) {
		struct hot_cancel c = { some_text(255), some_text(128), some_text(64),
			(wq_cancel_mode_t)rnd_below(&rnd, 3), one_in(2) ? -1 : number(),
			(wq_durability_t)rnd_below(&rnd, 4) };
		Wq__V1__Cancel pb;
		Wq__V1__Request req;
		char queue[160];

		name(c.queue, queue);
		c.queue.p = queue;
		wq__v1__cancel__init(&pb);
		wq__v1__request__init(&req);
		pb.key = bin(c.key);
		pb.queue = queue;
		pb.mode = (Wq__V1__CancelMode)c.mode;
		pb.has_timeout_ms_case =
			c.timeout_ms == -1 ? 0 : WQ__V1__CANCEL__HAS_TIMEOUT_MS_TIMEOUT_MS;
		pb.timeout_ms = c.timeout_ms;
		pb.durability = (Wq__V1__Durability)c.durability;
		pb.idempotency_id = bin(c.idem);
		req.id = 1;
		req.op_case = WQ__V1__REQUEST__OP_CANCEL;
		req.cancel = &pb;
		unit_check(hot_cancel_room(&c) <= MESSAGE_MAX);
		same_frame(&req, HOT_OP_CANCEL, op, hot_put_cancel(op, &c));
	}
}
END_TEST

/* ---- replies ---- */

static Wq__V1__Result
some_result(void)
{
	Wq__V1__Result r;

	wq__v1__result__init(&r);
	r.status = (Wq__V1__Status)rnd_below(&rnd, one_in(8) ? 80 : 11);
	r.state_before = (Wq__V1__JobState)rnd_below(&rnd, one_in(8) ? 9 : 5);
	r.has_deadline_ms_case = one_in(3) ? 0 : WQ__V1__RESULT__HAS_DEADLINE_MS_DEADLINE_MS;
	r.deadline_ms = number();
	r.has_old_deadline_ms_case =
		one_in(3) ? 0 : WQ__V1__RESULT__HAS_OLD_DEADLINE_MS_OLD_DEADLINE_MS;
	r.old_deadline_ms = number();
	r.generation = (uint64_t)number();
	r.coalesced = (uint32_t)number();
	if (one_in(20))
		r.key = bin(some_text(20));
	return r;
}

static size_t
some_reply(uint8_t msg[MESSAGE_MAX])
{
	static char why[] = "why";
	Wq__V1__Reply r;
	Wq__V1__Result all[RESULTS_MAX], *v[RESULTS_MAX];
	Wq__V1__Run run;
	Wq__V1__Result numbers = some_result();

	wq__v1__reply__init(&r);
	wq__v1__run__init(&run);
	for (size_t i = 0; i < RESULTS_MAX; i++) {
		all[i] = some_result();
		v[i] = &all[i];
	}
	r.id = (uint64_t)number();
	r.status = numbers.status;
	r.state_before = numbers.state_before;
	r.has_deadline_ms_case =
		numbers.has_deadline_ms_case ? WQ__V1__REPLY__HAS_DEADLINE_MS_DEADLINE_MS : 0;
	r.deadline_ms = numbers.deadline_ms;
	r.generation = numbers.generation;
	r.coalesced = numbers.coalesced;
	r.disable_depth = one_in(4) ? (uint32_t)number() : 0;
	r.pending_before = one_in(2);
	r.results = v;
	r.n_results = one_in(2) ? rnd_below(&rnd, RESULTS_MAX) : 0;
	r.message = one_in(12) ? why : r.message;
	r.run = one_in(12) ? &run : NULL;
	r.more = one_in(20);
	return wq__v1__reply__pack(&r, msg);
}

static size_t
damage(uint8_t msg[MESSAGE_MAX], size_t n)
{
	for (uint64_t times = 1 + rnd_below(&rnd, 3); times > 0 && n > 0; times--) {
		if (one_in(3))
			n = rnd_below(&rnd, n);
		else
			msg[rnd_below(&rnd, n)] = (uint8_t)rnd_next(&rnd);
	}
	return n;
}

START_TEST(replies_are_read_as_protobuf_c_would)
{
	uint8_t msg[MESSAGE_MAX];
	int taken = 0, left = 0;

	for (int i = 0; i < MESSAGES; i++) {
		size_t n = some_reply(msg);

		if (check_client_reply(msg, n) == 2)
			taken++;
		else
			left++;
		check_client_reply(msg, damage(msg, n));
	}
	/* Both happen, or this shows nothing. */
	ck_assert_int_gt(taken, MESSAGES / 10);
	ck_assert_int_gt(left, MESSAGES / 10);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("libwq_hot");
	TCase *tc = unit_case(s, "hot");

	tcase_add_test(tc, updates_are_written_as_protobuf_c_would);
	tcase_add_test(tc, batches_are_written_as_protobuf_c_would);
	tcase_add_test(tc, cancels_are_written_as_protobuf_c_would);
	tcase_add_test(tc, replies_are_read_as_protobuf_c_would);
	return unit_run(s);
}
