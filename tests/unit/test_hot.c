/*
 * The hand-written codec of the hot messages against protobuf-c: random
 * messages, sensible and not, whole and damaged.
 */
#include <string.h>

#include "fuzz/hot_check.h"
#include "unit/random.h"
#include "unit/unit.h"

#define ARENA_MAX   (4u << 20)
#define MESSAGES    60000
#define MESSAGE_MAX 4096
#define UPDATES_MAX 12

static struct rnd rnd = { 7 };
static struct arena *arena;

static void
set_up(void)
{
	ck_assert_int_eq(arena_new(ARENA_MAX, &arena), 0);
}

static void
tear_down(void)
{
	arena_free(arena);
}

/* ---- messages ---- */

static bool
one_in(uint64_t n)
{
	return rnd_below(&rnd, n) == 0;
}

/* Small mostly, and now and then anything. */
static int64_t
number(void)
{
	if (one_in(8))
		return (int64_t)(rnd_next(&rnd) >> rnd_below(&rnd, 64));
	return one_in(12) ? -(int64_t)rnd_below(&rnd, 3) : (int64_t)rnd_below(&rnd, 100000);
}

static ProtobufCBinaryData
some_bytes(void)
{
	static uint8_t all[300];
	size_t n = one_in(10) ? rnd_below(&rnd, sizeof all) : rnd_below(&rnd, 20);

	return (ProtobufCBinaryData){ .data = all, .len = n };
}

static char *
some_name(void)
{
	static char names[4][8] = { "", "hb", "mail", "\xc3\xa4" };

	return names[rnd_below(&rnd, 4)];
}

static Wq__V1__Update
some_update(void)
{
	Wq__V1__Update u;

	wq__v1__update__init(&u);
	u.key = some_bytes();
	u.queue = some_name();
	u.when_case = one_in(20) ? 0 : 3 + (int)rnd_below(&rnd, 2);
	u.delay_ms = number();
	u.mode = (Wq__V1__UpdateMode)rnd_below(&rnd, one_in(10) ? 7 : 4);
	u.if_pending = one_in(3);
	u.has_slack_ms_case = one_in(3) ? 7 : 0;
	u.slack_ms = number();
	u.has_max_wait_ms_case = one_in(3) ? 8 : 0;
	u.max_wait_ms = number();
	u.align_ms = one_in(3) ? number() : 0;
	u.align_exact = one_in(3);
	u.payload_mode = (Wq__V1__PayloadMode)rnd_below(&rnd, one_in(10) ? 7 : 3);
	u.payload = some_bytes();
	u.durability = (Wq__V1__Durability)rnd_below(&rnd, one_in(10) ? 7 : 4);
	u.idempotency_id = some_bytes();
	return u;
}

static Wq__V1__Cancel
some_cancel(void)
{
	Wq__V1__Cancel c;

	wq__v1__cancel__init(&c);
	c.key = some_bytes();
	c.queue = some_name();
	c.mode = (Wq__V1__CancelMode)rnd_below(&rnd, one_in(10) ? 7 : 3);
	c.has_timeout_ms_case = one_in(2) ? 4 : 0;
	c.timeout_ms = number();
	c.durability = (Wq__V1__Durability)rnd_below(&rnd, one_in(10) ? 7 : 4);
	c.idempotency_id = some_bytes();
	return c;
}

/* Packs a random request; 0: it would be too long. */
static size_t
some_request(uint8_t msg[MESSAGE_MAX])
{
	Wq__V1__Request req;
	Wq__V1__UpdateBatch batch;
	Wq__V1__Update u[UPDATES_MAX], *v[UPDATES_MAX];
	Wq__V1__Cancel c = some_cancel();

	wq__v1__request__init(&req);
	wq__v1__update_batch__init(&batch);
	for (size_t i = 0; i < UPDATES_MAX; i++) {
		u[i] = some_update();
		v[i] = &u[i];
	}
	batch.n_updates = rnd_below(&rnd, UPDATES_MAX);
	batch.updates = v;
	req.id = (uint64_t)number();
	req.run_token = one_in(4) ? rnd_next(&rnd) : 0;
	req.op_case = (Wq__V1__Request__OpCase)(12 + rnd_below(&rnd, 3));
	if (req.op_case == WQ__V1__REQUEST__OP_UPDATE)
		req.update = &u[0];
	else if (req.op_case == WQ__V1__REQUEST__OP_UPDATE_BATCH)
		req.update_batch = &batch;
	else
		req.cancel = &c;
	if (wq__v1__request__get_packed_size(&req) > MESSAGE_MAX - 8)
		return 0;
	return wq__v1__request__pack(&req, msg);
}

/* Bytes changed, inserted, taken out. */
static size_t
damage(uint8_t msg[MESSAGE_MAX], size_t n)
{
	for (uint64_t times = 1 + rnd_below(&rnd, 3); times > 0 && n > 0; times--) {
		size_t at = rnd_below(&rnd, n);

		switch (rnd_below(&rnd, 4)) {
		case 0:
			msg[at] = (uint8_t)rnd_next(&rnd);
			break;
		case 1:
			msg[at] ^= (uint8_t)(1u << rnd_below(&rnd, 8));
			break;
		case 2:
			memmove(msg + at, msg + at + 1, --n - at);
			break;
		default:
			if (n == MESSAGE_MAX)
				break;
			memmove(msg + at + 1, msg + at, n++ - at);
			break;
		}
	}
	return n;
}

/* ---- tests ---- */

static unsigned
run(bool damaged)
{
	static uint8_t msg[MESSAGE_MAX];
	unsigned taken = 0;

	for (int i = 0; i < MESSAGES; i++) {
		size_t n = some_request(msg);

		if (damaged)
			n = damage(msg, n);
		taken += check_hot_decode(arena, msg, n);
		arena_reset(arena);
	}
	return taken;
}

START_TEST(whole_messages_are_decoded_alike)
{
	ck_assert_uint_gt(run(false), MESSAGES / 8);
}
END_TEST

START_TEST(damaged_messages_are_decoded_alike)
{
	ck_assert_uint_gt(run(true), MESSAGES / 40);
}
END_TEST

/* What a usual client sends is not left to protobuf-c. */
START_TEST(the_usual_is_taken)
{
	/* id 1, update { key "k", queue "q", delay_ms 5 } */
	static const uint8_t update[] = { 8, 1, 98, 8, 10, 1, 'k', 18, 1, 'q', 24, 5 };
	static const uint8_t cancel[] = { 8, 1, 114, 3, 10, 1, 'k' };
	static const uint8_t batch[] = { 8, 1, 106, 14, 10, 5, 10, 1, 'k', 24, 5, 10, 5, 10, 1, 'l',
		24, 0 };

	ck_assert(check_hot_decode(arena, update, sizeof update));
	ck_assert(check_hot_decode(arena, cancel, sizeof cancel));
	ck_assert(check_hot_decode(arena, batch, sizeof batch));
	for (size_t n = 0; n < sizeof update; n++)
		ck_assert(!check_hot_decode(arena, update, n));
}
END_TEST

START_TEST(replies_are_encoded_alike)
{
	for (int i = 0; i < MESSAGES; i++) {
		const struct job_reply r = {
			.status = (enum status)rnd_below(&rnd, 74),
			.state_before = (enum job_state)rnd_below(&rnd, 5),
			.pending_before = one_in(2),
			.has_deadline = one_in(2),
			.has_old_deadline = one_in(2),
			.deadline_wall_ns = one_in(5) ? (int64_t)rnd_next(&rnd) : number(),
			.old_deadline_wall_ns = one_in(5) ? (int64_t)rnd_next(&rnd) : number(),
			.generation = (uint64_t)number(),
			.coalesced = (uint32_t)number(),
			.disable_depth = one_in(3) ? (uint32_t)number() : 0,
		};

		check_hot_reply(one_in(3) ? rnd_next(&rnd) : (uint64_t)number(), &r);
		check_hot_result(&r);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("hot");
	TCase *tc = unit_case(s, "hot");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, whole_messages_are_decoded_alike);
	tcase_add_test(tc, damaged_messages_are_decoded_alike);
	tcase_add_test(tc, the_usual_is_taken);
	tcase_add_test(tc, replies_are_encoded_alike);
	return unit_run(s);
}
