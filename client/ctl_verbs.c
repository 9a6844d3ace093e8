/*
 * The command table. Help, the man page's sections and bash completion are made
 * from it; a verb that is not here does not exist.
 */
#include <limits.h>
#include <string.h>

#include "ctl.h"

/* ---- options ---- */

/* In the numbering of wq.h, and of enum ctl_order. */
static const char *const mode_words[] = { "set", "keep", "earlier", "later", NULL };
static const char *const durability_words[] = { "default", "sync", "async", "memory", NULL };
static const char *const state_words[] = { "idle", "armed", "ready", "held", "running", NULL };
static const char *const timers_words[] = { "keep", "expedite", "cancel", NULL };
static const char *const sort_words[] = { "key", "due", NULL };
_Static_assert(WQ_SET == 0 && WQ_KEEP == 1 && WQ_EARLIER == 2 && WQ_LATER == 3, "mode_words");
_Static_assert(WQ_SYNC == 1 && WQ_ASYNC == 2 && WQ_MEMORY == 3, "durability_words");
_Static_assert(WQ_STATE_ARMED == 1 && WQ_STATE_RUNNING == 4, "state_words");
_Static_assert(WQ_TIMERS_EXPEDITE == 1 && WQ_TIMERS_CANCEL == 2, "timers_words");

#define FLAG(id, name, doc) \
	{ \
		id, name, 0, KIND_FLAG, NULL, doc, NULL, 0, 0 \
	}
#define VALUE(id, name, kind, val, doc) \
	{ \
		id, name, 0, kind, val, doc, NULL, 0, INT64_MAX \
	}
#define DURATION(id, name, doc) VALUE(id, name, KIND_DURATION, "DURATION", doc)
#define WORD(id, name, val, words, doc) \
	{ \
		id, name, 0, KIND_WORD, val, doc, words, 0, 0 \
	}
#define NUMBER(id, name, min, max, doc) \
	{ \
		id, name, 0, KIND_NUMBER, "N", doc, NULL, min, max \
	}
#define OPTIONS(list) .options = list, .n_options = ARRAY_LEN(list)

/* clang-format off */
const struct ctl_option ctl_global_options[] = {
	VALUE(OPT_SERVER, "server", KIND_TEXT, "ADDRESS",
		"the daemon: unix:PATH, tcp://HOST:PORT or tls://HOST:PORT; else $WQ_SERVER, else "
		CTL_DEFAULT_SERVER),
	FLAG(OPT_JSON, "json", "one JSON value on stdout, errors included"),
	VALUE(OPT_TLS_CA, "tls-ca", KIND_FILE, "PATH",
		"file or folder of those who may have issued the daemon's certificate; else "
		"$WQ_TLS_CA, else the system's"),
	VALUE(OPT_TLS_CERT, "tls-cert", KIND_FILE, "FILE",
		"certificate to show to the daemon; else $WQ_TLS_CERT"),
	VALUE(OPT_TLS_KEY, "tls-key", KIND_FILE, "FILE",
		"its private key; else $WQ_TLS_KEY, else it is in the same file"),
	VALUE(OPT_TOKEN_FILE, "token-file", KIND_FILE, "FILE",
		"its first line is the token to show to the daemon; else $WQ_TOKEN_FILE"),
	VALUE(OPT_NAMESPACE, "namespace", KIND_TEXT, "NAME",
		"the namespace in which all queues and completions are; else $WQ_NAMESPACE"),
	FLAG(OPT_INSECURE, "insecure",
		"talk to whoever answers at a tls:// address, and warn of it"),
	DURATION(OPT_TIMEOUT, "timeout",
		"give up after this long (exit status 7); without it, verbs that wait do so without "
		"limit and all others for 30s"),
	{ OPT_QUIET, "quiet", 'q', KIND_FLAG, NULL,
		"no text where only an outcome would be told; names alone where rows are listed",
		NULL, 0, 0 },
	{ OPT_HELP, "help", 'h', KIND_FLAG, NULL, "help, on the verb where one is named", NULL, 0, 0 },
	{ OPT_VERSION, "version", 'V', KIND_FLAG, NULL, "the version", NULL, 0, 0 },
};
const size_t ctl_n_global_options = ARRAY_LEN(ctl_global_options);

#define KEY_QUEUE \
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE", \
		"the queue; the whole of TARGET is the key then, slashes too")
#define DURABILITY \
	WORD(OPT_DURABILITY, "durability", "LEVEL", durability_words, \
		"answer when it is on disk (sync), before that (async), or never write it (memory); " \
		"default: the queue's")
#define TIMERS \
	WORD(OPT_TIMERS, "timers", "WHAT", timers_words, \
		"what becomes of armed timers: keep (default), expedite (due now) or cancel")

/* What the other changes of a job share. */
#define CHANGE_OPTIONS \
	VALUE(OPT_ID, "id", KIND_TEXT, "ID", \
		"idempotency id: sent again with the same one, it is done once"), \
	DURABILITY

/* What update and schedule share. */
#define UPDATE_OPTIONS \
	KEY_QUEUE, \
	DURATION(OPT_IN, "in", "the delay, instead of DELAY"), \
	VALUE(OPT_AT, "at", KIND_TIME, "TIME", \
		"a point in time instead of a delay: RFC 3339 with an offset, such as " \
		"2026-03-01T08:30:00+01:00; follows the wall clock"), \
	DURATION(OPT_SLACK, "slack", \
		"how much later than asked the run may start, so that updates inside it cost " \
		"nothing; default: the queue's"), \
	DURATION(OPT_MAX_WAIT, "max-wait", \
		"run at the latest this long after the job became pending, however often it is " \
		"pushed back; default: the queue's; 0: no bound"), \
	DURATION(OPT_ALIGN, "align", \
		"round the deadline up to a multiple of this, plus an offset made from the key"), \
	FLAG(OPT_ALIGN_EXACT, "align-exact", "without that offset: all keys at once"), \
	VALUE(OPT_PAYLOAD, "payload", KIND_TEXT, "TEXT", "replaces the job's payload"), \
	VALUE(OPT_PAYLOAD_FILE, "payload-file", KIND_FILE, "FILE", \
		"the same with the file's content; - reads stdin"), \
	FLAG(OPT_APPEND, "append", "adds the payload as one more part instead"), \
	VALUE(OPT_ID, "id", KIND_TEXT, "ID", \
		"idempotency id: sent again with the same one, the update is applied once"), \
	DURABILITY, \
	FLAG(OPT_STDIN, "batch", \
		"read lines of TARGET DELAY from stdin and answer each with a line; the exit status " \
		"is that of the first that failed")

static const struct ctl_option update_options[] = {
	WORD(OPT_MODE, "mode", "MODE", mode_words,
		"what counts when the job is pending already: the new deadline (set, default), the "
		"first one (keep), the earlier or the later of both"),
	FLAG(OPT_IF_PENDING, "if-pending", "only move a pending job, never create one"),
	UPDATE_OPTIONS,
};
static const struct ctl_option schedule_options[] = { UPDATE_OPTIONS };
static const struct ctl_option run_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE", "the queue; default: default"),
	VALUE(OPT_KEY, "key", KIND_TEXT, "KEY",
		"the job: one that is pending gets this command and deadline instead; default: a new "
		"one, its key made by the daemon"),
	DURATION(OPT_IN, "in", "after this delay; default: now"),
	VALUE(OPT_AT, "at", KIND_TIME, "TIME", "at this point in time (RFC 3339)"),
	FLAG(OPT_WAIT, "wait", "wait for the run's final result, show it, and end with its status"),
	VALUE(OPT_PAYLOAD, "payload", KIND_TEXT, "TEXT", "the command's standard input"),
	VALUE(OPT_PAYLOAD_FILE, "payload-file", KIND_FILE, "FILE",
		"the same with the file's content; - reads stdin"),
	CHANGE_OPTIONS,
};
static const struct ctl_option cancel_options[] = {
	KEY_QUEUE,
	FLAG(OPT_WAIT, "wait", "return when no run of the job is left either"),
	FLAG(OPT_KILL, "kill", "stop a run (TERM, then KILL), then as --wait"),
	CHANGE_OPTIONS,
};
static const struct ctl_option flush_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE",
		"without TARGET: all that is ready, held or running in the queue now; with it, the "
		"queue of that key"),
	FLAG(OPT_NOW, "now", "an armed job is made ready first"),
};
static const struct ctl_option wait_options[] = {
	KEY_QUEUE,
	NUMBER(OPT_GENERATION, "generation", 1, INT64_MAX,
		"the run of this number instead of the newest"),
};
static const struct ctl_option key_options[] = { KEY_QUEUE };
static const struct ctl_option job_op_options[] = { KEY_QUEUE, CHANGE_OPTIONS };
static const struct ctl_option list_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE", "of this queue alone"),
	VALUE(OPT_PREFIX, "prefix", KIND_TEXT, "TEXT", "keys that begin so"),
	WORD(OPT_STATE, "state", "STATE", state_words, "jobs in this state: idle, armed, ready, held or running"),
	VALUE(OPT_DUE_FROM, "due-from", KIND_TIME, "TIME", "deadlines from then on (RFC 3339)"),
	VALUE(OPT_DUE_TO, "due-to", KIND_TIME, "TIME", "deadlines up to then (RFC 3339)"),
	WORD(OPT_SORT, "sort", "ORDER", sort_words,
		"by queue and key (key) or by deadline (due); without it, rows come as they are found"),
	NUMBER(OPT_LIMIT, "limit", 1, INT64_MAX, "at most so many"),
};
static const struct ctl_option history_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE",
		"without TARGET: runs of all jobs of the queue; with it, the queue of that key"),
	NUMBER(OPT_LIMIT, "limit", 1, INT64_MAX, "at most so many"),
};
static const struct ctl_option watch_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE", "of this queue alone"),
	VALUE(OPT_PREFIX, "prefix", KIND_TEXT, "TEXT", "of keys that begin so"),
	VALUE(OPT_KINDS, "kinds", KIND_TEXT, "KINDS",
		"of these kinds alone, with commas between: armed, updated, skipped, ready, started, "
		"finished, cancelled, queue, returned"),
	NUMBER(OPT_AFTER, "after", 0, INT64_MAX,
		"go on behind this position, as far as the daemon still has what came after it"),
	NUMBER(OPT_COUNT, "count", 1, INT64_MAX, "end after so many events"),
};
static const char *const lines_words[] = { "json", "fields", NULL };
static const struct ctl_option work_options[] = {
	{ OPT_JOBS, "jobs", 'j', KIND_NUMBER, "N", "so many at a time; default 1", NULL, 1, 256 },
	FLAG(OPT_ONCE, "once",
		"end after one job: with status 0 when it was done, 6 when it failed; with --timeout, 7 "
		"when none came"),
	WORD(OPT_LINES, "lines", "FORMAT", lines_words,
		"the command stays and takes job after job: a line each on its stdin, as JSON or as "
		"fields, answered by a line on its stdout"),
};
static const struct ctl_option completion_options[] = {
	WORD(OPT_DURABILITY, "durability", "LEVEL", durability_words,
		"from now on it survives a restart, and the answer waits for the disk (sync) or not "
		"(async); default: as it is, memory for a new one"),
};
static const struct ctl_option queue_delete_options[] = {
	WORD(OPT_TIMERS, "timers", "WHAT", timers_words,
		"keep armed timers, and so refuse while there are any (keep, default), make them due "
		"now (expedite), or cancel them (cancel)"),
};
static const struct ctl_option drain_options[] = {
	TIMERS,
	FLAG(OPT_PAUSE_AFTER, "pause-after", "pause the queue before anything starts again"),
};
static const struct ctl_option bench_options[] = {
	VALUE(OPT_QUEUE, "queue", KIND_QUEUE, "QUEUE", "the queue; default: default"),
	NUMBER(OPT_KEYS, "keys", 1, 10000000, "how many jobs the updates are spread over; default 1000"),
	NUMBER(OPT_COUNT, "count", 1, 1000000000, "how many updates; default 100000"),
	NUMBER(OPT_PIPELINE, "pipeline", 1, 4096, "requests in flight; default 1"),
	NUMBER(OPT_BATCH, "batch", 1, 4096, "updates in one request; default 1"),
	DURATION(OPT_DELAY, "delay", "the delay of each update; default 1h"),
	DURABILITY,
	FLAG(OPT_KEEP, "keep", "leave the jobs behind"),
};
#define FORCE FLAG(OPT_FORCE, "force", "replace a file of that name")
static const struct ctl_option backup_options[] = { FORCE };
static const struct ctl_option export_options[] = { FORCE };
static const struct ctl_option check_options[] = {
	VALUE(OPT_STATE_DIR, "state-dir", KIND_FILE, "DIR",
		"look at the files of this directory instead, whose daemon does not run: as wqd --check-state"),
};
static const struct ctl_option import_options[] = {
	FLAG(OPT_DRY_RUN, "dry-run", "change nothing, only tell what would be done"),
	FLAG(OPT_SHIFT_OVERDUE, "shift-overdue",
		"move deadlines that have passed: as long after now as they were after the export"),
};
static const struct ctl_option upgrade_options[] = {
	FLAG(OPT_CHECK, "check", "only ask the new program whether it could take over"),
};
static const struct ctl_option shutdown_options[] = {
	FLAG(OPT_DRAIN, "drain", "first let what is ready, held and running come to its end, however long that takes"),
};

/* ---- verbs ---- */

#define EXIT_FLUSH "The exit status is 6 when the run failed or was cancelled."

const struct ctl_verb ctl_verbs[] = {
	{ .name = "update", .args = "TARGET [DELAY]", .args_max = 2, .arg_kind = ARG_TARGET,
		.summary = "run a job after DELAY, and forget an earlier deadline",
		.doc = "Creates the job, or moves its deadline when it is pending; when it is running "
		       "it runs once more. Prints what it did, the new and the old deadline, and how "
		       "many updates the pending run has absorbed.",
		OPTIONS(update_options), .op = WQ_SET, .run = ctl_do_update },
	{ .name = "schedule", .args = "TARGET [DELAY]", .args_max = 2, .arg_kind = ARG_TARGET,
		.summary = "as update, but the first deadline counts",
		.doc = "A job that is pending already is left as it is: UNCHANGED.",
		OPTIONS(schedule_options), .op = WQ_KEEP, .run = ctl_do_update },
	{ .name = "run", .args = "-- COMMAND...", .args_min = 1, .args_max = 1024,
		.summary = "have a command run by the daemon, now or later",
		.doc = "A job that has a command of its own instead of its queue's handler, without a "
		       "shell. It survives a restart, and retries, like any other. It runs as the "
		       "queue's handler would; in a queue without one as the daemon's user in /, "
		       "with no time limit. It is for the daemon's own user over a unix socket, "
		       "unless allow_command says nobody, and for roles that have command (else "
		       "status 5). With --wait the exit "
		       "status is 6 when the run failed or was cancelled; a wqctl that is "
		       "interrupted leaves the run alone.",
		OPTIONS(run_options), .waits = true, .run = ctl_do_run },
	{ .name = "cancel", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "take the pending run away",
		.doc = "A run that goes on is left alone, and the exit status is 1 when there was "
		       "nothing but it; --wait and --kill see to its end.",
		OPTIONS(cancel_options), .waits = true, .run = ctl_do_cancel },
	{ .name = "flush", .args = "[TARGET]", .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "wait for what is ready or running",
		.doc = "Of one job, or with --queue alone of a whole queue. Timers are left alone "
		       "unless --now is given. " EXIT_FLUSH,
		OPTIONS(flush_options), .waits = true, .run = ctl_do_flush },
	{ .name = "wait", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "wait for the final result of a job's run",
		.doc = "Of the run that goes on, else the pending one, else the newest that is kept. "
		       "With --timeout 0 it only looks. " EXIT_FLUSH,
		OPTIONS(wait_options), .waits = true, .run = ctl_do_wait },
	{ .name = "get", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "show a job", OPTIONS(key_options), .run = ctl_do_get },
	{ .name = "list", .args = "[QUEUE[/PREFIX]]", .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "list jobs",
		.doc = "Rows are printed as the daemon finds them; a job that exists all the while is "
		       "shown once. running+ is a running job that will run once more.",
		OPTIONS(list_options), .run = ctl_do_list },
	{ .name = "why", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "explain why a job has not run",
		OPTIONS(key_options), .run = ctl_do_why },
	{ .name = "history", .args = "[TARGET]", .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "list kept runs, newest first",
		OPTIONS(history_options), .run = ctl_do_history },
	{ .name = "kick", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "make an armed job ready now; run a dead one again",
		OPTIONS(job_op_options), .op = WQ_OP_KICK, .run = ctl_do_job_op },
	{ .name = "disable", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "cancel, and refuse updates until enabled as often",
		OPTIONS(job_op_options), .op = WQ_OP_DISABLE, .run = ctl_do_job_op },
	{ .name = "enable", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "take one disable back",
		OPTIONS(job_op_options), .op = WQ_OP_ENABLE, .run = ctl_do_job_op },
	{ .name = "delete", .args = "TARGET", .args_min = 1, .args_max = 1, .arg_kind = ARG_TARGET,
		.summary = "cancel, and forget the job with its results",
		OPTIONS(job_op_options), .op = WQ_OP_DELETE, .run = ctl_do_job_op },
	{ .name = "queue list", .summary = "list queues", .run = ctl_do_queue_list },
	{ .name = "queue show", .args = "QUEUE", .args_min = 1, .args_max = 1, .arg_kind = ARG_QUEUE,
		.summary = "show a queue's settings and counts", .run = ctl_do_queue_show },
	{ .name = "queue create", .args = "QUEUE [NAME=VALUE]...", .args_min = 1, .args_max = 65,
		.summary = "create a queue",
		.doc = "Settings are those of wqd.conf(5), such as handler=page max_active=4.",
		.op = CTL_QUEUE_CREATE, .run = ctl_do_queue_change },
	{ .name = "queue set", .args = "QUEUE NAME=VALUE...", .args_min = 2, .args_max = 65,
		.arg_kind = ARG_QUEUE, .summary = "change settings of a queue",
		.doc = "All of them, or none when one is wrong.",
		.op = CTL_QUEUE_SET, .run = ctl_do_queue_change },
	{ .name = "queue delete", .args = "QUEUE", .args_min = 1, .args_max = 1, .arg_kind = ARG_QUEUE,
		.summary = "delete a queue",
		.doc = "Refused while a job is pending, unless --timers says what becomes of it. Waits for what "
		       "runs.",
		OPTIONS(queue_delete_options), .waits = true, .run = ctl_do_queue_delete },
	{ .name = "pause", .args = "QUEUE", .args_min = 1, .args_max = 1, .arg_kind = ARG_QUEUE,
		.summary = "start nothing; timers go on", .op = CTL_PAUSE, .run = ctl_do_pause },
	{ .name = "resume", .args = "QUEUE", .args_min = 1, .args_max = 1, .arg_kind = ARG_QUEUE,
		.summary = "start what is held, oldest first", .op = CTL_RESUME, .run = ctl_do_pause },
	{ .name = "drain", .args = "QUEUE", .args_min = 1, .args_max = 1, .arg_kind = ARG_QUEUE,
		.summary = "refuse newcomers until nothing is ready, held or running",
		.doc = "What running jobs of the queue re-queue themselves is accepted. In a paused queue "
		       "what is held stays, and the drain waits for resume. A drain that is "
		       "interrupted or times out is undone. On a terminal a line on stderr says how far it "
		       "is.",
		OPTIONS(drain_options), .waits = true, .run = ctl_do_drain },
	{ .name = "completion wait", .args = "NAME", .args_min = 1, .args_max = 1,
		.summary = "wait until it is completed, and take one",
		.doc = "First come, first served; an open one lets everybody through. With --timeout 0 it "
		       "only tries. Who times out or is interrupted takes nothing.",
		.waits = true, .run = ctl_do_completion_wait },
	{ .name = "completion complete", .args = "NAME", .args_min = 1, .args_max = 1,
		.summary = "let one waiter through, present or later",
		OPTIONS(completion_options), .op = WQ_COMPLETION_COMPLETE, .run = ctl_do_completion },
	{ .name = "completion complete-all", .args = "NAME", .args_min = 1, .args_max = 1,
		.summary = "open it: let every waiter through, present and later",
		OPTIONS(completion_options), .op = WQ_COMPLETION_COMPLETE_ALL, .run = ctl_do_completion },
	{ .name = "completion reinit", .args = "NAME", .args_min = 1, .args_max = 1,
		.summary = "close it, and forget what nobody has taken",
		OPTIONS(completion_options), .op = WQ_COMPLETION_REINIT, .run = ctl_do_completion },
	{ .name = "completion show", .args = "NAME", .args_min = 1, .args_max = 1,
		.summary = "show its count, or that it is open, and how many wait",
		.doc = "A name that nobody has completed is closed, with a count of 0.",
		.op = WQ_COMPLETION_SHOW, .run = ctl_do_completion },
	{ .name = "watch", .summary = "print what happens, as it happens",
		.doc = "One line an event, with --json one value a line; each has a position, which "
		       "--after takes. A reader that is too slow loses the oldest events and is told how "
		       "many. It ends with the daemon (status 8), with --timeout (status 7) or --count.",
		OPTIONS(watch_options), .waits = true, .run = ctl_do_watch },
	{ .name = "work", .args = "QUEUE -- COMMAND [ARGUMENT...]", .args_min = 2, .args_max = INT_MAX,
		.arg_kind = ARG_QUEUE,
		.summary = "take jobs of a lease queue and run a command for each",
		.doc = "The command gets the payload on its stdin, and WQ_QUEUE, WQ_KEY, WQ_GENERATION, "
		       "WQ_ATTEMPT, WQ_COALESCED, WQ_DEADLINE_MS, WQ_PARTS, WQ_RUN_TOKEN, WQ_LEASE_TOKEN "
		       "and WQ_SERVER in its environment. Exit status 0 means done, any other that it "
		       "failed. The first 64 KiB of its output are kept with the result. While it runs "
		       "the lease is touched; a command whose lease is lost is ended, TERM first and "
		       "KILL after five seconds.\n\n"
		       "With --lines the command is started once for each of N and stays. A job is a "
		       "line on its stdin. json: an object with queue, key, generation, attempt, "
		       "coalesced, due_ms, lease_ms, token, parts (lengths) and payload, or where that is "
		       "no UTF-8 payload null and payload_base64. fields: key, generation, attempt and "
		       "payload with tabs between, the payload escaped for printf '%b' (\\\\, \\t, \\n, "
		       "\\0 and three octal digits). It answers each by one line on its stdout before it "
		       "gets the next: \"done [OUTPUT]\", \"failed [OUTPUT]\", \"retry SPAN [OUTPUT]\" (failed, "
		       "and again after SPAN), OUTPUT escaped the same; or an object with outcome (done, "
		       "failed), output and retry_after_ms. Its stderr is that of wqctl. One that ends "
		       "in the middle of a job, or answers anything else, failed that job; it is started "
		       "again for the next, after 1 s, doubled up to 30 s until one is answered. At the "
		       "end its stdin is closed; it has five seconds then. It can be the "
		       "command of a handler with worker = yes.\n\n"
		       "TERM or INT: no more jobs, and the end when those it has are over; once more ends "
		       "their commands. A connection that breaks comes back. One line a job, with --json "
		       "one value a line.",
		OPTIONS(work_options), .waits = true, .run = ctl_do_work },
	{ .name = "stat", .summary = "show the daemon's counters", .run = ctl_do_stat },
	{ .name = "ping", .summary = "ask whether the daemon answers, and how fast",
		.run = ctl_do_ping },
	{ .name = "bench", .summary = "measure updates of jobs of its own",
		.doc = "Each key is touched once before the clock starts; the keys are deleted "
		       "afterwards. Latencies are from request to reply, to 1 %.",
		OPTIONS(bench_options), .run = ctl_do_bench },
	{ .name = "backup", .args = "FILE", .args_min = 1, .args_max = 1,
		.summary = "write a copy of the daemon's database to FILE",
		.doc = "With all that was acknowledged before; the daemon goes on meanwhile. FILE is "
		       "written on this side, with mode 0600, and has its name when it is whole; - "
		       "is stdout. To restore, stop wqd, put FILE in place of wqd.db in its state "
		       "directory, remove wqd.db-wal, and start it. For root and the daemon's user, "
		       "over a unix socket, as are check, export and import.",
		OPTIONS(backup_options), .run = ctl_do_backup },
	{ .name = "check", .summary = "read all of the daemon's files and tell whether they are in order",
		.doc = "Commits wait while the daemon reads.",
		OPTIONS(check_options), .run = ctl_do_check },
	{ .name = "export", .args = "[FILE]", .args_max = 1,
		.summary = "write queues, completions and jobs as lines of JSON",
		.doc = "To stdout without FILE. What exists throughout is in it; results of finished "
		       "runs are not. Of a state directory whose daemon does not run "
		       "wqd --export-state gives the same.",
		OPTIONS(export_options), .run = ctl_do_export },
	{ .name = "import", .args = "FILE", .args_min = 1, .args_max = 1,
		.summary = "bring in what an export has written",
		.doc = "Deadlines stay the points in time they were, and those that have passed are due "
		       "at once; payload, generation, attempt, durability and depth stay as well. What is "
		       "there already is left as it is, so an import may be repeated. A line that "
		       "makes no sense is told with its number, and the others go on; the exit status "
		       "is that of the first. FILE - is stdin.",
		OPTIONS(import_options), .run = ctl_do_import },
	{ .name = "reload", .summary = "read the configuration again", .run = ctl_do_reload },
	{ .name = "upgrade", .summary = "exchange the daemon's program while it serves",
		.doc = "For the one that stands in its place on the disk now. Connections, timers and "
		       "runs go on; connections with TLS are ended, and their clients connect again. "
		       "The answer comes from the new program. One that can't take over, or not start, "
		       "leaves the old one serving, and the exit status is 1.",
		OPTIONS(upgrade_options), .run = ctl_do_upgrade },
	{ .name = "shutdown", .summary = "stop the daemon",
		.doc = "The answer comes at once. The daemon ends when its runs have, and interrupts those "
		       "that are left after stop_timeout.",
		OPTIONS(shutdown_options), .run = ctl_do_shutdown },
	{ .name = "help", .args = "[VERB]", .args_max = 2, .arg_kind = ARG_VERB,
		.summary = "help, on the verb where one is named", .run = ctl_do_help },
	{ .name = "dump-man", .summary = "the generated sections of wqctl(1)", .hidden = true,
		.run = ctl_do_dump_man },
	{ .name = "dump-completion", .summary = "the script of bash completion", .hidden = true,
		.run = ctl_do_dump_completion },
};
const size_t ctl_n_verbs = ARRAY_LEN(ctl_verbs);
/* clang-format on */

const struct ctl_verb *
ctl_verb_find(const char *name)
{
	for (size_t i = 0; i < ctl_n_verbs; i++)
		if (strcmp(ctl_verbs[i].name, name) == 0)
			return &ctl_verbs[i];
	return NULL;
}

bool
ctl_verb_is_group(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < ctl_n_verbs; i++)
		if (strncmp(ctl_verbs[i].name, name, n) == 0 && ctl_verbs[i].name[n] == ' ')
			return true;
	return false;
}
