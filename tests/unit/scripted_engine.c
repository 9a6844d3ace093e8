#include "unit/scripted_engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hist.h"

#define LATER_MAX 4096

static struct effect later[LATER_MAX];
static size_t n_later;
static struct hist no_lateness;

void
scripted_init(struct engine *e)
{
	*e = (struct engine){ .reply = { .status = ST_CREATED }, .n_queues = 2 };
	queue_settings_default(&e->settings);
	n_later = 0;
}

const struct scripted_event *
scripted_last(const struct engine *e, enum engine_event_kind kind)
{
	for (size_t i = e->n_seen; i-- > 0;)
		if (e->seen[i % SCRIPTED_MAX].kind == kind)
			return &e->seen[i % SCRIPTED_MAX];
	return NULL;
}

size_t
scripted_count(const struct engine *e, enum engine_event_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n_seen && i < SCRIPTED_MAX; i++)
		n += e->seen[i].kind == kind;
	return n;
}

void
scripted_answer(struct engine *e, uint64_t ticket, const struct job_reply *r, bool durable)
{
	wq_assert(n_later < LATER_MAX);
	later[n_later++] = (struct effect){
		.kind = FX_REPLY, .ticket = ticket, .reply = *r, .durable = durable
	};
	e->mark += durable;
}

void
effects_init(struct effects *fx)
{
	*fx = (struct effects){ 0 };
}

void
effects_done(struct effects *fx)
{
	x_free(fx->v);
}

static void
put(struct effects *fx, const struct effect *f)
{
	if (fx->n == fx->cap) {
		fx->cap = fx->cap ? fx->cap * 2 : 8;
		fx->v = must_realloc(fx->v, fx->cap, sizeof *fx->v);
	}
	fx->v[fx->n++] = *f;
}

/* Which job an event is about, and whether its answer has to be on disk. */
static struct str
key_of(const struct engine_event *ev, bool *sync)
{
	*sync = false;
	switch ((int)ev->kind) {
	case EV_UPDATE:
		*sync = ev->update->level == LEVEL_SYNC;
		return ev->update->job.key;
	case EV_CANCEL:
		*sync = ev->cancel->level == LEVEL_SYNC;
		return ev->cancel->job.key;
	case EV_FLUSH:
		return ev->flush->job.key;
	case EV_WAIT:
		return ev->wait->job.key;
	case EV_DELETE:
	case EV_DISABLE:
	case EV_ENABLE:
	case EV_KICK:
		*sync = ev->job->level == LEVEL_SYNC;
		return ev->job->job.key;
	default:
		return STR_NONE;
	}
}

static void
record(struct engine *e, struct moment now, const struct engine_event *ev, struct str key)
{
	struct scripted_event *s = &e->seen[e->n_seen++ % SCRIPTED_MAX];

	*s = (struct scripted_event){ ev->kind, ev->ticket, ev->run_token, "", now.boot_ns };
	if (key.n)
		memcpy(s->key, key.p, key.n < sizeof s->key ? key.n : sizeof s->key - 1);
}

static void
answer(struct engine *e, const struct engine_event *ev, struct str key, bool sync,
	struct effects *fx)
{
	struct effect f = { .kind = FX_REPLY, .ticket = ev->ticket, .reply = e->reply };
	const struct effect start = { .kind = FX_START, .start = { .run_id = 77 } };
	const struct effect kill = { .kind = FX_KILL, .run_id = 78 };

	f.durable = sync;
	f.reply.key = key.n ? key : STR("made");
	e->mark += sync;
	put(fx, &f);
	if (e->start_run) {
		put(fx, &start);
		put(fx, &kill);
		e->start_run = false;
	}
}

void
engine_ahead(struct engine *e, const struct job_name *const *names, size_t n)
{
	(void)e;
	(void)names;
	wq_assert(n > 0 && n <= ENGINE_AHEAD_MAX);
}

/* Leaves all to engine_step. */
bool
engine_reschedule(struct engine *e, struct moment now, const struct op_update *op,
	uint64_t run_token, struct job_reply *r, bool *durable)
{
	(void)e;
	(void)now;
	(void)op;
	(void)run_token;
	(void)r;
	(void)durable;
	return false;
}

void
engine_step(struct engine *e, struct moment now, const struct engine_event *ev, struct effects *fx)
{
	bool sync;
	struct str key = key_of(ev, &sync);

	record(e, now, ev, key);
	if (ev->kind == EV_TICK) {
		for (size_t i = 0; i < n_later; i++)
			put(fx, &later[i]);
		n_later = 0;
	} else if (ev->kind != EV_ABANDON && !(key.n >= 4 && memcmp(key.p, "wait", 4) == 0)) {
		answer(e, ev, key, sync, fx);
	}
}

uint64_t
engine_dirty_mark(const struct engine *e)
{
	return e->mark;
}

int
engine_configure_queue(struct engine *e, struct moment now, struct str name,
	const struct queue_settings *s, struct effects *fx)
{
	(void)now;
	(void)name;
	(void)fx;
	e->settings = *s;
	return 0;
}

/* ---- looks ---- */

static struct run_record
a_run(const struct engine *e)
{
	return (struct run_record){ .queue = STR("default"),
		.key = STR("job"),
		.generation = 1,
		.outcome = RUN_DONE,
		.output = e->run_output };
}

enum status
engine_get(
	const struct engine *e, struct moment now, const struct job_name *job, struct job_view *out)
{
	static struct run_record last;

	(void)now;
	if (!str_eq(job->key, STR("job")))
		return ST_NOT_FOUND;
	last = a_run(e);
	*out = (struct job_view){ .queue = STR("default"), .key = STR("job"), .last = &last };
	return ST_OK;
}

/* The cursor is the number of the next job. */
enum status
engine_list(const struct engine *e, struct moment now, const struct list_filter *f,
	uint64_t *cursor, size_t limit, bool (*each)(void *arg, const struct job_view *), void *arg)
{
	struct run_record last = a_run(e);
	struct job_view j = { .queue = STR("default"),
		.key = STR("a-key-of-some-length"),
		.last = e->run_output.n ? &last : NULL };
	size_t n = 0;

	(void)now;
	if (str_eq(f->queue, STR("nowhere")))
		return ST_NOT_FOUND;
	while (*cursor < e->n_jobs && n++ < limit) {
		++*cursor;
		if (!each(arg, &j))
			break;
	}
	if (*cursor == e->n_jobs)
		*cursor = 0;
	return ST_OK;
}

enum status
engine_history(const struct engine *e, const struct job_name *job, size_t skip, size_t limit,
	bool (*each)(void *arg, const struct run_record *), void *arg)
{
	struct run_record r = a_run(e);

	(void)job;
	for (size_t i = skip; i < e->n_runs && i < skip + limit; i++) {
		r.generation = e->n_runs - i;
		if (!each(arg, &r))
			break;
	}
	return ST_OK;
}

void
engine_set_spaces(struct engine *e)
{
	e->spaces = true;
}

bool
engine_spaces(const struct engine *e)
{
	return e->spaces;
}

void
engine_set_watched(struct engine *e, bool watched)
{
	e->watched = watched;
}

enum status
engine_drain_get(
	const struct engine *e, struct moment now, struct str queue, struct drain_view *out)
{
	(void)e, (void)now, (void)queue;
	*out = (struct drain_view){ .left = 5, .running = 2, .oldest_ns = NS_PER_S };
	return ST_OK;
}

enum status
engine_completion_get(const struct engine *e, struct str name, struct completion_view *out)
{
	(void)e;
	*out = (struct completion_view){ .name = name, .level = LEVEL_MEMORY, .done = 3 };
	return key_valid(name) ? ST_OK : ST_INVALID;
}

enum status
engine_queue_get(const struct engine *e, struct str queue, struct queue_view *out)
{
	static struct queue_settings settings;

	if (str_eq(queue, STR("nowhere")))
		return ST_NOT_FOUND;
	settings = e->settings;
	if (str_eq(queue, STR("mem")))
		settings.durability = LEVEL_MEMORY;
	*out = (struct queue_view){ .name = queue.n ? queue : STR("default"),
		.settings = &settings };
	return ST_OK;
}

void
engine_queue_each(const struct engine *e, uint64_t *cursor,
	bool (*each)(void *arg, const struct queue_view *), void *arg)
{
	struct queue_view q = { .settings = &e->settings };
	size_t i = *cursor;

	for (; i < e->n_queues; i++) {
		q.name = i ? STR("two") : STR("one");
		if (!each(arg, &q))
			break;
	}
	*cursor = i < e->n_queues ? i : 0;
}

void
engine_stats_get(const struct engine *e, struct engine_stats *out)
{
	*out = (struct engine_stats){ .coalesced = 5, .jobs = e->n_jobs };
}

void
engine_export(const struct engine *e, struct moment now, uint64_t *cursor, size_t limit,
	bool (*each)(void *arg, const struct job_saved *), void *arg)
{
	(void)e, (void)now, (void)limit, (void)each, (void)arg;
	*cursor = 0;
}

void
engine_queue_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct queue_view *), void *arg)
{
	(void)e, (void)each, (void)arg;
	*cursor = 0;
}

void
engine_completion_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct completion_view *), void *arg)
{
	(void)e, (void)each, (void)arg;
	*cursor = 0;
}

const struct hist *
engine_lateness(const struct engine *e)
{
	(void)e;
	return &no_lateness;
}
