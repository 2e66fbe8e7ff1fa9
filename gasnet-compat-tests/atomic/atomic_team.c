// Domains over teams that are not the whole job, with ranks in another order; the same memory by
// several teams, one after the other.
// NP: 1 2 3 4 7
// SEGMENTS: fast large
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { EACH = 40 };

static void over(gex_TM_t team, const char *what) {
    const gex_Rank_t size = gex_TM_QuerySize(team), mine = gex_TM_QueryRank(team);
    gex_AD_t ad;
    uint64_t value = 0, visits = 0;
    PHASE(what);
    memset(seg_of(me), 0, 64 + 8 * np);
    barrier();
    gex_AD_Create(&ad, team, GEX_DT_U64, OPS_INTEGER, 0);
    CHECK(gex_AD_QueryTM(ad) == team);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    for (gex_Rank_t hop = 0; hop < size; hop++) {
        const gex_Rank_t peer = (mine + hop) % size, job = gex_TM_TranslateRankToJobrank(team, peer);
        gex_Flags_t near = job == me ? GEX_FLAG_AD_MY_RANK : is_neighbour(job) ? GEX_FLAG_AD_MY_NBRHD : 0;
        char *base = seg_of(job);
        for (int i = 0; i < EACH; i++)
            OK(gex_AD_OpNBI_U64(ad, NULL, peer, base, GEX_OP_ADD, mine + 1, 0, i % 2 ? near : 0));
        blocking_U64(ad, &value, job, base + 64 + 8 * mine, GEX_OP_SWAP, mine + 1, 0, GEX_FLAG_RANK_IS_JOBRANK, 1);
        CHECK(value == 0);
        blocking_U64(ad, &value, peer, (void *)(uintptr_t)(64 + 8 * mine), GEX_OP_FADD, peer, 0,
                     GEX_FLAG_PEER_SEG_OFFSET, 0);
        CHECK(value == mine + 1);
    }
    gex_NBI_Wait(GEX_EC_ALL, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    blocking_U64(ad, &value, mine, seg_of(me), GEX_OP_GET, 0, 0, 0, 0);
    for (gex_Rank_t r = 0; r < size; r++) visits += r + 1;
    CHECKF(value == EACH * visits, "%llu", (unsigned long long)value);
    for (gex_Rank_t r = 0; r < size; r++) {
        blocking_U64(ad, &value, mine, seg_of(me) + 64 + 8 * r, GEX_OP_GET, 0, 0, 0, 0);
        CHECK(value == r + 1 + mine);
    }
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gex_AD_Destroy(ad);
    barrier();
}

static void split(int color, int key, const char *what) {
    gex_TM_t team = GEX_TM_INVALID;
    gex_TM_Split(&team, tm, color, key, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    over(team, what);
    OK(gex_TM_Destroy(team, NULL, 0));
}

int main(int argc, char **argv) {
    gex_RankInfo_t *info;
    gex_Rank_t count;
    test_init("atomic_team", &argc, &argv);
    test_attach(64 + 8 * np);
    gex_System_QueryNbrhdInfo(&info, &count, NULL);
    over(tm, "all");
    split(0, -(int)me, "all, backwards");
    split((int)me % 2, (int)me, "odd and even");
    split((int)info[0].gex_jobrank, -(int)me, "neighbourhoods");
    split((int)me, 0, "each alone");
    return test_finish();
}
