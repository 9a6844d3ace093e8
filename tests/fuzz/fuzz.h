/*
 * What the fuzz targets share. A target is a file fuzz_NAME.c with
 * LLVMFuzzerTestOneInput; it is built twice: with libFuzzer (--enable-fuzzers),
 * to search, and with replay.c, to try the seeds and some changed copies of them
 * in every make check. A finding becomes a seed.
 *
 * Checks are wq_assert: libFuzzer and the replay both see the abort.
 */
#ifndef WQD_TESTS_FUZZ_H
#define WQD_TESTS_FUZZ_H

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/str.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a row of values; empty, it gives zeros and empty texts. */
struct fuzz_in {
	const uint8_t *p;
	size_t n;
};

/* Of `bytes` (1 to 8) bytes. */
static inline uint64_t
fuzz_int(struct fuzz_in *in, size_t bytes)
{
	uint64_t v = 0;

	for (; bytes > 0 && in->n > 0; bytes--) {
		v = v << 8 | *in->p++;
		in->n--;
	}
	return v;
}

/* 0 .. n-1, n at most 256. */
static inline unsigned
fuzz_below(struct fuzz_in *in, unsigned n)
{
	return (unsigned)fuzz_int(in, 1) % n;
}

/* Borrowed; at most `max` bytes, of a length that is the input's choice. */
static inline struct str
fuzz_str(struct fuzz_in *in, size_t max)
{
	size_t n = (size_t)fuzz_int(in, max > 255 ? 2 : 1) % (max + 1);
	struct str s;

	if (n > in->n)
		n = in->n;
	s = (struct str){ (const char *)in->p, n };
	in->p += n;
	in->n -= n;
	return s;
}

/* A copy without what is behind it, so that a byte read too far is found. The caller's, x_free;
 * with a terminator when `terminated`. */
static inline char *
fuzz_copy(const void *p, size_t n, bool terminated)
{
	char *copy = must_alloc(n + terminated);

	if (n)
		memcpy(copy, p, n);
	if (terminated)
		copy[n] = '\0';
	return copy;
}

/* Touches every byte of it. */
static inline void
fuzz_read(struct str s)
{
	volatile char sum = 0;

	for (size_t i = 0; i < s.n; i++)
		sum = (char)(sum ^ s.p[i]);
}

#endif
