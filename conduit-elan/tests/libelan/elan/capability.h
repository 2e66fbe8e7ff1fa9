/* Stand-in for libelan's <elan/capability.h>: see ../README.md. C1 (NE), which includes it by this
 * name. No program shows a declaration of it. */
#ifndef GASNET_STANDIN_ELAN_CAPABILITY_H
#define GASNET_STANDIN_ELAN_CAPABILITY_H

#endif
