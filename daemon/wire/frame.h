/*
 * Framing: each message is preceded by its length as a protobuf varint (the
 * "delimited" form). Pure functions over bytes.
 */
#ifndef WQD_WIRE_FRAME_H
#define WQD_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * Looks for a whole frame at the front of `p[0..n)`. >0: bytes of the frame with
 * its length; message at *msg, *len. 0: more bytes needed (at least *need in
 * all, when known, else n+1). ERR_TOO_LONG: announces more than `max`.
 * ERR_MALFORMED: the length is no varint of at most 5 bytes.
 */
long
frame_next_any(
	const uint8_t *p, size_t n, size_t max, const uint8_t **msg, size_t *len, size_t *need);
static inline long
frame_next(const uint8_t *p, size_t n, size_t max, const uint8_t **msg, size_t *len, size_t *need)
{
	/* Whole, and shorter than 128 bytes, as most are. */
	if (n > 0 && p[0] < 0x80 && p[0] < n && p[0] <= max) {
		*msg = p + 1;
		*len = p[0];
		return 1 + (long)p[0];
	}
	return frame_next_any(p, n, max, msg, len, need);
}
/* Writes the length; returns bytes written (1 to 5). */
size_t
frame_put_len(uint8_t dst[5], uint32_t len);

#endif
