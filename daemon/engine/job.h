/*
 * A job: its record, its side, its state (job.c). Part of internal.h.
 */
#ifndef WQD_ENGINE_JOB_H
#define WQD_ENGINE_JOB_H

#include "engine/records.h"

static inline bool
jstate_running(enum jstate s)
{
	static const bool running[N_JSTATES] = {
#define X(state, name, running, pend) [state] = running,
		JSTATE_TABLE(X)
#undef X
	};

	return running[s];
}
static inline enum pend
jstate_pend(enum jstate s)
{
	static const uint8_t pend[N_JSTATES] = {
#define X(state, name, running, pend) [state] = pend,
		JSTATE_TABLE(X)
#undef X
	};

	return (enum pend)pend[s];
}
/* The table of operations and states (job.c). */
struct job_cell {
	uint8_t word; /* enum status */
	uint8_t next; /* bits of enum jstate; 0: this can't happen */
};
extern const struct job_cell job_table[N_JOB_OPS][N_JSTATES];
/* Does the table let the operation lead there? */
static inline bool
job_leads(enum job_op op, enum jstate from, enum jstate to)
{
	return (job_table[op][from].next & (1u << to)) != 0;
}
/* The reply word of the table; asserts that the operation is one for that state. */
static inline enum status
job_word(enum job_op op, enum jstate s)
{
	wq_assert(job_table[op][s].next != 0);
	return job_table[op][s].word;
}
/* Moves the job to `next`, which the table must allow, and keeps timers, lists and counts with
 * it. Into PEND_TIMER: job_arm() comes before. */
void
job_enter(struct engine *e, struct job *j, enum job_op op, enum jstate next);
/* For operations with one next state. */
void
job_apply(struct engine *e, struct job *j, enum job_op op);
/* Arms or moves the timer. 0 or -ENOMEM: nothing changed. */
int
job_arm(struct engine *e, struct job *j, bool absolute, int64_t due_ns);
/* With a place among equals that it had before. */
int
job_arm_as(struct engine *e, struct job *j, bool absolute, int64_t due_ns, uint64_t seq);
/* wheel_set of a job whose entry comes up no later than it is due, which is nearly nothing. False:
 * it is another, and nothing has changed. */
static inline bool
wheel_put_off(struct wheel *w, struct job *j, int64_t due_ns, uint64_t seq)
{
	int64_t ticks = (due_ns >> WHEEL_TICK_BITS) - w->tick;
	uint32_t ahead = j->timer.place - (uint32_t)w->tick;

	if (!(j->timer.place & WHEEL_AHEAD) || ticks < (int64_t)(ahead & ~WHEEL_AHEAD) ||
		j->due_ns == w->next_ns)
		return false;
	j->due_ns = due_ns;
	j->seq = seq;
	if (due_ns < w->next_ns)
		w->next_ns = due_ns;
	return true;
}
uint64_t
job_hash(const struct engine *e, const struct queue *q, struct str key);
struct job *
job_find(const struct engine *e, const struct queue *q, struct str key);
/* A new idle record, with a side. 0, -ENOMEM, ERR_LIMIT. */
int
job_new(struct engine *e, struct queue *q, struct str key, struct job **out);
/* The same where the key, of this job_hash, may be taken; with a side unless it is `narrow`.
 * -EEXIST. What a queue holds already it holds, whatever its max_jobs is by now. */
int
job_new_unique(struct engine *e, struct queue *q, struct str key, uint64_t hash, bool narrow,
	struct job **out);
/* Of one that came to nothing: as if it had never been. */
void
job_unmake(struct engine *e, struct job *j);
/* Ends the record when nothing is worth keeping. Idle and disabled jobs are passed here after
 * whatever might have been the last thing about them. */
void
job_settle(struct engine *e, struct job *j);
/* The job ceases to be dead: its payload goes. */
void
job_undead(struct engine *e, struct job *j);
/* Frees what is in the graveyard. */
void
job_free(struct engine *e, struct job *j);
static inline struct str
job_key(const struct job *j)
{
	return (struct str){ j->key, j->key_n };
}
/* By number: that of a record that is free, or dead, is NULL. */
static inline struct job *
job_at(const struct engine *e, uint32_t i)
{
	struct job *j = (struct job *)(void *)e->jobs.base + i;

	_Static_assert(SLAB_CHUNK % sizeof(struct job) == 0, "records lie side by side");
	return j;
}
/* A record in use, by number below slab_top(&e->jobs), or NULL. */
static inline struct job *
job_live(const struct engine *e, uint32_t i)
{
	struct job *j = job_at(e, i);

	return j->magic == JOB_MAGIC && !job_gone(j) ? j : NULL;
}
static inline uint32_t
job_number(const struct engine *e, const struct job *j)
{
	return (uint32_t)(j - (const struct job *)(const void *)e->jobs.base);
}
/* Gives it a side, if it has none: for all that may need one. 0 or -ENOMEM. */
int
job_widen(struct engine *e, struct job *j);
/* The next job_widen can't fail. */
static inline bool
job_can_widen(struct engine *e)
{
	return slab_reserve(&e->sides) == 0;
}
/* Takes the side away, if it says nothing. */
void
job_narrow(struct engine *e, struct job *j);
static inline bool
job_running(const struct job *j)
{
	return jstate_running(j->state);
}
static inline enum pend
job_pend(const struct job *j)
{
	return jstate_pend(j->state);
}
static inline int64_t
job_due_boot(struct moment now, const struct job *j)
{
	return j->absolute ? moment_boot(now, j->due_ns) : j->due_ns;
}
static inline int64_t
job_due_wall(struct moment now, const struct job *j)
{
	return j->absolute ? j->due_ns : moment_wall(now, j->due_ns);
}
/* Of the pending instance. */
static inline uint64_t
job_coming(const struct job *j)
{
	return side_of(j)->retry ? side_of(j)->generation : side_of(j)->generation + 1;
}
enum job_state
job_shown(const struct job *j);
enum job_state
job_shown_pending(const struct job *j);
/* It has changed by itself: to be stored, if it is one that is. */
void
job_changed(struct engine *e, struct job *j);
/* A reschedule of that level by that slack, without a bound, leaves all that is stored of an armed
 * job as it is, but for its deadline. (How long max_wait bounds it is told by both clocks, which may
 * have moved against each other: such a job is always stored whole.) */
static inline bool
job_only_moves(const struct job *j, int64_t slack_ns, enum durability level)
{
	return !j->whole && side_of(j)->slack_ns == slack_ns && side_of(j)->max_wait_ns == 0 &&
		j->level == (level == LEVEL_MEMORY ? LEVEL_ASYNC : level);
}
/* A request of that level has changed it. */
void
job_touch(struct engine *e, struct job *j, enum durability level);

/* The pending instance has absorbed an update. */
static inline void
job_count_coalesced(struct engine *e, struct job *j)
{
	j->coalesced += j->coalesced < UINT32_MAX;
	e->stats.coalesced++;
}

/* ---- keys.c ---- */

/* A copy without terminator for a job of this engine; NULL without memory. */
char *
job_key_copy(struct engine *e, struct str key);
void
job_key_free(struct engine *e, struct job *j);

#endif
