/*
 * Targets: QUEUE/KEY, or KEY in "default". The first slash splits, so keys may
 * contain slashes; with a queue given apart the whole argument is the key.
 * Pure. What a key may consist of is the daemon's to say.
 */
#ifndef WQ_CTL_TARGET_H
#define WQ_CTL_TARGET_H

#include <stddef.h>

#define CTL_QUEUE_MAX 128 /* bytes */
#define CTL_KEY_MAX   255

struct ctl_target {
	char queue[CTL_QUEUE_MAX + 1];
	char key[CTL_KEY_MAX + 1];
};

/* Splits text[0..len). `queue` NULL: not given apart. NULL on success, else what is wrong (static),
 * with *out unchanged. */
const char *
ctl_target_parse(const char *text, size_t len, const char *queue, struct ctl_target *out);

#endif
