/*
 * What one process of the daemon hands to the next over an exec: a memory file of
 * records. A record has a kind and fields; a field has a tag and bytes, numbers
 * are eight of them. The same machine reads it that wrote it.
 *
 * Between versions: a reader takes what it knows of a record and leaves the
 * rest, and has a default for each field that is not there. CARRY_FORMAT grows
 * when that is not enough; CARRY_OLDEST says how far back a reader goes. Numbers
 * here, and those of states and kinds that are written as numbers, are never
 * given to anything else: new ones go to the end.
 */
#ifndef WQD_BASE_CARRY_H
#define WQD_BASE_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define CARRY_FORMAT 1u
#define CARRY_OLDEST 1u

/* In the order in which they are read: by the engine before it runs, and after; by the others. */
enum carry_kind {
	CARRY_HEAD = 1,
	CARRY_ENGINE,
	CARRY_COUNTER, /* of the engine, of the service */
	CARRY_QUEUE,
	CARRY_JOB,   /* that the store does not have */
	CARRY_EXTRA, /* of a job: what the store does not say */
	CARRY_RECORD,
	CARRY_COMPLETION,
	CARRY_ANSWER,
	CARRY_RUN, /* that goes on */
	CARRY_WAITER,
	CARRY_SUB,
	CARRY_LEASE,
	CARRY_LISTENER,
	CARRY_CONN,
	CARRY_SESSION, /* of the last CARRY_CONN; as all that follows */
	CARRY_TICKET,
	CARRY_WATCHER,
	CARRY_CHILD, /* a process of a run */
	CARRY_SHIFT,
	CARRY_MEMBER, /* a worker program */
	CARRY_SERVICE,
	CARRY_SERVICE_COUNTER,
	CARRY_COALESCED, /* of stored jobs: a push that moves nothing is not stored */
	CARRY_TURNS,     /* of workers in a queue */
	CARRY_END,       /* without it the file is not whole */
};

/* ---- out ---- */

struct carry_out {
	int fd;         /* owned; -1: none */
	struct buf buf; /* not yet in the file */
	size_t at;      /* of the record that is being made, in buf */
	int *fds;       /* owned; descriptors that go along */
	size_t n_fds;
	int error; /* the first; all is in vain then */
};

/* 0 or -errno. */
int
carry_out_new(struct carry_out *o);
void
carry_out_done(struct carry_out *o);
/* From begin to end one record. Errors are kept until carry_finish. */
void
carry_begin(struct carry_out *o, enum carry_kind kind);
void
carry_u64(struct carry_out *o, unsigned tag, uint64_t v);
static inline void
carry_i64(struct carry_out *o, unsigned tag, int64_t v)
{
	carry_u64(o, tag, (uint64_t)v);
}
void
carry_bytes(struct carry_out *o, unsigned tag, struct str s);
/* Nothing is written of an empty one. */
static inline void
carry_str(struct carry_out *o, unsigned tag, struct str s)
{
	if (s.n > 0)
		carry_bytes(o, tag, s);
}
/* A descriptor that goes along under its number; one below 0 is none, and nothing is written. */
void
carry_fd(struct carry_out *o, unsigned tag, int fd);
void
carry_end(struct carry_out *o);
/* The descriptors survive the exec that comes, or (`keep` false) it did not come and they don't. */
void
carry_keep_fds(const struct carry_out *o, bool keep);
/* Writes the last record, and nobody changes the file any more. 0, or the first error. */
int
carry_finish(struct carry_out *o);

/* ---- in ---- */

struct carry_in {
	const uint8_t *map; /* owned; NULL: nothing is carried */
	size_t n;
};

struct carry_record {
	enum carry_kind kind;
	const uint8_t *p; /* of its fields */
	size_t n;
};

/* The file of `fd`, which stays the caller's. 0, ERR_DAMAGED (not whole, or none of ours), -errno. */
int
carry_in_open(struct carry_in *in, int fd);
void
carry_in_close(struct carry_in *in);
/* The record at *at (0: the first), which moves on. False: that was the last. */
bool
carry_next(const struct carry_in *in, size_t *at, struct carry_record *out);
/* The field, or empty. */
struct str
carry_get(const struct carry_record *r, unsigned tag);
/* The field as text of a buffer of `size` bytes; "" if it is not there. 0, ERR_DAMAGED: it is longer than
 * that can be, and `dst` is left alone. */
int
carry_get_text(const struct carry_record *r, unsigned tag, char *dst, size_t size);
/* The number, or `otherwise`. */
uint64_t
carry_get_u64(const struct carry_record *r, unsigned tag, uint64_t otherwise);
static inline int64_t
carry_get_i64(const struct carry_record *r, unsigned tag, int64_t otherwise)
{
	return (int64_t)carry_get_u64(r, tag, (uint64_t)otherwise);
}
/* The descriptor, -1: none. */
int
carry_get_fd(const struct carry_record *r, unsigned tag);
/* carry_keep_fds, for all of the file. */
void
carry_in_keep_fds(const struct carry_in *in, bool keep);
/* All fields of that tag in order, `max` at most; how many there are. */
size_t
carry_get_all(const struct carry_record *r, unsigned tag, struct str *v, size_t max);

#endif
