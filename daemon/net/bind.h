/*
 * Listening sockets from addresses. For the files of net/ alone.
 */
#ifndef WQD_NET_BIND_H
#define WQD_NET_BIND_H

#include <sys/stat.h>

#include "net/listen.h"

#define ADDRESS_MAX 160 /* "unix:" and the longest path of a socket */

struct bound {
	int fd;
	char address[ADDRESS_MAX];
	bool tls;
	bool made_file; /* the socket file of `address` is ours: */
	dev_t dev;
	ino_t ino;
};

int
bind_address(const char *address, const struct listen_options *o, struct bound *b,
	struct listen_error *err);
/* A listening socket made by somebody else. */
int
bind_adopted(int fd, const struct listen_options *o, struct bound *b, struct listen_error *err);
/* Closes; removes the socket file if it is still ours. */
void
bind_release(struct bound *b);

#endif
