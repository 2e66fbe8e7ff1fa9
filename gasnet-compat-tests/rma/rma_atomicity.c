// An aligned transfer of 1, 2, 4 or 8 bytes is one access: a reader sees the old or the new value,
// never a mixture; a flag that a put writes ends a wait.
// NP: 1 2 4 7
// TIMEOUT: 90
#include "check.h"

enum { ROUNDS = 1500, CELL = 64 };

/* The neighbour on the left writes all zeros or all ones; the owner looks at its own memory
 * meanwhile. */
static void no_tearing(size_t bytes, int form) {
    gex_Rank_t peer = (me + 1) % np;
    char *remote = seg_of(peer), *local = seg_of(me);
    volatile uint64_t *stop = (volatile uint64_t *)(void *)(local + CELL);
    memset(local, 0, 2 * CELL);
    barrier();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t value = (i & 1) ? 0 : ~UINT64_C(0), seen = 0, fetched = 0,
                 mask = bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1;
        if (form == 0) OK(gex_RMA_PutBlocking(tm, peer, remote, &value, bytes, 0));
        else if (form == 1) OK(gex_RMA_PutBlockingVal(tm, peer, remote, (gex_RMA_Value_t)value, bytes, 0));
        else gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote, &value, bytes, GEX_EVENT_NOW, 0));
        switch (bytes) {
            case 1: seen = *(volatile uint8_t *)local; break;
            case 2: seen = *(volatile uint16_t *)(void *)local; break;
            case 4: seen = *(volatile uint32_t *)(void *)local; break;
            default: seen = *(volatile uint64_t *)(void *)local; break;
        }
        CHECKF(!word_is_whole(bytes) || seen == 0 || seen == mask, "%zu bytes: %llx", bytes, (unsigned long long)seen);
        /* a get of the cell that the peer's other neighbour does not write: the own write must come
         * back whole */
        OK(gex_RMA_GetBlocking(tm, &fetched, peer, remote, bytes, 0));
        CHECKF(fetched == (value & mask), "%zu bytes: got %llx", bytes, (unsigned long long)fetched);
    }
    OK(gex_RMA_PutBlockingVal(tm, peer, remote + CELL, 1, 8, 0));
    GASNET_BLOCKUNTIL(*stop == 1);
    barrier();
}

/* Data first, then a flag: whoever sees the flag sees the data, since the put of the data was
 * complete. */
static void flag_waiting(size_t bytes) {
    gex_Rank_t peer = (me + 1) % np;
    char *remote = seg_of(peer), *local = seg_of(me);
    volatile char *flag = (volatile char *)(local + 4096);
    char data[256];
    memset(local, 0, 8192);
    barrier();
    for (int i = 1; i <= 100; i++) {
        pattern_fill(data, sizeof data, (uint64_t)i + me);
        OK(gex_RMA_PutBlocking(tm, peer, remote + (i % 2) * 1024, data, sizeof data, 0));
        OK(gex_RMA_PutBlockingVal(tm, peer, remote + 4096, (gex_RMA_Value_t)i, bytes, 0));
        GASNET_BLOCKUNTIL(*flag >= i);
        int seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE); /* the left neighbour is at most one round ahead */
        if (seen == i) CHECK_PATTERN(local + (i % 2) * 1024, sizeof data, (uint64_t)i + (me + np - 1) % np);
        barrier();
    }
}

int main(int argc, char **argv) {
    test_init("rma_atomicity", &argc, &argv);
    test_attach(16384);
    for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
        PHASE("no mixture");
        for (int form = 0; form < 3; form++) no_tearing(bytes, form);
        PHASE("flag");
        flag_waiting(bytes);
    }
    return test_finish();
}
