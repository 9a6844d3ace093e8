/*
 * The bounded arena behind wire_decode: blocks are taken one after the other and
 * given back all at once. Each block remembers its size, because protobuf-c
 * hands out text without its length: a block made for a text is one byte longer
 * than the text, so that a NUL inside never cuts it.
 */
#ifndef WQD_WIRE_ARENA_H
#define WQD_WIRE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/wire.h"

/* `n` bytes, aligned for any struct of ours; NULL when the arena or memory is full. */
void *
arena_alloc(struct arena *a, size_t n);
/* The size that a block of this arena was asked with. */
size_t
arena_block_size(const void *block);
/* True when an allocation has failed since the last reset. */
bool
arena_failed(const struct arena *a);

#endif
