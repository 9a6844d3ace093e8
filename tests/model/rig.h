/*
 * The rig: an engine on a virtual clock, with the test in the place of sessions,
 * store and runners. Requests go in by short calls, replies and starts are kept
 * until asked for. Every reply is checked to be the only one to its ticket.
 *
 * Jobs are named "QUEUE/KEY", or "KEY" for a job of queue "q".
 */
#ifndef WQD_TESTS_RIG_H
#define WQD_TESTS_RIG_H

#include "engine/engine.h"
#include "model/saved.h"

#define MS   NS_PER_MS
#define SEC  NS_PER_S
#define HOUR (3600 * NS_PER_S)

/* A failed check of the rig or of the reference goes here; NULL: to ck_abort_msg. */
extern void (*rig_on_failure)(const char *what);
_Noreturn void
rig_fail(const char *file, int line, const char *what);
#define rig_check(cond) \
	do { \
		if (!(cond)) \
			rig_fail(__FILE__, __LINE__, #cond); \
	} while (0)

/* Where the virtual clocks start: far from 0 and from one another. */
#define RIG_BOOT_NS (1000 * SEC)
#define RIG_WALL_NS (1900000000 * SEC)

#define RIG_NAME    260
#define RIG_PAYLOAD 128

/* A reply as it came, its borrowed parts copied. `r.run` points into the answer itself. */
struct answer {
	uint64_t ticket;
	int64_t at_ns; /* boot time */
	bool durable;
	struct job_reply r;
	struct run_record run;
	char queue[RIG_NAME], key[RIG_NAME], output[RIG_PAYLOAD];
};

/* A run that the engine handed over. */
struct rig_run {
	uint64_t id, token;
	char queue[RIG_NAME], key[RIG_NAME];
	char payload[RIG_PAYLOAD]; /* parts, each followed by ';' */
	char command[RIG_PAYLOAD]; /* words, each followed by ';' */
	enum action action;
	uint64_t generation;
	uint32_t attempt, coalesced;
	int64_t due_wall_ns;
	int64_t at_ns; /* boot time of the start */
	bool going, killed;
	uint64_t subscription, lease; /* of a worker; 0: of the runner */
	bool revoked;
};

struct rig {
	struct engine_config cfg;
	struct engine *e;
	struct moment now;
	struct effects fx;
	uint64_t last_ticket, n_steps;
	struct answer *answers; /* all since rig_forget */
	size_t n_answers, cap_answers;
	struct rig_run *runs; /* all since rig_forget, in order of start */
	size_t n_runs, cap_runs;
	struct saved saved;
	bool terse; /* payloads are not looked at */
	/* Called for each event of the watched engine; NULL: it is not watched. */
	void (*told)(void *ctx, const struct watch_event *ev);
	void *told_ctx;
	bool quiet_settle; /* rig_send does not settle: the test ticks by itself */
};

void
rig_init(struct rig *r);
/* With other limits than the default. */
void
rig_init_config(struct rig *r, const struct engine_config *cfg);
/* From now on, until the engine is another one, `told` hears all that happens. */
void
rig_watch(struct rig *r, void (*told)(void *ctx, const struct watch_event *ev), void *ctx);
void
rig_done(struct rig *r);
/* Drops answers, and runs that have ended. */
void
rig_forget(struct rig *r);

/* ---- time ---- */

/* Ticks until nothing is left to do now. */
void
rig_settle(struct rig *r);
/* Time passes as an idle daemon sees it: awake at each thing that is due. */
void
rig_pass(struct rig *r, int64_t ns);
/* Time passes and nobody looks: a frozen daemon, a busy loop. */
void
rig_freeze(struct rig *r, int64_t ns);
/* The wall clock is set; boot time goes on. Then settles. */
void
rig_step_wall(struct rig *r, int64_t by_ns);
/* Takes all that changed into the saved set, ends the engine, makes another from the set.
 * `down_ns` pass meanwhile; `same_boot` false: boot time starts again from a small number. */
void
rig_restart(struct rig *r, int64_t down_ns, bool same_boot);
/* The same with what has been taken so far. */
void
rig_crash(struct rig *r, int64_t down_ns, bool same_boot);

/* ---- requests: all return the ticket ---- */

struct job_name
rig_name(const char *job);
/* Any event; `op` is what the kind takes (NULL for none). */
uint64_t
rig_send(struct rig *r, enum engine_event_kind kind, const void *op, uint64_t run_token);
/* An update in the default shape: mode set, queue's slack and so on, payload kept. */
struct op_update
rig_op(const char *job, int64_t delay_ns);
uint64_t
rig_update(struct rig *r, const char *job, int64_t delay_ns);
uint64_t
rig_update_op(struct rig *r, const struct op_update *op);
uint64_t
rig_update_payload(struct rig *r, const char *job, int64_t delay_ns, const char *payload);
uint64_t
rig_cancel(struct rig *r, const char *job, enum cancel_mode mode);
uint64_t
rig_flush(struct rig *r, const char *job, bool now);
uint64_t
rig_flush_queue(struct rig *r, const char *queue);
uint64_t
rig_wait(struct rig *r, const char *job, uint64_t generation);
/* delete, disable, enable, kick */
uint64_t
rig_job(struct rig *r, enum engine_event_kind kind, const char *job);
uint64_t
rig_drain(struct rig *r, const char *queue, enum timer_policy timers, bool pause_after);
uint64_t
rig_pause(struct rig *r, const char *queue);
uint64_t
rig_resume(struct rig *r, const char *queue);
/* "name=value name=value ..." */
uint64_t
rig_queue_create(struct rig *r, const char *queue, const char *settings);
uint64_t
rig_queue_set(struct rig *r, const char *queue, const char *settings);
uint64_t
rig_queue_delete(struct rig *r, const char *queue, enum timer_policy timers);
void
rig_abandon(struct rig *r, uint64_t ticket);

/* ---- workers ---- */

/* Its ticket; `queues` with spaces between. */
uint64_t
rig_subscribe(struct rig *r, const char *queues, uint32_t credits);
/* EV_CREDITS, EV_UNSUBSCRIBE */
uint64_t
rig_credits(struct rig *r, enum engine_event_kind kind, uint64_t subscription, uint32_t credits);
/* EV_TOUCH, EV_FINISH, EV_FAIL, EV_RELEASE; OK ends `run`, which may be over already. */
uint64_t
rig_lease(struct rig *r, enum engine_event_kind kind, struct rig_run *run);
/* The worker's connection ends. */
void
rig_leave(struct rig *r, uint64_t subscription);

/* ---- answers ---- */

/* NULL while it waits. */
const struct answer *
rig_answer(const struct rig *r, uint64_t ticket);
/* Fails the test unless `ticket` has been answered with `status`; the answer. */
const struct answer *
rig_expect_at(const char *file, int line, const struct rig *r, uint64_t ticket, enum status status);
#define rig_expect(r, ticket, status) rig_expect_at(__FILE__, __LINE__, (r), (ticket), (status))
/* Fails the test unless it still waits. */
void
rig_expect_waits_at(const char *file, int line, const struct rig *r, uint64_t ticket);
#define rig_expect_waits(r, ticket) rig_expect_waits_at(__FILE__, __LINE__, (r), (ticket))

/* ---- runs ---- */

/* The run of `job` that goes on, or NULL. */
struct rig_run *
rig_running(struct rig *r, const char *job);
size_t
rig_running_count(const struct rig *r, const char *queue);
/* Starts of `job` since rig_forget, those that have ended too. */
size_t
rig_starts(const struct rig *r, const char *job);
/* Keys of all starts since rig_forget, in order, each followed by a space. */
const char *
rig_order(const struct rig *r);
void
rig_end_run(struct rig *r, struct rig_run *run, enum run_outcome outcome);
/* The run of `job` ends well; it must be going. */
void
rig_finish(struct rig *r, const char *job);
void
rig_not_started(struct rig *r, struct rig_run *run);

/* ---- looking ---- */

/* Fails the test when the job is unknown. */
struct job_view
rig_get(const struct rig *r, const char *job);
/* "I", "A", "Q", "R", "RA", "RQ", and an X before it when disabled; "-" for an unknown job. */
const char *
rig_state(const struct rig *r, const char *job);
struct queue_view
rig_queue(const struct rig *r, const char *queue);

#endif
