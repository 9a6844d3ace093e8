/*
 * Tickets: which session and request an engine's reply belongs to.
 *
 * A ticket is a slot's number and the generation of its use, so that the ticket
 * of a request that nobody waits for any more finds nothing, whoever uses the
 * slot now. Slots live in pages that never move; there are as many as requests
 * were ever in flight at once. Loop thread only.
 */
#ifndef WQD_SERVICE_TICKETS_H
#define WQD_SERVICE_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/request.h"

struct session;

struct ticket {
	struct list link;    /* the session's requests in flight, or the free ones */
	struct session *s;   /* borrowed; NULL: free */
	uint64_t request_id; /* the client's */
	uint32_t index;      /* of the slot */
	uint32_t generation; /* grows with each use; never 0 in use */
	enum request_kind kind;
	bool made_key; /* the request left the key to the engine */
};

struct tickets {
	struct list free;
	struct ticket **pages; /* owned */
	uint32_t n_pages;
	uint32_t in_use;
};

void
tickets_init(struct tickets *ts);
/* All must have been given back. */
void
tickets_done(struct tickets *ts);
/* A free slot, not yet of a session; NULL: out of memory. */
struct ticket *
ticket_take(struct tickets *ts);
/* The slot with that number, over an exec. NULL: out of memory, or it is in use. */
struct ticket *
ticket_take_this(struct tickets *ts, uint64_t number);
void
ticket_give(struct tickets *ts, struct ticket *t);
/* The ticket in use with this number, or NULL. */
struct ticket *
ticket_find(const struct tickets *ts, uint64_t number);
/* How the engine knows it: never 0. */
static inline uint64_t
ticket_number(const struct ticket *t)
{
	return (uint64_t)t->generation << 32 | t->index;
}

#endif
