// Collectives of a team other than the primordial one, beside a named barrier: begun before it,
// inside it, and synchronised after it. The specification allows them in every flavour ("Coll":
// the restriction is for collectives over the primordial team).
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

#include <gasnet_coll.h>

enum { ROUNDS = 20 };

int main(int argc, char **argv) {
    gex_TM_t all, half;
    test_init("barrier_beside", &argc, &argv);
    test_attach(4096);
    gex_TM_Split(&all, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Split(&half, tm, (int)(me % 2), 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    PHASE("named barriers with collectives of other teams");
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t source = me + (uint64_t)round, sum = 0, root = 0, expected = 0;
        gex_Event_t events[3];
        for (gex_Rank_t r = me % 2; r < np; r += 2) expected += r + (uint64_t)round;
        events[0] = gex_Coll_BarrierNB(all, 0);
        gasnet_barrier_notify(round, 0);
        events[1] = gex_Coll_ReduceToAllNB(half, &sum, &source, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
        if (round % 2) gex_Event_Wait(gex_Coll_BroadcastNB(all, 0, &root, &source, sizeof root, 0));
        CHECK(gasnet_barrier_wait(round, 0) == GASNET_OK);
        events[2] = gex_Coll_BarrierNB(tm, 0);
        gex_Event_WaitAll(events, 3, 0);
        CHECKF(sum == expected, "%llu", (unsigned long long)sum);
        if (round % 2) CHECK(root == np - 1 + (uint64_t)round);
    }
    gex_TM_Destroy(half, NULL, 0);
    gex_TM_Destroy(all, NULL, 0);
    barrier();
    return test_finish();
}
