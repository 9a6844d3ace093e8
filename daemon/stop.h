/*
 * The end of the daemon, as a state machine of its own.
 *
 *   state         what goes on                       left when
 *   DRAINING      newcomers are refused, what is     nothing is ready, held or running in a
 *                 due starts and runs                queue that may start (only with `drain`)
 *   LETTING_END   no new starts; runs may end, and   none runs or is held, or `timeout` less the
 *                 workers what they hold             margin
 *   INTERRUPTING  TERM to what still runs            none runs, or `timeout`
 *   KILLING       KILL                               none runs
 *   COMMITTING    all that changed goes to disk,     committed and sent, or the grace of
 *                 the last replies go out            COMMIT_LIMIT is over
 *   DONE          the loop is told to end
 *
 * A signal meanwhile (stop_hurry) ends DRAINING, and goes from LETTING_END to INTERRUPTING at
 * once. `timeout` counts from LETTING_END; a drain has no limit of its own.
 * Loop thread only.
 */
#ifndef WQD_STOP_H
#define WQD_STOP_H

#include "net/conn.h"
#include "run/runner.h"
#include "service/commit.h"

struct stop;

struct stop_config {
	struct loop *loop; /* pointers are borrowed */
	struct runner *runner;
	struct service *svc;
	struct committer *committer;
	struct conns *conns;
	struct engine *engine;
	bool drain;
	int64_t timeout_ns; /* from the end of starts to the last KILL */
	void *ctx;
	void (*close_listeners)(void *ctx);
};

int
stop_new(const struct stop_config *cfg, struct moment now, struct stop **out);
void
stop_free(struct stop *st);
void
stop_hurry(struct stop *st, struct moment now);
/* At the end of each turn of the loop. */
void
stop_turn(struct stop *st, struct moment now);

#endif
