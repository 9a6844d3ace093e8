/*
 * A byte buffer with a maximum: filled at the end, consumed at the front.
 * Growth doubles up to `max`; a write that would pass it fails with
 * ERR_TOO_LONG and leaves the buffer as it was. Space freed at the front is
 * reused before the buffer grows. buf_init/buf_done, embedded. Not thread safe.
 *
 * Buffers that are full for a moment only, one after the other, can share a
 * spare: who gives its memory back leaves it there, who needs some takes it, so
 * that it need not grow from nothing each time.
 */
#ifndef WQD_BASE_BUF_H
#define WQD_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/str.h"

/* Zeroed: empty. */
struct buf_spare {
	uint8_t *data; /* owned */
	size_t cap;
};
/* The most that is kept there. */
#define BUF_SPARE_MAX (256u << 10)

struct buf {
	uint8_t *data; /* owned */
	size_t start;  /* first byte not yet consumed */
	size_t end;    /* one past the last byte */
	size_t cap;
	size_t max;              /* bytes held at most */
	struct buf_spare *spare; /* borrowed; NULL: none */
};

void
buf_init(struct buf *b, size_t max);
void
buf_done(struct buf *b);
/* Shares `spare`, which must outlive it, from now on. */
static inline void
buf_use_spare(struct buf *b, struct buf_spare *spare)
{
	b->spare = spare;
}
void
buf_spare_done(struct buf_spare *s);
static inline size_t
buf_len(const struct buf *b)
{
	return b->end - b->start;
}
/* NULL when the buffer is empty and never held anything, or gave its memory back. */
static inline uint8_t *
buf_head(const struct buf *b)
{
	return b->data ? b->data + b->start : NULL;
}
/* What is in it, borrowed until it changes. */
static inline struct str
buf_str(const struct buf *b)
{
	return (struct str){ (const char *)buf_head(b), buf_len(b) };
}
uint8_t *
buf_make_room(struct buf *b, size_t n);
/* Room for `n` more bytes at the returned place; NULL when over max or out of memory.
 * buf_commit() then says how many were written there. */
static inline uint8_t *
buf_reserve(struct buf *b, size_t n)
{
	if (b->cap - b->end >= n && b->data && n <= b->max && buf_len(b) <= b->max - n)
		return b->data + b->end;
	return buf_make_room(b, n);
}
static inline void
buf_commit(struct buf *b, size_t n)
{
	wq_assert(n <= b->cap - b->end);
	b->end += n;
}
/* 0, ERR_TOO_LONG or -ENOMEM. */
int
buf_put(struct buf *b, const void *p, size_t n);
/* Drops `n` bytes at the front (n <= buf_len). An emptied buffer larger than
 * `BUF_KEEP` gives its memory back. */
void
buf_consume(struct buf *b, size_t n);
#define BUF_KEEP 65536u
/* An empty buffer gives its memory back. */
void
buf_release(struct buf *b);
/* `n` bytes of somebody else (borrowed) as a buffer to be consumed; it can't grow and needs no
 * buf_done. */
static inline struct buf
buf_view(void *p, size_t n)
{
	return (struct buf){ .data = p, .end = n };
}

#endif
