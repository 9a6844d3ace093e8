/*
 * Connections: descriptors on one side, a protocol (the sessions) on the other.
 *
 * One read of at most 256 KiB a readiness, handed to the protocol at once; what
 * it leaves (half a frame, or more than it may take now) is kept. Its output
 * goes out with one write; what the socket does not take waits for it to become
 * writable. While the protocol wants no input nothing is read, so that a peer
 * that does not read its replies is stopped by its own full socket.
 *
 *   state     read end/error   protocol closes       output gone
 *   OPEN      -> gone          -> CLOSING            -
 *   CLOSING   -> gone          -                     -> LINGER (half closed, input dropped)
 *   LINGER    -> gone          -                     -> gone after LINGER_NS
 *
 * Loop thread only.
 */
#ifndef WQD_NET_CONN_H
#define WQD_NET_CONN_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/peer.h"
#include "base/str.h"
#include "net/loop.h"

struct conn;
struct conns; /* all connections of a daemon */

/* What is spoken over a connection: the calls of service/session.h, seen from below. */
struct conn_protocol {
	void *ctx;
	/* A new connection: its session in *session, or a negative error and it is closed. */
	int (*open)(void *ctx, struct conn *c, const struct peer *peer, struct moment now,
		void **session);
	/* The peer is gone: frees the session. */
	void (*close)(void *session, struct moment now);
	/* > 0: there is more to do with what is in hand, call again in the next turn. */
	int (*input)(void *session, struct moment now, struct buf *in);
	struct buf *(*output)(void *session);
	bool (*wants_input)(const void *session);
	bool (*closing)(const void *session);
	int64_t (*deadline)(const void *session);
	void (*expired)(void *session);
	/* A newcomer was turned away: over `max`, or out of descriptors. May be NULL. */
	void (*refused)(void *ctx);
};

struct conns_config {
	struct loop *loop;             /* borrowed */
	struct conn_protocol protocol; /* copied */
	uint32_t max;                  /* connections at once; see conns_budget */
	size_t frame_max;              /* largest message, without its length */
	struct str busy;               /* sent to who is turned away; copied; may be empty */
};

int
conns_new(const struct conns_config *cfg, struct conns **out);
/* Closes all connections (a last write each, without waiting). Listeners must be closed before.
 * NULL is allowed. */
void
conns_free(struct conns *cs);
size_t
conns_count(const struct conns *cs);
/* A reload: a lower limit closes nobody. */
void
conns_set_max(struct conns *cs, uint32_t max);
/* True when nobody has unsent output. */
bool
conns_flushed(const struct conns *cs);
/* Takes a connected socket over (also on failure: then it is closed). 0 or a negative error. */
int
conns_add(struct conns *cs, int fd);
/* The session's output has grown, or it wants input again: outside of `input`. */
void
conn_output_ready(struct conn *c);

/*
 * How many connections the process may hold: the soft RLIMIT_NOFILE, raised to the hard one,
 * less a reserve for storage, the loop and `max_runs` children; at most `wanted`, at least 1.
 */
uint32_t
conns_budget(uint32_t wanted, uint32_t max_runs);

#endif
