/*
 * wqctl inside. One invocation is one verb: argv is read against the command
 * table (ctl_verbs.c) into a `struct ctl`, the verb's handler asks the daemon
 * through wq.h and prints one answer, and its exit status is main's.
 *
 *   ctl_verbs.c   the table: verbs, arguments, options, sentences
 *   ctl_args.c    argv -> struct ctl, usage errors
 *   ctl_help.c    help, man page sections and bash completion from the table
 *   ctl_text.c ctl_time.c ctl_target.c ctl_sort.c ctl_hist.c   pure
 *   ctl_out.c     answers and errors as text or JSON; whether they got out
 *   ctl_conn.c    connecting, one request and its reply
 *   ctl_child.c   commands that `work` runs
 *   the others    handlers
 *
 * Everything runs on one thread. Memory runs out: the process ends.
 */
#ifndef WQ_CTL_H
#define WQ_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl_target.h"
#include "wq.h"

#define CTL_DEFAULT_SERVER "unix:/run/wqd/wqd.sock"
#define ARRAY_LEN(a)       (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
#define CTL_EXIT_TABLE(X) \
	X(CTL_DONE,         0, "done") \
	X(CTL_FAILED,       1, "failed, or the output could not be written") \
	X(CTL_USAGE,        2, "wrong usage; nothing was asked") \
	X(CTL_NOT_FOUND,    3, "no such queue or job, or nothing was pending") \
	X(CTL_REFUSED,      4, "refused: disabled, draining, or a limit is reached") \
	X(CTL_UNAUTHORIZED, 5, "not authorised, or no permission to connect") \
	X(CTL_RUN_FAILED,   6, "the run that was waited for failed or was cancelled") \
	X(CTL_TIMED_OUT,    7, "timed out") \
	X(CTL_NO_DAEMON,    8, "no daemon answers at the address")
/* clang-format on */
enum ctl_exit {
#define X(name, num, text) name = num,
	CTL_EXIT_TABLE(X)
#undef X
};

/* ---- the command table ---- */

enum ctl_option_id {
	OPT_SERVER,
	OPT_JSON,
	OPT_TLS_CA,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_INSECURE,
	OPT_TOKEN_FILE,
	OPT_NAMESPACE,
	OPT_TIMEOUT,
	OPT_QUIET,
	OPT_HELP,
	OPT_VERSION,
	OPT_QUEUE,
	OPT_IN,
	OPT_AT,
	OPT_MODE,
	OPT_IF_PENDING,
	OPT_SLACK,
	OPT_MAX_WAIT,
	OPT_ALIGN,
	OPT_ALIGN_EXACT,
	OPT_PAYLOAD,
	OPT_PAYLOAD_FILE,
	OPT_APPEND,
	OPT_ID,
	OPT_DURABILITY,
	OPT_STDIN,
	OPT_WAIT,
	OPT_KILL,
	OPT_NOW,
	OPT_GENERATION,
	OPT_PREFIX,
	OPT_STATE,
	OPT_DUE_FROM,
	OPT_DUE_TO,
	OPT_LIMIT,
	OPT_SORT,
	OPT_TIMERS,
	OPT_PAUSE_AFTER,
	OPT_DRAIN,
	OPT_CHECK,
	OPT_KEYS,
	OPT_COUNT,
	OPT_PIPELINE,
	OPT_BATCH,
	OPT_DELAY,
	OPT_KEEP,
	OPT_KINDS,
	OPT_AFTER,
	OPT_FORCE,
	OPT_STATE_DIR,
	OPT_DRY_RUN,
	OPT_SHIFT_OVERDUE,
	OPT_JOBS,
	OPT_ONCE,
	OPT_LINES,
	OPT_KEY,
	OPT_N
};

/* What an option's value is; the parser checks and converts it. */
enum ctl_kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_NUMBER,   /* value.num, `min` to `max` */
	KIND_DURATION, /* value.num in ms */
	KIND_TIME,     /* RFC 3339; value.num in Unix ms */
	KIND_WORD,     /* one of `words`; value.num is its index */
	KIND_FILE,
	KIND_QUEUE
};

struct ctl_option {
	enum ctl_option_id id;
	const char *name;
	char letter; /* 0: none */
	enum ctl_kind kind;
	const char *value;        /* what help calls the value */
	const char *doc;          /* one sentence */
	const char *const *words; /* KIND_WORD: NULL-terminated, in wq.h's numbering from 0 */
	int64_t min, max;
};

/* What completion offers for the first argument. */
enum ctl_arg_kind { ARG_NONE, ARG_TARGET, ARG_QUEUE, ARG_VERB };

/* ctl_verb.op of verbs that wq.h has no word for. */
enum ctl_op { CTL_QUEUE_CREATE, CTL_QUEUE_SET, CTL_PAUSE, CTL_RESUME };

struct ctl;
struct ctl_verb {
	const char *name; /* "update", "queue set" */
	const char *args; /* as help prints them */
	int args_min, args_max;
	enum ctl_arg_kind arg_kind;
	const char *summary; /* a line without full stop */
	const char *doc;     /* paragraphs, separated by an empty line; NULL: none */
	const struct ctl_option *options;
	size_t n_options;
	bool hidden;
	bool waits; /* may take as long as --timeout allows; else as long as a reply takes */
	int op;     /* which of the verbs that share a handler, in wq.h's words or enum ctl_op */
	int (*run)(struct ctl *c);
};

extern const struct ctl_verb ctl_verbs[];
extern const size_t ctl_n_verbs;
extern const struct ctl_option ctl_global_options[];
extern const size_t ctl_n_global_options;

/* The verb of that name, or NULL. */
const struct ctl_verb *
ctl_verb_find(const char *name);
/* Whether `name` is the first word of verbs of two ("queue"). */
bool
ctl_verb_is_group(const char *name);

/* ---- one invocation ---- */

struct ctl_value {
	const char *text; /* NULL: not given */
	int64_t num;
};

struct ctl_reply_slot {
	struct ctl_target target;
	int (*show)(struct ctl *c, const struct ctl_target *t, const wq_reply_t *reply);
	void *more; /* the shower's */
	int exit;
	bool answered, abandoned;
};

/* What a payload option names, read. */
struct ctl_payload {
	char *buf; /* owned: mem_free */
	size_t len;
};

struct ctl {
	const struct ctl_verb *verb; /* NULL: none named */
	struct ctl_value opt[OPT_N];
	const char **arg; /* owned array of borrowed argv strings */
	int n_args;
	const char *group; /* first word of a verb of two, while the second is missing */
	const char *server;
	bool json;
	bool quiet;
	bool reconnects; /* the connection may come back */
	int out_errno;   /* first failure to write stdout */
	wq_t *wq;        /* NULL: not connected */
	struct ctl_reply_slot slot;
};

static inline bool
ctl_given(const struct ctl *c, enum ctl_option_id id)
{
	return c->opt[id].text != NULL;
}
/* The option's number, or `otherwise` when it was not given. */
static inline int64_t
ctl_num(const struct ctl *c, enum ctl_option_id id, int64_t otherwise)
{
	return c->opt[id].text ? c->opt[id].num : otherwise;
}

/* Everything, from argv to the exit status. */
int
ctl_main(int argc, char **argv);
/* Reads argv; 0 or CTL_USAGE with the error printed. */
int
ctl_args_parse(struct ctl *c, int argc, char **argv);
void
ctl_args_done(struct ctl *c);

/* ---- asking the daemon: ctl_conn.c ---- */

/* 0, or the exit status with the error printed. */
int
ctl_connect(struct ctl *c);
void
ctl_disconnect(struct ctl *c);
/* --timeout as the bound of a waiting operation; -1: none. */
int
ctl_wait_ms(const struct ctl *c);
/* Turns the handle until nothing is in flight: 0 or a negative error. `waits`: the operation
 * may take as long as ctl_wait_ms() allows. */
int
ctl_turn(struct ctl *c, bool waits);
/*
 * One asynchronous request: set c->slot by ctl_expect, send with ctl_on_reply and `c`, then give
 * the sender's result to ctl_await. `show` prints the reply and returns the exit status.
 */
void
ctl_expect(struct ctl *c, const struct ctl_target *t,
	int (*show)(struct ctl *, const struct ctl_target *, const wq_reply_t *));
void
ctl_on_reply(wq_t *wq, const wq_reply_t *reply, void *arg);
int
ctl_await(struct ctl *c, int sent, bool waits);
/* The target in argument `i`, --queue heeded: 0 or CTL_USAGE with the error printed. */
int
ctl_arg_target(struct ctl *c, int i, struct ctl_target *t);

/* ---- handlers ---- */
int
ctl_do_update(struct ctl *c);
/* The payload options, into `opts`: 0 or an exit status with the error printed. */
int
ctl_take_payload(struct ctl *c, wq_update_opts_t *opts, struct ctl_payload *file);
int
ctl_do_run(struct ctl *c);
/* Targets and delays from stdin; the rest of each update from `opts`. */
int
ctl_do_batch(struct ctl *c, const wq_update_opts_t *opts);
int
ctl_do_cancel(struct ctl *c);
int
ctl_do_flush(struct ctl *c);
int
ctl_do_wait(struct ctl *c);
int
ctl_do_job_op(struct ctl *c);
int
ctl_do_get(struct ctl *c);
int
ctl_do_list(struct ctl *c);
int
ctl_do_history(struct ctl *c);
int
ctl_do_watch(struct ctl *c);
int
ctl_do_why(struct ctl *c);
/* Pulls jobs and runs a command for each. */
int
ctl_do_work(struct ctl *c);
int
ctl_do_queue_list(struct ctl *c);
int
ctl_do_queue_show(struct ctl *c);
int
ctl_do_queue_change(struct ctl *c);
int
ctl_do_queue_delete(struct ctl *c);
int
ctl_do_pause(struct ctl *c);
int
ctl_do_drain(struct ctl *c);
/* complete, complete-all, reinit, show. */
int
ctl_do_completion(struct ctl *c);
int
ctl_do_completion_wait(struct ctl *c);
int
ctl_do_stat(struct ctl *c);
int
ctl_do_ping(struct ctl *c);
int
ctl_do_backup(struct ctl *c);
int
ctl_do_check(struct ctl *c);
int
ctl_do_export(struct ctl *c);
int
ctl_do_import(struct ctl *c);
int
ctl_do_reload(struct ctl *c);
int
ctl_do_upgrade(struct ctl *c);
int
ctl_do_shutdown(struct ctl *c);
int
ctl_do_bench(struct ctl *c);
int
ctl_do_help(struct ctl *c);
int
ctl_do_dump_man(struct ctl *c);
int
ctl_do_dump_completion(struct ctl *c);
/* `wqctl VERB --help`. */
int
ctl_help_verb(const struct ctl_verb *v);
int
ctl_help_all(void);
/* There is no verb `name`: says so, and which may be meant. CTL_USAGE. */
int
ctl_no_verb(struct ctl *c, const char *name);

#endif
