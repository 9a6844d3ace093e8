/*
 * Questions to a connected socket. For the files of net/ alone.
 */
#ifndef WQD_NET_PEER_H
#define WQD_NET_PEER_H

#include "base/peer.h"
#include "net/conn.h"

/* Fills `peer` with what the kernel says, and sets what a connection of its kind needs: TCP sends
 * small replies at once, and notices a peer that is gone without a word. */
void
peer_of_socket(int fd, struct peer *peer);
/* The supplementary groups of a unix socket's peer, at most `max` of them (more than that: none). */
size_t
peer_groups(int fd, gid_t *groups, size_t max);
/* A socket address as text: "unix:/run/x", "127.0.0.1:80", "[::1]:80". */
struct sockaddr;
void
peer_address_text(const struct sockaddr *sa, char *dst, size_t size);
/* Tells a newcomer that there is no room (`plainly`: it speaks no TLS), and closes. */
void
conns_turn_away(struct conns *cs, int fd, bool plainly);
const struct reactor *
conns_reactor(const struct conns *cs);

#endif
