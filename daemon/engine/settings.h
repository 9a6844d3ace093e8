/*
 * The settings of a queue: one table gives name, type, range, default and
 * sentence. Configuration, `wqctl queue create/set/show`, the wire, the store,
 * `wqd --dump-options` and the manual are all made from it.
 *
 * On the wire and in the store a setting is name and text; durations read like
 * "250ms", "30s", "1h30m"; sizes like "64k"; rates like "10/s", "100/m", "5/h",
 * "1/d"; words as in words.h.
 */
#ifndef WQD_ENGINE_SETTINGS_H
#define WQD_ENGINE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "engine/rate.h"
#include "engine/words.h"

#define QUEUE_NAME_MAX   128 /* bytes */
#define HANDLER_NAME_MAX 64
#define QUEUE_POOL_MAX   64

struct queue_settings {
	enum action action;
	char handler[HANDLER_NAME_MAX + 1]; /* "" : none named */
	int64_t lease_ns;
	uint32_t max_active;
	bool ordered;
	enum priority priority;
	char pool[QUEUE_POOL_MAX + 1]; /* "": the default one */
	uint32_t weight;
	bool reserve;
	struct rate rate;
	uint32_t burst;
	uint32_t prefix_limit; /* 0: none */
	char prefix_separator;
	struct rate restart_rate;
	enum durability durability;
	enum misfire misfire;
	int64_t slack_ns;
	int64_t max_wait_ns; /* 0: no bound */
	uint32_t max_attempts;
	uint32_t max_interrupts;
	int64_t retry_delay_ns;
	enum backoff retry_backoff;
	int64_t retry_max_delay_ns;
	uint32_t retry_jitter; /* percent */
	int64_t retention_ns;
	uint32_t retention_count;
	uint32_t max_jobs;
	uint32_t max_parts; /* payloads an append may gather */
};

enum setting_type { SET_WORD, SET_NAME, SET_U32, SET_BOOL, SET_DURATION, SET_RATE, SET_CHAR };

struct setting {
	const char *name;
	enum setting_type type;
	size_t offset; /* in struct queue_settings */
	int64_t min, max;
	const char *def; /* default, as text */
	const struct word_table *words;
	const char *doc;
};

extern const struct setting queue_setting_table[];
extern const size_t queue_setting_count;

void
queue_settings_default(struct queue_settings *s);
/*
 * Sets one by name from text. 0; ERR_UNKNOWN_NAME: no such setting;
 * ERR_BAD_VALUE: not of its type; ERR_OUT_OF_RANGE. `s` is unchanged on error.
 */
int
queue_settings_set(struct queue_settings *s, struct str name, struct str value);
/* The text of `which`, as queue_settings_set takes it. Writes at most `size`
 * bytes with terminator; returns the length. */
size_t
queue_settings_get(
	const struct queue_settings *s, const struct setting *which, char *dst, size_t size);
/* Pairs that make no sense together (ordered with max_active != 1, ...). 0 or
 * ERR_BAD_VALUE with a sentence in *why (static). */
int
queue_settings_check(const struct queue_settings *s, const char **why);

#endif
