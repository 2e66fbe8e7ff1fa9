/* Teams and their collectives for a recording: even and odd ranks in descending order, and all
 * ranks from the last one on. */
#include "../common/check.h"

#include <gasnet_coll.h>

enum { ROUNDS = 10, BYTES = 1000, WORDS = 5 };

static gex_TM_t half, all;

static void make_teams(void) {
    gex_EP_Location_t *members = calloc(np, sizeof *members);
    gex_Rank_t i;
    REQUIRE(members != NULL);
    for (i = 0; i < np; i++) members[i].gex_rank = (i + np - 1) % np;
    gex_TM_Split(&half, tm, (int)me % 2, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Create(&all, 1, tm, members, np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    free(members);
}

static gex_Event_t broadcast(unsigned char *to, unsigned round) {
    static unsigned char from[BYTES];
    memset(from, (int)round, sizeof from);
    return gex_Coll_BroadcastNB(all, round % np, to, from, BYTES, 0);
}

static gex_Event_t sum(uint64_t *to, const uint64_t *from, unsigned round) {
    return gex_Coll_ReduceToOneNB(tm, round % np, to, from, GEX_DT_U64, 8, WORDS, GEX_OP_ADD, NULL, NULL, 0);
}

int main(int argc, char **argv) {
    unsigned char received[BYTES];
    uint64_t terms[WORDS], sums[WORDS];
    int32_t one = 1, count;
    unsigned round, i;
    test_init("teams", &argc, &argv);
    make_teams();
    for (i = 0; i < WORDS; i++) terms[i] = me + i;
    for (round = 0; round < ROUNDS; round++) {
        gex_Event_t events[2];
        gex_Event_Wait(gex_Coll_BarrierNB(half, 0));
        events[0] = broadcast(received, round);
        events[1] = sum(sums, terms, round);
        gex_Event_Wait(events[1]);
        gex_Event_Wait(events[0]);
        CHECKF(received[0] == round && received[BYTES - 1] == round, "%u", (unsigned)received[0]);
        if (me == round % np) CHECKF(sums[4] == np * (np - 1) / 2 + 4 * np, "%u", (unsigned)sums[4]);
        count = 0;
        gex_Event_Wait(gex_Coll_ReduceToAllNB(half, &count, &one, GEX_DT_I32, 4, 1, GEX_OP_ADD, NULL, NULL, 0));
        CHECKF((unsigned)count == gex_TM_QuerySize(half), "%d", (int)count);
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    }
    return test_finish();
}
