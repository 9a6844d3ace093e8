#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void
wq_assert_fail(const char *func, const char *file, int line, const char *cond)
{
	fprintf(stderr, "wqd: bug: %s:%d: %s(): not true: %s\n", file, line, func, cond);
	fflush(stderr);
	abort();
}
