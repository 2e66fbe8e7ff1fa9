// As receive_thread, with a neighbour and a rank of another neighbourhood, which both ask the rank
// that computes.
// NP: 3
// MODES: par
// CONDUITS: sock udp ibv gni ofi loop
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=2
// TIMEOUT: 120
#include "receive_thread.c"
