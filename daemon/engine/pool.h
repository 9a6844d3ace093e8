/*
 * How many runs of a pool may be going on: the policy alone, a pure function of
 * what is told to it. It knows nothing of queues, processes or probes; who calls
 * it gives the time.
 *
 * A pool keeps its processors busy and no more than that. Who is at work is told
 * by samples: how many of its runs are on a processor or wait for one right now.
 * Blocked runs don't count, and neither do hogs, which have had their share. While
 * that number is below the target more may start; the gate says what closes it:
 *
 *   gate          closed because                               opens when
 *   OPEN          -
 *   CAP           max_inflight, or what the system allows,     a run ends
 *                 are going on
 *   MEMORY        memory is short                              a sample says otherwise
 *   PROCESSORS    as many as the target want a processor, or   a sample says otherwise,
 *                 a burst was started since the last sample    each tick at the latest
 *
 * In this order, the first that holds. Fewer runs than processors are always let
 * in unless the cap is reached: there is progress whatever the samples say.
 *
 * Samples are wanted only while something is ready and the gate may open by one:
 * an idle pool costs nothing. After starts the next is wanted soon, then less and
 * less often (see the ticks).
 *
 * The numbers: docs/pools.md says where they come from.
 */
#ifndef WQD_ENGINE_POOL_H
#define WQD_ENGINE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "engine/words.h"

#define POOL_DEFAULT  "default"
#define POOL_NAME_MAX 64   /* bytes */
#define POOLS_MAX     256u /* ever named while the daemon runs */

#define POOL_TARGET_LADDER 5u /* runs wanting a processor, per processor, where the ladder holds */
#define POOL_TARGET_PLAIN  2u /* where it does not */
#define POOL_INFLIGHT      128u /* default cap per processor */
#define POOL_BURST         32u  /* starts between two samples */
#define POOL_TICK_MIN_NS   NS_PER_MS
#define POOL_TICK_MAX_NS   (10 * NS_PER_MS)
#define POOL_TICKS_SAME    8u              /* samples in vain before the tick is doubled */
#define POOL_GAP_NS        (NS_PER_MS / 4) /* between two samples, whatever ends meanwhile */
#define POOL_LOOK_NS       NS_PER_S        /* while the cap is reached: only for who stalls */
#define POOL_FLOOR         8u
#define POOL_FLOOR_NS      NS_PER_S /* a queue below its floor gets a start so often */
#define POOL_STALL_NS      (30 * NS_PER_S)

/* What a pool is told to be. */
struct pool_settings {
	int admit;             /* enum admit; an int for the table of options */
	uint32_t processors;   /* to fill; 0: all that the daemon may use */
	uint32_t max_inflight; /* runs going on at once; 0: POOL_INFLIGHT for each processor */
	uint64_t max_memory;   /* bytes that its runs may use together; 0: no limit of its own */
	bool ladder;           /* younger runs are nicer, where that works */
	int nice;              /* added to what a handler says */
	uint32_t cpu_weight;   /* 1 to 10000, against other pools, where a cgroup is delegated */
};
#define POOL_SETTINGS_DEFAULT \
	{ \
		.admit = ADMIT_PROCESSORS, .ladder = true, .cpu_weight = 100, \
	}

struct pool_config {
	char name[POOL_NAME_MAX + 1];
	struct pool_settings settings;
};

/* How the runnable runs were counted, the best first. */
/* clang-format off */
#define POOL_PROBE_TABLE(X) \
	X(PROBE_CGROUP, 1, "cgroup") /* states of processes, and the processor time of each run's cgroup */ \
	X(PROBE_PROC,   2, "proc")   /* states of processes and of their descendants */ \
	X(PROBE_CLOCK,  3, "clock")  /* processor time of the main processes */ \
	X(PROBE_COUNT,  4, "count")  /* nothing can be seen: runs are counted */
#define POOL_GATE_TABLE(X) \
	X(GATE_OPEN,       0, "open") \
	X(GATE_CAP,        1, "cap") \
	X(GATE_MEMORY,     2, "memory") \
	X(GATE_PROCESSORS, 3, "processors")
/* clang-format on */
#define X(name, num, ...) name = num,
enum pool_probe { POOL_PROBE_TABLE(X) };
enum pool_gate { POOL_GATE_TABLE(X) };
#undef X
const char *
pool_probe_word(enum pool_probe p);
const char *
pool_gate_word(enum pool_gate g);

/* What was seen of a pool at one moment. */
struct pool_sample {
	uint32_t processors; /* that it may fill; at least 1 */
	enum pool_probe probe;
	uint32_t runnable; /* of its runs: on a processor or waiting for one; hogs don't count */
	uint32_t hogs;
	uint32_t
		allowed; /* runs that the system's limits on processes leave room for; 0: no limit */
	bool ladder;     /* the younger runs are nicer */
	bool foreign;    /* others, not shut off by a cgroup, want the processors too */
	bool memory_tight;
	uint64_t memory; /* bytes in use by the runs; 0: not known */
	/* Sums since the start, for those who look. */
	uint64_t hogs_total;
	uint64_t cost_ns;      /* spent on looking */
	int64_t not_before_ns; /* boot time: a sooner sample would cost more than it may */
};

struct pool_policy {
	struct pool_settings s;
	struct pool_sample seen; /* the newest; .processors 0: none yet */
	uint32_t active;         /* runs going on */
	uint32_t fresh;          /* started since the sample */
	uint32_t in_vain;        /* samples in a row that let nothing start */
	int64_t tick_ns;
	int64_t sampled_ns; /* boot time of the sample; INT64_MIN: none yet */
	int64_t due_ns;     /* of the next one, should anything be ready */
	uint64_t samples;
};

void
pool_policy_init(struct pool_policy *p, const struct pool_settings *s);
/* New settings, at any time. */
void
pool_policy_set(struct pool_policy *p, const struct pool_settings *s);
enum pool_gate
pool_gate(const struct pool_policy *p);
/* Runs going on at once, whatever they do. */
uint32_t
pool_cap(const struct pool_policy *p);
/* Runs that may want a processor at once. */
uint32_t
pool_target(const struct pool_policy *p);
/* The processors it fills; before the first sample as configured, or 1. */
uint32_t
pool_processors(const struct pool_policy *p);
/* A start may go past a closed gate (a reserve, a floor): the count is right all the same. */
void
pool_started(struct pool_policy *p);
/* The run is over, or was not started after all. */
void
pool_ended(struct pool_policy *p, int64_t now_ns);
void
pool_sampled(struct pool_policy *p, int64_t now_ns, const struct pool_sample *seen);
/* Boot time at which a sample is wanted, given that something is ready. INT64_MAX: none. */
int64_t
pool_sample_due(const struct pool_policy *p);

#endif
