/*
 * Where a job stands, in few bytes: as the difference from what was to be expected
 * after the entry before. Used by the log of moves (sqlite_log.c), whose rows are
 * runs of entries in the order in which they happened, and by the blocks of
 * positions, which hold sixteen jobs of neighbouring numbers. Nothing here knows
 * SQLite.
 *
 *   run      varint: the boot of the moves in it; then entries
 *   entry    one byte: kind, and a bit for each of the fields that a move changes;
 *            varint: the job's number; of a put another varint, a bit for each of
 *            the other fields; then the fields whose bit is set, as differences
 *   block    two bytes: which of the sixteen are there; then a put for each,
 *            without its number
 *
 * Expected is what the entry before had; of the sequence one more, of the boot
 * deadline the same distance from the delay, of the wall deadline from that.
 * A heartbeat of many takes eight to nine bytes.
 */
#ifndef WQD_STORE_POSITION_H
#define WQD_STORE_POSITION_H

#include <stdint.h>

#include "engine/engine.h"
#include "engine/ids.h"
#include "store/sqlite_schema.h"

#define X(f, ...) POSITION_##f,
enum { JOB_FIELDS(X) POSITION_FIELDS };
#undef X

/* The fields of struct job_saved, in the order of JOB_FIELDS. */
struct position {
	int64_t v[POSITION_FIELDS];
};

void
position_of(const struct job_saved *j, struct position *p);
void
position_to(const struct position *p, struct job_saved *j);
/* Each field is what JOB_FIELDS allows. */
bool
position_in_range(const int64_t v[POSITION_FIELDS]);

/* Bytes that grow. Zeroed is empty. */
struct bytes {
	uint8_t *p; /* owned */
	size_t n, cap;
};
/* Room for `n` more. 0 or -ENOMEM. */
int
bytes_reserve(struct bytes *b, size_t n);
void
bytes_done(struct bytes *b);

/* Numbers in them: seven bits a byte, the lowest first. Returns the end of what it wrote, at most
 * VARINT_MAX bytes. */
#define VARINT_MAX 10
uint8_t *
varint_put(uint8_t *p, uint64_t v);
/* Moves *p on. 0 or ERR_DAMAGED. */
int
varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v);
/* A number whose sign stands in its last bit. */
uint64_t
unzigzag(uint64_t v);

/* ---- runs ---- */

enum entry_kind {
	ENTRY_PUT,   /* the job stands there now */
	ENTRY_MOVED, /* it has another deadline, in the boot of the run: the fields of is_moved() */
	ENTRY_REMOVED /* there is no such job */
};
#define ENTRY_KINDS 3

/* A run being made. */
struct moves_writer {
	struct bytes bytes;
	size_t n; /* entries */
	uint64_t boot;
	struct position last;
};
void
moves_begin(struct moves_writer *w, uint64_t boot);
/* `p` is not looked at for ENTRY_REMOVED. 0 or -ENOMEM: then the run is as it was. */
int
moves_add(struct moves_writer *w, enum entry_kind kind, uint32_t id, const struct position *p);

/* A run being read: stands on an entry after moves_next has returned 1. */
struct moves_reader {
	const uint8_t *p, *end;
	enum entry_kind kind;
	uint32_t id;
	struct position at; /* of a move: its fields and the boot alone */
	uint64_t boot;
};
/* The bytes are borrowed. 0 or ERR_DAMAGED. */
int
moves_open(struct moves_reader *r, struct str bytes);
/* 1, 0 at the end, ERR_DAMAGED. */
int
moves_next(struct moves_reader *r);

/* Brings the fields of a move from `from` into `p`. */
void
position_move(struct position *p, const struct position *from);

/* ---- blocks ---- */

#define BLOCK_JOBS 16

struct block {
	uint16_t there; /* bits */
	struct position p[BLOCK_JOBS];
};
static inline uint32_t
block_of(uint32_t id)
{
	return id / BLOCK_JOBS;
}
/* Replaces what is in `b`. 0 or -ENOMEM. */
int
block_write(const struct block *k, struct bytes *b);
/* 0 or ERR_DAMAGED. */
int
block_read(struct block *k, struct str bytes);

#endif
