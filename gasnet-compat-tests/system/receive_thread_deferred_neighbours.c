// As receive_thread_neighbours, with a thread that the client starts.
// NP: 2
// MODES: par
// CONDUITS: sock udp ibv gni ofi loop
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=0
// TIMEOUT: 120
#define DEFERRED 1
#include "receive_thread.c"
