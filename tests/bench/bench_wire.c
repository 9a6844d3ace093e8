/* The wire alone: a usual update decoded, its reply encoded, and the frame around both. */
#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <wq.pb-c.h>

#include "bench/bench.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define ARENA_MAX (1u << 20)
#define BATCH     64 /* messages of one read */

static size_t
make_update(uint8_t *dst, size_t size)
{
	static char queue[] = "heartbeats";
	static uint8_t key[] = "host-0123456789";
	Wq__V1__Request pb;
	Wq__V1__Update u;
	size_t n, head;

	wq__v1__request__init(&pb);
	wq__v1__update__init(&u);
	u.queue = queue;
	u.key = (ProtobufCBinaryData){ .data = key, .len = sizeof key - 1 };
	u.when_case = WQ__V1__UPDATE__WHEN_DELAY_MS;
	u.delay_ms = 30000;
	pb.id = 123456;
	pb.op_case = WQ__V1__REQUEST__OP_UPDATE;
	pb.update = &u;
	n = wq__v1__request__get_packed_size(&pb);
	wq_assert(n + 5 <= size);
	head = frame_put_len(dst, (uint32_t)n);
	wq__v1__request__pack(&pb, dst + head);
	return head + n;
}

static void
decode(uint64_t count)
{
	uint8_t frame[128];
	size_t n = make_update(frame, sizeof frame), len, need;
	const uint8_t *msg;
	const char *why;
	struct request r;
	struct arena *a;
	int64_t from;

	wq_assert(arena_new(ARENA_MAX, &a) == 0);
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i++) {
		wq_assert(frame_next(frame, n, 65536, &msg, &len, &need) == (long)n);
		wq_assert(wire_decode(a, msg, len, &r, &why) == 0 && !why);
		if (i % BATCH == BATCH - 1)
			arena_reset(a);
	}
	bench_per("wire-decode-update", bench_cpu_ns() - from, count);
	arena_free(a);
}

static void
encode(uint64_t count)
{
	const struct job_reply reply = {
		.status = ST_UPDATED_TIMER,
		.state_before = JOB_ARMED,
		.pending_before = true,
		.has_deadline = true,
		.has_old_deadline = true,
		.deadline_wall_ns = 1767225630 * NS_PER_S,
		.old_deadline_wall_ns = 1767225629 * NS_PER_S,
		.generation = 17,
		.coalesced = 3,
	};
	struct buf out;
	int64_t from;

	buf_init(&out, 1u << 20);
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i++) {
		wq_assert(wire_put_job_reply(&out, i, &reply, false) == 0);
		if (i % BATCH == BATCH - 1)
			buf_consume(&out, buf_len(&out));
	}
	bench_per("wire-encode-reply", bench_cpu_ns() - from, count);
	buf_done(&out);
}

int
main(int argc, char **argv)
{
	uint64_t count = bench_count(argc, argv, 2000000);

	decode(count);
	encode(count);
	return 0;
}
