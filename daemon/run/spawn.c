/* The parent's side of a start. See spawn.h. */
#include "run/spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

#define STACK_SIZE 65536u

const char *
spawn_step_text(enum spawn_step step)
{
	switch (step) {
#define X(name, text) \
	case name: \
		return text;
		SPAWN_STEP_TABLE(X)
#undef X
	}
	return "?";
}

/* With a page below that faults, so that an overflow can't reach the daemon's memory. */
int
spawner_init(struct spawner *sp)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = STACK_SIZE + page;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return -errno;
	if (mprotect(map, page, PROT_NONE) < 0) {
		int err = -errno;

		munmap(map, size);
		return err;
	}
	*sp = (struct spawner){ .map = map, .size = size };
	return 0;
}

void
spawner_done(struct spawner *sp)
{
	if (sp->map)
		munmap(sp->map, sp->size);
	*sp = (struct spawner){ 0 };
}

/* The child ends right after it has given up, so this does not wait for anything else. */
static void
bury(int pidfd)
{
	siginfo_t si;

	while (waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0 && errno == EINTR)
		;
	close(pidfd);
}

int
spawn(struct spawner *sp, const struct spawn *s, struct spawned *out, enum spawn_step *step)
{
	struct child c = { .s = s };
	sigset_t all, old;
	int pidfd = -1, err;
	pid_t pid;

	/*
	 * No signal may run one of our handlers in the child, where it would work
	 * on the daemon's memory. The child sets all of them to default before it
	 * lets any through.
	 */
	sigfillset(&all);
	err = pthread_sigmask(SIG_SETMASK, &all, &old);
	wq_assert(err == 0);
	pid = clone(child_main, sp->map + sp->size, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
		&c, &pidfd);
	err = pid < 0 ? errno : 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		*step = STEP_PROCESS;
		return -err;
	}
	if (c.error) {
		bury(pidfd);
		*step = c.step;
		return -c.error;
	}
	*out = (struct spawned){ .pid = pid, .pidfd = pidfd };
	return 0;
}
