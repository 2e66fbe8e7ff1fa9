// Segments of together three quarters of the machine's memory, touched here and there by every
// rank. By default ibv promises two thirds.
// NP: 1 2 4
// SEGMENTS: fast large
// MODES: par
// TIMEOUT: 120
// ENV: GASNET_PHYSMEM_MAX=0.9
#include "stress.h"

enum { TOUCHES = 257 };

/* The machine's memory, or what is free of it when other programs hold much: the library promises
 * no more than that. */
static uint64_t memory_bytes(void) {
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long available = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &available) == 1) break;
    if (file) fclose(file);
    return available > 0 && available * 1024 < total / 10 * 9 ? available * 1024 : total;
}

int main(int argc, char **argv) {
    test_init("segment_most", &argc, &argv);
    share_setup();
    uint64_t memory = memory_bytes();
    memory = *SHARED(uint64_t, share(&memory, sizeof memory), 0); /* one number for all */
    uintptr_t want = (uintptr_t)(memory / 4 * 3 / np) / GASNET_PAGESIZE * GASNET_PAGESIZE;
    uintptr_t most = gasnet_getMaxLocalSegmentSize();
#ifndef GASNET_CONDUIT_ELAN /* an Elan3 has less room */
    CHECKF(most >= want, "segments of at most %zu bytes are promised; three quarters of the memory are %zu per rank",
           (size_t)most, (size_t)want);
#endif
    if (want > most) want = most;
    test_attach(want);
    CHECK(gex_Segment_QuerySize(segment) == want);
    barrier();
    PHASE("sparse puts");
    for (gex_Rank_t r = 0; r < np; r++) {
        char *base = seg_of(r);
        for (size_t i = 0; i < TOUCHES; i++) {
            uint64_t value = stress_word(r * 1000 + me, i);
            gex_RMA_PutNBI(tm, r, base + (want - 8 * np) / (TOUCHES - 1) / 8 * 8 * i + 8 * me, &value, 8, GEX_EVENT_NOW,
                           0);
        }
    }
    gex_NBI_Wait(GEX_EC_PUT, 0);
    barrier();
    PHASE("sparse loads");
    for (gex_Rank_t r = 0; r < np; r++) {
        char *base = (char *)gex_Segment_QueryAddr(segment);
        for (size_t i = 0; i < TOUCHES; i++) {
            uint64_t found;
            memcpy(&found, base + (want - 8 * np) / (TOUCHES - 1) / 8 * 8 * i + 8 * r, 8);
            CHECKF(found == stress_word(me * 1000 + r, i), "word %zu of rank %u is wrong", i, (unsigned)r);
        }
    }
    barrier();
    return test_finish();
}
