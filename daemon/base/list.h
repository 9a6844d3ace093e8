/*
 * Intrusive doubly linked list with a sentinel head (the kernel's list_head in
 * a few lines). A node that is on no list points at itself, so list_del is
 * idempotent and list_linked tells. Not thread safe.
 */
#ifndef WQD_BASE_LIST_H
#define WQD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"

struct list {
	struct list *next, *prev;
};

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *l)
{
	return l->next == l;
}

static inline bool
list_linked(const struct list *n)
{
	return n->next != n;
}

static inline void
list_insert_(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

static inline void
list_append(struct list *head, struct list *n)
{
	list_insert_(n, head->prev, head);
}

static inline void
list_prepend(struct list *head, struct list *n)
{
	list_insert_(n, head, head->next);
}

static inline void
list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Moves all of `from` to the tail of `to`; `from` is empty afterwards. */
static inline void
list_splice(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_first(head, type, member) \
	(list_empty(head) ? NULL : list_entry((head)->next, type, member))

/* `pos` must not be removed inside; list_each_safe allows it. */
#define list_each(pos, head, type, member) \
	for (type *pos = list_entry((head)->next, type, member); &pos->member != (head); \
		pos = list_entry(pos->member.next, type, member))
#define list_each_safe(pos, head, type, member) \
	for (type *pos = list_entry((head)->next, type, member), \
		  *pos##_next = list_entry(pos->member.next, type, member); \
		&pos->member != (head); \
		pos = pos##_next, pos##_next = list_entry(pos##_next->member.next, type, member))

#endif
