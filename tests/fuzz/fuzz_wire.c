/*
 * Requests: every message is taken or refused exactly as protobuf-c takes or
 * refuses it, and what is taken holds nothing but values with a meaning, or is
 * said to be wrong.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <wq.pb-c.h>

#include "base/clock.h"
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/wire.h"

#define ARENA_MAX (4u << 20)

static void
check_time(int64_t ns, bool may_be_absent)
{
	wq_assert(ns >= (may_be_absent ? -1 : 0) && (ns < 0 || ns % NS_PER_MS == 0));
}

static void
check_name(struct job_name job)
{
	fuzz_read(job.queue);
	fuzz_read(job.key);
}

static void
check_level(enum durability level)
{
	wq_assert((unsigned)level <= LEVEL_MEMORY);
}

static void
check_update(const struct op_update *u)
{
	check_name(u->job);
	fuzz_read(u->payload);
	fuzz_read(u->idem);
	wq_assert((unsigned)u->mode <= MODE_LATER);
	wq_assert((unsigned)u->payload_mode <= PAYLOAD_APPEND);
	wq_assert(u->idem.n <= IDEM_MAX);
	check_level(u->level);
	check_time(u->when_ns, false);
	check_time(u->slack_ns, true);
	check_time(u->max_wait_ns, true);
	check_time(u->align_ns, false);
}

static void
check_batch(const struct request *r)
{
	wq_assert(r->batch.n <= BATCH_MAX);
	for (size_t i = 0; i < r->batch.n; i++) {
		check_name(r->batch.v[i].job);
		if (r->batch.why && r->batch.why[i])
			wq_assert(*r->batch.why[i] != '\0');
		else
			check_update(&r->batch.v[i]);
	}
}

static void
check_list(const struct req_list *l)
{
	fuzz_read(l->queue);
	fuzz_read(l->prefix);
	wq_assert(l->limit >= 1 && l->limit <= PAGE_MAX);
	wq_assert(!l->has_state || (unsigned)l->state <= JOB_RUNNING);
	wq_assert(l->due_from_ns >= 0 && l->due_to_ns >= 0);
}

static void
check_settings(const struct op_queue_set *q)
{
	fuzz_read(q->queue);
	wq_assert(q->n_settings <= SETTINGS_MAX);
	for (size_t i = 0; i < q->n_settings; i++) {
		fuzz_read(q->settings[i].name);
		fuzz_read(q->settings[i].value);
	}
}

static void
check_import(const struct job_saved *j)
{
	fuzz_read(j->queue);
	fuzz_read(j->key);
	check_time(j->due_wall_ns, false);
	check_time(j->delay_ns, true);
	check_time(j->created_wall_ns, true);
	check_time(j->slack_ns, false);
	check_time(j->max_wait_ns, false);
	check_level(j->level);
	wq_assert(j->n_parts <= PARTS_MAX);
	for (size_t i = 0; i < j->n_parts; i++)
		fuzz_read(j->parts[i]);
}

/* Called when nothing is said to be wrong with it. */
static void
check_values(const struct request *r)
{
	switch (r->kind) {
	case REQ_UPDATE:
		check_update(&r->update);
		break;
	case REQ_UPDATE_BATCH:
		check_batch(r);
		break;
	case REQ_CANCEL:
		check_name(r->cancel.job);
		wq_assert((unsigned)r->cancel.mode <= CANCEL_KILL);
		wq_assert(r->cancel.idem.n <= IDEM_MAX);
		check_level(r->cancel.level);
		check_time(r->cancel.timeout_ns, true);
		break;
	case REQ_FLUSH:
		check_name(r->flush.job);
		check_time(r->flush.timeout_ns, true);
		break;
	case REQ_FLUSH_QUEUE:
		fuzz_read(r->flush_queue.queue);
		check_time(r->flush_queue.timeout_ns, true);
		break;
	case REQ_WAIT:
		check_name(r->wait.job);
		check_time(r->wait.timeout_ns, true);
		break;
	case REQ_GET:
	case REQ_DELETE:
	case REQ_DISABLE:
	case REQ_ENABLE:
	case REQ_KICK:
		check_name(r->job.job);
		check_level(r->job.level);
		wq_assert(r->job.idem.n <= IDEM_MAX);
		break;
	case REQ_LIST:
		check_list(&r->list);
		break;
	case REQ_HISTORY:
		check_name(r->history.job);
		wq_assert(r->history.limit >= 1 && r->history.limit <= PAGE_MAX);
		break;
	case REQ_QUEUE_CREATE:
	case REQ_QUEUE_SET:
		check_settings(&r->queue_set);
		break;
	case REQ_IMPORT_JOB:
		check_import(&r->import.job);
		break;
	case REQ_QUEUE_DELETE:
		fuzz_read(r->queue_delete.queue);
		wq_assert((unsigned)r->queue_delete.timers <= TIMERS_CANCEL);
		check_time(r->queue_delete.timeout_ns, true);
		break;
	case REQ_DRAIN:
		fuzz_read(r->drain.op.queue);
		wq_assert((unsigned)r->drain.op.timers <= TIMERS_CANCEL);
		check_time(r->drain.op.timeout_ns, true);
		wq_assert(r->drain.progress_ns >= 0);
		break;
	case REQ_QUEUE_SHOW:
	case REQ_PAUSE:
	case REQ_RESUME:
		fuzz_read(r->queue.queue);
		break;
	case REQ_HELLO:
		fuzz_read(r->hello.client);
		fuzz_read(r->hello.token);
		fuzz_read(r->hello.namespace_);
		wq_assert(r->hello.client.n <= CLIENT_NAME_MAX);
		break;
	case REQ_PING:
		fuzz_read(r->ping.echo);
		wq_assert(r->ping.echo.n <= ECHO_MAX);
		break;
	case REQ_COMPLETION_WAIT:
		fuzz_read(r->completion.name);
		check_time(r->completion.timeout_ns, true);
		break;
	case REQ_COMPLETE:
	case REQ_COMPLETE_ALL:
	case REQ_COMPLETION_REINIT:
	case REQ_COMPLETION_SHOW:
		fuzz_read(r->completion.name);
		check_level(r->completion.level);
		wq_assert(r->completion.idem.n <= IDEM_MAX);
		break;
	case REQ_WATCH:
		fuzz_read(r->watch.queue);
		fuzz_read(r->watch.prefix);
		break;
	case REQ_SUBSCRIBE:
		wq_assert(r->subscribe.n_queues <= WORKER_QUEUES_MAX && r->subscribe.credits > 0);
		for (size_t i = 0; i < r->subscribe.n_queues; i++)
			fuzz_read(r->subscribe.queues[i]);
		break;
	case REQ_TOUCH:
	case REQ_FINISH:
	case REQ_FAIL:
	case REQ_RELEASE:
		check_name(r->lease.job);
		fuzz_read(r->lease.output);
		check_level(r->lease.level);
		check_time(r->lease.lease_ns, true);
		check_time(r->lease.retry_after_ns, false);
		wq_assert(r->lease.exit_code >= -1 && r->lease.exit_code <= 255);
		wq_assert(r->lease.signal >= 0 && r->lease.signal <= 127);
		wq_assert(r->lease.idem.n <= IDEM_MAX);
		break;
	case REQ_CREDITS:
	case REQ_UNSUBSCRIBE:
	case REQ_UNKNOWN:
	case REQ_QUEUE_LIST:
	case REQ_STAT:
	case REQ_RELOAD:
	case REQ_SHUTDOWN:
	case REQ_UPGRADE:
	case REQ_BACKUP:
	case REQ_CHECK:
	case REQ_EXPORT:
		break;
	case REQ_KIND_COUNT:
		wq_assert(!"a kind that is none");
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct arena *arena;
	static char nothing;
	uint8_t *copy = (uint8_t *)fuzz_copy(data, size, false);
	Wq__V1__Request *pb = wq__v1__request__unpack(NULL, size, copy);
	const char *why = &nothing;
	struct request r;
	int err;

	if (!arena)
		wq_assert(arena_new(ARENA_MAX, &arena) == 0);
	err = wire_decode(arena, copy, size, &r, &why);
	wq_assert(err == 0 || err == ERR_MALFORMED || err == -ENOMEM);
	wq_assert(err == -ENOMEM || (err == 0) == (pb != NULL));
	if (err == 0) {
		wq_assert(r.id == pb->id && r.run_token == pb->run_token);
		wq_assert((r.kind == REQ_UNKNOWN) == (pb->op_case == WQ__V1__REQUEST__OP__NOT_SET));
		if (why)
			wq_assert(*why != '\0');
		else
			check_values(&r);
	}
	if (pb)
		wq__v1__request__free_unpacked(pb, NULL);
	arena_reset(arena);
	x_free(copy); /* what is decoded borrows from the bytes read, too */
	return 0;
}
