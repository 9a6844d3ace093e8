/*
 * The store on SQLite: groups, ownership, the end. Opening is in sqlite_open.c.
 *
 * Commits always sync, also those that need not: `async` promises to lose an
 * interval at most, at a loss of power too, and a group costs one sync however
 * many jobs are in it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/sqlite_int.h"
#include "store/store_error.h"

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
	case SQLITE_CANTOPEN:
		return sqlite3_system_errno(db) ? -sqlite3_system_errno(db) : ERR_STORE;
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

static int
run(struct sqlite_store *st, sqlite3_stmt *q)
{
	int rc;

	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		;
	rc = sq_error(st, rc);
	(void)sqlite3_reset(q);
	return rc;
}

int
sq_run(struct sqlite_store *st, enum statement s)
{
	return run(st, st->q[s]);
}

int
sq_run_row(struct sqlite_store *st, const struct row *r)
{
	return r->rc ? sq_error(st, r->rc) : run(st, r->q);
}

int
sq_run_on(struct sqlite_store *st, enum statement s, int64_t v)
{
	struct row r = row_begin(st->q[s], ROW_NONE);

	row_plain_int(&r, v);
	return sq_run_row(st, &r);
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

int
sq_meta_get(struct sqlite_store *st, struct store_error *err)
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
	if (!rc && st->schema == STORE_SCHEMA_VERSION)
		rc = sq_log_wall(st, &m->last_wall_ns);
	if (rc == ERR_DAMAGED)
		return store_fail(err, rc, st->path, "its facts are damaged");
	return rc ? store_fail(err, rc, st->path, "read: %s", err_str(rc)) : 0;
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
	rc = sq_run_row(st, &r);
	if (!rc && sqlite3_changes(st->db) != 1)
		return ERR_STALE_TOKEN;
	return rc;
}

int
sq_meta_put(struct sqlite_store *st)
{
	const struct store_meta *m = &st->pub.meta;

	return meta_put(st, m, st->last_boot, st->owner, m->token);
}

/* Whoever has taken over has another token. The row itself is written once in a boot: the log has
 * the time. */
static int
meta_check(struct sqlite_store *st, int64_t wall_ns)
{
	struct store_meta m = st->pub.meta;
	int64_t token = 0;
	int rc = sq_number(st, Q_META_TOKEN, &token);

	if (!rc && (uint64_t)token != m.token)
		rc = ERR_STALE_TOKEN;
	if (rc || strcmp(st->last_boot, st->boot) == 0)
		return rc;
	m.last_wall_ns = wall_ns;
	return meta_put(st, &m, st->boot, st->owner, m.token);
}

/* ---- groups ---- */

static int
set_log_mode(struct sqlite_store *st)
{
	sqlite3_stmt *q;
	int rc;

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
	sq_reserve(st);
	return 0;
}

static int
make_writable(struct sqlite_store *st)
{
	int rc = st->writable ? 0 : set_log_mode(st);

	if (rc || (st->q[Q_COUNT - 1] && st->schema == STORE_SCHEMA_VERSION))
		return rc;
	return sq_upgrade(st);
}

static int
sq_begin(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);
	int rc;

	wq_assert(!st->in_group);
	rc = make_writable(st);
	if (!rc)
		rc = sq_log_begin(st);
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

int
sq_end(struct sqlite_store *st, int rc)
{
	if (!rc)
		rc = sq_run(st, Q_COMMIT);
	/* Some failures have rolled back by themselves. */
	if (rc && !sqlite3_get_autocommit(st->db))
		(void)sq_run(st, Q_ROLLBACK);
	if (rc)
		sq_put_forget(st);
	st->in_group = false;
	if (rc == -ENOSPC)
		sq_make_room(st);
	sq_count_written(st);
	return rc;
}

static int
sq_commit(struct store *s, struct moment now, bool sync)
{
	struct sqlite_store *st = sqlite_store(s);
	int rc = st->failed;

	(void)sync; /* always: see above */
	wq_assert(st->in_group);
	if (!rc)
		rc = sq_log_commit(st, now.wall_ns);
	if (!rc)
		rc = meta_check(st, now.wall_ns);
	rc = sq_end(st, rc);
	sq_log_ended(st, rc);
	if (rc) {
		st->stats.failed_commits++;
		return rc;
	}
	st->pub.meta.last_wall_ns = now.wall_ns;
	st->now_ns = now.boot_ns;
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
	rc = sq_end(st, meta_put(st, &m, st->last_boot, owner, m.token - 1));
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
	rc = sq_meta_get(sqlite_store(s), NULL); /* who owned it is no matter now */
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

void
sq_disconnect(struct sqlite_store *st)
{
	bool tidy = st->trusted && !st->damaged;

	sq_backup_end(&st->pub);
	for (int i = 0; i < Q_COUNT; i++)
		(void)sqlite3_finalize(st->q[i]);
	if (st->db) {
		(void)sqlite3_db_config(st->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !tidy, NULL);
		wq_assert(sqlite3_close(st->db) == SQLITE_OK);
		if (tidy)
			sq_reserve(st); /* the last checkpoint may have cut it off */
		else
			remove_own_log(st);
	}
	if (st->file_fd >= 0)
		(void)close(st->file_fd);
	if (st->lock_fd >= 0)
		(void)close(st->lock_fd);
	sq_put_done(st);
	sq_log_done(st);
	MAGIC_DONE(st);
	x_free(st);
}

static void
sq_close(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);

	if (st->in_group)
		(void)sq_end(st, -ECANCELED);
	sq_disconnect(st);
}

const struct store_ops sq_ops = {
	.name = "sqlite",
	.recover = sq_recover,
	.begin = sq_begin,
	.sink = sq_sink,
	.commit = sq_commit,
	.checkpoint = sq_checkpoint,
	.tidy = sq_tidy,
	.check = sq_check_files,
	.backup_begin = sq_backup_begin,
	.backup_step = sq_backup_step,
	.backup_end = sq_backup_end,
	.claim = sq_claim,
	.renew = sq_renew,
	.release = sq_release,
	.stats = sq_stats,
	.in_place = sq_in_place,
	.close = sq_close,
};
