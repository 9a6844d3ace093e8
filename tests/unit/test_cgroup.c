/*
 * run/cgroup on a tree of plain folders: what would be written where, and what is read back. The
 * real one, with processes in it, is in the boot test.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/cgroup.h"
#include "unit/remove_tree.h"
#include "unit/unit.h"

/* What it writes goes through us; the names of the library's are all here, so that it stays out. */
static int
put(const char *dir, const char *name, const char *text);
#define file_put put
#include "run/cgroup.c"
#undef file_put

/* A kernel without this file. */
static const char *missing;

/* A folder has none of the files of a group: they come with the first word in them. */
static int
put(const char *dir, const char *name, const char *text)
{
	char path[2 * CGROUP_PATH_MAX];
	FILE *f;

	if (missing && strcmp(missing, name) == 0)
		return -ENOENT;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	fputs(text, f);
	fclose(f);
	return 0;
}

static const char *
said(const char *dir, const char *name)
{
	static char text[512];
	long n = file_get(dir, name, text, sizeof text);

	return n < 0 ? "(none)" : text;
}

static void
tree_new(struct cgroup_tree *t)
{
	const struct pool_settings s = { .max_memory = 1u << 30, .cpu_weight = 20 };

	*t = (struct cgroup_tree){ .on = true, .base = "/tmp/wq-cgroup-XXXXXX" };
	missing = NULL;
	ck_assert_ptr_nonnull(mkdtemp(t->base));
	cgroup_pool_set(t, 3, &s);
}

static void
tree_free(struct cgroup_tree *t)
{
	char base[CGROUP_PATH_MAX];

	memcpy(base, t->base, sizeof base);
	(void)remove_tree(base);
	cgroup_tree_done(t);
	ck_assert_int_ne(access(base, F_OK), 0);
}

START_TEST(a_run_gets_its_limits_and_its_pool_the_pools)
{
	struct cgroup_tree t;
	struct run_cgroup c;
	char pool[2 * CGROUP_PATH_MAX];

	tree_new(&t);
	snprintf(pool, sizeof pool, "%s/pool-3", t.base);
	ck_assert_str_eq(said(pool, "cpu.weight"), "20");
	ck_assert_str_eq(said(pool, "memory.max"), "1073741824");
	ck_assert_int_eq(cgroup_run_make(&t, 3, 7, 64u << 20, 12, &c), 0);
	ck_assert_str_eq(strrchr(c.path, '/'), "/run-7");
	ck_assert_str_eq(said(c.path, "memory.max"), "67108864");
	/* All of it, and not by way of the disk. */
	ck_assert_str_eq(said(c.path, "memory.swap.max"), "0");
	ck_assert_str_eq(said(c.path, "memory.oom.group"), "1");
	ck_assert_str_eq(said(c.path, "pids.max"), "12");
	tree_free(&t);
}
END_TEST

START_TEST(without_limits_nothing_is_written)
{
	struct cgroup_tree t;
	struct run_cgroup c;

	tree_new(&t);
	ck_assert_int_eq(cgroup_run_make(&t, 3, 8, 0, 0, &c), 0);
	ck_assert_str_eq(said(c.path, "memory.max"), "(none)");
	ck_assert_str_eq(said(c.path, "pids.max"), "(none)");
	tree_free(&t);
}
END_TEST

START_TEST(memory_that_ran_out_is_that_of_one_run_alone)
{
	struct run_cgroup hit, other, none = { "" };
	struct cgroup_tree t;

	tree_new(&t);
	ck_assert_int_eq(cgroup_run_make(&t, 3, 1, 1u << 20, 0, &hit), 0);
	ck_assert_int_eq(cgroup_run_make(&t, 3, 2, 1u << 20, 0, &other), 0);
	put(hit.path, "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\n");
	put(other.path, "memory.events", "low 0\nhigh 0\nmax 4\noom 0\noom_kill 0\n");
	ck_assert(cgroup_run_oom(&hit));
	ck_assert(!cgroup_run_oom(&other));
	ck_assert(!cgroup_run_oom(&none));
	tree_free(&t);
}
END_TEST

START_TEST(memory_of_a_pool_is_read_where_the_kernel_counts_it)
{
	struct cgroup_tree t, off = { 0 };
	char pool[2 * CGROUP_PATH_MAX];

	tree_new(&t);
	snprintf(pool, sizeof pool, "%s/pool-3", t.base);
	ck_assert_uint_eq(cgroup_pool_memory(&t, 3), UINT64_MAX);
	put(pool, "memory.current", "123456\n");
	ck_assert_uint_eq(cgroup_pool_memory(&t, 3), 123456);
	ck_assert_uint_eq(cgroup_pool_memory(&t, 4), UINT64_MAX);
	ck_assert_uint_eq(cgroup_pool_memory(&off, 3), UINT64_MAX);
	tree_free(&t);
}
END_TEST

/* By the kernel's file where there is one, else one process after another. */
START_TEST(all_of_a_run_is_killed)
{
	struct cgroup_tree t;
	struct run_cgroup c;
	pid_t pid[2];
	char text[64];

	tree_new(&t);
	ck_assert_int_eq(cgroup_run_make(&t, 3, 1, 0, 0, &c), 0);
	cgroup_run_kill(&c);
	ck_assert_str_eq(said(c.path, "cgroup.kill"), "1");
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			for (;;)
				pause();
	}
	snprintf(text, sizeof text, "%d\n%d\n", (int)pid[0], (int)pid[1]);
	put(c.path, "cgroup.procs", text);
	missing = "cgroup.kill";
	cgroup_run_kill(&c);
	for (int i = 0; i < 2; i++) {
		int status = 0;

		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	tree_free(&t);
}
END_TEST

START_TEST(a_group_goes_when_its_last_process_has)
{
	struct cgroup_tree t;
	struct run_cgroup c, again;
	char path[CGROUP_PATH_MAX], file[2 * CGROUP_PATH_MAX];

	tree_new(&t);
	ck_assert_int_eq(cgroup_run_make(&t, 3, 1, 0, 0, &c), 0);
	/* A folder with something in it, as a group with a process, can't be removed. */
	put(c.path, "left", "");
	memcpy(path, c.path, sizeof path);
	cgroup_run_drop(&t, &c);
	ck_assert_str_eq(c.path, "");
	ck_assert_int_eq(access(path, F_OK), 0);
	snprintf(file, sizeof file, "%s/left", path);
	ck_assert_int_eq(unlink(file), 0);
	/* The end of another looks again. */
	ck_assert_int_eq(cgroup_run_make(&t, 3, 2, 0, 0, &again), 0);
	cgroup_run_drop(&t, &again);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_uint_eq(t.leaving_n, 0);
	tree_free(&t);
}
END_TEST

START_TEST(a_group_that_can_not_be_made_is_an_error_and_none_at_all_is_not)
{
	struct cgroup_tree t, off = { 0 };
	struct run_cgroup c;

	tree_new(&t);
	ck_assert_int_eq(cgroup_run_make(&t, 9, 1, 0, 0, &c), -ENOENT);
	ck_assert_str_eq(c.path, "");
	ck_assert_int_eq(cgroup_run_procs(&c), -ENOENT);
	ck_assert_int_eq(cgroup_run_make(&off, 3, 1, 1, 1, &c), 0);
	ck_assert_str_eq(c.path, "");
	cgroup_run_kill(&c);
	cgroup_run_drop(&off, &c);
	tree_free(&t);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("cgroup");
	TCase *tc = unit_case(s, "cgroup");

	tcase_add_test(tc, a_run_gets_its_limits_and_its_pool_the_pools);
	tcase_add_test(tc, without_limits_nothing_is_written);
	tcase_add_test(tc, memory_that_ran_out_is_that_of_one_run_alone);
	tcase_add_test(tc, memory_of_a_pool_is_read_where_the_kernel_counts_it);
	tcase_add_test(tc, all_of_a_run_is_killed);
	tcase_add_test(tc, a_group_goes_when_its_last_process_has);
	tcase_add_test(tc, a_group_that_can_not_be_made_is_an_error_and_none_at_all_is_not);
	return unit_run(s);
}
