/*
 * lease NAME TTL COMMAND [ARGUMENT...]
 *
 * Runs COMMAND while holding the lease NAME, and nobody else's at the same time: of several that
 * ask, one gets it. It is renewed while COMMAND runs; if its holder dies, it ends by itself after
 * TTL, and the handler of queue "lease" may clean up.
 *
 * A lease is a pending job. Taking it is an update of mode KEEP: CREATED says that it is ours,
 * UNCHANGED that somebody holds it. Renewing is an update of what is pending, never a new one.
 * The generation tells ours from the next holder's: it has grown once our lease has ended.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wq.h>

static int
failed(const char *what, int err)
{
	fprintf(stderr, "lease: %s: %s\n", what, wq_strerror(err));
	return 1;
}

static int
renew(wq_t *wq, const char *name, int64_t ttl_ms, uint64_t generation)
{
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	wq_result_t res;
	int err;

	opts.if_pending = 1;
	err = wq_update(wq, "lease", name, ttl_ms, &opts, &res);
	if (err < 0)
		return err;
	return res.pending_before && res.generation == generation ? 0 : -WQ_NOT_FOUND;
}

/* Renews three times in each TTL until the command ends; its exit status, or 1. `chld` is
 * blocked, so that the end of the command cuts the waiting short, whenever it comes. */
static int
hold(wq_t *wq, const char *name, int64_t ttl_ms, uint64_t generation, pid_t pid,
	const sigset_t *chld)
{
	struct timespec step = { (time_t)(ttl_ms / 3000), (long)(ttl_ms / 3 % 1000) * 1000000 };
	int status, err;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (sigtimedwait(chld, NULL, &step) == SIGCHLD)
			continue;
		err = renew(wq, name, ttl_ms, generation);
		if (err < 0) {
			/* Without the lease there is no right to go on. */
			kill(pid, SIGTERM);
			waitpid(pid, &status, 0);
			return failed("lost", err);
		}
	}
	err = wq_cancel(wq, "lease", name, WQ_CANCEL_PLAIN, -1, NULL);
	if (err < 0)
		return failed("release", err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int argc, char **argv)
{
	int64_t ttl_ms = 0;
	char options[64];
	wq_result_t res;
	sigset_t chld, before;
	wq_t *wq;
	pid_t pid;
	int err;

	if (argc < 4 || wq_parse_duration(argv[2], &ttl_ms) < 0 || ttl_ms < 3) {
		fprintf(stderr, "usage: lease NAME TTL COMMAND [ARGUMENT...]\n");
		return 2;
	}
	/* A renewal that takes longer than what is left of the lease comes too late. */
	snprintf(options, sizeof options, "timeout=%lldms", (long long)ttl_ms / 2);
	err = wq_connect(NULL, options, &wq);
	if (err < 0)
		return failed("connect", err);
	err = wq_schedule(wq, "lease", argv[1], ttl_ms, NULL, &res);
	if (err == 0 && res.status != WQ_CREATED)
		err = -WQ_EXISTS;
	if (err < 0) {
		wq_free(wq);
		return failed(argv[1], err);
	}
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	err = pid < 0 ? 1 : hold(wq, argv[1], ttl_ms, res.generation, pid, &chld);
	wq_free(wq);
	return err;
}
