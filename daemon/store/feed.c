/*
 * Rows lie in chunks; a chunk goes over as a whole when it is full. Letters of the
 * fields: C constant after feed_start; R the reader's thread; U the user's; M under
 * `lock`.
 */
#include "store/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "store/thread.h"

#define FEED_MAGIC  0x66656564u
#define CHUNK_BYTES ((size_t)256 << 10)

struct chunk {
	struct list link; /* M, in feed.full or feed.spare */
	size_t used, cap;
	_Alignas(max_align_t) char data[];
};

struct feed {
	unsigned magic;
	pthread_t thread;                       /* C */
	int (*read)(void *ctx, struct feed *f); /* C */
	void *ctx;                              /* C */
	pthread_mutex_t lock;
	pthread_cond_t more, room;
	struct list full, spare; /* M, of struct chunk */
	size_t bytes;            /* M: of chunks that hold rows, the two at work as well */
	bool cancelled;          /* M: by the user */
	bool ended;              /* M: the reader has */
	int rc;                  /* M: what it returned */
	struct chunk *filling;   /* R, owned */
	struct chunk *using;     /* U, owned */
	size_t at;               /* U: of the next row in it */
};

static size_t
aligned(size_t n)
{
	return (n + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

/* ---- the reader ---- */

/* With the lock. */
static void
hand_over(struct feed *f)
{
	if (!f->filling)
		return;
	list_append(&f->full, &f->filling->link);
	f->filling = NULL;
	(void)pthread_cond_signal(&f->more);
}

/* With the lock. One for a row larger than a chunk is made for it alone. */
static struct chunk *
take_spare(struct feed *f, size_t cap)
{
	struct chunk *c = cap == CHUNK_BYTES ? list_first(&f->spare, struct chunk, link) : NULL;

	if (c) {
		list_del(&c->link);
	} else {
		c = x_alloc(sizeof *c + cap);
		if (!c)
			return NULL;
		list_init(&c->link);
		c->cap = cap;
	}
	c->used = 0;
	f->bytes += cap;
	return c;
}

static int
next_chunk(struct feed *f, size_t n)
{
	size_t cap = n > CHUNK_BYTES ? n : CHUNK_BYTES;
	int rc = 0;

	(void)pthread_mutex_lock(&f->lock);
	hand_over(f);
	while (!f->cancelled && f->bytes > 0 && f->bytes + cap > FEED_BYTES)
		(void)pthread_cond_wait(&f->room, &f->lock);
	if (f->cancelled)
		rc = -ECANCELED;
	else if (!(f->filling = take_spare(f, cap)))
		rc = -ENOMEM;
	(void)pthread_mutex_unlock(&f->lock);
	return rc;
}

int
feed_put(struct feed *f, uint32_t kind, uint32_t n_cells, size_t bytes, struct fed **row,
	char **space)
{
	size_t head = sizeof **row + n_cells * sizeof(struct cell), size = aligned(head + bytes);
	struct chunk *c = f->filling;
	int rc;

	if (!c || size > c->cap - c->used) {
		rc = next_chunk(f, size);
		if (rc)
			return rc;
		c = f->filling;
	}
	*row = (struct fed *)(void *)(c->data + c->used);
	**row = (struct fed){ .kind = kind, .n_cells = n_cells, .size = size };
	*space = c->data + c->used + head;
	c->used += size;
	return 0;
}

static void *
feed_main(void *arg)
{
	struct feed *f = arg;
	int rc;

	CHECK_OBJ(f, FEED_MAGIC);
	rc = f->read(f->ctx, f);
	(void)pthread_mutex_lock(&f->lock);
	hand_over(f);
	f->ended = true;
	f->rc = rc;
	(void)pthread_cond_signal(&f->more);
	(void)pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- the user ---- */

/* With the lock. */
static void
put_back(struct feed *f)
{
	struct chunk *c = f->using;

	f->using = NULL;
	if (!c)
		return;
	f->bytes -= c->cap;
	if (c->cap == CHUNK_BYTES)
		list_append(&f->spare, &c->link);
	else
		x_free(c);
	(void)pthread_cond_signal(&f->room);
}

/* 1, or what the reader returned. */
static int
next_full(struct feed *f)
{
	int rc = 1;

	(void)pthread_mutex_lock(&f->lock);
	put_back(f);
	while (list_empty(&f->full) && !f->ended)
		(void)pthread_cond_wait(&f->more, &f->lock);
	f->using = list_first(&f->full, struct chunk, link);
	if (f->using)
		list_del(&f->using->link);
	else
		rc = f->rc;
	(void)pthread_mutex_unlock(&f->lock);
	f->at = 0;
	return rc;
}

int
feed_next(struct feed *f, const struct fed **row)
{
	int rc;

	CHECK_OBJ(f, FEED_MAGIC);
	if (!f->using || f->at == f->using->used) {
		rc = next_full(f);
		if (rc <= 0)
			return rc;
	}
	*row = (const struct fed *)(const void *)(f->using->data + f->at);
	f->at += (*row)->size;
	return 1;
}

const struct fed *
feed_peek(const struct feed *f)
{
	if (!f->using || f->at == f->using->used)
		return NULL;
	return (const struct fed *)(const void *)(f->using->data + f->at);
}

static void
free_chunks(struct list *chunks)
{
	struct chunk *c;

	/* Not by list_each: the head is in no chunk, and not aligned like one. */
	while ((c = list_first(chunks, struct chunk, link)) != NULL) {
		list_del(&c->link);
		x_free(c);
	}
}

static void
destroy(struct feed *f)
{
	free_chunks(&f->full);
	free_chunks(&f->spare);
	x_free(f->using);
	x_free(f->filling);
	(void)pthread_cond_destroy(&f->more);
	(void)pthread_cond_destroy(&f->room);
	(void)pthread_mutex_destroy(&f->lock);
	MAGIC_DONE(f);
	x_free(f);
}

int
feed_start(struct feed **out, int (*read)(void *ctx, struct feed *f), void *ctx)
{
	struct feed *f = x_zalloc(sizeof *f);
	int rc;

	if (!f)
		return -ENOMEM;
	f->magic = FEED_MAGIC;
	f->read = read;
	f->ctx = ctx;
	list_init(&f->full);
	list_init(&f->spare);
	wq_assert(pthread_mutex_init(&f->lock, NULL) == 0);
	wq_assert(pthread_cond_init(&f->more, NULL) == 0);
	wq_assert(pthread_cond_init(&f->room, NULL) == 0);
	rc = thread_start(&f->thread, feed_main, f, "wqd-reader");
	if (rc) {
		destroy(f);
		return rc;
	}
	*out = f;
	return 0;
}

void
feed_end(struct feed *f)
{
	if (!f)
		return;
	CHECK_OBJ(f, FEED_MAGIC);
	(void)pthread_mutex_lock(&f->lock);
	f->cancelled = true;
	(void)pthread_cond_signal(&f->room);
	(void)pthread_mutex_unlock(&f->lock);
	wq_assert(pthread_join(f->thread, NULL) == 0);
	destroy(f);
}
