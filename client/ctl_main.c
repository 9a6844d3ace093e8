/* From argv to the exit status. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "ctl_out.h"

/*
 * Descriptors 0 to 2 must be taken, or the connection would become stdout. What stands in for a
 * closed one fails as the closed one would: it can't be written (0: can't be read).
 */
static bool
fill_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
			open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

static int
run_verb(struct ctl *c)
{
	if (ctl_given(c, OPT_VERSION)) {
		puts("wqctl " PACKAGE_VERSION);
		return CTL_DONE;
	}
	if (ctl_given(c, OPT_HELP))
		return c->verb ? ctl_help_verb(c->verb) : ctl_help_all();
	return c->verb->run(c);
}

int
ctl_main(int argc, char **argv)
{
	struct ctl c = { .wq = NULL };
	int status;

	if (!fill_descriptors())
		return CTL_FAILED;
	/* A closed pipe is an error to be seen when writing. */
	signal(SIGPIPE, SIG_IGN);
	status = ctl_args_parse(&c, argc, argv);
	if (status == 0)
		status = run_verb(&c);
	ctl_disconnect(&c);
	ctl_args_done(&c);
	return ctl_out_finish(&c, status);
}
