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
 *   SHAKING   -> gone          -                     -       (TLS: -> OPEN with its handshake)
 *   OPEN      -> gone          -> CLOSING            -
 *   CLOSING   -> gone          -                     -> LINGER (half closed, input dropped)
 *   LINGER    -> gone          -                     -> gone after LINGER_NS
 *
 * A TLS handshake has a time limit, there is a limit of how many go on at once
 * (at it the oldest has to go, so that those who stall don't keep others out),
 * and of how many steps of them one turn of the loop takes. The session begins
 * when the handshake is done.
 *
 * Loop thread only.
 */
#ifndef WQD_NET_CONN_H
#define WQD_NET_CONN_H

#include "base/buf.h"
#include "base/carry.h"
#include "base/clock.h"
#include "base/peer.h"
#include "base/str.h"
#include "net/loop.h"

struct conn;
struct conns; /* all connections of a daemon */
struct tls;

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
	/* The session over an exec: its records, after that of its connection; and each of these back.
	 * May be NULL: nothing is ever carried. */
	void (*carry_out)(const void *session, struct carry_out *o);
	int (*carry_in)(void *session, const struct carry_record *r, struct moment now);
	/* A TLS handshake failed, for this reason (borrowed). May be NULL. */
	void (*not_secured)(void *ctx, const char *address, const char *why);
	/* Its replies reach nobody any more; what the peer has sent is still to be taken. May be NULL. */
	void (*deaf)(void *session);
};

struct conns_config {
	struct loop *loop;             /* borrowed */
	struct conn_protocol protocol; /* copied */
	uint32_t max;                  /* connections at once; see conns_budget */
	size_t frame_max;              /* largest message, without its length */
	struct str busy;               /* sent to who is turned away; copied; may be empty */
	uint32_t max_handshakes;       /* TLS handshakes that go on at once */
	int64_t handshake_ns;          /* time for each */
};

struct conns_stats {
	uint64_t handshakes, handshakes_failed; /* TLS: done; failed, for whatever reason */
	uint64_t handshakes_dropped;            /* of the failed: the oldest, for a newcomer */
	uint32_t handshaking;                   /* now */
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
void
conns_set_handshakes(struct conns *cs, uint32_t max, int64_t time_ns);
/* True when nobody has unsent output. */
bool
conns_flushed(const struct conns *cs);
void
conns_stats_get(const struct conns *cs, struct conns_stats *out);
/*
 * Over an exec. While they are held nothing is read; what is to be sent goes on. Those that speak TLS
 * can't be carried: conns_part ends them when their replies are sent, and returns how many there
 * still are, dropped at once if `now`.
 */
void
conns_hold(struct conns *cs, bool hold);
size_t
conns_part(struct conns *cs, bool now);
/* All plain ones, with what is read and not used and what is not sent; each gets its number. */
void
conns_carry_out(struct conns *cs, struct carry_out *o);
/* A CARRY_CONN begins one; what follows of its session goes to that. 0 or a negative error. */
int
conns_carry_in(struct conns *cs, const struct carry_record *r);
/* All are there: they are read again. */
void
conns_carried(struct conns *cs);
/* As conns_carry_out has numbered it, and the session of that number; NULL: there is none. */
uint64_t
conn_number(const struct conn *c);
void *
conns_session(const struct conns *cs, uint64_t number);
/* Takes a connected socket over (also on failure: then it is closed), plain or as the server of a
 * TLS connection (`tls` is borrowed until all are gone). 0 or a negative error. */
int
conns_add(struct conns *cs, int fd, struct tls *tls);
/* The session's output has grown, or it wants input again: outside of `input`. */
void
conn_output_ready(struct conn *c);
/* Sends what there is of the session's output: inside of `input`. */
void
conn_output_early(struct conn *c);

/*
 * How many connections the process may hold: the soft RLIMIT_NOFILE, raised to the hard one,
 * less a reserve for storage, the loop and `max_runs` children; at most `wanted`, at least 1.
 */
uint32_t
conns_budget(uint32_t wanted, uint32_t max_runs);

#endif
