/* Stand-in for <elan4/library.h>, which shows that libelan is of Elan4: see ../README.md. The shim
 * calls nothing that it declares. */
#ifndef GASNET_STANDIN_ELAN4_LIBRARY_H
#define GASNET_STANDIN_ELAN4_LIBRARY_H

/* C2 (GE, OP) */
typedef struct standin_elan4_ctx ELAN4_CTX;

#endif
