/*
 * The hand-written codec against protobuf-c: where it answers, both must say
 * the same.
 */
#ifndef WQD_TESTS_HOT_CHECK_H
#define WQD_TESTS_HOT_CHECK_H

#include <wq.pb-c.h>

#include "base/assert.h"
#include "wire/encode.h"
#include "wire/hot.h"

static inline void
same_update(const struct op_update *a, const struct op_update *b)
{
	wq_assert(str_eq(a->job.key, b->job.key) && str_eq(a->job.queue, b->job.queue));
	wq_assert(a->mode == b->mode && a->if_pending == b->if_pending);
	wq_assert(a->absolute == b->absolute && a->when_ns == b->when_ns);
	wq_assert(a->slack_ns == b->slack_ns && a->max_wait_ns == b->max_wait_ns);
	wq_assert(a->align_ns == b->align_ns && a->align_exact == b->align_exact);
	wq_assert(a->payload_mode == b->payload_mode && str_eq(a->payload, b->payload));
	wq_assert(a->level == b->level && str_eq(a->idem, b->idem));
	wq_assert(a->command.n == 0 && b->command.n == 0);
}

static inline void
same_batch(const struct request *a, const struct request *b)
{
	wq_assert(a->batch.n == b->batch.n && !a->batch.why);
	for (size_t i = 0; i < a->batch.n; i++) {
		wq_assert(!b->batch.why[i]);
		same_update(&a->batch.v[i], &b->batch.v[i]);
	}
}

static inline void
same_cancel(const struct op_cancel *a, const struct op_cancel *b)
{
	wq_assert(str_eq(a->job.key, b->job.key) && str_eq(a->job.queue, b->job.queue));
	wq_assert(a->mode == b->mode && a->timeout_ns == b->timeout_ns);
	wq_assert(a->level == b->level && str_eq(a->idem, b->idem));
}

/* True when the hand-written one took the message. */
static inline bool
check_hot_decode(struct arena *a, const uint8_t *p, size_t n)
{
	struct request hot, any;
	const char *why;

	if (!hot_decode(a, p, n, &hot))
		return false;
	wq_assert(wire_decode_any(a, p, n, &any, &why) == 0 && !why);
	wq_assert(hot.id == any.id && hot.run_token == any.run_token && hot.kind == any.kind);
	if (hot.kind == REQ_UPDATE)
		same_update(&hot.update, &any.update);
	else if (hot.kind == REQ_UPDATE_BATCH)
		same_batch(&hot, &any);
	else
		same_cancel(&hot.cancel, &any.cancel);
	return true;
}

static inline void
check_hot_reply(uint64_t id, const struct job_reply *r)
{
	uint8_t msg[HOT_REPLY_MAX], again[HOT_REPLY_MAX];
	size_t n = hot_put_reply(msg, id, r);
	Wq__V1__Reply *pb = wq__v1__reply__unpack(NULL, n, msg);

	wq_assert(pb && pb->id == id && pb->status == (Wq__V1__Status)r->status);
	wq_assert(pb->state_before == (Wq__V1__JobState)r->state_before);
	wq_assert(pb->pending_before == r->pending_before);
	wq_assert((pb->has_deadline_ms_case != 0) == r->has_deadline);
	wq_assert(!r->has_deadline || pb->deadline_ms == encode_ms(r->deadline_wall_ns));
	wq_assert((pb->has_old_deadline_ms_case != 0) == r->has_old_deadline);
	wq_assert(
		!r->has_old_deadline || pb->old_deadline_ms == encode_ms(r->old_deadline_wall_ns));
	wq_assert(pb->generation == r->generation && pb->coalesced == r->coalesced);
	wq_assert(pb->disable_depth == r->disable_depth);
	/* And to the byte as protobuf-c would have written it. */
	wq_assert(wq__v1__reply__get_packed_size(pb) == n);
	wq_assert(wq__v1__reply__pack(pb, again) == n && memcmp(msg, again, n) == 0);
	wq__v1__reply__free_unpacked(pb, NULL);
}

static inline void
check_hot_result(const struct job_reply *r)
{
	uint8_t msg[HOT_REPLY_MAX], again[HOT_REPLY_MAX];
	size_t n = hot_put_result(msg, r);
	Wq__V1__Result *pb = wq__v1__result__unpack(NULL, n, msg);

	wq_assert(pb && pb->status == (Wq__V1__Status)r->status);
	wq_assert(pb->state_before == (Wq__V1__JobState)r->state_before);
	wq_assert((pb->has_deadline_ms_case != 0) == r->has_deadline);
	wq_assert(!r->has_deadline || pb->deadline_ms == encode_ms(r->deadline_wall_ns));
	wq_assert((pb->has_old_deadline_ms_case != 0) == r->has_old_deadline);
	wq_assert(
		!r->has_old_deadline || pb->old_deadline_ms == encode_ms(r->old_deadline_wall_ns));
	wq_assert(pb->generation == r->generation && pb->coalesced == r->coalesced);
	wq_assert(wq__v1__result__get_packed_size(pb) == n);
	wq_assert(wq__v1__result__pack(pb, again) == n && memcmp(msg, again, n) == 0);
	wq__v1__result__free_unpacked(pb, NULL);
}

#endif
