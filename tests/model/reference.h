/*
 * The reference: docs/semantics.md in the plainest C, arrays and linear searches,
 * no thought for speed or memory. test_model.c plays the same requests to it and
 * to the engine.
 *
 * A request that is answered later is a waiter. What happens is appended to
 * `reply` and `start`, which test_model.c compares and empties.
 */
#ifndef WQD_TESTS_REFERENCE_H
#define WQD_TESTS_REFERENCE_H

#include "engine/engine.h"

#define REF_QUEUES   3
#define REF_KEYS     5
#define REF_WAITERS  64
#define REF_RECORDS  2000
#define REF_OUT      300
#define REF_PAYLOAD  64
#define REF_SNAPSHOT (2 * REF_KEYS)
#define REF_IDS      5
#define REF_KEEP_NS  (400 * NS_PER_MS) /* for so long an answer is kept for its id */

struct ref_instance {
	enum job_state at; /* JOB_IDLE: nothing pending; JOB_ARMED, JOB_READY */
	uint64_t serial;   /* kept when it turns into a run: a flush waits for serials */
	int64_t due, created;
	int64_t delay; /* from the request to the deadline, for misfire=rearm; slack included */
	bool absolute, retry, appended; /* appended: the payload only grew */
	bool parked; /* came ready during a drain, which neither starts it nor waits for it */
	uint64_t seq;
	uint32_t coalesced, attempt;
	uint32_t merged;           /* so many generations before its own are part of it */
	char payload[REF_PAYLOAD]; /* each part followed by ';' */
};

struct ref_run {
	bool going, killed, deleted;
	struct ref_instance was; /* what was handed over */
	uint64_t generation;
};

struct ref_record {
	int queue, key;
	uint64_t generation;
	uint32_t attempt, coalesced, merged;
	enum run_outcome outcome;
	bool final;
	bool stored;   /* the job was one that is stored when it was made */
	bool unlisted; /* past its time, kept as the newest of a dead job */
	int64_t ended;
};

struct ref_job {
	struct ref_instance p;
	struct ref_run run;
	uint64_t generation; /* of the last run started */
	uint32_t depth, interrupts;
	bool stored; /* has been asked for at another level than memory */
	bool dead;
	char kept[REF_PAYLOAD]; /* payload of the dead one */
};

struct ref_queue {
	struct queue_settings s;
	bool paused;
	bool gone;               /* deleted */
	bool removing;           /* about to be: nothing is left to run */
	bool backs_off;          /* the runner could not start one: none is tried ... */
	int64_t no_start_before; /* ... until then */
	struct ref_job job[REF_KEYS];
};

/* Named completions: of level memory all. */
#define REF_COMPLETIONS 3
struct ref_completion {
	uint32_t done;
	bool open;
};

enum ref_waits { W_CANCEL, W_FLUSH, W_WAIT, W_DRAIN, W_DELETE, W_COMPLETION };

struct ref_waiter {
	enum ref_waits kind;
	uint64_t ticket;
	int queue, key;
	int64_t until;
	enum status status; /* W_CANCEL: the answer to be */
	bool kill, durable;
	uint64_t serial[REF_SNAPSHOT]; /* W_FLUSH: 0 in the place of what is over */
	uint64_t generation;           /* W_WAIT */
	bool pause_after;              /* W_DRAIN */
};

struct ref_reply {
	uint64_t ticket;
	enum status status;
	bool durable;
	bool of_job, of_update; /* which of the fields count */
	enum job_state before;
	bool pending_before, has_deadline;
	int64_t deadline; /* wall */
	uint64_t generation;
	uint32_t coalesced, depth;
	bool has_run;
	struct ref_record run;
};

/* What was answered to a request with an idempotency id. */
struct ref_answer {
	bool known, stored;
	int queue, key;
	int asked; /* enum engine_event_kind */
	int64_t until;
	struct ref_reply reply;
};

struct ref_start {
	int queue, key;
	uint64_t generation;
	uint32_t attempt, coalesced;
	char payload[REF_PAYLOAD];
};

struct ref {
	struct moment now;
	uint64_t seq, serial;
	struct ref_queue queue[REF_QUEUES];
	struct ref_completion completion[REF_COMPLETIONS];
	struct ref_waiter waiter[REF_WAITERS];
	size_t n_waiters;
	struct ref_answer answer[REF_IDS];     /* to the ids "a", "b", ... */
	struct ref_record record[REF_RECORDS]; /* oldest first */
	size_t n_records;
	struct ref_reply reply[REF_OUT];
	struct ref_start start[REF_OUT];
	size_t n_replies, n_starts;
};

/* Each takes the op that the engine takes, with queue and key as numbers. `own`: the queue whose
 * run sent it, or -1. */
void
ref_update(struct ref *r, uint64_t ticket, int queue, int key, int own, const struct op_update *op);
void
ref_cancel(struct ref *r, uint64_t ticket, int queue, int key, const struct op_cancel *op);
void
ref_flush(struct ref *r, uint64_t ticket, int queue, int key, const struct op_flush *op);
void
ref_flush_queue(struct ref *r, uint64_t ticket, int queue, int64_t timeout_ns);
void
ref_wait(struct ref *r, uint64_t ticket, int queue, int key, const struct op_wait *op);
void
ref_job(struct ref *r, uint64_t ticket, int queue, int key, int own, enum engine_event_kind kind,
	const struct op_job *op);
void
ref_pause(struct ref *r, uint64_t ticket, int queue, bool pause);
void
ref_max_active(struct ref *r, uint64_t ticket, int queue, uint32_t max_active);
void
ref_drain(struct ref *r, uint64_t ticket, int queue, const struct op_drain *op);
void
ref_queue_delete(struct ref *r, uint64_t ticket, int queue, const struct op_queue_delete *op);
void
ref_queue_create(struct ref *r, uint64_t ticket, int queue, const struct queue_settings *settings);
/* wait, complete, complete_all, reinit of the completion `which`. */
void
ref_completion(
	struct ref *r, uint64_t ticket, int which, enum engine_event_kind kind, int64_t timeout_ns);
/* How many wait for it. */
uint64_t
ref_completion_waiters(const struct ref *r, int which);
void
ref_abandon(struct ref *r, uint64_t ticket);
void
ref_ended(struct ref *r, int queue, int key, enum run_outcome outcome);
void
ref_not_started(struct ref *r, int queue, int key);
/* What follows at once: starts, and ends of drains. */
void
ref_follow(struct ref *r);
/* What is due happens: time limits of waits, timers; and what follows. */
void
ref_settle(struct ref *r);
/* The wall clock was set (r->now has the new time). */
void
ref_stepped(struct ref *r, int64_t by_ns);
/* The daemon was down and is back at `now`; who waited is gone. */
void
ref_restarted(struct ref *r, struct moment now);

void
ref_init(struct ref *r, struct moment now);
/* A drain or a deletion goes on. */
bool
ref_draining(const struct ref *r, int queue);
/* The newest kept run, or NULL. */
const struct ref_record *
ref_last(const struct ref *r, int queue, int key);
/* There is something to remember of this job. */
bool
ref_known(const struct ref *r, int queue, int key);

#endif
