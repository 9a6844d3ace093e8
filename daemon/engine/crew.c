#include "engine/crew.h"

#include <stdbool.h>

/* Of the processors, above which another worker would only take turns with the others. */
#define BUSY 0.85

static bool
processors_have_room(const struct crew_state *s)
{
	if (s->alive == 0 || s->alive + s->others < s->processors)
		return true;
	return s->used >= 0 && s->used < BUSY * s->processors;
}

enum crew_step
crew_decide(const struct crew_state *s)
{
	bool wanted = s->idle < s->spare || (s->ready > 0 && s->idle == 0);
	bool capped = s->cap > 0 && s->alive > 0 && s->alive + s->others >= s->cap;

	/* One at a time: what it takes off the others is seen first. */
	if (wanted && s->coming == 0 && s->alive < s->most && !capped && processors_have_room(s))
		return CREW_HIRE;
	if (s->idle > s->spare && s->ready == 0 && s->coldest_ns >= s->idle_timeout_ns)
		return CREW_RETIRE;
	return CREW_STAY;
}
