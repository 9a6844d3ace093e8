/*
 * Assertions that stay on. Only bugs are asserted, the library's own and misuse that would
 * corrupt memory (a handle freed from inside its callback); whatever the peer or the system
 * does is an error code.
 */
#ifndef WQ_CLIENT_MUST_H
#define WQ_CLIENT_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(cond) \
	do { \
		if (__builtin_expect(!(cond), 0)) { \
			fprintf(stderr, "libwq: bug: %s:%d: not true: %s\n", __FILE__, __LINE__, \
				#cond); \
			abort(); \
		} \
	} while (0)

#endif
