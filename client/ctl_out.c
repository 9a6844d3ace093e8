#include "ctl_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_text.h"

/* A message holds at most a target and a sentence. */
#define MESSAGE_SIZE 1024
/* ASCII alone: the same bytes whatever the terminal, and nothing in them that acts on one. */
#define JSON_FLAGS (JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12))

/* ---- errors ---- */

enum ctl_exit
ctl_exit_of(int error)
{
	switch (error) {
	case -WQ_NOT_FOUND:
		return CTL_NOT_FOUND;
	case -WQ_REFUSED_DISABLED:
	case -WQ_REFUSED_DRAINING:
	case -WQ_REFUSED_LIMIT:
		return CTL_REFUSED;
	case -WQ_UNAUTHORIZED:
	case -EACCES:
	case -EPERM:
		return CTL_UNAUTHORIZED;
	case -WQ_TIMEOUT:
	case WQ_ERR_TIMEOUT:
		return CTL_TIMED_OUT;
	case WQ_ERR_CLOSED:
	case WQ_ERR_PROTOCOL:
	case -ECONNRESET:
	case -EPIPE:
		return CTL_NO_DAEMON;
	case WQ_ERR_ADDRESS:
		return CTL_USAGE;
	default:
		return CTL_FAILED;
	}
}

static int
report(struct ctl *c, enum ctl_exit status, const char *word, const char *message)
{
	if (c->json) {
		json_t *j = json_object();

		ctl_json_error(j, status, word, message);
		ctl_json_put(c, j);
	} else {
		fputs("wqctl: ", stderr);
		ctl_text_puts(stderr, message);
		putc('\n', stderr);
	}
	return status;
}

int
ctl_error(struct ctl *c, enum ctl_exit status, const char *word, const char *format, ...)
{
	char message[MESSAGE_SIZE];
	va_list ap;

	va_start(ap, format);
	vsnprintf(message, sizeof message, format, ap);
	va_end(ap);
	return report(c, status, word, message);
}

int
ctl_usage(struct ctl *c, const char *format, ...)
{
	char message[MESSAGE_SIZE];
	const char *verb = c->verb ? c->verb->name : NULL;
	va_list ap;

	va_start(ap, format);
	vsnprintf(message, sizeof message, format, ap);
	va_end(ap);
	return ctl_error(c, CTL_USAGE, "USAGE", "%s%s%s (see 'wqctl help%s%s')", verb ? verb : "",
		verb ? ": " : "", message, verb ? " " : "", verb ? verb : "");
}

int
ctl_fail(struct ctl *c, int error, const char *message)
{
	enum ctl_exit status = ctl_exit_of(error);

	if (!message && c->wq)
		message = wq_message(c->wq);
	if (status == CTL_NO_DAEMON)
		return ctl_error(c, status, "NO_DAEMON", "lost the daemon at %s: %s", c->server,
			wq_strerror(error));
	return report(c, status, wq_error_word(error),
		message && message[0] ? message : wq_strerror(error));
}

int
ctl_fail_errno(struct ctl *c, const char *what, int error)
{
	return ctl_error(
		c, CTL_FAILED, wq_error_word(-error), "cannot %s: %s", what, strerror(error));
}

int
ctl_fail_file(struct ctl *c, const char *path, int error)
{
	return ctl_error(c, CTL_FAILED, wq_error_word(-error), "%s: %s", path, strerror(error));
}

/* ---- JSON ---- */

void
ctl_json_set(json_t *j, const char *name, json_t *value)
{
	if (json_object_set_new_nocheck(j, name, value) < 0)
		ctl_no_memory();
}

void
ctl_json_set_named(json_t *j, const char *name, json_t *value)
{
	(void)json_object_set_new(j, name, value);
}

void
ctl_json_error(json_t *j, enum ctl_exit status, const char *word, const char *message)
{
	ctl_json_set(j, "error", ctl_text_jsons(word));
	ctl_json_set(j, "message", ctl_text_jsons(message));
	ctl_json_set(j, "exit_status", json_integer(status));
}

void
ctl_json_put(struct ctl *c, json_t *j)
{
	json_dumpf(j, stdout, JSON_FLAGS);
	putchar('\n');
	json_decref(j);
	ctl_out_broken(c);
}

int
ctl_put_ok(struct ctl *c, const char *queue, const char *sentence)
{
	if (c->json) {
		json_t *j = json_object();

		ctl_json_set(j, "outcome", json_string("OK"));
		if (queue)
			ctl_json_set(j, "queue", ctl_text_jsons(queue));
		ctl_json_put(c, j);
	} else if (!c->quiet) {
		if (queue) {
			ctl_text_puts(stdout, queue);
			fputs(": ", stdout);
		}
		puts(sentence);
	}
	return CTL_DONE;
}

/* ---- rows ---- */

void
ctl_rows_next(struct ctl_rows *r)
{
	if (r->n++ == 0 && !r->c->quiet)
		puts(r->heading);
}

void
ctl_rows_json(struct ctl_rows *r, json_t *j)
{
	if (r->n++ == 0)
		printf("{\"%s\":[", r->name);
	else
		putchar(',');
	json_dumpf(j, stdout, JSON_FLAGS);
	json_decref(j);
}

/* The list is closed; what else the object says follows. */
static void
close_json(const struct ctl_rows *r, int error)
{
	if (r->n == 0)
		printf("{\"%s\":[", r->name);
	putchar(']');
	if (error < 0) {
		json_t *j = json_object();

		ctl_json_error(j, ctl_exit_of(error), wq_error_word(error), wq_strerror(error));
		putchar(',');
		json_dumpf(j, stdout, JSON_FLAGS | JSON_EMBED);
		json_decref(j);
	}
	puts("}");
}

int
ctl_rows_end(struct ctl_rows *r, int error)
{
	if (error < 0 && (r->n == 0 || !r->c->json))
		return ctl_fail(r->c, error, NULL);
	if (r->c->json)
		close_json(r, error);
	return error < 0 ? (int)ctl_exit_of(error) : CTL_DONE;
}

/* ---- whether it got out ---- */

bool
ctl_out_broken(struct ctl *c)
{
	if (!ferror(stdout))
		return false;
	if (!c->out_errno)
		c->out_errno = errno ? errno : EIO;
	return true;
}

int
ctl_out_finish(struct ctl *c, int status)
{
	if (!ctl_out_broken(c) && fflush(stdout) != 0)
		c->out_errno = errno;
	if (fclose(stdout) != 0 && !c->out_errno)
		c->out_errno = errno;
	if (!c->out_errno)
		return status;
	/* A reader that went away, or a stdout closed from the start, wants no words about it. */
	if (c->out_errno != EPIPE && c->out_errno != EBADF)
		fprintf(stderr, "wqctl: cannot write the output: %s\n", strerror(c->out_errno));
	return status ? status : CTL_FAILED;
}
