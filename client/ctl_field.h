/*
 * Fields of a JSON object: each read as what it must be. The first thing that is
 * wrong is remembered, so that a reader looks once, at the end.
 */
#ifndef WQ_CTL_FIELD_H
#define WQ_CTL_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "wq.h"

/* A line, its fields, and the first thing that is wrong with them. */
struct fields {
	json_t *j;
	const char *wrong;
};

/* Text without a zero byte; "" when it is none. */
const char *
field_text(struct fields *f, const char *name);
/* 0 to `most`; `otherwise` when it is not there. */
int64_t
field_number(struct fields *f, const char *name, int64_t otherwise, int64_t most);
/* False when it is not there. */
bool
field_flag(struct fields *f, const char *name);
/* Its place in `words`, which end with NULL. */
int
field_word(struct fields *f, const char *name, const char *const *words);

/* The parts of the payload, owned, and the bytes they point at. */
struct field_parts {
	struct wq_part *v;
	char **owned; /* of decoded ones */
	size_t n;
};
void
field_parts(struct fields *f, struct field_parts *p);
void
field_parts_free(struct field_parts *p);

#endif
