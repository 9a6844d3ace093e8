/*
 * The ladder: who of a pool's runs gets the processors is left to the kernel. The
 * oldest runs, one for each processor, are as nice as they are told to be; the
 * younger ones are as nice as can be, and use what those leave. When one ends, or
 * blocks, the kernel has the next at work within a switch, without anybody
 * noticing here.
 *
 *     place      rank             nice         becomes
 *     PRIME      < processors     its own      HOG: has had more time on processors than
 *                                              its kind needs while others wait
 *     FILLER     the rest         19           PRIME when one before it ends or is a hog;
 *                                              LIFTED when it could not run for long, for
 *                                              others may wait for a lock that it holds
 *     LIFTED     as it was        its own      FILLER again when it has run a little; one at a
 *                                              time
 *     HOG        behind all       by its rank  PRIME again when nobody else is left
 *
 * Not the idle class: any process of the machine that wakes up would push those
 * aside, and the pool would lose its share (docs/adr/0009). Never a real-time class.
 * Where niceness does nothing or may not be lowered again the same ranks are kept,
 * for hogs, and nobody's is touched.
 */
#ifndef WQD_RUN_LADDER_H
#define WQD_RUN_LADDER_H

#include "base/list.h"
#include "run/probe.h"

#define LADDER_LOW        19
#define LADDER_HOG_NS     (100 * NS_PER_MS) /* least that makes a hog */
#define LADDER_HOG_TIMES  10                /* of what its queue's runs usually need */
#define LADDER_STARVE_NS  (2 * NS_PER_S)
#define LADDER_FILLERS_NS (500 * NS_PER_MS) /* between two looks at them */
#define LADDER_LIFT_NS    (20 * NS_PER_MS)  /* of processor time */
#define LADDER_LOOK_MIN   (10 * NS_PER_MS)
#define LADDER_LOOK_MAX   NS_PER_S

/* A run's place, embedded in it. */
struct rung {
	struct list link; /* ladder.rungs, in rank */
	struct probe probe;
	int64_t usual_ns;    /* processor time that runs of its queue usually need; 0: not known */
	int64_t prime_ns;    /* probe.cpu_ns when it became a prime */
	int64_t seen_cpu_ns; /* and when it was looked at for hogs */
	/* since when it could not run */
	int64_t idle_since_ns, idle_cpu_ns;
	bool prime, hog;
	bool low; /* on a lower step: as nice as can be */
	int nice; /* its own */
};

struct ladder {
	struct list rungs;
	uint32_t n, hogs;
	uint32_t primes;     /* as many as it may have */
	bool holds;          /* they are set */
	struct rung *lifted; /* or NULL */
	uint64_t hogs_total, lifts;
	int64_t look_ns;       /* until the next look */
	int64_t fillers_at_ns; /* boot time before which fillers are not looked at */
};

void
ladder_init(struct ladder *l);
/* Other numbers than before take effect at once. */
void
ladder_set(struct ladder *l, uint32_t primes, bool holds);
/* Whether one that joins now begins on a lower step: the child makes itself so. */
bool
ladder_begins_low(const struct ladder *l);
/* The process is there, as was said; `r->probe` is open, `r->nice` set. */
void
ladder_join(struct ladder *l, struct rung *r, bool low, int64_t now_ns);
void
ladder_leave(struct ladder *l, struct rung *r);
/*
 * Looks for hogs and for those who could not run. `others`: runs that are ready wait besides.
 * Returns how many hogs were found; *hog is the last of them. l->look_ns then says how long the
 * next look has time.
 */
uint32_t
ladder_look(struct ladder *l, int64_t now_ns, bool others, struct rung **hog);

#endif
