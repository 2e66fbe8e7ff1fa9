// gex_TM_Dup: the same members in the same order, with collectives of its own, of the primordial
// team, a reversed one, and a copy; scratch space in all its forms; dozens at once.
// NP: 1 2 3 4 7
// TIMEOUT: 60
#include "check.h"

#include <gasnet_coll.h>

static void try_copy(gex_TM_t original, gex_TM_t copy) {
    gex_Rank_t size = gex_TM_QuerySize(original);
    uint64_t mine = gex_TM_QueryRank(original) + 1, sum = 0, other = 0;
    gex_Event_t both[2];
    CHECK(copy != original && gex_TM_QuerySize(copy) == size && gex_TM_QueryRank(copy) == gex_TM_QueryRank(original));
    CHECK(gex_TM_QueryEP(copy) == gex_TM_QueryEP(original));
    for (gex_Rank_t r = 0; r < size; r++)
        CHECK(gex_TM_TranslateRankToJobrank(copy, r) == gex_TM_TranslateRankToJobrank(original, r));
    /* Independent order: even ranks call on the copy first. */
    if (me % 2 == 0) {
        both[0] = gex_Coll_ReduceToAllNB(copy, &sum, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_ADD, NULL, NULL, 0);
        both[1] =
            gex_Coll_ReduceToAllNB(original, &other, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_MAX, NULL, NULL, 0);
    } else {
        both[1] =
            gex_Coll_ReduceToAllNB(original, &other, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_MAX, NULL, NULL, 0);
        both[0] = gex_Coll_ReduceToAllNB(copy, &sum, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_ADD, NULL, NULL, 0);
    }
    gex_Event_WaitAll(both, 2, 0);
    CHECK(sum == (uint64_t)size * (size + 1) / 2 && other == size);
}

int main(int argc, char **argv) {
    enum { MANY = 40, SCRATCH = 8192 };
    gex_TM_t copies[MANY], reversed, again;
    gex_Memvec_t lent;
    test_init("team_dup", &argc, &argv);
    test_attach(SCRATCH * (uintptr_t)(MANY + 4));
    PHASE("without scratch space");
    gex_TM_Dup(&again, tm, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    try_copy(tm, again);
    gex_TM_Split(&reversed, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    PHASE("with scratch space");
    size_t wanted =
        gex_TM_Dup(NULL, reversed, NULL, 0, GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(wanted > 0 && wanted <= SCRATCH);
    for (int i = 0; i < MANY; i++) {
        char *scratch = seg_of(me) + (size_t)SCRATCH * (size_t)i;
        gex_TM_Dup(&copies[i], i == 0 ? reversed : copies[i - 1], scratch, wanted, GEX_FLAG_TM_LOCAL_SCRATCH);
        try_copy(reversed, copies[i]);
    }
    for (int i = 0; i < MANY; i++) {
        int given = gex_TM_Destroy(copies[i], &lent, 0);
        CHECK(given == 1 && lent.gex_addr == seg_of(me) + (size_t)SCRATCH * (size_t)i && lent.gex_len == wanted);
    }
    CHECK(gex_TM_Destroy(again, &lent, 0) == 0);
    gex_TM_Destroy(reversed, NULL, 0);
    return test_finish();
}
