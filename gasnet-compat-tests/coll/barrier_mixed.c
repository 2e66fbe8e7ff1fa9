// A named barrier and up to 100 barriers of the primordial team are in flight at the same time, and
// ranks enter them in different orders. None ends before all ranks have entered it, and the names
// count whatever else is in flight. Beside them barriers of another team. The debug flavour refuses
// what the specification does not allow and the reference accepts.
// NP: 1 2 4 7
// FLAVOURS: release
// TIMEOUT: 120
#include "check.h"

enum { ROUNDS = 120, MOST = 100 };
/* By barrier of the team: ranks that have entered it. Here and below counted on rank 0. */
static int team_entered[ROUNDS * MOST];
static int named_entered[ROUNDS];
static gex_AM_Index_t entered_index = 150, counted_index = 151;
static int counted, expected;

static void on_entered(gex_Token_t token, gex_AM_Arg_t named, gex_AM_Arg_t number) {
    ATOMIC_ADD(named ? &named_entered[number] : &team_entered[number], 1);
    gex_AM_ReplyShort0(token, counted_index, 0);
}
static void on_counted(gex_Token_t token) { ATOMIC_ADD(&counted, 1); }

/* Counts the entry of this rank on rank 0, before the entry itself. */
static void count(int named, int number) {
    gex_AM_RequestShort2(tm, 0, entered_index, 0, named, number);
    expected++;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&counted) == expected);
}

static int team_next;

static gex_Event_t enter_team(void) {
    count(0, team_next++);
    return gex_Coll_BarrierNB(tm, 0);
}

/* Rank 0 sees that all have entered. */
static void check_all(const int *entered) {
    if (me == 0) CHECKF(ATOMIC_GET(entered) == (int)np, "%d of %d ranks have entered", ATOMIC_GET(entered), (int)np);
}

/* The name of a rank in a round: the same, none, or with some mismatch. */
static int mismatched(int round) { return round % 5 == 3 && np > 1; }

static void enter_named(int round) {
    int anonymous = round % 5 == 1 || (round % 5 == 2 && me % 2);
    count(1, round);
    gasnet_barrier_notify(mismatched(round) && me == np - 1 ? -1 : round, anonymous ? GASNET_BARRIERFLAG_ANONYMOUS : 0);
}

static void leave_named(int round) {
    int anonymous = round % 5 == 1 || (round % 5 == 2 && me % 2);
    int id = mismatched(round) && me == np - 1 ? -1 : round;
    int result = gasnet_barrier_wait(id, anonymous ? GASNET_BARRIERFLAG_ANONYMOUS : 0);
    CHECKF(result == (mismatched(round) ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK), "round %d: %d", round, result);
    check_all(&named_entered[round]);
}

int main(int argc, char **argv) {
    static gex_Event_t events[MOST];
    gex_TM_t odd_even;
    test_init("barrier_mixed", &argc, &argv);
    register_handler(entered_index, (gex_AM_Fn_t)on_entered, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2);
    register_handler(counted_index, (gex_AM_Fn_t)on_counted, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    test_attach((uintptr_t)1 << 20);
    REQUIRE(gex_TM_Split(&odd_even, tm, (int)(me % 2), (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH) == 0);
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        int named_first = (round + (int)me) % 2, count_of_team = round % 20 == 7 ? MOST : 1 + round % 4;
        int first_of_team = team_next;
        PHASE("in flight at once");
        if (named_first) enter_named(round);
        for (int i = 0; i < count_of_team; i++) events[i] = enter_team();
        if (!named_first) enter_named(round);
        if (round % 3 == 0) gex_Event_Wait(gex_Coll_BarrierNB(odd_even, 0));
        if (round % 2) leave_named(round);
        PHASE("the barriers of the team");
        for (int i = count_of_team - 1; i >= 0; i--) {
            gex_Event_Wait(events[i]);
            check_all(&team_entered[first_of_team + i]);
        }
        if (round % 2 == 0) leave_named(round);
    }
    return test_finish();
}
