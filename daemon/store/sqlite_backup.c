/*
 * Copies: SQLite's online backup, a piece at a time. What a group changes between
 * two pieces is changed in the copied part as well, because both go through one
 * connection; so the copy is of the moment in which its last piece is made, and no
 * group waits for more than one piece.
 *
 *   begin -> COPYING --- step ---> COPYING (1)
 *                        step ---> WHOLE (0): closed, synced, the file stays
 *                        step ---> gone (negative): the file is removed
 *   end: of COPYING the file is removed
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/sqlite_int.h"

#define PIECE_PAGES 512 /* 2 MiB */

struct copying {
	sqlite3 *to;          /* owned */
	sqlite3_backup *back; /* owned */
	int fd;               /* of the copy; closed last: closing it drops SQLite's locks */
	char path[PATH_MAX];
};

/* Closes it all, for its outcome `rc`: 0 keeps the file. */
static void
finish(struct sqlite_store *st, int rc)
{
	struct copying *c = st->copying;

	(void)sqlite3_backup_finish(c->back);
	wq_assert(sqlite3_close(c->to) == SQLITE_OK);
	(void)close(c->fd);
	if (rc)
		(void)unlink(c->path);
	st->copying = NULL;
	x_free(c);
}

static int
open_copy(struct sqlite_store *st, struct copying *c)
{
	int rc = sqlite3_open_v2(c->path, &c->to,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

	/* Its own journal would be of no use: a copy that is not whole is thrown away. */
	if (!rc)
		rc = sqlite3_exec(c->to,
			"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF;"
			"PRAGMA synchronous = OFF",
			NULL, NULL, NULL);
	if (rc)
		return sq_code(c->to, rc);
	c->back = sqlite3_backup_init(c->to, "main", st->db, "main");
	return c->back ? 0 : sq_code(c->to, sqlite3_errcode(c->to));
}

int
sq_backup_begin(struct store *s, const char *path)
{
	struct sqlite_store *st = sqlite_store(s);
	struct copying *c;
	int rc;

	wq_assert(!st->in_group && !st->copying);
	if (strlen(path) >= sizeof c->path)
		return -ENAMETOOLONG;
	c = x_zalloc(sizeof *c);
	if (!c)
		return -ENOMEM;
	(void)snprintf(c->path, sizeof c->path, "%s", path);
	rc = sq_make_file(path, &c->fd);
	if (rc) {
		x_free(c);
		return rc;
	}
	st->copying = c;
	rc = open_copy(st, c);
	if (rc)
		finish(st, rc);
	return rc;
}

static int
sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	if (!slash)
		return sq_sync_dir(".");
	(void)snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return sq_sync_dir(dir);
}

/* All pages are there. */
static int
make_whole(struct copying *c)
{
	int rc = sqlite3_backup_finish(c->back);

	c->back = NULL;
	if (rc)
		return sq_code(c->to, rc);
	if (fsync(c->fd) != 0)
		return -errno;
	return sync_parent(c->path);
}

int
sq_backup_step(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);
	struct copying *c = st->copying;
	int rc;

	wq_assert(!st->in_group);
	if (!c)
		return -ECANCELED;
	rc = sqlite3_backup_step(c->back, PIECE_PAGES);
	if (rc == SQLITE_OK)
		return 1;
	rc = rc == SQLITE_DONE ? make_whole(c) : sq_code(c->to, rc);
	finish(st, rc);
	return rc;
}

void
sq_backup_end(struct store *s)
{
	struct sqlite_store *st = sqlite_store(s);

	if (st->copying)
		finish(st, -ECANCELED);
}
