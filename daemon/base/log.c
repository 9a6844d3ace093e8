#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

static _Atomic int max_level = LOG_INFO_; /* any thread */
static _Atomic bool with_prefix;
static _Atomic unsigned long long lines_lost, lines_told;

void
log_setup(enum log_level level, bool prefix)
{
	atomic_store(&max_level, (int)level);
	atomic_store(&with_prefix, prefix);
}

static const char *
level_name(enum log_level level)
{
	switch (level) {
	case LOG_ERROR_:
		return "error";
	case LOG_WARN_:
		return "warning";
	case LOG_INFO_:
		return "info";
	case LOG_DEBUG_:
		return "debug";
	}
	return "?";
}

/* Writes it unless that would block. */
static bool
try_write(const char *line, size_t n)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t r;

	do
		r = send(STDERR_FILENO, line, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r >= 0 || errno != ENOTSOCK)
		return r >= 0;
	/* A pipe that is writable takes as much as a line has. */
	if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT))
		return false;
	do
		r = write(STDERR_FILENO, line, n);
	while (r < 0 && errno == EINTR);
	return r >= 0;
}

/* Lines that were lost are told of as soon as there is room again. */
static void
put_line(const char *line, size_t n)
{
	unsigned long long lost = atomic_load(&lines_lost);
	char told[128];
	int m;

	if (lost > atomic_load(&lines_told)) {
		m = snprintf(told, sizeof told,
			"%slevel=warning event=log_lines_lost lines=%llu msg=\"nobody read the "
			"log\"\n",
			atomic_load(&with_prefix) ? "<4>" : "", lost - atomic_load(&lines_told));
		if (try_write(told, (size_t)m))
			atomic_store(&lines_told, lost);
	}
	if (!try_write(line, n))
		atomic_fetch_add(&lines_lost, 1);
}

uint64_t
log_lost(void)
{
	return atomic_load(&lines_lost);
}

void
log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	char line[2048];
	size_t room = sizeof line - 1;
	int n = 0, m;
	va_list ap;

	if ((int)level > atomic_load(&max_level))
		return;
	if (atomic_load(&with_prefix))
		n = snprintf(line, room, "<%d>", (int)level);
	n += snprintf(line + n, room - (size_t)n, "level=%s event=%s ", level_name(level), event);
	va_start(ap, fmt);
	m = vsnprintf(line + n, room - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = n + m < (int)room ? n + m : (int)room - 1;
	line[n++] = '\n';
	put_line(line, (size_t)n);
}

const char *
log_field(char *dst, size_t size, struct str s)
{
	static const char hex[] = "0123456789abcdef";
	size_t o = 0;

	wq_assert(size >= 8);
	dst[o++] = '"';
	for (size_t i = 0; i < s.n && o + 6 < size; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (c == '"' || c == '\\') {
			dst[o++] = '\\';
			dst[o++] = (char)c;
		} else if (c < 0x20 || c >= 0x7f) {
			dst[o++] = '\\';
			dst[o++] = 'x';
			dst[o++] = hex[c >> 4];
			dst[o++] = hex[c & 15];
		} else {
			dst[o++] = (char)c;
		}
	}
	dst[o++] = '"';
	dst[o] = '\0';
	return dst;
}
