/*
 * Which job has a key: numbers of records by keyed hash, in one array.
 *
 * Linear probing over slots of eight bytes, half of the hash and the number of
 * the record, so that a look touches one cache line and a record is read when
 * its hash agrees. The place of a slot grows with its hash: a resize copies the
 * array from one end to the other, a few slots with each change, and what has
 * not been copied is looked up where it was. Owner's thread.
 */
#ifndef WQD_ENGINE_INDEX_H
#define WQD_ENGINE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_table {
	uint64_t *slots; /* owned; hash << 32 | number + 1, 0: free */
	size_t n;        /* places; some slots more for what is pushed over the end */
};

struct index {
	struct index_table now, old; /* old.slots NULL unless it is being resized */
	size_t moved;                /* places of `old` that have been copied */
	size_t n;
	bool expecting; /* it does not shrink */
};

#define INDEX_NONE UINT32_MAX

void
index_init(struct index *ix);
void
index_done(struct index *ix);
/* So many will come: room for them at once, where there is memory and nothing in it yet; it is kept
 * until 0 are expected. */
void
index_expect(struct index *ix, size_t n);
/* 0 or -ENOMEM (for the very first table, or when one that can't grow is full). */
int
index_add(struct index *ix, uint64_t hash, uint32_t id);
/* It must be there. */
void
index_del(struct index *ix, uint64_t hash, uint32_t id);

static inline uint32_t
index_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

static inline size_t
index_place(const struct index_table *t, uint32_t tag)
{
	return (size_t)((unsigned __int128)t->n * tag >> 32);
}

static inline const uint64_t *
index_slot(const struct index *ix, uint64_t hash)
{
	uint32_t tag = index_tag(hash);

	if (__builtin_expect(ix->old.slots != NULL, false)) {
		size_t at = index_place(&ix->old, tag);

		if (at >= ix->moved)
			return &ix->old.slots[at];
	}
	return ix->now.slots ? &ix->now.slots[index_place(&ix->now, tag)] : NULL;
}

/* Asks the memory for what a look at this hash touches first. */
static inline void
index_prefetch(const struct index *ix, uint64_t hash)
{
	__builtin_prefetch(index_slot(ix, hash));
}

/* The first number at or behind `*slot` whose hash agrees; `*slot` is behind it then. INDEX_NONE:
 * there is none. */
static inline uint32_t
index_next(const uint64_t **slot, uint64_t hash)
{
	for (; **slot; ++*slot)
		if (**slot >> 32 == index_tag(hash))
			return (uint32_t)(*(*slot)++) - 1;
	return INDEX_NONE;
}

/* Asserts that every number is where its hash says and that the count is right, O(n). */
void
index_verify(const struct index *ix);

#endif
