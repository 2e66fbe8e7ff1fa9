// Teams of more members than look at each other: barriers hold everybody, and reductions to all
// have everybody's part, several of them at a time, of the whole job and of its parts.
// NP: 5 18
// TIMEOUT: 120
#include "coll.h"

enum { ROUNDS = 60, FLIGHT = 6, WORDS = 20 };

static uint64_t part(gex_Rank_t rank, int round, size_t word) {
    return (uint64_t)(rank + 1) * (unsigned)(round + 1) + word;
}

/* Each member writes the round's number into its own segment, and after the barrier nobody sees
 * another member behind. */
static void barriers(gex_TM_t team, size_t at) {
    gex_Rank_t members = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
    uint64_t *own = (uint64_t *)(void *)(seg_of(me) + at);
    *own = 0;
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        *(volatile uint64_t *)own = (uint64_t)round;
        gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
        for (gex_Rank_t step = 1; step < members; step += 3) {
            gex_Rank_t other = gex_TM_TranslateRankToJobrank(team, (rank + step) % members);
            uint64_t seen = (uint64_t)gex_RMA_GetBlockingVal(tm, other, seg_of(other) + at, 8, 0);
            CHECKF(seen == (uint64_t)round || seen == (uint64_t)round + 1, "%llu of rank %u in round %d",
                   (unsigned long long)seen, other, round);
        }
        gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    }
}

/* Sums of some words, up to FLIGHT under way. */
static void sums(gex_TM_t team, size_t words) {
    gex_Rank_t members = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
    static uint64_t mine[FLIGHT][WORDS], all[FLIGHT][WORDS];
    gex_Event_t events[FLIGHT];
    for (int round = 0; round < ROUNDS; round += FLIGHT) {
        for (int k = 0; k < FLIGHT; k++) {
            for (size_t w = 0; w < words; w++) mine[k][w] = part(rank, round + k, w);
            memset(all[k], 0, sizeof all[k]);
            events[k] = gex_Coll_ReduceToAllNB(team, all[k], mine[k], GEX_DT_U64, 8, words, GEX_OP_ADD, NULL, NULL, 0);
        }
        for (int k = FLIGHT - 1; k >= 0; k--) {
            gex_Event_Wait(events[k]);
            for (size_t w = 0; w < words; w++) {
                uint64_t expected = 0;
                for (gex_Rank_t r = 0; r < members; r++) expected += part(r, round + k, w);
                CHECKF(all[k][w] == expected, "round %d, word %zu: %llu, not %llu", round + k, w,
                       (unsigned long long)all[k][w], (unsigned long long)expected);
            }
        }
    }
}

static void all_of(gex_TM_t team, size_t at) {
    static const size_t counts[] = {1, 12, 13, WORDS};
    barriers(team, at);
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) sums(team, counts[i]);
}

int main(int argc, char **argv) {
    test_init("many", &argc, &argv);
    test_attach(4096);
    PHASE("the whole job");
    all_of(tm, 0);
    PHASE("halves");
    gex_TM_t half = split(tm, (int)(me % 2), (int)me);
    all_of(half, 64);
    PHASE("all but the first");
    gex_TM_t most = split(tm, me > 0, (int)(np - me));
    all_of(most, 128);
    return test_finish();
}
