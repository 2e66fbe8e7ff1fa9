// The same at a limited rate and load, with a stack of another size.
// NP: 2
// MODES: par
// CONDUITS: sock udp ibv gni ofi loop
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=1
// ENV: GASNET_RCV_THREAD_RATE=500 GASNET_RCV_THREAD_LOAD=0.2 GASNET_RCV_THREAD_IDLE=100000
// ENV: GASNET_THREAD_STACK_MIN=1M
// TIMEOUT: 120
#include "receive_thread.c"
