#include "ctl_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
ctl_no_memory(void)
{
	fputs("wqctl: out of memory\n", stderr);
	exit(EXIT_FAILURE);
}

void *
ctl_alloc(size_t n)
{
	void *p = mem_zalloc(n);

	if (!p)
		ctl_no_memory();
	return p;
}

void *
ctl_grow(void *p, size_t n, size_t size)
{
	p = mem_grow(p, n, size);
	if (!p)
		ctl_no_memory();
	return p;
}

char *
ctl_strdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(ctl_alloc(n), s, n);
}
