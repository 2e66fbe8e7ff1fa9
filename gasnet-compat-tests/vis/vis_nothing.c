// Strided calls that move nothing, with an element size or a count of 0, ignore team, rank,
// addresses and strides: none of them need be valid.
// NP: 1 2
#include "check.h"
#include <gasnet_vis.h>

/* The six forms of a call whose arguments other than `elem`, `count` and `levels` are invalid. */
static void nothing(gex_TM_t team, size_t elem, const size_t *count, size_t levels) {
    const gex_Rank_t rank = GEX_RANK_INVALID;
    OK(gex_VIS_StridedPutBlocking(team, rank, NULL, NULL, NULL, NULL, elem, count, levels, 0));
    OK(gex_VIS_StridedGetBlocking(team, NULL, NULL, rank, NULL, NULL, elem, count, levels, 0));
    CHECK(gex_VIS_StridedPutNB(team, rank, NULL, NULL, NULL, NULL, elem, count, levels, 0) == GEX_EVENT_INVALID);
    CHECK(gex_VIS_StridedGetNB(team, NULL, NULL, rank, NULL, NULL, elem, count, levels, 0) == GEX_EVENT_INVALID);
    OK(gex_VIS_StridedPutNBI(team, rank, NULL, NULL, NULL, NULL, elem, count, levels, 0));
    OK(gex_VIS_StridedGetNBI(team, NULL, NULL, rank, NULL, NULL, elem, count, levels, 0));
}

int main(int argc, char **argv) {
    static const size_t none[3] = {3, 0, 5}, first[1] = {0}, last[9] = {1, 1, 1, 1, 1, 1, 1, 1, 0};
    test_init("vis_nothing", &argc, &argv);
    test_attach(GASNET_PAGESIZE);
    gex_TM_t teams[3] = {GEX_TM_INVALID, tm, gex_TM_Pair(ep, 0)};
    for (int i = 0; i < 3; i++) {
        nothing(teams[i], 0, NULL, 9);
        nothing(teams[i], 8, none, 3);
        nothing(teams[i], 8, first, 1);
        nothing(teams[i], 8, last, 9);
    }
    return test_finish();
}
