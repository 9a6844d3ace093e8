#include "service/jsonl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* A line being written: what fails is told at its end. */
struct line {
	struct buf *out;
	size_t from; /* length before it */
	int err;
};

static struct line
line_begin(struct buf *out)
{
	return (struct line){ .out = out, .from = buf_len(out) };
}

static void
put(struct line *l, const void *p, size_t n)
{
	if (!l->err)
		l->err = buf_put(l->out, p, n);
}

static void __attribute__((format(printf, 2, 3))) putf(struct line *l, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	put(l, text, strlen(text));
}

static int
line_end(struct line *l)
{
	put(l, "}\n", 2);
	if (l->err)
		l->out->end = l->out->start + l->from;
	return l->err;
}

/* ---- values ---- */

static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return false;
	}
	return text_utf8_valid(s);
}

static void
put_text(struct line *l, struct str s)
{
	size_t from = 0;

	put(l, "\"", 1);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		put(l, s.p + from, i - from);
		from = i + 1;
		if (c == '\n' || c == '\t')
			put(l, c == '\n' ? "\\n" : "\\t", 2);
		else if (c < 0x20)
			putf(l, "\\u%04x", c);
		else
			putf(l, "\\%c", c);
	}
	if (s.n > from)
		put(l, s.p + from, s.n - from);
	put(l, "\"", 1);
}

static void
put_base64(struct line *l, struct str s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = (const uint8_t *)s.p;
	char four[4];

	put(l, "\"", 1);
	for (size_t i = 0; i < s.n; i += 3) {
		size_t left = s.n - i;
		uint32_t v = (uint32_t)p[i] << 16;

		v |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
		v |= left > 2 ? p[i + 2] : 0;
		for (int k = 0; k < 4; k++)
			four[k] = digits[v >> (18 - 6 * k) & 63];
		if (left < 3)
			four[3] = '=';
		if (left < 2)
			four[2] = '=';
		put(l, four, sizeof four);
	}
	put(l, "\"", 1);
}

/* All of them in one way: the one that holds for each. */
static void
put_parts(struct line *l, const struct str *parts, size_t n)
{
	bool plain = true;

	for (size_t i = 0; i < n; i++)
		plain = plain && is_plain(parts[i]);
	put(l, plain ? ",\"payload\":[" : ",\"payload_base64\":[", plain ? 12 : 19);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			put(l, ",", 1);
		if (plain)
			put_text(l, parts[i]);
		else
			put_base64(l, parts[i]);
	}
	put(l, "]", 1);
}

static void
put_name(struct line *l, const char *field, struct str s)
{
	putf(l, ",\"%s\":", field);
	put_text(l, s);
}

static const char *
boolean(bool b)
{
	return b ? "true" : "false";
}

static long long
ms_up(int64_t ns)
{
	return (long long)(ns / NS_PER_MS + (ns % NS_PER_MS > 0));
}

/* ---- lines ---- */

int
jsonl_head(struct buf *out, const char *server, const char *instance, int64_t wall_ns)
{
	struct line l = line_begin(out);

	putf(&l, "{\"type\":\"wqd-export\",\"version\":%d", JSONL_VERSION);
	put_name(&l, "server", str_from(server));
	put_name(&l, "instance", str_from(instance));
	putf(&l, ",\"exported_ms\":%lld", ms_up(wall_ns));
	return line_end(&l);
}

int
jsonl_queue(struct buf *out, struct str name, const struct queue_settings *s, bool paused)
{
	struct line l = line_begin(out);
	char text[256];

	putf(&l, "{\"type\":\"queue\"");
	put_name(&l, "queue", name);
	putf(&l, ",\"paused\":%s,\"settings\":{", boolean(paused));
	for (size_t i = 0; i < queue_setting_count; i++) {
		const struct setting *which = &queue_setting_table[i];
		size_t n = queue_settings_get(s, which, text, sizeof text);

		putf(&l, "%s\"%s\":", i ? "," : "", which->name);
		put_text(&l, (struct str){ text, n });
	}
	put(&l, "}", 1);
	return line_end(&l);
}

static const char *
state_word(enum job_state pending)
{
	switch (pending) {
	case JOB_ARMED:
		return "armed";
	case JOB_READY:
	case JOB_HELD:
		return "ready";
	case JOB_IDLE:
	case JOB_RUNNING:
		break;
	}
	return "idle";
}

static void
put_instance(struct line *l, const struct job_saved *j)
{
	putf(l, ",\"due_ms\":%lld,\"absolute\":%s", ms_up(j->due_wall_ns), boolean(j->absolute));
	if (j->delay_ns >= 0)
		putf(l, ",\"delay_ms\":%lld", ms_up(j->delay_ns));
	putf(l, ",\"created_ms\":%lld,\"slack_ms\":%lld,\"max_wait_ms\":%lld,\"coalesced\":%u",
		ms_up(j->created_wall_ns), ms_up(j->slack_ns), ms_up(j->max_wait_ns), j->coalesced);
}

int
jsonl_job(struct buf *out, const struct job_saved *saved)
{
	struct line l = line_begin(out);
	struct job_saved j = *saved;

	if (j.running && j.pending == JOB_IDLE) {
		j.pending = JOB_READY;
		j.due_wall_ns = j.created_wall_ns = j.run_due_wall_ns;
		j.coalesced = j.run_coalesced;
		j.retry = true;
		j.attempt++;
	}
	putf(&l, "{\"type\":\"job\"");
	put_name(&l, "queue", j.queue);
	put_name(&l, "key", j.key);
	putf(&l, ",\"state\":\"%s\"", state_word(j.pending));
	if (j.pending != JOB_IDLE)
		put_instance(&l, &j);
	putf(&l,
		",\"generation\":%llu,\"attempt\":%u,\"retry\":%s,\"disable_depth\":%u,"
		"\"dead\":%s,\"durability\":\"%s\"",
		(unsigned long long)j.generation, j.attempt, boolean(j.retry), j.disable_depth,
		boolean(j.dead), durability_words.words[j.level]);
	if (j.n_parts > 0 && (j.pending != JOB_IDLE || j.dead)) {
		/* Its words are the first part, each with a NUL behind it. */
		if (j.command)
			putf(&l, ",\"command\":true");
		put_parts(&l, j.parts, j.n_parts);
	}
	return line_end(&l);
}

int
jsonl_completion(struct buf *out, const struct completion_saved *c)
{
	struct line l = line_begin(out);

	putf(&l, "{\"type\":\"completion\"");
	put_name(&l, "name", c->name);
	putf(&l, ",\"done\":%u,\"open\":%s,\"durability\":\"%s\"", c->done, boolean(c->open),
		durability_words.words[c->level]);
	return line_end(&l);
}

int
jsonl_end(struct buf *out, const struct jsonl_counts *n)
{
	struct line l = line_begin(out);

	putf(&l,
		"{\"type\":\"end\",\"queues\":%llu,\"jobs\":%llu,\"completions\":%llu,\"lost\":%"
		"llu",
		(unsigned long long)n->queues, (unsigned long long)n->jobs,
		(unsigned long long)n->completions, (unsigned long long)n->lost);
	return line_end(&l);
}

int
jsonl_wrong(
	struct buf *out, const char *path, const char *error, const char *detail, const char *next)
{
	struct line l = line_begin(out);

	putf(&l, "{\"error\":\"STORAGE_ERROR\"");
	put_name(&l, "path", str_from(path));
	put_name(&l, "message", str_from(error));
	put_name(&l, "detail", str_from(detail));
	put_name(&l, "next", str_from(next));
	return line_end(&l);
}
