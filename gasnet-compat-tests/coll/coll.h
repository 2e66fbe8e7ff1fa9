/* Helpers of the collective tests. */
#ifndef COMPAT_TESTS_COLL_H
#define COMPAT_TESTS_COLL_H

#include "check.h"

#include <gasnet_coll.h>

/* A team of the members that pass the same color; GEX_TM_INVALID for color -1. No scratch space. */
TEST_UNUSED static gex_TM_t split(gex_TM_t parent, int color, int key) {
    gex_TM_t team = GEX_TM_INVALID;
    gex_TM_Split(color < 0 ? NULL : &team, parent, color < 0 ? 0 : color, key, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    return team;
}

/* A barrier of any team. */
TEST_UNUSED static void meet(gex_TM_t team) { gex_Event_Wait(gex_Coll_BarrierNB(team, 0)); }

#endif
