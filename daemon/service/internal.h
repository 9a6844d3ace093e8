/*
 * What the files of service/ share; nobody else includes it.
 *
 *   session.c   bytes in, states and limits of a connection
 *   service.c   steps and their effects, life of the service
 *   reply.c     replies out: at once, or held until a commit
 *   watch.c     events out, to those who watch
 *   progress.c  how far drains are
 *   ops_worker.c  jobs out, to workers
 *   care.c      copies and checks, by the writer thread
 *   jsonl.c     state as lines of JSON
 *   carry.c     sessions over an exec
 *   ops_*.c     one function for each operation
 */
#ifndef WQD_SERVICE_INTERNAL_H
#define WQD_SERVICE_INTERNAL_H

#include <sys/types.h>

#include "base/carry.h"
#include "base/list.h"
#include "base/peer.h"
#include "service/access.h"
#include "service/account.h"
#include "service/service.h"
#include "service/session.h"
#include "service/tickets.h"
#include "wire/wire.h"

#define SERVICE_MAGIC 0x5e2f1ce1u
#define SESSION_MAGIC 0x5e551011u

/* Frames decoded together before the first is applied. */
#define GATHER_MAX 64

struct gathered {
	struct request req;
	const char *why; /* INVALID, and why; or NULL */
	size_t end;      /* of its frame, from the start of the input */
};

/* One request being answered. */
struct call {
	struct session *s;
	const struct request *req;
	struct moment now;
	uint64_t ticket; /* of the engine event made for it, or 0 */
	bool made_key;   /* CALL_TICKET: the update left its key to the engine */
};

/* Of the request being answered, when the engine answers it within its step, as it does all updates: it
 * needs no ticket to be found by. No other has this number. */
#define CALL_TICKET UINT64_MAX

/* The results of a batch, while its updates are applied one by one. */
struct batch {
	struct wire_list *results; /* owned */
	struct wire_list *spoiled; /* owned; as `results`, but STORAGE_ERROR for the durable ones */
	size_t n;
	bool durable; /* any of them; from then on both lists are kept */
};

struct watch;
struct care;

struct service {
	unsigned magic;
	struct service_config cfg;
	struct service_counters counters;
	struct effects fx;
	bool stepping; /* effects are being applied */
	bool degraded, stopping;
	bool allow_command; /* to the daemon's owner */
	struct list sessions;
	struct tickets tickets;
	struct list held; /* struct held, in order of their marks */
	size_t n_held;
	uint64_t committed;      /* marks up to here are on disk */
	const struct call *call; /* the request being answered, or NULL */
	struct batch batch;
	uid_t uid;                 /* ours */
	struct arena *arena;       /* owned; what is decoded of one read */
	struct gathered *gathered; /* owned; GATHER_MAX of them */
	struct wire_list *list;    /* owned */
	struct buf scratch;        /* a reply that will be held */
	struct buf_spare spare;    /* of the sessions' outputs, which most leave empty */
	struct buf busy;           /* the reply for who is turned away */
	const struct run_record
		*run_of; /* whose encoding is in run_bytes, for this step; or NULL */
	struct buf run_bytes;
	struct watch *watch;         /* owned */
	struct care *care;           /* owned */
	struct list progress;        /* struct progress */
	const struct grants *grants; /* borrowed; NULL: none */
	bool spaces;                 /* some session or queue is in a namespace */
	struct list accounts;
	unsigned denials; /* of late: each is answered later than the last */
	int64_t denied_ns;
	struct session *upgrader; /* who asked for the upgrade that goes on, or NULL */
	uint64_t upgrade_id;      /* of that request */
	bool upgrading;
	uint64_t *unsent; /* owned; runs that their worker was not sent */
	size_t n_unsent;
};

/* DENIED: its hello was refused, and will be answered so at the deadline. */
enum session_state { SESSION_HELLO, SESSION_OPEN, SESSION_DENIED, SESSION_CLOSING };

struct session {
	unsigned magic;
	enum session_state state;
	struct service *svc; /* borrowed */
	struct list link;
	struct peer peer;
	void *user;
	struct buf out;
	struct list tickets; /* struct ticket */
	struct list held;    /* struct held */
	struct list watchers;
	uint32_t in_flight; /* of all three */
	size_t held_bytes;
	size_t put_from;       /* length of the output when a reply was begun */
	bool deaf;             /* its replies reach nobody */
	bool paused;           /* the last look found it unwilling to be read */
	int64_t deadline_ns;   /* boot time; INT64_MAX: none */
	uint64_t subscription; /* ticket; 0: no worker */
	char client[CLIENT_NAME_MAX + 1];
	struct identity id;
	char *works_on; /* owned; inner name of the queue whose worker program it is; NULL: none */
	struct access access;
	struct account *accounts[2]; /* of its identity, of its namespace; NULL: no limits */
	char space[NAMESPACE_NAME_MAX];
	uint8_t space_n;    /* 0: in none */
	bool whole;         /* imports: names what is in namespaces too */
	uint64_t denied_id; /* DENIED: of the hello */
};

/* A reply that waits for a commit. */
struct held {
	struct list link; /* service.held */
	struct list of_session;
	struct session *s;
	uint64_t mark;
	uint64_t request_id;
	enum status status; /* of the reply, for its counter */
	size_t n_ok,
		n_spoiled; /* bytes: the reply, and the one for a failed commit (0: a plain one) */
	uint8_t bytes[];
};

/* ---- reply.c ---- */

/*
 * One reply of a session: begin, a wire_put function on what begin gave, end with its result. NULL:
 * the session is closing, nothing is sent any more. A reply that could not be put (out of memory)
 * closes the session: its peer must not wait for it.
 */
struct buf *
reply_begin(struct session *s);
void
reply_end(struct session *s, enum status st, int put_result);
void
reply_status(struct session *s, uint64_t request_id, enum status st, const char *message);
/* The engine's answer to `t`, which is given back. */
void
reply_job(struct service *svc, struct ticket *t, const struct job_reply *r, bool durable);
/* The same to the call, an update with CALL_TICKET. */
void
reply_update(struct service *svc, const struct job_reply *r, bool durable);
/* The same to an update that has no call. */
void
reply_plain(struct session *s, const struct request *req, const struct job_reply *r, bool durable);
/* One more result of the batch. */
void
batch_add(struct service *svc, const struct job_reply *r, bool durable);
/* All its results are there: the reply to the call. */
void
reply_batch(struct service *svc);
/* Sends a held reply: itself when `error` is 0, else STORAGE_ERROR in its place; and frees it. */
void
held_release(struct held *h, int error);
void
held_free(struct held *h);

/* It has something to send, or room for more requests. */
void
session_changed(struct session *s);

/* ---- service.c ---- */

/* A ticket for the call's request, in flight from now on; NULL: out of memory, and answered so. */
struct ticket *
service_ticket(struct service *svc, struct call *c, bool made_key);
/* Sends the call's request to the engine as `ev`; the answer comes through reply_job. */
void
service_ask(struct service *svc, struct call *c, struct engine_event *ev, bool made_key);

/* ---- session.c ---- */

/* One answer for whatever was wrong, or is not there. */
#define NOT_AUTHORISED "not authorised"
/* The first refused greeting is answered after so long, each further one after twice that; one
 * is forgotten each second. */
#define DENIED_FIRST_NS (100 * NS_PER_MS)
#define DENIALS_MAX     5
/* The hello is refused: answered UNAUTHORIZED after a while, then closed. */
void
session_deny(struct session *s, uint64_t request_id, struct moment now);
/* Nothing more is taken or answered; closes when the output is sent. */
void
session_close(struct session *s);
/* Bytes of replies that are not sent: in the output, or held. */
static inline size_t
session_unsent(const struct session *s)
{
	return buf_len(&s->out) + s->held_bytes;
}

/* ---- access.c: where requests have their names ---- */

/* NULL: it names no queue. */
struct str *
request_queue(struct request *r);
/* That name is but a filter of what is shown. */
bool
request_filters(const struct request *r);
struct str *
request_completion(struct request *r);
/* NULL: it takes no idempotency id. Those of a batch are its updates' own. */
struct str *
request_idem(struct request *r);
/* NULL: the session may give commands of its own; or why not. */
const char *
access_no_command(const struct session *s);

/* An update without a command is for the engine alone to judge: of this session now, no role, limit,
 * namespace, stop or failing store has anything to say about it. */
static inline bool
updates_freely(const struct session *s)
{
	const struct service *svc = s->svc;

	return s->state == SESSION_OPEN && (s->access.all & MAY_SUBMIT) && !svc->spaces &&
		s->access.some == s->access.all && !s->accounts[0] && !s->accounts[1] &&
		!svc->stopping && !svc->degraded;
}

/* ---- space.c ---- */

/* From now on names are looked at. */
void
space_begin(struct service *svc);
/* Names of the request become those of the session's namespace. NULL, or why it is INVALID. */
const char *
space_enter(struct session *s, struct request *r);
/* It names, by the inner name, what is in a namespace: as exports have it, for who may export. */
bool
space_imports(const struct session *s, struct request *r);
/* The session's namespace has its queue `default`. ST_OK or REFUSED_LIMIT. */
enum status
space_open(struct service *svc, struct session *s, struct moment now);

/* ---- watch.c ---- */

int
watch_new(struct service *svc);
void
watch_free(struct service *svc);
/* Something has happened. */
void
watch_note(struct service *svc, const struct watch_event *e, struct moment now);
/* The session watches no more. */
void
watch_leave(struct session *s, struct moment now);
/* Over an exec: the session's watchers, and where the positions of events go on. */
void
watch_carry_out(const struct session *s, struct carry_out *o);
int
watch_carry_in(struct session *s, const struct carry_record *r);
uint64_t
watch_position(const struct service *svc);
void
watch_begin_at(struct service *svc, uint64_t position);
/* Gives the watchers what they have room for. True: there is more to give at once. */
bool
watch_turn(struct service *svc, struct moment now);

/* ---- progress.c ---- */

#define PROGRESS_MIN_NS (100 * NS_PER_MS)
/* After the engine has been asked: begins when it did not answer at once. */
void
progress_begin(struct service *svc, struct call *c);
/* Tells what is due; returns when the next is, INT64_MAX: never. */
int64_t
progress_turn(struct service *svc, struct moment now);
void
progress_free(struct service *svc);

/* ---- ops_worker.c ---- */

/* `ticket` is the subscription of its session from now on. */
void
worker_subscribed(struct service *svc, uint64_t ticket);
/* Sends a job, or notes that it could not. */
void
worker_give(struct service *svc, const struct run_start *r);
void
worker_revoked(struct service *svc, uint64_t ticket, const struct lease_revoked *r);
/* ---- care.c ---- */

int
care_new(struct service *svc);
void
care_free(struct service *svc);
/* The session is told nothing more. */
void
care_leave(struct session *s);
/* Nothing is copied or checked. */
bool
care_idle(const struct service *svc);
/* Goes on with what is under way; when it is to be called again. */
int64_t
care_turn(struct service *svc, struct moment now);

/* ---- operations ---- */

/* What is wrong with the disk, as ping and stat tell it. */
#define TROUBLE_MAX 256
void
service_trouble(const struct service *svc, struct moment now, char dst[TROUBLE_MAX]);
/* The role `admin` has allowed it; that it was asked is worth a line. NULL: it is not. */
void
service_log_command(const struct call *c, const char *what);

typedef void
op_fn(struct service *svc, struct call *c);
struct op {
	op_fn *fn;
	int cost; /* about how many updates it takes as long as, at its worst */
};
extern const struct op op_table[REQ_KIND_COUNT];

op_fn op_unknown, op_hello, op_ping, op_reload, op_shutdown, op_upgrade;
op_fn op_update, op_update_batch, op_cancel, op_flush, op_flush_queue, op_wait, op_delete,
	op_disable, op_enable, op_kick;
op_fn op_get, op_list, op_history, op_stat;
op_fn op_queue_create, op_queue_set, op_queue_show, op_queue_list, op_queue_delete, op_pause,
	op_resume, op_drain;
op_fn op_completion_wait, op_complete, op_complete_all, op_completion_reinit, op_completion_show;
op_fn op_watch;
op_fn op_subscribe, op_credits, op_unsubscribe, op_touch, op_finish, op_fail, op_release;
op_fn op_backup, op_check, op_export, op_import_job;

/* The reply of queue_create and queue_set: the queue as it is now. */
int
put_queue_reply(struct service *svc, struct buf *out, uint64_t request_id, enum status st,
	struct str queue);

/* The reply of what changes a completion: that as it is now. */
int
put_completion_reply(
	struct service *svc, struct buf *out, uint64_t request_id, enum status st, struct str name);

#endif
