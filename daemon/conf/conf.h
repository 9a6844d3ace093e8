/*
 * The configuration: /etc/wqd/wqd.conf, read with libconfuse. Every option is a
 * row of option_table: type, range, default, sentence, whether a reload changes
 * it. A file with any error is refused whole, with file, line, option and what
 * would be right.
 */
#ifndef WQD_CONF_CONF_H
#define WQD_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/grants.h"
#include "engine/handler.h"
#include "engine/pool.h"
#include "engine/settings.h"

struct config_queue {
	char name[QUEUE_NAME_MAX + 1];
	struct queue_settings settings;
};

/* Who may have commands run that are no handlers. */
enum allow_command { ALLOW_NOBODY, ALLOW_OWNER };

struct config {
	char *state_dir;
	char **listen; /* NULL-terminated; "unix:PATH", "tcp://HOST:PORT", "tls://HOST:PORT" */
	char *socket_group;
	mode_t socket_mode;
	char *store;   /* "sqlite", "memory" */
	int log_level; /* enum log_level */
	int64_t commit_interval_ns;
	int64_t stop_timeout_ns;
	int64_t hello_timeout_ns; /* first message */
	int64_t frame_timeout_ns; /* a frame begun must be whole */
	uint32_t frame_max;
	uint32_t max_connections;
	uint32_t max_in_flight; /* requests of a connection not yet answered */
	size_t watch_bytes;     /* of events kept while somebody watches */
	uint32_t output_max;    /* unsent bytes of a connection before it is no longer read */
	uint64_t max_jobs, max_bytes;
	uint32_t max_queues, max_runs;
	uint64_t max_waiters, max_completions;
	int allow_command;    /* enum allow_command */
	bool allow_plaintext; /* TCP without TLS on other than loopback addresses */
	char *tls_cert, *tls_key, *tls_client_ca; /* NULL: none */
	int tls_clients;                          /* whose numbers are enum tls_clients */
	int64_t tls_handshake_ns;
	uint32_t tls_max_handshakes;
	struct handler *handlers;
	size_t n_handlers;
	struct handler
		plain; /* of commands in queues without a handler: all options as by default */
	struct config_queue *queues;
	size_t n_queues;
	struct pool_config *pools;
	size_t n_pools;
	struct grants grants;
	char *token_file; /* NULL: no tokens */
};

/* Reads `path` (NULL: defaults alone). On error a message of one line in *why (owned by the
 * caller, x_free) and ERR_CONFIG or -errno; nothing in *out. */
int
config_load(const char *path, struct config **out, char **why);
void
config_free(struct config *c);
/* Options that a reload can't change and that differ: how many, and their names in `names`
 * ("listen, store"; cut at `size`). */
size_t
config_need_restart(const struct config *old, const struct config *new, char *names, size_t size);
/* NULL: no such handler. */
const struct handler *
config_handler(const struct config *c, struct str name);
/* Whether it is of the kind that a queue of that action needs: one with `worker = yes` for lease, one
 * without for exec. A sentence why not, static; NULL: it is. */
const char *
config_handler_misfit(const struct handler *h, enum action action);
bool
config_has_queue(const struct config *c, const char *name);
bool
config_has_pool(const struct config *c, const char *name);
/* `wqd --dump-options`: every option and queue setting as a table; also the source of
 * wqd.conf(5). `format`: "text" or "man". */
void
config_dump_options(const char *format);

#endif
