/*
 * update --batch: `TARGET DELAY` lines from stdin. What one read brings is sent
 * as one batch and answered before the next read, so a slow producer sees each
 * line answered at once and a fast one gets large batches. A line that makes no
 * sense is reported in its place, and the others go on; the exit status is that
 * of the first line that failed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_time.h"

#define BATCH_MAX   4096        /* updates in a message, as wq.h says */
#define BATCH_BYTES (256 << 10) /* keys and payloads in a message, about */
#define READ_SIZE   (64 << 10)

struct feed {
	struct ctl *c;
	const wq_update_opts_t *opts;
	wq_batch_t *batch; /* NULL: nothing gathered */
	size_t n, bytes;   /* gathered */
	size_t answered;
	uint64_t line;
	int exit;
	bool stop; /* the connection or stdout is gone */
	struct ctl_target targets[BATCH_MAX];
	uint64_t lines[BATCH_MAX];
	size_t len;
	char buf[READ_SIZE];
};

static void
note_exit(struct feed *f, int status)
{
	if (f->exit == CTL_DONE)
		f->exit = status;
}

/* A refusal in text says which line; in JSON it has queue and key. */
static int
show(struct feed *f, size_t i, const wq_reply_t *reply)
{
	const char *why =
		reply->message && reply->message[0] ? reply->message : wq_strerror(reply->result);

	if (f->c->json || reply->result != -(int)reply->status || reply->result == 0)
		return ctl_show_reply(f->c, &f->targets[i], reply);
	return ctl_error(f->c, ctl_exit_of(reply->result), wq_error_word(reply->result),
		"line %llu: %s", (unsigned long long)f->lines[i], why);
}

static void
on_reply(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct feed *f = arg;
	size_t i = f->answered++;

	(void)wq;
	if (f->stop)
		return;
	note_exit(f, show(f, i, reply));
	if (reply->result < 0 && ctl_exit_of(reply->result) == CTL_NO_DAEMON)
		f->stop = true;
}

static void
fail(struct feed *f, int error)
{
	note_exit(f, ctl_fail(f->c, error, NULL));
	f->stop = true;
}

static void
send_batch(struct feed *f)
{
	wq_batch_t *batch = f->batch;
	int rc;

	if (!batch)
		return;
	f->batch = NULL;
	f->answered = 0;
	rc = wq_batch_send(batch, on_reply, f);
	if (rc == 0)
		rc = ctl_turn(f->c, false);
	if (rc < 0 && !f->stop)
		fail(f, rc);
	f->n = f->bytes = 0;
	fflush(stdout);
	f->stop |= ctl_out_broken(f->c);
}

static void
gather(struct feed *f, const struct ctl_target *t, int64_t delay_ms)
{
	int rc = f->batch ? 0 : wq_batch_new(f->c->wq, &f->batch);

	if (rc == 0)
		rc = wq_batch_update(f->batch, t->queue, t->key, delay_ms, f->opts);
	if (rc < 0) {
		fail(f, rc);
		return;
	}
	f->lines[f->n] = f->line;
	f->targets[f->n++] = *t;
	f->bytes += sizeof *t + f->opts->payload_len;
	if (f->n == BATCH_MAX || f->bytes >= BATCH_BYTES)
		send_batch(f);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The delay is the last word; keys may have spaces. NULL or what is wrong. */
static const char *
parse_line(struct feed *f, char *s, size_t len, struct ctl_target *t, int64_t *delay_ms)
{
	size_t word = len, end;

	if (memchr(s, '\0', len))
		return "has a zero byte";
	while (word > 0 && !is_blank(s[word - 1]))
		word--;
	end = word;
	while (end > 0 && is_blank(s[end - 1]))
		end--;
	if (end == 0)
		return "has no delay (TARGET DELAY)";
	s[len] = '\0';
	if (ctl_duration_parse(s + word, delay_ms))
		return "does not end with a duration (like 250ms, 30s, 1h30m)";
	return ctl_target_parse(s, end, f->c->opt[OPT_QUEUE].text, t);
}

/* One line without its end; s[len] may be written. */
static void
take_line(struct feed *f, char *s, size_t len)
{
	struct ctl_target t;
	int64_t delay_ms;
	const char *wrong;

	f->line++;
	for (; len > 0 && is_blank(s[len - 1]); len--)
		;
	for (; len > 0 && is_blank(*s); len--)
		s++;
	if (len == 0)
		return;
	wrong = parse_line(f, s, len, &t, &delay_ms);
	if (!wrong) {
		gather(f, &t, delay_ms);
		return;
	}
	/* Answers come in the order of the lines. */
	send_batch(f);
	if (!f->stop)
		note_exit(f,
			ctl_error(f->c, CTL_USAGE, "USAGE", "line %llu: %s",
				(unsigned long long)f->line, wrong));
}

/* Takes the whole lines off the buffer; the rest slides to its front. */
static void
take_lines(struct feed *f)
{
	char *s = f->buf, *end = f->buf + f->len, *nl;

	while (!f->stop && (nl = memchr(s, '\n', (size_t)(end - s))) != NULL) {
		take_line(f, s, (size_t)(nl - s));
		s = nl + 1;
	}
	f->len = (size_t)(end - s);
	memmove(f->buf, s, f->len);
}

static void
read_stdin(struct feed *f)
{
	ssize_t n;

	while (!f->stop) {
		n = read(STDIN_FILENO, f->buf + f->len, sizeof f->buf - 1 - f->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			note_exit(f, ctl_fail_errno(f->c, "read stdin", errno));
		if (n <= 0)
			break;
		f->len += (size_t)n;
		take_lines(f);
		if (f->len == sizeof f->buf - 1) {
			note_exit(f,
				ctl_error(f->c, CTL_USAGE, "USAGE", "line %llu: is too long",
					(unsigned long long)f->line + 1));
			f->len = 0;
			break;
		}
		send_batch(f);
	}
	if (!f->stop && f->len > 0)
		take_line(f, f->buf, f->len);
	if (!f->stop)
		send_batch(f);
}

int
ctl_do_batch(struct ctl *c, const wq_update_opts_t *opts)
{
	struct feed *f = ctl_alloc(sizeof *f);
	int status;

	f->c = c;
	f->opts = opts;
	read_stdin(f);
	wq_batch_free(f->batch);
	/* What is still in flight is called back now; it has been reported. */
	f->stop = true;
	ctl_disconnect(c);
	status = f->exit;
	mem_free(f);
	return status;
}
