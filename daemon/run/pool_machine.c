#include "run/pool_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

#define SLOW_NS   (10 * NS_PER_S)
#define MEMORY_NS (250 * NS_PER_MS)
/* Short: above so much of the cgroup's limit, or with less of the machine's left. */
#define TIGHT_PERCENT 75u
#define LEFT_PERCENT  10u
/* Runs get one part in so many of a limit on processes: each may have several. */
#define PROCESS_PARTS 4u

/* ---- processors ---- */

static uint32_t
affinity_count(void)
{
	for (int n = 1024; n <= 1 << 20; n *= 4) {
		cpu_set_t *set = CPU_ALLOC(n);
		size_t size = CPU_ALLOC_SIZE(n);
		int count = 0, err;

		if (!set)
			break;
		err = sched_getaffinity(0, size, set) < 0 ? errno : 0;
		if (!err)
			count = CPU_COUNT_S(size, set);
		CPU_FREE(set);
		if (err != EINVAL)
			return count > 0 ? (uint32_t)count : 1;
	}
	return 1;
}

/* Processors that the quotas of our group and those above it amount to, rounded up. */
static uint32_t
quota_count(struct cgroup_dir d)
{
	uint32_t least = UINT32_MAX;

	if (!d.path[0])
		return least;
	do {
		uint64_t quota = UINT64_MAX, period = 0;

		if (d.v2) {
			char text[64];
			const char *p = text;

			if (file_get(d.path, "cpu.max", text, sizeof text) > 0 &&
				(!take_u64(&p, &quota) || !take_u64(&p, &period)))
				quota = UINT64_MAX;
		} else {
			quota = file_u64(d.path, "cpu.cfs_quota_us");
			period = file_u64(d.path, "cpu.cfs_period_us");
		}
		if (quota != UINT64_MAX && period > 0 && period != UINT64_MAX &&
			(quota + period - 1) / period < least)
			least = (uint32_t)((quota + period - 1) / period);
	} while (cgroup_parent(&d));
	return least > 0 ? least : 1;
}

/* ---- processes ---- */

static uint64_t
least_of(struct cgroup_dir d, const char *file)
{
	uint64_t least = UINT64_MAX;

	if (!d.path[0])
		return least;
	do {
		uint64_t v = file_u64(d.path, file);

		least = v < least ? v : least;
	} while (cgroup_parent(&d));
	return least;
}

/* Root's processes are not counted against the limit of a user. */
static uint64_t
own_process_limit(void)
{
	struct rlimit lim;

	if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return lim.rlim_cur;
}

static uint32_t
process_room(const struct machine *m)
{
	uint64_t most = least_of(m->place.dir[CG_PIDS], "pids.max"), own = own_process_limit();

	most = own < most ? own : most;
	if (most == UINT64_MAX || most / PROCESS_PARTS > UINT32_MAX)
		return 0;
	return most < 2 * PROCESS_PARTS ? 1 : (uint32_t)(most / PROCESS_PARTS);
}

/* ---- memory ---- */

/* File pages that nobody used lately can be had back at once. */
static bool
group_tight(const struct cgroup_dir *d)
{
	uint64_t used, most, idle;
	char text[8192];

	used = file_u64(d->path, d->v2 ? "memory.current" : "memory.usage_in_bytes");
	most = file_u64(d->path, d->v2 ? "memory.max" : "memory.limit_in_bytes");
	if (used == UINT64_MAX || most == UINT64_MAX || used / TIGHT_PERCENT < most / 100)
		return false;
	if (file_get(d->path, "memory.stat", text, sizeof text) <= 0)
		return true;
	idle = text_value(text, d->v2 ? "inactive_file" : "total_inactive_file", 0);
	used = used > idle ? used - idle : 0;
	return used / TIGHT_PERCENT >= most / 100;
}

static bool
memory_tight(const struct machine *m)
{
	struct cgroup_dir d = m->place.dir[CG_MEMORY];
	char text[512];
	uint64_t total, left;

	if (file_get(NULL, "/proc/meminfo", text, sizeof text) > 0) {
		total = text_value(text, "MemTotal:", 0);
		left = text_value(text, "MemAvailable:", total);
		if (left / LEFT_PERCENT < total / 100)
			return true;
	}
	if (!d.path[0])
		return false;
	do
		if (group_tight(&d))
			return true;
	while (cgroup_parent(&d));
	return false;
}

/* ---- the ladder ---- */

/* In the root group of the cpu controller each session is a group of its own, and niceness
 * inside does nothing. */
static bool
sessions_are_groups(const struct machine *m)
{
	struct cgroup_dir d = m->place.dir[CG_CPU];
	uint64_t on = file_u64("/proc/sys/kernel", "sched_autogroup_enabled");

	if (on == 0 || on == UINT64_MAX)
		return false;
	if (!d.path[0])
		return true;
	if (!d.v2)
		return d.top;
	do {
		if (file_u64(d.path, "cpu.weight") != UINT64_MAX)
			return false;
	} while (cgroup_parent(&d));
	return true;
}

/* As nice as can be and back again, as a run does that is promoted. Niceness is a thread's. */
static void *
try_niceness(void *arg)
{
	bool *ok = arg;
	int now = getpriority(PRIO_PROCESS, 0);

	*ok = setpriority(PRIO_PROCESS, 0, 19) == 0 && setpriority(PRIO_PROCESS, 0, now) == 0;
	return NULL;
}

static bool
niceness_works(void)
{
	pthread_t t;
	bool ok = false;

	if (pthread_create(&t, NULL, try_niceness, &ok) != 0)
		return false;
	pthread_join(t, NULL);
	return ok;
}

/* ---- all of it ---- */

static void
look_slowly(struct machine *m)
{
	uint32_t quota = quota_count(m->place.dir[CG_CPU]);

	m->processors = affinity_count();
	if (quota < m->processors)
		m->processors = quota;
	m->allowed = process_room(m);
}

void
machine_init(struct machine *m)
{
	memset(m, 0, sizeof *m);
	cgroup_find(&m->place);
	m->loadavg_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	m->ladder = !sessions_are_groups(m) && niceness_works();
	look_slowly(m);
}

void
machine_done(struct machine *m)
{
	if (m->loadavg_fd >= 0)
		close(m->loadavg_fd);
	m->loadavg_fd = -1;
}

uint32_t
machine_processors(struct machine *m, int64_t now_ns)
{
	if (now_ns >= m->slow_at_ns) {
		m->slow_at_ns = now_ns + SLOW_NS;
		look_slowly(m);
	}
	return m->processors;
}

void
machine_look(struct machine *m, int64_t now_ns)
{
	machine_processors(m, now_ns);
	if (now_ns >= m->memory_at_ns) {
		m->memory_at_ns = now_ns + MEMORY_NS;
		m->memory_tight = memory_tight(m);
	}
}

/* "0.00 0.01 0.05 2/345 12345": the number before the slash. */
int
machine_running(const struct machine *m)
{
	char text[128];
	const char *p;
	uint64_t n;

	if (m->loadavg_fd < 0 || file_get_fd(m->loadavg_fd, text, sizeof text) <= 0)
		return -1;
	p = strchr(text, '/');
	while (p && p > text && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (!p || !take_u64(&p, &n) || n > INT32_MAX)
		return -1;
	return n > 0 ? (int)n - 1 : 0;
}
