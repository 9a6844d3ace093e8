/*
 * What the two encoders share: our structs as protobuf-c messages that borrow
 * from them, and frames. For the files of wire/ alone.
 */
#ifndef WQD_WIRE_ENCODE_H
#define WQD_WIRE_ENCODE_H

#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "wire/wire.h"

/* protobuf-c wants terminated text: a copy of a name for the time of the encoding. */
struct name_copy {
	char z[QUEUE_NAME_MAX + 1];
};

char *
encode_name(struct name_copy *copy, struct str name);
/* Borrows from `r` and `copy`. */
void
encode_run(Wq__V1__Run *pb, struct name_copy *copy, const struct run_record *r);
static inline ProtobufCBinaryData
encode_bytes(struct str s)
{
	return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}
/* Unix milliseconds of a wall time: rounded down, as all times on the wire. */
static inline int64_t
encode_ms(int64_t ns)
{
	return ns / NS_PER_MS - (ns % NS_PER_MS < 0);
}
/* Room for a frame of `n` bytes with its length written; NULL: *err is ERR_TOO_LONG or -ENOMEM.
 * The caller fills it; it is committed already. */
uint8_t *
encode_frame(struct buf *out, size_t n, int *err);
/* A whole message as a frame. */
int
encode_message(struct buf *out, const ProtobufCMessage *m);

#endif
