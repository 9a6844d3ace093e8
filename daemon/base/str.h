/*
 * A borrowed run of bytes: pointer and length, no terminator, no ownership.
 * Keys, queue names and payloads are passed as these; who keeps one copies it.
 */
#ifndef WQD_BASE_STR_H
#define WQD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
	const char *p;
	size_t n;
};

#define STR(lit)   ((struct str){ "" lit, sizeof(lit) - 1 })
#define STR_NONE   ((struct str){ NULL, 0 })
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct str
str_from(const char *z)
{
	return (struct str){ z, z ? strlen(z) : 0 };
}

static inline bool
str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

#endif
