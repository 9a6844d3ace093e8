#include "run/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"

/* Groups that don't get empty: more than that are forgotten, to be found at the next start. */
#define LEAVING_MAX 65536u

static bool
join(char *dst, const char *dir, const char *name)
{
	int n = snprintf(dst, CGROUP_PATH_MAX, "%s/%s", dir, name);

	return n > 0 && n < CGROUP_PATH_MAX;
}

/* ---- the tree ---- */

/* The service manager says so on the folder itself. */
static bool
is_delegated(const char *path)
{
	static const char *const names[] = { "user.delegate", "trusted.delegate" };
	char value[8];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (getxattr(path, names[i], value, sizeof value) == 1 && value[0] == '1')
			return true;
	return false;
}

static int
move_to_leaf(const char *base)
{
	char leaf[CGROUP_PATH_MAX];

	if (!join(leaf, base, "daemon"))
		return -ENAMETOOLONG;
	if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
		return -errno;
	return file_put(leaf, "cgroup.procs", "0");
}

/* One at a time: a controller that is not there must not keep the others away. */
static void
enable(const char *path, const char *const *controllers)
{
	for (; *controllers; controllers++)
		file_put(path, "cgroup.subtree_control", *controllers);
}

/* Each group of that name in `dir`, with its path. */
static void
each_group(const char *dir, const char *front, void (*each)(void *arg, const char *path), void *arg)
{
	DIR *d = opendir(dir);

	for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
		char path[CGROUP_PATH_MAX];

		if (strncmp(e->d_name, front, strlen(front)) == 0 && join(path, dir, e->d_name))
			each(arg, path);
	}
	if (d)
		closedir(d);
}

static void
sweep_run(void *arg, const char *path)
{
	(void)arg;
	file_put(path, "cgroup.kill", "1");
	rmdir(path);
}

static void
sweep_pool(void *arg, const char *path)
{
	each_group(path, "run-", sweep_run, arg);
	rmdir(path);
}

/* Where runs get their groups: the group that was delegated, in which we are, or whose leaf. */
static bool
find_base(const struct cgroup_place *place, char *base)
{
	struct cgroup_dir d = place->dir[CG_UNIFIED];
	const char *leaf = strrchr(d.path, '/');

	if (!d.path[0])
		return false;
	if (!is_delegated(d.path) &&
		(!leaf || strcmp(leaf, "/daemon") != 0 || !cgroup_parent(&d) ||
			!is_delegated(d.path)))
		return false;
	memcpy(base, d.path, sizeof d.path);
	return true;
}

void
cgroup_tree_init(struct cgroup_tree *t, const struct cgroup_place *place, bool carried)
{
	static const char *const controllers[] = { "+cpu", "+memory", "+pids", NULL };
	int err;

	*t = (struct cgroup_tree){ 0 };
	if (!find_base(place, t->base))
		return;
	err = move_to_leaf(t->base);
	if (err < 0) {
		log_warn("cgroup_unusable", "path=\"%s\" error=%d msg=\"%s\"", t->base, -err,
			"runs have no control groups of their own");
		return;
	}
	t->on = true;
	if (!carried)
		each_group(t->base, "pool-", sweep_pool, t);
	enable(t->base, controllers);
}

/* ---- groups that go ---- */

static void
leave_later(struct cgroup_tree *t, const char *path)
{
	size_t n = strlen(path) + 1;
	char *grown =
		t->leaving_n + n > LEAVING_MAX ? NULL : x_realloc(t->leaving, t->leaving_n + n, 1);

	if (!grown)
		return;
	t->leaving = grown;
	memcpy(grown + t->leaving_n, path, n);
	t->leaving_n += n;
}

static void
try_leaving(struct cgroup_tree *t)
{
	size_t kept = 0;

	for (size_t at = 0, n; at < t->leaving_n; at += n) {
		n = strlen(t->leaving + at) + 1;
		if (rmdir(t->leaving + at) == 0 || errno == ENOENT)
			continue;
		memmove(t->leaving + kept, t->leaving + at, n);
		kept += n;
	}
	t->leaving_n = kept;
}

void
cgroup_tree_done(struct cgroup_tree *t)
{
	try_leaving(t);
	if (t->on)
		each_group(t->base, "pool-", sweep_pool, t);
	x_free(t->leaving);
	*t = (struct cgroup_tree){ 0 };
}

/* ---- pools ---- */

static bool
pool_path(const struct cgroup_tree *t, uint32_t index, char *dst)
{
	char name[32];

	snprintf(name, sizeof name, "pool-%" PRIu32, index);
	return t->on && join(dst, t->base, name);
}

static void
put_limit(const char *path, const char *file, uint64_t limit)
{
	char text[32] = "max";

	if (limit > 0)
		snprintf(text, sizeof text, "%" PRIu64, limit);
	file_put(path, file, text);
}

void
cgroup_pool_set(struct cgroup_tree *t, uint32_t index, const struct pool_settings *s)
{
	static const char *const controllers[] = { "+memory", "+pids", NULL };
	char path[CGROUP_PATH_MAX], text[16];

	if (!pool_path(t, index, path) || (mkdir(path, 0755) < 0 && errno != EEXIST))
		return;
	snprintf(text, sizeof text, "%" PRIu32, s->cpu_weight);
	file_put(path, "cpu.weight", text);
	put_limit(path, "memory.max", s->max_memory);
	/* Not cpu: the runs of a pool share one group, in which their niceness counts. */
	enable(path, controllers);
}

uint64_t
cgroup_pool_memory(const struct cgroup_tree *t, uint32_t index)
{
	char path[CGROUP_PATH_MAX];

	return pool_path(t, index, path) ? file_u64(path, "memory.current") : UINT64_MAX;
}

/* ---- runs ---- */

int
cgroup_run_make(struct cgroup_tree *t, uint32_t pool, uint64_t run_id, uint64_t memory,
	uint64_t processes, struct run_cgroup *out)
{
	char dir[CGROUP_PATH_MAX], name[40];

	out->path[0] = '\0';
	if (!pool_path(t, pool, dir))
		return 0;
	snprintf(name, sizeof name, "run-%" PRIu64, run_id);
	if (!join(out->path, dir, name))
		return -ENAMETOOLONG;
	if (mkdir(out->path, 0755) < 0) {
		int err = -errno;

		out->path[0] = '\0';
		return err;
	}
	if (memory > 0) {
		put_limit(out->path, "memory.max", memory);
		file_put(out->path, "memory.swap.max", "0");
		file_put(out->path, "memory.oom.group", "1");
	}
	if (processes > 0)
		put_limit(out->path, "pids.max", processes);
	return 0;
}

int
cgroup_run_procs(const struct run_cgroup *c)
{
	return c->path[0] ? file_open(c->path, "cgroup.procs", O_WRONLY) : -ENOENT;
}

int
cgroup_run_cpu(const struct run_cgroup *c)
{
	return c->path[0] ? file_open(c->path, "cpu.stat", O_RDONLY) : -ENOENT;
}

void
cgroup_run_kill(const struct run_cgroup *c)
{
	char pids[4096];
	const char *p = pids;
	uint64_t pid;

	if (!c->path[0] || file_put(c->path, "cgroup.kill", "1") == 0)
		return;
	/* Linux before 5.14. */
	if (file_get(c->path, "cgroup.procs", pids, sizeof pids) <= 0)
		return;
	for (; take_u64(&p, &pid); p += *p == '\n')
		kill((pid_t)pid, SIGKILL);
}

bool
cgroup_run_oom(const struct run_cgroup *c)
{
	char text[512];

	return c->path[0] && file_get(c->path, "memory.events", text, sizeof text) > 0 &&
		text_value(text, "oom_kill", 0) > 0;
}

void
cgroup_run_drop(struct cgroup_tree *t, struct run_cgroup *c)
{
	if (t->leaving_n > 0)
		try_leaving(t);
	if (c->path[0] && rmdir(c->path) < 0 && errno != ENOENT)
		leave_later(t, c->path);
	c->path[0] = '\0';
}
