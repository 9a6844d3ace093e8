/*
 * Opening and making the database.
 *
 * It goes from what harms nothing to what changes something:
 *
 *   lock of the directory -> look at the files -> connect, check every page
 *   -> (recover) -> first claim or group: from here on the files may change
 *
 * A new database is made under another name, synced and renamed, so that there
 * is never a half-made one: a short file under the real name is damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"
#include "store/dir_lock.h"
#include "store/sqlite_int.h"
#include "store/sqlite_look.h"
#include "store/store_error.h"
#include "store/uuid.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
/* How long an open waits for another program that has the database open. */
#define FOREIGN_WAIT_MS 1000

#define SETUP \
	"PRAGMA locking_mode = EXCLUSIVE;" \
	"PRAGMA synchronous = FULL;" \
	"PRAGMA wal_autocheckpoint = 0;" \
	"PRAGMA cell_size_check = ON;" \
	"PRAGMA trusted_schema = OFF;" \
	"PRAGMA mmap_size = 0;" \
	"PRAGMA cache_size = -16384;"

/* "" where the kernel does not tell: then no boot is the same as another. */
static void
read_boot_id(char dst[BOOT_ID_BYTES])
{
	int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, dst, BOOT_ID_BYTES - 1);

	if (fd >= 0)
		(void)close(fd);
	dst[n == BOOT_ID_BYTES - 1 ? n : 0] = '\0';
}

/* What rows carry of it: rows of several boots lie side by side. */
static uint64_t
boot_number(const char id[BOOT_ID_BYTES])
{
	static const uint64_t key[2] = { 0 };

	return id[0] ? siphash13(key, id, BOOT_ID_BYTES - 1) & INT64_MAX : 0;
}

/* ---- opening ---- */

int
sq_prepare(struct sqlite_store *st, int n)
{
#define X(name, text) text,
	static const char *const texts[] = { STATEMENT_TABLE(X) };
#undef X
	int rc = SQLITE_OK;

	for (int i = 0; i < n && !rc; i++)
		if (!st->q[i])
			rc = sqlite3_prepare_v3(
				st->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &st->q[i], NULL);
	return rc;
}

static int
prepare_all(struct sqlite_store *st, struct store_error *err)
{
	static const int n[] = { 0, Q_OF_SCHEMA_1, Q_OF_SCHEMA_2, Q_OF_SCHEMA_2, Q_COUNT };
	int rc = sq_prepare(st, n[st->schema]);

	return rc ? sq_fail(st, rc, err, "tables") : 0;
}

static int
connect_to(struct sqlite_store *st, struct store_error *err)
{
	int rc = sqlite3_open_v2(st->path, &st->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
			SQLITE_OPEN_EXRESCODE,
		NULL);

	if (rc)
		return st->db ? sq_fail(st, rc, err, "open")
			      : store_fail(err, -ENOMEM, st->path, "open");
	(void)sqlite3_db_config(st->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void)sqlite3_db_config(st->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_busy_timeout(st->db, FOREIGN_WAIT_MS);
	rc = sqlite3_exec(st->db, SETUP, NULL, NULL, NULL);
	if (!rc)
		rc = sq_jobs_init(st);
	if (rc)
		return sq_fail(st, rc, err, "open");
	sq_care_init(st);
	return 0;
}

/* What stands in the files says whether they are ours to open at all. */
static int
judge(const struct sqlite_store *st, const struct sqlite_look *l, struct store_error *err)
{
	if (l->application != SCHEMA_APPLICATION_ID)
		return store_fail(err, ERR_NOT_OURS, st->path,
			"a database of another program (application id %#x)", l->application);
	if (l->schema > STORE_SCHEMA_VERSION)
		return store_fail(err, ERR_NEWER_SCHEMA, st->path, "schema %u, this wqd knows %d",
			l->schema, STORE_SCHEMA_VERSION);
	if (l->schema < 1)
		return store_fail(err, ERR_DAMAGED, st->path, "schema 0");
	return 0;
}

static int
open_existing(struct sqlite_store *st, const struct sqlite_look *l, struct store_error *err)
{
	int rc = judge(st, l, err);

	if (rc)
		return rc;
	st->log_is_ours = !l->has_log;
	st->page_size = l->page_size;
	st->schema = l->schema;
	/* Without it nothing is set aside. */
	st->file_fd = open(st->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	rc = connect_to(st, err);
	if (!rc && !st->again)
		rc = sq_check(st, err);
	if (!rc)
		rc = prepare_all(st, err);
	if (!rc)
		rc = sq_meta_get(st, err);
	if (rc)
		return rc;
	st->pub.meta.same_boot = st->boot[0] && str_eq(str_from(st->boot), str_from(st->last_boot));
	return 0;
}

/* ---- making a new database ---- */

static int
fill_new(sqlite3 *db)
{
	struct row r;
	char uuid[UUID_TEXT], sql[160];
	sqlite3_stmt *q = NULL;
	int rc;

	uuid_make(uuid);
	(void)snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		SCHEMA_APPLICATION_ID, STORE_SCHEMA_VERSION);
	rc = sqlite3_exec(db,
		"PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL;"
		"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
		"BEGIN;" SCHEMA_TABLES,
		NULL, NULL, NULL);
	if (!rc)
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	if (!rc)
		rc = sqlite3_prepare_v2(db,
			"INSERT INTO meta (id, instance, boot, wall_ns, token, owner, sum)"
			" VALUES (1, ?, ?, ?, ?, ?, ?)",
			-1, &q, NULL);
	if (rc)
		return rc;
	r = row_begin(q, ROW_META);
	row_text(&r, str_from(uuid));
	row_text(&r, STR(""));
	row_int(&r, 0);
	row_int(&r, 0);
	row_text(&r, STR(""));
	rc = row_end(&r);
	if (!rc && sqlite3_step(q) != SQLITE_DONE)
		rc = sqlite3_errcode(db);
	(void)sqlite3_finalize(q);
	if (!rc)
		rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	/* All of it into the one file that is renamed. */
	if (!rc)
		rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return rc;
}

static void
remove_with_logs(const char *path)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };
	char name[sizeof((struct sqlite_store *)0)->path + 16];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
		(void)unlink(name);
	}
}

static int
make_new(struct sqlite_store *st, struct store_error *err)
{
	char path[sizeof st->path + 8], log[sizeof path + 8];
	int rc, fd;

	(void)snprintf(path, sizeof path, "%s.new", st->path);
	(void)snprintf(log, sizeof log, "%s-wal", path);
	remove_with_logs(path); /* of a start that was cut off */
	rc = sq_make_file(path, &fd);
	if (rc)
		return store_fail(err, rc, path, "make: %s", err_str(rc));
	(void)close(fd);
	rc = sqlite3_open_v2(path, &st->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
			SQLITE_OPEN_EXRESCODE,
		NULL);
	if (!rc)
		rc = fill_new(st->db);
	if (rc)
		rc = sq_fail(st, rc, err, "make");
	wq_assert(sqlite3_close(st->db) == SQLITE_OK);
	st->db = NULL;
	if (!rc)
		(void)unlink(log); /* empty */
	if (!rc && (rename(path, st->path) != 0 || sq_sync_dir(st->dir) != 0))
		rc = store_fail(err, -errno, st->path, "make: %s", err_str(-errno));
	if (rc)
		remove_with_logs(path);
	return rc;
}

static int
open_locked(struct sqlite_store *st, struct store_error *err)
{
	struct sqlite_look l;
	int rc = sqlite_look(st->path, &l, err);

	if (!rc && !l.exists) {
		rc = make_new(st, err);
		st->pub.meta.fresh = !rc;
		if (!rc)
			rc = sqlite_look(st->path, &l, err);
	}
	return rc ? rc : open_existing(st, &l, err);
}

/*
 * The names by which everything is opened. The folder may be a link (systemd makes one for
 * DynamicUser=, people make them to other disks); a link in its place is followed once, here,
 * because SQLite follows none at all.
 */
static int
set_names(struct sqlite_store *st, const char *dir, struct store_error *err)
{
	char real[PATH_MAX];

	/* What can't be resolved is for the lock to explain. */
	if (strlen(dir) < sizeof st->dir && realpath(dir, real))
		dir = real;
	if (strlen(dir) >= sizeof st->dir)
		return store_fail(err, -ENAMETOOLONG, dir, "%s", err_str(-ENAMETOOLONG));
	memcpy(st->dir, dir, strlen(dir) + 1);
	(void)snprintf(st->path, sizeof st->path, "%s/" DB_NAME, st->dir);
	return 0;
}

static int
open_store(const char *dir, bool again, struct store **out, struct store_error *err)
{
	struct sqlite_store *st = x_zalloc(sizeof *st);
	int rc;

	if (!st)
		return store_fail(err, -ENOMEM, dir, "open");
	st->magic = SQLITE_STORE_MAGIC;
	st->again = again;
	st->pub.ops = &sq_ops;
	st->lock_fd = st->file_fd = -1;
	sq_put_init(st);
	read_boot_id(st->boot);
	st->pub.meta.boot = boot_number(st->boot);
	rc = set_names(st, dir, err);
	if (!rc)
		rc = dir_lock_take(st->dir, &st->lock_fd, err);
	if (!rc)
		rc = open_locked(st, err);
	if (rc) {
		sq_disconnect(st);
		return rc;
	}
	*out = &st->pub;
	return 0;
}

int
store_sqlite_open(const char *dir, struct store **out, struct store_error *err)
{
	return open_store(dir, false, out, err);
}

int
store_sqlite_open_again(const char *dir, struct store **out, struct store_error *err)
{
	return open_store(dir, true, out, err);
}
