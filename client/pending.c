#include "pending.h"

#include <errno.h>

#include "mem.h"
#include "must.h"

#define BUCKETS_MIN 64u

int
pending_init(struct pending_table *t)
{
	*t = (struct pending_table){ .next_id = 1, .n_buckets = BUCKETS_MIN };
	t->buckets = mem_zalloc(BUCKETS_MIN * sizeof(struct pending *));
	return t->buckets ? 0 : -ENOMEM;
}

void
pending_done(struct pending_table *t)
{
	struct pending *next;

	MUST(t->count == 0 && t->local == 0);
	for (struct pending *p = t->kept; p; p = next) {
		next = p->next;
		mem_free(p);
	}
	mem_free(t->buckets);
	t->buckets = NULL;
}

struct pending *
pending_block(struct pending_table *t, size_t n)
{
	struct pending *p = t->kept;
	bool small = n <= PENDING_SMALL;

	if (small && p) {
		t->kept = p->next;
		t->n_kept--;
		return p;
	}
	p = mem_alloc(small ? PENDING_SMALL : n);
	if (p)
		p->small = small;
	return p;
}

void
pending_give_block(struct pending_table *t, struct pending *p)
{
	if (!p)
		return;
	if (!p->small || t->n_kept >= PENDING_KEEP) {
		mem_free(p);
		return;
	}
	p->next = t->kept;
	t->kept = p;
	t->n_kept++;
}

/* Ids are consecutive, so their low bits spread them evenly. */
static struct pending **
bucket(const struct pending_table *t, uint64_t id)
{
	return &t->buckets[id & (t->n_buckets - 1)];
}

/* Without memory the chains just get longer. */
static void
grow(struct pending_table *t)
{
	size_t n = t->n_buckets * 2;
	struct pending **b = mem_zalloc(n * sizeof(struct pending *));

	if (!b)
		return;
	mem_free(t->buckets);
	t->buckets = b;
	t->n_buckets = n;
	for (struct pending *p = t->head; p; p = p->next) {
		p->chain = *bucket(t, p->id);
		*bucket(t, p->id) = p;
	}
}

static void
list_append(struct pending **head, struct pending **tail, struct pending *p)
{
	p->next = NULL;
	p->prev = *tail;
	if (*tail)
		(*tail)->next = p;
	else
		*head = p;
	*tail = p;
}

static void
list_remove(struct pending **head, struct pending **tail, struct pending *p)
{
	if (p->prev)
		p->prev->next = p->next;
	else
		*head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		*tail = p->prev;
}

void
pending_add(struct pending_table *t, struct pending *p)
{
	if (t->count >= t->n_buckets)
		grow(t);
	list_append(&t->head, &t->tail, p);
	p->chain = *bucket(t, p->id);
	*bucket(t, p->id) = p;
	if (!t->unsent)
		t->unsent = p;
	t->count++;
	t->timed += p->wait_until_ns != NEVER_NS;
	t->bytes += p->frame_len;
}

void
pending_add_local(struct pending_table *t, struct pending *p)
{
	list_append(&t->local_head, &t->local_tail, p);
	t->local++;
}

struct pending *
pending_find(const struct pending_table *t, uint64_t id)
{
	struct pending *p = *bucket(t, id);

	while (p && p->id != id)
		p = p->chain;
	return p;
}

void
pending_remove(struct pending_table *t, struct pending *p)
{
	struct pending **at = bucket(t, p->id);

	while (*at != p)
		at = &(*at)->chain;
	*at = p->chain;
	if (t->unsent == p)
		t->unsent = p->next;
	list_remove(&t->head, &t->tail, p);
	t->count--;
	t->abandoned -= p->abandoned;
	t->resent -= p->resent;
	t->timed -= p->wait_until_ns != NEVER_NS;
	t->bytes -= p->frame_len;
}

struct pending *
pending_take_local(struct pending_table *t)
{
	struct pending *p = t->local_head;

	if (!p)
		return NULL;
	list_remove(&t->local_head, &t->local_tail, p);
	t->local--;
	return p;
}

bool
pending_abandon(struct pending_table *t, struct pending *p)
{
	if (!p->out) {
		pending_remove(t, p);
		return true;
	}
	p->abandoned = true;
	t->abandoned++;
	return false;
}

static bool
may_resend(const struct pending *p, int64_t now_ns)
{
	if (p->abandoned)
		return false;
	if (!p->sent)
		return true;
	switch (p->rule) {
	case RESEND_ALWAYS:
		return true;
	case RESEND_WITH_ID:
		return now_ns - p->sent_ns < RESEND_AGE_NS;
	case RESEND_NEVER:
		break;
	}
	return false;
}

struct pending *
pending_sweep(struct pending_table *t, int64_t now_ns, bool all)
{
	struct pending *out = NULL, **end = &out, *next;

	for (struct pending *p = t->head; p; p = next) {
		next = p->next;
		if (!all && may_resend(p, now_ns)) {
			t->resent += p->sent && !p->resent;
			p->resent = p->sent;
			p->out = false;
			continue;
		}
		pending_remove(t, p);
		p->next = NULL;
		*end = p;
		end = &p->next;
	}
	t->unsent = t->head;
	return out;
}

struct pending *
pending_too_large(struct pending_table *t, size_t max)
{
	struct pending *out = NULL, **end = &out, *next;

	for (struct pending *p = t->unsent; p; p = next) {
		next = p->next;
		if (p->msg_len <= max)
			continue;
		pending_remove(t, p);
		p->next = NULL;
		*end = p;
		end = &p->next;
	}
	return out;
}

static bool
expires_here(const struct pending *p, bool connected)
{
	return p->wait_until_ns != NEVER_NS && !p->abandoned && (p->resent || !connected);
}

struct pending *
pending_expired(const struct pending_table *t, struct pending *p, int64_t now_ns, bool connected)
{
	if (t->timed == 0 || (connected && t->resent == 0))
		return NULL;
	for (p = p ? p->next : t->head; p; p = p->next)
		if (expires_here(p, connected) && p->wait_until_ns <= now_ns)
			break;
	return p;
}

int64_t
pending_next_expiry(const struct pending_table *t, bool connected)
{
	int64_t next = NEVER_NS;

	if (t->timed == 0 || (connected && t->resent == 0))
		return next;
	for (const struct pending *p = t->head; p; p = p->next)
		if (expires_here(p, connected) && p->wait_until_ns < next)
			next = p->wait_until_ns;
	return next;
}
