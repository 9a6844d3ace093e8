/*
 * Error numbers. A function that can fail returns 0 or a negative number:
 * `-errno` for failures of the system, one of these (-1000 and below) for our
 * own. One table holds number, name and sentence; err_str() is a switch without
 * a default, so that the compiler names a code that was forgotten.
 */
#ifndef WQD_BASE_ERR_H
#define WQD_BASE_ERR_H

/* clang-format off */
#define ERR_TABLE(X) \
	X(ERR_TOO_LONG,      -1000, "longer than its limit") \
	X(ERR_MALFORMED,     -1001, "malformed") \
	X(ERR_LIMIT,         -1002, "limit reached") \
	X(ERR_UNKNOWN_NAME,  -1003, "unknown name") \
	X(ERR_BAD_VALUE,     -1004, "bad value") \
	X(ERR_OUT_OF_RANGE,  -1005, "out of range") \
	X(ERR_NEWER_SCHEMA,  -1006, "written by a newer version") \
	X(ERR_DAMAGED,       -1007, "damaged") \
	X(ERR_LOCKED,        -1008, "in use by another daemon") \
	X(ERR_STORE,         -1009, "storage error") \
	X(ERR_STALE_TOKEN,   -1010, "ownership was taken over") \
	X(ERR_CONFIG,        -1011, "configuration error") \
	X(ERR_CLOSED,        -1012, "closed") \
	X(ERR_NOT_OURS,      -1013, "not ours to touch") \
	X(ERR_GONE,          -1014, "the state directory was removed or replaced")
/* clang-format on */

enum err {
#define X(name, num, text) name = num,
	ERR_TABLE(X)
#undef X
};

/* The sentence for `err` (ours, or a negative errno). Static storage; any thread. */
const char *
err_str(int err);

#endif
