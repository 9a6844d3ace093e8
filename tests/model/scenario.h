/*
 * Scenarios: the time-stamped examples of docs/semantics.md, executed.
 *
 * A fenced block that opens with "```scenario NAME" holds one line a step:
 *
 *     TIME  VERB ARGS...  [= WORD name=value ...]   do this; the answer at once
 *     TIME  VERB ARGS...  as LABEL                  do this; the answer comes later
 *     TIME  > start KEY name=value ...              a run is handed over now
 *     TIME  > reply LABEL WORD name=value ...       the later answer
 *
 * TIME is elapsed from the start ("700ms", "1s"), never falling. The engine is
 * driven on a virtual clock and steps exactly when engine_next_due says. A start
 * or a later answer that no line expects at its time fails the scenario, and so
 * does a line whose effect does not come. docs/semantics.md says what the verbs do.
 */
#ifndef WQD_TESTS_SCENARIO_H
#define WQD_TESTS_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

struct scenario {
	char name[64];
	int line;   /* in the file, of its first step */
	char *text; /* owned */
};

/* Reads the scenarios of a Markdown file; returns how many (owned: scenarios_free). */
size_t
scenarios_load(const char *path, struct scenario **out);
void
scenarios_free(struct scenario *v, size_t n);
/* NULL when it went as written, else what did not (owned by the caller: x_free). `upgrades`: with another
 * program in the daemon's place before each of its steps. */
char *
scenario_run(const struct scenario *sc, bool upgrades);

#endif
