/*
 * The records of the engine: jobs, runs, queues, who waits, what is kept. Who
 * may do what to them is in internal.h; what must always hold, in verify.c.
 *
 * Things die in two steps: what an effect of this step may still name goes to
 * the graveyard and is freed when the next step begins.
 */
#ifndef WQD_ENGINE_RECORDS_H
#define WQD_ENGINE_RECORDS_H

#include "base/assert.h"
#include "base/hist.h"
#include "base/list.h"
#include "base/slab.h"
#include "engine/engine.h"
#include "engine/ids.h"
#include "engine/index.h"
#include "engine/map.h"
#include "engine/pool.h"
#include "engine/rate.h"
#include "engine/timer.h"
#include "engine/wheel.h"

#define ENGINE_MAGIC 0x656e6731u
#define QUEUE_MAGIC  0x71756531u
#define JOB_MAGIC    0x6au
#define RUN_MAGIC    0x72756e31u
#define RECORD_MAGIC 0x72656331u
#define WAITER_MAGIC 0x77616931u
#define GROUP_MAGIC  0x67726f31u
#define ANSWER_MAGIC 0x616e7331u
#define COMPL_MAGIC  0x636d7031u
#define POOL_MAGIC   0x706f6f31u
#define LEASE_MAGIC  0x6c656131u
#define SUB_MAGIC    0x73756231u
#define TENANT_MAGIC 0x74656e31u

/* ---- states of a job ---- */

/* clang-format off */
/*      name   shown as                running, pending */
#define JSTATE_TABLE(X) \
	X(JS_I,  "I",  false, PEND_NONE)  /* idle */ \
	X(JS_A,  "A",  false, PEND_TIMER) /* armed */ \
	X(JS_Q,  "Q",  false, PEND_READY) /* ready or held */ \
	X(JS_R,  "R",  true,  PEND_NONE)  /* handed over */ \
	X(JS_RA, "RA", true,  PEND_TIMER) /* and armed again */ \
	X(JS_RQ, "RQ", true,  PEND_READY) /* and ready again */ \
	X(JS_X,  "X",  false, PEND_NONE)  /* disabled */ \
	X(JS_RX, "RX", true,  PEND_NONE)  /* running, closed to updates: disabled or waited to cancel */

/* What moves a job from state to state. */
#define JOB_OP_TABLE(X) \
	X(OP_ARM,         "arm")         /* an update to a deadline ahead */ \
	X(OP_NOW,         "now")         /* an update whose deadline has come */ \
	X(OP_STAY,        "stay")        /* an update that its mode, slack or if_pending keeps still */ \
	X(OP_CANCEL,      "cancel") \
	X(OP_CANCEL_WAIT, "cancel wait") /* kill too */ \
	X(OP_DISABLE,     "disable") \
	X(OP_ENABLE,      "enable") \
	X(OP_FLUSH,       "flush") \
	X(OP_FLUSH_NOW,   "flush now") \
	X(OP_KICK,        "kick") \
	X(OP_DELETE,      "delete") \
	X(OP_EXPIRE,      "expire")      /* its deadline has come */ \
	X(OP_START,       "start")       /* handed over */ \
	X(OP_NOT_STARTED, "not started") /* the hand-over is taken back */ \
	X(OP_END,         "end")         /* the run ended */ \
	X(OP_RETRY,       "retry")       /* the run ended, another attempt follows */ \
	X(OP_REOPEN,      "reopen")      /* nobody waits to cancel any more */ \
	X(OP_RESTORE,     "restore")     /* read from the store */
/* clang-format on */

enum pend { PEND_NONE, PEND_TIMER, PEND_READY };
#define X(name, ...) name,
enum jstate { JSTATE_TABLE(X) N_JSTATES };
enum job_op { JOB_OP_TABLE(X) N_JOB_OPS };
#undef X

/* ---- things that are stored ---- */

enum dirty_kind { DIRTY_QUEUE, DIRTY_JOB, DIRTY_RECORD, DIRTY_ANSWER, DIRTY_COMPLETION };

/* Embedded in each thing of the store; also what the graveyard links. */
struct dirty {
	struct list link; /* on engine.dirty or engine.grave, else on itself */
	uint64_t mark;    /* its number on the FIFO */
	uint8_t kind;
	bool stored; /* the store may have it */
	bool gone;   /* dead: to be removed from the store, then freed */
};

/* ---- payloads ---- */

struct payload {
	struct queue *q; /* whose bytes they are */
	size_t bytes;    /* of all parts */
	uint32_t n, cap;
	bool command;       /* the first part is one, as in op_update */
	struct str parts[]; /* each owned */
};

/* ---- waiting ---- */

enum wait_kind {
	W_CANCEL,
	W_KILL,
	W_FLUSH,
	W_WAIT,
	W_FLUSH_QUEUE,
	W_DRAIN,
	W_DRAIN_PAUSE,
	W_DELETE,
	W_COMPLETION
};

/*
 * Those who wait for the same event. When it happens, the whole group goes to
 * the end of engine.wake in one move, and is answered from there, first come
 * first, so many a step. Two groups whose events have become one are merged:
 * one list, while waiters that still name the old group find the new one by
 * `into`.
 */
struct wait_group {
	uint32_t magic;
	uint32_t refs;            /* the owner or engine.wake, each waiter, each merged group */
	struct wait_group **slot; /* where the owner keeps it; NULL when awake or merged */
	struct wait_group *into;
	struct list waiters;
	struct list link; /* on engine.wake */
	bool awake;
	enum status status;            /* how it ended */
	struct record *record;         /* ref, or NULL */
	struct queue *q;               /* pinned; NULL: of a completion */
	struct job *job;               /* pinned, or NULL */
	struct completion *completion; /* pinned, or NULL */
};

/* The events of a job. "run": the running instance (or the one that waits for a retry);
 * "next": the pending one. A flush ends with the attempt, a wait with the last attempt. */
enum job_event { ON_CANCEL, ON_FLUSH_RUN, ON_FLUSH_NEXT, ON_WAIT_RUN, ON_WAIT_NEXT, N_JOB_EVENTS };

struct waits {
	struct wait_group *on[N_JOB_EVENTS];
	/* So many generations right before the pending one were promised and are part of it: their
	 * hand-over was taken back when it was pending already. */
	uint32_t merged;
};

struct waiter {
	uint32_t magic;
	enum wait_kind kind;
	struct map_node node; /* engine.waiters, by ticket */
	uint64_t ticket;
	struct list link; /* of its group (after merging: the one it went into) */
	struct list all;  /* engine.all_waiters */
	struct wait_group *group;
	struct timer timer; /* engine.timeouts */
	enum durability level;
	struct job_reply reply; /* as it was when it began to wait */
	struct answer *answer;  /* owned: kept when it is answered */
	/* W_COMPLETION: the one it was given is given on should it go away unanswered, unless the
	 * completion was closed since: then the numbers differ. 0: none. */
	uint64_t took;
	struct run
		*from; /* without a limit, of a run of ours, for a job: that run, until it ends */
	struct list inside; /* engine.inside, while `from` */
};

/*
 * The colour of ready and running items, for flushes of the queue: an item has
 * the newest colour when it becomes ready. A flush closes the newest and waits
 * until it and all older ones are empty.
 */
struct colour {
	struct list link; /* queue.colours, oldest first */
	uint64_t n;
	struct wait_group *waiters;
};

/* ---- jobs ---- */

enum timer_place { ON_BOOT, ON_WALL, ON_EXPEDITED };

/*
 * What is known of a job that never ran, waits for its deadline and asked for
 * nothing else: one cache line, and its key and payload. All else is in a side
 * record, which a job has while there is something to say in it: see job_widen
 * and job_narrow. side_of() reads it as if it were always there.
 */
struct job {
	int64_t due_ns;     /* of the pending instance, on the clock `absolute` says */
	uint64_t seq;       /* among equal deadlines; when ready: its place in the queue */
	struct queue *q;    /* NULL: a free record */
	int64_t created_ns; /* boot time; of the pending instance */
	char *key;          /* owned */
	union {
		struct payload *payload; /* of the pending or the dead instance; !sided */
		struct side *side;       /* owned; sided */
	} ext;
	struct timer timer;
	uint32_t coalesced; /* of the pending instance */
	uint32_t delay_ms;  /* as asked; DELAY_ASIDE: side->delay_ns */
	uint8_t magic;
	uint8_t key_n;
	uint8_t state : 3; /* enum jstate */
	uint8_t place : 2; /* enum timer_place, when armed */
	uint8_t level : 2; /* enum durability */
	bool sided : 1;
	bool absolute : 1;
	bool chained : 1; /* made pending by a run of the queue: a drain lets it pass */
	bool durable : 1; /* has, or is about to have, a row in the store */
	bool stored : 1;  /* side->dirty.stored, while there is no side */
	bool stale : 1;   /* the store's copy of the parts is */
	bool whole : 1;   /* more than its deadline differs from what was stored last */
};
_Static_assert(sizeof(struct job) == 64, "a job is a cache line");
#define DELAY_ASIDE UINT32_MAX
#define KEY_CLASSES 8 /* longer ones are blocks of their own */

struct side {
	struct job *job;
	struct dirty dirty;
	struct list ready;     /* queue.ready, queue.parked or tenant.waiting */
	struct tenant *tenant; /* in whose list it waits, else NULL */
	struct colour *colour;
	uint32_t parked; /* queue.park_epoch: ready, on queue.parked */
	uint32_t pins;   /* wait groups and the like that name it */
	struct payload *payload;
	struct run *run;
	uint64_t generation; /* of the last run started */
	uint32_t attempt;    /* of the last run started */
	uint32_t disable_depth;
	struct list records; /* newest first */
	struct waits *waits; /* NULL until somebody waits */
	int64_t delay_ns;    /* when it is no whole number of milliseconds; -1: absolute */
	int64_t slack_ns, max_wait_ns;
	uint16_t interrupts; /* in a row */
	bool retry : 1;      /* the pending instance is the next attempt of `generation` */
	bool dead : 1;       /* idle, attempts used up, payload kept */
	bool aside : 1;      /* ready at the head, on no list until its run ends */
	bool appended : 1;   /* the pending payload only grew since the instance was made */
	bool forget : 1;     /* deleted while running: the result is not kept */
};

/* What stands for a side that is not there. */
extern const struct side side_none;

static inline const struct side *
side_of(const struct job *j)
{
	return j->sided ? j->ext.side : &side_none;
}
/* The side itself, which must be there. */
static inline struct side *
job_side(const struct job *j)
{
	wq_assert(j->sided);
	return j->ext.side;
}
static inline bool
job_gone(const struct job *j)
{
	return side_of(j)->dirty.gone;
}
static inline bool
job_stored(const struct job *j)
{
	return j->sided ? j->ext.side->dirty.stored : j->stored;
}
static inline struct payload **
job_payload_at(struct job *j)
{
	return j->sided ? &j->ext.side->payload : &j->ext.payload;
}
static inline struct payload *
job_payload(const struct job *j)
{
	return j->sided ? j->ext.side->payload : j->ext.payload;
}
static inline bool
delay_fits(int64_t delay_ns)
{
	return delay_ns >= 0 && delay_ns % NS_PER_MS == 0 && delay_ns / NS_PER_MS < DELAY_ASIDE;
}
static inline void
job_set_delay(struct job *j, int64_t delay_ns)
{
	bool fits = delay_fits(delay_ns);

	j->delay_ms = fits ? (uint32_t)(delay_ns / NS_PER_MS) : DELAY_ASIDE;
	if (!fits)
		job_side(j)->delay_ns = delay_ns;
}
/* As asked; -1: absolute. */
static inline int64_t
job_delay(const struct job *j)
{
	return j->delay_ms == DELAY_ASIDE ? side_of(j)->delay_ns : j->delay_ms * NS_PER_MS;
}

/* A run that was handed over. */
struct run {
	uint32_t magic;
	uint64_t id, token;
	struct map_node by_id, by_token; /* not for what ends at once: ACTION_NONE */
	bool mapped;
	struct job *job;
	struct payload *payload;
	struct colour *colour;
	struct record *record; /* made with it, so that no end can fail */
	uint64_t seq;          /* the place it had, should the hand-over be taken back */
	int64_t due_ns;
	int64_t created_ns, delay_ns, slack_ns, max_wait_ns;
	int64_t due_wall_ns, started_wall_ns;
	uint32_t coalesced;
	uint32_t merged; /* see struct waits */
	bool absolute, retry, appended, chained;
	bool started; /* the runner said so */
	bool killed;
	bool reserve;          /* it is the one past its pool's limits */
	struct pool *pool;     /* that it counts in; NULL before the start */
	struct tenant *tenant; /* the same; NULL: its queue has no such limit */
	struct lease *lease;   /* NULL: no worker has it */
	struct waiter *waits;  /* one of those it made, see inside.c; NULL: none */
};

/* ---- leases and workers: lease.c, worker.c ---- */

struct lease {
	uint32_t magic;
	uint8_t state; /* enum lease_state */
	bool touched;
	uint64_t token;
	struct run *run; /* NULL: LOST */
	struct sub *sub; /* NULL: ORPHAN */
	struct list of_sub;
	struct timer timer; /* engine.lease_ends */
	size_t bytes;       /* of the payload, while it counts in the subscription */
};

/* A worker: somebody who takes jobs, under the ticket of its request. */
struct sub {
	uint32_t magic;
	struct map_node node; /* engine.subs */
	struct list all;      /* engine.all_subs */
	uint64_t ticket;
	uint32_t credits, n_leases; /* LOST ones too: they are not answered for */
	size_t bytes;               /* of payloads of those it holds */
	uint64_t given;             /* jobs in all */
	int64_t idle_ns;            /* boot time since when it holds nothing */
	bool closed;                /* no more jobs: over with its last lease */
	struct list leases, places;
	uint8_t holder_n;
	char holder[HOLDER_MAX];
};

/* Of a worker in a queue. */
struct place {
	struct sub *sub;
	struct queue *q;
	struct list of_sub;
	struct list of_queue; /* queue.places */
	struct list taker;    /* queue.takers, while the worker has credit: first is next */
};

/* ---- limits by key: tenant.c ---- */

struct tenant {
	uint32_t magic;
	uint32_t running;
	uint32_t let;         /* that were given back in the present review */
	uint32_t counted;     /* by tenants_verify */
	uint32_t era;         /* queue.tenant_era: older ones are found no more */
	struct map_node node; /* engine.tenants */
	struct queue *q;
	struct list link;    /* queue.tenants or engine.reviews, while any wait */
	struct list waiting; /* by seq */
	uint8_t prefix_n;
	char prefix[];
};

/* A finished run. */
struct record {
	uint32_t magic;
	uint32_t refs; /* history, wait groups */
	struct dirty dirty;
	struct run_record r; /* r.output.p owned */
	uint64_t seq;        /* key in the store */
	uint32_t merged;     /* see struct waits; not stored */
	struct queue *q;
	struct job *job;
	struct list of_queue; /* queue.records, oldest first; a dead job's newest may be off it */
	struct list of_job;   /* job.records */
	struct map_node node; /* engine.results: the last attempt of each generation */
	bool mapped;
	int64_t ended_ns; /* boot */
};

/* ---- queues ---- */

struct queue {
	uint32_t magic;
	struct dirty dirty;
	struct map_node node; /* engine.queue_names */
	struct str name;      /* owned */
	uint64_t salt;        /* into the hashes of its keys */
	uint64_t n;           /* grows with each queue made */
	struct queue_settings s;
	struct list of_engine;
	uint64_t n_jobs, n_armed, n_ready, n_parked, n_running;
	uint64_t n_kept;      /* of the ready: by their tenants */
	uint64_t n_bytes;     /* of keys and payloads */
	struct list ready;    /* FIFO */
	struct list parked;   /* FIFO; became ready while draining, wait for the end of that */
	uint32_t park_epoch;  /* one more: all that was parked is so no more */
	struct pool *pool;    /* the direct one, unless its runs use our processors */
	struct list turn;     /* pool.turn[priority] while something may start */
	struct list spare;    /* pool.spares meanwhile, when it is marked reserve */
	uint32_t turns_left;  /* of its weight, before it goes to the end */
	int64_t waits_ns;     /* boot time since when it is in turn, or of its last start */
	bool stalled;         /* and told so */
	int64_t usual_cpu_ns; /* time on processors that about half of its runs stay under */
	struct list colours;
	struct list records;
	uint64_t n_records;
	struct list crew;           /* engine.crews, if the daemon keeps workers for it */
	struct list places, takers; /* of workers; of those who have credit */
	uint64_t n_places;
	struct timer backoff; /* engine.backoffs: after a start that failed */
	struct bucket bucket; /* of its rate */
	struct timer pace;    /* engine.paces: until the next token, while there is none */
	struct list tenants;  /* with jobs that wait */
	uint32_t tenant_era;
	uint64_t spread;     /* jobs that recovery has spread so far */
	struct timer retire; /* engine.retires: when the oldest record's time is over */
	bool commands;       /* it was given one */
	bool paused;
	bool draining; /* newcomers are refused: a drain or the end of the queue */
	bool deleting; /* it is the end */
	bool removing; /* nothing is pending or running any more: the records go */
	struct wait_group *drains;
	struct wait_group *deleter;
	uint32_t pausers; /* among `drains` */
	struct sweep {
		struct list link; /* engine.sweeps while there is work */
		bool scanning;
		enum timer_policy policy;
		enum timer_policy again; /* asked for meanwhile; TIMERS_KEEP: nothing */
		uint32_t next, end;      /* numbers of the records still to be looked at */
		uint64_t until_seq;      /* what was armed later is left alone */
		struct timers found;     /* expedited, in order of their deadlines */
	} sweep;
	uint32_t pins; /* wait groups; dead jobs that the store still has */
};

/* ---- answers for idempotency ids ---- */

struct answer {
	uint32_t magic;
	struct dirty dirty;
	struct map_node node;
	struct timer timer;     /* engine.answer_ends */
	struct job_reply reply; /* queue, key: owned, in `text` */
	int64_t until_ns;       /* boot */
	uint8_t asked;          /* enum asked */
	uint8_t id_n;
	char text[];
};

/* ---- completions ---- */

/*
 *   complete      count + 1, or the first waiter is given one
 *   complete_all  open: every waiter, present and later
 *   reinit        closed, count 0
 *
 * Count and waiters exclude each other: whoever comes while there is a count takes one at once.
 * Who has been given one, or was let in by the gate, waits in `granted` for its answer alone.
 */
struct completion {
	uint32_t magic;
	struct dirty dirty;
	struct map_node node; /* engine.completions */
	struct list of_engine;
	uint32_t done;
	bool open;
	uint8_t level;      /* enum durability */
	uint64_t era;       /* one more with each reinit; from 1 */
	uint64_t n_waiting; /* in `waiting` */
	struct wait_group *waiting;
	struct wait_group *granted; /* awake */
	uint32_t pins;              /* wait groups */
	uint8_t name_n;
	char name[];
};

/* ---- pools ---- */

#define N_PRIORITIES 3

struct pool {
	uint32_t magic;
	uint32_t index; /* in order of making; what others know it by */
	struct list of_engine;
	bool named; /* by the configuration */
	struct pool_policy policy;
	struct list turn[N_PRIORITIES]; /* queues that may start something, in turn */
	uint32_t credit[N_PRIORITIES];
	struct list spares;
	uint32_t reserved;    /* runs past its limits; 0 or 1 */
	int64_t tried_ns;     /* boot time of the last start, or try past the gate */
	int64_t stalls_at_ns; /* when to look next for queues that stall */
	uint32_t stalled;     /* queues */
	uint64_t stalls, floor_starts;
	char name[POOL_NAME_MAX + 1];
};

/* ---- the engine ---- */

struct engine {
	uint32_t magic;
	struct engine_config cfg;
	/* of the current step */
	struct moment now;
	struct effects *fx;
	uint32_t budget;
	uint32_t tick_from;                   /* kind of work that the next tick begins with */
	char names[QUEUE_NAME_MAX + KEY_MAX]; /* for replies about what is unknown */

	bool stopping;
	bool holding; /* nothing expires or starts: see engine_hold */
	bool carried; /* recovery of a state that is carried over an exec */
	bool watched;
	bool spaces; /* names may be of namespaces */
	bool merged; /* generations were: see struct waits */
	struct slab jobs, sides;
	struct slab key_bytes[KEY_CLASSES]; /* of keys up to 8, 16, ... bytes; made when needed */
	struct index keys;                  /* of jobs */
	struct job *asked;                  /* whose request this step is about, or NULL */
	struct map queue_names, waiters, runs, tokens, results, answers, completions;
	struct list queues;     /* in order of creation */
	struct queue *fallback; /* "default" */
	struct queue *recent;   /* of the last request that named one, or NULL */
	struct ahead {          /* what engine_ahead found */
		const struct job_name *name[ENGINE_AHEAD_MAX]; /* compared, never read */
		struct job *job[ENGINE_AHEAD_MAX];
		uint32_t n, next; /* the step that comes next, if they come in order */
	} ahead;
	struct wheel boot, wall; /* deadlines of jobs */
	uint32_t chunks;         /* of these that the step may still move */
	struct timers timeouts, backoffs, paces, retires, answer_ends; /* boot time */
	uint64_t seq, run_id, run_seq, made, queues_made;
	struct map tenants;
	struct list reviews;          /* tenants to be looked at again */
	struct list pools;            /* the next to be served first */
	struct pool *direct, *common; /* for runs elsewhere; the one called default */
	uint32_t n_pools;
	struct map subs;
	struct list all_subs;
	struct list crews; /* queues whose workers are ours */
	struct timers lease_ends;
	uint64_t fence;           /* token of the newest lease */
	int64_t starved_until_ns; /* boot time; before it nothing is started, for want of memory */
	struct list all_waiters;
	struct list inside; /* struct waiter: one of each run that waits, see inside.c */
	struct list all_completions;
	struct list wake;   /* wait groups to be answered */
	struct list purges; /* jobs whose records go */
	struct list sweeps; /* queues with paced work */
	struct list dirty, grave;
	struct ids ids; /* of what the store has or is about to have */
	uint64_t marks;
	size_t n_dirty;
	bool urgent;
	struct engine_stats stats;
	struct hist lateness;
	struct {
		const char *key; /* not looked into */
		size_t n;
		const struct queue *q;
		uint64_t hash;
	} coming;               /* the job that engine_restore_ahead told of */
	struct timers restored; /* ready jobs by their place, during recovery */
};

#endif
