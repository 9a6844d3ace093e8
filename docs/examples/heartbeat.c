/*
 * heartbeat NAME [TIMEOUT [INTERVAL]]
 *
 * Says "I am alive". The handler of queue "hb" runs for NAME when that was not heard for
 * TIMEOUT (30s), and only then: each beat, one every INTERVAL (1s), pushes the run back. SIGTERM and
 * SIGINT end it in peace, and the run is taken away.
 *
 * Nobody else updates this name, and whether the alarm comes after 30 s or 31 s is all the same:
 * with "sole_updater" and a slack most beats cost no round trip.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
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
pause_ms(int64_t ms)
{
	struct timespec ts = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

int
main(int argc, char **argv)
{
	int64_t timeout_ms = 0, interval_ms = 0;
	struct sigaction sa = { .sa_handler = on_signal };
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	wq_result_t res;
	wq_t *wq;
	int err;

	if (argc < 2 || wq_parse_duration(argc > 2 ? argv[2] : "30s", &timeout_ms) < 0 ||
		wq_parse_duration(argc > 3 ? argv[3] : "1s", &interval_ms) < 0) {
		fprintf(stderr, "usage: heartbeat NAME [TIMEOUT [INTERVAL]]\n");
		return 2;
	}
	if (interval_ms >= timeout_ms) {
		fprintf(stderr, "heartbeat: TIMEOUT must be longer than INTERVAL (1s)\n");
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
