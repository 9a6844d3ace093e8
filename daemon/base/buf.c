#include "base/buf.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define BUF_MIN 1024u

void
buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void
buf_done(struct buf *b)
{
	x_free(b->data);
	*b = (struct buf){ 0 };
}

static void
slide(struct buf *b)
{
	if (b->start == 0 || !b->data)
		return;
	memmove(b->data, b->data + b->start, buf_len(b));
	b->end -= b->start;
	b->start = 0;
}

void
buf_spare_done(struct buf_spare *s)
{
	x_free(s->data);
	*s = (struct buf_spare){ 0 };
}

/* An empty buffer without memory takes the spare. */
static void
spare_take(struct buf *b)
{
	struct buf_spare *s = b->spare;

	if (b->data || !s)
		return;
	b->data = s->data;
	b->cap = s->cap;
	*s = (struct buf_spare){ 0 };
}

uint8_t *
buf_make_room(struct buf *b, size_t n)
{
	size_t len = buf_len(b), cap;
	uint8_t *p;

	if (n > b->max || len > b->max - n)
		return NULL;
	spare_take(b);
	if (b->cap - b->end >= n && b->data)
		return b->data + b->end;
	if (b->data && b->cap - len >= n && b->start >= len) {
		slide(b);
		return b->data + b->end;
	}
	cap = b->cap ? b->cap : BUF_MIN;
	while (cap < len + n)
		cap *= 2;
	slide(b);
	p = x_realloc(b->data, cap, 1);
	if (!p)
		return NULL;
	b->data = p;
	b->cap = cap;
	return b->data + b->end;
}

int
buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *d;

	if (n > b->max || buf_len(b) > b->max - n)
		return ERR_TOO_LONG;
	d = buf_reserve(b, n);
	if (!d)
		return -ENOMEM;
	if (n)
		memcpy(d, p, n);
	buf_commit(b, n);
	return 0;
}

void
buf_consume(struct buf *b, size_t n)
{
	wq_assert(n <= buf_len(b));
	b->start += n;
	if (b->start < b->end)
		return;
	b->start = b->end = 0;
	if (b->cap > BUF_KEEP)
		buf_release(b);
}

void
buf_release(struct buf *b)
{
	wq_assert(buf_len(b) == 0);
	if (b->spare && !b->spare->data && b->data && b->cap <= BUF_SPARE_MAX)
		*b->spare = (struct buf_spare){ b->data, b->cap };
	else
		x_free(b->data);
	b->data = NULL;
	b->start = b->end = b->cap = 0;
}
