/*
 * Rules for the texts of options: addresses, arguments, environment entries, and
 * users and groups, for which the system's database is asked.
 */
#ifndef WQD_CONF_CHECK_H
#define WQD_CONF_CHECK_H

#include <stdbool.h>

#include "base/str.h"

/* The form of "unix:/PATH" (at most 107 bytes), "tcp://HOST:PORT", "tls://HOST:PORT", IPv6 in
 * brackets. */
bool
check_address(struct str v);
/* A tcp address with a literal host that is not the loopback's. */
bool
check_address_is_remote(struct str v);
bool
check_address_is_tls(struct str v);
/* NAME=value, NAME of letters, digits and _, none of ours (WQ_...). */
bool
check_env(struct str v);
/* An argument of a command: no longer than the kernel takes. */
bool
check_argument(struct str v);
bool
check_user_exists(struct str v);
bool
check_group_exists(struct str v);

#endif
