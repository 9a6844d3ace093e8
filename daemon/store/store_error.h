/*
 * How the store's implementations fill a struct store_error: the caller says
 * what was seen and where, the next step follows from the code, so that every
 * refusal of one kind gives the operator the same advice.
 */
#ifndef WQD_STORE_STORE_ERROR_H
#define WQD_STORE_STORE_ERROR_H

#include "store/store.h"

/* Fills `err` (which may be NULL) and returns `code`. `fmt` makes the detail. */
int
store_fail(struct store_error *err, int code, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
