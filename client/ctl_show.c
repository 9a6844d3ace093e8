#include "ctl_show.h"

#include <stdio.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_text.h"
#include "ctl_time.h"

/* ---- JSON ---- */

json_t *
ctl_json_ms(int64_t ms)
{
	return ms < 0 ? json_null() : json_integer(ms);
}

json_t *
ctl_json_run(const wq_run_info_t *run)
{
	json_t *j = json_object();
	const char *output = run->output ? run->output : "";
	bool lossy;
	json_t *text = ctl_text_json(output, run->output_len, &lossy);

	ctl_json_set(j, "queue", ctl_text_jsons(run->queue));
	ctl_json_set(j, "key", ctl_text_jsons(run->key));
	ctl_json_set(j, "generation", json_integer((json_int_t)run->generation));
	ctl_json_set(j, "attempt", json_integer(run->attempt));
	ctl_json_set(j, "final", json_boolean(run->final));
	ctl_json_set(j, "outcome", ctl_text_jsons(wq_outcome_word(run->outcome)));
	ctl_json_set(
		j, "exit_code", run->exit_code < 0 ? json_null() : json_integer(run->exit_code));
	ctl_json_set(j, "signal", run->signal ? json_integer(run->signal) : json_null());
	ctl_json_set(j, "errno", run->error ? json_integer(run->error) : json_null());
	ctl_json_set(j, "due_ms", ctl_json_ms(run->due_ms));
	ctl_json_set(j, "started_ms", ctl_json_ms(run->started_ms ? run->started_ms : -1));
	ctl_json_set(j, "ended_ms", ctl_json_ms(run->ended_ms));
	ctl_json_set(j, "coalesced", json_integer(run->coalesced));
	ctl_json_set(j, "output", text);
	if (lossy)
		ctl_json_set(j, "output_base64", ctl_base64_json(output, run->output_len));
	ctl_json_set(j, "truncated", json_boolean(run->truncated));
	return j;
}

static const char *
durability_word(wq_durability_t d)
{
	switch (d) {
	case WQ_SYNC:
		return "sync";
	case WQ_ASYNC:
		return "async";
	case WQ_MEMORY:
		return "memory";
	case WQ_DEFAULT:
		break;
	}
	return "default";
}

static json_t *
json_lease(const wq_job_info_t *job)
{
	json_t *j = json_object();

	ctl_json_set(j, "holder", ctl_text_jsons(job->lease_holder));
	ctl_json_set(j, "left_ms", json_integer((json_int_t)job->lease_left_ms));
	ctl_json_set(j, "token", json_integer((json_int_t)job->lease_token));
	ctl_json_set(j, "touched", json_boolean(job->lease_touched));
	return j;
}

/* null: there is one, but the list was too long to show it. */
static json_t *
ctl_json_command(const wq_job_info_t *job)
{
	json_t *v = job->command ? json_array() : json_null();

	for (size_t i = 0; i < job->n_command; i++)
		if (json_array_append_new(v, ctl_text_jsons(job->command[i])) < 0)
			ctl_no_memory();
	return v;
}

json_t *
ctl_json_job(const wq_job_info_t *job)
{
	json_t *j = json_object();

	ctl_json_set(j, "queue", ctl_text_jsons(job->queue));
	ctl_json_set(j, "key", ctl_text_jsons(job->key));
	ctl_json_set(j, "state", ctl_text_jsons(wq_state_word(job->state)));
	ctl_json_set(j, "pending", json_boolean(job->pending));
	ctl_json_set(j, "pending_state",
		job->pending ? ctl_text_jsons(wq_state_word(job->pending_state)) : json_null());
	ctl_json_set(j, "deadline_ms", ctl_json_ms(job->deadline_ms));
	ctl_json_set(j, "generation", json_integer((json_int_t)job->generation));
	ctl_json_set(j, "attempt", json_integer(job->attempt));
	ctl_json_set(j, "coalesced", json_integer(job->coalesced));
	ctl_json_set(j, "disable_depth", json_integer(job->disable_depth));
	ctl_json_set(j, "durability", ctl_text_jsons(durability_word(job->durability)));
	ctl_json_set(j, "payload_bytes", json_integer((json_int_t)job->payload_bytes));
	ctl_json_set(j, "dead", json_boolean(job->dead));
	if (job->has_command)
		ctl_json_set(j, "command", ctl_json_command(job));
	ctl_json_set(j, "last", job->last ? ctl_json_run(job->last) : json_null());
	ctl_json_set(j, "lease", job->lease_holder ? json_lease(job) : json_null());
	return j;
}

/* The daemon answered; else the library says why nobody did. */
static bool
answered(const wq_reply_t *reply)
{
	return reply->result == 0 || reply->result == -(int)reply->status;
}

static const char *
reply_message(const wq_reply_t *reply)
{
	return reply->message && reply->message[0] ? reply->message : wq_strerror(reply->result);
}

json_t *
ctl_json_reply(const struct ctl_target *t, const wq_reply_t *reply)
{
	json_t *j = json_object();

	if (answered(reply))
		ctl_json_set(j, "outcome", ctl_text_jsons(wq_status_word(reply->status)));
	ctl_json_set(j, "queue", ctl_text_jsons(t->queue));
	ctl_json_set(j, "key", ctl_text_jsons(t->key));
	if (answered(reply)) {
		ctl_json_set(j, "state_before", ctl_text_jsons(wq_state_word(reply->state_before)));
		ctl_json_set(j, "pending_before", json_boolean(reply->pending_before));
		ctl_json_set(j, "deadline_ms", ctl_json_ms(reply->deadline_ms));
		ctl_json_set(j, "old_deadline_ms", ctl_json_ms(reply->old_deadline_ms));
		ctl_json_set(j, "generation", json_integer((json_int_t)reply->generation));
		ctl_json_set(j, "coalesced", json_integer(reply->coalesced));
		ctl_json_set(j, "disable_depth", json_integer(reply->disable_depth));
		if (reply->run)
			ctl_json_set(j, "run", ctl_json_run(reply->run));
	}
	if (reply->result < 0)
		ctl_json_error(j, ctl_exit_of(reply->result), wq_error_word(reply->result),
			reply_message(reply));
	return j;
}

/* ---- text ---- */

void
ctl_put_target(const char *queue, const char *key)
{
	ctl_text_puts(stdout, queue);
	putchar('/');
	ctl_text_puts(stdout, key);
}

/* As a shell would take it. */
static void
put_word(const char *word)
{
	size_t n = strlen(word), at = 0;

	if (n > 0 && strcspn(word, " \t\n\"'\\$`*?;&|<>()[]{}!#~") == n) {
		ctl_text_puts(stdout, word);
		return;
	}
	putchar('\'');
	while (at < n) {
		size_t part = strcspn(word + at, "'");

		ctl_text_put(stdout, word + at, part);
		at += part;
		if (at < n) {
			fputs("'\\''", stdout);
			at++;
		}
	}
	putchar('\'');
}

void
ctl_put_command(const wq_job_info_t *job)
{
	for (size_t i = 0; i < job->n_command; i++) {
		if (i)
			putchar(' ');
		put_word(job->command[i]);
	}
}

void
ctl_put_time(int64_t ms)
{
	char at[CTL_TIME_SIZE], when[CTL_TIME_SIZE];

	if (ms < 0)
		putchar('-');
	else
		printf("%s (%s)", ctl_time_local(ms, at), ctl_relative(ms, ctl_now_ms(), when));
}

char *
ctl_outcome(const wq_run_info_t *run, char dst[CTL_OUTCOME_SIZE])
{
	const char *word = wq_outcome_word(run->outcome), *name;

	if (run->error) {
		snprintf(dst, CTL_OUTCOME_SIZE, "%s, could not start: %s", word,
			strerror(run->error));
	} else if (run->signal) {
		name = sigabbrev_np(run->signal);
		snprintf(dst, CTL_OUTCOME_SIZE, "%s, signal %d%s%s", word, run->signal,
			name ? " SIG" : "", name ? name : "");
	} else if (run->exit_code >= 0) {
		snprintf(dst, CTL_OUTCOME_SIZE, "%s, exit %d", word, run->exit_code);
	} else {
		snprintf(dst, CTL_OUTCOME_SIZE, "%s", word);
	}
	return dst;
}

void
ctl_put_run(const wq_run_info_t *run)
{
	char at[CTL_TIME_SIZE], outcome[CTL_OUTCOME_SIZE];

	printf("generation %llu  attempt %u  ", (unsigned long long)run->generation,
		(unsigned)run->attempt);
	fputs(ctl_outcome(run, outcome), stdout);
	fputs(run->final ? "  ended " : ", will be retried  ended ", stdout);
	ctl_put_time(run->ended_ms);
	if (run->started_ms)
		printf("  took %s", ctl_span(run->ended_ms - run->started_ms, at));
	if (run->started_ms && run->due_ms >= 0)
		printf("  started %s after due", ctl_span(run->started_ms - run->due_ms, at));
	printf("  coalesced %u\n", (unsigned)run->coalesced);
	ctl_text_put_block(stdout, "    ", run->output, run->output_len);
	if (run->truncated)
		puts("    [the output was longer and is cut here]");
}

static void
put_reply_line(const struct ctl_target *t, const wq_reply_t *reply)
{
	printf("%-19s  ", wq_status_word(reply->status));
	ctl_put_target(t->queue, t->key);
	if (reply->deadline_ms >= 0) {
		fputs("  due ", stdout);
		ctl_put_time(reply->deadline_ms);
	}
	if (reply->old_deadline_ms >= 0) {
		fputs("  was ", stdout);
		ctl_put_time(reply->old_deadline_ms);
	}
	if (reply->deadline_ms >= 0 || reply->coalesced)
		printf("  coalesced %u", (unsigned)reply->coalesced);
	if (reply->disable_depth)
		printf("  disabled %u deep", (unsigned)reply->disable_depth);
	putchar('\n');
}

/* ---- replies ---- */

enum ctl_exit
ctl_exit_of_status(wq_status_t status)
{
	if (status == WQ_IDLE)
		return CTL_NOT_FOUND;
	return status == WQ_NOT_PENDING_RUNNING ? CTL_FAILED : CTL_DONE;
}

int
ctl_show_reply(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply)
{
	if (reply->result < 0 && (!c->json || !answered(reply)))
		return ctl_fail(c, reply->result, reply_message(reply));
	if (c->json)
		ctl_json_put(c, ctl_json_reply(t, reply));
	else if (!c->quiet)
		put_reply_line(t, reply);
	if (reply->result < 0)
		return (int)ctl_exit_of(reply->result);
	return ctl_exit_of_status(reply->status);
}

int
ctl_show_waited(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply)
{
	const wq_run_info_t *run = reply->run;
	bool cancelled = reply->status == WQ_CANCELLED || reply->status == WQ_CANCELLED_RUNNING;
	int status;

	if (reply->result < 0 || !run) {
		status = ctl_show_reply(c, t, reply);
		/* What was waited for was taken away: it did not succeed. */
		return reply->result == 0 && cancelled ? CTL_RUN_FAILED : status;
	}
	if (c->json) {
		json_t *j = ctl_json_run(run);

		ctl_json_set(j, "status", ctl_text_jsons(wq_status_word(reply->status)));
		ctl_json_put(c, j);
	} else if (!c->quiet) {
		ctl_put_target(t->queue, t->key);
		fputs("  ", stdout);
		ctl_put_run(run);
	}
	return run->outcome == WQ_RUN_DONE && !cancelled ? CTL_DONE : CTL_RUN_FAILED;
}
