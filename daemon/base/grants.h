/*
 * Who may do what, as the configuration says it: plain data between the
 * configuration, which owns it, and the service, which decides by it.
 */
#ifndef WQD_BASE_GRANTS_H
#define WQD_BASE_GRANTS_H

#include <stddef.h>
#include <stdint.h>

#define ROLE_NAME_MAX      64 /* bytes */
#define NAMESPACE_NAME_MAX 32

/* What one identity, or a whole namespace, may have at once. 0: no limit of its own. */
struct quotas {
	uint32_t connections;
	uint32_t requests_per_s;
	uint32_t waiters;  /* requests that wait */
	uint32_t watchers; /* streams of events */
	/* Known at once, in the namespace or where the role may submit; and their keys and payloads. */
	uint64_t jobs, bytes;
};

/* Lists end with NULL; NULL: as the option's default has it. */
struct grant_role {
	char name[ROLE_NAME_MAX + 1];
	char **members;     /* "unix", "anyone", "uid:N", "user:NAME", "gid:N", "group:NAME",
	                       "cert:NAME", "token:NAME" */
	char **allow;       /* "observe", "submit", "work", "operate", "admin", "command" */
	char **namespaces;  /* patterns; "-": the one without a name */
	char **queues;      /* patterns */
	char **completions; /* patterns */
	char **handlers;    /* patterns: what queues that are made or set may name */
	struct quotas each; /* for each identity */
};

struct grant_namespace {
	char name[NAMESPACE_NAME_MAX + 1];
	struct quotas all; /* for all in it together */
};

struct grants {
	struct grant_role *roles; /* none: who can connect may do all but command and admin */
	size_t n_roles;
	struct grant_namespace *namespaces;
	size_t n_namespaces;
};

#endif
