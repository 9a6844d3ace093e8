/*
 * A group: a copy of what changed, from engine_take_dirty() to the store.
 *
 * Things are laid one behind the other into chunks, each a header that links to
 * the next and the struct of its kind, followed by the bytes that its strings
 * point at. A queue's name is copied once for a row of things of that queue.
 * Payloads that the store has already are left out. Nothing is freed singly.
 *
 * Made by the loop, then given away whole: no locks.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "store/writer.h"

#define GROUP_MAGIC 0x47525550u
#define CHUNK_BYTES 65536u

struct chunk {
	struct chunk *next;
	size_t used, cap;
	_Alignas(max_align_t) char data[];
};

enum item_kind {
	ITEM_QUEUE_PUT,
	ITEM_QUEUE_REMOVE,
	ITEM_JOB_PUT,
	ITEM_JOB_MOVE,
	ITEM_JOB_REMOVE,
	ITEM_RUN_ADD,
	ITEM_RUN_REMOVE,
	ITEM_ANSWER_PUT,
	ITEM_ANSWER_REMOVE,
	ITEM_COMPLETION_PUT,
	ITEM_COMPLETION_REMOVE,
};

struct item {
	struct item *next;
	enum item_kind kind;
};

struct item_queue {
	struct item head;
	struct str name;
	struct queue_settings settings;
	bool paused;
};

struct item_name { /* a queue's, a completion's, or an answer's id */
	struct item head;
	struct str name;
};

struct item_job {
	struct item head;
	struct job_saved job;
};

/* A job that only moved: what of it counts then. */
struct item_move {
	struct item head;
	uint32_t id, coalesced;
	int64_t due_boot_ns, due_wall_ns, delay_ns;
	uint64_t seq;
};

struct item_job_name {
	struct item head;
	uint32_t id;
	struct str queue, key;
};

struct item_run {
	struct item head;
	uint64_t seq;
	struct run_record record; /* only of ITEM_RUN_ADD */
};

struct item_answer {
	struct item head;
	struct answer_saved answer;
};

struct item_completion {
	struct item head;
	struct completion_saved completion;
};

struct group {
	unsigned magic;
	struct persist_sink sink;
	struct chunk *chunks; /* owned; the one being filled first */
	struct item *first, **end;
	struct str queue; /* name copied last */
	size_t count, bytes;
	bool no_memory;
};

/* ---- memory ---- */

static size_t
aligned(size_t n)
{
	return (n + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

static struct chunk *
add_chunk(struct group *g, size_t n)
{
	size_t cap = n > CHUNK_BYTES / 4 ? n : CHUNK_BYTES - sizeof(struct chunk);
	struct chunk *c = x_alloc(sizeof *c + cap);

	if (!c)
		return NULL;
	c->used = 0;
	c->cap = cap;
	/* One made for a large thing is full at once: the one being filled stays first. */
	if (g->chunks && cap == n) {
		c->next = g->chunks->next;
		g->chunks->next = c;
	} else {
		c->next = g->chunks;
		g->chunks = c;
	}
	g->bytes += sizeof *c + cap;
	return c;
}

/* NULL, and the group remembers, when there is no memory. */
static void *
take(struct group *g, size_t n)
{
	struct chunk *c = g->chunks;
	void *p;

	n = aligned(n);
	if (!c || n > c->cap - c->used)
		c = add_chunk(g, n);
	if (!c) {
		g->no_memory = true;
		return NULL;
	}
	p = c->data + c->used;
	c->used += n;
	return p;
}

static struct str
copy(struct group *g, struct str s)
{
	char *p;

	if (s.n == 0)
		return STR_NONE;
	p = take(g, s.n);
	if (!p)
		return STR_NONE;
	memcpy(p, s.p, s.n);
	return (struct str){ p, s.n };
}

static struct str
copy_queue(struct group *g, struct str name)
{
	if (!str_eq(g->queue, name))
		g->queue = copy(g, name);
	return g->queue;
}

static const struct str *
copy_parts(struct group *g, const struct str *parts, size_t n)
{
	struct str *v = n ? take(g, n * sizeof *v) : NULL;

	for (size_t i = 0; v && i < n; i++)
		v[i] = copy(g, parts[i]);
	return v;
}

/* An item of `size` bytes, not yet in the group; NULL when there is no memory. */
static void *
new_item(void *ctx, size_t size, enum item_kind kind, struct group **out)
{
	struct group *g = ctx;
	struct item *it;

	CHECK_OBJ(g, GROUP_MAGIC);
	*out = g;
	it = g->no_memory ? NULL : take(g, size);
	if (!it)
		return NULL;
	it->next = NULL;
	it->kind = kind;
	return it;
}

static void
add_item(struct group *g, struct item *it)
{
	*g->end = it;
	g->end = &it->next;
	g->count++;
}

/* ---- what comes in ---- */

static void
queue_put(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	struct group *g;
	struct item_queue *it = new_item(ctx, sizeof *it, ITEM_QUEUE_PUT, &g);

	if (!it)
		return;
	it->name = copy_queue(g, name);
	it->settings = *s;
	it->paused = paused;
	add_item(g, &it->head);
}

static void
queue_remove(void *ctx, struct str name)
{
	struct group *g;
	struct item_name *it = new_item(ctx, sizeof *it, ITEM_QUEUE_REMOVE, &g);

	if (!it)
		return;
	it->name = copy_queue(g, name);
	add_item(g, &it->head);
}

static void
job_move(struct group *g, const struct job_saved *j)
{
	struct item_move *it = new_item(g, sizeof *it, ITEM_JOB_MOVE, &g);

	if (!it)
		return;
	it->id = j->id;
	it->coalesced = j->coalesced;
	it->due_boot_ns = j->due_boot_ns;
	it->due_wall_ns = j->due_wall_ns;
	it->delay_ns = j->delay_ns;
	it->seq = j->seq;
	add_item(g, &it->head);
}

static void
job_put(void *ctx, const struct job_saved *j)
{
	struct group *g = ctx;
	struct item_job *it;

	CHECK_OBJ(g, GROUP_MAGIC);
	if (j->id == 0)
		g->no_memory = true; /* that is why it has none */
	if (j->moved) {
		job_move(g, j);
		return;
	}
	it = new_item(g, sizeof *it, ITEM_JOB_PUT, &g);
	if (!it)
		return;
	it->job = *j;
	it->job.queue = copy_queue(g, j->queue);
	it->job.key = copy(g, j->key);
	if (!j->payload_changed)
		it->job.n_parts = it->job.n_run_parts = 0;
	it->job.parts = copy_parts(g, j->parts, it->job.n_parts);
	it->job.run_parts = copy_parts(g, j->run_parts, it->job.n_run_parts);
	add_item(g, &it->head);
}

static void
job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	struct group *g;
	struct item_job_name *it = new_item(ctx, sizeof *it, ITEM_JOB_REMOVE, &g);

	if (!it)
		return;
	it->id = id;
	it->queue = copy_queue(g, queue);
	it->key = copy(g, key);
	add_item(g, &it->head);
}

static void
run_add(void *ctx, uint64_t run_seq, const struct run_record *r)
{
	struct group *g;
	struct item_run *it = new_item(ctx, sizeof *it, ITEM_RUN_ADD, &g);

	if (!it)
		return;
	it->seq = run_seq;
	it->record = *r;
	it->record.queue = copy_queue(g, r->queue);
	it->record.key = copy(g, r->key);
	it->record.output = copy(g, r->output);
	add_item(g, &it->head);
}

static void
run_remove(void *ctx, uint64_t run_seq)
{
	struct group *g;
	struct item_run *it = new_item(ctx, offsetof(struct item_run, record), ITEM_RUN_REMOVE, &g);

	if (!it)
		return;
	it->seq = run_seq;
	add_item(g, &it->head);
}

static void
answer_put(void *ctx, const struct answer_saved *a)
{
	struct group *g;
	struct item_answer *it = new_item(ctx, sizeof *it, ITEM_ANSWER_PUT, &g);

	if (!it)
		return;
	it->answer = *a;
	it->answer.id = copy(g, a->id);
	it->answer.reply.queue = copy_queue(g, a->reply.queue);
	it->answer.reply.key = copy(g, a->reply.key);
	it->answer.reply.run = NULL;
	add_item(g, &it->head);
}

static void
answer_remove(void *ctx, struct str id)
{
	struct group *g;
	struct item_name *it = new_item(ctx, sizeof *it, ITEM_ANSWER_REMOVE, &g);

	if (!it)
		return;
	it->name = copy(g, id);
	add_item(g, &it->head);
}

static void
completion_put(void *ctx, const struct completion_saved *c)
{
	struct group *g;
	struct item_completion *it = new_item(ctx, sizeof *it, ITEM_COMPLETION_PUT, &g);

	if (!it)
		return;
	it->completion = *c;
	it->completion.name = copy(g, c->name);
	add_item(g, &it->head);
}

static void
completion_remove(void *ctx, struct str name)
{
	struct group *g;
	struct item_name *it = new_item(ctx, sizeof *it, ITEM_COMPLETION_REMOVE, &g);

	if (!it)
		return;
	it->name = copy(g, name);
	add_item(g, &it->head);
}

/* ---- the group ---- */

int
group_new(struct group **out)
{
	struct group *g = x_zalloc(sizeof *g);

	if (!g)
		return -ENOMEM;
	g->magic = GROUP_MAGIC;
	g->end = &g->first;
	g->bytes = sizeof *g;
	g->sink = (struct persist_sink){
		.ctx = g,
		.queue_put = queue_put,
		.queue_remove = queue_remove,
		.job_put = job_put,
		.job_remove = job_remove,
		.run_add = run_add,
		.run_remove = run_remove,
		.answer_put = answer_put,
		.answer_remove = answer_remove,
		.completion_put = completion_put,
		.completion_remove = completion_remove,
	};
	*out = g;
	return 0;
}

void
group_free(struct group *g)
{
	if (!g)
		return;
	CHECK_OBJ(g, GROUP_MAGIC);
	for (struct chunk *c = g->chunks, *next; c; c = next) {
		next = c->next;
		x_free(c);
	}
	MAGIC_DONE(g);
	x_free(g);
}

const struct persist_sink *
group_sink(struct group *g)
{
	CHECK_OBJ(g, GROUP_MAGIC);
	return &g->sink;
}

size_t
group_count(const struct group *g)
{
	return g->count;
}

size_t
group_bytes(const struct group *g)
{
	return g->bytes;
}

bool
group_whole(const struct group *g)
{
	return !g->no_memory;
}

static void
replay_move(const struct item_move *m, const struct persist_sink *to)
{
	const struct job_saved j = { .id = m->id,
		.moved = true,
		.coalesced = m->coalesced,
		.due_boot_ns = m->due_boot_ns,
		.due_wall_ns = m->due_wall_ns,
		.delay_ns = m->delay_ns,
		.seq = m->seq };

	to->job_put(to->ctx, &j);
}

static void
replay_item(const struct item *it, const struct persist_sink *to)
{
	const struct item_queue *q = (const struct item_queue *)it;
	const struct item_name *n = (const struct item_name *)it;
	const struct item_job_name *jn = (const struct item_job_name *)it;
	const struct item_run *r = (const struct item_run *)it;

	switch (it->kind) {
	case ITEM_QUEUE_PUT:
		to->queue_put(to->ctx, q->name, &q->settings, q->paused);
		return;
	case ITEM_QUEUE_REMOVE:
		to->queue_remove(to->ctx, n->name);
		return;
	case ITEM_JOB_PUT:
		to->job_put(to->ctx, &((const struct item_job *)it)->job);
		return;
	case ITEM_JOB_MOVE:
		replay_move((const struct item_move *)it, to);
		return;
	case ITEM_JOB_REMOVE:
		to->job_remove(to->ctx, jn->queue, jn->key, jn->id);
		return;
	case ITEM_RUN_ADD:
		to->run_add(to->ctx, r->seq, &r->record);
		return;
	case ITEM_RUN_REMOVE:
		to->run_remove(to->ctx, r->seq);
		return;
	case ITEM_ANSWER_PUT:
		to->answer_put(to->ctx, &((const struct item_answer *)it)->answer);
		return;
	case ITEM_ANSWER_REMOVE:
		to->answer_remove(to->ctx, n->name);
		return;
	case ITEM_COMPLETION_PUT:
		to->completion_put(to->ctx, &((const struct item_completion *)it)->completion);
		return;
	case ITEM_COMPLETION_REMOVE:
		to->completion_remove(to->ctx, n->name);
		return;
	}
}

void
group_replay(const struct group *g, const struct persist_sink *to)
{
	CHECK_OBJ(g, GROUP_MAGIC);
	wq_assert(group_whole(g));
	for (const struct item *it = g->first; it; it = it->next)
		replay_item(it, to);
}
