// gex_Coll_BroadcastNB: every root, sizes from nothing to 8 MiB, the source ignored elsewhere than
// at the root, in place at the root, several in flight together with barriers, unaligned buffers.
// NP: 1 2 3 4 7
// TIMEOUT: 120
#include "check.h"

#include <gasnet_coll.h>

static void one(gex_Rank_t root, size_t bytes, char *dst, char *src, int in_place) {
    uint64_t seed = bytes * 31 + root;
    memset(dst, 0x11, bytes + 8);
    if (me == root) pattern_fill(in_place ? dst : src, bytes, seed);
    gex_Event_t event = gex_Coll_BroadcastNB(
        tm, root, dst, me == root ? (in_place ? dst : src) : (bytes % 2 ? (char *)NULL : src), bytes, 0);
    CHECK(event != GEX_EVENT_NO_OP);
    gex_Event_Wait(event);
    CHECK_PATTERN(dst, bytes, seed);
    CHECK(dst[bytes] == 0x11);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {0, 1, 3, 8, 13, 64, 100, 511, 1024, 4097, 20000, 65536, 300001};
    test_init("broadcast", &argc, &argv);
    test_attach(65536);
    size_t largest = np > 16 ? 100000 : (size_t)8 << 20;
    char *dst = (char *)malloc(largest + 64);
    char *src = (char *)malloc(largest + 64);
    memset(src, 0x22, largest + 64);
    PHASE("all roots");
    for (gex_Rank_t root = 0; root<np; root += np> 16 ? 37 : 1) {
        for (size_t i = 0; i < ARRAY_LENGTH(sizes) && sizes[i] <= largest; i++) {
            one(root, sizes[i], dst + i % 8, src + i % 3, 0);
            one(root, sizes[i], dst + i % 5, src, 1);
        }
    }
    PHASE("large");
    one(0, largest, dst, src, 0);
    one(np - 1, largest - 1, dst + 1, src + 3, 0);
    PHASE("several in flight");
    for (int k = 0; k < 20; k++) {
        enum { COUNT = 12, BYTES = 3000 };
        gex_Event_t event[COUNT + 1];
        for (int j = 0; j < COUNT; j++) {
            gex_Rank_t r = (gex_Rank_t)((unsigned)(k + j) % np);
            if (me == r) pattern_fill(src + j * BYTES, BYTES, (uint64_t)(k * 100 + j));
            event[j] = gex_Coll_BroadcastNB(tm, r, dst + j * BYTES, src + j * BYTES, BYTES, 0);
        }
        event[COUNT] = gex_Coll_BarrierNB(tm, 0);
        if (k % 2) gex_Event_WaitAll(event, COUNT + 1, 0);
        else
            for (int j = COUNT; j >= 0; j--) gex_Event_Wait(event[j]);
        for (int j = 0; j < COUNT; j++) CHECK_PATTERN(dst + j * BYTES, BYTES, (uint64_t)(k * 100 + j));
    }
    PHASE("in the segment");
    for (gex_Rank_t root = 0; root < np && root < 4; root++) one(root, 30000, (char *)seg_of(me), src, 0);
    free(dst);
    free(src);
    return test_finish();
}
