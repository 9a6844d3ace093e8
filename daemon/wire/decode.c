/*
 * Bytes to struct request: the usual hot ones by hand (hot.h), all others by
 * protobuf-c into the arena.
 *
 * What protobuf-c leaves open is closed here: text has no length there (arena.h
 * knows it), enums may hold any number (each is looked up in its table of
 * words.h), absent and zero differ only by the oneof's case, and an operation of
 * a later version shows as an unknown field of the Request.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <wq.pb-c.h>

#include "base/assert.h"
#include "base/err.h"
#include "wire/arena.h"
#include "wire/decode.h"
#include "wire/hot.h"
#include "wire/wire.h"

#define OP_FIRST 10 /* field numbers of Request from here on are operations */

static void *
pb_alloc(void *arena, size_t n)
{
	return arena_alloc(arena, n);
}

static void
pb_free(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

/* ---- values ---- */

ENUM_READER(read_update_mode, UPDATE_MODE_TABLE, update_mode, "update mode")
ENUM_READER(read_payload_mode, PAYLOAD_MODE_TABLE, payload_mode, "payload mode")
ENUM_READER(read_cancel_mode, CANCEL_MODE_TABLE, cancel_mode, "cancel mode")
ENUM_READER(read_timers, TIMER_POLICY_TABLE, timer_policy, "timer policy")

static struct str
read_idem(struct decode *d, ProtobufCBinaryData b)
{
	if (b.len > IDEM_MAX)
		wrong(d, "the idempotency id is over 64 bytes");
	return bytes(b);
}

static uint32_t
read_limit(struct decode *d, uint32_t v)
{
	if (v > PAGE_MAX)
		wrong(d, "the limit is over 1000");
	return v ? v : PAGE_DEFAULT;
}

/* ---- operations ---- */

static void
read_hello(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Hello *pb = m;

	out->hello = (struct req_hello){
		.version = pb->version,
		.client = text(pb->client),
		.token = bytes(pb->token),
		.namespace_ = text(pb->namespace_),
	};
	if (out->hello.client.n > CLIENT_NAME_MAX)
		wrong(d, "the client name is over 64 bytes");
}

static void
read_ping(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Ping *pb = m;

	out->ping.echo = bytes(pb->echo);
	if (pb->echo.len > ECHO_MAX)
		wrong(d, "the echo is over 64 bytes");
}

/* The words of a command, each with a NUL behind it, in one piece. */
static struct str
read_command(struct decode *d, const Wq__V1__Update *pb)
{
	size_t n = 0;
	char *text, *p;

	if (pb->n_command == 0)
		return STR_NONE;
	if (pb->n_command > COMMAND_WORDS_MAX)
		wrong(d, "the command has over 1024 words");
	for (size_t i = 0; i < pb->n_command && n <= COMMAND_MAX; i++)
		n += pb->command[i].len < COMMAND_MAX ? pb->command[i].len + 1 : COMMAND_MAX + 1;
	if (n > COMMAND_MAX)
		wrong(d, "the command is larger than 128 KiB");
	if (pb->command[0].len == 0)
		wrong(d, "the command names no program");
	if (d->why)
		return STR_NONE;
	text = p = arena_alloc(d->arena, n);
	if (!text) {
		d->full = true;
		return STR_NONE;
	}
	for (size_t i = 0; i < pb->n_command; i++) {
		const ProtobufCBinaryData *w = &pb->command[i];

		if (w->len > 0 && memchr(w->data, 0, w->len))
			wrong(d, "a word of the command has a NUL in it");
		if (w->len > 0)
			memcpy(p, w->data, w->len);
		p += w->len;
		*p++ = '\0';
	}
	return (struct str){ text, n };
}

static struct op_update
update(struct decode *d, const Wq__V1__Update *pb)
{
	struct op_update u = {
		.job = { text(pb->queue), bytes(pb->key) },
		.mode = read_update_mode(d, (int)pb->mode),
		.if_pending = pb->if_pending,
		.slack_ns = optional_ms(d, (int)pb->has_slack_ms_case, pb->slack_ms),
		.max_wait_ns = optional_ms(d, (int)pb->has_max_wait_ms_case, pb->max_wait_ms),
		.align_ns = ms(d, pb->align_ms),
		.align_exact = pb->align_exact,
		.payload_mode = read_payload_mode(d, (int)pb->payload_mode),
		.payload = bytes(pb->payload),
		.level = read_level(d, (int)pb->durability),
		.idem = read_idem(d, pb->idempotency_id),
		.command = read_command(d, pb),
	};

	if (pb->when_case == WQ__V1__UPDATE__WHEN_DELAY_MS) {
		u.when_ns = ms(d, pb->delay_ms);
	} else if (pb->when_case == WQ__V1__UPDATE__WHEN_AT_MS) {
		u.absolute = true;
		u.when_ns = ms(d, pb->at_ms);
	} else {
		wrong(d, "an update needs delay_ms or at_ms");
	}
	return u;
}

static void
read_update(struct decode *d, const void *m, struct request *out)
{
	out->update = update(d, m);
}

static void
read_batch(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__UpdateBatch *pb = m;
	size_t n = pb->n_updates;
	struct op_update *v;
	const char **why;

	out->batch.n = 0;
	if (n > BATCH_MAX) {
		wrong(d, "the batch has over 4096 updates");
		return;
	}
	v = arena_alloc(d->arena, n * sizeof *v);
	why = arena_alloc(d->arena, n * sizeof *why);
	if (!v || !why) {
		d->full = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct decode one = { .arena = d->arena };

		v[i] = update(&one, pb->updates[i]);
		why[i] = one.why;
		d->full = d->full || one.full;
	}
	out->batch.v = v;
	out->batch.why = why;
	out->batch.n = n;
}

static void
read_cancel(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Cancel *pb = m;

	out->cancel = (struct op_cancel){
		.job = { text(pb->queue), bytes(pb->key) },
		.mode = read_cancel_mode(d, (int)pb->mode),
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
		.level = read_level(d, (int)pb->durability),
		.idem = read_idem(d, pb->idempotency_id),
	};
}

static void
read_flush(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Flush *pb = m;

	out->flush = (struct op_flush){
		.job = { text(pb->queue), bytes(pb->key) },
		.now = pb->now,
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_flush_queue(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__FlushQueue *pb = m;

	out->flush_queue = (struct op_flush_queue){
		.queue = text(pb->queue),
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_wait(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Wait *pb = m;

	out->wait = (struct op_wait){
		.job = { text(pb->queue), bytes(pb->key) },
		.generation = pb->generation,
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_job(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Job *pb = m;

	out->job = (struct op_job){
		.job = { text(pb->queue), bytes(pb->key) },
		.level = read_level(d, (int)pb->durability),
		.idem = read_idem(d, pb->idempotency_id),
	};
}

static void
read_list(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__List *pb = m;

	out->list = (struct req_list){
		.queue = text(pb->queue),
		.prefix = bytes(pb->prefix),
		.due_to_ns = INT64_MAX,
		.cursor = pb->cursor,
		.limit = read_limit(d, pb->limit),
	};
	if (pb->has_state_case) {
		out->list.has_state = true;
		out->list.state = read_state(d, (int)pb->state);
	}
	if (pb->has_due_from_ms_case)
		out->list.due_from_ns = ms(d, pb->due_from_ms);
	if (pb->has_due_to_ms_case)
		out->list.due_to_ns = ms(d, pb->due_to_ms);
}

static void
read_history(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__History *pb = m;

	out->history = (struct req_history){
		.job = { text(pb->queue), bytes(pb->key) },
		.skip = pb->skip,
		.limit = read_limit(d, pb->limit),
	};
}

static void
read_queue_set(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__QueueSet *pb = m;
	struct setting_text *v;

	out->queue_set = (struct op_queue_set){ .queue = text(pb->queue) };
	if (pb->n_settings > SETTINGS_MAX) {
		wrong(d, "over 64 settings");
		return;
	}
	v = arena_alloc(d->arena, pb->n_settings * sizeof *v);
	if (!v) {
		d->full = true;
		return;
	}
	for (size_t i = 0; i < pb->n_settings; i++) {
		v[i].name = text(pb->settings[i]->name);
		v[i].value = text(pb->settings[i]->value);
	}
	out->queue_set.settings = v;
	out->queue_set.n_settings = pb->n_settings;
}

static void
read_queue_list(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__QueueList *pb = m;

	(void)d;
	out->cursor = pb->cursor;
}

static void
read_queue(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Queue *pb = m;

	(void)d;
	out->queue.queue = text(pb->queue);
}

static void
read_queue_delete(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__QueueDelete *pb = m;

	out->queue_delete = (struct op_queue_delete){
		.queue = text(pb->queue),
		.timers = read_timers(d, (int)pb->timers),
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_drain(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Drain *pb = m;

	out->drain.progress_ns = ms(d, pb->progress_ms);
	out->drain.op = (struct op_drain){
		.queue = text(pb->queue),
		.timers = read_timers(d, (int)pb->timers),
		.pause_after = pb->pause_after,
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_shutdown(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Shutdown *pb = m;

	(void)d;
	out->drain_first = pb->drain;
}

static void
read_upgrade(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Upgrade *pb = m;

	(void)d;
	out->upgrade_check = pb->check;
}

static void
read_completion_wait(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__CompletionWait *pb = m;

	out->completion = (struct op_completion){
		.name = bytes(pb->name),
		.timeout_ns = optional_ms(d, (int)pb->has_timeout_ms_case, pb->timeout_ms),
	};
}

static void
read_completion(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Completion *pb = m;

	out->completion = (struct op_completion){
		.name = bytes(pb->name),
		.level = read_level(d, (int)pb->durability),
		.idem = read_idem(d, pb->idempotency_id),
	};
}

ENUM_READER(read_event_kind, EVENT_KIND_TABLE, watch_kind, "kind of event")

static void
read_watch(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Watch *pb = m;

	out->watch = (struct req_watch){
		.queue = text(pb->queue),
		.prefix = bytes(pb->prefix),
		.kinds = pb->n_kinds ? 0 : UINT32_MAX,
		.has_after = pb->has_after_case != 0,
		.after = pb->after,
	};
	if (pb->n_kinds > WATCH_KINDS_MAX) {
		wrong(d, "over 16 kinds of events");
		return;
	}
	for (size_t i = 0; i < pb->n_kinds; i++)
		out->watch.kinds |= 1u << read_event_kind(d, (int)pb->kinds[i]);
}

static void
read_subscribe(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Subscribe *pb = m;
	struct str *v;

	out->subscribe = (struct op_subscribe){ .credits = pb->credits ? pb->credits : 1 };
	if (pb->n_queues > WORKER_QUEUES_MAX) {
		wrong(d, "over 64 queues");
		return;
	}
	v = arena_alloc(d->arena, pb->n_queues * sizeof *v);
	if (!v) {
		d->full = true;
		return;
	}
	for (size_t i = 0; i < pb->n_queues; i++)
		v[i] = text(pb->queues[i]);
	out->subscribe.queues = v;
	out->subscribe.n_queues = pb->n_queues;
}

static void
read_credits(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Credits *pb = m;

	(void)d;
	out->credits = (struct op_credits){ .credits = pb->credits };
}

static void
read_unsubscribe(struct decode *d, const void *m, struct request *out)
{
	(void)d;
	(void)m;
	out->credits = (struct op_credits){ 0 };
}

static void
read_lease(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Lease *pb = m;

	out->lease = (struct op_lease){
		.job = { text(pb->queue), bytes(pb->key) },
		.token = pb->token,
		.lease_ns = optional_ms(d, (int)pb->has_lease_ms_case, pb->lease_ms),
		.has_retry_after = pb->has_retry_after_ms_case != 0,
		.exit_code = pb->has_exit_code_case ? pb->exit_code : -1,
		.signal = pb->signal,
		.output = bytes(pb->output),
		.truncated = pb->truncated,
		.level = read_level(d, (int)pb->durability),
		.idem = read_idem(d, pb->idempotency_id),
	};
	if (out->lease.has_retry_after)
		out->lease.retry_after_ns = ms(d, pb->retry_after_ms);
	if (pb->has_exit_code_case && (pb->exit_code < 0 || pb->exit_code > 255))
		wrong(d, "an exit code is 0 to 255");
	if (pb->signal < 0 || pb->signal > 127)
		wrong(d, "a signal is 0 to 127");
}

static const struct {
	enum request_kind kind;
	void (*read)(struct decode *d, const void *m, struct request *out); /* NULL: no fields */
} op_table[] = {
	[WQ__V1__REQUEST__OP_HELLO] = { REQ_HELLO, read_hello },
	[WQ__V1__REQUEST__OP_PING] = { REQ_PING, read_ping },
	[WQ__V1__REQUEST__OP_UPDATE] = { REQ_UPDATE, read_update },
	[WQ__V1__REQUEST__OP_UPDATE_BATCH] = { REQ_UPDATE_BATCH, read_batch },
	[WQ__V1__REQUEST__OP_CANCEL] = { REQ_CANCEL, read_cancel },
	[WQ__V1__REQUEST__OP_FLUSH] = { REQ_FLUSH, read_flush },
	[WQ__V1__REQUEST__OP_FLUSH_QUEUE] = { REQ_FLUSH_QUEUE, read_flush_queue },
	[WQ__V1__REQUEST__OP_WAIT] = { REQ_WAIT, read_wait },
	[WQ__V1__REQUEST__OP_GET] = { REQ_GET, read_job },
	[WQ__V1__REQUEST__OP_LIST] = { REQ_LIST, read_list },
	[WQ__V1__REQUEST__OP_HISTORY] = { REQ_HISTORY, read_history },
	[WQ__V1__REQUEST__OP_DELETE] = { REQ_DELETE, read_job },
	[WQ__V1__REQUEST__OP_DISABLE] = { REQ_DISABLE, read_job },
	[WQ__V1__REQUEST__OP_ENABLE] = { REQ_ENABLE, read_job },
	[WQ__V1__REQUEST__OP_KICK] = { REQ_KICK, read_job },
	[WQ__V1__REQUEST__OP_QUEUE_CREATE] = { REQ_QUEUE_CREATE, read_queue_set },
	[WQ__V1__REQUEST__OP_QUEUE_SET] = { REQ_QUEUE_SET, read_queue_set },
	[WQ__V1__REQUEST__OP_QUEUE_SHOW] = { REQ_QUEUE_SHOW, read_queue },
	[WQ__V1__REQUEST__OP_QUEUE_LIST] = { REQ_QUEUE_LIST, read_queue_list },
	[WQ__V1__REQUEST__OP_QUEUE_DELETE] = { REQ_QUEUE_DELETE, read_queue_delete },
	[WQ__V1__REQUEST__OP_PAUSE] = { REQ_PAUSE, read_queue },
	[WQ__V1__REQUEST__OP_RESUME] = { REQ_RESUME, read_queue },
	[WQ__V1__REQUEST__OP_DRAIN] = { REQ_DRAIN, read_drain },
	[WQ__V1__REQUEST__OP_STAT] = { REQ_STAT, NULL },
	[WQ__V1__REQUEST__OP_RELOAD] = { REQ_RELOAD, NULL },
	[WQ__V1__REQUEST__OP_SHUTDOWN] = { REQ_SHUTDOWN, read_shutdown },
	[WQ__V1__REQUEST__OP_COMPLETION_WAIT] = { REQ_COMPLETION_WAIT, read_completion_wait },
	[WQ__V1__REQUEST__OP_COMPLETE] = { REQ_COMPLETE, read_completion },
	[WQ__V1__REQUEST__OP_COMPLETE_ALL] = { REQ_COMPLETE_ALL, read_completion },
	[WQ__V1__REQUEST__OP_COMPLETION_REINIT] = { REQ_COMPLETION_REINIT, read_completion },
	[WQ__V1__REQUEST__OP_COMPLETION_SHOW] = { REQ_COMPLETION_SHOW, read_completion },
	[WQ__V1__REQUEST__OP_WATCH] = { REQ_WATCH, read_watch },
	[WQ__V1__REQUEST__OP_SUBSCRIBE] = { REQ_SUBSCRIBE, read_subscribe },
	[WQ__V1__REQUEST__OP_CREDITS] = { REQ_CREDITS, read_credits },
	[WQ__V1__REQUEST__OP_UNSUBSCRIBE] = { REQ_UNSUBSCRIBE, read_unsubscribe },
	[WQ__V1__REQUEST__OP_TOUCH] = { REQ_TOUCH, read_lease },
	[WQ__V1__REQUEST__OP_FINISH] = { REQ_FINISH, read_lease },
	[WQ__V1__REQUEST__OP_FAIL] = { REQ_FAIL, read_lease },
	[WQ__V1__REQUEST__OP_RELEASE] = { REQ_RELEASE, read_lease },
	[WQ__V1__REQUEST__OP_BACKUP] = { REQ_BACKUP, NULL },
	[WQ__V1__REQUEST__OP_CHECK] = { REQ_CHECK, NULL },
	[WQ__V1__REQUEST__OP_EXPORT] = { REQ_EXPORT, decode_export },
	[WQ__V1__REQUEST__OP_IMPORT_JOB] = { REQ_IMPORT_JOB, decode_import },
	[WQ__V1__REQUEST__OP_UPGRADE] = { REQ_UPGRADE, read_upgrade },
};

static bool
has_later_operation(const Wq__V1__Request *pb)
{
	for (size_t i = 0; i < pb->base.n_unknown_fields; i++)
		if (pb->base.unknown_fields[i].tag >= OP_FIRST)
			return true;
	return false;
}

int
wire_decode_any(struct arena *a, const uint8_t *p, size_t n, struct request *out, const char **why)
{
	ProtobufCAllocator allocator = { pb_alloc, pb_free, a };
	struct decode d = { .arena = a };
	const Wq__V1__Request *pb;

	*why = NULL;
	pb = wq__v1__request__unpack(&allocator, n, p);
	if (!pb)
		return arena_failed(a) ? -ENOMEM : ERR_MALFORMED;
	*out = (struct request){
		.id = pb->id,
		.run_token = pb->run_token,
		.kind = REQ_UNKNOWN,
	};
	if (pb->op_case == WQ__V1__REQUEST__OP__NOT_SET) {
		if (!has_later_operation(pb))
			*why = "the request names no operation";
		return 0;
	}
	wq_assert((size_t)pb->op_case < ARRAY_SIZE(op_table));
	out->kind = op_table[pb->op_case].kind;
	if (op_table[pb->op_case].read)
		op_table[pb->op_case].read(&d, pb->hello, out);
	if (d.full)
		return -ENOMEM;
	*why = d.why;
	return 0;
}

int
wire_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out, const char **why)
{
	if (!hot_decode(a, p, n, out))
		return wire_decode_any(a, p, n, out, why);
	*why = NULL;
	return 0;
}
