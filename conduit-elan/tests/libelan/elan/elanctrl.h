/* Stand-in for libelan's <elan/elanctrl.h>: see ../README.md. C1 (NE), which includes it by this
 * name. No program shows a declaration of it. */
#ifndef GASNET_STANDIN_ELAN_ELANCTRL_H
#define GASNET_STANDIN_ELAN_ELANCTRL_H

#endif
