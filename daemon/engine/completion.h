/* What the files of the engine ask of completion.c. */
#ifndef WQD_ENGINE_COMPLETION_H
#define WQD_ENGINE_COMPLETION_H

#include "engine/records.h"

void
completion_map_init(struct map *m);
void
completion_event(struct engine *e, const struct engine_event *ev);
/* The waiter leaves without an answer: what it was given goes to the next, or back. */
void
completion_return(struct engine *e, struct waiter *w);
/* Ends the record when it says no more than its absence does. */
void
completion_settle(struct engine *e, struct completion *c);
/* From an exec before: one of level memory; one who waits. 0 or a negative error. */
int
completion_carry(struct engine *e, const struct completion_saved *s);
struct ask;
int
completion_carry_waiter(struct ask *a, struct str name, int64_t timeout_ns);
void
completion_free(struct engine *e, struct completion *c);
/* What is left at the end of the engine. */
void
completions_free(struct engine *e);
void
completion_look(const struct completion *c, struct completion_view *v);
void
completion_verify(const struct engine *e, const struct completion *c);
static inline struct str
completion_name(const struct completion *c)
{
	return (struct str){ c->name, c->name_n };
}

#endif
