/* Processes and their groups, as far as the kernel lets one ask about them. */
#ifndef WQD_RUN_GROUP_H
#define WQD_RUN_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether our child has ended, reaped or not. What is to happen to its group must happen before it
 * is reaped: the zombie holds the group's number, so that nobody else can have it. */
bool
process_exited(int pidfd);

/*
 * Both ask about a group whose number has not been given to others, which holds
 * while a run lingers: looked at often enough, it can't have come round.
 */

/* Whether the group has a member, zombies included. */
bool
group_exists(pid_t group);
/*
 * Whether a process of the group still runs. Zombies don't count: who has to
 * reap them (init, or nobody in a container without one) may take its time. True
 * when in doubt. Looks at every process of the machine, which takes as long as
 * there are many.
 */
bool
group_alive(pid_t group);

/* Calls `each` for every process there is, until it returns false. 0 or -errno. */
int
each_process(bool (*each)(void *arg, pid_t pid), void *arg);

#endif
