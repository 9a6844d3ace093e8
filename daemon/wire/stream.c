/*
 * Replies that come in a row: events to those who watch, jobs to workers, the progress of a drain,
 * the bytes of a copy.
 * An event is encoded once, whoever gets it; a reply is a head in front of such.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "wire/encode.h"
#include "wire/frame.h"

#define EVENT_FIELD 23u /* Reply.events */
#define EVENT_MAX   768 /* no event is longer: two names and numbers */

int
wire_put_event(struct buf *events, const struct watch_event *e, uint64_t position, int64_t at_ns)
{
	Wq__V1__Event pb;
	struct name_copy queue;
	uint8_t head[10], body[EVENT_MAX];
	size_t n_head, n;
	int err;

	wq__v1__event__init(&pb);
	pb.position = position;
	pb.kind = (Wq__V1__EventKind)e->kind;
	pb.at_ms = encode_ms(at_ns);
	pb.queue = encode_name(&queue, e->queue);
	pb.key = encode_bytes(e->key);
	pb.generation = e->generation;
	pb.attempt = e->attempt;
	pb.coalesced = e->coalesced;
	if (e->has_deadline) {
		pb.has_deadline_ms_case = WQ__V1__EVENT__HAS_DEADLINE_MS_DEADLINE_MS;
		pb.deadline_ms = encode_ms(e->deadline_wall_ns);
	}
	pb.outcome = (Wq__V1__RunOutcome)e->outcome;
	pb.final = e->final;
	if (e->change)
		pb.change = (char *)(uintptr_t)e->change;
	n = wq__v1__event__get_packed_size(&pb);
	wq_assert(n <= sizeof body);
	wq__v1__event__pack(&pb, body);
	n_head = frame_put_len(head, EVENT_FIELD << 3 | 2);
	n_head += frame_put_len(head + n_head, (uint32_t)n);
	err = buf_put(events, head, n_head);
	return err ? err : buf_put(events, body, n);
}

int
wire_put_watch(struct buf *out, uint64_t id, const struct watch_reply *w)
{
	Wq__V1__Reply pb;
	size_t n;
	uint8_t *p;
	int err = 0;

	wq__v1__reply__init(&pb);
	pb.id = id;
	pb.more = true;
	pb.lost = w->lost;
	pb.lost_unknown = w->lost_unknown;
	pb.position = w->position;
	n = wq__v1__reply__get_packed_size(&pb);
	p = encode_frame(out, n + w->events.n, &err);
	if (!p)
		return err;
	wq__v1__reply__pack(&pb, p);
	if (w->events.n)
		memcpy(p + n, w->events.p, w->events.n);
	return 0;
}

int
wire_put_more(struct buf *out, uint64_t id)
{
	Wq__V1__Reply pb;

	wq__v1__reply__init(&pb);
	pb.id = id;
	pb.more = true;
	return encode_message(out, &pb.base);
}

static int
put_leased(struct buf *out, uint64_t id, const struct run_start *r, ProtobufCBinaryData *parts)
{
	Wq__V1__Reply pb;
	Wq__V1__Leased l;
	struct name_copy queue;

	wq__v1__reply__init(&pb);
	wq__v1__leased__init(&l);
	l.queue = encode_name(&queue, r->queue);
	l.key = encode_bytes(r->key);
	l.generation = r->generation;
	l.attempt = r->attempt;
	l.coalesced = r->coalesced;
	for (size_t i = 0; i < r->n_parts; i++)
		parts[i] = encode_bytes(r->parts[i]);
	l.n_payload = r->n_parts;
	l.payload = parts;
	l.due_ms = encode_ms(r->due_wall_ns);
	l.lease_ms = r->lease_ns / NS_PER_MS;
	l.token = r->lease_token;
	l.run_token = r->token;
	pb.id = id;
	pb.more = true;
	pb.leased = &l;
	return encode_message(out, &pb.base);
}

#define PARTS_FEW 16u

int
wire_put_leased(struct buf *out, uint64_t id, const struct run_start *r)
{
	ProtobufCBinaryData few[PARTS_FEW], *parts = few;
	int err;

	if (r->n_parts > PARTS_FEW)
		parts = x_alloc(r->n_parts * sizeof *parts);
	if (!parts)
		return -ENOMEM;
	err = put_leased(out, id, r, parts);
	if (parts != few)
		x_free(parts);
	return err;
}

int
wire_put_revoked(struct buf *out, uint64_t id, const struct lease_revoked *r)
{
	Wq__V1__Reply pb;
	Wq__V1__Revoked rev;
	struct name_copy queue;

	wq__v1__reply__init(&pb);
	wq__v1__revoked__init(&rev);
	rev.queue = encode_name(&queue, r->queue);
	rev.key = encode_bytes(r->key);
	rev.token = r->token;
	pb.id = id;
	pb.more = true;
	pb.revoked = &rev;
	return encode_message(out, &pb.base);
}

int
wire_put_progress(struct buf *out, uint64_t id, const struct drain_view *d)
{
	Wq__V1__Reply pb;
	Wq__V1__Progress progress;

	wq__v1__reply__init(&pb);
	wq__v1__progress__init(&progress);
	progress.left = d->left;
	progress.running = d->running;
	if (d->oldest_ns >= 0) {
		progress.has_oldest_ms_case = WQ__V1__PROGRESS__HAS_OLDEST_MS_OLDEST_MS;
		progress.oldest_ms = d->oldest_ns / NS_PER_MS;
	}
	pb.id = id;
	pb.more = true;
	pb.progress = &progress;
	return encode_message(out, &pb.base);
}

int
wire_put_data(struct buf *out, uint64_t id, struct str data, uint64_t cursor, bool more)
{
	Wq__V1__Reply pb;

	wq__v1__reply__init(&pb);
	pb.id = id;
	pb.data = encode_bytes(data);
	pb.cursor = cursor;
	pb.more = more;
	return encode_message(out, &pb.base);
}
