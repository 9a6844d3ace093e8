/*
 * One request, or one thing that happens, played to the engine and to the
 * reference, with everything compared afterwards. An op is numbers alone, which
 * mean something in any state: so ops can be left out of a sequence, and what is
 * left still plays.
 */
#ifndef WQD_TESTS_PLAY_H
#define WQD_TESTS_PLAY_H

#include "model/reference.h"
#include "model/rig.h"

/* name, how often */
#define OP_TABLE(X) \
	X(UPDATE, 40) \
	X(END, 16) \
	X(PASS, 14) \
	X(FREEZE, 2) \
	X(CANCEL, 6) \
	X(FLUSH, 4) \
	X(FLUSH_QUEUE, 2) \
	X(WAIT, 4) \
	X(DELETE, 2) \
	X(DISABLE, 2) \
	X(ENABLE, 4) \
	X(KICK, 3) \
	X(PAUSE, 1) \
	X(RESUME, 2) \
	X(MAX_ACTIVE, 2) \
	X(DRAIN, 2) \
	X(ABANDON, 2) \
	X(NOT_STARTED, 1) \
	X(QUEUE_DELETE, 1) \
	X(QUEUE_CREATE, 3) \
	X(AWAIT, 4) \
	X(COMPLETE, 3) \
	X(COMPLETE_ALL, 1) \
	X(REINIT, 2) \
	X(COMMIT, 3) \
	X(STEP, 1) \
	X(RESTART, 1)

enum op_kind {
#define X(name, weight) OP_##name,
	OP_TABLE(X)
#undef X
		OP_COUNT
};

/* What a, b and n mean is said in play_KIND(). */
struct op {
	int kind, queue, key, a, b, n;
	int level; /* enum durability */
	int id;    /* idempotency id, 0: none */
	int quiet; /* the next op comes before the loop turns */
};

/* What a watcher knows of a job by the events alone. */
struct followed {
	bool running;
	enum job_state pending; /* idle, armed or ready */
	int64_t deadline;       /* of an armed one, wall */
	uint64_t generation;    /* of the last run that was told of */
};

struct play {
	struct rig rig;
	struct followed followed[REF_QUEUES][REF_KEYS];
	struct ref ref;
	struct queue_settings settings[REF_QUEUES];
	size_t runs_seen;
	bool stepped; /* what was stored before means another time now: no restart any more */
};

extern const char *const play_queue_names[REF_QUEUES];

/* `budget`: engine_config.turn_budget; 0: the default. */
void
play_begin(struct play *p, unsigned budget);
/* Differences go to rig_on_failure. */
void
play_op(struct play *p, const struct op *o);
/* Without the reference, and nothing compared: restarts and steps of the clock are left out. */
void
play_op_alone(struct play *p, const struct op *o);
void
play_end_of(struct play *p);
/* The daemon is killed when only `taken` of what changed is stored, and starts again; then all
 * goes on until nothing is left to do. Nothing is compared but the engine with itself. */
void
play_crash(struct play *p, size_t taken);

/* Of REF_COMPLETIONS. */
struct str
play_completion_name(int which);

/* ---- follow.c ---- */

/* From now on, from what the engine shows: a watcher that looks first. */
void
follow_begin(struct play *p);
/* What was told adds up to what the engine shows. */
void
follow_compare(struct play *p);

/* ---- compare.c ---- */

void
play_compare(struct play *p);
/* "QUEUE/KEY"; valid until a few calls later. */
const char *
play_job_text(int queue, int key);
_Noreturn void
play_differ(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
