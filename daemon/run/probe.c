#include "run/probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "run/cgroup_find.h"

/* Of one run; what it has more is not looked at. */
#define FAMILY_MAX 32u
#define DEPTH_MAX  6u
/* A run without descendants is asked for some again so often. */
#define FAMILY_WAIT_MIN (20 * NS_PER_MS)
#define FAMILY_WAIT_MAX (500 * NS_PER_MS)
/* Shares of time mean nothing over less than the kernel's ticks. */
#define SHARE_NS (8 * NS_PER_MS)

/* ---- one process ---- */

struct state {
	char letter;
	uint64_t ticks; /* on processors, reaped children included */
	uint64_t threads, pages;
};

/* Fields are numbered as in proc(5); the name may hold blanks and parentheses. */
static bool
parse_stat(const char *text, struct state *s)
{
	const char *p = strrchr(text, ')');
	uint64_t v;

	if (!p || p[1] != ' ' || !p[2])
		return false;
	*s = (struct state){ .letter = p[2] };
	p += 3;
	for (int field = 4; field <= 24; field++) {
		while (*p == ' ' || *p == '-')
			p++;
		if (!take_u64(&p, &v))
			return false;
		if (field >= 14 && field <= 17)
			s->ticks += v;
		else if (field == 20)
			s->threads = v;
		else if (field == 24)
			s->pages = v;
	}
	return true;
}

static bool
stat_of_fd(int fd, struct state *s)
{
	char text[1024];

	return fd >= 0 && file_get_fd(fd, text, sizeof text) > 0 && parse_stat(text, s);
}

static int
open_stat(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int64_t
ticks_ns(uint64_t ticks)
{
	static int64_t each;

	if (each == 0)
		each = NS_PER_S / sysconf(_SC_CLK_TCK);
	return (int64_t)ticks * each;
}

static uint64_t
pages_bytes(uint64_t pages)
{
	static uint64_t each;

	if (each == 0)
		each = (uint64_t)sysconf(_SC_PAGESIZE);
	return pages * each;
}

/* ---- a run ---- */

void
probe_open(struct probe *p, pid_t pid, int cpu_fd)
{
	*p = (struct probe){
		.pid = pid,
		.stat_fd = open_stat(pid),
		.cpu_fd = cpu_fd,
		.family_wait_ns = FAMILY_WAIT_MIN,
	};
	if (clock_getcpuclockid(pid, &p->clock) != 0)
		p->clock = -1;
}

void
probe_close(struct probe *p)
{
	if (p->stat_fd >= 0)
		close(p->stat_fd);
	if (p->cpu_fd >= 0)
		close(p->cpu_fd);
	*p = PROBE_NONE;
}

enum pool_probe
probe_rank(const struct probe *p)
{
	if (p->cpu_fd >= 0 && p->stat_fd >= 0)
		return PROBE_CGROUP;
	if (p->stat_fd >= 0)
		return PROBE_PROC;
	return p->cpu_fd >= 0 || p->clock != -1 ? PROBE_CLOCK : PROBE_COUNT;
}

/* ---- time on processors ---- */

/* Of the cgroup, else of the main process with its threads; -1: not known. */
static int64_t
used_ns(const struct probe *p)
{
	char text[1024];
	struct timespec ts;

	if (p->cpu_fd >= 0 && file_get_fd(p->cpu_fd, text, sizeof text) > 0) {
		uint64_t us = text_value(text, "usage_usec", UINT64_MAX);

		if (us != UINT64_MAX)
			return (int64_t)us * NS_PER_US;
	}
	if (p->clock == -1 || clock_gettime(p->clock, &ts) < 0)
		return -1;
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* How many processors the run has kept busy since the last look that was long enough ago. */
static uint32_t
time_share(struct probe *p, int64_t now_ns)
{
	int64_t used, dt = now_ns - p->share_at_ns;

	if (p->share_at_ns != 0 && dt < SHARE_NS)
		return p->share;
	used = used_ns(p);
	if (used < 0)
		return 0;
	/* Half a processor is one that it wants. A new run is taken to be at work. */
	p->share = p->share_at_ns == 0 ? 1 : (uint32_t)((used - p->share_ns + dt / 2) / dt);
	p->share_ns = used;
	p->share_at_ns = now_ns;
	return p->share;
}

/* ---- the family ---- */

struct family {
	uint32_t n, runnable;
	uint64_t ticks, pages;
};

static void
look_at_child(struct family *f, pid_t pid)
{
	int fd = open_stat(pid);
	struct state s;

	f->n++;
	if (stat_of_fd(fd, &s)) {
		f->runnable += s.letter == 'R';
		f->ticks += s.ticks;
		f->pages += s.pages;
	}
	if (fd >= 0)
		close(fd);
}

static void
look_at_family(struct family *f, pid_t pid, uint32_t depth)
{
	char path[64], text[512];
	const char *p = text;
	uint64_t child;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (depth >= DEPTH_MAX || file_get(NULL, path, text, sizeof text) <= 0)
		return;
	while (f->n < FAMILY_MAX && take_u64(&p, &child)) {
		look_at_child(f, (pid_t)child);
		look_at_family(f, (pid_t)child, depth + 1);
	}
}

static uint32_t
family_runnable(struct probe *p, int64_t now_ns, struct family *f)
{
	if (p->family == 0 && now_ns < p->family_at_ns)
		return 0;
	look_at_family(f, p->pid, 0);
	p->family = f->n;
	if (f->n > 0) {
		p->family_wait_ns = FAMILY_WAIT_MIN;
	} else {
		p->family_at_ns = now_ns + p->family_wait_ns;
		p->family_wait_ns *= 2;
		if (p->family_wait_ns > FAMILY_WAIT_MAX)
			p->family_wait_ns = FAMILY_WAIT_MAX;
	}
	return f->runnable;
}

static uint32_t
look(struct probe *p, int64_t now_ns)
{
	struct family f = { 0 };
	uint32_t n, share;
	struct state s;

	if (!stat_of_fd(p->stat_fd, &s)) {
		n = time_share(p, now_ns);
		p->cpu_ns = p->share_ns;
		return n;
	}
	n = s.letter == 'R';
	if (p->cpu_fd < 0)
		n += family_runnable(p, now_ns, &f);
	if (p->cpu_fd >= 0 || s.threads > 1) {
		share = time_share(p, now_ns);
		n = share > n ? share : n;
	}
	p->memory = pages_bytes(s.pages + f.pages);
	p->cpu_ns = p->cpu_fd >= 0 ? p->share_ns : ticks_ns(s.ticks + f.ticks);
	return n;
}

uint32_t
probe_look(struct probe *p, int64_t now_ns)
{
	if (p->pid != 0 && p->seen_ns != now_ns) {
		p->seen_ns = now_ns;
		p->wants = look(p, now_ns);
	}
	return p->wants;
}
