#include "engine/pool.h"

#include "base/assert.h"

const char *
pool_probe_word(enum pool_probe p)
{
	switch (p) {
#define X(name, num, word) \
	case name: \
		return word;
		POOL_PROBE_TABLE(X)
#undef X
	}
	return "none";
}

const char *
pool_gate_word(enum pool_gate g)
{
	switch (g) {
#define X(name, num, word) \
	case name: \
		return word;
		POOL_GATE_TABLE(X)
#undef X
	}
	return "?";
}

static uint32_t
least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void
pool_policy_init(struct pool_policy *p, const struct pool_settings *s)
{
	*p = (struct pool_policy){
		.s = *s,
		.tick_ns = POOL_TICK_MIN_NS,
		.sampled_ns = INT64_MIN,
		.due_ns = INT64_MIN,
	};
}

void
pool_policy_set(struct pool_policy *p, const struct pool_settings *s)
{
	p->s = *s;
	p->due_ns = INT64_MIN;
}

uint32_t
pool_processors(const struct pool_policy *p)
{
	uint32_t n = p->seen.processors ? p->seen.processors : p->s.processors;

	return n ? n : 1;
}

uint32_t
pool_cap(const struct pool_policy *p)
{
	uint32_t cap = p->s.max_inflight;

	if (cap == 0)
		cap = p->s.admit == ADMIT_ALL ? UINT32_MAX : POOL_INFLIGHT * pool_processors(p);
	return p->seen.allowed ? least(cap, p->seen.allowed) : cap;
}

uint32_t
pool_target(const struct pool_policy *p)
{
	uint32_t n = pool_processors(p);

	if (p->seen.ladder)
		return POOL_TARGET_LADDER * n;
	/* More than that would be more than a fair share. */
	return p->seen.foreign ? n : POOL_TARGET_PLAIN * n;
}

enum pool_gate
pool_gate(const struct pool_policy *p)
{
	uint32_t busy = p->seen.runnable + p->fresh;

	if (p->active >= pool_cap(p))
		return GATE_CAP;
	if (p->s.admit == ADMIT_ALL || p->active < pool_processors(p))
		return GATE_OPEN;
	if (p->seen.memory_tight)
		return GATE_MEMORY;
	if (p->seen.processors == 0 || p->seen.probe == PROBE_COUNT)
		busy = p->active;
	if (busy >= pool_target(p) || p->fresh >= POOL_BURST)
		return GATE_PROCESSORS;
	return GATE_OPEN;
}

void
pool_started(struct pool_policy *p)
{
	p->active++;
	p->fresh++;
	p->in_vain = 0;
	p->tick_ns = POOL_TICK_MIN_NS;
	if (p->due_ns > p->sampled_ns + p->tick_ns && p->sampled_ns != INT64_MIN)
		p->due_ns = p->sampled_ns + p->tick_ns;
}

void
pool_ended(struct pool_policy *p, int64_t now_ns)
{
	int64_t soonest = p->sampled_ns == INT64_MIN ? now_ns : p->sampled_ns + POOL_GAP_NS;

	wq_assert(p->active > 0);
	p->active--;
	if (soonest < now_ns)
		soonest = now_ns;
	if (p->due_ns > soonest)
		p->due_ns = soonest;
}

void
pool_sampled(struct pool_policy *p, int64_t now_ns, const struct pool_sample *seen)
{
	wq_assert(seen->processors > 0);
	p->seen = *seen;
	p->fresh = 0;
	p->samples++;
	p->sampled_ns = now_ns;
	if (pool_gate(p) != GATE_OPEN && ++p->in_vain >= POOL_TICKS_SAME) {
		p->in_vain = 0;
		p->tick_ns = p->tick_ns * 2 < POOL_TICK_MAX_NS ? p->tick_ns * 2 : POOL_TICK_MAX_NS;
	}
	p->due_ns = now_ns + p->tick_ns;
}

int64_t
pool_sample_due(const struct pool_policy *p)
{
	int64_t due = p->due_ns;

	if (p->s.admit == ADMIT_ALL && pool_gate(p) == GATE_OPEN)
		return INT64_MAX;
	if (pool_gate(p) == GATE_CAP && p->sampled_ns != INT64_MIN)
		due = p->sampled_ns + POOL_LOOK_NS;
	return due > p->seen.not_before_ns ? due : p->seen.not_before_ns;
}
