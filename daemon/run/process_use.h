/* What one process has used: its processor time, its memory. 0 where it is gone. */
#ifndef WQD_RUN_PROCESS_USE_H
#define WQD_RUN_PROCESS_USE_H

#include <stdint.h>
#include <sys/types.h>

/* All its threads; 1 or 2 microseconds to ask. */
int64_t
process_cpu_ns(pid_t pid);
/* Resident bytes. */
uint64_t
process_memory(pid_t pid);

#endif
