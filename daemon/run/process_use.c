#include "run/process_use.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/cgroup_find.h"

int64_t
process_cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &t) < 0)
		return 0;
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* The second number of the line. */
uint64_t
process_memory(pid_t pid)
{
	char dir[32], text[128];
	const char *p = text;
	uint64_t size, resident;

	snprintf(dir, sizeof dir, "/proc/%d", (int)pid);
	if (file_get(dir, "statm", text, sizeof text) <= 0 || !take_u64(&p, &size) ||
		!take_u64(&p, &resident))
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
