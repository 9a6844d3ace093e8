/*
 * The environment of a run: exactly what is documented, nothing of the daemon's
 * own. And where the command may be, by the PATH in it. Pure but for memory.
 */
#ifndef WQD_RUN_ENVIRON_H
#define WQD_RUN_ENVIRON_H

#include "engine/engine.h"
#include "engine/handler.h"
#include "run/identity.h"

#define RUN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What doesn't come from the run or its handler. */
struct run_env_facts {
	const struct identity *who;
	const char *instance; /* WQ_INSTANCE */
	const char *socket;   /* WQ_SERVER; NULL: not set */
};

/*
 * Sets *out to the environment as execve() takes it: one block, the caller's to
 * x_free; the handler's own entries are borrowed from it. They replace ours of
 * the same name, but for WQ_INSTANCE, by which a later daemon finds what was
 * left running. 0 or -ENOMEM.
 */
int
run_env_build(const struct run_env_facts *facts, const struct run_start *start,
	const struct handler *h, char ***out);
/* Borrowed; NULL: not set. */
const char *
run_env_get(char *const *env, const char *name);
/*
 * Sets *out to the files `command` can mean, in the order of `path`
 * (colon-separated; an empty part is the working directory): one block, NULL at
 * the end, the caller's to x_free. A command with a slash is the only one. 0 or
 * -ENOMEM.
 */
int
run_paths_build(const char *command, const char *path, char ***out);

#endif
