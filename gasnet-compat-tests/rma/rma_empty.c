// Operations of no bytes behave like all others: they complete, write their leaf event, touch no
// memory, and take any address.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    test_init("rma_empty", &argc, &argv);
    test_attach(4096);
    memset(seg_of(me), 77, 8);
    barrier();
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        char *remote = seg_of(peer);
        char local = 55;
        gex_Event_t leaf;
        memset(&leaf, 0x5A, sizeof leaf);
        gex_Event_t event = gex_RMA_PutNB(tm, peer, remote, &local, 0, &leaf, 0);
        CHECK(event != GEX_EVENT_NO_OP && leaf != GEX_EVENT_NO_OP);
        gex_Event_t untouched;
        memset(&untouched, 0x5A, sizeof untouched);
        REQUIRE(memcmp(&untouched, &leaf, sizeof leaf) != 0); /* specification, Extended API, note 2b */
        gex_Event_Wait(leaf);
        gex_Event_Wait(event);
        gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote, NULL, 0, GEX_EVENT_NOW, 0));
        gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote, NULL, 0, GEX_EVENT_DEFER, 0));
        gex_Event_Wait(gex_RMA_GetNB(tm, &local, peer, remote, 0, 0));
        OK(gex_RMA_PutNBI(tm, peer, remote, &local, 0, GEX_EVENT_GROUP, 0));
        OK(gex_RMA_GetNBI(tm, &local, peer, remote, 0, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        gex_NBI_BeginAccessRegion(0);
        OK(gex_RMA_PutNBI(tm, peer, remote, &local, 0, GEX_EVENT_DEFER, 0));
        gex_Event_Wait(gex_NBI_EndAccessRegion(0));
        OK(gex_RMA_PutBlocking(tm, peer, remote, &local, 0, 0));
        OK(gex_RMA_GetBlocking(tm, &local, peer, remote, 0, 0));
        CHECK(local == 55);
    }
    barrier();
    for (int i = 0; i < 8; i++) CHECK(seg_of(me)[i] == 77);
    return test_finish();
}
