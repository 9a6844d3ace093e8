/*
 * The hot messages by hand: update, batch of updates and cancel in, the replies
 * to them out, read and written in place. For the files of wire/ alone.
 *
 * It is an opinion on the usual, not a second decoder: whatever is not as every
 * sane client sends it (an unknown or repeated field, an unknown number, a time
 * out of range, a length that does not fit) is left to protobuf-c, which then
 * says what it is. So the two agree where both answer, which tests/unit/test_hot
 * and the fuzz target `hot` hold against each other.
 */
#ifndef WQD_WIRE_HOT_H
#define WQD_WIRE_HOT_H

#include <stdbool.h>

#include "wire/wire.h"

/* True: `*out` is the request, with nothing wrong in it; it borrows from `p`, a batch from `a` too.
 * False: not one of these, or not a usual one; *out is undefined. */
bool
hot_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out);

/* wire_decode without that: by protobuf-c, whatever it is. */
int
wire_decode_any(struct arena *a, const uint8_t *p, size_t n, struct request *out, const char **why);

/* The message is at most so long, with what may be written behind it. */
#define HOT_REPLY_MAX 88u

/* True when the reply is nothing but numbers. */
static inline bool
hot_reply(const struct job_reply *r, bool made_key)
{
	return !r->run && !r->message && !made_key;
}
/* The fields of such a Reply; returns their bytes. */
size_t
hot_put_reply(uint8_t dst[HOT_REPLY_MAX], uint64_t id, const struct job_reply *r);
/* The same of a Result. */
size_t
hot_put_result(uint8_t dst[HOT_REPLY_MAX], const struct job_reply *r);

#endif
