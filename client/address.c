#include "address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wq.h"

#define DEFAULT_SERVER "unix:/run/wqd/wqd.sock"

static int
parse_unix(const char *path, struct address *out)
{
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof out->path)
		return WQ_ERR_ADDRESS;
	out->kind = ADDRESS_UNIX;
	memcpy(out->path, path, n + 1);
	return 0;
}

static int
parse_port(const char *s, char out[6])
{
	size_t n = strlen(s);
	long v;

	if (n == 0 || n > 5 || strspn(s, "0123456789") != n)
		return WQ_ERR_ADDRESS;
	v = strtol(s, NULL, 10);
	if (v < 1 || v > 65535)
		return WQ_ERR_ADDRESS;
	memcpy(out, s, n + 1);
	return 0;
}

/* "HOST:PORT" or "[V6]:PORT" */
static int
parse_tcp(const char *s, struct address *out)
{
	const char *end, *port;
	size_t n;

	if (*s == '[') {
		s++;
		end = strchr(s, ']');
		if (!end || end[1] != ':')
			return WQ_ERR_ADDRESS;
		port = end + 2;
	} else {
		end = strrchr(s, ':');
		if (!end || memchr(s, ':', (size_t)(end - s)))
			return WQ_ERR_ADDRESS;
		port = end + 1;
	}
	n = (size_t)(end - s);
	if (n == 0 || n >= sizeof out->host)
		return WQ_ERR_ADDRESS;
	out->kind = ADDRESS_TCP;
	memcpy(out->host, s, n);
	out->host[n] = '\0';
	return parse_port(port, out->port);
}

static int
parse_tls(const char *s, struct address *out)
{
	int err = parse_tcp(s, out);

	out->kind = ADDRESS_TLS;
	return err;
}

/* "fd:N": what the daemon gives its worker programs. */
static int
parse_fd(const char *s, struct address *out)
{
	size_t n = strlen(s);

	if (n == 0 || n > 6 || strspn(s, "0123456789") != n)
		return WQ_ERR_ADDRESS;
	out->kind = ADDRESS_FD;
	out->fd = (int)strtol(s, NULL, 10);
	return 0;
}

int
address_parse(const char *text, struct address *out)
{
	struct address a = { 0 };
	int err;

	if (!text)
		text = secure_getenv("WQ_SERVER");
	if (!text)
		text = DEFAULT_SERVER;
	if (strncmp(text, "unix:", 5) == 0)
		err = parse_unix(text + 5, &a);
	else if (strncmp(text, "tcp://", 6) == 0)
		err = parse_tcp(text + 6, &a);
	else if (strncmp(text, "tls://", 6) == 0)
		err = parse_tls(text + 6, &a);
	else if (strncmp(text, "fd:", 3) == 0)
		err = parse_fd(text + 3, &a);
	else
		err = WQ_ERR_ADDRESS;
	if (err == 0)
		*out = a;
	return err;
}

void
address_text(const struct address *a, char *dst, size_t size)
{
	bool v6 = strchr(a->host, ':');

	if (a->kind == ADDRESS_UNIX)
		snprintf(dst, size, "unix:%s", a->path);
	else if (a->kind == ADDRESS_FD)
		snprintf(dst, size, "fd:%d", a->fd);
	else
		snprintf(dst, size, "%s://%s%.255s%s:%s", a->kind == ADDRESS_TLS ? "tls" : "tcp",
			v6 ? "[" : "", a->host, v6 ? "]" : "", a->port);
}

static int
gai_errno(int code)
{
	switch (code) {
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	default:
		return -EHOSTUNREACH;
	}
}

static int
resolve_tcp(const struct address *a, struct endpoint *out, size_t *n)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	int code = getaddrinfo(a->host, a->port, &hints, &list);

	if (code == EAI_NONAME) {
		hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
		code = getaddrinfo(a->host, a->port, &hints, &list);
	}
	if (code)
		return gai_errno(code);
	*n = 0;
	for (const struct addrinfo *p = list; p && *n < ADDRESS_ENDPOINTS; p = p->ai_next) {
		if (p->ai_addrlen > sizeof out->sa)
			continue;
		memcpy(&out[*n].sa, p->ai_addr, p->ai_addrlen);
		out[*n].len = p->ai_addrlen;
		++*n;
	}
	freeaddrinfo(list);
	return *n ? 0 : -EHOSTUNREACH;
}

int
address_resolve(const struct address *a, struct endpoint out[ADDRESS_ENDPOINTS], size_t *n)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (a->kind == ADDRESS_FD) {
		*n = 1; /* it is there already */
		return 0;
	}
	if (a->kind != ADDRESS_UNIX)
		return resolve_tcp(a, out, n);
	memcpy(un.sun_path, a->path, sizeof un.sun_path);
	memcpy(&out[0].sa, &un, sizeof un);
	out[0].len = sizeof un;
	*n = 1;
	return 0;
}
