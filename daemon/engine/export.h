/* What bringing jobs out and in asks of other files, and they of it. */
#ifndef WQD_ENGINE_EXPORT_H
#define WQD_ENGINE_EXPORT_H

#include "engine/internal.h"

/* dirty.c: the job as it is stored. */
void
job_save(const struct job *j, struct moment now, struct job_saved *s);
/* The same with the run of a job that was deleted meanwhile, which is kept from the store. */
void
job_save_going(const struct job *j, struct moment now, struct job_saved *s);
/* restore.c: its fields as they were stored, but for its deadline and place. */
void
job_load(struct job *j, struct moment now, const struct job_saved *s);
/* look.c */
void
queue_look(const struct engine *e, const struct queue *q, struct queue_view *v);
/* export.c */
void
import_event(struct engine *e, const struct engine_event *ev);

#endif
