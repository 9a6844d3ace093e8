/*
 * The engine: jobs, queues, timers, runs, completions, and who waits for them.
 *
 * It does no I/O, starts no thread, reads no clock and keeps no globals. Time
 * and events go in, effects come out:
 *
 *     engine_step(e, now, &event, &effects);   then apply the effects, in order
 *     engine_next_due(e, now)                  when to come back with EV_TICK
 *
 * One engine is one shard: it owns its queues whole and knows of no other. The
 * thread that owns it is the only one that calls it.
 *
 * Durable state: every step marks what changed; engine_take_dirty() hands out
 * each changed thing once, as it is then, however often it changed: positions,
 * not pushes. What is dirty forms a FIFO numbered by marks; the caller makes
 * groups from it and commits them one after the other. A `durable` reply may be
 * sent when everything up to the mark of its step has been committed. A group
 * that fails stays with the caller, who commits it again before the next.
 *
 * Semantics: docs/semantics.md. The state table is in engine/job.c.
 */
#ifndef WQD_ENGINE_ENGINE_H
#define WQD_ENGINE_ENGINE_H

#include "engine/ops.h"
#include "engine/pool.h"
#include "engine/settings.h"

struct engine;

struct engine_config {
	uint64_t seed[4];  /* secret entropy: hash key, made keys, run tokens */
	uint64_t max_jobs; /* all queues */
	uint32_t max_queues;
	uint64_t max_waiters; /* waiting requests, all clients */
	uint64_t max_completions;
	uint64_t max_bytes;     /* payloads and outputs kept */
	uint32_t max_answers;   /* idempotency ids remembered */
	int64_t answer_keep_ns; /* and for how long */
	uint32_t max_runs;      /* runs going on at once, all queues; leases don't count */
	uint64_t fence;         /* tokens of leases are above it, and were below it before */
	uint32_t turn_budget;   /* expirations, starts or wake-ups a step may do at most */
};
#define ENGINE_CONFIG_DEFAULT \
	{ \
		.max_jobs = 50000000, .max_queues = 4096, .max_waiters = 1000000, \
		.max_completions = 100000, .max_bytes = 8ull << 30, .max_answers = 100000, \
		.answer_keep_ns = 600 * NS_PER_S, .max_runs = 256, .turn_budget = 2048, \
	}

int
engine_new(const struct engine_config *cfg, struct engine **out);
void
engine_free(struct engine *e);

/* ---- events ---- */

enum engine_event_kind {
	EV_TICK, /* time has passed: expire, start, wake, forget old results */
	EV_UPDATE,
	EV_CANCEL,
	EV_FLUSH,
	EV_FLUSH_QUEUE,
	EV_WAIT,
	EV_DELETE,
	EV_DISABLE,
	EV_ENABLE,
	EV_KICK, /* make an armed job ready now, or a dead one run again */
	EV_QUEUE_CREATE,
	EV_QUEUE_SET,
	EV_QUEUE_DELETE,
	EV_PAUSE,
	EV_RESUME,
	EV_DRAIN,
	EV_COMPLETION_WAIT,
	EV_COMPLETE,
	EV_COMPLETE_ALL,
	EV_COMPLETION_REINIT,
	EV_IMPORT,  /* a job as it was saved elsewhere */
	EV_ABANDON, /* the request with this ticket has nobody left who waits */
	EV_RUN_STARTED,
	EV_RUN_NOT_STARTED, /* for want of processes, memory or descriptors: try again */
	EV_RUN_ENDED,
	EV_POOL_SAMPLE, /* what was seen of a pool's runs */
	EV_SUBSCRIBE,
	EV_CREDITS,
	EV_UNSUBSCRIBE,
	EV_TOUCH,
	EV_FINISH,
	EV_FAIL,
	EV_RELEASE,
	EV_UNSENT, /* the hand-over of this leased run could not be sent: it never was */
	EV_STOP,   /* no new starts from now on; runs end or are interrupted */
};

/* How a run ended, as its runner saw it. `outcome` is DONE, FAILED, TIMEOUT,
 * CANCELLED or INTERRUPTED; the engine makes DEAD of it by the queue's policy. */
struct run_end {
	uint64_t run_id;
	enum run_outcome outcome;
	int32_t exit_code, signal, error;
	int64_t cpu_ns;    /* time on processors; 0: not known */
	struct str output; /* copied */
	bool truncated;
	bool lost;            /* its worker is gone, or let the lease run out: again at once */
	bool has_retry_after; /* the next attempt, if there is one, comes then */
	int64_t retry_after_ns;
};

struct pool_report {
	uint32_t pool; /* its index */
	struct pool_sample seen;
};

struct engine_event {
	enum engine_event_kind kind;
	/*
	 * Names the request in FX_REPLY; unique among those unanswered. Every
	 * request event gets exactly one reply effect, now or later, unless
	 * abandoned.
	 */
	uint64_t ticket;
	uint64_t run_token; /* of the run the request comes from, 0: none */
	union {
		const struct op_update *update;
		const struct op_cancel *cancel;
		const struct op_flush *flush;
		const struct op_flush_queue *flush_queue;
		const struct op_wait *wait;
		const struct op_job *job;
		const struct op_queue_set *queue_set; /* EV_QUEUE_CREATE too */
		const struct op_queue *queue;         /* pause, resume */
		const struct op_queue_delete *queue_delete;
		const struct op_drain *drain;
		const struct op_completion *completion;
		const struct op_import *import;
		const struct op_subscribe *subscribe;
		const struct op_credits *credits; /* EV_UNSUBSCRIBE too */
		const struct op_lease *lease;
		uint64_t run_id; /* EV_RUN_STARTED, EV_RUN_NOT_STARTED, EV_UNSENT */
		const struct run_end *run_end;
		const struct pool_report *sample;
	};
};

/* ---- effects ---- */

/* All a runner needs; borrowed until the next step. */
struct run_start {
	uint64_t run_id;
	uint64_t token; /* proves a request to come from this run */
	enum action action;
	uint32_t pool;        /* index */
	int64_t usual_cpu_ns; /* time on processors that runs of its queue usually need; 0: not known */
	struct str handler;
	struct str command; /* instead of the handler's, as in op_update; empty: the handler's */
	struct str queue, key;
	uint64_t generation;
	uint32_t attempt;
	uint32_t coalesced;
	int64_t due_wall_ns;
	const struct str *parts; /* payload parts, in order */
	size_t n_parts;
	/* ACTION_LEASE: goes to the worker of this subscription; it is handed over once sent */
	uint64_t subscription;
	uint64_t lease_token;
	int64_t lease_ns;
};

/* A lease that its holder has no more. */
struct lease_revoked {
	struct str queue, key;
	uint64_t token;
};

/* A pool as it is; `settings` and `name` borrowed until the next step. */
struct pool_view {
	struct str name;
	uint32_t index;
	const struct pool_settings *settings;
	struct pool_sample seen;
	enum pool_gate gate;
	uint32_t processors, target, cap, active;
	uint64_t samples;
	uint64_t queues, ready; /* that go by it; their ready jobs */
	uint32_t stalled;       /* queues */
	uint64_t stalls, floor_starts;
};

/* A queue whose ready jobs nobody has started for POOL_STALL_NS. */
struct pool_stall {
	struct str queue, pool;
	uint64_t ready, running;
	int64_t waits_ns;
	struct pool_view state;
};

enum effect_kind {
	FX_REPLY, /* `ticket` gets `reply`; when `durable`, after the commit of what is dirty now */
	FX_START, /* start this run; answer EV_RUN_STARTED, _NOT_STARTED or _ENDED */
	FX_EVENT, /* while watched: something happened */
	FX_STALL, /* a queue is not served: to be reported */
	FX_SUBSCRIBED, /* `ticket` is a subscription now; its reply comes at its end */
	FX_REVOKED,    /* the worker of subscription `ticket` is to stop what it does */
	FX_KILL,       /* stop run `run_id`: TERM, grace, KILL; it still ends with EV_RUN_ENDED */
};

struct effect {
	enum effect_kind kind;
	bool durable;
	uint64_t ticket;
	union {
		struct job_reply reply;
		struct run_start start;
		struct watch_event event;
		struct pool_stall stall;
		struct lease_revoked revoked;
		uint64_t run_id;
	};
};

/* Filled by engine_step, emptied by the caller; borrowed contents live until the next step. */
struct effects {
	struct effect *v; /* owned */
	size_t n, cap;
};
void
effects_init(struct effects *fx);
void
effects_done(struct effects *fx);
/* One more, of that kind; all else of it is for the caller to fill in. */
struct effect *
effects_add(struct effects *fx, enum effect_kind kind);
static inline void
effects_clear(struct effects *fx)
{
	fx->n = 0;
}

/* Appends to `fx`. ACTION_NONE runs without a command start and end within the step, without
 * effects. */
void
engine_step(struct engine *e, struct moment now, const struct engine_event *ev, struct effects *fx);

/*
 * An update of a job that is armed and only to be moved, in one call: true, it is done, and `*r`
 * (borrowed as those of effects) and `*durable` are what FX_REPLY would bring; there are no other
 * effects. False: nothing has changed; it is for engine_step, which does all updates.
 */
bool
engine_reschedule(struct engine *e, struct moment now, const struct op_update *op,
	uint64_t run_token, struct job_reply *r, bool *durable);

/* From now on steps tell by FX_EVENT what happens, or do so no more. */
void
engine_set_watched(struct engine *e, bool watched);

/* The boot time at which EV_TICK has something to do; `now.boot_ns` when work was left over
 * by the budget; INT64_MAX when nothing is due ever. */
int64_t
engine_next_due(const struct engine *e, struct moment now);

/*
 * Steps for these jobs come next: asks the memory for what they will touch, all at once, and
 * remembers what it found under these names (by their addresses), so that no key is hashed twice.
 * For the requests of one read; a hint, nothing that a step relies on.
 */
#define ENGINE_AHEAD_MAX 32u
void
engine_ahead(struct engine *e, const struct job_name *const *names, size_t n);

/* ---- looking (no effects, no state change) ---- */

enum status
engine_get(const struct engine *e, struct moment now, const struct job_name *job,
	struct job_view *out);

/* The job of a run that goes on, for who knows the run alone; false: there is no such run. */
bool
engine_run_job(const struct engine *e, struct moment now, uint64_t run_id, struct job_view *out);

struct list_filter {
	struct str queue;  /* empty: all */
	struct str prefix; /* of the key */
	bool has_state;
	enum job_state state;
	int64_t due_from_ns, due_to_ns; /* wall; 0 and INT64_MAX: no bound */
};
/*
 * Calls `each` for at most `limit` matching jobs from `*cursor` (0: the start)
 * on and moves it; `*cursor` is 0 again at the end. Looks at a bounded number of
 * jobs a call, so a page may be short or empty with the cursor not yet 0. A job
 * that exists throughout is shown exactly once. `each` returns false to stop.
 */
enum status
engine_list(const struct engine *e, struct moment now, const struct list_filter *f,
	uint64_t *cursor, size_t limit, bool (*each)(void *arg, const struct job_view *),
	void *arg);
struct job_saved;
/* The same as they would be stored, all of them but those of which nothing but kept runs is there.
 * `each` gets borrowed data. */
void
engine_export(const struct engine *e, struct moment now, uint64_t *cursor, size_t limit,
	bool (*each)(void *arg, const struct job_saved *), void *arg);
/* Queues, or completions, some at a time: `*cursor` moves on from 0 (the start) until it is 0 again.
 * One that exists throughout comes at least once. */
void
engine_queue_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct queue_view *), void *arg);
void
engine_completion_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct completion_view *), void *arg);
/* Kept runs, newest first, of one job (key given) or of a queue; at most `limit`,
 * skipping `skip`. */
enum status
engine_history(const struct engine *e, const struct job_name *job, size_t skip, size_t limit,
	bool (*each)(void *arg, const struct run_record *), void *arg);
enum status
engine_queue_get(const struct engine *e, struct str queue, struct queue_view *out);
/* NOT_FOUND: no such queue. */
enum status
engine_drain_get(
	const struct engine *e, struct moment now, struct str queue, struct drain_view *out);
/* Of any valid name: one that is not known is closed, of count 0. INVALID: no such name can be. */
enum status
engine_completion_get(const struct engine *e, struct str name, struct completion_view *out);
/* The pools that are configured, or still have runs. */
void
engine_pool_each(
	const struct engine *e, bool (*each)(void *arg, const struct pool_view *), void *arg);
/* From now on queues and completions may have names of namespaces (ops.h). Recovery does so by itself
 * when it meets one. */
void
engine_set_spaces(struct engine *e);
bool
engine_spaces(const struct engine *e);
/* All queues in order of creation, from `*cursor` (0: the start) on. `each` returns false for one
 * that it does not take: the next page begins with it. `*cursor` is 0 again at the end. */
void
engine_queue_each(const struct engine *e, uint64_t *cursor,
	bool (*each)(void *arg, const struct queue_view *), void *arg);

/* clang-format off */
#define ENGINE_COUNTER_TABLE(X) \
	X(coalesced,        "updates absorbed by a pending instance") \
	X(skipped,          "updates answered SKIPPED") \
	X(expired,          "deadlines reached") \
	X(starts,           "runs handed over") \
	X(start_retries,    "starts put off for want of processes, memory or descriptors") \
	X(rate_waits,       "times that the rate of a queue put its next start off") \
	X(prefix_waits,     "jobs held back because those of their prefix had as many runs as they may") \
	X(misfires_paced,   "overdue jobs whose deadlines were spread at start by restart_rate") \
	X(runs_done,        "runs that ended well") \
	X(runs_failed,      "runs that failed") \
	X(runs_dead,        "runs that used up their attempts") \
	X(runs_cancelled,   "runs stopped by a cancel") \
	X(runs_interrupted, "runs cut by the end of the daemon") \
	X(runs_timeout,     "runs stopped at their time limit") \
	X(misfires_skipped, "overdue jobs dropped at start by misfire=skip") \
	X(misfires_rearmed, "overdue jobs armed again at start by misfire=rearm") \
	X(answers_repeated, "requests answered from their idempotency id") \
	X(turns_cut,        "steps that left work to the next turn") \
	X(leases,           "jobs handed to workers") \
	X(leases_touched,   "leases made longer") \
	X(leases_released,  "leases given back unused") \
	X(leases_expired,   "leases that ran out") \
	X(leases_lost,      "leases ended by the end of a connection") \
	X(leases_revoked,   "leases taken back by a cancel") \
	X(leases_refused,   "words about a lease that was over: LEASE_LOST")
/* clang-format on */

struct engine_stats {
#define X(name, doc) uint64_t name;
	ENGINE_COUNTER_TABLE(X)
#undef X
	/* gauges */
	uint64_t jobs, armed, ready, running, waiters, queues, bytes, answers, completions;
	uint64_t workers, leased; /* subscriptions; runs that are leases */
};
void
engine_stats_get(const struct engine *e, struct engine_stats *out);
/* A queue whose workers the daemon keeps; borrowed until the next step. */
struct crew_view {
	struct str queue, handler;
	uint64_t ready; /* jobs that only lack a worker */
	uint32_t max_active;
	/* of the pool that the queue names, the default one where it names none */
	uint32_t pool, processors; /* its number; what it may fill, 0: all */
	uint32_t max_inflight;     /* 0: not limited */
	uint32_t busy; /* of its runs that are no workers, those that want a processor */
};
bool
engine_has_crews(const struct engine *e);
void
engine_crew_each(
	const struct engine *e, void (*each)(void *arg, const struct crew_view *), void *arg);
struct worker_view {
	uint32_t holds; /* leases */
	uint64_t given; /* jobs in all */
	int64_t idle_since_ns;
};
/* False: there is no such subscription. */
bool
engine_worker_get(const struct engine *e, uint64_t subscription, struct worker_view *out);
/* Jobs that workers hold now. */
uint64_t
engine_leases_held(const struct engine *e);
/* Lateness of starts (start - effective deadline), nanoseconds. Borrowed. */
struct hist;
const struct hist *
engine_lateness(const struct engine *e);

/* ---- durable state ---- */

/* A job as it is stored. Pending payloads are parts; `payload_changed` says whether the
 * store's copy of them is stale; of a job that is not stored it always is. */
struct job_saved {
	uint32_t id; /* its number, from 1 on: no two stored jobs have the same at a time */
	struct str queue, key;  /* always the same for an id, from its first put to its removal */
	enum job_state pending; /* JOB_IDLE, JOB_ARMED, JOB_READY (held is ready) */
	bool running;           /* a run was handed over and had not ended */
	bool absolute;          /* the deadline follows the wall clock */
	uint64_t boot;          /* in which boot the row was written: the store's to fill in */
	int64_t due_boot_ns, due_wall_ns; /* both; which counts depends on boot and `absolute` */
	int64_t delay_ns;                 /* as asked, for misfire=rearm; -1: absolute */
	int64_t created_wall_ns;
	int64_t slack_ns, max_wait_ns;
	uint64_t seq;        /* order among equals and in the ready list */
	uint64_t generation; /* of the last run started */
	uint32_t attempt;    /* of the last run started, or of the coming retry */
	uint32_t interrupts;
	bool retry; /* the pending instance is a retry of `generation` */
	uint32_t coalesced;
	uint32_t disable_depth;
	bool dead;
	enum durability level;
	bool payload_changed;
	bool command; /* parts[0] is one, as in op_update */
	bool run_command;
	/* Only id, deadline (both clocks), delay, seq and coalesced differ from what was put last,
	 * in the same boot or not; the payload does not. Never of a job's first put. A group hands on
	 * these fields alone. */
	bool moved;
	const struct str *parts; /* of the pending instance, else of the running or dead one */
	size_t n_parts;
	/* the running one's own, when another is pending */
	const struct str *run_parts;
	size_t n_run_parts;
	uint32_t run_coalesced;
	int64_t run_due_wall_ns, run_started_wall_ns;
};

/*
 * A job from an export comes back as it was: deadline, payload, generation, attempt, retry, depth.
 * CREATED; UNCHANGED: there is one of that name which is pending, running, disabled or dead, or has
 * come further than the saved one, and is left alone. One that was running is pending again. With
 * `dry_run` nothing is changed. The order among equal deadlines is that of the imports.
 */
struct op_import {
	struct job_saved job; /* due_wall_ns counts, not due_boot_ns; of runs nothing */
	bool dry_run;
};

struct answer_saved {
	struct str id;
	enum asked asked;
	struct job_reply reply; /* queue and key inside; no run */
	int64_t until_wall_ns;
};

struct completion_saved {
	struct str name;
	uint32_t done;
	bool open;
	enum durability level;
};

/* Receives what changed, one call a thing, in an order that may be applied as it comes. */
struct persist_sink {
	void *ctx;
	void (*queue_put)(void *ctx, struct str name, const struct queue_settings *s, bool paused);
	void (*queue_remove)(void *ctx, struct str name);
	void (*job_put)(void *ctx, const struct job_saved *j);
	void (*job_remove)(void *ctx, struct str queue, struct str key, uint32_t id);
	void (*run_add)(void *ctx, uint64_t run_seq, const struct run_record *r);
	void (*run_remove)(void *ctx, uint64_t run_seq);
	void (*answer_put)(void *ctx, const struct answer_saved *a);
	void (*answer_remove)(void *ctx, struct str id);
	void (*completion_put)(void *ctx, const struct completion_saved *c);
	void (*completion_remove)(void *ctx, struct str name);
};

/* Things changed and not yet taken. */
size_t
engine_dirty(const struct engine *e);
/* The mark of the newest dirty thing: how many were ever put on the dirty FIFO. */
uint64_t
engine_dirty_mark(const struct engine *e);
/* True when something changed since the last take that should not wait for the commit
 * interval (a hand-over, a sync request). */
bool
engine_dirty_urgent(const struct engine *e);
/* Hands out at most `limit` changed things, oldest mark first; the rest stays dirty. What must be
 * stored together has one mark and comes together, even when that is over the limit.
 * Returns the mark up to which everything has now been taken. */
uint64_t
engine_take_dirty(
	struct engine *e, struct moment now, size_t limit, const struct persist_sink *sink);

/* ---- pools ---- */

/*
 * These are the pools from now on, the default one besides; from then on samples are asked for.
 * Queues of one that is not among them go by the default one. 0, -ENOMEM or ERR_LIMIT, with those
 * before the one that failed set.
 */
int
engine_configure_pools(
	struct engine *e, struct moment now, const struct pool_config *pools, size_t n);
/* The boot time at which the next sample is wanted, and of which pool; INT64_MAX: none. */
int64_t
engine_sample_due(const struct engine *e, uint32_t *pool);

/* ---- recovery: before the first step, in this order ---- */

/* About so many jobs will come: may be left out. */
void
engine_expect(struct engine *e, uint64_t jobs);

int
engine_restore_queue(
	struct engine *e, struct str name, const struct queue_settings *s, bool paused);
/* The job of this key, in this memory, is the next to come: memory is asked for what it will
 * touch. May be left out. */
void
engine_restore_ahead(struct engine *e, struct str queue, struct str key);
/* In (due, seq) order or not. `same_boot`: this row was written in this boot, its due_boot_ns
 * counts. -ENOMEM, ERR_LIMIT, ERR_DAMAGED (queue unknown, key invalid). */
int
engine_restore_job(struct engine *e, struct moment now, const struct job_saved *j, bool same_boot);
int
engine_restore_run(struct engine *e, uint64_t run_seq, const struct run_record *r);
int
engine_restore_answer(struct engine *e, const struct answer_saved *a);
int
engine_restore_completion(struct engine *e, const struct completion_saved *c);
/* Applies misfire policies and turns what was running into interrupted runs. Then the first
 * EV_TICK starts what is due. */
void
engine_recovered(struct engine *e, struct moment now);

/* Sets a queue up from the configuration file: created or changed, no client involved. */
int
engine_configure_queue(struct engine *e, struct moment now, struct str name,
	const struct queue_settings *s, struct effects *fx);

/* Invariants of everything, O(n); asserts. For tests and `wqd --check-engine` builds. */
void
engine_verify(const struct engine *e);

#endif
