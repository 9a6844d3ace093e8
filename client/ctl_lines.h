/*
 * A program that stays and takes job after job by lines: `wqctl work --lines`. Each job is a line on
 * its stdin, its answer a line on its stdout; its stderr is ours. Pure but for the process.
 *
 *            start            job             answer
 *   (none) --------> IDLE ----------> BUSY ------------> IDLE
 *                      \                |
 *                       \ end           | end, or an answer that is none
 *                        `---> (none) <-'
 */
#ifndef WQ_CTL_LINES_H
#define WQ_CTL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl_process.h"
#include "wq.h"

#define CTL_LINE_MAX (1u << 20) /* bytes of an answer */

enum ctl_lines { CTL_LINES_NONE, CTL_LINES_JSON, CTL_LINES_FIELDS };

struct ctl_program {
	struct ctl_process process;
	int in, out;
	char *job; /* owned: what is still to be written, from `at` on */
	size_t n_job, at;
	char *line; /* owned: what came of an answer */
	size_t n_line, cap;
};

/* How a job ended, by its line. */
struct ctl_answer {
	bool failed, retry;
	int64_t retry_ms;
	char *output; /* owned */
	size_t n_output;
};

void
ctl_program_init(struct ctl_program *p);
/* 0 or -errno. */
int
ctl_program_start(struct ctl_program *p, char *const *argv, char *const *env);
/* The line of the job; the program has none now. */
void
ctl_program_job(struct ctl_program *p, enum ctl_lines how, const wq_work_info_t *job);
/* Writes what can be written, reads what is there. 1: its answer has come, in p->line without the
 * line break; 0: not yet; -1: it has closed its output, or says too much. */
int
ctl_program_turn(struct ctl_program *p);
/* It has ended. Nothing of it is left. */
struct ctl_ended
ctl_program_reap(struct ctl_program *p);
/* End of input, then so long, then TERM, a second, KILL. */
void
ctl_program_close(struct ctl_program *p, int grace_ms);

/* The line of a job, with its line break (owned). */
char *
ctl_job_line(enum ctl_lines how, const wq_work_info_t *job, size_t *n);
/* False: it is none; nothing is owned. */
bool
ctl_answer_read(const char *line, size_t n, struct ctl_answer *out);

#endif
