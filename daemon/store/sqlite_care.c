/*
 * Care of the database: the log kept short, figures.
 *
 * The log is brought back when it has grown past CHECKPOINT_FRAMES; the next
 * group then starts it over. Its file is cut when one huge group, or a time in
 * which the main file could not be written, has left it larger than LOG_KEEP: that is
 * looked at each CUT_NS, and not more often, as a file that has to grow again costs
 * more than one that is written over.
 * On a full disk the log is brought back as well: the next try reuses its space.
 * So that it can be, the main file has some of the disk set aside behind its end,
 * half of which is given to the log then.
 *
 * The main file gives pages back to the system when more than half of it is
 * free, so that it follows the jobs there are, not the most there ever were.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "store/sqlite_int.h"

#define CHECKPOINT_FRAMES 1536         /* 6 MiB of pages */
#define RESERVE           (8ll << 20)  /* bytes set aside */
#define LOG_KEEP          (8ull << 20) /* bytes of log file that may stay */
#define CUT_NS            (10 * NS_PER_S)
#define LOG_MOST          (64ull << 20) /* it is cut at once */
#define FRAME_HEADER      24
#define SHRINK_PAGES      2048 /* given back at a time, and fewer free ones are let be */

static uint64_t
file_bytes(const char *path, const char *suffix)
{
	char name[600];
	struct stat sb;

	(void)snprintf(name, sizeof name, "%s%s", path, suffix);
	return stat(name, &sb) == 0 ? (uint64_t)sb.st_size : 0;
}

int
sq_make_file(const char *path, int *out)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) != 0) {
		rc = -errno;
		(void)close(fd);
		(void)unlink(path);
		return rc;
	}
	*out = fd;
	return 0;
}

int
sq_sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) != 0)
		rc = -errno;
	(void)close(fd);
	return rc;
}

/* ---- figures ---- */

void
sq_count_written(struct sqlite_store *st)
{
	int pages = 0, high;

	if (sqlite3_db_status(st->db, SQLITE_DBSTATUS_CACHE_WRITE, &pages, &high, 1) == SQLITE_OK)
		st->stats.bytes_written += (uint64_t)pages * (st->page_size + FRAME_HEADER);
}

void
sq_stats(struct store *s, struct store_stats *out)
{
	struct sqlite_store *st = sqlite_store(s);

	*out = st->stats;
	out->file_bytes = file_bytes(st->path, "");
	out->wal_bytes = file_bytes(st->path, "-wal");
}

int
sq_in_place(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);
	int moved = 0;

	if (sqlite3_file_control(st->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK)
		return 0;
	return moved ? ERR_GONE : 0;
}

/* ---- checkpoint ---- */

/* Never more than a quarter of what is free; a file system that can't goes without. */
void
sq_reserve(struct sqlite_store *st)
{
	struct statvfs fs;
	struct stat sb;
	int64_t n;

	if (st->file_fd < 0 || fstat(st->file_fd, &sb) != 0 || fstatvfs(st->file_fd, &fs) != 0)
		return;
	n = (int64_t)(fs.f_bavail / 4 * fs.f_frsize);
	n = n < RESERVE ? n : RESERVE;
	if (n > sb.st_blocks * 512 - sb.st_size)
		(void)fallocate(st->file_fd, FALLOC_FL_KEEP_SIZE, sb.st_size, n);
}

/* Half of it goes back, so that the log can be begun; the other half is the main file's. */
static void
share_reserve(struct sqlite_store *st)
{
	struct stat sb;
	int64_t spare;

	if (st->file_fd < 0 || fstat(st->file_fd, &sb) != 0)
		return;
	spare = sb.st_blocks * 512 - sb.st_size;
	if (spare < (int64_t)st->page_size * 2)
		return;
	(void)fallocate(st->file_fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
		sb.st_size + spare / 2, spare);
}

static int
note_frames(void *ctx, sqlite3 *db, const char *name, int frames)
{
	struct sqlite_store *st = ctx;

	(void)db;
	(void)name;
	st->log_frames = (uint64_t)frames;
	return SQLITE_OK;
}

void
sq_care_init(struct sqlite_store *st)
{
	(void)sqlite3_wal_hook(st->db, note_frames, st);
}

static int64_t
pragma_number(struct sqlite_store *st, const char *sql)
{
	sqlite3_stmt *q;
	int64_t v = 0;

	if (sqlite3_prepare_v2(st->db, sql, -1, &q, NULL) != SQLITE_OK)
		return 0;
	if (sqlite3_step(q) == SQLITE_ROW)
		v = sqlite3_column_int64(q, 0);
	(void)sqlite3_finalize(q);
	return v;
}

/* A failure leaves the file as large as it is; the next checkpoint tries again. */
static void
give_pages_back(struct sqlite_store *st)
{
	int64_t spare = pragma_number(st, "PRAGMA freelist_count");
	char sql[64];

	if (spare < SHRINK_PAGES || spare < pragma_number(st, "PRAGMA page_count") / 2)
		return;
	(void)snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%d)", SHRINK_PAGES);
	(void)sqlite3_exec(st->db, sql, NULL, NULL, NULL);
}

/* Brings the log back, and cuts its file where that is larger than `keep`. */
static int
shorten_log(struct sqlite_store *st, uint64_t keep)
{
	int rc;

	give_pages_back(st);
	rc = sqlite3_wal_checkpoint_v2(st->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (!rc && file_bytes(st->path, "-wal") > keep)
		rc = sqlite3_wal_checkpoint_v2(
			st->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	if (!rc) {
		st->log_frames = 0;
		sq_reserve(st);
	}
	return sq_error(st, rc);
}

int
sq_checkpoint(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);

	wq_assert(!st->in_group);
	if (st->now_ns - st->cut_ns >= CUT_NS) {
		st->cut_ns = st->now_ns;
		if (file_bytes(st->path, "-wal") > LOG_KEEP)
			return shorten_log(st, LOG_KEEP);
	}
	return st->log_frames < CHECKPOINT_FRAMES ? 0 : shorten_log(st, LOG_MOST);
}

bool
sq_tidy(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);

	wq_assert(!st->in_group);
	if (!st->writable || st->schema != STORE_SCHEMA_VERSION)
		return false;
	if (sq_log_tidy(st)) {
		(void)sq_checkpoint(s);
		return true;
	}
	/* The log's file is cut once nothing is going on. */
	if (file_bytes(st->path, "-wal") > LOG_KEEP)
		(void)shorten_log(st, LOG_KEEP);
	return false;
}

/* A checkpoint cuts the main file at its end, and with that off what is set aside behind: on a full
 * disk it is taken again at once, less what the file has grown. */
void
sq_bring_back(struct sqlite_store *st)
{
	struct stat was = { 0 }, is;
	int64_t kept;

	if (st->file_fd >= 0 && fstat(st->file_fd, &was) != 0)
		was.st_blocks = 0;
	(void)sqlite3_wal_checkpoint_v2(st->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (st->file_fd < 0 || fstat(st->file_fd, &is) != 0)
		return;
	kept = was.st_blocks * 512 - is.st_size;
	if (kept > 0 && is.st_blocks < was.st_blocks)
		(void)fallocate(st->file_fd, FALLOC_FL_KEEP_SIZE, is.st_size, kept);
}

void
sq_make_room(struct sqlite_store *st)
{
	share_reserve(st);
	sq_bring_back(st);
}
