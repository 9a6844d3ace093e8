/* Pools between engine and runner: samples when they are wanted, stalls told, numbers for who asks. */
#include <inttypes.h>

#include "base/err.h"
#include "base/log.h"
#include "parts.h"

/* ---- configuration ---- */

static bool
set_pool(void *arg, const struct pool_view *v)
{
	struct daemon *d = arg;

	if (runner_set_pool(d->runner, v->index, v->name.p, v->settings) < 0)
		log_error("pool_not_configured", "error=\"no memory\"");
	return true;
}

void
parts_apply_pools(struct daemon *d, const struct config *conf)
{
	int r = engine_configure_pools(d->engine, clock_now(), conf->pools, conf->n_pools);

	if (r < 0)
		log_error("pools_not_configured", "error=\"%s\"", err_str(r));
	engine_pool_each(d->engine, set_pool, d);
}

/* ---- samples ---- */

void
pools_tick(struct daemon *d, struct moment now)
{
	struct pool_report report;

	/* Each at most once: what a sample costs is paid for by the time to the next. */
	for (uint32_t most = POOLS_MAX; most > 0; most--) {
		const struct engine_event ev = { .kind = EV_POOL_SAMPLE, .sample = &report };

		if (engine_sample_due(d->engine, &report.pool) > now.boot_ns ||
			!runner_sample(d->runner, report.pool, &report.seen))
			return;
		service_step(d->svc, now, &ev);
	}
}

int64_t
pools_due(const struct daemon *d)
{
	uint32_t pool;

	return engine_sample_due(d->engine, &pool);
}

void
pools_on_stalled(void *ctx, const struct pool_stall *s)
{
	char queue[4 * QUEUE_NAME_MAX + 8], pool[4 * POOL_NAME_MAX + 8];

	(void)ctx;
	log_warn("stalled",
		"queue=%s ready=%" PRIu64 " running=%" PRIu64 " waits_s=%lld"
		" pool=%s gate=%s active=%u runnable=%u target=%u cap=%u hogs=%u probe=%s",
		log_field(queue, sizeof queue, s->queue), s->ready, s->running,
		(long long)(s->waits_ns / NS_PER_S), log_field(pool, sizeof pool, s->pool),
		pool_gate_word(s->state.gate), s->state.active, s->state.seen.runnable,
		s->state.target, s->state.cap, s->state.seen.hogs,
		pool_probe_word(s->state.seen.probe));
}

/* ---- numbers ---- */

struct sums {
	int64_t active, runnable, hogs, hogs_total, stalled, stalls, floor_starts, samples, cost_us;
	int64_t processors, target, probe;
};

static bool
sum_pool(void *arg, const struct pool_view *v)
{
	struct sums *s = arg;

	s->active += v->active;
	s->runnable += v->seen.runnable;
	s->hogs += v->seen.hogs;
	s->hogs_total += (int64_t)v->seen.hogs_total;
	s->stalled += v->stalled;
	s->stalls += (int64_t)v->stalls;
	s->floor_starts += (int64_t)v->floor_starts;
	s->samples += (int64_t)v->samples;
	s->cost_us += (int64_t)v->seen.cost_ns / NS_PER_US;
	s->processors += v->processors;
	s->target += v->target;
	if ((int64_t)v->seen.probe > s->probe)
		s->probe = v->seen.probe;
	return true;
}

void
pools_stat(struct daemon *d, void (*put)(void *arg, const char *name, int64_t value), void *arg)
{
	struct sums s = { 0 };

	engine_pool_each(d->engine, sum_pool, &s);
	put(arg, "pool_active", s.active);
	put(arg, "pool_runnable", s.runnable);
	put(arg, "pool_hogs", s.hogs);
	put(arg, "pool_hogs_total", s.hogs_total);
	put(arg, "pool_stalled", s.stalled);
	put(arg, "pool_stalls_total", s.stalls);
	put(arg, "pool_floor_starts", s.floor_starts);
	put(arg, "pool_samples", s.samples);
	put(arg, "pool_probe_us", s.cost_us);
	put(arg, "pool_processors", s.processors);
	put(arg, "pool_target", s.target);
	put(arg, "pool_probe_rank", s.probe);
}
