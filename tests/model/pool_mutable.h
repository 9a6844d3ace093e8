/*
 * The policy of pools with constants that can be changed (pool_mutable.c), for test_pool_mutants.
 */
#ifndef WQD_TESTS_POOL_MUTABLE_H
#define WQD_TESTS_POOL_MUTABLE_H

#define POOL_MUTATIONS 24

/* Changes one constant; returns which and how. All others are as they were. */
const char *
pool_mutate(unsigned which);

#endif
