/*
 * A job that is armed here says by timer.place where its entry is: the low bits
 * of the tick of its slot with AHEAD set, or FRONT. An entry whose tick is not
 * that of its job is dead. Should it agree by chance, after the job was disarmed
 * and armed again or its record given to another, it is one entry too many for
 * that job and does no harm.
 *
 * `tick` only goes forward. A clock that is set back leaves it where it is: until
 * then all that is armed before it goes to the front, which orders it.
 */
#include "engine/wheel.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "engine/front.h"

#define AHEAD WHEEL_AHEAD
#define FAR   ((int64_t)1 << 30) /* ticks; what lies further is filed there and looked at then */
#define MASK  (WHEEL_SLOTS - 1)
#define SLACK 4096u /* dead entries that don't matter */
#define SWEEP 4u    /* chunks swept with each append meanwhile */

struct ahead_entry {
	uint32_t job, at;
};

struct chunk {
	uint32_t next, n; /* number + 1 of the next */
	struct ahead_entry v[WHEEL_CHUNK];
};
_Static_assert(sizeof(struct chunk) == 512, "chunks are cache lines");

static uint32_t
number_of(const struct wheel *w, const struct job *j)
{
	return (uint32_t)(j - job_of(w, 0));
}

static struct chunk *
chunk_of(const struct wheel *w, uint32_t number)
{
	return (struct chunk *)(void *)w->chunks.base + (number - 1);
}

static int64_t
tick_of(int64_t due_ns)
{
	return due_ns >> WHEEL_TICK_BITS;
}

static uint32_t
at_of(int64_t tick)
{
	return (uint32_t)tick | AHEAD;
}

/* The whole tick of an entry: it is less than FAR ahead. */
static int64_t
tick_at(const struct wheel *w, uint32_t at)
{
	return w->tick + ((at - (uint32_t)w->tick) & ~AHEAD);
}

/* ---- slots ---- */

static void
slot_mark(struct wheel *w, int level, uint32_t s, bool used)
{
	uint64_t bit = 1ull << (s % 64);

	if (used)
		w->used[level][s / 64] |= bit;
	else
		w->used[level][s / 64] &= ~bit;
}

/* The nearest slot with chunks from number `from` on, or -1. */
static int64_t
slot_next(const struct wheel *w, int level, int64_t from)
{
	for (uint32_t k = 0; k < WHEEL_SLOTS;) {
		uint32_t s = (uint32_t)(from + k) & MASK;
		uint64_t bits = w->used[level][s / 64] >> (s % 64);

		if (bits) {
			k += (uint32_t)__builtin_ctzll(bits);
			return k < WHEEL_SLOTS ? from + k : -1;
		}
		k += 64 - s % 64;
	}
	return -1;
}

static int
slot_append(struct wheel *w, int level, uint32_t s, struct ahead_entry e)
{
	struct wheel_slot *slot = &w->slots[level][s];
	struct chunk *c = slot->tail ? chunk_of(w, slot->tail) : NULL;
	uint32_t number;

	if (!c || c->n == WHEEL_CHUNK) {
		struct chunk *fresh = slab_take(&w->chunks);

		if (!fresh)
			return -ENOMEM;
		number = slab_index(&w->chunks, fresh) + 1;
		fresh->next = fresh->n = 0;
		*(c ? &c->next : &slot->head) = number;
		slot->tail = number;
		slot->chunks++;
		slot_mark(w, level, s, true);
		c = fresh;
	}
	c->v[c->n++] = e;
	w->entries++;
	return 0;
}

static void
slot_pop(struct wheel *w, int level, uint32_t s)
{
	struct wheel_slot *slot = &w->slots[level][s];
	struct chunk *c = chunk_of(w, slot->head);

	slot->head = c->next;
	if (--slot->chunks == 0) {
		slot->tail = 0;
		slot_mark(w, level, s, false);
	}
	slab_give(&w->chunks, c);
}

/* Never into the slot just behind `tick`, which may be coming up. */
static int
file(struct wheel *w, uint32_t job, int64_t tick)
{
	int level = 0;

	while ((tick >> WHEEL_BITS * level) - (w->tick >> WHEEL_BITS * level) >= WHEEL_SLOTS - 1)
		level++;
	return slot_append(w, level, (uint32_t)(tick >> WHEEL_BITS * level) & MASK,
		(struct ahead_entry){ job, at_of(tick) });
}

/* ---- what comes next ---- */

#define LOOKS 4 /* slots of a level that are looked into */

/* The first deadline of the first chunk; INT64_MAX: all of it is dead. */
static int64_t
chunk_first(const struct wheel *w, const struct chunk *c)
{
	int64_t due_ns = INT64_MAX;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct job *j = job_of(w, c->v[i].job);

		if (j->timer.place == c->v[i].at && j->due_ns < due_ns)
			due_ns = j->due_ns;
	}
	return due_ns;
}

/* Exact where few lie ahead; else the time when the next slot comes up. */
static int64_t
level_first(const struct wheel *w, int level)
{
	int64_t at = w->tick >> WHEEL_BITS * level, best = INT64_MAX;

	for (int looks = 0; (at = slot_next(w, level, at)) >= 0; looks++, at++) {
		const struct wheel_slot *slot = &w->slots[level][at & MASK];
		int64_t start_ns = at << WHEEL_BITS * level << WHEEL_TICK_BITS, due_ns;

		if (start_ns >= best)
			break;
		if (slot->chunks > 1 || looks == LOOKS)
			return start_ns;
		due_ns = chunk_first(w, chunk_of(w, slot->head));
		best = due_ns < best ? due_ns : best;
	}
	return best;
}

static void
next_find(struct wheel *w)
{
	const struct wheel_entry *first = front_first(w);

	w->next_ns = first ? first->due_ns : INT64_MAX;
	if (first || w->n == w->n_front)
		return;
	for (int level = 0; level < WHEEL_LEVELS; level++) {
		int64_t due_ns = level_first(w, level);

		if (due_ns < w->next_ns)
			w->next_ns = due_ns;
	}
}

/* ---- dead entries ---- */

static void
chunk_sweep(struct wheel *w, struct chunk *c)
{
	uint32_t kept = 0;

	/* Which of them are dead nothing foretells: all are asked for first, and none is jumped on. */
	for (uint32_t i = 0; i < c->n; i++)
		__builtin_prefetch(&job_of(w, c->v[i].job)->timer);
	for (uint32_t i = 0; i < c->n; i++) {
		struct ahead_entry v = c->v[i];

		c->v[kept] = v;
		kept += job_of(w, v.job)->timer.place == v.at;
	}
	w->entries -= c->n - kept;
	c->n = kept;
}

/* The first chunk goes to the end of its slot, what is live in it into the last one. */
static void
slot_sweep_one(struct wheel *w, int level, uint32_t s)
{
	struct wheel_slot *slot = &w->slots[level][s];
	struct chunk *c = chunk_of(w, slot->head), *last = chunk_of(w, slot->tail);

	chunk_sweep(w, c);
	if (c != last && last->n + c->n <= WHEEL_CHUNK) {
		memcpy(&last->v[last->n], c->v, c->n * sizeof c->v[0]);
		last->n += c->n;
		c->n = 0;
	}
	if (c->n == 0) {
		slot_pop(w, level, s);
	} else if (c != last) {
		last->next = slot->head;
		slot->tail = slot->head;
		slot->head = c->next;
		c->next = 0;
	}
}

static void
sweep(struct wheel *w)
{
	for (uint32_t i = 0; i < SWEEP && w->entries > 2 * w->n + SLACK; i++) {
		int level = (int)(w->swept / WHEEL_SLOTS % WHEEL_LEVELS);
		uint32_t s = w->swept % WHEEL_SLOTS;

		if (w->slots[level][s].chunks == 0 || w->sweep_left == 0) {
			int64_t at = slot_next(w, level, s + 1);

			/* The next of the level, else the first of the next level. */
			w->swept = at >= 0 && at < WHEEL_SLOTS
				? (uint32_t)level * WHEEL_SLOTS + (uint32_t)at
				: (uint32_t)(level + 1) % WHEEL_LEVELS * WHEEL_SLOTS;
			level = (int)(w->swept / WHEEL_SLOTS);
			s = w->swept % WHEEL_SLOTS;
			w->sweep_left = w->slots[level][s].chunks;
			continue;
		}
		w->sweep_left--;
		slot_sweep_one(w, level, s);
	}
}

/* ---- arming ---- */

int
wheel_init(struct wheel *w, const struct slab *jobs, size_t max)
{
	int err;

	*w = (struct wheel){ .jobs = jobs, .next_ns = INT64_MAX };
	err = slab_init(&w->chunks, sizeof(struct chunk),
		max / WHEEL_CHUNK * 3 + 2 * WHEEL_LEVELS * WHEEL_SLOTS);
	if (err == 0)
		err = front_init(w);
	if (err < 0)
		wheel_done(w);
	return err;
}

void
wheel_done(struct wheel *w)
{
	front_done(w);
	slab_done(&w->chunks);
	*w = (struct wheel){ 0 };
}

/* 0 or -ENOMEM: then nothing has changed. `*place` is where the job is from then on. */
static int
put(struct wheel *w, struct wheel_entry e, uint32_t *place)
{
	int64_t tick = tick_of(e.due_ns);
	int err;

	if (tick < w->tick) {
		*place = FRONT;
		return front_add(w, e);
	}
	if (tick - w->tick >= FAR)
		tick = w->tick + FAR - 1;
	if (*place & AHEAD && tick_at(w, *place) <= tick)
		return 0;
	err = file(w, e.job, tick);
	if (err == 0)
		*place = at_of(tick);
	return err;
}

int
wheel_set(struct wheel *w, struct job *j, int64_t now_ns, int64_t due_ns, uint64_t seq)
{
	uint32_t was = j->timer.place, place = was;
	int64_t was_ns = j->due_ns;
	int err;

	if (w->n == 0 && w->entries == 0 && tick_of(now_ns) > w->tick)
		w->tick = tick_of(now_ns);
	err = put(w, (struct wheel_entry){ due_ns, seq, number_of(w, j) }, &place);
	if (err < 0)
		return err;
	w->n += was == 0;
	w->n_front += (size_t)(place == FRONT) - (size_t)(was == FRONT);
	j->timer.place = place;
	j->due_ns = due_ns;
	j->seq = seq;
	if (due_ns <= w->next_ns)
		w->next_ns = due_ns;
	else if (was && was_ns == w->next_ns)
		next_find(w);
	if (__builtin_expect(w->entries > 2 * w->n + SLACK, false))
		sweep(w);
	return 0;
}

uint32_t
wheel_del(struct wheel *w, struct job *j)
{
	uint32_t was = j->timer.place;

	wq_assert(was != 0 && w->n > 0);
	j->timer.place = 0;
	w->n--;
	w->n_front -= was == FRONT;
	if (j->due_ns == w->next_ns && !w->behind)
		next_find(w);
	if (__builtin_expect(w->entries > 2 * w->n + SLACK, false))
		sweep(w);
	return was;
}

void
wheel_undel(struct wheel *w, struct job *j, uint32_t was)
{
	j->timer.place = was;
	w->n++;
	w->n_front += was == FRONT;
	if (j->due_ns < w->next_ns)
		w->next_ns = j->due_ns;
}

/* ---- going on ---- */

/* One entry whose slot has come up. 0 or -ENOMEM. */
static int
entry_move(struct wheel *w, struct ahead_entry e)
{
	struct job *j = job_of(w, e.job);
	uint32_t place = 0;
	int err;

	if (j->timer.place != e.at)
		return 0;
	err = put(w, (struct wheel_entry){ j->due_ns, j->seq, e.job }, &place);
	if (err < 0)
		return err;
	w->n_front += place == FRONT;
	j->timer.place = place;
	return 0;
}

#define PREFETCH 16u

/* The first chunk of a slot, from its first entry on (what is armed in order stays so). False:
 * no memory, some is left. */
static bool
chunk_move(struct wheel *w, int level, uint32_t s)
{
	struct chunk *c = chunk_of(w, w->slots[level][s].head);
	uint32_t i;

	if (c->next)
		__builtin_prefetch(chunk_of(w, c->next));
	for (i = 0; i < PREFETCH && i < c->n; i++)
		__builtin_prefetch(job_of(w, c->v[i].job), 1);
	for (i = 0; i < c->n; i++) {
		if (i + PREFETCH < c->n)
			__builtin_prefetch(job_of(w, c->v[i + PREFETCH].job), 1);
		if (entry_move(w, c->v[i]) < 0)
			break;
	}
	w->entries -= i;
	if (i < c->n) {
		memmove(c->v, c->v + i, (c->n - i) * sizeof c->v[0]);
		c->n -= i;
		return false;
	}
	slot_pop(w, level, s);
	return true;
}

/* True: the slot is empty. */
static bool
slot_move(struct wheel *w, int level, uint32_t s, uint32_t *most)
{
	while (w->slots[level][s].chunks > 0) {
		if (*most == 0)
			return false;
		--*most;
		if (!chunk_move(w, level, s))
			return false;
	}
	return true;
}

/* The slot that comes up first; false: none before `until`. A coarse one goes before the finer
 * that starts with it. */
static bool
first_slot(const struct wheel *w, int64_t until, int *level, int64_t *slot)
{
	int64_t first = until;
	bool found = false;

	for (int l = 0; l < WHEEL_LEVELS; l++) {
		int64_t at = slot_next(w, l, w->tick >> WHEEL_BITS * l), start;

		if (at < 0)
			continue;
		start = at << WHEEL_BITS * l;
		/* One of a coarser level must be empty when its time begins. */
		if (start < first || (l > 0 && start == first)) {
			first = start;
			*level = l;
			*slot = at;
			found = true;
		}
	}
	return found;
}

/* Slots that come up later: as much of them as of the time until then has passed. */
static void
work_ahead(struct wheel *w, int64_t passed, uint32_t *most)
{
	for (int l = 1; l < WHEEL_LEVELS; l++) {
		int64_t at = (w->tick >> WHEEL_BITS * l) + 1;
		int64_t left = (at << WHEEL_BITS * l) - w->tick, share;
		struct wheel_slot *slot = &w->slots[l][at & MASK];

		share = (slot->chunks * passed + left + passed - 1) / (left + passed);
		for (; share > 0 && slot->chunks > 0 && *most > 0; share--, --*most)
			if (!chunk_move(w, l, (uint32_t)at & MASK))
				return;
	}
}

void
wheel_advance(struct wheel *w, int64_t now_ns, uint32_t *most)
{
	int64_t until = tick_of(now_ns) + 1, from = w->tick, slot;
	int level;

	if (until <= w->tick && !w->behind)
		return;
	w->behind = true;
	while (first_slot(w, until, &level, &slot)) {
		int64_t start = slot << WHEEL_BITS * level;

		/* Of the tick itself, too: what is moved goes to the front. */
		w->tick = level == 0 ? start + 1 : start > w->tick ? start : w->tick;
		if (!slot_move(w, level, (uint32_t)slot & MASK, most)) {
			w->tick = start;
			w->starved = *most > 0;
			return;
		}
	}
	w->behind = w->starved = false;
	if (until > w->tick)
		w->tick = until;
	if (w->tick > from)
		work_ahead(w, w->tick - from, most);
	front_shrink(w);
	next_find(w);
}

struct job *
wheel_first(struct wheel *w, int64_t now_ns)
{
	const struct wheel_entry *e = w->behind ? NULL : front_first(w);

	return e && e->due_ns <= now_ns ? job_of(w, e->job) : NULL;
}

static size_t
slot_verify(const struct wheel *w, int level, uint32_t s, size_t *live)
{
	const struct wheel_slot *slot = &w->slots[level][s];
	size_t entries = 0, chunks = 0;

	for (uint32_t number = slot->head; number; number = chunk_of(w, number)->next, chunks++) {
		const struct chunk *c = chunk_of(w, number);

		wq_assert((number == slot->tail) == (c->next == 0) && c->n > 0);
		entries += c->n;
		for (uint32_t i = 0; i < c->n; i++) {
			const struct job *j = job_of(w, c->v[i].job);
			int64_t at = tick_at(w, c->v[i].at);

			if (j->timer.place != c->v[i].at)
				continue;
			++*live;
			wq_assert(at <= tick_of(j->due_ns));
			wq_assert((at >> WHEEL_BITS * level & MASK) == s);
		}
	}
	wq_assert(chunks == slot->chunks);
	wq_assert((w->used[level][s / 64] >> s % 64 & 1) == (chunks > 0));
	return entries;
}

void
wheel_verify(const struct wheel *w, uint64_t armed)
{
	size_t entries = 0, chunks = 0, live = 0;

	wq_assert(w->n == armed);
	for (int level = 0; level < WHEEL_LEVELS; level++)
		for (int64_t s = -1; (s = slot_next(w, level, s + 1)) >= 0 && s < WHEEL_SLOTS;) {
			entries += slot_verify(w, level, (uint32_t)s, &live);
			chunks += w->slots[level][s].chunks;
		}
	wq_assert(chunks == w->chunks.n);
	wq_assert(entries == w->entries && live >= w->n - w->n_front);
	front_verify(w);
}
