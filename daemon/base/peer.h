/*
 * Who is at the other end of a connection, as the kernel says: between the
 * network adapter, which asks, and the sessions, which decide by it.
 */
#ifndef WQD_BASE_PEER_H
#define WQD_BASE_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct peer {
	bool unix_socket;
	uid_t uid; /* of a unix socket's peer when it connected; else (uid_t)-1 */
	gid_t gid;
	pid_t pid;
	char address[64]; /* for logs: "unix pid=12 uid=0", "127.0.0.1:40000" */
	bool tls;
	/* Of a verified client certificate, each ended by a NUL; borrowed while the session opens. */
	const char *names;
	size_t names_n;
	const gid_t *groups; /* of a unix socket's peer, besides `gid`; borrowed likewise */
	size_t n_groups;
	struct str
		works_on; /* of a worker program of ours: its queue's inner name; borrowed likewise */
};

#endif
