/*
 * Options as data. A row gives an option's name, type, range, default, sentence
 * and whether a reload changes it; reading, defaults, freeing, messages,
 * `wqd --dump-options` and the option parts of wqd.conf(5) are made from the
 * rows. A queue's settings have their own table (engine/settings.h).
 *
 * Every value is text when it gets here, quoted in the file or not, so there is
 * one reading of numbers, durations and sizes for file, command line and wire.
 */
#ifndef WQD_CONF_OPTION_H
#define WQD_CONF_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "engine/settings.h"
#include "engine/words.h"

enum option_type {
	OPT_PATH,     /* char *: absolute path */
	OPT_TEXT,     /* char * */
	OPT_CHOICE,   /* char *: one of `words`, kept as text */
	OPT_WORD,     /* int: the number of one of `words` */
	OPT_BOOL,     /* bool */
	OPT_NUMBER,   /* unsigned of `width` bytes */
	OPT_INTEGER,  /* int, may be negative */
	OPT_SIZE,     /* unsigned of `width` bytes, with k, m, g */
	OPT_MODE,     /* mode_t, octal */
	OPT_DURATION, /* int64_t nanoseconds */
	OPT_LIST,     /* char **, NULL-terminated */
};

struct option {
	const char *name;
	enum option_type type;
	size_t offset, width; /* of the member in the object of its scope */
	int64_t min, max;
	const char *def; /* as text; NULL: none */
	const struct word_table *words;
	bool (*check)(struct str value); /* a further rule for texts; may be NULL */
	const char *right;               /* what passes `check`, for messages and the manual */
	bool reload;                     /* a reload changes it; else a restart */
	const char *doc;
};

struct option_scope {
	const char *name;  /* "" for the top level, else the section's */
	const char *title; /* heading of the manual */
	const char *doc;
	const struct option *rows;
	size_t n;
};

extern const struct option_scope config_scope;    /* members of struct config */
extern const struct option_scope handler_scope;   /* of struct handler */
extern const struct option_scope role_scope;      /* of struct grant_role */
extern const struct option_scope namespace_scope; /* of struct grant_namespace */
extern const struct option_scope pool_scope;      /* of struct pool_settings */

/*
 * Reads `value` into the option's member of `base`; a list gets it appended. 0, -ENOMEM, or
 * ERR_BAD_VALUE or ERR_OUT_OF_RANGE with nothing changed.
 */
int
option_set(const struct option *o, void *base, const char *value);
/* The member as text: numbers and durations in their shortest form, a list joined by ", ". Cut
 * at `size`; returns `dst`. For messages and comparison. */
const char *
option_get(const struct option *o, const void *base, char *dst, size_t size);
/* Frees what the member owns and leaves it empty. */
void
option_clear(const struct option *o, void *base);
/* All rows to their defaults in a zeroed object. 0 or -ENOMEM; what is set so far is owned. */
int
options_default(const struct option_scope *s, void *base);
void
options_clear(const struct option_scope *s, void *base);
/* What a value must be: "duration from 1ms to 1h", "one of sqlite, memory". Returns `dst`. */
const char *
option_range(const struct option *o, char *dst, size_t size);
/* A queue's setting as a row, for option_range(). */
struct option
option_of_setting(const struct setting *s);
bool
option_is_text(enum option_type t);

#endif
