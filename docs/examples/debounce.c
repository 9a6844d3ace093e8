/*
 * debounce KEY [QUIET [MAX_WAIT]] <CHANGES
 *
 * Each line of input is a change. The handler of queue "index" runs once for all of them: when no
 * change came for QUIET (300ms), but at latest MAX_WAIT (1h) after the first. It gets the lines on its
 * standard input.
 *
 * The updates go out without waiting for one another's replies; their order stays.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wq.h>

struct counts {
	unsigned changes, runs, failed;
};

static void
on_reply(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct counts *n = arg;

	(void)wq;
	n->changes++;
	/* CREATED and REQUEUED_RUNNING begin a run; all others were absorbed by one. */
	if (reply->result < 0)
		n->failed++;
	else if (reply->status == WQ_CREATED || reply->status == WQ_REQUEUED_RUNNING)
		n->runs++;
	if (reply->result < 0)
		fprintf(stderr, "debounce: %s\n", reply->message);
}

/* Sends one change, and takes the replies that have come. When too many are on their way, it waits
 * for them first. */
static int
send_change(
	wq_t *wq, const char *key, int64_t quiet_ms, const wq_update_opts_t *opts, struct counts *n)
{
	int err = wq_send_update(wq, "index", key, quiet_ms, opts, on_reply, n);

	if (err == WQ_ERR_TOO_MANY) {
		err = wq_run(wq, -1);
		if (err == 0)
			err = wq_send_update(wq, "index", key, quiet_ms, opts, on_reply, n);
	}
	return err == 0 ? wq_process(wq, WQ_READABLE | WQ_WRITABLE) : err;
}

int
main(int argc, char **argv)
{
	int64_t quiet_ms = 0;
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	struct counts n = { 0, 0, 0 };
	char *line = NULL;
	size_t cap = 0;
	wq_t *wq;
	int err;

	if (argc < 2 || wq_parse_duration(argc > 2 ? argv[2] : "300ms", &quiet_ms) < 0 ||
		wq_parse_duration(argc > 3 ? argv[3] : "1h", &opts.max_wait_ms) < 0) {
		fprintf(stderr, "usage: debounce KEY [QUIET [MAX_WAIT]] <CHANGES\n");
		return 2;
	}
	err = wq_connect(NULL, NULL, &wq);
	if (err < 0) {
		fprintf(stderr, "debounce: %s\n", wq_strerror(err));
		return 1;
	}
	opts.payload_mode = WQ_PAYLOAD_APPEND;
	while (err == 0 && getline(&line, &cap, stdin) > 0) {
		opts.payload = line;
		opts.payload_len = strcspn(line, "\n");
		err = send_change(wq, argv[1], quiet_ms, &opts, &n);
	}
	free(line);
	if (err == 0)
		err = wq_run(wq, -1);
	if (err < 0)
		fprintf(stderr, "debounce: %s\n", wq_strerror(err));
	printf("%u changes, %u runs\n", n.changes, n.runs);
	wq_free(wq);
	return err < 0 || n.failed > 0;
}
