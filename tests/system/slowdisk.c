/*
 * For LD_PRELOAD: fsync and fdatasync take as many milliseconds as the file named by WQ_SLOW_FILE says
 * at that moment, none where there is no such file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void
stall(void)
{
	const char *path = getenv("WQ_SLOW_FILE");
	FILE *f = path ? fopen(path, "re") : NULL;
	long ms = 0;
	struct timespec ts;

	if (f && fscanf(f, "%ld", &ms) != 1)
		ms = 0;
	if (f)
		fclose(f);
	ts.tv_sec = ms / 1000;
	ts.tv_nsec = ms % 1000 * 1000000;
	if (ms > 0)
		nanosleep(&ts, NULL);
}

int
fsync(int fd)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

	stall();
	return next(fd);
}

int
fdatasync(int fd)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

	stall();
	return next(fd);
}
