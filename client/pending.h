/*
 * Requests that wait for replies. One list in the order of their ids, which is the order they
 * are sent in: what stands before `unsent` has left, the rest has not. A hash by id finds the
 * one a reply belongs to. Each request keeps its encoded frame until it is answered, so that
 * it can be sent again after a reconnect.
 *
 * What happens to a request that was sent when the connection breaks:
 *   RESEND_ALWAYS   sent again: it only looks or waits
 *   RESEND_WITH_ID  sent again: its idempotency id makes the daemon apply it once; but not
 *                   when it is so old that the daemon may have forgotten the id
 *   RESEND_NEVER    fails with WQ_ERR_CLOSED
 * One that was not sent yet is sent on the next connection, whatever its rule.
 *
 * Requests answered by the library itself wait in a list of their own until wq_process, since
 * callbacks run nowhere else.
 */
#ifndef WQ_CLIENT_PENDING_H
#define WQ_CLIENT_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coalesce.h"
#include "pb.h"
#include "wq.h"

#define NEVER_NS INT64_MAX

/* The daemon keeps idempotency ids for 10 minutes; a request older than this is not resent. */
#define RESEND_AGE_NS (540 * 1000000000ll)

/* Frames kept at once, all requests together. */
#define PENDING_BYTES_MAX (64u << 20)

enum resend_rule { RESEND_NEVER, RESEND_ALWAYS, RESEND_WITH_ID };

struct pending;

/* Called once, off the list already: `error` 0 and the reply, or a library error and NULL. */
typedef void (*pending_done_fn)(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *reply);

/* Called for each reply before the last. */
typedef void (*pending_more_fn)(wq_t *wq, struct pending *p, const Wq__V1__Reply *reply);

/* Blocks of requests: of this size, so many are kept for the next ones. */
#define PENDING_SMALL 640u
#define PENDING_KEEP  256u

struct pending {
	struct pending *prev, *next;
	bool small;            /* its block has PENDING_SMALL bytes */
	struct pending *chain; /* same bucket */
	uint64_t id;
	pending_done_fn done;
	pending_more_fn more; /* NULL: there are none */
	wq_reply_cb cb;
	wq_progress_cb progress;
	wq_event_cb event;
	void *arg;
	struct wq_batch *batch; /* owned; NULL: not a batch */
	struct coalesce_ask ask;
	const wq_reply_t *local; /* the answer, when the library gave it; in this block */
	enum resend_rule rule;
	bool sent;      /* its first byte has left, on this connection or an earlier one */
	bool out;       /* on this one: a reply may come */
	bool resent;    /* it has to be sent again, or was */
	bool abandoned; /* its caller has given up; the reply is still to come, and dropped */
	int64_t sent_ns;
	int64_t wait_until_ns; /* end of its own waiting time, or NEVER_NS */
	const char *key;       /* in this block; NULL: none */
	const uint8_t *frame;  /* in this block */
	size_t frame_len;      /* with its length in front */
	size_t msg_len;        /* without */
};

struct pending_table {
	struct pending *head, *tail;
	struct pending *unsent;
	struct pending *local_head, *local_tail;
	struct pending **buckets; /* owned; a power of two of them */
	size_t n_buckets;
	size_t count;     /* on the list */
	size_t abandoned; /* of those */
	size_t timed;     /* of those: with an end of their waiting time */
	size_t resent;    /* of those */
	size_t local;
	size_t bytes; /* of frames */
	uint64_t next_id;
	struct pending *kept; /* owned; a chain by `next` */
	size_t n_kept;
};

/* 0 or -ENOMEM. */
int
pending_init(struct pending_table *t);
/* Nothing may be left on it. */
void
pending_done(struct pending_table *t);
/* Memory for an entry with what goes behind it, `n` bytes in all; only `small` is set. Or NULL. */
struct pending *
pending_block(struct pending_table *t, size_t n);
/* NULL is allowed. */
void
pending_give_block(struct pending_table *t, struct pending *p);
/* Takes `p` (its id set) to the end of the list. */
void
pending_add(struct pending_table *t, struct pending *p);
void
pending_add_local(struct pending_table *t, struct pending *p);
struct pending *
pending_find(const struct pending_table *t, uint64_t id);
/* Off the list; the caller owns it now. */
void
pending_remove(struct pending_table *t, struct pending *p);
/* The next local answer, off its list, or NULL. */
struct pending *
pending_take_local(struct pending_table *t);
/*
 * Its caller waits no longer. True: no reply can come, it is off the list and to be freed.
 * Else it stays, and its reply will be dropped.
 */
bool
pending_abandon(struct pending_table *t, struct pending *p);
/*
 * After a broken connection: takes off the list, as a chain by `next`, what may not be sent
 * again (`all`: everything), and marks the rest to be sent again.
 */
struct pending *
pending_sweep(struct pending_table *t, int64_t now_ns, bool all);
/* Takes off, as a chain, what a daemon with this limit would not take. */
struct pending *
pending_too_large(struct pending_table *t, size_t max);
/*
 * The next after `p` (NULL: the first) whose own waiting time has passed and that the daemon
 * will not answer in time: any while there is no connection, else one that was sent again,
 * since its time began anew at the daemon.
 */
struct pending *
pending_expired(const struct pending_table *t, struct pending *p, int64_t now_ns, bool connected);
/* When pending_expired will find one, or NEVER_NS. */
int64_t
pending_next_expiry(const struct pending_table *t, bool connected);
/* Requests whose callers still wait. */
static inline size_t
pending_waiting(const struct pending_table *t)
{
	return t->count - t->abandoned + t->local;
}

#endif
