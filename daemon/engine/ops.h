/*
 * What can be asked of the engine and what it answers: plain structs, filled by
 * the wire, by tests and by recovery alike. All `struct str` are borrowed for
 * the length of the call.
 */
#ifndef WQD_ENGINE_OPS_H
#define WQD_ENGINE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/grants.h"
#include "base/str.h"
#include "engine/words.h"

#define KEY_MAX      255                          /* bytes */
#define PAYLOAD_MAX  (1u << 20)                   /* bytes of a pending instance, all parts */
#define DELAY_MAX_NS (36500ll * 86400 * NS_PER_S) /* 100 years */
#define IDEM_MAX     64                           /* bytes of an idempotency id */
#define IDEM_INNER   (IDEM_MAX + 1 + NAMESPACE_NAME_MAX) /* the same inside, with its namespace */
#define COMMAND_MAX  (128u << 10) /* bytes of a command, with a NUL for each word */

/*
 * A queue name or key is acceptable: 1 to `max` bytes of valid UTF-8 without
 * control characters (U+0000-001F, U+007F-009F), without surrogates, without
 * bidirectional controls (U+061C, U+200E-F, U+202A-E, U+2066-9), no leading or
 * trailing space; a queue name has no '/' besides.
 */
bool
key_valid(struct str key);
bool
queue_name_valid(struct str name);

/* What a kept answer answered, by the number of the operation in wq.proto: it is stored. */
enum asked {
	ASKED_ANYTHING = 0, /* kept by a version that did not say */
	ASKED_UPDATE = 12,
	ASKED_CANCEL = 14,
	ASKED_DELETE = 21,
	ASKED_DISABLE = 22,
	ASKED_ENABLE = 23,
	ASKED_KICK = 24,
	ASKED_COMPLETE = 37,
	ASKED_COMPLETE_ALL = 38,
	ASKED_REINIT = 39,
	ASKED_FINISH = 54,
	ASKED_FAIL = 55,
	ASKED_RELEASE = 56
};

/*
 * Names as they are inside where there are namespaces: "SPACE/QUEUE", and completions " SPACE/NAME",
 * which no client can name otherwise; or as above.
 */
bool
queue_name_inner_valid(struct str name);
bool
completion_name_inner_valid(struct str name);
/* The name as its own clients know it: without the namespace. Borrowed from the other. */
struct str
queue_name_outer(struct str inner);
struct str
completion_name_outer(struct str inner);
/* 1 to 32 letters, digits, '_', '.', '-', the first a letter or digit. */
bool
namespace_valid(struct str name);

struct job_name {
	struct str queue; /* empty: "default" */
	struct str key;
};

/* UPDATE. Ranges are checked by the engine: INVALID, with the reason, changes nothing. */
struct op_update {
	struct job_name job; /* empty key: the engine makes one */
	enum update_mode mode;
	bool absolute;   /* `when_ns` is wall time; else a delay from now */
	int64_t when_ns; /* delay: 0..DELAY_MAX_NS; absolute: 0..now+DELAY_MAX_NS */
	bool if_pending;
	int64_t slack_ns;               /* -1: the queue's */
	int64_t max_wait_ns;            /* -1: the queue's; 0: none */
	int64_t align_ns;               /* 0: none */
	bool align_exact;               /* no per-key offset */
	enum payload_mode payload_mode; /* KEEP with a payload is INVALID */
	struct str payload;             /* empty with REPLACE: none; with APPEND: an empty part */
	/*
	 * Program and arguments, each with a NUL behind it; empty: the queue's handler. It comes
	 * with its payload (KEEP: none): an update that replaces the payload takes the command
	 * away, one that appends to it is INVALID. Who may, is the caller's to decide.
	 */
	struct str command;
	enum durability level;
	struct str idem; /* idempotency id; empty: none */
};

struct op_cancel {
	struct job_name job;
	enum cancel_mode mode;
	int64_t timeout_ns; /* wait, kill: -1 no limit */
	enum durability level;
	struct str idem;
};

struct op_flush {
	struct job_name job;
	bool now;
	int64_t timeout_ns;
};

struct op_flush_queue {
	struct str queue;
	int64_t timeout_ns;
};

/*
 * The result of one instance: generation 0 means the newest (running, else pending, else kept).
 * OK with the run; CANCELLED when the instance was taken away before it ran (with its last attempt,
 * if any); NOT_FOUND when it is not known (any more); TIMEOUT.
 */
struct op_wait {
	struct job_name job;
	uint64_t generation;
	int64_t timeout_ns; /* 0: only look */
};

/*
 * DELETE, DISABLE, ENABLE, KICK.
 *
 * DELETE: NOT_FOUND when unknown; else CANCELLED, CANCELLED_RUNNING, NOT_PENDING_RUNNING as CANCEL
 * (the run goes on, its result is not kept) or OK. The depth of a disabled job stays.
 * KICK: UPDATED_TIMER (armed: ready now), CREATED (dead: a new instance with the kept payload),
 * UNCHANGED (ready), NOT_PENDING_RUNNING, IDLE.
 */
struct op_job {
	struct job_name job;
	enum durability level;
	struct str idem;
};

/*
 * A named completion: a level, not an edge. It exists by being named: one that nobody has completed
 * and nobody waits for is a closed one of count 0, and takes no memory.
 *
 * WAIT: OK when it took one, or the gate is open; TIMEOUT. COMPLETE, COMPLETE_ALL, REINIT: OK.
 */
struct op_completion {
	struct str name;       /* as a key */
	int64_t timeout_ns;    /* of WAIT: 0 only tries, -1 no limit */
	enum durability level; /* of the others; LEVEL_DEFAULT: as it is, memory for a new one */
	struct str idem;
};

/*
 * SUBSCRIBE: who asks is a worker from now on and is handed jobs of these lease queues, at most
 * `credits` at a time. The ticket of the request is the name of the subscription; it gets
 * FX_SUBSCRIBED, and its reply when it is over. NOT_FOUND, INVALID (a queue of another action).
 */
#define CREDITS_MAX       1024u
#define WORKER_QUEUES_MAX 64u
#define HOLDER_MAX        128u
#define LEASE_MIN_NS      (10 * NS_PER_MS)
#define LEASE_MAX_NS      (365 * 86400 * NS_PER_S)
struct op_subscribe {
	const struct str *queues;
	size_t n_queues; /* 0: "default" */
	uint32_t credits;
	struct str holder; /* for who looks: at most HOLDER_MAX bytes */
};

/*
 * CREDITS, UNSUBSCRIBE (no more jobs; the subscription is over when it holds none). OK; INVALID:
 * there is no such subscription.
 */
struct op_credits {
	uint64_t subscription;
	uint32_t credits;
};

/*
 * TOUCH, FINISH, FAIL, RELEASE of a lease. OK; LEASE_LOST: `token` is not that of the job's lease:
 * it ran out, was revoked or given back, and another may hold the job.
 */
struct op_lease {
	struct job_name job;
	uint64_t token;
	uint64_t subscription;  /* of who asks, 0: none */
	int64_t lease_ns;       /* touch: from now on; -1: the queue's */
	bool has_retry_after;   /* fail: the next attempt comes then, whatever the queue says */
	int64_t retry_after_ns; /* 0..DELAY_MAX_NS */
	int32_t exit_code;      /* finish, fail: -1: none */
	int32_t signal;
	struct str output; /* finish, fail: kept with the result */
	bool truncated;
	enum durability level;
	struct str idem;
};

struct setting_text {
	struct str name, value;
};

struct op_queue_set {
	struct str queue;
	const struct setting_text *settings;
	size_t n_settings;
};

struct op_queue {
	struct str queue;
};

struct op_queue_delete {
	struct str queue;
	enum timer_policy timers; /* TIMERS_KEEP: INVALID while any job is pending */
	int64_t timeout_ns;
};

struct op_drain {
	struct str queue;
	enum timer_policy timers;
	bool pause_after; /* when it returns, the queue is paused before anything starts */
	int64_t timeout_ns;
};

/*
 * One finished run (or attempt). Immutable once made. Owned by the engine's
 * history; borrowed from a reply until the next step.
 */
struct run_record {
	struct str queue, key;
	uint64_t generation;
	uint32_t attempt;
	enum run_outcome outcome;
	bool final;                                          /* false: another attempt follows */
	int32_t exit_code;                                   /* -1: did not exit */
	int32_t signal;                                      /* 0: not killed by one */
	int32_t error;                                       /* errno of a start that failed, 0 */
	int64_t due_wall_ns, started_wall_ns, ended_wall_ns; /* started 0: never started */
	uint32_t coalesced;
	struct str output;
	bool truncated;
};

/* A job as GET and LIST show it; borrowed until the next step. */
struct job_view {
	struct str queue, key;
	enum job_state state; /* running hides what is pending: see `pending` */
	bool pending;
	enum job_state pending_state; /* JOB_IDLE when not pending */
	bool has_deadline;
	int64_t deadline_wall_ns; /* of the pending instance, effective */
	uint64_t generation;      /* of the running, else of the coming, else of the last run */
	uint32_t attempt;
	uint32_t coalesced;
	uint32_t disable_depth;
	enum durability level;
	size_t payload_bytes;
	struct str command;            /* of the instance shown, as in op_update; empty: none */
	const struct run_record *last; /* newest finished, or NULL */
	bool dead;
	bool leased;           /* a worker has it */
	struct str holder;     /* of the lease; empty: not known, of before a restart */
	int64_t lease_left_ns; /* never below 0 */
	uint64_t lease_token;  /* 0: of before a restart */
	bool lease_touched;
};

struct queue_view {
	struct str name;
	const struct queue_settings *settings;
	uint64_t jobs; /* all known: armed + ready + held + running + kept */
	uint64_t armed, ready, held, running;
	uint64_t bytes; /* of keys and payloads */
	bool paused, draining;
	uint64_t workers;          /* subscribed */
	uint64_t held_prefix;      /* of held: by the limit of their prefix */
	int64_t rate_next_wall_ns; /* the next start, while the rate lets none in; 0: it does */
};

struct completion_view {
	struct str name;
	uint32_t done; /* signals not yet taken, saturating; 0 while open */
	bool open;
	uint64_t waiters;
	enum durability level;
};

/* Something that happened, for those who watch; borrowed until the next step. */
struct watch_event {
	enum watch_kind kind;
	struct str queue, key; /* no key: of the queue itself */
	uint64_t generation;
	uint32_t attempt, coalesced;
	bool has_deadline;
	int64_t deadline_wall_ns;
	enum run_outcome outcome; /* EVENT_FINISHED */
	bool final;
	const char *change; /* EVENT_QUEUE: what became of it, a word */
};

/* How far a drain is. */
struct drain_view {
	uint64_t left, running; /* what it waits for; what of that is running */
	int64_t oldest_ns;      /* how long the longest run has been going on; -1: none runs */
};

/* The answer to a job operation. */
struct job_reply {
	enum status status;
	const char *message;   /* static sentence for an error, or NULL */
	struct str queue, key; /* of the job, also when the engine made the key */
	enum job_state state_before;
	bool pending_before;
	bool has_deadline, has_old_deadline;
	int64_t deadline_wall_ns, old_deadline_wall_ns;
	uint64_t generation;
	uint32_t coalesced;
	uint32_t disable_depth;
	const struct run_record *run; /* what was waited for, or NULL */
};

#endif
