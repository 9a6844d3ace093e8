#include "coalesce.h"

#include <string.h>

#include "mem.h"
#include "must.h"

#define NS_PER_MS   1000000ll
#define BUCKETS_MIN 64u
#define SWEEP       2u /* buckets looked through for each job added */

struct coalesce_job {
	struct coalesce_job *chain;
	uint64_t hash;
	uint64_t last_id; /* of the last request sent on it */
	uint32_t in_flight;
	bool known;
	int64_t armed_lo_ns, armed_hi_ns; /* boot time; `known` only, as all below */
	int64_t deadline_ms;
	wq_durability_t level;
	uint64_t generation;
	uint32_t coalesced;
	size_t queue_len, key_len;
	char names[]; /* queue, key, each with its terminator */
};

void
coalesce_init(struct coalesce_table *t, uint64_t seed)
{
	*t = (struct coalesce_table){ .seed = seed };
}

void
coalesce_done(struct coalesce_table *t)
{
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct coalesce_job *j = t->buckets[i], *next; j; j = next) {
			next = j->chain;
			mem_free(j);
		}
	mem_free(t->buckets);
	*t = (struct coalesce_table){ .seed = t->seed };
}

/* FNV-1a from a secret start, its low bits stirred. */
static uint64_t
hash_names(uint64_t h, const char *queue, const char *key)
{
	const char *part[2] = { queue, key };

	for (int i = 0; i < 2; i++) {
		for (const char *p = part[i]; *p; p++)
			h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
		h = (h ^ '/') * 0x100000001b3ull;
	}
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

static const char *
queue_or_default(const char *queue)
{
	return queue ? queue : "default";
}

static struct coalesce_job **
bucket(const struct coalesce_table *t, uint64_t hash)
{
	return &t->buckets[hash & (t->n_buckets - 1)];
}

static struct coalesce_job *
find(const struct coalesce_table *t, const char *queue, const char *key, uint64_t hash)
{
	struct coalesce_job *j = t->n_buckets ? *bucket(t, hash) : NULL;

	for (; j; j = j->chain)
		if (j->hash == hash && strcmp(j->names, queue) == 0 &&
			strcmp(j->names + j->queue_len + 1, key) == 0)
			break;
	return j;
}

/* Without memory the chains just get longer; without a first table there is none. */
static bool
make_room(struct coalesce_table *t)
{
	size_t n = t->n_buckets ? t->n_buckets * 2 : BUCKETS_MIN;
	struct coalesce_job **old = t->buckets, **b;
	size_t n_old = t->n_buckets;

	if (t->count < t->n_buckets)
		return true;
	b = mem_zalloc(n * sizeof(struct coalesce_job *));
	if (!b)
		return n_old > 0;
	t->buckets = b;
	t->n_buckets = n;
	for (size_t i = 0; i < n_old; i++)
		for (struct coalesce_job *j = old[i], *next; j; j = next) {
			next = j->chain;
			j->chain = *bucket(t, j->hash);
			*bucket(t, j->hash) = j;
		}
	mem_free(old);
	return true;
}

/* Drops what is of no more use in the next few buckets. */
static void
sweep(struct coalesce_table *t, int64_t now_ns)
{
	for (size_t i = 0; i < SWEEP && t->n_buckets; i++) {
		struct coalesce_job **at = &t->buckets[t->hand++ & (t->n_buckets - 1)];

		while (*at) {
			struct coalesce_job *j = *at;

			if (j->in_flight || (j->known && j->armed_lo_ns > now_ns)) {
				at = &j->chain;
				continue;
			}
			*at = j->chain;
			t->count--;
			mem_free(j);
		}
	}
}

static struct coalesce_job *
add(struct coalesce_table *t, const char *queue, const char *key, uint64_t hash)
{
	size_t queue_len = strlen(queue), key_len = strlen(key);
	struct coalesce_job *j;

	if (t->count >= COALESCE_MAX || !make_room(t))
		return NULL;
	j = mem_zalloc(sizeof *j + queue_len + key_len + 2);
	if (!j)
		return NULL;
	j->hash = hash;
	j->queue_len = queue_len;
	j->key_len = key_len;
	memcpy(j->names, queue, queue_len + 1);
	memcpy(j->names + queue_len + 1, key, key_len + 1);
	j->chain = *bucket(t, hash);
	*bucket(t, hash) = j;
	t->count++;
	return j;
}

/* Updates whose answer the window alone decides. */
static bool
is_plain(int64_t delay_ms, const wq_update_opts_t *o)
{
	return o && delay_ms > 0 && o->at_ms == -1 && o->slack_ms >= 0 && o->align_ms == 0 &&
		o->payload_mode == WQ_PAYLOAD_KEEP && !o->idempotency_id && o->n_command == 0 &&
		(o->mode == WQ_SET || o->mode == WQ_LATER);
}

/* The sum, or the end of the range. */
static int64_t
after(int64_t t_ns, int64_t ms)
{
	int64_t ns;

	if (__builtin_mul_overflow(ms, NS_PER_MS, &ns) || __builtin_add_overflow(t_ns, ns, &ns))
		return INT64_MAX;
	return ns;
}

bool
coalesce_skips(struct coalesce_table *t, int64_t now_ns, const char *queue, const char *key,
	int64_t delay_ms, const wq_update_opts_t *o, wq_reply_t *out)
{
	struct coalesce_job *j;
	int64_t target;

	if (!key || !is_plain(delay_ms, o) || t->count == 0)
		return false;
	queue = queue_or_default(queue);
	j = find(t, queue, key, hash_names(t->seed, queue, key));
	if (!j || !j->known || j->in_flight || j->level != o->durability)
		return false;
	target = after(now_ns, delay_ms);
	if (j->armed_lo_ns <= now_ns || target > j->armed_lo_ns ||
		after(target, o->slack_ms) < j->armed_hi_ns)
		return false;
	*out = (wq_reply_t){
		.size = sizeof *out,
		.status = WQ_SKIPPED,
		.state_before = WQ_STATE_ARMED,
		.pending_before = 1,
		.deadline_ms = j->deadline_ms,
		.old_deadline_ms = j->deadline_ms,
		.generation = j->generation,
		.coalesced = j->coalesced,
		.local = 1,
	};
	return true;
}

void
coalesce_begin(struct coalesce_table *t, int64_t now_ns, uint64_t id, const char *queue,
	const char *key, int64_t delay_ms, const wq_update_opts_t *o, struct coalesce_ask *ask)
{
	struct coalesce_job *j;
	uint64_t hash;
	bool plain = is_plain(delay_ms, o);

	*ask = (struct coalesce_ask){ .id = id };
	if (!key)
		return;
	queue = queue_or_default(queue);
	hash = hash_names(t->seed, queue, key);
	j = find(t, queue, key, hash);
	if (!j && plain) {
		sweep(t, now_ns);
		j = add(t, queue, key, hash);
	}
	if (!j)
		return;
	j->known = false;
	j->last_id = id;
	j->in_flight++;
	ask->job = j;
	if (!plain)
		return;
	ask->arms = true;
	ask->level = o->durability;
	ask->delay_ns = after(0, delay_ms);
	ask->slack_ns = after(0, o->slack_ms);
}

/* Statuses after which the job is armed where this update wanted it. */
static bool
has_armed(const wq_reply_t *r)
{
	return r->result == 0 && r->deadline_ms >= 0 &&
		(r->status == WQ_CREATED || r->status == WQ_UPDATED_TIMER ||
			r->status == WQ_UPDATED_READY || r->status == WQ_REQUEUED_RUNNING);
}

/* Whether the deadline of the reply, on the daemon's wall clock, can be a moment of [lo, hi]. */
static bool
agrees(int64_t deadline_ms, int64_t lo_ns, int64_t hi_ns, struct clock_offset off)
{
	int64_t deadline_ns = after(0, deadline_ms), lo, hi;

	if (__builtin_sub_overflow(deadline_ns, off.hi_ns, &lo) ||
		__builtin_sub_overflow(deadline_ns, off.lo_ns, &hi))
		return false;
	/* Both ends rounded outwards to the wire's millisecond. */
	return lo - NS_PER_MS <= hi_ns && lo_ns <= after(hi, 1);
}

void
coalesce_end(struct coalesce_ask *ask, int64_t sent_ns, int64_t now_ns, struct clock_offset off,
	const wq_reply_t *reply)
{
	struct coalesce_job *j = ask->job;
	int64_t span, lo, hi;

	if (!j)
		return;
	ask->job = NULL;
	MUST(j->in_flight > 0);
	j->in_flight--;
	if (!ask->arms || !reply || sent_ns < 0 || j->last_id != ask->id || !has_armed(reply))
		return;
	if (__builtin_add_overflow(ask->delay_ns, ask->slack_ns, &span) ||
		__builtin_add_overflow(sent_ns, span, &lo) ||
		__builtin_add_overflow(now_ns, span, &hi) ||
		!agrees(reply->deadline_ms, lo, hi, off))
		return;
	j->known = true;
	j->armed_lo_ns = lo;
	j->armed_hi_ns = hi;
	j->deadline_ms = reply->deadline_ms;
	j->level = ask->level;
	j->generation = reply->generation;
	j->coalesced = reply->coalesced;
}

void
coalesce_undo(struct coalesce_ask *ask)
{
	coalesce_end(ask, -1, 0, (struct clock_offset){ 0 }, NULL);
}

void
coalesce_forget(struct coalesce_table *t, uint64_t id)
{
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct coalesce_job *j = t->buckets[i]; j; j = j->chain) {
			j->known = false;
			j->last_id = id;
		}
}
