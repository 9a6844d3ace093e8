/*
 * What the files of a connection share: conn.c (input, output, states) and
 * shake.c (TLS handshakes). Nobody else includes it.
 */
#ifndef WQD_NET_CONN_INT_H
#define WQD_NET_CONN_INT_H

#include "net/conn.h"
#include "net/stream.h"

#define CONN_MAGIC  0xc0220001u
#define CONNS_MAGIC 0xc0220002u

#define READ_MAX   (256u << 10) /* bytes of one read */
#define FRAME_HEAD 5u           /* the longest length before a frame */

enum conn_state { CONN_SHAKING, CONN_OPEN, CONN_CLOSING, CONN_LINGER };

struct conn {
	unsigned magic;
	enum conn_state state;
	struct conns *cs; /* borrowed */
	struct list link;
	struct stream stream;
	void *session;                        /* the protocol's; NULL: SHAKING */
	struct reactor_io *reading, *writing; /* NULL: not wanted */
	struct reactor_timer *timer;
	int64_t timer_ns;    /* when it fires, boot time; INT64_MAX: not set */
	int64_t close_by_ns; /* SHAKING, CLOSING, LINGER */
	struct list shaking; /* conns.shaking */
	struct buf in;       /* what the protocol has left */
	bool paused;         /* the protocol wanted no more of it */
	bool again;          /* the protocol has more of it to do, in the next turn */
	bool deaf;           /* the peer takes no more output; its input is still read */
	bool stuck;          /* it has hung up, and nothing was taken since that was seen */
	struct loop_task task;
	uint64_t number; /* over an exec */
};

struct conns {
	unsigned magic;
	struct conns_config cfg;
	const struct reactor *r; /* borrowed */
	char *busy;              /* owned */
	struct list all;
	size_t n;
	bool held;           /* nothing is read */
	uint64_t numbers;    /* given out over an exec */
	struct conn *newest; /* whose session is being carried in */
	uint8_t *scratch;    /* owned; READ_MAX bytes that each read goes to first */
	uint8_t *encrypted;  /* owned; READ_MAX bytes; NULL: none came with TLS yet */
	struct list shaking; /* connections, the oldest first */
	struct conns_stats stats;
	unsigned shakes; /* steps taken in this turn */
	struct loop_task new_turn;
};

/* ---- conn.c ---- */

/* The peer is gone, or has to go: everything is freed. */
void
conn_gone(struct conn *c);
/* The session begins: over a socket as it is, or when its handshake is done. 0 or a negative error,
 * and it has to go. */
int
conn_open(struct conn *c);
void
conn_readable(void *arg, unsigned ready);
void
conn_writable(void *arg, unsigned ready);
/* Watches the descriptor, or no more. 0 or a negative error. */
int
conn_want(struct conn *c, struct reactor_io **io, bool wanted, unsigned what,
	void (*cb)(void *arg, unsigned ready));
/* A time that moves later leaves the timer as it is: when that fires early, it is set again. */
void
conn_set_timer(struct conn *c, int64_t by_ns, struct moment now);

/* Brings everything in line with what the protocol wants now. The connection may be gone after. `now`
 * may be that of the input just taken: only time limits are counted from it. */
void
conn_settle(struct conn *c, struct moment now);
/* One that is on the list, without a session. NULL: no memory, and the socket is closed. */
struct conn *
conn_new(struct conns *cs, int fd);
/* What it says now is the last. */
void
conn_close_begin(struct conn *c, struct moment now);
/* ---- shake.c ---- */

void
shake_init(struct conns *cs);
void
shake_done(struct conns *cs);
/* A newcomer's handshake begins; at the limit the oldest one has to go. 0 or a negative error. */
int
shake_begin(struct conn *c, struct tls *tls);
/* May one more step of a handshake be taken in this turn? Else its input waits in the socket, which
 * the next turn finds ready. */
bool
shake_may(struct conns *cs);
/* A step: with `n` bytes of text, or what else the read gave; what is to be made of that. */
ssize_t
shake_step(struct conn *c, ssize_t n);
/* What it has to say goes out, and its input is waited for. The connection may be gone after. */
void
shake_settle(struct conn *c, struct moment now);
/* It goes on no more, done or not. Idempotent. */
void
shake_over(struct conn *c);

#endif
