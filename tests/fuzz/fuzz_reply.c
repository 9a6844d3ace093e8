/*
 * Replies: whatever the structs hold, the frame that comes out is one that
 * protobuf-c reads back with the same values, and is no larger than it may be.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "base/clock.h"
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define OUT_MAX   16384u
#define LIST_MAX  4096u /* pages end early, and output is cut */
#define TEXT_MAX  64u
#define ITEMS_MAX 12u

/* ---- structs from the input ---- */

static enum status
make_status(struct fuzz_in *in)
{
#define X(name, ...) name,
	static const enum status all[] = { STATUS_TABLE(X) };
#undef X

	return all[fuzz_below(in, ARRAY_SIZE(all))];
}

static struct run_record
make_run(struct fuzz_in *in)
{
	return (struct run_record){
		.queue = fuzz_str(in, QUEUE_NAME_MAX),
		.key = fuzz_str(in, KEY_MAX),
		.generation = fuzz_int(in, 8),
		.attempt = (uint32_t)fuzz_int(in, 4),
		.outcome = (enum run_outcome)fuzz_below(in, RUN_TIMEOUT + 1),
		.final = fuzz_below(in, 2),
		.exit_code = (int32_t)fuzz_int(in, 4),
		.signal = (int32_t)fuzz_int(in, 4),
		.error = (int32_t)fuzz_int(in, 4),
		.due_wall_ns = (int64_t)fuzz_int(in, 8),
		.started_wall_ns = (int64_t)fuzz_int(in, 8),
		.ended_wall_ns = (int64_t)fuzz_int(in, 8),
		.coalesced = (uint32_t)fuzz_int(in, 4),
		.output = fuzz_str(in, 65535),
		.truncated = fuzz_below(in, 2),
	};
}

static struct job_reply
make_reply(struct fuzz_in *in, struct run_record *run, char **message)
{
	struct str said = fuzz_str(in, TEXT_MAX);
	struct job_reply r = {
		.status = make_status(in),
		.queue = fuzz_str(in, QUEUE_NAME_MAX),
		.key = fuzz_str(in, KEY_MAX),
		.state_before = (enum job_state)fuzz_below(in, JOB_RUNNING + 1),
		.pending_before = fuzz_below(in, 2),
		.has_deadline = fuzz_below(in, 2),
		.has_old_deadline = fuzz_below(in, 2),
		.deadline_wall_ns = (int64_t)fuzz_int(in, 8),
		.old_deadline_wall_ns = (int64_t)fuzz_int(in, 8),
		.generation = fuzz_int(in, 8),
		.coalesced = (uint32_t)fuzz_int(in, 4),
		.disable_depth = (uint32_t)fuzz_int(in, 4),
	};

	*message = said.n ? fuzz_copy(said.p, said.n, true) : NULL;
	r.message = *message;
	if (fuzz_below(in, 2)) {
		*run = make_run(in);
		r.run = run;
	}
	return r;
}

static struct job_view
make_job(struct fuzz_in *in, struct run_record *last)
{
	struct job_view j = {
		.queue = fuzz_str(in, QUEUE_NAME_MAX),
		.key = fuzz_str(in, KEY_MAX),
		.state = (enum job_state)fuzz_below(in, JOB_RUNNING + 1),
		.pending = fuzz_below(in, 2),
		.pending_state = (enum job_state)fuzz_below(in, JOB_RUNNING + 1),
		.has_deadline = fuzz_below(in, 2),
		.deadline_wall_ns = (int64_t)fuzz_int(in, 8),
		.generation = fuzz_int(in, 8),
		.attempt = (uint32_t)fuzz_int(in, 4),
		.coalesced = (uint32_t)fuzz_int(in, 4),
		.disable_depth = (uint32_t)fuzz_int(in, 4),
		.level = (enum durability)fuzz_below(in, LEVEL_MEMORY + 1),
		.payload_bytes = fuzz_int(in, 3),
		.dead = fuzz_below(in, 2),
	};

	if (fuzz_below(in, 2)) {
		*last = make_run(in);
		j.last = last;
	}
	return j;
}

/* ---- what comes back ---- */

/* The one frame in `out`, decoded; freed by the caller. */
static Wq__V1__Reply *
read_back(struct buf *out)
{
	const uint8_t *msg;
	size_t len = 0, need;
	Wq__V1__Reply *pb;

	wq_assert(frame_next(buf_head(out), buf_len(out), WIRE_REPLY_MAX, &msg, &len, &need) ==
		(long)buf_len(out));
	pb = wq__v1__reply__unpack(NULL, len, msg);
	wq_assert(pb != NULL);
	wq_assert(pb->base.n_unknown_fields == 0);
	buf_consume(out, buf_len(out));
	return pb;
}

static int64_t
ms(int64_t ns)
{
	return ns / NS_PER_MS - (ns % NS_PER_MS < 0);
}

static void
same_bytes(struct str s, ProtobufCBinaryData b)
{
	wq_assert(s.n == b.len && (s.n == 0 || memcmp(s.p, b.data, s.n) == 0));
}

/* Text ends at the first NUL on this wire; names hold none (key_valid). */
static void
same_text(struct str s, const char *z)
{
	size_t n = s.n ? strnlen(s.p, s.n) : 0;

	wq_assert(strlen(z) == n && memcmp(z, n ? s.p : "", n) == 0);
}

/* Clients don't see in which namespace it is. */
static void
same_queue(struct str name, const char *z)
{
	same_text(queue_name_outer(name), z);
}

static void
same_run(const struct run_record *r, const Wq__V1__Run *pb)
{
	same_bytes(r->key, pb->key);
	same_queue(r->queue, pb->queue);
	wq_assert(pb->generation == r->generation && pb->attempt == r->attempt);
	wq_assert((int)pb->outcome == (int)r->outcome && pb->final == r->final);
	wq_assert((r->exit_code >= 0) == (pb->has_exit_code_case != 0));
	wq_assert(r->exit_code < 0 || pb->exit_code == r->exit_code);
	wq_assert(pb->signal == r->signal && pb->error == r->error);
	wq_assert(pb->due_ms == ms(r->due_wall_ns));
	wq_assert(pb->started_ms == ms(r->started_wall_ns));
	wq_assert(pb->ended_ms == ms(r->ended_wall_ns) && pb->coalesced == r->coalesced);
	if (pb->output.len == r->output.n) {
		same_bytes(r->output, pb->output);
		wq_assert(pb->truncated == r->truncated);
	} else { /* cut to fit, and it says so */
		wq_assert(pb->output.len < r->output.n && pb->truncated);
		same_bytes((struct str){ r->output.p, pb->output.len }, pb->output);
	}
}

static void
same_deadline(bool has, int64_t ns, int has_case, int64_t got)
{
	wq_assert(has == (has_case != 0));
	wq_assert(!has || got == ms(ns));
}

/* ---- one reply ---- */

static void
try_job_reply(struct fuzz_in *in, struct buf *out)
{
	struct run_record run;
	char *message;
	struct job_reply r = make_reply(in, &run, &message);
	uint64_t id = fuzz_int(in, 8);
	bool made_key = fuzz_below(in, 2);
	int err = wire_put_job_reply(out, id, &r, made_key);
	Wq__V1__Reply *pb;

	wq_assert(err == 0 || (err == ERR_TOO_LONG && buf_len(out) == 0));
	if (err == 0) {
		pb = read_back(out);
		wq_assert(pb->id == id && (int)pb->status == (int)r.status);
		wq_assert((int)pb->state_before == (int)r.state_before);
		wq_assert(pb->pending_before == r.pending_before);
		same_deadline(r.has_deadline, r.deadline_wall_ns, (int)pb->has_deadline_ms_case,
			pb->deadline_ms);
		same_deadline(r.has_old_deadline, r.old_deadline_wall_ns,
			(int)pb->has_old_deadline_ms_case, pb->old_deadline_ms);
		wq_assert(pb->generation == r.generation && pb->coalesced == r.coalesced);
		wq_assert(pb->disable_depth == r.disable_depth);
		same_bytes(made_key ? r.key : STR_NONE, pb->key);
		same_text(str_from(message), pb->message);
		wq_assert((r.run != NULL) == (pb->run != NULL));
		if (r.run)
			same_run(r.run, pb->run);
		wq__v1__reply__free_unpacked(pb, NULL);
	}
	x_free(message);
}

/* ---- a list: each piece is in the page, or was refused for its size ---- */

static int
put_job(struct fuzz_in *in, struct wire_list *l, struct run_record *last, struct job_view *j)
{
	*j = make_job(in, last);
	return wire_list_job(l, j);
}

static void
try_jobs(struct fuzz_in *in, struct wire_list *l, struct buf *out)
{
	struct run_record last[ITEMS_MAX];
	struct job_view put[ITEMS_MAX];
	size_t n = 0, want = fuzz_below(in, ITEMS_MAX + 1);
	uint64_t cursor = fuzz_int(in, 8);
	Wq__V1__Reply *pb;

	wire_list_begin(l, 5, ST_OK);
	for (size_t i = 0; i < want; i++) {
		int err = put_job(in, l, &last[n], &put[n]);

		wq_assert(err == 0 || (err == ERR_TOO_LONG && n > 0));
		n += err == 0;
	}
	wq_assert(wire_list_size(l) <= LIST_MAX);
	wq_assert(wire_list_end(l, cursor, out) == 0);
	pb = read_back(out);
	wq_assert(pb->id == 5 && pb->cursor == cursor && pb->n_jobs == n);
	for (size_t i = 0; i < n; i++) {
		same_bytes(put[i].key, pb->jobs[i]->key);
		same_queue(put[i].queue, pb->jobs[i]->queue);
		wq_assert((int)pb->jobs[i]->state == (int)put[i].state);
		same_deadline(put[i].has_deadline, put[i].deadline_wall_ns,
			(int)pb->jobs[i]->has_deadline_ms_case, pb->jobs[i]->deadline_ms);
		wq_assert((put[i].last != NULL) == (pb->jobs[i]->last != NULL));
		if (put[i].last)
			same_run(put[i].last, pb->jobs[i]->last);
	}
	wq__v1__reply__free_unpacked(pb, NULL);
}

static void
try_runs(struct fuzz_in *in, struct wire_list *l, struct buf *out)
{
	struct run_record put[ITEMS_MAX];
	size_t n = 0, want = fuzz_below(in, ITEMS_MAX + 1);
	Wq__V1__Reply *pb;

	wire_list_begin(l, UINT64_MAX, ST_OK);
	for (size_t i = 0; i < want; i++) {
		int err;

		put[n] = make_run(in);
		err = wire_list_run(l, &put[n]);
		wq_assert(err == 0 || (err == ERR_TOO_LONG && n > 0));
		n += err == 0;
	}
	wq_assert(wire_list_end(l, 0, out) == 0);
	pb = read_back(out);
	wq_assert(pb->id == UINT64_MAX && pb->cursor == 0 && pb->n_runs == n);
	for (size_t i = 0; i < n; i++)
		same_run(&put[i], pb->runs[i]);
	wq__v1__reply__free_unpacked(pb, NULL);
}

static void
try_results(struct fuzz_in *in, struct wire_list *l, struct wire_list *copy, struct buf *out)
{
	size_t n = 0, want = fuzz_below(in, ITEMS_MAX + 1);
	enum status statuses[ITEMS_MAX];
	Wq__V1__Reply *pb;

	wire_list_begin(l, 1, ST_OK);
	for (size_t i = 0; i < want; i++) {
		struct run_record run;
		char *message;
		struct job_reply r = make_reply(in, &run, &message);
		int err = wire_list_result(l, &r, true);

		wq_assert(err == 0 || err == ERR_TOO_LONG);
		if (err == 0)
			statuses[n++] = r.status;
		x_free(message);
	}
	wq_assert(wire_list_copy(copy, l) == 0);
	wq_assert(wire_list_end(copy, 0, out) == 0);
	pb = read_back(out);
	wq_assert(pb->n_results == n);
	for (size_t i = 0; i < n; i++)
		wq_assert((int)pb->results[i]->status == (int)statuses[i]);
	wq__v1__reply__free_unpacked(pb, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct wire_list *l, *copy;
	struct buf out;

	buf_init(&out, OUT_MAX);
	wq_assert(wire_list_new(LIST_MAX, &l) == 0 && wire_list_new(LIST_MAX, &copy) == 0);
	switch (fuzz_below(&in, 4)) {
	case 0:
		try_job_reply(&in, &out);
		break;
	case 1:
		try_jobs(&in, l, &out);
		break;
	case 2:
		try_runs(&in, l, &out);
		break;
	default:
		try_results(&in, l, copy, &out);
	}
	wire_list_free(l);
	wire_list_free(copy);
	buf_done(&out);
	return 0;
}
