/*
 * The hash maps of the engine, but for jobs (index.h): intrusive, grown a few buckets at a
 * time so that no operation is ever long.
 *
 * Two tables while it grows: each add or delete moves a bounded number of
 * buckets from the old to the new one; the new table's memory is taken zeroed
 * and untouched (a fresh mapping), so that taking it is not a pause either.
 * Nodes never move in memory. Owner's thread.
 */
#ifndef WQD_ENGINE_MAP_H
#define WQD_ENGINE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
	struct map_node *next;
	uint64_t hash;
};

struct map_table {
	struct map_node **buckets; /* owned */
	size_t mask;
};

struct map {
	struct map_table now, old; /* old.buckets NULL unless growing or shrinking */
	size_t moved;              /* buckets of `old` already emptied */
	size_t n;
	bool (*match)(const struct map_node *node, const void *key);
};

/* `match`: is this node the one with `key`? Called on equal hashes only. */
void
map_init(struct map *m, bool (*match)(const struct map_node *node, const void *key));
/* Frees the tables; nodes are the owner's. */
void
map_done(struct map *m);
struct map_node *
map_find(const struct map *m, uint64_t hash, const void *key);
/* The node must not be in the map, nor one with its key. node->hash is set. 0 or -ENOMEM (only
 * for the very first table; a table that cannot grow gets longer chains instead). */
int
map_add(struct map *m, struct map_node *node, uint64_t hash);
void
map_del(struct map *m, struct map_node *node);
static inline size_t
map_count(const struct map *m)
{
	return m->n;
}
/*
 * Every node once, also while the map changes between the calls: calls `each` for the nodes of at
 * least one and at most `limit_buckets` places from `*cursor` (0: start) on; `*cursor` is 0 at
 * the end. A node present throughout is shown at least once; shown twice only when the map shrank
 * or grew meanwhile. (Reverse binary increment of the cursor over both tables.)
 */
void
map_scan(const struct map *m, uint64_t *cursor, size_t limit_buckets,
	void (*each)(void *arg, struct map_node *node), void *arg);
/* Asserts that every node is where its hash says and that the count is right, O(n). */
void
map_verify(const struct map *m);

#endif
