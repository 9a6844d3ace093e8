/*
 * The parts of the daemon and how the files of the process layer share them:
 * build.c makes and takes them down, clients.c joins connections and sessions,
 * daemon.c holds what the parts call. Loop thread only.
 */
#ifndef WQD_PARTS_H
#define WQD_PARTS_H

#include "auth/tokens.h"
#include "base/carry.h"
#include "conf/conf.h"
#include "crew.h"
#include "daemon.h"
#include "engine/engine.h"
#include "net/listen.h"
#include "net/tls.h"
#include "run/runner.h"
#include "service/commit.h"
#include "service/session.h"
#include "stop.h"
#include "store/writer.h"
#include "sys/systemd.h"
#include "upgrade.h"

/* What a slow step of start or stop asks the service manager for. */
#define EXTEND_BY (30 * NS_PER_S)

struct daemon {
	const struct daemon_options *opt;
	const char *config_path; /* NULL: defaults alone */
	struct config *conf;     /* what is in force */
	struct systemd *sd;
	struct store *store; /* until the writer has it */
	bool unclaimed;      /* its token did not grow: it could not be written */
	char instance[37];
	struct engine *engine;
	struct loop *loop;
	struct service *svc;
	struct writer *writer;
	struct reactor_io *writer_io;
	struct committer *committer;
	struct runner *runner;
	struct crew *crew;
	struct conns *conns;
	struct tls *tls;       /* NULL: no certificate */
	struct tokens *tokens; /* NULL: none */
	struct listener **listeners;
	size_t n_listeners;
	struct reactor_timer *watchdog;
	struct stop *stop; /* once stopping */
	bool wants_stop;   /* a client asked: begin at the end of the turn */
	bool wants_drain;
	struct upgrade *upgrade;
	struct carry_in carried; /* from before an exec; .map NULL: nothing is */
	int carried_fd;          /* its file; -1 */
	int before_fd;           /* the program from before; -1 */
	char before[64];         /* its version */
	char back[512];          /* that is us, for the new one could not start: why; "" */
	int64_t carried_ns;      /* boot time when it began to be written */
	uint64_t upgrades;       /* that this process has seen */
	char why[512];           /* of what `exit` says */
	int exit;
	int64_t progress_at_ns;
};

/* build.c: all parts in order, from the configuration in d->conf. 0, or an exit status with the
 * reason logged; parts_teardown is right after both. */
int
parts_build(struct daemon *d);
void
parts_teardown(struct daemon *d);
/* d->conf from the file; on failure the reason is on stderr and the exit status returned. */
int
parts_load_config(struct daemon *d);
/* Where the state is. */
const char *
parts_state_dir(const struct daemon *d);
/* The exit status for a store that can't be used. */
int
parts_store_exit(const struct store_error *e);
/* Stops listening. */
void
parts_close_listeners(struct daemon *d);
/* Queues that the file names are as the file says. */
void
parts_apply_queues(struct daemon *d, const struct config *conf);

/* pools.c: pools are as the file says; before the queues, which name them. */
void
parts_apply_pools(struct daemon *d, const struct config *conf);
/* Takes the samples that are due. */
void
pools_tick(struct daemon *d, struct moment now);
/* When the next is. */
int64_t
pools_due(const struct daemon *d);
/* The service's `stalled`. */
void
pools_on_stalled(void *ctx, const struct pool_stall *s);
void
pools_stat(struct daemon *d, void (*put)(void *arg, const char *name, int64_t value), void *arg);

/* clients.c: what conns_config.protocol is made of; its ctx is the daemon. */
struct conn_protocol
clients_protocol(struct daemon *d);
/* The service's output_ready. */
void
clients_output_ready(void *ctx, struct session *s);
void
clients_output_early(void *ctx, struct session *s);

/* secure.c: TLS and tokens. d->tls and d->tokens from d->conf: 0, or an exit status with the reason logged. */
int
secure_build(struct daemon *d);
/* service_config.token_name. */
const char *
secure_token_name(void *ctx, struct str token);
/* What `conf` says of them, or as before and a sentence in `why`: 0 or a negative error. */
int
secure_reload(struct daemon *d, const struct config *conf, char *why, size_t size);
/* Whether what it says of them can be used; the reason in `why`. */
int
secure_check(const struct config *conf, char *why, size_t size);
void
secure_stat(struct daemon *d, void (*put)(void *arg, const char *name, int64_t value), void *arg);

/* daemon.c: what the parts call; ctx is the daemon. */
extern const struct loop_hooks daemon_hooks;
void
daemon_service_hooks(struct service_config *cfg);
void
daemon_runner_hooks(struct runner_config *cfg);
void
daemon_on_writer_ready(void *arg, unsigned ready);
void
daemon_on_watchdog(void *arg);
void
daemon_on_terminate(void *arg, int signo);
void
daemon_on_hangup(void *arg, int signo);

#endif
