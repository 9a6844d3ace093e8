/*
 * Replies kept for idempotency ids, so that a request that is sent again is not
 * applied again. As many as the configuration says, for as long: the oldest goes
 * first.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/siphash.h"
#include "engine/internal.h"

static struct str
answer_id(const struct answer *a)
{
	return (struct str){ a->text, a->id_n };
}

static bool
answer_match(const struct map_node *node, const void *key)
{
	return str_eq(
		answer_id(container_of(node, const struct answer, node)), *(const struct str *)key);
}

void
answer_map_init(struct map *m)
{
	map_init(m, answer_match);
}

static uint64_t
answer_hash(const struct engine *e, struct str id)
{
	return siphash13(&e->cfg.seed[2], id.p, id.n);
}

struct answer *
answer_find(const struct engine *e, struct str id)
{
	struct map_node *node = map_find(&e->answers, answer_hash(e, id), &id);

	return node ? container_of(node, struct answer, node) : NULL;
}

/* Made with room for any names: they are known for sure when it is kept. */
int
answer_new(struct engine *e, struct str id, enum asked asked, struct answer **out)
{
	struct answer *a = x_zalloc(sizeof *a + id.n + QUEUE_NAME_MAX + KEY_MAX);

	(void)e;
	if (!a)
		return -ENOMEM;
	a->magic = ANSWER_MAGIC;
	a->asked = (uint8_t)asked;
	a->id_n = (uint8_t)id.n;
	memcpy(a->text, id.p, id.n);
	dirty_init(&a->dirty, DIRTY_ANSWER);
	*out = a;
	return 0;
}

static void
answer_forget(struct engine *e, struct answer *a)
{
	timer_del(&e->answer_ends, &a->timer);
	map_del(&e->answers, &a->node);
	dirty_gone(e, &a->dirty);
}

static struct answer *
answer_oldest(struct engine *e)
{
	struct timer *t = timers_first(&e->answer_ends);

	return t ? container_of(t, struct answer, timer) : NULL;
}

static struct str
answer_copy(char *to, struct str s)
{
	if (s.n > 0)
		memcpy(to, s.p, s.n);
	return (struct str){ to, s.n };
}

static void
answer_set_reply(struct answer *a, const struct job_reply *r)
{
	char *p = a->text + a->id_n;

	a->reply = *r;
	a->reply.message = NULL;
	a->reply.run = NULL;
	a->reply.queue = answer_copy(p, r->queue);
	a->reply.key = answer_copy(p + r->queue.n, r->key);
}

/* 0, or -ENOMEM: it is not among the known ones. */
static int
answer_insert(struct engine *e, struct answer *a, int64_t until_ns)
{
	a->until_ns = until_ns;
	if (timer_set(&e->answer_ends, &a->timer, until_ns, ++e->seq) < 0)
		return -ENOMEM;
	if (map_add(&e->answers, &a->node, answer_hash(e, answer_id(a))) < 0) {
		timer_del(&e->answer_ends, &a->timer);
		return -ENOMEM;
	}
	if (map_count(&e->answers) > e->cfg.max_answers)
		answer_forget(e, answer_oldest(e));
	return 0;
}

void
answer_keep(struct engine *e, struct answer *a, const struct job_reply *r,
	const struct dirty *about, bool stored, enum durability level)
{
	/* Sent again while the first still waited: that one's answer stands. */
	if (answer_find(e, answer_id(a))) {
		answer_drop(e, a);
		return;
	}
	answer_set_reply(a, r);
	/* Without memory the request stands, and its repetition would be a second one. */
	if (answer_insert(e, a, sat_add(e->now.boot_ns, e->cfg.answer_keep_ns)) < 0) {
		answer_drop(e, a);
		return;
	}
	if (a->dirty.gone || (level == LEVEL_MEMORY && !stored))
		return;
	if (about)
		dirty_mark_with(e, &a->dirty, about);
	else
		dirty_mark(e, &a->dirty);
}

int
engine_restore_answer(struct engine *e, const struct answer_saved *s)
{
	return answer_restore(e, s, true);
}

int
answer_restore(struct engine *e, const struct answer_saved *s, bool stored)
{
	struct answer *a;
	int err;

	if (s->id.n == 0 || s->id.n > IDEM_INNER || answer_find(e, s->id) ||
		s->reply.queue.n > QUEUE_NAME_MAX || s->reply.key.n > KEY_MAX)
		return ERR_DAMAGED;
	err = answer_new(e, s->id, s->asked, &a);
	if (err < 0)
		return err;
	answer_set_reply(a, &s->reply);
	a->dirty.stored = stored;
	/* Wall time for now; answers_recovered makes boot time of it. */
	err = answer_insert(e, a, s->until_wall_ns);
	if (err < 0)
		answer_free(e, a);
	return err;
}

void
answers_recovered(struct engine *e)
{
	struct timers by_wall = e->answer_ends;
	struct timer *t;

	timers_init(&e->answer_ends);
	while ((t = timers_first(&by_wall)) != NULL) {
		struct answer *a = container_of(t, struct answer, timer);

		timer_del(&by_wall, t);
		a->until_ns = moment_boot(e->now, a->until_ns);
		if (timer_set(&e->answer_ends, t, a->until_ns, ++e->seq) < 0)
			answer_forget(e, a);
	}
	timers_done(&by_wall);
}

void
answer_drop(struct engine *e, struct answer *a)
{
	if (a)
		dirty_gone(e, &a->dirty);
}

void
answer_free(struct engine *e, struct answer *a)
{
	(void)e;
	MAGIC_DONE(a);
	x_free(a);
}

void
answers_expire_some(struct engine *e, uint32_t most)
{
	struct answer *a;

	while (most-- > 0 && (a = answer_oldest(e)) != NULL && a->until_ns <= e->now.boot_ns &&
		engine_spend(e))
		answer_forget(e, a);
}
