#include "run/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "run/environ.h"

int
launcher_init(struct launcher *l, const char *instance, const char *socket)
{
	int err;

	*l = (struct launcher){ .null_fd = -1 };
	identities_init(&l->ids);
	err = spawner_init(&l->spawner);
	if (err)
		goto out;
	l->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (l->null_fd < 0) {
		err = -errno;
		goto out;
	}
	l->instance = x_strndup(instance, strlen(instance));
	l->socket = socket ? x_strndup(socket, strlen(socket)) : NULL;
	if (!l->instance || (socket && !l->socket))
		err = -ENOMEM;
out:
	if (err)
		launcher_done(l);
	return err;
}

void
launcher_done(struct launcher *l)
{
	identities_done(&l->ids);
	spawner_done(&l->spawner);
	if (l->null_fd >= 0)
		close(l->null_fd);
	x_free(l->instance);
	x_free(l->socket);
	*l = (struct launcher){ .null_fd = -1 };
}

void
launch_failed(struct launch_error *err, enum spawn_step step, const char *what, int error)
{
	err->step = step;
	err->error = error;
	snprintf(err->text, sizeof err->text, "wqd: not started: %s%s%s: %s\n",
		spawn_step_text(step), what ? " " : "", what ? what : "", err_str(-error));
}

bool
launch_error_transient(const struct launch_error *err)
{
	if (err->step == STEP_WATCH)
		return false; /* it had begun */
	return err->error == EAGAIN || err->error == ENOMEM || err->error == EMFILE ||
		err->error == ENFILE;
}

/* ---- the payload ---- */

static int
write_all(int fd, struct str s)
{
	while (s.n > 0) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			s.p += n;
			s.n -= (size_t)n;
		}
	}
	return 0;
}

/* One part as it is; of several each on a line. */
static int
write_payload(int fd, const struct run_start *start)
{
	int err = 0;

	for (size_t i = 0; i < start->n_parts && err == 0; i++) {
		err = write_all(fd, start->parts[i]);
		if (err == 0 && start->n_parts > 1)
			err = write_all(fd, STR("\n"));
	}
	if (err == 0 && lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	return err;
}

/* A file in memory: nobody has to feed it while the run goes on, and it can be read twice. */
static int
payload_open(const struct run_start *start, int *out)
{
	int fd = memfd_create("wq-payload", MFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = write_payload(fd, start);
	if (err) {
		close(fd);
		return err;
	}
	*out = fd;
	return 0;
}

static bool
has_payload(const struct run_start *start)
{
	return start->n_parts > 1 || (start->n_parts == 1 && start->parts[0].n > 0);
}

/* ---- the process ---- */

/* The words of a command (see op_update), which they point into. NULL: there is none. */
static int
argv_build(struct str command, char ***out)
{
	size_t n = 0, at = 0;
	char **v;

	*out = NULL;
	if (command.n == 0)
		return 0;
	wq_assert(command.p[command.n - 1] == '\0');
	for (size_t i = 0; i < command.n; i++)
		n += command.p[i] == '\0';
	v = x_alloc((n + 1) * sizeof *v);
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		v[i] = (char *)(uintptr_t)command.p + at;
		at += strlen(v[i]) + 1;
	}
	v[n] = NULL;
	*out = v;
	return 0;
}

/* What `step` was about, for the message. */
static const char *
subject(enum spawn_step step, const struct run_start *start, const struct handler *h)
{
	switch (step) {
	case STEP_USER:
	case STEP_GROUPS:
	case STEP_UID:
		return h->user ? h->user : h->group;
	case STEP_DIRECTORY:
		return h->directory;
	case STEP_COMMAND:
		return start->command.n > 0 ? start->command.p : h->command[0];
	case STEP_NONE:
	case STEP_HANDLER:
	case STEP_MEMORY:
	case STEP_PAYLOAD:
	case STEP_OUTPUT:
	case STEP_PROCESS:
	case STEP_CGROUP:
	case STEP_SESSION:
	case STEP_STDIO:
	case STEP_LIMITS:
	case STEP_NICE:
	case STEP_WATCH:
		break;
	}
	return NULL;
}

/* So that the run may open its own /dev/stderr again (a pipe belongs to who made it). */
static void
give_pipe_to(int out_fd, const struct identity *who)
{
	if (who->change && fchown(out_fd, who->uid, who->gid) < 0)
		return; /* not root: then the change of user is what fails, and says so */
}

static int
make_process(struct launcher *l, struct spawn *s, const struct run_start *start,
	const struct handler *h, struct spawned *out, enum spawn_step *step)
{
	struct run_env_facts facts = {
		.who = s->who,
		.instance = l->instance,
		.socket = s->has_sock ? "fd:3" : l->socket,
	};
	char **env = NULL, **paths = NULL;
	int err;

	*step = STEP_MEMORY;
	err = run_env_build(&facts, start, h, &env);
	if (err == 0)
		err = run_paths_build(s->argv[0], run_env_get(env, "PATH"), &paths);
	if (err == 0) {
		s->envp = env;
		s->paths = paths;
		err = spawn(&l->spawner, s, out, step);
	}
	x_free(paths);
	x_free(env);
	return err;
}

static int
launch_steps(struct launcher *l, const struct run_start *start, const struct handler *h, int out_fd,
	const struct launch_pool *pool, struct spawned *out, enum spawn_step *step)
{
	struct spawn s = {
		.directory = h->directory ? h->directory : "/",
		.in_fd = l->null_fd,
		.out_fd = out_fd,
		.has_sock = pool->worker,
		.sock_fd = pool->sock_fd,
		.umask = h->umask,
		.nice = h->nice + pool->nice,
		.low = pool->low,
		.cgroup_fd = pool->cgroup_fd,
		.max_memory = h->max_memory,
		.max_files = h->max_files,
		.max_processes = h->max_processes,
	};
	char **own = NULL;
	int err;

	*step = STEP_USER;
	err = identity_get(&l->ids, h->user, h->group, clock_boot_ns(), &s.who);
	if (err)
		return err;
	give_pipe_to(out_fd, s.who);
	if (has_payload(start)) {
		*step = STEP_PAYLOAD;
		err = payload_open(start, &s.in_fd);
		if (err)
			return err;
	}
	*step = STEP_MEMORY;
	err = argv_build(start->command, &own);
	if (err == 0) {
		s.argv = own ? own : h->command;
		err = make_process(l, &s, start, h, out, step);
	}
	x_free(own);
	if (s.in_fd != l->null_fd)
		close(s.in_fd);
	return err;
}

bool
launch(struct launcher *l, const struct run_start *start, const struct handler *h, int out_fd,
	const struct launch_pool *pool, struct spawned *out, struct launch_error *err)
{
	enum spawn_step step = STEP_NONE;
	int e = launch_steps(l, start, h, out_fd, pool, out, &step);

	if (e)
		launch_failed(err, step, subject(step, start, h), -e);
	return e == 0;
}
