#include "service/session.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "service/internal.h"
#include "wire/frame.h"

/* No reply without a list and without the output of a run is larger. */
#define SMALL_REPLY_MAX 1024u
/* Updates, or as much other work, that one session may have done in one turn of the loop. */
#define TURN_BUDGET 8192
/* After so much of it with more to come, what has been answered leaves: the peer wakes up on another
 * processor, reads and asks again while we go on, and neither waits for the other's whole read. Less
 * would spend more on system calls than that gains. */
#define EARLY_WORK 64

int
session_new(struct service *svc, const struct peer *peer, struct moment now, struct session **out)
{
	struct session *s = x_zalloc(sizeof *s);

	CHECK_OBJ(svc, SERVICE_MAGIC);
	if (!s)
		return -ENOMEM;
	s->magic = SESSION_MAGIC;
	s->svc = svc;
	s->peer = *peer;
	s->peer.names = NULL;
	s->peer.groups = NULL;
	s->peer.works_on = STR_NONE;
	if (peer->works_on.n)
		s->works_on = x_strndup(peer->works_on.p, peer->works_on.n);
	if ((peer->works_on.n && !s->works_on) || identity_init(&s->id, peer) < 0) {
		x_free(s->works_on);
		x_free(s);
		return -ENOMEM;
	}
	/* Reading stops at output_max; one large reply, jobs for a worker and the small replies of
	 * all that is in flight may still come on top. */
	buf_init(&s->out,
		svc->cfg.output_max + 2 * WIRE_REPLY_MAX +
			(size_t)svc->cfg.max_in_flight * SMALL_REPLY_MAX);
	buf_use_spare(&s->out, &svc->spare);
	list_init(&s->tickets);
	list_init(&s->held);
	list_init(&s->watchers);
	list_append(&svc->sessions, &s->link);
	s->deadline_ns = sat_add(now.boot_ns, svc->cfg.hello_timeout_ns);
	svc->counters.connections_accepted++;
	svc->counters.connections++;
	*out = s;
	return 0;
}

void
session_free(struct session *s, struct moment now)
{
	struct service *svc;
	struct ticket *t;
	struct held *h;

	if (!s)
		return;
	CHECK_OBJ(s, SESSION_MAGIC);
	svc = s->svc;
	if (svc->cfg.session_gone)
		svc->cfg.session_gone(svc->cfg.ctx, s);
	s->state = SESSION_CLOSING;
	watch_leave(s, now);
	care_leave(s);
	/* The upgrade itself goes on. */
	if (svc->upgrader == s)
		svc->upgrader = NULL;
	while ((h = list_first(&s->held, struct held, of_session)) != NULL)
		held_free(h);
	while ((t = list_first(&s->tickets, struct ticket, link)) != NULL) {
		struct engine_event ev = { .kind = EV_ABANDON, .ticket = ticket_number(t) };

		accounts_waiter(s, -1);
		ticket_give(&svc->tickets, t);
		service_step(svc, now, &ev);
	}
	accounts_close(s);
	identity_done(&s->id);
	x_free(s->works_on);
	list_del(&s->link);
	svc->counters.connections--;
	buf_done(&s->out);
	MAGIC_DONE(s);
	x_free(s);
}

void
session_set_user(struct session *s, void *user)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	s->user = user;
}

void *
session_user(const struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return s->user;
}

uint64_t
session_subscription(const struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return s->subscription;
}

struct buf *
session_output(struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return &s->out;
}

static inline bool
wants_input(const struct session *s)
{
	return s->state < SESSION_DENIED && session_unsent(s) < s->svc->cfg.output_max &&
		s->in_flight < s->svc->cfg.max_in_flight;
}

bool
session_wants_input(const struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return wants_input(s);
}

bool
session_closing(const struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return s->state == SESSION_CLOSING;
}

int64_t
session_deadline(const struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	return s->deadline_ns;
}

void
session_close(struct session *s)
{
	if (s->state == SESSION_CLOSING)
		return;
	s->state = SESSION_CLOSING;
	s->deadline_ns = INT64_MAX;
	s->svc->counters.connections_dropped++;
}

void
session_deny(struct session *s, uint64_t request_id, struct moment now)
{
	struct service *svc = s->svc;
	int64_t forgotten = (now.boot_ns - svc->denied_ns) / NS_PER_S;

	svc->denials = forgotten < svc->denials ? svc->denials - (unsigned)forgotten : 0;
	svc->denied_ns = now.boot_ns;
	svc->counters.auth_failures++;
	s->state = SESSION_DENIED;
	s->denied_id = request_id;
	s->deadline_ns = now.boot_ns + (DENIED_FIRST_NS << svc->denials);
	if (svc->denials < DENIALS_MAX)
		svc->denials++;
}

void
session_expired(struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	if (s->state == SESSION_DENIED) {
		reply_status(s, s->denied_id, ST_UNAUTHORIZED, NOT_AUTHORISED);
		session_close(s);
		return;
	}
	reply_status(s, 0, ST_TIMEOUT,
		s->state == SESSION_HELLO ? "no hello came in time"
					  : "a message begun was not completed in time");
	session_close(s);
}

void
session_deaf(struct session *s)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	s->deaf = true;
}

/* ---- input ---- */

/*
 * Decodes whole frames from the front of `in` (of which nothing is consumed) up
 * to the limits of a batch. *err: what is wrong with the frame after them; 0:
 * nothing, or it is not whole. A frame that only lacks room in the arena comes
 * first in the next batch, and has it all.
 */
static size_t
gather(struct session *s, const struct buf *in, int *err)
{
	struct service *svc = s->svc;
	size_t max = svc->cfg.max_in_flight - s->in_flight;
	size_t n = 0, at = 0;

	*err = 0;
	arena_reset(svc->arena);
	while (n < GATHER_MAX && n < max && at < buf_len(in)) {
		struct gathered *g = &svc->gathered[n];
		const uint8_t *msg;
		size_t len, need;
		long used = frame_next(
			buf_head(in) + at, buf_len(in) - at, svc->cfg.frame_max, &msg, &len, &need);

		if (used <= 0) {
			*err = (int)used;
			break;
		}
		*err = wire_decode(svc->arena, msg, len, &g->req, &g->why);
		if (*err) {
			if (*err == -ENOMEM && n > 0)
				*err = 0;
			break;
		}
		at += (size_t)used;
		g->end = at;
		n++;
	}
	return n;
}

/* May it ask that? What all of its requests have in common is one comparison. */
static bool
may_ask(struct session *s, const struct request *r)
{
	unsigned need = op_needs[r->kind];

	return (need && (need & ~s->access.all) == 0) || access_asks(s, r);
}

static void
apply_allowed(struct session *s, struct gathered *g, struct call *c)
{
	bool inner = space_imports(s, &g->req);
	const char *why = s->svc->spaces && !inner ? space_enter(s, &g->req) : NULL;
	unsigned n = g->req.kind == REQ_UPDATE_BATCH ? (unsigned)g->req.batch.n : 1;

	if (inner && !s->svc->spaces)
		space_begin(s->svc);
	if (why)
		reply_status(s, g->req.id, ST_INVALID, why);
	else if ((s->accounts[0] || s->accounts[1]) && !accounts_request(s, n, c->now))
		reply_status(
			s, g->req.id, ST_REFUSED_LIMIT, "so many requests a second, and no more");
	else
		op_table[g->req.kind].fn(s->svc, c);
}

/* All that comes of it is a reply, which may be long. */
static bool
only_looks(enum request_kind kind)
{
	switch ((int)kind) {
	case REQ_GET:
	case REQ_LIST:
	case REQ_HISTORY:
	case REQ_QUEUE_SHOW:
	case REQ_QUEUE_LIST:
	case REQ_STAT:
	case REQ_COMPLETION_SHOW:
	case REQ_WATCH:
	case REQ_BACKUP:
	case REQ_CHECK:
	case REQ_EXPORT:
		return true;
	default:
		return false;
	}
}

static void
apply(struct session *s, struct gathered *g, struct moment now)
{
	struct service *svc = s->svc;
	struct call c = { .s = s, .req = &g->req, .now = now };

	svc->counters.requests++;
	svc->call = &c;
	if (s->state == SESSION_HELLO && g->req.kind != REQ_HELLO) {
		reply_status(s, g->req.id, ST_INVALID, "the first message must be hello");
		session_close(s);
	} else if (s->deaf && only_looks(g->req.kind)) {
		/* Whoever has hung up with many of them on their way is no burden to others. */
	} else if (g->why) {
		reply_status(s, g->req.id, ST_INVALID, g->why);
		if (s->state == SESSION_HELLO)
			session_close(s);
	} else if (s->state == SESSION_OPEN && !may_ask(s, &g->req)) {
		svc->counters.unauthorized++;
		reply_status(s, g->req.id, ST_UNAUTHORIZED, NOT_AUTHORISED);
	} else {
		apply_allowed(s, g, &c);
	}
	svc->call = NULL;
}

/* A plain reschedule, which most requests are, in one go. False: nothing has changed, and
 * the general path is for it. */
static bool
apply_plain(struct session *s, const struct gathered *g, struct moment now)
{
	struct service *svc = s->svc;
	struct job_reply r;
	bool durable;

	if (g->req.kind != REQ_UPDATE || g->why || g->req.update.command.n > 0 ||
		!engine_reschedule(
			svc->cfg.engine, now, &g->req.update, g->req.run_token, &r, &durable))
		return false;
	svc->counters.requests++;
	reply_plain(s, &g->req, &r, durable);
	return true;
}

/* What a request costs, in updates: one that looks at much is cheap to send, but not to answer. */
static int
cost(const struct session *s, const struct request *r)
{
	if (s->deaf && only_looks(r->kind))
		return 1;
	if (r->kind == REQ_UPDATE_BATCH)
		return 1 + (int)r->batch.n;
	return op_table[r->kind].cost;
}

/* The jobs that the next requests are about. */
static void
look_ahead(const struct service *svc, size_t i, size_t n)
{
	const struct job_name *names[ENGINE_AHEAD_MAX];
	size_t n_names = 0;

	for (; i < n && n_names < ENGINE_AHEAD_MAX; i++) {
		const struct gathered *g = &svc->gathered[i];

		if (g->why)
			continue;
		if (g->req.kind == REQ_UPDATE)
			names[n_names++] = &g->req.update.job;
		else if (g->req.kind == REQ_CANCEL)
			names[n_names++] = &g->req.cancel.job;
	}
	if (n_names > 1)
		engine_ahead(svc->cfg.engine, names, n_names);
}

/* What a session may still do in this turn. */
struct budget {
	int left;
	int early_at; /* with so much left answers leave early */
};

static void
output_early(struct session *s, struct budget *b)
{
	struct service *svc = s->svc;

	if (b->left > b->early_at)
		return;
	b->early_at = b->left - EARLY_WORK;
	if (svc->cfg.output_early && buf_len(&s->out) > 0)
		svc->cfg.output_early(svc->cfg.ctx, s);
}

/* Applies the batch in order until the session wants no more, or the turn's budget is spent; returns
 * how many. */
static size_t
apply_all(struct session *s, size_t n, struct moment now, struct budget *b)
{
	bool plain = updates_freely(s);
	size_t i = 0;

	while (i < n) {
		struct gathered *g;

		if (b->left <= 0 || !wants_input(s))
			break;
		output_early(s, b);
		if (i % ENGINE_AHEAD_MAX == 0)
			look_ahead(s->svc, i, n < i + ENGINE_AHEAD_MAX ? n : i + ENGINE_AHEAD_MAX);
		g = &s->svc->gathered[i++];
		b->left -= cost(s, &g->req);
		if (plain && apply_plain(s, g, now))
			continue;
		apply(s, g, now);
		/* It may have been what changes that: a greeting, a stop. */
		plain = updates_freely(s);
	}
	return i;
}

static void
malformed(struct session *s, int err)
{
	s->svc->counters.requests_malformed++;
	if (err == ERR_TOO_LONG)
		reply_status(s, 0, ST_REFUSED_LIMIT, "the message is longer than frame_max");
	else if (err == ERR_MALFORMED)
		reply_status(s, 0, ST_INVALID, "this is no message of wq.v1");
	else
		reply_status(s, 0, ST_REFUSED_LIMIT, "the message is too large to take apart");
	session_close(s);
}

/* The time limit of a begun frame runs from when it was the first in hand, not from its latest
 * byte. */
static void
set_deadline(struct session *s, struct moment now, bool moved, bool partial)
{
	if (s->state != SESSION_OPEN)
		return;
	if (!partial)
		s->deadline_ns = INT64_MAX;
	else if (moved || s->deadline_ns == INT64_MAX)
		s->deadline_ns = sat_add(now.boot_ns, s->svc->cfg.frame_timeout_ns);
}

static void
note_pause(struct session *s)
{
	bool paused = s->state != SESSION_CLOSING && !session_wants_input(s);

	if (paused && !s->paused)
		s->svc->counters.reads_paused++;
	s->paused = paused;
}

int
session_input(struct session *s, struct moment now, struct buf *in)
{
	size_t before = buf_len(in), n, done;
	struct budget b = { TURN_BUDGET, TURN_BUDGET - EARLY_WORK };
	int err = 0;
	bool more;

	CHECK_OBJ(s, SESSION_MAGIC);
	do {
		if (!session_wants_input(s) || b.left <= 0)
			break;
		n = gather(s, in, &err);
		done = apply_all(s, n, now, &b);
		if (done > 0)
			buf_consume(in, s->svc->gathered[done - 1].end);
		if (err && done == n && s->state != SESSION_CLOSING)
			malformed(s, err);
	} while (n > 0);
	s->svc->counters.bytes_in += before - buf_len(in);
	more = b.left <= 0 && session_wants_input(s) && buf_len(in) > 0;
	set_deadline(
		s, now, buf_len(in) < before, !more && session_wants_input(s) && buf_len(in) > 0);
	note_pause(s);
	return s->state == SESSION_CLOSING ? ERR_CLOSED : more;
}
