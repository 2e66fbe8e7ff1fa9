// As receive_thread, with all ranks in one neighbourhood: the receive thread serves neighbours.
// NP: 2 3
// MODES: par
// CONDUITS: sock udp ibv gni ofi loop
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=0
// TIMEOUT: 120
#include "receive_thread.c"
