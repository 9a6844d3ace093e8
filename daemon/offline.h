/*
 * What wqd does with a state directory whose daemon does not run: look, and give
 * out what is in it. Nothing is changed.
 */
#ifndef WQD_OFFLINE_H
#define WQD_OFFLINE_H

#include <stdbool.h>

#include "daemon.h"

/* Reads everything and says on stdout how much there is, or what is wrong and what to do; the exit
 * status is that of a start. */
int
offline_check(const struct daemon_options *opt, bool json);
/* Queues, completions and jobs as lines of JSON to stdout; the exit status. */
int
offline_export(const struct daemon_options *opt);

#endif
