#include "run/cgroup_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

#define PROC_TEXT_MAX (256u << 10)

/* ---- small files ---- */

long
file_get_fd(int fd, char *dst, size_t size)
{
	ssize_t n = pread(fd, dst, size - 1, 0);

	if (n < 0)
		return -errno;
	dst[n] = '\0';
	return n;
}

int
file_open(const char *dir, const char *name, int flags)
{
	char path[CGROUP_PATH_MAX + 64];
	int n = snprintf(path, sizeof path, "%s%s%s", dir ? dir : "", dir ? "/" : "", name);

	if (n < 0 || (size_t)n >= sizeof path)
		return -ENAMETOOLONG;
	n = open(path, flags | O_CLOEXEC);
	return n < 0 ? -errno : n;
}

long
file_get(const char *dir, const char *name, char *dst, size_t size)
{
	int fd = file_open(dir, name, O_RDONLY);
	long n;

	if (fd < 0)
		return fd;
	n = file_get_fd(fd, dst, size);
	close(fd);
	return n;
}

int
file_put(const char *dir, const char *name, const char *text)
{
	int fd = file_open(dir, name, O_WRONLY), err = 0;

	if (fd < 0)
		return fd;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

bool
take_u64(const char **p, uint64_t *v)
{
	const char *s = *p;
	uint64_t n = 0;

	while (*s == ' ' || *s == '\t')
		s++;
	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++)
		n = n * 10 + (uint64_t)(*s - '0');
	*p = s;
	*v = n;
	return true;
}

uint64_t
file_u64(const char *dir, const char *name)
{
	char text[64];
	const char *p = text;
	uint64_t v;

	if (file_get(dir, name, text, sizeof text) <= 0 || !take_u64(&p, &v))
		return UINT64_MAX;
	return v;
}

uint64_t
text_value(const char *text, const char *key, uint64_t missing)
{
	size_t n = strlen(key);

	for (const char *p = text; (p = strstr(p, key)) != NULL; p += n) {
		const char *at = p + n;
		uint64_t v;

		if (p != text && p[-1] != '\n')
			continue;
		if ((*at == ' ' || *at == '\t') && take_u64(&at, &v))
			return v;
	}
	return missing;
}

/* ---- where we are ---- */

/* One word up to a blank or the end of the line; moves *p behind it and the blank. */
static struct str
next_word(const char **p)
{
	const char *from = *p, *s = from;

	while (*s && *s != ' ' && *s != '\n')
		s++;
	*p = *s == ' ' ? s + 1 : s;
	return (struct str){ from, (size_t)(s - from) };
}

static bool
list_has(struct str list, const char *word)
{
	size_t n = strlen(word), at = 0;

	while (at < list.n) {
		size_t end = at;

		while (end < list.n && list.p[end] != ',')
			end++;
		if (end - at == n && memcmp(list.p + at, word, n) == 0)
			return true;
		at = end + 1;
	}
	return false;
}

static const char *const controllers[] = {
	[CG_UNIFIED] = "",
	[CG_CPU] = "cpu",
	[CG_MEMORY] = "memory",
	[CG_PIDS] = "pids",
};

/* The path of our group in the hierarchy of `kind`, from /proc/self/cgroup. */
static struct str
own_path(const char *groups, enum cgroup_kind kind)
{
	for (const char *line = groups; *line;) {
		const char *end = strchr(line, '\n'), *a = strchr(line, ':'),
			   *b = a ? strchr(a + 1, ':') : NULL;

		if (!end)
			end = line + strlen(line);
		if (b && b < end) {
			struct str list = { a + 1, (size_t)(b - a - 1) };

			if (kind == CG_UNIFIED ? list.n == 0 : list_has(list, controllers[kind]))
				return (struct str){ b + 1, (size_t)(end - b - 1) };
		}
		line = *end ? end + 1 : end;
	}
	return (struct str){ NULL, 0 };
}

static bool
starts_with(struct str s, struct str front)
{
	return s.n >= front.n && (front.n == 0 || memcmp(s.p, front.p, front.n) == 0);
}

/* A mount shows the tree from `root` on at `point`. */
static void
place(struct cgroup_dir *d, struct str path, struct str root, struct str point, bool v2)
{
	struct str rest = path;
	int n;

	if (root.n == 1)
		root.n = 0;
	if (path.n == 1)
		rest.n = 0;
	if (!starts_with(rest, root))
		return;
	rest.p += root.n;
	rest.n -= root.n;
	n = snprintf(
		d->path, sizeof d->path, "%.*s%.*s", (int)point.n, point.p, (int)rest.n, rest.p);
	if (n < 0 || (size_t)n >= sizeof d->path)
		d->path[0] = '\0';
	d->mount_n = point.n;
	d->top = path.n <= 1;
	d->v2 = v2;
}

/* "36 35 98:0 /root /point rw,relatime shared:1 - cgroup2 cgroup rw,nsdelegate" */
static void
take_mount(struct cgroup_place *out, const char *groups, const char *line)
{
	const char *p = line, *dash = strstr(line, " - "), *end = strchr(line, '\n');
	struct str root, point, type, options;

	if (!dash || (end && dash > end))
		return;
	for (int i = 0; i < 3; i++)
		next_word(&p);
	root = next_word(&p);
	point = next_word(&p);
	p = dash + 3;
	type = next_word(&p);
	next_word(&p);
	options = next_word(&p);
	if (str_eq(type, STR("cgroup2"))) {
		struct str path = own_path(groups, CG_UNIFIED);

		if (path.p && !out->dir[CG_UNIFIED].path[0])
			place(&out->dir[CG_UNIFIED], path, root, point, true);
	}
	for (int k = CG_CPU; k < N_CG_KINDS && str_eq(type, STR("cgroup")); k++) {
		struct str path = own_path(groups, (enum cgroup_kind)k);

		if (path.p && list_has(options, controllers[k]) && !out->dir[k].path[0])
			place(&out->dir[k], path, root, point, false);
	}
}

void
cgroup_find(struct cgroup_place *out)
{
	char *mounts = x_alloc(PROC_TEXT_MAX), groups[4096];

	memset(out, 0, sizeof *out);
	if (mounts && file_get(NULL, "/proc/self/cgroup", groups, sizeof groups) > 0 &&
		file_get(NULL, "/proc/self/mountinfo", mounts, PROC_TEXT_MAX) > 0)
		for (const char *line = mounts; line && *line;
			line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
			take_mount(out, groups, line);
	x_free(mounts);
	/* A controller without a hierarchy of version 1 is one of version 2. */
	for (int k = CG_CPU; k < N_CG_KINDS; k++)
		if (!out->dir[k].path[0])
			out->dir[k] = out->dir[CG_UNIFIED];
}

bool
cgroup_parent(struct cgroup_dir *d)
{
	char *slash = strrchr(d->path, '/');

	if (!slash || (size_t)(slash - d->path) < d->mount_n)
		return false;
	*slash = '\0';
	return true;
}
