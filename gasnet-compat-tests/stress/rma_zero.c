// Transfers of 0 bytes: complete, touch nothing, and set the local-completion event like any other.
// NP: 1 2 4
#include "stress.h"

int main(int argc, char **argv) {
    uint64_t before = 0x1122334455667788;
    gex_Event_t local;
    int poison;
    test_init("rma_zero", &argc, &argv);
    test_attach(65536);
    *(uint64_t *)seg_of(me) = before;
    barrier();
    for (gex_Rank_t r = 0; r < np; r++) {
        uint64_t *target = (uint64_t *)(void *)seg_of(r);
        local = (gex_Event_t)(void *)&poison; /* must be overwritten */
        gex_Event_t root = gex_RMA_PutNB(tm, r, target, &poison, 0, &local, 0);
        CHECK(local != (gex_Event_t)(void *)&poison);
        if (local != (gex_Event_t)(void *)&poison) gex_Event_Wait(local);
        gex_Event_Wait(root);
        gex_Event_Wait(gex_RMA_PutNB(tm, r, target, &poison, 0, GEX_EVENT_NOW, 0));
        gex_Event_Wait(gex_RMA_PutNB(tm, r, target, NULL, 0, GEX_EVENT_DEFER, 0));
        gex_Event_Wait(gex_RMA_GetNB(tm, &before, r, target, 0, 0));
        CHECK(gex_RMA_PutNBI(tm, r, target, &poison, 0, GEX_EVENT_GROUP, 0) == 0);
        CHECK(gex_RMA_GetNBI(tm, &before, r, target, 0, 0) == 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        CHECK(gex_RMA_PutBlocking(tm, r, target, &poison, 0, 0) == 0);
        CHECK(gex_RMA_GetBlocking(tm, &before, r, target, 0, 0) == 0);
        CHECK(before == 0x1122334455667788);
    }
    barrier();
    CHECK(*(uint64_t *)seg_of(me) == 0x1122334455667788);
    return test_finish();
}
