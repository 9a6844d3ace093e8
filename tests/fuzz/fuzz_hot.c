/*
 * The hand-written codec against protobuf-c (hot_check.h): the input as a
 * request, and as the numbers of a reply.
 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/hot_check.h"

#define ARENA_MAX (64u << 20)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct arena *arena;
	uint64_t v[8] = { 0 };

	if (!arena)
		wq_assert(arena_new(ARENA_MAX, &arena) == 0);
	check_hot_decode(arena, data, size);
	arena_reset(arena);
	memcpy(v, data, size < sizeof v ? size : sizeof v);
	const struct job_reply r = {
		.status = (enum status)(v[0] & 127),
		.state_before = (enum job_state)(v[0] >> 8 & 7),
		.pending_before = v[0] >> 16 & 1,
		.has_deadline = v[0] >> 17 & 1,
		.has_old_deadline = v[0] >> 18 & 1,
		.deadline_wall_ns = (int64_t)v[1],
		.old_deadline_wall_ns = (int64_t)v[2],
		.generation = v[3],
		.coalesced = (uint32_t)v[4],
		.disable_depth = (uint32_t)v[5],
	};
	check_hot_reply(v[6], &r);
	check_hot_result(&r);
	return 0;
}
