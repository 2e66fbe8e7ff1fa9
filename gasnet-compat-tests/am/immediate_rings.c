// The calls of immediate_cells.c, where small messages travel through rings in memory after the
// first 64. Of replies not every kind is refused.
// NP: 2
// CONDUITS: ibv
// TIMEOUT: 120
// ENV: GASNET_AM_CREDITS_PP=8 GASNET_NETWORKDEPTH_PP=4 GASNET_BBUF_COUNT=1
#include "immediate_cells.c"
