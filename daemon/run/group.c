#include "run/group.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

int
each_process(bool (*each)(void *arg, pid_t pid), void *arg)
{
	DIR *proc = opendir("/proc");
	bool more = true;

	if (!proc)
		return -errno;
	while (more) {
		const struct dirent *e = readdir(proc);
		uint64_t pid;

		if (!e)
			break;
		if (text_u64(str_from(e->d_name), &pid) == 0)
			more = each(arg, (pid_t)pid);
	}
	closedir(proc);
	return 0;
}

/* A pidfd is readable from the moment its process is a zombie. */
static bool
is_running(pid_t pid)
{
	struct pollfd p = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	bool running;

	if (p.fd < 0)
		return errno != ESRCH && errno != EINVAL;
	running = poll(&p, 1, 0) == 0;
	close(p.fd);
	return running;
}

bool
process_exited(int pidfd)
{
	siginfo_t si = { 0 };

	return waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid != 0;
}

struct search {
	pid_t group;
	bool found;
};

static bool
look_at(void *arg, pid_t pid)
{
	struct search *s = arg;

	s->found = getpgid(pid) == s->group && is_running(pid);
	return !s->found;
}

bool
group_exists(pid_t group)
{
	return kill(-group, 0) == 0 || errno != ESRCH;
}

bool
group_alive(pid_t group)
{
	struct search s = { .group = group };

	return each_process(look_at, &s) < 0 || s.found;
}
