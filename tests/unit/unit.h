/*
 * What every unit test program shares: one suite, run with or without forks as
 * CK_FORK says, the count of descriptors and live allocations checked at the end
 * of each test, exit status 0 or 1.
 */
#ifndef WQD_TESTS_UNIT_H
#define WQD_TESTS_UNIT_H

#include <check.h>
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

/* For inner loops: ck_assert() tells its parent process where it is, each time. */
#define unit_check(cond) \
	do { \
		if (!(cond)) \
			ck_abort_msg("%s:%d: %s", __FILE__, __LINE__, #cond); \
	} while (0)

static int unit_fds_before;
static int64_t unit_live_before;

static inline int
unit_count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = -1; /* the one of the directory itself */

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.')
			n++;
	closedir(d);
	return n;
}

static inline void
unit_before(void)
{
	unit_fds_before = unit_count_fds();
	unit_live_before = alloc_live();
}

static inline void
unit_after(void)
{
	ck_assert_int_eq(unit_count_fds(), unit_fds_before);
	ck_assert_int_eq(alloc_live(), unit_live_before);
}

/* A case whose every test must leave no descriptor and no allocation behind. */
static inline TCase *
unit_case(Suite *s, const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, unit_before, unit_after);
	tcase_set_timeout(tc, 600); /* for a loaded machine, under a sanitizer */
	suite_add_tcase(s, tc);
	return tc;
}

static inline int
unit_run(Suite *s)
{
	SRunner *sr = srunner_create(s);
	int failed;

	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
