// More teams than there are collective buffers: with one, with and without staging, without any,
// and with one that another team freed. All compute the same results, and destroyed teams leave no
// buffer in use.
// ENV: GASNET_PSHM_COLL_TEAMS=9
// NP: 1 2 3 4
// TIMEOUT: 90
#include "coll.h"

enum { COUNT = 24, WORDS = 3000 };

static uint64_t src[WORDS], dst[WORDS];

/* Computes in a team, with data that fit an inline slot and in chunks. */
static void use(gex_TM_t team, uint64_t salt) {
    gex_Rank_t rank = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team);
    size_t lengths[] = {1, 14, 15, WORDS};
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        size_t n = lengths[i];
        gex_Rank_t root = (gex_Rank_t)((salt + i) % size);
        for (size_t j = 0; j < n; j++) src[j] = rank * salt + j;
        gex_Event_Wait(gex_Coll_ReduceToAllNB(team, dst, src, GEX_DT_U64, 8, n, GEX_OP_ADD, NULL, NULL, 0));
        for (size_t j = 0; j < n; j++) CHECK(dst[j] == salt * size * (size - 1) / 2 + j * size);
        gex_Event_Wait(gex_Coll_BroadcastNB(team, root, dst, src, n * 8, 0));
        for (size_t j = 0; j < n; j++) CHECK(dst[j] == root * salt + j);
        gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, dst, src, GEX_DT_U64, 8, n, GEX_OP_MAX, NULL, NULL, 0));
        for (size_t j = 0; rank == root && j < n; j++) CHECK(dst[j] == (size - 1) * salt + j);
        meet(team);
    }
}

int main(int argc, char **argv) {
    gex_TM_t teams[COUNT];
    uint64_t state = 42;
    int i;
    test_init("exhaust", &argc, &argv);
    PHASE("come and stay");
    for (i = 0; i < COUNT; i++) {
        teams[i] = split(tm, i % 3 == 2 ? (int)(me % 2) : 0, i % 2 ? (int)me : -(int)me);
        use(teams[i], (uint64_t)i + 1);
    }
    PHASE("all at once");
    for (int round = 0; round < 3; round++) {
        gex_Event_t event[COUNT];
        uint64_t in[COUNT], out[COUNT];
        for (i = 0; i < COUNT; i++) {
            in[i] = (uint64_t)(i + round);
            event[i] = gex_Coll_ReduceToAllNB(teams[i], &out[i], &in[i], GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
        }
        gex_Event_WaitAll(event, COUNT, 0);
        for (i = 0; i < COUNT; i++) CHECK(out[i] == (uint64_t)(i + round) * gex_TM_QuerySize(teams[i]));
    }
    PHASE("come and go");
    for (int round = 0; round < 60; round++) {
        i = (int)(next_random(&state) % COUNT);
        gex_TM_Destroy(teams[i], NULL, 0);
        /* processes may have different numbers of buffers left: odd ranks keep more teams of their
         * own */
        teams[i] = split(tm, round % 3 == 2 ? (int)(me % 2) : 0, round % 2 ? (int)me : -(int)me);
        use(teams[i], (uint64_t)round + 100);
        use(teams[(i + 7) % COUNT], (uint64_t)round + 200);
    }
    PHASE("only some");
    for (int round = 0; round < 10; round++) {
        gex_TM_t own = split(tm, me % 2 ? 0 : -1, 0); /* takes a lane in some processes only */
        gex_TM_t all = split(tm, 0, 0);
        use(all, (uint64_t)round + 300);
        if (own != GEX_TM_INVALID) {
            use(own, (uint64_t)round + 400);
            gex_TM_Destroy(own, NULL, 0);
        }
        gex_TM_Destroy(all, NULL, 0);
    }
    for (i = 0; i < COUNT; i++) gex_TM_Destroy(teams[i], NULL, 0);
    return test_finish();
}
