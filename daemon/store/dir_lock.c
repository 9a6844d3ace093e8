#include "store/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "store/store_error.h"

enum { BYTE_EXCLUDES, BYTE_TELLS };

static struct flock
lock_of(off_t byte)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
	};
}

/* Made with mode 0600 whatever the umask, or opened as it is. */
static int
open_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return errno == EEXIST ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	(void)fchmod(fd, 0600);
	return fd;
}

static int
refused(int fd, const char *path, struct store_error *err)
{
	struct flock l = lock_of(BYTE_TELLS);

	if (fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK && l.l_pid > 0)
		return store_fail(err, ERR_LOCKED, path, "locked by process %d", (int)l.l_pid);
	return store_fail(err, ERR_LOCKED, path, "locked by another store");
}

int
dir_lock_take(const char *dir, int *out, struct store_error *err)
{
	struct flock excludes = lock_of(BYTE_EXCLUDES), tells = lock_of(BYTE_TELLS);
	char path[sizeof err->path];
	int fd, e;

	(void)snprintf(path, sizeof path, "%s/lock", dir);
	fd = open_lock(path);
	if (fd < 0)
		return store_fail(err, -errno, path, "open for writing: %s", err_str(-errno));
	if (fcntl(fd, F_OFD_SETLK, &excludes) == 0) {
		(void)fcntl(fd, F_SETLK, &tells);
		*out = fd;
		return 0;
	}
	e = errno == EACCES ? EAGAIN : errno;
	e = e == EAGAIN ? refused(fd, path, err)
			: store_fail(err, -e, path, "lock: %s", err_str(-e));
	(void)close(fd);
	return e;
}
