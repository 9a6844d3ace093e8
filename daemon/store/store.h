/*
 * The store: where durable state lives. One interface, several implementations
 * (store_sqlite.c, store_memory.c); a replicated one fits behind the same calls.
 *
 * A store is used by one thread at a time: the loop thread until recovery is
 * over, then the writer thread (writer.h), which owns it. Puts between begin
 * and commit are one group: all of it is on disk when commit returns 0, or none.
 * A stored thing is a position, put again as often as it moves; puts of
 * the same key replace each other.
 *
 * Ownership: a store (later: a partition of it) belongs to one daemon at a time.
 * claim() hands out a token that grows with each owner; every commit checks it,
 * and ERR_STALE_TOKEN tells that another took over.
 */
#ifndef WQD_STORE_STORE_H
#define WQD_STORE_STORE_H

#include "base/clock.h"
#include "engine/engine.h"

#define STORE_SCHEMA_VERSION 4

struct store;

/* What open or recovery has to say about a failure: for one line to the operator. */
struct store_error {
	int code;         /* err.h: ERR_NEWER_SCHEMA, ERR_DAMAGED, ERR_LOCKED, -EACCES, ... */
	char path[512];   /* the file it is about */
	char detail[512]; /* what was seen: "schema 9999, this wqd knows 1" */
	char next[256];   /* what to do: "install the newer wqd or restore a backup" */
};

/* Facts of the state directory. */
struct store_meta {
	char instance[37];    /* random UUID made with the database; marks children's environment */
	bool fresh;           /* made by this very open: nobody has had it before */
	bool same_boot;       /* the last commit was made in this boot */
	uint64_t boot;        /* this boot's number, as the rows of jobs carry it; 0: not known */
	int64_t last_wall_ns; /* wall time of the last commit */
	uint64_t token;       /* ownership */
};

/* Receives the stored state: queues first, then jobs in the order of their numbers, then runs in
 * order, then answers, then completions. A negative return stops and is passed on. */
struct recover_sink {
	void *ctx;
	int (*queue)(void *ctx, struct str name, const struct queue_settings *s, bool paused);
	int (*job)(void *ctx, const struct job_saved *j);
	int (*run)(void *ctx, uint64_t run_seq, const struct run_record *r);
	int (*answer)(void *ctx, const struct answer_saved *a);
	int (*completion)(void *ctx, const struct completion_saved *c);
	/* Called now and then: `done` of about `total` things, not less; at the end of as many. May
	 * be NULL. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	/* Called before any job: about so many will come. May be NULL. */
	void (*expect)(void *ctx, uint64_t jobs);
	/* Called before a job with the name of the one behind it, where that is known: its key will lie
	 * in the same memory. May be NULL. */
	void (*ahead)(void *ctx, struct str queue, struct str key);
};

struct store_stats {
	uint64_t commits, failed_commits, puts;
	uint64_t bytes_written; /* to the log, by groups */
	uint64_t file_bytes, wal_bytes;
};

/* How much of each is stored. */
struct store_counts {
	uint64_t queues, jobs, runs, answers, completions;
};

struct store_ops {
	const char *name;
	int (*recover)(struct store *st, const struct recover_sink *sink, struct store_error *err);
	int (*begin)(struct store *st);
	/* The puts of a group; the sink's ctx is the store. They never fail by themselves:
	 * the first failure is kept and returned by commit. */
	const struct persist_sink *(*sink)(struct store *st);
	/* Ends the group. `sync`: on disk when it returns. (SQLite syncs without, too: `async`
	 * promises to lose an interval at most, also at a loss of power.) 0, ERR_STORE, -ENOSPC,
	 * -EIO, ERR_STALE_TOKEN; on failure nothing of the group is stored. */
	int (*commit)(struct store *st, struct moment now, bool sync);
	/* Brings the log back into the main file when it has grown enough to be worth it, as far
	 * as readers allow. Called by the writer after each group. Never blocks long. */
	int (*checkpoint)(struct store *st);
	/* A piece of what may wait until nothing is asked for: false when there is no more. Called by
	 * the writer while it is idle. Never blocks long; a failure is tried again another time. */
	bool (*tidy)(struct store *st);
	/*
	 * A copy of the whole in the file `path`, which must not exist, made in steps so that
	 * groups go on between them; one copy at a time. A step gives 1 while there is more to do,
	 * and 0 when the copy is synced: what it holds then is the state of this moment. Negative:
	 * it could not be made, and nothing is left of it. `backup_end` ends it, whatever state it is
	 * in; a copy that was not whole goes.
	 */
	int (*backup_begin)(struct store *st, const char *path);
	int (*backup_step)(struct store *st);
	void (*backup_end)(struct store *st);
	/* Whether the files are in order: every page, but not what stands in it. Takes its time (0.2 s
	 * for a million jobs), and no group is committed meanwhile. 0, ERR_DAMAGED, -EIO ... */
	int (*check)(struct store *st, struct store_error *err);
	int (*claim)(struct store *st, const char *owner, uint64_t *token);
	int (*renew)(struct store *st, uint64_t token);
	int (*release)(struct store *st, uint64_t token);
	void (*stats)(struct store *st, struct store_stats *out);
	/* 0, or ERR_GONE: what is written goes into a file that has lost its name. */
	int (*in_place)(struct store *st);
	/* A last checkpoint, then gone. */
	void (*close)(struct store *st);
};

struct store {
	const struct store_ops *ops;
	struct store_meta meta;
};

/*
 * Opens or creates the database in `dir` (exists, ours). Takes the lock of the
 * directory for the life of the store: ERR_LOCKED when another daemon has it.
 * A newer schema, a damaged or unreadable file: an error, and not a byte changed.
 */
int
store_sqlite_open(const char *dir, struct store **out, struct store_error *err);
/* The same by a process that has had it open until just now, over an exec: its pages were looked at
 * then. */
int
store_sqlite_open_again(const char *dir, struct store **out, struct store_error *err);
/* All steps of a copy at once. 0, or why it could not be made. */
int
store_backup(struct store *st, const char *path);
/* Files and rows: all is read, every sum is compared, nothing is changed. A second for a million jobs;
 * no group is committed meanwhile. 0, ERR_DAMAGED with what was seen, -EIO ... */
int
store_check(struct store *st, struct store_counts *out, struct store_error *err);
/* Keeps nothing. For queues of level memory alone, and for tests. */
int
store_memory_open(struct store **out);

#endif
