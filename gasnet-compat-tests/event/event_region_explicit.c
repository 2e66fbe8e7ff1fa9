// Explicit and blocking operations inside an access region: they are begun and waited for there
// without touching the region (GASNet 1.8, "Implicit access region synchronization", whose example
// waits for an explicit get inside).
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 20000 };

int main(int argc, char **argv) {
    test_init("event_region_explicit", &argc, &argv);
    test_attach(8 * BYTES);
    char *source = (char *)malloc(4 * BYTES);
    char *back = (char *)malloc(4 * BYTES);
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        char *remote = seg_of(peer);
        barrier();
        for (int round = 0; round < 10; round++) {
            for (int i = 0; i < 4; i++) pattern_fill(source + i * BYTES, BYTES, (uint64_t)(round * 4 + i));
            gex_NBI_BeginAccessRegion(0);
            OK(gex_RMA_PutNBI(tm, peer, remote, source, BYTES, GEX_EVENT_DEFER, 0));
            gex_Event_t inner = gex_RMA_PutNB(tm, peer, remote + BYTES, source + BYTES, BYTES, GEX_EVENT_DEFER, 0);
            gex_Event_Wait(inner);
            OK(gex_RMA_PutBlocking(tm, peer, remote + 2 * BYTES, source + 2 * BYTES, BYTES, 0));
            inner = gex_RMA_GetNB(tm, back + BYTES, peer, remote + BYTES, BYTES, 0);
            while (gex_Event_Test(inner)) gasnet_AMPoll();
            CHECK_PATTERN(back + BYTES, BYTES, (uint64_t)(round * 4 + 1));
            OK(gex_RMA_GetBlocking(tm, back + 2 * BYTES, peer, remote + 2 * BYTES, BYTES, 0));
            CHECK_PATTERN(back + 2 * BYTES, BYTES, (uint64_t)(round * 4 + 2));
            OK(gex_RMA_PutNBI(tm, peer, remote + 3 * BYTES, source + 3 * BYTES, BYTES, GEX_EVENT_DEFER, 0));
            gex_Event_t event = gex_NBI_EndAccessRegion(0);
            gex_Event_Wait(event);
            OK(gex_RMA_GetBlocking(tm, back, peer, remote, 4 * BYTES, 0));
            for (int i = 0; i < 4; i++) CHECK_PATTERN(back + i * BYTES, BYTES, (uint64_t)(round * 4 + i));
        }
        barrier();
    }
    return test_finish();
}
