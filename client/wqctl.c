/* wqctl: the command line of wqd. All of it is in ctl_*.c. */
#include "ctl.h"

int
main(int argc, char **argv)
{
	return ctl_main(argc, argv);
}
