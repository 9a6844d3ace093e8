/* The rows themselves. Column by column: see struct option. */
#include "conf/conf.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "conf/check.h"
#include "conf/option.h"

#define SECOND NS_PER_S
#define MILLI  NS_PER_MS
#define HOUR   (3600 * NS_PER_S)
#define DAY    (24 * HOUR)
#define KIB    1024ll
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)

#define ADDRESSES \
	"list of \"unix:/PATH\" (at most 107 bytes), \"tcp://HOST:PORT\", " \
	"\"tls://HOST:PORT\", V6 addresses in brackets"

static const char *const store_names[] = { "sqlite", "memory" };
static const struct word_table store_words = { store_names, ARRAY_SIZE(store_names) };

static const char *const client_names[] = { "off", "request", "require" };
static const struct word_table client_words = { client_names, ARRAY_SIZE(client_names) };

static const char *const allow_names[] = {
	[ALLOW_NOBODY] = "nobody",
	[ALLOW_OWNER] = "owner",
};
static const struct word_table allow_words = { allow_names, ARRAY_SIZE(allow_names) };

static const char *const level_names[] = {
	[LOG_ERROR_] = "error",
	[LOG_WARN_] = "warning",
	[LOG_INFO_] = "info",
	[LOG_DEBUG_] = "debug",
};
static const struct word_table level_words = { level_names, ARRAY_SIZE(level_names) };

/* clang-format off */
#define AT(m)      offsetof(struct config, m), sizeof((struct config *)0)->m
#define RELOAD     true
#define RESTART    false
#define PLAIN      NULL, NULL, NULL

static const struct option config_rows[] = {
{ "state_dir", OPT_PATH, AT(state_dir), 0, 0, "/var/lib/wqd", PLAIN, RESTART,
  "Folder of the database and of the lock that keeps a second daemon out." },
{ "listen", OPT_LIST, AT(listen), 1, 64, "unix:/run/wqd/wqd.sock", NULL, check_address, ADDRESSES, RESTART,
  "Where clients are served. Sockets that the service manager passes are served instead." },
{ "socket_mode", OPT_MODE, AT(socket_mode), 0, 0777, "0660", PLAIN, RESTART,
  "Permissions of the unix sockets that the daemon makes." },
{ "socket_group", OPT_TEXT, AT(socket_group), 0, 0, NULL, NULL, check_group_exists, "an existing group", RESTART,
  "Group of the unix sockets that the daemon makes. Without it, the daemon's own." },
{ "allow_plaintext", OPT_BOOL, AT(allow_plaintext), 0, 0, "no", PLAIN, RESTART,
  "Whether TCP without TLS may be offered to other machines. Anybody who reaches such a port may do anything." },
{ "tls_cert", OPT_PATH, AT(tls_cert), 0, 0, NULL, PLAIN, RELOAD,
  "Certificate for tls:// addresses, PEM, followed by those of its issuers up to a root." },
{ "tls_key", OPT_PATH, AT(tls_key), 0, 0, NULL, PLAIN, RELOAD,
  "Its private key, PEM, without a password." },
{ "tls_client_ca", OPT_PATH, AT(tls_client_ca), 0, 0, NULL, PLAIN, RELOAD,
  "Certificates of those who may issue certificates of clients, PEM." },
{ "tls_clients", OPT_WORD, AT(tls_clients), 0, 0, "off", &client_words, NULL, NULL, RELOAD,
  "Whether clients are asked for a certificate. One that is given must be good, with request too." },
{ "token_file", OPT_PATH, AT(token_file), 0, 0, NULL, PLAIN, RELOAD,
  "Names and hashes of tokens, a line each as wqd --hash-token prints it. Others than the daemon and root must not be able to write it." },
{ "tls_handshake_timeout", OPT_DURATION, AT(tls_handshake_ns), 100 * MILLI, HOUR, "10s", PLAIN, RELOAD,
  "A TLS handshake that takes longer ends its connection." },
{ "tls_max_handshakes", OPT_NUMBER, AT(tls_max_handshakes), 1, 65536, "256", PLAIN, RELOAD,
  "TLS handshakes going on at once. The oldest has to go for one more." },
{ "allow_command", OPT_WORD, AT(allow_command), 0, 0, "owner", &allow_words, NULL, NULL, RELOAD,
  "Who may have commands run that are no handlers (wqctl run): owner is the daemon's own user over a unix socket, by the kernel's word. A command runs as the handler of its queue would, or as the daemon's user." },
{ "store", OPT_CHOICE, AT(store), 0, 0, "sqlite", &store_words, NULL, NULL, RESTART,
  "Where jobs are kept. With memory everything is lost when the daemon ends." },
{ "commit_interval", OPT_DURATION, AT(commit_interval_ns), MILLI, 10 * SECOND, "50ms", PLAIN, RELOAD,
  "Longest time between an answer of durability async and its commit: what a crash can lose." },
{ "log_level", OPT_WORD, AT(log_level), 0, 0, "info", &level_words, NULL, NULL, RELOAD,
  "Least important lines that are logged." },
{ "stop_timeout", OPT_DURATION, AT(stop_timeout_ns), 0, DAY, "20s", PLAIN, RELOAD,
  "How long a stop waits for running jobs before it interrupts them." },
{ "hello_timeout", OPT_DURATION, AT(hello_timeout_ns), 100 * MILLI, HOUR, "10s", PLAIN, RESTART,
  "A connection without its first message after this time is closed." },
{ "frame_timeout", OPT_DURATION, AT(frame_timeout_ns), 100 * MILLI, HOUR, "30s", PLAIN, RESTART,
  "A message that has begun and is not whole after this time ends its connection." },
{ "frame_max", OPT_SIZE, AT(frame_max), 64 * KIB, 64 * MIB, "2m", PLAIN, RESTART,
  "Longest message taken." },
{ "output_max", OPT_SIZE, AT(output_max), 64 * KIB, 64 * MIB, "1m", PLAIN, RESTART,
  "A connection with more unsent bytes than this is not read until its client reads." },
{ "watch_buffer", OPT_SIZE, AT(watch_bytes), 64 * KIB, 1024 * MIB, "4m", PLAIN, RESTART,
  "Bytes of events kept for those who watch. One that falls further behind is told how many it lost." },
{ "max_connections", OPT_NUMBER, AT(max_connections), 1, 1000000, "10000", PLAIN, RELOAD,
  "Connections at once. More are turned away." },
{ "max_in_flight", OPT_NUMBER, AT(max_in_flight), 1, 1000000, "65536", PLAIN, RESTART,
  "Requests of one connection that wait for their answer. Beyond it the connection is not read." },
{ "max_jobs", OPT_NUMBER, AT(max_jobs), 1, 1000000000, "50000000", PLAIN, RESTART,
  "Jobs known at once, over all queues." },
{ "max_bytes", OPT_SIZE, AT(max_bytes), MIB, 1024 * GIB, "8g", PLAIN, RESTART,
  "Bytes of payloads and kept outputs, over all queues." },
{ "max_queues", OPT_NUMBER, AT(max_queues), 1, 1000000, "4096", PLAIN, RESTART,
  "Queues, those made by clients included." },
{ "max_runs", OPT_NUMBER, AT(max_runs), 1, 65536, "256", PLAIN, RESTART,
  "Runs going on at once, over all queues." },
{ "max_waiters", OPT_NUMBER, AT(max_waiters), 1, 100000000, "1000000", PLAIN, RESTART,
  "Requests that wait for a run, a flush, a drain or a completion, over all clients." },
{ "max_completions", OPT_NUMBER, AT(max_completions), 1, 100000000, "100000", PLAIN, RESTART,
  "Named completions that have been completed or are waited for." },
};
#undef AT

#define AT(m) offsetof(struct handler, m), sizeof((struct handler *)0)->m

static const struct option handler_rows[] = {
{ "command", OPT_LIST, AT(command), 1, 1024, NULL, NULL, check_argument,
  "list: program and arguments, each under 128k", RELOAD,
  "What is run, without a shell. A program without a slash is looked up in PATH of the run's environment; with one it must be an absolute path." },
{ "env", OPT_LIST, AT(env), 1, 1024, NULL, NULL, check_env,
  "list of \"NAME=value\", NAME of letters, digits and _, not beginning with WQ_", RELOAD,
  "Added to the environment of the run." },
{ "directory", OPT_PATH, AT(directory), 0, 0, "/", PLAIN, RELOAD,
  "Working directory of the run." },
{ "user", OPT_TEXT, AT(user), 0, 0, NULL, NULL, check_user_exists, "an existing user", RELOAD,
  "User of the run. Without it, the daemon's own. Another one needs a daemon that is root or has CAP_SETUID and CAP_SETGID: wqd(8)." },
{ "group", OPT_TEXT, AT(group), 0, 0, NULL, NULL, check_group_exists, "an existing group", RELOAD,
  "Group of the run. Without it, the user's." },
{ "umask", OPT_MODE, AT(umask), 0, 0777, "0022", PLAIN, RELOAD,
  "File mode mask of the run." },
{ "timeout", OPT_DURATION, AT(timeout_ns), 0, 365 * DAY, "0", PLAIN, RELOAD,
  "A run that takes longer is ended: TERM to its process group, after the grace KILL. 0: no limit." },
{ "grace", OPT_DURATION, AT(grace_ns), 0, HOUR, "5s", PLAIN, RELOAD,
  "Time between TERM and KILL." },
{ "output_max", OPT_SIZE, AT(output_max), 0, 16 * MIB, "64k", PLAIN, RELOAD,
  "Bytes of standard output and error that are kept with the run. The rest is read and dropped." },
{ "keep_children", OPT_BOOL, AT(keep_children), 0, 0, "no", PLAIN, RELOAD,
  "Whether processes of the run's process group may outlive its main process. Otherwise they get KILL." },
{ "max_memory", OPT_SIZE, AT(max_memory), 0, 1024 * GIB, "0", PLAIN, RELOAD,
  "Limit of each process's address space. 0: none." },
{ "max_files", OPT_NUMBER, AT(max_files), 0, 1048576, "0", PLAIN, RELOAD,
  "Limit of open files of each process. 0: 1024, which a program may raise to the daemon's." },
{ "max_processes", OPT_NUMBER, AT(max_processes), 0, 4194304, "0", PLAIN, RELOAD,
  "Limit of processes of the run's user. 0: none." },
{ "nice", OPT_INTEGER, AT(nice), -20, 19, "0", PLAIN, RELOAD,
  "Added to the nice value that the daemon has. A negative number needs a daemon that runs as root." },
{ "run_memory", OPT_SIZE, AT(run_memory), 0, 1024 * GIB, "0", PLAIN, RELOAD,
  "Memory that all processes of a run may use together, where a cgroup is delegated; beyond it the run is ended with signal 9, and nothing else. 0: none but the pool's." },
{ "run_processes", OPT_NUMBER, AT(run_processes), 0, 4194304, "0", PLAIN, RELOAD,
  "Processes and threads of a run at once, where a cgroup is delegated. 0: none but the unit's." },
{ "worker", OPT_BOOL, AT(worker), 0, 0, "no", PLAIN, RELOAD,
  "The command is a worker program: it stays, and takes job after job of a queue whose action is lease over the socket that is its descriptor 3." },
{ "workers_max", OPT_NUMBER, AT(workers_max), 0, 10000, "0", PLAIN, RELOAD,
  "Worker programs at once, for each queue. 0: as many as the queue's max_active." },
{ "workers_spare", OPT_NUMBER, AT(workers_spare), 0, 10000, "1", PLAIN, RELOAD,
  "Idle worker programs that are kept." },
{ "worker_idle", OPT_DURATION, AT(worker_idle_ns), 0, 365 * DAY, "30s", PLAIN, RELOAD,
  "A worker program beyond the spare ones that has had nothing to do for so long goes, the coldest first." },
{ "worker_jobs", OPT_NUMBER, AT(worker_jobs), 0, UINT32_MAX, "0", PLAIN, RELOAD,
  "A worker program is replaced after so many jobs. 0: never." },
{ "worker_memory", OPT_SIZE, AT(worker_memory), 0, 1024 * GIB, "0", PLAIN, RELOAD,
  "A worker program that has so many bytes in memory is replaced when its job is over. 0: no limit." },
};
#undef AT

#define AT(m) offsetof(struct pool_settings, m), sizeof((struct pool_settings *)0)->m

static const struct option pool_rows[] = {
{ "processors", OPT_NUMBER, AT(processors), 0, 65536, "0", PLAIN, RELOAD,
  "Processors that the pool keeps busy. 0: all that the daemon may use." },
{ "admit", OPT_WORD, AT(admit), 0, 0, "processors", &admit_words, NULL, NULL, RELOAD,
  "When one more run may start: processors (while those going on leave a processor something to do), all (at once, up to max_inflight)." },
{ "max_inflight", OPT_NUMBER, AT(max_inflight), 0, 65536, "0", PLAIN, RELOAD,
  "Runs of the pool going on at once. 0: 128 for each processor, with admit all none but max_runs." },
{ "max_memory", OPT_SIZE, AT(max_memory), 0, 1024 * GIB, "0", PLAIN, RELOAD,
  "Memory that the runs of the pool may use together. Nothing more is started from three quarters of it on; where a cgroup is delegated it is also their hard limit. 0: none but that of the daemon's cgroup and of the machine." },
{ "ladder", OPT_BOOL, AT(ladder), 0, 0, "yes", PLAIN, RELOAD,
  "Whether the younger runs, beyond one for each processor, are as nice as can be until their turn comes, where that works: niceness may be lowered again (LimitNICE), and the daemon is in a cpu cgroup, or sessions are no groups of their own." },
{ "nice", OPT_INTEGER, AT(nice), -20, 19, "0", PLAIN, RELOAD,
  "Added to the nice value of all runs of the pool. A negative number needs a daemon that runs as root." },
{ "cpu_weight", OPT_NUMBER, AT(cpu_weight), 1, 10000, "100", PLAIN, RELOAD,
  "Share of the processors against other pools, where a cgroup is delegated." },
};
/* clang-format on */

const struct option_scope config_scope = {
	.name = "",
	.title = "Daemon",
	.doc = "Options at the top level of the file.",
	.rows = config_rows,
	.n = ARRAY_SIZE(config_rows),
};

const struct option_scope handler_scope = {
	.name = "handler",
	.title = "Handlers",
	.doc = "handler \"NAME\" { ... } names a command that queues can run.",
	.rows = handler_rows,
	.n = ARRAY_SIZE(handler_rows),
};

const struct option_scope pool_scope = {
	.name = "pool",
	.title = "Pools",
	.doc = "pool \"NAME\" { ... } makes a pool, or changes the one called default, which "
	       "always "
	       "exists. Queues of action exec name theirs.",
	.rows = pool_rows,
	.n = ARRAY_SIZE(pool_rows),
};
