// Domains with software NIC atomics: the conduit performs the operations.
// NP: 2 3 4
// SEGMENTS: fast large
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic_domain.c"
