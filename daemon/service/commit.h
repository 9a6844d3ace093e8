/*
 * Group commit as the loop sees it: when to make a group of what the engine has
 * marked, and what its result means for the replies that wait for it.
 *
 * One group is with the writer at a time. While it syncs, changes gather in the
 * engine, where a job that moves often is still one thing; when the result is in,
 * the next group is taken at once if anything in it is urgent (a sync request, a
 * hand-over), else when the commit interval since its first change has passed. So a
 * lone sync request waits for nothing but the disk, and many share one sync.
 *
 *   state    urgent or interval over   result ok       result failed
 *   IDLE  -> SYNCING                   -               -
 *   SYNCING  (gathers)                 IDLE            FAILING: degraded
 *   FAILING  (gathers)                 IDLE: healed    (the writer tries again each second)
 *
 * Loop thread only.
 */
#ifndef WQD_SERVICE_COMMIT_H
#define WQD_SERVICE_COMMIT_H

#include "service/service.h"
#include "store/writer.h"

struct committer;

/* All borrowed. `interval_ns`: how long an async change may wait. */
int
committer_new(struct engine *e, struct service *svc, struct writer *w, int64_t interval_ns,
	struct committer **out);
void
committer_free(struct committer *c);
void
committer_set_interval(struct committer *c, int64_t interval_ns);
/* Collects results and makes a group when it is time. At the end of each turn of the loop. */
void
committer_turn(struct committer *c, struct moment now);
/* The same when the writer has something to say: the result of a group, or of a call. */
void
committer_collect(struct committer *c, struct moment now);
/* Boot time at which committer_turn has something to do though nothing happened; INT64_MAX: none. */
int64_t
committer_next_due(const struct committer *c);
/* Everything dirty goes to the writer without waiting for the interval (the end of the daemon).
 * True when nothing is left to submit or to be answered. */
bool
committer_finish(struct committer *c, struct moment now);

/* What is wrong with the disk, as a sentence without full stop; "" when nothing is. */
void
committer_trouble(const struct committer *c, struct moment now, char *dst, size_t size);

struct committer_stats {
	uint64_t groups, things, failures;
	uint64_t largest; /* things in a group */
	int64_t took_p50_ns, took_p99_ns, took_max_ns;
	bool degraded;
};
void
committer_stats_get(const struct committer *c, struct committer_stats *out);

#endif
