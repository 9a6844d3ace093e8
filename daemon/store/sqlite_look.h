/*
 * A look at a database without SQLite: opening one, even to read, may make,
 * fill or remove the files beside it, and what must be refused must stay as it
 * was. This reads the header of the newest committed first page, which is in
 * the main file or in its log, and judges what SQLite would pass over:
 *
 * - a log without its database, an empty database: SQLite would start afresh;
 * - a log broken in the middle: SQLite would take it to end there. A commit is
 *   synced before the next is written, so where two or more commits stand
 *   behind the break, it was not made by a loss of power.
 */
#ifndef WQD_STORE_SQLITE_LOOK_H
#define WQD_STORE_SQLITE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct sqlite_look {
	bool exists;     /* there is a database; else the directory is free for a new one */
	bool has_log;    /* there is a -wal file, be it empty */
	uint32_t schema; /* user_version */
	uint32_t application;
	uint32_t page_size;
};

/* `path`: of the database. 0, ERR_DAMAGED, ERR_NOT_OURS or -errno. Nothing is changed. */
int
sqlite_look(const char *path, struct sqlite_look *out, struct store_error *err);

#endif
