// The same on a thread that the client starts. loop wakes only with a thread of its own.
// NP: 2 3
// MODES: par
// CONDUITS: sock udp ibv gni ofi
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=1
// TIMEOUT: 120
#define DEFERRED 1
#include "receive_thread.c"
