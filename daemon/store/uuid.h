/* A random UUID (version 4) as text: names an instance of the state. Any thread. */
#ifndef WQD_STORE_UUID_H
#define WQD_STORE_UUID_H

#define UUID_TEXT 37 /* with terminator */

void
uuid_make(char dst[UUID_TEXT]);

#endif
