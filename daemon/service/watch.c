/*
 * Watching: what happens, as a stream.
 *
 * Events are encoded once, into a ring that all watchers share; a watcher is a
 * place in it and a filter. At the end of each turn each is given what it has
 * room for. One that is slower than the ring is long loses the oldest, counted,
 * and costs nobody anything. So the memory of watching is the ring, and half of
 * output_max for each who does not read.
 *
 * The ring exists while somebody watches, and for a while after, so that who
 * comes back in time goes on where he was. Otherwise the engine tells nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "service/internal.h"

#define NOTE_BYTES   128u            /* of the ring, for each note there is room for */
#define EVENTS_MAX   (64u << 10)     /* bytes of events in one reply */
#define LOOKS_MAX    4096u           /* notes that one watcher is shown in a turn */
#define LINGER_NS    (60 * NS_PER_S) /* the ring goes on after the last watcher */
#define WATCHERS_MAX 1024u

struct note {
	uint32_t at;  /* in the ring: queue, key, then the event as encoded */
	uint16_t len; /* of the event */
	uint8_t queue_n, key_n;
	uint8_t kind;
};

struct watch {
	struct list watchers;
	size_t n_watchers;
	uint8_t *ring;      /* owned; NULL: not recording */
	struct note *notes; /* owned; of position p: p % n_notes */
	size_t n_ring, n_notes;
	size_t end;               /* where the next note goes */
	uint64_t since;           /* position of the first note of this recording */
	uint64_t first, next;     /* positions kept: first to next - 1 */
	int64_t idle_ns;          /* boot time when the last watcher left */
	struct buf event, events; /* scratch */
};

struct watcher {
	struct list link, of_session;
	struct session *s;
	uint64_t request_id;
	uint64_t next; /* the position to look at */
	uint64_t lost;
	bool lost_unknown, greeted;
	uint32_t kinds;
	uint8_t queue_n, prefix_n;
	char queue[QUEUE_NAME_MAX], prefix[KEY_MAX];
};

/* ---- the ring ---- */

static struct note *
note_at(struct watch *w, uint64_t position)
{
	return &w->notes[position % w->n_notes];
}

static bool
matches(const struct watch *wa, const struct watcher *w, const struct note *n)
{
	const uint8_t *queue = wa->ring + n->at, *key = queue + n->queue_n;

	if (!(w->kinds & 1u << n->kind))
		return false;
	if ((w->s->svc->spaces || !(w->s->access.all & MAY_OBSERVE)) &&
		!access_sees(w->s, (struct str){ (const char *)queue, n->queue_n }))
		return false;
	if (w->queue_n && (w->queue_n != n->queue_n || memcmp(w->queue, queue, n->queue_n) != 0))
		return false;
	return !w->prefix_n ||
		(w->prefix_n <= n->key_n && memcmp(w->prefix, key, w->prefix_n) == 0);
}

/* The oldest note goes; who has not seen it has lost it. */
static void
note_drop(struct watch *wa)
{
	const struct note *n = note_at(wa, wa->first);

	list_each(w, &wa->watchers, struct watcher, link)
		if (w->next == wa->first) {
			w->lost += matches(wa, w, n);
			w->next++;
		}
	wa->first++;
}

/* Room for `n` bytes at the end; what was there is dropped. */
static uint8_t *
ring_room(struct watch *w, size_t n)
{
	if (w->first == w->next)
		w->end = 0;
	if (w->end + n > w->n_ring) {
		while (w->first != w->next && note_at(w, w->first)->at >= w->end)
			note_drop(w);
		w->end = 0;
	}
	while (w->first != w->next &&
		(w->next - w->first == w->n_notes ||
			(note_at(w, w->first)->at >= w->end &&
				note_at(w, w->first)->at < w->end + n)))
		note_drop(w);
	return w->ring + w->end;
}

void
watch_note(struct service *svc, const struct watch_event *e, struct moment now)
{
	struct watch *w = svc->watch;
	struct str event;
	uint8_t *p;

	if (!w->ring)
		return;
	buf_consume(&w->event, buf_len(&w->event));
	/* Without memory it is one that was lost. */
	if (wire_put_event(&w->event, e, w->next, now.wall_ns) < 0)
		buf_consume(&w->event, buf_len(&w->event));
	event = buf_str(&w->event);
	p = ring_room(w, e->queue.n + e->key.n + event.n);
	*note_at(w, w->next) = (struct note){
		.at = (uint32_t)w->end,
		.len = (uint16_t)event.n,
		.queue_n = (uint8_t)e->queue.n,
		.key_n = (uint8_t)e->key.n,
		.kind = (uint8_t)e->kind,
	};
	if (e->queue.n)
		memcpy(p, e->queue.p, e->queue.n);
	if (e->key.n)
		memcpy(p + e->queue.n, e->key.p, e->key.n);
	if (event.p)
		memcpy(p + e->queue.n + e->key.n, event.p, event.n);
	w->end += e->queue.n + e->key.n + event.n;
	w->next++;
}

static int
record_begin(struct service *svc)
{
	struct watch *w = svc->watch;

	if (w->ring)
		return 0;
	w->ring = x_alloc(w->n_ring);
	w->notes = x_zalloc(w->n_notes * sizeof *w->notes);
	if (!w->ring || !w->notes) {
		x_free(w->ring);
		x_free(w->notes);
		w->ring = NULL;
		w->notes = NULL;
		return -ENOMEM;
	}
	/* Events that nobody recorded have no positions: one is left out for them all. */
	w->first = w->since = ++w->next;
	w->end = 0;
	engine_set_watched(svc->cfg.engine, true);
	return 0;
}

static void
record_end(struct service *svc)
{
	struct watch *w = svc->watch;

	engine_set_watched(svc->cfg.engine, false);
	x_free(w->ring);
	x_free(w->notes);
	w->ring = NULL;
	w->notes = NULL;
	buf_consume(&w->events, buf_len(&w->events));
	buf_release(&w->events);
}

/* ---- watchers ---- */

/* Where it goes on, and what it has missed. */
static void
watcher_place(struct watch *wa, struct watcher *w, const struct req_watch *r)
{
	w->next = wa->next;
	if (!r->has_after)
		return;
	if (r->after + 1 >= wa->first && r->after < wa->next) {
		w->next = r->after + 1;
	} else if (r->after + 1 >= wa->since && r->after < wa->next) {
		w->next = wa->first;
		w->lost = wa->first - (r->after + 1);
	} else {
		w->next = wa->first;
		w->lost_unknown = true;
	}
}

static bool
watch_refused(struct service *svc, struct call *c)
{
	const struct req_watch *r = &c->req->watch;
	const char *why = NULL;

	if (r->queue.n > 0 && !svc->spaces && !queue_name_valid(r->queue))
		why = "no acceptable queue name";
	else if (r->prefix.n > KEY_MAX)
		why = "the prefix is longer than a key";
	if (why) {
		reply_status(c->s, c->req->id, ST_INVALID, why);
		return true;
	}
	if (svc->watch->n_watchers < WATCHERS_MAX && accounts_watcher(c->s, 1))
		return false;
	reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, "too many watch already");
	return true;
}

void
op_watch(struct service *svc, struct call *c)
{
	const struct req_watch *r = &c->req->watch;
	struct watch *wa = svc->watch;
	struct watcher *w;

	if (watch_refused(svc, c))
		return;
	w = x_zalloc(sizeof *w);
	if (!w || record_begin(svc) < 0) {
		x_free(w);
		accounts_watcher(c->s, -1);
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, "out of memory");
		return;
	}
	w->s = c->s;
	w->request_id = c->req->id;
	w->kinds = r->kinds;
	w->queue_n = (uint8_t)r->queue.n;
	w->prefix_n = (uint8_t)r->prefix.n;
	if (r->queue.n)
		memcpy(w->queue, r->queue.p, r->queue.n);
	if (r->prefix.n)
		memcpy(w->prefix, r->prefix.p, r->prefix.n);
	watcher_place(wa, w, r);
	list_append(&wa->watchers, &w->link);
	list_append(&c->s->watchers, &w->of_session);
	wa->n_watchers++;
	c->s->in_flight++;
}

void
watch_leave(struct session *s, struct moment now)
{
	struct watch *wa = s->svc->watch;
	struct watcher *w;

	while ((w = list_first(&s->watchers, struct watcher, of_session)) != NULL) {
		list_del(&w->link);
		list_del(&w->of_session);
		s->in_flight--;
		accounts_watcher(s, -1);
		wa->n_watchers--;
		wa->idle_ns = now.boot_ns;
		x_free(w);
	}
}

/* ---- giving them what happened ---- */

/* Gathers into `events` what the watcher is to see next. */
static void
gather(struct watch *wa, struct watcher *w)
{
	buf_consume(&wa->events, buf_len(&wa->events));
	for (uint32_t looks = 0; w->next != wa->next && looks < LOOKS_MAX; looks++, w->next++) {
		const struct note *n = note_at(wa, w->next);

		if (!matches(wa, w, n))
			continue;
		if (n->len == 0)
			w->lost++;
		else if (buf_put(&wa->events, wa->ring + n->at + n->queue_n + n->key_n, n->len) < 0)
			return;
	}
}

/* One reply's worth. False: nothing more to do for it now. */
static bool
watcher_serve(struct service *svc, struct watcher *w)
{
	struct watch *wa = svc->watch;
	struct watch_reply r;
	struct buf *out;

	if (w->greeted && w->next == wa->next)
		return false;
	if (session_unsent(w->s) >= svc->cfg.output_max / 2)
		return false;
	r.position = w->next - 1;
	gather(wa, w); /* may find more that is lost */
	r.lost = w->lost;
	r.lost_unknown = w->lost_unknown;
	r.events = buf_str(&wa->events);
	if (w->greeted && r.events.n == 0)
		return w->next != wa->next;
	out = reply_begin(w->s);
	if (!out)
		return false;
	reply_end(w->s, ST_OK, wire_put_watch(out, w->request_id, &r));
	svc->cfg.output_ready(svc->cfg.ctx, w->s);
	w->greeted = true;
	w->lost = 0;
	w->lost_unknown = false;
	return w->next != wa->next;
}

bool
watch_turn(struct service *svc, struct moment now)
{
	struct watch *wa = svc->watch;
	bool more = false;

	if (!wa->ring)
		return false;
	if (wa->n_watchers == 0 && now.boot_ns - wa->idle_ns >= LINGER_NS) {
		record_end(svc);
		return false;
	}
	list_each(w, &wa->watchers, struct watcher, link)
		more = watcher_serve(svc, w) || more;
	return more;
}

/* ---- over an exec ---- */

/* Never given to anything else. */
enum {
	WATCHER_REQUEST = 1,
	WATCHER_LOST,
	WATCHER_LOST_UNKNOWN,
	WATCHER_GREETED,
	WATCHER_KINDS,
	WATCHER_QUEUE,
	WATCHER_PREFIX
};

/* The ring stays behind: what it holds for who had no room for it is lost, and counted. */
static uint64_t
left_behind(const struct watch *wa, const struct watcher *w)
{
	uint64_t n = 0;

	for (uint64_t at = w->next; at != wa->next; at++)
		n += matches(wa, w, note_at((struct watch *)(uintptr_t)wa, at));
	return n;
}

void
watch_carry_out(const struct session *s, struct carry_out *o)
{
	list_each(w, &s->watchers, struct watcher, of_session) {
		carry_begin(o, CARRY_WATCHER);
		carry_u64(o, WATCHER_REQUEST, w->request_id);
		carry_u64(o, WATCHER_LOST, w->lost + left_behind(s->svc->watch, w));
		carry_u64(o, WATCHER_LOST_UNKNOWN, w->lost_unknown);
		carry_u64(o, WATCHER_GREETED, w->greeted);
		carry_u64(o, WATCHER_KINDS, w->kinds);
		carry_str(o, WATCHER_QUEUE, (struct str){ w->queue, w->queue_n });
		carry_str(o, WATCHER_PREFIX, (struct str){ w->prefix, w->prefix_n });
		carry_end(o);
	}
}

int
watch_carry_in(struct session *s, const struct carry_record *r)
{
	struct str queue = carry_get(r, WATCHER_QUEUE), prefix = carry_get(r, WATCHER_PREFIX);
	struct watch *wa = s->svc->watch;
	struct watcher *w;

	if (queue.n > QUEUE_NAME_MAX || prefix.n > KEY_MAX)
		return ERR_DAMAGED;
	w = x_zalloc(sizeof *w);
	if (!w || record_begin(s->svc) < 0) {
		x_free(w);
		return -ENOMEM;
	}
	w->s = s;
	w->request_id = carry_get_u64(r, WATCHER_REQUEST, 0);
	w->lost = carry_get_u64(r, WATCHER_LOST, 0);
	w->lost_unknown = carry_get_u64(r, WATCHER_LOST_UNKNOWN, 0) != 0;
	w->greeted = carry_get_u64(r, WATCHER_GREETED, 0) != 0;
	w->kinds = (uint32_t)carry_get_u64(r, WATCHER_KINDS, 0);
	w->queue_n = (uint8_t)queue.n;
	w->prefix_n = (uint8_t)prefix.n;
	if (queue.n)
		memcpy(w->queue, queue.p, queue.n);
	if (prefix.n)
		memcpy(w->prefix, prefix.p, prefix.n);
	w->next = wa->next;
	accounts_watcher_force(s);
	list_append(&wa->watchers, &w->link);
	list_append(&s->watchers, &w->of_session);
	wa->n_watchers++;
	s->in_flight++;
	return 0;
}

uint64_t
watch_position(const struct service *svc)
{
	return svc->watch->next;
}

void
watch_begin_at(struct service *svc, uint64_t position)
{
	struct watch *w = svc->watch;

	if (!w->ring && position > w->next)
		w->next = position;
}

/* ---- life ---- */

int
watch_new(struct service *svc)
{
	struct watch *w = x_zalloc(sizeof *w);

	if (!w)
		return -ENOMEM;
	list_init(&w->watchers);
	w->n_ring = svc->cfg.watch_bytes;
	w->n_notes = w->n_ring / NOTE_BYTES;
	w->next = svc->cfg.watch_from;
	buf_init(&w->event, 1024);
	buf_init(&w->events, EVENTS_MAX);
	svc->watch = w;
	return 0;
}

void
watch_free(struct service *svc)
{
	struct watch *w = svc->watch;

	if (!w)
		return;
	wq_assert(list_empty(&w->watchers));
	if (w->ring)
		record_end(svc);
	buf_done(&w->event);
	buf_done(&w->events);
	x_free(w);
}
