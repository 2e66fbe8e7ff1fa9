// A member that has seen a barrier over a team complete destroys the team as quiescent, while
// another member has not looked yet: what the first one gives back, and a new team takes, must not
// be taken from under the other's barrier.
// NP: 2 3 4
#include "check.h"

#include <gasnet_coll.h>
#include <sched.h>

int main(int argc, char **argv) {
    test_init("team_quiesced", &argc, &argv);
    PHASE("teams");
    for (int i = 0; i < 300; i++) {
        gex_TM_t team, next;
        gex_TM_Split(&team, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
        gex_Event_t event = gex_Coll_BarrierNB(team, 0);
        if (me == (gex_Rank_t)i % np) {
            for (int j = 0; j < 5; j++) sched_yield(); /* looks late */
        }
        gex_Event_Wait(event);
        CHECK(gex_TM_Destroy(team, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
        gex_TM_Split(&next, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
        gex_Event_Wait(gex_Coll_BarrierNB(next, 0));
        gex_TM_Destroy(next, NULL, 0);
    }
    return test_finish();
}
