// GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET: addresses that count from the base of the
// bound segment, in every form of put and get, by the primordial team, a reversed one, and between
// further endpoints.
// NP: 1 2 3 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 70000, FROM = 100, TO = 200000, BACK = 400000 };
#define SELF GEX_FLAG_SELF_SEG_OFFSET
#define PEER GEX_FLAG_PEER_SEG_OFFSET

static void *offset(size_t bytes) { return (void *)(uintptr_t)bytes; }

/* Moves a pattern from own FROM to the right's TO, fetches it to own BACK. */
static void everything(gex_TM_t team, char *base) {
    gex_Rank_t rank = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team), right = (rank + 1) % size;
    static const size_t sizes[] = {1, 8, 1000, BYTES};
    unsigned char pair[2] = {77, 78};
    uint16_t both;
    memcpy(&both, pair, 2);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (int form = 0; form < 3; form++) {
            size_t bytes = sizes[i];
            uint64_t seed = bytes * 10 + (uint64_t)form;
            pattern_fill(base + FROM, bytes, seed + rank);
            memset(base + BACK, 0, bytes);
            gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
            if (form == 0) OK(gex_RMA_PutBlocking(team, right, offset(TO), offset(FROM), bytes, SELF | PEER));
            if (form == 1)
                gex_Event_Wait(gex_RMA_PutNB(team, right, offset(TO), base + FROM, bytes, GEX_EVENT_NOW, PEER));
            if (form == 2) {
                OK(gex_RMA_PutNBI(team, right, offset(TO), offset(FROM), bytes, GEX_EVENT_DEFER, SELF | PEER));
                gex_NBI_Wait(GEX_EC_ALL, 0);
            }
            gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
            CHECK_PATTERN(base + TO, bytes, seed + (rank + size - 1) % size);
            if (form == 0) OK(gex_RMA_GetBlocking(team, offset(BACK), right, offset(TO), bytes, SELF | PEER));
            if (form == 1) gex_Event_Wait(gex_RMA_GetNB(team, base + BACK, right, offset(TO), bytes, PEER));
            if (form == 2) {
                OK(gex_RMA_GetNBI(team, offset(BACK), right, offset(TO), bytes, SELF | PEER));
                gex_NBI_Wait(GEX_EC_ALL, 0);
            }
            CHECK_PATTERN(base + BACK, bytes, seed + rank);
        }
    }
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    OK(gex_RMA_PutBlockingVal(team, right, offset(TO), 0xabcd, 2, PEER));
    CHECK(gex_RMA_GetBlockingVal(team, right, offset(TO), 2, PEER) == 0xabcd);
    gex_Event_Wait(gex_RMA_PutNBVal(team, right, offset(TO + 8), 77, 1, PEER | SELF));
    OK(gex_RMA_PutNBIVal(team, right, offset(TO + 9), 78, 1, PEER));
    gex_NBI_Wait(GEX_EC_ALL, 0);
    CHECK(gex_RMA_GetBlockingVal(team, right, offset(TO + 8), 2, PEER) == both);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}

int main(int argc, char **argv) {
    gex_TM_t reversed, ones;
    gex_EP_t other;
    gex_Segment_t more;
    gex_EP_Location_t members[512];
    test_init("rma_offsets", &argc, &argv);
    test_attach(500000);
    PHASE("primordial team");
    everything(tm, (char *)gex_Segment_QueryAddr(segment));
    PHASE("reversed team");
    gex_TM_Split(&reversed, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    everything(reversed, (char *)gex_Segment_QueryAddr(segment));
    PHASE("further endpoints");
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_Segment_Create(&more, client, NULL, 500000, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(other, more, 0));
    OK(gex_EP_PublishBoundSegment(tm, &other, 1, 0));
    for (gex_Rank_t r = 0; r < np; r++) {
        members[r].gex_rank = r;
        members[r].gex_ep_index = 1;
    }
    gex_TM_Create(&ones, 1, tm, members, np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    everything(ones, (char *)gex_Segment_QueryAddr(more));
    gex_TM_Destroy(ones, NULL, 0);
    gex_TM_Destroy(reversed, NULL, 0);
    return test_finish();
}
