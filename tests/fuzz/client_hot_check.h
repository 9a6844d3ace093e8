/*
 * The library's hand-written reader of replies against protobuf-c: where it
 * answers, both must say the same, and there is nothing that it did not say.
 */
#ifndef WQD_TESTS_CLIENT_HOT_CHECK_H
#define WQD_TESTS_CLIENT_HOT_CHECK_H

#include <stdlib.h>
#include <wq.pb-c.h>

#include "base/assert.h"
#include "client/hot.h"

static inline void
same_hot_result(const struct hot_reply *a, const Wq__V1__Result *b)
{
	wq_assert((int)a->status == (int)b->status);
	wq_assert((int)a->state_before == (int)b->state_before);
	wq_assert(a->deadline_ms == (b->has_deadline_ms_case ? b->deadline_ms : -1));
	wq_assert(a->old_deadline_ms == (b->has_old_deadline_ms_case ? b->old_deadline_ms : -1));
	wq_assert(a->generation == b->generation && a->coalesced == b->coalesced);
	wq_assert(b->key.len == 0 && b->message[0] == '\0' && b->base.n_unknown_fields == 0);
}

static inline void
same_hot_reply(const struct hot_reply *a, const Wq__V1__Reply *b)
{
	wq_assert(a->id == b->id && (int)a->status == (int)b->status);
	wq_assert((int)a->state_before == (int)b->state_before);
	wq_assert(a->deadline_ms == (b->has_deadline_ms_case ? b->deadline_ms : -1));
	wq_assert(a->old_deadline_ms == (b->has_old_deadline_ms_case ? b->old_deadline_ms : -1));
	wq_assert(a->generation == b->generation && a->coalesced == b->coalesced);
	wq_assert(a->disable_depth == b->disable_depth);
	wq_assert(a->pending_before == (b->pending_before != 0));
	wq_assert(a->n_results == b->n_results);
}

static inline void
nothing_else(const Wq__V1__Reply *b)
{
	wq_assert(b->base.n_unknown_fields == 0 && b->key.len == 0 && b->message[0] == '\0');
	wq_assert(!b->run && b->n_jobs == 0 && b->n_runs == 0 && b->n_queues == 0);
	wq_assert(b->cursor == 0 && b->n_counters == 0 && !b->hello && b->echo.len == 0);
	wq_assert(!b->completion && !b->more && b->n_events == 0 && b->lost == 0);
	wq_assert(!b->lost_unknown && b->position == 0 && !b->progress);
}

/* How many of the two steps the hand-written reader took: the reply, its results. */
static inline int
check_client_reply(const uint8_t *p, size_t n)
{
	struct hot_reply hot, *v;
	Wq__V1__Reply *pb;
	int steps = 1;

	if (!hot_get_reply(p, n, &hot))
		return 0;
	pb = wq__v1__reply__unpack(NULL, n, p);
	v = calloc(hot.n_results + 1, sizeof *v);
	wq_assert(v);
	/* What is wrong inside of a result is found by the second step. */
	if (hot_get_results(&hot, v)) {
		steps = 2;
		wq_assert(pb);
		same_hot_reply(&hot, pb);
		nothing_else(pb);
		for (size_t i = 0; i < hot.n_results; i++)
			same_hot_result(&v[i], pb->results[i]);
	}
	free(v);
	if (pb)
		wq__v1__reply__free_unpacked(pb, NULL);
	return steps;
}

#endif
