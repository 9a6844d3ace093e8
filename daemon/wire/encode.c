#include "wire/encode.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "wire/frame.h"
#include "wire/hot.h"

/* More than the fields of a reply beside the output of its run can take. */
#define REPLY_REST 4096u
#define RUN_FIELD  12u /* Reply.run */

char *
encode_name(struct name_copy *copy, struct str name)
{
	name = queue_name_outer(name);
	wq_assert(name.n < sizeof copy->z);
	if (name.n)
		memcpy(copy->z, name.p, name.n);
	copy->z[name.n] = '\0';
	return copy->z;
}

uint8_t *
encode_frame(struct buf *out, size_t n, int *err)
{
	uint8_t len[5];
	size_t n_len = frame_put_len(len, (uint32_t)n);
	uint8_t *p;

	wq_assert(n <= UINT32_MAX);
	if (n_len + n > out->max || buf_len(out) > out->max - n_len - n) {
		*err = ERR_TOO_LONG;
		return NULL;
	}
	p = buf_reserve(out, n_len + n);
	if (!p) {
		*err = -ENOMEM;
		return NULL;
	}
	memcpy(p, len, n_len);
	buf_commit(out, n_len + n);
	return p + n_len;
}

int
encode_message(struct buf *out, const ProtobufCMessage *m)
{
	int err = 0;
	uint8_t *p = encode_frame(out, protobuf_c_message_get_packed_size(m), &err);

	if (p)
		protobuf_c_message_pack(m, p);
	return err;
}

void
encode_run(Wq__V1__Run *pb, struct name_copy *copy, const struct run_record *r)
{
	wq__v1__run__init(pb);
	pb->generation = r->generation;
	pb->attempt = r->attempt;
	pb->outcome = (Wq__V1__RunOutcome)r->outcome;
	if (r->exit_code >= 0) {
		pb->has_exit_code_case = WQ__V1__RUN__HAS_EXIT_CODE_EXIT_CODE;
		pb->exit_code = r->exit_code;
	}
	pb->signal = r->signal;
	pb->error = r->error;
	pb->due_ms = encode_ms(r->due_wall_ns);
	pb->started_ms = encode_ms(r->started_wall_ns);
	pb->ended_ms = encode_ms(r->ended_wall_ns);
	pb->coalesced = r->coalesced;
	pb->output = encode_bytes(r->output);
	pb->truncated = r->truncated;
	pb->final = r->final;
	pb->key = encode_bytes(r->key);
	pb->queue = encode_name(copy, r->queue);
}

/* Where it goes, with a length of one byte; near the buffer's limit by the exact length. */
static int
put_hot_reply(struct buf *out, uint64_t id, const struct job_reply *r)
{
	uint8_t msg[HOT_REPLY_MAX], *p = buf_reserve(out, 1 + HOT_REPLY_MAX);
	size_t n;
	int err = 0;

	if (p) {
		p[0] = (uint8_t)hot_put_reply(p + 1, id, r);
		buf_commit(out, 1u + p[0]);
		return 0;
	}
	n = hot_put_reply(msg, id, r);
	p = encode_frame(out, n, &err);
	if (p)
		memcpy(p, msg, n);
	return err;
}

/* A run whose reply must not be too long: its output is cut. */
static void
encode_run_cut(Wq__V1__Run *pb, struct name_copy *queue, const struct run_record *r)
{
	encode_run(pb, queue, r);
	if (pb->output.len > WIRE_REPLY_MAX - REPLY_REST) {
		pb->output.len = WIRE_REPLY_MAX - REPLY_REST;
		pb->truncated = true;
	}
}

/* All of it but the run. Borrows from `r`. */
static void
reply_head(Wq__V1__Reply *pb, uint64_t id, const struct job_reply *r, bool made_key)
{
	wq__v1__reply__init(pb);
	pb->id = id;
	pb->status = (Wq__V1__Status)r->status;
	pb->state_before = (Wq__V1__JobState)r->state_before;
	pb->pending_before = r->pending_before;
	if (r->has_deadline) {
		pb->has_deadline_ms_case = WQ__V1__REPLY__HAS_DEADLINE_MS_DEADLINE_MS;
		pb->deadline_ms = encode_ms(r->deadline_wall_ns);
	}
	if (r->has_old_deadline) {
		pb->has_old_deadline_ms_case = WQ__V1__REPLY__HAS_OLD_DEADLINE_MS_OLD_DEADLINE_MS;
		pb->old_deadline_ms = encode_ms(r->old_deadline_wall_ns);
	}
	pb->generation = r->generation;
	pb->coalesced = r->coalesced;
	pb->disable_depth = r->disable_depth;
	if (made_key)
		pb->key = encode_bytes(r->key);
	if (r->message)
		pb->message = (char *)(uintptr_t)r->message;
}

int
wire_put_job_reply(struct buf *out, uint64_t id, const struct job_reply *r, bool made_key)
{
	Wq__V1__Reply pb;
	Wq__V1__Run run;
	struct name_copy queue;

	if (hot_reply(r, made_key))
		return put_hot_reply(out, id, r);
	reply_head(&pb, id, r, made_key);
	if (r->run) {
		encode_run_cut(&run, &queue, r->run);
		pb.run = &run;
	}
	return encode_message(out, &pb.base);
}

int
wire_put_run(struct buf *bytes, const struct run_record *r)
{
	uint8_t head[10];
	Wq__V1__Run run;
	struct name_copy queue;
	size_t n, n_head;
	uint8_t *p;

	encode_run_cut(&run, &queue, r);
	n = wq__v1__run__get_packed_size(&run);
	n_head = frame_put_len(head, RUN_FIELD << 3 | 2);
	n_head += frame_put_len(head + n_head, (uint32_t)n);
	if (buf_len(bytes) + n_head + n > bytes->max)
		return ERR_TOO_LONG;
	p = buf_reserve(bytes, n_head + n);
	if (!p)
		return -ENOMEM;
	memcpy(p, head, n_head);
	wq__v1__run__pack(&run, p + n_head);
	buf_commit(bytes, n_head + n);
	return 0;
}

int
wire_put_waited(struct buf *out, uint64_t id, const struct job_reply *r, struct str run)
{
	Wq__V1__Reply pb;
	size_t n;
	uint8_t *p;
	int err = 0;

	reply_head(&pb, id, r, false);
	n = wq__v1__reply__get_packed_size(&pb);
	p = encode_frame(out, n + run.n, &err);
	if (!p)
		return err;
	wq__v1__reply__pack(&pb, p);
	memcpy(p + n, run.p, run.n);
	return 0;
}

int
wire_put_status(struct buf *out, uint64_t id, enum status st, const char *message)
{
	Wq__V1__Reply pb;

	wq__v1__reply__init(&pb);
	pb.id = id;
	pb.status = (Wq__V1__Status)st;
	if (message)
		pb.message = (char *)(uintptr_t)message;
	return encode_message(out, &pb.base);
}

int
wire_put_completion(struct buf *out, uint64_t id, enum status st, const struct completion_view *c)
{
	Wq__V1__Reply pb;
	Wq__V1__CompletionInfo info;

	wq__v1__reply__init(&pb);
	wq__v1__completion_info__init(&info);
	info.name = encode_bytes(completion_name_outer(c->name));
	info.done = c->done;
	info.open = c->open;
	info.waiters = c->waiters;
	info.durability = (Wq__V1__Durability)c->level;
	pb.id = id;
	pb.status = (Wq__V1__Status)st;
	pb.completion = &info;
	return encode_message(out, &pb.base);
}

int
wire_put_hello(struct buf *out, uint64_t id, const struct hello_info *h)
{
	Wq__V1__Reply pb;
	Wq__V1__HelloInfo info;

	wq__v1__reply__init(&pb);
	wq__v1__hello_info__init(&info);
	info.version = WIRE_VERSION;
	info.server = (char *)(uintptr_t)h->server;
	info.instance = (char *)(uintptr_t)h->instance;
	info.frame_max = h->frame_max;
	info.in_flight_max = h->in_flight_max;
	info.now_ms = h->now_ms;
	pb.id = id;
	pb.hello = &info;
	return encode_message(out, &pb.base);
}

int
wire_put_pong(struct buf *out, uint64_t id, struct str echo, const char *trouble)
{
	Wq__V1__Reply pb;

	wq__v1__reply__init(&pb);
	pb.id = id;
	pb.echo = encode_bytes(echo);
	pb.trouble = (char *)(uintptr_t)trouble;
	return encode_message(out, &pb.base);
}
