// flood_medium with the smallest buffers that can be configured.
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
// TIMEOUT: 120
#include "flood_medium.c"
