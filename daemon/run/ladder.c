#include "run/ladder.h"

#include <sys/resource.h>

#include "base/assert.h"

/* Fillers looked at in one go for want of time. */
#define FILLERS_AT_ONCE 64u

void
ladder_init(struct ladder *l)
{
	*l = (struct ladder){ .primes = 1, .look_ns = LADDER_HOG_NS };
	list_init(&l->rungs);
}

/* ---- steps ---- */

/* All threads of all processes of the run's group at once; what left the group keeps what it had
 * then. */
static void
rung_step(const struct ladder *l, struct rung *r, bool low)
{
	low = low && l->holds;
	if (r->low == low)
		return;
	setpriority(PRIO_PGRP, (id_t)r->probe.pid, low ? LADDER_LOW : r->nice);
	r->low = low;
}

static void
settle(struct ladder *l)
{
	uint32_t rank = 0;

	list_each(r, &l->rungs, struct rung, link) {
		bool prime = rank++ < l->primes;

		if (prime && !r->prime)
			r->prime_ns = r->probe.cpu_ns;
		r->prime = prime;
		rung_step(l, r, !prime && r != l->lifted);
	}
	/* Who has just become a prime has all of that left. */
	if (l->look_ns > LADDER_HOG_NS)
		l->look_ns = LADDER_HOG_NS;
}

void
ladder_set(struct ladder *l, uint32_t primes, bool holds)
{
	if (l->primes == primes && l->holds == holds)
		return;
	l->primes = primes;
	l->holds = holds;
	settle(l);
}

/* ---- coming and going ---- */

bool
ladder_begins_low(const struct ladder *l)
{
	return l->holds && l->n - l->hogs >= l->primes;
}

void
ladder_join(struct ladder *l, struct rung *r, bool low, int64_t now_ns)
{
	struct list *at = &l->rungs;

	/* In front of the hogs. */
	while (at->prev != &l->rungs && list_entry(at->prev, struct rung, link)->hog)
		at = at->prev;
	list_append(at, &r->link);
	r->low = low;
	r->idle_since_ns = now_ns;
	l->n++;
	settle(l);
}

void
ladder_leave(struct ladder *l, struct rung *r)
{
	if (!list_linked(&r->link))
		return;
	list_del(&r->link);
	if (l->lifted == r)
		l->lifted = NULL;
	l->n--;
	l->hogs -= r->hog;
	settle(l);
}

/* ---- hogs ---- */

static int64_t
hog_limit(const struct rung *r)
{
	int64_t usual = r->usual_ns < INT64_MAX / LADDER_HOG_TIMES ? r->usual_ns * LADDER_HOG_TIMES
								   : INT64_MAX;

	return usual > LADDER_HOG_NS ? usual : LADDER_HOG_NS;
}

static void
make_hog(struct ladder *l, struct rung *r)
{
	r->hog = true;
	l->hogs++;
	l->hogs_total++;
	list_del(&r->link);
	list_append(&l->rungs, &r->link);
}

/* What the primes may use yet before one of them is a hog. */
static int64_t
look_for_hogs(struct ladder *l, int64_t now_ns, struct rung **hog, uint32_t *found, bool *moved)
{
	int64_t left = LADDER_LOOK_MAX;
	uint32_t rank = 0;

	list_each_safe(r, &l->rungs, struct rung, link) {
		int64_t used;

		if (rank++ >= l->primes)
			break;
		if (r->hog)
			continue;
		probe_look(&r->probe, now_ns);
		/* Not since anybody looked: samples do, between our looks. */
		*moved = *moved || r->probe.cpu_ns != r->seen_cpu_ns;
		r->seen_cpu_ns = r->probe.cpu_ns;
		used = r->probe.cpu_ns - r->prime_ns;
		if (used >= hog_limit(r)) {
			make_hog(l, r);
			*hog = r;
			(*found)++;
		} else if (hog_limit(r) - used < left) {
			left = hog_limit(r) - used;
		}
	}
	return left;
}

/* ---- fillers that could not run ---- */

static void
look_at_filler(struct ladder *l, struct rung *r, int64_t now_ns)
{
	if (probe_look(&r->probe, now_ns) == 0 || r->probe.cpu_ns != r->idle_cpu_ns) {
		r->idle_cpu_ns = r->probe.cpu_ns;
		r->idle_since_ns = now_ns;
		return;
	}
	if (l->lifted || now_ns - r->idle_since_ns < LADDER_STARVE_NS)
		return;
	l->lifted = r;
	l->lifts++;
	rung_step(l, r, false);
}

/* It has got on: somebody else may need it. */
static void
look_at_lifted(struct ladder *l, int64_t now_ns)
{
	struct rung *r = l->lifted;

	if (!r)
		return;
	if (probe_look(&r->probe, now_ns) > 0 && r->probe.cpu_ns - r->idle_cpu_ns < LADDER_LIFT_NS)
		return;
	l->lifted = NULL;
	r->idle_cpu_ns = r->probe.cpu_ns;
	r->idle_since_ns = now_ns;
	rung_step(l, r, !r->prime);
}

static void
look_at_fillers(struct ladder *l, int64_t now_ns)
{
	uint32_t most = FILLERS_AT_ONCE;

	list_each(r, &l->rungs, struct rung, link) {
		if (!r->low)
			continue;
		if (most-- == 0)
			return;
		look_at_filler(l, r, now_ns);
	}
}

uint32_t
ladder_look(struct ladder *l, int64_t now_ns, bool others, struct rung **hog)
{
	uint32_t found = 0;
	bool moved = false;
	int64_t left;

	if (!others && l->n <= l->primes)
		return 0;
	left = look_for_hogs(l, now_ns, hog, &found, &moved);
	if (found)
		settle(l);
	look_at_lifted(l, now_ns);
	if (l->holds && now_ns >= l->fillers_at_ns) {
		l->fillers_at_ns = now_ns + LADDER_FILLERS_NS;
		look_at_fillers(l, now_ns);
	}
	/* They can't use it faster than time goes, threads aside. Where nothing moves, ever later. */
	l->look_ns = moved || found ? left : 2 * l->look_ns;
	if (l->look_ns < LADDER_LOOK_MIN)
		l->look_ns = LADDER_LOOK_MIN;
	if (l->look_ns > LADDER_LOOK_MAX)
		l->look_ns = LADDER_LOOK_MAX;
	return found;
}
