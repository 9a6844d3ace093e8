#include "store/store_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

static const char *
next_step(int code)
{
	switch (code) {
	case ERR_DAMAGED:
		return "see wqd --check-state; restore a backup, or move the file (and its -wal) "
		       "away to start empty";
	case ERR_NEWER_SCHEMA:
		return "install the newer wqd, or restore a backup made by this version";
	case ERR_NOT_OURS:
		return "point state_dir at a directory of wqd's own";
	case ERR_LOCKED:
		return "stop the other process, or give this daemon a state_dir of its own";
	case ERR_STALE_TOKEN:
		return "stop this daemon: another owns the state now";
	case -EACCES:
	case -EPERM:
		return "give wqd's user read and write access to it";
	case -EROFS:
		return "mount it for writing, or point state_dir elsewhere";
	case -ENOSPC:
	case -EDQUOT:
		return "make room on this file system";
	case -ENOENT:
	case -ENOTDIR:
		return "create the directory, or correct state_dir";
	case -ENOMEM:
		return "give wqd more memory";
	default:
		return "look at the system's log for errors of this disk";
	}
}

int
store_fail(struct store_error *err, int code, const char *path, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	(void)snprintf(err->path, sizeof err->path, "%s", path);
	va_start(ap, fmt);
	(void)vsnprintf(err->detail, sizeof err->detail, fmt, ap);
	va_end(ap);
	(void)snprintf(err->next, sizeof err->next, "%s", next_step(code));
	return code;
}
