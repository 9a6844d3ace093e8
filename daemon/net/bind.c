/*
 * Socket files, and the two ways to make one wrong: open to the wrong people for
 * a moment, or in the place of something that is not ours.
 *
 * A socket takes the mode of its descriptor when it is bound, less the umask; so
 * it is born with mode 0, gets its group and its mode, and listens only then.
 * Looking at what is there, removing a stale one and binding happen under a lock
 * on the folder, so that of two daemons that start at once neither removes the
 * other's. A connect tells a live socket from a stale one.
 */
#include "net/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "net/peer.h"

#define BACKLOG       4096
#define LOCK_TRIES    100
#define LOCK_PAUSE_MS 10

#define UNIX_PREFIX "unix:"
#define TCP_PREFIX  "tcp://"
#define TLS_PREFIX  "tls://"

union address {
	struct sockaddr sa;
	struct sockaddr_un un;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

__attribute__((format(printf, 3, 4))) static int
fail(struct listen_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	return code;
}

static int
fail_errno(struct listen_error *err, const char *what, const char *on)
{
	int code = errno ? -errno : -EIO;

	return fail(err, code, "%s %s: %s", what, on, err_str(code));
}

/* ---- unix ---- */

/*
 * The folder of `path`, locked. Only a daemon that starts at the same time holds it, and not for
 * long; whoever else does, or a folder that can't be opened, keeps us from nothing: -1.
 */
static int
folder_lock(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)] = ".";
	int fd;

	if (slash) {
		size_t n = slash == path ? 1 : (size_t)(slash - path);

		memcpy(dir, path, n);
		dir[n] = '\0';
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		poll(NULL, 0, LOCK_PAUSE_MS);
	}
	close(fd);
	return -1;
}

/* Does anybody answer there? 0: nobody; -EADDRINUSE; or why it can't be told. */
static int
probe(const union address *a)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int code = -EADDRINUSE;

	if (fd < 0)
		return -errno;
	/* EAGAIN: somebody listens, and has his hands full. */
	if (connect(fd, &a->sa, sizeof a->un) < 0 && errno != EAGAIN)
		code = errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
	close(fd);
	return code;
}

/* Makes room for a socket at its path: nothing there, or a socket that nobody serves. */
static int
clear_path(const union address *a, struct listen_error *err)
{
	const char *path = a->un.sun_path;
	struct stat st;
	int code;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : fail_errno(err, "cannot look at", path);
	if (!S_ISSOCK(st.st_mode))
		return fail(
			err, ERR_NOT_OURS, "%s exists and is no socket; it is left alone", path);
	code = probe(a);
	if (code == -EADDRINUSE)
		return fail(err, code, "%s: another daemon listens there", path);
	if (code < 0)
		return fail(err, code, "%s: cannot tell if it is in use: %s", path, err_str(code));
	if (unlink(path) < 0)
		return fail_errno(err, "cannot remove the stale socket", path);
	return 0;
}

/* The socket at `a`, with its final mode and group, before anybody can connect. */
static int
bind_path(int fd, const union address *a, const struct listen_options *o, struct bound *b,
	struct listen_error *err)
{
	const char *path = a->un.sun_path;
	struct stat st;

	if (fchmod(fd, 0) < 0 || bind(fd, &a->sa, sizeof a->un) < 0)
		return fail_errno(err, "cannot make", path);
	if (lstat(path, &st) < 0)
		return fail_errno(err, "cannot look at", path);
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	b->made_file = true;
	if (o->group != (gid_t)-1 && lchown(path, (uid_t)-1, o->group) < 0)
		return fail_errno(err, "cannot set the group of", path);
	if (chmod(path, o->mode) < 0)
		return fail_errno(err, "cannot set the mode of", path);
	if (listen(fd, BACKLOG) < 0)
		return fail_errno(err, "cannot listen on", path);
	return 0;
}

static int
bind_unix(
	const char *path, const struct listen_options *o, struct bound *b, struct listen_error *err)
{
	union address a = { .un = { .sun_family = AF_UNIX } };
	size_t n = strlen(path);
	int folder, code;

	if (n == 0)
		return fail(err, ERR_BAD_VALUE, "unix: needs a path");
	if (n >= sizeof a.un.sun_path)
		return fail(err, ERR_TOO_LONG, "%s: the path of a socket has at most %zu bytes",
			path, sizeof a.un.sun_path - 1);
	memcpy(a.un.sun_path, path, n + 1);
	snprintf(b->address, sizeof b->address, UNIX_PREFIX "%s", path);
	folder = folder_lock(path);
	b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->fd < 0)
		code = fail_errno(err, "no socket for", path);
	else
		code = clear_path(&a, err);
	if (!code)
		code = bind_path(b->fd, &a, o, b, err);
	if (folder >= 0)
		close(folder);
	return code;
}

/* ---- tcp ---- */

static bool
is_loopback(const union address *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

static int
check_plaintext(const union address *a, const struct listen_options *o, const char *address,
	struct listen_error *err)
{
	if (o->allow_plaintext || is_loopback(a))
		return 0;
	return fail(err, -EACCES,
		"%s: TCP without TLS on other than loopback addresses needs allow_plaintext",
		address);
}

/* "HOST:PORT" or "[HOST]:PORT" to its two parts. */
static bool
split_host_port(const char *s, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(s, ':');
	size_t n = colon ? (size_t)(colon - s) : 0;

	if (n == 0 || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	if (s[0] == '[') {
		if (n < 3 || s[n - 1] != ']')
			return false;
		s++;
		n -= 2;
	} else if (memchr(s, ':', n)) {
		return false;
	}
	if (n >= size)
		return false;
	memcpy(host, s, n);
	host[n] = '\0';
	*port = colon + 1;
	return true;
}

static int
resolve(const char *address, union address *a, socklen_t *len, struct listen_error *err)
{
	const struct addrinfo hints = {
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *ai;
	char host[128];
	const char *port;
	uint64_t number;
	int code;

	if (!split_host_port(address + strlen(TCP_PREFIX), host, sizeof host, &port))
		return fail(
			err, ERR_BAD_VALUE, "%s: not of the form %.6sHOST:PORT", address, address);
	if (text_u64(str_from(port), &number) || number > UINT16_MAX)
		return fail(err, ERR_BAD_VALUE, "%s: a port is at most 65535", address);
	code = getaddrinfo(host, port, &hints, &ai);
	if (code == EAI_SYSTEM)
		return fail_errno(err, "cannot find", address);
	if (code)
		return fail(err, ERR_BAD_VALUE, "%s: %s", address, gai_strerror(code));
	*len = ai->ai_addrlen;
	memcpy(a, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 0;
}

/* The address as it is now, with the port that the kernel chose. */
static void
name_tcp(struct bound *b, const union address *a)
{
	char text[ADDRESS_MAX - sizeof TCP_PREFIX];

	peer_address_text(&a->sa, text, sizeof text);
	snprintf(b->address, sizeof b->address, "%s%s", b->tls ? TLS_PREFIX : TCP_PREFIX, text);
}

static int
bind_tcp(const char *address, const struct listen_options *o, struct bound *b,
	struct listen_error *err)
{
	union address a = { .storage = { 0 } };
	socklen_t len = 0;
	int one = 1, code;

	if (b->tls && !o->tls)
		return fail(err, ERR_BAD_VALUE, "%s: TLS needs tls_cert and tls_key", address);
	code = resolve(address, &a, &len, err);
	if (!code && !b->tls)
		code = check_plaintext(&a, o, address, err);
	if (code)
		return code;
	b->fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->fd < 0)
		return fail_errno(err, "no socket for", address);
	setsockopt(b->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	/* One address is one address: [::] is not 0.0.0.0 too. */
	if (a.sa.sa_family == AF_INET6)
		setsockopt(b->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(b->fd, &a.sa, len) < 0 || listen(b->fd, BACKLOG) < 0 ||
		getsockname(b->fd, &a.sa, &len) < 0)
		return fail_errno(err, "cannot listen on", address);
	name_tcp(b, &a);
	return 0;
}

/* ---- all ---- */

int
bind_address(const char *address, const struct listen_options *o, struct bound *b,
	struct listen_error *err)
{
	int code;

	*b = (struct bound){
		.fd = -1,
		.tls = strncmp(address, TLS_PREFIX, strlen(TLS_PREFIX)) == 0,
	};
	if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		code = bind_unix(address + strlen(UNIX_PREFIX), o, b, err);
	else if (b->tls || strncmp(address, TCP_PREFIX, strlen(TCP_PREFIX)) == 0)
		code = bind_tcp(address, o, b, err);
	else
		code = fail(err, ERR_BAD_VALUE,
			"%.100s: not of the form unix:PATH, tcp://HOST:PORT or tls://HOST:PORT",
			address);
	if (code)
		bind_release(b);
	return code;
}

static int
check_listening(int fd, struct listen_error *err)
{
	int type = 0, listening = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return fail_errno(err, "cannot use", "the passed descriptor");
	len = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0)
		return fail_errno(err, "cannot use", "the passed descriptor");
	if (type != SOCK_STREAM || !listening)
		return fail(
			err, ERR_BAD_VALUE, "the passed descriptor is no listening stream socket");
	return 0;
}

int
bind_adopted(int fd, const struct listen_options *o, struct bound *b, struct listen_error *err)
{
	union address a = { .storage = { 0 } };
	socklen_t len = sizeof a;
	int code = check_listening(fd, err);

	if (code)
		return code;
	*b = (struct bound){ .fd = fd };
	if (getsockname(fd, &a.sa, &len) < 0)
		return fail_errno(err, "cannot use", "the passed descriptor");
	if (a.sa.sa_family == AF_UNIX) {
		snprintf(b->address, sizeof b->address, UNIX_PREFIX "%.*s",
			(int)sizeof a.un.sun_path, a.un.sun_path);
	} else {
		b->tls = o->tls != NULL;
		name_tcp(b, &a);
		code = b->tls ? 0 : check_plaintext(&a, o, b->address, err);
	}
	if (!code &&
		(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ||
			fcntl(fd, F_SETFD, FD_CLOEXEC) < 0))
		code = fail_errno(err, "cannot use", b->address);
	return code;
}

void
bind_release(struct bound *b)
{
	const char *path = b->address + strlen(UNIX_PREFIX);
	struct stat st;

	if (b->made_file && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == b->dev &&
		st.st_ino == b->ino)
		unlink(path);
	if (b->fd >= 0)
		close(b->fd);
	*b = (struct bound){ .fd = -1 };
}
