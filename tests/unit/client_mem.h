/*
 * Stands in for client/mem.c in the tests of libwq, whose archive has no need of its own then:
 * counts what is allocated, and can make the Nth allocation fail.
 */
#ifndef WQD_TESTS_CLIENT_MEM_H
#define WQD_TESTS_CLIENT_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/unit.h"

/* The allocation after `n` more fails, once. Negative: none. */
void
client_mem_fail_after(int64_t n);
/* Whether that has happened. */
bool
client_mem_failed(void);
/* A case whose tests must leave no descriptor and no memory of either side behind. */
TCase *
client_case(Suite *s, const char *name);

#endif
