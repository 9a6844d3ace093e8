/*
 * wq_libevent.h: turns a wq_t with libevent (2.0 or later). Header-only: what includes it links
 * libevent_core itself; libwq does not.
 *
 *     struct wq_libevent le;
 *     wq_libevent_attach(&le, wq, base, NULL, NULL);
 *     wq_send_update(wq, "hb", "host-17", 30000, NULL, on_reply, NULL);
 *     event_base_dispatch(base);
 *     ...
 *     wq_libevent_detach(&le);
 *     wq_free(wq);
 *
 * The struct belongs to the caller and must stay where it is while attached. It takes the
 * handle's wq_on_change. One thread: that of the loop. event_base_dispatch() does not return by
 * itself while attached, since the handle keeps its connection.
 */
#ifndef WQ_LIBEVENT_H
#define WQ_LIBEVENT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <string.h>

#include "wq.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Told what wq_process could not get over. May detach, and then free. */
typedef void (*wq_libevent_cb)(wq_t *wq, int error, void *arg);

struct wq_libevent {
	wq_t *wq; /* borrowed; NULL: not attached */
	struct event_base *base;
	struct event ev;
	wq_libevent_cb failed;
	void *arg;
};

static inline void
wq_libevent_fired(evutil_socket_t fd, short what, void *arg);

/*
 * Watches for what the hooks say now. The event is taken off before each turn of the handle and
 * put back after it, never kept: a descriptor that was closed and opened again under the same
 * number would not be noticed otherwise.
 */
static inline void
wq_libevent_watch(struct wq_libevent *le)
{
	int events = wq_events(le->wq), ms = wq_timeout_ms(le->wq);
	short what = (short)((events & WQ_READABLE ? EV_READ : 0) |
		(events & WQ_WRITABLE ? EV_WRITE : 0));
	struct timeval tv;

	event_del(&le->ev);
	event_assign(&le->ev, le->base, wq_fd(le->wq), what, wq_libevent_fired, le);
	tv.tv_sec = ms / 1000;
	tv.tv_usec = ms % 1000 * 1000;
	event_add(&le->ev, ms < 0 ? NULL : &tv);
}

static inline void
wq_libevent_fired(evutil_socket_t fd, short what, void *arg)
{
	struct wq_libevent *le = (struct wq_libevent *)arg;
	int err;

	(void)fd;
	err = wq_process(
		le->wq, (what & EV_READ ? WQ_READABLE : 0) | (what & EV_WRITE ? WQ_WRITABLE : 0));
	if (!le->wq)
		return;
	/* Before the application hears of it: it may detach. */
	wq_libevent_watch(le);
	if (err < 0 && le->failed)
		le->failed(le->wq, err, le->arg);
}

static inline void
wq_libevent_changed(wq_t *wq, void *arg)
{
	(void)wq;
	wq_libevent_watch((struct wq_libevent *)arg);
}

/* `failed` may be NULL. From now on the loop turns the handle. */
static inline void
wq_libevent_attach(
	struct wq_libevent *le, wq_t *wq, struct event_base *base, wq_libevent_cb failed, void *arg)
{
	memset(le, 0, sizeof *le);
	le->wq = wq;
	le->base = base;
	le->failed = failed;
	le->arg = arg;
	event_assign(&le->ev, base, -1, 0, wq_libevent_fired, le);
	wq_on_change(wq, wq_libevent_changed, le);
	wq_libevent_watch(le);
}

/* Before wq_free. Allowed in any callback; twice does no harm. */
static inline void
wq_libevent_detach(struct wq_libevent *le)
{
	if (!le->wq)
		return;
	wq_on_change(le->wq, NULL, NULL);
	event_del(&le->ev);
	le->wq = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
