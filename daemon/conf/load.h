/* Reading a configuration file into a config that holds the defaults. */
#ifndef WQD_CONF_LOAD_H
#define WQD_CONF_LOAD_H

#include <stddef.h>

#include "conf/conf.h"

/* 0, or an error with one line in `why`; *c is then half filled and only good for freeing. */
int
config_read(const char *path, struct config *c, char *why, size_t size);
/* What could have been meant by `name`, unknown in section `scope` ("": top level): a sentence
 * in `dst`, which is returned. */
const char *
option_hint(const char *scope, const char *name, char *dst, size_t size);

/* What would be right where the parser says `message`. Static. */
const char *
syntax_hint(const char *message);

#endif
