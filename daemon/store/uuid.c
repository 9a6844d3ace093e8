#include "store/uuid.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/assert.h"

void
uuid_make(char dst[UUID_TEXT])
{
	uint8_t b[16];
	int n = 0;

	/* Up to 256 bytes are given whole, by every kernel since 3.17. */
	wq_assert(getrandom(b, sizeof b, 0) == (ssize_t)sizeof b);
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof b; i++)
		n += snprintf(dst + n, (size_t)(UUID_TEXT - n), "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}
