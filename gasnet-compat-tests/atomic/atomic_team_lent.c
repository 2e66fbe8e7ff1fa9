// Teams, where the conduit performs atomics itself: lent to one that has none.
// NP: 2 3 4
// SEGMENTS: fast large
// CONDUITS: sock
// TIMEOUT: 120
// ENV: GASNET_FAULTS=atomics=1
#include "atomic_team.c"
