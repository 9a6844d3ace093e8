/*
 * The words of docs/semantics.md as tables: reply words, job states, outcomes
 * of a run, modes. The number is the one on the wire (proto/wq.proto) and in
 * the store; the lower-case word is the one of configuration and of JSON.
 * Numbers are never reused.
 */
#ifndef WQD_ENGINE_WORDS_H
#define WQD_ENGINE_WORDS_H

#include <stdbool.h>

#include "base/str.h"

/* clang-format off */
/*      name               wire  word                  meaning */
#define STATUS_TABLE(X) \
	X(ST_OK,                  0, "OK",                  "done") \
	X(ST_CREATED,             1, "CREATED",             "the job was idle and is pending now") \
	X(ST_UPDATED_TIMER,       2, "UPDATED_TIMER",       "it was armed; its deadline moved") \
	X(ST_UPDATED_READY,       3, "UPDATED_READY",       "it was ready or held and was taken back") \
	X(ST_REQUEUED_RUNNING,    4, "REQUEUED_RUNNING",    "it is running and will run once more") \
	X(ST_UNCHANGED,           5, "UNCHANGED",           "it was pending and the mode keeps that") \
	X(ST_SKIPPED,             6, "SKIPPED",             "inside the coalescing slack: nothing to do") \
	X(ST_IDLE,                7, "IDLE",                "nothing was pending or running") \
	X(ST_NOT_PENDING_RUNNING, 8, "NOT_PENDING_RUNNING", "not pending; a run goes on") \
	X(ST_CANCELLED,           9, "CANCELLED",           "the pending instance was taken away") \
	X(ST_CANCELLED_RUNNING,  10, "CANCELLED_RUNNING",   "taken away; a run goes on, or was stopped") \
	X(ST_INVALID,            64, "INVALID",             "the request makes no sense; nothing changed") \
	X(ST_NOT_FOUND,          65, "NOT_FOUND",           "no such queue, job or run") \
	X(ST_REFUSED_DISABLED,   66, "REFUSED_DISABLED",    "the job is disabled, or somebody waits to cancel it") \
	X(ST_REFUSED_DRAINING,   67, "REFUSED_DRAINING",    "the queue is draining, or the daemon stops") \
	X(ST_REFUSED_LIMIT,      68, "REFUSED_LIMIT",       "a limit is reached") \
	X(ST_UNAUTHORIZED,       69, "UNAUTHORIZED",        "not allowed") \
	X(ST_STORAGE_ERROR,      70, "STORAGE_ERROR",       "could not be stored") \
	X(ST_TIMEOUT,            71, "TIMEOUT",             "the wait ended before what was waited for") \
	X(ST_UNIMPLEMENTED,      72, "UNIMPLEMENTED",       "this daemon does not know the operation") \
	X(ST_EXISTS,             73, "EXISTS",              "a queue of that name exists") \
	X(ST_LEASE_LOST,         74, "LEASE_LOST",          "the lease is over: another may hold the job")

/*      name           number  word */
#define JOB_STATE_TABLE(X) \
	X(JOB_IDLE,     0, "idle") \
	X(JOB_ARMED,    1, "armed") \
	X(JOB_READY,    2, "ready") \
	X(JOB_HELD,     3, "held") \
	X(JOB_RUNNING,  4, "running")

#define RUN_OUTCOME_TABLE(X) \
	X(RUN_NONE,        0, "none") \
	X(RUN_DONE,        1, "done") \
	X(RUN_FAILED,      2, "failed") \
	X(RUN_DEAD,        3, "dead") \
	X(RUN_CANCELLED,   4, "cancelled") \
	X(RUN_INTERRUPTED, 5, "interrupted") \
	X(RUN_TIMEOUT,     6, "timeout")

#define UPDATE_MODE_TABLE(X) \
	X(MODE_SET,     0, "set") \
	X(MODE_KEEP,    1, "keep") \
	X(MODE_EARLIER, 2, "earlier") \
	X(MODE_LATER,   3, "later")

#define PAYLOAD_MODE_TABLE(X) \
	X(PAYLOAD_KEEP,    0, "keep") \
	X(PAYLOAD_REPLACE, 1, "replace") \
	X(PAYLOAD_APPEND,  2, "append")

#define CANCEL_MODE_TABLE(X) \
	X(CANCEL_PLAIN, 0, "plain") \
	X(CANCEL_WAIT,  1, "wait") \
	X(CANCEL_KILL,  2, "kill")

/* What a drain, or the deletion of a queue, does with armed timers. */
#define TIMER_POLICY_TABLE(X) \
	X(TIMERS_KEEP,     0, "keep") \
	X(TIMERS_EXPEDITE, 1, "expedite") \
	X(TIMERS_CANCEL,   2, "cancel")

/* LEVEL_DEFAULT: the queue's own. */
#define DURABILITY_TABLE(X) \
	X(LEVEL_DEFAULT, 0, "default") \
	X(LEVEL_SYNC,    1, "sync") \
	X(LEVEL_ASYNC,   2, "async") \
	X(LEVEL_MEMORY,  3, "memory")

#define EVENT_KIND_TABLE(X) \
	X(EVENT_ARMED,     1, "armed") \
	X(EVENT_UPDATED,   2, "updated") \
	X(EVENT_SKIPPED,   3, "skipped") \
	X(EVENT_READY,     4, "ready") \
	X(EVENT_STARTED,   5, "started") \
	X(EVENT_FINISHED,  6, "finished") \
	X(EVENT_CANCELLED, 7, "cancelled") \
	X(EVENT_QUEUE,     8, "queue") \
	X(EVENT_RETURNED,  9, "returned")

#define ACTION_TABLE(X) \
	X(ACTION_NONE,  0, "none") \
	X(ACTION_EXEC,  1, "exec") \
	X(ACTION_LEASE, 2, "lease")

#define MISFIRE_TABLE(X) \
	X(MISFIRE_RUN,   0, "run") \
	X(MISFIRE_SKIP,  1, "skip") \
	X(MISFIRE_REARM, 2, "rearm")

#define BACKOFF_TABLE(X) \
	X(BACKOFF_FIXED,       0, "fixed") \
	X(BACKOFF_EXPONENTIAL, 1, "exponential")

#define PRIORITY_TABLE(X) \
	X(PRIORITY_HIGH,   0, "high") \
	X(PRIORITY_NORMAL, 1, "normal") \
	X(PRIORITY_LOW,    2, "low")

/* How a pool decides that one more run may start. */
#define ADMIT_TABLE(X) \
	X(ADMIT_PROCESSORS, 0, "processors") \
	X(ADMIT_ALL,        1, "all")
/* clang-format on */

#define X(name, num, ...) name = num,
enum status { STATUS_TABLE(X) };
enum job_state { JOB_STATE_TABLE(X) };
enum run_outcome { RUN_OUTCOME_TABLE(X) };
enum update_mode { UPDATE_MODE_TABLE(X) };
enum payload_mode { PAYLOAD_MODE_TABLE(X) };
enum cancel_mode { CANCEL_MODE_TABLE(X) };
enum timer_policy { TIMER_POLICY_TABLE(X) };
enum durability { DURABILITY_TABLE(X) };
enum watch_kind { EVENT_KIND_TABLE(X) };
enum action { ACTION_TABLE(X) };
enum misfire { MISFIRE_TABLE(X) };
enum backoff { BACKOFF_TABLE(X) };
enum priority { PRIORITY_TABLE(X) };
enum admit { ADMIT_TABLE(X) };
#undef X

/* The word for a number; "?" for a number of no table. Static storage. */
const char *
status_word(enum status s);
const char *
job_state_word(enum job_state s);
const char *
run_outcome_word(enum run_outcome o);

/* A status of the error half (64 and up): the operation was not done. */
static inline bool
status_is_error(enum status s)
{
	return (int)s >= 64;
}

/* A table as data, for settings, help and docs: words[i] may be NULL in a gap. */
struct word_table {
	const char *const *words;
	int n;
};
extern const struct word_table action_words, misfire_words, durability_words, backoff_words,
	priority_words, admit_words;

/* The number of `word` in `t`, or ERR_UNKNOWN_NAME. */
int
word_number(const struct word_table *t, struct str word);

#endif
