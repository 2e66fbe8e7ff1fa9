// gasnet_core_own.h: names that programs use over udp only. Included by gasnet_core_fwd.h.
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

// The rank that this process is to have in a job of GASNET_SPAWNFN=C: as the variable GASNET_WORKER_RANK, before initialisation. No effect afterwards, and
// with other spawners. For programs that want the numbers of their MPI processes (the reference's testmpi). Returns 0.
static inline int AMUDP_SPMDSetProc(int rank) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    gasnett_setenv("GASNET_WORKER_RANK", text);
    return 0;
}

#endif
