/*
 * pool.c and pools.c once more, with variables in the place of their constants. As all their names
 * are here, the linker leaves those of the library out.
 */
#include "model/pool_mutable.h"

#include <stdio.h>

#include "engine/pool.h"

static struct {
	int64_t n[12];
} numbers = { {
	POOL_TARGET_LADDER,
	POOL_TARGET_PLAIN,
	POOL_INFLIGHT,
	POOL_BURST,
	POOL_TICK_MIN_NS,
	POOL_TICK_MAX_NS,
	POOL_TICKS_SAME,
	POOL_GAP_NS,
	POOL_LOOK_NS,
	POOL_FLOOR,
	POOL_FLOOR_NS,
	POOL_STALL_NS,
} };

static const char *const names[] = {
	"TARGET_LADDER",
	"TARGET_PLAIN",
	"INFLIGHT",
	"BURST",
	"TICK_MIN_NS",
	"TICK_MAX_NS",
	"TICKS_SAME",
	"GAP_NS",
	"LOOK_NS",
	"FLOOR",
	"FLOOR_NS",
	"STALL_NS",
};

const char *
pool_mutate(unsigned which)
{
	static char what[64];
	unsigned i = which / 2;
	int64_t was = numbers.n[i];

	/* Ten times as much; a tenth, or as little as there is. */
	numbers.n[i] = which % 2 == 0 ? 10 * was : was / 10 > 0 ? was / 10 : 1;
	snprintf(what, sizeof what, "%s %lld instead of %lld", names[i], (long long)numbers.n[i],
		(long long)was);
	return what;
}

#undef POOL_TARGET_LADDER
#define POOL_TARGET_LADDER ((uint32_t)numbers.n[0])
#undef POOL_TARGET_PLAIN
#define POOL_TARGET_PLAIN ((uint32_t)numbers.n[1])
#undef POOL_INFLIGHT
#define POOL_INFLIGHT ((uint32_t)numbers.n[2])
#undef POOL_BURST
#define POOL_BURST ((uint32_t)numbers.n[3])
#undef POOL_TICK_MIN_NS
#define POOL_TICK_MIN_NS ((int64_t)numbers.n[4])
#undef POOL_TICK_MAX_NS
#define POOL_TICK_MAX_NS ((int64_t)numbers.n[5])
#undef POOL_TICKS_SAME
#define POOL_TICKS_SAME ((uint32_t)numbers.n[6])
#undef POOL_GAP_NS
#define POOL_GAP_NS ((int64_t)numbers.n[7])
#undef POOL_LOOK_NS
#define POOL_LOOK_NS ((int64_t)numbers.n[8])
#undef POOL_FLOOR
#define POOL_FLOOR ((uint32_t)numbers.n[9])
#undef POOL_FLOOR_NS
#define POOL_FLOOR_NS ((int64_t)numbers.n[10])
#undef POOL_STALL_NS
#define POOL_STALL_NS ((int64_t)numbers.n[11])

#include "engine/pool.c"
#include "engine/pools.c"
