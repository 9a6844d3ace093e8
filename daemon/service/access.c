#include "service/access.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "service/internal.h"

/* What no operation is without, and nobody is refused. */
#define NOTHING 0x80

const uint8_t op_needs[REQ_KIND_COUNT] = {
	[REQ_UNKNOWN] = NOTHING,
	[REQ_HELLO] = NOTHING,
	[REQ_PING] = NOTHING,
	[REQ_UPDATE] = MAY_SUBMIT,
	[REQ_UPDATE_BATCH] = MAY_SUBMIT,
	[REQ_CANCEL] = MAY_SUBMIT,
	[REQ_FLUSH] = MAY_SUBMIT,
	[REQ_FLUSH_QUEUE] = MAY_OBSERVE,
	[REQ_WAIT] = MAY_OBSERVE,
	[REQ_GET] = MAY_OBSERVE,
	[REQ_LIST] = MAY_OBSERVE,
	[REQ_HISTORY] = MAY_OBSERVE,
	[REQ_DELETE] = MAY_OPERATE,
	[REQ_DISABLE] = MAY_OPERATE,
	[REQ_ENABLE] = MAY_OPERATE,
	[REQ_KICK] = MAY_OPERATE,
	[REQ_QUEUE_CREATE] = MAY_OPERATE,
	[REQ_QUEUE_SET] = MAY_OPERATE,
	[REQ_QUEUE_SHOW] = MAY_OBSERVE,
	[REQ_QUEUE_LIST] = MAY_OBSERVE,
	[REQ_QUEUE_DELETE] = MAY_OPERATE,
	[REQ_PAUSE] = MAY_OPERATE,
	[REQ_RESUME] = MAY_OPERATE,
	[REQ_DRAIN] = MAY_OPERATE,
	[REQ_STAT] = MAY_OBSERVE,
	[REQ_RELOAD] = MAY_ADMIN,
	[REQ_SHUTDOWN] = MAY_ADMIN,
	[REQ_UPGRADE] = MAY_ADMIN,
	[REQ_COMPLETION_WAIT] = MAY_SUBMIT,
	[REQ_COMPLETE] = MAY_SUBMIT,
	[REQ_COMPLETE_ALL] = MAY_SUBMIT,
	[REQ_COMPLETION_REINIT] = MAY_SUBMIT,
	[REQ_COMPLETION_SHOW] = MAY_OBSERVE,
	[REQ_WATCH] = MAY_OBSERVE,
	[REQ_SUBSCRIBE] = MAY_WORK,
	[REQ_CREDITS] = MAY_WORK,
	[REQ_UNSUBSCRIBE] = MAY_WORK,
	[REQ_TOUCH] = MAY_WORK,
	[REQ_FINISH] = MAY_WORK,
	[REQ_FAIL] = MAY_WORK,
	[REQ_RELEASE] = MAY_WORK,
	[REQ_BACKUP] = MAY_ADMIN,
	[REQ_CHECK] = MAY_ADMIN,
	[REQ_EXPORT] = MAY_ADMIN,
	[REQ_IMPORT_JOB] = MAY_ADMIN,
};

/* Where a request names its queue. */
static const uint16_t queue_at[REQ_KIND_COUNT] = {
	[REQ_UPDATE] = offsetof(struct request, update.job.queue),
	[REQ_CANCEL] = offsetof(struct request, cancel.job.queue),
	[REQ_FLUSH] = offsetof(struct request, flush.job.queue),
	[REQ_FLUSH_QUEUE] = offsetof(struct request, flush_queue.queue),
	[REQ_WAIT] = offsetof(struct request, wait.job.queue),
	[REQ_GET] = offsetof(struct request, job.job.queue),
	[REQ_HISTORY] = offsetof(struct request, history.job.queue),
	[REQ_DELETE] = offsetof(struct request, job.job.queue),
	[REQ_DISABLE] = offsetof(struct request, job.job.queue),
	[REQ_ENABLE] = offsetof(struct request, job.job.queue),
	[REQ_KICK] = offsetof(struct request, job.job.queue),
	[REQ_QUEUE_CREATE] = offsetof(struct request, queue_set.queue),
	[REQ_QUEUE_SET] = offsetof(struct request, queue_set.queue),
	[REQ_QUEUE_SHOW] = offsetof(struct request, queue.queue),
	[REQ_QUEUE_DELETE] = offsetof(struct request, queue_delete.queue),
	[REQ_PAUSE] = offsetof(struct request, queue.queue),
	[REQ_RESUME] = offsetof(struct request, queue.queue),
	[REQ_DRAIN] = offsetof(struct request, drain.op.queue),
	[REQ_TOUCH] = offsetof(struct request, lease.job.queue),
	[REQ_FINISH] = offsetof(struct request, lease.job.queue),
	[REQ_FAIL] = offsetof(struct request, lease.job.queue),
	[REQ_RELEASE] = offsetof(struct request, lease.job.queue),
};
/* The same where a name is but a filter: empty, what may be seen is shown. */
static const uint16_t filter_at[REQ_KIND_COUNT] = {
	[REQ_LIST] = offsetof(struct request, list.queue),
	[REQ_WATCH] = offsetof(struct request, watch.queue),
};

static const uint16_t idem_at[REQ_KIND_COUNT] = {
	[REQ_UPDATE] = offsetof(struct request, update.idem),
	[REQ_CANCEL] = offsetof(struct request, cancel.idem),
	[REQ_DELETE] = offsetof(struct request, job.idem),
	[REQ_DISABLE] = offsetof(struct request, job.idem),
	[REQ_ENABLE] = offsetof(struct request, job.idem),
	[REQ_KICK] = offsetof(struct request, job.idem),
	[REQ_COMPLETE] = offsetof(struct request, completion.idem),
	[REQ_COMPLETE_ALL] = offsetof(struct request, completion.idem),
	[REQ_COMPLETION_REINIT] = offsetof(struct request, completion.idem),
	[REQ_FINISH] = offsetof(struct request, lease.idem),
	[REQ_FAIL] = offsetof(struct request, lease.idem),
	[REQ_RELEASE] = offsetof(struct request, lease.idem),
};

static struct str *
text_at(struct request *r, uint16_t at)
{
	return at ? (struct str *)(void *)((char *)r + at) : NULL;
}

struct str *
request_idem(struct request *r)
{
	return text_at(r, idem_at[r->kind]);
}

struct str *
request_queue(struct request *r)
{
	return text_at(r, queue_at[r->kind] ? queue_at[r->kind] : filter_at[r->kind]);
}

bool
request_filters(const struct request *r)
{
	return filter_at[r->kind] != 0;
}

struct str *
request_completion(struct request *r)
{
	switch ((int)r->kind) {
	case REQ_COMPLETION_WAIT:
	case REQ_COMPLETE:
	case REQ_COMPLETE_ALL:
	case REQ_COMPLETION_REINIT:
	case REQ_COMPLETION_SHOW:
		return &r->completion.name;
	default:
		return NULL;
	}
}

/* ---- identities ---- */

int
identity_init(struct identity *id, const struct peer *peer)
{
	*id = (struct identity){
		.unix_socket = peer->unix_socket,
		.uid = peer->uid,
		.gid = peer->gid,
	};
	if (peer->n_groups > 0) {
		id->groups = x_alloc(peer->n_groups * sizeof *id->groups);
		if (!id->groups)
			return -ENOMEM;
		memcpy(id->groups, peer->groups, peer->n_groups * sizeof *id->groups);
		id->n_groups = peer->n_groups;
	}
	if (peer->names_n > 0) {
		id->names = x_alloc(peer->names_n);
		if (!id->names) {
			identity_done(id);
			return -ENOMEM;
		}
		memcpy(id->names, peer->names, peer->names_n);
		id->names_n = peer->names_n;
	}
	return 0;
}

void
identity_done(struct identity *id)
{
	x_free(id->groups);
	x_free(id->names);
	id->groups = NULL;
	id->names = NULL;
}

void
identity_text(const struct identity *id, char *dst, size_t size)
{
	if (id->token[0])
		snprintf(dst, size, "token:%s", id->token);
	else if (id->names_n)
		snprintf(dst, size, "cert:%s", id->names);
	else if (id->unix_socket)
		snprintf(dst, size, "uid:%u", (unsigned)id->uid);
	else
		snprintf(dst, size, "anyone");
}

static bool
after(const char *member, const char *prefix, const char **rest)
{
	size_t n = strlen(prefix);

	if (strncmp(member, prefix, n) != 0)
		return false;
	*rest = member + n;
	return true;
}

static bool
has_name(const struct identity *id, const char *name)
{
	for (size_t i = 0; i < id->names_n; i += strlen(id->names + i) + 1)
		if (strcmp(id->names + i, name) == 0)
			return true;
	return false;
}

static bool
has_gid(const struct identity *id, gid_t gid)
{
	for (size_t i = 0; i < id->n_groups; i++)
		if (id->groups[i] == gid)
			return true;
	return id->gid == gid;
}

/* Of a unix socket's peer; names are looked up when it matters: users may come after the file. */
static bool
is_local_member(const struct identity *id, const char *member)
{
	const char *rest;
	uint64_t n;

	if (after(member, "uid:", &rest))
		return text_u64(str_from(rest), &n) == 0 && n == id->uid;
	if (after(member, "gid:", &rest))
		return text_u64(str_from(rest), &n) == 0 && has_gid(id, (gid_t)n);
	if (after(member, "user:", &rest)) {
		const struct passwd *pw = getpwnam(rest);

		return pw && pw->pw_uid == id->uid;
	}
	if (after(member, "group:", &rest)) {
		const struct group *gr = getgrnam(rest);

		return gr && has_gid(id, gr->gr_gid);
	}
	return strcmp(member, "unix") == 0;
}

static bool
is_member(const struct identity *id, const char *member)
{
	const char *rest;

	if (strcmp(member, "anyone") == 0)
		return true;
	if (after(member, "cert:", &rest))
		return has_name(id, rest);
	if (after(member, "token:", &rest))
		return id->token[0] && strcmp(id->token, rest) == 0;
	return id->unix_socket && is_local_member(id, member);
}

bool
access_space_is(const struct session *s, struct str inner)
{
	size_t n = inner.n - queue_name_outer(inner).n;

	return n ? n - 1u == s->space_n && memcmp(inner.p, s->space, s->space_n) == 0
		 : s->space_n == 0;
}

/* ---- roles ---- */

static bool
matches(const char *pattern, struct str name)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return name.n >= n - 1 && (n == 1 || memcmp(name.p, pattern, n - 1) == 0);
	return name.n == n && memcmp(name.p, pattern, n) == 0;
}

static bool
one_matches(char *const *patterns, struct str name)
{
	for (; patterns && *patterns; patterns++)
		if (matches(*patterns, name))
			return true;
	return false;
}

static bool
has_all(char *const *patterns)
{
	for (; patterns && *patterns; patterns++)
		if (strcmp(*patterns, "*") == 0)
			return true;
	return false;
}

static unsigned
may_of(const struct grant_role *r)
{
	static const char *const words[] = { "observe", "submit", "work", "operate", "admin",
		"command" };
	unsigned may = 0;

	for (char *const *a = r->allow; *a; a++)
		for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(*a, words[i]) == 0)
				may |= 1u << i;
	return may;
}

static bool
has_role(const struct session *s, const struct grant_role *r)
{
	struct str space = s->space_n ? (struct str){ s->space, s->space_n } : STR("-");

	if (!one_matches(r->namespaces, space))
		return false;
	for (char *const *m = r->members; *m; m++)
		if (is_member(&s->id, *m))
			return true;
	return false;
}

static void
add_role(struct session *s, const struct grant_role *r, size_t i)
{
	struct access *a = &s->access;
	unsigned may = may_of(r);

	a->roles |= 1ull << i;
	a->some |= (uint8_t)may;
	a->all |= (uint8_t)(has_all(r->queues) ? may : may & ~(unsigned)MAY_QUEUES);
}

/* Every role that allows a thing allows it for all names? */
static void
look_at_names(struct session *s)
{
	const struct grants *g = s->svc->grants;
	struct access *a = &s->access;

	a->completions = a->handlers = true;
	for (size_t i = 0; i < g->n_roles; i++)
		if (a->roles >> i & 1) {
			a->completions = a->completions && has_all(g->roles[i].completions) &&
				has_all(g->roles[i].queues);
			a->handlers = a->handlers && has_all(g->roles[i].handlers);
		}
}

static size_t
n_roles(const struct session *s)
{
	return s->svc->grants ? s->svc->grants->n_roles : 0;
}

/* It is the worker program of that queue, by its outer name. */
static bool
works_on(const struct session *s, struct str queue)
{
	struct str inner = s->works_on ? str_from(s->works_on) : STR_NONE;
	struct str outer = queue_name_outer(inner);

	return inner.n && str_eq(outer, queue) && access_space_is(s, inner);
}

bool
access_compute(struct session *s)
{
	const struct service *svc = s->svc;
	const struct grants *g = svc->grants;
	struct access *a = &s->access;
	const struct identity *id = &s->id;

	*a = (struct access){ .all = NOTHING, .some = NOTHING };
	for (size_t i = 0; i < n_roles(s); i++)
		if (has_role(s, &g->roles[i]))
			add_role(s, &g->roles[i], i);
	if (a->roles)
		look_at_names(s);
	/* A worker program has not got past the mode of a socket. */
	if (n_roles(s) == 0 && !s->works_on)
		a->all |= MAY_QUEUES;
	if (s->works_on && access_space_is(s, str_from(s->works_on)))
		a->some |= MAY_WORK;
	if (id->unix_socket && (id->uid == 0 || id->uid == svc->uid))
		a->all |= MAY_QUEUES | MAY_ADMIN;
	if (id->unix_socket && id->uid == svc->uid)
		a->all |= MAY_COMMAND;
	/* The daemon as a whole is nothing of a namespace. */
	if (s->space_n > 0) {
		a->all &= (uint8_t)~MAY_ADMIN;
		a->some &= (uint8_t)~MAY_ADMIN;
	}
	if ((a->all & MAY_QUEUES) == MAY_QUEUES)
		a->completions = a->handlers = true;
	a->some |= a->all;
	return (a->some & ~NOTHING) != 0;
}

/* ---- decisions ---- */

unsigned
access_queue(struct session *s, struct str queue)
{
	const struct grants *g = s->svc->grants;
	struct access *a = &s->access;
	unsigned may = a->all;

	if (a->some == a->all)
		return may;
	if (queue.n == 0)
		queue = STR("default");
	if (queue.n == a->last_n && memcmp(queue.p, a->last, queue.n) == 0)
		return a->last_may;
	for (size_t i = 0; i < n_roles(s); i++)
		if ((a->roles >> i & 1) && one_matches(g->roles[i].queues, queue))
			may |= may_of(&g->roles[i]);
	if (works_on(s, queue))
		may |= MAY_WORK;
	if (queue.n <= QUEUE_NAME_MAX) {
		memcpy(a->last, queue.p, queue.n);
		a->last_n = (uint8_t)queue.n;
		a->last_may = (uint8_t)may;
	}
	return may;
}

bool
access_completion(struct session *s, struct str name, unsigned need)
{
	const struct grants *g = s->svc->grants;
	const struct access *a = &s->access;

	if (a->completions)
		return (a->some & need) == need;
	for (size_t i = 0; i < n_roles(s); i++)
		if ((a->roles >> i & 1) && (may_of(&g->roles[i]) & need) == need &&
			one_matches(g->roles[i].completions, name))
			return true;
	return false;
}

bool
access_handler(const struct session *s, struct str handler)
{
	const struct grants *g = s->svc->grants;
	const struct access *a = &s->access;

	if (a->handlers || handler.n == 0)
		return true;
	for (size_t i = 0; i < n_roles(s); i++)
		if ((a->roles >> i & 1) && (may_of(&g->roles[i]) & MAY_OPERATE) &&
			one_matches(g->roles[i].handlers, handler))
			return true;
	return false;
}

bool
access_counts(const struct session *s, struct str inner)
{
	const struct grants *g = s->svc->grants;
	struct str outer = queue_name_outer(inner), space = STR("-");

	if (outer.n < inner.n)
		space = (struct str){ inner.p, inner.n - outer.n - 1 };
	for (size_t i = 0; i < n_roles(s); i++)
		if ((s->access.roles >> i & 1) && (may_of(&g->roles[i]) & MAY_SUBMIT) &&
			one_matches(g->roles[i].namespaces, space) &&
			one_matches(g->roles[i].queues, outer))
			return true;
	return false;
}

const char *
access_no_command(const struct session *s)
{
	if (!s->svc->allow_command)
		return "the configuration allows no commands";
	return s->access.all & MAY_COMMAND ? NULL
					   : "commands are for the daemon's own user over a unix "
					     "socket, and for who has a role that allows them";
}

bool
access_sees(struct session *s, struct str inner)
{
	if (s->svc->spaces && !access_space_is(s, inner))
		return false;
	return access_queue(s, queue_name_outer(inner)) & MAY_OBSERVE;
}

/* All queues of a worker. */
static bool
may_work(struct session *s, const struct op_subscribe *op)
{
	for (size_t i = 0; i < op->n_queues; i++)
		if (!(access_queue(s, op->queues[i]) & MAY_WORK))
			return false;
	return op->n_queues > 0 || (access_queue(s, STR_NONE) & MAY_WORK);
}

bool
access_asks(struct session *s, const struct request *r)
{
	unsigned need = op_needs[r->kind] ? op_needs[r->kind] : MAY_ADMIN;
	/* Nothing of it is changed. */
	struct request *mine = (struct request *)(uintptr_t)r;
	const struct str *name = request_completion(mine);

	if (r->kind == REQ_SUBSCRIBE)
		return may_work(s, &r->subscribe);
	if (name)
		return access_completion(s, *name, need);
	name = request_queue(mine);
	if (name && (name->n > 0 || !request_filters(r)))
		return (access_queue(s, *name) & need) == need;
	/* Those that name no queue: a batch looks at each of its own, the others show what they may. */
	return (s->access.some & need) == need;
}
