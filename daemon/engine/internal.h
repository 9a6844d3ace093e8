/*
 * What the files of the engine ask of one another.
 *
 *   records.h  the records
 *   job.c      the record, the state table, every change of state
 *   payload.c  payloads: lists of parts
 *   ahead.c    memory asked for before the steps that need it
 *   ask.c      a request from its names to its reply
 *   hot.c      the plain reschedule, which needs little of that
 *   update.c cancel.c flush.c queue.c drain.c   the operations
 *   wait.c     those who wait
 *   completion.c  named completions
 *   dispatch.c ready -> run: whose turn it is
 *   pool.c     how many runs of a pool: the policy alone
 *   pools.c    the pools that there are, who waits in them
 *   rate.c     a rate of starts: a pure function
 *   tenant.c   limits by what keys begin with
 *   run.c      a run from its hand-over to its end
 *   lease.c    runs that workers have
 *   worker.c   workers, and whose turn it is
 *   history.c  finished runs, kept
 *   answers.c  replies kept for idempotency ids
 *   dirty.c    what has to be stored
 *   restore.c  recovery
 *   carry_out.c carry_in.c  over an exec
 *   export.c   jobs out and in, while it goes on
 *   tell.c     what happens, told to those who watch
 *   look.c verify.c engine.c
 */
#ifndef WQD_ENGINE_INTERNAL_H
#define WQD_ENGINE_INTERNAL_H

#include "engine/completion.h"
#include "engine/job.h"
#include "engine/lease.h"
#include "engine/pools.h"
#include "engine/tenant.h"

/* ---- ahead.c ---- */

/* The same when it is not among the next of those that were found, or not any more the one it was. */
struct job *
ahead_found_slow(struct engine *e, const struct queue *q, const struct job_name *name);
/* A record that engine_ahead found: it may have died meanwhile, and another may have its place. */
static inline bool
ahead_holds(const struct job *j, const struct queue *q, struct str key)
{
	return j->magic == JOB_MAGIC && !job_gone(j) && j->q == q && str_eq(job_key(j), key);
}
/* The job that engine_ahead found for this name, or what job_find finds. */
static inline struct job *
ahead_found(struct engine *e, const struct queue *q, const struct job_name *name)
{
	struct ahead *a = &e->ahead;
	uint32_t i = a->next;

	/* What was asked for last stays, for a step that asks twice. */
	i += i < a->n && a->name[i] != name;
	if (i < a->n && a->name[i] == name && ahead_holds(a->job[i], q, name->key)) {
		a->next = i;
		return a->job[i];
	}
	return ahead_found_slow(e, q, name);
}

/* ---- payload.c ---- */

/* One part, for a job of `q`. 0, -ENOMEM; ERR_LIMIT over the engine's bytes. */
int
payload_new(struct engine *e, struct queue *q, struct str part, struct payload **out);
/* `*p` may be NULL. Room for one more part is made; payload_push then can't fail. */
int
payload_grow(struct payload **p);
/* Moves the parts of `from` to the end of `to`, which has room and is of the same queue; frees
 * `from`. */
void
payload_move(struct payload *to, struct payload *from);
/* The first of the parts is a command that a runner can take as it is. */
bool
payload_command_valid(const struct str *parts, size_t n);
/* All of them, copied; NULL of none. 0, -ENOMEM, ERR_LIMIT. */
int
payload_of_parts(struct engine *e, struct queue *q, const struct str *parts, size_t n, bool command,
	struct payload **out);
/* All of `b` behind `a`, either may be NULL; when memory runs out `b` alone. */
struct payload *
payload_join(struct engine *e, struct payload *a, struct payload *b);
void
payload_free(struct engine *e, struct payload *p);
static inline size_t
payload_bytes(const struct payload *p)
{
	return p ? p->bytes : 0;
}
/* Parts for the run's standard input. */
static inline uint32_t
payload_parts(const struct payload *p)
{
	return p ? p->n - p->command : 0;
}
static inline struct str
payload_command(const struct payload *p)
{
	return p && p->command ? p->parts[0] : STR_NONE;
}

/* ---- ask.c ---- */

/* One request on its way from names to reply. */
struct ask {
	struct engine *e;
	uint64_t ticket;
	struct run *from; /* the run it comes from, or NULL */
	bool again;       /* it waited before the program was replaced: no limit refuses it now */
	struct queue *q;
	struct job *j;         /* NULL: unknown */
	struct completion *c;  /* of operations on one, once it is known */
	enum durability level; /* never LEVEL_DEFAULT once open */
	enum asked asked;
	struct answer *answer; /* owned: to be kept with the reply */
	struct job_reply r;
};
/* Names checked, queue and job found, a known idempotency id answered. False: already replied. */
bool
ask_open(struct ask *a, struct engine *e, const struct engine_event *ev,
	const struct job_name *name, enum durability level, struct str idem);
/* The same for an operation on a queue; the reply waits for its commit if anything is dirty. */
bool
ask_open_queue(struct ask *a, struct engine *e, const struct engine_event *ev, struct str name);
/* The same for an operation on a completion, which is not looked up. */
bool
ask_open_completion(struct ask *a, struct engine *e, const struct engine_event *ev);
/* Makes room to remember the answer. False: replied. */
bool
ask_remember(struct ask *a, struct str idem);
/* The "before" half of the reply. */
void
ask_before(struct ask *a);
/* The reply is about the pending instance as it is now. */
void
ask_instance(struct ask *a);
/* The "after" half; `q` and `j` may be NULL. */
void
reply_after(struct engine *e, struct job_reply *r, const struct queue *q, const struct job *j);
/* Fills that in and sends. */
void
ask_done(struct ask *a, enum status st);
/* What names must be, for whoever gave another. */
#define NAME_RULE "of UTF-8 without control characters and outer spaces"
#define BAD_KEY   "the key is not 1 to 255 bytes " NAME_RULE
#define BAD_QUEUE "the queue's name is not 1 to 128 bytes " NAME_RULE ", and without '/'"
/* Sends an error: nothing was changed. */
void
ask_fail(struct ask *a, enum status st, const char *message);
void
ask_fail_err(struct ask *a, int err);
/* At most 100 years, and not below `least`. */
static inline bool
span_valid(int64_t ns, int64_t least)
{
	return ns >= least && ns <= DELAY_MAX_NS;
}
/* True and INVALID replied when the timeout is out of range. */
bool
ask_bad_timeout(struct ask *a, int64_t timeout_ns);
void
engine_reply(struct engine *e, uint64_t ticket, bool durable, const struct job_reply *r);
/* A reply of this step waits for a commit: don't let it wait for the interval. */
static inline void
reply_waits(struct engine *e)
{
	if (e->n_dirty > 0)
		e->urgent = true;
}
/* A new effect of this step, of that kind; all else is for the caller to fill in. */
struct effect *
engine_effect(struct engine *e, enum effect_kind kind);

/* ---- wait.c ---- */

void
waiter_map_init(struct map *m);
/*
 * The request goes on waiting in the group of `slot` (made when there is none),
 * for `timeout_ns` at most; a->r is its reply so far, a->answer is given.
 * 0, -ENOMEM, ERR_LIMIT: nothing changed.
 */
int
wait_join(struct ask *a, enum wait_kind kind, struct wait_group **slot, struct queue *q,
	struct job *j, int64_t timeout_ns);
/* The slot of an event of the job; NULL without memory. */
struct wait_group **
wait_slot(struct job *j, enum job_event on);
/* See struct waits. */
static inline uint32_t
job_merged(const struct job *j)
{
	return side_of(j)->waits ? side_of(j)->waits->merged : 0;
}
static inline void
job_set_merged(struct job *j, uint32_t n)
{
	if (side_of(j)->waits)
		job_side(j)->waits->merged = n;
}
static inline bool
wait_any(const struct job *j, enum job_event on)
{
	return side_of(j)->waits && side_of(j)->waits->on[on];
}
/* The group it is part of now. */
struct wait_group *
group_root(struct wait_group *g);
/* Its waiters are answered from now on, so many a step; `st` is what they get. */
void
group_awake(struct engine *e, struct wait_group *g, enum status st);
/* The first waiter of `from` becomes the last of `to` (made when there is none), which is of the
 * same owner. Returns it, NULL without memory. */
struct waiter *
group_move_first(struct engine *e, struct wait_group **from, struct wait_group **to);
/* Those who wait in `from` wait in `to` now. */
void
group_merge(struct engine *e, struct wait_group **from, struct wait_group **to);
/* The event happened: all of the group will be answered. Nobody there: nothing. */
void
group_wake(struct engine *e, struct wait_group **slot, enum status st, struct record *r);
void
job_wake(struct engine *e, struct job *j, enum job_event on, enum status st, struct record *r);
/* Those who wait for `from` wait for `to` now. */
void
job_wait_merge(struct engine *e, struct job *j, enum job_event from, enum job_event to);
/* The ready instance went back to the timer: its flushes are over, or go on for the run alone. */
void
job_wait_unready(struct engine *e, struct job *j);
/* The pending instance is gone and will not run. */
void
job_wait_dropped(struct engine *e, struct job *j);
/* Answers waiters that are awake. */
void
wait_answer_some(struct engine *e, uint32_t most);
void
wait_timeouts_some(struct engine *e, uint32_t most);
void
wait_abandon(struct engine *e, uint64_t ticket);
void
wait_free_all(struct engine *e);

/* ---- queue.c ---- */

void
queue_map_init(struct map *m);
struct queue *
queue_find(const struct engine *e, struct str name);
/* 0, -ENOMEM, ERR_LIMIT. The name must be free. */
int
queue_new(struct engine *e, struct str name, const struct queue_settings *s, struct queue **out);
/* Off the maps, into the graveyard as soon as the store is done with it. No jobs are left. */
void
queue_remove(struct engine *e, struct queue *q);
void
queue_free(struct engine *e, struct queue *q);
void
queue_pin(struct queue *q);
void
queue_unpin(struct engine *e, struct queue *q);
/* New settings take effect: starts, priority, retention. */
void
queue_apply(struct engine *e, struct queue *q, const struct queue_settings *s);
/* Something that decides about starts has changed: in or out of turn; is a drain at its end? */
void
queue_changed(struct engine *e, struct queue *q);
/* Is there something to start, and could it be? */
bool
queue_may_start(const struct queue *q);
/* The newest colour is closed to newcomers: *out, or an older one that has to be empty as well; NULL
 * when all are empty. 0 or -ENOMEM. */
int
queue_close_colour(struct queue *q, struct colour **out);
/* One more that flushes of the queue wait for, from now on. */
struct colour *
queue_colour_join(struct queue *q);
/* Runs that it may have going. */
uint32_t
queue_slots(const struct queue *q);

/* The queue itself keeps its ready jobs back (they show as held). */
bool
queue_holds(const struct queue *q);
void
queue_ready_put(struct engine *e, struct job *j);
/* The oldest ready job, or NULL. */
static inline struct job *
queue_first_ready(const struct queue *q)
{
	const struct side *s = list_first(&q->ready, struct side, ready);

	return s ? s->job : NULL;
}
/* Off the list until its own run ends; then it is put back. */
void
queue_ready_aside(struct job *j);
/* Back where it was, by its seq. */
void
queue_ready_back(struct engine *e, struct job *j);
/* What was parked is ready like all others. */
void
queue_unpark(struct queue *q);
/* Off the lists; its colour stays with the caller. */
void
queue_ready_take(struct engine *e, struct job *j);
/* Off the lists and not started: nothing waits for that any more. */
void
queue_ready_dropped(struct engine *e, struct job *j);
/* The oldest colour ends, if it is over. */
bool
queue_pop_colour(struct engine *e, struct queue *q);
void
colour_leave(struct engine *e, struct queue *q, struct colour *c);
void
queue_create_event(struct engine *e, const struct engine_event *ev);
void
queue_set_event(struct engine *e, const struct engine_event *ev);
void
queue_pause_event(struct engine *e, const struct engine_event *ev);
void
queue_flush_event(struct engine *e, const struct engine_event *ev);

/* ---- drain.c ---- */

void
drain_event(struct engine *e, const struct engine_event *ev);
void
queue_delete_event(struct engine *e, const struct engine_event *ev);
/* Is everything done that a drain or delete waits for? Then they end. */
void
drain_check(struct engine *e, struct queue *q);
/* The last waiter of the drain (or delete) left. */
void
drain_left(struct engine *e, struct queue *q);
/* There is paced work for the queue. */
void
sweep_queue(struct engine *e, struct queue *q);
/* Paced work: colours that are over, timers expedited or cancelled, records of a deleted queue. */
void
sweep_some(struct engine *e, uint32_t most);
/* The deadline of an armed job has come. True: a sweep was to take it, and now has. */
bool
sweep_takes(struct engine *e, struct job *j);

/* ---- update.c, cancel.c, flush.c ---- */

void
update_event(struct engine *e, const struct engine_event *ev);
void
cancel_event(struct engine *e, const struct engine_event *ev);
void
disable_event(struct engine *e, const struct engine_event *ev);
void
enable_event(struct engine *e, const struct engine_event *ev);
void
kick_event(struct engine *e, const struct engine_event *ev);
void
delete_event(struct engine *e, const struct engine_event *ev);
void
flush_event(struct engine *e, const struct engine_event *ev);
void
wait_event(struct engine *e, const struct engine_event *ev);
/* An armed job is ready now. */
void
job_expedite(struct engine *e, struct job *j, enum job_op op);
/* What is pending goes, waiters and all. */
void
job_drop_pending(struct engine *e, struct job *j, enum job_op op, enum jstate next);

/* ---- dispatch.c ---- */

/* The run never was: its instance is pending again. */
void
job_run_take_back(struct engine *e, struct run *run);

void
dispatch_some(struct engine *e, uint32_t most);
/* The queue whose turn it is in a pool in whose circles there is one. */
struct queue *
dispatch_turn(struct pool *p);
/* The boot time from which something could be started; INT64_MAX: nothing is to be. */
int64_t
dispatch_due(const struct engine *e);
void
backoff_some(struct engine *e, uint32_t most);
void
paces_some(struct engine *e, uint32_t most);
/* The rate of a queue, or what it was, has changed. */
void
queue_rate_changed(struct engine *e, struct queue *q, const struct rate *was);
void
not_started_event(struct engine *e, const struct engine_event *ev);

/* ---- run.c ---- */

/* With its record; on no map. NULL without memory. */
struct run *
job_run_new(struct engine *e, struct job *j);
/* Known by its numbers from now on. 0 or -ENOMEM. */
int
job_run_map(struct engine *e, struct run *run);
void
job_run_maps_init(struct map *by_id, struct map *by_token);
/* Hands a ready job over, past its pool's limits if `reserve`. 0 or -ENOMEM (it stays where it
 * was). */
int
job_run_start(struct engine *e, struct job *j, bool reserve);
struct run *
job_run_by_id(const struct engine *e, uint64_t id);
struct run *
job_run_by_token(const struct engine *e, uint64_t token);
void
job_run_end(struct engine *e, struct run *run, const struct run_end *end);
/* FX_KILL, once. */
void
job_run_kill(struct engine *e, struct run *run);
void
job_run_free(struct engine *e, struct run *run);
/* Where the job is when its run has gone. */
enum jstate
job_after_run(const struct job *j);
void
run_started_event(struct engine *e, const struct engine_event *ev);
void
run_ended_event(struct engine *e, const struct engine_event *ev);

/* ---- history.c ---- */

void
record_map_init(struct map *m);
int
record_new(struct engine *e, struct record **out);
void
record_ref(struct record *r);
void
record_unref(struct engine *e, struct record *r);
void
record_free(struct engine *e, struct record *r);
/* Keeps it as the newest of its job and queue, and drops what that makes too many. */
void
history_add(struct engine *e, struct job *j, struct record *r);
/* The same without dropping any, or marking it. */
void
history_link(struct engine *e, struct job *j, struct record *r);
/* Kept no more. The job is not settled. */
void
history_drop(struct engine *e, struct record *r);
void
history_drop_job(struct engine *e, struct job *j);
/* The same for many: some now, the rest in later turns. */
void
history_purge(struct engine *e, struct job *j);
void
history_purge_some(struct engine *e, uint32_t most);
/* Purges that were left over. */
void
history_free(struct engine *e);
/* The last attempt of a generation, or NULL. */
struct record *
history_find(const struct engine *e, const struct job *j, uint64_t generation);
/* The same, also of one that became part of a later one. */
struct record *
history_find_standing(const struct engine *e, const struct job *j, uint64_t generation);
static inline struct record *
history_newest(const struct job *j)
{
	return list_first(&side_of(j)->records, struct record, of_job);
}
/* When the queue has to be looked at again. */
void
history_schedule(struct engine *e, struct queue *q);
void
history_retire_some(struct engine *e, uint32_t most);

/* ---- answers.c ---- */

void
answer_map_init(struct map *m);
struct answer *
answer_find(const struct engine *e, struct str id);
/* Not yet kept. 0 or -ENOMEM. */
int
answer_new(struct engine *e, struct str id, enum asked asked, struct answer **out);
/* Remembers `r` under it (given); stored with the thing it is about (NULL: none) when `level` says
 * so, or that is stored whatever the level. */
void
answer_keep(struct engine *e, struct answer *a, const struct job_reply *r,
	const struct dirty *about, bool stored, enum durability level);
void
answer_drop(struct engine *e, struct answer *a);
void
answer_free(struct engine *e, struct answer *a);
/* engine_restore_answer, also of one that the store does not have. */
int
answer_restore(struct engine *e, const struct answer_saved *s, bool stored);
void
answers_recovered(struct engine *e);
void
answers_expire_some(struct engine *e, uint32_t most);

/* ---- dirty.c ---- */

void
dirty_init(struct dirty *d, enum dirty_kind kind);
void
dirty_mark(struct engine *e, struct dirty *d);
/* The same, to be stored together with `leader` if that is still to be stored. */
void
dirty_mark_with(struct engine *e, struct dirty *d, const struct dirty *leader);
/* The thing is dead: a tombstone until the store knows, else straight to the graveyard. */
void
dirty_gone(struct engine *e, struct dirty *d);
void
grave_clear(struct engine *e);

/* ---- tell.c: nothing, while nobody watches ---- */

void
tell_job_slow(struct engine *e, enum watch_kind kind, const struct job *j);
void
tell_run_slow(struct engine *e, const struct run_record *r);
void
tell_queue_slow(struct engine *e, const struct queue *q, const char *change);
static inline void
tell_job(struct engine *e, enum watch_kind kind, const struct job *j)
{
	if (__builtin_expect(e->watched, false))
		tell_job_slow(e, kind, j);
}
static inline void
tell_run(struct engine *e, const struct run_record *r)
{
	if (__builtin_expect(e->watched, false))
		tell_run_slow(e, r);
}
static inline void
tell_queue(struct engine *e, const struct queue *q, const char *change)
{
	if (__builtin_expect(e->watched, false))
		tell_queue_slow(e, q, change);
}

/* ---- engine.c ---- */

/* True and one less, or false: the step has done enough. */
static inline bool
engine_spend(struct engine *e)
{
	if (e->budget == 0)
		return false;
	e->budget--;
	return true;
}
/* 64 random bits from the secret seed; `what` and `n` choose which. */
uint64_t
engine_random(const struct engine *e, uint64_t what, uint64_t n);

/* ---- restore.c ---- */

/* engine_restore_job, also of one that the store does not have (id 0). */
int
job_restore(struct engine *e, struct moment now, const struct job_saved *s, bool same_boot);
/* engine_restore_run; whether the store has it is the caller's to say. */
int
record_restore(
	struct engine *e, uint64_t run_seq, const struct run_record *from, struct record **out);

/* ---- carry_in.c ---- */

/* Instead of its end by a restart. */
void
carried_run_goes_on(struct engine *e, struct run *run);

/* ---- names ---- */

static inline bool
queue_name_ok(const struct engine *e, struct str name)
{
	return e->spaces ? queue_name_inner_valid(name) : queue_name_valid(name);
}

static inline bool
completion_name_ok(const struct engine *e, struct str name)
{
	return e->spaces ? completion_name_inner_valid(name) : key_valid(name);
}

#endif
