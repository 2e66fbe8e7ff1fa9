// Client, endpoint, team and segment objects: what creation returns, every query, flags, names,
// client data.
// NP: 1 2 4 7
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

static int cdata_of[4];

static void check_client(void) {
    PHASE("client");
    CHECK(client != GEX_CLIENT_INVALID);
    CHECKF(strcmp(gex_Client_QueryName(client), "CONFORMANCE") == 0, "name is %s", gex_Client_QueryName(client));
    CHECK(gex_Client_QueryFlags(client) == 0);
}

static void check_endpoint(void) {
    PHASE("endpoint");
    CHECK(ep != GEX_EP_INVALID);
    CHECK(gex_EP_QueryClient(ep) == client);
    CHECK(gex_EP_QueryFlags(ep) == 0);
    CHECK(gex_EP_QueryIndex(ep) == 0);
}

static void check_team(void) {
    PHASE("team");
    CHECK(tm != GEX_TM_INVALID);
    CHECK(gex_TM_QueryClient(tm) == client);
    CHECK(gex_TM_QueryEP(tm) == ep);
    CHECK(gex_TM_QueryFlags(tm) == 0);
    CHECK(gex_TM_QueryRank(tm) == gex_System_QueryJobRank());
    CHECK(gex_TM_QuerySize(tm) == gex_System_QueryJobSize());
    CHECK(np > 0 && me < np && np < GEX_RANK_INVALID);
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_EP_Location_t where = gex_TM_TranslateRankToEP(tm, r, 0);
        CHECK(gex_TM_TranslateRankToJobrank(tm, r) == r);
        CHECK(gex_TM_TranslateJobrankToRank(tm, r) == r);
        CHECK(where.gex_rank == r && where.gex_ep_index == 0);
    }
}

static void check_segment(uintptr_t size) {
    PHASE("segment");
    CHECK(segment != GEX_SEGMENT_INVALID);
    CHECK(gex_EP_QuerySegment(ep) == segment);
    CHECK(gex_Segment_QueryClient(segment) == client);
    CHECK(gex_Segment_QueryFlags(segment) == 0);
    CHECK(gex_Segment_QueryAddr(segment) != NULL);
    CHECK((uintptr_t)gex_Segment_QueryAddr(segment) % GASNET_PAGESIZE == 0);
    CHECK(gex_Segment_QuerySize(segment) == size);
}

/* One pointer for each object, NULL at first, kept apart from the others. */
static void check_cdata(void) {
    PHASE("client data");
    CHECK(gex_Client_QueryCData(client) == NULL);
    CHECK(gex_EP_QueryCData(ep) == NULL);
    CHECK(gex_TM_QueryCData(tm) == NULL);
    CHECK(gex_Segment_QueryCData(segment) == NULL);
    for (int round = 0; round < 2; round++) {
        gex_Client_SetCData(client, &cdata_of[(0 + round) % 4]);
        gex_EP_SetCData(ep, &cdata_of[(1 + round) % 4]);
        gex_TM_SetCData(tm, &cdata_of[(2 + round) % 4]);
        gex_Segment_SetCData(segment, &cdata_of[(3 + round) % 4]);
        CHECK(gex_Client_QueryCData(client) == &cdata_of[(0 + round) % 4]);
        CHECK(gex_EP_QueryCData(ep) == &cdata_of[(1 + round) % 4]);
        CHECK(gex_TM_QueryCData(tm) == &cdata_of[(2 + round) % 4]);
        CHECK(gex_Segment_QueryCData(segment) == &cdata_of[(3 + round) % 4]);
    }
    gex_Client_SetCData(client, NULL);
    gex_EP_SetCData(ep, NULL);
    gex_TM_SetCData(tm, NULL);
    gex_Segment_SetCData(segment, NULL);
    CHECK(gex_Client_QueryCData(client) == NULL);
    CHECK(gex_EP_QueryCData(ep) == NULL);
    CHECK(gex_TM_QueryCData(tm) == NULL);
    CHECK(gex_Segment_QueryCData(segment) == NULL);
}

int main(int argc, char **argv) {
    uintptr_t size = 16 * (uintptr_t)GASNET_PAGESIZE;
    test_init("objects", &argc, &argv);
    check_client();
    check_endpoint();
    check_team();
#ifndef GASNET_SEGMENT_EVERYTHING
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    test_attach(size);
    check_segment(size);
    check_client();
    check_endpoint();
    check_team();
    check_cdata();
#else
    (void)size;
#endif
    return test_finish();
}
