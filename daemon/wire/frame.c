#include "wire/frame.h"

#include "base/err.h"

#define LEN_BYTES_MAX 5

long
frame_next_any(
	const uint8_t *p, size_t n, size_t max, const uint8_t **msg, size_t *len, size_t *need)
{
	uint64_t v = 0;
	size_t i = 0;

	do {
		if (i == LEN_BYTES_MAX)
			return ERR_MALFORMED;
		if (i == n) {
			*need = n + 1;
			return 0;
		}
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
	} while (p[i++] & 0x80);
	if (v > max)
		return v > UINT32_MAX ? ERR_MALFORMED : ERR_TOO_LONG;
	if (n - i < v) {
		*need = i + (size_t)v;
		return 0;
	}
	*msg = p + i;
	*len = (size_t)v;
	return (long)(i + (size_t)v);
}

size_t
frame_put_len(uint8_t dst[5], uint32_t len)
{
	size_t n = 0;

	while (len > 0x7f) {
		dst[n++] = (uint8_t)(len | 0x80);
		len >>= 7;
	}
	dst[n++] = (uint8_t)len;
	return n;
}
