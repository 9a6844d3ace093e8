/*
 * Replies with lists: each piece is packed when it is put, as the field of the
 * Reply that it will be; the end puts the other fields before them.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "wire/encode.h"
#include "wire/frame.h"
#include "wire/hot.h"

#define LIST_MAGIC 0x1157a001u
/* Field numbers of Reply. */
enum { F_RESULTS = 13, F_JOBS = 14, F_RUNS = 15, F_QUEUES = 16, F_COUNTERS = 18 };
#define SETTING_TEXT_MAX  256
#define SETTINGS_SHOW_MAX 32
#define LENGTH_DELIMITED  2u

struct wire_list {
	unsigned magic;
	struct buf pieces;
	uint64_t id;
	enum status status;
	const char *trouble; /* borrowed; NULL: none */
};

int
wire_list_new(size_t max, struct wire_list **out)
{
	struct wire_list *l = x_zalloc(sizeof *l);

	if (!l)
		return -ENOMEM;
	l->magic = LIST_MAGIC;
	buf_init(&l->pieces, max);
	*out = l;
	return 0;
}

void
wire_list_free(struct wire_list *l)
{
	if (!l)
		return;
	CHECK_OBJ(l, LIST_MAGIC);
	buf_done(&l->pieces);
	MAGIC_DONE(l);
	x_free(l);
}

void
wire_list_begin(struct wire_list *l, uint64_t id, enum status st)
{
	CHECK_OBJ(l, LIST_MAGIC);
	buf_consume(&l->pieces, buf_len(&l->pieces));
	l->id = id;
	l->status = st;
	l->trouble = NULL;
}

void
wire_list_trouble(struct wire_list *l, const char *trouble)
{
	CHECK_OBJ(l, LIST_MAGIC);
	l->trouble = trouble;
}

/* Field numbers up to 18 with wire type 2 need at most two bytes as a varint, like a length. */
static int
put_piece(struct wire_list *l, uint32_t field, const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t head[10];
	size_t n_head = frame_put_len(head, field << 3 | LENGTH_DELIMITED);
	struct buf *b = &l->pieces;
	uint8_t *p;

	n_head += frame_put_len(head + n_head, (uint32_t)n);
	if (n_head + n > b->max || buf_len(b) > b->max - n_head - n)
		return ERR_TOO_LONG;
	p = buf_reserve(b, n_head + n);
	if (!p)
		return -ENOMEM;
	memcpy(p, head, n_head);
	protobuf_c_message_pack(m, p + n_head);
	buf_commit(b, n_head + n);
	return 0;
}

/* The same; when not even a page of its own would hold it, `run` inside loses as much output as
 * needed. */
static int
put_piece_with_run(struct wire_list *l, uint32_t field, const ProtobufCMessage *m, Wq__V1__Run *run)
{
	int err = put_piece(l, field, m);
	size_t over;

	if (err != ERR_TOO_LONG || buf_len(&l->pieces) > 0)
		return err;
	over = protobuf_c_message_get_packed_size(m) + 16 - l->pieces.max;
	if (over > run->output.len)
		return err;
	run->output.len -= over;
	run->truncated = true;
	return put_piece(l, field, m);
}

int
wire_list_run(struct wire_list *l, const struct run_record *r)
{
	Wq__V1__Run pb;
	struct name_copy queue;

	encode_run(&pb, &queue, r);
	return put_piece_with_run(l, F_RUNS, &pb.base, &pb);
}

static void
encode_lease(Wq__V1__LeaseInfo *pb, char holder[HOLDER_MAX + 1], const struct job_view *j)
{
	wq__v1__lease_info__init(pb);
	wq_assert(j->holder.n <= HOLDER_MAX);
	if (j->holder.n > 0)
		memcpy(holder, j->holder.p, j->holder.n);
	holder[j->holder.n] = '\0';
	pb->holder = holder;
	pb->left_ms = j->lease_left_ns / NS_PER_MS;
	pb->token = j->lease_token;
	pb->touched = j->lease_touched;
}

/* How many words it has: none where they are left out. */
static size_t
split_command(struct str command, ProtobufCBinaryData words[COMMAND_WORDS_MAX])
{
	size_t n = 0;

	while (command.p && command.n > 0 && n < COMMAND_WORDS_MAX) {
		size_t len = strnlen(command.p, command.n - 1);

		words[n++] = encode_bytes((struct str){ command.p, len });
		command.p += len + 1;
		command.n -= len + 1;
	}
	return n;
}

int
wire_list_job(struct wire_list *l, const struct job_view *j)
{
	Wq__V1__JobInfo pb;
	Wq__V1__Run last;
	Wq__V1__LeaseInfo lease;
	char holder[HOLDER_MAX + 1];
	struct name_copy queue, last_queue;
	ProtobufCBinaryData words[COMMAND_WORDS_MAX];

	wq__v1__job_info__init(&pb);
	pb.key = encode_bytes(j->key);
	pb.queue = encode_name(&queue, j->queue);
	pb.state = (Wq__V1__JobState)j->state;
	pb.pending = j->pending;
	pb.pending_state = (Wq__V1__JobState)j->pending_state;
	if (j->has_deadline) {
		pb.has_deadline_ms_case = WQ__V1__JOB_INFO__HAS_DEADLINE_MS_DEADLINE_MS;
		pb.deadline_ms = encode_ms(j->deadline_wall_ns);
	}
	pb.generation = j->generation;
	pb.attempt = j->attempt;
	pb.coalesced = j->coalesced;
	pb.disable_depth = j->disable_depth;
	pb.durability = (Wq__V1__Durability)j->level;
	pb.payload_bytes = j->payload_bytes;
	pb.dead = j->dead;
	if (j->leased) {
		encode_lease(&lease, holder, j);
		pb.lease = &lease;
	}
	pb.has_command = j->command.n > 0;
	pb.command = words;
	pb.n_command = split_command(j->command, words);
	if (!j->last)
		return put_piece(l, F_JOBS, &pb.base);
	encode_run(&last, &last_queue, j->last);
	pb.last = &last;
	return put_piece_with_run(l, F_JOBS, &pb.base, &last);
}

int
wire_list_queue(struct wire_list *l, const struct queue_view *q)
{
	Wq__V1__QueueInfo pb;
	Wq__V1__Setting setting[SETTINGS_SHOW_MAX], *settings[SETTINGS_SHOW_MAX];
	char value[SETTINGS_SHOW_MAX][SETTING_TEXT_MAX];
	struct name_copy name;

	wq__v1__queue_info__init(&pb);
	wq_assert(queue_setting_count <= SETTINGS_SHOW_MAX);
	for (size_t i = 0; i < queue_setting_count; i++) {
		const struct setting *s = &queue_setting_table[i];

		queue_settings_get(q->settings, s, value[i], sizeof value[i]);
		wq__v1__setting__init(&setting[i]);
		setting[i].name = (char *)(uintptr_t)s->name;
		setting[i].value = value[i];
		settings[i] = &setting[i];
	}
	pb.queue = encode_name(&name, q->name);
	pb.n_settings = queue_setting_count;
	pb.settings = settings;
	pb.jobs = q->jobs;
	pb.armed = q->armed;
	pb.ready = q->ready;
	pb.held = q->held;
	pb.running = q->running;
	pb.paused = q->paused;
	pb.draining = q->draining;
	pb.workers = q->workers;
	pb.held_prefix = q->held_prefix;
	pb.rate_next_ms = q->rate_next_wall_ns / NS_PER_MS;
	return put_piece(l, F_QUEUES, &pb.base);
}

int
wire_list_counter(struct wire_list *l, const char *name, int64_t value)
{
	Wq__V1__Counter pb;

	wq__v1__counter__init(&pb);
	pb.name = (char *)(uintptr_t)name;
	pb.value = value;
	return put_piece(l, F_COUNTERS, &pb.base);
}

/* Of a tag and a length of one byte each. */
static int
put_hot_result(struct wire_list *l, const struct job_reply *r)
{
	uint8_t piece[2 + HOT_REPLY_MAX], *p = buf_reserve(&l->pieces, sizeof piece), *to = p;
	size_t n;

	if (!p)
		to = piece;
	n = hot_put_result(to + 2, r);
	to[0] = F_RESULTS << 3 | LENGTH_DELIMITED;
	to[1] = (uint8_t)n;
	if (!p)
		return buf_put(&l->pieces, piece, 2 + n);
	buf_commit(&l->pieces, 2 + n);
	return 0;
}

int
wire_list_result(struct wire_list *l, const struct job_reply *r, bool made_key)
{
	Wq__V1__Result pb;

	if (hot_reply(r, made_key))
		return put_hot_result(l, r);

	wq__v1__result__init(&pb);
	pb.status = (Wq__V1__Status)r->status;
	pb.state_before = (Wq__V1__JobState)r->state_before;
	if (r->has_deadline) {
		pb.has_deadline_ms_case = WQ__V1__RESULT__HAS_DEADLINE_MS_DEADLINE_MS;
		pb.deadline_ms = encode_ms(r->deadline_wall_ns);
	}
	if (r->has_old_deadline) {
		pb.has_old_deadline_ms_case = WQ__V1__RESULT__HAS_OLD_DEADLINE_MS_OLD_DEADLINE_MS;
		pb.old_deadline_ms = encode_ms(r->old_deadline_wall_ns);
	}
	pb.generation = r->generation;
	pb.coalesced = r->coalesced;
	if (made_key)
		pb.key = encode_bytes(r->key);
	if (r->message)
		pb.message = (char *)(uintptr_t)r->message;
	return put_piece(l, F_RESULTS, &pb.base);
}

int
wire_list_copy(struct wire_list *l, const struct wire_list *from)
{
	wire_list_begin(l, from->id, from->status);
	return buf_put(&l->pieces, buf_head(&from->pieces), buf_len(&from->pieces));
}

size_t
wire_list_size(const struct wire_list *l)
{
	CHECK_OBJ(l, LIST_MAGIC);
	return buf_len(&l->pieces);
}

int
wire_list_end(struct wire_list *l, uint64_t cursor, struct buf *out)
{
	Wq__V1__Reply pb;
	const uint8_t *pieces = buf_head(&l->pieces);
	size_t n_pieces = buf_len(&l->pieces);
	size_t n_head;
	uint8_t *p;
	int err = 0;

	wq__v1__reply__init(&pb);
	CHECK_OBJ(l, LIST_MAGIC);
	pb.id = l->id;
	pb.status = (Wq__V1__Status)l->status;
	pb.cursor = cursor;
	if (l->trouble)
		pb.trouble = (char *)(uintptr_t)l->trouble;
	n_head = protobuf_c_message_get_packed_size(&pb.base);
	p = encode_frame(out, n_head + n_pieces, &err);
	if (p) {
		protobuf_c_message_pack(&pb.base, p);
		if (pieces)
			memcpy(p + n_head, pieces, n_pieces);
	}
	buf_consume(&l->pieces, n_pieces);
	return err;
}
