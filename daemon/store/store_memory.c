/*
 * A store that keeps nothing: for daemons whose queues are all of level memory,
 * and for tests of what stands above. Ownership and figures behave as they do
 * elsewhere; a copy of nothing is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "store/store.h"
#include "store/uuid.h"

#define MEMORY_STORE_MAGIC 0x4d454d53u

struct memory_store {
	unsigned magic;
	struct store pub;
	struct persist_sink sink;
	bool owned, in_group;
	uint64_t token; /* newest handed out */
	struct store_stats stats;
};

static struct memory_store *
memory_store(struct store *s)
{
	struct memory_store *st = container_of(s, struct memory_store, pub);

	CHECK_OBJ(st, MEMORY_STORE_MAGIC);
	return st;
}

/* ---- puts are counted ---- */

static void
count(void *ctx)
{
	struct memory_store *st = ctx;

	CHECK_OBJ(st, MEMORY_STORE_MAGIC);
	wq_assert(st->in_group);
	st->stats.puts++;
}

static void
queue_put(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)name, (void)s, (void)paused;
	count(ctx);
}

static void
name_remove(void *ctx, struct str name)
{
	(void)name;
	count(ctx);
}

static void
job_put(void *ctx, const struct job_saved *j)
{
	(void)j;
	count(ctx);
}

static void
job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	(void)queue, (void)key, (void)id;
	count(ctx);
}

static void
run_add(void *ctx, uint64_t run_seq, const struct run_record *r)
{
	(void)run_seq, (void)r;
	count(ctx);
}

static void
run_remove(void *ctx, uint64_t run_seq)
{
	(void)run_seq;
	count(ctx);
}

static void
answer_put(void *ctx, const struct answer_saved *a)
{
	(void)a;
	count(ctx);
}

static void
completion_put(void *ctx, const struct completion_saved *c)
{
	(void)c;
	count(ctx);
}

/* ---- groups ---- */

static int
mem_recover(struct store *s, const struct recover_sink *sink, struct store_error *err)
{
	(void)memory_store(s);
	(void)err;
	if (sink->progress)
		sink->progress(sink->ctx, 0, 0);
	return 0;
}

static int
mem_begin(struct store *s)
{
	struct memory_store *st = memory_store(s);

	wq_assert(!st->in_group);
	st->in_group = true;
	return 0;
}

static const struct persist_sink *
mem_sink(struct store *s)
{
	return &memory_store(s)->sink;
}

static int
mem_commit(struct store *s, struct moment now, bool sync)
{
	struct memory_store *st = memory_store(s);

	(void)sync;
	wq_assert(st->in_group);
	st->in_group = false;
	if (st->token != s->meta.token) {
		st->stats.failed_commits++;
		return ERR_STALE_TOKEN;
	}
	s->meta.last_wall_ns = now.wall_ns;
	st->stats.commits++;
	return 0;
}

static int
mem_checkpoint(struct store *s)
{
	(void)memory_store(s);
	return 0;
}

static bool
mem_tidy(struct store *s)
{
	(void)memory_store(s);
	return false;
}

static int
mem_backup_begin(struct store *s, const char *path)
{
	(void)memory_store(s);
	(void)path;
	return -EOPNOTSUPP;
}

static int
mem_backup_step(struct store *s)
{
	(void)memory_store(s);
	return -ECANCELED;
}

static void
mem_backup_end(struct store *s)
{
	(void)memory_store(s);
}

static int
mem_check(struct store *s, struct store_error *err)
{
	(void)memory_store(s);
	(void)err;
	return 0;
}

/* ---- ownership ---- */

static int
mem_claim(struct store *s, const char *owner, uint64_t *token)
{
	struct memory_store *st = memory_store(s);

	if (!owner[0])
		return ERR_BAD_VALUE;
	st->owned = true;
	*token = s->meta.token = ++st->token;
	return 0;
}

static int
mem_renew(struct store *s, uint64_t token)
{
	const struct memory_store *st = memory_store(s);

	return st->owned && token == st->token ? 0 : ERR_STALE_TOKEN;
}

static int
mem_release(struct store *s, uint64_t token)
{
	struct memory_store *st = memory_store(s);
	int rc = mem_renew(s, token);

	if (!rc) {
		st->owned = false;
		st->token++;
	}
	return rc;
}

static void
mem_stats(struct store *s, struct store_stats *out)
{
	*out = memory_store(s)->stats;
}

static int
mem_in_place(struct store *s)
{
	(void)memory_store(s);
	return 0;
}

static void
mem_close(struct store *s)
{
	struct memory_store *st = memory_store(s);

	MAGIC_DONE(st);
	x_free(st);
}

static const struct store_ops memory_ops = {
	.name = "memory",
	.recover = mem_recover,
	.begin = mem_begin,
	.sink = mem_sink,
	.commit = mem_commit,
	.checkpoint = mem_checkpoint,
	.tidy = mem_tidy,
	.check = mem_check,
	.backup_begin = mem_backup_begin,
	.backup_step = mem_backup_step,
	.backup_end = mem_backup_end,
	.claim = mem_claim,
	.renew = mem_renew,
	.release = mem_release,
	.stats = mem_stats,
	.in_place = mem_in_place,
	.close = mem_close,
};

int
store_memory_open(struct store **out)
{
	struct memory_store *st = x_zalloc(sizeof *st);

	if (!st)
		return -ENOMEM;
	st->magic = MEMORY_STORE_MAGIC;
	st->pub.ops = &memory_ops;
	uuid_make(st->pub.meta.instance);
	st->pub.meta.fresh = true;
	st->sink = (struct persist_sink){
		.ctx = st,
		.queue_put = queue_put,
		.queue_remove = name_remove,
		.job_put = job_put,
		.job_remove = job_remove,
		.run_add = run_add,
		.run_remove = run_remove,
		.answer_put = answer_put,
		.answer_remove = name_remove,
		.completion_put = completion_put,
		.completion_remove = name_remove,
	};
	*out = &st->pub;
	return 0;
}
