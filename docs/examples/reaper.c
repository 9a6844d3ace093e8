/*
 * reaper touch DIRECTORY NAME TTL
 * reaper sweep DIRECTORY
 *
 * Many leases, one timer. A lease is a file in DIRECTORY whose modification time is the moment it
 * ends. "touch" makes or renews one; "sweep", which the handler of queue "reaper" runs, removes
 * those that have ended.
 *
 * The one job is armed for the earliest end. Mode EARLIER only ever moves it forward: touching a
 * thousand leases that end later costs nothing. A renewed lease leaves the timer where it was;
 * the sweep finds nothing to do and arms the job for the earliest end that is left. A touch
 * during the sweep is not lost: it is one more run. A lock on the directory keeps a lease that is
 * just being renewed from being removed.
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wq.h>

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The sweep has to run at `end_ms`, at latest. */
static int
arm(int64_t end_ms)
{
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	wq_t *wq;
	int err = wq_connect(NULL, NULL, &wq);

	if (err == 0) {
		opts.mode = WQ_EARLIER;
		opts.at_ms = end_ms;
		err = wq_update(wq, "reaper", "sweep", 0, &opts, NULL);
		wq_free(wq);
	}
	if (err < 0)
		fprintf(stderr, "reaper: %s\n", wq_strerror(err));
	return err < 0;
}

static int
touch(int dir, const char *name, int64_t ttl_ms)
{
	int64_t end_ms = now_ms() + ttl_ms;
	struct timespec times[2] = { { 0, UTIME_NOW }, { 0, 0 } };
	int fd;

	times[1].tv_sec = (time_t)(end_ms / 1000);
	times[1].tv_nsec = (long)(end_ms % 1000) * 1000000;
	flock(dir, LOCK_EX);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || futimens(fd, times) < 0) {
		perror(name);
		return 1;
	}
	close(fd);
	flock(dir, LOCK_UN);
	return arm(end_ms);
}

/* Removes what has ended; the earliest end that is left, or -1. */
static int64_t
remove_ended(DIR *d, int64_t now)
{
	int64_t earliest = -1;
	const struct dirent *e;

	flock(dirfd(d), LOCK_EX);
	while ((e = readdir(d)) != NULL) {
		struct stat st;
		int64_t end;

		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) < 0)
			continue;
		end = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		if (end <= now) {
			if (unlinkat(dirfd(d), e->d_name, 0) == 0)
				printf("%s\n", e->d_name);
		} else if (earliest < 0 || end < earliest) {
			earliest = end;
		}
	}
	flock(dirfd(d), LOCK_UN);
	return earliest;
}

int
main(int argc, char **argv)
{
	DIR *d = argc > 2 ? opendir(argv[2]) : NULL;
	int64_t next, ttl_ms = 0;
	int status = 0;

	if (argc == 5 && d && strcmp(argv[1], "touch") == 0 && !strchr(argv[3], '/') &&
		wq_parse_duration(argv[4], &ttl_ms) == 0) {
		status = touch(dirfd(d), argv[3], ttl_ms);
	} else if (argc == 3 && d && strcmp(argv[1], "sweep") == 0) {
		next = remove_ended(d, now_ms());
		if (next >= 0)
			status = arm(next);
	} else {
		fprintf(stderr,
			"usage: reaper touch DIRECTORY NAME TTL\n"
			"       reaper sweep DIRECTORY\n");
		status = 2;
	}
	if (d)
		closedir(d);
	return status;
}
