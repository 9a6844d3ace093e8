/*
 * wq.h: the C client library of wqd, delayed work as a service.
 *
 * "Run this in 30 seconds, and if I ask again before, push it back":
 *
 *     wq_t *wq;
 *     if (wq_connect("unix:/run/wqd/wqd.sock", NULL, &wq) < 0) ...
 *     wq_update(wq, "hb", "host-17", 30000, NULL, NULL);
 *
 * Semantics: docs/semantics.md; the words below are its reply words. Man page:
 * libwq(3).
 *
 * Two ways to call. The asynchronous calls (wq_send_*) queue a request, return
 * at once, and call back when the reply is there; the application turns the
 * handle with its own event loop by four hooks (wq_fd, wq_events,
 * wq_timeout_ms, wq_process), or by wq_libevent.h. The blocking calls (all
 * others) are made of those and turn the handle themselves; meanwhile callbacks
 * of other requests may run.
 *
 * Threads: a handle belongs to one thread at a time, and does not survive a
 * fork in both processes. Different handles are independent. Callbacks run
 * inside wq_process or inside a blocking call, on the caller's thread. The
 * library starts no thread, installs no signal handler, and never raises
 * SIGPIPE.
 *
 * Ownership: strings and bytes passed in are copied before a call returns.
 * What a callback is given is borrowed and valid until it returns. What a
 * function gives out "owned" is freed with the named function.
 *
 * Errors: functions return 0 or a negative number: -errno for the system's,
 * WQ_ERR_* for the library's, and for replies of the error half the negative
 * of the status (-WQ_INVALID ...; an errno that could be mistaken for one is
 * reported as -EIO). wq_strerror() has a sentence, wq_message() the daemon's
 * own words on the last one, wq_retriable() whether the same request may
 * succeed later. Where a wq_send_ call returns an error, nothing was sent and
 * its callback is not called.
 *
 * Times are milliseconds. Keys are 1 to 255 bytes of UTF-8 without control
 * characters; queue names 1 to 128, and NULL means "default".
 */
#ifndef WQ_H
#define WQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WQ_VERSION_MAJOR 0
#define WQ_VERSION_MINOR 1
#define WQ_VERSION_PATCH 0

/* A connection to a daemon (it may be down and come back), with its requests in flight. */
typedef struct wq wq_t;

/* ---- words ---- */

/* What a request did, or why not (from 64 on: errors, nothing was changed). */
typedef enum wq_status {
	WQ_OK = 0,
	WQ_CREATED = 1,             /* it was idle and is pending now */
	WQ_UPDATED_TIMER = 2,       /* it was armed; its deadline moved */
	WQ_UPDATED_READY = 3,       /* it was ready or held and was taken back */
	WQ_REQUEUED_RUNNING = 4,    /* it is running and will run once more */
	WQ_UNCHANGED = 5,           /* it was pending and the mode keeps that */
	WQ_SKIPPED = 6,             /* inside the coalescing slack: nothing to do */
	WQ_IDLE = 7,                /* nothing was pending or running */
	WQ_NOT_PENDING_RUNNING = 8, /* not pending; a run goes on */
	WQ_CANCELLED = 9,           /* the pending instance was taken away: it will not run */
	WQ_CANCELLED_RUNNING = 10,  /* taken away, while a run went on (or was stopped) */
	WQ_INVALID = 64,
	WQ_NOT_FOUND = 65,
	WQ_REFUSED_DISABLED = 66,
	WQ_REFUSED_DRAINING = 67,
	WQ_REFUSED_LIMIT = 68,
	WQ_UNAUTHORIZED = 69,
	WQ_STORAGE_ERROR = 70,
	WQ_TIMEOUT = 71,
	WQ_UNIMPLEMENTED = 72,
	WQ_EXISTS = 73,
	WQ_LEASE_LOST = 74 /* the lease is over: another may hold the job */
} wq_status_t;

typedef enum wq_state {
	WQ_STATE_IDLE = 0,
	WQ_STATE_ARMED = 1,
	WQ_STATE_READY = 2,
	WQ_STATE_HELD = 3,
	WQ_STATE_RUNNING = 4
} wq_state_t;

typedef enum wq_outcome {
	WQ_RUN_NONE = 0,
	WQ_RUN_DONE = 1,
	WQ_RUN_FAILED = 2,
	WQ_RUN_DEAD = 3,
	WQ_RUN_CANCELLED = 4,
	WQ_RUN_INTERRUPTED = 5,
	WQ_RUN_TIMEOUT = 6
} wq_outcome_t;

typedef enum wq_mode {
	WQ_SET = 0,     /* mod_delayed_work: the new deadline counts */
	WQ_KEEP = 1,    /* queue_delayed_work: the first deadline counts */
	WQ_EARLIER = 2, /* timer_reduce: only ever earlier */
	WQ_LATER = 3    /* only ever later: heartbeats that may arrive out of order */
} wq_mode_t;

typedef enum wq_payload {
	WQ_PAYLOAD_KEEP = 0,
	WQ_PAYLOAD_REPLACE = 1,
	WQ_PAYLOAD_APPEND = 2
} wq_payload_t;

typedef enum wq_durability {
	WQ_DEFAULT = 0, /* the queue's */
	WQ_SYNC = 1,    /* answered when on disk */
	WQ_ASYNC = 2,   /* on disk within the commit interval */
	WQ_MEMORY = 3   /* never on disk */
} wq_durability_t;

typedef enum wq_cancel_mode {
	WQ_CANCEL_PLAIN = 0,
	WQ_CANCEL_WAIT = 1, /* returns when no run is left */
	WQ_CANCEL_KILL = 2  /* stops a run, then as wait */
} wq_cancel_mode_t;

typedef enum wq_timers {
	WQ_TIMERS_KEEP = 0,
	WQ_TIMERS_EXPEDITE = 1,
	WQ_TIMERS_CANCEL = 2
} wq_timers_t;

/* Errors of the library itself. */
#define WQ_ERR_ADDRESS     (-2000) /* not "unix:PATH", "tcp://HOST:PORT" or "tls://HOST:PORT" */
#define WQ_ERR_CLOSED      (-2001) /* no connection, and the request may not be resent */
#define WQ_ERR_PROTOCOL    (-2002) /* the peer does not speak wq.v1 */
#define WQ_ERR_TOO_MANY    (-2003) /* "max_in_flight" requests wait already */
#define WQ_ERR_TOO_LARGE   (-2004) /* over the daemon's frame limit */
#define WQ_ERR_OPTION      (-2005) /* unknown option or bad value */
#define WQ_ERR_TIMEOUT     (-2006) /* no reply in time; the request may have been done */
#define WQ_ERR_UNSUPPORTED (-2007) /* not in this build or version */
#define WQ_ERR_TLS         (-2008) /* no TLS connection: wq_message() says why */
#define WQ_ERR_UNTRUSTED   (-2009) /* nobody who is trusted has issued the daemon's certificate */
#define WQ_ERR_WRONG_NAME  (-2010) /* it is the certificate of somebody else */
#define WQ_ERR_EXPIRED     (-2011) /* it has expired, or is not valid yet */

/* ---- handles ---- */

/*
 * Makes a handle for `server` (NULL: $WQ_SERVER, else "unix:/run/wqd/wqd.sock")
 * without connecting: that happens in the first wq_process, and again by itself,
 * with growing jittered pauses, when the connection breaks. A host name is asked
 * of the system's resolver then, which may block; numeric addresses never do.
 * 0, WQ_ERR_ADDRESS, -ENOMEM. *out is owned: wq_free.
 */
int
wq_new(const char *server, wq_t **out);
/*
 * wq_new, with options "name=value,name=value" (may be NULL), and connected: waits
 * at most "connect_timeout", and fails at once where nobody listens (-ENOENT,
 * -ECONNREFUSED ...). The usual start for blocking use.
 */
int
wq_connect(const char *server, const char *options, wq_t **out);
/*
 * Closes. Callbacks of requests in flight are called with WQ_ERR_CLOSED first. NULL is allowed. Not
 * inside a callback: that aborts.
 */
void
wq_free(wq_t *wq);
/*
 * Sets one option by name. Before the first request or wq_process.
 *
 *   name             default  meaning
 *   client           program  name shown in the daemon's log, at most 64 bytes
 *   connect_timeout  5s       for one try to connect, hello included
 *   timeout          30s      for a blocking call, besides its own waiting time; 0: none
 *   reconnect        yes      connect again by itself. no: a broken connection fails what is in
 *                             flight and stays broken until the next request
 *   reconnect_min    50ms     first pause; doubled each time, with jitter
 *   reconnect_max    5s       longest pause
 *   resend           yes      give requests that change a job an idempotency id of their own and
 *                             send them again after a reconnect; no: they fail
 *   max_in_flight    4096     requests waiting for replies
 *   run_token        $WQ_RUN_TOKEN  sent along: says which run the caller is part of
 *   sole_updater     no       the caller alone changes its jobs: updates that give a slack and stay
 *                             inside it are answered SKIPPED by the library itself
 *   tls_ca           $WQ_TLS_CA    file or folder of those who may have issued the daemon's
 *                             certificate; empty: the system's
 *   tls_cert         $WQ_TLS_CERT  file of the client's own certificate and its chain; empty: none
 *   tls_key          $WQ_TLS_KEY   file of its private key; empty: in the same file
 *   tls_name         host     name that the daemon's certificate has to have
 *   token_file       $WQ_TOKEN_FILE  file whose first line is the token that the daemon knows the
 *                             client by; read at each connect; empty: none
 *   namespace        $WQ_NAMESPACE   namespace in which all names of queues and completions are;
 *                             empty: none
 *   insecure         no       take whatever certificate the daemon shows; a warning says so on
 *                             standard error
 *
 * After a reconnect these are sent again: what was not sent yet; what only looks or waits; and,
 * with "resend", update, batch, cancel, wq_job and wq_completion, for at most 9 minutes (the daemon
 * keeps the ids for 10). All else (flush now, queue operations) fails with WQ_ERR_CLOSED.
 *
 * 0 or WQ_ERR_OPTION. Durations as "250ms", "30s", "1h30m".
 */
int
wq_set(wq_t *wq, const char *name, const char *value);

/* ---- turning the handle from an event loop ---- */

/* The descriptor to watch; -1 while there is none. It may change at each wq_process. */
int
wq_fd(const wq_t *wq);
#define WQ_READABLE 1
#define WQ_WRITABLE 2
/* What to watch it for: WQ_READABLE, WQ_WRITABLE or both. */
int
wq_events(const wq_t *wq);
/* Call wq_process after at most this long, also without events; -1: no limit. */
int
wq_timeout_ms(const wq_t *wq);
/*
 * Does what is to be done without blocking: reads, writes, connects, calls back. Returns 0, or the
 * negative error with which everything in flight has just failed: a peer that speaks nonsense or
 * turns the client away, no memory, and with "reconnect" off a connection that is gone. `ready`:
 * what the loop saw, 0 for a timeout. -EDEADLK inside a callback.
 */
int
wq_process(wq_t *wq, int ready);
/* Requests sent or queued and not yet answered. */
size_t
wq_in_flight(const wq_t *wq);
/*
 * `cb` is called when a call outside wq_process has changed what the hooks return: a request was
 * queued, or a blocking call has turned the handle. An event loop then asks the hooks again. NULL:
 * none. `cb` may not call the handle but by the hooks.
 */
typedef void (*wq_change_cb)(wq_t *wq, void *arg);
void
wq_on_change(wq_t *wq, wq_change_cb cb, void *arg);
/* Turns the handle until nothing is in flight or `timeout_ms` (-1: none) passed: 0, WQ_ERR_TIMEOUT,
 * or the error of wq_process. */
int
wq_run(wq_t *wq, int timeout_ms);

/* ---- answers ---- */

/* A finished run or attempt. */
typedef struct wq_run_info {
	size_t size; /* of this struct, as the library knows it */
	const char *queue;
	const char *key;
	uint64_t generation;
	uint32_t attempt;
	wq_outcome_t outcome;
	int exit_code;                        /* -1: did not exit */
	int signal;                           /* 0: not killed by one */
	int error;                            /* errno of a start that failed */
	int64_t due_ms, started_ms, ended_ms; /* started 0: never started */
	uint32_t coalesced;
	const void *output;
	size_t output_len;
	int truncated;
	int final; /* 0: another attempt follows */
} wq_run_info_t;

/* The reply to one request. `result` is 0 or the negative error that a blocking call returns. */
typedef struct wq_reply {
	size_t size;
	int result;
	wq_status_t status;  /* meaningless when `result` is a library error */
	const char *message; /* with an error: what was wrong; else NULL */
	wq_state_t state_before;
	int pending_before;
	int64_t deadline_ms;     /* Unix ms, effective; -1: none */
	int64_t old_deadline_ms; /* -1: none */
	uint64_t generation;
	uint32_t coalesced;
	uint32_t disable_depth;
	const char *key; /* the job's, also when the daemon made it; NULL where there is none */
	const wq_run_info_t *run; /* what was waited for; NULL: none */
	int local; /* 1: answered by the library (sole_updater): the daemon does not count it */
	const struct wq_completion_info *completion; /* as it is now; NULL: not about one */
} wq_reply_t;

/*
 * Called once for each request that was sent or queued, from wq_process (or a blocking call) only.
 * `arg` as given. May send further requests; a blocking call or wq_process inside it is -EDEADLK,
 * wq_free a bug.
 */
typedef void (*wq_reply_cb)(wq_t *wq, const wq_reply_t *reply, void *arg);

/* A reply kept by the caller of a blocking call: embeds copies, needs no freeing. */
typedef struct wq_result {
	wq_status_t status;
	wq_state_t state_before;
	int pending_before;
	int64_t deadline_ms, old_deadline_ms;
	uint64_t generation;
	uint32_t coalesced;
	uint32_t disable_depth;
	char key[256];
	int has_run;
	wq_outcome_t run_outcome;
	int run_exit_code, run_signal, run_error;
	uint32_t run_attempt;
	int local;
} wq_result_t;

/* ---- update ---- */

/* All there is to say about an update; WQ_UPDATE_INIT sets what most want. */
typedef struct wq_update_opts {
	size_t size;
	wq_mode_t mode;
	int64_t at_ms;       /* -1: use the delay; else Unix ms */
	int if_pending;      /* never makes a new instance */
	int64_t slack_ms;    /* -1: the queue's */
	int64_t max_wait_ms; /* -1: the queue's; 0: no bound */
	int64_t align_ms;    /* 0: none */
	int align_exact;     /* no per-key offset */
	wq_payload_t payload_mode;
	const void *payload;
	size_t payload_len;
	wq_durability_t durability;
	const char *idempotency_id; /* NULL: the library's own when "resend" is on */
	/* A command for this instance instead of the queue's handler: `n_command` words, program
	 * first, 128 KiB together. It comes with its payload (WQ_PAYLOAD_KEEP: none). For those who
	 * may: else -WQ_UNAUTHORIZED. */
	const char *const *command;
	size_t n_command;
} wq_update_opts_t;
#define WQ_UPDATE_INIT \
	{ \
		sizeof(wq_update_opts_t), WQ_SET, -1, 0, -1, -1, 0, 0, WQ_PAYLOAD_KEEP, NULL, 0, \
			WQ_DEFAULT, NULL, NULL, 0 \
	}

/*
 * mod_delayed_work: run `key` of `queue` in `delay_ms` (0: now; at most 100 years), and forget an
 * earlier deadline. `key` NULL: a new job, its key made by the daemon (see result). `opts`, `result`
 * may be NULL. Returns 0 or a negative error; the last error of connecting when "timeout" passed
 * and the request never left, WQ_ERR_TIMEOUT when it did. So do all blocking calls.
 */
int
wq_update(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_result_t *result);
int
wq_send_update(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_reply_cb cb, void *arg);
/* queue_delayed_work: the same with mode WQ_KEEP (over the mode in `opts`). */
int
wq_schedule(wq_t *wq, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts, wq_result_t *result);

/*
 * Many updates in one message, applied in order. `cb` is called once for each, in order; where the
 * batch was refused as a whole, each gets that. Add up to 4096 (then WQ_ERR_TOO_MANY), then send.
 * wq_batch_new: owned, given to wq_batch_send (freed there, also on error) or wq_batch_free, before
 * wq_free.
 */
typedef struct wq_batch wq_batch_t;
int
wq_batch_new(wq_t *wq, wq_batch_t **out);
int
wq_batch_update(wq_batch_t *b, const char *queue, const char *key, int64_t delay_ms,
	const wq_update_opts_t *opts);
int
wq_batch_send(wq_batch_t *b, wq_reply_cb cb, void *arg);
void
wq_batch_free(wq_batch_t *b);

/* ---- cancel, flush, wait ---- */

/*
 * Takes the pending instance away. WQ_CANCEL_WAIT and _KILL return when no run of the job is left;
 * `timeout_ms` bounds that (-1: none), then -WQ_TIMEOUT.
 */
int
wq_cancel(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	wq_result_t *result);
int
wq_send_cancel(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	wq_reply_cb cb, void *arg);

/* What more can be said about a change that is no update; WQ_CHANGE_INIT says nothing. */
typedef struct wq_change_opts {
	size_t size;
	wq_durability_t durability; /* of the change: WQ_SYNC is answered when it is on disk */
	const char *idempotency_id; /* NULL: the library's own when "resend" is on */
} wq_change_opts_t;
#define WQ_CHANGE_INIT \
	{ \
		sizeof(wq_change_opts_t), WQ_DEFAULT, NULL \
	}
/* wq_cancel and wq_send_cancel with options (NULL: none). */
int
wq_cancel_with(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode, int timeout_ms,
	const wq_change_opts_t *opts, wq_result_t *result);
int
wq_send_cancel_with(wq_t *wq, const char *queue, const char *key, wq_cancel_mode_t mode,
	int timeout_ms, const wq_change_opts_t *opts, wq_reply_cb cb, void *arg);

/* flush_work (now 0) and flush_delayed_work (now 1): waits for what is ready or running. */
int
wq_flush(
	wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_result_t *result);
int
wq_send_flush(wq_t *wq, const char *queue, const char *key, int now, int timeout_ms, wq_reply_cb cb,
	void *arg);
/* flush_workqueue: waits for all that is ready, held or running now. */
int
wq_flush_queue(wq_t *wq, const char *queue, int timeout_ms);
int
wq_send_flush_queue(wq_t *wq, const char *queue, int timeout_ms, wq_reply_cb cb, void *arg);
/* The final result of one instance (generation 0: the newest); a kept one at once. */
int
wq_wait(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_result_t *result);
int
wq_send_wait(wq_t *wq, const char *queue, const char *key, uint64_t generation, int timeout_ms,
	wq_reply_cb cb, void *arg);

/* ---- completions ---- */

/*
 * struct completion of the kernel, by name (as a key), for programs that wait for one another. A
 * completion is a level: what was completed before anybody waits is remembered. It exists by being
 * named: one that nobody has completed is closed, with a count of 0.
 */
typedef struct wq_completion_info {
	uint32_t done; /* completed and not yet taken; stops at its maximum; 0 while open */
	int open;      /* wq_completion_complete_all was the last word */
	uint64_t waiters;
	wq_durability_t durability; /* WQ_MEMORY: a restart forgets it */
} wq_completion_info_t;

/*
 * wait_for_completion: takes one, first come, first served, or walks through the open gate.
 * `timeout_ms` bounds it: -1 no limit, 0 only tries (try_wait_for_completion). 0, or -WQ_TIMEOUT:
 * then nothing was taken. When the connection breaks while a reply is on its way, the one it spoke
 * of is lost, and the wait sent again.
 */
int
wq_completion_wait(wq_t *wq, const char *name, int timeout_ms);
int
wq_send_completion_wait(wq_t *wq, const char *name, int timeout_ms, wq_reply_cb cb, void *arg);

typedef enum wq_completion_op {
	WQ_COMPLETION_COMPLETE = 37,     /* complete: one more, for one waiter */
	WQ_COMPLETION_COMPLETE_ALL = 38, /* complete_all: for every present and later waiter */
	WQ_COMPLETION_REINIT = 39,       /* reinit_completion: closed, a count of 0 */
	WQ_COMPLETION_SHOW = 40          /* only look */
} wq_completion_op_t;
/*
 * `durability`: WQ_DEFAULT leaves it as it is, which is WQ_MEMORY for a new one; WQ_ASYNC and WQ_SYNC
 * have it survive a restart from now on. A completion that is closed, at 0, and not waited for is
 * forgotten, level and all. `now` (may be NULL): what has become of it.
 */
int
wq_completion(wq_t *wq, wq_completion_op_t op, const char *name, wq_durability_t durability,
	wq_completion_info_t *now);
/* The same, asynchronously: reply->completion. */
int
wq_send_completion(wq_t *wq, wq_completion_op_t op, const char *name, wq_durability_t durability,
	wq_reply_cb cb, void *arg);

/* ---- one job ---- */

typedef enum wq_job_op {
	WQ_OP_DELETE = 21,  /* cancels what is pending and forgets results */
	WQ_OP_DISABLE = 22, /* cancels, and refuses updates until enabled as often */
	WQ_OP_ENABLE = 23,
	WQ_OP_KICK = 24 /* an armed job is ready now; a dead one runs again */
} wq_job_op_t;
int
wq_job(wq_t *wq, wq_job_op_t op, const char *queue, const char *key, wq_result_t *result);
int
wq_send_job(
	wq_t *wq, wq_job_op_t op, const char *queue, const char *key, wq_reply_cb cb, void *arg);
/* The same with options (NULL: none). */
int
wq_job_with(wq_t *wq, wq_job_op_t op, const char *queue, const char *key,
	const wq_change_opts_t *opts, wq_result_t *result);
int
wq_send_job_with(wq_t *wq, wq_job_op_t op, const char *queue, const char *key,
	const wq_change_opts_t *opts, wq_reply_cb cb, void *arg);

typedef struct wq_job_info {
	size_t size;
	const char *queue;
	const char *key;
	wq_state_t state;
	int pending; /* also with WQ_STATE_RUNNING: will run once more */
	wq_state_t pending_state;
	int64_t deadline_ms; /* -1: none */
	uint64_t generation;
	uint32_t attempt;
	uint32_t coalesced;
	uint32_t disable_depth;
	wq_durability_t durability;
	uint64_t payload_bytes;
	int dead;
	const wq_run_info_t *last; /* NULL: none kept */
	const char *
		lease_holder; /* the worker that has it; "": not known since a restart; NULL: none */
	int64_t lease_left_ms; /* never below 0 */
	uint64_t lease_token;  /* 0: not known since a restart */
	int lease_touched;
	int has_command; /* it has a command of its own */
	const char *const
		*command; /* its words, NULL behind; NULL: none, or left out of a long list */
	size_t n_command;
} wq_job_info_t;

typedef struct wq_queue_info {
	size_t size;
	const char *queue;
	uint64_t jobs, armed, ready, held, running;
	int paused, draining;
	size_t n_settings;
	const char *const *names;  /* n_settings of them, as in the configuration */
	const char *const *values; /* text */
	uint64_t workers;          /* subscribed */
	uint64_t held_prefix;      /* of held: as many jobs of their prefix run as may */
	int64_t rate_next_ms;      /* Unix time of the next start, while the rate lets none in; 0 */
} wq_queue_info_t;

/*
 * ---- looking ----
 *
 * `each` returns 0 to go on, anything else to stop (which is no error). What it is given is
 * borrowed. It may call anything but wq_free, blocking calls too.
 */

typedef int (*wq_job_cb)(const wq_job_info_t *job, void *arg);
typedef int (*wq_run_cb)(const wq_run_info_t *run, void *arg);
typedef int (*wq_queue_cb)(const wq_queue_info_t *queue, void *arg);
typedef int (*wq_counter_cb)(const char *name, int64_t value, void *arg);

/* -WQ_NOT_FOUND when the job is unknown. */
int
wq_get(wq_t *wq, const char *queue, const char *key, wq_job_cb each, void *arg);

typedef struct wq_list_opts {
	size_t size;
	const char *queue;              /* NULL: all */
	const char *prefix;             /* of the key; NULL: any */
	int state;                      /* wq_state_t, or -1: any */
	int64_t due_from_ms, due_to_ms; /* -1: no bound */
	uint32_t page;                  /* jobs a round trip, 0: 500 */
} wq_list_opts_t;
#define WQ_LIST_INIT \
	{ \
		sizeof(wq_list_opts_t), NULL, NULL, -1, -1, -1, 0 \
	}
/* All matching jobs, page by page, in no particular order; one that exists throughout is shown once. */
int
wq_list(wq_t *wq, const wq_list_opts_t *opts, wq_job_cb each, void *arg);
/* Kept runs, newest first, page by page; `key` NULL: of the whole queue; at most `limit` (0: all).
 * Runs that end meanwhile are not shown. */
int
wq_history(wq_t *wq, const char *queue, const char *key, uint64_t limit, wq_run_cb each, void *arg);
int
wq_stat(wq_t *wq, wq_counter_cb each, void *arg);
/* Round trip; *rtt_us may be NULL. */
int
wq_ping(wq_t *wq, int64_t *rtt_us);
/* What was wrong with the daemon's disk (full, failing, slow, gone) at the last wq_ping or wq_stat, in
 * words; "" when nothing was. Borrowed until the next. */
const char *
wq_trouble(const wq_t *wq);

/* ---- queues ---- */

/* `names`/`values`: settings as in wqd.conf(5). -WQ_EXISTS, -WQ_INVALID (wq_message says which). */
int
wq_queue_create(
	wq_t *wq, const char *queue, size_t n, const char *const *names, const char *const *values);
int
wq_queue_set(
	wq_t *wq, const char *queue, size_t n, const char *const *names, const char *const *values);
/* `queue` NULL: all. */
int
wq_queue_show(wq_t *wq, const char *queue, wq_queue_cb each, void *arg);
int
wq_queue_delete(wq_t *wq, const char *queue, wq_timers_t timers, int timeout_ms);
int
wq_pause(wq_t *wq, const char *queue);
int
wq_resume(wq_t *wq, const char *queue);
/* How far a drain is. */
typedef struct wq_progress {
	size_t size;
	uint64_t left;     /* ready, held or running that it waits for */
	uint64_t running;  /* of those */
	int64_t oldest_ms; /* how long the longest run has been going on; -1: none runs */
} wq_progress_t;
typedef void (*wq_progress_cb)(wq_t *wq, const wq_progress_t *progress, void *arg);
/*
 * wq_drain, asynchronously; `progress` (may be NULL) is called at once and then about every
 * `progress_ms` until `cb` is. wq_send_drain is undone when the connection breaks.
 */
int
wq_send_drain(wq_t *wq, const char *queue, wq_timers_t timers, int pause_after, int timeout_ms,
	int progress_ms, wq_progress_cb progress, wq_reply_cb cb, void *arg);
/* drain_workqueue. `pause_after`: nothing starts when it returns. */
int
wq_drain(wq_t *wq, const char *queue, wq_timers_t timers, int pause_after, int timeout_ms);

/* ---- watching ---- */

typedef enum wq_event_kind {
	WQ_EVENT_NONE = 0,  /* no event: the stream begins, has a gap, or (`result` below 0) ends */
	WQ_EVENT_ARMED = 1, /* pending from now on, with a deadline ahead */
	WQ_EVENT_UPDATED = 2, /* was pending; the deadline moved */
	WQ_EVENT_SKIPPED = 3, /* an update inside the coalescing slack */
	WQ_EVENT_READY = 4,   /* the deadline has come */
	WQ_EVENT_STARTED = 5,
	WQ_EVENT_FINISHED = 6,  /* a run, or an attempt of it */
	WQ_EVENT_CANCELLED = 7, /* what was pending was taken away */
	WQ_EVENT_QUEUE = 8,     /* a queue: see `change` */
	WQ_EVENT_RETURNED = 9 /* what had started had not: a start that failed, a lease released */
} wq_event_kind_t;

typedef struct wq_event {
	size_t size;
	int result; /* below 0: the stream is over; nothing else counts then */
	wq_event_kind_t kind;
	uint64_t position; /* to go on behind it: wq_watch_opts_t.after */
	uint64_t lost;     /* WQ_EVENT_NONE: events that came before and were not sent */
	int lost_unknown;  /* WQ_EVENT_NONE: and nobody knows how many more */
	int64_t at_ms;
	const char *queue;
	const char *key; /* "": of a queue */
	uint64_t generation;
	uint32_t attempt, coalesced;
	int64_t deadline_ms;  /* -1: none */
	wq_outcome_t outcome; /* WQ_EVENT_FINISHED */
	int final;            /* WQ_EVENT_FINISHED: no other attempt follows */
	const char *change;   /* WQ_EVENT_QUEUE: "created", "changed", "paused", "resumed",
			         "draining", "drained", "undrained", "deleted"; else "" */
} wq_event_t;
typedef void (*wq_event_cb)(wq_t *wq, const wq_event_t *event, void *arg);

typedef struct wq_watch_opts {
	size_t size;
	const char *queue;  /* NULL: all */
	const char *prefix; /* of the key; NULL: any, and events of queues */
	uint32_t kinds;     /* 1 << WQ_EVENT_ARMED | ...; 0: all */
	int resume;         /* go on behind `after`, as far as the daemon still has it */
	uint64_t after;
} wq_watch_opts_t;
#define WQ_WATCH_INIT \
	{ \
		sizeof(wq_watch_opts_t), NULL, NULL, 0, 0, 0 \
	}

/*
 * What happens from now on, as it happens (that is before it is on disk). `cb` is called for each
 * event, with WQ_EVENT_NONE at the beginning and at a gap, and once with a negative `result` when
 * the connection breaks: then ask again with the last position. A reader that is slower than
 * events come loses the oldest, counted. `opts` may be NULL. It stays in flight until then.
 */
int
wq_send_watch(wq_t *wq, const wq_watch_opts_t *opts, wq_event_cb cb, void *arg);

/* ---- workers ---- */

/*
 * A worker takes jobs of queues whose action is lease (docs/workers.md): it is handed so many at a
 * time, each under a lease that ends when it is not touched, and says how each ended. A handle has
 * one worker at most; the application turns the handle as always. When the connection breaks, what
 * the worker has is lost (the daemon gives it to others), and it subscribes again by itself.
 */
typedef struct wq_worker wq_worker_t;
/* A job that the worker has: the application's, until it says how it ended. */
typedef struct wq_work wq_work_t;

typedef struct wq_work_info {
	size_t size;
	const char *queue;
	const char *key;
	uint64_t generation;
	uint32_t attempt;
	uint32_t coalesced;
	const void *payload; /* all parts, one behind the other */
	size_t payload_len;
	const size_t *parts; /* their lengths */
	size_t n_parts;
	int64_t due_ms;
	int64_t lease_ms; /* its length */
	uint64_t token;   /* fencing: higher than that of any lease before */
	uint64_t
		run_token; /* for the option of that name, on a handle that speaks from inside the run */
	int lost;          /* the lease is over: others may have the job */
} wq_work_info_t;

typedef void (*wq_work_cb)(wq_worker_t *worker, wq_work_t *work, void *arg);
/* 0: subscribed. Below: not (any more). It goes on by itself unless wq_worker_over says otherwise. */
typedef void (*wq_worker_state_cb)(wq_worker_t *worker, int error, void *arg);

typedef struct wq_worker_opts {
	size_t size;
	const char *const *queues; /* at most 64; none: "default" */
	size_t n_queues;
	unsigned credits; /* jobs at a time: 1 to 1024; 0: 1 */
	int manual_touch; /* the application touches. 0: the library does, each third of a lease */
	wq_work_cb work;  /* a job has come; NULL: wq_worker_next gives it */
	wq_work_cb lost;  /* its lease is over. Stop, and end it all the same. NULL: not told */
	wq_worker_state_cb state; /* may be NULL */
	void *arg;
} wq_worker_opts_t;
#define WQ_WORKER_INIT \
	{ \
		sizeof(wq_worker_opts_t), NULL, 0, 1, 0, NULL, NULL, NULL, NULL \
	}

/*
 * Subscribes. `opts` NULL: the defaults. 0, -EBUSY (the handle has a worker), -EINVAL, -ENOMEM, or
 * the error of queueing a request. What the daemon says comes by `state`.
 */
int
wq_worker_new(wq_t *wq, const wq_worker_opts_t *opts, wq_worker_t **out);
/* Ends it: what it has is released as if never begun. Before wq_free, and not inside a callback. NULL
 * is allowed. */
void
wq_worker_free(wq_worker_t *worker);
/* No more jobs from now on. What it has it keeps. */
int
wq_worker_stop(wq_worker_t *worker);
/* So many jobs at a time from now on, at most 1024; 0: no more for the moment. */
int
wq_worker_credits(wq_worker_t *worker, unsigned credits);
/* 1: it gets no more jobs and has none left. *error (may be NULL): 0, or why the daemon refused. */
int
wq_worker_over(const wq_worker_t *worker, int *error);
/*
 * Turns the handle until there is a job (of a worker without a `work` callback): 0, WQ_ERR_TIMEOUT
 * after `timeout_ms` (-1: none), WQ_ERR_CLOSED when it was stopped, or why it is over. Leases are
 * touched only while the handle is turned: whoever works longer touches himself.
 */
int
wq_worker_next(wq_worker_t *worker, int timeout_ms, wq_work_t **out);
/* Turns the handle until the worker is over and its last words have arrived: 0, or why it is over. */
int
wq_worker_run(wq_worker_t *worker);

/* Borrowed until the work has ended. */
const wq_work_info_t *
wq_work_get(const wq_work_t *work);

/* How the work ended. All may be left as WQ_END_INIT has them. */
typedef struct wq_end {
	size_t size;
	int exit_code;      /* -1: none */
	int signal;         /* 0: none */
	const void *output; /* kept with the result, at most 1 MiB; of a failure: the reason */
	size_t output_len;
	int truncated;
	int64_t retry_after_ms; /* of a failure: -1: as the queue says */
	wq_durability_t durability;
} wq_end_t;
#define WQ_END_INIT \
	{ \
		sizeof(wq_end_t), -1, 0, NULL, 0, 0, -1, WQ_DEFAULT \
	}

/*
 * The last word on it: done, failed, or never begun. 0: `work` is gone, and `cb` (may be NULL) gets
 * the answer: -WQ_LEASE_LOST when the lease was over before. Else nothing was sent, and it is still
 * there. `end` NULL: the defaults.
 */
int
wq_work_finish(wq_work_t *work, const wq_end_t *end, wq_reply_cb cb, void *arg);
int
wq_work_fail(wq_work_t *work, const wq_end_t *end, wq_reply_cb cb, void *arg);
int
wq_work_release(wq_work_t *work, wq_reply_cb cb, void *arg);
/* The lease ends so long from now (0: as the queue says). -WQ_LEASE_LOST when it is known to be over. */
int
wq_work_touch(wq_work_t *work, int64_t lease_ms);

/* ---- the daemon ---- */

int
wq_reload(wq_t *wq);
int
wq_shutdown(wq_t *wq, int drain);
/*
 * The daemon's program is exchanged for the one that stands in its place on the disk now, while
 * connections, timers and runs go on. With `check` it is only asked whether it could take over. 0: the
 * new one serves; it has answered this call. Anything else: the old one goes on as before, and
 * wq_error() says why: -WQ_INVALID (the new one can't take over, or could not start),
 * -WQ_REFUSED_DRAINING (a queue drains, or the daemon stops), -WQ_REFUSED_LIMIT (another is going on),
 * -WQ_TIMEOUT (it did not come to rest).
 */
int
wq_upgrade(wq_t *wq, int check);

/* ---- care of its state: for root and the daemon's own user, over a unix socket ---- */

/* Gets the next bytes of a stream, borrowed; returns 0 to go on, anything else to get no more. */
typedef int (*wq_bytes_cb)(const void *data, size_t len, void *arg);
/*
 * A copy of the daemon's database as it is at one moment, with all that was acknowledged before the
 * call: put in place of the database, wqd starts from it. Whole when 0 is returned. The daemon goes on
 * meanwhile; it needs as much room again beside its database. -WQ_STORAGE_ERROR, -WQ_REFUSED_LIMIT
 * (another is going on), -WQ_INVALID (nothing is stored).
 */
int
wq_backup(wq_t *wq, wq_bytes_cb each, void *arg);
/* Every page and row of the files is read; `each` gets how many things there are. Commits wait
 * meanwhile. -WQ_STORAGE_ERROR: wq_message says what is wrong. */
int
wq_check(wq_t *wq, wq_counter_cb each, void *arg);
/* Queues, completions and jobs as lines of JSON (see wqctl(1)), some whole lines at a time. What
 * exists throughout is there. */
int
wq_export(wq_t *wq, wq_bytes_cb each, void *arg);

struct wq_part {
	const void *data;
	size_t len;
};
/* A job as an export has it; WQ_SAVED_JOB_INIT sets what most have. */
typedef struct wq_saved_job {
	size_t size;
	const char *queue; /* NULL: "default" */
	const char *key;
	wq_state_t state; /* idle, armed, ready */
	int64_t due_ms;   /* Unix ms, of armed and ready ones; -1: none */
	int absolute;     /* the deadline follows the wall clock */
	int64_t delay_ms; /* as asked; -1: was asked for as a time */
	int64_t slack_ms, max_wait_ms;
	int64_t created_ms;  /* -1: now */
	uint64_t generation; /* of the last run started */
	uint32_t attempt;    /* of the last run started, or of the retry to come */
	int retry;
	uint32_t coalesced, disable_depth;
	int dead;
	wq_durability_t durability;
	const struct wq_part *parts; /* of the payload */
	size_t n_parts;
	int command; /* the first part is one: its words, each with a NUL behind it */
} wq_saved_job_t;
#define WQ_SAVED_JOB_INIT \
	{ \
		sizeof(wq_saved_job_t), NULL, NULL, WQ_STATE_IDLE, -1, 0, -1, 0, 0, -1, 0, 0, 0, \
			0, 0, 0, WQ_DEFAULT, NULL, 0, 0 \
	}
/*
 * Brings a job in. WQ_CREATED when it is on disk; WQ_UNCHANGED: there is one that is pending, running,
 * disabled or dead, or has run since, and is left alone: an import may be repeated. `dry_run`: the
 * reply says what would be done.
 */
int
wq_send_import(wq_t *wq, const wq_saved_job_t *job, int dry_run, wq_reply_cb cb, void *arg);

/* ---- words and errors ---- */

/* "CREATED" ...; "?" for an unknown number. Static storage, any thread. */
const char *
wq_status_word(wq_status_t status);
const char *
wq_state_word(wq_state_t state);
const char *
wq_outcome_word(wq_outcome_t outcome);
const char *
wq_event_word(wq_event_kind_t kind);
/* A sentence for any error this library returns. Static storage, any thread. */
const char *
wq_strerror(int error);
/* The word for an error: "INVALID", "CLOSED", "EPIPE" ... Static storage. */
const char *
wq_error_word(int error);
/* The daemon's own words on the last error, or what the library has to add to it (which address,
 * which argument); "" when none. Each blocking call begins with none. Borrowed until the next call. NULL: of the
 * latest wq_connect of this thread, which failed. */
const char *
wq_message(const wq_t *wq);
/* 1 when the same request may succeed later without anybody changing it. */
int
wq_retriable(int error);
/* "250ms", "30s", "1h30m", "2d", also plain milliseconds; 0 or WQ_ERR_OPTION. */
int
wq_parse_duration(const char *text, int64_t *ms);
/* "0.1.0" */
const char *
wq_version(void);

#ifdef __cplusplus
}
#endif

#endif
