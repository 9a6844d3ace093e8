/* Framing: whatever comes, in whatever pieces, is cut into the same frames. */
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/frame.h"

#define MAX 300 /* small, so that lengths beyond it are common */

struct front {
	long r;
	const uint8_t *msg;
	size_t len, need;
};

static struct front
look(const uint8_t *p, size_t n)
{
	/* what is behind the first n bytes must not matter */
	uint8_t *copy = (uint8_t *)fuzz_copy(p, n, false);
	struct front f = { 0 };

	f.r = frame_next(copy, n, MAX, &f.msg, &f.len, &f.need);
	if (f.r > 0) {
		wq_assert((size_t)f.r <= n && f.len <= MAX);
		wq_assert(f.msg > copy && f.msg - copy <= 5 && f.msg + f.len == copy + f.r);
		f.msg = p + (f.msg - copy);
	} else if (f.r == 0) {
		wq_assert(f.need > n && f.need <= MAX + 5);
	} else {
		wq_assert(f.r == ERR_TOO_LONG || f.r == ERR_MALFORMED);
	}
	x_free(copy);
	return f;
}

/* A shorter piece of the same asks for more, or sees the same error; it never sees a frame. */
static void
check_prefixes(const uint8_t *p, size_t n, struct front whole)
{
	size_t until = whole.r > 0 ? (size_t)whole.r : n;

	for (size_t k = 0; k < until && k < 8; k++) {
		struct front f = look(p, k);

		wq_assert(f.r == 0 || f.r == whole.r);
		if (f.r == 0 && whole.r > 0)
			wq_assert(f.need <= (size_t)whole.r);
	}
	if (until > 0 && whole.r > 0)
		wq_assert(look(p, until - 1).r == 0);
}

/* Written as we write it, the frame reads back, and in no more bytes. */
static void
check_round_trip(struct front f, const uint8_t *p)
{
	uint8_t again[5 + MAX];
	size_t head = frame_put_len(again, (uint32_t)f.len), len, need;
	const uint8_t *msg;

	wq_assert(head >= 1 && head <= (size_t)(f.msg - p));
	memcpy(again + head, f.msg, f.len);
	wq_assert(frame_next(again, head + f.len, MAX, &msg, &len, &need) == (long)(head + f.len));
	wq_assert(len == f.len && memcmp(msg, f.msg, len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t at = 0; at <= size;) {
		struct front f = look(data + at, size - at);

		check_prefixes(data + at, size - at, f);
		if (f.r <= 0)
			break;
		check_round_trip(f, data + at);
		at += (size_t)f.r;
	}
	return 0;
}
