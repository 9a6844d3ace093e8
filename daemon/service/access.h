/*
 * Who may do what. A session has an identity, of the kernel (unix socket), of a
 * certificate or of a token; the configuration's roles say what that may. What
 * comes of it is computed once, when the session says hello and again at a
 * reload, so that an update costs one comparison:
 *
 *   all   what is allowed on every queue of the session's namespace
 *   some  what is allowed on some queue; where that is more than `all` the
 *         request's queue is looked up in the roles
 *
 * What is not allowed is UNAUTHORIZED, by the name alone, before anything is
 * looked up: the same for what does not exist. Lists, streams and counters leave
 * out what the session may not see.
 *
 * Part of the service; loop thread only.
 */
#ifndef WQD_SERVICE_ACCESS_H
#define WQD_SERVICE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/grants.h"
#include "base/peer.h"
#include "base/str.h"
#include "engine/settings.h"
#include "wire/request.h"

enum {
	MAY_OBSERVE = 1,
	MAY_SUBMIT = 2,
	MAY_WORK = 4,
	MAY_OPERATE = 8,
	MAY_ADMIN = 16,
	MAY_COMMAND = 32,
	/* What queues have to do with. */
	MAY_QUEUES = MAY_OBSERVE | MAY_SUBMIT | MAY_WORK | MAY_OPERATE,
};

#define ROLES_MAX 64
#define TOKEN_MAX 64 /* bytes of a token's name */

/* Who it is: kept as long as the session. */
struct identity {
	bool unix_socket;
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned; NULL: none */
	size_t n_groups;
	char *names; /* owned; of the certificate, each ended by a NUL */
	size_t names_n;
	char token[TOKEN_MAX + 1]; /* the name of its token; "": none */
};

struct access {
	uint8_t all, some;
	bool completions, handlers; /* of every name */
	uint64_t roles;             /* a bit for each role that it has in its namespace */
	/* The queue that was asked for last. */
	uint8_t last_n, last_may;
	char last[QUEUE_NAME_MAX];
};

struct session;
struct call;

/* 0 or -ENOMEM. */
int
identity_init(struct identity *id, const struct peer *peer);
void
identity_done(struct identity *id);
/* "uid:1000", "cert:worker", "token:ci", "anyone": what counts as one for limits. */
void
identity_text(const struct identity *id, char *dst, size_t size);
/* Computes s->access. False: it may do nothing at all. */
bool
access_compute(struct session *s);
/* What it may do on the queue, by its outer name ("": default). */
unsigned
access_queue(struct session *s, struct str queue);
bool
access_completion(struct session *s, struct str name, unsigned need);
bool
access_handler(const struct session *s, struct str handler);
/* The queue, by its inner name, is of the session's namespace. */
bool
access_space_is(const struct session *s, struct str inner);
/* One of its roles lets its members submit there: what the role's limits of jobs and bytes count. */
bool
access_counts(const struct session *s, struct str inner);
/* The session may see that there is such a queue, by its inner name. */
bool
access_sees(struct session *s, struct str inner);
/* A request that `all` alone does not allow: is it allowed? */
bool
access_asks(struct session *s, const struct request *r);

/* What an operation needs. Not in the table: MAY_ADMIN. */
extern const uint8_t op_needs[REQ_KIND_COUNT];

#endif
