/*
 * The two clocks everything else is told the time by.
 *
 * `boot_ns` is CLOCK_BOOTTIME: elapsed time, suspend counts, steps of the wall
 * clock don't show. `wall_ns` is the wall clock (Unix time). Both in
 * nanoseconds. Only the loop reads a clock; engine and sessions get a
 * `struct moment` as an argument. moment_wall()/moment_boot() turn a time of
 * one clock into the other's by the offset of that moment.
 */
#ifndef WQD_BASE_CLOCK_H
#define WQD_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ll
#define NS_PER_MS 1000000ll
#define NS_PER_S  1000000000ll

struct moment {
	int64_t boot_ns;
	int64_t wall_ns;
};

/*
 * Now. The wall clock is read as boot time plus an offset that follows the real
 * one when it has moved by more than 200 us, so that a deadline reads the same
 * in every reply although the two clocks are read one after the other.
 * One caller thread (it keeps the offset).
 */
struct moment
clock_now(void);

/* Wall time as the system has it, for records that no deadline depends on. Any thread. */
int64_t
clock_wall_ns(void);
/* CLOCK_BOOTTIME. Any thread. */
int64_t
clock_boot_ns(void);

/* a + b, held at the ends of int64_t instead of wrapping. */
static inline int64_t
sat_add(int64_t a, int64_t b)
{
	int64_t r;

	if (!__builtin_add_overflow(a, b, &r))
		return r;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t
moment_wall(struct moment m, int64_t boot_ns)
{
	return sat_add(boot_ns, m.wall_ns - m.boot_ns);
}

static inline int64_t
moment_boot(struct moment m, int64_t wall_ns)
{
	return sat_add(wall_ns, m.boot_ns - m.wall_ns);
}

#endif
