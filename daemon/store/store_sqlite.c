/*
 * The store on SQLite: opening and making the database, ownership, groups.
 *
 * Opening goes from what harms nothing to what changes something:
 *
 *   lock of the directory -> look at the files -> connect, check every page
 *   -> (recover) -> first claim or group: from here on the files may change
 *
 * A new database is made under another name, synced and renamed, so that there
 * is never a half-made one: a short file under the real name is damage.
 *
 * Commits always sync, also those that need not: `async` promises to lose an
 * interval at most, at a loss of power too, and a group costs one sync however
 * many jobs are in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
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

/* ---- errors and statements ---- */

static int
io_error(sqlite3 *db)
{
	int e = sqlite3_system_errno(db);

	return e == ENOSPC || e == EDQUOT ? -ENOSPC : -EIO;
}

int
sq_code(sqlite3 *db, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_IOERR:
		return rc == SQLITE_IOERR_NOMEM ? -ENOMEM : io_error(db);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return ERR_DAMAGED;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return ERR_LOCKED;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return -EROFS;
	default:
		return ERR_STORE;
	}
}

int
sq_error(struct sqlite_store *st, int rc)
{
	rc = sq_code(st->db, rc);
	if (rc == ERR_DAMAGED)
		st->damaged = true;
	return rc;
}

int
sq_fail(struct sqlite_store *st, int rc, struct store_error *err, const char *doing)
{
	/* "No such table", "unsupported format": the statements are right, so the file is not. */
	int code = sq_error(st, rc == SQLITE_ERROR ? SQLITE_CORRUPT : rc);

	if (code == ERR_LOCKED)
		return store_fail(err, code, st->path, "%s: another program has it open", doing);
	return store_fail(err, code, st->path, "%s: %s", doing,
		sqlite3_extended_errcode(st->db) == rc ? sqlite3_errmsg(st->db)
						       : sqlite3_errstr(rc));
}

int
sq_run(struct sqlite_store *st, enum statement s)
{
	int rc;

	while ((rc = sqlite3_step(st->q[s])) == SQLITE_ROW)
		;
	rc = sq_error(st, rc);
	(void)sqlite3_reset(st->q[s]);
	return rc;
}

int
sq_number(struct sqlite_store *st, enum statement s, int64_t *v)
{
	int rc = sqlite3_step(st->q[s]);

	*v = rc == SQLITE_ROW ? sqlite3_column_int64(st->q[s], 0) : 0;
	rc = sq_error(st, rc);
	(void)sqlite3_reset(st->q[s]);
	return rc;
}

/* ---- meta ---- */

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

static int
meta_get(struct sqlite_store *st, struct store_error *err)
{
	struct store_meta *m = &st->pub.meta;
	sqlite3_stmt *q = st->q[Q_META_GET];
	int rc = sqlite3_step(q);
	struct row r;

	if (rc != SQLITE_ROW) {
		(void)sqlite3_reset(q);
		if (rc != SQLITE_DONE)
			return sq_fail(st, rc, err, "read");
		return store_fail(err, ERR_DAMAGED, st->path, "its facts are missing");
	}
	r = row_open(q, ROW_META, 0);
	row_get_text(&r, m->instance, sizeof m->instance);
	row_get_text(&r, st->last_boot, sizeof st->last_boot);
	m->last_wall_ns = row_get_int(&r, INT64_MIN, INT64_MAX);
	m->token = (uint64_t)row_get_int(&r, 0, INT64_MAX);
	row_get_text(&r, st->owner, sizeof st->owner);
	rc = row_close(&r);
	(void)sqlite3_reset(q);
	if (rc)
		return store_fail(err, rc, st->path, "its facts are damaged");
	return 0;
}

/* Writes the facts when the stored token is still `old_token`. */
static int
meta_put(struct sqlite_store *st, const struct store_meta *m, const char *boot, const char *owner,
	uint64_t old_token)
{
	struct row r = row_begin(st->q[Q_META_PUT], ROW_META);
	int rc;

	row_text(&r, str_from(m->instance));
	row_text(&r, str_from(boot));
	row_int(&r, m->last_wall_ns);
	row_int(&r, (int64_t)m->token);
	row_text(&r, str_from(owner));
	(void)row_end(&r);
	row_plain_int(&r, (int64_t)old_token);
	rc = r.rc ? sq_error(st, r.rc) : sq_run(st, Q_META_PUT);
	if (!rc && sqlite3_changes(st->db) != 1)
		return ERR_STALE_TOKEN;
	return rc;
}

/* ---- groups ---- */

static int
make_writable(struct sqlite_store *st)
{
	sqlite3_stmt *q;
	int rc;

	if (st->writable)
		return 0;
	/* True already but for a copy that another program made. */
	rc = sqlite3_prepare_v2(st->db, "PRAGMA journal_mode = WAL", -1, &q, NULL);
	if (rc)
		return sq_error(st, rc);
	rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		st->writable = sqlite3_stricmp((const char *)sqlite3_column_text(q, 0), "wal") == 0;
	rc = sq_error(st, rc);
	(void)sqlite3_finalize(q);
	if (rc || !st->writable)
		return rc ? rc : ERR_STORE;
	st->trusted = true;
	return 0;
}

static int
sq_begin(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);
	int rc;

	wq_assert(!st->in_group);
	rc = make_writable(st);
	if (!rc)
		rc = sq_run(st, Q_BEGIN);
	if (rc) {
		st->stats.failed_commits++;
		return rc;
	}
	st->in_group = true;
	st->failed = 0;
	return 0;
}

static const struct persist_sink *
sq_sink(struct store *s)
{
	return &sqlite_store(s)->sink;
}

/* Ends the transaction that is open. 0 when it is on disk, else it never was. */
static int
end_group(struct sqlite_store *st, int rc)
{
	if (!rc)
		rc = sq_run(st, Q_COMMIT);
	/* Some failures have rolled back by themselves. */
	if (rc && !sqlite3_get_autocommit(st->db))
		(void)sq_run(st, Q_ROLLBACK);
	if (rc)
		sq_put_forget(st);
	st->in_group = false;
	sq_count_written(st);
	return rc;
}

static int
sq_commit(struct store *s, struct moment now, bool sync)
{
	struct sqlite_store *st = sqlite_store(s);
	struct store_meta m = st->pub.meta;
	int rc = st->failed;

	(void)sync; /* always: see above */
	wq_assert(st->in_group);
	m.last_wall_ns = now.wall_ns;
	if (!rc)
		rc = meta_put(st, &m, st->boot, st->owner, m.token);
	rc = end_group(st, rc);
	if (rc) {
		st->stats.failed_commits++;
		return rc;
	}
	st->pub.meta.last_wall_ns = m.last_wall_ns;
	memcpy(st->last_boot, st->boot, sizeof st->boot);
	st->stats.commits++;
	return 0;
}

/* ---- ownership ---- */

/* Takes the next token for `owner` ("": nobody). */
static int
next_token(struct sqlite_store *st, const char *owner, uint64_t *token)
{
	struct store_meta m = st->pub.meta;
	int rc;

	wq_assert(!st->in_group);
	rc = make_writable(st);
	if (!rc)
		rc = sq_run(st, Q_BEGIN);
	if (rc)
		return rc;
	m.token++;
	rc = end_group(st, meta_put(st, &m, st->last_boot, owner, m.token - 1));
	if (rc)
		return rc;
	(void)snprintf(st->owner, sizeof st->owner, "%s", owner);
	*token = m.token;
	return 0;
}

static int
sq_claim(struct store *s, const char *owner, uint64_t *token)
{
	int rc;

	if (!owner[0] || strlen(owner) >= OWNER_MAX)
		return ERR_BAD_VALUE;
	rc = meta_get(sqlite_store(s), NULL); /* who owned it is no matter now */
	if (!rc)
		rc = next_token(sqlite_store(s), owner, token);
	if (!rc)
		s->meta.token = *token;
	return rc;
}

/* The lock of the directory keeps the ownership alive: there is nothing to write. */
static int
sq_renew(struct store *s, uint64_t token)
{
	struct sqlite_store *st = sqlite_store(s);

	return token == st->pub.meta.token && st->owner[0] ? 0 : ERR_STALE_TOKEN;
}

/* The token goes on, so that what still holds the old one is refused. */
static int
sq_release(struct store *s, uint64_t token)
{
	uint64_t nobodys;
	int rc = sq_renew(s, token);

	return rc ? rc : next_token(sqlite_store(s), "", &nobodys);
}

/* ---- closing ---- */

static void
remove_own_log(const struct sqlite_store *st)
{
	char log[sizeof st->path + 8];
	struct stat sb;

	(void)snprintf(log, sizeof log, "%s-wal", st->path);
	if (st->log_is_ours && lstat(log, &sb) == 0 && sb.st_size == 0)
		(void)unlink(log);
}

static void
disconnect(struct sqlite_store *st)
{
	bool tidy = st->trusted && !st->damaged;

	for (int i = 0; i < Q_COUNT; i++)
		(void)sqlite3_finalize(st->q[i]);
	if (st->db) {
		(void)sqlite3_db_config(st->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !tidy, NULL);
		wq_assert(sqlite3_close(st->db) == SQLITE_OK);
		if (!tidy)
			remove_own_log(st);
	}
	if (st->lock_fd >= 0)
		(void)close(st->lock_fd);
	sq_put_done(st);
	MAGIC_DONE(st);
	x_free(st);
}

static void
sq_close(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);

	if (st->in_group)
		(void)end_group(st, -ECANCELED);
	disconnect(st);
}

static const struct store_ops sqlite_ops = {
	.name = "sqlite",
	.recover = sq_recover,
	.begin = sq_begin,
	.sink = sq_sink,
	.commit = sq_commit,
	.checkpoint = sq_checkpoint,
	.backup = sq_backup,
	.claim = sq_claim,
	.renew = sq_renew,
	.release = sq_release,
	.stats = sq_stats,
	.close = sq_close,
};

/* ---- opening ---- */

static int
prepare_all(struct sqlite_store *st, struct store_error *err)
{
#define X(name, text) text,
	static const char *const texts[] = { STATEMENT_TABLE(X) };
#undef X
	for (int i = 0; i < Q_COUNT; i++) {
		int rc = sqlite3_prepare_v3(
			st->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &st->q[i], NULL);
		if (rc)
			return sq_fail(st, rc, err, "tables");
	}
	return 0;
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
	rc = connect_to(st, err);
	if (!rc)
		rc = sq_check(st, err);
	if (!rc)
		rc = prepare_all(st, err);
	if (!rc)
		rc = meta_get(st, err);
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
		"PRAGMA journal_mode = WAL; BEGIN;" SCHEMA_TABLES,
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
		if (!rc)
			rc = sqlite_look(st->path, &l, err);
	}
	return rc ? rc : open_existing(st, &l, err);
}

int
store_sqlite_open(const char *dir, struct store **out, struct store_error *err)
{
	struct sqlite_store *st = x_zalloc(sizeof *st);
	int rc;

	if (!st)
		return store_fail(err, -ENOMEM, dir, "open");
	st->magic = SQLITE_STORE_MAGIC;
	st->pub.ops = &sqlite_ops;
	st->lock_fd = -1;
	sq_put_init(st);
	(void)snprintf(st->dir, sizeof st->dir, "%s", dir);
	(void)snprintf(st->path, sizeof st->path, "%s/" DB_NAME, st->dir);
	read_boot_id(st->boot);
	if (strlen(dir) >= sizeof st->dir)
		rc = store_fail(err, -ENAMETOOLONG, dir, "%s", err_str(-ENAMETOOLONG));
	else
		rc = dir_lock_take(dir, &st->lock_fd, err);
	if (!rc)
		rc = open_locked(st, err);
	if (rc) {
		disconnect(st);
		return rc;
	}
	*out = &st->pub;
	return 0;
}
