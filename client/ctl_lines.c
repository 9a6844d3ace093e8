/*
 * Jobs as lines, answers from lines. wqctl(1) describes both, under work.
 *
 * Fields are separated by tabs; in the last one (payload, output) bytes that would end it are
 * escaped so that the shell's printf '%b' makes them what they were: \\ \t \n, and \0 with three
 * octal digits for other control characters.
 */
#include "ctl_lines.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_text.h"
#include "ctl_time.h"

/* ---- jobs ---- */

static size_t
escape(char *dst, const char *s, size_t n)
{
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char b = (unsigned char)s[i];

		if (b == '\\' || b == '\t' || b == '\n') {
			dst[o++] = '\\';
			dst[o++] = b == '\\' ? '\\' : b == '\t' ? 't' : 'n';
		} else if (b < 0x20 || b == 0x7f) {
			o += (size_t)snprintf(dst + o, 6, "\\0%03o", b);
		} else {
			dst[o++] = (char)b;
		}
	}
	return o;
}

static char *
line_of_fields(const wq_work_info_t *job, size_t *n)
{
	size_t size = strlen(job->key) + 5 * job->payload_len + 64;
	char *line = ctl_alloc(size);
	size_t o = (size_t)snprintf(line, size, "%s\t%llu\t%u\t", job->key,
		(unsigned long long)job->generation, (unsigned)job->attempt);

	o += escape(line + o, job->payload, job->payload_len);
	line[o++] = '\n';
	*n = o;
	return line;
}

static json_t *
json_parts(const wq_work_info_t *job)
{
	json_t *all = json_array();

	for (size_t i = 0; i < job->n_parts; i++)
		if (json_array_append_new(all, json_integer((json_int_t)job->parts[i])) < 0)
			ctl_no_memory();
	return all;
}

static char *
line_of_json(const wq_work_info_t *job, size_t *n)
{
	json_t *j = json_object(), *payload;
	bool lossy = false;
	char *text, *line;

	ctl_json_set(j, "queue", ctl_text_jsons(job->queue));
	ctl_json_set(j, "key", ctl_text_jsons(job->key));
	ctl_json_set(j, "generation", json_integer((json_int_t)job->generation));
	ctl_json_set(j, "attempt", json_integer(job->attempt));
	ctl_json_set(j, "coalesced", json_integer(job->coalesced));
	ctl_json_set(j, "due_ms", json_integer(job->due_ms));
	ctl_json_set(j, "lease_ms", json_integer(job->lease_ms));
	ctl_json_set(j, "token", json_integer((json_int_t)job->token));
	payload = ctl_text_json(job->payload, job->payload_len, &lossy);
	if (lossy) {
		json_decref(payload);
		payload = json_null();
		ctl_json_set(j, "payload_base64", ctl_base64_json(job->payload, job->payload_len));
	}
	ctl_json_set(j, "payload", payload);
	ctl_json_set(j, "parts", json_parts(job));
	text = json_dumps(j, JSON_COMPACT);
	if (!text)
		ctl_no_memory();
	json_decref(j);
	*n = strlen(text) + 1;
	line = ctl_alloc(*n + 1);
	snprintf(line, *n + 1, "%s\n", text);
	free(text); /* its own */
	return line;
}

char *
ctl_job_line(enum ctl_lines how, const wq_work_info_t *job, size_t *n)
{
	return how == CTL_LINES_FIELDS ? line_of_fields(job, n) : line_of_json(job, n);
}

/* ---- answers ---- */

static bool
is_octal(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '7')
			return false;
	return true;
}

/* What is no escape stands for itself. */
static void
take_output(struct ctl_answer *a, const char *s, size_t n)
{
	size_t o = 0;

	a->output = ctl_alloc(n + 1);
	for (size_t i = 0; i < n; i++) {
		char next = s[i] == '\\' && i + 1 < n ? s[i + 1] : 0;

		if (next == 't' || next == 'n' || next == '\\') {
			a->output[o++] = next == 't' ? '\t' : next == 'n' ? '\n' : '\\';
			i++;
		} else if (next == '0' && i + 4 < n && is_octal(s + i + 2, 3)) {
			a->output[o++] = (char)((s[i + 2] - '0') * 64 + (s[i + 3] - '0') * 8 +
				(s[i + 4] - '0'));
			i += 4;
		} else {
			a->output[o++] = s[i];
		}
	}
	a->n_output = o;
}

/* The word at the front, and one space behind it, are cut off. */
static bool
cut_word(const char **s, size_t *n, const char *word)
{
	size_t len = strlen(word);

	if (*n < len || memcmp(*s, word, len) != 0 || (*n > len && (*s)[len] != ' '))
		return false;
	len += *n > len;
	*s += len;
	*n -= len;
	return true;
}

static bool
cut_span(const char **s, size_t *n, int64_t *ms)
{
	size_t len = 0;
	char text[32];

	while (len < *n && (*s)[len] != ' ')
		len++;
	if (len == 0 || len >= sizeof text)
		return false;
	memcpy(text, *s, len);
	text[len] = '\0';
	if (ctl_duration_parse(text, ms) != NULL)
		return false;
	len += len < *n;
	*s += len;
	*n -= len;
	return true;
}

static bool
read_json(const char *line, size_t n, struct ctl_answer *a)
{
	json_t *j = json_loadb(line, n, 0, NULL);
	const char *outcome = json_string_value(json_object_get(j, "outcome"));
	const json_t *output = json_object_get(j, "output"),
		     *after = json_object_get(j, "retry_after_ms");
	bool right = outcome && (strcmp(outcome, "done") == 0 || strcmp(outcome, "failed") == 0) &&
		(!output || json_is_string(output)) &&
		(!after || (json_is_integer(after) && json_integer_value(after) >= 0));

	if (right) {
		a->failed = outcome[0] == 'f';
		a->retry = a->failed && after;
		a->retry_ms = a->retry ? json_integer_value(after) : 0;
		a->n_output = output ? json_string_length(output) : 0;
		a->output = ctl_alloc(a->n_output + 1);
		if (output)
			memcpy(a->output, json_string_value(output), a->n_output);
	}
	json_decref(j);
	return right;
}

bool
ctl_answer_read(const char *line, size_t n, struct ctl_answer *out)
{
	*out = (struct ctl_answer){ 0 };
	if (n > 0 && line[0] == '{')
		return read_json(line, n, out);
	if (cut_word(&line, &n, "failed")) {
		out->failed = true;
	} else if (cut_word(&line, &n, "retry")) {
		out->failed = out->retry = true;
		if (!cut_span(&line, &n, &out->retry_ms))
			return false;
	} else if (!cut_word(&line, &n, "done")) {
		return false;
	}
	take_output(out, line, n);
	return true;
}
