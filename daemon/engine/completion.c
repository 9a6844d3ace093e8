/*
 * Named completions: struct completion of the kernel, by name.
 *
 * A level, not an edge: what is completed before anybody waits is remembered. A
 * record is made when there is something to remember or somebody waits, and ends
 * when it says no more than its absence does; so a name costs nothing by itself.
 *
 * Who takes one is decided when it is there to be taken, in the order in which
 * they came, whenever the answers get out. Until then the waiter may still go
 * away: what it was given goes to the next one, or back on the count.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"
#include "engine/internal.h"

static bool
completion_match(const struct map_node *node, const void *key)
{
	return str_eq(completion_name(container_of(node, const struct completion, node)),
		*(const struct str *)key);
}

void
completion_map_init(struct map *m)
{
	map_init(m, completion_match);
}

static uint64_t
completion_hash(const struct engine *e, struct str name)
{
	return siphash13(&e->cfg.seed[0], name.p, name.n);
}

static struct completion *
completion_find(const struct engine *e, struct str name)
{
	struct map_node *node = map_find(&e->completions, completion_hash(e, name), &name);

	return node ? container_of(node, struct completion, node) : NULL;
}

/* The record of that name, made when there is none. 0, -ENOMEM, ERR_LIMIT. */
static int
completion_get(struct engine *e, struct str name, struct completion **out)
{
	struct completion *c = completion_find(e, name);

	if (!c && e->stats.completions >= e->cfg.max_completions)
		return ERR_LIMIT;
	if (!c) {
		c = x_zalloc(sizeof *c + name.n);
		if (!c)
			return -ENOMEM;
		c->magic = COMPL_MAGIC;
		c->level = LEVEL_MEMORY;
		c->era = 1;
		c->name_n = (uint8_t)name.n;
		memcpy(c->name, name.p, name.n);
		dirty_init(&c->dirty, DIRTY_COMPLETION);
		if (map_add(&e->completions, &c->node, completion_hash(e, name)) < 0) {
			x_free(c);
			return -ENOMEM;
		}
		list_append(&e->all_completions, &c->of_engine);
		e->stats.completions++;
	}
	*out = c;
	return 0;
}

void
completion_settle(struct engine *e, struct completion *c)
{
	if (c->pins > 0 || c->done > 0 || c->open)
		return;
	map_del(&e->completions, &c->node);
	list_del(&c->of_engine);
	e->stats.completions--;
	dirty_gone(e, &c->dirty);
}

void
completion_free(struct engine *e, struct completion *c)
{
	(void)e;
	MAGIC_DONE(c);
	x_free(c);
}

void
completions_free(struct engine *e)
{
	struct completion *c;

	while ((c = list_first(&e->all_completions, struct completion, of_engine)) != NULL) {
		c->done = 0;
		c->open = false;
		completion_settle(e, c);
	}
}

/* Its count or gate has changed. */
static void
completion_changed(struct engine *e, struct completion *c)
{
	if (c->level != LEVEL_MEMORY)
		dirty_mark(e, &c->dirty);
}

/* Once stored it stays so, at the level asked for last. */
static void
completion_touch(struct engine *e, struct completion *c, enum durability level)
{
	bool newly = c->level == LEVEL_MEMORY;

	if (level != LEVEL_SYNC && level != LEVEL_ASYNC)
		return;
	c->level = (uint8_t)level;
	if (newly)
		completion_changed(e, c);
}

/* ---- giving ---- */

/* The first waiter is given one. False: no memory. */
static bool
completion_grant(struct engine *e, struct completion *c)
{
	bool asleep = !c->granted;
	struct waiter *w = group_move_first(e, &c->waiting, &c->granted);

	if (!w)
		return false;
	if (asleep)
		group_awake(e, c->granted, ST_OK);
	w->took = c->era;
	c->n_waiting--;
	return true;
}

/* Everybody is let in, in one move. */
static void
completion_let_in(struct engine *e, struct completion *c)
{
	bool asleep = !c->granted;

	if (!c->waiting)
		return;
	group_merge(e, &c->waiting, &c->granted);
	if (asleep)
		group_awake(e, c->granted, ST_OK);
	c->n_waiting = 0;
}

static void
completion_count(struct engine *e, struct completion *c)
{
	if (c->open || c->done == UINT32_MAX)
		return;
	c->done++;
	completion_changed(e, c);
}

void
completion_return(struct engine *e, struct waiter *w)
{
	struct wait_group *g = w->group;
	struct completion *c = g->completion;

	if (w->took == 0 || w->took != c->era)
		return;
	/* Into the group that `w` is in: that takes no memory. */
	if (c->waiting)
		wq_assert(completion_grant(e, c));
	else
		completion_count(e, c);
}

/* ---- operations ---- */

static void
completion_wait(struct ask *a, const struct op_completion *op)
{
	struct engine *e = a->e;
	int err;

	if (ask_bad_timeout(a, op->timeout_ns))
		return;
	a->c = completion_find(e, op->name);
	a->level = a->c ? (enum durability)a->c->level : LEVEL_MEMORY;
	if (a->c && (a->c->open || a->c->done > 0)) {
		if (!a->c->open) {
			a->c->done--;
			completion_changed(e, a->c);
		}
		ask_done(a, ST_OK);
		completion_settle(e, a->c);
		return;
	}
	if (op->timeout_ns == 0) {
		ask_fail(a, ST_TIMEOUT, "it is not completed");
		return;
	}
	err = completion_get(e, op->name, &a->c);
	if (err == 0)
		err = wait_join(a, W_COMPLETION, &a->c->waiting, NULL, NULL, op->timeout_ns);
	if (err == 0) {
		a->c->n_waiting++;
		return;
	}
	ask_fail_err(a, err);
	if (a->c)
		completion_settle(e, a->c);
}

/* False: no memory, nothing changed. */
static bool
completion_complete(struct engine *e, struct completion *c)
{
	if (c->waiting)
		return completion_grant(e, c);
	completion_count(e, c);
	return true;
}

static void
completion_open(struct engine *e, struct completion *c)
{
	if (!c->open) {
		c->open = true;
		c->done = 0;
		completion_changed(e, c);
	}
	completion_let_in(e, c);
}

static void
completion_reinit(struct engine *e, struct completion *c)
{
	c->era++;
	if (!c->open && c->done == 0)
		return;
	c->open = false;
	c->done = 0;
	completion_changed(e, c);
}

static bool
completion_do(struct engine *e, struct completion *c, enum engine_event_kind kind)
{
	if (kind == EV_COMPLETE)
		return completion_complete(e, c);
	if (kind == EV_COMPLETE_ALL)
		completion_open(e, c);
	else
		completion_reinit(e, c);
	return true;
}

static void
completion_change(struct ask *a, const struct op_completion *op, enum engine_event_kind kind)
{
	struct engine *e = a->e;
	int err = 0;

	if (!ask_remember(a, op->idem))
		return;
	/* Closing what is not there takes no record. */
	if (kind == EV_COMPLETION_REINIT && !completion_find(e, op->name)) {
		ask_done(a, ST_OK);
		return;
	}
	err = completion_get(e, op->name, &a->c);
	if (err == 0 && !completion_do(e, a->c, kind))
		err = -ENOMEM;
	if (err < 0) {
		ask_fail_err(a, err);
	} else {
		completion_touch(e, a->c, op->level);
		if (op->level == LEVEL_DEFAULT)
			a->level = (enum durability)a->c->level;
		ask_done(a, ST_OK);
	}
	if (a->c)
		completion_settle(e, a->c);
}

void
completion_event(struct engine *e, const struct engine_event *ev)
{
	const struct op_completion *op = ev->completion;
	struct ask a;

	if (!ask_open_completion(&a, e, ev))
		return;
	if (ev->kind == EV_COMPLETION_WAIT)
		completion_wait(&a, op);
	else
		completion_change(&a, op, ev->kind);
}

/* ---- looking, recovery ---- */

void
completion_look(const struct completion *c, struct completion_view *v)
{
	*v = (struct completion_view){
		.name = completion_name(c),
		.done = c->done,
		.open = c->open,
		.waiters = c->n_waiting,
		.level = (enum durability)c->level,
	};
}

enum status
engine_completion_get(const struct engine *e, struct str name, struct completion_view *out)
{
	const struct completion *c;

	CHECK_OBJ(e, ENGINE_MAGIC);
	if (!completion_name_ok(e, name))
		return ST_INVALID;
	c = completion_find(e, name);
	if (c)
		completion_look(c, out);
	else
		*out = (struct completion_view){ .name = name, .level = LEVEL_MEMORY };
	return ST_OK;
}

int
engine_restore_completion(struct engine *e, const struct completion_saved *s)
{
	struct completion *c;
	int err;

	e->spaces = e->spaces || !key_valid(s->name);
	if (!completion_name_inner_valid(s->name) || completion_find(e, s->name) ||
		(s->open && s->done > 0) || (s->level != LEVEL_SYNC && s->level != LEVEL_ASYNC))
		return ERR_DAMAGED;
	err = completion_get(e, s->name, &c);
	if (err < 0)
		return err;
	c->done = s->done;
	c->open = s->open;
	c->level = (uint8_t)s->level;
	c->dirty.stored = true;
	completion_settle(e, c);
	return 0;
}

int
completion_carry(struct engine *e, const struct completion_saved *s)
{
	struct completion *c;
	int err = completion_get(e, s->name, &c);

	if (err < 0)
		return err;
	c->done = s->done;
	c->open = s->open;
	completion_settle(e, c);
	return 0;
}

int
completion_carry_waiter(struct ask *a, struct str name, int64_t timeout_ns)
{
	int err = completion_get(a->e, name, &a->c);

	if (err == 0)
		err = wait_join(a, W_COMPLETION, &a->c->waiting, NULL, NULL, timeout_ns);
	if (err == 0)
		a->c->n_waiting++;
	return err;
}

void
completion_verify(const struct engine *e, const struct completion *c)
{
	uint64_t n = 0;

	CHECK_OBJ(c, COMPL_MAGIC);
	wq_assert(completion_find(e, completion_name(c)) == c);
	wq_assert(!c->open || (c->done == 0 && !c->waiting));
	wq_assert(c->done == 0 || !c->waiting);
	wq_assert(c->done > 0 || c->open || c->pins > 0);
	wq_assert(!c->waiting || !c->waiting->awake);
	wq_assert(!c->granted || c->granted->awake);
	if (c->waiting)
		list_each(w, &c->waiting->waiters, struct waiter, link)
			n += w->kind == W_COMPLETION;
	wq_assert(n == c->n_waiting);
}
