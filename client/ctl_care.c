/*
 * Care of the daemon's state: backup, check, export. What goes into a file goes
 * into a new one beside it first, so that a file of that name is whole or not
 * there, and is never one of others.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_out.h"
#include "ctl_text.h"

/* ---- a file that is there when it is whole ---- */

struct new_file {
	struct ctl *c;
	const char *path; /* NULL: stdout */
	char tmp[PATH_MAX];
	int fd;
	uint64_t bytes;
	int error; /* errno of the first write that failed */
	/* of an export */
	uint64_t queues, jobs, completions;
};

static int
open_new(struct new_file *f)
{
	struct stat sb;
	mode_t mask;

	if (!f->path) {
		f->fd = STDOUT_FILENO;
		return 0;
	}
	if (!ctl_given(f->c, OPT_FORCE) && lstat(f->path, &sb) == 0)
		return ctl_error(
			f->c, CTL_FAILED, "EEXIST", "%s exists; --force replaces it", f->path);
	if (snprintf(f->tmp, sizeof f->tmp, "%s.XXXXXX", f->path) >= (int)sizeof f->tmp)
		return ctl_fail_file(f->c, f->path, ENAMETOOLONG);
	mask = umask(077);
	f->fd = mkostemp(f->tmp, O_CLOEXEC);
	(void)umask(mask);
	return f->fd < 0 ? ctl_fail_file(f->c, f->path, errno) : 0;
}

static int
write_all(const void *data, size_t len, void *arg)
{
	struct new_file *f = arg;
	const char *p = data;

	while (len > 0 && !f->error) {
		ssize_t n = write(f->fd, p, len);

		if (n < 0 && errno != EINTR)
			f->error = errno;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
			f->bytes += (uint64_t)n;
		}
	}
	return f->error;
}

static int
sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int fd, rc;

	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
		slash ? path : ".");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

/* Gives it its name: without --force never that of another. */
static int
put_in_place(const struct new_file *f)
{
	if (fsync(f->fd) != 0)
		return -1;
	if (ctl_given(f->c, OPT_FORCE)) {
		if (rename(f->tmp, f->path) != 0)
			return -1;
	} else if (link(f->tmp, f->path) != 0 || unlink(f->tmp) != 0) {
		return -1;
	}
	return sync_parent(f->path);
}

/* The end, for `rc` of who gave the bytes. Returns the exit status. */
static int
close_new(struct new_file *f, int rc)
{
	int status = rc < 0 ? ctl_fail(f->c, rc, NULL) : CTL_DONE;

	if (status == CTL_DONE && !f->error && f->path && put_in_place(f) != 0)
		f->error = errno;
	if (status == CTL_DONE && f->error && (f->path || f->error != EPIPE))
		status = ctl_fail_file(f->c, f->path ? f->path : "stdout", f->error);
	if (f->error && status == CTL_DONE)
		status = CTL_FAILED;
	if (f->path) {
		close(f->fd);
		if (status != CTL_DONE)
			unlink(f->tmp);
	}
	return status;
}

/* ---- backup ---- */

static int
file_arg(struct ctl *c, struct new_file *f)
{
	const char *path = c->n_args ? c->arg[0] : "-";

	*f = (struct new_file){ .c = c, .path = strcmp(path, "-") == 0 ? NULL : path, .fd = -1 };
	if (!f->path && c->verb->args_min > 0 && isatty(STDOUT_FILENO))
		return ctl_usage(c, "a copy of the database is nothing for a terminal");
	return 0;
}

static void
put_bytes(const struct new_file *f, const char *what)
{
	struct ctl *c = f->c;

	if (c->json) {
		json_t *j = json_object();

		ctl_json_set(j, "outcome", json_string("OK"));
		ctl_json_set(j, "file", ctl_text_jsons(f->path));
		ctl_json_set(j, "bytes", json_integer((json_int_t)f->bytes));
		if (f->queues) {
			ctl_json_set(j, "queues", json_integer((json_int_t)f->queues));
			ctl_json_set(j, "jobs", json_integer((json_int_t)f->jobs));
			ctl_json_set(j, "completions", json_integer((json_int_t)f->completions));
		}
		ctl_json_put(c, j);
	} else if (!c->quiet) {
		ctl_text_puts(stdout, f->path);
		printf(": %s, %llu bytes\n", what, (unsigned long long)f->bytes);
	}
}

int
ctl_do_backup(struct ctl *c)
{
	struct new_file f;
	int rc;

	if ((rc = file_arg(c, &f)) || (rc = ctl_connect(c)) || (rc = open_new(&f)))
		return rc;
	rc = close_new(&f, wq_backup(c->wq, write_all, &f));
	if (rc == CTL_DONE && f.path)
		put_bytes(&f, "a copy of the database");
	return rc;
}

/* ---- export ---- */

static bool
begins(const char *line, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* Whole lines come: each says what it is at its beginning. */
static int
write_lines(const void *data, size_t len, void *arg)
{
	struct new_file *f = arg;
	const char *p = data, *end = p + len, *nl;

	for (const char *line = p; line < end; line = nl + 1) {
		nl = memchr(line, '\n', (size_t)(end - line));
		if (!nl)
			break;
		f->queues += begins(line, (size_t)(nl - line), "{\"type\":\"queue\"");
		f->jobs += begins(line, (size_t)(nl - line), "{\"type\":\"job\"");
		f->completions += begins(line, (size_t)(nl - line), "{\"type\":\"completion\"");
	}
	return write_all(data, len, f);
}

int
ctl_do_export(struct ctl *c)
{
	struct new_file f;
	char last[200];
	int rc;

	if ((rc = file_arg(c, &f)) || (rc = ctl_connect(c)) || (rc = open_new(&f)))
		return rc;
	rc = wq_export(c->wq, write_lines, &f);
	if (rc == 0 && !f.error) {
		int n = snprintf(last, sizeof last,
			"{\"type\":\"end\",\"queues\":%llu,\"jobs\":%llu,\"completions\":%llu,"
			"\"lost\":0}\n",
			(unsigned long long)f.queues, (unsigned long long)f.jobs,
			(unsigned long long)f.completions);

		write_all(last, (size_t)n, &f);
	}
	rc = close_new(&f, rc);
	if (rc == CTL_DONE && f.path)
		put_bytes(&f, "queues, completions and jobs");
	return rc;
}

/* ---- check ---- */

/* Becomes `wqd --check-state`, which knows the files. */
static int
check_files(struct ctl *c)
{
	static const char *const places[] = { "wqd", "../sbin/wqd", "../daemon/wqd",
		"../../daemon/wqd" };
	const char *dir = c->opt[OPT_STATE_DIR].text;
	char *argv[] = { (char *)(uintptr_t) "wqd",
		(char *)(uintptr_t)(c->json ? "--check-state=json" : "--check-state=text"),
		(char *)(uintptr_t) "--state-dir", (char *)(uintptr_t)dir, NULL };
	char self[PATH_MAX / 2] = "", path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash = n > 0 ? strrchr(self, '/') : NULL;

	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof path, "%s/%s", self, places[i]);
		execv(path, argv);
	}
	execvp("wqd", argv);
	return ctl_error(c, CTL_FAILED, wq_error_word(-errno), "cannot run wqd --check-state: %s",
		strerror(errno));
}

struct counts {
	struct ctl *c;
	json_t *j;
	bool first;
};

static int
put_count(const char *name, int64_t value, void *arg)
{
	struct counts *k = arg;

	if (k->j) {
		ctl_json_set_named(k->j, name, json_integer(value));
	} else if (!k->c->quiet) {
		printf("%s%lld ", k->first ? "in order: " : ", ", (long long)value);
		ctl_text_puts(stdout, name);
		k->first = false;
	}
	return 0;
}

int
ctl_do_check(struct ctl *c)
{
	struct counts k = { .c = c, .first = true };
	int rc;

	if (ctl_given(c, OPT_STATE_DIR))
		return check_files(c);
	rc = ctl_connect(c);
	if (rc)
		return rc;
	if (c->json) {
		k.j = json_object();
		ctl_json_set(k.j, "outcome", json_string("OK"));
	}
	rc = wq_check(c->wq, put_count, &k);
	if (rc < 0) {
		json_decref(k.j);
		return ctl_fail(c, rc, NULL);
	}
	if (k.j)
		ctl_json_put(c, k.j);
	else if (!k.first)
		putchar('\n');
	return CTL_DONE;
}
