// gasnet_core_own.h: names of the udp conduit only. Included by gasnet_core_fwd.h.
#ifndef GASNETI_CORE_OWN_UDP
#define GASNETI_CORE_OWN_UDP 1

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
extern void gasnett_setenv(const char *key, const char *value);
#ifdef __cplusplus
}
#endif

// Sets the rank of this process in a job of GASNET_SPAWNFN=C, like the environment variable
// GASNET_WORKER_RANK. Must be called before initialisation; later, and with other spawners, it has
// no effect. For programs that keep the ranks of their MPI processes (the reference's testmpi).
// Returns 0.
static inline int AMUDP_SPMDSetProc(int rank) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    gasnett_setenv("GASNET_WORKER_RANK", text);
    return 0;
}

#endif
