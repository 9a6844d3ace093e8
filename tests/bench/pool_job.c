/*
 * A job of known behaviour, for bench_pools.py: its payload says what it does.
 *
 *   C<ms>    burns processor time (its own, whatever else goes on)
 *   S<ms>    sleeps
 *   R<n>,<ms> takes one of resource n (0: 32 there are, 1: one), holds it so long
 *   L        a lock that all such jobs share, until the end
 *   X        becomes a pipeline of four under a shell
 */
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PIPELINE "seq 1 4000 | sort -rn | head -200 | wc -l >/dev/null"

static void
burn(double ms)
{
	volatile unsigned sink = 0;
	struct timespec t;
	double until = -1, now;

	do {
		for (int i = 0; i < 20000; i++)
			sink = sink + (unsigned)i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
		until = until < 0 ? now + ms : until;
	} while (now < until);
}

static void
rest(double ms)
{
	struct timespec t = { (time_t)(ms / 1e3), 0 };

	t.tv_nsec = (long)((ms - 1e3 * (double)t.tv_sec) * 1e6);
	nanosleep(&t, NULL);
}

static void
resource(int n, double ms)
{
	static sem_t *all;
	const char *path = getenv("POOL_JOB_FILE");

	if (!all) {
		int fd = path ? open(path, O_RDWR) : -1;

		all = fd < 0 ? MAP_FAILED
			     : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (all == MAP_FAILED)
			exit(3);
	}
	while (sem_wait(&all[n]) < 0)
		;
	rest(ms);
	sem_post(&all[n]);
}

/* The semaphores, made by the bench before its runs. */
static int
make(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	sem_t *all;

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return 1;
	all = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (all == MAP_FAILED)
		return 1;
	return sem_init(&all[0], 1, 32) < 0 || sem_init(&all[1], 1, 1) < 0;
}

static void
lock(void)
{
	const char *path = getenv("POOL_JOB_FILE");
	int fd = path ? open(path, O_RDWR) : -1;

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		exit(3);
}

int
main(int argc, char **argv)
{
	char spec[512], *p = spec;
	ssize_t n;

	if (argc == 3 && strcmp(argv[1], "--make") == 0)
		return make(argv[2]);
	n = read(0, spec, sizeof spec - 1);
	if (n < 0)
		return 2;
	spec[n] = '\0';
	prctl(PR_SET_TIMERSLACK, 1);
	while (*p) {
		char what = *p++;
		int which = what == 'R' ? (int)strtol(p, &p, 10) : 0;
		double ms;

		p += what == 'R' && *p == ',';
		ms = strtod(p, &p);
		if (what == 'C')
			burn(ms);
		else if (what == 'S')
			rest(ms);
		else if (what == 'R')
			resource(which, ms);
		else if (what == 'L')
			lock();
		else if (what == 'X')
			execl("/bin/sh", "sh", "-c", PIPELINE, (char *)NULL);
		else
			return 2;
	}
	return 0;
}
