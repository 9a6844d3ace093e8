/*
 * What a sole updater knows of its jobs: "sole_updater", docs/semantics.md §4.
 *
 * The daemon arms a job at target + s and leaves an update alone whose new target lies in
 * [armed - s, armed]. Where the caller says that nobody else changes its jobs, that answer can
 * be given here, without a round trip. The rules that keep it exact:
 *
 * - Only updates that give their slack, name a delay, bring no payload, no alignment and no
 *   idempotency id, in mode set or later.
 * - When the job was armed is only known to lie between sending and reply, so the window is
 *   cut at both ends: a target counts as inside only where it would be for every moment of
 *   armed. Elapsed time is CLOCK_BOOTTIME, as in the daemon.
 * - The reply's deadline must agree with that, or something else decided it (max_wait, a timer
 *   left where it was): then nothing is known.
 * - While a request on the job is in flight, nothing is known; afterwards only when the last
 *   one sent was an update that armed it.
 * - A broken connection may mean a restarted daemon: everything is forgotten. So is what has
 *   passed its deadline.
 * - A local answer promises no more durability than the reply it rests on.
 *
 * The number of jobs kept is limited; updates of others just make the round trip.
 */
#ifndef WQ_CLIENT_COALESCE_H
#define WQ_CLIENT_COALESCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wq.h"

#define COALESCE_MAX 65536u /* jobs known at once */

struct coalesce_job;

/* Lives in a request from its sending to its reply. Zeroed: no part in this. */
struct coalesce_ask {
	struct coalesce_job *job;
	uint64_t id; /* of the request */
	int64_t delay_ns, slack_ns;
	wq_durability_t level;
	bool arms; /* an update after whose reply the armed time may be known */
};

struct coalesce_table {
	struct coalesce_job **buckets; /* owned; NULL until the first */
	size_t n_buckets;
	size_t count;
	size_t hand; /* bucket looked through next for what has passed */
	uint64_t seed;
};

/* The daemon's wall clock less ours of elapsed time lies in [lo, hi]. */
struct clock_offset {
	int64_t lo_ns, hi_ns;
};

void
coalesce_init(struct coalesce_table *t, uint64_t seed);
void
coalesce_done(struct coalesce_table *t);
/* True, and `out` filled (its key is for the caller): the update changes nothing. */
bool
coalesce_skips(struct coalesce_table *t, int64_t now_ns, const char *queue, const char *key,
	int64_t delay_ms, const wq_update_opts_t *o, wq_reply_t *out);
/* Request `id` on the job is about to be sent; `o` NULL: not an update. Without memory, or at
 * the limit, it has no part. */
void
coalesce_begin(struct coalesce_table *t, int64_t now_ns, uint64_t id, const char *queue,
	const char *key, int64_t delay_ms, const wq_update_opts_t *o, struct coalesce_ask *ask);
/* It was not sent after all. */
void
coalesce_undo(struct coalesce_ask *ask);
/* Its reply came (NULL: it failed). `sent_ns`: when it had left; -1: not known, or left twice. */
void
coalesce_end(struct coalesce_ask *ask, int64_t sent_ns, int64_t now_ns, struct clock_offset off,
	const wq_reply_t *reply);
/* Nothing is known any more. `id`: replies to requests before this one don't count. */
void
coalesce_forget(struct coalesce_table *t, uint64_t id);

#endif
