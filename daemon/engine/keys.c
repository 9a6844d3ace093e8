/*
 * The bytes of keys: short ones lie side by side with others of their length, to
 * eight bytes, so that they cost what they are.
 */
#include "base/alloc.h"
#include "engine/internal.h"

/* Where a key of n bytes lies; NULL: in a block of its own. */
static struct slab *
key_slab(struct engine *e, size_t n)
{
	return n <= KEY_CLASSES * 8u ? &e->key_bytes[(n - 1) / 8] : NULL;
}

char *
job_key_copy(struct engine *e, struct str key)
{
	struct slab *s = key_slab(e, key.n);
	char *copy;

	if (!s)
		return x_strndup(key.p, key.n);
	if (!s->base && slab_init(s, (key.n + 7) / 8 * 8, e->cfg.max_jobs) < 0)
		return NULL;
	copy = slab_take(s);
	return copy ? memcpy(copy, key.p, key.n) : NULL;
}

void
job_key_free(struct engine *e, struct job *j)
{
	struct slab *s = key_slab(e, j->key_n);

	if (!s)
		x_free(j->key);
	else if (j->key)
		slab_give(s, j->key);
}
