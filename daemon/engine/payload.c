/*
 * Payloads: what a run gets on its standard input, as a list of parts. One part
 * is the usual case; appending updates gather more. Bytes are counted for the
 * queue and against the engine's limit.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"
#include "engine/internal.h"

#define PARTS_MIN 1u

static struct payload *
payload_resize(struct payload *p, uint32_t cap)
{
	bool fresh = !p;

	p = x_realloc(p, 1, sizeof *p + cap * sizeof p->parts[0]);
	if (!p)
		return NULL;
	if (fresh)
		*p = (struct payload){ 0 };
	p->cap = cap;
	return p;
}

int
payload_grow(struct payload **p)
{
	struct payload *old = *p, *grown;

	if (old && old->n < old->cap)
		return 0;
	grown = payload_resize(old, old ? old->cap * 2 : PARTS_MIN);
	if (!grown)
		return -ENOMEM;
	*p = grown;
	return 0;
}

int
payload_new(struct engine *e, struct queue *q, struct str part, struct payload **out)
{
	struct payload *p;
	char *copy;

	if (part.n > e->cfg.max_bytes || e->stats.bytes > e->cfg.max_bytes - part.n)
		return ERR_LIMIT;
	p = payload_resize(NULL, PARTS_MIN);
	copy = p ? x_strndup(part.n ? part.p : "", part.n) : NULL;
	if (!copy) {
		x_free(p);
		return -ENOMEM;
	}
	p->parts[p->n++] = (struct str){ copy, part.n };
	p->q = q;
	p->bytes = part.n;
	q->n_bytes += part.n;
	e->stats.bytes += part.n;
	*out = p;
	return 0;
}

void
payload_move(struct payload *to, struct payload *from)
{
	wq_assert(to->cap - to->n >= from->n && to->q == from->q);
	memcpy(&to->parts[to->n], from->parts, from->n * sizeof from->parts[0]);
	to->n += from->n;
	to->bytes += from->bytes;
	x_free(from);
}

bool
payload_command_valid(const struct str *parts, size_t n)
{
	return n > 0 && n <= 2 && parts[0].n > 1 && parts[0].n <= COMMAND_MAX && parts[0].p[0] &&
		!parts[0].p[parts[0].n - 1];
}

int
payload_of_parts(struct engine *e, struct queue *q, const struct str *parts, size_t n, bool command,
	struct payload **out)
{
	struct payload *p = NULL, *one = NULL;
	int err;

	*out = NULL;
	for (size_t i = 0; i < n; i++) {
		err = payload_new(e, q, parts[i], &one);
		if (err == 0 && p && payload_grow(&p) < 0) {
			payload_free(e, one);
			err = -ENOMEM;
		}
		if (err < 0) {
			payload_free(e, p);
			return err;
		}
		if (p)
			payload_move(p, one);
		else
			p = one;
	}
	if (p)
		p->command = command;
	*out = p;
	return 0;
}

struct payload *
payload_join(struct engine *e, struct payload *a, struct payload *b)
{
	struct payload *grown;

	if (!a || !b)
		return a ? a : b;
	grown = payload_resize(a, a->n + b->n);
	if (!grown) {
		payload_free(e, a);
		return b;
	}
	payload_move(grown, b);
	return grown;
}

void
payload_free(struct engine *e, struct payload *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n; i++)
		x_free((char *)(uintptr_t)p->parts[i].p);
	p->q->n_bytes -= p->bytes;
	e->stats.bytes -= p->bytes;
	x_free(p);
}
