/* The generated messages. Their initialisers cast const away, wherever they are used. */
#ifndef WQ_CLIENT_PB_H
#define WQ_CLIENT_PB_H

#pragma GCC diagnostic ignored "-Wcast-qual"
#include "wq.pb-c.h"

#endif
