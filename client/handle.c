/* The handle: its life, its options, and the hooks by which an event loop turns it. */
#include "handle.h"
#include "worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 * NS_PER_MS + ts.tv_nsec;
}

int64_t
later_ns(int64_t t_ns, int64_t ms)
{
	int64_t ns;

	if (__builtin_mul_overflow(ms, NS_PER_MS, &ns) || __builtin_add_overflow(t_ns, ns, &ns))
		return NEVER_NS;
	return ns;
}

/* No call that is made here gives these; but -71 must never be read as a status. */
int
system_error(int err)
{
	return err >= WQ_INVALID && err <= WQ_LEASE_LOST ? -EIO : -err;
}

void
message_set(wq_t *wq, const char *text)
{
	size_t n = strlen(text);

	if (n >= MESSAGE_MAX)
		n = MESSAGE_MAX - 1;
	memcpy(wq->message, text, n);
	wq->message[n] = '\0';
}

void
hooks_changed(wq_t *wq)
{
	if (!wq->busy && wq->changed)
		wq->changed(wq, wq->changed_arg);
}

static int
seed(wq_t *wq)
{
	struct {
		uint64_t jitter, hash;
		uint8_t idem[IDEM_RANDOM];
	} r;

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		return -EIO;
	wq->jitter = r.jitter | 1;
	memcpy(wq->idem_random, r.idem, IDEM_RANDOM);
	coalesce_init(&wq->known, r.hash);
	return 0;
}

/* Of the wq_connect or wq_new that failed last. */
static _Thread_local char connect_message[MESSAGE_MAX];

int
wq_new(const char *server, wq_t **out)
{
	wq_t *wq = mem_zalloc(sizeof *wq);
	const char *bad;
	int err;

	connect_message[0] = '\0';
	if (!wq)
		return -ENOMEM;
	wq->magic = WQ_MAGIC;
	link_init(&wq->link);
	bad = options_default(&wq->opt);
	if (bad) {
		snprintf(connect_message, sizeof connect_message, "%s: the value is too long", bad);
		mem_free(wq);
		return WQ_ERR_OPTION;
	}
	err = address_parse(server, &wq->addr);
	if (err == 0)
		err = seed(wq);
	if (err == 0)
		err = inbox_init(&wq->in);
	if (err == 0)
		err = pending_init(&wq->pend);
	if (err < 0) {
		inbox_done(&wq->in);
		mem_free(wq);
		return err;
	}
	*out = wq;
	return 0;
}

/* Up, or lost for a reason that another try does not take away by itself. */
static bool
connect_over(const wq_t *wq, const void *arg)
{
	const struct link *l = &wq->link;

	(void)arg;
	/* EAGAIN: the daemon's queue of connections is full just now. */
	return l->state == LINK_UP || (l->last_error < 0 && l->last_error != -EAGAIN);
}

int
wq_connect(const char *server, const char *options, wq_t **out)
{
	wq_t *wq;
	int err = wq_new(server, &wq);

	if (err < 0)
		return err;
	err = options_set_list(&wq->opt, options);
	if (err == 0) {
		err = turn_until(
			wq, connect_over, NULL, later_ns(now_ns(), wq->opt.connect_timeout_ms));
		if (wq->link.state == LINK_UP)
			err = 0;
		else if (wq->link.last_error < 0)
			err = wq->link.last_error;
		else if (err == WQ_ERR_TIMEOUT)
			err = -ETIMEDOUT;
	}
	if (err < 0) {
		memcpy(connect_message, wq->message, sizeof connect_message);
		wq_free(wq);
		return err;
	}
	*out = wq;
	return 0;
}

void
wq_free(wq_t *wq)
{
	struct pending *p;

	if (!wq)
		return;
	MUST(wq->magic == WQ_MAGIC && !wq->busy && !wq->looking && !wq->worker);
	wq->busy = 1;
	wq->freeing = true;
	link_close(wq);
	requests_fail(wq, pending_sweep(&wq->pend, 0, true), WQ_ERR_CLOSED);
	while ((p = pending_take_local(&wq->pend)) != NULL) {
		p->local = NULL;
		requests_fail(wq, p, WQ_ERR_CLOSED);
	}
	coalesce_done(&wq->known);
	pending_done(&wq->pend);
	inbox_done(&wq->in);
	mem_free(wq->link.staging);
	wq->magic = 0;
	mem_free(wq);
}

int
wq_set(wq_t *wq, const char *name, const char *value)
{
	return wq->started ? WQ_ERR_OPTION : options_set(&wq->opt, name, value);
}

int
wq_fd(const wq_t *wq)
{
	return wq->link.fd;
}

/* Encrypted bytes that the socket has not taken. */
static bool
has_raw(const struct link *l)
{
	return l->tls && tls_unsent(l->tls) > 0;
}

int
wq_events(const wq_t *wq)
{
	const struct link *l = &wq->link;

	switch (l->state) {
	case LINK_CLOSED:
	case LINK_WAIT:
		break;
	case LINK_CONNECTING:
		return WQ_WRITABLE;
	case LINK_TLS:
		return WQ_READABLE | (tls_unsent(l->tls) ? WQ_WRITABLE : 0);
	case LINK_HELLO:
		return WQ_READABLE | (l->hello_off < l->hello_len || has_raw(l) ? WQ_WRITABLE : 0);
	case LINK_UP:
		return WQ_READABLE | (wq->pend.unsent || has_raw(l) ? WQ_WRITABLE : 0);
	}
	return 0;
}

int
wq_timeout_ms(const wq_t *wq)
{
	int64_t due = link_next_due(wq);
	int64_t expiry = pending_next_expiry(&wq->pend, wq->link.state == LINK_UP);
	int64_t left;

	if (wq->pend.local_head ||
		(wq->link.state == LINK_UP && wq->link.tls && tls_pending(wq->link.tls)))
		return 0;
	if (expiry < due)
		due = expiry;
	if (wq->worker && worker_next_due(wq->worker) < due)
		due = worker_next_due(wq->worker);
	if (due == NEVER_NS)
		return -1;
	left = due == 0 ? 0 : due - now_ns();
	if (left <= 0)
		return 0;
	left = (left - 1) / NS_PER_MS + 1;
	return left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Answers that were given here; those that callbacks add have to wait for the next turn. */
static void
deliver_local(wq_t *wq)
{
	for (size_t n = wq->pend.local; n > 0; n--) {
		struct pending *p = pending_take_local(&wq->pend);

		p->done(wq, p, 0, NULL);
		pending_free(wq, p);
	}
}

int
wq_process(wq_t *wq, int ready)
{
	int64_t now;
	int err;

	MUST(wq->magic == WQ_MAGIC);
	if (wq->busy)
		return -EDEADLK;
	wq->busy = 1;
	now = now_ns();
	deliver_local(wq);
	if (wq->worker)
		worker_turn(wq->worker, now);
	err = link_turn(wq, now, ready);
	requests_expire(wq, now);
	wq->busy = 0;
	return err;
}

size_t
wq_in_flight(const wq_t *wq)
{
	return pending_waiting(&wq->pend);
}

void
wq_on_change(wq_t *wq, wq_change_cb cb, void *arg)
{
	wq->changed = cb;
	wq->changed_arg = arg;
}

const char *
wq_message(const wq_t *wq)
{
	return wq ? wq->message : connect_message;
}
