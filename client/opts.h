/*
 * Options of a handle: one table gives name, type, range, default and sentence. wq_set reads
 * it, and the table of libwq(3) is checked against it.
 */
#ifndef WQ_CLIENT_OPTS_H
#define WQ_CLIENT_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_CLIENT_MAX 64 /* bytes, as the protocol has it */
#define OPTION_PATH_MAX   1023
#define OPTION_SPACE_MAX  32

struct options {
	char client[OPTION_CLIENT_MAX + 1];
	int64_t connect_timeout_ms;
	int64_t timeout_ms; /* 0: none */
	bool reconnect;
	int64_t reconnect_min_ms, reconnect_max_ms;
	bool resend;
	int64_t max_in_flight;
	uint64_t run_token; /* 0: none */
	bool sole_updater;
	char tls_ca[OPTION_PATH_MAX + 1]; /* paths: "": none */
	char tls_cert[OPTION_PATH_MAX + 1];
	char tls_key[OPTION_PATH_MAX + 1];
	char tls_name[OPTION_PATH_MAX + 1];
	bool insecure;
	char token_file[OPTION_PATH_MAX + 1];
	char space[OPTION_SPACE_MAX + 1]; /* "": none */
};

enum option_type { OPTION_NAME, OPTION_DURATION, OPTION_BOOL, OPTION_COUNT, OPTION_TOKEN };

struct option_row {
	const char *name;
	enum option_type type;
	size_t offset; /* in struct options */
	int64_t min, max;
	const char *def; /* as text; one in angle brackets comes from the process */
	const char *doc;
};
extern const struct option_row option_table[];
extern const size_t option_count;

/* NULL, or the variable of the environment whose value is too long to be one. */
const char *
options_default(struct options *o);
/* 0 or WQ_ERR_OPTION, and `o` is as it was. */
int
options_set(struct options *o, const char *name, const char *value);
/* "name=value,name=value"; NULL and "" set nothing. */
int
options_set_list(struct options *o, const char *text);

#endif
