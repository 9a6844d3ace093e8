/*
 * heartbeat NAME [TIMEOUT_MS [INTERVAL_MS]]
 *
 * Says "I am alive". The handler of queue "hb" runs for NAME when that was not heard for
 * TIMEOUT_MS, and only then: each beat pushes the run back. SIGTERM and SIGINT end it in peace,
 * and the run is taken away.
 *
 * Nobody else updates this name, and whether the alarm comes after 30 s or 31 s is all the same:
 * with "sole_updater" and a slack most beats cost no round trip.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wq.h>

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* Interrupted by a signal it returns early, which is wanted. */
static void
pause_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

int
main(int argc, char **argv)
{
	long timeout_ms = argc > 2 ? atol(argv[2]) : 30000;
	long interval_ms = argc > 3 ? atol(argv[3]) : timeout_ms / 10;
	struct sigaction sa = { .sa_handler = on_signal };
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	wq_result_t res;
	wq_t *wq;
	int err;

	if (argc < 2 || timeout_ms < 1 || interval_ms < 1) {
		fprintf(stderr, "usage: heartbeat NAME [TIMEOUT_MS [INTERVAL_MS]]\n");
		return 2;
	}
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	err = wq_connect(NULL, "sole_updater=yes", &wq);
	if (err < 0) {
		fprintf(stderr, "heartbeat: %s\n", wq_strerror(err));
		return 1;
	}
	opts.slack_ms = timeout_ms / 10;
	while (!stop) {
		err = wq_update(wq, "hb", argv[1], timeout_ms, &opts, &res);
		if (err < 0 && !wq_retriable(err))
			break;
		printf("%s%s\n", err ? wq_error_word(err) : wq_status_word(res.status),
			!err && res.local ? " (here)" : "");
		fflush(stdout);
		pause_ms(interval_ms);
	}
	if (stop)
		err = wq_cancel(wq, "hb", argv[1], WQ_CANCEL_PLAIN, -1, NULL);
	if (err < 0)
		fprintf(stderr, "heartbeat: %s: %s\n", wq_strerror(err), wq_message(wq));
	wq_free(wq);
	return err < 0;
}
