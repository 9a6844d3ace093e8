#include "conf/check.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/un.h>

#include "base/text.h"

/* MAX_ARG_STRLEN of Linux, the terminator included. */
#define ARGUMENT_MAX 131072
#define HOST_SIZE    128 /* as the listener takes it */

static bool
starts_with(struct str v, const char *prefix, struct str *rest)
{
	size_t n = strlen(prefix);

	if (v.n < n || memcmp(v.p, prefix, n) != 0)
		return false;
	*rest = (struct str){ v.p + n, v.n - n };
	return true;
}

/* HOST of "HOST:PORT" without its brackets; false when that is not the form. */
static bool
split_host(struct str v, char host[HOST_SIZE])
{
	const char *colon = v.n ? memrchr(v.p, ':', v.n) : NULL;
	struct str h, port;
	uint64_t number;

	if (!colon)
		return false;
	h = (struct str){ v.p, (size_t)(colon - v.p) };
	port = (struct str){ colon + 1, v.n - h.n - 1 };
	if (text_u64(port, &number) || number > 65535)
		return false;
	if (h.n >= 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
		h = (struct str){ h.p + 1, h.n - 2 };
	else if (memchr(h.p, ':', h.n))
		return false;
	if (h.n == 0 || h.n >= HOST_SIZE || memchr(h.p, '/', h.n) || memchr(h.p, ' ', h.n))
		return false;
	snprintf(host, HOST_SIZE, "%.*s", STR_ARG(h));
	return true;
}

/* Whether `host` is a literal address that is not the loopback's. What a name stands for is seen
 * when it is resolved. */
static bool
host_is_remote(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 != IN_LOOPBACKNET;
	return inet_pton(AF_INET6, host, &v6) == 1 && !IN6_IS_ADDR_LOOPBACK(&v6);
}

bool
check_address(struct str v)
{
	char host[HOST_SIZE];
	struct str rest;

	if (starts_with(v, "unix:", &rest))
		return rest.n > 1 && rest.p[0] == '/' &&
			rest.n < sizeof((struct sockaddr_un *)0)->sun_path;
	return (starts_with(v, "tcp://", &rest) || starts_with(v, "tls://", &rest)) &&
		split_host(rest, host);
}

bool
check_address_is_tls(struct str v)
{
	struct str rest;

	return starts_with(v, "tls://", &rest);
}

bool
check_address_is_remote(struct str v)
{
	char host[HOST_SIZE];
	struct str rest;

	return starts_with(v, "tcp://", &rest) && split_host(rest, host) && host_is_remote(host);
}

bool
check_env(struct str v)
{
	struct str rest;
	size_t n = 0;

	while (n < v.n &&
		(v.p[n] == '_' || (v.p[n] >= 'A' && v.p[n] <= 'Z') ||
			(v.p[n] >= 'a' && v.p[n] <= 'z') || (n && v.p[n] >= '0' && v.p[n] <= '9')))
		n++;
	return n > 0 && n < v.n && v.p[n] == '=' && !starts_with(v, "WQ_", &rest) &&
		check_argument(v);
}

bool
check_argument(struct str v)
{
	return v.n < ARGUMENT_MAX;
}

bool
check_user_exists(struct str v)
{
	char name[256];

	if (v.n == 0 || v.n >= sizeof name)
		return false;
	snprintf(name, sizeof name, "%.*s", STR_ARG(v));
	return getpwnam(name) != NULL;
}

bool
check_group_exists(struct str v)
{
	char name[256];

	if (v.n == 0 || v.n >= sizeof name)
		return false;
	snprintf(name, sizeof name, "%.*s", STR_ARG(v));
	return getgrnam(name) != NULL;
}
