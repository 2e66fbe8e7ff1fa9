// Domains over a team of endpoints that are not the primordial ones: their segments are the
// client's memory, which no other process maps.
// NP: 1 2 3 4
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { EACH = 60, BYTES = 1000, SHIFT = 13 };

static _Alignas(64) char memory[64 + BYTES];

int main(int argc, char **argv) {
    gex_EP_t own;
    gex_Segment_t bound;
    gex_EP_Location_t members[64];
    gex_TM_t team;
    gex_AD_t ad;
    gex_Rank_t r;
    uint64_t old = 0, wide[2] = {7, 7};
    test_init("atomic_endpoint", &argc, &argv);
    REQUIRE(np <= ARRAY_LENGTH(members));
    test_attach(4096);
    OK(gex_EP_Create(&own, client, GEX_EP_CAPABILITY_ALL, GEX_FLAG_HINT_ACCEL_AD));
    // The segment starts at an odd address; the targets in it are aligned.
    OK(gex_Segment_Create(&bound, client, memory + SHIFT, BYTES, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(own, bound, 0));
    OK(gex_EP_PublishBoundSegment(tm, &own, 1, 0));
    for (r = 0; r < np; r++) {
        members[r].gex_rank = np - 1 - r;
        members[r].gex_ep_index = gex_EP_QueryIndex(own);
    }
    gex_TM_Create(&team, 1, tm, members, np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    for (int round = 0; round < 3; round++) {
        static const gex_Flags_t favours[] = {0, GEX_FLAG_AD_FAVOR_REMOTE, GEX_FLAG_AD_FAVOR_MY_NBRHD};
        PHASE("everybody on everybody");
        memset(memory, 0, sizeof memory);
        gex_AD_Create(&ad, team, GEX_DT_U64, OPS_INTEGER, favours[round]);
        barrier();
        for (gex_Rank_t hop = 0; hop < np; hop++) {
            void *base = NULL;
            r = (me + hop) % np;
            gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, r, &base, NULL, NULL, 0));
            char *place = (char *)base - SHIFT + 64;
            for (int i = 0; i < EACH; i++) {
                OK(gex_AD_OpNBI_U64(ad, NULL, r, place, GEX_OP_ADD, 2, 0, 0));
                blocking_U64(ad, &old, r, (void *)(uintptr_t)(64 - SHIFT), GEX_OP_FINC, 0, 0, GEX_FLAG_PEER_SEG_OFFSET,
                             i % 2);
                CHECK(old < 3 * EACH * np);
            }
            // The result lands in the own segment, which is named by its offset.
            blocking_U64(ad, (uint64_t *)(uintptr_t)(128 - SHIFT), r, place, GEX_OP_GET, 0, 0, GEX_FLAG_SELF_SEG_OFFSET,
                         hop % 2);
            CHECK(*(uint64_t *)(void *)(memory + 128) >= 1 && *(uint64_t *)(void *)(memory + 128) <= 3 * EACH * np);
        }
        gex_NBI_Wait(GEX_EC_ALL, 0);
        barrier();
        r = gex_TM_QueryRank(team);
        CHECK(r == np - 1 - me);
        blocking_U64(ad, wide, r, memory + 64, GEX_OP_GET, 0, 0, GEX_FLAG_AD_MY_RANK, 0);
        CHECKF(wide[0] == 3 * EACH * np && wide[1] == 7, "%llu", (unsigned long long)wide[0]);
        barrier();
        gex_AD_Destroy(ad);
    }
    OK(gex_TM_Destroy(team, NULL, 0));
    return test_finish();
}
