/*
 * The service: what all sessions share. It owns the engine's effects: a step
 * made for one session may answer others. It decides when a `durable` reply may
 * go out, keeps counters, and asks `daemon` (by the hooks) for what is not its
 * business: starting runs, making groups, reloading, stopping.
 *
 * Loop thread only.
 */
#ifndef WQD_SERVICE_SERVICE_H
#define WQD_SERVICE_SERVICE_H

#include "base/buf.h"
#include "base/grants.h"
#include "engine/engine.h"
#include "wire/request.h"

struct service;
struct session;

/* clang-format off */
#define SERVICE_COUNTER_TABLE(X) \
	X(connections_accepted, "connections taken") \
	X(connections_refused,  "connections turned away at the limit") \
	X(connections_dropped,  "connections closed for breaking the protocol or a time limit") \
	X(requests,             "requests decoded") \
	X(requests_malformed,   "frames that were no request") \
	X(bytes_in,             "bytes read from clients") \
	X(bytes_out,            "bytes written to clients") \
	X(reads_paused,         "times a connection was not read on for its unsent output") \
	X(backups,              "copies of the state given out") \
	X(auth_failures,        "greetings that were refused: a wrong token, or no role") \
	X(unauthorized,         "requests that their client may not make") \
	X(refused_connections,  "connections over the limit of an identity or namespace") \
	X(refused_rate,         "requests over such a limit of a second") \
	X(refused_waiters,      "requests over such a limit of those that wait") \
	X(refused_watchers,     "watches over such a limit") \
	X(refused_jobs,         "jobs over the limit of a role or namespace") \
	X(refused_bytes,        "updates over its limit of bytes")
/* clang-format on */

struct service_counters {
#define X(name, doc) uint64_t name;
	SERVICE_COUNTER_TABLE(X)
#undef X
	uint64_t connections;  /* gauge */
	uint64_t replies[128]; /* by status number */
};

struct service_config {
	struct engine *engine; /* borrowed */
	const char *server;    /* "wqd 0.1.0" */
	const char *instance;
	uint32_t frame_max, max_in_flight, output_max;
	size_t watch_bytes;  /* of events kept while somebody watches */
	uint64_t watch_from; /* positions of events are larger: than those of earlier daemons */
	int64_t hello_timeout_ns, frame_timeout_ns;
	const struct grants *grants; /* borrowed; NULL: none */
	void *ctx;
	/* Whose token it is: a name (borrowed), or NULL. May be NULL: no tokens. */
	const char *(*token_name)(void *ctx, struct str token);
	void (*start_run)(void *ctx, const struct run_start *r);
	void (*kill_run)(void *ctx, uint64_t run_id);
	/* A worker has lost a lease without its word. May be NULL. */
	void (*revoked)(void *ctx, struct session *s);
	/* A session is about to be freed. May be NULL. */
	void (*session_gone)(void *ctx, const struct session *s);
	void (*stalled)(void *ctx, const struct pool_stall *s); /* may be NULL */
	/* The session's output has grown outside session_input. */
	void (*output_ready)(void *ctx, struct session *s);
	/* Inside session_input, with more of it to do: what is in the output may go out now, so that
	 * its peer works on that meanwhile. NULL: it goes out when the input is done. */
	void (*output_early)(void *ctx, struct session *s);
	/* Why a queue of that action can't have that handler; NULL: it can. May be NULL. */
	const char *(*handler_misfit)(void *ctx, struct str handler, enum action action);
	/* Reads the configuration again; on failure a sentence in `why`. */
	int (*reload)(void *ctx, char *why, size_t size);
	void (*shutdown)(void *ctx, bool drain);
	/* Begins an upgrade, or a check of what there is to upgrade to; its end is told by
	 * service_upgraded. 0, or a negative error with a sentence in `why`. NULL: it can't be. */
	int (*upgrade)(void *ctx, bool check, char *why, size_t size);
	/* What is wrong with the disk, "" when nothing is. NULL: nobody knows. */
	void (*trouble)(void *ctx, struct moment now, char *dst, size_t size);
	/* Adds the daemon's own counters to a stat reply. */
	void (*stat)(void *ctx, void (*put)(void *arg, const char *name, int64_t value), void *arg);
};

int
service_new(const struct service_config *cfg, struct service **out);
void
service_free(struct service *svc);
/* Who copies and checks the files of `dir`; until then there is nothing to copy. Borrowed, and closed
 * before the service is freed. */
struct writer;
void
service_set_writer(struct service *svc, struct writer *w, const char *dir);
/* A step with its effects applied: for the daemon's own events (tick, runs, stop). */
void
service_step(struct service *svc, struct moment now, const struct engine_event *ev);
/* The session's worker gets no more jobs; its subscription is over when it holds none. */
void
service_end_subscription(struct service *svc, struct session *s, struct moment now);
/* At the end of each turn of the loop: what goes out in a stream. Returns the boot time at which it
 * has something to do though nothing happened; INT64_MAX: none. */
int64_t
service_turn(struct service *svc, struct moment now);
/*
 * Group commit progress. Durable replies wait until `mark` (engine_dirty_mark of their step)
 * is covered. service_commit_failed answers all that wait with STORAGE_ERROR: what came after the
 * failed group is committed only when that has been.
 */
void
service_committed(struct service *svc, uint64_t mark);
void
service_commit_failed(struct service *svc, int error);
/* While degraded, updates of levels sync and async are refused with STORAGE_ERROR before
 * anything changes; cancel, completion and reads go on, and what would have to wait for a commit
 * gets STORAGE_ERROR at once. */
void
service_set_degraded(struct service *svc, bool degraded);
/* Whether root and the daemon's own user may have commands run that are no handlers. Not before it
 * is said. */
void
service_set_allow_command(struct service *svc, bool allow);
/* From now on newcomers are REFUSED_DRAINING. */
void
service_set_stopping(struct service *svc);
/* How the upgrade ended, or the check: the answer to who asked, if he is still there. */
void
service_upgraded(struct service *svc, enum status st, const char *message);
/* After a reload: sessions may do from now on what it says (borrowed), also in those that are open. */
void
service_set_grants(struct service *svc, const struct grants *g);
/* engine_configure_queue with its effects applied: what the configuration file says of a queue. 0
 * or a negative error. */
int
service_configure_queue(
	struct service *svc, struct moment now, struct str name, const struct queue_settings *s);
/* A framed REFUSED_LIMIT reply of id 0, for who is turned away at the door. Lives as long as the
 * service. */
struct str
service_busy_reply(const struct service *svc);
struct service_counters *
service_counters(struct service *svc);
/* Durable replies that wait for a commit. */
size_t
service_waiting_commit(const struct service *svc);

#endif
