/*
 * SipHash-1-3, a keyed hash: clients choose keys, so an unkeyed hash would let
 * them choose collisions. 64 bits of result.
 */
#ifndef WQD_BASE_SIPHASH_H
#define WQD_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t
siphash13(const uint64_t key[2], const void *p, size_t n);

#endif
