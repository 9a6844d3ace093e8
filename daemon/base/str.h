/*
 * A borrowed run of bytes: pointer and length, no terminator, no ownership.
 * Keys, queue names and payloads are passed as these; who keeps one copies it.
 */
#ifndef WQD_BASE_STR_H
#define WQD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

#define STR_SHORT 64 /* up to here bytes are compared where they are asked for, eight at a time */

static inline bool
str_same_8(const char *a, const char *b)
{
	uint64_t v, w;

	memcpy(&v, a, sizeof v);
	memcpy(&w, b, sizeof w);
	return v == w;
}

static inline bool
str_same_4(const char *a, const char *b)
{
	uint32_t v, w;

	memcpy(&v, a, sizeof v);
	memcpy(&w, b, sizeof w);
	return v == w;
}

/* The last ones overlap those before them. */
static inline bool
str_eq(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	if (a.n > STR_SHORT)
		return memcmp(a.p, b.p, a.n) == 0;
	if (a.n >= 8) {
		for (size_t i = 0; i + 8 < a.n; i += 8)
			if (!str_same_8(a.p + i, b.p + i))
				return false;
		return str_same_8(a.p + a.n - 8, b.p + b.n - 8);
	}
	if (a.n >= 4)
		return str_same_4(a.p, b.p) && str_same_4(a.p + a.n - 4, b.p + b.n - 4);
	for (size_t i = 0; i < a.n; i++)
		if (a.p[i] != b.p[i])
			return false;
	return true;
}

#endif
