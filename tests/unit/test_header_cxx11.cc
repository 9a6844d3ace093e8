#include "wq_libevent.h"
// the adapter first: it has to bring what it needs
#include <cstdio>

#include "header_use.h"
#include "wq.h"

int
main()
{
	bool ok = use_headers() != 0;

	std::printf("%s 1 - the public headers are C++11\n1..1\n", ok ? "ok" : "not ok");
	return !ok;
}
