/*
 * What the files that take requests apart share; nobody else includes it.
 *
 *   decode.c       messages to requests, and all operations but
 *   decode_care.c  those of care
 */
#ifndef WQD_WIRE_DECODE_H
#define WQD_WIRE_DECODE_H

#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "wire/arena.h"
#include "wire/wire.h"

struct decode {
	struct arena *arena;
	const char *why; /* the first thing wrong, or NULL */
	bool full;       /* the arena had no room */
};

static inline void
wrong(struct decode *d, const char *why)
{
	if (!d->why)
		d->why = why;
}

/* protobuf-c terminates text in a block of its own, one byte longer; absent text is its empty
 * constant. */
static inline struct str
text(const char *z)
{
	if (z == (const char *)protobuf_c_empty_string)
		return STR_NONE;
	return (struct str){ z, arena_block_size(z) - 1 };
}

static inline struct str
bytes(ProtobufCBinaryData b)
{
	return (struct str){ (const char *)b.data, b.len };
}

static inline int64_t
ms(struct decode *d, int64_t v)
{
	if (v < 0)
		wrong(d, "a time is negative");
	else if (v > INT64_MAX / NS_PER_MS)
		wrong(d, "a time is out of range");
	else
		return v * NS_PER_MS;
	return 0;
}

/* A span that may be absent: -1. The case of a oneof with one member is its field number or 0. */
static inline int64_t
optional_ms(struct decode *d, int has_case, int64_t v)
{
	return has_case ? ms(d, v) : -1;
}

#define AS_KNOWN(name, num, ...) case name:
#define ENUM_READER(func, TABLE, type, what) \
	static inline enum type func(struct decode *d, int v) \
	{ \
		switch ((enum type)v) { \
			TABLE(AS_KNOWN) \
			return (enum type)v; \
		} \
		wrong(d, "unknown " what); \
		return (enum type)0; \
	}

ENUM_READER(read_level, DURABILITY_TABLE, durability, "durability")
ENUM_READER(read_state, JOB_STATE_TABLE, job_state, "job state")

/* ---- decode_care.c ---- */

void
decode_export(struct decode *d, const void *m, struct request *out);
void
decode_import(struct decode *d, const void *m, struct request *out);

#endif
