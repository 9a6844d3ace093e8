/*
 * Rows on their way from a thread that reads them to the one that uses them: recovery
 * reads the next ones while it puts those before into the engine.
 *
 * What is under way is bounded (FEED_BYTES, or one row that is larger): the reader
 * waits then. Nothing here knows SQLite.
 *
 *   the reader, in `read`       feed_put ... feed_put, returns
 *   the user                    feed_start, feed_next ... until it gives 0 or an
 *                               error, feed_end at any time
 */
#ifndef WQD_STORE_FEED_H
#define WQD_STORE_FEED_H

#include <stddef.h>
#include <stdint.h>

#define FEED_BYTES ((size_t)4 << 20)

enum cell_type { CELL_NULL, CELL_INT, CELL_BYTES };

struct cell {
	uint32_t type; /* enum cell_type */
	uint32_t n;    /* bytes */
	union {
		int64_t i;
		const char *p; /* into the row itself */
	};
};

struct fed {
	uint32_t kind; /* the reader's own */
	uint32_t n_cells;
	size_t size; /* of all, with what the cells point to */
	struct cell cell[];
};

struct feed;

/* Starts a thread that calls `read`; what that returns is what feed_next gives in the end. 0 or
 * -errno. */
int
feed_start(struct feed **out, int (*read)(void *ctx, struct feed *f), void *ctx);
/* The reader's: a row of so many cells, with `bytes` of space for what they point to, to be filled
 * in before the next call. -ENOMEM; -ECANCELED: the user has had enough. */
int
feed_put(struct feed *f, uint32_t kind, uint32_t n_cells, size_t bytes, struct fed **row,
	char **space);
/* The user's: 1 and the next row (borrowed until the next call); 0 at the end; negative: what the
 * reader returned, after all rows before. */
int
feed_next(struct feed *f, const struct fed **row);
/* The user's: the row behind the one feed_next gave, if it is at hand; else NULL. */
const struct fed *
feed_peek(const struct feed *f);
/* Ends the thread, whatever it is at, and frees all. */
void
feed_end(struct feed *f);

#endif
