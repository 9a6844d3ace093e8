/*
 * The text of a configuration file, made safe for libconfuse's lexer.
 *
 * The lexer counts lines wrongly after comments, cuts strings at "\0", drops
 * characters it does not know without a word, opens a comment in the middle of
 * an address, takes the end of the file for a missing brace, and puts the daemon's own environment where it sees ${NAME} --
 * which would turn the command { "sh", "-c", "echo ${WQ_KEY}" } into "echo ".
 * So what it gets has its comments blanked and ${NAME} in strings escaped
 * (what stands in the file is what is used), and the rest is refused here with
 * its line.
 */
#ifndef WQD_CONF_SOURCE_H
#define WQD_CONF_SOURCE_H

#include <stddef.h>

#define SOURCE_MAX (1u << 20) /* bytes of a file */

/* Reads `path`. *out (x_free) is terminated and holds no other NUL. 0, -errno, or ERR_CONFIG
 * with a sentence in *what (static) and its line. */
int
source_read(const char *path, char **out, const char **what, int *line);
/* The same for a text of `n` bytes. */
int
source_clean(const char *text, size_t n, char **out, const char **what, int *line);

#endif
