/*
 * What jobs, runs and replies look like: the JSON that scripts rely on (names
 * are added, never changed) and lines for people.
 */
#ifndef WQ_CTL_SHOW_H
#define WQ_CTL_SHOW_H

#include "ctl.h"

/* A time as an integer, null for a negative one. */
json_t *
ctl_json_ms(int64_t ms);
json_t *
ctl_json_run(const wq_run_info_t *run);
json_t *
ctl_json_job(const wq_job_info_t *job);
/* The reply to a job's operation, error included. */
json_t *
ctl_json_reply(const struct ctl_target *t, const wq_reply_t *reply);

/* QUEUE/KEY, harmless. */
void
ctl_put_target(const char *queue, const char *key);
/* The words of its command, quoted where a reader needs it. */
void
ctl_put_command(const wq_job_info_t *job);
/* "2026-03-01 08:30:00.250 (in 12.345s)", or "-" for a negative one. */
void
ctl_put_time(int64_t ms);
/* A run in the rest of a line, its output below. */
void
ctl_put_run(const wq_run_info_t *run);
#define CTL_OUTCOME_SIZE 128
/* "failed, exit 3": outcome and, after a comma, what tells more about it. Returns `dst`. */
char *
ctl_outcome(const wq_run_info_t *run, char dst[CTL_OUTCOME_SIZE]);

/* ---- for ctl_expect: print the reply, return the exit status ---- */

/* Outcome, deadlines, coalesced. */
int
ctl_show_reply(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply);
/* The run that was waited for where there is one. */
int
ctl_show_waited(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply);
/* The exit status of a reply that is no error, as most verbs see it. */
enum ctl_exit
ctl_exit_of_status(wq_status_t status);

#endif
