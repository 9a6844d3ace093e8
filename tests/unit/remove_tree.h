/* A test's own folder, when it is done. */
#ifndef WQD_TESTS_REMOVE_TREE_H
#define WQD_TESTS_REMOVE_TREE_H

#include <ftw.h>
#include <stdio.h>

static inline int
remove_tree_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* The folder with all that is in it; links are not followed. 0, or -1 with errno. */
static inline int
remove_tree(const char *folder)
{
	return nftw(folder, remove_tree_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
