#include "service/tickets.h"

#include "base/alloc.h"
#include "base/assert.h"

#define PAGE 1024u /* slots of a page */

void
tickets_init(struct tickets *ts)
{
	*ts = (struct tickets){ 0 };
	list_init(&ts->free);
}

void
tickets_done(struct tickets *ts)
{
	wq_assert(ts->in_use == 0);
	for (uint32_t i = 0; i < ts->n_pages; i++)
		x_free(ts->pages[i]);
	x_free(ts->pages);
	tickets_init(ts);
}

static bool
page_add(struct tickets *ts)
{
	struct ticket **pages, *page;

	if (ts->n_pages == UINT32_MAX / PAGE)
		return false;
	pages = x_realloc(ts->pages, ts->n_pages + 1, sizeof(struct ticket *));
	if (!pages)
		return false;
	ts->pages = pages;
	page = x_zalloc(PAGE * sizeof *page);
	if (!page)
		return false;
	for (uint32_t i = 0; i < PAGE; i++) {
		page[i].index = ts->n_pages * PAGE + i;
		list_append(&ts->free, &page[i].link);
	}
	ts->pages[ts->n_pages++] = page;
	return true;
}

struct ticket *
ticket_take(struct tickets *ts)
{
	struct ticket *t;

	if (list_empty(&ts->free) && !page_add(ts))
		return NULL;
	t = list_entry(ts->free.next, struct ticket, link);
	list_del(&t->link);
	if (++t->generation == 0)
		t->generation = 1;
	ts->in_use++;
	return t;
}

/* So many slots at most: more were never in flight. */
#define INDEX_MAX (1u << 26)

struct ticket *
ticket_take_this(struct tickets *ts, uint64_t number)
{
	uint32_t index = (uint32_t)number, generation = (uint32_t)(number >> 32);
	struct ticket *t;

	if (index >= INDEX_MAX || generation == 0)
		return NULL;
	while (index / PAGE >= ts->n_pages)
		if (!page_add(ts))
			return NULL;
	t = &ts->pages[index / PAGE][index % PAGE];
	if (t->s)
		return NULL;
	list_del(&t->link);
	t->generation = generation;
	ts->in_use++;
	return t;
}

void
ticket_give(struct tickets *ts, struct ticket *t)
{
	wq_assert(t->s);
	list_del(&t->link);
	t->s = NULL;
	list_prepend(&ts->free, &t->link);
	ts->in_use--;
}

struct ticket *
ticket_find(const struct tickets *ts, uint64_t number)
{
	uint32_t index = (uint32_t)number;
	struct ticket *t;

	if (index / PAGE >= ts->n_pages)
		return NULL;
	t = &ts->pages[index / PAGE][index % PAGE];
	return t->s && t->generation == number >> 32 ? t : NULL;
}
