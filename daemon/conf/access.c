/* Roles and namespaces: their options, and what must hold in their sections. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "conf/check.h"
#include "conf/load_int.h"
#include "engine/ops.h"

#define PATTERN_MAX 128

static bool
begins(struct str v, const char *prefix, struct str *rest)
{
	size_t n = strlen(prefix);

	if (v.n <= n || memcmp(v.p, prefix, n) != 0)
		return false;
	*rest = (struct str){ v.p + n, v.n - n };
	return true;
}

static bool
check_member(struct str v)
{
	struct str rest;
	uint64_t n;

	if (str_eq(v, STR("unix")) || str_eq(v, STR("anyone")))
		return true;
	if (begins(v, "uid:", &rest) || begins(v, "gid:", &rest))
		return text_u64(rest, &n) == 0 && n < UINT32_MAX;
	if (begins(v, "user:", &rest))
		return check_user_exists(rest);
	if (begins(v, "group:", &rest))
		return check_group_exists(rest);
	return (begins(v, "cert:", &rest) || begins(v, "token:", &rest)) && key_valid(rest);
}

static bool
check_allow(struct str v)
{
	static const char *const words[] = { "observe", "submit", "work", "operate", "admin",
		"command" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_eq(v, str_from(words[i])))
			return true;
	return false;
}

/* A name, or the beginning of names with a star behind it. */
static bool
check_pattern(struct str v)
{
	const char *star = v.n ? memchr(v.p, '*', v.n) : NULL;

	return v.n > 0 && v.n <= PATTERN_MAX && (!star || star == v.p + v.n - 1);
}

/* clang-format off */
#define AT(m)    offsetof(struct grant_role, m), sizeof((struct grant_role *)0)->m
#define PATTERNS "list of names, or of beginnings with a * behind them"

static const struct option role_rows[] = {
{ "members", OPT_LIST, AT(members), 1, 1024, NULL, NULL, check_member,
  "list of \"unix\", \"anyone\", \"uid:N\", \"user:NAME\", \"gid:N\", \"group:NAME\", \"cert:NAME\", \"token:NAME\"", true,
  "Who has the role: peers of a unix socket by their user and groups, clients by a name of their certificate or by their token." },
{ "allow", OPT_LIST, AT(allow), 1, 6, NULL, NULL, check_allow,
  "list of \"observe\", \"submit\", \"work\", \"operate\", \"admin\", \"command\"", true,
  "What its members may do: look and wait; update, cancel and complete; pull jobs; change queues and everything about jobs; reload, stop, back up, export and import the daemon (in no namespace); have commands of their own run." },
{ "namespaces", OPT_LIST, AT(namespaces), 1, 256, "-", NULL, check_pattern, PATTERNS ", or \"-\"", true,
  "In which namespaces. A minus stands for the one without a name." },
{ "queues", OPT_LIST, AT(queues), 1, 256, "*", NULL, check_pattern, PATTERNS, true,
  "On which queues. Others are, for its members, not there." },
{ "completions", OPT_LIST, AT(completions), 1, 256, "*", NULL, check_pattern, PATTERNS, true,
  "On which completions." },
{ "handlers", OPT_LIST, AT(handlers), 1, 256, "*", NULL, check_pattern, PATTERNS, true,
  "Which handlers its members may give to queues that they make or change." },
{ "max_connections", OPT_NUMBER, AT(each.connections), 0, 1000000, "0", NULL, NULL, NULL, true,
  "Connections of each member at once. 0: no limit of its own." },
{ "max_requests", OPT_NUMBER, AT(each.requests_per_s), 0, 100000000, "0", NULL, NULL, NULL, true,
  "Requests (updates, in a batch) of each member in a second. 0: no limit of its own." },
{ "max_waiters", OPT_NUMBER, AT(each.waiters), 0, 100000000, "0", NULL, NULL, NULL, true,
  "Requests of each member that wait at once. 0: no limit of its own." },
{ "max_watchers", OPT_NUMBER, AT(each.watchers), 0, 1024, "0", NULL, NULL, NULL, true,
  "Watches of each member at once. 0: no limit of its own." },
{ "max_jobs", OPT_NUMBER, AT(each.jobs), 0, 1000000000, "0", NULL, NULL, NULL, true,
  "While the queues of the role, in all of its namespaces together, know so many jobs, whoever made them, kept results included, its members make no new ones. 0: no limit of its own." },
{ "max_bytes", OPT_SIZE, AT(each.bytes), 0, INT64_MAX, "0", NULL, NULL, NULL, true,
  "The same of the bytes of keys and payloads in them. 0: no limit of its own." },
};
#undef AT
#define AT(m) offsetof(struct grant_namespace, m), sizeof((struct grant_namespace *)0)->m

static const struct option namespace_rows[] = {
{ "max_connections", OPT_NUMBER, AT(all.connections), 0, 1000000, "0", NULL, NULL, NULL, true,
  "Connections at once. 0: no limit of its own." },
{ "max_requests", OPT_NUMBER, AT(all.requests_per_s), 0, 100000000, "0", NULL, NULL, NULL, true,
  "Requests (updates, in a batch) in a second. 0: no limit of its own." },
{ "max_waiters", OPT_NUMBER, AT(all.waiters), 0, 100000000, "0", NULL, NULL, NULL, true,
  "Requests that wait at once. 0: no limit of its own." },
{ "max_watchers", OPT_NUMBER, AT(all.watchers), 0, 1024, "0", NULL, NULL, NULL, true,
  "Watches at once. 0: no limit of its own." },
{ "max_jobs", OPT_NUMBER, AT(all.jobs), 0, 1000000000, "0", NULL, NULL, NULL, true,
  "Jobs known at once, kept results included. 0: no limit of its own." },
{ "max_bytes", OPT_SIZE, AT(all.bytes), 0, INT64_MAX, "0", NULL, NULL, NULL, true,
  "Bytes of keys and payloads at once. 0: no limit of its own." },
};
/* clang-format on */

const struct option_scope role_scope = {
	.name = "role",
	.title = "Roles",
	.doc = "role \"NAME\" { ... } says who may do what. Without any role, who can connect may "
	       "do "
	       "all but what admin and command allow, in every namespace. Root and the daemon's "
	       "own "
	       "user may do everything over a unix socket, but commands are the daemon's user's "
	       "alone.",
	.rows = role_rows,
	.n = ARRAY_SIZE(role_rows),
};

const struct option_scope namespace_scope = {
	.name = "namespace",
	.title = "Namespaces",
	.doc = "namespace \"NAME\" { ... } gives limits to all who are in a namespace together. A "
	       "namespace needs no section to exist.",
	.rows = namespace_rows,
	.n = ARRAY_SIZE(namespace_rows),
};

/* ---- sections ---- */

int
end_role(struct loading *l, int line)
{
	struct grants *g = &l->c->grants;
	struct grant_role *grown;

	if (!l->role.members || !l->role.allow)
		return load_fail(l, line,
			"role \"%s\": %s is missing; right is: members = { \"user:NAME\", ... } "
			"and "
			"allow = { \"observe\", ... }",
			l->role.name, l->role.members ? "allow" : "members");
	grown = x_realloc(g->roles, g->n_roles + 1, sizeof *grown);
	if (!grown)
		return load_fail_errno(l, -ENOMEM);
	g->roles = grown;
	grown[g->n_roles++] = l->role;
	l->role = (struct grant_role){ 0 };
	return 0;
}

int
end_namespace(struct loading *l, int line)
{
	struct grants *g = &l->c->grants;
	struct grant_namespace *grown;

	if (!namespace_valid(str_from(l->space.name)))
		return load_fail(l, line,
			"namespace \"%s\": bad name; right is: 1 to %d letters, digits, '_', '.', "
			"'-', beginning with a letter or digit",
			l->space.name, NAMESPACE_NAME_MAX);
	grown = x_realloc(g->namespaces, g->n_namespaces + 1, sizeof *grown);
	if (!grown)
		return load_fail_errno(l, -ENOMEM);
	g->namespaces = grown;
	grown[g->n_namespaces++] = l->space;
	return 0;
}
