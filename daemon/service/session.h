/*
 * A session: one client connection, from hello to close. It takes the bytes the
 * network adapter read, turns them into engine events, and turns effects and
 * looks into reply bytes. It owns no descriptor and knows no library.
 *
 *   state      hello ok   frame/hello bad   peer gone   stop
 *   HELLO  ->  OPEN       CLOSING           GONE        CLOSING
 *   OPEN       INVALID    CLOSING           GONE        stays, new work refused
 *   CLOSING    (unsent bytes go out, nothing is read any more) -> GONE
 *
 * Loop thread only.
 */
#ifndef WQD_SERVICE_SESSION_H
#define WQD_SERVICE_SESSION_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/peer.h"
#include "service/service.h"

struct session;

int
session_new(struct service *svc, const struct peer *peer, struct moment now, struct session **out);
/* The peer is gone: its waiting requests are abandoned. */
void
session_free(struct session *s, struct moment now);
/* What the owner hangs on it: the connection that output_ready is about. */
void
session_set_user(struct session *s, void *user);
/* The ticket of its subscription; 0: it is no worker. */
uint64_t
session_subscription(const struct session *s);
void *
session_user(const struct session *s);

/*
 * Takes what it can of `in` (consumes whole frames) as one batch. Returns 0; or
 * 1 when it has done enough for one turn and is to be called again in the next;
 * or a negative error when the connection has to be closed after what is in the
 * output has been sent. Stops early also when the output is over its limit or
 * too much is in flight: session_wants_input() then tells when to go on.
 */
int
session_input(struct session *s, struct moment now, struct buf *in);
/* Bytes to be sent; the network adapter consumes them. */
struct buf *
session_output(struct session *s);
/* False while unsent output or requests in flight are at their limit, or closing. */
bool
session_wants_input(const struct session *s);
/* True once: asked to close when the output is empty. */
bool
session_closing(const struct session *s);
/* Boot time by which a complete hello (or the rest of a begun frame, `partial` bytes being
 * in hand) must have come; INT64_MAX: no limit now. */
int64_t
session_deadline(const struct session *s);
/* Called when that passed: answers TIMEOUT where possible and closes. */
void
session_expired(struct session *s);
/* Its peer reads nothing any more: requests that only look are not carried out from now on. */
void
session_deaf(struct session *s);

#endif
