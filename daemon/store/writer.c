/*
 * The writer: one thread, at most two groups (the one being committed, the next)
 * and one call. Everything shared is under one lock, held for a few
 * instructions; the thread sleeps on a condition, the loop on an eventfd.
 *
 *            submit            committed
 *    IDLE ----------> SYNCING ----------> IDLE
 *                      |    \ submit
 *               failed |     +-----> FULL ----------> SYNCING (with the next)
 *                      v               | failed
 *                    FAILED <----------+
 *                      | a later try went well
 *                      +--> IDLE, or SYNCING when a next group waits
 *
 * Letters of the fields: C constant after writer_new; L loop thread; T writer
 * thread; M under `lock`.
 */
#include "store/writer.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "store/thread.h"

#define WRITER_MAGIC 0x57524954u
#define RETRY_NS     NS_PER_S
/* Without anything asked for so long, what may wait is done. */
#define IDLE_NS (100 * NS_PER_MS)

enum writer_state { WRITER_IDLE, WRITER_SYNCING, WRITER_FULL, WRITER_FAILED };

/* clang-format off */
static const bool edge[4][4] = {
	[WRITER_IDLE]    = { [WRITER_SYNCING] = true },
	[WRITER_SYNCING] = { [WRITER_IDLE] = true, [WRITER_FULL] = true, [WRITER_FAILED] = true },
	[WRITER_FULL]    = { [WRITER_SYNCING] = true, [WRITER_FAILED] = true },
	[WRITER_FAILED]  = { [WRITER_SYNCING] = true, [WRITER_IDLE] = true },
};
/* clang-format on */

/* One result on its way to the loop. */
struct result {
	struct list link; /* M, in writer.results */
	struct group_done done;
	struct submitted *last_of; /* the result that ends a submitted group, else NULL */
};

/* A group from submit until its success is collected. */
struct submitted {
	struct group *group; /* T; freed when committed */
	struct moment now;   /* C */
	bool sync;           /* C */
	bool told;           /* M: its failure was reported */
	struct result failure, success;
};

enum call_state { CALL_NONE, CALL_WAITING, CALL_RUNNING, CALL_DONE };

struct call {
	enum call_state state;
	int (*fn)(struct store *st, void *arg);
	void (*done)(void *arg, int result);
	void *arg;
	int result;
};

struct writer {
	unsigned magic;
	struct store *store; /* T, owned */
	pthread_t thread;    /* C */
	int fd;              /* C */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the thread */

	enum writer_state state;      /* M */
	struct submitted *cur, *next; /* M */
	struct list results;          /* M, of struct result */
	struct call call;             /* M */
	struct store_stats stats;     /* M */
	int64_t retry_at_ns;          /* M: CLOCK_MONOTONIC; 0: now */
	bool tidy;                    /* T: something was stored since all was tidy */
	bool stop;                    /* M */
	int last_error;               /* M: of the last try */
};

static int64_t
monotonic_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void
set_state(struct writer *w, enum writer_state to)
{
	wq_assert(edge[w->state][to]);
	w->state = to;
}

static void
check_invariant(const struct writer *w)
{
	wq_assert((w->state == WRITER_IDLE) == (w->cur == NULL));
	wq_assert(w->state != WRITER_FULL || w->next != NULL);
	wq_assert(w->state != WRITER_SYNCING || w->next == NULL);
}

/* Makes the descriptor readable. */
static void
ring(const struct writer *w)
{
	uint64_t one = 1;

	wq_assert(write(w->fd, &one, sizeof one) == (ssize_t)sizeof one);
}

static void
unring(const struct writer *w)
{
	uint64_t n;

	(void)!read(w->fd, &n, sizeof n);
}

/* ---- the thread ---- */

static int
commit_group(struct store *st, const struct submitted *s)
{
	int rc = st->ops->begin(st);

	if (rc)
		return rc;
	group_replay(s->group, st->ops->sink(st));
	rc = st->ops->commit(st, s->now, s->sync);
	/* What is on a disk under no name is not safe: it is kept, and committed again. */
	return rc ? rc : st->ops->in_place(st);
}

/* With the lock. Files the outcome of a try under way and moves on. */
static void
commit_done(struct writer *w, struct submitted *s, int rc, int64_t took_ns)
{
	struct result *r = rc ? &s->failure : &s->success;

	w->last_error = rc;
	if (!rc || !s->told) {
		r->done.result = rc;
		r->done.took_ns = took_ns;
		list_append(&w->results, &r->link);
		ring(w);
	}
	s->told = true;
	if (rc) {
		w->retry_at_ns = monotonic_ns() + RETRY_NS;
		if (w->state != WRITER_FAILED)
			set_state(w, WRITER_FAILED);
	} else {
		w->cur = w->next;
		w->next = NULL;
		set_state(w, w->cur ? WRITER_SYNCING : WRITER_IDLE);
	}
	check_invariant(w);
}

/* Called and returns with the lock. */
static void
try_commit(struct writer *w)
{
	struct submitted *s = w->cur;
	struct group *g = s->group;
	int64_t start = clock_boot_ns();
	struct store_stats stats;
	int rc;

	(void)pthread_mutex_unlock(&w->lock);
	rc = commit_group(w->store, s);
	(void)pthread_mutex_lock(&w->lock);
	commit_done(w, s, rc, clock_boot_ns() - start);
	(void)pthread_mutex_unlock(&w->lock);
	w->tidy = !rc;
	if (!rc) {
		/* From here on `s` is the loop's. */
		group_free(g);
		/* The groups are safe where they are; what fails now is tried after the next. */
		(void)w->store->ops->checkpoint(w->store);
	}
	w->store->ops->stats(w->store, &stats);
	(void)pthread_mutex_lock(&w->lock);
	w->stats = stats;
}

/* Called and returns with the lock. */
static void
run_call(struct writer *w)
{
	struct call c = w->call;
	struct store_stats stats;

	w->call.state = CALL_RUNNING;
	(void)pthread_mutex_unlock(&w->lock);
	c.result = c.fn(w->store, c.arg);
	w->store->ops->stats(w->store, &stats);
	(void)pthread_mutex_lock(&w->lock);
	w->stats = stats;
	w->call.result = c.result;
	w->call.state = CALL_DONE;
	ring(w);
}

/* With the lock. A failed group waits for its time, but not when all is to end. */
static bool
may_try(const struct writer *w)
{
	if (!w->cur)
		return false;
	return w->state != WRITER_FAILED || w->stop || monotonic_ns() >= w->retry_at_ns;
}

static bool
asked_for(const struct writer *w)
{
	return w->cur || w->stop || w->call.state == CALL_WAITING;
}

/* Called and returns with the lock. A piece at a time, until something is asked for. */
static void
tidy(struct writer *w)
{
	struct store_stats stats;
	bool more;

	do {
		(void)pthread_mutex_unlock(&w->lock);
		more = w->store->ops->tidy(w->store);
		w->store->ops->stats(w->store, &stats);
		(void)pthread_mutex_lock(&w->lock);
		w->stats = stats;
	} while (more && !asked_for(w));
	w->tidy = more;
}

static void
sleep_until_woken(struct writer *w)
{
	int64_t until = w->state == WRITER_FAILED ? w->retry_at_ns : monotonic_ns() + IDLE_NS;
	struct timespec ts = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
	int rc = 0;

	if (w->state != WRITER_FAILED && !w->tidy)
		(void)pthread_cond_wait(&w->wake, &w->lock);
	else
		rc = pthread_cond_timedwait(&w->wake, &w->lock, &ts);
	if (rc == ETIMEDOUT && w->tidy && !asked_for(w))
		tidy(w);
}

static void *
writer_main(void *arg)
{
	struct writer *w = arg;
	bool given_up = false;

	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		if (w->call.state == CALL_WAITING) {
			run_call(w);
		} else if (may_try(w) && !given_up) {
			bool last = w->stop;

			try_commit(w);
			given_up = last && w->state == WRITER_FAILED;
		} else if (w->stop) {
			break;
		} else {
			sleep_until_woken(w);
		}
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* ---- the loop's side ---- */

static void
init_locks(struct writer *w)
{
	pthread_condattr_t attr;

	wq_assert(pthread_condattr_init(&attr) == 0);
	wq_assert(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
	wq_assert(pthread_cond_init(&w->wake, &attr) == 0);
	wq_assert(pthread_mutex_init(&w->lock, NULL) == 0);
	(void)pthread_condattr_destroy(&attr);
}

static void
destroy(struct writer *w)
{
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	(void)close(w->fd);
	MAGIC_DONE(w);
	x_free(w);
}

int
writer_new(struct store *st, struct writer **out, int *fd)
{
	struct writer *w = x_zalloc(sizeof *w);
	int rc;

	if (!w)
		return -ENOMEM;
	w->magic = WRITER_MAGIC;
	w->store = st;
	w->tidy = true; /* the daemon before may have left something */
	list_init(&w->results);
	st->ops->stats(st, &w->stats);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		rc = -errno;
		x_free(w);
		return rc;
	}
	init_locks(w);
	rc = thread_start(&w->thread, writer_main, w, "wqd-writer");
	if (rc) {
		destroy(w);
		return rc;
	}
	*fd = w->fd;
	*out = w;
	return 0;
}

static enum writer_state
state_of(const struct writer *cw)
{
	struct writer *w = (struct writer *)(uintptr_t)cw; /* the lock is no part of the value */
	enum writer_state s;

	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	s = w->state;
	(void)pthread_mutex_unlock(&w->lock);
	return s;
}

static bool
takes(enum writer_state s)
{
	return s == WRITER_IDLE || s == WRITER_SYNCING;
}

bool
writer_ready(const struct writer *w)
{
	return takes(state_of(w));
}

bool
writer_failed(const struct writer *w)
{
	return state_of(w) == WRITER_FAILED;
}

static struct submitted *
submitted_new(struct group *g, uint64_t mark, struct moment now, bool sync)
{
	struct submitted *s = x_zalloc(sizeof *s);

	if (!s)
		return NULL;
	s->group = g;
	s->now = now;
	s->sync = sync;
	s->failure.done.mark = s->success.done.mark = mark;
	s->failure.done.count = s->success.done.count = group_count(g);
	s->success.last_of = s;
	return s;
}

int
writer_submit(struct writer *w, struct group *g, uint64_t mark, struct moment now, bool sync)
{
	struct submitted *s = group_whole(g) ? submitted_new(g, mark, now, sync) : NULL;

	CHECK_OBJ(w, WRITER_MAGIC);
	if (!s)
		return -ENOMEM;
	(void)pthread_mutex_lock(&w->lock);
	if (!takes(w->state)) {
		(void)pthread_mutex_unlock(&w->lock);
		x_free(s);
		return -EAGAIN;
	}
	if (w->cur)
		w->next = s;
	else
		w->cur = s;
	set_state(w, w->next ? WRITER_FULL : WRITER_SYNCING);
	check_invariant(w);
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

void
writer_retry(struct writer *w)
{
	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	w->retry_at_ns = 0;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
}

/* Calls back when a call has ended. */
static void
collect_call(struct writer *w)
{
	struct call c;

	(void)pthread_mutex_lock(&w->lock);
	c = w->call;
	if (c.state == CALL_DONE)
		w->call.state = CALL_NONE;
	(void)pthread_mutex_unlock(&w->lock);
	if (c.state == CALL_DONE && c.done)
		c.done(c.arg, c.result);
}

size_t
writer_collect(struct writer *w, struct group_done *out, size_t max)
{
	struct result *r;
	size_t n = 0;
	bool more;

	CHECK_OBJ(w, WRITER_MAGIC);
	unring(w);
	(void)pthread_mutex_lock(&w->lock);
	while (n < max && (r = list_first(&w->results, struct result, link)) != NULL) {
		list_del(&r->link);
		out[n++] = r->done;
		x_free(r->last_of);
	}
	more = !list_empty(&w->results);
	(void)pthread_mutex_unlock(&w->lock);
	if (more)
		ring(w);
	collect_call(w);
	return n;
}

int
writer_call(struct writer *w, int (*fn)(struct store *st, void *arg),
	void (*done)(void *arg, int result), void *arg)
{
	int rc = 0;

	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	if (w->call.state == CALL_NONE) {
		w->call = (struct call){ CALL_WAITING, fn, done, arg, 0 };
		(void)pthread_cond_signal(&w->wake);
	} else {
		rc = -EAGAIN;
	}
	(void)pthread_mutex_unlock(&w->lock);
	return rc;
}

void
writer_stats(struct writer *w, struct store_stats *out)
{
	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	*out = w->stats;
	(void)pthread_mutex_unlock(&w->lock);
}

static void
drop(struct submitted *s)
{
	if (s)
		group_free(s->group);
	x_free(s);
}

int
writer_close(struct writer *w)
{
	struct group_done unread[8];
	int rc;

	CHECK_OBJ(w, WRITER_MAGIC);
	(void)pthread_mutex_lock(&w->lock);
	w->stop = true;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	wq_assert(pthread_join(w->thread, NULL) == 0);
	while (writer_collect(w, unread, ARRAY_SIZE(unread)) > 0)
		;
	rc = w->cur ? w->last_error : 0;
	drop(w->cur);
	drop(w->next);
	w->store->ops->close(w->store);
	destroy(w);
	return rc;
}
