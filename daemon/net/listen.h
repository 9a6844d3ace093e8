/*
 * Listeners: where clients come in.
 *
 *   unix:PATH         a socket file, born with its mode and group
 *   tcp://HOST:PORT   plain TCP; HOST numeric, [IPv6] or a name (its first address); PORT 0:
 *                     any free one
 *   tls://HOST:PORT   TLS on TCP
 *
 * Adopted ones come from the service manager (socket activation) and are left
 * as they are at the end.
 *
 * Out of descriptors (or memory for sockets) a listener pauses for a while
 * instead of spinning; a descriptor kept in reserve lets it first take one
 * newcomer, tell it, and close. Loop thread only.
 */
#ifndef WQD_NET_LISTEN_H
#define WQD_NET_LISTEN_H

#include <sys/types.h>

#include "net/conn.h"

struct listener;

struct listen_options {
	mode_t mode;          /* of a unix socket, 0660 */
	gid_t group;          /* of a unix socket; (gid_t)-1: the process's own */
	bool allow_plaintext; /* TCP without TLS on other than loopback addresses */
	struct tls *tls;      /* for tls:// addresses, and for a passed socket that is to speak it;
	                         borrowed; NULL: none */
};

/* Why it failed, for the log: one line, always terminated. */
struct listen_error {
	char text[256];
};

/*
 * Opens `address` and gives what it accepts to `cs` (borrowed).
 *
 * unix: a socket file that nobody listens on is replaced; -EADDRINUSE when somebody does;
 * ERR_NOT_OURS when the path is no socket (it is never removed); ERR_TOO_LONG. TCP: -EACCES for an
 * address that is not loopback without allow_plaintext. ERR_BAD_VALUE: no such form, or tls://
 * without a certificate; else -errno.
 */
int
listener_open(struct conns *cs, const char *address, const struct listen_options *o,
	struct listener **out, struct listen_error *err);
/* Takes a listening socket over (given on success alone). */
int
listener_adopt(struct conns *cs, int fd, const struct listen_options *o, struct listener **out,
	struct listen_error *err);
/* Over an exec. While it is held newcomers wait in the kernel. */
void
listener_hold(struct listener *ln, bool hold);
void
listener_carry_out(const struct listener *ln, struct carry_out *o);
/* From a CARRY_LISTENER; `o` says what there is of TLS. 0 or a negative error. */
int
listener_carry_in(struct conns *cs, const struct carry_record *r, const struct listen_options *o,
	struct listener **out);
/* Closes; a socket file is removed if it is still the one that was made. NULL is allowed. */
void
listener_close(struct listener *ln);
/* "unix:/run/wqd/wqd.sock", "tls://127.0.0.1:40123": as opened, the port as it is. */
const char *
listener_address(const struct listener *ln);

#endif
