/* Threads of the store. */
#ifndef WQD_STORE_THREAD_H
#define WQD_STORE_THREAD_H

#include <pthread.h>

/* Born with every signal blocked: they are the loop's. `name`: at most 15 bytes. 0 or -errno. */
int
thread_start(pthread_t *t, void *(*run)(void *arg), void *arg, const char *name);

#endif
