/*
 * The daemon without its edges: sessions, service and engine on a virtual clock,
 * with the input in the place of clients, time, runs, the store and accidents.
 * Requests are made from it, or its bytes are sent as they are.
 *
 * Whatever happens in whatever order: invariants of the engine hold, all that
 * goes to a client is frames with replies, no request is answered twice, time
 * that stands still settles, what was stored up to any moment can be taken up by
 * another daemon, and in the end nothing is left in memory.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <unistd.h>
#include <wq.pb-c.h>

#include "base/err.h"
#include "base/log.h"
#include "base/peer.h"
#include "fuzz/fuzz.h"
#include "model/rig.h"
#include "service/session.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define CLIENTS   3u
#define RUNS      8u
#define IDS_MAX   4096u
#define FRAME_MAX 65536u
#define STEPS_MAX 400 /* of an input */
#define SETTLE    20000

struct client {
	struct session *s; /* NULL: not connected */
	struct buf in;
	bool broken; /* gets nothing more than what is in its output */
	bool wild;   /* has sent bytes with ids of its own choice */
};

struct going {
	uint64_t id, token; /* id 0: none */
	bool started, killed;
};

static struct world {
	struct engine *e;
	struct service *svc;
	struct moment now;
	struct client clients[CLIENTS];
	struct going runs[RUNS];
	uint64_t last_id;
	uint8_t owner[IDS_MAX]; /* of request ids: client + 1; 0: answered */
	struct saved saved;     /* the store */
} w;

/* ---- the daemon's edges ---- */

static void
start_run(void *ctx, const struct run_start *r)
{
	(void)ctx;
	fuzz_read(r->queue);
	fuzz_read(r->key);
	fuzz_read(r->handler);
	for (size_t i = 0; i < r->n_parts; i++)
		fuzz_read(r->parts[i]);
	for (size_t i = 0; i < RUNS; i++) {
		wq_assert(w.runs[i].id != r->run_id);
		if (w.runs[i].id == 0) {
			w.runs[i] = (struct going){ .id = r->run_id, .token = r->token };
			return;
		}
	}
	wq_assert(!"more runs than max_runs");
}

static void
kill_run(void *ctx, uint64_t run_id)
{
	(void)ctx;
	for (size_t i = 0; i < RUNS; i++)
		if (w.runs[i].id == run_id)
			w.runs[i].killed = true;
}

static void
output_ready(void *ctx, struct session *s)
{
	(void)ctx;
	wq_assert(session_user(s) != NULL);
}

static void
output_early(void *ctx, struct session *s)
{
	(void)ctx;
	wq_assert(session_user(s) != NULL && buf_len(session_output(s)) > 0);
}

static int
reload(void *ctx, char *why, size_t size)
{
	(void)ctx;
	snprintf(why, size, "as it was");
	return w.last_id % 2 ? ERR_CONFIG : 0;
}

static void
shut_down(void *ctx, bool drain)
{
	(void)ctx;
	(void)drain;
}

static void
stat(void *ctx, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	(void)ctx;
	put(arg, "fuzz", 1);
}

/* ---- the store's side ---- */

/* Of the model tests' store, which finds what does not fit together. */
_Noreturn void
rig_fail(const char *file, int line, const char *what)
{
	wq_assert_fail("saved", file, line, what);
}

static void
commit(struct fuzz_in *in)
{
	size_t limit = 1 + fuzz_below(in, 32);
	unsigned outcome = fuzz_below(in, 8);

	saved_take(&w.saved, w.e, w.now, limit);
	if (outcome == 0)
		service_commit_failed(w.svc, -ENOSPC);
	else
		service_committed(w.svc, w.saved.mark);
	service_set_degraded(w.svc, outcome == 0);
}

/* ---- clients ---- */

/* Every frame of the output is a reply, and the only one to its request. */
static void
read_replies(struct client *c)
{
	struct buf *out = session_output(c->s);
	const uint8_t *msg;
	size_t len, need;
	long n;

	while ((n = frame_next(buf_head(out), buf_len(out), WIRE_REPLY_MAX, &msg, &len, &need)) >
		0) {
		Wq__V1__Reply *pb = wq__v1__reply__unpack(NULL, len, msg);

		wq_assert(pb != NULL);
		/* id 0: about the connection */
		if (!c->wild && pb->id > 0 && pb->id < IDS_MAX) {
			wq_assert(w.owner[pb->id] == (uint8_t)(c - w.clients) + 1);
			if (!pb->more)
				w.owner[pb->id] = 0;
		}
		wq__v1__reply__free_unpacked(pb, NULL);
		buf_consume(out, (size_t)n);
	}
	wq_assert(n == 0 && buf_len(out) == 0);
}

static void
take_input(struct client *c)
{
	int err;

	while (c->s && !c->broken && session_wants_input(c->s)) {
		err = session_input(c->s, w.now, &c->in);
		c->broken = err < 0;
		if (err <= 0)
			break;
	}
}

static void
hang_up(struct client *c)
{
	if (c->s) {
		read_replies(c);
		session_free(c->s, w.now);
	}
	buf_done(&c->in);
	*c = (struct client){ 0 };
}

static void
connect_again(struct client *c)
{
	struct peer peer = { .unix_socket = true, .uid = geteuid(), .address = "unix pid=1" };

	hang_up(c);
	buf_init(&c->in, 4 * FRAME_MAX);
	wq_assert(session_new(w.svc, &peer, w.now, &c->s) == 0);
	session_set_user(c->s, c);
}

static void
send_message(struct client *c, const Wq__V1__Request *pb)
{
	uint8_t packed[4096], len[5];
	size_t n = wq__v1__request__get_packed_size(pb);

	if (n > sizeof packed || buf_put(&c->in, len, frame_put_len(len, (uint32_t)n)) < 0)
		return;
	wq__v1__request__pack(pb, packed);
	if (buf_put(&c->in, packed, n) < 0)
		buf_consume(&c->in, buf_len(&c->in));
}

static uint64_t
next_id(const struct client *c)
{
	uint64_t id = ++w.last_id;

	if (id < IDS_MAX)
		w.owner[id] = (uint8_t)(c - w.clients) + 1;
	return id;
}

/* A new connection with its hello. */
static void
greet(struct client *c)
{
	Wq__V1__Request pb;
	Wq__V1__Hello hello;

	connect_again(c);
	wq__v1__request__init(&pb);
	wq__v1__hello__init(&hello);
	hello.version = 1;
	pb.id = next_id(c);
	pb.op_case = WQ__V1__REQUEST__OP_HELLO;
	pb.hello = &hello;
	send_message(c, &pb);
	take_input(c);
}

/* ---- requests ---- */

/* Few names, so that requests meet. */
static char *
some_queue(struct fuzz_in *in)
{
	static char names[][8] = { "", "q", "exec", "order", "tmp", "a/b" };

	return names[fuzz_below(in, ARRAY_SIZE(names))];
}

static ProtobufCBinaryData
some_key(struct fuzz_in *in)
{
	static uint8_t keys[][3] = { "", "k", "l", "m1", "\x01" };
	uint8_t *key = keys[fuzz_below(in, ARRAY_SIZE(keys))];

	return (ProtobufCBinaryData){ .data = key, .len = strnlen((char *)key, 3) };
}

static ProtobufCBinaryData
some_idem(struct fuzz_in *in)
{
	static uint8_t ids[] = "abcdefgh";
	unsigned which = fuzz_below(in, 32);

	return (ProtobufCBinaryData){ .data = ids + which % 8, .len = which < 8 };
}

/* Short, long, none, and beyond what is allowed. */
static int64_t
some_ms(struct fuzz_in *in)
{
	static const int64_t some[] = { 0, 1, 2, 10, 100, 1000, 60000, 86400000, -1,
		3153600000001000, INT64_MAX };

	return some[fuzz_below(in, ARRAY_SIZE(some))];
}

static void
make_update(struct fuzz_in *in, Wq__V1__Update *u)
{
	unsigned flags = (unsigned)fuzz_int(in, 2);
	struct str payload;

	wq__v1__update__init(u);
	u->queue = some_queue(in);
	u->key = some_key(in);
	u->when_case = flags & 1 ? WQ__V1__UPDATE__WHEN_AT_MS : WQ__V1__UPDATE__WHEN_DELAY_MS;
	u->delay_ms = some_ms(in);
	if (flags & 1) /* the same place as delay_ms */
		u->at_ms = w.now.wall_ns / NS_PER_MS + u->delay_ms % 100000;
	u->mode = (Wq__V1__UpdateMode)(flags >> 1 & 3);
	u->if_pending = flags >> 3 & 1;
	u->has_slack_ms_case = flags & 16 ? WQ__V1__UPDATE__HAS_SLACK_MS_SLACK_MS : 0;
	u->slack_ms = flags & 16 ? some_ms(in) : 0;
	u->has_max_wait_ms_case = flags & 32 ? WQ__V1__UPDATE__HAS_MAX_WAIT_MS_MAX_WAIT_MS : 0;
	u->max_wait_ms = flags & 32 ? some_ms(in) : 0;
	u->align_ms = flags & 64 ? some_ms(in) : 0;
	u->align_exact = flags >> 7 & 1;
	u->payload_mode = (Wq__V1__PayloadMode)(flags >> 8 & 3);
	u->durability = (Wq__V1__Durability)(flags >> 10 & 3);
	payload = flags & 4096 ? fuzz_str(in, 200) : STR_NONE;
	u->payload = (ProtobufCBinaryData){
		.data = (uint8_t *)(uintptr_t)payload.p,
		.len = payload.n,
	};
	u->idempotency_id = some_idem(in);
}

/* Any message of the protocol, its place in the oneof being the same for all. */
union body {
	Wq__V1__Update update;
	Wq__V1__UpdateBatch batch;
	Wq__V1__Cancel cancel;
	Wq__V1__Flush flush;
	Wq__V1__FlushQueue flush_queue;
	Wq__V1__Wait wait;
	Wq__V1__Job job;
	Wq__V1__List list;
	Wq__V1__History history;
	Wq__V1__QueueSet queue_set;
	Wq__V1__Queue queue;
	Wq__V1__QueueDelete queue_delete;
	Wq__V1__Drain drain;
	Wq__V1__CompletionWait completion_wait;
	Wq__V1__Completion completion;
	Wq__V1__Watch watch;
	Wq__V1__QueueList queue_list;
	Wq__V1__Stat stat;
	Wq__V1__Reload reload;
};

static void
send_update(struct fuzz_in *in, struct client *c, Wq__V1__Request *pb)
{
	Wq__V1__Update u;

	make_update(in, &u);
	pb->op_case = WQ__V1__REQUEST__OP_UPDATE;
	pb->update = &u;
	send_message(c, pb);
}

static void
send_batch(struct fuzz_in *in, struct client *c, Wq__V1__Request *pb)
{
	Wq__V1__Update u[4], *v[4];
	Wq__V1__UpdateBatch batch;

	wq__v1__update_batch__init(&batch);
	batch.n_updates = fuzz_below(in, 5);
	batch.updates = v;
	for (size_t i = 0; i < batch.n_updates; i++) {
		make_update(in, &u[i]);
		v[i] = &u[i];
	}
	pb->op_case = WQ__V1__REQUEST__OP_UPDATE_BATCH;
	pb->update_batch = &batch;
	send_message(c, pb);
}

static void
make_on_job(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	static const Wq__V1__Request__OpCase ops[] = { WQ__V1__REQUEST__OP_GET,
		WQ__V1__REQUEST__OP_DELETE, WQ__V1__REQUEST__OP_DISABLE, WQ__V1__REQUEST__OP_ENABLE,
		WQ__V1__REQUEST__OP_KICK };

	wq__v1__job__init(&b->job);
	b->job.queue = some_queue(in);
	b->job.key = some_key(in);
	b->job.durability = (Wq__V1__Durability)fuzz_below(in, 5);
	b->job.idempotency_id = some_idem(in);
	pb->op_case = ops[fuzz_below(in, ARRAY_SIZE(ops))];
}

static void
make_waiting(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	unsigned what = fuzz_below(in, 4);
	char *queue = some_queue(in);
	ProtobufCBinaryData key = some_key(in);
	int64_t timeout = some_ms(in);

	if (what == 0) {
		wq__v1__cancel__init(&b->cancel);
		b->cancel = (Wq__V1__Cancel){ b->cancel.base, .queue = queue, .key = key };
		b->cancel.mode = (Wq__V1__CancelMode)fuzz_below(in, 4);
		b->cancel.has_timeout_ms_case = WQ__V1__CANCEL__HAS_TIMEOUT_MS_TIMEOUT_MS;
		b->cancel.timeout_ms = timeout;
		b->cancel.idempotency_id = some_idem(in);
		pb->op_case = WQ__V1__REQUEST__OP_CANCEL;
	} else if (what == 1) {
		wq__v1__flush__init(&b->flush);
		b->flush = (Wq__V1__Flush){ b->flush.base, .queue = queue, .key = key };
		b->flush.now = fuzz_below(in, 2);
		pb->op_case = WQ__V1__REQUEST__OP_FLUSH;
	} else if (what == 2) {
		wq__v1__flush_queue__init(&b->flush_queue);
		b->flush_queue.queue = queue;
		b->flush_queue.has_timeout_ms_case = WQ__V1__FLUSH_QUEUE__HAS_TIMEOUT_MS_TIMEOUT_MS;
		b->flush_queue.timeout_ms = timeout;
		pb->op_case = WQ__V1__REQUEST__OP_FLUSH_QUEUE;
	} else {
		wq__v1__wait__init(&b->wait);
		b->wait = (Wq__V1__Wait){ b->wait.base, .queue = queue, .key = key };
		b->wait.generation = fuzz_below(in, 4);
		b->wait.has_timeout_ms_case = WQ__V1__WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
		b->wait.timeout_ms = timeout;
		pb->op_case = WQ__V1__REQUEST__OP_WAIT;
	}
}

static void
make_on_queue(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	static const Wq__V1__Request__OpCase plain[] = { WQ__V1__REQUEST__OP_QUEUE_SHOW,
		WQ__V1__REQUEST__OP_PAUSE, WQ__V1__REQUEST__OP_RESUME };
	unsigned what = fuzz_below(in, 5);
	char *queue = some_queue(in);

	if (what == 0) {
		wq__v1__drain__init(&b->drain);
		b->drain.queue = queue;
		b->drain.timers = (Wq__V1__TimerPolicy)fuzz_below(in, 3);
		b->drain.pause_after = fuzz_below(in, 2);
		b->drain.has_timeout_ms_case = WQ__V1__DRAIN__HAS_TIMEOUT_MS_TIMEOUT_MS;
		b->drain.timeout_ms = some_ms(in);
		b->drain.progress_ms = fuzz_below(in, 2) ? some_ms(in) : 0;
		pb->op_case = WQ__V1__REQUEST__OP_DRAIN;
	} else if (what == 1) {
		wq__v1__queue_delete__init(&b->queue_delete);
		b->queue_delete.queue = queue;
		b->queue_delete.timers = (Wq__V1__TimerPolicy)fuzz_below(in, 3);
		pb->op_case = WQ__V1__REQUEST__OP_QUEUE_DELETE;
	} else {
		wq__v1__queue__init(&b->queue);
		b->queue.queue = queue;
		pb->op_case = plain[what - 2];
	}
}

static void
make_completion(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	static const Wq__V1__Request__OpCase ops[] = { WQ__V1__REQUEST__OP_COMPLETE,
		WQ__V1__REQUEST__OP_COMPLETE_ALL, WQ__V1__REQUEST__OP_COMPLETION_REINIT,
		WQ__V1__REQUEST__OP_COMPLETION_SHOW };
	unsigned what = fuzz_below(in, 2 * ARRAY_SIZE(ops));
	ProtobufCBinaryData name = some_key(in);

	if (what < ARRAY_SIZE(ops)) {
		wq__v1__completion__init(&b->completion);
		b->completion.name = name;
		b->completion.durability = (Wq__V1__Durability)fuzz_below(in, 5);
		b->completion.idempotency_id = some_idem(in);
		pb->op_case = ops[what];
		return;
	}
	wq__v1__completion_wait__init(&b->completion_wait);
	b->completion_wait.name = name;
	b->completion_wait.has_timeout_ms_case = WQ__V1__COMPLETION_WAIT__HAS_TIMEOUT_MS_TIMEOUT_MS;
	b->completion_wait.timeout_ms = some_ms(in);
	pb->op_case = WQ__V1__REQUEST__OP_COMPLETION_WAIT;
}

static void
make_watch(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	static Wq__V1__EventKind kinds[3];

	wq__v1__watch__init(&b->watch);
	b->watch.queue = some_queue(in);
	b->watch.prefix = some_key(in);
	b->watch.n_kinds = fuzz_below(in, ARRAY_SIZE(kinds) + 1);
	b->watch.kinds = kinds;
	for (size_t i = 0; i < b->watch.n_kinds; i++)
		kinds[i] = (Wq__V1__EventKind)fuzz_below(in, 10);
	if (fuzz_below(in, 2)) {
		b->watch.has_after_case = WQ__V1__WATCH__HAS_AFTER_AFTER;
		b->watch.after = fuzz_below(in, 2) ? fuzz_int(in, 8) : fuzz_below(in, 64);
	}
	pb->op_case = WQ__V1__REQUEST__OP_WATCH;
}

static void
make_look(struct fuzz_in *in, Wq__V1__Request *pb, union body *b)
{
	unsigned what = fuzz_below(in, 5);

	if (what == 0) {
		wq__v1__list__init(&b->list);
		b->list.queue = some_queue(in);
		b->list.prefix = some_key(in);
		b->list.cursor = fuzz_below(in, 2) ? fuzz_int(in, 8) : 0;
		b->list.limit = fuzz_below(in, 4);
		pb->op_case = WQ__V1__REQUEST__OP_LIST;
	} else if (what == 1) {
		wq__v1__history__init(&b->history);
		b->history.queue = some_queue(in);
		b->history.key = some_key(in);
		b->history.skip = fuzz_below(in, 4);
		b->history.limit = fuzz_below(in, 4);
		pb->op_case = WQ__V1__REQUEST__OP_HISTORY;
	} else if (what == 2) {
		wq__v1__queue_list__init(&b->queue_list);
		pb->op_case = WQ__V1__REQUEST__OP_QUEUE_LIST;
	} else if (what == 3) {
		wq__v1__stat__init(&b->stat);
		pb->op_case = WQ__V1__REQUEST__OP_STAT;
	} else {
		wq__v1__reload__init(&b->reload);
		pb->op_case = WQ__V1__REQUEST__OP_RELOAD;
	}
}

static void
send_settings(struct fuzz_in *in, struct client *c, Wq__V1__Request *pb)
{
	static char names[][16] = { "action", "handler", "max_active", "ordered", "priority",
		"misfire", "slack", "max_wait", "max_attempts", "retry_delay", "retention",
		"retention_count", "max_jobs", "max_parts", "durability", "nonsense" };
	static char values[][12] = { "none", "exec", "h", "0", "1", "2", "100", "yes", "no", "high",
		"low", "skip", "10ms", "1s", "1h", "sync", "async", "memory" };
	Wq__V1__QueueSet set;
	Wq__V1__Setting s[3], *v[3];

	wq__v1__queue_set__init(&set);
	set.queue = some_queue(in);
	set.n_settings = fuzz_below(in, 4);
	set.settings = v;
	for (size_t i = 0; i < set.n_settings; i++) {
		wq__v1__setting__init(&s[i]);
		s[i].name = names[fuzz_below(in, ARRAY_SIZE(names))];
		s[i].value = values[fuzz_below(in, ARRAY_SIZE(values))];
		v[i] = &s[i];
	}
	pb->op_case = fuzz_below(in, 2) ? WQ__V1__REQUEST__OP_QUEUE_SET
					: WQ__V1__REQUEST__OP_QUEUE_CREATE;
	pb->queue_set = &set;
	send_message(c, pb);
}

static void
send_request(struct fuzz_in *in, struct client *c)
{
	unsigned what = fuzz_below(in, 20);
	Wq__V1__Request pb;
	union body b;

	if (!c->s)
		greet(c);
	wq__v1__request__init(&pb);
	pb.id = next_id(c);
	if (fuzz_below(in, 4) == 0)
		pb.run_token = w.runs[fuzz_below(in, RUNS)].token;
	pb.hello = (Wq__V1__Hello *)(void *)&b;
	if (what < 6) {
		send_update(in, c, &pb);
	} else if (what == 6) {
		send_batch(in, c, &pb);
	} else if (what == 7) {
		send_settings(in, c, &pb);
	} else {
		if (what < 10)
			make_on_job(in, &pb, &b);
		else if (what < 13)
			make_waiting(in, &pb, &b);
		else if (what < 15)
			make_on_queue(in, &pb, &b);
		else if (what < 16)
			make_look(in, &pb, &b);
		else if (what < 19)
			make_completion(in, &pb, &b);
		else
			make_watch(in, &pb, &b);
		send_message(c, &pb);
	}
	take_input(c);
}

/* ---- time and runs ---- */

static void
tick(void)
{
	const struct engine_event ev = { .kind = EV_TICK };

	service_step(w.svc, w.now, &ev);
}

/* With time standing still there comes a point at which nothing is left to do. */
static void
settle(void)
{
	int i = 0;

	for (; engine_next_due(w.e, w.now) <= w.now.boot_ns; i++) {
		wq_assert(i < SETTLE);
		tick();
	}
	(void)service_turn(w.svc, w.now);
}

static void
pass_time(struct fuzz_in *in)
{
	int64_t by = (int64_t)1 << fuzz_below(in, 48);

	w.now.boot_ns += by;
	w.now.wall_ns += by;
	if (fuzz_below(in, 8) == 0) /* somebody sets the clock */
		w.now.wall_ns += (int64_t)(int32_t)fuzz_int(in, 4) * NS_PER_MS;
	for (size_t i = 0; i < CLIENTS; i++) {
		struct client *c = &w.clients[i];

		if (c->s && session_deadline(c->s) <= w.now.boot_ns) {
			session_expired(c->s);
			c->broken = true;
		}
	}
	settle();
}

static void
move_run(struct fuzz_in *in)
{
	struct going *r = &w.runs[fuzz_below(in, RUNS)];
	unsigned what = fuzz_below(in, 6);
	struct engine_event ev = { .kind = EV_RUN_STARTED, .run_id = r->id };
	struct run_end end = { .run_id = r->id, .outcome = RUN_DONE };

	if (r->id == 0)
		return;
	if (what == 0 && !r->started) {
		ev.kind = EV_RUN_NOT_STARTED;
		r->id = 0;
	} else if (what < 3 && !r->started) {
		r->started = true;
	} else {
		end.outcome = r->killed ? RUN_CANCELLED : what % 2 ? RUN_DONE : RUN_FAILED;
		end.exit_code = end.outcome != RUN_DONE;
		end.output = fuzz_str(in, 255);
		ev = (struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &end };
		r->id = 0;
	}
	service_step(w.svc, w.now, &ev);
}

/* ---- all of it ---- */

static void
send_raw(struct fuzz_in *in, struct client *c)
{
	struct str bytes = fuzz_str(in, 600);

	if (!c->s)
		connect_again(c);
	c->wild = true;
	if (buf_put(&c->in, bytes.p, bytes.n) == 0)
		take_input(c);
}

static void
daemon_up(uint64_t seed)
{
	struct engine_config ec = ENGINE_CONFIG_DEFAULT;
	struct service_config sc = {
		.server = "wqd fuzz",
		.instance = "fuzz",
		.frame_max = FRAME_MAX,
		.max_in_flight = 8,
		.output_max = 2048,
		.watch_bytes = 4096,
		.hello_timeout_ns = NS_PER_S,
		.frame_timeout_ns = NS_PER_S,
		.start_run = start_run,
		.kill_run = kill_run,
		.output_ready = output_ready,
		.output_early = output_early,
		.reload = reload,
		.shutdown = shut_down,
		.stat = stat,
	};

	ec.seed[0] = seed;
	ec.max_jobs = 12;
	ec.max_queues = 4;
	ec.max_waiters = 6;
	ec.max_bytes = 2000;
	ec.max_answers = 4;
	ec.max_runs = RUNS;
	ec.turn_budget = 3;
	wq_assert(engine_new(&ec, &w.e) == 0);
	sc.engine = w.e;
	wq_assert(service_new(&sc, &w.svc) == 0);
	memset(w.runs, 0, sizeof w.runs);
	w.saved.mark = 0;
}

static void
daemon_down(void)
{
	for (size_t i = 0; i < CLIENTS; i++)
		hang_up(&w.clients[i]);
	service_free(w.svc);
	engine_free(w.e);
}

/* By a clean stop, a kill, or a reboot of the machine. */
static void
restart(struct fuzz_in *in)
{
	unsigned how = fuzz_below(in, 4);
	int64_t down = (int64_t)1 << fuzz_below(in, 45);

	if (how == 0)
		saved_take(&w.saved, w.e, w.now, SIZE_MAX);
	daemon_down();
	w.now.boot_ns += down;
	w.now.wall_ns += down;
	if (how == 3) {
		w.now.boot_ns = 5 * NS_PER_S;
		w.saved.boot++;
	}
	daemon_up(down);
	saved_restore(&w.saved, w.e, w.now);
	engine_verify(w.e);
	settle();
}

static void
one_step(struct fuzz_in *in)
{
	unsigned what = fuzz_below(in, 32);
	struct client *c = &w.clients[fuzz_below(in, CLIENTS)];

	if (what < 16)
		send_request(in, c);
	else if (what == 16)
		send_raw(in, c);
	else if (what < 20)
		pass_time(in);
	else if (what < 25)
		move_run(in);
	else if (what < 28)
		commit(in);
	else if (what == 28)
		hang_up(c);
	else if (what == 29)
		restart(in);
	else if (c->s)
		read_replies(c);
	for (size_t i = 0; i < CLIENTS; i++)
		take_input(&w.clients[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	int64_t live = alloc_live();

	log_setup(LOG_ERROR_, false);
	memset(&w, 0, sizeof w);
	w.now = (struct moment){ 1000 * NS_PER_S, 1767225600 * NS_PER_S };
	daemon_up(1);
	for (int i = 0; in.n > 0 && i < STEPS_MAX; i++) {
		one_step(&in);
		if (i % 8 == 0)
			engine_verify(w.e);
	}
	settle();
	engine_verify(w.e);
	daemon_down();
	saved_done(&w.saved);
	wq_assert(alloc_live() == live);
	return 0;
}
