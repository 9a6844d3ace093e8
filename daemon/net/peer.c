#include "net/peer.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A silent peer is asked after half a minute, and given up after another. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_COUNT      3
#define UNACKNOWLEDGED_MS    60000

static void
set_int(int fd, int level, int name, int v)
{
	/* Best effort: without it the connection works, only less well. */
	(void)!setsockopt(fd, level, name, &v, sizeof v);
}

static void
tune_tcp(int fd)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS);
}

void
peer_address_text(const struct sockaddr *sa, char *dst, size_t size)
{
	socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);
	char host[INET6_ADDRSTRLEN + 20], port[8];

	if ((sa->sa_family != AF_INET && sa->sa_family != AF_INET6) ||
		getnameinfo(sa, len, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(dst, size, "?");
	else if (sa->sa_family == AF_INET6)
		snprintf(dst, size, "[%s]:%s", host, port);
	else
		snprintf(dst, size, "%s:%s", host, port);
}

size_t
peer_groups(int fd, gid_t *groups, size_t max)
{
	socklen_t len = (socklen_t)(max * sizeof *groups);

	return getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0 ? 0
									   : len / sizeof *groups;
}

void
peer_of_socket(int fd, struct peer *peer)
{
	union {
		struct sockaddr sa;
		struct sockaddr_storage storage;
	} a;
	socklen_t len = sizeof a;
	struct ucred cred;
	socklen_t cred_len = sizeof cred;

	memset(&a, 0, sizeof a);
	*peer = (struct peer){ .uid = (uid_t)-1, .gid = (gid_t)-1, .address = "?" };
	if (getpeername(fd, &a.sa, &len) < 0)
		return;
	if (a.sa.sa_family != AF_UNIX) {
		tune_tcp(fd);
		peer_address_text(&a.sa, peer->address, sizeof peer->address);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
		return;
	peer->unix_socket = true;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	peer->pid = cred.pid;
	snprintf(peer->address, sizeof peer->address, "unix pid=%d uid=%u", (int)cred.pid,
		(unsigned)cred.uid);
}
