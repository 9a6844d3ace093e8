/* The library's hand-written reader of replies against protobuf-c: client_hot_check.h. */
#include "fuzz/client_hot_check.h"
#include "fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_client_reply(data, size);
	return 0;
}
