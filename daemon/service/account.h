/*
 * Accounts: what an identity, or a whole namespace, has at once, and how much it
 * may. One exists while sessions use it, and for a second after, so that who comes
 * back at once has no more requests than who stayed. Part of the service; loop thread only.
 */
#ifndef WQD_SERVICE_ACCOUNT_H
#define WQD_SERVICE_ACCOUNT_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/grants.h"
#include "base/list.h"
#include "engine/ops.h"

/* What is kept in queues. */
struct store_use {
	uint64_t jobs, bytes;
};

struct account {
	struct list link;
	char name[128]; /* "uid:1000", "namespace:team-a" */
	struct quotas max;
	uint32_t connections, waiters, watchers;
	/* Requests: a bucket that holds a second's worth. */
	int64_t filled_ns;
	double left;
	/* At most so much more until the queues are counted anew. */
	struct store_use room;
	int64_t count_again_ns;
};

struct service;
struct session;

/* Gives the session its accounts. ST_OK, or REFUSED_LIMIT (its connections) with none. */
bool
accounts_open(struct session *s, struct moment now);
void
accounts_close(struct session *s);
/* The limits after a reload. */
void
accounts_renew(struct service *svc);
void
accounts_free(struct service *svc);
/* `n` more requests; false: not now. */
bool
accounts_request(struct session *s, unsigned n, struct moment now);
/* One more that waits, or watches; `by` -1: one less. False (for 1): one too many. */
bool
accounts_waiter(struct session *s, int by);
bool
accounts_watcher(struct session *s, int by);
/* One more over an exec: it was allowed then. */
void
accounts_waiter_force(struct session *s);
void
accounts_watcher_force(struct session *s);
/*
 * May there be so much more in its queues? NULL: yes, and it counts; or why not, REFUSED_LIMIT. `u`
 * is the update that asks; NULL: it is about the job `name` alone, which it may make.
 */
const char *
accounts_store(struct session *s, const struct job_name *name, const struct op_update *u,
	struct moment now);

#endif
