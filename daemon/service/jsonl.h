/*
 * State as lines of JSON: what `wqctl export` gives out, of a daemon that runs,
 * and `wqd --export-state`, of its files. One line a thing:
 *
 *   {"type":"wqd-export","version":1,"server":...,"instance":...,"exported_ms":...}
 *   {"type":"queue","queue":...,"paused":...,"settings":{NAME:TEXT,...}}
 *   {"type":"job","queue":...,"key":...,"state":...,...}
 *   {"type":"completion","name":...,"done":...,"open":...,"durability":...}
 *   {"type":"end","queues":N,"jobs":N,"completions":N,"lost":N}
 *
 * Times are Unix milliseconds, deadlines rounded up, so that none comes early.
 * Bytes that are no plain text are in base64, under the name with "_base64". The
 * fields are described in wqctl(1).
 */
#ifndef WQD_SERVICE_JSONL_H
#define WQD_SERVICE_JSONL_H

#include "base/buf.h"
#include "engine/engine.h"

#define JSONL_VERSION 1

struct jsonl_counts {
	uint64_t queues, jobs, completions;
	uint64_t lost; /* things that could not be read */
};

/* Each appends one line. 0; ERR_TOO_LONG, -ENOMEM: nothing was appended. */
int
jsonl_head(struct buf *out, const char *server, const char *instance, int64_t wall_ns);
int
jsonl_queue(struct buf *out, struct str name, const struct queue_settings *s, bool paused);
/* One that was running is written as pending again: its next attempt. */
int
jsonl_job(struct buf *out, const struct job_saved *j);
int
jsonl_completion(struct buf *out, const struct completion_saved *c);
/* What is wrong with a state, and what to do: of a check. */
int
jsonl_wrong(
	struct buf *out, const char *path, const char *error, const char *detail, const char *next);
int
jsonl_end(struct buf *out, const struct jsonl_counts *n);

#endif
