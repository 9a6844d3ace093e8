#include "wq_libevent.h"
/* the adapter first: it has to bring what it needs */
#include <stdio.h>

#include "header_use.h"
#include "wq.h"

int
main(void)
{
	int ok = use_headers();

	printf("%s 1 - the public headers are C99\n1..1\n", ok ? "ok" : "not ok");
	return !ok;
}
