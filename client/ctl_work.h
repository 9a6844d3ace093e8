/*
 * What the files of `wqctl work` share: its slots. Each job is a slot from its coming to the daemon's
 * answer to its last word.
 */
#ifndef WQ_CTL_WORK_H
#define WQ_CTL_WORK_H

#include <poll.h>

#include "ctl.h"
#include "ctl_child.h"
#include "ctl_lines.h"

#define JOBS_MAX    256
#define GRACE_MS    5000
#define ENV_MORE    10 /* variables of a job */
#define REST_MIN_MS 1000
#define REST_MAX_MS 30000

struct slot {
	struct working *g;
	wq_work_t *work; /* NULL: free, or its last word is on its way */
	bool used;
	struct ctl_child child;
	struct ctl_program program; /* with --lines */
	int64_t rest_ms, rests_until_ms;
	int start_error; /* errno of a command that could not be started */
	/* for the line at the end */
	char *queue, *key; /* owned */
	uint64_t generation;
	uint32_t attempt;
	int64_t took_ms;
	bool failed;
};

struct working {
	struct ctl *c;
	wq_worker_t *worker;
	struct slot slots[JOBS_MAX];
	int n_slots;
	char **argv; /* owned array */
	enum ctl_lines lines;
	bool once, stopping, begun;
	int exit;     /* of --once */
	int signalfd; /* -1: none */
};

/* ---- ctl_work.c ---- */

/* How the slot's job ended (s->failed says which way): the daemon is told. */
void
slot_say(struct slot *s, const wq_end_t *end);

/* ---- ctl_work_lines.c ---- */

/* The job's line to the slot's program, which is started if there is none (s->start_error). */
void
lines_begin(struct slot *s, const wq_work_info_t *job, char *const *env);
/* fds: its end, its output, its input. */
void
program_turn(struct slot *s, const struct pollfd *fds);
/* Slots whose rest is over take jobs again. */
void
wake_the_rested(struct working *g);

#endif
