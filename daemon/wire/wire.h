/*
 * Wire: bytes to `struct request`, our structs to reply bytes. The only place
 * that knows protobuf-c. Framing (a varint length before each message) is
 * frame.h. Loop thread; no state but the caller's arena.
 */
#ifndef WQD_WIRE_WIRE_H
#define WQD_WIRE_WIRE_H

#include "base/buf.h"
#include "engine/engine.h"
#include "wire/request.h"

#define WIRE_VERSION 1 /* of the protocol, in hello */

/* Memory of the decoded requests of one read; emptied after the batch was answered. */
struct arena;
int
arena_new(size_t max, struct arena **out);
void
arena_free(struct arena *a);
void
arena_reset(struct arena *a);

/*
 * Decodes one message of `n` bytes (without its length). 0; ERR_MALFORMED: not a
 * Request, the connection has to go; -ENOMEM: arena full. A message that decodes
 * but holds values of no meaning (an unknown enum number, a count over its limit,
 * a time out of range) gives 0 and `*why` set to a static sentence: answer
 * INVALID with out->id. Unknown operation: REQ_UNKNOWN. Milliseconds are checked
 * before they become nanoseconds. The updates of a batch have each their own why.
 * Text keeps its whole length: a NUL inside is a byte like others. `out` borrows from `p` and from
 * the arena.
 */
int
wire_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out, const char **why);

/* No reply is larger, whatever was asked: lists end their page, output of a run is cut. */
#define WIRE_REPLY_MAX (4u << 20)

/* Appends a framed reply. 0, ERR_TOO_LONG (buffer full: nothing appended), -ENOMEM. The output of
 * a run is cut (`truncated`) where the reply would be over WIRE_REPLY_MAX. */
int
wire_put_job_reply(struct buf *out, uint64_t id, const struct job_reply *r, bool made_key);
/* The run of a reply, by itself: encoded once for all who are told of it. 0, ERR_TOO_LONG, -ENOMEM. */
int
wire_put_run(struct buf *bytes, const struct run_record *r);
/* wire_put_job_reply with such a run. */
int
wire_put_waited(struct buf *out, uint64_t id, const struct job_reply *r, struct str run);
int
wire_put_status(struct buf *out, uint64_t id, enum status st, const char *message);

/* What a completion is now, with the reply that says so. */
int
wire_put_completion(struct buf *out, uint64_t id, enum status st, const struct completion_view *c);

/* Appends `e` as one of the events of a reply. 0, ERR_TOO_LONG, -ENOMEM. */
int
wire_put_event(struct buf *events, const struct watch_event *e, uint64_t position, int64_t at_ns);
struct watch_reply {
	uint64_t lost;
	bool lost_unknown;
	uint64_t position;
	struct str events; /* as wire_put_event made them, one behind the other */
};
/* A reply with more to follow. */
int
wire_put_watch(struct buf *out, uint64_t id, const struct watch_reply *w);
/* `subscribe`: it has begun; a job; a lease that is over. More follows. */
int
wire_put_more(struct buf *out, uint64_t id);
int
wire_put_leased(struct buf *out, uint64_t id, const struct run_start *r);
int
wire_put_revoked(struct buf *out, uint64_t id, const struct lease_revoked *r);
int
wire_put_progress(struct buf *out, uint64_t id, const struct drain_view *d);
/* Bytes of a backup or an export. */
int
wire_put_data(struct buf *out, uint64_t id, struct str data, uint64_t cursor, bool more);

struct hello_info {
	const char *server, *instance;
	uint32_t frame_max, in_flight_max;
	int64_t now_ms;
};
int
wire_put_hello(struct buf *out, uint64_t id, const struct hello_info *h);
int
wire_put_pong(struct buf *out, uint64_t id, struct str echo, const char *trouble);

/*
 * Replies with lists are built piece by piece, then ended: begin, any number of
 * puts of one kind, end (which appends the framed reply to `out`). The pieces are
 * encoded at once, so what is borrowed may go after each put.
 */
struct wire_list;
int
wire_list_new(size_t max, struct wire_list **out);
void
wire_list_free(struct wire_list *l);
void
wire_list_begin(struct wire_list *l, uint64_t id, enum status st);
/* Each: 0, ERR_TOO_LONG when the reply would pass its maximum (end the page before), -ENOMEM. The
 * first job or run of a page always fits: its output is cut. */
int
wire_list_job(struct wire_list *l, const struct job_view *j);
int
wire_list_run(struct wire_list *l, const struct run_record *r);
int
wire_list_queue(struct wire_list *l, const struct queue_view *q);
int
wire_list_counter(struct wire_list *l, const char *name, int64_t value);
int
wire_list_result(struct wire_list *l, const struct job_reply *r, bool made_key);
/* Borrowed until the end. */
void
wire_list_trouble(struct wire_list *l, const char *trouble);
/* Makes `l` a list of the same reply with the same pieces as `from`. 0 or -ENOMEM. */
int
wire_list_copy(struct wire_list *l, const struct wire_list *from);
/* Bytes of the pieces so far. */
size_t
wire_list_size(const struct wire_list *l);
int
wire_list_end(struct wire_list *l, uint64_t cursor, struct buf *out);

#endif
