/*
 * Bytes from outside (keys, queue names, the output of runs) made fit to print:
 * on a terminal, where control characters, bidirectional overrides and broken
 * UTF-8 must do nothing; and in JSON, which takes valid UTF-8 alone. Pure.
 */
#ifndef WQ_CTL_TEXT_H
#define WQ_CTL_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Takes one character off s[0..n), n > 0: returns its length, *cp its code point. Broken UTF-8
 * (overlong forms, surrogates and above U+10FFFF included): *cp is -1 and the length that of the
 * longest start of a character, at least 1, which is what one U+FFFD stands for.
 */
size_t
ctl_utf8_next(const char *s, size_t n, int32_t *cp);
/* Writes s[0..n) on one line: what could act on a terminal, a backslash and broken bytes appear as
 * \n, \\, \x1b, \u{202e}. */
void
ctl_text_put(FILE *out, const char *s, size_t n);
void
ctl_text_puts(FILE *out, const char *s);
/* The same with line breaks and tabs kept, and `indent` before each line; ends with a line break
 * unless n is 0. */
void
ctl_text_put_block(FILE *out, const char *indent, const char *s, size_t n);
/* A JSON string of s[0..n); broken bytes become U+FFFD and *lossy (may be NULL) true. Owned. */
json_t *
ctl_text_json(const char *s, size_t n, bool *lossy);
json_t *
ctl_text_jsons(const char *s);
/* A JSON string of the bytes in base64 (RFC 4648, padded). Owned. */
json_t *
ctl_base64_json(const void *p, size_t n);

#endif
