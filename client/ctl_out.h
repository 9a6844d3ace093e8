/*
 * Answers and errors. With --json stdout gets one JSON value (or one a line,
 * where a verb streams) and an error is that value; without, answers are lines
 * on stdout and errors one line on stderr. Warnings never go to stdout.
 *
 * Failure to write stdout is remembered at the first place that sees it and
 * decides the exit status at the end: a closed pipe quietly, a full disk with a
 * sentence.
 */
#ifndef WQ_CTL_OUT_H
#define WQ_CTL_OUT_H

#include "ctl.h"

/* ---- errors: print, return the exit status ---- */

int
ctl_error(struct ctl *c, enum ctl_exit status, const char *word, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A usage error: the sentence, and where help is. */
int
ctl_usage(struct ctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A negative result of wq.h, with the daemon's own words (NULL: those of the last call). */
int
ctl_fail(struct ctl *c, int error, const char *message);
/* An errno of our own: "cannot WHAT: reason". */
int
ctl_fail_errno(struct ctl *c, const char *what, int error);
/* The same about a file: "PATH: reason". */
int
ctl_fail_file(struct ctl *c, const char *path, int error);
/* The exit status that a negative result of wq.h means. */
enum ctl_exit
ctl_exit_of(int error);

/* ---- JSON ---- */

/* Puts j[name] = value; ends the process when memory ran out. Takes `value`. */
void
ctl_json_set(json_t *j, const char *name, json_t *value);
/* The same with a name from the daemon, which is left out when it is no valid UTF-8. */
void
ctl_json_set_named(json_t *j, const char *name, json_t *value);
/* {"error", "message", "exit_status"} put into `j`. */
void
ctl_json_error(json_t *j, enum ctl_exit status, const char *word, const char *message);
/* Writes one value and a line break. Takes `j`. */
void
ctl_json_put(struct ctl *c, json_t *j);
/* The answer of operations that only succeed or fail: {"outcome": "OK"} with the queue (NULL:
 * none), or the sentence. Returns CTL_DONE. */
int
ctl_put_ok(struct ctl *c, const char *queue, const char *sentence);

/*
 * Rows of a list: in JSON {"NAME":[row,row...]} written as they come; an error in the middle
 * closes the list and goes into the same value.
 */
struct ctl_rows {
	struct ctl *c;
	const char *name;
	const char *heading; /* first line of text, left out by --quiet */
	uint64_t n;
};
/* Begins a row of text. */
void
ctl_rows_next(struct ctl_rows *r);
/* A row of JSON. Takes `j`. */
void
ctl_rows_json(struct ctl_rows *r, json_t *j);
/* `error`: result of the call that gave the rows. Returns the exit status. */
int
ctl_rows_end(struct ctl_rows *r, int error);

/* ---- whether it got out ---- */

/* Remembers a failure to write; true when there was one: going on is of no use. */
bool
ctl_out_broken(struct ctl *c);
/* Flushes and closes stdout. `status`, or CTL_FAILED when that was 0 and output is lost. */
int
ctl_out_finish(struct ctl *c, int status);

#endif
