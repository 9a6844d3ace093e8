/*
 * struct wq and what the files of the library ask of one another. Nothing here is exported.
 *
 *   wq_send_*  -> request.c (encode) -> pending -> send.c -> socket -> recv.c -> reply.c -> callback
 *   wq_process -> conn.c (state of the connection) -> send.c, recv.c
 *   wq_*       -> blocking.c (turn until answered) on top of the same
 *
 * Time is CLOCK_BOOTTIME in nanoseconds, read once a call and passed on.
 */
#ifndef WQ_CLIENT_HANDLE_H
#define WQ_CLIENT_HANDLE_H

#include <errno.h>
#include <string.h>

#include "address.h"
#include "coalesce.h"
#include "hot.h"
#include "mem.h"
#include "must.h"
#include "opts.h"
#include "pb.h"
#include "pending.h"
#include "scratch.h"
#include "tls.h"
#include "wq.h"

#define NS_PER_MS 1000000ll

#define WQ_MAGIC          0x77715f74u
#define KEY_MAX           255u
#define QUEUE_MAX         128u
#define BATCH_MAX         4096u
#define COMMAND_WORDS_MAX 1024u
#define REQUEST_MAX       (16u << 20) /* bytes, while the daemon's own limit is not known */
#define REPLY_MAX         (16u << 20) /* bytes of one reply frame; wqd keeps to 4 MiB */
#define SCRATCH_MAX       (64u << 20) /* bytes of one decoded reply */
#define TOKEN_MAX         512u        /* bytes */
#define HELLO_MAX         768u        /* bytes of our hello with its length */
#define MESSAGE_MAX       512u
#define IDEM_RANDOM       12u
#define IDEM_LEN          (IDEM_RANDOM + 8u)

/* ---- the connection (conn.c) ---- */

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_TLS, LINK_HELLO, LINK_UP, LINK_WAIT };

struct link {
	enum link_state state;
	int fd;          /* -1: none */
	struct tls *tls; /* owned; NULL: plain, or no connection */
	struct endpoint ends[ADDRESS_ENDPOINTS];
	size_t n_ends, end;    /* `end`: the one being tried */
	int64_t try_until_ns;  /* CONNECTING, TLS, HELLO: for all that are left */
	int64_t this_until_ns; /* CONNECTING: for this one */
	int64_t retry_at_ns;   /* WAIT */
	int64_t pause_ms;      /* the pause before the next try; 0: none was needed yet */
	int64_t up_since_ns;   /* UP */
	int last_error;        /* why there is no connection; 0: none was lost */
	bool warned;           /* that it does not know who the daemon is */
	bool gone;             /* CLOSED, and stays so until a request wants it */
	uint64_t hello_id;
	uint8_t hello[HELLO_MAX];
	size_t hello_len, hello_off;
	int64_t hello_sent_ns;
	uint32_t frame_max; /* largest request the daemon takes; 0: not known */
	struct clock_offset offset;
	size_t out_off;   /* bytes of pending.unsent that have left */
	uint8_t *staging; /* owned; NULL until there was much to send at once */
};

struct inbox {
	uint8_t *data; /* owned */
	size_t start, end, cap;
	struct scratch scratch; /* the reply being handled */
};

struct wq {
	uint32_t magic;
	struct options opt;
	struct address addr;
	bool started;     /* options are fixed */
	bool freeing;     /* takes no more requests */
	unsigned busy;    /* inside wq_process or wq_free: callbacks run */
	unsigned looking; /* inside a callback of a look, which may call anything but wq_free */
	struct link link;
	struct inbox in;
	struct pending_table pend;
	struct coalesce_table known;
	struct wq_worker *worker; /* NULL: none */
	uint8_t idem_random[IDEM_RANDOM];
	uint64_t idem_next;
	uint64_t jitter; /* state of the generator */
	char message[MESSAGE_MAX];
	char trouble[MESSAGE_MAX]; /* as the last ping or stat told */
	wq_change_cb changed;
	void *changed_arg;
};

int64_t
now_ns(void);
/* `ms` after `t_ns`, or NEVER_NS. */
int64_t
later_ns(int64_t t_ns, int64_t ms);
/* -errno, safe from meaning a status. */
int
system_error(int err);
void
message_set(wq_t *wq, const char *text);
/* Tells the application that what the hooks return has changed outside wq_process. */
void
hooks_changed(wq_t *wq);

void
link_init(struct link *l);
/* Does what is due: connects, greets, gives up. 0, or the error that failed all in flight. */
int
link_turn(wq_t *wq, int64_t now, int ready);
/*
 * The connection is of no use any more. With "reconnect", and unless `fatal`, requests that
 * can be are kept for the next one, and 0 is returned; else all fail with `error`, which is
 * returned.
 */
int
link_down(wq_t *wq, int64_t now, int error, bool fatal);
/* The daemon's answer to the hello. 0, or an error for link_down. */
int
link_greeted(wq_t *wq, int64_t now, const Wq__V1__Reply *r);
/* Closes for good, without callbacks. */
void
link_close(wq_t *wq);
/* A request came in while nothing would connect. */
void
link_want(wq_t *wq);
int64_t
link_next_due(const wq_t *wq);

/* ---- TLS of the connection (secure.c) ---- */

/* Makes link.tls for a socket that is connected. 0 or a negative error, the message set. */
int
secure_begin(wq_t *wq);
/* A step of the handshake. 1: done; 0: it goes on; a negative error, the message set. */
int
secure_turn(wq_t *wq);

/* ---- sending (send.c) ---- */

/* How a request is to be treated, besides its contents. */
struct sending {
	enum resend_rule rule;
	int64_t wait_ms; /* its own waiting time; -1: none, or no end */
	wq_reply_cb cb;
	void *arg;
	pending_done_fn done; /* NULL: reply_deliver */
	pending_more_fn more; /* NULL: one reply is all */
	wq_progress_cb progress;
	wq_event_cb event;
	const char *key;        /* for the reply; NULL: none */
	struct wq_batch *batch; /* taken, when 0 is returned */
	struct coalesce_ask *ask;
};

/*
 * A request whose operation the caller writes itself: begin gives `room` bytes at *op; then send it
 * with `op_len` of them used, or drop it. An error of begin or send leaves nothing behind.
 */
int
request_begin(wq_t *wq, const struct sending *how, size_t room, struct pending **p, uint8_t **op);
int
request_send_op(
	wq_t *wq, struct pending *p, unsigned field, uint8_t *op, size_t op_len, uint64_t *id);
/* Encodes and queues. *id (may be NULL) names it for request_abandon. */
int
request_send(wq_t *wq, Wq__V1__Request *req, const struct sending *how, uint64_t *id);
/* Queues an answer that the library gives itself; how->done gets a NULL reply and error 0. */
int
request_answer(wq_t *wq, const wq_reply_t *answer, const struct sending *how, uint64_t *id);
void
request_abandon(wq_t *wq, uint64_t id);
void
pending_free(wq_t *wq, struct pending *p);
/* Encodes a hello into the link. */
int
hello_encode(wq_t *wq);
/* Writes what can be written. 0 or -errno. */
int
send_turn(wq_t *wq, int64_t now);
/* Calls back with `error` and frees; NULL is allowed. A chain by `next`. */
void
requests_fail(wq_t *wq, struct pending *chain, int error);
/* Answers TIMEOUT to those whose waiting time is over here. */
void
requests_expire(wq_t *wq, int64_t now);

/* ---- receiving (recv.c) ---- */

int
inbox_init(struct inbox *in);
void
inbox_done(struct inbox *in);
/* Forgets bytes of a broken connection. */
void
inbox_reset(struct inbox *in);
/* Reads and dispatches what is there. 0, or an error for link_down. */
int
recv_turn(wq_t *wq, int64_t now);

/* ---- replies (reply.c) ---- */

/* The contents make sense for this request: lengths of keys, number of results. */
bool
reply_plausible(const struct pending *p, const Wq__V1__Reply *r);
/* 0, the negative of an error status, or WQ_ERR_UNSUPPORTED for a status not known here. */
int
reply_result(uint32_t status);
/* Fills `out`; its texts live in `s` as long as the reply. False: no memory. */
bool
reply_from_wire(struct scratch *s, const Wq__V1__Reply *r, const char *key, wq_reply_t *out,
	wq_run_info_t *run);
/* The same of one result of a batch. */
bool
reply_from_result(struct scratch *s, const Wq__V1__Result *r, const char *key, wq_reply_t *out);
/* What a result has no field for: its reply word says it. */
bool
result_was_pending(wq_status_t status);
bool
run_from_wire(struct scratch *s, const Wq__V1__Run *r, wq_run_info_t *out);
void
completion_from_wire(const Wq__V1__CompletionInfo *c, wq_completion_info_t *out);
/* A reply that is nothing but a library error. */
wq_reply_t
reply_of_error(int error, const char *key);
/* The done function of most requests. */
void
reply_deliver(wq_t *wq, struct pending *p, int error, const Wq__V1__Reply *r);
/* A reply that is nothing but numbers. True: it was delivered; false: left to protobuf-c. */
bool
reply_hot(wq_t *wq, const uint8_t *msg, size_t len);
/* The same for a batch. */
bool
batch_hot(wq_t *wq, struct pending *p, const struct hot_reply *r);
/* Fills `out`. */
void
reply_from_hot(const struct hot_reply *r, const char *key, wq_reply_t *out);
/* What the request's coalescing part learns from the reply (NULL: it failed). */
void
reply_teach(wq_t *wq, const struct pending *p, struct coalesce_ask *ask, const wq_reply_t *reply);
void
result_from_reply(const wq_reply_t *reply, wq_result_t *out);

/* ---- requests (request.c, batch.c) ---- */

/* How a request that changes something is treated when the connection breaks. */
enum resend_rule
rule_for_change(const wq_t *wq);
/* The id for it in `buf`: empty when it is not to be resent. */
ProtobufCBinaryData
idem_for(wq_t *wq, uint8_t buf[IDEM_LEN]);
/* Checks a name for its length; 0 or -WQ_INVALID with the message set. NULL is in order. */
int
name_check(wq_t *wq, const char *what, const char *name, size_t max);
/* The same for an operation on one job, which needs a key. */
int
job_check(wq_t *wq, const char *queue, const char *key);
/* The library's own fresh idempotency id. */
void
idem_make(wq_t *wq, uint8_t out[IDEM_LEN]);
/*
 * Options in any version of their struct, which begins with its size: the caller's go over the defaults
 * in `out`, of `size` bytes; NULL leaves those. 0, or -EINVAL: less than `least` bytes.
 */
static inline int
opts_over(void *out, size_t size, const void *opts, size_t least)
{
	size_t given;

	if (!opts)
		return 0;
	memcpy(&given, opts, sizeof given);
	if (given < least)
		return -EINVAL;
	memcpy(out, opts, given < size ? given : size);
	return 0;
}
int
update_opts_read(const wq_update_opts_t *opts, wq_update_opts_t *out);
/* An update with borrowed pointers; `idem` is where an id of the library's own goes. 0 or
 * -WQ_INVALID with the message set. */
int
update_fill(wq_t *wq, struct hot_update *u, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *o, uint8_t idem[IDEM_LEN]);
/* As the wq_send_ calls, with *id for request_abandon. */
int
update_ask(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_reply_cb cb, void *arg, uint64_t *id);
int
cancel_ask(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	const wq_change_opts_t *opts, wq_reply_cb cb, void *arg, uint64_t *id);
int
flush_ask(wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_reply_cb cb,
	void *arg, uint64_t *id);
int
flush_queue_ask(
	wq_t *wq, const char *queue, int timeout_ms, wq_reply_cb cb, void *arg, uint64_t *id);
int
wait_ask(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_reply_cb cb, void *arg, uint64_t *id);
int
job_ask(wq_t *wq, wq_job_op_t op, const char *queue, const char *key, const wq_change_opts_t *opts,
	wq_reply_cb cb, void *arg, uint64_t *id);

/* Updates of the batch that were sent, each of which gets a result. */
size_t
batch_sent(const struct wq_batch *b);

/* ---- blocking (blocking.c) ---- */

/* A blocking call on the stack of its caller. */
struct call {
	bool answered;
	int result;
	wq_result_t *out; /* may be NULL */
	uint64_t id;
};
void
call_reply(wq_t *wq, const wq_reply_t *reply, void *arg);
/* May a blocking call begin? 0, or -EDEADLK inside a callback. Clears the message. */
int
call_begin(wq_t *wq);
/* It is answered by that, or by `error`. */
void
call_end(wq_t *wq, struct call *c, int error, const Wq__V1__Reply *r);
/* Turns until answered, at most the call's own `wait_ms` (-1: no end) and "timeout". Returns the
 * result. */
int
call_wait(wq_t *wq, struct call *c, int64_t wait_ms);
/*
 * Sends `req` and waits. The decoded reply (valid while `page` is not reset) comes out by *out
 * when the result is 0.
 */
int
call_raw(wq_t *wq, Wq__V1__Request *req, enum resend_rule rule, int64_t wait_ms,
	struct scratch *page, const Wq__V1__Reply **out);
/* Tells `each` of the reply's counters until it wants no more. */
void
show_counters(wq_t *wq, const Wq__V1__Reply *r, wq_counter_cb each, void *arg);
/* The same for a request whose reply is only a status. */
int
call_plain(wq_t *wq, Wq__V1__Request *req, enum resend_rule rule, int64_t wait_ms);
/* Turns until *done or `until_ns`. 0, WQ_ERR_TIMEOUT, or the error of wq_process. */
int
turn_until(
	wq_t *wq, bool (*done)(const wq_t *wq, const void *arg), const void *arg, int64_t until_ns);

#endif
