// 65,535 operations in flight: explicit puts with their events in one array, implicit puts;
// thousands of gets and of operations in an access region.
// NP: 1 2 4
// TIMEOUT: 120
#include "check.h"

enum { COUNT = 65535, FEWER = 8191 };
static gex_Event_t event[COUNT];
static uint32_t source[COUNT], back[COUNT];

int main(int argc, char **argv) {
    test_init("rma_many", &argc, &argv);
    test_attach(COUNT * sizeof(uint32_t));
    for (gex_Rank_t hop = 0; hop < np && hop < 2; hop++) {
        gex_Rank_t peer = (me + 1 - hop + np) % np;
        uint32_t *remote = (uint32_t *)(void *)seg_of(peer);
        barrier();
        PHASE("explicit puts");
        for (int i = 0; i < COUNT; i++) {
            source[i] = (uint32_t)i * 2654435761U + hop;
            event[i] = gex_RMA_PutNB(tm, peer, remote + i, source + i, sizeof *source, GEX_EVENT_DEFER, 0);
        }
        gex_Event_WaitAll(event, COUNT, 0);
        for (int i = 0; i < COUNT; i++) CHECK(event[i] == GEX_EVENT_INVALID);
        PHASE("explicit gets");
        for (int i = 0; i < FEWER; i++) event[i] = gex_RMA_GetNB(tm, back + i, peer, remote + i, sizeof *back, 0);
        for (int i = FEWER - 1; i >= 0; i--) gex_Event_Wait(event[i]);
        OK(gex_RMA_GetBlocking(tm, back + FEWER, peer, remote + FEWER, (COUNT - FEWER) * sizeof *back, 0));
        for (int i = 0; i < COUNT; i++) CHECKF(back[i] == source[i], "element %d", i);
        PHASE("implicit");
        for (int i = 0; i < COUNT; i++)
            OK(gex_RMA_PutNBIVal(tm, peer, remote + i, (gex_RMA_Value_t)(i ^ 0x5555), sizeof *back, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        for (int i = 0; i < FEWER; i++) OK(gex_RMA_GetNBI(tm, back + i, peer, remote + i, sizeof *back, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        OK(gex_RMA_GetBlocking(tm, back + FEWER, peer, remote + FEWER, (COUNT - FEWER) * sizeof *back, 0));
        for (int i = 0; i < COUNT; i++) CHECKF(back[i] == (uint32_t)(i ^ 0x5555), "element %d", i);
        PHASE("access region");
        gex_NBI_BeginAccessRegion(0);
        for (int i = 0; i < FEWER; i++)
            OK(gex_RMA_PutNBI(tm, peer, remote + i, source + i, sizeof *back, GEX_EVENT_DEFER, 0));
        OK(gex_RMA_PutNBI(tm, peer, remote + FEWER, source + FEWER, (COUNT - FEWER) * sizeof *back, GEX_EVENT_DEFER,
                          0));
        gex_Event_Wait(gex_NBI_EndAccessRegion(0));
        OK(gex_RMA_GetBlocking(tm, back, peer, remote, sizeof back, 0));
        CHECK(memcmp(back, source, sizeof back) == 0);
        barrier();
    }
    return test_finish();
}
