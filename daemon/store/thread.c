#include "store/thread.h"

#include <signal.h>

#include "base/assert.h"

int
thread_start(pthread_t *t, void *(*run)(void *arg), void *arg, const char *name)
{
	sigset_t all, before;
	int e;

	(void)sigfillset(&all);
	wq_assert(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	e = pthread_create(t, NULL, run, arg);
	wq_assert(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (e)
		return -e;
	(void)pthread_setname_np(*t, name);
	return 0;
}
