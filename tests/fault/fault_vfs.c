#include "fault/fault_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "unit/random.h"

#define BLOCK     512
#define FILES_MAX 16

/* ---- when to fail ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under `lock`. */
static struct plan {
	long count[FAULT_OPS];
	enum fault_op op;
	long nth; /* 0: never */
	bool forever, disk_full, hit;
	struct {
		enum fault_op op;
		long nth;
		bool forever;
	} also;
	bool limited; /* `room` counts */
	long room;    /* bytes by which files may grow */
} plan;

static bool
is_change(enum fault_op op)
{
	return op == FAULT_WRITE || op == FAULT_SYNC || op == FAULT_TRUNCATE || op == FAULT_DELETE;
}

static bool
comes(long n, bool of_kind, long nth, bool forever)
{
	return of_kind && nth != 0 && (n == nth || (forever && n > nth));
}

static bool
due(enum fault_op op)
{
	long n = ++plan.count[op];
	bool hit = comes(n, op == plan.op, plan.nth, plan.forever) ||
		comes(n, op == plan.also.op, plan.also.nth, plan.also.forever);

	plan.hit = plan.hit || hit;
	return hit;
}

static bool
fails(enum fault_op op)
{
	bool single, counted;

	pthread_mutex_lock(&lock);
	single = due(op);
	counted = is_change(op) && due(FAULT_CHANGE);
	pthread_mutex_unlock(&lock);
	return single || counted;
}

static bool
disk_full(void)
{
	bool full;

	pthread_mutex_lock(&lock);
	full = plan.disk_full;
	pthread_mutex_unlock(&lock);
	return full;
}

void
fault_set(enum fault_op op, long nth, bool forever, bool full)
{
	pthread_mutex_lock(&lock);
	plan = (struct plan){ .op = op, .nth = nth, .forever = forever, .disk_full = full };
	pthread_mutex_unlock(&lock);
	if (op == FAULT_ALLOC)
		alloc_fault_set(nth - 1, forever);
}

void
fault_also(enum fault_op op, long nth, bool forever)
{
	pthread_mutex_lock(&lock);
	plan.also.op = op;
	plan.also.nth = nth;
	plan.also.forever = forever;
	pthread_mutex_unlock(&lock);
}

void
fault_room(long bytes)
{
	pthread_mutex_lock(&lock);
	plan = (struct plan){ .limited = true, .room = bytes };
	pthread_mutex_unlock(&lock);
}

/* Whether there is room for `n` bytes more; takes it. */
static bool
has_room(long n)
{
	bool ok;

	pthread_mutex_lock(&lock);
	ok = !plan.limited || n <= plan.room;
	if (ok)
		plan.room -= n;
	else
		plan.hit = true;
	pthread_mutex_unlock(&lock);
	return ok;
}

/* An allocation that was to fail and still waits to: this takes it. */
static bool
alloc_fault_waits(const struct plan *p)
{
	for (long i = 0; i < p->nth; i++) {
		void *q = x_alloc(1);

		x_free(q);
		if (!q)
			return true;
	}
	return false;
}

bool
fault_clear(void)
{
	struct plan was;

	pthread_mutex_lock(&lock);
	was = plan;
	memset(&plan, 0, sizeof plan);
	pthread_mutex_unlock(&lock);
	if (was.op == FAULT_ALLOC && was.nth > 0) {
		/* One that fails for ever does so at once when it was reached. */
		void *q = was.forever ? x_alloc(1) : NULL;

		was.hit = was.forever ? !q : !alloc_fault_waits(&was);
		x_free(q);
	}
	alloc_fault_set(-1, 0);
	return was.hit;
}

/* ---- what is synced ---- */

struct image {
	char path[512]; /* "": free */
	bool exists;
	uint8_t *p; /* malloc'd */
	size_t n;
};

static bool tracking;
static struct image synced[FILES_MAX];

static void
image_read(struct image *im)
{
	int fd = open(im->path, O_RDONLY | O_CLOEXEC);
	struct stat sb;

	free(im->p);
	im->p = NULL;
	im->n = 0;
	im->exists = fd >= 0;
	if (fd < 0)
		return;
	wq_assert(fstat(fd, &sb) == 0);
	im->n = (size_t)sb.st_size;
	im->p = malloc(im->n + 1);
	wq_assert(im->p && pread(fd, im->p, im->n, 0) == (ssize_t)im->n);
	(void)close(fd);
}

/* The image of `path`, made when it is seen first. */
static struct image *
image_of(const char *path)
{
	for (int i = 0; i < FILES_MAX; i++) {
		struct image *im = &synced[i];

		if (strcmp(im->path, path) == 0)
			return im;
		if (im->path[0])
			continue;
		(void)snprintf(im->path, sizeof im->path, "%s", path);
		image_read(im);
		return im;
	}
	wq_assert(!"too many files");
	return NULL;
}

void
power_track(void)
{
	for (int i = 0; i < FILES_MAX; i++) {
		free(synced[i].p);
		synced[i] = (struct image){ .exists = false };
	}
	tracking = true;
}

/* Block by block the synced content or what was written over it. */
static void
image_settle(const struct image *old, struct rnd *rnd, unsigned chance)
{
	struct image now = { .exists = false };
	bool longer = rnd_below(rnd, 100) < chance;
	int fd;

	(void)snprintf(now.path, sizeof now.path, "%s", old->path);
	image_read(&now);
	if (!now.exists && !old->exists)
		return;
	fd = open(old->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	wq_assert(fd >= 0);
	for (size_t at = 0; at < old->n || at < now.n; at += BLOCK) {
		bool arrived = rnd_below(rnd, 100) < chance && at < now.n;
		const struct image *im = arrived ? &now : old;

		if (at < im->n)
			wq_assert(pwrite(fd, im->p + at, im->n - at < BLOCK ? im->n - at : BLOCK,
					  (off_t)at) > 0);
	}
	wq_assert(ftruncate(fd, (off_t)(longer ? now.n : old->n)) == 0);
	(void)close(fd);
	free(now.p);
}

void
power_loss(uint64_t seed, unsigned chance)
{
	struct rnd rnd = { seed };

	tracking = false;
	for (int i = 0; i < FILES_MAX && synced[i].path[0]; i++)
		image_settle(&synced[i], &rnd, chance);
	power_track();
	tracking = false;
}

/* ---- files ---- */

struct fault_file {
	sqlite3_file base;
	const char *path; /* SQLite's, lives as long as the file; NULL: temporary */
	sqlite3_file *real;
};

static sqlite3_vfs *below;

static sqlite3_file *
real_of(sqlite3_file *f)
{
	return ((struct fault_file *)f)->real;
}

static int
f_close(sqlite3_file *f)
{
	return real_of(f)->pMethods->xClose(real_of(f));
}

static int
f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return fails(FAULT_READ) ? SQLITE_IOERR_READ
				 : real_of(f)->pMethods->xRead(real_of(f), p, n, at);
}

/* By how much a write needs more of the disk than the file has, what it set aside included. */
static long
growth(sqlite3_file *f, sqlite3_int64 end)
{
	const struct fault_file *ff = (struct fault_file *)f;
	sqlite3_int64 size = 0;
	struct stat sb;

	(void)real_of(f)->pMethods->xFileSize(real_of(f), &size);
	if (ff->path && stat(ff->path, &sb) == 0 && sb.st_blocks * BLOCK > size)
		size = sb.st_blocks * BLOCK;
	return end > size ? (long)(end - size) : 0;
}

static int
f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	if (!has_room(growth(f, at + n)))
		return SQLITE_FULL;
	if (!fails(FAULT_WRITE))
		return real_of(f)->pMethods->xWrite(real_of(f), p, n, at);
	(void)real_of(f)->pMethods->xWrite(real_of(f), p, n / 2, at);
	return disk_full() ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int
f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE
				     : real_of(f)->pMethods->xTruncate(real_of(f), n);
}

static int
f_sync(sqlite3_file *f, int flags)
{
	const struct fault_file *ff = (struct fault_file *)f;

	(void)flags;
	if (fails(FAULT_SYNC))
		return disk_full() ? SQLITE_FULL : SQLITE_IOERR_FSYNC;
	if (tracking && ff->path)
		image_read(image_of(ff->path));
	return SQLITE_OK;
}

static int
f_size(sqlite3_file *f, sqlite3_int64 *n)
{
	return real_of(f)->pMethods->xFileSize(real_of(f), n);
}

static int
f_lock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int
f_unlock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int
f_reserved(sqlite3_file *f, int *out)
{
	return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int
f_control(sqlite3_file *f, int op, void *arg)
{
	return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int
f_sector(sqlite3_file *f)
{
	return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int
f_features(sqlite3_file *f)
{
	return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

/* Version 1 has no shared memory: whoever needed it would fail here. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = f_close,
	.xRead = f_read,
	.xWrite = f_write,
	.xTruncate = f_truncate,
	.xSync = f_sync,
	.xFileSize = f_size,
	.xLock = f_lock,
	.xUnlock = f_unlock,
	.xCheckReservedLock = f_reserved,
	.xFileControl = f_control,
	.xSectorSize = f_sector,
	.xDeviceCharacteristics = f_features,
};

static int
v_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
	struct fault_file *ff = (struct fault_file *)f;
	int rc;

	(void)v;
	f->pMethods = NULL;
	if (fails(FAULT_OPEN)) {
		errno = EMFILE;
		return SQLITE_CANTOPEN;
	}
	if (tracking && path)
		(void)image_of(path);
	ff->path = path;
	ff->real = (sqlite3_file *)(ff + 1);
	rc = below->xOpen(below, path, ff->real, flags, out_flags);
	if (rc == SQLITE_OK)
		f->pMethods = &methods;
	return rc;
}

static int
v_delete(sqlite3_vfs *v, const char *path, int sync_dir)
{
	(void)v;
	if (fails(FAULT_DELETE))
		return SQLITE_IOERR_DELETE;
	if (tracking)
		(void)image_of(path); /* until the directory is synced it may come back */
	return below->xDelete(below, path, sync_dir);
}

/* ---- memory ---- */

static sqlite3_mem_methods memory_below;

static void *
m_alloc(int n)
{
	return fails(FAULT_MALLOC) ? NULL : memory_below.xMalloc(n);
}

static void *
m_realloc(void *p, int n)
{
	return fails(FAULT_MALLOC) ? NULL : memory_below.xRealloc(p, n);
}

void
fault_install(void)
{
	static sqlite3_vfs vfs;
	sqlite3_mem_methods memory;

	wq_assert(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory_below) == SQLITE_OK);
	memory = memory_below;
	memory.xMalloc = m_alloc;
	memory.xRealloc = m_realloc;
	wq_assert(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) == SQLITE_OK);
	wq_assert(sqlite3_initialize() == SQLITE_OK);
	below = sqlite3_vfs_find(NULL);
	vfs = *below;
	vfs.zName = "fault";
	vfs.szOsFile = (int)sizeof(struct fault_file) + below->szOsFile;
	vfs.xOpen = v_open;
	vfs.xDelete = v_delete;
	wq_assert(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}
