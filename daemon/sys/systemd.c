/*
 * The protocols of sd_notify(3), sd_listen_fds(3) and systemd.exec(5), spoken
 * directly: they are documented as stable and are a datagram and four
 * variables. libsystemd reads the variables anew at every call, so with it they
 * could not be hidden from the children of a process that has threads.
 */
#include "sys/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#define LISTEN_FDS_START 3
#define LISTEN_MAX       64
#define SYSTEMD_MAGIC    0x73797364u

struct systemd {
	uint32_t magic;
	int notify; /* -1: nobody wants to be told */
	struct sockaddr_un manager;
	socklen_t manager_len;
	int64_t watchdog_ns;
	bool journal;
	size_t n_listen;
	int listen[LISTEN_MAX]; /* -1: taken */
	char *names;            /* owned; "a:b:c"; NULL: none */
	char *environ[8];       /* owned; see systemd_environ */
};

static const char *const variables[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
	"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "JOURNAL_STREAM" };

/* ---- what the environment says ---- */

/* A variable that names a process: absent or ours. */
static bool
is_for_us(const char *name)
{
	const char *text = getenv(name);
	uint64_t pid;

	return !text || (text_u64(str_from(text), &pid) == 0 && pid == (uint64_t)getpid());
}

/* Each message names its receiver, so that one that was away comes back to us. */
static void
open_notify(struct systemd *sd)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct timeval patience = { .tv_sec = 1 };
	size_t n = path ? strlen(path) : 0;

	sd->notify = -1;
	if (n < 2 || n >= sizeof sd->manager.sun_path || (path[0] != '/' && path[0] != '@'))
		return;
	sd->manager.sun_family = AF_UNIX;
	memcpy(sd->manager.sun_path, path, n);
	if (path[0] == '@')
		sd->manager.sun_path[0] = '\0';
	sd->manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	sd->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A manager that does not read must not stop the loop for good. */
	if (sd->notify >= 0)
		(void)setsockopt(sd->notify, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static int64_t
watchdog_interval(void)
{
	const char *text = getenv("WATCHDOG_USEC");
	uint64_t us;

	if (!text || !is_for_us("WATCHDOG_PID") || text_u64(str_from(text), &us) ||
		us > (uint64_t)(INT64_MAX / NS_PER_US))
		return 0;
	return (int64_t)us * NS_PER_US / 2;
}

static bool
stderr_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	const char *colon = text ? strchr(text, ':') : NULL;
	uint64_t dev, ino;
	struct stat st;

	return colon && text_u64((struct str){ text, (size_t)(colon - text) }, &dev) == 0 &&
		text_u64(str_from(colon + 1), &ino) == 0 && fstat(STDERR_FILENO, &st) == 0 &&
		st.st_dev == dev && st.st_ino == ino;
}

static int
socket_option(int fd, int name)
{
	int v = -1;
	socklen_t n = sizeof v;

	return getsockopt(fd, SOL_SOCKET, name, &v, &n) == 0 ? v : -1;
}

static const char *
why_no_listener(int fd)
{
	int domain = socket_option(fd, SO_DOMAIN);

	if (fcntl(fd, F_GETFD) < 0)
		return "LISTEN_FDS counts a descriptor that is not open";
	if (domain < 0)
		return "LISTEN_FDS counts a descriptor that is no socket";
	if (socket_option(fd, SO_TYPE) != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) != 1)
		return "LISTEN_FDS counts a socket that is no listening stream socket "
		       "(ListenStream=, Accept=no)";
	if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)
		return "LISTEN_FDS counts a socket that is neither unix nor TCP";
	return NULL;
}

static int
adopt_listeners(struct systemd *sd, const char **why)
{
	const char *text = getenv("LISTEN_FDS");
	uint64_t n;

	if (!text || !getenv("LISTEN_PID") || !is_for_us("LISTEN_PID"))
		return 0;
	if (text_u64(str_from(text), &n) || n > LISTEN_MAX) {
		*why = "LISTEN_FDS is no number from 0 to 64";
		return ERR_BAD_VALUE;
	}
	for (size_t i = 0; i < n; i++) {
		int fd = LISTEN_FDS_START + (int)i;

		*why = why_no_listener(fd);
		if (*why)
			return ERR_BAD_VALUE;
	}
	for (size_t i = 0; i < n; i++) {
		sd->listen[i] = LISTEN_FDS_START + (int)i;
		(void)fcntl(sd->listen[i], F_SETFD, FD_CLOEXEC);
	}
	sd->n_listen = n;
	text = getenv("LISTEN_FDNAMES");
	sd->names = text ? must_strdup(text) : NULL;
	return 0;
}

/* Not the passed sockets, which have been taken. */
static void
keep_environ(struct systemd *sd)
{
	static const char *const kept[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
		"JOURNAL_STREAM" };
	char text[512];
	size_t n = 0;

	_Static_assert(ARRAY_SIZE(kept) < ARRAY_SIZE(sd->environ), "and a NULL");
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const char *value = getenv(kept[i]);
		int len = value ? snprintf(text, sizeof text, "%s=%s", kept[i], value) : -1;

		if (len > 0 && (size_t)len < sizeof text)
			sd->environ[n++] = must_strdup(text);
	}
}

int
systemd_new(struct systemd **out, const char **why)
{
	struct systemd *sd = x_zalloc(sizeof *sd);
	int err;

	if (!sd) {
		*why = "no memory";
		return -ENOMEM;
	}
	sd->magic = SYSTEMD_MAGIC;
	open_notify(sd);
	sd->watchdog_ns = watchdog_interval();
	sd->journal = stderr_is_journal();
	err = adopt_listeners(sd, why);
	keep_environ(sd);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	if (err) {
		systemd_free(sd);
		return err;
	}
	*out = sd;
	return 0;
}

void
systemd_free(struct systemd *sd)
{
	if (!sd)
		return;
	CHECK_OBJ(sd, SYSTEMD_MAGIC);
	for (size_t i = 0; i < sd->n_listen; i++)
		if (sd->listen[i] >= 0)
			close(sd->listen[i]);
	if (sd->notify >= 0)
		close(sd->notify);
	x_free(sd->names);
	for (size_t i = 0; i < ARRAY_SIZE(sd->environ); i++)
		x_free(sd->environ[i]);
	MAGIC_DONE(sd);
	x_free(sd);
}

size_t
systemd_listen_count(const struct systemd *sd)
{
	return sd->n_listen;
}

int
systemd_listen_take(struct systemd *sd, size_t i)
{
	int fd;

	wq_assert(i < sd->n_listen && sd->listen[i] >= 0);
	fd = sd->listen[i];
	sd->listen[i] = -1;
	return fd;
}

bool
systemd_listen_named(const struct systemd *sd, size_t i, const char *name)
{
	const char *p = sd->names;

	for (; p && i > 0; i--) {
		p = strchr(p, ':');
		p = p ? p + 1 : NULL;
	}
	return p && strncmp(p, name, strlen(name)) == 0 &&
		(p[strlen(name)] == ':' || p[strlen(name)] == '\0');
}

char *const *
systemd_environ(const struct systemd *sd)
{
	return sd->environ;
}

int64_t
systemd_watchdog_ns(const struct systemd *sd)
{
	return sd->watchdog_ns;
}

bool
systemd_stderr_is_journal(const struct systemd *sd)
{
	return sd->journal;
}

/* ---- what it is told ---- */

static void
notify(struct systemd *sd, const char *text, int flags)
{
	CHECK_OBJ(sd, SYSTEMD_MAGIC);
	if (sd->notify < 0)
		return;
	while (sendto(sd->notify, text, strlen(text), MSG_NOSIGNAL | flags,
		       (const struct sockaddr *)&sd->manager, sd->manager_len) < 0 &&
		errno == EINTR)
		;
}

void
systemd_ready(struct systemd *sd)
{
	notify(sd, "READY=1", 0);
}

void
systemd_stopping(struct systemd *sd)
{
	notify(sd, "STOPPING=1", 0);
}

void
systemd_reloading(struct systemd *sd)
{
	struct timespec ts;
	char text[80];

	/* By this time the manager tells our READY=1 from one that was sent before. */
	clock_gettime(CLOCK_MONOTONIC, &ts);
	snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%jd",
		(intmax_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	notify(sd, text, 0);
}

void
systemd_watchdog_ping(struct systemd *sd)
{
	/* The next one comes soon. */
	notify(sd, "WATCHDOG=1", MSG_DONTWAIT);
}

void
systemd_status(struct systemd *sd, const char *fmt, ...)
{
	char text[512] = "STATUS=";
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - n, fmt, ap);
	va_end(ap);
	/* A line break would begin another assignment. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = ' ';
	notify(sd, text, MSG_DONTWAIT);
}

void
systemd_extend_timeout(struct systemd *sd, int64_t ns)
{
	char text[64];

	snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%jd", (intmax_t)(ns / NS_PER_US));
	notify(sd, text, 0);
}
