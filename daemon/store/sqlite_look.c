#include "store/sqlite_look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/store_error.h"

/* Sizes and offsets of the SQLite 3 file format, https://sqlite.org/fileformat2.html */
#define DB_HEADER       100
#define DB_MAGIC        "SQLite format 3" /* with its terminator */
#define DB_PAGE_SIZE    16
#define DB_USER_VERSION 60
#define DB_APPLICATION  68
#define PAGE_SIZE_MIN   512
#define PAGE_SIZE_MAX   65536
#define LOG_HEADER      32
#define LOG_MAGIC       0x377f0682u /* last bit: words of the checksum are big-endian */
#define FRAME_HEADER    24

/* A log being read, frame by frame. */
struct log_scan {
	int fd;
	uint32_t page_size;
	bool big_endian;
	uint32_t salt[2], sum[2];
	uint8_t *frame; /* owned; header and page */
	bool broken;    /* the chain of checksums ended before this frame */
	unsigned lost;  /* commits behind the break */
	uint8_t first[DB_HEADER], pending[DB_HEADER];
	bool has_first, has_pending; /* page 1 was in a commit; in the transaction being read */
};

static uint32_t
be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t
word(const uint8_t *p, bool big_endian)
{
	uint32_t v = be32(p);

	return big_endian ? v : __builtin_bswap32(v);
}

/* The log's running checksum over `n` bytes, a multiple of 8. */
static void
log_sum(struct log_scan *s, const uint8_t *p, size_t n)
{
	uint32_t a = s->sum[0], b = s->sum[1];

	for (size_t i = 0; i < n; i += 8) {
		a += word(p + i, s->big_endian) + b;
		b += word(p + i + 4, s->big_endian) + a;
	}
	s->sum[0] = a;
	s->sum[1] = b;
}

static bool
page_size_ok(uint32_t n)
{
	return n >= PAGE_SIZE_MIN && n <= PAGE_SIZE_MAX && (n & (n - 1)) == 0;
}

static uint32_t
db_page_size(const uint8_t *h)
{
	uint32_t n = (uint32_t)h[DB_PAGE_SIZE] << 8 | h[DB_PAGE_SIZE + 1];

	return n == 1 ? PAGE_SIZE_MAX : n;
}

/* False when the log is empty, or its header was never finished: SQLite ignores it then. */
static bool
log_begin(struct log_scan *s)
{
	uint8_t h[LOG_HEADER];

	if (pread(s->fd, h, sizeof h, 0) != (ssize_t)sizeof h || (be32(h) | 1) != (LOG_MAGIC | 1))
		return false;
	s->big_endian = be32(h) & 1;
	s->page_size = be32(h + 8);
	s->salt[0] = be32(h + 16);
	s->salt[1] = be32(h + 20);
	log_sum(s, h, 24);
	return page_size_ok(s->page_size) && s->sum[0] == be32(h + 24) && s->sum[1] == be32(h + 28);
}

static void
log_frame(struct log_scan *s)
{
	const uint8_t *h = s->frame, *page = h + FRAME_HEADER;
	bool commit = be32(h + 4) != 0;

	/* Frames of an earlier turn of the log carry another salt: they are in the main file. */
	if (be32(h + 8) != s->salt[0] || be32(h + 12) != s->salt[1]) {
		s->broken = true;
		return;
	}
	if (!s->broken) {
		log_sum(s, h, 8);
		log_sum(s, page, s->page_size);
		s->broken = s->sum[0] != be32(h + 16) || s->sum[1] != be32(h + 20);
	}
	if (s->broken) {
		s->lost += commit;
		return;
	}
	if (be32(h) == 1) {
		memcpy(s->pending, page, DB_HEADER);
		s->has_pending = true;
	}
	if (commit && s->has_pending) {
		memcpy(s->first, s->pending, DB_HEADER);
		s->has_first = true;
	}
}

static int
log_read(struct log_scan *s)
{
	size_t size = FRAME_HEADER + s->page_size;
	off_t at = LOG_HEADER;

	s->frame = x_alloc(size);
	if (!s->frame)
		return -ENOMEM;
	for (ssize_t got; (got = pread(s->fd, s->frame, size, at)) != 0; at += (off_t)size) {
		if (got < 0)
			return -errno;
		if ((size_t)got < size)
			break;
		log_frame(s);
	}
	return 0;
}

/* Puts the newest committed header, when the log has one, over the main file's in `header`. */
static int
look_at_log(const char *db_path, uint8_t header[DB_HEADER], struct store_error *err)
{
	char path[sizeof err->path + 8];
	struct log_scan s = { 0 };
	int rc = 0;

	(void)snprintf(path, sizeof path, "%s-wal", db_path);
	s.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s.fd < 0)
		return store_fail(err, -errno, path, "open for writing: %s", err_str(-errno));
	if (log_begin(&s))
		rc = log_read(&s);
	if (rc)
		store_fail(err, rc, path, "read: %s", err_str(rc));
	else if (s.lost >= 2)
		rc = store_fail(err, ERR_DAMAGED, path,
			"broken in the middle: %u commits behind the break", s.lost);
	else if (s.has_first)
		memcpy(header, s.first, DB_HEADER);
	x_free(s.frame);
	(void)close(s.fd);
	return rc;
}

static int
read_header(const char *path, uint8_t header[DB_HEADER], struct store_error *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;
	int e;

	if (fd < 0)
		return store_fail(
			err, -errno, path, "open for reading and writing: %s", err_str(-errno));
	n = pread(fd, header, DB_HEADER, 0);
	e = n < 0 ? -errno : 0;
	(void)close(fd);
	if (e)
		return store_fail(err, e, path, "read: %s", err_str(e));
	if (n < DB_HEADER)
		return store_fail(err, ERR_DAMAGED, path, "cut off after %zd bytes", n);
	if (memcmp(header, DB_MAGIC, sizeof DB_MAGIC) != 0)
		return store_fail(err, ERR_DAMAGED, path, "not an SQLite database");
	if (!page_size_ok(db_page_size(header)))
		return store_fail(err, ERR_DAMAGED, path, "its header makes no sense");
	return 0;
}

/* The directory must take new files too: the log comes and goes. */
static int
check_directory(const char *path, struct store_error *err)
{
	char dir[sizeof err->path];

	(void)snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
	if (faccessat(AT_FDCWD, dir, R_OK | W_OK | X_OK, AT_EACCESS) != 0)
		return store_fail(err, -errno, dir, "not writable: %s", err_str(-errno));
	return 0;
}

/* The bytes in the file `path` with `suffix`; -1 when there is none. */
static off_t
size_beside(const char *path, const char *suffix)
{
	char name[sizeof((struct store_error *)0)->path + 16];
	struct stat sb;

	(void)snprintf(name, sizeof name, "%s%s", path, suffix);
	return lstat(name, &sb) == 0 ? sb.st_size : -1;
}

static int
judge_absent(const char *path, off_t log_bytes, struct store_error *err)
{
	if (log_bytes <= 0)
		log_bytes = size_beside(path, "-journal");
	if (log_bytes > 0)
		return store_fail(err, ERR_DAMAGED, path,
			"gone, but its log of %lld bytes is there", (long long)log_bytes);
	return 0;
}

int
sqlite_look(const char *path, struct sqlite_look *out, struct store_error *err)
{
	struct sqlite_look l = { 0 };
	off_t log_bytes = size_beside(path, "-wal");
	uint8_t header[DB_HEADER] = { 0 };
	struct stat db;
	int rc = check_directory(path, err);

	if (rc)
		return rc;
	l.has_log = log_bytes >= 0;
	l.exists = lstat(path, &db) == 0;
	if (!l.exists && errno != ENOENT)
		return store_fail(err, -errno, path, "%s", err_str(-errno));
	if (!l.exists) {
		rc = judge_absent(path, log_bytes, err);
	} else if (!S_ISREG(db.st_mode)) {
		rc = store_fail(err, ERR_NOT_OURS, path, "not a regular file");
	} else {
		rc = read_header(path, header, err);
		if (!rc && log_bytes > 0)
			rc = look_at_log(path, header, err);
		l.schema = be32(header + DB_USER_VERSION);
		l.application = be32(header + DB_APPLICATION);
		l.page_size = db_page_size(header);
	}
	if (!rc)
		*out = l;
	return rc;
}
