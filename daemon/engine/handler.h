/*
 * A handler: a named command that exec queues run, as the configuration gives
 * it. Plain data between the configuration and the runner; the engine knows
 * handlers by name alone.
 */
#ifndef WQD_ENGINE_HANDLER_H
#define WQD_ENGINE_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/settings.h"

/* A named command that exec queues run. */
struct handler {
	char name[HANDLER_NAME_MAX + 1];
	char **command;     /* NULL-terminated; command[0] is searched in PATH of `env` */
	char **env;         /* "NAME=value" added to the run's environment; NULL-terminated */
	char *directory;    /* "/" */
	char *user, *group; /* NULL: the daemon's own */
	mode_t umask;
	int64_t timeout_ns;     /* 0: none */
	int64_t grace_ns;       /* between TERM and KILL */
	size_t output_max;      /* bytes of stdout and stderr kept */
	bool keep_children;     /* what outlives the main process in its group is left alone */
	uint64_t max_memory;    /* RLIMIT_AS, 0: none */
	uint64_t max_files;     /* RLIMIT_NOFILE, 0: default 1024 */
	uint64_t max_processes; /* RLIMIT_NPROC, 0: none */
	int nice;
	/* of all its processes together, where a cgroup is delegated; 0: none */
	uint64_t run_memory;
	uint64_t run_processes;
	/* a worker program: stays, and takes job after job over the socket that is its descriptor 3 */
	bool worker;
	uint32_t workers_max;   /* at once; 0: as many as max_active of the queue allows */
	uint32_t workers_spare; /* idle ones kept */
	int64_t worker_idle_ns; /* one that is idle for so long goes */
	uint64_t worker_jobs;   /* after so many it is replaced; 0: never */
	uint64_t worker_memory; /* the same for bytes in memory */
};

#endif
