/* Addresses of daemons: text to parts, parts to what connect(2) takes. */
#ifndef WQ_CLIENT_ADDRESS_H
#define WQ_CLIENT_ADDRESS_H

#include <netdb.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS_ENDPOINTS 8 /* of one host name that are tried */

enum address_kind { ADDRESS_UNIX, ADDRESS_TCP, ADDRESS_TLS, ADDRESS_FD };

struct address {
	enum address_kind kind;
	char path[sizeof((struct sockaddr_un *)0)->sun_path];
	char host[NI_MAXHOST];
	char port[6];
	int fd; /* ADDRESS_FD: a connected socket, borrowed */
};

struct endpoint {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* NULL: $WQ_SERVER, else the default. 0 or WQ_ERR_ADDRESS. */
int
address_parse(const char *text, struct address *out);
/* As it was parsed. */
void
address_text(const struct address *a, char *dst, size_t size);
/*
 * Fills `out` and *n (>= 1). A literal address never blocks; a host name asks the system's
 * resolver, which may. 0 or -errno (-EHOSTUNREACH: no such host).
 */
int
address_resolve(const struct address *a, struct endpoint out[ADDRESS_ENDPOINTS], size_t *n);

#endif
