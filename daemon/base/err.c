#include "base/err.h"

#include <string.h>

static const char *
own_str(enum err err)
{
	switch (err) {
#define X(name, num, text) \
	case name: \
		return text;
		ERR_TABLE(X)
#undef X
	}
	return "unknown error";
}

const char *
err_str(int err)
{
	const char *s;

	if (err <= -1000)
		return own_str((enum err)err);
	s = strerrordesc_np(-err);
	return s ? s : "unknown error";
}
