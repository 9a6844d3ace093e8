/*
 * Text of numbers, durations, sizes and names, one reading of each for
 * configuration, settings and the wire. Locale-free. Pure functions.
 */
#ifndef WQD_BASE_TEXT_H
#define WQD_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* "250ms", "30s", "1h30m", "2d", "1w"; units ns us ms s m h d w, each at most once and falling;
 * "0" needs none; plain numbers otherwise, signs and spaces are refused. 0, ERR_BAD_VALUE or
 * ERR_OUT_OF_RANGE (over int64_t nanoseconds). */
int
text_duration(struct str s, int64_t *ns);
/* The shortest such text ("90s" reads "1m30s"). Returns its length. `size` >= 64. */
size_t
text_put_duration(char *dst, size_t size, int64_t ns);
/* Decimal, no sign, no spaces. 0, ERR_BAD_VALUE, ERR_OUT_OF_RANGE. */
int
text_u64(struct str s, uint64_t *v);
/* "65536", "64k", "1m", "2g" (powers of 1024). */
int
text_size(struct str s, uint64_t *v);
/* yes no true false on off */
int
text_bool(struct str s, bool *v);
/* Valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool
text_utf8_valid(struct str s);

#endif
