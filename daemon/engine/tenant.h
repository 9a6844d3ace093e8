/* What the files of the engine ask of tenant.c. */
#ifndef WQD_ENGINE_TENANT_H
#define WQD_ENGINE_TENANT_H

#include "engine/records.h"

void
tenant_map_init(struct map *m);
/* Whose the key is: what stands before the first separator, else all of it. */
struct str
tenant_of_key(const struct queue_settings *s, struct str key);
/* Is a ready job kept back because its tenant has as many runs as it may? */
bool
tenant_full(const struct engine *e, const struct job *j);
/* Off the queue's ready list, until a run of its tenant ends. */
void
tenant_wait(struct engine *e, struct job *j);
/* It is ready no more, or is looked at again: off the tenant's list. */
void
tenant_unwait(struct engine *e, struct job *j);
/* The job was ready and does not start, or not now: another of its tenant may. */
void
tenant_pass(struct engine *e, const struct job *j);
/* The run counts from now on, if its queue has such a limit. 0 or -ENOMEM. */
int
tenant_run_started(struct engine *e, struct run *run);
/* It counts no more, if it did: one that waited for that is ready like all others. */
void
tenant_run_over(struct engine *e, struct run *run);
/* The limit, or (`renamed`) what a tenant is, has changed. */
void
tenants_changed(struct engine *e, struct queue *q, bool renamed);
/* Looks again at tenants of queues whose limit has changed. */
void
tenants_some(struct engine *e, uint32_t most);
/* Forgets them all. */
void
tenants_free(struct engine *e);
void
tenants_verify(const struct engine *e);

#endif
