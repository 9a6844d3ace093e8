#include "run/process_use.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

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
static uint64_t
resident_pages(const char *text)
{
	const char *from = strchr(text, ' ');
	uint64_t pages = 0;

	if (from && text_u64((struct str){ from + 1, strcspn(from + 1, " ") }, &pages) < 0)
		return 0;
	return pages;
}

uint64_t
process_memory(pid_t pid)
{
	char path[64], text[128];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof text - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	return resident_pages(text) * (uint64_t)sysconf(_SC_PAGESIZE);
}
