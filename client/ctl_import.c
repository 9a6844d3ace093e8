/*
 * import FILE: the lines of an export into the daemon. A line that makes no sense
 * is told with its number and the others go on; the exit status is that of the
 * first that failed. What is there already stays as it is, so that an import which
 * was cut off is simply made again.
 *
 * Jobs are sent many at a time, queues and completions one by one, in the order of
 * the file, which has the queues first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_field.h"
#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_text.h"
#include "ctl_time.h"

#define IN_FLIGHT      1024
#define BYTES_MAX      (8u << 20) /* of lines in flight */
#define LINE_MAX_      (8u << 20)
#define READ_SIZE      (256u << 10)
#define ERRORS_MAX     1000 /* told in JSON; all are counted */
#define DONE_MAX       1000000
#define SETTINGS       64
#define EXPORT_VERSION 1

/* As enum wq_durability has them. */
static const char *const levels[] = { "default", "sync", "async", "memory", NULL };

struct import;
struct slot {
	struct import *im;
	uint64_t line;
};

struct import {
	struct ctl *c;
	bool dry_run, shift;
	uint64_t line;
	int64_t exported_ms; /* -1: the first line has not come */
	bool ended;          /* the last line has */
	bool stop;           /* the connection is gone */
	int exit;
	uint64_t queues, jobs, completions;                   /* made */
	uint64_t queues_there, jobs_there, completions_there; /* left as they are */
	uint64_t shifted, errors;
	json_t *told;      /* with --json: the errors */
	char **new_queues; /* owned: of a dry run, those that it would make */
	size_t n_new_queues;
	struct slot slots[IN_FLIGHT];
	size_t n_slots, bytes;
};

/* ---- errors ---- */

static void
bad_line(struct import *im, uint64_t line, int status, const char *word, const char *why)
{
	im->errors++;
	if (im->exit == CTL_DONE)
		im->exit = status;
	if (!im->told) {
		fprintf(stderr, "wqctl: line %llu: ", (unsigned long long)line);
		ctl_text_puts(stderr, why);
		putc('\n', stderr);
	} else if (json_array_size(im->told) < ERRORS_MAX) {
		json_t *j = json_object();

		ctl_json_set(j, "line", json_integer((json_int_t)line));
		ctl_json_error(j, (enum ctl_exit)status, word, why);
		if (json_array_append_new(im->told, j) < 0)
			ctl_no_memory();
	}
}

static void
wrong(struct import *im, const char *why)
{
	bad_line(im, im->line, CTL_FAILED, "INVALID", why);
}

/* A negative result of wq.h for the line being read. */
static void
refused(struct import *im, uint64_t line, int error, const char *message)
{
	int status = (int)ctl_exit_of(error);

	bad_line(im, line, status, wq_error_word(error),
		message && message[0] ? message : wq_strerror(error));
	if (status == CTL_NO_DAEMON)
		im->stop = true;
}

/* ---- jobs ---- */

static void
on_imported(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct slot *s = arg;
	struct import *im = s->im;

	(void)wq;
	if (im->stop)
		return;
	if (reply->result < 0)
		refused(im, s->line, reply->result, reply->message);
	else if (reply->status == WQ_CREATED)
		im->jobs++;
	else
		im->jobs_there++;
}

/* All that is in flight is answered. */
static void
settle(struct import *im)
{
	int rc = im->n_slots ? ctl_turn(im->c, false) : 0;

	if (rc < 0 && !im->stop) {
		refused(im, im->line, rc, NULL);
		im->stop = true;
	}
	im->n_slots = im->bytes = 0;
}

/* As long after now as it was after the export; at the earliest now. */
static void
shift_overdue(struct import *im, wq_saved_job_t *job)
{
	int64_t now = ctl_now_ms(), by;

	if (!im->shift || job->due_ms < 0 || job->due_ms >= now)
		return;
	by = now - (job->due_ms < im->exported_ms ? job->due_ms : im->exported_ms);
	if (by <= 0)
		return;
	job->due_ms += by;
	if (job->created_ms >= 0)
		job->created_ms += by;
	im->shifted++;
}

static void
read_job(struct import *im, struct fields *f, wq_saved_job_t *job)
{
	static const char *const states[] = { "idle", "armed", "ready", NULL };

	job->queue = field_text(f, "queue");
	job->key = field_text(f, "key");
	job->state = (wq_state_t)field_word(f, "state", states);
	job->durability = (wq_durability_t)field_word(f, "durability", levels);
	job->due_ms = field_number(f, "due_ms", -1, INT64_MAX);
	job->absolute = field_flag(f, "absolute");
	job->delay_ms = field_number(f, "delay_ms", -1, INT64_MAX);
	job->slack_ms = field_number(f, "slack_ms", 0, INT64_MAX);
	job->max_wait_ms = field_number(f, "max_wait_ms", 0, INT64_MAX);
	job->created_ms = field_number(f, "created_ms", -1, INT64_MAX);
	job->generation = (uint64_t)field_number(f, "generation", 0, INT64_MAX);
	job->attempt = (uint32_t)field_number(f, "attempt", 0, UINT32_MAX);
	job->retry = field_flag(f, "retry");
	job->coalesced = (uint32_t)field_number(f, "coalesced", 0, UINT32_MAX);
	job->disable_depth = (uint32_t)field_number(f, "disable_depth", 0, UINT32_MAX);
	job->dead = field_flag(f, "dead");
	job->command = field_flag(f, "command");
	shift_overdue(im, job);
}

static bool
is_new_queue(const struct import *im, const char *queue)
{
	for (size_t i = 0; i < im->n_new_queues; i++)
		if (strcmp(im->new_queues[i], queue) == 0)
			return true;
	return false;
}

static void
send_job(struct import *im, const wq_saved_job_t *job, size_t bytes)
{
	struct slot *s = &im->slots[im->n_slots++];
	int rc;

	*s = (struct slot){ im, im->line };
	im->bytes += bytes;
	rc = wq_send_import(im->c->wq, job, im->dry_run, on_imported, s);
	if (rc < 0) {
		im->n_slots--;
		refused(im, im->line, rc, wq_message(im->c->wq));
	}
	if (im->n_slots == IN_FLIGHT || im->bytes >= BYTES_MAX)
		settle(im);
}

static void
take_job(struct import *im, struct fields *f, size_t bytes)
{
	wq_saved_job_t job = WQ_SAVED_JOB_INIT;
	struct field_parts parts;

	read_job(im, f, &job);
	field_parts(f, &parts);
	job.parts = parts.v;
	job.n_parts = parts.n;
	if (f->wrong)
		wrong(im, f->wrong);
	else if (is_new_queue(im, job.queue))
		im->jobs++; /* of a dry run: the daemon has no such queue to look at */
	else
		send_job(im, &job, bytes);
	field_parts_free(&parts);
}

/* ---- queues ---- */

static int
seen(const wq_queue_info_t *q, void *arg)
{
	(void)q, (void)arg;
	return 0;
}

static void
make_queue(struct import *im, struct fields *f, const char *queue)
{
	const char *names[SETTINGS], *values[SETTINGS];
	json_t *settings = json_object_get(f->j, "settings"), *v;
	const char *name;
	size_t n = 0;
	int rc;

	json_object_foreach(settings, name, v) {
		if (n == SETTINGS || !json_is_string(v)) {
			wrong(im, "a setting of the queue is no text");
			return;
		}
		names[n] = name;
		values[n++] = json_string_value(v);
	}
	rc = wq_queue_create(im->c->wq, queue, n, names, values);
	if (rc == 0 && field_flag(f, "paused"))
		rc = wq_pause(im->c->wq, queue);
	if (rc == 0)
		im->queues++;
	else if (rc == -WQ_EXISTS)
		im->queues_there++;
	else
		refused(im, im->line, rc, wq_message(im->c->wq));
}

static void
take_queue(struct import *im, struct fields *f)
{
	const char *queue = field_text(f, "queue");
	int rc;

	if (f->wrong) {
		wrong(im, f->wrong);
		return;
	}
	settle(im);
	if (!im->dry_run) {
		make_queue(im, f, queue);
		return;
	}
	rc = wq_queue_show(im->c->wq, queue, seen, NULL);
	if (rc == 0) {
		im->queues_there++;
	} else if (rc == -WQ_NOT_FOUND) {
		im->new_queues = ctl_grow(im->new_queues, im->n_new_queues + 1, sizeof(char *));
		im->new_queues[im->n_new_queues++] = ctl_strdup(queue);
		im->queues++;
	} else {
		refused(im, im->line, rc, wq_message(im->c->wq));
	}
}

/* ---- completions ---- */

static int
restore_completion(
	struct import *im, const char *name, int64_t done, bool open, wq_durability_t level)
{
	int rc = open ? wq_completion(im->c->wq, WQ_COMPLETION_COMPLETE_ALL, name, level, NULL) : 0;

	for (int64_t i = 0; rc == 0 && !open && i < done; i++)
		rc = wq_completion(im->c->wq, WQ_COMPLETION_COMPLETE, name, level, NULL);
	return rc;
}

static void
take_completion(struct import *im, struct fields *f)
{
	const char *name = field_text(f, "name");
	int64_t done = field_number(f, "done", 0, DONE_MAX);
	bool open = field_flag(f, "open");
	wq_durability_t level = (wq_durability_t)field_word(f, "durability", levels);
	wq_completion_info_t now;
	int rc;

	if (f->wrong) {
		wrong(im, f->wrong);
		return;
	}
	settle(im);
	rc = wq_completion(im->c->wq, WQ_COMPLETION_SHOW, name, WQ_DEFAULT, &now);
	if (rc == 0 && (now.done > 0 || now.open)) {
		im->completions_there++;
		return;
	}
	if (rc == 0 && !im->dry_run)
		rc = restore_completion(im, name, done, open, level);
	if (rc < 0)
		refused(im, im->line, rc, wq_message(im->c->wq));
	else
		im->completions++;
}

/* ---- lines ---- */

static void
take_head(struct import *im, struct fields *f)
{
	int64_t version = field_number(f, "version", 0, INT64_MAX);

	im->exported_ms = field_number(f, "exported_ms", 0, INT64_MAX);
	if (version == EXPORT_VERSION && !f->wrong)
		return;
	wrong(im, "this export is of another version than wqctl knows");
	im->stop = true;
}

static void
take_object(struct import *im, json_t *j, size_t bytes)
{
	struct fields f = { .j = j };
	const char *type = field_text(&f, "type");

	if (im->exported_ms < 0 && strcmp(type, "wqd-export") != 0) {
		wrong(im, "no export of wqd begins like this");
		im->stop = true;
	} else if (strcmp(type, "wqd-export") == 0) {
		take_head(im, &f);
	} else if (strcmp(type, "queue") == 0) {
		take_queue(im, &f);
	} else if (strcmp(type, "job") == 0) {
		take_job(im, &f, bytes);
	} else if (strcmp(type, "completion") == 0) {
		take_completion(im, &f);
	} else if (strcmp(type, "end") == 0) {
		im->ended = true;
	} else {
		wrong(im, "a type of line that is not known here");
	}
}

static void
take_line(struct import *im, const char *line, size_t len)
{
	json_error_t err;
	json_t *j;

	im->line++;
	if (len == 0)
		return;
	j = json_loadb(line, len, JSON_REJECT_DUPLICATES, &err);
	if (json_is_object(j)) {
		take_object(im, j, len);
	} else {
		if (im->exported_ms < 0) {
			wrong(im, "no export of wqd begins like this");
			im->stop = true;
		} else {
			wrong(im, j ? "no JSON object" : err.text);
		}
	}
	json_decref(j);
}

/* Whole lines off the buffer; the rest slides to its front. Returns what is left. */
static size_t
take_lines(struct import *im, char *buf, size_t len)
{
	char *s = buf, *nl;

	while (!im->stop && (nl = memchr(s, '\n', len - (size_t)(s - buf))) != NULL) {
		take_line(im, s, (size_t)(nl - s));
		s = nl + 1;
	}
	len -= (size_t)(s - buf);
	memmove(buf, s, len);
	return len;
}

static void
read_lines(struct import *im, int fd)
{
	char *buf = NULL;
	size_t len = 0, cap = 0;
	ssize_t n = 1;

	while (!im->stop && n > 0) {
		if (len == cap) {
			cap = cap ? cap * 2 : READ_SIZE;
			buf = ctl_grow(buf, cap, 1);
		}
		n = read(fd, buf + len, cap - len);
		if (n < 0 && errno == EINTR) {
			n = 1;
			continue;
		}
		if (n < 0) {
			im->line++;
			bad_line(im, im->line, CTL_FAILED, wq_error_word(-errno), strerror(errno));
			break;
		}
		len = take_lines(im, buf, len + (size_t)n);
		if (len >= LINE_MAX_) {
			im->line++;
			wrong(im, "is too long");
			break;
		}
	}
	if (!im->stop && len > 0)
		take_line(im, buf, len);
	settle(im);
	mem_free(buf);
}

/* ---- the sum ---- */

static void
put_pair(json_t *j, const char *name, uint64_t made, const char *there, uint64_t left)
{
	ctl_json_set(j, name, json_integer((json_int_t)made));
	ctl_json_set(j, there, json_integer((json_int_t)left));
}

static void
put_sum(struct import *im)
{
	struct ctl *c = im->c;
	json_t *j;

	if (!c->json) {
		if (!c->quiet)
			printf("%s%llu jobs, %llu queues, %llu completions; left as they are: "
			       "%llu, "
			       "%llu, %llu; shifted: %llu; errors: %llu\n",
				im->dry_run ? "would bring in " : "brought in ",
				(unsigned long long)im->jobs, (unsigned long long)im->queues,
				(unsigned long long)im->completions,
				(unsigned long long)im->jobs_there,
				(unsigned long long)im->queues_there,
				(unsigned long long)im->completions_there,
				(unsigned long long)im->shifted, (unsigned long long)im->errors);
		return;
	}
	j = json_object();
	ctl_json_set(j, "dry_run", json_boolean(im->dry_run));
	put_pair(j, "jobs", im->jobs, "jobs_there", im->jobs_there);
	put_pair(j, "queues", im->queues, "queues_there", im->queues_there);
	put_pair(j, "completions", im->completions, "completions_there", im->completions_there);
	ctl_json_set(j, "shifted", json_integer((json_int_t)im->shifted));
	ctl_json_set(j, "n_errors", json_integer((json_int_t)im->errors));
	ctl_json_set(j, "errors", im->told);
	im->told = NULL;
	ctl_json_put(c, j);
}

static int
open_file(struct ctl *c, int *fd)
{
	const char *path = c->arg[0];

	*fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? ctl_fail_file(c, path, errno) : 0;
}

int
ctl_do_import(struct ctl *c)
{
	struct import *im;
	int fd, rc;

	/* Exports have the names of all namespaces. */
	if (!ctl_given(c, OPT_NAMESPACE))
		(void)setenv("WQ_NAMESPACE", "*", 0);
	if ((rc = open_file(c, &fd)) || (rc = ctl_connect(c)))
		return rc;
	im = ctl_alloc(sizeof *im);
	im->c = c;
	im->dry_run = ctl_given(c, OPT_DRY_RUN);
	im->shift = ctl_given(c, OPT_SHIFT_OVERDUE);
	im->exported_ms = -1;
	im->told = c->json ? json_array() : NULL;
	read_lines(im, fd);
	if (!im->ended && !im->stop)
		wrong(im, "the file ends without its last line: it was cut off");
	/* What is still in flight is called back now; it has been reported. */
	im->stop = true;
	ctl_disconnect(c);
	put_sum(im);
	rc = im->exit;
	for (size_t i = 0; i < im->n_new_queues; i++)
		mem_free(im->new_queues[i]);
	mem_free(im->new_queues);
	json_decref(im->told);
	mem_free(im);
	if (fd != STDIN_FILENO)
		close(fd);
	return rc;
}
