/*
 * Tokens: secrets of clients, known here by their hashes alone.
 *
 * A file has a line for each: NAME, a space, "sha256:SALT:HASH" in hexadecimal,
 * the hash over salt and token. Empty lines and lines with # are skipped. A
 * token is looked for by hashing it with each line's salt and comparing in
 * constant time, all lines, whichever matched: how long it takes tells nothing.
 * Meant for random tokens of 16 bytes and more; a shorter one is refused.
 *
 * Loop thread; tokens_hash anywhere.
 */
#ifndef WQD_AUTH_TOKENS_H
#define WQD_AUTH_TOKENS_H

#include "base/str.h"

#define TOKENS_MAX      1024
#define TOKEN_NAME_MAX  64 /* bytes */
#define TOKEN_BYTES_MIN 16 /* of the token itself */
#define TOKEN_BYTES_MAX 512
#define TOKEN_LINE_MAX  256 /* "sha256:...", terminated */

struct tokens;

/* On failure nothing in *out, and one line in `why`: -errno, ERR_BAD_VALUE (no such line, a name
 * twice), ERR_NOT_OURS (others may write the file). */
int
tokens_load(const char *path, struct tokens **out, char *why, size_t size);
/* NULL is allowed. */
void
tokens_free(struct tokens *t);
/* Whose token it is: a name (borrowed), or NULL. */
const char *
tokens_find(const struct tokens *t, struct str token);
/* "sha256:SALT:HASH" with a fresh salt. 0, ERR_OUT_OF_RANGE (its length), -EIO. */
int
tokens_hash(struct str token, char dst[TOKEN_LINE_MAX]);

#endif
