/*
 * What the files of the SQLite store share; nobody else includes this.
 *
 *   store_sqlite.c    begin and commit, ownership, close
 *   sqlite_open.c     opening and making the database
 *   sqlite_look.c     judging files without touching them
 *   sqlite_check.c    whether every page is in order
 *   sqlite_row.c      rows and their sums
 *   sqlite_put.c      the puts of a group
 *   sqlite_log.c      the log of moves, folded into blocks
 *   sqlite_recover.c  reading everything back
 *   sqlite_jobs.c     the jobs of it, on two threads
 *   sqlite_old.c      older schemas: reading them, and the upgrade
 *   sqlite_care.c     checkpoint, figures
 *   sqlite_backup.c   copies
 *
 * The database belongs to this connection alone (locking mode exclusive): no
 * reader can hold up a checkpoint, no shared-memory file is needed, which a full
 * disk could not hold, and no other program can get between two commits.
 * A database that was refused is closed without a checkpoint: nothing in it, nor
 * beside it, is changed.
 */
#ifndef WQD_STORE_SQLITE_INT_H
#define WQD_STORE_SQLITE_INT_H

#include <sqlite3.h>
#include <stdbool.h>

#include "base/assert.h"
#include "store/overlay.h"
#include "store/position.h"
#include "store/sqlite_row.h"
#include "store/sqlite_schema.h"
#include "store/store.h"

#define SQLITE_STORE_MAGIC 0x53514c53u
#define DB_NAME            "wqd.db"
#define BOOT_ID_BYTES      37 /* with terminator */
#define OWNER_MAX          64

enum fold_state { FOLD_NONE, FOLD_READING, FOLD_WRITING, FOLD_CLEARING };

/* The log of moves, as it is in the open transaction. */
struct sqlite_log {
	bool known;          /* the next six are right */
	int64_t rows, bytes; /* in the log */
	int64_t first, last; /* numbers of its rows; 0: it is empty */
	int64_t block_bytes; /* of all blocks */
	uint32_t top;        /* no job has a greater number */
	enum fold_state fold;
	int64_t fold_last;             /* the newest row that is folded */
	int64_t fold_at;               /* the next to be read */
	uint32_t fold_top, fold_block; /* the last number; the next block */
	struct overlay overlay;        /* of the range that is folded */
	unsigned tight;                /* groups before which all is folded */
};

struct reader;

struct sqlite_store {
	unsigned magic;
	struct store pub;
	struct persist_sink sink;
	sqlite3 *db;              /* owned */
	sqlite3_stmt *q[Q_COUNT]; /* owned */
	int lock_fd;
	int file_fd; /* of the database; closed after SQLite has: closing drops its locks */
	char path[512];
	char dir[480];
	char boot[BOOT_ID_BYTES];      /* of this boot */
	char last_boot[BOOT_ID_BYTES]; /* of the last commit */
	char owner[OWNER_MAX];
	bool log_is_ours; /* the -wal file did not exist before */
	bool trusted;     /* seen whole and in order, or written to: may be tidied at close */
	bool again;       /* over an exec: not looked at once more */
	bool damaged;     /* seen since */
	bool writable;    /* in WAL mode, ready for commits */
	bool in_group;
	int failed;              /* first failure of the group */
	struct bytes payload[2]; /* as written last: the pending one's, the running one's */
	/* The queue met last: jobs of one queue come in rows. */
	char queue_name[QUEUE_NAME_MAX];
	size_t queue_name_len; /* 0: none */
	int64_t queue_id;
	struct reader *reader; /* while the jobs are read back */
	/* The log of moves. */
	uint32_t schema;
	struct moves_writer moves; /* of this group */
	struct sqlite_log log;
	struct bytes block;  /* written last */
	uint64_t log_frames; /* in the log after the last commit */
	int64_t now_ns;      /* boot time of the last commit */
	int64_t cut_ns;      /* when the length of the log's file was looked at */
	uint32_t page_size;
	struct copying *copying;  /* owned; a copy under way, else NULL */
	struct store_stats stats; /* file sizes are looked up when asked for */
};

static inline struct sqlite_store *
sqlite_store(struct store *s)
{
	struct sqlite_store *st = container_of(s, struct sqlite_store, pub);

	CHECK_OBJ(st, SQLITE_STORE_MAGIC);
	return st;
}

/* ---- store_sqlite.c ---- */

/* Our code for SQLite's `rc` on `db` (SQLITE_OK, ROW and DONE are 0). */
int
sq_code(sqlite3 *db, int rc);
/* The same on the store's own database: takes note of damage. */
int
sq_error(struct sqlite_store *st, int rc);
/* A failed look at the database, told to the operator with what SQLite says. Returns our code. */
int
sq_fail(struct sqlite_store *st, int rc, struct store_error *err, const char *doing);
/* Runs a statement whose parameters are bound to its end and resets it. 0 or our code. */
int
sq_run(struct sqlite_store *st, enum statement s);
/* The same for the one whose parameters were bound as `r`, with what came of that. */
int
sq_run_row(struct sqlite_store *st, const struct row *r);
/* The same for one whose only parameter is a number. */
int
sq_run_on(struct sqlite_store *st, enum statement s, int64_t v);
/* sq_run for one that returns a number: *v is 0 when it has no row. */
int
sq_number(struct sqlite_store *st, enum statement s, int64_t *v);
/* Writes the facts as they are: the time of the last commit among them. */
int
sq_meta_put(struct sqlite_store *st);
/* Ends the transaction that is open: commits when `rc` is 0, else rolls back. 0 when it is on
 * disk, else it never was. */
int
sq_end(struct sqlite_store *st, int rc);

extern const struct store_ops sq_ops;
/* Reads the facts of the database. */
int
sq_meta_get(struct sqlite_store *st, struct store_error *err);
/* Closes and frees; what was refused or found damaged stays as it is. */
void
sq_disconnect(struct sqlite_store *st);

/* ---- sqlite_open.c ---- */

/* Prepares the first `n` statements, those that are not. An error of SQLite, or SQLITE_OK. */
int
sq_prepare(struct sqlite_store *st, int n);

/* ---- sqlite_check.c ---- */

/* 0, ERR_DAMAGED, or why it could not be read. */
int
sq_check(struct sqlite_store *st, struct store_error *err);
/* The same of a store in use: what is found is remembered. */
int
sq_check_files(struct store *s, struct store_error *err);

/* ---- sqlite_put.c ---- */

void
sq_put_init(struct sqlite_store *st);
void
sq_put_done(struct sqlite_store *st);
/* What was remembered of a group that is not going to be. */
void
sq_put_forget(struct sqlite_store *st);
/* A job's row, payloads included, by the statement `q`. 0 or our code. */
int
sq_put_job_row(struct sqlite_store *st, sqlite3_stmt *q, int64_t queue, const struct job_saved *j);

/* ---- sqlite_log.c ---- */

/* The greatest number of a job, and that of the log's newest row (0: it is empty). 0 or our code. */
int
sq_log_size(struct sqlite_store *st, uint32_t *top, int64_t *last);
/* Lays rows *at .. last over `o` until about `budget` bytes were read; *at is the next. 0, -ENOMEM,
 * ERR_DAMAGED... */
int
sq_log_read(struct sqlite_store *st, struct overlay *o, int64_t *at, int64_t last, size_t budget);
/* The time of the last commit where the log has it, else *wall_ns as it is. */
int
sq_log_wall(struct sqlite_store *st, int64_t *wall_ns);
/* Before a group, outside of its transaction. */
int
sq_log_begin(struct sqlite_store *st);
/* A change of the group; `j` is not looked at for ENTRY_REMOVED. 0 or -ENOMEM. */
int
sq_log_add(struct sqlite_store *st, enum entry_kind kind, uint32_t id, const struct job_saved *j);
/* Writes what the group has added, and folds a piece. */
int
sq_log_commit(struct sqlite_store *st, int64_t wall_ns);
/* After a transaction that ended with `rc`. */
void
sq_log_ended(struct sqlite_store *st, int rc);
/* Folds a piece while nothing is asked for. True: there is more. */
bool
sq_log_tidy(struct sqlite_store *st);
/* What is under way is begun anew later. */
void
sq_log_abandon(struct sqlite_store *st);
void
sq_log_done(struct sqlite_store *st);
/* A row of table `moved` into `o`, unless that is NULL; it must be number `want`. 0, -ENOMEM,
 * ERR_DAMAGED. */
int
sq_moved_row(struct row r, int64_t want, struct overlay *o, int64_t *wall_ns);
/* A row of table `position`: its number, positions, bytes of these. 0 or ERR_DAMAGED. */
int
sq_block_row(struct row r, uint32_t *number, struct block *k, size_t *bytes);
/* A block's row, by the statement `q`; it is in st->block then. 0 or our code. */
int
sq_put_block_row(struct sqlite_store *st, sqlite3_stmt *q, uint32_t number, const struct block *k);

/* ---- sqlite_old.c ---- */

/* The jobs of a database of schema 1 to 3, in the order of queues and keys, without the names of
 * their queues, with the numbers that the upgrade gives them. `each` returns 0 to go on. *what: of
 * damage. */
int
sq_old_jobs(struct sqlite_store *st,
	int (*each)(void *ctx, int64_t queue, const struct job_saved *j), void *ctx,
	const char **what);
/* Makes the database one of the newest schema, in one transaction. Cut off anywhere, it is done by
 * the next start. */
int
sq_upgrade(struct sqlite_store *st);

/* ---- sqlite_recover.c ---- */

int
sq_recover(struct store *s, const struct recover_sink *sink, struct store_error *err);

/* ---- sqlite_jobs.c ---- */

/* Before the statements are prepared. An error of SQLite, or SQLITE_OK. */
int
sq_jobs_init(struct sqlite_store *st);
/* All jobs of a database of the newest schema in the order of their numbers, without the names of
 * their queues; `ahead` (may be NULL) is the sink's. `each` returns 0 to go on. 0, what it returned,
 * or our code with *err filled. */
int
sq_newest_jobs(struct sqlite_store *st, int (*each)(void *ctx, int64_t queue, struct job_saved *j),
	void (*ahead)(void *ctx, int64_t queue, struct str key), void *ctx,
	struct store_error *err);

/* ---- sqlite_care.c ---- */

int
sq_checkpoint(struct store *s);
bool
sq_tidy(struct store *s);
/* The disk is full: lets the next group overwrite the log instead of adding to it. */
void
sq_make_room(struct sqlite_store *st);
/* Brings the log back at once. */
void
sq_bring_back(struct sqlite_store *st);
void
sq_stats(struct store *s, struct store_stats *out);
int
sq_in_place(struct store *s);
/* Takes down how much was written since the last call. */
void
sq_count_written(struct sqlite_store *st);
/* Sets space of the disk aside, for what must go on when it is full. */
void
sq_reserve(struct sqlite_store *st);
/* Starts to follow the growth of the log. */
void
sq_care_init(struct sqlite_store *st);
/* An empty file, of mode 0600 whatever the umask; SQLite gives its logs the mode of the database.
 * -EEXIST when there is one. 0 and a descriptor, or -errno. */
int
sq_make_file(const char *path, int *fd);
/* Makes the entry of a file in `dir` durable. 0 or -errno. */
int
sq_sync_dir(const char *dir);

/* ---- sqlite_backup.c ---- */

int
sq_backup_begin(struct store *s, const char *path);
int
sq_backup_step(struct store *s);
void
sq_backup_end(struct store *s);

#endif
