// Many more collectives under way than a poll looks at: of several teams, which half of the ranks
// begin with the first and the other half with the last, so that nobody's oldest can end before
// another's youngest have begun to go on. All of them end, in whatever order they are waited for.
// NP: 1 2 3 4
// TIMEOUT: 120
#include "coll.h"

enum { TEAMS = 4, EACH = 50, ROUNDS = 5 };

static uint64_t part(gex_Rank_t rank, int team, int k, int round) {
    return (uint64_t)(rank + 1) * 1000000 + (unsigned)((team * EACH + k) * ROUNDS + round);
}

int main(int argc, char **argv) {
    static uint64_t mine[TEAMS][EACH], all[TEAMS][EACH];
    gex_Event_t events[TEAMS][EACH];
    gex_TM_t teams[TEAMS];
    test_init("under_way", &argc, &argv);
    test_attach(65536);
    for (int t = 0; t < TEAMS; t++) teams[t] = split(tm, 0, (int)me);
    for (int round = 0; round < ROUNDS; round++) {
        PHASE("begin");
        for (int t = 0; t < TEAMS; t++) {
            int own = me % 2 == 0 ? t : TEAMS - 1 - t;
            for (int k = 0; k < EACH; k++) {
                mine[own][k] = part(me, own, k, round);
                all[own][k] = 0;
                /* every third is a barrier: the sums around it are not to change places */
                events[own][k] = k % 3 == 2 ? gex_Coll_BarrierNB(teams[own], 0)
                                            : gex_Coll_ReduceToAllNB(teams[own], &all[own][k], &mine[own][k],
                                                                     GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
            }
        }
        PHASE("end");
        if (round % 2 == 0) {
            gex_Event_WaitAll(&events[0][0], TEAMS * EACH, 0);
        } else {
            /* the youngest of the last team first: its elders end meanwhile, those of other teams
             * whenever they may */
            for (int t = TEAMS - 1; t >= 0; t--)
                for (int k = EACH - 1; k >= 0; k--) gex_Event_Wait(events[t][k]);
        }
        for (int t = 0; t < TEAMS; t++) {
            for (int k = 0; k < EACH; k++) {
                uint64_t expected = 0;
                for (gex_Rank_t r = 0; r < np; r++) expected += k % 3 == 2 ? 0 : part(r, t, k, round);
                CHECKF(all[t][k] == expected, "round %d, team %d, number %d: %llu, not %llu", round, t, k,
                       (unsigned long long)all[t][k], (unsigned long long)expected);
            }
        }
    }
    return test_finish();
}
