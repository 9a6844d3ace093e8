/*
 * A worker program: started by wqd for a lease queue (handler with "worker = yes"), or by hand:
 *
 *     WQ_QUEUE=mail ./worker
 *
 * It takes job after job over the connection that the daemon gave it (WQ_SERVER is "fd:3" then) and
 * ends when the daemon has no more use for it. This one answers with its payload in capitals; "fail"
 * fails, and "die" ends the program in the middle of the job.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wq.h>

static void
work(wq_work_t *job)
{
	const wq_work_info_t *info = wq_work_get(job);
	const char *p = info->payload;
	char out[256];
	size_t n = info->payload_len < sizeof out ? info->payload_len : sizeof out;
	wq_end_t end = WQ_END_INIT;

	for (size_t i = 0; i < n; i++)
		out[i] = (char)toupper((unsigned char)p[i]);
	if (n == 3 && memcmp(out, "DIE", 3) == 0)
		abort();
	end.output = out;
	end.output_len = n;
	if (n == 4 && memcmp(out, "FAIL", 4) == 0)
		wq_work_fail(job, &end, NULL, NULL);
	else
		wq_work_finish(job, &end, NULL, NULL);
}

int
main(void)
{
	const char *queue = getenv("WQ_QUEUE");
	wq_worker_opts_t o = WQ_WORKER_INIT;
	wq_worker_t *worker;
	wq_work_t *job;
	wq_t *wq;
	int err = wq_connect(NULL, NULL, &wq);

	if (err < 0) {
		fprintf(stderr, "worker: %s\n", wq_strerror(err));
		return 1;
	}
	o.queues = &queue;
	o.n_queues = queue ? 1 : 0;
	err = wq_worker_new(wq, &o, &worker);
	if (err == 0) {
		while ((err = wq_worker_next(worker, -1, &job)) == 0)
			work(job);
		wq_worker_free(worker);
	}
	wq_free(wq);
	return err == WQ_ERR_CLOSED ? 0 : 1;
}
