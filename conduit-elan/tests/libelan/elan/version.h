/* Stand-in for libelan's <elan/version.h>: see ../README.md. */
#ifndef GASNET_STANDIN_ELAN_VERSION_H
#define GASNET_STANDIN_ELAN_VERSION_H

/* C2 (GE, CM) */
#define QSNETLIBS_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))

/* The names: C2 (GE, LA). The values are those of the build under test. */
#ifdef GASNET_ELAN_STANDIN_VERSION
#define QSNETLIBS_VERSION_CODE GASNET_ELAN_STANDIN_VERSION
#else
#define QSNETLIBS_VERSION_CODE QSNETLIBS_VERSION(1, 8, 14)
#endif
#define QSNETLIBS_VERSION_STRING "1.8.14"

/* C1 (AR), which includes no other header for it; GE finds it in <elan/misc.h> of old versions. */
#define ELAN_VERSION QSNETLIBS_VERSION_STRING

#endif
