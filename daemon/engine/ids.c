#include "engine/ids.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define WORDS_MIN 64

static int
grow(struct ids *s, size_t words)
{
	size_t n = s->words ? s->words : WORDS_MIN;
	uint64_t *used, *full;

	while (n < words)
		n *= 2;
	used = x_realloc(s->used, n, sizeof *used);
	if (!used)
		return -ENOMEM;
	s->used = used;
	full = x_realloc(s->full, n / 64, sizeof *full);
	if (!full)
		return -ENOMEM;
	s->full = full;
	memset(used + s->words, 0, (n - s->words) * sizeof *used);
	memset(full + s->words / 64, 0, (n - s->words) / 64 * sizeof *full);
	s->words = n;
	return 0;
}

static void
set_used(struct ids *s, uint32_t bit)
{
	uint64_t *w = &s->used[bit / 64];

	*w |= 1ull << bit % 64;
	if (*w == UINT64_MAX)
		s->full[bit / 4096] |= 1ull << bit / 64 % 64;
}

/* The first word that has a free bit; `words` when there is none. */
static size_t
first_word(const struct ids *s)
{
	for (size_t i = s->from / 64; i < s->words / 64; i++)
		if (s->full[i] != UINT64_MAX)
			return i * 64 + (size_t)__builtin_ctzll(~s->full[i]);
	return s->words;
}

uint32_t
ids_take(struct ids *s)
{
	uint32_t bit;

	s->from = first_word(s);
	if (s->from >= JOB_ID_MAX / 64 || (s->from == s->words && grow(s, s->from + 1)))
		return 0;
	bit = (uint32_t)s->from * 64 + (uint32_t)__builtin_ctzll(~s->used[s->from]);
	set_used(s, bit);
	return bit + 1;
}

int
ids_take_this(struct ids *s, uint32_t id)
{
	uint32_t bit = id - 1;

	if (id == 0 || id > JOB_ID_MAX)
		return ERR_DAMAGED;
	if (bit / 64 >= s->words && grow(s, bit / 64 + 1))
		return -ENOMEM;
	if (s->used[bit / 64] >> bit % 64 & 1)
		return ERR_DAMAGED;
	set_used(s, bit);
	return 0;
}

void
ids_give(struct ids *s, uint32_t id)
{
	uint32_t bit = id - 1;

	wq_assert(id > 0 && bit / 64 < s->words && s->used[bit / 64] >> bit % 64 & 1);
	s->used[bit / 64] &= ~(1ull << bit % 64);
	s->full[bit / 4096] &= ~(1ull << bit / 64 % 64);
	if (s->from > bit / 64)
		s->from = bit / 64;
}

int
ids_bind(struct ids *s, uint32_t job, uint32_t id)
{
	size_t n = s->n_of ? s->n_of : WORDS_MIN;
	uint32_t *of;

	if (job >= s->n_of) {
		if (id == 0)
			return 0;
		while (n <= job)
			n *= 2;
		of = big_resize(s->of, s->n_of * sizeof *of, n * sizeof *of);
		if (!of)
			return -ENOMEM;
		s->of = of;
		s->n_of = n;
	}
	s->of[job] = id;
	return 0;
}

void
ids_done(struct ids *s)
{
	if (s->of)
		big_free(s->of, s->n_of * sizeof *s->of);
	x_free(s->used);
	x_free(s->full);
	*s = (struct ids){ 0 };
}
