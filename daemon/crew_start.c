/* Worker programs: how one begins, and whose its connection is. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "crew_int.h"

static bool
member_spawn(struct member *m, const struct handler *h, int sock, int out)
{
	struct run_start start = { .action = ACTION_LEASE,
		.handler = str_from(m->handler),
		.queue = str_from(m->queue),
		.attempt = 1 };
	const struct launch_pool how = { .cgroup_fd = -1, .worker = true, .sock_fd = sock };
	struct launch_error err = { 0 };
	char name[4 * HANDLER_NAME_MAX + 8], why[4 * sizeof err.text + 8];
	struct spawned got;

	if (!launch(&m->c->launcher, &start, h, out, &how, &got, &err)) {
		/* The text is a line for the output of a run. */
		err.text[strcspn(err.text, "\n")] = '\0';
		log_field(name, sizeof name, str_from(m->handler));
		log_field(why, sizeof why, str_from(err.text));
		log_warn("worker_not_started", "handler=%s error=%s", name, why);
		return false;
	}
	m->pid = got.pid;
	m->pidfd = got.pidfd;
	probe_open(&m->probe, m->pid, -1);
	return true;
}

bool
member_start(struct member *m, const struct handler *h)
{
	int pair[2], out[2];
	bool ok;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return false;
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0) {
		close(pair[0]);
		close(pair[1]);
		return false;
	}
	(void)fcntl(out[1], F_SETFL, 0);
	(void)fcntl(pair[1], F_SETFL, 0);
	m->out = out[0];
	ok = member_spawn(m, h, pair[1], out[1]);
	close(pair[1]);
	close(out[1]);
	if (!ok) {
		close(pair[0]);
		return false;
	}
	m->c->opening = m;
	m->c->opening_by = h;
	ok = conns_add(m->c->d->conns, pair[0], NULL) == 0;
	m->c->opening = NULL;
	m->c->opening_by = NULL;
	return ok;
}

void
crew_peer(struct crew *c, struct peer *peer)
{
	const struct handler *h = c ? c->opening_by : NULL;
	const struct identity *who;

	if (!h)
		return;
	/* As the kernel has it, it is ours: we have made both ends. */
	peer->uid = (uid_t)-1;
	peer->gid = (gid_t)-1;
	peer->groups = NULL;
	peer->n_groups = 0;
	peer->works_on = str_from(c->opening->queue);
	if (identity_get(&c->launcher.ids, h->user, h->group, clock_boot_ns(), &who) == 0) {
		peer->uid = who->uid;
		peer->gid = who->gid;
		peer->groups = who->groups;
		peer->n_groups = who->n_groups;
	}
	peer->pid = c->opening->pid;
	snprintf(peer->address, sizeof peer->address, "worker pid=%d uid=%u", (int)peer->pid,
		(unsigned)peer->uid);
}
