// Arguments at the edge that the reference accepts: empty lists, null tables of no entries, a
// segment size that is not a multiple of the page, an empty access region. Refused handler tables
// have the reference's error code.
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_vis.h>

static void never(gex_Token_t token) {}

static void handlers(void) {
    gex_AM_Entry_t entries[2];
    memset(entries, 0, sizeof entries);
    entries[0].gex_index = entries[1].gex_index = 200;
    entries[0].gex_fnptr = entries[1].gex_fnptr = (gex_AM_Fn_t)never;
    entries[0].gex_flags = entries[1].gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP;
    OK(gex_EP_RegisterHandlers(ep, NULL, 0));
    OK(gex_EP_RegisterHandlers(ep, entries, 0));
    OK(gex_EP_RegisterHandlers(ep, entries, 1));
    CHECK(gex_EP_RegisterHandlers(ep, entries, 1) == GASNET_ERR_RESOURCE); /* index taken */
    entries[0].gex_index = 127;
    CHECK(gex_EP_RegisterHandlers(ep, entries, 1) == GASNET_ERR_RESOURCE); /* index not the client's */
    entries[0].gex_index = 0;
    OK(gex_EP_RegisterHandlers(ep, entries, 1));
    CHECK(entries[0].gex_index == 255);
}

static void nothing(gex_Rank_t peer) {
    gex_Memvec_t empty = {NULL, 0};
    gex_Event_t event = (gex_Event_t)&empty;
    OK(gasnet_getSegmentInfo(NULL, 0));
    OK(gasnet_getNodeInfo(NULL, 0));
    OK(gex_EP_PublishBoundSegment(tm, NULL, 0, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, NULL, NULL, NULL, 0));
    OK(gex_RMA_PutBlocking(tm, peer, NULL, NULL, 0, 0));
    OK(gex_RMA_GetBlocking(tm, NULL, peer, NULL, 0, 0));
    gex_Event_Wait(gex_RMA_PutNB(tm, peer, NULL, NULL, 0, &event, 0)); /* root first: its leaf is over with it */
    OK(gex_VIS_VectorPutBlocking(tm, peer, 0, NULL, 0, NULL, 0));
    OK(gex_VIS_VectorGetBlocking(tm, 1, &empty, peer, 1, &empty, 0));
    OK(gex_VIS_IndexedPutBlocking(tm, peer, 0, NULL, 8, 0, NULL, 8, 0));
    OK(gex_VIS_StridedPutBlocking(tm, peer, NULL, NULL, NULL, NULL, 0, NULL, 0, 0));
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, NULL, NULL, 0, 0));
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, NULL, NULL, GEX_DT_I32, 4, 0, GEX_OP_ADD, NULL, NULL, 0));
    gex_NBI_Wait(0, 0);
    gex_NBI_BeginAccessRegion(0);
    gex_Event_Wait(gex_NBI_EndAccessRegion(0));
}

static void teams(void) {
    gex_TM_t one = GEX_TM_INVALID;
    int in = 3, out = 0;
    gex_TM_Split(NULL, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Create(NULL, 0, tm, NULL, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Split(&one, tm, (int)me, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    REQUIRE(one != GEX_TM_INVALID && gex_TM_QuerySize(one) == 1);
    gex_Event_Wait(gex_Coll_BarrierNB(one, 0));
    gex_Event_Wait(gex_Coll_ReduceToAllNB(one, &out, &in, GEX_DT_I32, 4, 1, GEX_OP_ADD, NULL, NULL, 0));
    CHECK(out == 3);
    CHECK(!gex_TM_Destroy(one, NULL, 0));
}

int main(int argc, char **argv) {
    test_name = "edges";
    test_init("edges", &argc, &argv);
    gex_System_SetVerboseErrors(0);
    gex_Rank_t peer = (me + 1) % np;
    handlers();
    nothing(peer);
    teams();
    PHASE("attach");
#ifndef GASNET_SEGMENT_EVERYTHING
    OK(gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE + 1)); /* rounded as the reference does */
    CHECK(gex_Segment_QuerySize(segment) >= GASNET_PAGESIZE + 1);
#endif
    nothing(peer);
    return test_finish();
}
