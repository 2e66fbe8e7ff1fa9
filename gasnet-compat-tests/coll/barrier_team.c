// gex_Coll_BarrierNB: nobody leaves before everybody entered, several barriers in flight, uneven
// arrival, completion by every test and wait call; what a rank wrote before is visible behind the
// barrier.
// NP: 1 2 3 4 7 16
// TIMEOUT: 90
#include "check.h"

static gex_AM_Index_t enter_index = 150;
static int entered[1024];

static void on_enter(gex_Token_t token, gex_AM_Arg_t round) { ATOMIC_ADD(&entered[round], 1); }

static void pause_a_little(uint64_t *state) {
    uint64_t n = next_random(state) % 20;
    while (n--) gasnet_AMPoll();
}

/* Rank 0's word counts the arrivals, written by puts that complete before each rank enters. */
static void visibility(void) {
    uint64_t *mine = (uint64_t *)seg_of(me);
    gex_Rank_t right = (me + 1) % np;
    uint64_t *cell = (uint64_t *)(void *)seg_of(right) + me;
    PHASE("visibility");
    for (int i = 1; i <= 100; i++) {
        uint64_t value = (uint64_t)i * 1000 + me;
        OK(gex_RMA_PutBlocking(tm, right, cell, &value, sizeof value, 0));
        barrier();
        CHECK(mine[(me + np - 1) % np] == (uint64_t)i * 1000 + (me + np - 1) % np);
        for (gex_Rank_t r = 0; r < np && i % 25 == 0; r++) {
            uint64_t got = 0;
            OK(gex_RMA_GetBlocking(tm, &got, (r + 1) % np, (uint64_t *)(void *)seg_of((r + 1) % np) + r, sizeof got,
                                   0));
            CHECK(got == (uint64_t)i * 1000 + r);
        }
        barrier();
    }
}

/* Everyone tells everyone that it enters. An acknowledgement is not needed: rank counts are checked
 * against a later barrier. */
static void nobody_leaves_early(void) {
    uint64_t *mine = (uint64_t *)seg_of(me);
    uint64_t state = 99 + me;
    uint64_t one;
    PHASE("nobody leaves early");
    memset(mine, 0, np * sizeof *mine);
    barrier();
    for (int round = 1; round <= 60; round++) {
        pause_a_little(&state);
        one = (uint64_t)round;
        /* my arrival, in everyone's table, complete before I enter */
        for (gex_Rank_t r = 0; r<np; r += np> 16 ? 7 : 1)
            OK(gex_RMA_PutNBI(tm, r, (uint64_t *)(void *)seg_of(r) + me, &one, sizeof one, GEX_EVENT_NOW, 0));
        gex_NBI_Wait(GEX_EC_PUT, 0);
        gex_Event_t event = gex_Coll_BarrierNB(tm, 0);
        CHECK(event != GEX_EVENT_NO_OP);
        switch (round % 4) {
            case 0: gex_Event_Wait(event); break;
            case 1:
                while (gex_Event_Test(event)) gasnet_AMPoll();
                break;
            case 2: gex_Event_WaitAll(&event, 1, 0); break;
            default:
                while (gex_Event_TestSome(&event, 1, 0)) gasnet_AMPoll();
                break;
        }
        if (np <= 16) {
            for (gex_Rank_t r = 0; r < np; r++)
                CHECKF(mine[r] >= (uint64_t)round, "rank %u was at %u in round %d", (unsigned)r, (unsigned)mine[r],
                       round);
        }
        barrier();
    }
}

static void several_in_flight(void) {
    gex_Event_t event[16];
    uint64_t state = 7 + me;
    PHASE("several in flight");
    for (int round = 0; round < 30; round++) {
        int count = 1 + round % 16;
        for (int i = 0; i < count; i++) {
            event[i] = gex_Coll_BarrierNB(tm, 0);
            CHECK(event[i] != GEX_EVENT_NO_OP);
            if (next_random(&state) % 3 == 0) gasnet_AMPoll();
        }
        if (round % 3 == 0) gex_Event_WaitAll(event, (size_t)count, 0);
        else if (round % 3 == 1)
            for (int i = 0; i < count; i++) gex_Event_Wait(event[i]);
        else
            for (int i = count - 1; i >= 0; i--) gex_Event_Wait(event[i]);
    }
}

/* While one rank stays away, the others' barriers stay pending. */
static void pending(void) {
    PHASE("pending");
    for (gex_Rank_t late = 0; late < np && late < 4 && np > 1; late++) {
        barrier();
        if (me != late) {
            gex_Event_t first = gex_Coll_BarrierNB(tm, 0), second = gex_Coll_BarrierNB(tm, 0);
            for (int i = 0; i < 20; i++) {
                CHECK(gex_Event_Test(first) != 0);
                CHECK(gex_Event_Test(second) != 0);
                gasnet_AMPoll();
            }
            gex_AM_RequestShort1(tm, late, enter_index, 0, (gex_AM_Arg_t)late);
            gex_Event_Wait(first);
            gex_Event_Wait(second);
        } else {
            GASNET_BLOCKUNTIL(ATOMIC_GET(&entered[late]) == (int)np - 1);
            gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
            gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        }
    }
    barrier();
}

int main(int argc, char **argv) {
    test_init("barrier_team", &argc, &argv);
    register_handler(enter_index, (gex_AM_Fn_t)on_enter, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    PHASE("before attach");
    for (int i = 0; i < 20; i++) barrier();
    test_attach((uintptr_t)np * sizeof(uint64_t));
    visibility();
    nobody_leaves_early();
    several_in_flight();
    pending();
    PHASE("many");
    for (int i = 0; i < 1000; i++) barrier();
    return test_finish();
}
