/*
 * A decoded request, and what a reply is made of: plain structs between the
 * wire adapter and the sessions. Bytes are borrowed from what was read or from the arena of the
 * connection until the batch they came in has been answered.
 */
#ifndef WQD_WIRE_REQUEST_H
#define WQD_WIRE_REQUEST_H

#include "engine/engine.h"

enum request_kind {
	REQ_UNKNOWN, /* an operation this daemon does not know: UNIMPLEMENTED */
	REQ_HELLO,
	REQ_PING,
	REQ_UPDATE,
	REQ_UPDATE_BATCH,
	REQ_CANCEL,
	REQ_FLUSH,
	REQ_FLUSH_QUEUE,
	REQ_WAIT,
	REQ_GET,
	REQ_LIST,
	REQ_HISTORY,
	REQ_DELETE,
	REQ_DISABLE,
	REQ_ENABLE,
	REQ_KICK,
	REQ_QUEUE_CREATE,
	REQ_QUEUE_SET,
	REQ_QUEUE_SHOW,
	REQ_QUEUE_LIST,
	REQ_QUEUE_DELETE,
	REQ_PAUSE,
	REQ_RESUME,
	REQ_DRAIN,
	REQ_STAT,
	REQ_RELOAD,
	REQ_SHUTDOWN,
	REQ_COMPLETION_WAIT,
	REQ_COMPLETE,
	REQ_COMPLETE_ALL,
	REQ_COMPLETION_REINIT,
	REQ_COMPLETION_SHOW,
	REQ_WATCH,
	REQ_SUBSCRIBE,
	REQ_CREDITS,
	REQ_UNSUBSCRIBE,
	REQ_TOUCH,
	REQ_FINISH,
	REQ_FAIL,
	REQ_RELEASE,
	REQ_BACKUP,
	REQ_CHECK,
	REQ_EXPORT,
	REQ_IMPORT_JOB,
	REQ_UPGRADE,
	REQ_KIND_COUNT
};

#define CLIENT_NAME_MAX   64 /* bytes */
#define ECHO_MAX          64
#define BATCH_MAX         4096 /* updates of one request */
#define COMMAND_WORDS_MAX 1024
#define SETTINGS_MAX      64    /* settings of one request */
#define PARTS_MAX         65536 /* payload parts of an imported job */
#define PAGE_DEFAULT      100   /* jobs or runs of one reply */
#define PAGE_MAX          1000

struct req_hello {
	uint32_t version;
	struct str client, token, namespace_;
};

struct req_ping {
	struct str echo;
};

struct req_list {
	struct str queue, prefix;
	bool has_state;
	enum job_state state;
	int64_t due_from_ns, due_to_ns;
	uint64_t cursor;
	uint32_t limit; /* 1 to PAGE_MAX */
};

struct req_history {
	struct job_name job;
	uint64_t skip;
	uint32_t limit; /* 1 to PAGE_MAX */
};

#define WATCH_KINDS_MAX 16 /* of one request */

struct req_watch {
	struct str queue, prefix;
	uint32_t kinds; /* a bit for each enum watch_kind */
	bool has_after;
	uint64_t after; /* position */
};

struct req_drain {
	struct op_drain op;
	int64_t progress_ns; /* 0: none */
};

struct request {
	uint64_t id;
	uint64_t run_token;
	enum request_kind kind;
	union {
		struct req_hello hello;
		struct req_ping ping;
		struct op_update update;
		struct {
			const struct op_update *v;
			/* why[i]: what is wrong with the values of v[i], or NULL; no why: nothing
			 * is with any */
			const char *const *why;
			size_t n;
		} batch;
		struct op_cancel cancel;
		struct op_flush flush;
		struct op_flush_queue flush_queue;
		struct op_wait wait;
		struct op_job job; /* get, delete, disable, enable, kick */
		struct req_list list;
		struct req_history history;
		struct op_queue_set queue_set;
		struct op_queue queue;
		struct op_queue_delete queue_delete;
		struct req_drain drain;
		bool drain_first; /* shutdown */
		bool upgrade_check;
		uint64_t cursor; /* queue_list */
		struct op_completion completion;
		struct req_watch watch;
		struct op_subscribe subscribe;
		struct op_credits credits; /* unsubscribe too */
		struct op_lease lease;     /* touch, finish, fail, release */
		uint64_t export_cursor;
		struct op_import import;
	};
};

#endif
