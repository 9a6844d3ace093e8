#include "base/clock.h"

#include <time.h>

#define OFFSET_HYSTERESIS_NS (200 * NS_PER_US)

static int64_t
read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t
clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

int64_t
clock_boot_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

struct moment
clock_now(void)
{
	static int64_t offset; /* loop thread */
	int64_t boot = clock_boot_ns();
	int64_t seen = clock_wall_ns() - boot;

	if (seen - offset > OFFSET_HYSTERESIS_NS || offset - seen > OFFSET_HYSTERESIS_NS)
		offset = seen;
	return (struct moment){ boot, boot + offset };
}
