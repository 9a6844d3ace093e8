#include "store/payload_bytes.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/err.h"

int
parts_join(struct bytes *b, const struct str *parts, size_t n, bool command)
{
	size_t bytes = VARINT_MAX * (n + 1);
	uint8_t *p;

	for (size_t i = 0; i < n; i++)
		bytes += parts[i].n;
	b->n = 0;
	if (bytes_reserve(b, bytes))
		return -ENOMEM;
	p = varint_put(b->p, n << 1 | command);
	for (size_t i = 0; n > 1 && i < n; i++)
		p = varint_put(p, parts[i].n);
	for (size_t i = 0; i < n; i++) {
		if (parts[i].n > 0)
			memcpy(p, parts[i].p, parts[i].n);
		p += parts[i].n;
	}
	b->n = (size_t)(p - b->p);
	return 0;
}

int
parts_reserve(struct part_list *l, size_t n)
{
	struct str *v;

	if (n <= l->cap)
		return 0;
	v = x_realloc(l->v, n, sizeof *v);
	if (!v)
		return -ENOMEM;
	l->v = v;
	l->cap = n;
	return 0;
}

static int
get_varint(struct str *from, size_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 63 && from->n > 0; shift += 7) {
		uint8_t b = (uint8_t)*from->p++;

		from->n--;
		*v |= (size_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return 0;
	}
	return ERR_DAMAGED;
}

int
parts_split(struct part_list *l, struct str bytes)
{
	size_t n;

	l->n = 0;
	l->command = false;
	if (bytes.n == 0)
		return 0; /* there is none */
	if (get_varint(&bytes, &n))
		return ERR_DAMAGED;
	l->command = n & 1;
	n >>= 1;
	if (n == 0 || (n > 1 && n > bytes.n))
		return ERR_DAMAGED;
	if (parts_reserve(l, n))
		return -ENOMEM;
	l->n = n;
	l->v[0].n = bytes.n;
	for (size_t i = 0; n > 1 && i < n; i++)
		if (get_varint(&bytes, &l->v[i].n))
			return ERR_DAMAGED;
	for (size_t i = 0; i < n; i++) {
		if (l->v[i].n > bytes.n)
			return ERR_DAMAGED;
		l->v[i].p = l->v[i].n ? bytes.p : NULL;
		bytes.p += l->v[i].n;
		bytes.n -= l->v[i].n;
	}
	return bytes.n == 0 ? 0 : ERR_DAMAGED;
}

void
parts_of_job(struct job_saved *j, const struct part_list *own, const struct part_list *run)
{
	j->parts = own->v;
	j->n_parts = own->n;
	j->command = own->command;
	j->run_parts = run->v;
	j->n_run_parts = run->n;
	j->run_command = run->command;
}
