/*
 * Worker programs that the daemon keeps: for each lease queue whose handler is a
 * worker, as many as engine/crew.h says. Each has its connection from the start,
 * a socket that is its descriptor 3, over which it is a worker like any other.
 *
 *   COMING ---subscribes--> ON ---too long idle, too old, stop--> GOING --grace--> ENDING
 *     |                     |                                       |                |
 *     +---- its process ends: reaped, and so is its connection -----+----------------+
 *
 * GOING: its subscription has been ended on its behalf; a program ends when that
 * is over. One whose lease was lost, or that does not go, gets TERM and KILL. One
 * that ends by itself is a crash: the next comes after a pause, which doubles.
 * Loop thread only.
 */
#ifndef WQD_CREW_H
#define WQD_CREW_H

#include "base/carry.h"
#include "base/clock.h"
#include "base/peer.h"
#include "service/session.h"

struct daemon;
struct crew;

int
crew_new(struct daemon *d, struct crew **out);
/* Ends what is left, and waits for that. */
void
crew_free(struct crew *c);
/* At the end of a turn: hires, retires. */
void
crew_turn(struct crew *c, struct moment now);
/* No more are hired, those that are there may go. */
void
crew_stop(struct crew *c);
size_t
crew_alive(const struct crew *c);
/* Over an exec, after the connections: workers keep their processes and sessions. 0 or a negative
 * error. */
void
crew_carry_out(const struct crew *c, struct carry_out *o);
int
crew_carry_in(struct crew *c, const struct carry_record *r);
/* While one is started: the connection that is being made is of the user that runs it, for its
 * queue; otherwise `peer` stays as it is. What is put there is valid until the crew's next start. */
void
crew_peer(struct crew *c, struct peer *peer);
/* Likewise: the session that has just been made is its. */
void
crew_session_opened(struct crew *c, struct session *s);
void
crew_session_closed(struct crew *c, const struct session *s);
/* A lease of the session's was revoked: one of ours is ended. */
void
crew_revoked(struct crew *c, const struct session *s);

#endif
