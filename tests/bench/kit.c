#include "bench/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int64_t
bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void
bench_pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (unsigned i = 0; core < 0 && i < CPU_SETSIZE; i++)
		CPU_SET(i, &set);
	if (core >= 0)
		CPU_SET((unsigned)core, &set);
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		fprintf(stderr, "not pinned to core %d: %s\n", core, strerror(errno));
}

/* ---- figures ---- */

void
figure_add(struct figure *f, double v)
{
	if (f->n < ROUNDS_MAX)
		f->v[f->n++] = v;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(const double *v, size_t n)
{
	double sorted[ROUNDS_MAX];

	if (n == 0)
		return 0;
	memcpy(sorted, v, n * sizeof *v);
	qsort(sorted, n, sizeof *sorted, by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double
figure_median(const struct figure *f)
{
	return median(f->v, f->n);
}

double
figure_spread(const struct figure *f)
{
	double lo = 0, hi = 0, mid = figure_median(f);

	for (size_t i = 0; i < f->n; i++) {
		lo = i == 0 || f->v[i] < lo ? f->v[i] : lo;
		hi = i == 0 || f->v[i] > hi ? f->v[i] : hi;
	}
	return mid > 0 ? (hi - lo) / mid * 100 : 0;
}

double
figure_ratio(const struct figure *a, const struct figure *b)
{
	double r[ROUNDS_MAX];
	size_t n = a->n < b->n ? a->n : b->n;

	for (size_t i = 0; i < n; i++)
		r[i] = b->v[i] > 0 ? a->v[i] / b->v[i] : 0;
	return median(r, n);
}

const char *
bench_si(double v, char dst[16])
{
	if (v >= 1e6)
		snprintf(dst, 16, "%.2f M", v / 1e6);
	else if (v >= 1e3)
		snprintf(dst, 16, "%.1f k", v / 1e3);
	else
		snprintf(dst, 16, "%.0f", v);
	return dst;
}

/* ---- children ---- */

static pid_t children[64];
static size_t n_children;

/* None outlives the program, however it ends. */
static void
stop_children(void)
{
	for (size_t i = 0; i < n_children; i++)
		if (children[i])
			kill(children[i], SIGTERM);
}

pid_t
bench_spawn(int core, char *const argv[])
{
	posix_spawn_file_actions_t actions;
	cpu_set_t before;
	pid_t pid;
	int err;

	sched_getaffinity(0, sizeof before, &before);
	bench_pin(core);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	if (!getenv("BENCH_VERBOSE"))
		posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	sched_setaffinity(0, sizeof before, &before);
	if (err)
		bench_die("%s: %s", argv[0], strerror(err));
	if (n_children == 0)
		atexit(stop_children);
	if (n_children < sizeof children / sizeof *children)
		children[n_children++] = pid;
	return pid;
}

void
bench_wait(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	for (size_t i = 0; i < n_children; i++)
		if (children[i] == pid)
			children[i] = 0;
}

void
bench_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	bench_wait(pid);
}

static int
connect_once(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET };
	int port = path[0] == '/' ? 0 : (int)strtol(path, NULL, 10), one = 1, fd, err;

	fd = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		bench_die("socket: %s", strerror(errno));
	if (port) {
		in.sin_port = htons((uint16_t)port);
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		err = connect(fd, (struct sockaddr *)&in, sizeof in);
	} else {
		snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
		err = connect(fd, (struct sockaddr *)&un, sizeof un);
	}
	if (err == 0)
		return fd;
	close(fd);
	return -1;
}

static int
connect_every(const char *path, long pause_ns, long times)
{
	const struct timespec pause = { .tv_nsec = pause_ns };

	for (long i = 0; i < times; i++) {
		int fd = connect_once(path);

		if (fd >= 0)
			return fd;
		nanosleep(&pause, NULL);
	}
	bench_die("%s: %s", path, strerror(errno));
}

int
bench_connect(const char *path)
{
	return connect_every(path, 10 * 1000000, 1000);
}

int
bench_connect_soon(const char *path)
{
	return connect_every(path, 100000, 100000);
}

void
bench_write(int fd, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n > 0) {
		ssize_t w = send(fd, b, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			bench_die("send: %s", strerror(errno));
		b += w;
		n -= (size_t)w;
	}
}

/* ---- the machine ---- */

static void
cpu_model(char *dst, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(dst, size, "unknown processor");
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(dst, size, "%s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
}

void
bench_machine(void)
{
	struct utsname u;
	char model[128];
	double load[3] = { 0 };
	time_t t = time(NULL);
	char day[32];
	struct tm tm;

	uname(&u);
	cpu_model(model, sizeof model);
	getloadavg(load, 3);
	gmtime_r(&t, &tm);
	strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &tm);
	printf("%s, %ld cores, %s %s, gcc %s, %s; load average %.1f %.1f %.1f\n", model,
		sysconf(_SC_NPROCESSORS_ONLN), u.sysname, u.release, __VERSION__, day, load[0],
		load[1], load[2]);
}
